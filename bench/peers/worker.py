"""Measures one peer: `worker.py NUMBER GRAPHS PARTITIONS COUNT PASSES SECONDS`.

NUMBER is a position in peers.PEERS and GRAPHS a file that `peers export` wrote. PARTITIONS holds
the cluster of every node: `distances` starts from it, other tasks write it. Prints what ours.rs
prints: processor time of a pass, peak memory, and a number per graph to check distances by.
Imports, reading, conversion and compilation come before the clock starts.
"""

from __future__ import annotations

import json
import resource
import statistics
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from peers import PEERS, UNREACHABLE, Call, Graph


def read_graphs(file: str, count: int | None = None) -> list[Graph]:
    """The first graphs of an exported file."""
    words = np.fromfile(file, dtype="<u4").astype(np.int64)
    graphs, at = [], 0
    while at < len(words) and len(graphs) != count:
        n, m = map(int, words[at : at + 2])
        edges, at = words[at + 2 : at + 2 + 2 * m].reshape(m, 2), at + 2 + 2 * m
        graphs.append(Graph(n, edges))
    return graphs


def read_partitions(file: str, graphs: list[Graph]) -> list[np.ndarray]:
    """The cluster of every node, for as many graphs as the file has."""
    words = np.fromfile(file, dtype="<u4").astype(np.int64)
    ends = np.cumsum([graph.num_nodes for graph in graphs])
    ends = ends[ends <= len(words)]
    return np.split(words[: ends[-1]], ends[:-1])


def write_partitions(file: str, graphs: list[Graph], results: list[Any]) -> None:
    partitions = [np.asarray(result, dtype="<u4") for result in results]
    assert [len(of) for of in partitions] == [graph.num_nodes for graph in graphs]
    np.concatenate(partitions).tofile(file)


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


def peak_rss_bytes() -> int | None:
    """As in ours.rs."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return None
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


def main() -> None:
    number, file, clusters, count, passes, seconds = sys.argv[1:]
    peer = PEERS[int(number)]
    graphs = read_graphs(file, int(count))
    if peer.task == "distances":
        partitions = read_partitions(clusters, graphs)
        graphs = [replace(graph, clusters=of) for graph, of in zip(graphs, partitions, strict=True)]
    calls = [peer.function(graph) for graph in graphs]
    time, results = measure(calls, int(passes), float(seconds))
    peak = peak_rss_bytes()
    check = []
    if peer.task == "distances":
        check = [check_distances(*pair) for pair in zip(graphs, results, strict=True)]
    else:
        write_partitions(clusters, graphs, results)
    report = {
        "task": peer.task,
        "version": version(peer.package),
        "graphs": len(graphs),
        "seconds": time,
        "peak_rss_bytes": peak,
        "check": check,
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
