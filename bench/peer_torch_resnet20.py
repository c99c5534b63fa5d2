#!/usr/bin/env python3
"""resnet20_v1 for 32x32 images in PyTorch: training speed with the data in memory. Prints one JSON line.

The network of He et al. 2015 for CIFAR-10 with zero-padded shortcuts, 269,722 parameters; uint8 images
scaled to [-1, 1] in every step as pipetrain does; SGD with momentum 0.9.

Settings, from PyTorch's performance tuning guide: channels_last, one intra-op thread per core,
gradients set to None, the foreach optimizer, denormals flushed, no validation of values, no `.item()`
in the loop, freed memory kept. --compile adds torch.compile.
"""

import torch
import torch.nn.functional as F

import peer_common
import peer_torch

PARAMETERS = 269_722


class Block(torch.nn.Module):
    def __init__(self, channels, filters, stride):
        super().__init__()
        self.stride, self.pad = stride, (filters - channels) // 2
        self.conv1 = torch.nn.Conv2d(channels, filters, 3, stride, 0 if stride == 2 else 1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(filters)
        self.conv2 = torch.nn.Conv2d(filters, filters, 3, 1, 1, bias=False)
        self.bn2 = torch.nn.BatchNorm2d(filters)

    def shortcut(self, x):
        if self.pad == 0:
            return x
        return F.pad(x[:, :, ::self.stride, ::self.stride], (0, 0, 0, 0, self.pad, self.pad))

    def forward(self, x):
        # SAME padding with stride 2 pads behind only.
        y = self.conv1(F.pad(x, (0, 1, 0, 1)) if self.stride == 2 else x)
        y = F.relu(self.bn1(y), inplace=True)
        return F.relu(self.bn2(self.conv2(y)).add_(self.shortcut(x)), inplace=True)


class ResNet20(torch.nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(16)
        widths = [(16, 16, 1), (16, 16, 1), (16, 16, 1), (16, 32, 2), (32, 32, 1), (32, 32, 1), (32, 64, 2),
                  (64, 64, 1), (64, 64, 1)]
        self.blocks = torch.nn.Sequential(*(Block(*width) for width in widths))
        self.fc = torch.nn.Linear(64, classes)

    def forward(self, x):
        x = self.bn1(self.conv1(x.float() / 127.5 - 1.0))
        return self.fc(self.blocks(x).mean((2, 3)))


def batches(batch, count):
    generator = torch.Generator().manual_seed(1)
    for _ in range(count):
        image = torch.randint(0, 256, (batch, 3, 32, 32), generator=generator, dtype=torch.uint8)
        label = torch.randint(0, 10, (batch,), generator=generator)
        yield image.contiguous(memory_format=torch.channels_last), label


def main():
    parser = peer_common.argument_parser(__doc__)
    parser.add_argument("--compile", action="store_true", help="with torch.compile")
    arguments = parser.parse_args()
    if not arguments.return_memory:
        peer_common.keep_freed_memory()
    torch.manual_seed(1)
    torch.set_num_threads(arguments.threads)
    torch.set_flush_denormal(True)
    model = ResNet20().to(memory_format=torch.channels_last).train()
    assert sum(p.numel() for p in model.parameters()) == PARAMETERS
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=True)
    stepped = torch.compile(model) if arguments.compile else model
    data = list(batches(arguments.batch, 8))
    peer_torch.train(stepped, optimizer, data, arguments.warmup)
    seconds = peer_torch.train(stepped, optimizer, data, arguments.steps)
    peer_common.print_report(
        peer="torch", version=torch.__version__, variant="compile" if arguments.compile else "eager", model="resnet20_v1",
        batch=arguments.batch, threads=arguments.threads, **peer_common.step_report(seconds, arguments.batch))


if __name__ == "__main__":
    main()
