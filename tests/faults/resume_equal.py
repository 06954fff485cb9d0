#!/usr/bin/env python3
"""40 steps straight equal 40 steps with a kill -9 of the agent after step 16 is committed and `--resume auto`: every tensor of the final
checkpoint bit for bit, and metrics.jsonl by the rule of the records (docs/formats/records.md).

    resume_equal.py --bin build/bin --worker fake|cpp
"""
import argparse
import tempfile

from runs import Job, kill, read_metrics, read_tensors, wait_until


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--worker", default="fake")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as straight_folder, tempfile.TemporaryDirectory() as killed_folder:
        overrides = ["parascale.training.batch_size=16", "parascale.training.gradient_accumulation_steps=2"]
        straight = Job(arguments.bin, straight_folder, arguments.worker, 40, 8, overrides, evaluation=12)
        straight.run()
        killed = Job(arguments.bin, killed_folder, arguments.worker, 40, 8, overrides, evaluation=12)
        agent = killed.start()
        assert wait_until(lambda: killed.committed(16) or agent.poll() is not None), "step 16 was never committed"
        kill(agent.pid)
        agent.wait()
        assert not killed.committed(40), "the run ended before it could be killed; nothing was tested"
        killed.run("--resume", "auto")
        ours, theirs = read_tensors(straight.checkpoints()[-1]), read_tensors(killed.checkpoints()[-1])
        assert ours.keys() == theirs.keys()
        different = [name for name in ours if ours[name] != theirs[name]]
        assert not different, f"{len(different)} tensors differ: {different[:5]}"
        a, b = read_metrics(straight.run_dir), read_metrics(killed.run_dir)
        assert a.keys() == b.keys(), a.keys() ^ b.keys()
        lines = [key for key in a if a[key] != b[key]]
        assert not lines, f"{len(lines)} lines differ, first: {a[lines[0]]} / {b[lines[0]]}"
        print(f"{len(ours)} tensors and {len(a)} metrics lines are equal ({arguments.worker} worker)")


if __name__ == "__main__":
    main()
