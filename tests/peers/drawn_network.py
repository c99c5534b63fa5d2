"""Networks with drawn weights, to compare what programs compute: realistic statistics without a training.

pipetrain initialises the network, which gives names and shapes. Weights are drawn so that numbers keep their size from
layer to layer, and running statistics measured in two steps at a learning rate of 0.
"""
import glob
import os
import re
import subprocess
import tempfile

import numpy
from safetensors.numpy import load_file, save_file

from peer import BUILD, pipetrain, settings

SEED, BATCH = 5, 8


class DrawnNetwork:
    """Its model file, its weights, and images of its size as an array [BATCH, height, width, channels] and as shards."""

    def __init__(self, net, weights, images, shards):
        self.net, self.weights, self.images, self.shards = net, weights, images, shards


def shrink(text, side):
    """The text of a network for images of at most `side` pixels."""
    def smaller(match):
        height, width = (min(int(match[i]), side) for i in (1, 2))
        return f"image {height}x{width}x{match[3]}"
    return re.sub(r"(?m)^image (\d+)x(\d+)x(\d+)$", smaller, text)


def fits(text):
    with tempfile.NamedTemporaryFile("w", suffix=".net") as file:
        file.write(text)
        file.flush()
        words = [os.path.join(BUILD, "pipetrain"), f"--describe={file.name}"]
        return subprocess.run(words, capture_output=True).returncode == 0


def net_text(model, is_small=False, words=()):
    """Running statistics follow the last batch; this is no difference in evaluation. is_small: for images of 64 pixels,
    or of the smallest size on which all windows fit."""
    text = pipetrain(f"--describe={model}", "--net", *words)
    text = re.sub(r" decay [0-9.e-]+", " decay 0.1", text)
    smaller = (shrink(text, side) for side in (64, 96, 128, 192)) if is_small else ()
    return next(filter(fits, smaller), text)


def draw_images(folder, text):
    height, width, channels = map(int, re.search(r"(?m)^image (\d+)x(\d+)x(\d+)$", text).groups())
    random = numpy.random.default_rng(SEED)
    areas = random.normal(0, 1, (BATCH, -(-height // 8), -(-width // 8), channels))
    areas = areas.repeat(8, 1).repeat(8, 2)[:, :height, :width] + random.normal(0, 0.3, (BATCH, height, width, channels))
    light, contrast = random.uniform(40, 215, (BATCH, 1, 1, channels)), random.uniform(10, 90, (BATCH, 1, 1, 1))
    images = numpy.clip(light + contrast * areas, 0, 255).astype(numpy.uint8)
    numpy.save(f"{folder}/images.npy", images)
    numpy.save(f"{folder}/labels.npy", numpy.arange(BATCH) % 2)
    subprocess.run([os.path.join(BUILD, "pipetrain-convert"), "npy", f"{folder}/images.npy", f"{folder}/labels.npy",
                    "--shards=1", "--shuffle=none", "-o", f"{folder}/shards"], check=True, capture_output=True)
    return images


def train(folder, net, name, steps, *words):
    """The weights of a run that changes only running statistics."""
    pipetrain("-c", "/dev/null", "--quiet",
              *settings(model__file=net, data__train=f"{folder}/shards/train-*", data__shuffle="none",
                        augment__crop="none", augment__flip="no", train__batch=BATCH, train__steps=steps,
                        train__optimizer="sgd", train__learning_rate=0, run__dir=f"{folder}/{name}",
                        devices__kind="cpu", model__dropout="no"), *words)
    return f"{folder}/{name}/weights.safetensors"


def draw_tensor(random, head, name, tensor):
    """Logits are small, so that no probability is near 0 or 1."""
    if name.endswith(("running_mean", "running_var")):
        return tensor
    if tensor.size > max(tensor.shape):
        variance = (0.3 if name == head else 2) / tensor[0].size
        return random.normal(0, variance ** 0.5, tensor.shape).astype(numpy.float32)
    centre = 1 if name.endswith(".weight") else tensor.flat[0]
    return (centre + 0.1 * random.normal(0, 1, tensor.shape)).astype(numpy.float32)


def condition(tensors):
    """Normalisation enlarges what differs between images, and rounding errors with it, layer by layer, where values have
    a mean far above their deviation. With the mean square as variance, and a part of the mean, it does not."""
    for name in [name for name in tensors if name.endswith(".running_mean")]:
        mean, variance = tensors[name], tensors[name[:-4] + "var"]
        variance += mean ** 2
        numpy.maximum(variance, variance.mean() / 2, variance)
        mean *= 0.25
    return tensors


def draw(folder, text):
    net = f"{folder}/drawn.net"
    with open(net, "w") as file:
        file.write(text)
    images = draw_images(folder, text)
    first = load_file(train(folder, net, "first", 1))
    random = numpy.random.default_rng(SEED)
    head = re.findall(r"(?m)^\s*(?:conv2d|dense) (\S+)", text)[-1] + ".weight"
    tensors = {name: draw_tensor(random, head, name, tensor) for name, tensor in first.items()}
    save_file(tensors, f"{folder}/drawn.safetensors")
    weights = f"{folder}/drawn.safetensors"
    if any(name.endswith("running_var") for name in tensors):
        measured = train(folder, net, "measured", 2, *settings(model__weights=weights))
        save_file(condition(load_file(measured)), weights)
    return DrawnNetwork(net, weights, images, f"{folder}/shards/train-*")


def our_logits(folder, drawn):
    """What pipetrain predict computes for all images: [BATCH, classes]."""
    pipetrain("predict", "-w", drawn.weights, "-m", drawn.net, f"--logits={folder}/ours.npy", "--tsv",
              *settings(devices__kind="cpu"), drawn.shards)
    logits = numpy.load(f"{folder}/ours.npy")
    os.remove(f"{folder}/ours.npy")
    return logits


def networks(names):
    """Name and text of these networks, for small images; no names: those of nets/ here and all by name."""
    here = os.path.dirname(os.path.abspath(__file__))
    files = {os.path.basename(path)[:-4]: path for path in sorted(glob.glob(f"{here}/nets/*.net"))}
    for name in names or [*files, *re.findall(r"(?m)^([a-z][\w.]*)  ", pipetrain("--describe"))]:
        if name not in files:
            yield name, net_text(name, is_small=True)
            continue
        with open(files[name]) as file:
            yield name, file.read()
