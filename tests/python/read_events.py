"""Prints what TensorBoard reads from a folder of event files, as JSON: {tag: [[wall time, step, value], ...]}.

    python read_events.py FOLDER

Needs the package `tensorboard`.
"""

import json
import sys

from tensorboard.backend.event_processing import event_accumulator


def curves(folder):
    # 0 keeps every point; the default keeps a sample of them.
    accumulator = event_accumulator.EventAccumulator(folder, size_guidance={"scalars": 0, "tensors": 0})
    accumulator.Reload()
    tags = accumulator.Tags()["scalars"]
    return {tag: [[p.wall_time, p.step, p.value] for p in accumulator.Scalars(tag)] for tag in tags}


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    json.dump(curves(sys.argv[1]), sys.stdout)
