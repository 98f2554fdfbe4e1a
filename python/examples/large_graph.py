"""You have one large graph: columns node → cluster at several levels, and a small table of distances.

    python large_graph.py                  # a generated graph of 50,000 nodes
    python large_graph.py edges.csv.gz     # yours; any format of `hdse list formats`

All pairs of 50,000 nodes would take 2.5 GB per level; distances between clusters take kilobytes.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import hdse


def generated(nodes=50_000, blocks=200):
    """A block model: most edges stay within a block of nodes."""
    rng = np.random.default_rng(0)
    source = rng.integers(0, nodes, 4 * nodes)
    within = source // (nodes // blocks) * (nodes // blocks) + rng.integers(0, nodes // blocks, 4 * nodes)
    target = np.where(rng.random(4 * nodes) < 0.9, within, rng.integers(0, nodes, 4 * nodes))
    return hdse.Graph(np.stack([source, target]), nodes)


if __name__ == "__main__":
    graph = hdse.read(sys.argv[1], features=False)[0] if len(sys.argv) > 1 else generated()
    high = hdse.high_level(graph, coarsener="louvain", levels=2)
    print(high)
    print("nodes and clusters per level:", high.hierarchy.num_clusters)
    print("quality of level 1:", {k: round(v, 3) for k, v in high.hierarchy.quality(1).items()})

    # A column per level, to join to a table of nodes; and the table that attention looks up.
    print("clusters of the first nodes:", high.clusters[:3].tolist())
    node, cluster = 17, 0
    print(f"node {node} to cluster {cluster}:", high.distances[high.cluster_of[node], cluster].tolist())

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "clusters.npz")
        np.savez(path, clusters=high.clusters, distances=high.distances)
        print(f"saved: {path.stat().st_size / 1e6:.1f} MB")

    try:
        hdse.encode(graph, coarsener="louvain", max_memory="1G")
    except MemoryError as error:
        print("all pairs instead:", error)
