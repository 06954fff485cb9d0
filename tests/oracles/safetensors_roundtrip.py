"""Checks the product's safetensors reader and writer against the reference implementation, in both directions.

Run: PYTHON tests/oracles/safetensors_roundtrip.py PATH_OF_safetensors_tool
Needs the packages safetensors and numpy; when they are missing, or anything differs, it fails.
"""

import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import safetensors
from safetensors.numpy import load_file, save_file

NAMES = {"BOOL": np.bool_, "U8": np.uint8, "I8": np.int8, "I16": np.int16, "U16": np.uint16, "F16": np.float16, "I32": np.int32,
         "U32": np.uint32, "F32": np.float32, "I64": np.int64, "U64": np.uint64, "F64": np.float64}


def tool_reads(tool, path):
    done = subprocess.run([tool, "read", str(path)], capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout) if done.returncode == 0 else done.stderr


def expect(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def ours_is_read_by_theirs(tool, folder):
    path = folder / "ours.safetensors"
    subprocess.run([tool, "write", str(path)], check=True)
    tensors = load_file(path)
    expect(len(tensors) == 14, f"{len(tensors)} of 14 tensors were read")
    code, ours = tool_reads(tool, path)
    expect(code == 0, ours)
    with safetensors.safe_open(path, framework="np") as opened:
        expect(opened.metadata() == ours["metadata"] == {"format": "pt", "note": "line\nfeed"}, "metadata differ")
    for position, entry in enumerate(ours["tensors"]):
        tensor = tensors[entry["name"]]
        expect(tensor.dtype == NAMES[entry["dtype"]] and list(tensor.shape) == entry["shape"], f"type or shape of {entry['name']}")
        expected = bytes((i % 2 if entry["dtype"] == "BOOL" else (31 * position + i) % 251) for i in range(tensor.nbytes))
        expect(tensor.tobytes() == expected, f"bytes of {entry['name']}")


def theirs_is_read_by_ours(tool, folder):
    random = np.random.default_rng(3)
    tensors = {f"t.{name}": random.integers(0, 2, (3, 4)).astype(kind) for name, kind in NAMES.items()}
    tensors |= {"scalar": np.array(1.5, np.float32), "empty": np.zeros((0, 7), np.int64), "ünïcode \"x\"": np.arange(5, dtype=np.uint16)}
    path = folder / "theirs.safetensors"
    save_file(tensors, path, metadata={"format": "np", "x": "\u00e9"})
    code, ours = tool_reads(tool, path)
    expect(code == 0, ours)
    expect(ours["metadata"] == {"format": "np", "x": "\u00e9"}, "metadata differ")
    expect({entry["name"] for entry in ours["tensors"]} == set(tensors), "names differ")
    for entry in ours["tensors"]:
        tensor = tensors[entry["name"]]
        expect(NAMES[entry["dtype"]] == tensor.dtype and entry["shape"] == list(tensor.shape), f"type or shape of {entry['name']}")
        expect(entry["sha256"] == hashlib.sha256(tensor.tobytes()).hexdigest(), f"bytes of {entry['name']}")


def both_judge_alike(tool, folder):
    """Files of one tensor with a hand-written header: both accept, or both refuse."""
    entry = '"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}'
    cases = {
        "plain": ("{%s}" % entry, 2), "leading space": ("  {%s}" % entry, 2), "trailing space": ("{%s}   " % entry, 2), "tail": ("{%s}" % entry, 3),
        "short": ("{%s}" % entry, 1), "hole": ('{"a":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}', 3),
        "overlap": ('{%s,"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}' % entry, 3), "dtype": ("{%s}" % entry.replace("U8", "U9"), 2),
        "size": ("{%s}" % entry.replace("[2]", "[3]"), 2), "negative": ("{%s}" % entry.replace("[2]", "[-2]"), 2), "array": ("[]", 0),
        "empty": ("{}", 0), "metadata": ('{"__metadata__":{"a":1}}', 0), "zero dimension": ('{"a":{"dtype":"F32","shape":[0,3],"data_offsets":[0,0]}}', 0),
        "scalar": ('{"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}', 4), "broken": ('{"a":', 0), "zero byte": ("{}\0x", 0),
        "overflow": ('{"a":{"dtype":"F64","shape":[4294967296,4294967296],"data_offsets":[0,8]}}', 8),
    }
    for name, (header, data) in cases.items():
        path = folder / "case.safetensors"
        path.write_bytes(len(header).to_bytes(8, "little") + header.encode() + b"x" * data)
        try:
            load_file(path)
            theirs = True
        except Exception:  # the package raises several kinds
            theirs = False
        code, text = tool_reads(tool, path)
        expect(code in (0, 5), f"{name}: exit code {code}: {text}")
        expect((code == 0) == theirs, f"{name}: ours {'accepts' if code == 0 else 'refuses'}, the reference does not agree: {text}")
    return len(cases)


def main():
    tool = str(pathlib.Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        ours_is_read_by_theirs(tool, folder)
        theirs_is_read_by_ours(tool, folder)
        cases = both_judge_alike(tool, folder)
    print(f"safetensors {safetensors.__version__}: both directions equal, {cases} headers judged alike")


if __name__ == "__main__":
    main()
