#!/usr/bin/env python3
"""How long steps after a checkpoint take beside the others, from metrics.jsonl files with a row for each step.

    steps_behind.py EVERY metrics.jsonl...

EVERY is the number of steps between two checkpoints. The first EVERY steps of a run are left out.
"""
import json
import statistics
import sys


def steps_of(path):
    """Pairs of a step's number and its seconds."""
    with open(path, encoding="utf-8") as file:
        return [(row["step"], row["seconds"]) for row in map(json.loads, file) if row["kind"] == "train"]


def main():
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    every = int(sys.argv[1])
    behind, others = [], []
    for path in sys.argv[2:]:
        for step, seconds in steps_of(path):
            if step > every:
                (behind if step % every == 1 % every else others).append(seconds)
    print("| step behind a state, s | other steps | more | medians | steps behind a state |")
    print("|---:|---:|---:|---:|---:|")
    more = [f(behind) / f(others) - 1 for f in (statistics.mean, statistics.median)]
    seconds = f"{statistics.mean(behind):.4f} | {statistics.mean(others):.4f}"
    print(f"| {seconds} | {more[0]:.1%} | {more[1]:.1%} | {len(behind)} |")


if __name__ == "__main__":
    main()
