"""What the run-level tests share: starting the product on a small job, reading its records and tensors. Standard library only."""
import json
import os
import pathlib
import signal
import struct
import subprocess
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
CONFIG = str(REPOSITORY / "configs/quickstart/digits_vit.yaml")


class Job:
    """A training job in its own folder. `worker` is `fake` or `cpp`; `steps` and `interval` make it small."""

    def __init__(self, binaries, folder, worker, steps, interval, overrides=(), evaluation=0):
        self.parascale = str(pathlib.Path(binaries).resolve() / "parascale")
        self.run_dir = pathlib.Path(folder) / "run"
        settings = [f"runtime.worker={worker}", f"training.max_steps={steps}", "training.lr_schedule.warmup_steps=2",
                    f"parascale.training.checkpoint_save_interval={interval}", f"training.evaluation.interval={evaluation}",
                    "parascale.training.checkpoint_keep_last=100", f"runtime.run_dir={self.run_dir}", *overrides]
        self.command = [self.parascale, "train", CONFIG, "-q"] + [word for item in settings for word in ("--set", item)]

    def start(self, *more, environment=None):
        return subprocess.Popen(self.command + list(more), cwd=REPOSITORY, env={**os.environ, **(environment or {})},
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def run(self, *more, expect=0, environment=None):
        process = self.start(*more, environment=environment)
        _, error = process.communicate(timeout=600)
        assert process.returncode == expect, f"exit code {process.returncode}, expected {expect}\n{error}"
        return error

    def checkpoints(self):
        root = self.run_dir / "checkpoints"
        return sorted(p for p in root.iterdir() if p.name.startswith("step-")) if root.is_dir() else []

    def committed(self, step):
        return (self.run_dir / f"checkpoints/step-{step:08d}/manifest.json").is_file()

    def children(self, agent_pid):
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                    name = (entry / "cmdline").read_bytes().split(b"\0")
                except (FileNotFoundError, ProcessLookupError):
                    continue
                if int(fields[1]) == agent_pid:
                    role = "engine" if b"data-engine" in name else "worker"
                    found[role] = int(entry.name)
        return found

    def validate(self):
        result = subprocess.run([self.parascale, "checkpoint", "validate", str(self.run_dir)], capture_output=True, text=True)
        assert result.returncode == 0, result.stdout + result.stderr


def read_metrics(run_dir):
    """(kind, step) -> the line without what may differ between attempts; the last line counts."""
    lines = {}
    for text in (pathlib.Path(run_dir) / "metrics.jsonl").read_text().splitlines():
        try:
            line = json.loads(text)
        except json.JSONDecodeError:
            continue  # cut by a kill
        key = (line["kind"], line["step"])
        lines[key] = {k: v for k, v in line.items() if k not in ("attempt", "timing", "memory", "rates")}
    return lines


def read_tensors(step_dir):
    """name -> bytes of every tensor of a checkpoint."""
    tensors = {}
    for path in sorted(pathlib.Path(step_dir).rglob("*.safetensors")):
        data = path.read_bytes()
        (length,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8:8 + length])
        for name, entry in header.items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                tensors[name] = data[8 + length + begin:8 + length + end]
    assert tensors, f"no tensor in {step_dir}"
    return tensors


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.005)
    return False
