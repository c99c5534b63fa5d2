#!/usr/bin/env python3
"""How near pipetrain --tune comes to the best point of a full grid, and how well its model predicts.

    bench/tune/tune.py BUILD MNIST-GLOB JPEG-GLOB CLASSES [SCENE...]

Three scenes, each a configuration that starves: raw records of a slow reader, JPEG images with one decoder, and
decoding that now and then takes long. In each --tune has a minute; then every point of a grid of threads and depths
runs for some seconds; then the setting it recommends and the grid's best run in turns. Prints one Markdown row a
scene. Delays are made by BUILD/tests/e2e/limits/pipetrain_slow (make check builds it).
"""

import csv
import io
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

KEYS = ["devices.threads_per_tower", "input.read_threads", "input.decode_threads", "input.prefetch_depth",
        "input.staging_depth"]
ROUNDS = 5
SECONDS = 3

SCENES = {
    "reader": {"slow": "read 10000", "data": 0, "model": "mnist_cnn", "batch": 32,
               "set": {"input.keep_shards": 0, "input.read_threads": 1},
               "grid": [[1, 2], [1, 2, 4, 8], [1, 2], [1, 4, 16], [2]]},
    "decoders": {"slow": "", "data": 1, "model": "cifar_trivial", "batch": 64, "set": {"input.decode_threads": 1},
                 "grid": [[1, 2], [1, 2], [1, 2], [1, 2, 4, 8], [1, 2]]},
    "spread": {"slow": "decode 20000 60", "data": 0, "model": "mnist_cnn", "batch": 32,
               "set": {"input.decode_threads": 1, "input.prefetch_depth": 1, "input.staging_depth": 1,
                       "devices.threads_per_tower": 1},
               "grid": [[1, 2], [1], [1, 2], [1, 2, 4, 8, 16], [1, 2]]},
}


def program(build, scene):
    name = "tests/e2e/limits/pipetrain_slow" if scene["slow"] else "pipetrain"
    return os.path.join(build, name), dict(os.environ, PIPETRAIN_SLOW=scene["slow"])


def write_config(path, scene, data, classes):
    with open(path, "w", encoding="ascii") as file:
        file.write(f"[data]\ntrain = {data[scene['data']]}\n" + (f"classes = {classes}\n" if scene["data"] else "") +
                   f"[model]\nname = {scene['model']}\n"
                   f"[train]\nbatch = {scene['batch']}\nepochs = 1000\n")
        sections = {}
        for key, value in scene["set"].items():
            section, name = key.split(".")
            sections.setdefault(section, []).append(f"{name} = {value}")
        for section, lines in sections.items():
            file.write(f"[{section}]\n" + "\n".join(lines) + "\n")


def tune(command, environment):
    """The recommended setting, as values of KEYS, and the rows of the table."""
    text = subprocess.run(command + ["--tune=60", "-q"], env=environment, check=True, capture_output=True,
                          text=True).stdout
    sys.stderr.write(text)
    rows = [line.split() for line in text.splitlines() if re.match(r"^ +\d+ +\d+ +\d+ +\d+ +\d+ ", line)]
    best = next(row for row in rows if row[-1] == "<")
    seconds = float(re.search(r"; (\d+) s in", " ".join(text.split())).group(1))
    return best[:5], rows, seconds


def assignments(values):
    return [word for key, value in zip(KEYS, values) for word in ("--set", f"{key}={value}")]


def speed(command, environment, values, folder):
    run = os.path.join(folder, "run")
    subprocess.run(command + assignments(values) + ["-q", "--set", f"run.dir={run}", "--set", "run.resume=never",
                                                    "--set", f"train.max_time={SECONDS} seconds"],
                   env=environment, check=True)
    with open(os.path.join(run, "summary.json"), encoding="utf-8") as file:
        return json.load(file)["images_per_second"]


def grid_best(command, environment, grid):
    axes = [word for key, values in zip(KEYS, grid) for word in ("--compare", key + "=" + ",".join(map(str, values)))
            if len(values) > 1]
    fixed = [word for key, values in zip(KEYS, grid) if len(values) == 1 for word in ("--set", f"{key}={values[0]}")]
    text = subprocess.run(command + fixed + axes + ["--seconds=1", "--rounds=1", "--format=csv", "-q"], env=environment,
                          check=True, capture_output=True, text=True).stdout
    best = max(csv.DictReader(io.StringIO(text)), key=lambda row: float(row["images_per_second"] or 0))
    return [best.get(key, str(values[0])) for key, values in zip(KEYS, grid)], len(list(itertools.product(*grid)))


def main():
    build, data, classes, wanted = sys.argv[1], sys.argv[2:4], sys.argv[4], sys.argv[5:] or list(SCENES)
    for name in wanted:
        scene = SCENES[name]
        path, environment = program(build, scene)
        with tempfile.TemporaryDirectory() as folder:
            config = os.path.join(folder, "scene.conf")
            write_config(config, scene, data, classes)
            command = [path, "-c", config]
            tuned, rows, seconds = tune(command, environment)
            best, points = grid_best(command, environment, scene["grid"])
            ratios = []
            for _ in range(ROUNDS):
                ratios.append(speed(command, environment, tuned, folder) / speed(command, environment, best, folder))
            off = max(abs(float(row[6]) - float(row[9])) / 100 for row in rows if len(row) > 10)
            print(f"| {name} | {rows[0][7]} | {'/'.join(tuned)} | {'/'.join(best)} of {points} | "
                  f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}) | {off:.3f} | "
                  f"{seconds:.0f} s |", flush=True)


main()
