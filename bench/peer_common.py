"""What the peers share: options, MNIST in memory, and the JSON line they print.

Data are ready before the first step: float32 in [0, 1], NHWC, as numpy arrays.
"""

import argparse
import ctypes
import gc
import gzip
import json
import os
import platform
import resource
import statistics
import time

import numpy

import memory_of


M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4    # of mallopt(3)


def keep_freed_memory():
    """Let glibc keep what is freed, so that no step asks the kernel for pages again.

    This is what the peers' guides recommend another allocator for."""
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(M_MMAP_MAX, 0)
        library.mallopt(M_TRIM_THRESHOLD, -1)


def status_bytes(name):
    """A number of this process: VmRSS, its memory now, or VmHWM, the most there was."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(name + ":"))


def begin_memory():
    """Bytes in use now, freed memory given back; from now on VmHWM is of what follows."""
    gc.collect()
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")
    return status_bytes("VmRSS")


def tree_processor_seconds():
    """Processor time of this process and of those below it that run, such as workers; in steps of 0.01 s each."""
    ticks = 0
    for process in memory_of.tree(os.getpid()):
        try:
            with open(f"/proc/{process}/stat", encoding="ascii", errors="replace") as file:
                words = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += int(words[11]) + int(words[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def measure_batches(take, count, batch):
    """Images per second, and processor time an image in microseconds, of so many calls of take()."""
    begin, begin_processor = time.perf_counter(), tree_processor_seconds()
    for _ in range(count):
        take()
    wall, processor = time.perf_counter() - begin, tree_processor_seconds() - begin_processor
    images = count * batch
    return {"images_per_second": round(images / wall, 1), "cpu_us_per_image": round(processor * 1e6 / images, 2)}


def machine_parser(description):
    """What every peer is told: how large its steps are, and what they may use."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--batch", type=int, default=128, help="samples per step and process (default %(default)s)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)),
                        help="CPU threads (default: the cores this process may use)")
    parser.add_argument("--return-memory", action="store_true", help="leave the C library's allocator as it is")
    return parser


def argument_parser(description):
    """Those, and of peers that train so many steps on MNIST."""
    parser = machine_parser(description)
    parser.add_argument("--steps", type=int, default=40, help="measured steps (default %(default)s)")
    parser.add_argument("--warmup", type=int, default=10, help="steps before them (default %(default)s)")
    parser.add_argument("--mnist", metavar="DIR", help="folder of the MNIST IDX files; random data without it")
    return parser


def read_idx(path):
    """An IDX file of unsigned bytes, gzip or not, as an array of its shape."""
    with open(path, "rb") as file:
        data = file.read()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    dimensions = data[3]
    shape = numpy.frombuffer(data, ">u4", dimensions, 4)
    return numpy.frombuffer(data, numpy.uint8, offset=4 + 4 * dimensions).reshape(shape)


def find_idx(folder, name):
    for candidate in (name, name + ".gz"):
        path = os.path.join(folder, candidate)
        if os.path.exists(path):
            return path
    raise SystemExit(f"no {name} or {name}.gz in {folder}")


def load(folder, count):
    """Images (count, 28, 28, 1) float32 and labels (count,) int64, repeated when there are fewer."""
    if folder is None:
        random = numpy.random.default_rng(1)
        return (random.random((count, 28, 28, 1), dtype=numpy.float32),
                random.integers(0, 10, count, dtype=numpy.int64))
    images = read_idx(find_idx(folder, "train-images-idx3-ubyte"))
    labels = read_idx(find_idx(folder, "train-labels-idx1-ubyte"))
    chosen = numpy.random.default_rng(1).permutation(len(images))[numpy.arange(count) % len(images)]
    return images[chosen, :, :, None].astype(numpy.float32) / 255, labels[chosen].astype(numpy.int64)


def step_report(step_seconds, images_per_step):
    """Images over wall time, and the median step as a time."""
    return {"images_per_second": round(images_per_step * len(step_seconds) / sum(step_seconds), 1),
            "step_ms": round(statistics.median(step_seconds) * 1e3, 3),
            "step_ms_best": round(min(step_seconds) * 1e3, 3), "steps": len(step_seconds)}


def print_report(**fields):
    fields["python"] = platform.python_version()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    fields["peak_rss_bytes"] = usage.ru_maxrss * 1024
    fields["system_seconds"] = round(usage.ru_stime, 2)
    print(json.dumps(fields), flush=True)
