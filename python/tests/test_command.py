"""The wheel carries the command: `hdse` and `python -m hdse`."""

import pathlib
import shutil
import signal
import subprocess
import sys
import sysconfig
import time

import pytest

import hdse

SCRIPT = shutil.which("hdse", path=sysconfig.get_path("scripts"))
WAYS = [[sys.executable, "-m", "hdse"], [SCRIPT]]


def run(way, *arguments):
    if way[0] is None:
        pytest.skip("no script beside this interpreter: the package is not installed, only on the path")
    return subprocess.run([*way, *map(str, arguments)], capture_output=True, text=True)


@pytest.mark.parametrize("way", WAYS, ids=["module", "script"])
def test_the_command(way, tmp_path):
    done = run(way, "--version")
    assert (done.returncode, done.stdout) == (0, f"hdse {hdse.__version__}\n")
    done = run(way, "encode", "community-small", "-c", "luvain")
    assert done.returncode == 2 and "did you mean `louvain`?" in done.stderr
    done = run(way, "encod")
    assert done.returncode == 2 and "Usage: hdse" in done.stderr
    done = run(way, "coarsen", tmp_path, "-c", "newman")
    assert done.returncode in (1, 2) and done.stderr.startswith("error: ")
    done = run(way, "encode", "community-small", "-o", tmp_path / "out.safetensors")
    assert done.returncode == 0 and (tmp_path / "out.safetensors").exists()
    assert done.stdout.endswith(" s\n")


def test_it_is_the_whole_command():
    done = run(WAYS[0], "--help")
    for verb in ["encode", "train", "reproduce", "data", "store"]:
        assert f"  {verb} " in done.stdout


def test_errors_have_the_same_text():
    done = run(WAYS[0], "encode", "community-small", "-c", "random:clusters=0")
    with pytest.raises(ValueError) as caught:
        hdse.encode_many(hdse.read("community-small"), coarsener="random:clusters=0")
    assert done.stderr == f"error: {caught.value}\n"


def test_a_closed_pipe_is_no_error():
    shell = f"'{sys.executable}' -m hdse list coarseners; echo $? >&2"
    done = subprocess.run(["sh", "-c", f"({shell}) | true"], capture_output=True, text=True)
    assert done.stderr == "0\n"


def test_interrupts(tmp_path):
    rows = "".join(f"{i} {(i * 7919 + j * 104729) % 1500}\n" for i in range(1500) for j in range(20))
    graph = tmp_path / "graph.txt"
    graph.write_text(rows)
    process = subprocess.Popen(
        [*WAYS[0], "encode", graph, "-c", "newman", "-o", tmp_path / "out.npz"],
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    error = process.communicate(timeout=60)[1]
    assert process.returncode == 130 and "interrupted; nothing was written" in error
    assert [path.name for path in tmp_path.iterdir()] == ["graph.txt"]


def test_versions_agree():
    root = pathlib.Path(__file__).parents[2]
    if not (root / "Cargo.toml").exists():
        pytest.skip("no sources beside the tests")
    for manifest in [root / "Cargo.toml", root / "python" / "Cargo.toml"]:
        assert f'\nversion = "{hdse.__version__}"\n' in manifest.read_text()
