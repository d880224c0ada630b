"""Writes pillow_images.json: small images of many kinds, and what Pillow converts them to.

    pip install pillow==13.*
    python pillow_images.py

Each is its name, the file's bytes, and the bytes of `convert("RGB")`, of `convert("L")` of that, as
torchvision has it, and of `convert("RGBA")`, all in hexadecimal. Files that Pillow does not write are put
together here.
"""

import io
import itertools
import json
import pathlib
import struct
import zlib

from PIL import Image

WIDTH, HEIGHT = 7, 5


def channel(i, factor):
    return (i * factor + i * i) % 256


def pixels(channels):
    return [tuple(channel(i, 37 + 24 * c) for c in range(channels)) for i in range(WIDTH * HEIGHT)]


def image(mode):
    if mode == "1":
        return image("L").point(lambda x: 255 * (x > 99)).convert("1")
    if mode == "P":
        return image("RGB").quantize(11)
    out = Image.new(mode, (WIDTH, HEIGHT))
    values = pixels(len(out.getbands()))
    out.putdata([v[0] for v in values] if mode == "L" else values)
    return out


def saved(image, format, **options):
    out = io.BytesIO()
    image.save(out, format, **options)
    return out.getvalue()


def png(depth, color, rows, *more):
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    width = 4
    header = struct.pack(">IIBBBBB", width, len(rows), depth, color, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + row for row in rows))
    chunks = [(b"IHDR", header), *more, (b"IDAT", data), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*c) for c in chunks)


def bmp16(masks):
    words = [(i * 2477) % 65536 for i in range(8)]
    data = struct.pack("<8H", *words)
    header = struct.pack("<IiiHHIIiiII", 40, 4, 2, 1, 16, 3, len(data), 0, 0, 0, 0)
    header += struct.pack("<III", *masks)
    start = 14 + len(header)
    return b"BM" + struct.pack("<IHHI", start + len(data), 0, 0, start) + header + data


def edges():
    """Colours whose grey shows a change of any of the conversion's numbers by 1."""
    numbers = [19595, 38470, 7471, 32768]
    grey = lambda pixel, numbers: sum(n * x for n, x in zip(numbers, [*pixel, 1])) >> 16
    chosen = []
    for place in range(4):
        for step in [-1, 1]:
            other = [n + step * (i == place) for i, n in enumerate(numbers)]
            words = (i * 11184811 % 2**24 for i in range(2**24))
            colours = ((word >> 16, word >> 8 & 255, word & 255) for word in words)
            found = (c for c in colours if grey(c, numbers) != grey(c, other))
            chosen += itertools.islice(found, 2)
    return chosen


def files():
    chosen = edges()
    yield "edges.ppm", f"P6 {len(chosen)} 1 255\n".encode() + bytes(x for c in chosen for x in c)
    for mode in ["1", "L", "LA", "P", "RGB", "RGBA"]:
        yield f"{mode}.png", saved(image(mode), "PNG")
    yield "transparent palette.png", saved(image("P"), "PNG", transparency=3)
    yield "transparent colour.png", saved(image("RGB"), "PNG", transparency=pixels(3)[4])
    yield "2 bits.png", png(2, 0, [b"\x1b", b"\xe4"])
    yield "4 bits.png", png(4, 0, [b"\x0f\x5a", b"\x73\xc1"])
    for mode in ["1", "L", "P", "RGB", "RGBA"]:
        yield f"{mode}.bmp", saved(image(mode), "BMP")
    yield "565.bmp", bmp16((0xF800, 0x07E0, 0x001F))
    yield "555.bmp", bmp16((0x7C00, 0x03E0, 0x001F))
    for mode, ending in [("1", "pbm"), ("L", "pgm"), ("RGB", "ppm")]:
        yield f"{mode}.{ending}", saved(image(mode), "PPM")
    yield "plain.pbm", b"P1 3 2\n1 0 1\n0 1 1\n"
    yield "plain.pgm", b"P2 3 1 255\n0 7 255\n"
    yield "plain.ppm", b"P3 1 2 255\n1 2 3 250 251 252\n"
    yield "15.pgm", b"P5 4 1 15\n" + bytes([0, 1, 7, 15])
    yield "100.pgm", b"P5 5 1 100\n" + bytes([0, 1, 33, 50, 100])
    yield "100.ppm", b"P6 1 2 100\n" + bytes([0, 1, 33, 50, 99, 100])
    yield "16 bits.png", png(16, 0, [struct.pack(">4H", 1, 256, 4096, 30000)])
    yield "16 bits colour.png", png(16, 2, [struct.pack(">12H", *range(0, 48000, 4000))])
    yield "1023.pgm", b"P5 2 1 1023\n" + struct.pack(">2H", 3, 1023)
    large = image("RGB").resize((35, 29), Image.Resampling.BICUBIC)
    for name, options in [
        ("444", {"subsampling": 0}),
        ("422", {"subsampling": 1}),
        ("420", {"subsampling": 2}),
        ("progressive", {"progressive": True}),
        ("restart", {"restart_marker_blocks": 2}),
    ]:
        yield f"{name}.jpg", saved(large, "JPEG", quality=93, **options)
    yield "grey.jpg", saved(large.convert("L"), "JPEG", quality=93)
    yield "cmyk.jpg", saved(large.convert("CMYK"), "JPEG")


def main():
    cases = []
    for name, data in files():
        opened = Image.open(io.BytesIO(data))
        rgb = opened.convert("RGB")
        converted = {"RGB": rgb, "L": rgb.convert("L"), "RGBA": opened.convert("RGBA")}
        converted = {mode: image.tobytes().hex() for mode, image in converted.items()}
        cases.append({"name": name, "width": opened.width, "bytes": data.hex(), **converted})
    path = pathlib.Path(__file__).with_suffix(".json")
    path.write_text(json.dumps(cases).replace("}, {", "},\n{") + "\n")


main()
