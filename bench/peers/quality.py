"""How good partitions are, by one formula for all tools: `quality.py GRAPHS PARTITIONS [PLANTED]`.

GRAPHS is a file that `peers export` wrote, PARTITIONS one with the cluster of every node of its
first graphs. PLANTED, for one graph, holds true communities in the same form, or is a .json.gz with
the nodes of every community. Prints the modularity of every graph, the mean conductance of all
clusters, and the normalised mutual information with the true communities.
"""

from __future__ import annotations

import gzip
import json
import sys

import numpy as np
from peers import Graph, membership
from worker import read_graphs, read_partitions


def modularity(graph: Graph, of: np.ndarray) -> float:
    """Σ_c (w_c / m − (deg_c / 2m)²)."""
    m = len(graph.edges)
    ends = of[graph.edges]
    inside = np.count_nonzero(ends[:, 0] == ends[:, 1])
    degree = np.bincount(ends.ravel())
    return float(inside / m - np.square(degree / (2 * m)).sum()) if m else 0.0


def conductances(graph: Graph, of: np.ndarray) -> np.ndarray:
    """cut / min(deg, 2m − deg) of every cluster, but those that have no edge, or all of them."""
    ends = of[graph.edges]
    degree = np.bincount(ends.ravel(), minlength=len(of))
    cut = np.bincount(ends[ends[:, 0] != ends[:, 1]].ravel(), minlength=len(of))
    smaller = np.minimum(degree, 2 * len(ends) - degree)
    return cut[smaller > 0] / smaller[smaller > 0]


def mutual_information(a: np.ndarray, b: np.ndarray) -> float:
    """Divided by the mean of both entropies."""

    def entropy(labels: np.ndarray) -> float:
        share = np.unique(labels, return_counts=True)[1] / len(labels)
        return float(-(share * np.log(share)).sum())

    mean = (entropy(a) + entropy(b)) / 2
    both = entropy(a * (b.max() + 1) + b)
    return (2 * mean - both) / mean if mean else 1.0


def read_planted(file: str, num_nodes: int) -> np.ndarray:
    if not file.endswith(".json.gz"):
        return np.fromfile(file, dtype="<u4").astype(np.int64)
    with gzip.open(file) as text:
        return np.array(membership(json.load(text)["communities"], num_nodes))


def main() -> None:
    graphs = read_graphs(sys.argv[1])
    partitions = read_partitions(sys.argv[2], graphs)
    pairs = list(zip(graphs, partitions))  # a tool may have had fewer graphs
    of_clusters = np.concatenate([conductances(*pair) for pair in pairs])
    report = {
        "modularity": [modularity(*pair) for pair in pairs],
        "conductance": float(of_clusters.sum() / max(len(of_clusters), 1)),
    }
    if len(sys.argv) > 3:
        planted = read_planted(sys.argv[3], graphs[0].num_nodes)
        report["NMI"] = mutual_information(planted, partitions[0])
    print(json.dumps(report))


if __name__ == "__main__":
    main()
