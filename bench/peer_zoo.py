#!/usr/bin/env python3
"""A model of the zoo in PyTorch: training or inference speed with the data in memory. Prints one JSON line.

    peer_zoo.py MODEL [--batch N] [--mode train|inference] [--bf16] [--compile] ...

uint8 images are scaled in every step as pipetrain does. Training: SGD with momentum 0.9, dropout as the model
has it. Both layouts, channels_last and contiguous, are tried, with --compile also by torch.compile; the
fastest is the result, and `variant` says which it was. memory_bytes: by how much the process grew for it at
most; with --return-memory that is what was in use at a time. Inference: torch.inference_mode, and with batch
normalisation folded and layers fused (torch.jit.freeze, torch.jit.optimize_for_inference).

Settings, from PyTorch's performance tuning guide: one intra-op thread per core, gradients set to None, the
foreach optimizer, denormals flushed, no validation of values, no `.item()` in the loop, freed memory kept.
"""

import contextlib
import time

import torch
import torch.nn.functional as F

import peer_common
import torch_zoo

FORMATS = {"channels_last": torch.channels_last, "contiguous": torch.contiguous_format}


def batches(network, batch, memory_format, count=4):
    generator = torch.Generator().manual_seed(1)
    for _ in range(count):
        image = torch.randint(0, 256, (batch, *network.shape), generator=generator, dtype=torch.uint8)
        label = torch.randint(0, network.classes, (batch,), generator=generator)
        yield image.contiguous(memory_format=memory_format), label


def precision(arguments):
    return torch.autocast("cpu", dtype=torch.bfloat16) if arguments.bf16 else contextlib.nullcontext()


def training_step(network, arguments, compiled):
    network.train()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9, foreach=True)
    stepped = torch.compile(network) if compiled else network

    def step(images, labels):
        optimizer.zero_grad(set_to_none=True)
        with precision(arguments):
            loss = F.cross_entropy(stepped(images), labels)
        loss.backward()
        optimizer.step()
    return step


def inference_step(network, arguments, compiled, example):
    network.eval()
    if compiled:
        stepped = torch.compile(network)
    else:
        with torch.no_grad(), precision(arguments):
            traced = torch.jit.trace(network, example, check_trace=False)
            stepped = torch.jit.optimize_for_inference(torch.jit.freeze(traced))

    def step(images, _labels):
        with torch.inference_mode(), precision(arguments):
            stepped(images)
    return step


def measure(step, data, seconds, steps_least=3):
    """Seconds of each step, of so many seconds and steps at least, behind two that are not counted."""
    times = []
    for images, labels in data[:2]:
        step(images, labels)
    begin = last = time.perf_counter()
    while len(times) < steps_least or last - begin < seconds:
        step(*data[len(times) % len(data)])
        now = time.perf_counter()
        times.append(now - last)
        last = now
    return times


def main():
    parser = peer_common.machine_parser(__doc__)
    parser.add_argument("model", choices=sorted(torch_zoo.MODELS))
    parser.add_argument("--mode", choices=("train", "inference"), default="train")
    parser.add_argument("--seconds", type=float, default=5, help="of each variant (default %(default)s)")
    parser.add_argument("--format", choices=sorted(FORMATS), help="this layout alone")
    parser.add_argument("--compile", action="store_true", help="torch.compile, too")
    parser.add_argument("--bf16", action="store_true", help="autocast to bfloat16")
    arguments = parser.parse_args()
    if not arguments.return_memory:
        peer_common.keep_freed_memory()
    torch.manual_seed(1)
    torch.set_num_threads(arguments.threads)
    torch.set_flush_denormal(True)
    results = {}
    for compiled in (False, True) if arguments.compile else (False,):
        for name, memory_format in FORMATS.items():
            if arguments.format not in (None, name):
                continue
            before = peer_common.begin_memory()
            network = torch_zoo.Network(arguments.model).to(memory_format=memory_format)
            data = list(batches(network, arguments.batch, memory_format))
            step = (training_step(network, arguments, compiled) if arguments.mode == "train"
                    else inference_step(network, arguments, compiled, data[0][0]))
            report = peer_common.step_report(measure(step, data, arguments.seconds), arguments.batch)
            report["memory_bytes"] = peer_common.status_bytes("VmHWM") - before
            del network, data, step
            results[f"{'compile' if compiled else 'eager'} {name}"] = report
    best = max(results, key=lambda variant: results[variant]["images_per_second"])
    peer_common.print_report(
        peer="torch", version=torch.__version__, variant=best, model=arguments.model, mode=arguments.mode,
        batch=arguments.batch, threads=arguments.threads, bf16=arguments.bf16,
        all={variant: report["images_per_second"] for variant, report in results.items()}, **results[best])


if __name__ == "__main__":
    main()
