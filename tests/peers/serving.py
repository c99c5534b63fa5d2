#!/usr/bin/env python3
"""The commands of doc/serving.md, run as they stand there on photos that are drawn here.

A section of the page is a shell script: its blocks of code. Virtual environments are not made and nothing is installed;
serve/bin/python is this interpreter. Classes and probabilities are those of pipetrain predict, to 1e-5 where
Pillow's pixels are those of this program, and else to 0.03, for images of all kinds.

$PIPETRAIN_BUILD is the folder of the build ('.'). Exit status 77: onnx, onnxruntime or Pillow are missing. Sections that need
more (PyTriton, Debian's libonnxruntime-dev, PyTorch) are named where they are skipped.
"""
import importlib.util
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile

try:
    import numpy
    import onnx
    import onnxruntime
    from PIL import Image, ImageDraw
except ImportError as error:
    print(sys.executable, "has not all that is needed:", error)
    sys.exit(77)
from peer import BUILD, end, expect

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = os.path.join(SOURCE, "doc", "serving.md")
COLOURS = {"brick": (170, 70, 50), "leaf": (60, 140, 60), "sea": (50, 90, 170), "snow": (225, 225, 235)}
EACH = 24
NEAR, EQUAL = 0.03, 1e-5        # differences of probabilities where pixels may differ by 1, and where they are equal
ORIENTATION = 0x0112
SECONDS = 600           # for the commands of a section, on a busy machine


# ---- images ----

def draw_photo(colour, chance):
    """At most twice as high as wide: others are resized by Pillow 13 in another order, and some pixels differ by 1."""
    size = chance.randint(150, 300), chance.randint(150, 300)
    image = Image.new("RGB", size, tuple(channel + chance.randint(-20, 20) for channel in colour))
    pen = ImageDraw.Draw(image)
    for _ in range(6):
        corner = chance.randint(0, size[0]), chance.randint(0, size[1])
        box = (*corner, corner[0] + chance.randint(5, 60), corner[1] + chance.randint(5, 60))
        pen.ellipse(box, fill=tuple(chance.randint(0, 255) for _ in range(3)))
    return image


def draw_photos():
    chance = random.Random(1)
    for name, colour in COLOURS.items():
        os.makedirs(f"photos/{name}")
        for number in range(EACH):
            exif = Image.Exif()
            exif[ORIENTATION] = 1 + number % 8
            draw_photo(colour, chance).save(f"photos/{name}/{number:02}.jpg", quality=90, exif=exif)


def draw_odd_images():
    """One image in all kinds of files and sizes."""
    os.makedirs("odd")
    image = draw_photo(COLOURS["leaf"], random.Random(2)).resize((500, 375))
    grey = image.convert("L")
    clear = image.copy()
    clear.putalpha(grey)
    deep = Image.fromarray(numpy.asarray(grey).astype(numpy.uint16) * 257)
    kinds = {"grey.jpg": grey, "grey.png": grey, "clear.png": clear, "grey_clear.png": image.convert("LA"),
             "inks.jpg": image.convert("CMYK"), "palette.png": image.convert("P"), "bits.png": image.convert("1"),
             "deep.png": deep, "large.jpg": image.resize((2000, 1501)), "small.png": image.resize((20, 17)),
             "wide.jpg": image.resize((700, 40)), "high.png": image.resize((210, 400)), "pixel.png": image.resize((1, 1)),
             "own_size.png": image.resize((32, 32))}
    for name, kind in kinds.items():
        kind.save(f"odd/{name}")
    return [f"odd/{name}" for name in kinds]


# ---- commands ----

def section(title):
    """The blocks of code below a heading of the page, as a script."""
    with open(PAGE, encoding="utf-8") as page:
        text = page.read()
    body = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    blocks = re.findall(r"^```sh\n(.*?)^```$", body.group(1), re.M | re.S) if body else []
    expect(blocks, f"the page has commands under '{title}'")
    return "".join(blocks)


def run(script, what, **environment):
    """The standard output of a script that succeeds, all of whose commands do."""
    shell = subprocess.Popen(["sh", "-e", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, start_new_session=True,
                             env={**os.environ, "PATH": os.path.abspath("stand_in") + ":" + os.environ["PATH"],
                                  **environment})
    try:
        out, errors = shell.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(shell.pid, signal.SIGKILL)        # also of a server that the script started
        out, errors = shell.communicate()
    expect(shell.returncode == 0, what)
    if shell.returncode != 0:
        print(out[-2000:], errors[-4000:], sep="\n")
    expect("onnxruntime" not in errors, f"{what}: ONNX Runtime warns of nothing")
    return out


def write_script(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, 0o755)


def make_place():
    """What the page finds in the build folder, and an environment that is there already."""
    for program in ("pipetrain", "pipetrain-convert"):
        os.symlink(os.path.join(build, program), program)
    os.symlink(os.path.join(SOURCE, "examples"), "examples")
    write_script("serve/bin/python", f"#!/bin/sh\nexec '{sys.executable}' \"$@\"\n")
    write_script("serve/bin/pip", "#!/bin/sh\n")
    write_script("stand_in/python3", "#!/bin/sh\n")         # of python3 -m venv
    write_script("stand_in/pipetrain", "#!/bin/sh\nexit 1\n")       # commands begin with ./


def predicted(images, *words):
    """Of pipetrain predict, for each image: the probabilities of all classes."""
    done = subprocess.run(["./pipetrain", "predict", "-c", "examples/photos.conf", "--json", "--top=1000", *words,
                           *images], capture_output=True, text=True)
    expect(done.returncode == 0, "pipetrain predict " + " ".join(words))
    if done.returncode != 0:
        print(done.stderr[-2000:])
    return rows_of(map(json.loads, done.stdout.splitlines()))


def rows_of(answers):
    rows = {}
    for answer in answers:
        top = {entry["class"]: entry["probability"] for entry in answer.get("top", [])}
        rows[answer["image"]] = numpy.array([top[number] for number in sorted(top)])
    return rows


def expect_near(theirs, ours, limit, what):
    expect(sorted(theirs) == sorted(ours) and len(ours) > 0, f"{what}: the same images")
    largest = max(numpy.abs(theirs[path] - ours[path]).max() for path in ours if path in theirs)
    expect(largest <= limit, f"{what}: probabilities of {len(ours)} images within {limit:g} ({largest:.2g})")
    clear = [path for path in ours if numpy.diff(numpy.sort(ours[path])[-2:])[0] > 2 * limit]
    expect(all(theirs[path].argmax() == ours[path].argmax() for path in clear), f"{what}: the same classes")


def served(model, images, *words):
    words = ["serve/bin/python", "examples/serve_onnx.py", model, "--top=1000", *words, *images]
    done = subprocess.run(words, capture_output=True, text=True)
    expect(done.returncode == 0 and done.stderr == "", " ".join(words[:3]))
    return rows_of(map(json.loads, done.stdout.splitlines()))


# ---- the page ----

def check_python(photos):
    lines = [json.loads(line) for line in run(section("In ten minutes: from photos to Python"),
                                              "the first section").splitlines() if line.startswith('{"image"')]
    ours = predicted(photos)
    expect([line["image"] for line in lines] == photos, "an answer for each photo, in their order")
    right = sum(line["top"][0]["name"] == line["image"].split("/")[1] for line in lines)
    expect(right > 0.8 * len(photos), f"{right} of {len(photos)} photos are right")
    expect_near(served("photos.onnx", photos, "--batch=7"), ours, EQUAL, "serve_onnx.py")
    lines = run(section("ONNX Runtime in Python"), "the module").splitlines()
    expect([line.split(" ")[0] for line in lines] == photos, "the module answers for each photo")
    return ours


def check_labels():
    """Weights may have no names of classes: the labels are numbers then."""
    model = onnx.load("photos.onnx")
    others = [pair for pair in model.metadata_props if pair.key != "class_names"]
    del model.metadata_props[:]
    model.metadata_props.extend(others)
    onnx.save(model, "nameless.onnx")
    labels = subprocess.run(["serve/bin/python", "examples/serve_onnx.py", "nameless.onnx", "--classes"],
                            capture_output=True, text=True).stdout.splitlines()
    expect(labels == [str(i) for i in range(len(COLOURS))], f"a label for each class without a name: {labels}")


def check_rules(images):
    """Every way from an image to the network's size, and images of every kind."""
    for rule in ("augment.evaluation_resize=36", "augment.evaluation_scale=1.145", "augment.evaluation=none",
                 "augment.filter=bicubic", "augment.filter=area augment.evaluation_scale=1.145",
                 "augment.filter=nearest augment.evaluation_scale=1.145"):
        words = [f"--set={setting}" for setting in ["model.weights_differ=yes", *rule.split()]]
        run("./pipetrain export -c examples/photos.conf --force -o rule.onnx " + " ".join(words), f"export, {rule}")
        is_equal = rule in ("augment.evaluation_resize=36", "augment.filter=bicubic")
        expect_near(served("rule.onnx", images), predicted(images, *words), EQUAL if is_equal else NEAR, rule)
    broken = subprocess.run(["serve/bin/python", "examples/serve_onnx.py", "photos.onnx", PAGE, images[0]],
                            capture_output=True, text=True)
    expect(broken.returncode == 3 and "problem" in broken.stdout.splitlines()[0] and "top" in broken.stdout,
           "an image that cannot be read is a line")
    for words in (["photos.onnx"], ["nowhere.onnx", images[0]]):
        refused = subprocess.run(["serve/bin/python", "examples/serve_onnx.py", *words], capture_output=True, text=True)
        expect(refused.returncode == 2 and "Traceback" not in refused.stderr, f"refused in words: {words[0]}")


def check_triton(photos, ours):
    repository, _, pytriton = section("Triton").partition("serve/bin/pip install nvidia-pytriton")
    run(repository, "the model repository")
    with open("models/photos/config.pbtxt", encoding="utf-8") as file:
        config = file.read()
    with open("models/photos/classes.txt", encoding="utf-8") as file:
        expect(file.read().split() == sorted(COLOURS), "the names of the classes")
    dims = [json.loads(text) for text in re.findall(r"dims: (\[[^]]*\])", config)]
    graph = onnx.load("models/photos/1/model.onnx").graph
    expect(dims == [[3, 32, 32], [len(COLOURS)]] and
           dims[0] == [dim.dim_value for dim in graph.input[0].type.tensor_type.shape.dim][1:],
           f"Triton's configuration is that of the file: {dims}")
    if importlib.util.find_spec("pytriton") is None:
        print("skipped: PyTriton, which is not installed")
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    lines = run(pytriton.replace("8000", port), "PyTriton", LD_LIBRARY_PATH=sysconfig.get_config_var("LIBDIR")).splitlines()
    lines = [line for line in lines if line.startswith("photos/")]
    expect([line.split(" ")[0] for line in lines] == photos, "PyTriton answers for each photo")
    expect(sum(f"'class': {ours[line.split(' ')[0]].argmax()}," in line for line in lines) >= 0.95 * len(photos),
           "PyTriton's classes")


def check_cpp(photos, ours):
    found = shutil.which("g++") and subprocess.run(["pkg-config", "--exists", "libonnxruntime"],
                                                   check=False).returncode == 0 if shutil.which("pkg-config") else False
    if not found:
        print("skipped: C++, for which libonnxruntime-dev is not installed")
        return
    lines = [line.split("\t") for line in run(section("C++"), "C++").splitlines() if "\t" in line]
    expect(len(lines) == len(photos), "an answer for each photo")
    near = [abs(float(line[3]) - ours[path].max()) for path, line in zip(photos, lines)]
    expect(max(near) <= EQUAL, f"the best class has the probability of predict ({max(near):.2g})")
    expect(all(line[2] == sorted(COLOURS)[int(line[1])] for line in lines), "the names of the classes")


def check_int8():
    lines = run(section("int8"), "int8").splitlines()
    sizes = [int(text.replace(",", "")) for text in re.findall(r"([0-9,]+)(?: bytes|$)", lines[0])]
    expect(len(sizes) == 2 and sizes[0] < 0.4 * sizes[1], f"bytes of int8 and fp32: {sizes}")
    rights = [int(line.split(" ")[0]) for line in lines[1:]]
    expect(len(rights) == 2 and rights[1] >= 0.9 * rights[0], f"right with fp32 and int8: {rights}")
    expect(onnxruntime.InferenceSession("photos-int8.onnx", providers=["CPUExecutionProvider"]).get_modelmeta()
           .custom_metadata_map["class_names"] == json.dumps(sorted(COLOURS), separators=(",", ":")), "int8 keeps the names")


def check_torch(photos, ours):
    if not all(importlib.util.find_spec(package) for package in ("torch", "safetensors")):
        print("skipped: PyTorch or safetensors, which are not installed")
        return
    lines = [line.split(" ") for line in run(section("PyTorch"), "PyTorch").splitlines() if line.startswith("photos/")]
    expect([line[0] for line in lines] == photos, "PyTorch answers for each photo")
    near = [abs(float(line[2]) - ours[line[0]].max()) for line in lines]
    expect(max(near) <= EQUAL, f"the best class has the probability of predict ({max(near):.2g})")
    expect(all(line[1] == sorted(COLOURS)[ours[line[0]].argmax()] for line in lines), "PyTorch's classes")
    expect(os.path.getsize("photos.pt2") > 0, "torch.export's program")


def main():
    draw_photos()
    odd = draw_odd_images()
    make_place()
    photos = sorted(f"photos/{name}/{number:02}.jpg" for name in COLOURS for number in range(EACH))
    ours = check_python(photos)
    check_labels()
    check_rules(photos[::5] + odd)
    check_triton(photos, ours)
    check_cpp(photos, ours)
    check_int8()
    check_torch(photos, ours)


build = os.path.abspath(BUILD)
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    main()
    os.chdir("/")
end()
