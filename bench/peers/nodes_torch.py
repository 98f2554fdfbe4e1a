"""Epochs of GOAT + HDSE in PyTorch, from a file of `hdse bench step --dump`: one run.

Four forms of one model, equal in result. `released` does what the released code for graphs of
medium size does: a distance for every node and cluster, each through a table and a map; means of
clusters by a dense matrix. `lean` has the bias once for each distance, looked up by pairs of
clusters, and means by index. `tuned` does the same operations as fast as PyTorch can without
kernels of one's own: sparse products wherever there are zeros, attention in pieces that stay in
the cache, with its derivative written out. `least` also leaves out what changes nothing: linear
maps that follow each other become one, and states that the loss does not see are not computed.
"""

from __future__ import annotations

import json
import statistics
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from nodes_model import Graph, Lean, Released
from nodes_tuned import Least, Tuned
from torch import Tensor
from torch.nn import functional as F

import torch_run

MODELS = {"released": Released, "lean": Lean, "tuned": Tuned, "least": Least}
# What the model below can be; `None` stands for a default that is not written.
PLAIN_BRANCH = {"norm": "none", "stem": False, "mix": "sum"}
KNOWN = {
    "backbone": ["goat"],
    "local": ["gcn", "none"],
    "bias": ["mlp", "scalar"],
    "levels": [1],
    "unreachable": ["clip"],
    "branch": [None, *({"layers": count, **PLAIN_BRANCH} for count in range(1, 10))],
    "clusters": [None],
}


def evaluation(model: Released, passes: int) -> float:
    """Milliseconds of predicting all nodes."""
    model.eval()
    times = []
    with torch.no_grad():
        for _ in range(passes):
            clock = time.perf_counter()
            model()
            times.append(time.perf_counter() - clock)
    return statistics.median(times) * 1e3


def accurate_batch_norm(
    x: Tensor, mean: Tensor, variance: Tensor, weight: Tensor, bias: Tensor, training: bool, *_: Any
) -> Tensor:
    """Adds up in a tree. PyTorch's own adds row to row: 5 digits are left of 20 thousand rows."""
    if training:
        variance, mean = torch.var_mean(x, 0, correction=0)
    return (x - mean) * ((variance + 1e-5).rsqrt() * weight) + bias


def run(
    form: str,
    dump: Path,
    threads: int = 1,
    warmup: int = 0,
    steps: int = 3,
    dtype: torch.dtype = torch.float32,
    accurate: bool = False,
) -> dict[str, Any]:
    if accurate:
        F.batch_norm = accurate_batch_norm
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    arrays = torch_run.Arrays(dump)
    arrays.require(KNOWN)
    config, settings = arrays.config["model"], arrays.config["train"]
    if settings["schedule"]["name"] != "constant" or settings["optimizer"]["name"] != "adam":
        raise SystemExit("peers have Adam with a constant rate, and nothing else")
    dropout = (config["dropout"], config["attention_dropout"])
    parameters = arrays.group("param.")
    model = MODELS[form](Graph(arrays), parameters, config["heads"], dropout, dtype).train()
    optimizer = torch.optim.Adam(
        model.parameters(),
        lr=settings["schedule"]["rate"],
        betas=settings["optimizer"]["betas"],
        eps=settings["optimizer"]["epsilon"],
        weight_decay=settings["optimizer"]["weight_decay"],
        **({"fused": True} if isinstance(model, Tuned) else {}),
    )

    def step(_: int) -> float:
        optimizer.zero_grad()
        loss = model.loss()
        loss.backward()
        optimizer.step()
        return loss.item()

    found = torch_run.timed(step, warmup, steps)
    found["milliseconds"]["evaluation"] = evaluation(model, max(steps // 3, 1))
    return found


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    parser = torch_run.parser(__doc__, tuple(MODELS))
    parser.add_argument("--accurate", action="store_true", help="BatchNorm adds up carefully")
    print(json.dumps(run(**vars(parser.parse_args()))))
