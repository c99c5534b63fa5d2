#!/usr/bin/env python3
"""TensorFlow reads what pipetrain-convert writes, and writes what pipetrain reads.

  tensorflow_interop.py                     convert a small set made here and compare
  tensorflow_interop.py --read OUT --source DIR
                                            compare OUT, made by 'pipetrain-convert mnist DIR -o OUT'
  tensorflow_interop.py --write OUT --source DIR
                                            write DIR's images by TensorFlow into OUT/plain and OUT/shuffled, and
                                            compressed into OUT/GZIP and OUT/ZLIB

The converter is $PIPETRAIN_CONVERT or ./pipetrain-convert; $PYTHON is an interpreter that has
TensorFlow, when this one has not. Exit status 77: there is no TensorFlow.
"""
import argparse
import collections
import glob
import gzip
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

if os.environ.get("PYTHON") and not os.environ.get("PIPETRAIN_INTEROP"):
    os.environ["PIPETRAIN_INTEROP"] = "1"
    os.execvp(os.environ["PYTHON"], [os.environ["PYTHON"]] + sys.argv)

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
try:
    import tensorflow as tf
except ImportError:
    print("no TensorFlow for", sys.executable)
    sys.exit(77)

SPLITS = {"train": "train", "validation": "t10k"}


def read_idx(directory, stem, rank):
    """The sizes and the data of a file of MNIST, compressed or not."""
    for name in (f"{stem}-idx{rank}-ubyte", f"{stem}.idx{rank}-ubyte"):
        for end, opener in (("", open), (".gz", gzip.open)):
            path = os.path.join(directory, name + end)
            if os.path.exists(path):
                with opener(path, "rb") as stream:
                    magic, *sizes = struct.unpack(f">{rank + 1}I", stream.read(4 + 4 * rank))
                    assert magic == 0x800 + rank, path
                    return sizes, stream.read()
    sys.exit(f"{directory}: no {stem}")


def source_samples(directory, split):
    """(label, pixels) of every image, and the images' height and width."""
    (count, height, width), pixels = read_idx(directory, SPLITS[split] + "-images", 3)
    (label_count,), labels = read_idx(directory, SPLITS[split] + "-labels", 1)
    assert count == label_count == len(labels)
    size = height * width
    return [(labels[i], pixels[i * size:(i + 1) * size]) for i in range(count)], height, width


def shard_samples(directory, split):
    """(label, pixels) of every record, as TensorFlow reads and parses them."""
    scalar = tf.io.FixedLenFeature([], tf.int64)
    features = {"image_raw": tf.io.FixedLenFeature([], tf.string), "label": scalar,
                "height": scalar, "width": scalar, "depth": scalar}
    paths = sorted(glob.glob(os.path.join(directory, f"{split}-?????-of-?????")))
    assert paths, f"{directory}: no {split} shards"
    dataset = tf.data.TFRecordDataset(paths).batch(1000).map(lambda r: tf.io.parse_example(r, features))
    for batch in dataset.as_numpy_iterator():
        for i, pixels in enumerate(batch["image_raw"]):
            yield (int(batch["label"][i]), pixels), tuple(int(batch[k][i]) for k in ("height", "width", "depth"))


def compare(shards, source):
    """Every image and label of the source is in the shards as often as in the source."""
    for split in SPLITS:
        wanted, height, width = source_samples(source, split)
        found = []
        for sample, shape in shard_samples(shards, split):
            assert shape == (height, width, 1), shape
            found.append(sample)
        assert collections.Counter(found) == collections.Counter(wanted), f"{split} differs"
        print(f"{split}: {len(found)} images and labels are equal")


def int64(value):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))


def example(label, pixels, height, width):
    """The payload of a sample as TensorFlow serializes it."""
    raw = tf.train.Feature(bytes_list=tf.train.BytesList(value=[pixels]))
    return tf.train.Example(features=tf.train.Features(feature={
        "image_raw": raw, "label": int64(label), "height": int64(height), "width": int64(width),
        "depth": int64(1)})).SerializeToString()


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7f | 0x80)
        value >>= 7
    return bytes(out + bytes([value]))


def entries(payload):
    """The map entries of a payload, each with its tag and length."""
    def length_at(at):
        value = shift = 0
        while True:
            byte = payload[at]
            at += 1
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value, at
    _, at = length_at(1)
    while at < len(payload):
        size, body = length_at(at + 1)
        yield payload[at:body + size]
        at = body + size


def shuffled(payload, dice):
    """The same Example with its features in another order; TensorFlow must still read it."""
    parts = list(entries(payload))
    dice.shuffle(parts)
    body = b"".join(parts)
    other = b"\x0a" + varint(len(body)) + body
    assert tf.train.Example.FromString(other) == tf.train.Example.FromString(payload)
    return other


def write_set(directory, source, order, compression=""):
    """Shards written by TensorFlow; order changes each payload."""
    os.makedirs(directory, exist_ok=True)
    for split, shard_count in (("train", 3), ("validation", 1)):
        samples, height, width = source_samples(source, split)
        for shard in range(shard_count):
            path = os.path.join(directory, f"{split}-{shard:05}-of-{shard_count:05}")
            with tf.io.TFRecordWriter(path, options=compression) as writer:
                for label, pixels in samples[shard::shard_count]:
                    writer.write(order(example(label, pixels, height, width)))


def write_sets(directory, source):
    dice = random.Random(1)
    write_set(os.path.join(directory, "plain"), source, lambda payload: payload)
    write_set(os.path.join(directory, "shuffled"), source, lambda payload: shuffled(payload, dice))
    for name in ("plain", "shuffled"):
        compare(os.path.join(directory, name), source)
    for name in ("GZIP", "ZLIB"):
        write_set(os.path.join(directory, name), source, lambda payload: payload, name)


def make_source(directory):
    """A set in the four files of MNIST, with pixels and labels of all values."""
    dice = random.Random(7)
    for stem, count in (("train", 300), ("t10k", 40)):
        with gzip.open(os.path.join(directory, f"{stem}-images-idx3-ubyte.gz"), "wb") as stream:
            stream.write(struct.pack(">4I", 0x803, count, 28, 28) + dice.randbytes(count * 784))
        with open(os.path.join(directory, f"{stem}-labels-idx1-ubyte"), "wb") as stream:
            stream.write(struct.pack(">2I", 0x801, count) + bytes(dice.randrange(10) for _ in range(count)))


def first_loss(shards, work):
    """Loss of the untrained network over all training records, as pipetrain reads them."""
    run = os.path.join(work, "run")
    keys = [f"run.dir={run}", "run.resume=never", f"data.train={shards}/train-*", "data.index_cache=no",
            "model.dropout=no", "train.batch=300", "train.steps=1", "report.progress=none"]
    settings = [argument for key in keys for argument in ("--set", key)]
    subprocess.run([os.environ.get("PIPETRAIN", "./pipetrain"), "-c", os.devnull, *settings], check=True,
                   stdout=subprocess.DEVNULL)
    with open(os.path.join(run, "summary.json"), encoding="utf-8") as stream:
        summary = json.load(stream)
    assert summary["images"] == 300, summary["images"]
    return summary["loss"]


def pipetrain_reads(written, converted, work):
    """The sets TensorFlow wrote hold, for pipetrain, what the converted one holds: the loss
    over all records depends on every pixel and label, and but for rounding not on the order."""
    wanted = first_loss(converted, work)
    for name in ("plain", "shuffled", "GZIP", "ZLIB"):
        found = first_loss(os.path.join(written, name), work)
        assert abs(found - wanted) < 1e-6 * wanted, (name, found, wanted)
        print(f"pipetrain reads the {name} set: loss {found:.7f}, wanted {wanted:.7f}")


def convert_and_compare():
    program = os.environ.get("PIPETRAIN_CONVERT", "./pipetrain-convert")
    with tempfile.TemporaryDirectory() as work:
        source, out = os.path.join(work, "source"), os.path.join(work, "out")
        os.mkdir(source)
        make_source(source)
        subprocess.run([program, "mnist", source, "-o", out], check=True)
        compare(out, source)
        written = os.path.join(work, "written")
        write_sets(written, source)
        pipetrain_reads(written, out, work)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--read", metavar="OUT")
    parser.add_argument("--write", metavar="OUT")
    parser.add_argument("--source", metavar="DIR")
    options = parser.parse_args()
    if (options.read or options.write) and not options.source:
        parser.error("--read and --write need --source")
    if options.read:
        compare(options.read, options.source)
    if options.write:
        write_sets(options.write, options.source)
    if not (options.read or options.write):
        convert_and_compare()


main()
