#!/usr/bin/env python3
"""The examples that train on pipetrain.Loader go on after a kill in the middle of an epoch with the same losses.

    feed_examples.py [EXAMPLE]...

Each trains on drawn digits for some steps, once to its end, and once killed after a checkpoint and started again: the
losses, printed with all digits, are equal. PyTorch is also run by torchrun in two processes. The package pipetrain is
that of $PYTHONPATH or of the interpreter; $PIPETRAIN_BUILD is the folder of the build ('.'). Exit status 77: the package
is missing, or what each of the examples needs.
"""
import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from typing import Dict, List, NamedTuple

from peer import BUILD, end, expect

EXAMPLES = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "examples")
RECORDS, BATCH, STEPS, EVERY, KILLED = 80, 16, 8, 3, 4      # 5 steps an epoch: the checkpoint is in its middle
SECONDS = 900           # for a command, on a busy machine
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
LAUNCH = [sys.executable, "-m", "accelerate.commands.launch", "--cpu", "--num_processes=1", "--num_machines=1",
          "--mixed_precision=no", "--dynamo_backend=no", "--num_cpu_threads_per_process=1"]
SMALL_NETWORK = ["--model=resnet18", "--size=32", "--rate=0.01"]


class Row(NamedTuple):
    example: str
    needs: List[str]
    options: List[str]
    launcher: List[str] = [sys.executable]
    saves: List[str] = ["--checkpoint=run"]
    resumes: List[str] = ["--checkpoint=run"]
    variables: Dict[str, str] = {}


ROWS = {
    "torch": Row("feed_torch.py", ["torch", "torchvision"], ["--size=32", "--rate=0.01"]),
    "ddp": Row("feed_torch.py", ["torch", "torchvision"], ["--size=32", "--rate=0.01"], TORCHRUN),
    "jax": Row("feed_jax.py", ["jax", "flax", "optax"], ["--size=28"], variables={"JAX_PLATFORMS": "cpu"}),
    "keras": Row("feed_keras.py", ["keras", "jax"], ["--size=28"],
                 variables={"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}),
    "lightning": Row("feed_lightning.py", ["lightning", "torchvision"], [*SMALL_NETWORK, "--classes=10"], saves=[],
                     resumes=["--resume=runs/last.ckpt"]),
    "accelerate": Row("feed_accelerate.py", ["accelerate", "torchvision"], SMALL_NETWORK, LAUNCH),
}


def start(name, *options):
    row = ROWS[name]
    words = [*row.launcher, os.path.join(EXAMPLES, row.example), "digits/train-*", f"--batch={BATCH}"]
    variables = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "GLOO_SOCKET_IFNAME": "lo", **row.variables}
    with open("errors", "w", encoding="utf-8") as errors:
        return subprocess.Popen([*words, *row.options, *options], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=errors, text=True, env={**os.environ, **variables})


def parent_of(process):
    try:
        with open(f"/proc/{process}/stat", encoding="ascii", errors="replace") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except OSError:         # it has ended
        return 0


def kill_tree(process):
    """Kill the process and all below it: torchrun starts its workers in sessions of their own."""
    found = [process]
    parents = {number: parent_of(number) for number in map(int, filter(str.isdigit, os.listdir("/proc")))}
    for parent in found:
        found += [number for number, above in parents.items() if above == parent]
    for number in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


def steps_of(text):
    return [line for line in text.splitlines() if line.startswith("step ")]


def run(name, *options):
    """The lines of a run that ends by itself."""
    example = start(name, *options)
    try:
        out, _ = example.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        kill_tree(example.pid)
        out, _ = example.communicate()
    if example.returncode != 0:
        with open("errors", encoding="utf-8") as errors:
            print(out[-2000:], errors.read()[-4000:], sep="\n")
    expect(example.returncode == 0, f"{name}: the example ends well")
    return steps_of(out)


def run_and_kill(name, *options):
    """The lines up to that of step KILLED; all processes are killed then."""
    example = start(name, *options)
    lines = []
    for line in example.stdout:
        lines += steps_of(line)
        if line.startswith(f"step {KILLED} "):
            break
    kill_tree(example.pid)
    example.communicate()
    expect(len(lines) == KILLED, f"{name}: killed after step {KILLED}")
    return lines


def check(name):
    steps = (f"--steps={STEPS}", f"--every={EVERY}")
    whole = run(name, *steps)
    expect(len(whole) == STEPS, f"{name}: a line for each of {STEPS} steps")
    shutil.rmtree("runs", ignore_errors=True)       # Lightning's, of the run before
    expect(run_and_kill(name, *steps, *ROWS[name].saves) == whole[:KILLED], f"{name}: a second run has the same losses")
    resumed = run(name, *steps, *ROWS[name].resumes)
    print(*[f"  {line}\n" for line in resumed if line not in whole], sep="", end="")
    expect(resumed == whole[EVERY:], f"{name}: goes on after step {EVERY} with the same losses, to the bit")


def main():
    wanted = sys.argv[1:] or list(ROWS)
    have = [name for name in wanted if all(map(importlib.util.find_spec, ["pipetrain", *ROWS[name].needs]))]
    for name in wanted:
        if name not in have:
            print(f"skipped: {name}, for which not all of pipetrain {' '.join(ROWS[name].needs)} is installed")
    if not have:
        sys.exit(77)
    convert = os.path.abspath(os.path.join(BUILD, "pipetrain-convert"))
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    subprocess.run([convert, "digits", f"--train={RECORDS}", "--validation=10", "-q", "-o", "digits"], check=True)
    for name in have:
        os.mkdir(name)
        os.chdir(name)
        os.symlink("../digits", "digits")
        check(name)
        os.chdir("..")
    os.chdir("/")
    shutil.rmtree(folder)


main()
end()
