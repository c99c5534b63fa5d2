#!/usr/bin/env python3
"""Run pipetrain with the given keys in a folder of its own and print its summary.json as one line.

    ours.py PIPETRAIN [SECTION.KEY=VALUE]...

OURS_LAUNCHER in the environment, such as "mpirun -n 2", is put before the program.
Added: images_per_second_mean, images / seconds over the whole run. It includes the first steps,
which images_per_second leaves out as warm-up. And memory.device_bytes: the planned memory of the parts that are
on the devices of the towers. And cpu_ms_per_step: processor time of all processes, their start included.
"""

import json
import os
import resource
import shlex
import subprocess
import sys
import tempfile

ON_DEVICES = ("slots", "weights_and_states", "activations", "workspace", "copies_of_weights", "reduction")


def main():
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    program, keys = sys.argv[1], sys.argv[2:]
    with tempfile.TemporaryDirectory() as folder:
        command = shlex.split(os.environ.get("OURS_LAUNCHER", "")) + [
            program, "-c", os.devnull, "--set", f"run.dir={folder}/run", "--set", "report.progress=none"]
        for key in keys:
            command += ["--set", key]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            sys.stderr.write(done.stdout)
            raise SystemExit(done.returncode)
        with open(os.path.join(folder, "run", "summary.json"), encoding="utf-8") as file:
            summary = json.load(file)
    summary["images_per_second_mean"] = summary["images"] / summary["seconds"] if summary["seconds"] > 0 else 0
    planned = summary.get("plan", {}).get("memory_bytes", {})
    summary["memory"]["device_bytes"] = sum(planned.get(part, 0) for part in ON_DEVICES)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    summary["cpu_ms_per_step"] = (used.ru_utime + used.ru_stime) * 1e3 / summary["steps"]
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
