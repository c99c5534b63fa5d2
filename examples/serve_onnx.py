#!/usr/bin/env python3
"""Classify images with a network that `pipetrain export` wrote, by ONNX Runtime: an example to copy from (doc/serving.md).

    pip install onnxruntime pillow
    python3 serve_onnx.py MODEL.onnx IMAGE... [--top 5] [--batch 32] [--threads 2]
    python3 serve_onnx.py MODEL.onnx CLASS/IMAGE... --accuracy
    python3 serve_onnx.py MODEL.onnx --classes

The classes and what is done to images before the network are in the metadata of the file. A line of output is that of
`pipetrain predict --json`. Images that cannot be read are a line, too; the exit status is then 3.
--accuracy: only the share of the images whose folder is named like the class. --classes: the names of all classes.
"""
import argparse
import json
import math
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy
import onnxruntime
from PIL import Image, ImageOps

FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}      # Pillow has the same


def nearest_pixels(first, last, count, size):
    """The shares of an axis' pixels in those of the result: all of the one at the centre."""
    centres = first + (numpy.arange(count) + 0.5) * (last - first) / count
    return numpy.eye(size, dtype=numpy.float32)[numpy.floor(centres).astype(int).clip(0, size - 1)]


def covered_pixels(first, last, count, size):
    """The shares of an axis' pixels in those of the result: by the area that they cover."""
    edges, pixels = numpy.linspace(first, last, count + 1)[:, None], numpy.arange(size)
    covered = (numpy.minimum(edges[1:], pixels + 1) - numpy.maximum(edges[:-1], pixels)).clip(0)
    return (covered / covered.sum(1, keepdims=True)).astype(numpy.float32)


SHARES = {"nearest": nearest_pixels, "area": covered_pixels}    # Pillow's NEAREST and BOX are others


class Preparation:
    """From a file to the pixels that the network reads: uint8 of [C, H, W], or [H, W, C] for --layout nhwc."""

    def __init__(self, shape, metadata):
        self.is_nhwc = shape[2] in (1, 3) and shape[0] not in (1, 3)
        self.height, self.width, self.channels = shape if self.is_nhwc else (shape[1], shape[2], shape[0])
        settings = {key.removeprefix("pipetrain.setting.augment."): value for key, value in metadata.items()}
        self.evaluation = settings.get("evaluation", "auto")
        self.scale = float(settings.get("evaluation_scale", 1.145))
        self.resize = int(settings.get("evaluation_resize", 0))
        self.filter = settings.get("filter", "bilinear")
        self.turns = settings.get("orientation") == "exif"

    def size_before_crop(self, width, height):
        """To which size the whole image is scaled, of which the network reads the middle."""
        if self.evaluation == "none" or (self.evaluation == "auto" and (width, height) == (self.width, self.height)):
            return self.width, self.height
        if self.resize > 0:
            shorter = min(width, height)
            return self.resize * width // shorter, self.resize * height // shorter
        factor = self.scale * max(self.height / height, self.width / width)
        return max(self.width, math.floor(width * factor)), max(self.height, math.floor(height * factor))

    def resized_whole(self, image, wide, high):
        """torchvision's Resize and CenterCrop, as augment.evaluation_resize."""
        left, top = round((wide - self.width) / 2), round((high - self.height) / 2)
        image = image.resize((wide, high), FILTERS[self.filter])
        return image.crop((left, top, left + self.width, top + self.height))

    def scaled_part(self, image, own, wide, high):
        """Scales only the middle of the image, and lets no pixel outside of it count. own: the image's size, which has
        fractions where it was decoded at a reduced size."""
        x, y = own[0] / wide, own[1] / high     # pixels of the image per pixel of the result
        left, top = (wide - self.width) // 2 * x, (high - self.height) // 2 * y
        right, bottom = min(left + self.width * x, image.width), min(top + self.height * y, image.height)
        if self.filter in SHARES:
            shares = SHARES[self.filter]
            rows, columns = shares(top, bottom, self.height, image.height), shares(left, right, self.width, image.width)
            pixels = numpy.asarray(image).reshape(image.height, image.width, self.channels).transpose(2, 0, 1)
            scaled = (rows @ pixels @ columns.T).round().astype(numpy.uint8).transpose(1, 2, 0)
            return Image.fromarray(scaled.squeeze(2) if self.channels == 1 else scaled)
        inner = math.floor(left), math.floor(top)
        image = image.crop((*inner, math.ceil(right), math.ceil(bottom)))
        box = left - inner[0], top - inner[1], right - inner[0], bottom - inner[1]
        return image.resize((self.width, self.height), FILTERS[self.filter], box)

    def __call__(self, path):
        mode = "L" if self.channels == 1 else "RGB"
        with Image.open(path) as image:
            turns = self.turns and image.format == "JPEG"
            order = -1 if turns and image.getexif().get(0x0112, 1) > 4 else 1   # lies on its side
            size = self.size_before_crop(*image.size[::order])
            # Large JPEGs are decoded at 1/2, 1/4 or 1/8 of their size, if that is at least what is needed.
            is_reduced = self.resize == 0 and self.filter != "nearest"
            own = image.size
            drafted = image.draft(mode, size[::order] if is_reduced else None)
            own = (drafted[1][2:] if drafted else own)[::order]
            if turns:
                image = ImageOps.exif_transpose(image)
            if image.mode.startswith("I"):      # a PNG of 16 bits
                image = Image.fromarray((numpy.asarray(image) >> 8).astype(numpy.uint8))
            image = image.convert(mode)         # opacity is ignored
        image = self.resized_whole(image, *size) if self.resize > 0 else self.scaled_part(image, own, *size)
        pixels = numpy.asarray(image).reshape(self.height, self.width, self.channels)
        return pixels if self.is_nhwc else pixels.transpose(2, 0, 1)


class Classifier:
    def __init__(self, path, threads=0):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads      # 0: all cores
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        metadata = self.session.get_modelmeta().custom_metadata_map
        self.input = self.session.get_inputs()[0]
        self.prepare = Preparation(self.input.shape[1:], metadata)
        self.names = json.loads(metadata.get("class_names", "[]"))      # none is known of some weights

    def classify(self, images):
        """Probabilities [N, classes] of a list of prepared images, all in one batch."""
        batch = numpy.stack(images).astype(numpy.uint8 if self.input.type == "tensor(uint8)" else numpy.float32)
        return self.session.run(["probabilities"], {self.input.name: batch})[0]

    def labels(self):
        """A name for each class; its number if none is known."""
        names = self.names or [""] * self.session.get_outputs()[1].shape[1]
        return [name or str(number) for number, name in enumerate(names)]

    def top(self, probabilities, count):
        best = numpy.argsort(-probabilities, kind="stable")[:count]
        names = [{"name": name} if name else {} for name in self.names] or [{}] * len(probabilities)
        return [{"class": int(i), **names[i], "probability": float(probabilities[i])} for i in best]


def prepared(prepare, path):
    """The pixels, or the error, which concerns this image only."""
    try:
        return prepare(path)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        return error


def answers(classifier, paths, batch, threads):
    """For each path, in their order: the path and its probabilities, or the error."""
    with ThreadPoolExecutor(threads) as pool:
        for first in range(0, len(paths), batch):
            part = paths[first:first + batch]
            images = list(pool.map(lambda path: prepared(classifier.prepare, path), part))
            readable = [image for image in images if not isinstance(image, Exception)]
            rows = iter(classifier.classify(readable) if readable else [])
            for path, image in zip(part, images):
                yield path, image if isinstance(image, Exception) else next(rows)


def print_accuracy(classifier, results):
    start = time.monotonic()
    right = [classifier.top(row, 1)[0].get("name") == os.path.basename(os.path.dirname(path)) for path, row in results
             if not isinstance(row, Exception)]
    print(f"{sum(right):,} of {len(right):,} images right, {100 * sum(right) / max(1, len(right)):.2f} %, "
          f"{len(right) / (time.monotonic() - start):,.0f} images/s")


def print_answers(classifier, results, count):
    status = 0
    for path, row in results:
        if isinstance(row, Exception):
            status = 3
        answer = {"problem": str(row)} if isinstance(row, Exception) else {"top": classifier.top(row, count)}
        print(json.dumps({"image": path, **answer}))
    return status


def main():
    parser = argparse.ArgumentParser(description="classify images with an exported network")
    parser.add_argument("model")
    parser.add_argument("images", nargs="*")
    parser.add_argument("--top", type=int, default=5, help="most likely classes for each image (5)")
    parser.add_argument("--batch", type=int, default=32, help="images that are computed at once (32)")
    parser.add_argument("--threads", type=int, default=2, help="threads that read and compute (2)")
    parser.add_argument("--accuracy", action="store_true", help="only the share of images that are right")
    parser.add_argument("--classes", action="store_true", help="the names of all classes")
    arguments = parser.parse_intermixed_args()
    if not arguments.images and not arguments.classes:
        parser.error("no images given")
    if not os.path.isfile(arguments.model):
        parser.error(f"{arguments.model}: no such file")
    classifier = Classifier(arguments.model, arguments.threads)
    results = answers(classifier, arguments.images, arguments.batch, arguments.threads)
    if arguments.classes:
        print("\n".join(classifier.labels()))
    elif arguments.accuracy:
        print_accuracy(classifier, results)
    else:
        sys.exit(print_answers(classifier, results, arguments.top))


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)       # ends with its reader, as in "| head"
    main()
