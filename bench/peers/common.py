"""What all comparisons share: build and call ours, find data, write docs sections."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "benchmarks.md"

# Libraries that start threads on their own read these.
ONE_THREAD = {
    name: "1"
    for name in (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "NUMBA_NUM_THREADS",
        "RAYON_NUM_THREADS",
    )
}


def build_ours() -> Path:
    """Builds bench/peers/ours.rs."""
    return build("peers", ROOT, "--example", "peers")


@cache
def build_rust_peers() -> Path:
    """Builds the program that calls peers which are crates."""
    return build("rust-peers", ROOT / "bench" / "peers" / "rust-peers", "--locked")


def build(name: str, folder: Path, *options: str) -> Path:
    """Builds a program; where it lies is told by cargo."""
    command = ["cargo", "build", "--release", "--message-format=json", *options]
    built = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    if built.returncode != 0:
        sys.exit(f"cargo could not build `{name}`")
    messages = [json.loads(line) for line in built.stdout.splitlines()]
    programs = [m["executable"] for m in messages if m.get("target", {}).get("name") == name]
    return Path(programs[-1])


def run_json(command: list[Any]) -> dict[str, Any]:
    """Runs a program on one thread and reads the JSON object it prints."""
    environment = os.environ | ONE_THREAD
    arguments = [str(word) for word in command]
    done = subprocess.run(arguments, env=environment, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"failed: {' '.join(arguments)}")
    return json.loads(done.stdout)


def data_folder(given: str | None) -> Path:
    """The folder with the data sets: as given, else HDSE_DATA, else ../shared/data."""
    named = given or os.environ.get("HDSE_DATA")
    return Path(named) if named else ROOT.parent / "shared" / "data"


def machine() -> str:
    """Processor and number of cores."""
    try:
        info = Path("/proc/cpuinfo").read_text()
    except OSError:
        info = ""
    model = re.search(r"^model name\s*: (.*)$", info, re.MULTILINE)
    name = model[1] if model else platform.machine()
    return f"{name}, {os.cpu_count()} cores, {platform.system()}"


def rustc() -> str:
    """Version of the compiler."""
    return subprocess.run(["rustc", "--version"], capture_output=True, text=True).stdout.split()[1]


def replace_section(name: str, heading: str, text: str) -> None:
    """Puts `text` between the marker lines of a section of the page; the rest stays as it is."""
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    section = f"{begin}\n{text.strip()}\n{end}"
    page = PAGE.read_text() if PAGE.exists() else "# Benchmarks\n"
    if begin in page and end in page:
        before, rest = page.split(begin, 1)
        page = before + section + rest.split(end, 1)[1]
    else:
        page = f"{page.rstrip()}\n\n## {heading}\n\n{section}\n"
    PAGE.write_text(page)
    print(f"wrote section `{name}` of {PAGE.relative_to(ROOT)}")


def replace_parts(name: str, text: str) -> None:
    """Puts the parts of `text`, each under a heading of the third level, over those of a section of the page.

    What comes before them must be as it is on the page: parts of one section are of one machine and
    the same software.
    """
    begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
    page = PAGE.read_text()
    before, rest = page.split(begin, 1)
    old, after = rest.split(end, 1)
    (preamble, *old_parts), (new_preamble, *new_parts) = (
        re.split(r"^(?=### )", section, flags=re.MULTILINE) for section in (old, text)
    )
    differ = [
        f"page: {a}\nhere: {b}"
        for a, b in zip(preamble.split("\n"), new_preamble.split("\n"), strict=False)
        if a.startswith("Machine:") and a != b
    ]
    if differ:
        sys.exit("\n".join(["not written, for the rest of the page is of another machine:", *differ]))
    new = {part.split("\n", 1)[0]: part.rstrip() + "\n\n" for part in new_parts}
    parts = [new.pop(part.split("\n", 1)[0], part) for part in old_parts] + list(new.values())
    section = preamble + "".join(parts)
    PAGE.write_text(f"{before}{begin}{section.rstrip()}\n{end}{after}")
    print(f"wrote parts of section `{name}` of {PAGE.relative_to(ROOT)}")
