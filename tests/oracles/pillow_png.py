"""Writes src/parascale/data/tests/golden/pillow_png.json: PNG files of every colour type and depth, and what Pillow converts them to.

The files are written here, byte by byte, because Pillow writes neither interlaced nor all 16-bit kinds. Run from the repository root (`--check` only compares):
python tests/oracles/pillow_png.py
"""

import io
import json
import pathlib
import struct
import zlib

import PIL
from golden import write_or_check
from PIL import Image

OUT = pathlib.Path("src/parascale/data/tests/golden/pillow_png.json")
GREY, RGB, PALETTE, GREY_ALPHA, RGBA = 0, 2, 3, 4, 6
CHANNELS = {GREY: 1, RGB: 3, PALETTE: 1, GREY_ALPHA: 2, RGBA: 4}


def noise(count, state):
    out = []
    for _ in range(count):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        out.append(state >> 16)
    return out


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def packed_row(values, depth):
    if depth == 16:
        return b"".join(struct.pack(">H", value) for value in values)
    if depth == 8:
        return bytes(values)
    bits = "".join(format(value, f"0{depth}b") for value in values)
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8))


def scanlines(pixels, width, height, channels, depth, interlaced):
    passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)] if interlaced else [(0, 0, 1, 1)]
    out = b""
    for x0, y0, dx, dy in passes:
        for y in range(y0, height, dy):
            row = []
            for x in range(x0, width, dx):
                row += pixels[(y * width + x) * channels:(y * width + x + 1) * channels]
            if row:
                out += b"\0" + packed_row(row, depth)
    return out


def make_png(width, height, color, depth, interlaced, pixels, extra=b""):
    head = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 1 if interlaced else 0)
    data = zlib.compress(scanlines(pixels, width, height, CHANNELS[color], depth, interlaced))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + extra + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def main():
    assert PIL.__version__ == "13.0.0", PIL.__version__
    cases = []
    kinds = [(GREY, d) for d in (1, 2, 4, 8, 16)] + [(RGB, 8), (RGB, 16)] + [(PALETTE, d) for d in (1, 2, 4, 8)]
    kinds += [(GREY_ALPHA, 8), (GREY_ALPHA, 16), (RGBA, 8), (RGBA, 16)]
    seed = 1
    for color, depth in kinds:
        for interlaced in (False, True):
            for transparent in (False, True):
                if transparent and color in (GREY_ALPHA, RGBA):
                    continue
                width, height = 11, 9
                seed += 1
                values = noise(width * height * CHANNELS[color], seed)
                pixels = [value % (1 << depth) for value in values]
                if (color, depth) == (GREY, 16):
                    pixels = [value if i % 3 else value % 256 for i, value in enumerate(pixels)]  # below 256 Pillow keeps the value
                extra = b""
                if color == PALETTE:
                    extra += chunk(b"PLTE", bytes(value % 256 for value in noise(3 << depth, seed + 50)))
                if transparent:
                    content = {GREY: struct.pack(">H", pixels[0]), RGB: struct.pack(">HHH", *pixels[:3]), PALETTE: b"\x00\x80"}[color]
                    extra += chunk(b"tRNS", content)
                png = make_png(width, height, color, depth, interlaced, pixels, extra)
                image = Image.open(io.BytesIO(png))
                image.load()
                name = f"color{color}_depth{depth}{'_interlaced' if interlaced else ''}{'_trns' if transparent else ''}"
                cases.append({"name": name, "mode": image.mode, "width": width, "height": height, "png": png.hex(),
                              "grey": image.convert("L").tobytes().hex(), "rgb": image.convert("RGB").tobytes().hex()})
    document = {"made_with": f"Pillow {PIL.__version__}, tests/oracles/pillow_png.py", "cases": cases}
    text = json.dumps(document, separators=(",", ":")).replace('},{"name"', '},\n{"name"') + "\n"
    write_or_check(OUT, text, len(cases))


main()
