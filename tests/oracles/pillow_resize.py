"""Writes src/parascale/data/tests/golden/pillow_resize.json: what Pillow's Image.resize(BILINEAR) makes of made-up images.

The sizes include reductions where Pillow 13 runs the vertical pass first. Run from the repository root (`--check` only compares):  python tests/oracles/pillow_resize.py
"""

import json
import pathlib

import PIL
from golden import write_or_check
from PIL import Image

OUT = pathlib.Path("src/parascale/data/tests/golden/pillow_resize.json")


def noise(count, state):
    out = bytearray()
    for _ in range(count):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        out.append(state >> 24)
    return bytes(out)


def main():
    assert PIL.__version__ == "13.0.0", PIL.__version__
    cases = []
    # (input, output, mode)
    for number, (source, target, mode) in enumerate([
        ((40, 40), (28, 28), "L"), ((13, 17), (28, 28), "RGB"), ((28, 50), (28, 28), "L"), ((50, 28), (28, 28), "L"),
        ((30, 120), (28, 28), "L"), ((30, 32), (28, 28), "L"), ((30, 33), (28, 28), "RGB"), ((29, 31), (28, 28), "L"),
        ((20, 29), (28, 28), "L"), ((20, 28), (28, 27), "L"), ((20, 90), (28, 28), "RGB"), ((90, 20), (28, 28), "L"),
        ((28, 28), (28, 28), "RGB"), ((1, 1), (5, 4), "RGB"), ((64, 1), (7, 3), "L"), ((3, 100), (1, 1), "L"), ((101, 77), (10, 9), "RGB"),
    ]):
        channels = 1 if mode == "L" else 3
        pixels = noise(source[0] * source[1] * channels, 100 + number)
        scaled = Image.frombytes(mode, source, pixels).resize(target, Image.Resampling.BILINEAR)
        cases.append({"width": source[0], "height": source[1], "channels": channels, "to_width": target[0], "to_height": target[1],
                      "input": pixels.hex(), "output": scaled.tobytes().hex()})
    document = {"made_with": f"Pillow {PIL.__version__}, tests/oracles/pillow_resize.py", "cases": cases}
    text = json.dumps(document, separators=(",", ":")).replace('},{"width"', '},\n{"width"') + "\n"
    write_or_check(OUT, text, len(cases))


main()
