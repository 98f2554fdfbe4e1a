"""What several tests share."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest


def random_edges(seed, nodes, edges):
    """Both directions of random pairs, some of them twice, some of them loops."""
    pairs = np.random.default_rng(seed).integers(0, max(nodes, 1), (2, edges if nodes else 0))
    return np.concatenate([pairs, pairs[::-1]], 1)


def data(*parts):
    """A file of real data: in HDSE_DATA, else beside the checkout; skips where there is none."""
    root = pathlib.Path(__file__).parents[2]
    folder = pathlib.Path(os.environ.get("HDSE_DATA", root.parent / "shared" / "data"))
    path = folder.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"no {'/'.join(parts)} in HDSE_DATA")
    return path


def python(code, **options):
    """Runs a program of its own and gives what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, **options
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
