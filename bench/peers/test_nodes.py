"""Tests of nodes_*.py: all forms are one model, and that of the fixtures.

Run in the environment of `make test-torch`: `python -m pytest bench/peers/test_nodes.py`.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

import nodes_torch  # noqa: E402
import nodes_tuned  # noqa: E402
from nodes_model import Graph  # noqa: E402
from torch_run import KINDS, Arrays  # noqa: E402

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "golden"
FIXTURES = sorted(GOLDEN.glob("goat-g*-k1-[rm]*.safetensors"))


def write(path: Path, arrays: dict[str, np.ndarray], config: dict) -> None:
    """As `hdse bench step --dump` writes a node set."""
    kinds = {np.dtype(kind): name for name, kind in KINDS.items()}
    header, place = {"__metadata__": {"hdse": json.dumps(config)}}, 0
    for name, array in arrays.items():
        offsets = [place, place + array.nbytes]
        header[name] = {"dtype": kinds[array.dtype], "shape": array.shape, "data_offsets": offsets}
        place += array.nbytes
    text = json.dumps(header).encode()
    parts = [array.tobytes() for array in arrays.values()]
    path.write_bytes(b"".join([len(text).to_bytes(8, "little"), text, *parts]))


def example(bias: str, heads: int, sparse: bool, layers: int = 1) -> tuple[dict, dict]:
    """A random graph in random clusters, one of them empty, with random parameters."""
    draw = np.random.default_rng(0)
    nodes, clusters, width, features, classes = 300, 6, 16, 40, 5
    pairs = draw.integers(nodes, size=(2, 900))
    pairs = np.unique(np.sort(pairs[:, pairs[0] != pairs[1]], axis=0), axis=1)
    near = draw.integers(1, 31, size=(clusters, clusters)).astype(np.uint8)
    x = np.where(draw.random((nodes, features)) < 0.1, draw.random((nodes, features)), 0)
    x = x.astype(np.float32)
    arrays = {
        "edge_index": np.concatenate([pairs, pairs[::-1]], axis=1),
        "cluster": np.sort(draw.integers(clusters - 1, size=nodes)),
        "dist.1": np.minimum(near, near.T) * (1 - np.eye(clusters, dtype=np.uint8)),
        "y": draw.integers(classes, size=nodes),
        "train_idx": np.sort(draw.choice(nodes, 60, replace=False)),
    }
    if sparse:
        rows, columns = np.nonzero(x)
        offsets = np.searchsorted(rows, np.arange(nodes + 1))
        found = {"offsets": offsets, "columns": columns, "values": x[rows, columns]}
        arrays |= {f"features.{name}": part for name, part in found.items()}
    else:
        arrays["features"] = x
    shapes = {"fc_in1": (width, features), "fc_in2": (width, width), "out": (classes, width)}
    norms, tables = ["norm_in"], {}
    for number in range(layers):
        place = f"layers.{number}"
        maps = ("proj", "q", "k", "v", "ff1", "ff2")
        shapes |= {f"{place}.{map}": (width, width) for map in maps}
        norms += [f"{place}.norm1", f"{place}.norm2"]
        if bias == "scalar":
            tables[f"{place}.dist_emb.weight"] = (31, width)
            shapes[f"{place}.dist_lin"] = (1, width)
        else:
            shapes[f"{place}.hdse_map"] = (heads, width)
    if bias == "mlp":
        tables["hdse.tables.1.weight"] = (31, width)
        shapes["hdse.proj"] = (width, width)
    for number, inputs in enumerate([features, width]):
        tables[f"gcn.{number}.lin.weight"] = (width, inputs)
        tables[f"gcn.{number}.bias"] = (width,)
    tables |= {f"{name}.weight": shape for name, shape in shapes.items()}
    tables |= {f"{name}.bias": shape[:1] for name, shape in shapes.items()}
    for norm in norms:
        tables |= {f"{norm}.{part}": (width,) for part in ("weight", "bias", "running_mean")}
        arrays[f"param.{norm}.running_var"] = np.ones(width, np.float32)
    for name, shape in tables.items():
        arrays[f"param.{name}"] = draw.normal(scale=0.4, size=shape).astype(np.float32)
    model = {"backbone": "goat", "local": "gcn", "bias": bias, "levels": 1, "unreachable": "clip"}
    model |= {"heads": heads, "dropout": 0.0, "attention_dropout": 0.0}
    optimizer = {"name": "adam", "betas": [0.9, 0.999], "epsilon": 1e-8, "weight_decay": 5e-4}
    schedule = {"name": "constant", "rate": 0.01}
    return arrays, {"model": model, "train": {"optimizer": optimizer, "schedule": schedule}}


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize(("bias", "heads"), [("scalar", 1), ("scalar", 4), ("mlp", 2)])
def test_forms_agree(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    bias: str,
    heads: int,
    sparse: bool,
    layers: int,
) -> None:
    monkeypatch.setattr(nodes_tuned, "SCORES", 1000)  # several pieces
    dump = tmp_path / "dump.safetensors"
    write(dump, *example(bias, heads, sparse, layers))
    runs = {form: nodes_torch.run(form, dump) for form in nodes_torch.MODELS}
    exact = nodes_torch.run("released", dump, dtype=torch.float64)["losses"]
    assert exact[2] < exact[0]
    for form, found in runs.items():
        assert found["losses"] == pytest.approx(exact, rel=1e-4), form


@pytest.mark.parametrize("form", nodes_torch.MODELS)
@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_fixtures(path: Path, form: str) -> None:
    arrays = Arrays(path)
    told = json.loads(path.with_suffix(".json").read_text())
    graph = Graph(arrays, "in.")
    parameters, heads = arrays.group("param."), told["config"]["heads"]
    # In double precision, since some gradients are 0 but for rounding.
    model = nodes_torch.MODELS[form](graph, parameters, heads, dtype=torch.float64)
    model.eval()
    with torch.no_grad():
        near(model(), arrays["out.eval.pred"])
    model.train()
    loss = model.loss()
    loss.backward()
    near(loss.detach()[None], arrays["out.loss"])
    largest = told["tolerance"]["largest_gradient"]
    for name, parameter in model.named_parameters():
        expected = arrays[f"grad.{name}"]
        difference = np.abs(parameter.grad.numpy() - expected).max()
        assert difference <= 1e-5 * (np.abs(expected).max() + 1e-3 * largest), name
    model.load_state_dict(parameters, strict=False)  # running statistics
    near(model(), arrays["out.pred"])


def near(found: torch.Tensor, expected: np.ndarray) -> None:
    difference = np.abs(found.detach().numpy() - expected).max()
    assert difference <= 1e-5 * np.abs(expected).max()
