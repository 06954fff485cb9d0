#!/usr/bin/env python3
"""Writes the shipped digits: WebDataset shards for training and validation, and ten loose pictures.

usage: tools/make_digits.py MNIST_5K.csv.gz [REPOSITORY]

The input holds one digit a row: 784 grey values (28x28, row-major, 0..255), then the label. Row i (from 0) is validation when i % 5 == 4, else
training; a sample's key is its row number in five digits. Output, the same bytes at every run with one zlib version:

  examples/data/digits/train-0000.tar .. train-0003.tar   1,000 samples each, by row number
  examples/data/digits/validation-0000.tar                1,000 samples
  examples/digits_png/<label>.png                         the first validation sample of each class

A sample is <key>.png (8-bit grey), <key>.cls (the label and a line feed) and <key>.txt ("a handwritten three").
Only the standard library is used.
"""

import csv
import gzip
import io
import pathlib
import struct
import sys
import tarfile
import zlib

SIDE = 28
SHARD_SAMPLES = 1000
WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def make_png(pixels):
    """8-bit grey, no filter, strongest compression."""
    rows = b"".join(b"\0" + bytes(pixels[y * SIDE:(y + 1) * SIDE]) for y in range(SIDE))
    head = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")


def add(archive, name, content):
    member = tarfile.TarInfo(name)  # owner, group and time stay zero
    member.size = len(content)
    member.mode = 0o644
    archive.addfile(member, io.BytesIO(content))


def write_shard(path, samples):
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for row, pixels, label in samples:
            key = f"{row:05d}"
            add(archive, key + ".png", make_png(pixels))
            add(archive, key + ".cls", f"{label}\n".encode())
            add(archive, key + ".txt", f"a handwritten {WORDS[label]}\n".encode())


def read_rows(path):
    with gzip.open(path, "rt", newline="") as text:
        for number, cells in enumerate(csv.reader(text)):
            values = [int(float(cell)) for cell in cells]
            if len(values) != SIDE * SIDE + 1 or not 0 <= values[-1] <= 9:
                raise SystemExit(f"{path}: row {number} is no digit")
            yield number, values[:-1], values[-1]


def main():
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    root = pathlib.Path(sys.argv[2] if len(sys.argv) == 3 else ".")
    shards = root / "examples/data/digits"
    loose = root / "examples/digits_png"
    shards.mkdir(parents=True, exist_ok=True)
    loose.mkdir(parents=True, exist_ok=True)
    rows = list(read_rows(sys.argv[1]))
    splits = {"train": [row for row in rows if row[0] % 5 != 4], "validation": [row for row in rows if row[0] % 5 == 4]}
    for name, samples in splits.items():
        for start in range(0, len(samples), SHARD_SAMPLES):
            write_shard(shards / f"{name}-{start // SHARD_SAMPLES:04d}.tar", samples[start:start + SHARD_SAMPLES])
    for label in range(10):
        pixels = next(sample[1] for sample in splits["validation"] if sample[2] == label)
        (loose / f"{label}.png").write_bytes(make_png(pixels))


if __name__ == "__main__":
    main()
