#!/usr/bin/env python3
"""PyTorch's weight gradient of depthwise convolutions: one thread, 4 images, fp32. Prints a JSON line a layer.

    peer_depthwise.py CHANNELS,SIZE,WINDOW,STRIDE...

aten::convolution_backward of the weights alone, in both layouts; the faster one's median of five runs after a first one, in
ms of CPU time of the thread.
"""

import json
import statistics
import sys
import time

import torch


def measure(channels, size, window, stride, memory_format):
    generator = torch.Generator().manual_seed(1)
    padding = window // 2
    width = (size + 2 * padding - window) // stride + 1
    values = torch.randn(4, channels, size, size, generator=generator).contiguous(memory_format=memory_format)
    gradients = torch.randn(4, channels, width, width, generator=generator).contiguous(memory_format=memory_format)
    weights = torch.randn(channels, 1, window, window, generator=generator)
    times = []
    for _ in range(6):
        begin = time.thread_time()
        torch.ops.aten.convolution_backward(gradients, values, weights, None, [stride] * 2, [padding] * 2, [1, 1], False,
                                            [0, 0], channels, [False, True, False])
        times.append((time.thread_time() - begin) * 1e3)
    return statistics.median(times[1:])


def main():
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    for argument in sys.argv[1:]:
        channels, size, window, stride = map(int, argument.split(","))
        best = min(measure(channels, size, window, stride, memory_format)
                   for memory_format in (torch.channels_last, torch.contiguous_format))
        print(json.dumps({"channels": channels, "size": size, "window": window, "stride": stride,
                          "gradient_ms": round(best, 4)}), flush=True)


if __name__ == "__main__":
    main()
