"""Compares the C++ ViT, loss and optimizers with transformers' ViTForImageClassification and torch.optim.

usage: vit_numerics.py path/to/vit_numerics_tool

For each case the same start weights, pictures and labels go through PyTorch in Python and through the tool (which uses the worker's Trainer):
logits of the first batch, gradients of the first step, loss and gradient norm of 20 steps, and all weights after them, with clipping, label
smoothing, two weight decay groups and (in one case) accumulation.

The reference is PyTorch in float64. The tool computes in float32 and must stay within an absolute tolerance (logits and weights are of order 1).
Adam divides a gradient by its own size, so where it is near zero float32 noise becomes an update of up to the learning rate for anyone who
computes in float32; weights after AdamW may therefore also be as far from the reference as MARGIN times what PyTorch's own float32 run is, which
is printed. The bias of the keys is left out there: its gradient is zero in exact arithmetic (softmax ignores a common offset), all of it is noise.
"""
import copy
import json
import os
import re
import struct
import subprocess
import sys
import tempfile

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1")
import numpy as np
import torch
from torch.nn import functional as F
from transformers import ViTConfig, ViTForImageClassification

STEPS = 20
TOLERANCE = {"logits": 1e-5, "grad": 1e-5, "loss": 1e-5, "grad_norm": 2e-5, "after": 1e-5}
MARGIN = 2.0

RENAMED = [(r"^vit\.layers\.(\d+)\.", r"vit.encoder.layer.\1."), (r"\.attention\.q_proj\.", ".attention.attention.query."),
           (r"\.attention\.k_proj\.", ".attention.attention.key."), (r"\.attention\.v_proj\.", ".attention.attention.value."),
           (r"\.attention\.o_proj\.", ".attention.output.dense."), (r"\.mlp\.fc1\.", ".intermediate.dense."), (r"\.mlp\.fc2\.", ".output.dense.")]


def saved_name(name):
    """The name in saved files of a parameter that transformers 5 renames in memory."""
    for pattern, replacement in RENAMED:
        name = re.sub(pattern, replacement, name)
    return name


def quickstart(**changes):
    sizes = dict(image_size=28, patch_size=7, num_channels=1, hidden_size=96, num_hidden_layers=4, num_attention_heads=4, intermediate_size=192,
                 num_labels=10, initializer_range=0.05)
    return ViTConfig(**{**sizes, **changes})


ADAMW = dict(type="adamw", betas=[0.9, 0.999], eps=1e-8, weight_decay=0.05)
CASES = {
    "adamw": dict(config=quickstart(), optimizer=ADAMW, clip=1.0, smoothing=0.05, batch=32, micro_steps=1),
    "adamw accumulated": dict(config=quickstart(num_hidden_layers=2), optimizer=ADAMW, clip=0.5, smoothing=0.1, batch=8, micro_steps=4),
    "sgd momentum": dict(config=quickstart(num_hidden_layers=2), optimizer=dict(type="sgd", momentum=0.9, nesterov=True, weight_decay=0.01),
                         clip=1.0, smoothing=0.0, batch=16, micro_steps=2),
    "long sequence, odd sizes": dict(config=quickstart(image_size=40, patch_size=4, num_channels=3, hidden_size=66, num_attention_heads=3,
                                                       intermediate_size=130, num_hidden_layers=3, num_labels=7),
                                     optimizer=dict(type="sgd", momentum=0.0, nesterov=False, weight_decay=0.01), clip=None, smoothing=0.1, batch=8,
                                     micro_steps=1),
    "no qkv bias": dict(config=quickstart(qkv_bias=False, num_hidden_layers=2), optimizer=ADAMW, clip=None, smoothing=0.0, batch=16, micro_steps=1),
}


def decays(name):
    return not (name.endswith("bias") or "norm" in name or "cls_token" in name or "position_embeddings" in name)


def run_pytorch(model, case, pixels, labels, rates):
    groups = [{"params": [p for n, p in model.named_parameters() if decays(n)], "weight_decay": case["optimizer"]["weight_decay"]},
              {"params": [p for n, p in model.named_parameters() if not decays(n)], "weight_decay": 0.0}]
    settings = case["optimizer"]
    if settings["type"] == "adamw":
        optimizer = torch.optim.AdamW(groups, lr=1.0, betas=settings["betas"], eps=settings["eps"])
    else:
        optimizer = torch.optim.SGD(groups, lr=1.0, momentum=settings["momentum"], nesterov=settings["nesterov"])
    out = {"logits": model(pixel_values=pixels[:case["batch"]]).logits.detach()}
    count = case["batch"] * case["micro_steps"]
    losses, norms = [], []
    for step, rate in enumerate(rates):
        total = 0.0
        for k in range(case["micro_steps"]):
            first = step * count + k * case["batch"]
            rows = slice(first, first + case["batch"])
            loss = F.cross_entropy(model(pixel_values=pixels[rows]).logits, labels[rows], label_smoothing=case["smoothing"], reduction="sum") / count
            loss.backward()
            total += loss.item()
        if step == 0:
            out.update({"grad." + saved_name(n): p.grad.clone() for n, p in model.named_parameters()})
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), case["clip"] if case["clip"] else float("inf"))
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total)
        norms.append(norm.item())
    out.update({"after." + saved_name(n): p.detach() for n, p in model.named_parameters()})
    out["loss"], out["grad_norm"] = torch.tensor(losses), torch.tensor(norms)
    return {name: value.numpy() for name, value in out.items()}


def run_tool(tool, folder, case, pixels, labels, rates):
    path = os.path.join(folder, "model.safetensors")
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(size))
    tensors = [{"name": n, "file": path, "offset": 8 + size + e["data_offsets"][0], "bytes": e["data_offsets"][1] - e["data_offsets"][0]}
               for n, e in header.items() if n != "__metadata__"]
    pixels.numpy().astype("<f4").tofile(os.path.join(folder, "pixels"))
    labels.numpy().astype("<i8").tofile(os.path.join(folder, "labels"))
    with open(os.path.join(folder, "config.json")) as file:
        model = json.load(file)
    job = {"plan": {"model": model, "optimizer": case["optimizer"], "training": {"label_smoothing": case["smoothing"], "grad_clip_norm": case["clip"]},
                    "threads": {"intra_op": 1}},
           "tensors": tensors, "pixels": os.path.join(folder, "pixels"), "labels": os.path.join(folder, "labels"), "batch": case["batch"],
           "micro_steps": case["micro_steps"], "denominator": case["batch"] * case["micro_steps"], "learning_rates": rates}
    with open(os.path.join(folder, "job.json"), "w") as file:
        json.dump(job, file)
    stem = os.path.join(folder, "out")
    subprocess.run([tool, os.path.join(folder, "job.json"), stem], check=True, stderr=subprocess.DEVNULL)
    values = np.fromfile(stem + ".bin", "<f4")
    with open(stem + ".json") as file:
        entries = json.load(file)
    return {e["name"]: values[e["offset"] // 4:e["offset"] // 4 + int(np.prod(e["shape"]))].reshape(e["shape"]) for e in entries}


def worst_errors(case, expected, actual):
    """Largest absolute difference and its tensor, by kind of entry."""
    assert expected.keys() == actual.keys(), expected.keys() ^ actual.keys()
    worst = {}
    for key, want in expected.items():
        kind = key.split(".")[0]
        if kind == "after" and case["optimizer"]["type"] == "adamw" and key.endswith("key.bias"):
            continue
        assert want.shape == actual[key].shape, key
        error = float(np.abs(want - actual[key]).max())
        if not error <= worst.get(kind, (-1.0,))[0]:
            worst[kind] = (error, key)
    return worst


def compare(name, case, expected, pytorch32, actual):
    ours, theirs = worst_errors(case, expected, actual), worst_errors(case, expected, pytorch32)
    limits = dict(TOLERANCE)
    if case["optimizer"]["type"] == "adamw":
        limits["after"] = max(limits["after"], MARGIN * theirs["after"][0])
    failed = [kind for kind, (error, _) in ours.items() if not error <= limits[kind]]
    print(f"{'FAIL' if failed else 'ok  '} {name} (PyTorch float32 in brackets): " +
          ", ".join(f"{kind} {error:.1e} ({theirs[kind][0]:.1e})" for kind, (error, _) in ours.items()))
    for kind in failed:
        print(f"     {kind}: {ours[kind][0]:.3e} > {limits[kind]:.1e} at {ours[kind][1]}")
    return not failed


def main():
    tool = sys.argv[1]
    torch.set_num_threads(1)
    good = True
    for name, case in CASES.items():
        torch.manual_seed(7)
        config = case["config"]
        model = ViTForImageClassification(config).train()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.02 * torch.randn_like(parameter))
        count = STEPS * case["batch"] * case["micro_steps"]
        pixels = torch.randn(count, config.num_channels, config.image_size, config.image_size)
        labels = torch.randint(0, config.num_labels, (count,))
        rates = [1e-3 * min(1.0, (step + 1) / 5) for step in range(STEPS)]
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            actual = run_tool(tool, folder, case, pixels, labels, rates)
        expected = run_pytorch(copy.deepcopy(model).double(), case, pixels.double(), labels, rates)
        pytorch32 = run_pytorch(model, case, pixels, labels, rates)
        good = compare(name, case, expected, pytorch32, actual) and good
    print(f"{len(CASES)} cases, {STEPS} steps each: {'all equal within tolerance' if good else 'differences'}")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
