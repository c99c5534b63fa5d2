#!/usr/bin/env python3
"""The code of doc/python.md, run as it stands there, in its order, on photos that are drawn here.

Commands run in a folder that looks like a built checkout; nothing is installed: venv/bin/python is this interpreter, and
the package pipetrain that of $PYTHONPATH or of this interpreter. All Python of the page is one session. $PIPETRAIN_BUILD
is the folder of the build ('.'). Exit status 77: the package, PyTorch, torchvision or Pillow are missing. Sections that
need more (JAX, Keras) are named where they are skipped.
"""
import contextlib
import importlib.util
import io
import os
import random
import re
import subprocess
import sys
import tempfile

try:
    import pipetrain
    import torch
    import torchvision      # noqa: F401
    from PIL import Image
except ImportError as error:
    print(sys.executable, "has not all that is needed:", error)
    sys.exit(77)
from peer import BUILD, end, expect

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = os.path.join(SOURCE, "doc", "python.md")
COLOURS = {"brick": (170, 70, 50), "leaf": (60, 140, 60), "sea": (50, 90, 170), "snow": (225, 225, 235)}
EACH = 75               # images of a class: 270 of 300 train, in 5 steps of 64
SECONDS = 600           # for a command, on a busy machine
NEEDS = {"JAX": ["jax"], "Keras": ["keras", "jax"]}
# What the Python of a section prints.
PRINTS = {
    "What the loader gives": r"\d+ of 30 are right\n270 4 \['brick', 'leaf', 'sea', 'snow'\]\n2 0 \[.*\]\n",
    "Stored records": r"64 \d+ \d+\n",
    "Errors": r".*flip.*\n",
    "Is it fast enough?": r"[\d.]+ s waited of [\d.]+ s\n.+\n",
}


def draw_photos():
    chance = random.Random(1)
    for name, colour in COLOURS.items():
        os.makedirs(f"photos/{name}")
        for number in range(EACH):
            size = chance.randint(70, 120), chance.randint(70, 120)
            image = Image.new("RGB", size, tuple(channel + chance.randint(-20, 20) for channel in colour))
            image.save(f"photos/{name}/{number:02}.jpg", quality=90)


def write_script(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\n" + text)
    os.chmod(path, 0o755)


def make_place(build):
    """What a checkout has after its build, and an environment in which everything is installed."""
    os.symlink(os.path.join(build, "pipetrain-convert"), "pipetrain-convert")
    os.symlink(os.path.join(SOURCE, "examples"), "examples")
    for name in ("./bootstrap", "./configure", "stand_in/make", "stand_in/python3", "venv/bin/pip"):
        write_script(name, "")
    write_script("venv/bin/torchrun", f"exec '{sys.executable}' -m torch.distributed.run \"$@\"\n")


def blocks_of(page):
    """(section, language, code) of every block of code of the page."""
    section = ""
    for heading, language, code in re.findall(r"^##+ ([^\n]*)$|^```(\w+)\n(.*?)^```$", page, re.M | re.S):
        section = heading or section
        if language:
            yield section, language, code


def run_commands(section, code):
    shell = subprocess.run(["sh", "-e", "-c", code], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                           timeout=SECONDS,
                           env={**os.environ, "PATH": os.path.abspath("stand_in") + ":" + os.environ["PATH"],
                                "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "GLOO_SOCKET_IFNAME": "lo"})
    expect(shell.returncode == 0, f"{section}: the commands succeed")
    if shell.returncode != 0:
        print(shell.stdout[-2000:], shell.stderr[-4000:], sep="\n")
    return shell.stdout


def run_page(page):
    """What the blocks of each section print together."""
    session, printed = {"__name__": "page"}, {}
    for section, language, code in blocks_of(page):
        if not all(map(importlib.util.find_spec, NEEDS.get(section, []))):
            print(f"skipped: {section}, which needs {' '.join(NEEDS[section])}")
            continue
        if language == "sh":
            text = run_commands(section, code)
        else:
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(code, f"{PAGE}: {section}", "exec"), session)
            text = out.getvalue()
            expect(True, f"{section}: {len(code.splitlines())} lines of Python")
        printed[section] = printed.get(section, "") + text
    return session, printed


def main():
    torch.set_num_threads(1)
    os.environ.setdefault("KERAS_BACKEND", "jax")
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    build = os.path.abspath(BUILD)
    with tempfile.TemporaryDirectory() as folder, open(PAGE, encoding="utf-8") as page:
        os.chdir(folder)
        draw_photos()
        make_place(build)
        session, printed = run_page(page.read())
        os.chdir("/")
    for section, pattern in PRINTS.items():
        expect(re.fullmatch(pattern, printed[section]), f"{section} prints {printed[section]!r}")
    losses = re.findall(r"^step \d+ loss ", printed["Several processes"], re.M)
    expect(len(losses) == 4, f"several processes train {len(losses)} steps")
    loader = session["loader"]
    expect(isinstance(loader, pipetrain.Loader) and loader.position[1] == len(loader), "the last epoch was whole")
    expect(session["loss"].item() < 100, "the last loss is a number")


main()
end()
