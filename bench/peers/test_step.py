"""Tests of step_*.py: all forms of SAT and GRIT are the models of the fixtures.

Run in the environment of `make test-torch`: `python -m pytest bench/peers/test_step.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

import step_grit  # noqa: E402
import step_sat  # noqa: E402
from step_parts import Dump  # noqa: E402
from test_nodes import GOLDEN, near, write  # noqa: E402
from torch_run import Arrays, load  # noqa: E402

CASES = [
    *((step_sat, "sat-ksubgraph-mlp", form) for form in ("released", "table", "distinct")),
    *((step_grit, "grit-mlp", form) for form in ("released", "table")),
]


def dumped(arrays: Arrays, told: dict[str, Any], path: Path) -> Dump:
    """A fixture as `hdse bench step --dump` writes a batch."""
    config, hdse = told["config"], told["config"]["hdse"]
    distances = np.stack([arrays[f"in.dist.{level}"] for level in range(hdse["K"] + 1)], 1)
    book, codes = np.unique(distances, axis=0, return_inverse=True)
    source, target = arrays["in.edge_index"]
    whole = {
        "sizes": np.diff(arrays["in.ptr"]),
        "sources": source,
        "targets": target,
        "node_features": arrays["in.node_type"][:, None],
        "edge_features": arrays["in.edge_type"][:, None],
        "codes": codes.reshape(-1),
    }
    batch = {name: np.ascontiguousarray(part, np.uint32) for name, part in whole.items()}
    batch |= {"codebook": book, "y": arrays["in.y"]}
    if "in.pe" in arrays:
        batch["random_walk"] = arrays["in.pe"]
    found = {f"batch.0.{name}": part for name, part in batch.items()}
    model = {
        **{name: config[name] for name in ("dim", "heads", "layers", "pool")},
        **{"node": {"types": config["node_types"]}, "edge": {"types": config["edge_types"]}},
        **{"outputs": config["out"], "max_distance": hdse["L"], "levels": hdse["K"]},
        **{"feed_forward": 2, "dropout": 0.0, "attention_dropout": 0.0},
    }
    if config["model"] == "grit":
        model |= {"encoding": {"rrwp": {"steps": config["rrwp_steps"]}}}
    else:
        pna = {"towers": config["towers"], "aggregators": step_sat.AGGREGATORS}
        model |= {"local": {"pna": pna}, "extractor": {"subgraph": config["hops"]}}
        model |= {"encoding": {"rwse": {"steps": config["pe_dim"]}}, "head": {"plain": 2}}
        model |= {"edge_dim": config["edge_dim"]}
    write(path, found, {"model": model})
    return Dump(path)


@pytest.mark.parametrize(("backbone", "name", "form"), CASES)
def test_fixtures(tmp_path: Path, backbone: Any, name: str, form: str) -> None:
    arrays = Arrays(GOLDEN / f"{name}.safetensors")
    told = json.loads((GOLDEN / f"{name}.json").read_text())
    dump = dumped(arrays, told, tmp_path / "dump.safetensors")
    collate = backbone.Collate(dump, form)
    model = backbone.Model(dump.config["model"], form, collate.book)
    load(model, arrays.group("param."), own=model.own)
    # In double precision, since some gradients are 0 but for rounding.
    model, batch = model.train().double(), collate(0)
    batch |= {part: batch[part].double() for part in ("pe", "walks") if part in batch}
    predicted = model(batch)
    near(predicted, arrays["out.pred"])
    (predicted - batch["y"]).abs().mean().backward()
    largest = told["tolerance"]["largest_gradient"]
    for parameter, of in model.named_parameters():
        expected = arrays[f"grad.{parameter}"]
        found = np.zeros_like(expected) if of.grad is None else of.grad.numpy()
        difference = np.abs(found - expected).max()
        assert difference <= 1e-5 * (np.abs(expected).max() + 1e-3 * largest), parameter
