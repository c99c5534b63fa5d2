#!/usr/bin/env python3
"""What each mode of synchronisation learns: the same epochs of the same data in every mode, with 2 and 4 towers.

    bench/sync/convergence.py BUILD RUN.CONF [--without MODE]... [KEY=VALUE...]

Prints a Markdown table, a row a mode: validation accuracy behind the last epoch, the best of all epochs and its epoch,
validation loss, and what staleness async met. Speeds are not looked at: cores need not be idle. The modes that are
replicated bit for bit (parameter_server; async with max_staleness 0) are run as well: their rows say so when they are.
"""

import argparse
import json
import os
import subprocess
import tempfile

TOWERS = [2, 4]
MODES = {
    "replicated": [],
    "replicated, relaxed": ["sync.consistency=relaxed"],
    "replicated, bf16": ["sync.wire=bf16"],
    "parameter_server, device": ["sync.mode=parameter_server"],
    "parameter_server, cpu": ["sync.mode=parameter_server", "sync.server=cpu"],
    "async, S = 0": ["sync.mode=async", "sync.max_staleness=0"],
    "async, S = 1": ["sync.mode=async", "sync.max_staleness=1"],
    "async, S = 4": ["sync.mode=async", "sync.max_staleness=4"],
    "async, S = 4, inverse": ["sync.mode=async", "sync.max_staleness=4", "sync.staleness_rate=inverse"],
    "averaging, K = 1": ["sync.mode=averaging", "sync.every=1"],
    "averaging, K = 10": ["sync.mode=averaging", "sync.every=10"],
    "averaging, K = 100": ["sync.mode=averaging", "sync.every=100"],
    "averaging, K = 100, parameters": ["sync.mode=averaging", "sync.every=100", "sync.average=parameters"],
    "independent": ["sync.mode=independent"],
}


def run(build, conf, folder, towers, settings):
    options = [f"devices.towers={towers}", "devices.threads_per_tower=1", "devices.kind=cpu", "report.progress=none",
               "run.resume=never", f"run.dir={folder}/run"] + settings
    command = [os.path.join(build, "pipetrain"), "-c", conf] + [word for option in options for word in ("--set", option)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with open(f"{folder}/run/summary.json", encoding="utf-8") as file:
        summary = json.load(file)
    with open(f"{folder}/run/weights.safetensors", "rb") as file:
        blob = file.read()
    header = int.from_bytes(blob[:8], "little")
    return summary, blob[8 + header:]


def row(name, towers, summary, note):
    epochs = [epoch["validation"] for epoch in summary["epoch_rows"]]
    accuracies = [epoch["accuracy"] for epoch in epochs]
    best = max(range(len(accuracies)), key=accuracies.__getitem__)
    stale = summary.get("staleness")
    if stale:
        note = f"staleness {stale['mean']:.2f}, at most {stale['max']}"
    print(f"| {name} | {towers} | {100 * accuracies[-1]:.2f} % | {100 * accuracies[best]:.2f} % ({best + 1}) | "
          f"{epochs[-1]['loss']:.4f} | {note} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=os.path.abspath)
    parser.add_argument("conf")
    parser.add_argument("--without", action="append", default=[], choices=MODES, metavar="MODE")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE")
    arguments = parser.parse_args()
    build, conf, extra = arguments.build, arguments.conf, arguments.settings
    print("| mode | towers | accuracy | best (epoch) | loss | |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        row("one tower", 1, run(build, conf, folder, 1, extra)[0], "")
        for towers in TOWERS:
            replicated = None
            for name in [mode for mode in MODES if mode not in arguments.without]:
                summary, weights = run(build, conf, folder, towers, extra + MODES[name])
                replicated = replicated or weights
                same = name != "replicated" and weights == replicated
                row(name, towers, summary, "replicated, bit for bit" if same else "")


if __name__ == "__main__":
    main()
