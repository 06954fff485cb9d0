"""Writes src/parascale/data/tests/golden/pillow_affine.json: what Pillow's Image.transform(AFFINE, BILINEAR) makes of made-up images.

Run with Pillow 13.0.0 from the repository root (`--check` only compares):  python tests/oracles/pillow_affine.py
"""

import json
import math
import pathlib

import PIL
from golden import write_or_check
from PIL import Image

OUT = pathlib.Path("src/parascale/data/tests/golden/pillow_affine.json")


def noise(count, state):
    """Bytes of a 32-bit linear congruential generator (Numerical Recipes constants)."""
    out = bytearray()
    for _ in range(count):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        out.append(state >> 24)
    return bytes(out)


def matrix(width, height, degrees, scale, shift_x, shift_y):
    cosine = math.cos(math.radians(degrees)) / scale
    sine = math.sin(math.radians(degrees)) / scale
    cx, cy = width / 2, height / 2
    fx, fy = cx + shift_x, cy + shift_y
    return [cosine, -sine, cx - cosine * fx + sine * fy, sine, cosine, cy - sine * fx - cosine * fy]


def main():
    assert PIL.__version__ == "13.0.0", PIL.__version__
    cases = []
    geometries = [(28, 28, "L"), (20, 13, "RGB"), (5, 31, "L"), (1, 7, "RGB")]
    motions = [(0, 1, 0, 0), (12, 0.9, 1.5, -2.25), (-11.3, 1.1, -3.36, 3.36), (7.5, 1.0, 0.25, 0.5), (90, 1, 0, 0), (180, 0.5, 2, 0), (0, 1, 1, -1)]
    for g, (width, height, mode) in enumerate(geometries):
        channels = 1 if mode == "L" else 3
        pixels = noise(width * height * channels, 7 + g)
        image = Image.frombytes(mode, (width, height), pixels)
        for motion in motions:
            data = matrix(width, height, *motion)
            moved = image.transform(image.size, Image.Transform.AFFINE, data, resample=Image.Resampling.BILINEAR)
            cases.append({"width": width, "height": height, "channels": channels, "motion": motion, "matrix": data,
                          "input": pixels.hex(), "output": moved.tobytes().hex()})
    document = {"made_with": f"Pillow {PIL.__version__}, tests/oracles/pillow_affine.py", "cases": cases}
    text = json.dumps(document, separators=(",", ":")).replace('},{"width"', '},\n{"width"') + "\n"
    write_or_check(OUT, text, len(cases))


main()
