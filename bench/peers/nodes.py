"""Sets our epochs on one graph beside PyTorch's and writes the section `nodes` of the page.

See README.md in this folder. Needs Rust, Python 3.11, and an environment with PyTorch and PyTorch
Geometric, which `make test-torch` makes.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import turns
from turns import Experiment, Result, median

# The forms of nodes_torch.py.
FORMS = ("released", "lean", "tuned", "least")
# With the rates of the configurations, Adam makes differences of rounding ten thousand times as
# large in two steps, since it divides small gradients by their own size.
SLOWLY = ("train.schedule.rate=1e-4",)
# Nodes of the generated set in a quick run.
FEW = 8_000

EXPERIMENTS = [
    Experiment(
        "Cora, 32 clusters, 4 heads",
        "cora",
        "reference/goat-cora",
        60,
        10,
        SLOWLY,
        folder="planetoid",
        batches=False,
    ),
    Experiment(
        "PubMed, 64 clusters, 1 head",
        "pubmed",
        "reference/goat-pubmed",
        20,
        5,
        SLOWLY,
        folder="planetoid",
        batches=False,
    ),
    Experiment(
        "A generated graph of the size of ogbn-arxiv, 1024 clusters, 1 head",
        "arxiv-size",
        "",
        2,
        1,
        SLOWLY,
        batches=False,
        threads=(2,),
        impossible={"released": "one of its arrays, nodes × clusters × 256 numbers, has 178 GB"},
    ),
]

NAMES = {
    "ours": "**hdse**",
    "plain": "hdse without the bias",
    "released": "PyTorch, as released",
    "lean": "PyTorch, lean",
    "tuned": "PyTorch, tuned",
    "least": "PyTorch, tuned, least work",
}


def make(experiment: Experiment, python: Path, folder: Path, quick: bool) -> Experiment:
    """Makes the set of the size of ogbn-arxiv."""
    script = turns.HERE / "nodes_data.py"
    subprocess.run([python, script, folder / "set", *([str(FEW)] if quick else [])], check=True)
    return replace(experiment, config=str(folder / "set" / "config"))


def table(result: Result) -> Iterator[str]:
    counts = result.threads
    several = [f"{count} thread{'s' if count > 1 else ''}" for count in counts]
    cells = [part for name in several for part in (f"ms per epoch, {name}", "× ours")]
    cells += [f"evaluation ms, {name}" for name in several]
    yield f"| | {' | '.join(cells)} | peak memory | losses |"
    yield f"|---|{'---:|' * (len(cells) + 1)}---|"
    nothing = " – |" * (len(cells) + 1)
    for row, name in NAMES.items():
        if any((count, row) not in result.runs for count in counts):
            if row in result.failures:
                yield f"| {name} |{nothing} not measured |"
            continue
        cells = [name]
        for count in counts:
            time, ours = (
                median(result.runs[count, one], "milliseconds", "median") for one in (row, "ours")
            )
            cells += [f"{time:.1f}", "1" if row == "ours" else f"{time / ours:.2f}"]
        runs = [result.runs[count, row] for count in counts]
        cells += [f"{median(some, 'milliseconds', 'evaluation'):.1f}" for some in runs]
        cells += [turns.memory(runs[-1]), turns.agreement(result, row)]
        yield f"| {' | '.join(cells)} |"


def remarks(result: Result) -> Iterator[str]:
    config = result.experiment.config
    made = Path(config).is_absolute()
    source = "Set and configuration of `nodes_data.py`" if made else f"`configs/{config}.toml`"
    counts = result.threads
    ours = result.runs[counts[-1], "ours"][0]
    sizes = ", ".join(f"{value:,.0f} {name}" for name, value in ours["batch"].items())
    yield f"{source}: {ours['parameters']:,} parameters; {sizes}.\n"
    for count in counts:
        time, plain = (
            median(result.runs[count, row], "milliseconds", "median") for row in ("ours", "plain")
        )
        several = f"{count} thread{'s' if count > 1 else ''}"
        cpu = median(result.runs[count, "ours"], "milliseconds", "cpu")
        cost = f"the bias costs {time / plain - 1:+.1%}"
        yield f"* {several}: {cost}; an epoch takes {cpu:.1f} ms of processor time."
    if len(counts) > 1:
        one, more = (median(result.runs[c, "ours"], "milliseconds", "median") for c in counts)
        yield f"* {counts[1]} threads are {one / more:.2f} times as fast as {counts[0]}."
    yield from turns.verdicts(result, NAMES)


def section(results: list[Result]) -> str:
    what = (
        "GOAT with the bias of clusters. An epoch is one step on all nodes: forward, loss, "
        "backward, optimiser, with the dropout of the configuration. Evaluation predicts all nodes."
    )
    parts = turns.preamble("bench-nodes", what, results, FORMS)
    for result in results:
        parts.append(f"### {result.experiment.name}\n")
        parts += [*table(result), "", *remarks(result), ""]
    return "\n".join(parts)


COMPARISON = turns.Comparison(
    about=__doc__,
    script="nodes_torch.py",
    forms=FORMS,
    quick=FORMS,
    exact="tuned",
    experiments=EXPERIMENTS,
    section=("nodes", "An epoch on one large graph"),
    write=section,
    careful=("--accurate",),
    make=make,
)

if __name__ == "__main__":
    turns.main(COMPARISON)
