#!/usr/bin/env python3
"""Where PyTorch's moving averages of a few weights and running statistics are in 100 steps: writes
average_trajectory.h. The numbers they follow are those of number_at in test_average.c.

    python3 tests/peers/average_trajectory.py >tests/peers/average_trajectory.h
"""
import torch

NUMBERS, STEPS, DECAY = 6, 100, 0.9
POINTS = (1, 2, 5, 10, 20, 50, 100)


def number_at(step, i):
    return ((step * 29 + i * 13 + step * i * 5) % 43 - 17) / 16


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(NUMBERS))
        self.register_buffer("running_mean", torch.zeros(NUMBERS))


model = Model()
averaged = torch.optim.swa_utils.AveragedModel(
    model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(DECAY), use_buffers=True)
print(f"/* Written by average_trajectory.py with PyTorch {torch.__version__.split('+')[0]}. */")
print(f"enum {{ AVERAGED_NUMBERS = {NUMBERS}, AVERAGED_STEPS = {STEPS} }};")
print(f"#define AVERAGED_DECAY {DECAY}")
print("static const struct { unsigned steps; double weights[AVERAGED_NUMBERS], statistics[AVERAGED_NUMBERS]; }")
print("averaged_trajectory[] = {")
for step in range(STEPS):
    with torch.no_grad():
        model.weight.copy_(torch.tensor([number_at(step, i) for i in range(NUMBERS)]))
        model.running_mean.copy_(torch.tensor([number_at(step, i + NUMBERS) for i in range(NUMBERS)]))
    averaged.update_parameters(model)
    if step + 1 in POINTS:
        rows = [", ".join(f"{x:.9g}" for x in values.tolist())
                for values in (averaged.module.weight.detach(), averaged.module.running_mean)]
        print(f"    {{ {step + 1}, {{ {rows[0]} }},\n      {{ {rows[1]} }} }},")
print("};")
