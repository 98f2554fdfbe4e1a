"""Counts the instructions of the kernels, for machines too noisy to compare times.

Runs every case under callgrind with one pass and with none; the difference is the pass alone.
Prints how that differs from instructions.json, then writes it there and into the section
`instructions` of docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import common

COUNTS = Path(__file__).resolve().parent / "instructions.json"
# Task, data set, file (none: generated in memory).
CASES = [
    ("distances", "community-small", None),
    ("newman", "community-small", None),
    ("louvain", "community-small", None),
    ("distances", "zinc", "zinc/test.parquet"),
    ("newman", "zinc", "zinc/test.parquet"),
    ("louvain", "zinc", "zinc/test.parquet"),
    ("leiden", "zinc", "zinc/test.parquet"),
    ("label-propagation", "zinc", "zinc/test.parquet"),
    ("read", "zinc", "zinc/test.parquet"),
]


def instructions(ours: Path, task: str, source: str, passes: int) -> int:
    """Instructions of a whole run."""
    callgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    command = [*callgrind, str(ours), task, source, "--repeat", str(passes)]
    done = subprocess.run(command, capture_output=True, text=True)
    collected = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or not collected:
        sys.exit(f"failed: {' '.join(command)}\n{done.stderr}")
    return int(collected[1])


def count_all(ours: Path, data: Path) -> dict[str, float]:
    """Millions of instructions per pass, by task and data set."""
    counts = {}
    for task, name, file in CASES:
        source = data / file if file else name
        if file and not (data / file).exists():
            print(f"skipped {task} on {name}: no {source}")
            continue
        once, never = (instructions(ours, task, str(source), passes) for passes in (1, 0))
        counts[f"{task} on {name}"] = round((once - never) / 1e6, 3)
    return counts


def print_difference(known: dict[str, float], counts: dict[str, float]) -> None:
    print(f"{'millions of instructions':32} {'known':>10} {'now':>10} {'change':>9}")
    for case, now in counts.items():
        before = known.get(case)
        beside = f"{before:10.3f}" if before else f"{'–':>10}"
        change = f"{now / before - 1:+9.2%}" if before else f"{'new':>9}"
        print(f"{case:32} {beside} {now:10.3f} {change}")


def section(counts: dict[str, float]) -> str:
    lines = [
        "Written by `make bench-instructions`; do not edit. Millions of instructions for one pass "
        "over all graphs of the set (community-small 100, zinc 1,000), counted by callgrind. "
        "Unlike times they hardly change from run to run; they do change with the compiler.\n",
        f"rustc {common.rustc()}.\n",
        "| task | millions of instructions |",
        "|---|---:|",
        *(f"| {case} | {count:,.2f} |" for case, count in counts.items()),
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder of the data sets (else HDSE_DATA, ../shared/data)")
    parser.add_argument(
        "--dry-run", action="store_true", help="print the difference, write nothing"
    )
    options = parser.parse_args()
    if not shutil.which("valgrind"):
        sys.exit("valgrind is not installed")

    counts = count_all(common.build_ours(), common.data_folder(options.data))
    known = json.loads(COUNTS.read_text()) if COUNTS.exists() else {"millions": {}}
    print_difference(known["millions"], counts)
    if options.dry_run:
        return
    # What could not be counted here, for want of data, stays as it was.
    counts = known["millions"] | counts
    COUNTS.write_text(json.dumps({"rustc": common.rustc(), "millions": counts}, indent=2) + "\n")
    common.replace_section("instructions", "Instructions", section(counts))


if __name__ == "__main__":
    main()
