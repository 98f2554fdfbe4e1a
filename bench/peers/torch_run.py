"""What step_torch.py and nodes_torch.py share: the file of `--dump`, the clock, the options."""

from __future__ import annotations

import argparse
import json
import math
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch_geometric
from torch import Tensor, nn

KINDS = {"U8": np.uint8, "U32": np.uint32, "I64": np.int64, "F32": np.float32, "F64": np.float64}


class Arrays:
    """A safetensors file, and the configuration in it."""

    def __init__(self, path: Path) -> None:
        raw = path.read_bytes()
        length = int.from_bytes(raw[:8], "little")
        self.header = json.loads(raw[8 : 8 + length])
        self.config = json.loads(self.header.pop("__metadata__", {}).get("hdse", "{}"))
        self.body = memoryview(raw)[8 + length :]

    def __contains__(self, name: str) -> bool:
        return name in self.header

    def __getitem__(self, name: str) -> np.ndarray:
        entry = self.header[name]
        begin, end = entry["data_offsets"]
        return np.frombuffer(self.body[begin:end], KINDS[entry["dtype"]]).reshape(entry["shape"])

    def get(self, name: str) -> np.ndarray | None:
        return self[name] if name in self else None

    def group(self, prefix: str) -> dict[str, Tensor]:
        """All arrays whose names start so, by the rest of these."""
        names = [name for name in self.header if name.startswith(prefix)]
        return {name.removeprefix(prefix): torch.from_numpy(self[name].copy()) for name in names}

    def require(self, known: dict[str, list[Any]]) -> None:
        """Ends the run unless the model has these values."""
        model = self.config["model"]
        for key, values in known.items():
            if model.get(key) not in values:
                sys.exit(f"no peer has model.{key} = {model.get(key)}")


def load(model: nn.Module, parameters: dict[str, Tensor], own: tuple[str, ...] = ()) -> None:
    """Gives a model its parameters; names that end with one of `own` are the model's alone."""
    missing, unexpected = model.load_state_dict(parameters, strict=False)
    own = ("num_batches_tracked", *own)
    if unexpected or (missing := [name for name in missing if not name.endswith(own)]):
        sys.exit(f"parameters do not fit: {missing} {unexpected}")


def keep(shape: torch.Size, p: float) -> Tensor:
    """What dropout keeps: a random byte for each, or two; `bernoulli_` takes ten times as long."""
    size = 1 if (256 * p).is_integer() else 2
    words = torch.empty(math.prod(shape) * size // 8 + 1, dtype=torch.int64).random_(-(2**63), None)
    numbers = words.view({1: torch.int8, 2: torch.int16}[size])[: math.prod(shape)]
    return (numbers >= round((p - 0.5) * 256**size)).view(shape)


def held() -> int:
    """The most memory that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def timed(step: Callable[[int], float], warmup: int, steps: int) -> dict[str, Any]:
    """Takes steps, which give their losses, and says what they took."""
    # What is held before the first step: interpreter, libraries, graphs.
    before = held()
    losses, times, started = [], [], time.perf_counter()
    for number in range(warmup + steps):
        if number == warmup:
            cpu = time.process_time()
        clock = time.perf_counter()
        losses.append(step(number))
        times.append(time.perf_counter() - clock)
    cpu = (time.process_time() - cpu) / steps
    measured = times[warmup:]
    return {
        "milliseconds": {
            "median": statistics.median(measured) * 1e3,
            "min": min(measured) * 1e3,
            "mean": statistics.mean(measured) * 1e3,
            "cpu": cpu * 1e3,
        },
        "warmup_seconds": time.perf_counter() - started - sum(measured),
        "losses": losses,
        "start_rss_bytes": before,
        "peak_rss_bytes": held(),
        "page_faults": resource.getrusage(resource.RUSAGE_SELF).ru_minflt,
        "version": f"torch {torch.__version__}, torch_geometric {torch_geometric.__version__}",
    }


def parser(about: str, forms: tuple[str, ...]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("form", choices=forms)
    parser.add_argument("dump", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--double", dest="dtype", action="store_const", const=torch.float64)
    parser.set_defaults(dtype=torch.float32)
    return parser
