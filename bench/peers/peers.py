"""Other software that does the same tasks.

A peer is a function that takes a graph, brings it into the form its library works on, and returns
the call to be measured. Libraries are imported inside, so that this list can be read without them.

task         the call returns
distances    uint8 [n, n, 2]: hops between nodes and between their clusters, clipped at
             MAX_DISTANCE, UNREACHABLE without a path
all others   the cluster of every node
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from math import inf
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

MAX_DISTANCE = 30
UNREACHABLE = 255


@dataclass(frozen=True)
class Graph:
    """An undirected simple graph, for `distances` with a partition of its nodes."""

    num_nodes: int
    edges: np.ndarray  # [m, 2], every edge once
    clusters: np.ndarray | None = None  # [n]

    def levels(self) -> list[Graph]:
        """This graph, and the graph of its clusters."""
        import numpy as np

        ends = np.sort(self.clusters[self.edges], axis=1)
        crossing = np.unique(ends[ends[:, 0] != ends[:, 1]], axis=0)
        count = int(self.clusters.max()) + 1
        return [self, Graph(count, crossing, np.arange(count))]

    def csr(self) -> Any:
        """The adjacency matrix, symmetric."""
        import numpy as np
        from scipy.sparse import csr_array

        u, v = self.edges.T
        ends = np.concatenate([u, v]), np.concatenate([v, u])
        ones = np.ones(len(ends[0]))
        return csr_array((ones, ends), shape=(self.num_nodes, self.num_nodes))


Call = Callable[[], Any]


@dataclass(frozen=True)
class Peer:
    """A peer at one task."""

    name: str
    task: str
    function: Callable[[Graph], Call] | None  # none: a crate, called by rust-peers
    package: str  # its version is printed
    share: float = 1.0  # of the graphs; less where all of them would take too long
    most_edges: float = inf  # not run where a graph has more


# ---- distances


def lift(hops: Iterable[Any], clusters: np.ndarray) -> np.ndarray:
    """Clips the distances of both levels and brings them to pairs of nodes."""
    import numpy as np

    def clipped(table: Any) -> np.ndarray:
        table = np.asarray(table, dtype=np.float64)
        clipped_hops = np.minimum(table, MAX_DISTANCE).astype(np.uint8)
        # Where there is no path, some say infinity, networkit the largest double.
        clipped_hops[table > 1e300] = UNREACHABLE
        return clipped_hops

    level0, level1 = map(clipped, hops)
    out = np.empty((*level0.shape, 2), dtype=np.uint8)
    out[..., 0] = level0
    out[..., 1] = level1[clusters][:, clusters]
    return out


def networkx_distances(graph: Graph) -> Call:
    """Dictionaries of dictionaries, written into arrays pair by pair."""
    import networkx as nx
    import numpy as np

    def table(level: nx.Graph) -> np.ndarray:
        hops = np.full((len(level), len(level)), np.inf)
        for u, row in nx.all_pairs_shortest_path_length(level):
            for v, distance in row.items():
                hops[u, v] = distance
        return hops

    levels = [networkx_graph(level) for level in graph.levels()]
    return lambda: lift(map(table, levels), graph.clusters)


def scipy_distances(graph: Graph) -> Call:
    from scipy.sparse.csgraph import shortest_path

    levels = [level.csr() for level in graph.levels()]
    return lambda: lift((shortest_path(a, unweighted=True) for a in levels), graph.clusters)


def igraph_distances(graph: Graph) -> Call:
    levels = [igraph_graph(level) for level in graph.levels()]
    return lambda: lift((level.distances() for level in levels), graph.clusters)


def networkit_distances(graph: Graph) -> Call:
    networkit = one_thread_networkit()
    levels = [networkit_graph(level) for level in graph.levels()]

    def table(level: Any) -> Any:
        return networkit.distance.APSP(level).run().getDistances(asarray=True)

    return lambda: lift(map(table, levels), graph.clusters)


def numba_distances(graph: Graph) -> Call:
    """Breadth-first searches on compressed sparse rows, compiled, straight to bytes."""
    import numpy as np

    both_levels = numba_both_levels()
    arrays = []
    for level in graph.levels():
        rows = level.csr()
        arrays += [rows.indptr.astype(np.uint32), rows.indices.astype(np.uint32)]
    clusters = graph.clusters.astype(np.uint32)
    return lambda: both_levels(*arrays, clusters)


@cache
def numba_both_levels() -> Callable[..., np.ndarray]:
    import numpy as np
    from numba import njit

    @njit
    def table(offsets, targets):  # type: ignore[no-untyped-def]
        n = len(offsets) - 1
        hops = np.full((n, n), UNREACHABLE, dtype=np.uint8)
        queue = np.empty(n, dtype=np.uint32)
        for source in range(n):
            row = hops[source]
            row[source] = 0
            queue[0] = source
            begin, end, distance = 0, 1, 0
            while begin < end:
                distance += 1
                stored = np.uint8(min(distance, MAX_DISTANCE))
                last = end
                for i in range(begin, last):
                    u = queue[i]
                    for j in range(offsets[u], offsets[u + np.uint32(1)]):
                        v = targets[j]
                        if row[v] == UNREACHABLE:
                            row[v] = stored
                            queue[end] = v
                            end += 1
                begin = last
        return hops

    # With the types given, compilation happens here and not in the first call.
    ids = "uint32[::1]"

    @njit(f"uint8[:,:,::1]({', '.join([ids] * 5)})")
    def both_levels(  # type: ignore[no-untyped-def]
        node_offsets, node_targets, cluster_offsets, cluster_targets, clusters
    ):
        nodes = table(node_offsets, node_targets)
        between_clusters = table(cluster_offsets, cluster_targets)
        n = len(clusters)
        out = np.empty((n, n, 2), dtype=np.uint8)
        for u in range(n):
            cluster_row = between_clusters[clusters[u]]
            for v in range(n):
                out[u, v, 0] = nodes[u, v]
                out[u, v, 1] = cluster_row[clusters[v]]
        return out

    return both_levels


# ---- newman


def igraph_newman(graph: Graph) -> Call:
    g = igraph_graph(graph)
    return lambda: g.community_edge_betweenness(directed=False).as_clustering().membership


def networkx_newman(graph: Graph) -> Call:
    """Every split, and the one of highest modularity kept."""
    import networkx as nx

    g = networkx_graph(graph)

    def run() -> list[int]:
        splits = nx.community.girvan_newman(g)
        whole = list(nx.connected_components(g))
        best = max([whole, *splits], key=lambda split: nx.community.modularity(g, split))
        return membership(best, graph.num_nodes)

    return run


def released_newman(graph: Graph) -> Call:
    """The loop of the code released with the paper: edges of equal betweenness go together, and
    modularity is a sum over all pairs of nodes."""
    import networkx as nx
    import numpy as np

    original = networkx_graph(graph)
    nx.set_edge_attributes(original, 1.0, "weight")

    def modularity(adjacency: np.ndarray, of: np.ndarray) -> float:
        degrees, total = adjacency.sum(axis=1), adjacency.sum()
        together = of[:, None] == of[None, :]
        expected = np.outer(degrees, degrees) / total
        return float(((adjacency - expected) * together).sum() / total) if total else 0.0

    def run() -> np.ndarray:
        adjacency = nx.to_numpy_array(original)
        g = original.copy()

        def components() -> np.ndarray:
            return np.array(membership(nx.connected_components(g), graph.num_nodes))

        best = components()
        highest = modularity(adjacency, best)
        while g.number_of_edges() > 0:
            count = nx.number_connected_components(g)
            while nx.number_connected_components(g) == count:
                betweenness = nx.edge_betweenness_centrality(g, weight="weight")
                top = max(betweenness.values())
                g.remove_edges_from([edge for edge, b in betweenness.items() if b == top])
            of = components()
            if (value := modularity(adjacency, of)) >= highest:
                best, highest = of, value
        return best

    return run


# ---- louvain


def igraph_louvain(graph: Graph) -> Call:
    g = igraph_graph(graph)
    return lambda: g.community_multilevel().membership


def networkx_louvain(graph: Graph) -> Call:
    import networkx as nx

    g = networkx_graph(graph)
    return lambda: membership(nx.community.louvain_communities(g, seed=0), graph.num_nodes)


def networkit_louvain(graph: Graph) -> Call:
    networkit = one_thread_networkit()
    g = networkit_graph(graph)
    return lambda: networkit.community.PLM(g).run().getPartition().getVector()


# ---- leiden


def igraph_leiden(graph: Graph) -> Call:
    g = igraph_graph(graph)
    return lambda: g.community_leiden(objective_function="modularity", n_iterations=2).membership


def leidenalg_leiden(graph: Graph) -> Call:
    import leidenalg

    g = igraph_graph(graph)
    kind = leidenalg.ModularityVertexPartition
    return lambda: leidenalg.find_partition(g, kind, seed=0).membership


def networkit_leiden(graph: Graph) -> Call:
    networkit = one_thread_networkit()
    g = networkit_graph(graph)
    return lambda: networkit.community.ParallelLeiden(g).run().getPartition().getVector()


# ---- label propagation


def igraph_propagation(graph: Graph) -> Call:
    g = igraph_graph(graph)
    return lambda: g.community_label_propagation().membership


def networkit_propagation(graph: Graph) -> Call:
    networkit = one_thread_networkit()
    g = networkit_graph(graph)
    return lambda: networkit.community.PLP(g).run().getPartition().getVector()


def networkx_propagation(graph: Graph) -> Call:
    import networkx as nx

    g = networkx_graph(graph)
    propagate = nx.community.fast_label_propagation_communities
    return lambda: membership(propagate(g, seed=0), graph.num_nodes)


# ---- graphs of the libraries


# ---- spectral, metis, loukas: as many clusters as a tenth of the nodes


def tenth(graph: Graph) -> int:
    """Clusters of ours with `ratio=0.1`."""
    from math import ceil

    return min(graph.num_nodes, max(2 if graph.num_nodes >= 4 else 1, ceil(0.1 * graph.num_nodes)))


def sklearn_spectral(graph: Graph) -> Call:
    from sklearn.cluster import SpectralClustering

    adjacency = graph.csr().toarray()
    tool = SpectralClustering(
        tenth(graph), affinity="precomputed", assign_labels="kmeans", random_state=0
    )
    return lambda: tool.fit_predict(adjacency)


def released_spectral(graph: Graph) -> Call:
    """The form of the code released with the paper: five clusters, a general eigensolver on D - A,
    k-means by cosine in Python."""
    import random

    import numpy as np

    adjacency = graph.csr().toarray()
    count = min(5, graph.num_nodes)

    def cosine(a: np.ndarray, b: np.ndarray) -> float:
        lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
        return float(np.dot(a, b)) / lengths if lengths else 0.0

    def run() -> list[int]:
        values, vectors = np.linalg.eig(np.diag(adjacency.sum(axis=1)) - adjacency)
        order = np.argsort(values.real)[1:count]
        points = vectors.real[:, order]
        centres = [points[i] for i in random.sample(range(len(points)), count)]
        of: list[int] = []
        for _ in range(100):
            before, of = of, []
            for point in points:
                near = [cosine(point, centre) for centre in centres]
                of.append(max(range(count), key=lambda c: near[c]))
            if of == before:
                break
            for c in range(count):
                members = [points[i] for i in range(len(points)) if of[i] == c]
                centres[c] = np.mean(members, axis=0) if members else centres[c]
        return of

    return run


def released_loukas(graph: Graph) -> Call:
    """Our own writing of the form that the released code has: a sparse matrix for every level, a
    Python loop over edges for their proximity, and one over the sorted edges for the matching."""
    import numpy as np
    from scipy.sparse import csr_array, diags_array, triu

    start = graph.csr()

    def proximities(weights: Any) -> list[tuple[np.float32, int, int]]:
        """Every edge after the least of 1 / max(difference squared, 1e-6) over ten vectors."""
        n = weights.shape[0]
        degrees = np.maximum(weights.sum(axis=1), 1e-12)
        walk = diags_array(1 / degrees) @ weights
        x = np.random.normal(scale=n**-0.5, size=(n, 10))
        for _ in range(20):
            x = (x + walk @ x) / 2
        rows = x.tolist()
        upper = triu(weights, format="coo")
        found = []
        for u, v in zip(upper.row.tolist(), upper.col.tolist(), strict=True):
            farthest = max((a - b) ** 2 for a, b in zip(rows[u], rows[v], strict=True))
            found.append((np.float32(1 / max(farthest, 1e-6)), u, v))
        return found

    def run() -> np.ndarray:
        weights, target = start, int(np.ceil(0.1 * graph.num_nodes))
        of = np.arange(graph.num_nodes)
        for _ in range(20):
            n = left = weights.shape[0]
            if n <= target:
                break
            partner: dict[int, int] = {}
            for _, u, v in sorted(proximities(weights), key=lambda edge: -edge[0]):
                if left > target and u not in partner and v not in partner:
                    partner[u] = partner[v] = u
                    left -= 1
            if n - left <= 2:
                break
            labels = [partner.get(u, u) for u in range(n)]
            to = np.unique(labels, return_inverse=True)[1]
            lift = csr_array((np.ones(n), (to, np.arange(n))), shape=(left, n))
            weights = lift @ weights @ lift.T
            weights = csr_array(weights - diags_array(weights.diagonal()))
            weights.eliminate_zeros()
            of = to[of]
        return of

    return run


def lean_loukas(graph: Graph) -> Call:
    """The same with dense matrices, all vectors and all edges at once."""
    import numpy as np

    start = graph.csr().toarray()

    def run() -> np.ndarray:
        weights, target = start.copy(), int(np.ceil(0.1 * graph.num_nodes))
        of = np.arange(graph.num_nodes)
        for _ in range(20):
            n = len(weights)
            if n <= target:
                break
            degrees = np.maximum(weights.sum(axis=1), 1e-12)
            x = np.random.normal(size=(n, 10)) / np.sqrt(n)
            for _ in range(20):
                x = 0.5 * x + 0.5 * (weights @ x) / degrees[:, None]
            u, v = np.nonzero(np.triu(weights))
            near = (1 / np.maximum((x[u] - x[v]) ** 2, 1e-6)).min(axis=1).astype(np.float32)
            taken = np.zeros(n, dtype=bool)
            to, left = np.arange(n), n
            for edge in np.argsort(-near):
                a, b = u[edge], v[edge]
                if left <= target:
                    break
                if not taken[a] and not taken[b]:
                    taken[a] = taken[b] = True
                    to[b] = a
                    left -= 1
            if n - left <= 2:
                break
            to = np.unique(to, return_inverse=True)[1]
            lift = np.zeros((left, n))
            lift[to, np.arange(n)] = 1
            weights = lift @ weights @ lift.T
            np.fill_diagonal(weights, 0)
            of = to[of]
        return of

    return run


def pymetis_metis(graph: Graph) -> Call:
    import pymetis

    rows = graph.csr()
    tool = pymetis.CSRAdjacency(rows.indptr, rows.indices)
    count = tenth(graph)
    return lambda: pymetis.part_graph(count, adjacency=tool, recursive=False)[1]


def networkx_graph(graph: Graph) -> Any:
    import networkx as nx

    g = nx.empty_graph(graph.num_nodes)
    g.add_edges_from(graph.edges.tolist())
    return g


def igraph_graph(graph: Graph) -> Any:
    import igraph

    # Its own generator; else it calls Python for every random number.
    igraph.set_random_number_generator(None)
    return igraph.Graph(graph.num_nodes, graph.edges)


def networkit_graph(graph: Graph) -> Any:
    import numpy as np

    networkit = one_thread_networkit()
    ends = tuple(np.ascontiguousarray(graph.edges.T))
    return networkit.GraphFromCoo(ends, n=graph.num_nodes)


@cache
def one_thread_networkit() -> Any:
    import networkit

    networkit.setNumberOfThreads(1)
    return networkit


def membership(communities: Iterable[Iterable[int]], num_nodes: int) -> list[int]:
    """The cluster of every node, from the nodes of every cluster."""
    of = [0] * num_nodes
    for cluster, nodes in enumerate(communities):
        for node in nodes:
            of[node] = cluster
    return of


# Edges beyond which a peer in Python would need an hour: of one large graph, and for newman.
LARGE = 2_000_000
SMALL = 1_000

PEERS = [
    Peer("numba, one search per node", "distances", numba_distances, "numba"),
    Peer("scipy `shortest_path`", "distances", scipy_distances, "scipy"),
    Peer("igraph `distances`", "distances", igraph_distances, "igraph"),
    Peer("networkit `APSP`", "distances", networkit_distances, "networkit"),
    Peer("networkx", "distances", networkx_distances, "networkx", share=0.1),
    Peer("igraph `community_edge_betweenness`", "newman", igraph_newman, "igraph"),
    Peer("networkx `girvan_newman`", "newman", networkx_newman, "networkx", 0.02, SMALL),
    Peer("the released loop, on networkx", "newman", released_newman, "networkx", 0.02, SMALL),
    Peer("igraph `community_multilevel`", "louvain", igraph_louvain, "igraph"),
    Peer("networkit `PLM`", "louvain", networkit_louvain, "networkit"),
    Peer("single-clustering, Rust", "louvain", None, "single-clustering"),
    Peer("networkx `louvain_communities`", "louvain", networkx_louvain, "networkx", 0.2, LARGE),
    Peer("igraph `community_leiden`", "leiden", igraph_leiden, "igraph"),
    Peer(
        "leidenalg `find_partition`", "leiden", leidenalg_leiden, "leidenalg", most_edges=5e6
    ),
    Peer("networkit `ParallelLeiden`", "leiden", networkit_leiden, "networkit"),
    Peer("single-clustering, Rust", "leiden", None, "single-clustering"),
    Peer("igraph `community_label_propagation`", "label-propagation", igraph_propagation, "igraph"),
    Peer("networkit `PLP`", "label-propagation", networkit_propagation, "networkit"),
    Peer(
        "networkx `fast_label_propagation_communities`",
        "label-propagation",
        networkx_propagation,
        "networkx",
        0.2,
        LARGE,
    ),
    Peer("scikit-learn `SpectralClustering`", "spectral", sklearn_spectral, "scikit-learn", 0.2),
    Peer("the released form, on numpy", "spectral-reference", released_spectral, "numpy", 0.2),
    Peer("the released form, on scipy", "loukas-reference", released_loukas, "scipy", 0.1),
    Peer("the same on whole arrays", "loukas-reference", lean_loukas, "numpy", 0.2),
    Peer("pymetis", "metis", pymetis_metis, "pymetis"),
]
