#!/usr/bin/env python3
"""PyTorch evaluating photographs: images per second of a pass over all. Prints one JSON line.

Under torch.inference_mode, weights and images in channels_last, on all cores; worker processes read and decode JPEG files
(torchvision.io), scale the shorter side to 256 and cut 224 x 224 from the middle. A short trial picks the number of
workers, and whether the whole is traced and frozen first (torch.jit.freeze, which folds batch normalisation into weights).
"""

import glob
import os
import time

import torch
import torchvision
from torchvision.transforms import v2

import peer_common

SCALED, SIDE, TRIAL = 256, 224, 96
MEAN, DEVIATION = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


class Photographs(torch.utils.data.Dataset):
    def __init__(self, folder, most):
        self.paths = sorted(glob.glob(os.path.join(folder, "*", "*")))[:most]
        self.classes = {name: number for number, name in enumerate(sorted(os.listdir(folder)))}

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        pixels = torchvision.io.decode_image(self.paths[index], torchvision.io.ImageReadMode.RGB)
        scaled = v2.functional.resize(pixels, [SCALED], antialias=True)
        cut = v2.functional.center_crop(scaled, [SIDE, SIDE])
        return cut, self.classes[os.path.basename(os.path.dirname(self.paths[index]))]


def evaluate(network, arguments, workers, most):
    """Seconds of a pass, behind one batch that starts the workers."""
    data = Photographs(arguments.folder, most)
    loader = torch.utils.data.DataLoader(data, arguments.batch, num_workers=workers, prefetch_factor=4,
                                         persistent_workers=True)
    mean, deviation = (torch.tensor(numbers).view(1, 3, 1, 1) for numbers in (MEAN, DEVIATION))
    loss = right = 0
    next(iter(loader))
    begin = time.perf_counter()
    with torch.inference_mode():
        for pixels, labels in loader:
            inputs = ((pixels.float() / 255 - mean) / deviation).contiguous(memory_format=torch.channels_last)
            logits = network(inputs)
            loss += torch.nn.functional.cross_entropy(logits, labels, reduction="sum").item()
            right += (logits.argmax(1) == labels).sum().item()
    return len(data) / (time.perf_counter() - begin)


def main():
    parser = peer_common.machine_parser(__doc__.splitlines()[0])
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("folder")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    peer_common.keep_freed_memory()
    plain = getattr(torchvision.models, arguments.model)().eval().to(memory_format=torch.channels_last)
    example = torch.zeros(arguments.batch, 3, SIDE, SIDE).contiguous(memory_format=torch.channels_last)
    with torch.inference_mode():
        frozen = torch.jit.freeze(torch.jit.trace(plain, example))
        frozen(example)
    choices = [(network, workers) for network in (plain, frozen) for workers in (1, arguments.threads)]
    network, workers = max(choices, key=lambda choice: evaluate(choice[0], arguments, choice[1], TRIAL))
    speed = evaluate(network, arguments, workers, None)
    peer_common.print_report(images_per_second=speed, workers=workers, is_frozen=network is frozen)


if __name__ == "__main__":
    main()
