"""The Python in the documentation runs."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["README.md", "docs/python.md", "python/README.md"])
def test_examples_in_documents(name):
    path = ROOT / name
    if not path.exists():
        pytest.skip(f"no {name} beside the tests")
    blocks = re.findall(r"^```python\n(.*?)^```", path.read_text(encoding="utf-8"), re.M | re.S)
    assert blocks
    names = {}
    for block in blocks:
        if "hdse.pyg" in block:
            pytest.importorskip("torch_geometric", reason=f"torch_geometric is not installed: {name}")
        exec(compile(block, name, "exec"), names)


def test_docstring():
    import doctest

    import hdse

    assert doctest.testmod(hdse).failed == 0
