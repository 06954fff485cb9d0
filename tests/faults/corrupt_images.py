#!/usr/bin/env python3
"""One per cent of the images corrupted (cut short, zero bytes, HTML named .png): the run completes, counts exactly, and makes the same batches on a
rerun and with 1, 2 and 5 threads; the ledger names every sample with its reason and replacement.

    corrupt_images.py --bin build/bin
"""
import argparse
import io
import json
import pathlib
import random
import tarfile
import tempfile

from runs import REPOSITORY, Job, read_metrics

SHARDS = [f"train-{i:04d}.tar" for i in range(4)] + ["validation-0000.tar"]


def corrupt(folder, seed):
    """Copies the digits with 1 % damaged; returns how many of each split."""
    generator = random.Random(seed)
    counts = {"train": 0, "validation": 0}
    for name in SHARDS:
        with tarfile.open(REPOSITORY / "examples/data/digits" / name) as source, tarfile.open(folder / name, "w", format=tarfile.USTAR_FORMAT) as target:
            for member in source:
                content = source.extractfile(member).read()
                if member.name.endswith(".png") and generator.random() < 0.01:
                    counts[name.split("-")[0]] += 1
                    content = [content[: len(content) // 2], b"", b"<html><body>404 Not Found</body></html>"][generator.randrange(3)]
                member.size = len(content)
                target.addfile(member, io.BytesIO(content))
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", required=True)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        data = folder / "data"
        data.mkdir()
        counts = corrupt(data, 5)
        steps = 2 * (4000 // 64)  # two epochs
        results = []
        for number, threads in enumerate([1, 1, 2, 5]):
            job = Job(arguments.bin, folder / f"job{number}", "fake", steps, 1000,
                      [f"data.train={data}/train-*.tar", f"data.validation={data}/validation-*.tar", f"parascale.data.dataloader_num_workers={threads}",
                       "parascale.data.dataloader_drop_last=true"], evaluation=steps)
            job.run()
            metrics = read_metrics(job.run_dir)
            events = [json.loads(line) for line in (job.run_dir / "events.jsonl").read_text().splitlines()]
            ledger = sorted({(e["details"]["split"], e["details"]["id"], e["details"]["reason"], e["details"].get("replacement"))
                             for e in events if e["event"] == "sample_failed"}, key=str)
            results.append((metrics, ledger))
            assert metrics[("eval", steps)]["left_out"] == counts["validation"], (metrics[("eval", steps)]["left_out"], counts)
            assert metrics[("eval", steps)]["batch_size"] == 1000 - counts["validation"]
            replaced = sum(line["replaced"] for (kind, _), line in metrics.items() if kind == "train")
            assert replaced > 0
            failed = {(split, sample) for split, sample, _, _ in ledger}
            assert len([1 for split, _ in failed if split == "validation"]) == counts["validation"]
            assert len([1 for split, _ in failed if split == "train"]) <= counts["train"]
            assert all(replacement is not None for split, _, _, replacement in ledger if split == "train")
            evidence = json.loads((job.run_dir / "evidence.json").read_text())
            assert "ledger" in json.dumps(evidence), "the ledger stands in evidence.json"
        for metrics, ledger in results[1:]:
            assert metrics == results[0][0], "batches differ between runs or thread counts"
            assert ledger == results[0][1]
        print(f"{counts} images corrupted, {replaced} presentations replaced, {len(results[0][1])} ledger entries; equal for a rerun and 1, 2, 5 threads")


if __name__ == "__main__":
    main()
