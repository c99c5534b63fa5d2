#!/usr/bin/env python3
"""Where the optimizers of others take a few numbers in 100 steps: writes optimizer_trajectories.h.

All are made by these programs themselves in double precision but LARS, which none of them has: it is written here from
its definition. Gradients are those of gradient_at in trajectory_numbers.h. One Python that has PyTorch and TensorFlow
with Keras, or two, the second of which is called for the latter:

    PEER_TENSORFLOW=venv/bin/python python3 tests/peers/optimizer_trajectories.py >tests/peers/optimizer_trajectories.h
"""
import json
import math
import os
import subprocess
import sys

import torch

NUMBERS, STEPS = 6, 100
POINTS = (1, 2, 5, 10, 20, 50, 100)


def start_at(i):
    return (i * 5 % 7 - 3) / 4


def gradient_at(step, i):
    return ((step * 31 + i * 17 + step * i * 7) % 41 - 15) / 16


def gradients(step):
    return [gradient_at(step, i) for i in range(NUMBERS)]


def torch_path(make):
    weights = torch.tensor([start_at(i) for i in range(NUMBERS)], dtype=torch.float64, requires_grad=True)
    optimizer = make([weights])
    for step in range(STEPS):
        weights.grad = torch.tensor(gradients(step), dtype=torch.float64)
        optimizer.step()
        yield weights.detach().tolist()


def lars_path(rate, momentum, decay, trust):
    weights, buffer = [start_at(i) for i in range(NUMBERS)], [0.0] * NUMBERS
    for step in range(STEPS):
        g = gradients(step)
        norm_w, norm_g = math.hypot(*weights), math.hypot(*g)
        local = rate * trust * norm_w / (norm_g + decay * norm_w)
        buffer = [momentum * v + local * (gi + decay * w) for v, gi, w in zip(buffer, g, weights)]
        weights = [w - v for w, v in zip(weights, buffer)]
        yield weights


tensorflow = json.loads(subprocess.run(
    [os.environ.get("PEER_TENSORFLOW", sys.executable),
     os.path.join(os.path.dirname(__file__), "tensorflow_trajectories.py")],
    input=json.dumps({"start": [start_at(i) for i in range(NUMBERS)],
                      "gradients": [gradients(step) for step in range(STEPS)]}),
    stdout=subprocess.PIPE, text=True, check=True).stdout)

optim = torch.optim
PATHS = [
    ("PyTorch's SGD", ".kind = OPTIMIZER_SGD, .weight_decay = 0.01f", 0.05,
     torch_path(lambda p: optim.SGD(p, lr=0.05, weight_decay=0.01))),
    ("PyTorch's SGD with momentum", ".kind = OPTIMIZER_MOMENTUM, .momentum = 0.9f, .weight_decay = 0.0005f", 0.02,
     torch_path(lambda p: optim.SGD(p, lr=0.02, momentum=0.9, weight_decay=0.0005))),
    ("PyTorch's SGD with Nesterov's momentum", ".kind = OPTIMIZER_NESTEROV, .momentum = 0.9f, .weight_decay = 0.01f",
     0.02, torch_path(lambda p: optim.SGD(p, lr=0.02, momentum=0.9, nesterov=True, weight_decay=0.01))),
    ("PyTorch's Adadelta", ".kind = OPTIMIZER_ADADELTA, .rho = 0.9, .epsilon = 1e-6f", 1.0,
     torch_path(lambda p: optim.Adadelta(p, lr=1.0, rho=0.9, eps=1e-6))),
    ("Keras' Adadelta", ".kind = OPTIMIZER_ADADELTA, .rho = 0.95, .epsilon = 1e-8f", 1.0,
     tensorflow["keras_adadelta"]),
    ("TensorFlow's RMSProp", ".kind = OPTIMIZER_RMSPROP, .rho = 0.9, .momentum = 0.9f, .epsilon = 1.0f", 0.02,
     tensorflow["rmsprop"]),
    ("TensorFlow's RMSProp with a small epsilon",
     ".kind = OPTIMIZER_RMSPROP, .rho = 0.99, .momentum = 0.0f, .epsilon = 1e-10f", 0.02,
     tensorflow["rmsprop_small"]),
    ("Keras' RMSprop", ".kind = OPTIMIZER_RMSPROP_KERAS, .rho = 0.9, .epsilon = 1e-8f", 0.01,
     tensorflow["keras_rmsprop"]),
    ("PyTorch's RMSprop", ".kind = OPTIMIZER_RMSPROP_KERAS, .rho = 0.99, .epsilon = 1e-8f, .weight_decay = 0.01f",
     0.01, torch_path(lambda p: optim.RMSprop(p, lr=0.01, alpha=0.99, eps=1e-8, weight_decay=0.01))),
    ("PyTorch's Adam", ".kind = OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8f", 0.01,
     torch_path(lambda p: optim.Adam(p, lr=0.01))),
    ("PyTorch's Adam with weight decay",
     ".kind = OPTIMIZER_ADAM, .beta1 = 0.8, .beta2 = 0.99, .epsilon = 0.001f, .weight_decay = 0.05f", 0.02,
     torch_path(lambda p: optim.Adam(p, lr=0.02, betas=(0.8, 0.99), eps=0.001, weight_decay=0.05))),
    ("PyTorch's AdamW", ".kind = OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8f, .weight_decay = 0.1f",
     0.01, torch_path(lambda p: optim.AdamW(p, lr=0.01, weight_decay=0.1))),
    ("PyTorch's RMSprop with momentum",
     ".kind = OPTIMIZER_RMSPROP_PYTORCH, .rho = 0.9, .momentum = 0.9f, .epsilon = 1e-3f, .weight_decay = 0.01f", 0.002,
     torch_path(lambda p: optim.RMSprop(p, lr=0.002, alpha=0.9, eps=0.001, momentum=0.9, weight_decay=0.01))),
    ("LARS", ".kind = OPTIMIZER_LARS, .momentum = 0.9f, .trust = 0.02, .weight_decay = 0.001f", 1.0,
     lars_path(1.0, 0.9, 0.001, 0.02)),
]

versions = f"PyTorch {torch.__version__.split('+')[0]}, TensorFlow {tensorflow['version']}, Keras {tensorflow['keras']}"
print(f"/* Made by optimizer_trajectories.py with {versions}. */")
print(f"enum {{ NUMBERS = {NUMBERS}, STEPS = {STEPS}, POINTS = {len(POINTS)} }};")
print()
print("/* How many steps are done. */")
print(f"static const uint32_t points[POINTS] = {{ {', '.join(map(str, POINTS))} }};")
print()
print("static const struct trajectory {")
print("    const char *name;")
print("    struct optimizer optimizer;")
print("    float rate;")
print("    double weights[POINTS][NUMBERS];")
print("} trajectories[] = {")
for name, optimizer, rate, path in PATHS:
    print(f'    {{ "{name}",')
    print(f"      {{ {optimizer} }}, {rate:g}f,".replace("1f,", "1.0f,") if rate == 1 else
          f"      {{ {optimizer} }}, {rate:g}f,")
    rows = [weights for step, weights in enumerate(path, 1) if step in POINTS]
    texts = ["        { " + ", ".join(f"{w:.12g}" for w in row) + " }," for row in rows]
    print("      {\n" + "\n".join(texts) + "\n      } },")
print("};")
