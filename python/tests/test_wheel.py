"""What is in the wheel and in the source archive."""

import importlib.metadata
import importlib.util
import pathlib
import subprocess
import sys
import tarfile

import pytest

import hdse

ROOT = pathlib.Path(__file__).parents[2]


def test_metadata():
    about = importlib.metadata.metadata("hdse")
    assert about["Version"] == hdse.__version__
    assert about["Requires-Python"] == ">=3.10"
    assert set(about.get_all("Provides-Extra")) == {"torch", "pyg", "mol", "arrow"}
    required = [r for r in about.get_all("Requires-Dist") if "extra ==" not in r]
    assert len(required) == 1 and required[0].startswith("numpy")


def test_files():
    files = {str(path) for path in importlib.metadata.files("hdse")}
    for name in ["hdse/py.typed", "hdse/_hdse.pyi", "hdse/pyg.py"]:
        assert name in files
    assert not any(name.startswith(("tests/", "examples/", "benches/")) for name in files)
    assert any(name.endswith("LICENSE-MIT") for name in files)


def test_source_archive_is_complete(tmp_path):
    if importlib.util.find_spec("maturin") is None or not (ROOT / "Cargo.toml").exists():
        pytest.skip("needs maturin and the sources")
    manifest = ROOT / "python" / "Cargo.toml"
    subprocess.run(
        [sys.executable, "-m", "maturin", "sdist", "--manifest-path", manifest, "--out", tmp_path],
        check=True,
        capture_output=True,
    )
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        names = {name.partition("/")[2] for name in files.getnames()}
    # What the build reads: both crates, the lock file, the README that is the crate's documentation.
    for name in ["pyproject.toml", "PKG-INFO", "Cargo.lock", "README.md", "src/lib.rs", "src/cli/mod.rs"]:
        assert name in names, name
    for name in ["python/Cargo.toml", "python/src/lib.rs", "hdse/__init__.py", "Cargo.toml"]:
        assert name in names, name
    assert "configs/gt-community-small.toml" in names
