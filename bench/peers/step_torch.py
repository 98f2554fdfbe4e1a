"""The training step of `hdse bench step` in PyTorch, from a file of `--dump`: one run.

Forms of one model, equal in result. `released` does what released code does: pairs of nodes are a
list like edges, spread over padded squares; distances of every padded pair go through tables and
maps; layers pad anew and use PyTorch's and PyG's layers. `table` is what one would write for
speed: the bias of every distinct tuple of distances once, looked up by pairs, projections before
padding, indices computed once for a batch, the fused optimiser. `compiled` is that through
torch.compile. The models are in step_gps.py, step_sat.py and step_grit.py.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from typing import Any

import torch
import torch._inductor.config
from torch import nn
from torch.nn import functional as F

import step_gps
import step_grit
import step_sat
import torch_run
from step_parts import Dump

FORMS = ("released", "table", "distinct", "compiled")
BACKBONES = {"gps": step_gps, "sat": step_sat, "grit": step_grit}


def rate(config: dict[str, Any], step: int) -> float:
    """The learning rate of a step of the first epoch, in which all batches of the file are."""
    schedule, warmup = config["schedule"], config["schedule"]["warmup"]
    if schedule["name"] == "cosine":
        return schedule["rate"] * (1e-6 if warmup else 1.0)
    if schedule["name"] == "inverse-square-root":
        start = schedule.get("start", 1e-6)
        if step < warmup:
            return start + (schedule["rate"] - start) * step / warmup
        return schedule["rate"] * (max(warmup, 1) / max(step, 1)) ** 0.5
    sys.exit(f"no peer has the schedule {schedule['name']}")


def run(options: argparse.Namespace) -> dict[str, Any]:
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    dump = Dump(options.dump)
    if (name := dump.config["model"]["backbone"]) not in BACKBONES:
        sys.exit(f"no peer has the backbone {name}")
    backbone = BACKBONES[name]
    dump.require(backbone.KNOWN)
    settings = dump.config["train"]
    collate = backbone.Collate(dump, options.form)
    model = backbone.Model(dump.config["model"], options.form, collate.book)
    torch_run.load(model, dump.group("param."), own=model.own)
    model = model.train().to(options.dtype)
    optimizer = torch.optim.AdamW(
        model.parameters(),
        betas=settings["optimizer"]["betas"],
        eps=settings["optimizer"]["epsilon"],
        weight_decay=settings["optimizer"]["weight_decay"],
        **({} if options.form == "released" else {"fused": True}),
    )
    loss_of = {"l1": F.l1_loss, "binary-cross-entropy": F.binary_cross_entropy_with_logits}
    loss_of = loss_of[settings["loss"]]
    forward = model
    if options.form == "compiled":
        # Faster here than the random numbers that compiled code makes itself.
        torch._inductor.config.fallback_random = True
        forward = torch.compile(model, dynamic=True)

    def step(number: int) -> float:
        batch = collate(number)
        real = [name for name in ("pe", "walks", "y") if name in batch]
        batch |= {name: batch[name].to(options.dtype) for name in real}
        for group in optimizer.param_groups:
            group["lr"] = rate(settings, number)
        optimizer.zero_grad()
        loss = loss_of(forward(batch), batch["y"])
        loss.backward()
        if "clip_norm" in settings:
            nn.utils.clip_grad_norm_(model.parameters(), settings["clip_norm"])
        optimizer.step()
        return loss.item()

    return torch_run.timed(step, options.warmup, options.steps)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    print(json.dumps(run(torch_run.parser(__doc__, FORMS).parse_args())))
