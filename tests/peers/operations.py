#!/usr/bin/env python3
"""The operations of automatic augmentation against torchvision's on Pillow images, byte by byte.

    python3 tests/peers/operations.py compare tests/peers/apply_operations
    python3 tests/peers/operations.py table >tests/peers/operation_results.h

compare applies every operation at every magnitude of torchvision's spaces, and at random ones, to many images. table
writes checksums of the results for the images that test_operations.c draws.
"""
import struct
import subprocess
import sys

import numpy
import PIL
import PIL.Image
import torch
import torchvision
from torchvision.transforms import InterpolationMode
from torchvision.transforms import autoaugment

NAMES = ["Identity", "ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness", "Color", "Contrast",
         "Sharpness", "Posterize", "Solarize", "AutoContrast", "Equalize", "Invert",
         "VerticalFlip"]
SHAPES = [(1, 1, 3), (1, 7, 3), (6, 1, 1), (2, 2, 3), (5, 9, 3), (17, 16, 1), (28, 28, 1), (32, 32, 3), (37, 23, 3),
          (61, 90, 3)]


def apply(pixels, name, magnitude):
    """The pixels (H, W, C) after torchvision's operation."""
    image = PIL.Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    if name == "VerticalFlip":
        return numpy.asarray(torchvision.transforms.functional.vflip(image)).reshape(pixels.shape)
    changed = autoaugment._apply_op(image, name, magnitude, interpolation=InterpolationMode.NEAREST, fill=None)
    return numpy.asarray(changed).reshape(pixels.shape)


def spaces(size):
    return [autoaugment.TrivialAugmentWide()._augmentation_space(31),
            autoaugment.RandAugment()._augmentation_space(31, size),
            autoaugment.AutoAugment()._augmentation_space(10, size)]


def space(size):
    """Pairs of a name and a magnitude: all that torchvision's three methods use."""
    for operations in spaces(size):
        for name, (magnitudes, signed) in operations.items():
            for magnitude in magnitudes.reshape(-1).tolist():
                yield name, float(magnitude)
                if signed:
                    yield name, -float(magnitude)


# ---- images that programs in C can draw, too ----

def number_after(state):
    return (state * 1664525 + 1013904223) % 2**32


def draw(shape, seed):
    """Images of four kinds: noise, few values, a slope, one value."""
    height, width, channels = shape
    kind, state, pixels = seed % 4, seed, numpy.zeros(shape, numpy.uint8)
    for y in range(height):
        for x in range(width):
            for c in range(channels):
                state = number_after(state)
                noise = state >> 24
                pixels[y, x, c] = [noise, noise // 64 * 50 + 20, (3 * x + 5 * y + 60 * c + noise // 32) % 256,
                                   77][kind]
    return pixels


# ---- compare ----

def random_operations(generator, size):
    for name, low, high in (("ShearX", -1, 1), ("ShearY", -1, 1), ("TranslateX", -40, 40), ("TranslateY", -40, 40),
                            ("Rotate", -180, 180), ("Brightness", -1, 2), ("Color", -1, 2), ("Contrast", -1, 2),
                            ("Sharpness", -1, 2), ("Solarize", 0, 256)):
        yield name, float(generator.uniform(low, high))
    for name in ("AutoContrast", "Equalize", "Invert", "VerticalFlip"):
        yield name, 0.0
    for degrees in (90.0, -90.0, 180.0, -180.0, 0.0, 45.0):
        yield "Rotate", degrees
    for bits in range(1, 9):
        yield "Posterize", float(bits)


def images(generator):
    for seed, shape in enumerate(SHAPES * 4):
        yield draw(shape, seed)
    for shape in SHAPES + [(224, 224, 3), (224, 224, 1), (97, 301, 3)]:
        for _ in range(3):
            low, high = sorted(generator.integers(0, 256, 2))
            yield generator.integers(low, high + 1, shape, dtype=numpy.uint8)
    for shape in ((224, 224, 3), (131, 77, 3)):         # smooth, as photographs are
        grid = torch.from_numpy(generator.uniform(-40, 300, (1, 3, 6, 6)))
        smooth = torch.nn.functional.interpolate(grid, shape[:2], mode="bicubic")[0].permute(1, 2, 0)
        yield smooth.clamp(0, 255).to(torch.uint8).numpy()


def compare(program):
    generator = numpy.random.default_rng(1)
    cases = []
    for pixels in images(generator):
        size = pixels.shape[:2]
        wanted = list(random_operations(generator, size))
        wanted += space(size) if size[0] < 100 else [x for x in space(size) if generator.random() < 0.1]
        cases += [(pixels, name, magnitude) for name, magnitude in wanted]
    heads = [struct.pack("dIIII", magnitude, NAMES.index(name), *pixels.shape) + pixels.tobytes()
             for pixels, name, magnitude in cases]
    ours = subprocess.run([program], input=b"".join(heads), stdout=subprocess.PIPE, check=True).stdout
    at, wrong = 0, {}
    for pixels, name, magnitude in cases:
        theirs = apply(pixels, name, magnitude).tobytes()
        if ours[at:at + len(theirs)] != theirs:
            wrong.setdefault(name, []).append((pixels.shape, magnitude))
        at += len(theirs)
    for name, places in wrong.items():
        print(f"{name}: {len(places)} images differ, first {places[0]}")
    print(f"{len(cases)} operations on images, {sum(map(len, wrong.values()))} differ")
    return 1 if wrong or at != len(ours) else 0


# ---- table ----

def checksum(data):
    """Fletcher's, of 32 bits: both sums below 65521."""
    low, high = 1, 0
    for byte in data:
        low = (low + byte) % 65521
        high = (high + low) % 65521
    return high << 16 | low


def table():
    magnitudes = {"ShearX": (0.3, -0.99), "ShearY": (0.17, -0.66), "TranslateX": (3.9, -31.0),
                  "TranslateY": (1.0, -12.5), "Rotate": (30.0, -135.0, 90.0, 180.0, -4.5),
                  "Brightness": (0.99, -0.33, -0.99), "Color": (0.9, -0.5, -0.99), "Contrast": (0.6, -0.3, -0.99),
                  "Sharpness": (0.99, -0.45, -0.99), "Posterize": (8.0, 5.0, 2.0, 1.0),
                  "Solarize": (255.0, 127.5, 85.0, 0.0)}
    print(f"/* Written by operations.py with Pillow {PIL.__version__} and torchvision "
          f"{torchvision.__version__.split('+')[0]}. */")
    print("static const struct { uint32_t height, width, channels; } result_shapes[] = {")
    print("    " + ", ".join("{ %d, %d, %d }" % shape for shape in SHAPES[:7]) + ",")
    print("    " + ", ".join("{ %d, %d, %d }" % shape for shape in SHAPES[7:]))
    print("};")
    print("static const struct { uint32_t shape, seed, kind; double magnitude; uint32_t checksum; } results[] = {")
    rows = []
    for seed, shape in [(seed, SHAPES[seed % len(SHAPES)]) for seed in (*range(len(SHAPES)), 17, 27, 38)]:
        pixels = draw(shape, seed)
        for kind, name in enumerate(NAMES):
            for magnitude in magnitudes.get(name, (0.0,)):
                sum_of = checksum(apply(pixels, name, magnitude).tobytes())
                rows.append("{ %d, %d, %d, %r, 0x%08xu }," % (seed % len(SHAPES), seed, kind, magnitude, sum_of))
    for i in range(0, len(rows), 3):
        print("    " + " ".join(rows[i:i + 3]))
    print("};")
    print("/* Methods: TrivialAugmentWide, RandAugment, AutoAugment. */")
    print("static const struct {")
    print("    uint32_t method, kind, bin, bins, height, width;")
    print("    bool is_signed;")
    print("    double magnitude;")
    print("} magnitudes[] = {")
    rows = []
    for size in ((224, 224), (37, 61)):
        for method, operations in enumerate(spaces(size)):
            bins = 10 if method == 2 else 31
            for name, (values, signed) in operations.items():
                for i in (0, 1, bins // 3, bins // 2, bins - 2, bins - 1) if values.ndim > 0 else ():
                    rows.append("{ %d, %d, %d, %d, %d, %d, %s, %r }," % (
                        method, NAMES.index(name), i, bins, *size, "true" if signed else "false",
                        float(values[i])))
    for i in range(0, len(rows), 2):
        print("    " + " ".join(rows[i:i + 2]))
    print("};")
    return 0


if __name__ == "__main__":
    sys.exit(table() if sys.argv[1] == "table" else compare(sys.argv[2]))
