"""Graphs of other packages as arrays. They are told by what they can do, so none is imported.

The native part calls these functions for whatever is not an int64 array already.
"""

from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

Arrays = tuple[NDArray[np.int64], int, Optional[NDArray[np.float32]]]


def arrays(graph: Any, num_nodes: Any, weights: Any) -> Arrays:
    """Arcs [2, E], number of nodes, and weights [E] or None."""
    if isinstance(graph, (str, bytes)) or hasattr(graph, "__fspath__"):
        raise TypeError(f"{graph!r} is no graph; read files with `hdse.read`")
    if hasattr(graph, "tocoo"):
        edges, nodes, found = _scipy(graph, weights)
    elif hasattr(graph, "adj") and hasattr(graph, "nodes"):
        edges, nodes, found = _networkx(graph, weights)
    elif hasattr(graph, "get_edgelist") and hasattr(graph, "vcount"):
        edges, nodes, found = _igraph(graph, weights)
    elif hasattr(graph, "GetBonds"):
        edges, nodes, found = _rdkit(graph, weights)
    elif hasattr(graph, "edge_index") and hasattr(graph, "num_nodes"):
        edges, nodes, found = _edge_index(graph.edge_index), int(graph.num_nodes), weights
    else:
        if num_nodes is None:
            raise ValueError("a list of edges needs `num_nodes`: it does not show isolated nodes")
        edges, nodes, found = _edge_index(graph), _count(num_nodes), weights
    if num_nodes is not None and nodes != _count(num_nodes):
        raise ValueError(f"`num_nodes` is {num_nodes}, but the graph has {nodes}")
    return edges, nodes, None if found is None else _weights(found, edges.shape[1])


def ragged(
    edge_index: Any, num_nodes: Any, offsets: Any, weights: Any
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], Optional[NDArray[np.float32]]]:
    """Arcs [2, E] of all graphs, nodes [G], first arcs [G + 1], and weights [E] or None, checked."""
    edges = _edge_index(edge_index)
    nodes, starts = _whole(num_nodes, "num_nodes", 1), _whole(offsets, "offsets", 1)
    if starts.shape[0] != nodes.shape[0] + 1:
        raise ValueError(
            f"`offsets` has {starts.shape[0]} numbers; {nodes.shape[0]} graphs need one more"
        )
    if starts[0] != 0 or starts[-1] != edges.shape[1] or (np.diff(starts) < 0).any():
        raise ValueError(f"`offsets` must rise from 0 to the {edges.shape[1]} columns of the arcs")
    if (nodes < 0).any():
        raise ValueError("`num_nodes` has a negative number")
    return edges, nodes, starts, None if weights is None else _weights(weights, edges.shape[1])


def ids(given: Any, num_nodes: int, name: str) -> NDArray[np.int64]:
    """Cluster ids that the function `name` returned for so many nodes."""
    found = _whole(given, f"the cluster ids of {name}", 1)
    if found.shape[0] != num_nodes:
        raise ValueError(f"{name} gave {found.shape[0]} cluster ids for {num_nodes} nodes")
    return found


def partition(given: Any) -> list[NDArray[np.uint64]]:
    """Cluster ids per level out of [N], [N, K], or a list with one array per level."""
    if isinstance(given, (list, tuple)) and given and np.ndim(given[0]) == 1:
        levels = [_whole(level, "partition", 1) for level in given]
    else:
        array = _numpy(given)
        table = _whole(array, "partition", max(array.ndim, 1))
        if table.ndim > 2:
            raise ValueError(f"`partition` has shape {table.shape}, not [N] or [N, K]")
        levels = list(table.reshape(table.shape[0], -1).T)
    if any((level < 0).any() for level in levels):
        raise ValueError("`partition` has a negative cluster id")
    return [level.astype(np.uint64) for level in levels]


def _edge_index(given: Any) -> NDArray[np.int64]:
    edges = _whole(given, "edge_index", 2)
    if edges.shape[0] != 2:
        hint = "; transpose it" if edges.shape[1] == 2 else ""
        raise ValueError(f"`edge_index` has shape {list(edges.shape)}, not [2, E]{hint}")
    return edges


def _scipy(graph: Any, weights: Any) -> tuple[NDArray[np.int64], int, Any]:
    """An adjacency matrix; its entries are weights if `weights` is True."""
    rows, columns = graph.shape
    if rows != columns:
        raise ValueError(f"an adjacency matrix is square, not {rows} × {columns}")
    entries = graph.tocoo()
    edges = np.stack([entries.row, entries.col]).astype(np.int64, copy=False)
    return edges, rows, entries.data if weights is True else weights


def _networkx(graph: Any, weights: Any) -> tuple[NDArray[np.int64], int, Any]:
    """Node i is the i-th that the graph lists; `weights` may name an attribute of edges."""
    number = {node: i for i, node in enumerate(graph.nodes)}
    ends = [(number[u], number[v]) for u, v in graph.edges()]
    if isinstance(weights, str):
        weights = [weight for _, _, weight in graph.edges(data=weights, default=1.0)]
    return _pairs(ends), len(number), weights


def _igraph(graph: Any, weights: Any) -> tuple[NDArray[np.int64], int, Any]:
    """`weights` may name an attribute of edges."""
    if isinstance(weights, str):
        weights = graph.es[weights]
    return _pairs(graph.get_edgelist()), graph.vcount(), weights


def _rdkit(molecule: Any, weights: Any) -> tuple[NDArray[np.int64], int, Any]:
    """Atoms and bonds."""
    bonds = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in molecule.GetBonds()]
    return _pairs(bonds), molecule.GetNumAtoms(), weights


def _pairs(ends: list[tuple[int, int]]) -> NDArray[np.int64]:
    return np.array(ends, dtype=np.int64).reshape(-1, 2).T


def _weights(given: Any, edges: int) -> NDArray[np.float32]:
    if isinstance(given, (str, bool)):
        raise ValueError(f"`weights={given!r}` needs a graph that has weights of its own")
    found = _numpy(given).astype(np.float32, copy=False)
    if found.shape != (edges,):
        raise ValueError(f"`weights` has shape {list(found.shape)}; it needs one per pair, [{edges}]")
    return found


def _count(given: Any) -> int:
    count = _whole(given, "num_nodes", 0)
    if count < 0:
        raise ValueError(f"`num_nodes` is {count}; it can't be negative")
    return int(count)


def _whole(given: Any, name: str, dimensions: int) -> NDArray[np.int64]:
    """An int64 array; anything but whole numbers is refused."""
    found = _numpy(given)
    if found.size == 0 and found.ndim == 1 and dimensions == 2:
        found = found.reshape(2, 0)
    if found.ndim != dimensions:
        raise ValueError(f"`{name}` has shape {list(found.shape)}; {_SHAPES[dimensions]}")
    if found.dtype.kind not in "iu" and found.size > 0:
        raise ValueError(f"`{name}` holds {found.dtype}, not whole numbers")
    return found.astype(np.int64, copy=False)


_SHAPES = {0: "it is one number", 1: "it needs one dimension", 2: "it needs two, [2, E]"}


def _numpy(given: Any) -> NDArray[Any]:
    """numpy and lists as they are; tensors of torch from any device; others by DLPack."""
    if hasattr(given, "detach"):
        return np.asarray(given.detach().cpu())
    if hasattr(given, "__dlpack__") and not hasattr(given, "__array__"):
        return np.from_dlpack(given)
    try:
        found = np.asarray(given)
    except ValueError as error:
        raise ValueError(f"not a table of numbers: {error}") from None
    if found.dtype == object:
        raise ValueError("not a table of numbers: rows of different length, or other objects")
    return found
