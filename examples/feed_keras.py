#!/usr/bin/env python3
"""A CNN in Keras 3, with any of its backends, on TFRecord shards: an example to copy from (doc/python.md).

    pip install keras jax
    KERAS_BACKEND=jax python3 examples/feed_keras.py 'shards/train-*' --checkpoint run.pickle --every 100

The loop calls train_on_batch, so that a checkpoint has the position of the last batch that was trained on: model.fit
takes some batches in advance. A run that was killed goes on from its checkpoint, also in the middle of an epoch, when
the same command is run again; on CPUs to the same losses, to the bit.
"""
import argparse
import os
import pickle

import keras

import pipetrain


def make_model(size, channels, classes):
    x = inputs = keras.Input((size, size, channels), dtype="uint8")
    x = keras.layers.Rescaling(1 / 127.5, offset=-1)(x)
    for width in (32, 64, 128):
        x = keras.layers.Conv2D(width, 3, strides=2, padding="same", use_bias=False)(x)
        x = keras.layers.BatchNormalization()(x)
        x = keras.layers.Activation("relu")(x)
    x = keras.layers.GlobalAveragePooling2D()(x)
    model = keras.Model(inputs, keras.layers.Dense(classes)(x))
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    model.optimizer.build(model.trainable_variables)        # there are states to load before the first step
    return model


def save(path, model, loader, step):
    """One file, complete or not there."""
    with open(path + ".part", "wb") as file:
        pickle.dump((model.get_state_tree(value_format="numpy_array"), loader.state_dict(), step), file)
    os.replace(path + ".part", path)


def load(path, model, loader):
    """The number of steps that are done."""
    if not path or not os.path.exists(path):
        return 0
    with open(path, "rb") as file:
        state, position, step = pickle.load(file)
    model.set_state_tree(state)
    loader.load_state_dict(position)
    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shards", help="pattern of the training shards, in quotes")
    parser.add_argument("--classes", type=int, help="of a set that does not describe how many it has")
    parser.add_argument("--batch", type=int, default=128, help="images a step (default %(default)s)")
    parser.add_argument("--size", type=int, default=64, help="height and width of the images (default %(default)s)")
    parser.add_argument("--epochs", type=int, default=10, help="(default %(default)s)")
    parser.add_argument("--steps", type=int, help="end after so many steps (default: the epochs)")
    parser.add_argument("--checkpoint", metavar="FILE", help="where the run is saved and from where it goes on")
    parser.add_argument("--every", type=int, default=100, metavar="STEPS", help="between checkpoints (default 100)")
    arguments = parser.parse_args()
    keras.utils.set_random_seed(1)
    # Batches of one size only (drop_last): another one would be compiled for.
    with pipetrain.Loader(arguments.shards, arguments.batch, size=(arguments.size, arguments.size), flip=True,
                          epochs=arguments.epochs, drop_last=True, classes=arguments.classes) as loader:
        model = make_model(arguments.size, 3, loader.classes)
        step = load(arguments.checkpoint, model, loader)
        steps = min(arguments.steps or arguments.epochs * len(loader), arguments.epochs * len(loader))
        while step < steps:
            for images, labels in loader:       # the rest of an epoch: all of it, but after a resume
                model.reset_metrics()
                loss, accuracy = model.train_on_batch(images, labels)
                step += 1
                print(f"step {step} loss {loss} accuracy {accuracy}", flush=True)
                if arguments.checkpoint and (step % arguments.every == 0 or step == steps):
                    save(arguments.checkpoint, model, loader, step)
                if step == steps:
                    break


if __name__ == "__main__":
    main()
