#!/usr/bin/env python3
"""How close the setting that pipetrain --tune recommends is to the best one of a full grid.

    bench/tune/tune.py BUILD MNIST-GLOB JPEG-GLOB CLASSES [SCENE...]
    bench/tune/tune.py --table FILE

Three scenes whose towers wait for input as configured: raw records of a slow reader, JPEG images with one decoder, and
decoding that sometimes takes long. For each, --tune has a minute; then every point of a grid of threads and depths runs
for a second; then the recommended setting and the best of the grid run in turns. Prints one Markdown row for each scene.
BUILD/tests/e2e/limits/pipetrain_slow makes the delays (make check builds it). With --table it only parses the table
in FILE, the output of --tune, and prints the assignments and measurements of every row.
"""

import collections
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

# tower threads, readers, decoders, prefetch_depth, staging_depth, c for input.source = cached; speed and wait of the first
# trial; speed, range and wait in the rounds, MiB, and < for the best.
ROW = re.compile(r"^ *(\d+) +(\d+) +(\d+) +(\d+) +(\d+)([ c])(?: +needs too much memory| *([\d.]+) +([\d.]+)"
                 r"(?: +([\d.]+) +(?:[\d.]+|-) +([\d.]+) +[\d.]+( <)?)?)$")
Row = collections.namedtuple("Row", "assignments tried_speed tried_wait speed wait is_best")
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


def number(text, scale=1):
    return None if text is None else float(text) / scale


def read_row(line):
    """A row of the table, with None for what was not measured; None if the line is no row."""
    match = ROW.match(line)
    if match is None:
        return None
    values = assignments(match.group(*range(1, 6))) + (["input.source=cached"] if match.group(6) == "c" else [])
    return Row(values, number(match.group(7)), number(match.group(8), 100), number(match.group(9)),
               number(match.group(10), 100), match.group(11) is not None)


def read_table(text):
    """The rows between the head of the table and the line below it."""
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("tower read dec.")) + 1
    last = next(i for i, line in enumerate(lines) if line.startswith("first row: as configured"))
    rows = [read_row(line) for line in lines[first:last]]
    if None in rows:
        sys.exit("tune.py: a row of the table cannot be read: " + lines[first + rows.index(None)])
    return rows


def tune(command, environment):
    """The rows of the table, and the seconds it took."""
    text = subprocess.run(command + ["--tune=60", "-q"], env=environment, check=True, capture_output=True,
                          text=True).stdout
    sys.stderr.write(text)
    return read_table(text), float(re.search(r"; (\d+) s in", " ".join(text.split())).group(1))


def assignments(values):
    return [f"{key}={value}" for key, value in zip(KEYS, values)]


def setting_words(setting):
    """1/1/2/4/2, and /cached."""
    return "/".join(word.split("=")[1] for word in setting)


def speed(command, environment, setting, folder):
    run = os.path.join(folder, "run")
    words = [word for assignment in setting for word in ("--set", assignment)]
    subprocess.run(command + words + ["-q", "--set", f"run.dir={run}", "--set", "run.resume=never",
                                      "--set", f"train.max_time={SECONDS} seconds"],
                   env=environment, check=True, stdout=subprocess.DEVNULL)
    with open(os.path.join(run, "summary.json"), encoding="utf-8") as file:
        return json.load(file)["images_per_second"]


def grid_best(command, environment, grid):
    axes = [word for key, values in zip(KEYS, grid) for word in ("--compare", key + "=" + ",".join(map(str, values)))
            if len(values) > 1]
    fixed = [word for key, values in zip(KEYS, grid) if len(values) == 1 for word in ("--set", f"{key}={values[0]}")]
    text = subprocess.run(command + fixed + axes + ["--seconds=1", "--rounds=1", "--format=csv", "-q"], env=environment,
                          check=True, capture_output=True, text=True).stdout
    best = max(csv.DictReader(io.StringIO(text)), key=lambda row: float(row["images_per_second"] or 0))
    setting = assignments([best.get(key, str(values[0])) for key, values in zip(KEYS, grid)])
    return setting, len(list(itertools.product(*grid)))


def main():
    build, data, classes, wanted = sys.argv[1], sys.argv[2:4], sys.argv[4], sys.argv[5:] or list(SCENES)
    for name in wanted:
        scene = SCENES[name]
        path, environment = program(build, scene)
        with tempfile.TemporaryDirectory() as folder:
            config = os.path.join(folder, "scene.conf")
            write_config(config, scene, data, classes)
            command = [path, "-c", config]
            rows, seconds = tune(command, environment)
            tuned = next((row for row in rows if row.is_best), rows[0]).assignments
            best, points = grid_best(command, environment, scene["grid"])
            ratios = []
            for _ in range(ROUNDS):
                ratios.append(speed(command, environment, tuned, folder) / speed(command, environment, best, folder))
            print(f"| {name} | {rows[0].tried_speed} | {setting_words(tuned)} | {setting_words(best)} of {points} | "
                  f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}) | {seconds:.0f} s |",
                  flush=True)


if sys.argv[1:2] == ["--table"]:
    with open(sys.argv[2], encoding="utf-8") as table:
        for found in read_table(table.read()):
            print(*found.assignments, found.tried_speed, found.tried_wait, found.speed, found.wait,
                  "best" if found.is_best else "")
else:
    main()
