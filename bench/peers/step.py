"""Sets our training steps beside PyTorch's and writes the section `step` of docs/benchmarks.md.

See README.md in this folder. Needs Rust, Python 3.11, and an environment with PyTorch and PyTorch
Geometric, which `make test-torch` makes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import common

HERE = Path(__file__).resolve().parent
ROUNDS = 3
THREADS = (1, 2)
# The forms of step_torch.py; what torch.compile does not finish by then is not measured.
FORMS = ("released", "table", "compiled")
SECONDS = 1200
# What losses of the first steps may differ by, relatively, or a row is void.
TOLERANCE = 1e-4
CHECKED_STEPS = 3
# Memory that is freed stays with the process, for all rows alike: fresh pages cost much time.
ALLOCATOR = {
    "MALLOC_TOP_PAD_": str(2**26),
    "MALLOC_MMAP_THRESHOLD_": str(2**32),
    "MALLOC_TRIM_THRESHOLD_": str(2**34),
}
# Nothing random but the seed's weights and order; and a learning rate from the first step on.
PLAIN = ["model.dropout=0", "model.attention_dropout=0", "train.schedule.warmup=0"]


# Of a step, in the words of `hdse bench step`.
PARTS = ("waiting", "forward", "loss", "backward", "clip", "optimizer")


@dataclass(frozen=True)
class Experiment:
    name: str
    data: str
    config: str
    steps: int
    warmup: int
    plain: tuple[str, ...] = ()


EXPERIMENTS = [
    Experiment("GraphGPS with GINE and RWSE", "zinc", "gps-zinc", 30, 8),
    Experiment(
        "GraphGPS with GatedGCN and LapPE",
        "peptides-func",
        "gps-peptides-func",
        10,
        4,
        ("model.encoding.lappe.random_signs=false",),
    ),
]

NAMES = {
    "ours": "**hdse**",
    "plain": "hdse without the bias",
    "released": "PyTorch, as released",
    "table": "PyTorch, table",
    "compiled": "PyTorch, table, compiled",
}


@dataclass
class Result:
    """What was found for one experiment."""

    experiment: Experiment
    # Largest relative difference of losses to ours, by form, and of ours to double precision.
    differences: dict[str, float] = field(default_factory=dict)
    exact: dict[str, float] = field(default_factory=dict)
    # By threads and row.
    runs: dict[tuple[int, str], list[dict[str, Any]]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    @property
    def void(self) -> list[str]:
        return [form for form, value in self.differences.items() if not value <= TOLERANCE]


class Failed(Exception):
    """A process that ended badly, or not in time."""


# ---- measuring


class Runner:
    def __init__(self, ours: Path, python: Path, data: Path) -> None:
        self.ours, self.python, self.data = ours, python, data

    def run(self, command: list[Any], threads: int) -> dict[str, Any]:
        """Runs a program that prints a JSON object, on so many threads."""
        numbers = {name: str(threads) for name in common.ONE_THREAD}
        environment = os.environ | numbers | ALLOCATOR | {"HDSE_DATA": str(self.data)}
        words = [str(word) for word in command]
        try:
            done = subprocess.run(
                words, env=environment, capture_output=True, text=True, timeout=SECONDS
            )
        except subprocess.TimeoutExpired as error:
            raise Failed(f"not done after {SECONDS} s") from error
        if done.returncode != 0:
            raise Failed((done.stderr.strip() or "no message").splitlines()[-1])
        return json.loads(done.stdout)

    def bench(
        self, experiment: Experiment, changes: list[str], options: list[Any], threads: int = 1
    ) -> dict[str, Any]:
        config = common.ROOT / "configs" / f"{experiment.config}.toml"
        command = [self.ours, "bench", "step", config, *changes, "--threads", threads, "--json"]
        return self.run([*command, *options], threads)

    def peer(self, form: str, dump: Path, options: list[Any], threads: int = 1) -> dict[str, Any]:
        command = [self.python, HERE / "step_torch.py", form, dump, "--threads", threads]
        return self.run([*command, *options], threads)


def check(runner: Runner, result: Result, forms: list[str], folder: Path) -> None:
    """Compares the losses of the first steps, without dropout: it must be the same model."""
    experiment = result.experiment
    dump = folder / "plain.safetensors"
    steps = ["--warmup", 0, "--steps", CHECKED_STEPS]
    kept = ["--dump", dump, "--dump-batches", CHECKED_STEPS]
    ours = runner.bench(experiment, [*PLAIN, *experiment.plain], [*steps, *kept])["losses"]
    exact = runner.peer("table", dump, [*steps, "--double"])["losses"]
    result.exact["ours"] = difference(ours, exact)
    print(f"  ours {losses(ours)}; in double precision {losses(exact)}", flush=True)
    for form in forms:
        try:
            theirs = runner.peer(form, dump, steps)["losses"]
        except Failed as error:
            result.failures[form] = str(error)
            print(f"  {form}: {error}", flush=True)
            continue
        result.differences[form] = difference(theirs, ours)
        result.exact[form] = difference(theirs, exact)
        verdict = "VOID, " if form in result.void else ""
        print(f"  {form} {losses(theirs)}: {verdict}{result.differences[form]:.1e}", flush=True)


def difference(some: list[float], others: list[float]) -> float:
    return max(abs(a - b) / abs(b) for a, b in zip(some, others, strict=True))


def losses(values: list[float]) -> str:
    return " ".join(f"{value:.9f}" for value in values)


def measure(
    runner: Runner, result: Result, forms: list[str], rounds: int, threads: list[int], folder: Path
) -> None:
    """Rows take turns, a process each, so that a noisy minute hits all of them."""
    experiment = result.experiment
    dump = folder / "batches.safetensors"
    steps = ["--warmup", experiment.warmup, "--steps", experiment.steps]
    batches = experiment.warmup + experiment.steps
    kept = ["--dump", dump, "--dump-batches", batches]
    runner.bench(experiment, [], ["--warmup", 0, "--steps", 1, *kept])
    good = [form for form in forms if form in result.differences and form not in result.void]
    for number in range(rounds):
        for count in threads:
            for row in ("ours", *good, "plain"):
                if row in result.failures:
                    continue
                try:
                    if row in FORMS:
                        found = runner.peer(row, dump, steps, count)
                    else:
                        changes = ["model.bias=none"] if row == "plain" else []
                        found = runner.bench(experiment, changes, steps, count)
                except Failed as error:
                    if row not in FORMS:
                        raise
                    result.failures[row] = str(error)
                    continue
                result.runs.setdefault((count, row), []).append(found)
                time = f"{found['milliseconds']['median']:.1f} ms"
                print(f"  round {number}, {count} thread(s), {row}: {time}", flush=True)


# ---- writing


def median(runs: list[dict[str, Any]], *keys: str) -> float:
    def value(run: Any) -> float:
        for key in keys:
            run = run[key]
        return run

    return statistics.median(value(run) for run in runs)


def memory(run: dict[str, Any]) -> float:
    """Ours without reading the set, where the system tells."""
    return (run.get("steps_peak_rss_bytes") or run["peak_rss_bytes"]) / 2**20


def table(result: Result) -> Iterator[str]:
    yield "| threads | | ms per step | × ours | CPU ms per step | peak memory | losses |"
    yield "|---:|---|---:|---:|---:|---:|---|"
    threads = sorted({count for count, _ in result.runs})
    for count in threads:
        ours = median(result.runs[count, "ours"], "milliseconds", "median")
        for row in NAMES:
            if not (runs := result.runs.get((count, row))):
                continue
            time = median(runs, "milliseconds", "median")
            equal = f"differ by {result.differences[row]:.0e}" if row in result.differences else ""
            cells = [
                str(count) if row == "ours" else "",
                NAMES[row],
                f"{time:.1f}",
                "1" if row == "ours" else f"{time / ours:.2f}",
                f"{median(runs, 'milliseconds', 'cpu'):.1f}",
                f"{statistics.median(memory(run) for run in runs):.0f} MiB",
                equal,
            ]
            yield f"| {' | '.join(cells)} |"


def remarks(result: Result) -> Iterator[str]:
    experiment = result.experiment
    counts = sorted({count for count, _ in result.runs})
    ours = result.runs[counts[-1], "ours"]
    batch = ours[0]["batch"]
    gflop = ours[0]["gflop"]
    label = f" ({ours[0]['label']})" if ours[0]["label"] else ""
    yield (
        f"`configs/{experiment.config}.toml`{label}: {ours[0]['parameters']:,} parameters; a batch "
        f"has {batch['graphs']:.0f} graphs, {batch['nodes']:,.0f} nodes, "
        f"{batch['arcs']:,.0f} arcs, {batch['pairs']:,.0f} pairs, "
        f"{batch['codes']:.0f} distinct tuples of distances. "
        f"{gflop['products'] + gflop['attention']:.2f} GFLOP per step, {gflop['attention']:.2f} of "
        "them in attention.\n"
    )
    for count in counts:
        runs, plain = result.runs[count, "ours"], result.runs[count, "plain"]
        time = median(runs, "milliseconds", "median")
        cost = time / median(plain, "milliseconds", "median") - 1
        share = median(runs, "share_of_peak")
        times = {name: median(runs, "milliseconds", "parts", name) for name in PARTS}
        of_step = ", ".join(f"{name} {time:.2f}" for name, time in times.items())
        yield (
            f"* {count} thread{'s' if count > 1 else ''}: {median(runs, 'gflops'):.0f} GFLOP/s, "
            f"{share:.0%} of what matrix products reach here; the bias costs {cost:+.1%}; "
            f"ms of the parts: {of_step}."
        )
    if len(counts) > 1:
        one, more = (median(result.runs[c, "ours"], "milliseconds", "median") for c in counts)
        yield f"* {counts[1]} threads are {one / more:.2f} times as fast as {counts[0]}."
    exact = ", ".join(f"{NAMES[row].strip('*')} {value:.0e}" for row, value in result.exact.items())
    yield (
        f"* Largest relative difference of the first {CHECKED_STEPS} losses to those in double "
        f"precision: {exact}."
    )
    for form in result.void:
        yield f"* {NAMES[form]} is void: losses differ from ours by {result.differences[form]:.1e}."
    for form, reason in result.failures.items():
        yield f"* {NAMES[form]} was not measured: {reason}."


def section(results: list[Result], skipped: list[Experiment]) -> str:
    runs = [runs for result in results for (_, row), runs in result.runs.items() if row in FORMS]
    peer = runs[0] if runs else None
    software = f", {peer[0]['version']}" if peer else ""
    start = f"{median(peer, 'start_rss_bytes') / 2**20:.0f} MiB" if peer else "some"
    allocator = ", ".join(f"`{name}={value}`" for name, value in ALLOCATOR.items())
    parts = [
        "Written by `make bench-step`; do not edit. How it is measured: "
        "[bench/peers](../bench/peers/README.md). A whole training step: batch, forward, loss, "
        "backward, clipping, optimiser, with the dropout of the configuration. Medians over rounds "
        "in which all rows take turns, a process each. CPU time is of all threads. Rows train the "
        f"same model: without dropout, the losses of the first {CHECKED_STEPS} steps, from the "
        f"same weights and batches, must agree to {TOLERANCE:.0e}. Peak memory is that of the "
        f"process, for hdse from the first step on; PyTorch holds {start} before it.\n",
        f"Machine: {common.machine()}; rustc {common.rustc()}{software}. "
        f"All rows with {allocator}.\n",
    ]
    for result in results:
        parts.append(f"### {result.experiment.name} on {result.experiment.data}\n")
        parts += [*table(result), "", *remarks(result), ""]
    if skipped:
        parts.append(f"Skipped, data not there: {', '.join(e.data for e in skipped)}.\n")
    return "\n".join(parts)


# ---- the command


def torch_python() -> Path:
    """The Python that has PyTorch."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    python = Path(os.environ.get("HDSE_TORCH_PYTHON") or cache / "hdse/torch-venv/bin/python")
    if not python.exists():
        sys.exit(f"no {python}; `make test-torch` makes it, or name one in HDSE_TORCH_PYTHON")
    return python


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    quick = "few steps, one round, one thread, not compiled; only printed"
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--on", help="data sets whose name starts with this; only printed")
    parser.add_argument("--forms", help="of PyTorch, such as table,compiled; only printed")
    parser.add_argument("--data", help="folder of the data sets (else HDSE_DATA, ../shared/data)")
    options = parser.parse_args()
    forms = (options.forms or ",".join(FORMS[:2] if options.quick else FORMS)).split(",")
    if unknown := [form for form in forms if form not in FORMS]:
        parser.error(f"no form {unknown[0]}; there are {', '.join(FORMS)}")

    data, python = common.data_folder(options.data), torch_python()
    ours = common.build("hdse", common.ROOT, "--bin", "hdse")
    runner = Runner(ours, python, data.resolve())
    results, skipped = [], []
    for experiment in EXPERIMENTS:
        if not experiment.data.startswith(options.on or ""):
            continue
        if not (data / experiment.data).exists():
            print(f"skipped {experiment.data}: no {data / experiment.data}")
            skipped.append(experiment)
            continue
        if options.quick:
            experiment = Experiment(**(vars(experiment) | {"steps": 3, "warmup": 1}))
        print(experiment.data, flush=True)
        result = Result(experiment)
        with tempfile.TemporaryDirectory() as name:
            check(runner, result, forms, Path(name))
            rounds, threads = (1, [1]) if options.quick else (ROUNDS, list(THREADS))
            measure(runner, result, forms, rounds, threads, Path(name))
        results.append(result)
    if not results:
        sys.exit(f"nothing to measure: no data set in {data}")
    text = section(results, skipped)
    if options.quick or options.on or options.forms:
        print(text)
    else:
        common.replace_section("step", "A training step", text)
    wrong = [(form, result.experiment.data) for result in results for form in result.void]
    if wrong:
        sys.exit("\n".join(f"{form} on {data} is void: other losses" for form, data in wrong))


if __name__ == "__main__":
    try:
        main()
    except Failed as error:
        sys.exit(f"failed: {error}")
