#!/usr/bin/env python3
"""The rows of bench/zoo.sh, which see. Ours and PyTorch run in turns; a ratio is taken within a pair, and the
median of the pairs' ratios is printed with the least and the greatest."""

import argparse
import json
import os
import re
import shlex
import statistics
import subprocess
import sys

import compare

HERE = os.path.dirname(os.path.abspath(__file__))

# Models whose steps take longer than a second or so at 128 images.
BATCHES = (("torchvision_", 16), ("resnet50", 16), ("resnet101", 8), ("resnet152", 8), ("vgg", 16), ("googlenet", 32),
           ("inception3", 16), ("overfeat", 32), ("imagenet_", 32), ("densenet", 64))

HEAD = ("| model | parameters | MACs | batch | memory, MiB | PyTorch's | training, images/s | PyTorch | ratio | spread "
        "| evaluation, 32: ratio | evaluation, 1: ratio | step / primitives |\n"
        "|---|---:|---:|---:|---:|---:|---:|---|---:|---:|---:|---:|---:|")


def batch_of(model):
    return next((batch for start, batch in BATCHES if model.startswith(start)), 128)


def quoted(*words):
    return " ".join(shlex.quote(str(word)) for word in words)


def output_of(command):
    done = subprocess.run(shlex.split(command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{done.stdout}{done.stderr}\nexit code {done.returncode}: {command}")
    return done.stdout


def models_of(build):
    """All there are, from the list that the program prints."""
    return re.findall("^([a-z0-9_.]+)  +[^ ]", output_of(quoted(f"{build}/pipetrain", "--describe")), re.MULTILINE)


class Row:
    def __init__(self, arguments, model, batch):
        self.arguments, self.model, self.batch = arguments, model, batch

    # ---- the two sides ----

    def ours(self, steps):
        return quoted("python3", f"{HERE}/ours.py", f"{self.arguments.build}/pipetrain", f"model.name={self.model}",
                      "input.source=synthetic", f"train.batch={self.batch}", f"train.steps={steps}",
                      f"devices.threads_per_tower={self.arguments.threads}", "train.optimizer=momentum",
                      "train.learning_rate=0.01", f"devices.precision={self.arguments.precision}")

    def evaluation(self, batch):
        return quoted(f"{self.arguments.build}/bench/inference", self.model, batch, self.arguments.threads,
                      self.arguments.seconds, self.arguments.precision)

    def torch(self, mode, batch, *variant):
        bf16 = ["--bf16"] if self.arguments.precision == "bf16" else []
        return quoted(self.arguments.torch, f"{HERE}/peer_zoo.py", self.model, "--mode", mode, "--batch", batch,
                      "--threads", self.arguments.threads, "--seconds", self.arguments.seconds, *bf16, *variant)

    def best_variant(self, mode, batch):
        """PyTorch's fastest for this model and mode: its name, and the options for it alone."""
        every = ["--compile"] if self.arguments.compile else []
        name = compare.last_object(output_of(self.torch(mode, batch, *every)))["variant"]
        kind, layout = name.split()
        return name, ["--format", layout] + (["--compile"] if kind == "compile" else [])

    # ---- measuring ----

    def pairs(self, a, b):
        values = argparse.Namespace(name=self.model, a=a, b=b, key_a="images_per_second", key_b=None,
                                    pairs=self.arguments.pairs, wait=self.arguments.wait)
        ours, others, _ = compare.measure(values)
        ratios = [x / y for x, y in zip(ours, others)]
        return statistics.median(ours), statistics.median(others), ratios

    def evaluation_ratio(self, batch):
        _, variant = self.best_variant("inference", batch)
        _, _, ratios = self.pairs(self.evaluation(batch), self.torch("inference", batch, *variant))
        return f"{statistics.median(ratios):.2f} ({min(ratios):.2f}…{max(ratios):.2f})"

    def primitives_share(self, step_ms):
        """A dash where there is no sum: some kernels of oneDNN 2.6 for narrow dense layers end the program."""
        if self.arguments.precision != "fp32":
            return "–"
        try:
            printed = output_of(quoted(f"{self.arguments.build}/bench/primitives", self.model, self.batch,
                                       self.arguments.threads, 2 * self.arguments.pairs - 1))
        except SystemExit as error:
            print(f"{self.model}: {error}", file=sys.stderr)
            return "–"
        return f"{step_ms / compare.find_value(printed, 0, 're:sum ([0-9.]+) ms'):.2f}"

    def torch_memory(self, variant):
        report = compare.last_object(output_of(self.torch("train", self.batch, "--return-memory", "--seconds", 0,
                                                          *variant)))
        return report["memory_bytes"]

    def steps(self, summary):
        return max(6, int(self.arguments.seconds / (summary["step_ms"]["p50"] / 1e3)))

    def evaluation_cells(self):
        if self.arguments.training_only:
            return ["–", "–"]
        return [self.evaluation_ratio(32), self.evaluation_ratio(1)]

    def print(self):
        first = json.loads(output_of(self.ours(4)).splitlines()[-1])
        macs = compare.find_value(output_of(quoted(f"{self.arguments.build}/pipetrain", f"--describe={self.model}"))
                                  .replace(",", ""), 0, "re:MACs +([0-9]+)")
        name, variant = self.best_variant("train", self.batch)
        ours, torch, ratios = self.pairs(self.ours(self.steps(first)), self.torch("train", self.batch, *variant))
        cells = [self.model, f"{first['parameters']:,}", f"{macs / 1e6:,.1f} M", self.batch,
                 f"{first['memory']['planned_bytes'] / 2**20:,.0f}", f"{self.torch_memory(variant) / 2**20:,.0f}",
                 compare.shown(ours),
                 f"{compare.shown(torch)} ({name})", f"**{statistics.median(ratios):.2f}**",
                 f"{min(ratios):.2f}…{max(ratios):.2f}", *self.evaluation_cells(),
                 self.primitives_share(self.batch / ours * 1e3)]
        print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL[:BATCH]")
    parser.add_argument("--build", required=True)
    parser.add_argument("--torch", default="python3")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--wait", type=float, default=0)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--training-only", action="store_true")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    known = models_of(arguments.build)
    if arguments.list:
        print("\n".join(known))
        return 0
    chosen = [model.partition(":") for model in arguments.models or known]
    unknown = [model for model, _, _ in chosen if model not in known]
    if unknown:
        raise SystemExit(f"zoo.sh: no model {', '.join(unknown)} (-l lists them)")
    print(HEAD, flush=True)
    failed = 0
    for model, _, batch in chosen:
        try:
            Row(arguments, model, int(batch) if batch else batch_of(model)).print()
        except SystemExit as error:     # the other models are measured all the same
            print(f"{model} could not be measured: {error}", file=sys.stderr)
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
