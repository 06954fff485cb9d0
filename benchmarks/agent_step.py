#!/usr/bin/env python3
"""Wall time of one step of the control layer alone: agent, protocol and slot hand-over, with the fake worker and the engine in synthetic mode
(no decode), batch 32. Prints the median and p90 of the time between steps; with --limit-us fails above it (for an idle machine only).

    agent_step.py --bin build/bin [--steps 20000] [--limit-us 100]
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--steps", type=int, default=20000)
    parser.add_argument("--limit-us", type=float)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        settings = ["runtime.worker=fake", "data.type=synthetic", "data.train=[]", "data.validation=[]", "parascale.training.batch_size=32",
                    f"training.max_steps={arguments.steps}", "training.evaluation.interval=0", "parascale.training.checkpoint_save_interval=1000000",
                    "data.augment.affine.degrees=0", "data.augment.affine.translate=0", "data.augment.affine.scale=[1.0,1.0]",
                    f"runtime.run_dir={folder}/run"]
        command = [f"{pathlib.Path(arguments.bin).resolve()}/parascale", "train", "configs/quickstart/digits_vit.yaml", "-q"]
        subprocess.run(command + [w for s in settings for w in ("--set", s)], cwd=REPOSITORY, check=True, stdout=subprocess.DEVNULL)
        elapsed = []
        cpu = None
        for line in (pathlib.Path(folder) / "run/metrics.jsonl").read_text().splitlines():
            record = json.loads(line)
            if record["kind"] == "train":
                elapsed.append(record["timing"]["elapsed_seconds"])
        for line in (pathlib.Path(folder) / "run/events.jsonl").read_text().splitlines():
            event = json.loads(line)
            if event["event"] == "finished":
                cpu = event["details"]["cpu_seconds"]
    steps = sorted((b - a) * 1e6 for a, b in zip(elapsed[100:], elapsed[101:]))
    median, p90 = statistics.median(steps), steps[int(len(steps) * 0.9)]
    mean = (elapsed[-1] - elapsed[100]) / (len(elapsed) - 101) * 1e6
    print(f"step of the control layer: median {median:.1f} us, mean {mean:.1f} us, p90 {p90:.1f} us over {len(steps)} steps; CPU us a step: "
          + ", ".join(f"{name} {seconds / len(elapsed) * 1e6:.1f}" for name, seconds in cpu.items() if name != "evaluation"))
    if arguments.limit_us and median > arguments.limit_us:
        raise SystemExit(f"the median is above {arguments.limit_us} us")


if __name__ == "__main__":
    main()
