#!/usr/bin/env python3
"""A network of torchvision in Lightning on TFRecord shards, on one device or on several: an example to copy from
(doc/python.md).

    pip install lightning torchvision
    python3 examples/feed_lightning.py 'shards/train-*' --devices 2 --every 100
    python3 examples/feed_lightning.py 'shards/train-*' --devices 2 --every 100 --resume runs/last.ckpt

Trainer.fit takes a pipetrain.Loader as it is. Lightning saves its position in checkpoints, and resumes in the middle of
an epoch. The loader is made in train_dataloader, where the processes are connected already, so it knows its rank.
"""
import argparse

import lightning
import torch
import torchvision
from lightning.pytorch.callbacks import ModelCheckpoint

import pipetrain


class Classifier(lightning.LightningModule):
    def __init__(self, arguments):
        super().__init__()
        self.arguments = arguments
        self.network = torchvision.models.get_model(arguments.model, num_classes=arguments.classes)

    def train_dataloader(self):
        side = self.arguments.size
        return pipetrain.Loader(self.arguments.shards, self.arguments.batch, size=side, flip=True, drop_last=True,
                                output="torch", pin=self.device.type == "cuda")

    def training_step(self, batch, _):
        images, labels = batch
        logits = self.network(images.permute(0, 3, 1, 2).float() / 127.5 - 1)
        loss = torch.nn.functional.cross_entropy(logits, labels)
        self.print(f"step {self.global_step + 1} loss {loss.item()}", flush=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), self.arguments.rate, momentum=0.9)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shards", help="pattern of the training shards, in quotes")
    parser.add_argument("--classes", type=int, default=1000, help="(default %(default)s)")
    parser.add_argument("--model", default="resnet50", help="of torchvision (default %(default)s)")
    parser.add_argument("--batch", type=int, default=256, help="images a step, of all devices (default %(default)s)")
    parser.add_argument("--size", type=int, default=224, help="height and width of the images (default %(default)s)")
    parser.add_argument("--rate", type=float, default=0.1, help="learning rate (default %(default)s)")
    parser.add_argument("--epochs", type=int, default=90, help="(default %(default)s)")
    parser.add_argument("--steps", type=int, default=-1, help="end after so many steps (default: the epochs)")
    parser.add_argument("--devices", type=int, default=1, help="(default %(default)s)")
    parser.add_argument("--every", type=int, default=100, metavar="STEPS", help="between checkpoints (default 100)")
    parser.add_argument("--resume", metavar="FILE", help="a checkpoint")
    arguments = parser.parse_args()
    torch.manual_seed(1)
    checkpoints = ModelCheckpoint("runs", every_n_train_steps=arguments.every, save_last=True)
    trainer = lightning.Trainer(max_epochs=arguments.epochs, max_steps=arguments.steps, devices=arguments.devices,
                                callbacks=[checkpoints], logger=False, enable_progress_bar=False,
                                use_distributed_sampler=False)
    trainer.fit(Classifier(arguments), ckpt_path=arguments.resume)


if __name__ == "__main__":
    main()
