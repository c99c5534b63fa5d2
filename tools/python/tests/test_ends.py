"""Ends that nobody planned: signals, forks, exceptions, threads, the interpreter's own end. Nothing hangs or aborts."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Callable

import pytest

import pipetrain
import shards

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def open_small(small_set: Path, **options: Any) -> pipetrain.Loader:
    return pipetrain.Loader(small_set / "train-*", **{"batch": 16, "size": shards.SIDE, **options})


def expect_clean(result: subprocess.CompletedProcess[str], output: str = "") -> None:
    assert (result.returncode, result.stderr) == (0, ""), result.stderr
    assert output in result.stdout


# ---- close ----


def test_everything_after_close_says_so(small_set: Path) -> None:
    loader = open_small(small_set)
    batches = iter(loader)
    next(batches)
    loader.close()
    loader.close()
    for call in (lambda: next(batches), loader.state_dict, loader.stats, lambda: list(loader), loader.class_counts):
        with pytest.raises((pipetrain.ClosedError, pipetrain.OptionError), match="closed|how many classes"):
            call()


def test_close_ends_a_take_of_another_thread(small_set: Path) -> None:
    loader = open_small(small_set, depth=2)
    batches = iter(loader)
    kept = [next(batches), next(batches)]
    raised: list[BaseException] = []

    def take() -> None:
        try:
            next(batches)
        except pipetrain.Error as error:
            raised.append(error)

    thread = threading.Thread(target=take)
    thread.start()
    loader.close()
    thread.join(20)
    assert not thread.is_alive() and isinstance(raised[0], pipetrain.ClosedError) and kept is not None


def test_a_dropped_loader_ends_its_threads(small_set: Path) -> None:
    before = len(os.listdir("/proc/self/task"))
    for _ in range(5):
        for _ in open_small(small_set):
            break
    assert len(os.listdir("/proc/self/task")) <= before


def test_an_exception_in_the_loop_leaves_the_loader_usable(small_set: Path) -> None:
    with open_small(small_set, depth=2) as loader:
        for _ in range(5):
            with pytest.raises(ZeroDivisionError):
                for images, _ in loader:
                    _ = len(images) / 0
        del images
        assert sum(1 for _ in loader) == 7


def openings(small_set: Path, count: int) -> None:
    for number in range(count):
        loader = open_small(small_set, threads=1)
        if number % 2:
            next(iter(loader))
        if number % 3:
            loader.close()


def resources() -> tuple[int, int, int]:
    """Resident bytes, open files, threads."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE"), len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))


def test_openings_leave_nothing_behind(small_set: Path) -> None:
    is_long = os.environ.get("PIPETRAIN_TEST_LONG") == "yes"
    openings(small_set, 50)
    before = resources()
    openings(small_set, 10_000 if is_long else 200)
    after = resources()
    assert after[1:] == before[1:]
    assert after[0] - before[0] < (4 << 20)


# ---- signals ----


SLOW = """
import signal
loader = pipetrain.Loader(small_set, batch=16, size=8, depth=2)
batches = iter(loader)
kept = [next(batches), next(batches)]
times = []
def interrupt():
    while not loader._lock.locked():        # until the main thread takes
        time.sleep(0.001)
    time.sleep(0.05)
    times.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
try:
    threading.Thread(target=interrupt).start()
    next(batches)
except KeyboardInterrupt:
    taken = time.monotonic() - times[0]
    assert taken < 0.2 * float(os.environ["PIPETRAIN_TEST_SLOWNESS"]), taken
    print("interrupted")
del kept
print(sum(1 for _ in batches))
"""


def test_a_keyboard_interrupt_ends_a_take_and_loses_no_batch(run_script: Run) -> None:
    result = run_script(SLOW, PIPETRAIN_TEST_SLOWNESS="5")
    expect_clean(result, "interrupted\n5")


AT_RANDOM = """
import signal, random
random.seed(int(sys.argv[1]))
loader = pipetrain.Loader(small_set, batch=16, size=8, depth=3, epochs=40)
is_armed, is_done = False, threading.Event()
def interrupt(number, frame):
    global is_armed
    if is_armed:
        is_armed = False
        raise KeyboardInterrupt
signal.signal(signal.SIGINT, interrupt)
def send():
    while not is_done.wait(random.random() / 200):
        os.kill(os.getpid(), signal.SIGINT)
thread = threading.Thread(target=send)
thread.start()
steps, count, batches, batch = [], 0, None, None
while loader.position != (39, 7):
    try:
        is_armed = True
        if batches is None:
            batches = loader.batches()
        for batch in batches:
            steps.append(batch.step)
            batch = None
        batches = None
        is_armed = False
    except KeyboardInterrupt:
        count += 1
    batch = None
is_done.set()
thread.join()
assert count > 0 and len(steps) == len(set(steps)), (count, steps)
assert loader.stats().lent == 0
print("all")
"""


def test_interrupts_at_any_moment_lend_no_batch_for_ever(run_script: Run) -> None:
    for seed in ("1", "2"):
        result = run_script(AT_RANDOM, seed)
        assert result.returncode == 0 and "all" in result.stdout, result.stderr


def test_a_keyboard_interrupt_ends_a_long_call_of_the_library(run_script: Run) -> None:
    result = run_script("""
import signal
from pipetrain._loader import _in_thread
is_unwanted = threading.Event()
def call():
    os.kill(os.getpid(), signal.SIGINT)
    return int(is_unwanted.wait(30))
try:
    _in_thread(call, is_unwanted.set)
except KeyboardInterrupt:
    print("interrupted", is_unwanted.is_set())
""")
    expect_clean(result, "interrupted True")


# ---- processes ----


def test_a_forked_child_is_told_so_and_can_open_its_own(run_script: Run) -> None:
    result = run_script("""
import warnings
warnings.simplefilter("ignore", DeprecationWarning)
loader = pipetrain.Loader(small_set, batch=16, size=8)
batches = iter(loader)
images, labels = next(batches)
child = os.fork()
if child == 0:
    load = lambda: loader.load_state_dict({"state": ""})
    for call in (lambda: next(batches), lambda: list(loader), loader.state_dict, loader.stats, load):
        try:
            call()
            os._exit(1)
        except pipetrain.ForkedError as error:
            assert "num_workers=0" in str(error)
    del images, labels
    loader.close()
    own = pipetrain.Loader(small_set, batch=16, size=8)
    assert sum(1 for _ in own) == 7
    own.close()
    del loader, batches
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
print(1 + sum(1 for _ in batches))
""")
    expect_clean(result, "7")


def _take_in_worker(loader: Any) -> str:
    try:
        return str(next(iter(loader)))
    except pipetrain.ForkedError as error:
        return str(error)


def test_workers_of_multiprocessing_are_told_so(small_set: Path) -> None:
    with open_small(small_set) as loader:
        queue: Any = multiprocessing.get_context("fork").SimpleQueue()
        worker = multiprocessing.get_context("fork").Process(target=lambda: queue.put(_take_in_worker(loader)))
        worker.start()
        assert "opened by the parent" in queue.get()
        worker.join()
        assert worker.exitcode == 0 and sum(1 for _ in loader) == 7


def test_a_fork_while_another_thread_takes_does_not_hang_the_child(run_script: Run) -> None:
    result = run_script("""
import warnings
warnings.simplefilter("ignore", DeprecationWarning)
loader = pipetrain.Loader(small_set, batch=16, size=8, depth=2)
batches = iter(loader)
kept = [next(batches), next(batches)]
def take():
    try:
        next(batches)
    except pipetrain.Error:
        pass
thread = threading.Thread(target=take)
thread.start()
time.sleep(0.05)
child = os.fork()
if child == 0:
    import signal
    signal.alarm(20)
    try:
        next(batches)
    except pipetrain.ForkedError:
        os._exit(0)
    os._exit(1)
assert os.waitpid(child, 0)[1] == 0
thread.join()
print("alive")
""")
    expect_clean(result, "alive")


def test_a_loader_cannot_be_pickled(small_set: Path) -> None:
    import pickle

    with open_small(small_set) as loader, pytest.raises(TypeError, match="num_workers=0"):
        pickle.dumps(loader)


# ---- the end of the interpreter ----

MOMENTS = {
    "before the first batch": "loader = open_small()",
    "with a batch": "loader = open_small()\nimages, labels = next(iter(loader))",
    "with all batches": "loader = open_small(depth=2)\nit = iter(loader)\nkept = [next(it), next(it)]",
    "in a loop": "for images, labels in open_small():\n    sys.exit(0)",
    "after close": "loader = open_small()\nkept = next(iter(loader))\nloader.close()",
    "in a cycle": "class Cycle: pass\ncycle = Cycle()\ncycle.own = cycle\ncycle.loader = open_small()\n"
                  "cycle.batch = next(iter(cycle.loader))",
    "in a module": "import types\nmodule = sys.modules['kept'] = types.ModuleType('kept')\n"
                   "module.loader = open_small()\nmodule.batch = next(iter(module.loader))",
    "in a handler": "import atexit\nloader = open_small()\nit = iter(loader)\nnext(it)\n"
                    "atexit.register(lambda: print(next(it)[0].shape))",
    "in a thread": "loader = open_small()\n"
                   "def loop():\n    while True:\n        for batch in loader: pass\n"
                   "threading.Thread(target=loop, daemon=True).start()\ntime.sleep(0.05)",
    "in several threads": "loaders = [open_small() for _ in range(3)]\n"
                          "def loop(loader):\n    while True:\n        for batch in loader: kept = [batch]\n"
                          "for loader in loaders: threading.Thread(target=loop, args=(loader,), daemon=True).start()\n"
                          "time.sleep(0.02)",
}  # fmt: skip


OPEN_SMALL = "def open_small(**options):\n    return pipetrain.Loader(small_set, batch=16, size=8, **options)\n"


@pytest.mark.parametrize("moment", MOMENTS)
def test_the_interpreter_ends_well(run_script: Run, moment: str) -> None:
    result = run_script(OPEN_SMALL + MOMENTS[moment], timeout=60)
    assert result.returncode == 0, (result.returncode, result.stderr)
    if "thread" not in moment:
        assert result.stderr == ""


def test_an_uncaught_interrupt_ends_the_program_as_any_other(run_script: Run) -> None:
    result = run_script("""
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
loader = pipetrain.Loader(small_set, batch=16, size=8)
threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
while True:
    for images, labels in loader:
        pass
""")
    assert result.returncode == -signal.SIGINT and result.stderr.rstrip().endswith("KeyboardInterrupt")
