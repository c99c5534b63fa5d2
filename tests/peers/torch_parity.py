#!/usr/bin/env python3
"""What pipetrain computes with a model, beside what PyTorch computes with its own (bench/torch_zoo.py).

  torch_parity.py [-b BACKEND]... [MODEL ...]

From the same weights and images: the logits of evaluation and of training, the gradient of every parameter
and the running statistics of a first step, and parameters and losses of three to ten steps of SGD with
momentum, without dropout and stochastic depth. A difference is, tensor by
tensor, max |ours - exact| / max |exact|, where `exact` is PyTorch in double precision; logits have their
mean taken out, which the loss does not see. A bias that the next batch normalisation takes away has no
influence, its gradient is 0: it is measured by the weights of its layer or, where a normalisation has none,
of its convolution. The differences of PyTorch in single precision stand beside ours.

Without a backend: those of this build in which the model's row below names it. Without a model: all rows.
$PIPETRAIN_BUILD is the folder of the build ('.'). Exit status 77: there is no PyTorch.
"""
import argparse
import math
import os
import subprocess
import sys
import tempfile

try:
    import numpy
    import torch
    import torch.nn.functional as functional
except ImportError:
    print("no PyTorch for", sys.executable)
    sys.exit(77)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../bench"))
import torch_zoo  # noqa: E402

# Where rounding takes a number over 0 in front of a ReLU, or past another one in a max pool, gradients jump: the seeds
# are of images with which that does not happen. Beta away from 0 makes it rare in networks of millions of numbers, and
# the same sign of it in all layers of a channel keeps the sums of residual blocks away from 0, too. Images that are not
# grey on average keep away from 0 the means behind the first convolution. A ReLU with a limit has two such places, and
# gets channels on either side of both. In evaluation with mean 0 and variance 1, numbers grow from layer to layer until
# the gates of squeeze and excitation close, and of some networks even PyTorch's fp32 has no correct digit left: these
# are evaluated with statistics near those of the images.
ALL, FAST = ("reference", "onednn"), ("onednn",)


class Case:
    """A comparison: samples, learning rate, seed of weights and images, how far from 0 beta lies at least, backends,
    the darkest pixel there may be, steps, height and width of the images (0: the model's own), the limit of ReLUs,
    whether running statistics are near those of the images (else mean 0, variance 1)."""

    def __init__(self, samples, rate, seed, beta, backends, darkest=0, steps=10, size=0, limit=0, statistics=False):
        self.samples, self.rate, self.seed, self.beta, self.backends = samples, rate, seed, beta, backends
        self.darkest, self.steps, self.size = darkest, steps, size
        self.limit, self.statistics = limit, statistics


MODELS = {
    "resnet20_v1": Case(2, 0.005, 2, 0, ALL),
    "resnet20_v2": Case(2, 0.005, 2, 0, ALL),
    "cifar_alexnet": Case(2, 0.005, 1, 0, ALL),
    "multigpu_mnist": Case(2, 0.001, 3, 0, FAST),
    "densenet40_k12": Case(2, 0.001, 1, 2, FAST),
    "cifar_vgg19_bn": Case(4, 0.001, 1, 2, FAST),
    "googlenet": Case(1, 0.001, 3, 0, FAST),
    "overfeat": Case(1, 0.001, 1, 0, FAST),
    "torchvision_resnet18": Case(2, 0.001, 1, 3, FAST),
    "resnet50_v1": Case(2, 0.001, 3, 3, FAST),
    "inception3": Case(2, 0.001, 32, 3, FAST, darkest=64),
    "torchvision_alexnet": Case(2, 0.001, 1, 0, FAST, steps=3),
    "torchvision_vgg16_bn": Case(4, 0.001, 2, 3, FAST, steps=3, size=64),
    "wide_resnet50_2": Case(4, 0.001, 1, 3, FAST, steps=3, size=64),
    "densenet121": Case(4, 0.001, 1, 3, FAST, steps=3, size=64),
    "squeezenet1_1": Case(2, 0.001, 1, 0, FAST, steps=3),
    "resnext50_32x4d": Case(4, 0.001, 1, 3, FAST, steps=3, size=64),
    "resnext29_8x64d": Case(2, 0.001, 1, 3, FAST, steps=3),
    "regnet_y_1_6gf": Case(4, 0.001, 1, 3, FAST, steps=3, size=64, statistics=True),
    "mobilenet_v2": Case(4, 0.001, 1, 0, FAST, steps=3, size=64, limit=6, statistics=True),
    "mobilenet_v2_cifar": Case(4, 0.001, 1, 0, FAST, steps=3, limit=6, statistics=True),
    "mobilenet_v3_large": Case(4, 0.001, 1, 1, FAST, steps=3, size=64),
    "efficientnet_b0": Case(4, 0.001, 1, 0, FAST, steps=3, size=64),
    "efficientnet_v2_s": Case(4, 0.001, 1, 1, FAST, steps=3, size=64, statistics=True),
    "convnext_tiny": Case(4, 0.001, 1, 0, FAST, steps=3, size=64),
}
MOMENTUM, AUXILIARY_WEIGHT = 0.9, 0.4
TOLERANCES = {"logits of evaluation": 1e-4, "logits": 1e-4, "gradients": 1e-3, "statistics": 1e-5,
              "parameters after the steps": 1e-3, "losses": 1e-3}
PROGRAM = os.path.join(os.environ.get("PIPETRAIN_BUILD", "."), "tests/e2e/model_steps")


class Problem:
    """A network's weights and a batch, drawn; the files of model_steps."""

    def __init__(self, model, case, directory):
        self.model, self.case, self.directory = model, case, directory
        generator = torch.Generator().manual_seed(case.seed)
        network = self.new_network()
        self.images = torch.randint(case.darkest, 256, (case.samples, *network.shape), generator=generator,
                                    dtype=torch.uint8)
        self.labels = torch.randint(0, network.classes, (case.samples,), generator=generator)
        tensors = network.tensors()
        self.before = {name: draw(name, tensors, case, generator) for name in tensors}
        self.trained = [name for name, tensor in tensors.items() if tensor.requires_grad]
        if case.statistics:
            self.before |= running_statistics(self.network(torch.float64), self.images, generator)

    def new_network(self):
        return torch_zoo.Network(self.model, dropout=False, auxiliary=True, size=self.case.size)

    def network(self, number):
        network = self.new_network().to(number)
        with torch.no_grad():
            for name, tensor in network.tensors().items():
                tensor.copy_(self.before[name])
        return network

    def write(self):
        self.images.permute(0, 2, 3, 1).numpy().tofile(os.path.join(self.directory, "pixels"))
        self.labels.int().numpy().tofile(os.path.join(self.directory, "labels"))
        for name, tensor in self.before.items():
            tensor.numpy().tofile(os.path.join(self.directory, "before." + name))

    def names_agree(self):
        """Are the parameters of model_steps, as far as it came, those of PyTorch? If not, print what differs."""
        theirs = {(name, *without_window(tensor.shape)) for name, tensor in self.before.items()}
        try:
            with open(os.path.join(self.directory, "parameters"), encoding="ascii") as lines:
                ours = {(name, *without_window(map(int, dims))) for name, *dims in (line.split() for line in lines)}
        except FileNotFoundError:
            return True
        for only in sorted(ours ^ theirs):
            print("  FAIL only", "ours:" if only in ours else "PyTorch's:", *only)
        return ours == theirs

    def read(self, name, kind, shape=(-1,)):
        return torch.from_numpy(numpy.fromfile(os.path.join(self.directory, name), kind).reshape(shape))

    def tensors(self, group, names):
        return {name: self.read(f"{group}.{name}", "<f4", tuple(self.before[name].shape)) for name in names}

    def logits(self):
        """Of the first step, where model_steps could tell them."""
        if not os.path.exists(os.path.join(self.directory, "probabilities")):
            return {}
        return {"": without_mean(self.read("probabilities", "<f8", (self.case.samples, -1)).log())}

    def ours(self):
        """What model_steps computed."""
        count = self.case.samples
        return {
            "logits of evaluation": {"": without_mean(self.read("logits", "<f4", (count, -1)))},
            "logits": self.logits(),
            "gradients": {name: slopes / count for name, slopes in self.tensors("gradients", self.trained).items()},
            "statistics": self.tensors("statistics", [name for name in self.before if name not in self.trained]),
            "parameters after the steps": self.tensors("after", self.before),
            "losses": {"": self.read("losses", "<f8") / count},
        }


def without_window(dims):
    """The dense layers of every pixel in ConvNeXt are convolutions of 1x1 here."""
    dims = tuple(dims)
    return dims[:2] if dims[2:] == (1, 1) else dims


def without_mean(logits):
    return logits - logits.mean(1, keepdim=True)


def draw(name, tensors, case, generator):
    """Weights keep the size of what goes through them, and logits so small that no probability is 0. Where beta is kept
    away from 0, its sign is that of every other channel, in all layers. Where ReLUs have a limit, normalised channels
    lie below 0, between 0 and the limit, and above it by turns."""
    layer, kind = name.rsplit(".", 1)
    numbers = torch.randn(tensors[name].shape, generator=generator)
    if kind == "running_var":
        return torch.ones_like(numbers)
    if kind == "running_mean":
        return torch.zeros_like(numbers)
    if numbers.dim() > 1:
        return numbers * ((2 if numbers.dim() > 2 else 1) / numbers[0].numel()) ** 0.5
    if kind == "weight":
        return (1 + 0.2 * numbers.clamp(-2, 2)) * (case.limit / 12 or 1)
    if layer + ".running_var" not in tensors:
        return 0.1 * numbers
    if case.limit:
        return (torch.arange(len(numbers)) % 3 - 0.5) * case.limit + 0.25 * numbers
    return (numbers.abs() + case.beta) * (1 - 2 * (torch.arange(len(numbers)) % 2)) if case.beta else numbers


def running_statistics(network, images, generator):
    """Near those of the images, so that numbers keep their size in evaluation, too; but not the same, so that
    a normalisation by the batch's own would be seen. A tenth of the mean is for channels that are nearly constant."""
    for layer in network.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            layer.momentum = 1
    with torch.no_grad():
        network.train()(images)
    statistics = {name: tensor for name, tensor in network.tensors().items() if not tensor.requires_grad}
    for name, mean in statistics.items():
        if name.endswith(".running_mean"):
            variance = statistics[name.replace("_mean", "_var")]
            mean += 0.2 * variance.sqrt() * torch.randn(mean.shape, generator=generator)
            variance *= 0.65 + 0.5 * torch.rand(variance.shape, generator=generator)
            variance += 0.1 * variance.mean()
    return {name: tensor.float() for name, tensor in statistics.items()}


def loss_of(logits, labels):
    if not isinstance(logits, tuple):
        return functional.cross_entropy(logits, labels)
    return functional.cross_entropy(logits[0], labels) + AUXILIARY_WEIGHT * functional.cross_entropy(logits[1], labels)


def copies(tensors, names):
    return {name: tensors[name].detach().float().clone() for name in names}


def first_step(problem, tensors, logits):
    shown = (logits[0] if isinstance(logits, tuple) else logits).detach()
    return {
        "logits": {"": without_mean(shown)},
        "gradients": copies({name: tensors[name].grad for name in problem.trained}, problem.trained),
        "statistics": copies(tensors, [name for name in tensors if name not in problem.trained]),
    }


def compute(problem, number):
    """The same as Problem.ours, by PyTorch in this precision."""
    network = problem.network(number)
    tensors = network.tensors()
    optimizer = torch.optim.SGD(network.parameters(), lr=problem.case.rate, momentum=MOMENTUM)
    losses = []
    with torch.no_grad():
        results = {"logits of evaluation": {"": without_mean(network.eval()(problem.images))}}
    network.train()
    for step in range(problem.case.steps):
        optimizer.zero_grad()
        logits = network(problem.images)
        loss = loss_of(logits, problem.labels)
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            results |= first_step(problem, tensors, logits)
        optimizer.step()
    results["parameters after the steps"] = copies(tensors, problem.before)
    with torch.no_grad():
        losses.append(loss_of(network.eval()(problem.images), problem.labels).item())
    results["losses"] = {"": torch.tensor(losses, dtype=torch.float64)}
    return results


def scale(exact, name):
    """The largest number of a tensor, or, where all of it is rounding, of the weights beside it."""
    own = exact[name].abs().max().item()
    weights = (name.replace(".bias", ".weight"), name.replace(".bn.bias", ".conv.weight"))
    beside = next((exact[other].abs().max().item() for other in weights if other != name and other in exact), 0)
    return beside if own < 1e-9 * beside else own


def worst(results, exact):
    """The largest difference of all tensors and its place."""
    differences = [((results[name] - exact[name]).abs().max().item() / scale(exact, name), name) for name in exact]
    return max(((math.inf if math.isnan(difference) else difference), name) for difference, name in differences)


def compare(results, single, exact):
    failures = 0
    for what, tolerance in TOLERANCES.items():
        if not results[what]:
            continue
        difference, place = worst(results[what], exact[what])
        passes = difference <= tolerance
        failures += not passes
        print(f"  {'ok  ' if passes else 'FAIL'} {what}: {difference:.1e}{' in ' + place if place else ''}"
              f" (PyTorch's fp32: {worst(single[what], exact[what])[0]:.1e})", flush=True)
    return failures


def check(model, backend, case):
    """How many kinds of numbers differ; None: the backend is not in this build."""
    with tempfile.TemporaryDirectory() as directory:
        problem = Problem(model, case, directory)
        problem.write()
        print(f"{model}, {backend}, batch {case.samples}:", flush=True)
        numbers = (str(number) for number in (case.size, case.rate, case.steps))
        status = subprocess.run([PROGRAM, backend, model, *numbers, directory], check=False).returncode
        if status == 77:
            return None
        if not problem.names_agree() or status != 0:
            return 1
        return compare(problem.ours(), compute(problem, torch.float32), compute(problem, torch.float64))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-b", "--backend", action="append")
    parser.add_argument("models", metavar="MODEL", nargs="*")
    arguments = parser.parse_args()
    print("PyTorch", torch.__version__)
    outcomes = [check(model, backend, MODELS[model]) for model in arguments.models or MODELS
                for backend in arguments.backend or MODELS[model].backends]
    computed = [failures for failures in outcomes if failures is not None]
    return 1 if any(computed) or not computed else 0


if __name__ == "__main__":
    sys.exit(main())
