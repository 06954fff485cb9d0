#!/usr/bin/env python3
"""transformers' `from_pretrained` on a step directory gives the logits of `parascale infer` within 1e-5.

    hf_logits.py --bin build/bin          (run with the oracle environment's Python)
"""
import argparse
import json
import os
import pathlib
import subprocess
import tempfile

os.environ["HF_HUB_OFFLINE"] = os.environ["TRANSFORMERS_OFFLINE"] = "1"

import numpy  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from PIL import Image  # noqa: E402

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", required=True)
    parascale = pathlib.Path(parser.parse_args().bin).resolve() / "parascale"
    with tempfile.TemporaryDirectory() as folder:
        run, answers = f"{folder}/run", f"{folder}/answers.jsonl"
        settings = ["training.max_steps=30", "training.lr_schedule.warmup_steps=5", "training.evaluation.interval=0", f"runtime.run_dir={run}"]
        subprocess.run([parascale, "train", "configs/quickstart/digits_vit.yaml", "-q"] + [w for s in settings for w in ("--set", s)], cwd=REPOSITORY,
                       check=True, stdout=subprocess.DEVNULL)
        step = f"{run}/checkpoints/step-00000030"
        subprocess.run([parascale, "infer", "--checkpoint", step, "--input", "examples/digits_png", "--output", answers, "-q"], cwd=REPOSITORY, check=True,
                       stdout=subprocess.DEVNULL)
        model = transformers.ViTForImageClassification.from_pretrained(step).eval()
        recipe = json.loads(pathlib.Path(step, "preprocessor_config.json").read_text())
        worst = 0.0
        lines = [json.loads(line) for line in pathlib.Path(answers).read_text().splitlines()]
        assert len(lines) == 10, len(lines)
        for line in lines:
            side = recipe["size"]["width"]
            image = Image.open(REPOSITORY / line["path"]).convert("L").resize((side, side), Image.Resampling(recipe["resample"]))
            values = (numpy.asarray(image, dtype=numpy.float32) * recipe["rescale_factor"] - recipe["image_mean"][0]) / recipe["image_std"][0]
            with torch.no_grad():
                logits = model(torch.tensor(values, dtype=torch.float32)[None, None]).logits[0]
            worst = max(worst, (logits - torch.tensor(line["logits"])).abs().max().item())
            assert line["top"][0]["index"] == int(logits.argmax())
        assert worst <= 1e-5, worst
        print(f"from_pretrained and infer agree within {worst:.2e} on {len(lines)} pictures")


if __name__ == "__main__":
    main()
