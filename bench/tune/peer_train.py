#!/usr/bin/env python3
"""Training on JPEG TFRecords fed by tf.data, left to AUTOTUNE: images/s behind a minute in which it settles. Prints
one JSON line.

The network is cifar_trivial (dense layers of 1, 4096 and the classes), trained by SGD in a loop inside one
tf.function, so that Python costs nothing. The feed is that of peer_tfdata_jpeg.py: parallel reads, a shuffle buffer, a
random part of each image decoded and scaled, batch, prefetch; reads, calls and depth are AUTOTUNE's.
"""

import argparse
import glob
import os
import sys
import time
import types

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import peer_tfdata_jpeg  # sets up TensorFlow's environment
import tensorflow

import peer_common

AUTOTUNE = tensorflow.data.AUTOTUNE


def network(classes):
    layers = tensorflow.keras.layers
    return tensorflow.keras.Sequential([
        layers.Flatten(), layers.Dense(1, activation="relu"), layers.Dense(4096, activation="relu"),
        layers.Dense(classes)])


def make_loop(model, iterator):
    loss = tensorflow.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tensorflow.function
    def loop(steps):
        for _ in tensorflow.range(steps):
            images, labels = next(iterator)
            with tensorflow.GradientTape() as tape:
                value = loss(labels, model(tensorflow.cast(images, tensorflow.float32) / 127.5 - 1))
            gradients = tape.gradient(value, model.trainable_variables)
            for variable, gradient in zip(model.trainable_variables, gradients):
                variable.assign_sub(0.005 * gradient)
    return loop


def autotuned(files, feed):
    options = tensorflow.data.Options()
    options.deterministic = False
    data = tensorflow.data.TFRecordDataset(files, num_parallel_reads=AUTOTUNE, buffer_size=8 << 20)
    data = data.repeat().shuffle(feed.shuffle, seed=1)
    data = data.map(lambda record: peer_tfdata_jpeg.parse(record, feed.side), num_parallel_calls=AUTOTUNE)
    return data.batch(feed.batch, drop_remainder=True).prefetch(AUTOTUNE).with_options(options)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--glob", required=True, help="the shards")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--side", type=int, default=32)
    parser.add_argument("--classes", type=int, default=20)
    parser.add_argument("--settle", type=float, default=60, metavar="SECONDS")
    parser.add_argument("--seconds", type=float, default=10)
    arguments = parser.parse_args()
    files = sorted(glob.glob(arguments.glob))
    if not files:
        raise SystemExit(f"no file matches {arguments.glob}")
    feed = types.SimpleNamespace(shuffle=1000, side=arguments.side, batch=arguments.batch)
    model = network(arguments.classes)
    model.build((None, arguments.side, arguments.side, 3))
    loop = make_loop(model, iter(autotuned(files, feed)))
    steps = tensorflow.constant(50, tensorflow.int64)
    end = time.perf_counter() + arguments.settle
    while time.perf_counter() < end:
        loop(steps)
    done, begin = 0, time.perf_counter()
    while time.perf_counter() < begin + arguments.seconds:
        loop(steps)
        done += 50
    seconds = time.perf_counter() - begin
    peer_common.print_report(peer="tf.data", version=tensorflow.__version__, batch=arguments.batch,
                             images_per_second=round(done * arguments.batch / seconds, 1))


if __name__ == "__main__":
    main()
