#!/usr/bin/env python3
"""ONNX Runtime classifying photographs: images per second of a pass over all. Prints one JSON line.

The model is that of `pipetrain export`, which takes uint8 pixels. Worker processes of PyTorch's DataLoader read, decode and scale the
files as in peer_torch_evaluate.py, with the same trial of their number; ONNX Runtime has all cores.
"""

import time

import numpy
import onnxruntime
import torch

import peer_common
from peer_torch_evaluate import TRIAL, Photographs


def classify(session, arguments, workers, most):
    """Images per second of a pass, behind one batch that starts the workers."""
    data = Photographs(arguments.folder, most)
    loader = torch.utils.data.DataLoader(data, arguments.batch, num_workers=workers, prefetch_factor=4,
                                         persistent_workers=True)
    next(iter(loader))
    begin = time.perf_counter()
    best = []
    for pixels, _ in loader:
        (probabilities,) = session.run(["probabilities"], {session.get_inputs()[0].name: pixels.numpy()})
        best.append(numpy.argmax(probabilities, axis=1))
    return len(data) / (time.perf_counter() - begin)


def main():
    parser = peer_common.machine_parser(__doc__.splitlines()[0])
    parser.add_argument("--onnx", required=True)
    parser.add_argument("folder")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = arguments.threads
    session = onnxruntime.InferenceSession(arguments.onnx, options, providers=["CPUExecutionProvider"])
    workers = max((1, arguments.threads), key=lambda count: classify(session, arguments, count, TRIAL))
    peer_common.print_report(images_per_second=classify(session, arguments, workers, None), workers=workers)


if __name__ == "__main__":
    main()
