#!/usr/bin/env python3
"""ResNet-50 in PyTorch on TFRecord shards, in one process or in several (DDP): an example to copy from (doc/python.md).

    python3 examples/feed_torch.py 'shards/train-*'
    torchrun --nproc-per-node=2 examples/feed_torch.py 'shards/train-*' --checkpoint run.pt --every 100

--batch counts the images of all processes together. A run that was killed goes on from its checkpoint, also in the
middle of an epoch, when the same command is run again. Its losses are then those of a run that was not killed, to the
bit: tested with one and with two processes on CPUs. On GPUs it was not tried.
"""
import argparse
import os

import torch
import torch.distributed as dist
import torchvision

import pipetrain

MEAN, DEVIATION = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)        # ImageNet's, in units of pixels


def choose_device():
    """This process's GPU, or the CPU; with several processes they are connected afterwards."""
    has_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))) if has_gpu else torch.device("cpu")
    if has_gpu:
        torch.cuda.set_device(device)
    if "WORLD_SIZE" in os.environ:
        dist.init_process_group("nccl" if has_gpu else "gloo")
    return device


def is_first():
    return not dist.is_initialized() or dist.get_rank() == 0


def normalise(images, device):
    """uint8 [N, H, W, C] to float [N, C, H, W], which are channels_last in memory, as the pixels are already."""
    images = images.to(device, non_blocking=True).permute(0, 3, 1, 2).float()
    mean, deviation = (torch.tensor(values, device=device).view(1, 3, 1, 1) for values in (MEAN, DEVIATION))
    return (images - mean) / deviation


def mean_over_processes(loss):
    loss = loss.detach().clone()
    if dist.is_initialized():
        dist.all_reduce(loss)
        loss /= dist.get_world_size()
    return loss.item()


def save(path, network, optimizer, loader, step):
    """One file, complete or not there. The position of the loader is the same in all processes."""
    if is_first():
        torch.save({"network": network.state_dict(), "optimizer": optimizer.state_dict(),
                    "loader": loader.state_dict(), "step": step}, path + ".part")
        os.replace(path + ".part", path)


def load(path, network, optimizer, loader):
    """The number of steps that are done."""
    if not path or not os.path.exists(path):
        return 0
    saved = torch.load(path, map_location="cpu")
    network.load_state_dict(saved["network"])
    optimizer.load_state_dict(saved["optimizer"])
    loader.load_state_dict(saved["loader"])
    return saved["step"]


def train(network, optimizer, loader, device, step, arguments):
    parallel = torch.nn.parallel.DistributedDataParallel(network) if dist.is_initialized() else network
    steps = min(arguments.steps or arguments.epochs * len(loader), arguments.epochs * len(loader))
    while step < steps:
        for images, labels in loader:       # the rest of an epoch: all of it, but after a resume
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                loss = torch.nn.functional.cross_entropy(parallel(normalise(images, device)), labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            mean = mean_over_processes(loss)
            if is_first():
                print(f"step {step} loss {mean}", flush=True)
            if arguments.checkpoint and (step % arguments.every == 0 or step == steps):
                save(arguments.checkpoint, network, optimizer, loader, step)
            if step == steps:
                break


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shards", help="pattern of the training shards, in quotes")
    parser.add_argument("--classes", type=int, help="of a set that does not describe how many it has")
    parser.add_argument("--batch", type=int, default=256, help="images a step, of all processes (default %(default)s)")
    parser.add_argument("--size", type=int, default=224, help="height and width of the images (default %(default)s)")
    parser.add_argument("--rate", type=float, default=0.1, help="learning rate (default %(default)s)")
    parser.add_argument("--epochs", type=int, default=90, help="(default %(default)s)")
    parser.add_argument("--steps", type=int, help="end after so many steps (default: the epochs)")
    parser.add_argument("--checkpoint", metavar="FILE", help="where the run is saved and from where it goes on")
    parser.add_argument("--every", type=int, default=100, metavar="STEPS", help="between checkpoints (default 100)")
    arguments = parser.parse_args()
    device = choose_device()
    torch.manual_seed(1)
    with pipetrain.Loader(arguments.shards, arguments.batch, size=(arguments.size, arguments.size), flip=True,
                          epochs=arguments.epochs, drop_last=True, classes=arguments.classes, output="torch",
                          pin=device.type == "cuda") as loader:
        network = torchvision.models.resnet50(num_classes=loader.classes).to(device, memory_format=torch.channels_last)
        optimizer = torch.optim.SGD(network.parameters(), arguments.rate, momentum=0.9, weight_decay=5e-5)
        step = load(arguments.checkpoint, network, optimizer, loader)
        train(network, optimizer, loader, device, step, arguments)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
