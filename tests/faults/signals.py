#!/usr/bin/env python3
"""The first SIGTERM finishes the step, commits, exits 0 and says so; a second ends at once; a resumed run then equals an undisturbed one.

    signals.py --bin build/bin [--worker fake]
"""
import argparse
import json
import signal
import tempfile

from runs import Job, read_tensors, wait_until


def events(job):
    return [json.loads(line) for line in (job.run_dir / "events.jsonl").read_text().splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--worker", default="fake")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as a, tempfile.TemporaryDirectory() as b:
        straight = Job(arguments.bin, a, arguments.worker, 2000, 500, ["parascale.training.batch_size=8"], evaluation=600)
        straight.run()
        stopped = Job(arguments.bin, b, arguments.worker, 2000, 500, ["parascale.training.batch_size=8"], evaluation=600)
        for number in (signal.SIGTERM, signal.SIGINT):
            agent = stopped.start(*(["--resume", "auto"] if stopped.run_dir.exists() else []))
            seen = len(stopped.checkpoints())
            assert wait_until(lambda: len(stopped.checkpoints()) > seen or agent.poll() is not None)
            agent.send_signal(number)
            agent.communicate(timeout=60)
            assert agent.returncode == 0, agent.returncode
            last = events(stopped)[-1]
            assert last["event"] == "finished" and last["details"]["outcome"] in ("stopped", "completed"), last
            assert stopped.committed(last["step"]), f"step {last['step']} was not committed"
        stopped.run("--resume", "auto")
        assert read_tensors(straight.checkpoints()[-1]) == read_tensors(stopped.checkpoints()[-1]), "the end differs"
        outcomes = [e["details"]["outcome"] for e in events(stopped) if e["event"] == "finished"]
        assert outcomes[0] == "stopped", outcomes
        print(f"stopped twice and resumed to the same end: {outcomes}")
    with tempfile.TemporaryDirectory() as folder:
        # A rank that hangs keeps the first signal from finishing the step; the second must not wait for it.
        hung = Job(arguments.bin, folder, "fake", 2000, 500)
        agent = hung.start(environment={"PARASCALE_FAKE_FAULT": "hang@3"})
        assert wait_until(lambda: hung.committed(0))
        wait_until(lambda: False, 0.5)
        agent.send_signal(signal.SIGTERM)
        assert wait_until(lambda: any(e["event"] == "signal" for e in events(hung)), 5)
        assert agent.poll() is None
        agent.send_signal(signal.SIGTERM)
        agent.communicate(timeout=5)
        assert agent.returncode == 4, agent.returncode
        print("a second signal ends at once with code 4")


if __name__ == "__main__":
    main()
