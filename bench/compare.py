#!/usr/bin/env python3
"""Run two commands in turns and print the ratio of what they report, as a Markdown table row.

    compare.py --name NAME --a COMMAND [--b COMMAND] [--key-a KEY] [--key-b KEY] ...

A pair is one run of A and one of B right after each other; every second pair begins with B.
The ratio A / B is taken within a pair, the result is the median of the pairs' ratios. Without
--b the value of A itself is the result. --also adds a row with another key of the same runs.

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
from typing import List, NamedTuple, Optional

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


def run(command, keys):
    """The value of each key; None of none."""
    begin = time.perf_counter()
    done = subprocess.run(shlex.split(command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    wall_seconds = time.perf_counter() - begin
    try:
        if done.returncode != 0:
            raise ValueError(f"exit code {done.returncode}")
        return [find_value(done.stdout, wall_seconds, key) if key else None for key in keys]
    except (ValueError, KeyError, TypeError) as error:
        sys.stderr.write(done.stdout[-2000:] + done.stderr[-2000:])
        raise SystemExit(f"{error!r}\n  keys    {' '.join(filter(None, keys))}\n  command {command}") from None


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


class Row(NamedTuple):
    name: str
    keys: List[Optional[str]]       # of A, and of B; None: the row is A's value alone
    target: str


def first_row(arguments):
    return Row(arguments.name, [arguments.key_a, arguments.key_b or arguments.key_a], arguments.target)


def measure_rows(arguments, rows):
    """Values of A and of B (empty without B), each by pair a list with those of all rows, and the others' share of the CPU
    time."""
    commands = [arguments.a] + ([arguments.b] if arguments.b else [])
    values = [[], []]
    usage = Usage()
    for pair in range(arguments.pairs):
        order = range(len(commands)) if pair % 2 == 0 else reversed(range(len(commands)))
        wait_for_idle_cores(arguments.wait)
        with usage:
            for side in order:
                values[side].append(run(commands[side], [row.keys[side] for row in rows]))
        shown_values = "  ".join(f"{of_side[-1][0]:.6g}" for of_side in values if of_side)
        print(f"{arguments.name} {pair + 1}/{arguments.pairs}: {shown_values}", file=sys.stderr, flush=True)
    return *values, usage.others_share()


def measure(arguments):
    """Values of A, values of B (empty without B), both by pair, and the others' share of the CPU time."""
    a, b, others = measure_rows(arguments, [first_row(arguments)])
    return [values[0] for values in a], [values[0] for values in b], others


def verdict(value, target):
    """`target` is like '>= 1.3' or '<= 0.25', or empty."""
    if not target:
        return ""
    sign, number = target.split()
    met = value >= float(number) if sign == ">=" else value <= float(number)
    return "met" if met else f"missed by {abs(1 - value / float(number)):.0%}"


def shown(value):
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def table_row(row, a, b, others):
    b = [value for value in b if value is not None]
    results = [x / y for x, y in zip(a, b)] if b else a
    result = statistics.median(results)
    return (f"| {row.name} | {shown(statistics.median(a))} | {shown(statistics.median(b)) if b else '–'} "
            f"| **{shown(result)}** | {shown(min(results))}…{shown(max(results))} | {len(a)} "
            f"| {row.target} | {verdict(result, row.target)} | {others:.0%} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", default="A / B", help="first column of the row")
    parser.add_argument("--a", help="command line")
    parser.add_argument("--b", help="command line")
    parser.add_argument("--key-a", default="images_per_second")
    parser.add_argument("--key-b", help="default: --key-a")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--target", default="", help="such as '>= 1.3'")
    parser.add_argument("--also", nargs=3, action="append", default=[], metavar=("NAME", "KEY", "TARGET"),
                        help="a further row of the same runs")
    parser.add_argument("--also-a", nargs=3, action="append", default=[], metavar=("NAME", "KEY", "TARGET"),
                        help="a further row with the value of A alone")
    parser.add_argument("--wait", type=float, default=0, metavar="SECONDS",
                        help="wait so long at most before each pair until the cores are idle (default 0)")
    parser.add_argument("--head", action="store_true", help="print the table's head and stop")
    arguments = parser.parse_args()
    if arguments.head:
        print(HEAD)
        return
    if not arguments.a:
        parser.error("--a is missing")
    rows = [first_row(arguments)] + [Row(name, [key, key], target) for name, key, target in arguments.also]
    rows += [Row(name, [key, None], target) for name, key, target in arguments.also_a]
    a, b, others = measure_rows(arguments, rows)
    for number, row in enumerate(rows):
        print(table_row(row, [values[number] for values in a], [values[number] for values in b], others), flush=True)


if __name__ == "__main__":
    main()
