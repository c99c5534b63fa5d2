#!/usr/bin/env python3
"""pipetrain predict as a worker: one image at a time, or a list through a pipe. Prints one JSON line.

    worker.py --build BUILD --weights FILE [--model NAME] [--count N] IMAGE...     one at a time, a client that waits
    worker.py --build BUILD --weights FILE [--model NAME] --list FOLDER             all files in its folders at once

One at a time: `first_s` from the start of the process to the first answer, `median_ms` and `p99_ms` of the others, seen by this
client. A list: `images_per_second` of the line that predict prints, from the first arrival to the last answer.
"""

import argparse
import glob
import json
import re
import statistics
import subprocess
import time


def command_of(arguments):
    model = ["-m", arguments.model] if arguments.model else []
    return [arguments.build + "/pipetrain", "predict", "-w", arguments.weights, *model, "--set", "devices.kind=cpu",
            "--set", f"devices.threads_per_tower={arguments.threads}", "--json", "--top", "1", "-"]


def one_at_a_time(arguments):
    times = []
    begin = time.perf_counter()
    worker = subprocess.Popen(command_of(arguments), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for i in range(arguments.count + 1):
        sent = time.perf_counter() if i > 0 else begin
        worker.stdin.write(arguments.images[i % len(arguments.images)].encode() + b"\n")
        worker.stdin.flush()
        assert b'"top"' in worker.stdout.readline()
        times.append(time.perf_counter() - sent)
    worker.communicate()
    later = sorted(times[1:])
    return {"first_s": times[0], "median_ms": 1e3 * statistics.median(later),
            "p99_ms": 1e3 * later[len(later) * 99 // 100]}


def a_list(arguments):
    paths = "".join(path + "\n" for folder in arguments.images for path in sorted(glob.glob(folder + "/*/*")))
    end = subprocess.run(command_of(arguments), input=paths, capture_output=True, text=True, check=True)
    return {"images_per_second": float(re.search(r"images?, ([0-9.,]+) images/s", end.stderr)[1].replace(",", ""))}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=".")
    parser.add_argument("--weights", required=True)
    parser.add_argument("--model")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--threads", type=int, default=0, help="of the tower (default: all cores)")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("images", nargs="+", help="images; with --list folders of folders")
    arguments = parser.parse_args()
    print(json.dumps((a_list if arguments.list else one_at_a_time)(arguments)))


if __name__ == "__main__":
    main()
