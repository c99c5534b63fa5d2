#!/usr/bin/env python3
"""Rates of PyTorch's schedulers at some steps: writes learning_rates.h.

    python3 tests/peers/learning_rates.py >tests/peers/learning_rates.h
"""
import warnings

import torch

warnings.simplefilter("ignore")
POINTS = (0, 1, 2, 7, 15, 29, 30, 31, 36, 59, 60, 61, 79)
schedulers = torch.optim.lr_scheduler


def rates(base, make):
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=base)
    scheduler = make(optimizer)
    for step in range(POINTS[-1] + 1):
        if step in POINTS:
            yield optimizer.param_groups[0]["lr"]
        if step < POINTS[-1]:
            scheduler.step()


CASES = [
    ("StepLR", "RATE_EXPONENTIAL, .base = 0.4, .factor = 0.1, .period = 30, .staircase = true",
     rates(0.4, lambda o: schedulers.StepLR(o, step_size=30, gamma=0.1))),
    ("ExponentialLR", "RATE_EXPONENTIAL, .base = 0.4, .factor = 0.97, .period = 1",
     rates(0.4, lambda o: schedulers.ExponentialLR(o, gamma=0.97))),
    ("CosineAnnealingLR", "RATE_COSINE, .base = 0.4, .end = 0.01, .last = 80",
     rates(0.4, lambda o: schedulers.CosineAnnealingLR(o, T_max=80, eta_min=0.01))),
    ("PolynomialLR", "RATE_POLYNOMIAL, .base = 0.4, .last = 60, .power = 2",
     rates(0.4, lambda o: schedulers.PolynomialLR(o, total_iters=60, power=2))),
    ("LinearLR, CosineAnnealingLR",
     "RATE_COSINE, .base = 0.4, .warmup = 30, .warmup_from = 0.01, .last = 80",
     rates(0.4, lambda o: schedulers.SequentialLR(
         o, [schedulers.LinearLR(o, start_factor=0.01, total_iters=30),
             schedulers.CosineAnnealingLR(o, T_max=50)], milestones=[30]))),
    ("OneCycleLR", "RATE_ONE_CYCLE, .base = 0.4, .last = 80, .peak = 0.3",
     rates(0.4, lambda o: schedulers.OneCycleLR(o, max_lr=0.4, total_steps=80))),
    ("OneCycleLR with another peak", "RATE_ONE_CYCLE, .base = 3, .last = 81, .peak = 0.45",
     rates(3.0, lambda o: schedulers.OneCycleLR(o, max_lr=3.0, total_steps=81, pct_start=0.45))),
]

print(f"/* Made by learning_rates.py with PyTorch {torch.__version__.split('+')[0]}. */")
print(f"enum {{ POINTS = {len(POINTS)} }};")
print(f"static const uint64_t points[POINTS] = {{ {', '.join(map(str, POINTS))} }};")
print()
print("static const struct way { const char *name; struct learning_rate rate; double rates[POINTS]; } ways[] = {")
for name, rate, values in CASES:
    texts = [f"{value:.15g}" for value in values]
    print(f'    {{ "{name}", {{ {rate} }},')
    for first in range(0, len(texts), 5):
        print("      { " * (first == 0) + "        " * (first > 0) + ", ".join(texts[first:first + 5]) +
              (" } }," if first + 5 >= len(texts) else ","))
print("};")
