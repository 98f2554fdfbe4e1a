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
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Row:
    """A task on the first `count` graphs of a data set."""

    task: str
    data: str
    file: str
    count: int
    passes: int = 20

    def graphs(self, peer: Peer) -> int:
        """How many graphs a peer gets."""
        return max(1, round(self.count * peer.share))


DBLP = "com-dblp/dblp.csv.gz"
LFR = "lfr/LFR_N100000_ad5_mc50_mu0.3.csv.gz"
ROWS = [
    Row("distances", "zinc", "zinc/test.parquet", 1000),
    Row("distances", "peptides-func", "peptides-func/val.parquet", 100),
    Row("distances", "pattern", "pattern/val.parquet", 50),
    Row("newman", "zinc", "zinc/test.parquet", 1000),
    Row("newman", "peptides-func", "peptides-func/val.parquet", 100),
    Row("louvain", "zinc", "zinc/test.parquet", 1000),
    Row("louvain", "com-dblp", DBLP, 1, passes=3),
    Row("louvain", "lfr, mixing 0.3", LFR, 1, passes=3),
]

TASKS = {
    "distances": "From a graph and its clusters to the bytes of both levels, "
    "two for every pair of nodes, clipped at 30. "
    "Quality: whether the finite distances of every graph sum to the same as ours.",
    "newman": "Edges of highest betweenness removed one by one, partition of highest modularity "
    "kept. Quality: mean modularity.",
    "louvain": "Greedy modularity. Quality: mean modularity.",
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


def measure(row: Row, file: Path, ours: Path, python: Path, rounds: int) -> list[Line]:
    """Ours first, then every peer; tools take turns, so that a noisy minute hits all of them."""
    peers = [(number, peer) for number, peer in enumerate(PEERS) if peer.task == row.task]
    counts = sorted({row.count, *(row.graphs(peer) for _, peer in peers)}, reverse=True)
    ours_runs: dict[int, list[dict[str, Any]]] = {count: [] for count in counts}
    peer_runs: dict[int, list[dict[str, Any]]] = {number: [] for number, _ in peers}
    with tempfile.TemporaryDirectory() as folder:
        exported = Path(folder) / "graphs"
        with exported.open("wb") as out:
            export = [ours, "export", file, "--count", str(row.count)]
            subprocess.run(export, stdout=out, check=True)
        for _ in range(rounds):
            for count, runs in ours_runs.items():
                options = ["--count", count, "--repeat", row.passes]
                runs.append(common.run_json([ours, row.task, file, *options]))
            for number, peer in peers:
                if any(run["seconds"] > SLOW_SECONDS for run in peer_runs[number]):
                    continue
                options = [row.graphs(peer), row.passes, PASS_SECONDS]
                worker = [python, HERE / "worker.py", number, exported, *options]
                peer_runs[number].append(common.run_json(worker))
    first = Line("**hdse**", ours_runs[row.count], ours_runs[row.count])
    others = [
        Line(peer.name, peer_runs[number], ours_runs[row.graphs(peer)]) for number, peer in peers
    ]
    return [first, *others]


# ---- writing


def quality(task: str, line: Line) -> str:
    """Whether results agree, or how good they are."""
    check, ours = line.runs[0]["check"], line.ours[0]["check"]
    if task == "distances":
        return "equal" if check == ours else "**DIFFERENT**"
    return f"{statistics.mean(check):.4f}"


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
            subset += f", ours there {statistics.mean(line.ours[0]['check']):.4f}"
        parts.append(subset)
    if len(line.runs) < len(line.ours):
        parts.append("one run")
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
                "" if line is lines[0] and task == "distances" else quality(task, line),
                note(row, line),
            ]
            yield f"| {' | '.join(cells)} |"
    yield ""


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
    rows = [row for row in ROWS if options.only in (None, row.task)]
    if options.quick:
        rows = [
            Row(row.task, row.data, row.file, min(row.count, QUICK_GRAPHS), passes=3)
            for row in rows
            if row.count > 1
        ]
    return rows


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
    parser.add_argument("--data", help="folder of the data sets (else HDSE_DATA, ../shared/data)")
    options = parser.parse_args()

    data = common.data_folder(options.data)
    python, ours = environment(), common.build_ours()
    results, skipped = [], []
    for row in chosen_rows(options):
        file = data / row.file
        if not file.exists():
            print(f"skipped {row.task} on {row.data}: no {file}")
            skipped.append(row)
            continue
        print(f"{row.task} on {row.data}", flush=True)
        results.append((row, measure(row, file, ours, python, 1 if options.quick else ROUNDS)))
    if not results:
        sys.exit(f"nothing to measure: no data set in {data}")
    text = section(results, skipped)
    if options.quick or options.only:
        print(text)
    else:
        common.replace_section("peers", "Beside other software", text)
    if wrong := differences(results):
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
