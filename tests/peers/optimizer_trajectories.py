#!/usr/bin/env python3
"""Where the optimizers of others take a few numbers in 100 steps: writes optimizer_trajectories.h.

PyTorch's are its own, in double precision. TensorFlow's and Keras' rules and LARS are written here from their
definitions, number by number in double precision. Gradients are those of gradient_at in test_trajectories.c.

    python3 tests/peers/optimizer_trajectories.py >tests/peers/optimizer_trajectories.h
"""
import math

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


def plain_path(rule):
    weights, state = [start_at(i) for i in range(NUMBERS)], [{} for _ in range(NUMBERS)]
    for step in range(STEPS):
        weights = [rule(step, w, g, s) for w, g, s in zip(weights, gradients(step), state)]
        yield weights


def tensorflow_rmsprop(rate, decay, momentum, epsilon):
    def rule(step, w, g, s):
        s["ms"] = decay * s.get("ms", 1.0) + (1 - decay) * g * g
        s["mom"] = momentum * s.get("mom", 0.0) + rate * g / math.sqrt(s["ms"] + epsilon)
        return w - s["mom"]
    return rule


def keras_rmsprop(rate, rho, epsilon):
    def rule(step, w, g, s):
        s["a"] = rho * s.get("a", 0.0) + (1 - rho) * g * g
        return w - rate * g / (math.sqrt(s["a"]) + epsilon)
    return rule


def keras_adadelta(rate, rho, epsilon):
    def rule(step, w, g, s):
        s["a"] = rho * s.get("a", 0.0) + (1 - rho) * g * g
        update = g * math.sqrt(s.get("d", 0.0) + epsilon) / math.sqrt(s["a"] + epsilon)
        s["d"] = rho * s.get("d", 0.0) + (1 - rho) * update * update
        return w - rate * update
    return rule


def lars_path(rate, momentum, decay, trust):
    weights, buffer = [start_at(i) for i in range(NUMBERS)], [0.0] * NUMBERS
    for step in range(STEPS):
        g = gradients(step)
        norm_w, norm_g = math.hypot(*weights), math.hypot(*g)
        local = rate * trust * norm_w / (norm_g + decay * norm_w)
        buffer = [momentum * v + local * (gi + decay * w) for v, gi, w in zip(buffer, g, weights)]
        weights = [w - v for w, v in zip(weights, buffer)]
        yield weights


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
     plain_path(keras_adadelta(1.0, 0.95, 1e-8))),
    ("TensorFlow's RMSProp", ".kind = OPTIMIZER_RMSPROP, .rho = 0.9, .momentum = 0.9f, .epsilon = 1.0f", 0.02,
     plain_path(tensorflow_rmsprop(0.02, 0.9, 0.9, 1.0))),
    ("TensorFlow's RMSProp with a small epsilon",
     ".kind = OPTIMIZER_RMSPROP, .rho = 0.99, .momentum = 0.0f, .epsilon = 1e-10f", 0.02,
     plain_path(tensorflow_rmsprop(0.02, 0.99, 0.0, 1e-10))),
    ("Keras' RMSprop", ".kind = OPTIMIZER_RMSPROP_KERAS, .rho = 0.9, .epsilon = 1e-8f", 0.01,
     plain_path(keras_rmsprop(0.01, 0.9, 1e-8))),
    ("PyTorch's RMSprop", ".kind = OPTIMIZER_RMSPROP_KERAS, .rho = 0.99, .epsilon = 1e-8f, .weight_decay = 0.01f",
     0.01, torch_path(lambda p: optim.RMSprop(p, lr=0.01, alpha=0.99, eps=1e-8, weight_decay=0.01))),
    ("PyTorch's Adam", ".kind = OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8f", 0.01,
     torch_path(lambda p: optim.Adam(p, lr=0.01))),
    ("PyTorch's Adam with weight decay",
     ".kind = OPTIMIZER_ADAM, .beta1 = 0.8, .beta2 = 0.99, .epsilon = 0.001f, .weight_decay = 0.05f", 0.02,
     torch_path(lambda p: optim.Adam(p, lr=0.02, betas=(0.8, 0.99), eps=0.001, weight_decay=0.05))),
    ("PyTorch's AdamW", ".kind = OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8f, .weight_decay = 0.1f",
     0.01, torch_path(lambda p: optim.AdamW(p, lr=0.01, weight_decay=0.1))),
    ("LARS", ".kind = OPTIMIZER_LARS, .momentum = 0.9f, .trust = 0.02, .weight_decay = 0.001f", 1.0,
     lars_path(1.0, 0.9, 0.001, 0.02)),
]

print(f"/* Made by optimizer_trajectories.py with PyTorch {torch.__version__.split('+')[0]}. */")
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
