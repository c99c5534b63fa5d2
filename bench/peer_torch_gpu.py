#!/usr/bin/env python3
"""mnist_cnn in PyTorch on one GPU: training speed with the data on the device. Prints one JSON line.

The network is that of peer_torch.py. Its best documented settings: cudnn.benchmark, channels_last or
contiguous, whichever a short trial finds faster, gradients set to None, the foreach (fused where there is one) optimizer, no `.item()` in the loop,
input tensors that are float on the device already. --precision fp32 is true fp32, tf32 allows it in
convolutions and matrix products, bf16 and fp16 run under autocast (fp16 with a GradScaler).
--mode eager; graph: the whole step captured once in a CUDA graph and replayed; compile:
torch.compile(mode="max-autotune") of model and loss.
"""

import argparse
import json
import statistics
import time

import torch
import torch.nn.functional as F

import peer_torch

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def set_precision(precision):
    tf32 = precision != "fp32"
    torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.benchmark = True


class Step:
    """One training step on tensors that stay where they are."""

    def __init__(self, batch, precision, mode, layout):
        self.model = peer_torch.build(permute=layout is torch.channels_last).cuda().to(memory_format=layout)
        self.optimizer = torch.optim.Adadelta(self.model.parameters(), lr=1.0, rho=0.95, eps=1e-8, foreach=True,
                                              capturable=mode == "graph")
        self.dtype = DTYPES.get(precision)
        self.scaler = torch.amp.GradScaler("cuda", enabled=precision == "fp16")
        self.images = torch.rand(batch, 1, 28, 28, device="cuda").contiguous(memory_format=layout)
        self.labels = torch.randint(10, (batch,), device="cuda")
        self.loss = self.forward
        if mode == "compile":
            self.loss = torch.compile(self.forward, mode="max-autotune")

    def forward(self, images, labels):
        with torch.autocast("cuda", dtype=self.dtype, enabled=self.dtype is not None):
            return F.cross_entropy(self.model(images), labels)

    def __call__(self):
        self.optimizer.zero_grad(set_to_none=True)
        self.scaler.scale(self.loss(self.images, self.labels)).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()


def captured(step):
    """The step as a CUDA graph, after warming up on a side stream as PyTorch's notes say."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(11):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def measure(run, steps, warm):
    """Median milliseconds of a step on the device's clock."""
    for _ in range(warm):
        run()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
    torch.cuda.synchronize()
    begin = time.perf_counter()
    events[0].record()
    for i in range(steps):
        run()
        events[i + 1].record()
    torch.cuda.synchronize()
    seconds = time.perf_counter() - begin
    return statistics.median(a.elapsed_time(b) for a, b in zip(events, events[1:])), seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--warm", type=int, default=50)
    parser.add_argument("--precision", choices=["fp32", "tf32", "bf16", "fp16"], default="fp32")
    parser.add_argument("--mode", choices=["eager", "graph", "compile"], default="eager")
    options = parser.parse_args()
    if options.precision == "fp16" and options.mode == "graph":
        parser.error("a GradScaler's step cannot be captured: take bf16")
    set_precision(options.precision)
    trials = {}
    for layout in torch.channels_last, torch.contiguous_format:
        step = Step(options.batch, options.precision, options.mode, layout)
        run = captured(step) if options.mode == "graph" else step
        trials[measure(run, 100, options.warm)[0]] = run, str(layout)
    run, layout = trials[min(trials)]
    median_ms, seconds = measure(run, options.steps, options.warm)
    print(json.dumps({
        "images_per_second": options.batch * 1e3 / median_ms,
        "images_per_second_mean": options.batch * options.steps / seconds,
        "step_ms": median_ms,
        "layout": layout,
        "peer": f"PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}",
        "device": torch.cuda.get_device_name(0),
    }))


if __name__ == "__main__":
    main()
