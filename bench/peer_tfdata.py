#!/usr/bin/env python3
"""tf.data reading MNIST TFRecords: records per second of its best pipeline. Prints one JSON line.

Every variant reads raw records, makes batches of them, parses a whole batch with
tf.io.parse_example and decodes the pixels with one decode_raw: far faster than parsing record by
record. Labels and pixels (uint8) are delivered; nothing is converted to float. The variants
differ in how shards are read and how many threads parse. A short trial picks the best one,
which is then measured over --records records.
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
FEATURES = {"image_raw": tensorflow.io.FixedLenFeature([], tensorflow.string),
            "label": tensorflow.io.FixedLenFeature([], tensorflow.int64)}


def parse(records):
    features = tensorflow.io.parse_example(records, FEATURES)
    return tensorflow.io.decode_raw(features["image_raw"], tensorflow.uint8), features["label"]


def read_together(files, threads):
    return tensorflow.data.TFRecordDataset(files, num_parallel_reads=threads)


def read_buffered(files, threads):
    return tensorflow.data.TFRecordDataset(files, num_parallel_reads=threads, buffer_size=8 << 20)


def read_in_turn(files, _threads):
    return tensorflow.data.TFRecordDataset(files, buffer_size=8 << 20)


def read_batched(files, threads):
    """Each shard gives whole batches of raw records, so that fewer items pass between threads."""
    shards = tensorflow.data.Dataset.from_tensor_slices(files)
    return shards.interleave(lambda file: tensorflow.data.TFRecordDataset(file, buffer_size=8 << 20).batch(32),
                             cycle_length=threads, num_parallel_calls=threads, deterministic=False).unbatch()


READERS = {"parallel_reads": read_together, "parallel_reads_8MiB": read_buffered, "in_turn_8MiB": read_in_turn,
           "interleave": read_batched}


def pipeline(variant, files, arguments):
    reader, parse_threads = variant
    options = tensorflow.data.Options()
    options.deterministic = False
    options.threading.private_threadpool_size = arguments.threads
    data = READERS[reader](files, arguments.threads).repeat()
    if arguments.shuffle > 0:
        data = data.shuffle(arguments.shuffle, seed=1)
    data = data.batch(arguments.batch, drop_remainder=True)
    return data.map(parse, num_parallel_calls=parse_threads).prefetch(AUTOTUNE).with_options(options)


@tensorflow.function(reduce_retracing=True)
def drain(iterator, batches):
    """Take `batches` batches inside one graph call, so that Python costs nothing."""
    seen = tensorflow.constant(0)
    for _ in tensorflow.range(batches):
        images, labels = next(iterator)
        seen += tensorflow.shape(images)[0] + 0 * tensorflow.cast(labels[0], tensorflow.int32)
    return seen


def records_per_second(variant, files, arguments, records):
    iterator = iter(pipeline(variant, files, arguments))
    batches = tensorflow.constant(max(1, records // arguments.batch))
    first = tensorflow.constant(max(1, min(records, 60_000) // arguments.batch // 2))
    drain(iterator, first).numpy()
    begin = time.perf_counter()
    seen = int(drain(iterator, batches).numpy())
    return seen / (time.perf_counter() - begin)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--glob", required=True, help="the shards")
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--records", type=int, default=240_000, help="records measured (default %(default)s)")
    parser.add_argument("--trial", type=int, default=60_000, help="records of a trial (default %(default)s)")
    parser.add_argument("--shuffle", type=int, default=0, metavar="RECORDS",
                        help="shuffle buffer; 0: order as stored, the fastest (default)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--variant", help="READER,PARSE_THREADS: measure only this one")
    arguments = parser.parse_args()
    files = sorted(glob.glob(arguments.glob))
    if not files:
        raise SystemExit(f"no file matches {arguments.glob}")

    tensorflow.config.threading.set_intra_op_parallelism_threads(arguments.threads)
    tensorflow.config.threading.set_inter_op_parallelism_threads(arguments.threads)
    if arguments.variant:
        reader, parse_threads = arguments.variant.split(",")
        best, trials = (reader, int(parse_threads)), {}
    else:
        variants = [(reader, threads) for reader in READERS for threads in (AUTOTUNE, 1, arguments.threads)]
        trials = {variant: records_per_second(variant, files, arguments, arguments.trial) for variant in variants}
        best = max(trials, key=trials.get)
    speed = records_per_second(best, files, arguments, arguments.records)
    peer_common.print_report(
        peer="tf.data", version=tensorflow.__version__, records_per_second=round(speed),
        variant=f"{best[0]},{best[1]}", batch=arguments.batch, shuffle=arguments.shuffle, threads=arguments.threads,
        trials={f"{reader},{threads}": round(value) for (reader, threads), value in trials.items()})


if __name__ == "__main__":
    main()
