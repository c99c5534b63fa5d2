#!/usr/bin/env python3
"""PyTorch computes with resnet20_v1 what pipetrain computes: from the same weights and images the
probabilities, all gradients, and ten steps of SGD with momentum agree to 1e-3 of the largest number
of each tensor.

  torch_resnet20.py [BACKEND ...]       the backends of this build that compute on the host, unless named

$PIPETRAIN_BUILD is the folder of the build ('.'); $PYTHON an interpreter that has PyTorch. Exit status
77: there is no PyTorch. PyTorch computes in double precision, so that the differences are ours.
"""
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

TOLERANCE = 1e-3
STEPS, LEARNING_RATE, MOMENTUM = 10, 0.005, 0.9
PROGRAM = os.path.join(os.environ.get("PIPETRAIN_BUILD", "."), "tests/e2e/resnet_steps")


class Results:
    """What resnet_steps wrote."""

    def __init__(self, directory):
        self.directory = directory
        with open(os.path.join(directory, "parameters"), encoding="ascii") as lines:
            fields = [line.split() for line in lines]
        self.shapes = {name: tuple(map(int, dims)) for name, _, *dims in fields}
        self.trained = [name for name, is_trained, *_ in fields if is_trained == "1"]

    def read(self, name, kind, shape=(-1,)):
        return numpy.fromfile(os.path.join(self.directory, name), kind).reshape(shape)

    def tensor(self, group, name):
        return torch.from_numpy(self.read(f"{group}.{name}", "<f4", self.shapes[name])).double()


def same_conv(x, weight, stride):
    """SAME: with stride 2 the odd pixel of padding lies behind."""
    return functional.conv2d(functional.pad(x, (0, 1, 0, 1) if stride == 2 else (1, 1, 1, 1)), weight, stride=stride)


class Network:
    """resnet20_v1 from tensors by name: no ReLU in the stem, shortcuts without parameters."""

    def __init__(self, tensors, training):
        self.tensors = tensors
        self.training = training

    def norm(self, x, name):
        t = self.tensors
        return functional.batch_norm(x, t[name + ".running_mean"], t[name + ".running_var"], t[name + ".weight"],
                                     t[name + ".bias"], self.training, momentum=0.1, eps=1e-5)

    def block(self, x, name, channels, stride):
        y = same_conv(x, self.tensors[name + ".conv1.weight"], stride)
        y = functional.relu(self.norm(y, name + ".bn1"))
        y = self.norm(same_conv(y, self.tensors[name + ".conv2.weight"], 1), name + ".bn2")
        more = channels - x.shape[1]
        if more > 0:
            x = functional.pad(x[:, :, ::stride, ::stride], (0, 0, 0, 0, more // 2, more - more // 2))
        return functional.relu(x + y)

    def logits(self, pixels):
        x = torch.from_numpy(pixels).double().permute(0, 3, 1, 2) / 127.5 - 1
        x = self.norm(same_conv(x, self.tensors["conv1.weight"], 1), "bn1")
        for stage, channels in enumerate((16, 32, 64)):
            for i in range(3):
                x = self.block(x, f"layer{stage + 1}.{i}", channels, 2 if stage > 0 and i == 0 else 1)
        return functional.linear(x.mean((2, 3)), self.tensors["fc.weight"], self.tensors["fc.bias"])


class Comparison:
    """Counts what differs and keeps the largest difference."""

    def __init__(self):
        self.failures = 0

    def check(self, what, pairs):
        worst, where = 0.0, ""
        for name, ours, theirs in pairs:
            difference = (ours - theirs).abs().max().item() / max(theirs.abs().max().item(), 1e-12)
            if not difference <= worst:
                worst, where = difference, name
        passes = worst <= TOLERANCE
        self.failures += not passes
        place = " in " + where if where else ""
        print(f"  {'ok  ' if passes else 'FAIL'} {what}: at most {worst:.1e} of the largest{place}")


def compare(results):
    comparison = Comparison()
    pixels = results.read("pixels", "u1", (-1, 32, 32, 3))
    labels = torch.from_numpy(results.read("labels", "<i4")).long()
    probabilities = torch.from_numpy(results.read("probabilities", "<f4", (len(labels), -1))).double()
    losses = torch.from_numpy(results.read("losses", "<f8"))
    tensors = {name: results.tensor("before", name) for name in results.shapes}
    for name in results.trained:
        tensors[name].requires_grad_()
    optimizer = torch.optim.SGD([tensors[name] for name in results.trained], lr=LEARNING_RATE, momentum=MOMENTUM)
    their_losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        logits = Network(tensors, training=True).logits(pixels)
        loss = functional.cross_entropy(logits, labels)
        loss.backward()
        their_losses.append(loss.item() * len(labels))
        if step == 0:
            # Logits up to what softmax takes away from them.
            theirs = functional.log_softmax(logits.detach(), 1)
            comparison.check("logits", [("", probabilities.log(), theirs)])
            comparison.check("gradients", [(name, results.tensor("gradients", name) / len(labels), tensors[name].grad)
                                           for name in results.trained])
        optimizer.step()
    with torch.no_grad():
        logits = Network(tensors, training=False).logits(pixels)
        their_losses.append(functional.cross_entropy(logits, labels).item() * len(labels))
        comparison.check("weights and statistics after 10 steps",
                         [(name, results.tensor("after", name), tensors[name].detach()) for name in results.shapes])
    comparison.check("losses of 10 steps and of evaluation",
                     [(str(i), losses[i], torch.tensor(loss).double()) for i, loss in enumerate(their_losses)])
    return comparison.failures


def main():
    failures = compared = 0
    named = sys.argv[1:]
    for backend in named or ("reference", "onednn"):
        with tempfile.TemporaryDirectory() as directory:
            status = subprocess.run([PROGRAM, backend, directory], stderr=subprocess.DEVNULL if not named else None)
            if status.returncode == 2 and not named:
                print(f"{backend}: not in this build")
                continue
            if status.returncode != 0:
                print(f"{backend}: {PROGRAM} failed")
                return 1
            print(f"{backend} and PyTorch {torch.__version__}:")
            failures += compare(Results(directory))
            compared += 1
    return 1 if failures or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
