#!/usr/bin/env python3
"""tf.data reading JPEG TFRecords: random parts at 224 x 224 per second. Prints one JSON line.

The pipeline is that of TensorFlow's own ImageNet examples: TFRecordDataset with parallel reads, a shuffle
buffer of records still encoded, a parallel map that parses, picks a random part (area 0.08 to 1, aspect 3/4 to
4/3), decodes that part only, scales it bilinearly and mirrors half of them, then batch and prefetch. A short trial
picks the best number of parallel calls: as many as threads, twice as many, or AUTOTUNE.
"""

import argparse
import glob
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import tensorflow  # noqa: E402

import peer_common  # noqa: E402

AUTOTUNE = tensorflow.data.AUTOTUNE
FEATURES = {"image/encoded": tensorflow.io.FixedLenFeature([], tensorflow.string),
            "image/class/label": tensorflow.io.FixedLenFeature([], tensorflow.int64)}
WHOLE = [[[0.0, 0.0, 1.0, 1.0]]]


def decode(encoded, side):
    shape = tensorflow.io.extract_jpeg_shape(encoded)
    begin, size, _ = tensorflow.image.sample_distorted_bounding_box(
        shape, bounding_boxes=WHOLE, min_object_covered=0.08, aspect_ratio_range=(3 / 4, 4 / 3),
        area_range=(0.08, 1.0), max_attempts=10, use_image_if_no_bounding_boxes=True)
    window = tensorflow.concat([begin[:2], size[:2]], 0)
    pixels = tensorflow.io.decode_and_crop_jpeg(encoded, window, channels=3, dct_method="INTEGER_FAST")
    scaled = tensorflow.image.resize(pixels, [side, side], method="bilinear")
    return tensorflow.image.random_flip_left_right(tensorflow.cast(scaled, tensorflow.uint8))


def parse(record, side):
    features = tensorflow.io.parse_single_example(record, FEATURES)
    return decode(features["image/encoded"], side), features["image/class/label"]


def pipeline(calls, files, arguments):
    options = tensorflow.data.Options()
    options.deterministic = False
    options.threading.private_threadpool_size = arguments.threads
    data = tensorflow.data.TFRecordDataset(files, num_parallel_reads=arguments.threads, buffer_size=8 << 20)
    data = data.repeat().shuffle(arguments.shuffle, seed=1)
    data = data.map(lambda record: parse(record, arguments.side), num_parallel_calls=calls)
    data = data.batch(arguments.batch, drop_remainder=True)
    return data.prefetch(AUTOTUNE).with_options(options)


def measure(calls, files, arguments, images):
    """What measure_batches gives after a first part in which buffers fill and AUTOTUNE settles, and the seconds to the
    first batch."""
    begin = time.perf_counter()
    iterator = iter(pipeline(calls, files, arguments))
    next(iterator)
    first = time.perf_counter() - begin
    for _ in range(max(2, images // arguments.batch // 4)):
        next(iterator)
    speed = peer_common.measure_batches(lambda: next(iterator), max(1, images // arguments.batch), arguments.batch)
    return {**speed, "first_batch_seconds": round(first, 4)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--glob", required=True, help="the shards")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--images", type=int, default=3840, help="images measured (default %(default)s)")
    parser.add_argument("--trial", type=int, default=768, help="images of a trial (default %(default)s)")
    parser.add_argument("--shuffle", type=int, default=1000, metavar="RECORDS")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--calls", type=int, help="measure only so many parallel calls; -1 is AUTOTUNE")
    arguments = parser.parse_args()
    files = sorted(glob.glob(arguments.glob))
    if not files:
        raise SystemExit(f"no file matches {arguments.glob}")
    tensorflow.config.threading.set_intra_op_parallelism_threads(1)
    tensorflow.config.threading.set_inter_op_parallelism_threads(arguments.threads)
    choices = [arguments.calls] if arguments.calls else [AUTOTUNE, arguments.threads, 2 * arguments.threads]
    trials = {}
    if len(choices) > 1:
        trials = {calls: measure(calls, files, arguments, arguments.trial)["images_per_second"] for calls in choices}
    best = max(trials, key=trials.get) if trials else choices[0]
    speed = measure(best, files, arguments, arguments.images)
    peer_common.print_report(
        peer="tf.data", version=tensorflow.__version__, **speed, calls=best,
        batch=arguments.batch, threads=arguments.threads, trials={calls: round(rate) for calls, rate in trials.items()})


if __name__ == "__main__":
    main()
