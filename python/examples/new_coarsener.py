"""You have an idea for a coarsener: one function, and a table against those that are there.

    python new_coarsener.py

A function gets the arcs [2, E] and the number of nodes, and returns a cluster id per node; any whole numbers
will do. Once it is good, it becomes one file in Rust (CONTRIBUTING.md).
"""

import time

import numpy as np

import hdse


def heavy_edges(edge_index, num_nodes):
    """Joins every free node to its free neighbour of highest degree."""
    degree = np.bincount(edge_index[0], minlength=num_nodes)
    cluster = np.full(num_nodes, -1)
    order = np.argsort(degree, kind="stable")
    neighbors = np.split(edge_index[1], np.cumsum(degree)[:-1])  # arcs are listed by source
    for node in order:
        if cluster[node] >= 0:
            continue
        free = [v for v in neighbors[node] if cluster[v] < 0]
        cluster[node] = node
        if free:
            cluster[max(free, key=lambda v: degree[v])] = node
    return cluster


def row(name, coarsener, graphs):
    start = time.perf_counter()
    levels = [hdse.coarsen(graph, coarsener=coarsener, levels=2) for graph in graphs]
    seconds = time.perf_counter() - start
    modularity = np.mean([level.quality(1)["modularity"] for level in levels])
    clusters = np.mean([level.num_clusters for level in levels], axis=0)
    encoding = hdse.encode_many(graphs, coarsener=coarsener, levels=2)
    far = np.where(encoding.distances == hdse.UNREACHABLE, 0, encoding.distances).max(axis=0)
    print(f"{name:18}{modularity:11.3f}{clusters[1]:10.1f}{clusters[2]:10.1f}   {far}{1e3 * seconds:9.1f}")


if __name__ == "__main__":
    graphs = list(hdse.read("community-small"))
    print(f"{len(graphs)} graphs of {np.mean([g.num_nodes for g in graphs]):.0f} nodes")
    print("coarsener          modularity   level 1   level 2   farthest       ms")
    row("heavy_edges", heavy_edges, graphs)
    for coarsener in hdse.coarseners():
        row(coarsener.name, coarsener.name, graphs)
