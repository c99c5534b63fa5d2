"""The short test of `make check`, which needs no pytest: python3 quick.py. Ends with 77 without NumPy."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

try:
    import numpy as np
except ImportError:
    print("skipped: NumPy is not installed for", sys.executable)
    sys.exit(77)

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
import pipetrain  # noqa: E402
import shards  # noqa: E402


def gives_every_record_once(pattern: str) -> None:
    with pipetrain.Loader(pattern, batch=16, size=shards.SIDE, crop="none", flip=False) as loader:
        seen = []
        for batch in loader.batches():
            for image, label, number in zip(batch.images, batch.labels, batch.ids):
                assert np.array_equal(image, shards.image_of(number)) and label == shards.label_of(number)
            seen += batch.ids.tolist()
        assert sorted(seen) == list(range(60)) and len(loader) == 4


def continues_in_the_middle_with_other_ranks(pattern: str) -> None:
    with pipetrain.Loader(pattern, batch=16, size=6, crop="resized", flip=True) as loader:
        batches = iter(loader)
        next(batches)
        state = loader.state_dict()
        expected = [images.copy() for images, _ in batches]
    shares = []
    for rank in range(2):
        with pipetrain.Loader(pattern, batch=16, size=6, crop="resized", flip=True, rank=rank, world=2) as loader:
            loader.load_state_dict(state)
            shares.append([images.copy() for images, _ in loader])
    assert len(expected) == 3
    assert all(np.array_equal(np.concatenate(parts), whole) for *parts, whole in zip(*shares, expected))


def gives_batches_back(pattern: str) -> None:
    with pipetrain.Loader(pattern, batch=16, size=8, depth=2) as loader:
        kept = []
        try:
            for images, _ in loader:
                kept.append(images[1:2])
            raise AssertionError("no BatchesLentError")
        except pipetrain.BatchesLentError:
            assert len(kept) == 2
        del images
        kept.clear()
        assert loader.stats().lent == 0
        assert sum(1 for _ in loader) == 4


def refuses_in_words(pattern: str) -> None:
    for options, words in (({"crpo": "none"}, "did you mean crop"), ({"batch": 0}, "batch"), ({"crop": "up"}, "crop")):
        try:
            pipetrain.Loader(pattern, **{"batch": 4, **options})
            raise AssertionError(f"{options} were taken")
        except pipetrain.OptionError as error:
            assert words in str(error), error
    try:
        pipetrain.Loader(f"{pattern}-missing", batch=4)
        raise AssertionError("missing shards were taken")
    except pipetrain.DataError as error:
        assert "-missing" in str(error), error


def ends_at_a_keyboard_interrupt(pattern: str) -> None:
    with pipetrain.Loader(pattern, batch=16, size=8, depth=2) as loader:
        batches = iter(loader)
        kept = [next(batches), next(batches)]

        def interrupt() -> None:
            while not loader._lock.locked():    # until the main thread takes
                time.sleep(0.001)
            os.kill(os.getpid(), signal.SIGINT)

        try:
            threading.Thread(target=interrupt).start()
            next(batches)
            raise AssertionError("no KeyboardInterrupt")
        except KeyboardInterrupt:
            assert kept is not None


def is_refused_after_a_fork(pattern: str) -> None:
    with pipetrain.Loader(pattern, batch=16, size=8) as loader:
        child = os.fork()
        if child == 0:
            try:
                next(iter(loader))
            except pipetrain.ForkedError:
                os._exit(0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="pipetrain-python.") as folder:
        shards.make_set(Path(folder), records=60, shards=2)
        for check in (
            gives_every_record_once,
            continues_in_the_middle_with_other_ranks,
            gives_batches_back,
            refuses_in_words,
            ends_at_a_keyboard_interrupt,
            is_refused_after_a_fork,
        ):
            begun = time.monotonic()
            check(f"{folder}/train-*")
            print(f"{time.monotonic() - begun:5.2f} s  {check.__name__.replace('_', ' ')}", flush=True)


if __name__ == "__main__":
    main()
