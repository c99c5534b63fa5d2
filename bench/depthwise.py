#!/usr/bin/env python3
"""The table of the depthwise convolutions of RESULTS.md: the weight gradient beside forward and beside PyTorch's.

    depthwise.py [-b BUILD] [-n ROUNDS] [-r REPEATS] [--torch PYTHON] [CHANNELS,SIZE,WINDOW,STRIDE]...

A round is all layers of ours (bench/depthwise) and then, with --torch, all of PyTorch (peer_depthwise.py), in ms of CPU
time of one thread, 4 images, fp32. Printed are medians of the rounds, and the least and greatest of the rounds' ratios.
"""

import argparse
import collections
import json
import os
import statistics
import subprocess

BENCH = os.path.dirname(os.path.abspath(__file__))


def lines_of(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def name_of(row):
    return row["channels"], row["size"], row["window"], row["stride"]


def cells(above, below):
    """The median of both sides' ratio and its spread, of numbers that belong together round by round."""
    ratios = [a / b for a, b in zip(above, below)]
    return f"**{statistics.median(ratios):.2f}** | {min(ratios):.2f}…{max(ratios):.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-b", "--build", default=".", help="folder with bench/depthwise (default: here)")
    parser.add_argument("-n", "--rounds", type=int, default=5)
    parser.add_argument("-r", "--repeats", type=int, default=9, help="of each layer in a round (default %(default)s)")
    parser.add_argument("--torch", metavar="PYTHON", help="a Python that has PyTorch")
    parser.add_argument("layers", nargs="*", metavar="CHANNELS,SIZE,WINDOW,STRIDE")
    arguments = parser.parse_args()
    ours, peer = collections.defaultdict(list), collections.defaultdict(list)
    for _ in range(arguments.rounds):
        rows = lines_of([os.path.join(arguments.build, "bench/depthwise"), str(arguments.repeats), *arguments.layers])
        for row in rows:
            ours[name_of(row), row["layout"]].append(row)
        names = dict.fromkeys(name_of(row) for row in rows)
        command = [arguments.torch, os.path.join(BENCH, "peer_depthwise.py"), *(",".join(map(str, n)) for n in names)]
        for row in lines_of(command) if arguments.torch else []:
            peer[name_of(row)].append(row["gradient_ms"])
    print("| layer (channels, size, window, stride) | layout | weight gradient | forward | gradient / forward | spread |"
          + (" PyTorch | PyTorch / ours | spread |" if peer else ""))
    print("|---|---|---:|---:|---:|---:|" + ("---:|---:|---:|" if peer else ""))
    for name, layout in sorted(ours, key=lambda key: key[1] == "nhwc"):
        gradients = [row["gradient_ms"] for row in ours[name, layout]]
        forwards = [row["forward_ms"] for row in ours[name, layout]]
        line = (f"| C{name[0]} {name[1]} k{name[2]} s{name[3]} | {layout} | {statistics.median(gradients):.2f} | "
                f"{statistics.median(forwards):.2f} | {cells(gradients, forwards)} |")
        if peer:
            line += f" {statistics.median(peer[name]):.2f} | {cells(peer[name], gradients)} |"
        print(line)


if __name__ == "__main__":
    main()
