"""Measures one peer in a process of its own: `worker.py NUMBER GRAPHS COUNT PASSES SECONDS`.

NUMBER is a position in peers.PEERS and GRAPHS a file that `peers export` wrote. Prints what ours.rs
prints: processor time of a pass, peak memory, and a number per graph to check results by. Imports,
reading, conversion and compilation come before the clock starts.
"""

from __future__ import annotations

import json
import resource
import statistics
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from peers import PEERS, UNREACHABLE, Call, Graph


def read_graphs(file: str, count: int) -> list[Graph]:
    """The first graphs of an exported file."""
    words = np.fromfile(file, dtype="<u4").astype(np.int64)
    graphs, at = [], 0
    while at < len(words) and len(graphs) < count:
        n, m = map(int, words[at : at + 2])
        edges, at = words[at + 2 : at + 2 + 2 * m].reshape(m, 2), at + 2 + 2 * m
        clusters, at = words[at : at + n], at + n
        graphs.append(Graph(n, edges, clusters))
    return graphs


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def measure(calls: list[Call], passes: int, seconds: float) -> tuple[float, list[Any]]:
    """Median of some passes, fewer if `seconds` are used up before; results of the first."""
    times: list[float] = []
    results: list[Any] = []
    while len(times) < passes and sum(times) < seconds:
        start = cpu_seconds()
        outcomes = [call() for call in calls]
        times.append(cpu_seconds() - start)
        results = results or outcomes
    return statistics.median(times), results


def check_distances(graph: Graph, result: np.ndarray) -> float:
    """Sum of the finite distances, both levels."""
    assert result.shape == (graph.num_nodes, graph.num_nodes, 2) and result.dtype == np.uint8
    return float(result[result != UNREACHABLE].sum(dtype=np.int64))


def check_communities(graph: Graph, result: list[int]) -> float:
    """Modularity Σ_c (w_c / m − (deg_c / 2m)²)."""
    of = np.asarray(result)
    assert of.shape == (graph.num_nodes,)
    m = len(graph.edges)
    ends = of[graph.edges]
    inside = np.count_nonzero(ends[:, 0] == ends[:, 1])
    degree = np.bincount(ends.ravel())
    return float(inside / m - np.square(degree / (2 * m)).sum()) if m else 0.0


def peak_rss_bytes() -> int | None:
    """As in ours.rs."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return None
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


def main() -> None:
    number, file, count, passes, seconds = sys.argv[1:]
    peer = PEERS[int(number)]
    graphs = read_graphs(file, int(count))
    calls = [peer.function(graph) for graph in graphs]
    time, results = measure(calls, int(passes), float(seconds))
    peak = peak_rss_bytes()
    check = check_distances if peer.task == "distances" else check_communities
    report = {
        "task": peer.task,
        "version": version(peer.package),
        "graphs": len(graphs),
        "seconds": time,
        "peak_rss_bytes": peak,
        "check": [check(graph, result) for graph, result in zip(graphs, results, strict=True)],
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
