"""What step.py and nodes.py share: our steps and PyTorch's in turn, their losses compared."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import common

HERE = Path(__file__).resolve().parent
ROUNDS = 3
THREADS = (1, 2)
# What is not done by then is not measured.
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
# Nothing random but the seed's weights and order.
PLAIN = ("model.dropout=0", "model.attention_dropout=0")


@dataclass(frozen=True)
class Experiment:
    name: str
    data: str
    # Inside configs/, without its ending; nothing if the data are made, and it with them.
    config: str
    steps: int
    warmup: int
    # Changes for the comparison of losses, beside `PLAIN`.
    plain: tuple[str, ...] = ()
    # Of the data sets, if it is not called as `data`.
    folder: str = ""
    # Whether a dump is told how many batches to hold.
    batches: bool = True
    # Numbers of threads to measure with.
    threads: tuple[int, ...] = THREADS
    # Forms that it has; all, if none is named.
    forms: tuple[str, ...] = ()
    # Forms that cannot be run, and why.
    impossible: dict[str, str] = field(default_factory=dict)


    def is_called(self, start: str) -> bool:
        """Whether its data or its configuration has a name that starts so."""
        return self.data.startswith(start) or self.config.startswith(start)


@dataclass
class Result:
    """What was found for one experiment."""

    experiment: Experiment
    # Largest relative difference of losses to ours, by form, and of all to double precision.
    differences: dict[str, float] = field(default_factory=dict)
    exact: dict[str, float] = field(default_factory=dict)
    # By threads and row.
    runs: dict[tuple[int, str], list[dict[str, Any]]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    @property
    def void(self) -> list[str]:
        return [form for form, value in self.differences.items() if not value <= TOLERANCE]

    @property
    def threads(self) -> list[int]:
        return sorted({count for count, _ in self.runs})


class Failed(Exception):
    """A process that ended badly, or not in time."""


# ---- measuring


@dataclass
class Runner:
    """Calls our program, and a script in PyTorch that knows some forms of the model."""

    ours: Path
    python: Path
    data: Path
    script: str
    forms: tuple[str, ...]
    # Options of the script where losses are compared.
    careful: tuple[str, ...] = ()

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
        command = [self.python, HERE / self.script, form, dump, "--threads", threads]
        return self.run([*command, *options], threads)

    def check(self, result: Result, forms: list[str], exact_form: str, folder: Path) -> None:
        """Compares the losses of the first steps, without dropout: it must be the same model."""
        experiment = result.experiment
        dump = folder / "plain.safetensors"
        steps = ["--warmup", 0, "--steps", CHECKED_STEPS]
        kept = ["--dump", dump]
        kept += ["--dump-batches", CHECKED_STEPS] if experiment.batches else []
        ours = self.bench(experiment, [*PLAIN, *experiment.plain], [*steps, *kept])["losses"]
        steps += self.careful
        exact = self.peer(exact_form, dump, [*steps, "--double"])["losses"]
        result.exact["ours"] = difference(ours, exact)
        print(f"  ours {losses(ours)}; in double precision {losses(exact)}", flush=True)
        for form in forms:
            if reason := experiment.impossible.get(form):
                result.failures[form] = reason
                continue
            try:
                theirs = self.peer(form, dump, steps)["losses"]
            except Failed as error:
                result.failures[form] = str(error)
                print(f"  {form}: {error}", flush=True)
                continue
            result.differences[form] = difference(theirs, ours)
            result.exact[form] = difference(theirs, exact)
            verdict = "VOID, " if form in result.void else ""
            print(f"  {form} {losses(theirs)}: {verdict}{result.differences[form]:.1e}", flush=True)

    def measure(self, result: Result, rounds: int, threads: list[int], folder: Path) -> None:
        """Rows take turns, a process each, so that a noisy minute hits all of them."""
        experiment = result.experiment
        dump = folder / "batches.safetensors"
        steps = ["--warmup", experiment.warmup, "--steps", experiment.steps]
        kept = ["--dump", dump]
        count = experiment.warmup + experiment.steps
        kept += ["--dump-batches", count] if experiment.batches else []
        self.bench(experiment, [], ["--warmup", 0, "--steps", 1, *kept])
        good = [form for form in result.differences if form not in result.void]
        for number in range(rounds):
            for count in threads:
                for row in ("ours", *good, "plain"):
                    if row in result.failures:
                        continue
                    try:
                        if row in self.forms:
                            found = self.peer(row, dump, steps, count)
                        else:
                            changes = ["model.bias=none"] if row == "plain" else []
                            found = self.bench(experiment, changes, steps, count)
                    except Failed as error:
                        if row not in self.forms:
                            raise
                        result.failures[row] = str(error)
                        continue
                    result.runs.setdefault((count, row), []).append(found)
                    time = f"{found['milliseconds']['median']:.1f} ms"
                    print(f"  round {number}, {count} thread(s), {row}: {time}", flush=True)


def difference(some: list[float], others: list[float]) -> float:
    return max(abs(a - b) / abs(b) for a, b in zip(some, others, strict=True))


def losses(values: list[float]) -> str:
    return " ".join(f"{value:.9f}" for value in values)


# ---- writing


def median(runs: list[dict[str, Any]], *keys: str) -> float:
    def value(run: Any) -> float:
        for key in keys:
            run = run[key]
        return run

    return statistics.median(value(run) for run in runs)


def memory(runs: list[dict[str, Any]]) -> str:
    """Ours without reading the set, where the system tells."""
    bytes = (run.get("steps_peak_rss_bytes") or run["peak_rss_bytes"] for run in runs)
    return f"{statistics.median(bytes) / 2**20:.0f} MiB"


def agreement(result: Result, row: str) -> str:
    return f"differ by {result.differences[row]:.0e}" if row in result.differences else ""


def verdicts(result: Result, names: dict[str, str]) -> Iterator[str]:
    """How near losses are to the exact ones, and rows that are not there."""
    exact = ", ".join(f"{names[row].strip('*')} {value:.0e}" for row, value in result.exact.items())
    yield (
        f"* Largest relative difference of the first {CHECKED_STEPS} losses to those in double "
        f"precision: {exact}."
    )
    for form in result.void:
        yield f"* {names[form]} is void: losses differ from ours by {result.differences[form]:.1e}."
    for form, reason in result.failures.items():
        yield f"* {names[form]} was not measured: {reason}."


def preamble(command: str, what: str, results: list[Result], forms: tuple[str, ...]) -> list[str]:
    """What a section starts with; `what` is measured."""
    runs = [runs for result in results for (_, row), runs in result.runs.items() if row in forms]
    peer = runs[0] if runs else None
    software = f", {peer[0]['version']}" if peer else ""
    start = f"{median(peer, 'start_rss_bytes') / 2**20:.0f} MiB" if peer else "some"
    allocator = ", ".join(f"`{name}={value}`" for name, value in ALLOCATOR.items())
    return [
        f"Written by `make {command}`; do not edit. How it is measured: "
        f"[bench/peers](../bench/peers/README.md). {what} Medians over rounds "
        "in which all rows take turns, a process each. CPU time is of all threads. Rows train the "
        f"same model: without dropout, the losses of the first {CHECKED_STEPS} steps, from the "
        f"same weights and batches, must agree to {TOLERANCE:.0e}. Peak memory is that of the "
        f"process, for hdse from the first step on; PyTorch holds {start} before it.\n",
        f"Machine: {common.machine()}; rustc {common.rustc()}{software}. "
        f"All rows with {allocator}.\n",
    ]


# ---- the command


@dataclass(frozen=True)
class Comparison:
    """Experiments, and the script in PyTorch that they are set beside."""

    about: str
    script: str
    forms: tuple[str, ...]
    # What a quick run leaves at that, and what is run in double precision.
    quick: tuple[str, ...]
    exact: str
    experiments: list[Experiment]
    # Of the page: its name, its heading, and how it is written.
    section: tuple[str, str]
    write: Callable[[list[Result]], str]
    # Options of the script where losses are compared.
    careful: tuple[str, ...] = ()
    # Makes data that no folder has, few for a quick run, and the configuration.
    make: Callable[[Experiment, Path, Path, bool], Experiment] | None = None

    def main(self) -> None:
        options, forms = self.options()
        data, python = common.data_folder(options.data), torch_python()
        ours = common.build("hdse", common.ROOT, "--bin", "hdse")
        runner = Runner(ours, python, data.resolve(), self.script, self.forms, self.careful)
        results, skipped = [], []
        for experiment in self.experiments:
            if options.on and not experiment.is_called(options.on):
                continue
            source = data / (experiment.folder or experiment.data)
            if experiment.config and not source.exists():
                print(f"skipped {experiment.data}: no {source}")
                skipped.append(experiment.data)
                continue
            if options.quick:
                experiment = replace(experiment, steps=3, warmup=1)
            own = [form for form in forms if not experiment.forms or form in experiment.forms]
            print(f"{experiment.name} on {experiment.data}", flush=True)
            with tempfile.TemporaryDirectory() as name:
                if self.make and not experiment.config:
                    experiment = self.make(experiment, python, Path(name), options.quick)
                result = Result(experiment)
                runner.check(result, own, self.exact, Path(name))
                rounds, threads = (1, [1]) if options.quick else (ROUNDS, list(experiment.threads))
                runner.measure(result, rounds, threads, Path(name))
            results.append(result)
        if not results:
            sys.exit(f"nothing to measure: no data set in {data}")
        text = self.write(results)
        if skipped:
            text += f"\nSkipped, data not there: {', '.join(skipped)}.\n"
        if options.quick or options.forms:
            print(text)
        elif options.on:
            common.replace_parts(self.section[0], text)
        else:
            common.replace_section(*self.section, text)
        wrong = [(form, result.experiment) for result in results for form in result.void]
        if wrong:
            of = (f"{form} of {one.name} on {one.data}" for form, one in wrong)
            sys.exit("\n".join(f"{row} is void: other losses" for row in of))

    def options(self) -> tuple[argparse.Namespace, list[str]]:
        """As given, and the forms to run."""
        parser = argparse.ArgumentParser(description=self.about.splitlines()[0])
        quick = f"few steps, one round, one thread, only {', '.join(self.quick)}; only printed"
        parser.add_argument("--quick", action="store_true", help=quick)
        on = "data sets or configurations whose name starts with this; the rest of the page stays"
        parser.add_argument("--on", help=on)
        some = ",".join(self.forms[-2:])
        parser.add_argument("--forms", help=f"of PyTorch, such as {some}; only printed")
        parser.add_argument(
            "--data", help="folder of the data sets (else HDSE_DATA, ../shared/data)"
        )
        options = parser.parse_args()
        forms = self.quick if options.quick else self.forms
        forms = options.forms.split(",") if options.forms else list(forms)
        if unknown := [form for form in forms if form not in self.forms]:
            parser.error(f"no form {unknown[0]}; there are {', '.join(self.forms)}")
        return options, forms


def torch_python() -> Path:
    """The Python that has PyTorch."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    python = Path(os.environ.get("HDSE_TORCH_PYTHON") or cache / "hdse/torch-venv/bin/python")
    if not python.exists():
        sys.exit(f"no {python}; `make test-torch` makes it, or name one in HDSE_TORCH_PYTHON")
    return python


def main(comparison: Comparison) -> None:
    try:
        comparison.main()
    except Failed as error:
        sys.exit(f"failed: {error}")
