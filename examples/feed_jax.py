#!/usr/bin/env python3
"""A CNN in JAX and Flax (NNX) on TFRecord shards: an example to copy from (doc/python.md).

    pip install jax flax optax
    python3 examples/feed_jax.py 'shards/train-*' --checkpoint run.pickle --every 100

A run that was killed goes on from its checkpoint, also in the middle of an epoch, when the same command is run again;
on CPUs to the same losses, to the bit.
"""
import argparse
import os
import pickle

import jax
import optax
from flax import nnx
from jax import numpy as jnp

import pipetrain


class Network(nnx.Module):
    def __init__(self, channels, classes, rngs):
        widths = [channels, 32, 64, 128]
        self.convolutions = nnx.List([nnx.Conv(before, after, (3, 3), strides=2, use_bias=False, rngs=rngs)
                                      for before, after in zip(widths, widths[1:])])
        self.norms = nnx.List([nnx.BatchNorm(width, rngs=rngs) for width in widths[1:]])
        self.last = nnx.Linear(widths[-1], classes, rngs=rngs)

    def __call__(self, images):
        x = images.astype(jnp.float32) / 127.5 - 1      # uint8 [N, H, W, C], the layout of Flax
        for convolution, norm in zip(self.convolutions, self.norms):
            x = nnx.relu(norm(convolution(x)))
        return self.last(x.mean((1, 2)))


@nnx.jit
def train_step(network, optimizer, images, labels):
    def loss_of(network):
        return optax.softmax_cross_entropy_with_integer_labels(network(images), labels).mean()

    loss, gradients = nnx.value_and_grad(loss_of)(network)
    optimizer.update(network, gradients)
    return loss


def save(path, network, optimizer, loader, step):
    """One file, complete or not there."""
    with open(path + ".part", "wb") as file:
        pickle.dump((jax.device_get(nnx.state((network, optimizer))), loader.state_dict(), step), file)
    os.replace(path + ".part", path)


def load(path, network, optimizer, loader):
    """The number of steps that are done."""
    if not path or not os.path.exists(path):
        return 0
    with open(path, "rb") as file:
        state, position, step = pickle.load(file)
    nnx.update((network, optimizer), state)
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
    # Batches of one size only (drop_last): another one would be compiled for.
    with pipetrain.Loader(arguments.shards, arguments.batch, size=(arguments.size, arguments.size), flip=True,
                          epochs=arguments.epochs, drop_last=True, classes=arguments.classes) as loader:
        network = Network(3, loader.classes, nnx.Rngs(1))
        optimizer = nnx.Optimizer(network, optax.adamw(1e-3), wrt=nnx.Param)
        step = load(arguments.checkpoint, network, optimizer, loader)
        steps = min(arguments.steps or arguments.epochs * len(loader), arguments.epochs * len(loader))
        while step < steps:
            for images, labels in loader:       # the rest of an epoch: all of it, but after a resume
                loss = train_step(network, optimizer, jnp.asarray(images), jnp.asarray(labels, jnp.int32))
                step += 1
                print(f"step {step} loss {loss.item()}", flush=True)
                if arguments.checkpoint and (step % arguments.every == 0 or step == steps):
                    save(arguments.checkpoint, network, optimizer, loader, step)
                if step == steps:
                    break


if __name__ == "__main__":
    main()
