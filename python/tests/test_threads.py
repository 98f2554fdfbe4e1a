"""Threads, forks, signals, and functions as coarseners."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import networkx as nx
import numpy as np
import pytest
from conftest import python, random_edges

import hdse


def test_import_is_light():
    code = """
import os, sys
before = len(os.listdir("/proc/self/task"))
import hdse
after = len(os.listdir("/proc/self/task"))
print(after - before, [m for m in ("numpy", "torch", "scipy", "networkx") if m in sys.modules])
"""
    if not os.path.exists("/proc/self/task"):
        pytest.skip("no /proc here")
    assert python(code) == "0 []\n"


def test_frameworks_are_named_when_they_are_missing():
    code = """
import sys, hdse
sys.modules["torch"] = None  # as if it were not installed
try:
    hdse.pyg
except ImportError as error:
    print(error)
"""
    assert python(code).startswith("hdse.pyg needs torch_geometric, the extra `pyg` of hdse")


def test_no_thread_stays():
    code = """
import os, time
import numpy, hdse
before = set(os.listdir("/proc/self/task"))
for threads in (None, 1, 4):
    hdse.encode_many(hdse.read("community-small"), threads=threads)
for _ in range(100):
    left = set(os.listdir("/proc/self/task")) - before
    if not left:
        break
    time.sleep(0.05)
print(len(left))
"""
    if not os.path.exists("/proc/self/task"):
        pytest.skip("no /proc here")
    assert python(code) == "0\n"


def worker(seed):
    set_ = hdse.read("community-small")
    return hdse.encode_many(set_, coarsener="louvain", seed=seed), hdse.encode(nx.path_graph(700))


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_worker_processes(method):
    expected = worker(3)  # threads were used in the parent before it forks
    hdse.encode_many(hdse.read("community-small"), threads=4)
    with multiprocessing.get_context(method).Pool(2) as pool:
        for result in pool.map_async(worker, [3, 3, 3]).get(timeout=120):
            assert result == expected


def test_workers_use_one_thread():
    code = """
import os, threading, time
import networkx, hdse

def most_threads():
    seen, done = [], threading.Event()
    def watch():
        while not done.is_set():
            names = [open(f"/proc/self/task/{t}/comm").read() for t in os.listdir("/proc/self/task")]
            seen.append(sum(name.startswith("hdse-") for name in names))
            time.sleep(0.001)
    watcher = threading.Thread(target=watch)
    watcher.start()
    graph = networkx.gnm_random_graph(3000, 9000, seed=0)
    hdse.encode(graph, coarsener="louvain")
    done.set()
    watcher.join()
    return max(seen)

print(most_threads() > 0, flush=True)
if os.fork() == 0:
    print(most_threads(), flush=True)
    os._exit(0)
os.wait()
"""
    if not os.path.exists("/proc/self/task"):
        pytest.skip("no /proc here")
    assert python(code, env={**os.environ, "RAYON_NUM_THREADS": "2"}) == "True\n0\n"


def test_calls_from_many_threads():
    expected = hdse.encode(random_edges(0, 300, 400), 300, coarsener="louvain")
    results = []

    def work():
        for _ in range(5):
            results.append(hdse.encode(random_edges(0, 300, 400), 300, coarsener="louvain"))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(results) == 40 and all(r == expected for r in results)


def test_the_lock_is_released():
    graph = nx.gnm_random_graph(400, 2500, seed=1)
    counted, done = [0], threading.Event()

    def count():
        while not done.is_set():
            counted[0] += 1
            time.sleep(0.001)

    counter = threading.Thread(target=count)
    counter.start()
    start = counted[0]
    hdse.encode(graph, coarsener="newman")  # long enough for many turns of the other thread
    turns = counted[0] - start
    done.set()
    counter.join()
    assert turns > 3


LONG = """
import signal
# Whoever runs the tests in the background may have it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
import networkx, hdse
graph = networkx.gnm_random_graph({nodes}, {edges}, seed=0)
print("ready", flush=True)
try:
    hdse.{call}
except KeyboardInterrupt:
    print("interrupted", flush=True)
else:
    print("finished", flush=True)
"""

CALLS = [
    (1500, 30000, "encode(graph, coarsener='newman', threads=1)"),
    (1500, 30000, "encode(graph, coarsener='newman', threads=2)"),
    (1500, 30000, "encode_many([graph] * 8, coarsener='newman')"),
    (40000, 80000, "encode(graph, coarsener='louvain', levels=1, max_memory='100G', threads=1)"),
]


@pytest.mark.parametrize("nodes, edges, call", CALLS)
def test_interrupts(nodes, edges, call):
    code = LONG.format(nodes=nodes, edges=edges, call=call)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60)[0] == "interrupted\n"
    finally:
        process.kill()
        process.wait()


def test_functions_as_coarseners():
    seen = []

    def halves(edge_index, num_nodes):
        seen.append((edge_index.dtype, edge_index.shape, num_nodes))
        assert threading.current_thread() is threading.main_thread()
        return [-5 if i < num_nodes // 2 else 70 for i in range(num_nodes)]

    encoding = hdse.encode(nx.path_graph(8), coarsener=halves, levels=2)
    assert seen == [(np.int64, (2, 14), 8), (np.int64, (2, 2), 2)]
    assert encoding.clusters[:, 0].tolist() == [0] * 4 + [1] * 4
    assert encoding.coarsener.startswith("python:test_threads.test_functions_as_coarseners")
    many = hdse.encode_many([nx.path_graph(n) for n in (8, 9)], coarsener=halves)
    assert many[0].clusters[:, 0].tolist() == [0] * 4 + [1] * 4
    assert hdse.coarsen(nx.path_graph(8), coarsener=halves) == many[0].hierarchy


def test_functions_on_threads():
    def pairs(edge_index, num_nodes):
        return np.arange(num_nodes) // 2

    graphs = [nx.path_graph(n % 50 + 1) for n in range(300)]
    one = hdse.encode_many(graphs, coarsener=pairs, levels=2)
    assert one == hdse.encode_many(graphs, coarsener=pairs, levels=2, threads=4)


def test_functions_may_use_the_package():
    def louvain(edge_index, num_nodes):
        return hdse.coarsen(edge_index, num_nodes, coarsener="louvain").clusters[:, 0]

    graph = nx.connected_caveman_graph(4, 6)
    for threads in (1, 2):
        found = hdse.encode(graph, coarsener=louvain, threads=threads)
        assert found == hdse.encode(graph, coarsener="louvain")


class OwnError(Exception):
    pass


def test_errors_of_functions_are_raised_as_they_are():
    def fails(edge_index, num_nodes):
        if num_nodes > 3:
            raise OwnError(f"{num_nodes} nodes")
        return [0] * num_nodes

    for threads in (1, 3):
        graphs = [nx.path_graph(n) for n in (2, 3, 9, 7, 2, 8)]
        with pytest.raises(OwnError, match="^9 nodes") as caught:
            hdse.encode_many(graphs, coarsener=fails, threads=threads)
        if sys.version_info >= (3, 11):
            assert caught.value.__notes__ == ["in graph 2, level 1"]
    for returned, text in [([0], "gave 1 cluster ids for 3 nodes"), ([0.5] * 3, "not whole numbers")]:
        with pytest.raises(ValueError, match=text):
            hdse.encode(nx.path_graph(3), coarsener=lambda e, n: returned)
    # Shells start programs in the background with SIGINT ignored, and Python leaves it so.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.raises(KeyboardInterrupt):
        hdse.encode(nx.path_graph(3), coarsener=lambda e, n: signal.raise_signal(signal.SIGINT))
