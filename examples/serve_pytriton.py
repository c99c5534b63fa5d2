#!/usr/bin/env python3
"""Serve a network that `pipetrain export` wrote with Triton Inference Server, as PyTriton brings it: an example to copy
from (doc/serving.md).

    pip install onnxruntime pillow nvidia-pytriton
    python3 serve_pytriton.py MODEL.onnx [--name photos] [--port 8000] [--delay 2000]

Triton collects the images of several requests into one batch; ONNX Runtime computes it. Clients send uint8 images of the
network's size. An interrupt (Ctrl-C) ends it.
"""
import argparse

import numpy
from pytriton.decorators import batch
from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig

from serve_onnx import Classifier


def main():
    parser = argparse.ArgumentParser(description="serve an exported network with PyTriton")
    parser.add_argument("model")
    parser.add_argument("--name", default="photos")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--delay", type=int, default=2000, help="microseconds to wait for more images (2000)")
    arguments = parser.parse_args()
    classifier = Classifier(arguments.model)

    @batch
    def infer(image):
        return {"probabilities": classifier.classify(image)}

    config = TritonConfig(http_address="127.0.0.1", http_port=arguments.port, allow_grpc=False, allow_metrics=False)
    with Triton(config=config) as triton:
        triton.bind(
            model_name=arguments.name, infer_func=infer,
            inputs=[Tensor(name="image", dtype=numpy.uint8, shape=tuple(classifier.input.shape[1:]))],
            outputs=[Tensor(name="probabilities", dtype=numpy.float32, shape=(-1,))],
            config=ModelConfig(max_batch_size=64,
                               batcher=DynamicBatcher(max_queue_delay_microseconds=arguments.delay)))
        triton.serve()


if __name__ == "__main__":
    main()
