#!/usr/bin/env python3
"""Run a command and print its last JSON line with the memory it took added.

    memory_of.py [--less MODULE] COMMAND [ARGUMENT]...

Added: peak_pss_bytes, the greatest sum over the command and its children that was seen; pages that processes share
count once. Looked at five times a second. With --less, which is for commands that begin with a Python interpreter, also
added_pss_bytes: the same less the memory of this interpreter after it has imported MODULE and done nothing.
"""

import json
import os
import subprocess
import sys
import threading


def children_of():
    """Every process's children."""
    children = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="ascii", errors="replace") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(name))
    return children


def tree(process):
    children, found = children_of(), [process]
    for parent in found:
        found += children.get(parent, [])
    return found


def pss_bytes(process):
    try:
        with open(f"/proc/{process}/smaps_rollup", encoding="ascii") as file:
            return sum(int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:"))
    except OSError:
        return 0


def idle_bytes(interpreter, module):
    words = [interpreter, "-c", f"import sys, {module}; print(flush=True); sys.stdin.read()"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as idle:
        idle.stdout.readline()
        taken = pss_bytes(idle.pid)
        idle.stdin.close()
    return taken


def main():
    words, less = sys.argv[1:], None
    if words[:1] == ["--less"]:
        less, words = words[1:2], words[2:]
    if not words:
        raise SystemExit(__doc__)
    idle = idle_bytes(words[0], less[0]) if less else 0
    ended, peak = threading.Event(), 0
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as command:
        lines = []
        reader = threading.Thread(target=lambda: (lines.extend(command.stdout), ended.set()))
        reader.start()
        while not ended.wait(0.2):
            peak = max(peak, sum(map(pss_bytes, tree(command.pid))))
        reader.join()
    if command.returncode != 0:
        raise SystemExit(command.returncode)
    report = json.loads([line for line in lines if line.startswith("{")][-1])
    added = {"added_pss_bytes": peak - idle} if less else {}
    print(json.dumps(report | {"peak_pss_bytes": peak} | added))


if __name__ == "__main__":
    main()
