#!/usr/bin/env python3
"""TensorBoard's own reader finds in a run's event files what stands in metrics.jsonl.

    tensorboard_run.py --bin build/bin    (run with the oracle environment's Python)
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", required=True)
    parascale = pathlib.Path(parser.parse_args().bin).resolve() / "parascale"
    with tempfile.TemporaryDirectory() as folder:
        settings = ["training.max_steps=20", "training.lr_schedule.warmup_steps=2", "training.evaluation.interval=10",
                    f"runtime.run_dir={folder}/run"]
        subprocess.run([parascale, "train", "configs/quickstart/digits_vit.yaml", "-q"] + [w for s in settings for w in ("--set", s)],
                       cwd=HERE.parents[1], check=True, stdout=subprocess.DEVNULL)
        return subprocess.run([sys.executable, HERE / "tensorboard_read.py", "--check", f"{folder}/run"]).returncode


if __name__ == "__main__":
    sys.exit(main())
