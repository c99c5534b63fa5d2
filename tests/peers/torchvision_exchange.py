#!/usr/bin/env python3
"""Weights go to torchvision's networks and come from them.

  torchvision_exchange.py

Pictures of other sizes than the network's go through torchvision's own transform (ResNet18_Weights.IMAGENET1K_V1) there, and
through pipetrain predict here, with weights as DataParallel saves them: logits agree to 1e-3.

A resnet50 of pipetrain, its weights.safetensors and a checkpoint, is loaded with strict=True into torchvision's, which
takes the same images for the same classes. A resnet18 of torchvision, with weights drawn here, is trained on by
pipetrain and by PyTorch from the same images, ten steps: with a new head of another number of classes, and with frozen
layers and a limited norm. Tensor by tensor max |ours - exact| / max |exact| is at most 1e-3, where `exact` is PyTorch's in double
precision; so are the losses.

$PIPETRAIN_BUILD is the folder of the build ('.'). Exit status 77: there is no torchvision or safetensors.
"""
import json
import os
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
from peer import BUILD, IMAGENET_DEVIATION, IMAGENET_MEAN, end, expect, pipetrain, settings

SEED, STEPS, BATCH, SIDE, HEAD = 5, 10, 8, 64, 7
TOLERANCE = 1e-3
BETA = 3        # away from 0, where rounding decides whether a gradient passes a ReLU (torch_parity.py says more)


def network_input(pixels, dtype):
    mean, deviation = (torch.tensor(numbers, dtype=dtype).view(1, 3, 1, 1)
                       for numbers in (IMAGENET_MEAN, IMAGENET_DEVIATION))
    return (pixels.to(dtype).permute(0, 3, 1, 2) / 255 - mean) / deviation


# ---- resnet50 to torchvision ----

def draw_images(folder, count):
    """PNG files, as decoders of JPEG differ; smooth areas and noise."""
    random = numpy.random.default_rng(SEED)
    images = []
    for i in range(count):
        areas = numpy.kron(random.integers(0, 256, (7, 7, 3)), numpy.ones((32, 32, 1)))
        pixels = numpy.clip(areas + random.normal(0, 4 * i, (224, 224, 3)), 0, 255).astype(numpy.uint8)
        Image.fromarray(pixels).save(f"{folder}/{i}.png")
        images.append(pixels)
    return torch.from_numpy(numpy.stack(images))


def predictions(weights, folder):
    lines = pipetrain("predict", "-w", weights, "--json", "--top=5", folder).splitlines()
    return [json.loads(line)["top"] for line in lines]


def compare_predictions(name, ours, network, images):
    network.eval()
    with torch.inference_mode():
        shares = torch.softmax(network(network_input(images, torch.float32)).double(), 1)
    best, taken = shares.argmax(1).tolist(), [top[0]["class"] for top in ours]
    expect(taken == best, f"{name}: images are of classes {taken}, torchvision's are {best}")
    expect(len(set(best)) > 1, f"{name}: these are not all the same")
    worst = max(abs(one["probability"] - shares[i][one["class"]].item()) for i, top in enumerate(ours) for one in top)
    expect(worst < TOLERANCE, f"{name}: probabilities of the likeliest five classes differ by {worst:.1e}")


def draw_resnet50(path, images):
    """With statistics of the images: without, it takes all of them for one class."""
    torch.manual_seed(SEED)
    network = torchvision.models.resnet50()
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = 1
    with torch.no_grad():
        network(network_input(images, torch.float32))
    save_file(network.state_dict(), path)


def check_resnet50(folder):
    run, photos = f"{folder}/resnet50", f"{folder}/photos"
    os.mkdir(photos)
    images = draw_images(photos, 6)
    draw_resnet50(f"{folder}/resnet50.safetensors", images)
    pipetrain("-c", "/dev/null",
              *settings(model__name="torchvision_resnet50", input__source="synthetic", train__steps=1, train__batch=2,
                        train__optimizer="sgd", train__learning_rate=1e-4, checkpoint__every=1, run__dir=run,
                        model__weights=f"{folder}/resnet50.safetensors", devices__kind="cpu"))
    network = torchvision.models.resnet50()
    for name in sorted(os.listdir(run)):
        if not name.endswith(".safetensors"):
            continue
        tensors = load_file(f"{run}/{name}")
        if name.startswith("checkpoint-"):
            tensors = {key: tensor for key, tensor in tensors.items()
                       if not key.startswith(("optim.", "tower.", "carried"))}
        network.load_state_dict(tensors, strict=True)
        compare_predictions(name, predictions(f"{run}/{name}", photos), network, images)


# ---- torchvision's transform ----

def draw_pictures(folder):
    """PNG files of the sizes of photographs, tall and wide, small and grey; smooth areas and noise."""
    random = numpy.random.default_rng(SEED)
    paths = []
    sizes = [(375, 500, 3), (601, 400, 3), (150, 333, 3), (224, 224, 3), (401, 299, 1)]
    for i, (height, width, channels) in enumerate(sizes):
        areas = random.integers(0, 256, (-(-height // 32), -(-width // 32), channels))
        areas = numpy.kron(areas, numpy.ones((32, 32, 1)))
        pixels = areas[:height, :width] + random.normal(0, 20, (height, width, channels))
        pixels = numpy.clip(pixels, 0, 255).astype(numpy.uint8)
        paths.append(f"{folder}/{i}.png")
        Image.fromarray(pixels if channels == 3 else pixels[:, :, 0]).save(paths[-1])
    return paths


def check_transform(folder):
    pictures = f"{folder}/pictures"
    os.mkdir(pictures)
    paths = draw_pictures(pictures)
    transform = torchvision.models.ResNet18_Weights.IMAGENET1K_V1.transforms()
    images = torch.stack([transform(Image.open(path).convert("RGB")) for path in paths])
    torch.manual_seed(SEED)
    network = torchvision.models.resnet18()
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = 1
    with torch.no_grad():
        network(images)         # for its statistics
        network.eval()
        network.fc.weight *= 3 / network(images).std()
        logits = network(images).double()
    save_file(torch.nn.DataParallel(network).state_dict(), f"{folder}/parallel.safetensors")
    lines = pipetrain("predict", "-w", f"{folder}/parallel.safetensors", "-m", "torchvision_resnet18", "--json",
                      "--top=1000", *settings(augment__evaluation="central", devices__kind="cpu"), *paths).splitlines()
    shares = torch.zeros_like(logits)
    for i, line in enumerate(lines):
        for one in json.loads(line)["top"]:
            shares[i, one["class"]] = one["probability"]
    worst = (shares.log() - torch.log_softmax(logits, 1)).abs().max().item()
    expect(len(lines) == len(paths) and worst < TOLERANCE,
           f"logits of {len(paths)} pictures behind torchvision's transform, from {logits.min():.1f} to "
           f"{logits.max():.1f}, differ by {worst:.1e}")


# ---- resnet18 from torchvision ----

def draw_resnet18(path):
    torch.manual_seed(SEED)
    network = torchvision.models.resnet18()
    with torch.no_grad():
        for name, tensor in network.named_parameters():
            if tensor.dim() == 1:
                tensor.add_(torch.empty_like(tensor).uniform_(-0.5, 0.5))
            if tensor.dim() == 1 and name.endswith("bias"):
                tensor[::2].add_(BETA)
                tensor[1::2].sub_(BETA)
    save_file(network.state_dict(), path)


def draw_data(folder):
    random = numpy.random.default_rng(SEED)
    images = random.integers(0, 256, (STEPS * BATCH, SIDE, SIDE, 3)).astype(numpy.uint8)
    labels = random.integers(0, HEAD, STEPS * BATCH)
    numpy.save(f"{folder}/images.npy", images)
    numpy.save(f"{folder}/labels.npy", labels)
    subprocess.run([f"{BUILD}/pipetrain-convert", "npy", f"{folder}/images.npy", f"{folder}/labels.npy", "--shards=1",
                    "--shuffle=none", "-o", f"{folder}/shards"], check=True, capture_output=True)
    return torch.from_numpy(images), torch.from_numpy(labels)


def fine_tune_here(folder, name, *words):
    """The run's tensors and the loss of every step."""
    text = pipetrain("--describe=torchvision_resnet18", "--net").replace("image 224x224x3", f"image {SIDE}x{SIDE}x3")
    with open(f"{folder}/small.net", "w") as file:
        file.write(text)
    pipetrain("-c", "/dev/null",
              *settings(model__file=f"{folder}/small.net", data__train=f"{folder}/shards/train-*", data__classes=HEAD,
                        data__shuffle="none", augment__crop="none", augment__flip="no", model__skip="fc.*",
                        model__weights=f"{folder}/resnet18.safetensors", train__batch=BATCH, train__steps=STEPS,
                        train__optimizer="momentum", train__weight_decay=1e-4, train__decay_scope="all",
                        report__interval=1, run__dir=f"{folder}/{name}", devices__kind="cpu"), *words)
    with open(f"{folder}/{name}/metrics.jsonl") as file:
        rows = [json.loads(line) for line in file]
    return load_file(f"{folder}/{name}/weights.safetensors"), [row["loss"] for row in rows if row["kind"] == "train"]


def fine_tune_there(folder, head, data, rate, is_frozen, norm):
    network = torchvision.models.resnet18(num_classes=HEAD).double()
    tensors = {name: tensor for name, tensor in load_file(f"{folder}/resnet18.safetensors").items()
               if not name.startswith("fc.")}
    network.load_state_dict({**tensors, **head}, strict=True)
    for name, tensor in network.named_parameters():
        tensor.requires_grad = not is_frozen(name)
    optimizer = torch.optim.SGD((tensor for tensor in network.parameters() if tensor.requires_grad), lr=rate,
                                momentum=0.9, weight_decay=1e-4)
    losses = []
    network.train()
    for step in range(STEPS):
        images, labels = (part[step * BATCH:(step + 1) * BATCH] for part in data)
        loss = torch.nn.functional.cross_entropy(network(network_input(images, torch.float64)), labels)
        optimizer.zero_grad()
        loss.backward()
        if norm:
            torch.nn.utils.clip_grad_norm_(network.parameters(), norm)
        optimizer.step()
        losses.append(loss.item())
    return network.state_dict(), losses


def difference(ours, exact):
    ours, exact = torch.as_tensor(ours).double(), torch.as_tensor(exact).double()
    return ((ours - exact).abs().max() / exact.abs().max()).item()


def check_variant(folder, data, head, name, rate, frozen, is_frozen, norm):
    ours, losses = fine_tune_here(folder, name, *settings(train__learning_rate=rate, model__freeze=frozen,
                                                          train__clip_norm=norm))
    exact, exact_losses = fine_tune_there(folder, head, data, rate, is_frozen, norm)
    exact = {key: tensor for key, tensor in exact.items() if not key.endswith("num_batches_tracked")}
    expect(set(ours) == set(exact), f"{name}: the same tensors")
    worst = max(exact, key=lambda key: difference(ours[key], exact[key]))
    expect(difference(ours[worst], exact[worst]) <= TOLERANCE,
           f"{name}: tensors after {STEPS} steps differ by {difference(ours[worst], exact[worst]):.1e}, at {worst}")
    expect(len(losses) == STEPS and difference(losses, exact_losses) <= TOLERANCE,
           f"{name}: losses differ by {difference(losses, exact_losses):.1e}")
    before = load_file(f"{folder}/resnet18.safetensors")
    kept = [key for key in before if is_frozen(key) and not key.endswith(("running_mean", "running_var", "tracked"))]
    expect(all(torch.equal(ours[key], before[key]) for key in kept),
           f"{name}: {len(kept)} frozen tensors keep their bits")


def check_resnet18(folder):
    draw_resnet18(f"{folder}/resnet18.safetensors")
    data = draw_data(folder)
    drawn, _ = fine_tune_here(folder, "drawn", *settings(train__learning_rate=0, train__steps=1))
    head = {name: drawn[name] for name in ("fc.weight", "fc.bias")}
    check_variant(folder, data, head, "a new head", 0.002, "", lambda name: False, 0)
    check_variant(folder, data, head, "a frozen front", 0.01, "conv1.* bn1.* layer[12].*",
                  lambda name: name.split(".")[0] in ("conv1", "bn1", "layer1", "layer2"), 0.5)
    check_variant(folder, data, head, "only the head", 0.1, "conv1.* bn1.* layer?.*",
                  lambda name: not name.startswith("fc."), 0)


def main():
    torch.set_num_threads(2)
    with tempfile.TemporaryDirectory() as folder:
        check_transform(folder)
        check_resnet18(folder)
        check_resnet50(folder)
    end()


if __name__ == "__main__":
    main()
