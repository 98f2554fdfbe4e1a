"""The tutorials run and print what they promise."""

import pathlib
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).parents[1] / "examples"

RUNS = {
    "graph_ml": (["torch", "torch_geometric"], [], "+ HDSE"),
    "molecules": (["rdkit"], [], "distinct rows of distances"),
    "large_graph": ([], [], "all pairs instead: distances of all pairs of 50000 nodes"),
    "new_coarsener": (["networkx"], [], "label-propagation"),
    "student": ([], ["1"], "GT + HDSE"),
}


def test_every_example_is_run():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(RUNS)


@pytest.mark.parametrize("name", RUNS)
def test_example(name, tmp_path):
    needs, arguments, expected = RUNS[name]
    for package in needs:
        pytest.importorskip(package, reason=f"{package} is not installed: make test-torch")
    done = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py", *arguments],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=tmp_path,  # runs are kept where the command is given
    )
    assert done.returncode == 0, done.stderr
    assert expected in done.stdout
