#!/usr/bin/env python3
"""Quantise a network that `pipetrain export` wrote to int8, by ONNX Runtime's own tool: an example to copy from
(doc/serving.md).

    pip install onnx onnxruntime pillow
    python3 quantize_onnx.py MODEL.onnx INT8.onnx IMAGE... [--count 256] [--method minmax] [--keep LAYER...]

IMAGEs are training images: COUNT of them, spread over the list, go through the network to find the range of every
activation. Weights get a scale for each output channel, activations one for each tensor. Layers to KEEP stay fp32.
"""
import argparse
import os
import tempfile

import onnx
from onnxruntime.quantization import (CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType,
                                      quantize_static)
from onnxruntime.quantization.shape_inference import quant_pre_process

from serve_onnx import Classifier

METHODS = {"minmax": CalibrationMethod.MinMax, "entropy": CalibrationMethod.Entropy,
           "percentile": CalibrationMethod.Percentile}


class Images(CalibrationDataReader):
    def __init__(self, classifier, paths):
        self.name = classifier.input.name
        self.images = (classifier.prepare(path)[None] for path in paths)

    def get_next(self):
        image = next(self.images, None)
        return None if image is None else {self.name: image}


def quantize(source, target, paths, method, keep):
    """The normalisation of the pixels, which comes before the first layer, stays fp32."""
    normalisation = [node.name for node in onnx.load(source).graph.node if node.name.startswith("/image/")]
    with tempfile.TemporaryDirectory() as folder:
        prepared = os.path.join(folder, "prepared.onnx")
        quant_pre_process(source, prepared, skip_symbolic_shape=True)
        quantize_static(prepared, target, Images(Classifier(source), paths), quant_format=QuantFormat.QDQ,
                        per_channel=True, activation_type=QuantType.QInt8, weight_type=QuantType.QInt8,
                        calibrate_method=method, nodes_to_exclude=normalisation + keep)
    # Class names and preparation are not lost.
    quantized, metadata = onnx.load(target), onnx.load(source).metadata_props
    onnx.helper.set_model_props(quantized, {entry.key: entry.value for entry in metadata})
    onnx.save(quantized, target)


def main():
    parser = argparse.ArgumentParser(description="quantise an exported network to int8")
    parser.add_argument("model")
    parser.add_argument("output")
    parser.add_argument("images", nargs="+")
    parser.add_argument("--count", type=int, default=256, help="images to find the ranges of activations with (256)")
    parser.add_argument("--method", choices=METHODS, default="minmax", help="how ranges are found (minmax)")
    parser.add_argument("--keep", nargs="*", default=[], help="names of layers that stay fp32")
    arguments = parser.parse_intermixed_args()
    step = max(1, len(arguments.images) // arguments.count)
    quantize(arguments.model, arguments.output, arguments.images[::step][:arguments.count],
             METHODS[arguments.method], arguments.keep)
    print(f"{arguments.output}: {os.path.getsize(arguments.output):,} bytes, {arguments.model}: "
          f"{os.path.getsize(arguments.model):,}")


if __name__ == "__main__":
    main()
