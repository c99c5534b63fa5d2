#!/usr/bin/env python3
"""Where TensorFlow's and Keras' optimizers take a few numbers: optimizer_trajectories.py calls this.

Reads {"start": [...], "gradients": [[...], ...]} and writes the weights behind each step, by optimizer.
"""
import json
import sys

import keras
import tensorflow as tf


def keras_path(optimizer, start, gradients):
    weights = keras.Variable(start, dtype="float64")
    for gradient in gradients:
        optimizer.apply([keras.ops.convert_to_tensor(gradient, dtype="float64")], [weights])
        yield weights.numpy().tolist()


def tensorflow_path(optimizer, start, gradients):
    weights = tf.Variable(start, dtype=tf.float64)
    for gradient in gradients:
        optimizer.apply_gradients([(tf.constant(gradient, dtype=tf.float64), weights)])
        yield weights.numpy().tolist()


def main():
    keras.backend.set_floatx("float64")
    given = json.load(sys.stdin)
    train, optimizers = tf.compat.v1.train, keras.optimizers
    paths = {
        "rmsprop": tensorflow_path(train.RMSPropOptimizer(0.02, decay=0.9, momentum=0.9, epsilon=1.0), **given),
        "rmsprop_small": tensorflow_path(train.RMSPropOptimizer(0.02, decay=0.99, momentum=0.0, epsilon=1e-10), **given),
        "keras_adadelta": keras_path(optimizers.Adadelta(1.0, rho=0.95, epsilon=1e-8), **given),
        "keras_rmsprop": keras_path(optimizers.RMSprop(0.01, rho=0.9, epsilon=1e-8), **given),
    }
    made = {name: list(path) for name, path in paths.items()}
    json.dump({"version": tf.__version__, "keras": keras.__version__, **made}, sys.stdout)


if __name__ == "__main__":
    main()
