#!/usr/bin/env python3
"""Exported ONNX models are valid, and ONNX Runtime computes with them what pipetrain predict does.

  onnx_exchange.py [MODEL ...]

Each network, with drawn weights (drawn_network.py), is exported, checked by onnx.checker with all its checks, and run by
ONNX Runtime on one image and on seven: logits differ by at most 1e-5 of the largest, probabilities by at most 1e-6, and
the class is the same wherever the two best logits differ by more. A few networks are also exported with the other layout
and type of the input, and without folding.

Without a model: all of them by name, and the networks of nets/ here. $PIPETRAIN_BUILD is the folder of the build
('.'). Exit status 77: onnx, onnxruntime or safetensors are missing.
"""
import os
import re
import sys
import tempfile

try:
    import numpy
    import onnx
    import onnxruntime
    from safetensors.numpy import load_file, save_file
except ImportError as error:
    print(sys.executable, "has not all that is needed:", error)
    sys.exit(77)
from drawn_network import draw, net_text, networks, our_logits
from peer import end, expect, pipetrain

LOGITS, PROBABILITIES = 1e-5, 1e-6
COUNT = 7
VARIANTS = {
    "resnet20_v1": (["--no-fold"], ["--layout=nhwc"], ["--input=float"], ["--layout=nhwc", "--input=float"]),
    "convnext_tiny": (["--layout=nhwc", "--input=float"],),
    "mobilenet_v3_large": (["--no-fold"],),
}


def softmax(logits):
    shares = numpy.exp(logits.astype(float) - logits.max(1, keepdims=True))
    return shares / shares.sum(1, keepdims=True)


def model_input(images, words):
    pixels = images if "--layout=nhwc" in words else images.transpose(0, 3, 1, 2)
    return numpy.ascontiguousarray(pixels, numpy.float32 if "--input=float" in words else numpy.uint8)


def same_classes(theirs, ours, tolerance):
    best = numpy.sort(ours, 1)
    is_clear = best[:, -1] - best[:, -2] > tolerance if ours.shape[1] > 1 else numpy.zeros(len(ours), bool)
    return bool(numpy.all((theirs.argmax(1) == ours.argmax(1))[is_clear])), int(is_clear.sum())


def compare(name, session, images, ours, words):
    for count in (1, COUNT):
        pixels = model_input(images[:count], words)
        logits, probabilities = session.run(["logits", "probabilities"], {"image": pixels})
        tolerance = LOGITS * numpy.abs(ours[:count]).max()
        worst = numpy.abs(logits - ours[:count]).max()
        expect(worst <= tolerance, f"{name}, batch {count}: logits differ by {worst:.1e}, {worst / tolerance:.2f} of the "
                                   f"tolerance (largest {numpy.abs(ours).max():.1f}, std {ours.std():.2f})")
        share = numpy.abs(probabilities - softmax(ours[:count])).max()
        expect(share <= PROBABILITIES, f"{name}, batch {count}: probabilities differ by {share:.1e}")
        is_same, clear = same_classes(logits, ours[:count], tolerance)
        expect(is_same, f"{name}, batch {count}: the same classes of {clear} images")


def export(folder, name, drawn, images, ours, words):
    path = f"{folder}/model.onnx"
    line = pipetrain("export", "-w", drawn.weights, "-m", drawn.net, "-o", path, "--force", *words)
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    print("      ", re.sub(r"^\S+: ", "", line.strip()), *words)
    compare(" ".join([name, *words]), session, images, ours, words)
    os.remove(path)


def check(name, text):
    with tempfile.TemporaryDirectory() as folder:
        drawn = draw(folder, text)
        ours = our_logits(folder, drawn)
        expect(numpy.isfinite(ours).all() and ours.std(0).mean() > 0.01 * numpy.abs(ours).max(),
               f"{name}: logits that images decide")
        for words in ([], *VARIANTS.get(name, ())):
            export(folder, name, drawn, drawn.images, ours, words)


def check_halves():
    """Weights in fp16 under names with a prefix, as DataParallel saves them."""
    with tempfile.TemporaryDirectory() as folder:
        drawn = draw(folder, net_text("resnet20_v1"))
        halves = {f"module.{name}": tensor.astype(numpy.float16) for name, tensor in load_file(drawn.weights).items()}
        save_file(halves, drawn.weights)
        export(folder, "fp16 weights", drawn, drawn.images, our_logits(folder, drawn), [])


def main():
    if len(sys.argv) == 1:
        check_halves()
    for name, text in networks(sys.argv[1:]):
        check(name, text)
    end()


if __name__ == "__main__":
    main()
