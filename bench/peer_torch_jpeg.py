#!/usr/bin/env python3
"""PyTorch's DataLoader decoding JPEG files: random parts at 224 x 224 per second. Prints one JSON line.

Worker processes, one for each core, read files, decode, cut, scale (bilinear with antialias, uint8 tensors) and
mirror; batches come through shared memory, four of each worker are made ahead. Two decoders, of which a short trial
picks the faster:

    simplejpeg    libjpeg-turbo; the part is chosen first, and the image decoded at the smallest size that has enough
                  pixels of it
    torchvision   torchvision.io.decode_jpeg and transforms.v2, as its reference scripts do

--trivial changes every image by transforms.v2.TrivialAugmentWide.
"""

import argparse
import glob
import math
import os
import time

import simplejpeg
import torch
import torchvision
from torchvision.transforms import v2

import peer_common


def choose_part(height, width):
    """torchvision's RandomResizedCrop: top, left, height, width."""
    image = torch.empty(1, height, width, device="meta")
    return torchvision.transforms.RandomResizedCrop.get_params(image, (0.08, 1.0), (3 / 4, 4 / 3))


def with_simplejpeg(encoded, side):
    height, width, _, _ = simplejpeg.decode_jpeg_header(encoded)
    top, left, part_height, part_width = choose_part(height, width)
    least = side / min(part_height, part_width)
    wanted = {"min_height": math.ceil(height * least), "min_width": math.ceil(width * least)} if least < 1 else {}
    pixels = torch.from_numpy(simplejpeg.decode_jpeg(encoded, "RGB", **wanted)).permute(2, 0, 1)
    scale = pixels.shape[1] / height
    top, left = round(top * scale), round(left * scale)
    part = pixels[:, top:top + max(1, round(part_height * scale)), left:left + max(1, round(part_width * scale))]
    scaled = v2.functional.resize(part, [side, side], antialias=True)
    return scaled.flip(-1) if torch.rand(()) < 0.5 else scaled


def with_torchvision(encoded, side):
    bytes_of = torch.frombuffer(bytearray(encoded), dtype=torch.uint8)
    pixels = torchvision.io.decode_jpeg(bytes_of, torchvision.io.ImageReadMode.RGB)
    top, left, height, width = choose_part(pixels.shape[1], pixels.shape[2])
    scaled = v2.functional.resize(pixels[:, top:top + height, left:left + width], [side, side], antialias=True)
    return scaled.flip(-1) if torch.rand(()) < 0.5 else scaled


DECODERS = {"simplejpeg": with_simplejpeg, "torchvision": with_torchvision}


class Photographs(torch.utils.data.Dataset):
    def __init__(self, folder, decoder, side, trivial):
        self.augment = v2.TrivialAugmentWide() if trivial else None
        self.paths = sorted(glob.glob(os.path.join(folder, "*", "*")))
        self.classes = {name: number for number, name in enumerate(sorted(os.listdir(folder)))}
        self.decode, self.side = DECODERS[decoder], side

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        with open(self.paths[index], "rb") as file:
            encoded = file.read()
        pixels = self.decode(encoded, self.side)
        if self.augment is not None:
            pixels = self.augment(pixels)
        return pixels, self.classes[os.path.basename(os.path.dirname(self.paths[index]))]


def batches_of(loader):
    while True:
        yield from loader


def measure(decoder, arguments, images):
    """What measure_batches gives, and the seconds from before the data set is made to its first batch."""
    begin = time.perf_counter()
    loader = torch.utils.data.DataLoader(
        Photographs(arguments.folder, decoder, arguments.side, arguments.trivial), arguments.batch, shuffle=True, drop_last=True,
        num_workers=arguments.threads, prefetch_factor=4, persistent_workers=True)
    batches = batches_of(loader)
    next(batches)
    first = time.perf_counter() - begin
    for _ in range(2 * arguments.threads):
        next(batches)
    speed = peer_common.measure_batches(lambda: next(batches), max(1, images // arguments.batch), arguments.batch)
    return {**speed, "first_batch_seconds": round(first, 4)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", required=True, help="JPEG files in folders of classes")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--images", type=int, default=3840, help="images measured (default %(default)s)")
    parser.add_argument("--trial", type=int, default=768, help="images of a trial (default %(default)s)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="worker processes")
    parser.add_argument("--trivial", action="store_true", help="TrivialAugmentWide after the crop")
    parser.add_argument("--decoder", choices=DECODERS, help="measure only this one")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    trials = {}
    if not arguments.decoder:
        trials = {decoder: measure(decoder, arguments, arguments.trial)["images_per_second"] for decoder in DECODERS}
    best = arguments.decoder or max(trials, key=trials.get)
    speed = measure(best, arguments, arguments.images)
    peer_common.print_report(
        peer="PyTorch DataLoader", version=torch.__version__, torchvision=torchvision.__version__,
        simplejpeg=simplejpeg.__version__,
        **speed, decoder=best, batch=arguments.batch, workers=arguments.threads,
        trials={decoder: round(rate) for decoder, rate in trials.items()})


if __name__ == "__main__":
    main()
