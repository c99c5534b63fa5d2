#!/usr/bin/env python3
"""A network in PyTorch on one GPU: training speed with the data on the device. Prints one JSON line.

--model mnist_cnn (the network of peer_torch.py, Adadelta), resnet20 (for CIFAR-10, as pipetrain's resnet20_v1) or
resnet50 (torchvision's, which is pipetrain's resnet50_v1.5), both with SGD, momentum and decay.

PyTorch's best documented settings: cudnn.benchmark, channels_last (for mnist_cnn the faster of the two layouts, by a
short trial), gradients set to None, a fused optimizer (Adadelta has only foreach), no `.item()` in the loop. The images
are on the device already: float for mnist_cnn, uint8 for the ResNets, which the step converts. --precision fp32 is true
fp32, tf32 allows it in convolutions and matrix products, bf16 and fp16 run under autocast (fp16 with a GradScaler).
--mode eager; graph: the whole step captured once in a CUDA graph and replayed; compile:
torch.compile(mode="max-autotune") of model and loss.

--device cpu tries the script where there is no GPU; its numbers mean nothing then.
"""

import argparse
import json
import statistics
import time

import torch
import torch.nn.functional as F

import peer_torch

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
PARAMETERS = {"resnet20": 269_722, "resnet50": 25_557_032}
CLASSES = {"mnist_cnn": 10, "resnet20": 10, "resnet50": 1000}
SIDES = {"mnist_cnn": 28, "resnet20": 32, "resnet50": 224}


class Block(torch.nn.Module):
    """Two convolutions and a shortcut; where the size changes it is every second pixel, and zeros for new channels."""

    def __init__(self, channels_in, channels, stride):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(channels)
        self.conv2 = torch.nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = torch.nn.BatchNorm2d(channels)
        self.stride, self.added = stride, (channels - channels_in) // 2

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = self.bn2(self.conv2(y))
        if self.stride > 1:
            x = F.pad(x[:, :, ::self.stride, ::self.stride], (0, 0, 0, 0, self.added, self.added))
        return F.relu(y + x, inplace=True)


def resnet20():
    widths = [16] * 3 + [32] * 3 + [64] * 3
    blocks = [Block(before, after, after // before) for before, after in zip([16] + widths, widths)]
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, 1, 1, bias=False), torch.nn.BatchNorm2d(16), torch.nn.ReLU(inplace=True), *blocks,
        torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(64, 10))


def resnet50():
    import torchvision  # pylint: disable=import-outside-toplevel
    return torchvision.models.resnet50()


def build(name, layout):
    if name == "mnist_cnn":
        return peer_torch.build(permute=layout is torch.channels_last)
    model = {"resnet20": resnet20, "resnet50": resnet50}[name]()
    assert sum(p.numel() for p in model.parameters()) == PARAMETERS[name]
    return model.train()


def optimizer_for(model, options):
    if options.model == "mnist_cnn":
        return torch.optim.Adadelta(model.parameters(), lr=1.0, rho=0.95, eps=1e-8, foreach=True,
                                    capturable=options.mode == "graph")
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4, fused=True)


def set_precision(precision):
    tf32 = precision != "fp32"
    torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.benchmark = True


class Step:
    """One training step on tensors that stay where they are."""

    def __init__(self, options, layout):
        self.device = options.device
        self.model = build(options.model, layout).to(self.device).to(memory_format=layout)
        self.optimizer = optimizer_for(self.model, options)
        self.dtype = DTYPES.get(options.precision)
        # A captured step must not keep casts of the weights from one step to the next.
        self.cache_casts = options.mode != "graph"
        self.scaler = torch.amp.GradScaler(self.device, enabled=options.precision == "fp16")
        side = SIDES[options.model]
        if options.model == "mnist_cnn":
            images = torch.rand(options.batch, 1, side, side, device=self.device)
        else:
            images = torch.randint(256, (options.batch, 3, side, side), dtype=torch.uint8, device=self.device)
        self.images = images.contiguous(memory_format=layout)
        self.labels = torch.randint(CLASSES[options.model], (options.batch,), device=self.device)
        self.loss = self.forward
        if options.mode == "compile":
            self.loss = torch.compile(self.forward, mode="max-autotune")

    def forward(self, images, labels):
        with torch.autocast(self.device, dtype=self.dtype, enabled=self.dtype is not None,
                            cache_enabled=self.cache_casts):
            if images.dtype == torch.uint8:
                images = images.float() / 127.5 - 1
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


def times_on_gpu(run, steps):
    """Milliseconds of each step on the device's clock."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
    torch.cuda.synchronize()
    events[0].record()
    for i in range(steps):
        run()
        events[i + 1].record()
    torch.cuda.synchronize()
    return [a.elapsed_time(b) for a, b in zip(events, events[1:])]


def times_on_cpu(run, steps):
    times = [time.perf_counter()]
    for _ in range(steps):
        run()
        times.append(time.perf_counter())
    return [1e3 * (b - a) for a, b in zip(times, times[1:])]


def measure(run, steps, options):
    """Median milliseconds of a step, and the seconds that all took."""
    for _ in range(options.warm):
        run()
    if options.device == "cuda":
        torch.cuda.synchronize()
    begin = time.perf_counter()
    times = (times_on_gpu if options.device == "cuda" else times_on_cpu)(run, steps)
    return statistics.median(times), time.perf_counter() - begin


def fastest(options):
    """The step in the layout that a short trial finds faster; one layout needs no trial."""
    layouts = [torch.channels_last]
    if options.model == "mnist_cnn":
        layouts.append(torch.contiguous_format)
    trials = {}
    for layout in layouts:
        step = Step(options, layout)
        run = captured(step) if options.mode == "graph" else step
        median_ms = measure(run, options.trial, options)[0] if len(layouts) > 1 else 0
        trials[median_ms] = run, str(layout)
    return trials[min(trials)]


def peak_bytes(options):
    """What the step takes of the device: tensors at their fullest moment, and with what the allocator keeps."""
    if options.device != "cuda":
        return {}
    return {"peak_bytes": torch.cuda.max_memory_allocated(), "peak_reserved_bytes": torch.cuda.max_memory_reserved()}


def device_name(options):
    return torch.cuda.get_device_name(0) if options.device == "cuda" else "cpu"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=sorted(CLASSES), default="mnist_cnn")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--warm", type=int, help="steps before any is timed (default: 50; resnet50: 12)")
    parser.add_argument("--trial", type=int, default=100, help="steps of each layout's trial (default %(default)s)")
    parser.add_argument("--precision", choices=["fp32", "tf32", "bf16", "fp16"], default="fp32")
    parser.add_argument("--mode", choices=["eager", "graph", "compile"], default="eager")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    options = parser.parse_args()
    if options.precision == "fp16" and options.mode == "graph":
        parser.error("a GradScaler's step cannot be captured: take bf16")
    if options.device == "cpu" and options.mode == "graph":
        parser.error("there are no CUDA graphs on a CPU")
    if options.warm is None:
        options.warm = 12 if options.model == "resnet50" else 50
    set_precision(options.precision)
    run, layout = fastest(options)
    # From here on the peak is that of a step, without cuDNN's trials; a captured step has taken its memory before.
    if options.device == "cuda" and options.mode != "graph":
        torch.cuda.reset_peak_memory_stats()
    median_ms, seconds = measure(run, options.steps, options)
    print(json.dumps({
        "images_per_second": options.batch * options.steps / seconds,
        "step_ms": median_ms,
        "model": options.model,
        "mode": options.mode,
        "layout": layout,
        **peak_bytes(options),
        "peer": f"PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}",
        "device": device_name(options),
    }))


if __name__ == "__main__":
    main()
