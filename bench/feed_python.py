#!/usr/bin/env python3
"""What a Python program gets of pipetrain.Loader: batches of JPEG images, taken and dropped as fast as they come.
Prints one JSON line.

As the peers do, it makes random parts (area 0.08 to 1, aspect 3/4 to 4/3) of --side pixels, half of them mirrored, as
uint8 tensors of PyTorch in shuffled batches. Where the package is not installed, PYTHONPATH names its folder
(tools/python) and PIPETRAIN_FEED_LIBRARY the library of a build.

    first_batch_seconds     from the call that opens the loader to the first batch; imports do not count
    cpu_us_per_image        processor time of all threads, after the warm-up
    thread_us_per_batch     processor time of the thread that takes, which waits between batches, so its caches are cold
    ready_us_per_batch      the same for batches of 8 images that are ready, taken one right after the other: what
                            Python, the package and the library's functions cost
"""

import argparse
import os
import statistics
import time

import torch

import peer_common
import pipetrain

WARMING = 8         # batches: more than there are in the queue
BURST, BURSTS = 32, 20


def take(batches, count):
    for _ in range(count):
        next(batches)


def batches_of(loader):
    while True:
        yield from loader


def ready_us_per_batch(arguments):
    """The median of several bursts, before each of which the queue is full."""
    times = []
    with pipetrain.Loader(arguments.shards, 8, 16, threads=arguments.threads, depth=BURST + 2,
                          output=arguments.output) as loader:
        batches = batches_of(loader)
        take(batches, 1)
        for _ in range(BURSTS):
            while loader.stats().ready < BURST:
                time.sleep(0.001)
            begin = time.thread_time()
            take(batches, BURST)
            times.append((time.thread_time() - begin) * 1e6 / BURST)
    return round(statistics.median(times), 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", required=True, help="a folder or a pattern")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--images", type=int, default=3840, help="images measured (default %(default)s)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="that decode")
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--output", default="torch", help="torch, numpy or dlpack (default %(default)s)")
    arguments = parser.parse_args()
    count = max(1, arguments.images // arguments.batch)
    begin = time.perf_counter()
    loader = pipetrain.Loader(arguments.shards, arguments.batch, arguments.side, crop="resized", flip=True,
                              drop_last=True, threads=arguments.threads, depth=arguments.depth, output=arguments.output)
    batches = batches_of(loader)
    take(batches, 1)
    first = time.perf_counter() - begin
    take(batches, WARMING)
    begin, begin_all, begin_thread = time.perf_counter(), time.process_time(), time.thread_time()
    take(batches, count)
    wall, all_threads, thread = (time.perf_counter() - begin, time.process_time() - begin_all,
                                 time.thread_time() - begin_thread)
    images, limit = count * arguments.batch, loader.stats().limit
    loader.close()
    peer_common.print_report(
        images_per_second=round(images / wall, 1), cpu_us_per_image=round(all_threads * 1e6 / images, 2),
        thread_us_per_batch=round(thread * 1e6 / count, 2), ready_us_per_batch=ready_us_per_batch(arguments),
        first_batch_seconds=round(first, 4), images=images,
        batch=arguments.batch, side=arguments.side, threads=arguments.threads, torch=torch.__version__, limit=limit)


if __name__ == "__main__":
    main()
