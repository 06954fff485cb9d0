#!/usr/bin/env python3
"""kill -9 of the agent, of the rank, of the data engine at random moments: the newest committed checkpoint verifies and resumes to the same end
as an undisturbed run, and no process, temporary directory or shared memory is left after the next start.

    kill_sweep.py --bin build/bin [--worker fake] [--rounds 3] [--seed 1]
"""
import argparse
import pathlib
import random
import tempfile
import time

from runs import Job, alive, kill, read_tensors, wait_until

STEPS, INTERVAL = 1500, 50
LINE_BYTES = 550  # of metrics.jsonl, about


def wait_for_moment(job, agent, moment, generator):
    """`moment` in [0, 1): the first tenth is spent on the start-up, the rest on the steps, told by the records and not by the clock."""
    if moment < 0.1:
        time.sleep(moment * 10 * 0.1)
        return
    metrics = job.run_dir / "metrics.jsonl"
    wanted = (moment - 0.1) / 0.9 * STEPS * LINE_BYTES
    wait_until(lambda: agent.poll() is not None or (metrics.exists() and metrics.stat().st_size >= wanted))
    time.sleep(generator.uniform(0, 0.003))


def sweep(arguments, victim, moment, expected, generator):
    with tempfile.TemporaryDirectory() as folder:
        job = Job(arguments.bin, folder, arguments.worker, STEPS, INTERVAL, ["parascale.training.batch_size=8"])
        agent = job.start()
        children = {}
        assert wait_until(lambda: children.update(job.children(agent.pid)) or len(children) == 2 or agent.poll() is not None)
        wait_for_moment(job, agent, moment, generator)
        pids = [agent.pid, *children.values()]
        target = agent.pid if victim == "agent" else children.get(victim, -1)
        kill(target)
        agent.communicate(timeout=60)
        if victim == "agent":
            assert agent.returncode in (-9, 0), agent.returncode
        else:
            assert agent.returncode in (4, 0), f"{victim} killed, exit code {agent.returncode}"
        assert wait_until(lambda: not any(alive(pid) for pid in pids), 5), f"left behind: {[pid for pid in pids if alive(pid)]}"
        if any(job.checkpoints()):
            job.validate()
        job.run("--resume", "auto")
        left = [p.name for p in (job.run_dir / "checkpoints").iterdir() if p.name.startswith((".tmp", ".del", ".old"))]
        assert not left, f"left behind: {left}"
        job.validate()
        final = read_tensors(job.checkpoints()[-1])
        assert final == expected, f"{victim} killed at {moment:.3f} of the run: the end differs"
        return agent.returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--worker", default="fake")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    generator = random.Random(arguments.seed)
    print(f"seed {arguments.seed}")
    with tempfile.TemporaryDirectory() as folder:
        straight = Job(arguments.bin, folder, arguments.worker, STEPS, INTERVAL, ["parascale.training.batch_size=8"])
        straight.run()
        expected = read_tensors(straight.checkpoints()[-1])
    shared_before = {p.name for p in pathlib.Path("/dev/shm").iterdir()}
    hits = {}
    for victim in ("agent", "worker", "engine"):
        hits[victim] = sum(sweep(arguments, victim, generator.uniform(0.0, 0.95), expected, generator) != 0 for _ in range(arguments.rounds))
    shared_after = {p.name for p in pathlib.Path("/dev/shm").iterdir()}
    assert not {name for name in shared_after - shared_before if "parascale" in name}
    print(f"{arguments.rounds} rounds each; killed while running: {hits}")
    assert all(hits.values()), "a victim was never hit while the run was under way"


if __name__ == "__main__":
    main()
