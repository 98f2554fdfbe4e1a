"""`encode` and what it gives, against networkx and its own laws."""

import copy
import pickle

import networkx as nx
import numpy as np
import pytest
from conftest import random_edges

import hdse


def hops(graph, nodes, clip):
    """The slow version: breadth-first searches of networkx, clipped."""
    table = np.full((len(nodes), len(nodes)), hdse.UNREACHABLE)
    place = {node: i for i, node in enumerate(nodes)}
    for source, reached in nx.all_pairs_shortest_path_length(graph):
        for target, distance in reached.items():
            table[place[source], place[target]] = min(distance, clip)
    return table


@pytest.mark.parametrize("seed", range(25))
def test_equal_to_networkx(seed):
    nodes = [0, 1, 2, 5, 20, 40, 90][seed % 7]
    edges = random_edges(seed, nodes, int(1.3 * nodes))
    clip = [30, 3, [4, 2]][seed % 3]
    encoding = hdse.encode(edges, nodes, coarsener="louvain", levels=2, max_distance=clip, seed=seed)
    assert encoding.distances.shape == (nodes, nodes, 3)
    graph = nx.Graph()
    graph.add_nodes_from(range(nodes))
    graph.add_edges_from(edges.T.tolist())
    graph.remove_edges_from(nx.selfloop_edges(graph))
    for level in range(3):
        limit = encoding.max_distance[level]
        clusters = np.arange(nodes) if level == 0 else encoding.clusters[:, level - 1]
        quotient = nx.Graph()
        quotient.add_nodes_from(range(len(np.unique(clusters))))
        quotient.add_edges_from((clusters[u], clusters[v]) for u, v in graph.edges)
        table = hops(quotient, range(len(quotient)), limit)
        assert (encoding.distances[..., level] == table[np.ix_(clusters, clusters)]).all()
        assert (encoding.table(level) == table).all()


@pytest.mark.parametrize("coarsener", ["newman", "louvain", "leiden"])
def test_modularity_is_that_of_networkx(coarsener):
    graph = nx.karate_club_graph()
    hierarchy = hdse.coarsen(graph, coarsener=coarsener)
    found = hierarchy.clusters[:, 0]
    groups = [set(np.flatnonzero(found == c)) for c in np.unique(found)]
    expected = nx.community.modularity(graph, groups, weight=None)
    assert hierarchy.quality()["modularity"] == pytest.approx(expected)
    assert expected > 0.39 and hierarchy.quality()["clusters"] == len(groups)


def test_newman_is_as_good_as_that_of_networkx():
    for seed in range(5):
        graph = nx.connected_watts_strogatz_graph(20, 4, 0.2, seed=seed)
        splits = nx.community.girvan_newman(graph)
        best = max(nx.community.modularity(graph, split) for split in splits)
        assert hdse.coarsen(graph).quality()["modularity"] >= best - 0.06


def test_nothing_is_a_graph_too():
    for edges, nodes, levels in [([[], []], 0, 2), ([[], []], 3, 0), ([[0], [1]], 2, 0)]:
        encoding = hdse.encode(edges, nodes, levels=levels)
        assert encoding.distances.shape == (nodes, nodes, levels + 1)
        assert encoding.clusters.shape == (nodes, levels)
        assert encoding.codes.shape == (nodes, nodes)
        other = pickle.loads(pickle.dumps(encoding))
        assert other == encoding and (other.distances == encoding.distances).all()


def test_codes_give_back_the_distances():
    encoding = hdse.encode(random_edges(1, 60, 70), 60, levels=2)
    assert encoding.codes.dtype == np.uint16
    assert (encoding.codebook[encoding.codes] == encoding.distances).all()
    assert len(np.unique(encoding.codebook, axis=0)) == len(encoding.codebook)


def test_arrays_share_memory_and_are_read_only():
    encoding = hdse.encode(random_edges(2, 30, 40), 30)
    for name in ["distances", "clusters", "codes", "codebook"]:
        first, again = getattr(encoding, name), getattr(encoding, name)
        assert np.shares_memory(first, again), name
        with pytest.raises(ValueError):
            first[0] = 0
        with pytest.raises(ValueError):
            first.flags.writeable = True
    lifted = encoding.lift()
    assert lifted.flags.writeable and (lifted == encoding.distances).all()
    lifted[:] = 0
    assert (encoding.lift() == encoding.distances).all() and encoding.distances.any()
    distances = hdse.encode(random_edges(2, 30, 40), 30).distances  # outlives the encoding
    assert (distances == encoding.distances).all()


def test_values_compare_copy_and_pickle():
    edges = random_edges(3, 40, 50)
    encoding = hdse.encode(edges, 40, levels=2)
    assert encoding == hdse.encode(edges[:, ::-1], 40, levels=2)
    assert encoding != hdse.encode(edges, 41, levels=2)
    assert encoding != hdse.encode(edges, 40, levels=2, max_distance=2)
    assert encoding != hdse.encode(edges, 40, levels=2, coarsener="louvain:resolution=9")
    assert encoding != "encoding" and encoding.graph != 3 and encoding.hierarchy != None  # noqa: E711
    for value in [encoding, encoding.graph, encoding.hierarchy]:
        for other in [pickle.loads(pickle.dumps(value)), copy.deepcopy(value)]:
            assert other == value and repr(other) == repr(value)
        with pytest.raises(TypeError):
            hash(value)
    other = pickle.loads(pickle.dumps(encoding))
    assert (other.distances == encoding.distances).all()
    assert (other.seed, other.graph.repairs) == (encoding.seed, encoding.graph.repairs)
    weighted = hdse.Graph(edges, 40, weights=np.linspace(0, 1, edges.shape[1]))
    assert pickle.loads(pickle.dumps(weighted)) == weighted != encoding.graph
    assert pickle.loads(pickle.dumps(weighted)).weights.dtype == np.float32


def test_objects_are_immutable_and_say_what_they_are():
    encoding = hdse.encode([[0, 1], [1, 2]], 4, levels=2)
    with pytest.raises(AttributeError):
        encoding.levels = 3
    assert repr(encoding) == (
        "Encoding(num_nodes=4, num_edges=2, levels=2, clusters=[2, 2], max_distance=30, "
        "coarsener='newman:ties=canonical')"
    )
    assert repr(encoding.graph) == "Graph(num_nodes=4, num_edges=2)"
    assert repr(encoding.hierarchy).startswith("Hierarchy(num_clusters=[4, 2, 2]")
    assert encoding.hierarchy.stopped_early


def test_hierarchy_contracts():
    graph = nx.connected_caveman_graph(4, 5)
    hierarchy = hdse.coarsen(graph, coarsener="leiden", levels=2)
    assert hierarchy.num_clusters[:2] == [20, 4]
    coarse = hierarchy.graph(1)
    assert coarse.num_nodes == 4 and coarse.weights is not None
    assert coarse.edge_index.shape == (2, 2 * coarse.num_edges)
    assert hierarchy.graph(0) == hdse.Graph(graph)
    with pytest.raises(IndexError, match="level 3 is not between 0 and 2"):
        hierarchy.graph(3)


def test_given_partitions():
    edges = random_edges(4, 50, 60)
    encoding = hdse.encode(edges, 50, coarsener="louvain", levels=2)
    assert hdse.encode(edges, 50, partition=encoding.clusters) == encoding
    assert hdse.encode(edges, 50, partition=list(encoding.clusters.T), levels=2) == encoding
    single = hdse.encode(edges, 50, partition=np.arange(50) % 7)
    assert single.levels == 1 and single.coarsener == "given"
    with pytest.raises(ValueError, match="not both"):
        hdse.encode(edges, 50, coarsener="louvain", partition=encoding.clusters)
    with pytest.raises(ValueError, match="it needs 50"):
        hdse.encode(edges, 50, partition=[0, 1])
    with pytest.raises(ValueError, match="negative cluster id"):
        hdse.encode(edges, 50, partition=[-1] * 50)


def test_high_level():
    graph = nx.connected_caveman_graph(6, 4)
    high = hdse.high_level(graph, coarsener="louvain", levels=2)
    encoding = hdse.encode(graph, coarsener="louvain", levels=2)
    assert (high.clusters == encoding.clusters).all()
    assert (high.cluster_of == encoding.clusters[:, 0]).all()
    assert (high.table(1) == encoding.table(1)).all()
    assert high.distances.shape == (high.num_clusters, high.num_clusters, 2)
    ids = high.cluster_of
    assert (high.distances[np.ix_(ids, ids)] == encoding.distances[..., 1:]).all()
    assert pickle.loads(pickle.dumps(high)) == high
    assert high != hdse.high_level(graph, coarsener="louvain", levels=1)
    assert repr(high).startswith("HighLevel(num_nodes=24, num_clusters=")
    with pytest.raises(ValueError, match="`--high-level 3` needs a level between 1 and `--levels`"):
        hdse.high_level(graph, levels=2, level=3)


def test_coarseners_are_listed():
    listed = hdse.coarseners()
    assert [c.name for c in listed][:2] == ["newman", "louvain"]
    assert "resolution" in {p.name for p in listed[1].parameters}
    for coarsener in listed:
        assert hdse.coarsen(nx.path_graph(9), coarsener=coarsener.name).num_clusters[0] == 9


def test_weights_change_communities():
    # A ring of six; heavy edges say which neighbour belongs to whom.
    ring = np.array([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]])
    weights = [9, 1, 9, 1, 9, 1]
    clusters = hdse.coarsen(ring, 6, coarsener="louvain", weights=weights).clusters[:, 0]
    assert clusters.tolist() == [0, 0, 1, 1, 2, 2]
    assert hdse.encode(ring, 6, weights=weights).graph.weights.max() == 9
