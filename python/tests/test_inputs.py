"""Everything that counts as a graph gives the same encoding; everything else a clear error."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse
from conftest import random_edges

import hdse

EDGES = random_edges(0, 40, 50)
EXPECTED = hdse.encode(EDGES, 40)


def graphs():
    graph = nx.Graph(EDGES.T.tolist())
    graph.add_nodes_from(range(40))
    ordered = nx.Graph()
    ordered.add_nodes_from(range(40))
    ordered.add_edges_from(graph.edges)
    named = nx.relabel_nodes(ordered, {i: ("atom", chr(200 - i)) for i in range(40)})
    one_way = nx.DiGraph()
    one_way.add_nodes_from(range(40))
    one_way.add_edges_from(graph.edges)
    many = nx.MultiGraph(one_way)
    many.add_edges_from(graph.edges)
    matrix = nx.to_scipy_sparse_array(ordered)
    yield "lists", EDGES.tolist(), 40
    for dtype in ["int8", "int32", "uint16", "uint64", ">i4"]:
        yield dtype, EDGES.astype(dtype), 40
    yield "strided", np.repeat(EDGES, 2, axis=1)[:, ::2], np.int32(40)
    yield "transposed", np.ascontiguousarray(EDGES.T).T, 40
    yield "one way", EDGES[:, :50], 40
    yield "networkx", ordered, None
    yield "networkx, any labels", named, None
    yield "networkx, directed", one_way, None
    yield "networkx, repeated", many, 40
    for kind in ["csr", "csc", "coo", "lil"]:
        yield f"scipy {kind}", matrix.asformat(kind), None
    yield "scipy matrix", scipy.sparse.csr_matrix(matrix), None
    yield "Graph", hdse.Graph(EDGES, 40), None
    yield "duck", type("Data", (), {"edge_index": EDGES, "num_nodes": 40})(), None


@pytest.mark.parametrize("name, graph, nodes", list(graphs()), ids=[name for name, *_ in graphs()])
def test_all_kinds_agree(name, graph, nodes):
    assert hdse.encode(graph, nodes) == EXPECTED
    assert hdse.encode_many([graph], None if nodes is None else [nodes])[0] == EXPECTED


def test_igraph():
    igraph = pytest.importorskip("igraph")
    graph = igraph.Graph(40, EDGES.T.tolist())
    graph.es["strength"] = np.arange(100.0)
    assert hdse.encode(graph) == EXPECTED
    weighted = hdse.Graph(graph, weights="strength")
    assert weighted == hdse.Graph(EDGES, 40, weights=np.arange(100.0))


def test_rdkit():
    chemistry = pytest.importorskip("rdkit.Chem")
    encoding = hdse.encode(chemistry.MolFromSmiles("c1ccccc1-c1ccccc1"))
    assert encoding.num_nodes == 12 and encoding.hierarchy.num_clusters == [12, 2]


def test_attributes_as_weights():
    graph = nx.Graph()
    graph.add_weighted_edges_from([("a", "b", 2.0), ("b", "c", 3.0)])
    graph.add_edge("c", "d")
    assert hdse.Graph(graph, weights="weight").weights.tolist() == [2, 2, 3, 3, 1, 1]
    matrix = nx.to_scipy_sparse_array(graph)
    assert hdse.Graph(matrix, weights=True).weights.tolist() == [4, 4, 6, 6, 2, 2]
    assert hdse.Graph(graph).weights is None


def test_repairs_are_counted():
    graph = hdse.Graph([[0, 0, 1, 2, 2], [1, 1, 0, 2, 0]], 3)
    assert graph.repairs == {"self_loops": 1, "duplicates": 1, "one_way": 1}
    assert graph.indptr.tolist() == [0, 2, 3, 4] and graph.indices.tolist() == [1, 2, 0, 0]


WRONG = [
    ([[0, 5], [1, 2]], 3, r"pair 1 \(5, 2\) is out of range: with 3 nodes, ids run from 0 to 2"),
    ([[0, -1], [1, 2]], 3, r"pair 1 \(-1, 2\) is out of range"),
    ([[0, 1]], 2, r"`edge_index` has shape \[1, 2\], not \[2, E\]; transpose it"),
    ([[0, 1, 2]] * 3, 3, r"has shape \[3, 3\]"),
    ([0, 1], 2, "it needs two"),
    ([[0.5], [1.0]], 2, "holds float64, not whole numbers"),
    ([[0], [1, 2]], 3, "not a table of numbers"),
    ([[0], [1]], None, "needs `num_nodes`"),
    ([[0], [1]], -2, "it can't be negative"),
    ([[0], [1]], 2.5, "not whole numbers"),
    (nx.path_graph(3), 4, "`num_nodes` is 4, but the graph has 3"),
    (scipy.sparse.eye(3, 4), None, "square"),
    (hdse.Graph([[0], [1]], 2), 3, "has its nodes"),
    (EDGES, 2**31 + 5, "nodes"),
]


@pytest.mark.parametrize("graph, nodes, text", WRONG)
def test_wrong_graphs_are_explained(graph, nodes, text):
    with pytest.raises((ValueError, MemoryError), match=text):
        hdse.encode(graph, nodes)


OPTIONS = [
    ({"coarsener": "luvain"}, "did you mean `louvain`?"),
    ({"coarsener": "louvain:resolution=x"}, "expected a number"),
    ({"levels": -1}, "`--levels -1`: take between 0 and 64"),
    ({"levels": 65}, "between 0 and 64"),
    ({"max_distance": 255}, "is not between 1 and 254"),
    ({"max_distance": 0}, "is not between 1 and 254"),
    ({"max_distance": -1}, "is not a maximum distance"),
    ({"max_distance": [1, 2, 3]}, "`--max-distance` has 3 values, but there are only levels 0 to 1"),
    ({"max_distance": []}, "at least one"),
    ({"seed": -1}, "`--seed -1`: take a whole number"),
    ({"seed": "x"}, "`--seed x`"),
    ({"threads": 0}, "take between 1 and 1024"),
    ({"max_memory": "8X"}, "is not an amount of memory"),
    ({"weights": [1.0]}, r"it needs one per pair, \[100\]"),
    ({"weights": [-1.0] * 100}, "is not a finite number"),
    ({"weights": "weight"}, "needs a graph that has weights"),
]


@pytest.mark.parametrize("options, text", OPTIONS)
def test_wrong_options_are_explained(options, text):
    with pytest.raises(ValueError, match=text):
        hdse.encode(EDGES, 40, **options)


def test_other_errors():
    with pytest.raises(TypeError, match="is no graph; read files with `hdse.read`"):
        hdse.encode("graph.csv")
    with pytest.raises(TypeError, match="a coarsener is a name"):
        hdse.encode(EDGES, 40, coarsener=3)
    with pytest.raises(MemoryError, match="distances of all pairs of 3000000 nodes at 2 levels needs"):
        hdse.encode(EDGES, 3_000_000)
    with pytest.raises(MemoryError, match="needs 3.1 KiB and the limit is 1.0 KiB"):
        hdse.encode(EDGES, 40, levels=0, max_memory="1K")
    with pytest.raises(FileNotFoundError, match="no file `nowhere.csv`"):
        hdse.read("nowhere.csv")
