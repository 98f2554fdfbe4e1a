"""Sets our training steps beside PyTorch's and writes the section `step` of docs/benchmarks.md.

See README.md in this folder. Needs Rust, Python 3.11, and an environment with PyTorch and PyTorch
Geometric, which `make test-torch` makes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import turns
from turns import Experiment, Result, median

# The forms of step_torch.py.
FORMS = ("released", "table", "distinct", "compiled")
# Those of models that compute nothing more than once.
PLAIN_FORMS = ("released", "table", "compiled")
# Of a step, in the words of `hdse bench step`.
PARTS = ("waiting", "forward", "loss", "backward", "clip", "optimizer")
# A learning rate from the first step on.
STEADY = "train.schedule.warmup=0"

EXPERIMENTS = [
    Experiment(
        "GraphGPS with GINE and RWSE", "zinc", "gps-zinc", 30, 8, (STEADY,), forms=PLAIN_FORMS
    ),
    Experiment(
        "GraphGPS with GatedGCN and LapPE",
        "peptides-func",
        "gps-peptides-func",
        10,
        4,
        (STEADY, "model.encoding.lappe.random_signs=false"),
        forms=PLAIN_FORMS,
    ),
    Experiment("SAT with PNA in 3-hop subgraphs", "zinc", "sat-zinc", 10, 3, (STEADY,)),
    # The root of GRIT has an infinite derivative at 0: with the rate of the configuration, 10⁻³,
    # differences of rounding grow to 10⁻³ in one step.
    Experiment(
        "GRIT with RRWP",
        "zinc",
        "grit-zinc",
        20,
        5,
        (STEADY, "train.schedule.rate=1e-5"),
        forms=PLAIN_FORMS,
    ),
]

NAMES = {
    "ours": "**hdse**",
    "plain": "hdse without the bias",
    "released": "PyTorch, as released",
    "table": "PyTorch, table",
    "distinct": "PyTorch, table, distinct rows",
    "compiled": "PyTorch, table, compiled",
}


def table(result: Result) -> Iterator[str]:
    yield "| threads | | ms per step | × ours | CPU ms per step | peak memory | losses |"
    yield "|---:|---|---:|---:|---:|---:|---|"
    for count in result.threads:
        ours = median(result.runs[count, "ours"], "milliseconds", "median")
        for row in NAMES:
            if not (runs := result.runs.get((count, row))):
                continue
            time = median(runs, "milliseconds", "median")
            cells = [
                str(count) if row == "ours" else "",
                NAMES[row],
                f"{time:.1f}",
                "1" if row == "ours" else f"{time / ours:.2f}",
                f"{median(runs, 'milliseconds', 'cpu'):.1f}",
                turns.memory(runs),
                turns.agreement(result, row),
            ]
            yield f"| {' | '.join(cells)} |"


def operations(run: dict[str, Any]) -> str:
    products, attention = run["gflop"]["products"], run["gflop"]["attention"]
    return f" {products + attention:.2f} GFLOP per step, {attention:.2f} of them in attention."


def speed(runs: list[dict[str, Any]]) -> str:
    share = median(runs, "share_of_peak")
    return f"{median(runs, 'gflops'):.0f} GFLOP/s, {share:.0%} of what matrix products reach here; "


def remarks(result: Result) -> Iterator[str]:
    experiment = result.experiment
    counts = result.threads
    ours = result.runs[counts[-1], "ours"]
    batch = ours[0]["batch"]
    label = f" ({ours[0]['label']})" if ours[0]["label"] else ""
    yield (
        f"`configs/{experiment.config}.toml`{label}: {ours[0]['parameters']:,} parameters; a batch "
        f"has {batch['graphs']:.0f} graphs, {batch['nodes']:,.0f} nodes, "
        f"{batch['arcs']:,.0f} arcs, {batch['pairs']:,.0f} pairs, "
        f"{batch['codes']:.0f} distinct tuples of distances.{operations(ours[0])}\n"
    )
    for count in counts:
        runs, plain = result.runs[count, "ours"], result.runs[count, "plain"]
        time = median(runs, "milliseconds", "median")
        cost = time / median(plain, "milliseconds", "median") - 1
        times = {name: median(runs, "milliseconds", "parts", name) for name in PARTS}
        of_step = ", ".join(f"{name} {time:.2f}" for name, time in times.items())
        yield (
            f"* {count} thread{'s' if count > 1 else ''}: {speed(runs)}"
            f"the bias costs {cost:+.1%}; ms of the parts: {of_step}."
        )
    if len(counts) > 1:
        one, more = (median(result.runs[c, "ours"], "milliseconds", "median") for c in counts)
        yield f"* {counts[1]} threads are {one / more:.2f} times as fast as {counts[0]}."
    yield from turns.verdicts(result, NAMES)


def section(results: list[Result]) -> str:
    what = (
        "A whole training step: batch, forward, loss, backward, clipping, optimiser, with the "
        "dropout of the configuration."
    )
    parts = turns.preamble("bench-step", what, results, FORMS)
    for result in results:
        parts.append(f"### {result.experiment.name} on {result.experiment.data}\n")
        parts += [*table(result), "", *remarks(result), ""]
    return "\n".join(parts)


COMPARISON = turns.Comparison(
    about=__doc__,
    script="step_torch.py",
    forms=FORMS,
    quick=FORMS[:3],
    exact="table",
    experiments=EXPERIMENTS,
    section=("step", "A training step"),
    write=section,
)

if __name__ == "__main__":
    turns.main(COMPARISON)
