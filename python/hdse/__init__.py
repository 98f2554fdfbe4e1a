"""Graph hierarchies and hierarchical distances for graph transformers (HDSE).

>>> import hdse
>>> triangles = [[0, 1, 2, 3, 4, 5, 2], [1, 2, 0, 4, 5, 3, 3]]
>>> encoding = hdse.encode(triangles, num_nodes=6)
>>> encoding.clusters[:, 0]
array([0, 0, 0, 1, 1, 1], dtype=uint32)
>>> encoding.distances[0, 5]  # three hops, in neighbouring clusters
array([3, 1], dtype=uint8)

Importing this package imports neither numpy nor torch. `hdse.pyg` is for PyTorch Geometric.
"""

from importlib import import_module
from typing import Any

from ._hdse import (
    UNREACHABLE,
    Encoding,
    Encodings,
    Graph,
    GraphSet,
    Hierarchy,
    HighLevel,
    Sample,
    __version__,
    coarsen,
    encode,
    encode_many,
    high_level,
    read,
)
from ._lists import Coarsener, Parameter, coarseners

__all__ = [
    "UNREACHABLE",
    "Coarsener",
    "Encoding",
    "Encodings",
    "Graph",
    "GraphSet",
    "Hierarchy",
    "HighLevel",
    "Parameter",
    "Sample",
    "__version__",
    "coarsen",
    "coarseners",
    "encode",
    "encode_many",
    "high_level",
    "read",
]


def __getattr__(name: str) -> Any:
    if name == "pyg":
        return import_module("hdse.pyg")
    raise AttributeError(f"module 'hdse' has no attribute {name!r}")
