#!/usr/bin/env python3
"""TensorBoard reads what report.tensorboard writes.

  tensorboard_events.py

A run of ten steps an epoch is read with TensorBoard's EventAccumulator: scalars are those of metrics.jsonl, also when
the run was stopped by train.epochs and went on from an earlier state, so that some steps were done twice. Histograms
count every number of their parameter. Its texts and hyperparameters are there. Every record, read as TensorBoard's own message and written again, has the same bytes.

$PIPETRAIN_BUILD is the folder of the build ('.'). Exit status 77: there is no tensorboard.
"""
import glob
import json
import math
import os
import struct
import subprocess
import sys
import tempfile

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.plugins.hparams import metadata as hparams
except ImportError as error:
    print(sys.executable, "has not all that is needed:", error)
    sys.exit(77)

BUILD = os.environ.get("PIPETRAIN_BUILD", ".")
TAGS = {"loss": "loss", "accuracy/top1": "accuracy", "perf/images_per_sec": "images_per_second"}
TRAIN_TAGS = {"lr": "learning_rate", "epoch": "epoch"}
failures = 0


def expect(is_so, what):
    global failures
    failures += not is_so
    print("ok    " if is_so else "FAILED", what)


def train(folder, *options):
    subprocess.run([os.path.join(BUILD, "pipetrain"), "-c", "/dev/null", "--set", "data.train=" + folder + "/data/train-*",
                    "--set", "data.validation=" + folder + "/data/validation-*", "--set", "run.dir=" + folder + "/run",
                    "--set", "model.name=mnist_cnn", "--set", "train.batch=20", "--set", "report.interval=3",
                    "--set", "report.progress=none", "--set", "report.tensorboard=yes", "--set", "devices.kind=cpu",
                    "--set", "report.histograms=5", "--set", "checkpoint.every=7", "--set", "checkpoint.keep=100", *options],
                   check=True, stdout=subprocess.DEVNULL)


def read(folder):
    accumulator = EventAccumulator(folder, size_guidance={"scalars": 0, "tensors": 0, "histograms": 0})
    accumulator.Reload()
    return accumulator


def rows(folder, kind):
    with open(folder + "/run/metrics.jsonl", encoding="utf-8") as lines:
        return [row for row in map(json.loads, lines) if row["kind"] == kind]


def is_near(value, number):
    return abs(value - number) <= 1e-6 * abs(number)


def expect_scalars(folder, kind, tags):
    accumulator = read(folder + "/run/tensorboard/" + kind)
    expected = rows(folder, kind)
    for tag, key in tags.items():
        scalars = accumulator.Scalars(tag)
        expect(len(expected) > 0 and [scalar.step for scalar in scalars] == [row["step"] for row in expected] and
               all(is_near(scalar.value, row[key]) for scalar, row in zip(scalars, expected)),
               f"{kind} {tag}: {len(scalars)} values are those of {len(expected)} rows")


def sizes(path):
    """Numbers of every tensor of a safetensors file."""
    with open(path, "rb") as file:
        header = json.loads(file.read(*struct.unpack("<Q", file.read(8))))
    return {name: math.prod(tensor["shape"]) for name, tensor in header.items() if name != "__metadata__"}


def expect_histograms(folder, steps):
    accumulator = read(folder + "/run/tensorboard/train")
    tensors = sizes(folder + "/run/weights.safetensors")
    tags = [what + name for name in tensors for what in ("weights/", "gradients/")]
    expect(sorted(accumulator.Tags()["histograms"]) == sorted(tags), f"{len(tags)} histograms have the tensors' names")
    for tag in tags:
        histograms = accumulator.Histograms(tag)
        values = [histogram.histogram_value for histogram in histograms]
        size = tensors[tag.split("/")[1]]
        expect([histogram.step for histogram in histograms] == steps and
               all(value.num == size == sum(value.bucket) and value.min <= value.max and
                   value.bucket_limit[-1] == value.max for value in values),
               f"{tag}: {len(values)} histograms of {size} numbers each")


def payloads(path):
    with open(path, "rb") as file:
        content = file.read()
    at = 0
    while at < len(content):
        length, = struct.unpack_from("<Q", content, at)
        yield content[at + 12:at + 12 + length]
        at += length + 16


def expect_bytes(folder):
    for path in glob.glob(folder + "/run/tensorboard/**/events.out.tfevents.*", recursive=True):
        count = same = 0
        for payload in payloads(path):
            event = Event.FromString(payload)
            count += 1
            same += event.SerializeToString(deterministic=True) == payload
        expect(count > 1 and same == count, f"{os.path.relpath(path, folder)}: {same} of {count} records have the bytes")


def expect_about(folder):
    accumulator = read(folder + "/run/tensorboard")
    plan = accumulator.Tensors("plan/text_summary" if "plan/text_summary" in accumulator.Tags()["tensors"] else "plan")
    expect(b"parameters" in plan[-1].tensor_proto.string_val[0], "the plan is a text")
    config = accumulator.Tensors("config")[-1].tensor_proto.string_val[0].decode()
    expect("batch = 20" in config, "the configuration is a text")
    content = accumulator.SummaryMetadata(hparams.SESSION_START_INFO_TAG).plugin_data.content
    session = hparams.parse_session_start_info_plugin_data(content)
    expect(session.hparams["train.batch"].number_value == 20 and
           session.hparams["model.name"].string_value == "mnist_cnn" and
           session.hparams["augment.flip"].bool_value is False, "hyperparameters")
    content = accumulator.SummaryMetadata(hparams.SESSION_END_INFO_TAG).plugin_data.content
    expect(hparams.parse_session_end_info_plugin_data(content).status == 1, "the session came to its end")


def main():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([os.path.join(BUILD, "pipetrain-convert"), "digits", "--train", "200", "--validation", "50",
                        "-o", folder + "/data"], check=True, stdout=subprocess.DEVNULL)
        train(folder, "--set", "train.epochs=2")
        expect_scalars(folder, "train", {**TAGS, **TRAIN_TAGS})
        expect_scalars(folder, "validation", TAGS)
        expect_histograms(folder, [5, 10, 15, 20])
        expect_about(folder)
        for state in glob.glob(folder + "/run/checkpoint-*.safetensors"):
            if "0014" not in state:
                os.remove(state)
        train(folder, "--set", "train.epochs=3")
        expect(len(glob.glob(folder + "/run/tensorboard/train/*")) == 2, "a run that went on has a second file")
        expect_scalars(folder, "train", {**TAGS, **TRAIN_TAGS})
        expect_scalars(folder, "validation", TAGS)
        expect_histograms(folder, [5, 10, 15, 20, 25, 30])
        expect_bytes(folder)
    return failures > 0


sys.exit(main())
