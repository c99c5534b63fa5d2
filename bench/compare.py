#!/usr/bin/env python3
"""Run two commands in turns and print the ratio of what they report, as a Markdown table row.

    compare.py --name NAME --a COMMAND [--b COMMAND] [--key-a KEY] [--key-b KEY] ...

A pair is one run of A and one of B right after each other; every second pair begins with B.
The ratio A / B is taken within a pair, the result is the median of the pairs' ratios. Without
--b the value of A itself is the result.

A KEY says where in a command's output its value is:
    a.b           in the last line that is a JSON object, field b of the object a
    re:PATTERN    the first group of the last match in the output
    wall          the command's own wall clock, in seconds
"""

import argparse
import json
import os
import re
import resource
import shlex
import statistics
import subprocess
import sys
import time

HEAD = ("| comparison | A | B | A / B (or A) | spread | pairs | target | result | others' CPU |\n"
        "|---|---:|---:|---:|---:|---:|---:|---|---:|")


def last_object(output):
    for line in reversed(output.splitlines()):
        if line.startswith("{"):
            return json.loads(line)
    raise ValueError("no line with a JSON object")


def find_value(output, wall_seconds, key):
    if key == "wall":
        return wall_seconds
    if key.startswith("re:"):
        matches = re.findall(key[3:], output)
        if not matches:
            raise ValueError(f"nothing matches {key[3:]}")
        return float(matches[-1])
    value = last_object(output)
    for name in key.split("."):
        value = value[name]
    return float(value)


def run(command, key):
    begin = time.perf_counter()
    done = subprocess.run(shlex.split(command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    wall_seconds = time.perf_counter() - begin
    try:
        if done.returncode != 0:
            raise ValueError(f"exit code {done.returncode}")
        return find_value(done.stdout, wall_seconds, key)
    except (ValueError, KeyError, TypeError) as error:
        sys.stderr.write(done.stdout[-2000:] + done.stderr[-2000:])
        raise SystemExit(f"{error!r}\n  key     {key}\n  command {command}") from None


def processor_seconds():
    """CPU seconds of the whole machine that were not idle, of it stolen by other guests, and our children's."""
    with open("/proc/stat", encoding="ascii") as file:
        ticks = [int(word) for word in file.readline().split()[1:9]]
    second = os.sysconf("SC_CLK_TCK")
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (sum(ticks) - ticks[3] - ticks[4]) / second, children.ru_utime + children.ru_stime


class Usage:
    """CPU time of the machine while the two sides run, and what of it went to neither of them."""

    def __init__(self):
        self.wall = self.others = 0.0

    def __enter__(self):
        self.begin = time.perf_counter(), *processor_seconds()

    def __exit__(self, *_exception):
        wall, busy, own = (now - then for now, then in zip((time.perf_counter(), *processor_seconds()), self.begin))
        self.wall += wall
        self.others += max(0.0, busy - own)

    def others_share(self):
        return self.others / (self.wall * os.cpu_count())


def wait_for_idle_cores(seconds_most):
    """Return when a second has passed in which the cores were nearly idle, or after `seconds_most`."""
    end = time.perf_counter() + seconds_most
    while time.perf_counter() < end:
        begin = time.perf_counter(), processor_seconds()[0]
        time.sleep(1)
        busy = (processor_seconds()[0] - begin[1]) / (time.perf_counter() - begin[0]) / os.cpu_count()
        if busy < 0.1:
            return


def measure(arguments):
    """Values of A, values of B (empty without B), both by pair, and the others' share of the CPU time."""
    sides = [(arguments.a, arguments.key_a)]
    if arguments.b:
        sides.append((arguments.b, arguments.key_b or arguments.key_a))
    values = [[] for _ in sides]
    usage = Usage()
    for pair in range(arguments.pairs):
        order = range(len(sides)) if pair % 2 == 0 else reversed(range(len(sides)))
        wait_for_idle_cores(arguments.wait)
        with usage:
            for side in order:
                values[side].append(run(*sides[side]))
        print(f"{arguments.name} {pair + 1}/{arguments.pairs}: " + "  ".join(f"{v[-1]:.6g}" for v in values),
              file=sys.stderr, flush=True)
    return values[0], values[1] if arguments.b else [], usage.others_share()


def verdict(value, target):
    """`target` is like '>= 1.3' or '<= 0.25', or empty."""
    if not target:
        return ""
    sign, number = target.split()
    met = value >= float(number) if sign == ">=" else value <= float(number)
    return "met" if met else f"missed by {abs(1 - value / float(number)):.0%}"


def shown(value):
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def row(arguments, a, b, others):
    results = [x / y for x, y in zip(a, b)] if b else a
    result = statistics.median(results)
    return (f"| {arguments.name} | {shown(statistics.median(a))} | {shown(statistics.median(b)) if b else '–'} "
            f"| **{shown(result)}** | {shown(min(results))}…{shown(max(results))} | {len(a)} "
            f"| {arguments.target} | {verdict(result, arguments.target)} | {others:.0%} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", default="A / B", help="first column of the row")
    parser.add_argument("--a", help="command line")
    parser.add_argument("--b", help="command line")
    parser.add_argument("--key-a", default="images_per_second")
    parser.add_argument("--key-b", help="default: --key-a")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--target", default="", help="such as '>= 1.3'")
    parser.add_argument("--wait", type=float, default=0, metavar="SECONDS",
                        help="wait so long at most before each pair until the cores are idle (default 0)")
    parser.add_argument("--head", action="store_true", help="print the table's head and stop")
    arguments = parser.parse_args()
    if arguments.head:
        print(HEAD)
        return
    if not arguments.a:
        parser.error("--a is missing")
    a, b, others = measure(arguments)
    print(row(arguments, a, b, others), flush=True)


if __name__ == "__main__":
    main()
