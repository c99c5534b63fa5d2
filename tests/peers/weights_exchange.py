#!/usr/bin/env python3
"""Weights of torchvision and timm are loaded, for every network that they have, and go back to torchvision.

  weights_exchange.py [MODEL ...]

Each network of torchvision gets random weights and running statistics, is saved as safetensors and loaded by
`pipetrain predict`: logits of evaluation, without their mean, differ by at most 1e-4 of the largest. A run with a new
head for another number of classes then starts with the file (model.weights, model.skip) at a learning rate of 0: every
other weight keeps its bits, and torchvision loads the result with strict=True. The same logits are compared for timm's
networks that compute the same with weights of other names, where timm is installed.

Without a model: all of them. $PIPETRAIN_BUILD is the folder of the build ('.'). Exit status 77: there is no torchvision
or safetensors.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

try:
    import numpy
    import torch
    import torchvision
    from PIL import Image
    from safetensors.torch import load_file, save_file
except ImportError as error:
    print(sys.executable, "has not all that is needed:", error)
    sys.exit(77)
try:
    import timm
except ImportError:
    timm = None
from peer import BUILD, IMAGENET_DEVIATION, IMAGENET_MEAN, end, expect, pipetrain, settings

SEED, BATCH, HEAD = 5, 2, 7
TOLERANCE = 1e-4


class Case:
    """A model of pipetrain, torchvision's name for it, those of timm's networks with the same tensors, and the side of
    the images (networks with dense layers behind the convolutions need that of the model)."""

    def __init__(self, theirs, *timms, side=64):
        self.theirs, self.timms, self.side = theirs, timms, side


MODELS = {
    "mobilenet_v2": Case("mobilenet_v2", "mobilenetv2_100"),
    "mobilenet_v3_large": Case("mobilenet_v3_large", "mobilenetv3_large_100", "tf_mobilenetv3_large_100"),
    "efficientnet_b0": Case("efficientnet_b0", "efficientnet_b0", "tf_efficientnet_b0"),
    "efficientnet_v2_s": Case("efficientnet_v2_s", "efficientnetv2_s", "tf_efficientnetv2_s"),
    "resnext50_32x4d": Case("resnext50_32x4d", "resnext50_32x4d"),
    "regnet_y_1_6gf": Case("regnet_y_1_6gf", "regnety_016"),
    "convnext_tiny": Case("convnext_tiny", "convnext_tiny"),
    "wide_resnet50_2": Case("wide_resnet50_2", "wide_resnet50_2"),
    "densenet121": Case("densenet121", "densenet121"),
    "squeezenet1_1": Case("squeezenet1_1"),
    "torchvision_vgg16_bn": Case("vgg16_bn", "vgg16_bn", side=224),
    "torchvision_alexnet": Case("alexnet", side=224),
}


def draw_images(folder, side):
    """PNG files of the network's size, which nothing scales."""
    random = numpy.random.default_rng(SEED)
    os.mkdir(folder)
    images = []
    for i in range(BATCH):
        areas = numpy.kron(random.integers(0, 256, (side // 16, side // 16, 3)), numpy.ones((16, 16, 1)))
        pixels = numpy.clip(areas + random.normal(0, 20, (side, side, 3)), 0, 255).astype(numpy.uint8)
        Image.fromarray(pixels).save(f"{folder}/{i}.png")
        images.append(pixels)
    mean, deviation = (torch.tensor(numbers).view(1, 3, 1, 1) for numbers in (IMAGENET_MEAN, IMAGENET_DEVIATION))
    return (torch.from_numpy(numpy.stack(images)).permute(0, 3, 1, 2) / 255 - mean) / deviation


def head_of(network):
    """The name of the last layer with weights."""
    return [name for name, _ in network.named_parameters()][-1].rsplit(".", 1)[0]


def draw_tensor(name, tensor):
    """Weights that keep the size of what goes through them."""
    numbers = torch.randn(tensor.shape)
    if name.endswith("running_var"):
        return torch.empty_like(numbers).uniform_(0.7, 1.4)
    if numbers.dim() > 1:
        return numbers * (2 / numbers[0].numel()) ** 0.5
    return 1 + 0.2 * numbers.clamp(-2, 2) if name.endswith("weight") else 0.1 * numbers


def draw(network, images):
    """Random weights; statistics near those of the images, because numbers that grow make sigmoids steps, in which
    rounding is all; logits of a few units."""
    torch.manual_seed(SEED)
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = 0.9
    with torch.no_grad():
        for name, tensor in network.state_dict().items():
            if not name.endswith("num_batches_tracked"):
                tensor.copy_(draw_tensor(name, tensor))
        network.train()(images)
        logits = network.eval()(images)
        network.get_submodule(head_of(network)).weight *= 3 / logits.std()
    return network


def write_net(folder, text, side):
    """A model file for smaller images."""
    with open(f"{folder}/small.net", "w") as file:
        file.write(re.sub(r"(?m)^image \d+x\d+x3$", f"image {side}x{side}x3", text))
    return f"{folder}/small.net"


def our_logits(net, weights, pictures, classes):
    lines = pipetrain("predict", "-w", weights, "-m", net, "--json", "--top=1000", *settings(devices__kind="cpu"),
                      pictures).splitlines()
    shares = torch.zeros((BATCH, classes), dtype=torch.float64)
    for line in lines:
        one = json.loads(line)
        image = int(os.path.basename(one["image"]).split(".")[0])
        for ranked in one["top"]:
            shares[image, ranked["class"]] = ranked["probability"]
    return shares.log()


def logits_of(network, images):
    with torch.no_grad():
        logits = network(images).double()
    return logits - logits.mean(1, keepdim=True)


def compare_logits(what, net, weights, pictures, network, images):
    single = logits_of(network, images)
    exact = logits_of(network.double(), images.double())
    network.float()
    ours = our_logits(net, weights, pictures, exact.shape[1])
    ours -= ours.mean(1, keepdim=True)
    difference, theirs = (((logits - exact).abs().max() / exact.abs().max()).item() for logits in (ours, single))
    expect(difference <= TOLERANCE, f"{what}: logits of up to {exact.abs().max():.1f} differ by {difference:.1e} "
                                    f"(PyTorch's fp32: {theirs:.1e})")


# ---- torchvision ----

def for_torchvision(tensors, network):
    """Dense layers of every pixel are convolutions of 1x1 here (doc/models.md, convnext_tiny)."""
    theirs = network.state_dict()
    return {name: tensor.flatten(1) if name in theirs and tensor.dim() == 4 and theirs[name].dim() == 2 else tensor
            for name, tensor in tensors.items()}


def fine_tune(folder, net, weights, case, head):
    run = f"{folder}/run"
    pipetrain("-c", "/dev/null",
              *settings(model__file=net, input__source="synthetic", data__classes=HEAD, train__steps=1, train__batch=2,
                        train__optimizer="sgd", train__learning_rate=0, model__weights=weights,
                        model__skip=f"{head}.*", run__dir=run, devices__kind="cpu"))
    tensors, before = load_file(f"{run}/weights.safetensors"), load_file(weights)
    network = getattr(torchvision.models, case.theirs)(num_classes=HEAD)
    tensors = for_torchvision(tensors, network)
    network.load_state_dict(tensors, strict=True)
    kept = [name for name, _ in network.named_parameters() if not name.startswith(head + ".")]
    expect(len(kept) > 0 and all(torch.equal(tensors[name], before[name]) for name in kept),
           f"{case.theirs}: {len(kept)} tensors keep their bits under a new head, and torchvision loads them")


def check_torchvision(folder, model, case, net, images):
    network = draw(getattr(torchvision.models, case.theirs)(weights=None), images)
    weights = f"{folder}/torchvision.safetensors"
    save_file(network.state_dict(), weights)
    compare_logits(f"torchvision's {case.theirs}", net, weights, f"{folder}/pictures", network, images)
    fine_tune(folder, net, weights, case, head_of(network))


# ---- timm ----

def fitting_net(folder, model, name, weights, side):
    """A network that computes as timm's: where the model does not, that of the command that pipetrain prints then."""
    text = pipetrain(f"--describe={model}", "--net")
    done = subprocess.run([f"{BUILD}/pipetrain", "predict", "-w", weights, "-m", write_net(folder, text, side),
                           f"{folder}/pictures"], capture_output=True, text=True)
    expect("its names are those of timm" in done.stderr, f"timm's {name} is recognised, exit status {done.returncode}")
    command = re.search(rf"(pipetrain --describe={model} --net \| sed '[^']*') >{name}.net", done.stderr)
    if command is not None:
        text = subprocess.run(f"{BUILD}/{command[1]}", shell=True, check=True, capture_output=True, text=True).stdout
    expect(done.returncode == 0 or command is not None, f"timm's {name} is loaded, or told how to load it")
    return write_net(folder, text, side)


def check_timm(folder, model, name, side, images):
    network = draw(timm.create_model(name, pretrained=False), images)
    weights = f"{folder}/timm.safetensors"
    save_file(network.state_dict(), weights)
    is_translated = not set(network.state_dict()) <= set(getattr(torchvision.models, MODELS[model].theirs)().state_dict())
    net = fitting_net(folder, model, name, weights, side) if is_translated else f"{folder}/small.net"
    compare_logits(f"timm's {name}", net, weights, f"{folder}/pictures", network, images)


def check(model, case):
    with tempfile.TemporaryDirectory() as folder:
        images = draw_images(f"{folder}/pictures", case.side)
        net = write_net(folder, pipetrain(f"--describe={model}", "--net"), case.side)
        check_torchvision(folder, model, case, net, images)
        for name in case.timms if timm is not None else ():
            check_timm(folder, model, name, case.side, images)


def main():
    torch.set_num_threads(1)
    if timm is None:
        print("no timm for", sys.executable, "(its networks are left out)")
    for model in sys.argv[1:] or MODELS:
        check(model, MODELS[model])
    end()


if __name__ == "__main__":
    main()
