"""Makes a node set of the size of ogbn-arxiv from a seed, and the configuration of a model for it.

    python nodes_data.py FOLDER [NODES]

As power_law.rs does it: every node has a drawn number of stubs and lies in a drawn community; an
edge joins the node of a random stub to that of another one, in the same community or anywhere.
Communities have a class, which most of their nodes share; features are noise around the class.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

NODES = 169_343
MEAN_DEGREE = 13.7
DEGREE_EXPONENT = 2.5
NODES_PER_COMMUNITY = 165
SIZE_EXPONENT = 2.0
SIZE_RATIO = 50.0
# Shares of edges inside a community, and of nodes with its class.
INSIDE = 0.6
PURE = 0.7
# Draws per edge that comes out.
DRAWS = 1.13
FEATURES, CLASSES = 128, 40
TRAINING, VALIDATION = 0.54, 0.18

# Files lie beside it.
CONFIG = """\
# GOAT + HDSE on a generated graph of the size of ogbn-arxiv.
[data]
set = "arxiv-size"
path = "{folder}"
nodes = {{ edges = "edges.npy", features = "features.npy", targets = "classes.npy", splits = ["random.json"] }}
split = "random"

[hierarchy]
coarsener = "metis:clusters={clusters}"

[model]
backbone = "goat"
layers = 1
dim = 256
heads = 1
dropout = 0.5
attention_dropout = 0.5
local = "gcn"
node = {{ linear = {features} }}
pool = "none"
head = {{ plain = 1 }}
outputs = {classes}
bias = "mlp"
levels = 1
max_distance = 30

[train]
epochs = 2000
loss = "cross-entropy"
metric = "accuracy"
optimizer = {{ name = "adam", weight_decay = 5e-4 }}
schedule = {{ name = "constant", rate = 5e-4 }}
"""


def power_law(draw: np.random.Generator, count: int, exponent: float, ratio: float) -> np.ndarray:
    """Numbers between 1 and `ratio`, with density falling as x^−exponent."""
    least = ratio ** (1 - exponent)
    return (least + (1 - least) * draw.random(count)) ** (1 / (1 - exponent))


def edges(draw: np.random.Generator, nodes: int, community: np.ndarray) -> np.ndarray:
    """Pairs, each once, the smaller node first; [2, edges]."""
    degrees = power_law(draw, nodes, DEGREE_EXPONENT, 10 * nodes**0.5 / (MEAN_DEGREE / 3))
    degrees = np.rint(degrees * MEAN_DEGREE * nodes / degrees.sum()).astype(np.int64)
    order = np.argsort(community, kind="stable")
    stubs = np.repeat(order, degrees[order])
    begin = np.searchsorted(community[stubs], np.arange(community.max() + 2))
    sources = stubs[draw.integers(len(stubs), size=int(len(stubs) / 2 * DRAWS))]
    inside, own = draw.random(len(sources)) < INSIDE, community[sources]
    low, high = np.where(inside, begin[own], 0), np.where(inside, begin[own + 1], len(stubs))
    pairs = np.stack([sources, stubs[draw.integers(low, high)]])
    pairs = np.sort(pairs[:, pairs[0] != pairs[1]], axis=0)
    codes = np.unique(pairs[0] * nodes + pairs[1])
    return np.stack([codes // nodes, codes % nodes])


def generate(folder: Path, nodes: int = NODES) -> None:
    draw = np.random.default_rng(0)
    sizes = power_law(draw, max(nodes // NODES_PER_COMMUNITY, 1), SIZE_EXPONENT, SIZE_RATIO)
    community = draw.choice(len(sizes), size=nodes, p=sizes / sizes.sum())
    class_of = draw.integers(CLASSES, size=len(sizes))[community]
    classes = np.where(draw.random(nodes) < PURE, class_of, draw.integers(CLASSES, size=nodes))
    centres = draw.normal(size=(CLASSES, FEATURES))
    features = centres[classes] * 0.2 + draw.normal(size=(nodes, FEATURES))
    order = draw.permutation(nodes)
    ends = np.rint(np.cumsum([TRAINING, VALIDATION]) * nodes).astype(int)
    parts = (part.tolist() for part in np.split(order, ends))
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "edges.npy", edges(draw, nodes, community))
    np.save(folder / "features.npy", features.astype(np.float32))
    np.save(folder / "classes.npy", classes)
    split = dict(zip(("train", "val", "test"), parts, strict=True))
    (folder / "random.json").write_text(json.dumps(split))
    clusters = max(round(1024 * nodes / NODES), 2)
    sizes = {"features": FEATURES, "classes": CLASSES, "clusters": clusters}
    (folder / "config.toml").write_text(CONFIG.format(folder=folder.resolve(), **sizes))


if __name__ == "__main__":
    generate(Path(sys.argv[1]), *(int(number) for number in sys.argv[2:]))
