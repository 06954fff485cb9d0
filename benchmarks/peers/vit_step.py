"""Peer of vit_step_benchmark: one training step of a small ViT classifier in plain PyTorch, as a careful user writes it.

Same work: patch embedding, pre-LN blocks with scaled_dot_product_attention, exact GELU, cross-entropy with label smoothing, global-norm
clipping, fused AdamW with a no-decay group. Prints one JSON line: images per second and milliseconds per step (median of the rounds).
"""
import argparse
import json
import time

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width, heads, mlp):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width, eps=1e-12)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width, eps=1e-12)
        self.up = nn.Linear(width, mlp)
        self.down = nn.Linear(mlp, width)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        a = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(a.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Vit(nn.Module):
    def __init__(self, size, patch, channels, width, depth, heads, mlp, classes):
        super().__init__()
        self.patch = nn.Conv2d(channels, width, patch, patch)
        self.cls = nn.Parameter(torch.zeros(1, 1, width))
        self.pos = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, width) * 0.02)
        self.blocks = nn.ModuleList(Block(width, heads, mlp) for _ in range(depth))
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.pos
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


def main():
    parser = argparse.ArgumentParser()
    for name, default in dict(size=28, patch=7, channels=1, width=96, depth=4, heads=4, mlp=192, classes=10, batch=64, threads=1, steps=100,
                              rounds=5, warmup=20).items():
        parser.add_argument("--" + name, type=int, default=default)
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    model = Vit(a.size, a.patch, a.channels, a.width, a.depth, a.heads, a.mlp, a.classes)
    decay = [p for n, p in model.named_parameters() if p.ndim == 2 or n == "patch.weight"]
    rest = [p for n, p in model.named_parameters() if not (p.ndim == 2 or n == "patch.weight")]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.05}, {"params": rest, "weight_decay": 0.0}], lr=1.5e-3, fused=True)
    x = torch.randn(a.batch, a.channels, a.size, a.size)
    y = torch.randint(0, a.classes, (a.batch,))

    def step():
        loss = F.cross_entropy(model(x), y, label_smoothing=0.05)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    for _ in range(a.warmup):
        step()
    rates = []
    cpu_rates = []
    for _ in range(a.rounds):
        begin, cpu_begin = time.perf_counter(), time.process_time()
        for _ in range(a.steps):
            step()
        rates.append(a.steps * a.batch / (time.perf_counter() - begin))
        cpu_rates.append(a.steps * a.batch / (time.process_time() - cpu_begin))
    rate, cpu_rate = sorted(rates)[len(rates) // 2], sorted(cpu_rates)[len(rates) // 2]
    print(json.dumps({"name": "pytorch", "images_per_second": round(rate, 1), "images_per_cpu_second": round(cpu_rate, 1),
                      "step_ms": round(1000 * a.batch / rate, 3)}))


if __name__ == "__main__":
    main()
