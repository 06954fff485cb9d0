#!/usr/bin/env python3
"""A disk that fills up costs checkpoints, not the run: interval checkpoints are left out with a warning, earlier ones stay whole, nothing is left
half written; when even the last checkpoint has no room the run ends with exit 5 and says how much is missing.

    disk_full.py --bin build/bin     (makes a small tmpfs in a mount namespace of its own; needs no root where user namespaces are allowed)
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from runs import Job


def inside(binaries, folder):
    disk = pathlib.Path(folder) / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8600k", "tmpfs", str(disk)], check=True)
    job = Job(binaries, folder, "fake", 60, 10, [f"parascale.training.checkpoint_save_path={disk}/checkpoints", "parascale.training.batch_size=8"])
    error = job.run(expect=5)
    assert "PS507" in error, error
    events = [json.loads(line) for line in (job.run_dir / "events.jsonl").read_text().splitlines()]
    warnings = [e for e in events if e["event"] == "warning" and e["details"]["code"] == "PS507"]
    assert warnings, "no checkpoint was left out with a warning"
    root = disk / "checkpoints"
    left = [p.name for p in root.iterdir() if p.name.startswith(".")]
    assert not left, left
    kept = sorted(p for p in root.iterdir() if p.name.startswith("step-"))
    for step in kept:
        done = subprocess.run([job.parascale, "checkpoint", "validate", str(step)], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    for step in kept[1:3]:  # space comes back: the run goes on from the newest whole one
        subprocess.run(["rm", "-r", str(step)], check=True)
    subprocess.run(["mount", "-o", "remount,size=20m", str(disk)], check=True)
    job.run("--resume", "auto")
    print(f"{len(warnings)} checkpoints left out, {len(kept)} whole, exit 5 at the end, resumed after space came back")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--inside")
    arguments = parser.parse_args()
    if arguments.inside:
        return inside(arguments.bin, arguments.inside)
    with tempfile.TemporaryDirectory() as folder:
        command = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
        return subprocess.run(command + [sys.executable, __file__, "--bin", arguments.bin, "--inside", folder]).returncode


if __name__ == "__main__":
    sys.exit(main())
