"""What the Python package costs on ZINC (12,000 molecules): prints medians of several rounds.

    python zinc.py [FOLDER]      # zinc/ in HDSE_DATA, else beside the checkout

Figures are wall time and, since machines have other things to do, CPU time. `make bench-python` builds the
wheel optimised and runs this.
"""

import os
import pathlib
import statistics
import sys
import time

import numpy as np

import hdse

ROUNDS = 7


def median(work, rounds=ROUNDS):
    """Wall and CPU seconds."""
    wall, cpu = [], []
    for _ in range(rounds):
        start, used = time.perf_counter(), time.process_time()
        work()
        wall.append(time.perf_counter() - start)
        cpu.append(time.process_time() - used)
    return statistics.median(wall), statistics.median(cpu)


def show(name, figures, bound, unit="s", scale=1.0):
    wall, cpu = (f"{scale * x:.2f} {unit}" for x in figures)
    print(f"{name:52}{wall:>12}{cpu:>12}   {bound}")


def folder():
    if len(sys.argv) > 1:
        return pathlib.Path(sys.argv[1])
    root = pathlib.Path(__file__).parents[2]
    return pathlib.Path(os.environ.get("HDSE_DATA", root.parent / "shared" / "data"), "zinc")


def main():
    files = [folder() / f"{part}.parquet" for part in ("train", "val", "test")]
    if not files[0].exists():
        sys.exit(f"skipped: no {files[0]}")
    samples = [sample for file in files for sample in hdse.read(file)]
    graphs = [(np.array(sample.edge_index), sample.num_nodes) for sample in samples]
    count = len(graphs)
    print(f"hdse {hdse.__version__}, {count} graphs, {os.cpu_count()} cores\n")
    print(f"{'':52}{'wall':>12}{'CPU':>12}   to hold")
    for threads in (1, 2):
        work = lambda: hdse.encode_many(graphs, threads=threads)  # noqa: E731
        show(f"encode_many, newman, {threads} thread(s)", median(work), "≤ 1.2 s" if threads == 2 else "")

    # The cost of a call: what is left when the work itself is next to nothing.
    edge, rounds = np.array([[0, 1], [1, 0]]), 20_000
    def calls():
        for _ in range(rounds):
            hdse.encode(edge, 2, levels=0)
    show("a call of encode, two nodes, levels=0", median(calls), "≤ 15 µs", "µs", 1e6 / rounds)
    one = median(lambda: [hdse.encode(edges, n) for edges, n in graphs], 3)
    many = median(lambda: hdse.encode_many(graphs, threads=1), 3)
    extra = tuple(a - b for a, b in zip(one, many))
    show("encode one by one, more than encode_many, per graph", extra, "≤ 15 µs", "µs", 1e6 / count)

    try:
        import torch
        from torch_geometric.data import Data

        from hdse.pyg import AddHDSE
    except ImportError:
        print("AddHDSE: skipped, torch_geometric is not installed")
        return
    dataset = [
        Data(
            x=torch.from_numpy(np.array(sample.node_feat)),
            edge_index=torch.from_numpy(edges),
            edge_attr=torch.from_numpy(np.array(sample.edge_attr)),
            y=torch.from_numpy(np.array(sample.y)),
        )
        for sample, (edges, _) in zip(samples, graphs)
    ]
    transform = AddHDSE()
    show("AddHDSE over a list of Data", median(lambda: [transform(d) for d in dataset], 3), "≤ 6 s")


if __name__ == "__main__":
    main()
