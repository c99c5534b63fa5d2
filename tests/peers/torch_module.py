#!/usr/bin/env python3
"""The Python modules of pipetrain export --torch compute in PyTorch what pipetrain computes.

  torch_module.py [files] [MODEL ...]

Each network, with drawn weights (drawn_network.py), is written as a module, whose load() takes the weights. Of one
image and of seven, logits differ from those of pipetrain predict by at most 1e-5 of the largest, probabilities by at
most 1e-6. A step of training in train() mode, without dropout, is compared with that of pipetrain for a few networks:
1e-3 of the largest number of each tensor. `files`: checkpoints and files with names of PyTorch's wrappers are loaded,
and transform() scales images of other sizes as pipetrain predict does.

Without arguments: files, all networks by name, and those of nets/ here. $PIPETRAIN_BUILD is the folder of the build
('.'). Exit status 77: PyTorch, Pillow or safetensors are missing.
"""
import importlib.util
import json
import os
import sys
import tempfile

try:
    import numpy
    import torch
    from PIL import Image
    from safetensors.torch import load_file, save_file
except ImportError as error:
    print(sys.executable, "has not all that is needed:", error)
    sys.exit(77)
from drawn_network import draw, networks, our_logits
from peer import end, expect, pipetrain, settings

LOGITS, PROBABILITIES, STEP = 1e-5, 1e-6, 1e-3
COUNT, RATE = 7, 0.001
STEPPED = ("layers", "names", "mnist_cnn", "resnet20_v1", "cifar_vgg19_bn", "mobilenet_v2_cifar")
# Pixels are the same after evaluation_resize. Otherwise Pillow rounds once more, and its filter sees pixels beside the
# crop.
SCALINGS = {"evaluation=central evaluation_resize=40": 1e-5,
            "evaluation=auto evaluation_resize=36 filter=bicubic": 1e-5,
            "evaluation=none": 1e-2, "evaluation=auto evaluation_scale=1.145": 1e-2,
            "evaluation=central evaluation_scale=1": 1e-2}


def export(folder, weights, *words):
    """The module, which is written for the weights."""
    path = f"{folder}/net.py"
    pipetrain("export", "--torch", "-w", weights, "-o", path, "--force", *words)
    spec = importlib.util.spec_from_file_location("exported", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compare(what, ours, theirs):
    ours, theirs = torch.as_tensor(ours).double(), theirs.double()
    largest = ours.abs().max().item()
    logits = (ours - theirs).abs().max().item() / largest
    shares = (ours.softmax(1) - theirs.softmax(1)).abs().max().item()
    expect(logits <= LOGITS, f"{what}: logits differ by {logits:.1e} of the largest, {largest:.1f}")
    rounding = largest * 2**-24         # of a logit, which is more where they are as large as hundreds
    expect(shares <= max(PROBABILITIES, rounding), f"{what}: probabilities differ by {shares:.1e}")


def difference(ours, theirs):
    return ((ours - theirs).abs().max() / theirs.abs().max()).item()


# ---- training ----

def step_here(folder, drawn):
    pipetrain("-c", "/dev/null", "--quiet",
              *settings(model__file=drawn.net, model__weights=drawn.weights, model__dropout="no",
                        data__train=drawn.shards, data__shuffle="none", augment__crop="none", augment__flip="no",
                        train__batch=len(drawn.images), train__steps=1, train__optimizer="sgd",
                        train__learning_rate=RATE, train__weight_decay=0, run__dir=f"{folder}/stepped",
                        devices__kind="cpu"))
    return load_file(f"{folder}/stepped/weights.safetensors")


def step_there(module, drawn, images):
    network = module.load(drawn.weights).train()
    for part in network.modules():
        if isinstance(part, torch.nn.Dropout) or type(part).__name__ == "StochasticDepth":
            part.eval()
    optimizer = torch.optim.SGD(network.parameters(), lr=RATE)
    loss = getattr(module, "loss", torch.nn.functional.cross_entropy)
    loss(network(images), torch.arange(len(images)) % 2).backward()
    optimizer.step()
    return network.state_dict()


def check_step(name, folder, module, drawn, images):
    before, ours, theirs = load_file(drawn.weights), step_here(folder, drawn), step_there(module, drawn, images)
    worst = max(ours, key=lambda key: difference(ours[key], theirs[key]))
    largest = difference(ours[worst], theirs[worst])
    expect(largest <= STEP, f"{name}: tensors after a step differ by {largest:.1e}, at {worst}")
    changed = sum(not torch.equal(ours[key], before[key]) for key in ours)
    expect(changed > 0.8 * len(ours), f"{name}: {changed} of {len(ours)} tensors changed")
    module.load(drawn.weights).train()(images)          # with dropout


# ---- networks ----

def check(name, text):
    with tempfile.TemporaryDirectory() as folder:
        drawn = draw(folder, text)
        ours = our_logits(folder, drawn)
        module = export(folder, drawn.weights, "-m", drawn.net)
        network = module.load(drawn.weights)
        images = module.preprocess(torch.from_numpy(drawn.images).permute(0, 3, 1, 2))
        keys = {key for key in network.state_dict() if not key.endswith("num_batches_tracked")}
        expect(keys == set(load_file(drawn.weights)), f"{name}: {len(keys)} tensors of the same names")
        with torch.inference_mode():
            for count in (1, COUNT):
                compare(f"{name}, batch {count}", ours[:count], network(images[:count]))
        if name in STEPPED:
            check_step(name, folder, module, drawn, images)


# ---- files in other forms ----

def check_files(folder):
    run = f"{folder}/run"
    pipetrain("-c", "/dev/null", "--quiet",
              *settings(model__name="resnet20_v1", input__source="synthetic", train__steps=2, train__batch=4,
                        train__ema=0.9, checkpoint__every=1, run__dir=run, devices__kind="cpu"))
    weights = f"{run}/weights.safetensors"
    module = export(folder, weights)
    expected = module.load(weights).state_dict()
    checkpoint = sorted(file for file in os.listdir(run) if file.startswith("checkpoint-"))[-1]
    expect(any(key.startswith("raw.") for key in load_file(f"{run}/{checkpoint}")), "a checkpoint with averages")
    for path in (weights, f"{run}/{checkpoint}"):
        loaded = export(folder, path).load(path).state_dict()
        expect(all(torch.equal(loaded[key], expected[key]) for key in expected), f"{os.path.basename(path)} is loaded")
    wrapped = f"{folder}/wrapped.safetensors"
    save_file({f"module.{key}": tensor.to(torch.bfloat16) if tensor.is_floating_point() else tensor
               for key, tensor in expected.items()}, wrapped)
    loaded = export(folder, wrapped, "-m", "resnet20_v1").load(wrapped).state_dict()
    expect(all(torch.equal(loaded[key], expected[key].to(torch.bfloat16).to(loaded[key].dtype)) for key in expected),
           "names with a prefix, of bfloat16 and with PyTorch's counters, are loaded")
    save_file({key: tensor for key, tensor in load_file(weights).items() if key != "fc.bias"}, wrapped)
    try:
        module.load(wrapped)
        expect(False, "a tensor that is missing is an error")
    except RuntimeError as error:
        expect("fc.bias" in str(error), "a tensor that is missing is an error that names it")


# ---- images of other sizes ----

def draw_pictures(folder):
    random = numpy.random.default_rng(5)
    paths = []
    for i, (height, width, channels) in enumerate([(75, 50, 3), (32, 32, 3), (60, 133, 3), (40, 33, 1), (31, 20, 3)]):
        areas = random.integers(0, 256, (-(-height // 8), -(-width // 8), channels)).repeat(8, 0).repeat(8, 1)
        pixels = numpy.clip(areas[:height, :width] + random.normal(0, 20, (height, width, channels)), 0, 255)
        paths.append(f"{folder}/picture{i}.png")
        pixels = pixels.astype(numpy.uint8)
        Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels).save(paths[-1])
    paths.append(f"{folder}/picture16.png")
    Image.fromarray(random.integers(0, 65536, (40, 50)).astype(numpy.uint16)).save(paths[-1])
    return paths


def check_transform(folder):
    _, text = next(networks(["resnet20_v1"]))
    drawn, paths = draw(folder, text), draw_pictures(folder)
    for scaling, tolerance in SCALINGS.items():
        words = [word for key in scaling.split() for word in ("--set", f"augment.{key}")]
        module = export(folder, drawn.weights, "-m", drawn.net, *words)
        network = module.load(drawn.weights)
        lines = pipetrain("predict", "-w", drawn.weights, "-m", drawn.net, "--json", "--top=10",
                          *settings(devices__kind="cpu"), *words, *paths).splitlines()
        with torch.inference_mode():
            theirs = torch.cat([network(module.transform(Image.open(path))[None]) for path in paths]).softmax(1)
        ours = torch.zeros_like(theirs)
        for i, line in enumerate(lines):
            for one in json.loads(line)["top"]:
                ours[i, one["class"]] = one["probability"]
        worst = (ours - theirs).abs().max().item()
        expect(worst <= tolerance, f"{scaling}: probabilities of images of other sizes differ by {worst:.1e}")


def main():
    torch.set_num_threads(1)
    if len(sys.argv) == 1 or "files" in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            check_files(folder)
            check_transform(folder)
    names = [name for name in sys.argv[1:] if name != "files"]
    for name, text in networks(names) if names or len(sys.argv) == 1 else ():
        check(name, text)
    end()


if __name__ == "__main__":
    main()
