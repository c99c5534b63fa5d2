#!/usr/bin/env python3
"""NVIDIA DALI on the CPU decoding JPEG TFRecords: random parts at 224 x 224 per second. Prints one JSON line.

readers.tfrecord with shuffling and prefetch, decoders.image_random_crop, which decodes only the part, resize
(bilinear with antialias) and flip, all on the CPU with a thread for each core.
"""

import argparse
import glob
import os
import time

import nvidia.dali as dali
from nvidia.dali import fn, pipeline_def, tfrecord, types

import peer_common


@pipeline_def
def photographs(files, indexes, side):
    record = fn.readers.tfrecord(
        path=files, index_path=indexes, random_shuffle=True, initial_fill=1000, prefetch_queue_depth=4,
        features={"image/encoded": tfrecord.FixedLenFeature((), tfrecord.string, ""),
                  "image/class/label": tfrecord.FixedLenFeature([1], tfrecord.int64, -1)})
    pixels = fn.decoders.image_random_crop(
        record["image/encoded"], device="cpu", output_type=types.RGB, random_area=[0.08, 1.0],
        random_aspect_ratio=[3 / 4, 4 / 3])
    scaled = fn.resize(pixels, device="cpu", size=[side, side], interp_type=types.INTERP_LINEAR)
    return fn.flip(scaled, horizontal=fn.random.coin_flip()), record["image/class/label"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--glob", required=True, help="the shards")
    parser.add_argument("--index", required=True, metavar="DIR", help="their indexes, a file of the same name each")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--images", type=int, default=3840, help="images measured (default %(default)s)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    arguments = parser.parse_args()
    files = sorted(glob.glob(arguments.glob))
    if not files:
        raise SystemExit(f"no file matches {arguments.glob}")
    indexes = [os.path.join(arguments.index, os.path.basename(file)) for file in files]
    begin = time.perf_counter()
    pipeline = photographs(files=files, indexes=indexes, side=arguments.side, batch_size=arguments.batch,
                           num_threads=arguments.threads, device_id=None, prefetch_queue_depth=4, seed=1)
    pipeline.build()
    pipeline.run()
    first = time.perf_counter() - begin
    for _ in range(8):
        pipeline.run()
    speed = peer_common.measure_batches(pipeline.run, max(1, arguments.images // arguments.batch), arguments.batch)
    peer_common.print_report(peer="DALI", version=dali.__version__, **speed, first_batch_seconds=round(first, 4),
                             batch=arguments.batch, threads=arguments.threads)


if __name__ == "__main__":
    main()
