#!/usr/bin/env python3
"""What each mode of synchronisation costs: two towers of one thread beside one tower of one thread.

    bench/sync/modes.py BUILD [MODEL:BATCH_PER_TOWER:STEPS...]

Every mode runs on synthetic samples, so that nothing but computing and meeting takes time; ROUNDS rounds of all modes
in turns. Prints a Markdown table a model: images/s, the ratio to mode independent and to one tower (medians of the
rounds' ratios, their spread), and the share of tower time that waits for others. Wants two idle cores.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile

ROUNDS = 5
MODELS = ["mnist_cnn2:128:60", "resnet20_v1:64:30"]
ONE = "one tower"
MODES = {
    ONE: ["devices.towers=1"],
    "independent": ["sync.mode=independent"],
    "replicated": ["sync.mode=replicated"],
    "replicated, relaxed": ["sync.mode=replicated", "sync.consistency=relaxed"],
    "replicated, bf16": ["sync.mode=replicated", "sync.wire=bf16"],
    "parameter_server, device": ["sync.mode=parameter_server", "sync.server=device"],
    "parameter_server, cpu": ["sync.mode=parameter_server", "sync.server=cpu"],
    "averaging, every 10": ["sync.mode=averaging", "sync.every=10"],
    "async, at most 1": ["sync.mode=async", "sync.max_staleness=1"],
    "async, at most 4": ["sync.mode=async", "sync.max_staleness=4"],
}


def run(build, folder, model, batch, steps, settings):
    options = [f"model.name={model}", "input.source=synthetic", f"train.batch_per_tower={batch}", f"train.steps={steps}",
               "train.epochs=1000000", "devices.kind=cpu", "devices.towers=2", "devices.threads_per_tower=1",
               "report.progress=none", "run.resume=never", f"run.dir={folder}/run"] + settings
    open(f"{folder}/run.conf", "w", encoding="ascii").close()
    command = [os.path.join(build, "pipetrain"), "-c", "run.conf"] + [word for option in options for word in ("--set", option)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                   cwd=folder)
    with open(f"{folder}/run/summary.json", encoding="utf-8") as file:
        summary = json.load(file)
    fractions = summary["fractions"]
    return summary["images_per_second"], fractions["exposed_reduction"]


def ratio(results, mode, other):
    ratios = [a[0] / b[0] for a, b in zip(results[mode], results[other])]
    return f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"


def main():
    build = os.path.abspath(sys.argv[1])
    for text in sys.argv[2:] or MODELS:
        model, batch, steps = text.split(":")
        results = {mode: [] for mode in MODES}
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(ROUNDS):
                for mode, settings in MODES.items():
                    results[mode].append(run(build, folder, model, batch, steps, settings))
        print(f"{model}, {batch} images a tower, {steps} steps, {ROUNDS} rounds\n")
        print("| mode | images/s | to independent | to one tower | exposed reduction |\n|---|---|---|---|---|")
        for mode in MODES:
            speed = statistics.median(result[0] for result in results[mode])
            exposed = statistics.median(result[1] for result in results[mode])
            print(f"| {mode} | {speed:,.0f} | {ratio(results, mode, 'independent')} | {ratio(results, mode, ONE)} | "
                  f"{100 * exposed:.1f} % |", flush=True)
        print()


if __name__ == "__main__":
    main()
