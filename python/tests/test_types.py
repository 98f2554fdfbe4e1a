"""Types: the stubs are those of the native module, the package passes, and users see them."""

import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("mypy", reason="mypy is not installed")

PYTHON = pathlib.Path(__file__).parents[1]


def run(*arguments, **options):
    done = subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr


def test_stubs_fit_the_module(tmp_path):
    run("mypy.stubtest", "hdse._hdse", cwd=tmp_path)


def test_the_package_passes(tmp_path):
    run("mypy", "--config-file", PYTHON / "pyproject.toml", "--cache-dir", tmp_path, cwd=PYTHON)


def test_users_see_types(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import hdse\n"
        "encoding: hdse.Encoding = hdse.encode([[0], [1]], 2, levels=1)\n"
        "rows: int = encoding.distances.shape[0] + hdse.coarsen([[0], [1]], 2).levels\n"
        "names: list[str] = [c.name for c in hdse.coarseners()]\n"
        "sizes: list[int] = [e.num_nodes for e in hdse.encode_many([([[0], [1]], 2)])]\n"
    )
    run("mypy", "--strict", "--cache-dir", tmp_path / "cache", program, cwd=tmp_path)
    program.write_text("import hdse\nhdse.encode([[0], [1]], 2, level=3)\n")
    with pytest.raises(AssertionError, match='Unexpected keyword argument "level"'):
        run("mypy", "--strict", "--cache-dir", tmp_path / "cache", program, cwd=tmp_path)
