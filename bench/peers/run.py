"""Sets this crate beside other software and writes the section `peers` of docs/benchmarks.md.

See README.md in this folder. Needs Rust and Python 3.11; the other software is installed into an
environment outside the checkout.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import common
from peers import PEERS, Peer

HERE = Path(__file__).resolve().parent
ROUNDS = 3
# A peer that took this long is not run again.
SLOW_SECONDS = 20.0
# No further pass starts in a peer's process that has used this much.
PASS_SECONDS = 2.0
QUICK_GRAPHS = 20
QUICK_NODES = 20_000


@dataclass(frozen=True)
class Row:
    """A task on the first `count` graphs of a data set."""

    task: str
    data: str
    file: str  # or the name of a generated graph
    count: int
    passes: int = 20
    # Told beside modularity: "NMI" with planted communities, or "conductance".
    measure: str = ""

    @property
    def generated(self) -> bool:
        return "/" not in self.file

    def graphs(self, peer: Peer) -> int:
        """How many graphs a peer gets."""
        return max(1, round(self.count * peer.share))


def single_graphs(task: str) -> list[Row]:
    """The large graphs, one by one."""
    lfr = "lfr/LFR_N100000_ad5_mc50_mu0.3.csv.gz"
    return [
        Row(task, "com-dblp", "com-dblp/dblp.csv.gz", 1, passes=3, measure="conductance"),
        Row(task, "lfr, mixing 0.3", lfr, 1, passes=3, measure="NMI"),
        Row(task, "power-law, 612k nodes, 15 M edges", "power-law", 1, passes=1, measure="NMI"),
    ]


ZINC = "zinc/test.parquet"
PEPTIDES = "peptides-func/val.parquet"
PATTERN = "pattern/val.parquet"
ROWS = [
    Row("distances", "zinc", ZINC, 1000),
    Row("distances", "peptides-func", PEPTIDES, 100),
    Row("distances", "pattern", PATTERN, 50),
    Row("newman", "zinc", ZINC, 1000),
    Row("newman", "peptides-func", PEPTIDES, 100),
    Row("newman", "pattern", PATTERN, 2, passes=3),
    Row("louvain", "zinc", ZINC, 1000),
    Row("louvain", "peptides-func", PEPTIDES, 100),
    *single_graphs("louvain"),
    Row("leiden", "zinc", ZINC, 1000),
    Row("leiden", "peptides-func", PEPTIDES, 100),
    *single_graphs("leiden"),
    Row("label-propagation", "zinc", ZINC, 1000),
    *single_graphs("label-propagation"),
    *[
        Row(task, data, file, count)
        for task in ("spectral", "spectral-reference", "loukas-reference", "metis")
        for data, file, count in [("zinc", ZINC, 1000), ("pattern", PATTERN, 50)]
    ],
]

TASKS = {
    "distances": "From a graph and its clusters to the bytes of both levels, "
    "two for every pair of nodes, clipped at 30. "
    "Quality: whether the finite distances of every graph sum to the same as ours.",
    "newman": "Edges of highest betweenness removed one by one, partition of highest modularity "
    "kept. Quality: mean modularity.",
    "louvain": "Nodes moved to where modularity grows most, clusters merged, repeated. "
    "Quality: mean modularity; also the normalised mutual information (NMI) with the communities "
    "that a graph was made with, or the mean conductance of clusters (less is better).",
    "leiden": "As Louvain, with clusters refined before they are merged, so that they are "
    "connected. Two iterations, where the tool has such a number; networkit runs up to three. "
    "Quality as for Louvain.",
    "label-propagation": "Every node takes the label most of its neighbours have, until nothing "
    "or next to nothing changes, without a limit on sizes. Quality as for Louvain, though it does "
    "not look for modularity.",
    "spectral": "k-means on the lowest eigenvectors of the normalised Laplacian, as many clusters "
    "as a tenth of the nodes. Quality as for Louvain.",
    "spectral-reference": "The form of the paper's released code: five clusters by the angle of "
    "eigenvectors of D - A.",
    "loukas-reference": "The form of the paper's released code: levels of matchings by algebraic "
    "distance down to a tenth of the nodes. That code is not a package and needs numpy before "
    "1.24, so the peers are our own writing of its form: with sparse matrices and Python loops "
    "over edges, and once more without these, on whole arrays.",
    "metis": "Parts of equal size with few edges between, a tenth as many as nodes.",
}

# What ours runs, where that is not the default: what the peers do.
OURS = {
    "leiden": "leiden:iterations=2",
    "label-propagation": "label-propagation:max_size=none",
    "spectral-reference": "spectral:clusters=5,variant=reference",
    "loukas-reference": "loukas:variant=algebraic-jc",
}


@dataclass
class Line:
    """All runs of one tool, and of ours on the same graphs."""

    tool: str
    runs: list[dict[str, Any]]
    ours: list[dict[str, Any]]

    @property
    def seconds(self) -> float:
        """Per graph."""
        return median("seconds", self.runs) / self.runs[0]["graphs"]

    @property
    def ratio(self) -> float:
        return median("seconds", self.runs) / median("seconds", self.ours)


def median(key: str, runs: list[dict[str, Any]]) -> float:
    return statistics.median(run[key] for run in runs)


# ---- measuring


def environment() -> Path:
    """The Python that has the peers, installed if it is not yet, or with other versions."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(os.environ.get("HDSE_PEERS_VENV") or cache / "hdse" / "peers-venv")
    python, stamp = folder / "bin" / "python", folder / "requirements.txt"
    wanted = (HERE / "requirements.txt").read_text()
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"installing the peers into {folder}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        install = [python, "-m", "pip", "install", "--quiet", "-r", HERE / "requirements.txt"]
        subprocess.run(install, check=True)
        stamp.write_text(wanted)
    return python


def peer_command(number: int, python: Path) -> list[Any]:
    """The program that measures a peer; its further arguments are the same for all."""
    peer = PEERS[number]
    if peer.function is None:
        return [common.build_rust_peers(), peer.package, peer.task]
    return [python, HERE / "worker.py", number]


def measure(row: Row, file: str, ours: Path, python: Path, rounds: int) -> list[Line]:
    """Ours first, then every peer; tools take turns, so that a noisy minute hits all of them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        graphs, partitions = folder / "graphs", folder / "partitions"
        export = [ours, "export", file, "--count", row.count, "--out", graphs]
        most_edges = common.run_json(export)["most_edges"]
        planted = [planted_file(row, file, ours, folder)] if row.measure == "NMI" else []

        def run(command: list[Any], runs: list[dict[str, Any]]) -> None:
            runs.append(common.run_json(command))
            if row.task != "distances" and len(runs) == 1:
                look = [python, HERE / "quality.py", graphs, partitions, *planted]
                runs[0]["quality"] = common.run_json(look)

        if row.task == "distances":  # what it starts from
            command = [ours, "louvain", file, "--count", row.count, "--out", partitions]
            common.run_json(command)
        out = [] if row.task == "distances" else ["--out", partitions]
        peers = [
            (number, peer)
            for number, peer in enumerate(PEERS)
            if peer.task == row.task and most_edges <= peer.most_edges
        ]
        counts = sorted({row.count, *(row.graphs(peer) for _, peer in peers)}, reverse=True)
        ours_runs: dict[int, list[dict[str, Any]]] = {count: [] for count in counts}
        peer_runs: dict[int, list[dict[str, Any]]] = {number: [] for number, _ in peers}
        for _ in range(rounds):
            for count, runs in ours_runs.items():
                options = ["--count", count, "--repeat", row.passes, *out]
                run([ours, OURS.get(row.task, row.task), file, *options], runs)
            for number, peer in peers:
                if any(run["seconds"] > SLOW_SECONDS for run in peer_runs[number]):
                    continue
                options = [graphs, partitions, row.graphs(peer), row.passes, PASS_SECONDS]
                run([*peer_command(number, python), *options], peer_runs[number])
    first = Line("**hdse**", ours_runs[row.count], ours_runs[row.count])
    others = [
        Line(peer.name, peer_runs[number], ours_runs[row.graphs(peer)]) for number, peer in peers
    ]
    return [first, *others]


def planted_file(row: Row, file: str, ours: Path, folder: Path) -> str:
    """The communities a graph was made with: beside its file, or told by the generator."""
    if not row.generated:
        return file.replace(".csv.gz", ".json.gz")
    planted = str(folder / "planted")
    subprocess.run([ours, "planted", file, "--out", planted], check=True)
    return planted


# ---- writing


def quality(row: Row, line: Line) -> str:
    """Whether results agree, or how good they are."""
    if row.task == "distances":
        return "equal" if line.runs[0]["check"] == line.ours[0]["check"] else "**DIFFERENT**"
    return quality_text(row, line.runs[0]["quality"])


def quality_text(row: Row, values: dict[str, Any]) -> str:
    text = f"{statistics.mean(values['modularity']):.4f}"
    return f"{text}, {row.measure} {values[row.measure]:.2f}" if row.measure else text


def time_text(seconds: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if seconds * factor >= 1.0:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def ratio_text(ratio: float) -> str:
    text = f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.1f}" if ratio >= 10 else f"{ratio:.2f}"
    return f"**{text}**" if ratio < 1 else text


def memory_text(runs: list[dict[str, Any]]) -> str:
    if runs[0]["peak_rss_bytes"] is None:
        return "–"
    return f"{median('peak_rss_bytes', runs) / 2**20:.0f} MiB"


def note(row: Row, line: Line) -> str:
    """What is special about a measurement."""
    graphs = line.runs[0]["graphs"]
    parts = []
    if graphs < row.count:
        subset = "first graph" if graphs == 1 else f"first {graphs} graphs"
        if row.task != "distances":
            subset += f", ours there {quality_text(row, line.ours[0]['quality'])}"
        parts.append(subset)
    if len(line.runs) < len(line.ours):
        parts.append("one run" if len(line.runs) == 1 else f"{len(line.runs)} runs")
    return "; ".join(parts)


def table(task: str, results: list[tuple[Row, list[Line]]]) -> Iterator[str]:
    yield f"### {task}\n\n{TASKS[task]}\n"
    yield "| data | tool | version | CPU time per graph | × ours | peak memory | quality | note |"
    yield "|---|---|---|---:|---:|---:|---|---|"
    for row, lines in results:
        for line in lines:
            graphs = "1 graph" if row.count == 1 else f"{row.count:,} graphs"
            cells = [
                f"{row.data}, {graphs}" if line is lines[0] else "",
                line.tool,
                line.runs[0]["version"],
                time_text(line.seconds),
                "1" if line is lines[0] else ratio_text(line.ratio),
                memory_text(line.runs),
                "" if line is lines[0] and task == "distances" else quality(row, line),
                note(row, line),
            ]
            yield f"| {' | '.join(cells)} |"
    yield ""
    if absent := not_run(task, results):
        yield f"Not run, for it would take too long: {'; '.join(absent)}.\n"


def not_run(task: str, results: list[tuple[Row, list[Line]]]) -> list[str]:
    return [
        f"{peer.name} on {row.data}"
        for peer in PEERS
        for row, lines in results
        if peer.task == task and peer.name not in [line.tool for line in lines]
    ]


def section(results: list[tuple[Row, list[Line]]], skipped: list[Row]) -> str:
    faster = [
        f"{line.tool} at {row.task} on {row.data} ({line.ratio:.2f} × our time)"
        for row, lines in results
        for line in lines[1:]
        if line.ratio < 1
    ]
    parts = [
        "Written by `make bench-peers`; do not edit. How it is measured: "
        "[bench/peers](../bench/peers/README.md). All tools on one thread. CPU time is the median "
        "over alternating runs, without start, reading and compilation; peak memory is of the "
        "whole process, with interpreter and input.\n",
        f"Machine: {common.machine()}; rustc {common.rustc()}, "
        f"Python {'.'.join(map(str, sys.version_info[:2]))}.\n",
        f"Faster than ours: {'; '.join(faster) if faster else 'none of these'}.\n",
    ]
    if skipped:
        names = sorted({f"{row.data} ({row.file})" for row in skipped})
        parts.append(f"Skipped, data not there: {', '.join(names)}.\n")
    for task in TASKS:
        of_task = [(row, lines) for row, lines in results if row.task == task]
        if of_task:
            parts += table(task, of_task)
    return "\n".join(parts)


# ---- the command


def chosen_rows(options: argparse.Namespace) -> list[Row]:
    named = options.on or ""
    rows = [r for r in ROWS if options.only in (None, r.task) and r.data.startswith(named)]
    if options.quick:
        rows = [quick_row(row) for row in rows if row.generated or row.count > QUICK_GRAPHS]
    return rows


def quick_row(row: Row) -> Row:
    if row.generated:
        small = f"{row.file}:{QUICK_NODES}"
        return replace(row, data=small, file=small)
    return replace(row, count=QUICK_GRAPHS, passes=3)


def differences(results: list[tuple[Row, list[Line]]]) -> list[str]:
    return [
        f"{line.tool} and ours differ at {row.task} on {row.data}"
        for row, lines in results
        for line in lines
        if row.task == "distances" and line.runs[0]["check"] != line.ours[0]["check"]
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few graphs, one round; only printed")
    parser.add_argument("--only", choices=TASKS, help="one task; only printed")
    parser.add_argument("--on", help="data sets whose name starts with this; only printed")
    parser.add_argument("--data", help="folder of the data sets (else HDSE_DATA, ../shared/data)")
    options = parser.parse_args()

    data = common.data_folder(options.data)
    python, ours = environment(), common.build_ours()
    results, skipped = [], []
    for row in chosen_rows(options):
        file = row.file if row.generated else str(data / row.file)
        if not row.generated and not Path(file).exists():
            print(f"skipped {row.task} on {row.data}: no {file}")
            skipped.append(row)
            continue
        print(f"{row.task} on {row.data}", flush=True)
        results.append((row, measure(row, file, ours, python, 1 if options.quick else ROUNDS)))
    if not results:
        sys.exit(f"nothing to measure: no data set in {data}")
    text = section(results, skipped)
    if options.quick or options.only or options.on:
        print(text)
    else:
        common.replace_section("peers", "Beside other software", text)
    if wrong := differences(results):
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
