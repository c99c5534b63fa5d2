#!/usr/bin/env python3
"""A network of torchvision with Accelerate on TFRecord shards, in one process or in several: an example to copy from
(doc/python.md).

    pip install accelerate torchvision
    accelerate launch examples/feed_accelerate.py 'shards/train-*' --checkpoint runs --every 100

The loader is not given to accelerator.prepare, which would divide its batches once more: each process gets its share
already. register_for_checkpointing makes its position a part of save_state and load_state.
"""
import argparse
import os

import torch
import torchvision
from accelerate import Accelerator

import pipetrain


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shards", help="pattern of the training shards, in quotes")
    parser.add_argument("--model", default="resnet50", help="of torchvision (default %(default)s)")
    parser.add_argument("--classes", type=int, help="of a set that does not describe how many it has")
    parser.add_argument("--batch", type=int, default=256, help="images a step, of all processes (default %(default)s)")
    parser.add_argument("--size", type=int, default=224, help="height and width of the images (default %(default)s)")
    parser.add_argument("--rate", type=float, default=0.1, help="learning rate (default %(default)s)")
    parser.add_argument("--epochs", type=int, default=90, help="(default %(default)s)")
    parser.add_argument("--steps", type=int, help="end after so many steps (default: the epochs)")
    parser.add_argument("--checkpoint", metavar="DIR", help="where the run is saved and from where it goes on")
    parser.add_argument("--every", type=int, default=100, metavar="STEPS", help="between checkpoints (default 100)")
    arguments = parser.parse_args()
    torch.manual_seed(1)
    accelerator = Accelerator()         # connects the processes, so that the loader knows its rank
    loader = pipetrain.Loader(arguments.shards, arguments.batch, size=(arguments.size, arguments.size), flip=True,
                              epochs=arguments.epochs, drop_last=True, classes=arguments.classes, output="torch",
                              pin=accelerator.device.type == "cuda")
    network = torchvision.models.get_model(arguments.model, num_classes=loader.classes)
    optimizer = torch.optim.SGD(network.parameters(), arguments.rate, momentum=0.9)
    network, optimizer = accelerator.prepare(network, optimizer)
    accelerator.register_for_checkpointing(loader)
    if arguments.checkpoint and os.path.isdir(arguments.checkpoint):
        accelerator.load_state(arguments.checkpoint)
    epoch, step = loader.position
    done, steps = epoch * len(loader) + step, arguments.steps or arguments.epochs * len(loader)
    while done < steps:
        for images, labels in loader:       # the rest of an epoch: all of it, but after a resume
            images = images.to(accelerator.device, non_blocking=True).permute(0, 3, 1, 2).float() / 127.5 - 1
            loss = torch.nn.functional.cross_entropy(network(images), labels.to(accelerator.device))
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            done += 1
            accelerator.print(f"step {done} loss {accelerator.reduce(loss.detach(), 'mean').item()}", flush=True)
            if arguments.checkpoint and (done % arguments.every == 0 or done == steps):
                accelerator.save_state(arguments.checkpoint)
            if done == steps:
                break
    loader.close()
    accelerator.end_training()


if __name__ == "__main__":
    main()
