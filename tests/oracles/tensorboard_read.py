"""Reads TensorBoard event files with TensorBoard's own reader: an oracle that others wrote for our own writer.

usage: tensorboard_read.py FOLDER           print {"scalars": {tag: [[step, wall_time, value], ...]}, "texts": {tag: [text, ...]}}
       tensorboard_read.py --check RUN_DIR  compare RUN_DIR/tensorboard with RUN_DIR/metrics.jsonl (last line of each kind and step)

Exit 0 when all is well, 1 when a value differs, 2 for wrong usage, 3 when the `tensorboard` package is not installed.
"""

import json
import os
import struct
import sys


def read(folder: str) -> dict:
    from tensorboard.backend.event_processing import event_accumulator
    from tensorboard.util import tensor_util

    reader = event_accumulator.EventAccumulator(folder, size_guidance={event_accumulator.SCALARS: 0, event_accumulator.TENSORS: 0})
    reader.Reload()
    tags = reader.Tags()
    scalars = {tag: [[e.step, e.wall_time, e.value] for e in reader.Scalars(tag)] for tag in sorted(tags["scalars"])}
    texts = {}
    for tag in sorted(tags["tensors"]):
        for event in reader.Tensors(tag):
            values = tensor_util.make_ndarray(event.tensor_proto).flatten().tolist()
            texts.setdefault(tag, []).extend(value.decode("utf-8") for value in values)
    return {"scalars": scalars, "texts": texts}


def float32(value: float) -> float:
    return struct.unpack("f", struct.pack("f", value))[0]


def expected(metrics_path: str) -> dict:
    """Returns {tag: [[step, value], ...]} of the values that every run has."""
    last = {}
    with open(metrics_path, encoding="utf-8") as lines:
        for line in lines:
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                continue  # cut by a crash
            last[record["kind"], record["step"]] = record
    scalars = {}
    for (kind, step), record in sorted(last.items(), key=lambda item: item[0][1]):
        values = {f"{kind}/{key}": record[key] for key in ("loss", "lr", "grad_norm") if key in record}
        for name, term in record["terms"].items():
            values.setdefault(f"{kind}/{name}", term["sum"] / term["weight"])
        if kind == "train":
            values["perf/step_time_ms"] = record["timing"]["step_time_seconds"] * 1e3
            values["perf/data_wait_ms"] = record["timing"]["dataloader_wait_ms"]
        for tag, value in values.items():
            scalars.setdefault(tag, []).append([step, float32(value)])
    return scalars


def check(run_dir: str) -> int:
    found = read(os.path.join(run_dir, "tensorboard"))["scalars"]
    wrong = 0
    for tag, values in expected(os.path.join(run_dir, "metrics.jsonl")).items():
        got = [[step, value] for step, _, value in found.get(tag, [])]
        if got != values:
            wrong += 1
            print(f"{tag}: {len(got)} values read, {len(values)} expected, or a value differs", file=sys.stderr)
    return 1 if wrong else 0


def main() -> int:
    try:
        import tensorboard  # noqa: F401
    except ImportError as error:
        print(f"tensorboard is not installed: {error}", file=sys.stderr)
        return 3
    if len(sys.argv) == 3 and sys.argv[1] == "--check":
        return check(sys.argv[2])
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    print(json.dumps(read(sys.argv[1])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
