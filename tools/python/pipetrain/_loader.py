"""Loader: batches of the library as arrays, epoch by epoch."""

from __future__ import annotations

import _thread
import atexit
import ctypes
import functools
import gc
import operator
import os
import sys
import textwrap
import threading
import time
import warnings
import weakref
from ctypes import byref
from typing import Any, Callable, Iterator, List, Mapping, NamedTuple, NoReturn, Optional, Sequence, Tuple, Union

import numpy as np
import numpy.typing as npt

from . import _library as lib
from ._errors import Error, LoaderWarning, OptionError, StateError
from ._library import library
from ._memory import Block, Lender, PinnedLender, free_with, pinned_callbacks, view
from ._options import describe_options, settings_text
from ._pinned import PinnedMemory, pinned_memory

_WAIT_NS = 100_000_000          # of a take, between which signals are looked at
_WAIT_FENCED_NS = 1_000_000     # while copies from pinned memory run
_MESSAGES_SECONDS = 0.1         # how often messages are looked for while batches are taken
_LENT_SECONDS = 1.0             # how long all batches may be lent before that is an error
_MESSAGE_BYTES = 65537
_MIX_BYTES = ctypes.sizeof(lib.Mix)

_Path = Union[str, "os.PathLike[str]"]
_Position = Tuple[int, int]     # epoch, step of the epoch
_Place = Tuple[int, int]        # rank, number of ranks


class Array:
    """An array of output="dlpack", for `from_dlpack` of any framework: jax.numpy.from_dlpack(images). Nothing is
    copied; the memory is given back to the loader when the framework drops it.

    Attributes:
        shape: the sizes, as in images of [N, H, W, C].
        dtype: the NumPy type of the elements.
    """

    __slots__ = ("_array",)

    def __init__(self, array: npt.NDArray[Any]) -> None:
        self._array = array

    @property
    def shape(self) -> Tuple[int, ...]:
        return self._array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._array.dtype

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> Tuple[int, int]:
        return self._array.__dlpack_device__()

    def __repr__(self) -> str:
        return f"pipetrain.Array(shape={self.shape}, dtype={self.dtype})"


class Mixes(NamedTuple):
    """How the samples of a batch are to be mixed, by mixup or CutMix; the images are not mixed yet. Partners are
    samples 2k and 2k + 1. Where the box is empty, every pixel becomes share * own + (1 - share) * partner's; else the
    pixels in the box become the partner's. The loss is share * loss(own label) + (1 - share) * loss(partner's label).
    Share 1: not mixed.

    Attributes:
        share: float32 [N].
        box: int32 [N, 4]: top, left, bottom, right; rows top <= y < bottom, columns left <= x < right.
    """

    share: Any
    box: Any


class Batch(NamedTuple):
    """A batch with all that is known of it, as Loader.batches() gives it. Images, labels and mixes are of the loader's
    kind of output.

    Attributes:
        images: uint8 [N, H, W, C], a view of the loader's memory; None with decode=False.
        labels: int64 [N]; -1 for a damaged record that an evaluation leaves out. None with decode=False.
        ids: numpy.ndarray int64 [N]: numbers of the records in the data set, in the order in which they are stored.
        mixes: Mixes; None unless mixup or cutmix is on and train is true.
        records: with decode=False the stored records, a list of N memoryviews, with None for a damaged record that an
            evaluation leaves out; else None.
        epoch, step_of_epoch, step: from 0; `step` counts over all epochs.
        global_count: samples of the step over all ranks.
        is_last_of_epoch: whether the epoch ends with this batch.
    """

    images: Any
    labels: Any
    ids: Any
    mixes: Optional[Mixes]
    records: Optional[List[Optional[memoryview]]]
    epoch: int
    step_of_epoch: int
    step: int
    global_count: int
    is_last_of_epoch: bool


class Stats(NamedTuple):
    """What happened since the loader was opened.

    Attributes:
        open_seconds: how long it has been open.
        batches, samples: handed out.
        waited_seconds: how long the program waited for batches.
        read_bytes: of shards.
        damaged_records: left out, with on_corrupt="skip".
        decoder_warnings: images that were decoded although the decoder warned.
        read_busy, decode_busy: share of their time in which the threads that read and that decode worked, 0 to 1, since
            the first batch was asked for.
        ready, lent: batches that are ready now, and that are used by arrays now.
        limit: a sentence that says what limits the speed and which option to change; "" before there were enough
            batches.
    """

    open_seconds: float
    batches: int
    samples: int
    waited_seconds: float
    read_bytes: int
    damaged_records: int
    decoder_warnings: int
    read_busy: float
    decode_busy: float
    ready: int
    lent: int
    limit: str


class Damage(NamedTuple):
    """A damaged record that was left out: the path of its shard, its number there from 0, and what is wrong."""

    file: str
    record: Optional[int]
    message: str


# ---- options ----


def _integer(name: str, value: Any, least: int, most: int) -> int:
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None:
        raise OptionError(f"{name} is a whole number, not {value!r}")
    if not least <= number <= most:
        raise OptionError(f"{name} is a number from {least} to {most}, not {number}")
    return number


def _flag(name: str, value: Any) -> bool:
    if isinstance(value, (int, np.bool_)) and value in (0, 1):
        return bool(value)
    raise OptionError(f"{name} is True or False, not {value!r}")


def _channels(channels: Any) -> int:
    number = _integer("channels", channels, 0, 2**32 - 1)
    if number not in (1, 3):
        raise OptionError(f"channels is 1 or 3, not {number}")
    return number


def _size(size: Union[int, Sequence[int]]) -> Tuple[int, int]:
    pair = tuple(size) if isinstance(size, (tuple, list)) else (size, size)
    if len(pair) != 2:
        raise OptionError(f"size is a number of pixels or (height, width), not {size!r}")
    return _integer("size", pair[0], 1, 2**32 - 1), _integer("size", pair[1], 1, 2**32 - 1)


def _shards(shards: Union[_Path, Sequence[_Path]]) -> bytes:
    try:
        if isinstance(shards, (str, bytes)):
            text = os.fsencode(shards)
        else:   # a comma in a path is a part of its name
            paths: Sequence[Any] = shards if isinstance(shards, (list, tuple)) else [shards]
            text = b",".join(os.fsencode(path).replace(b",", b"\\,") for path in paths)
    except (TypeError, UnicodeEncodeError):
        raise OptionError(f"shards is a path or pattern, or a list of them, not {shards!r}") from None
    if b"\0" in text:
        raise OptionError("shards: a path has no zero bytes")
    return text


def _distributed_place() -> Optional[_Place]:
    """This process's rank and the number of ranks in torch.distributed; None if that is not initialised."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return None


def _refuse_worker() -> None:
    """Refuse to open a loader in each worker of a DataLoader: each would give all records."""
    data = sys.modules.get("torch.utils.data")
    worker = data.get_worker_info() if data is not None else None
    if worker is not None:
        raise OptionError(
            f"this is worker {worker.id} of {worker.num_workers} of a DataLoader, and the loader of each would give "
            "all records: use num_workers=0, as the library decodes with threads, or give rank and world"
        )


def _place(rank: Optional[int], world: Optional[int]) -> _Place:
    """As given, or torch.distributed's when it is initialised."""
    if (rank is None) != (world is None):
        raise OptionError("rank and world are given together, or both left out")
    if rank is not None:
        count = _integer("world", world, 1, 2**32 - 1)
        return _integer("rank", rank, 0, count - 1), count
    _refuse_worker()
    return _distributed_place() or (0, 1)


def _threads(threads: Optional[int]) -> int:
    """As given, or with torchrun this rank's share of the cores if the ranks of a host are not bound to some; else 0,
    for the library's default."""
    if threads is not None:
        return _integer("threads", threads, 1, 2**32 - 1)
    ranks = os.environ.get("LOCAL_WORLD_SIZE", "")
    cores = len(os.sched_getaffinity(0))
    if not ranks.isdecimal() or int(ranks) < 2 or cores < (os.cpu_count() or 1):
        return 0
    return max(1, cores // int(ranks))


def _converter(output: str) -> Callable[[npt.NDArray[Any]], Any]:
    if output == "numpy":
        return lambda array: array
    if output == "dlpack":
        return Array
    if output != "torch":
        raise OptionError(f'output is "numpy", "torch" or "dlpack", not {output!r}')
    try:
        import torch
    except ImportError as error:
        raise OptionError(f'output="torch" needs PyTorch, which cannot be imported: {error}') from None
    from_numpy: Callable[[npt.NDArray[Any]], Any] = torch.from_numpy
    return from_numpy


# ---- opening ----


def _in_thread(call: Callable[[], int], stop: Callable[[], None]) -> int:
    """Make a long call of the library in a way that KeyboardInterrupt can end."""
    if threading.current_thread() is not threading.main_thread():
        return call()
    results: List[int] = []
    is_over = threading.Event()

    def run() -> None:
        results.append(call())
        is_over.set()

    # Not threading.Thread, whose start waits and so can be interrupted itself.
    _thread.start_new_thread(run, ())
    try:
        while not is_over.wait(0.1):
            pass
    except BaseException:
        stop()
        is_over.wait()
        raise
    return results[0]


def _open(options: lib.Options) -> int:
    feed, problem, is_unwanted = ctypes.c_void_p(), lib.Problem(), ctypes.c_bool(False)
    options.is_unwanted = ctypes.pointer(is_unwanted)

    def stop() -> None:
        is_unwanted.value = True

    try:
        result = _in_thread(lambda: int(library.pipetrain_feed_open(byref(feed), byref(options), byref(problem))), stop)
    except BaseException:
        library.pipetrain_feed_free(feed)
        raise
    if result != lib.OK or feed.value is None:
        lib.fail(result, problem)
    return feed.value


_open_loaders: weakref.WeakSet[Loader] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Threads of the library end before the interpreter does."""
    for loader in list(_open_loaders):
        loader._close()


# ---- batches ----


class _Slot(NamedTuple):
    """What does not change where batches are in the same memory: views of what is copied out of it."""

    labels: Optional[npt.NDArray[Any]]
    ids: npt.NDArray[Any]
    mixes: Optional[npt.NDArray[Any]]


class _Epoch:
    """Iterates over the rest of an epoch. Threads may share it: each batch goes to one of them."""

    __slots__ = ("_loader", "_pack", "number", "is_over")

    def __init__(self, loader: Loader, pack: Callable[[Batch], Any], number: int) -> None:
        self._loader = loader
        self._pack = pack
        self.number = number
        self.is_over = False

    def __iter__(self) -> _Epoch:
        return self

    def __next__(self) -> Any:
        return self._pack(self._loader._next(self))


def _pack_images(batch: Batch) -> Tuple[Any, ...]:
    if batch.mixes is None:
        return batch.images, batch.labels
    return batch.images, batch.labels, batch.mixes


def _pack_records(batch: Batch) -> Tuple[Any, ...]:
    return batch.records, batch.ids


def _pack_all(batch: Batch) -> Batch:
    return batch


class Loader:
    """Batches of the images in TFRecord shards, shuffled, decoded and augmented by threads of a C library.

        loader = pipetrain.Loader("shards/train-*", batch=256, size=224, crop="resized", flip=True, output="torch")
        for epoch in range(90):
            for images, labels in loader:
                ...

    Each `for` gives the rest of an epoch: images as uint8 [N, height, width, channels], labels as int64 [N]. A `for`
    that is left early is not continued: the next one begins the next epoch. After load_state_dict the next `for`
    continues in the middle of the epoch. Every epoch has another order, which is a function of the data, the options
    and the seed alone, so that numbers of threads and of ranks change nothing.

    Images are views of the loader's memory, without a copy. Their memory is filled again after the last array, tensor
    or slice that uses it is gone, so do not collect them: BatchesLentError is raised when all `depth` batches are in
    use. Labels and ids are copies. Several loaders can be open at once, and several threads may share one iterator.

    Args:
        shards: a path, a pattern or a folder of shards, or a list of them.
        batch: samples of a step over all ranks together. Each rank gets its share of them.
        size: (height, width) of the images in pixels, or one number for both.
        channels: 1 or 3.
        train: True: shuffled and augmented. False: every record once, as stored, with the crop of `evaluation`.
        seed: of the order and of the augmentation.
        epochs: after so many the loader is at its end, and a `for` gives nothing; None: without end.
        rank, world: the number of this process, and how many there are. None: torch.distributed's, if that is
            initialised when the loader is opened, else 0 and 1; iterating over a loader that was opened too early is an
            error. An epoch has as many steps for all ranks; in its last step the share of a rank may be smaller, even
            empty, unless drop_last is given.
        threads: that decode. None: one for each core, or with torchrun this rank's share of the cores.
        depth: batches that exist, those in use included; at least 2, as a `for` has one while it waits for the next.
            None: 4.
        drop_last: leave out the last step of an epoch if it is smaller; without effect with train=False.
        pin: batches in pinned memory, for images.to("cuda", non_blocking=True); their memory is filled again only when
            the copies from it have ended. Needs a GPU.
        decode: False: the records as they are stored, instead of images: `for records, ids in loader` with a list of N
            memoryviews, and int64 [N].
        output: "numpy": numpy.ndarray. "torch": torch.Tensor. "dlpack": pipetrain.Array, for jax.numpy.from_dlpack and
            others.
        **options: the options below, as crop="resized". Where a name is in several sections, write it with its section:
            **{"augment.crop": "resized"}.

    With mixup or cutmix the loader gives (images, labels, mixes): the images are mixed by you, on their device
    (pipetrain.Mixes, pipetrain.torch.mix).

    Raises:
        OptionError: an option is wrong, or does not go with the others or with the data.
        DataError: shards are missing, unreadable or damaged; `file` and `record` name the damaged record.
        OutOfMemoryError: memory is short, or an image needs too much of it.
        All of them, and what iterating raises, are pipetrain.Error. Warnings are pipetrain.LoaderWarning.
    """

    def __init__(
        self,
        shards: Union[_Path, Sequence[_Path]],
        batch: int,
        size: Union[int, Sequence[int]] = (224, 224),
        channels: int = 3,
        train: bool = True,
        seed: int = 1,
        epochs: Optional[int] = None,
        rank: Optional[int] = None,
        world: Optional[int] = None,
        threads: Optional[int] = None,
        depth: Optional[int] = None,
        drop_last: bool = False,
        pin: bool = False,
        decode: bool = True,
        output: str = "numpy",
        **options: Any,
    ) -> None:
        self._convert = _converter(output)
        height, width = _size(size)
        place = _place(rank, world)
        self._is_placed = rank is not None
        memory = pinned_memory() if _flag("pin", pin) else None
        # The library calls them as long as there are batches, so they live as long as the module that keeps them.
        callbacks = _callbacks(memory)
        feed = _open(
            lib.Options(
                ctypes.sizeof(lib.Options), _shards(shards), os.fsencode(settings_text(options, _OWN_NAMES)),
                height, width, _channels(channels), _integer("batch", batch, 1, 2**32 - 1), *place,
                0 if depth is None else _integer("depth", depth, 2, 2**32 - 1), _threads(threads),
                0 if epochs is None else _integer("epochs", epochs, 1, 2**64 - 1), _integer("seed", seed, 0, 2**64 - 1),
                not _flag("train", train), not _flag("decode", decode), _flag("drop_last", drop_last), *callbacks,
            )
        )  # fmt: skip
        free_with(self, feed)
        self._feed = feed
        self._process = os.getpid()
        self._lender = Lender(feed) if memory is None else PinnedLender(feed, memory)
        self._info = lib.new(lib.Info)
        self._check(library.pipetrain_feed_info(feed, byref(self._info)))
        self._image_shape = (self._info.height, self._info.width, self._info.channels)
        self._pack = _pack_images if decode else _pack_records
        # One thread takes at a time; it has these.
        self._lock = threading.Lock()
        self._raw = lib.new(lib.Batch)
        self._raw_reference = byref(self._raw)
        self._problem = lib.Problem()
        self._problem_reference = byref(self._problem)
        self._take_call = functools.partial(library.pipetrain_feed_take, feed)
        self._messages = ctypes.create_string_buffer(_MESSAGE_BYTES)
        self._messages_due = 0.0
        self._slots: dict[int, _Slot] = {}
        # Behind the last batch that was handed out.
        self._position: _Position = (0, 0)
        self._iterators = 0             # the number of the latest one, which alone may take
        self._is_begun = False          # an iterator has handed out batches of this epoch, but not the last one
        self._is_astray = False         # an exception has lost a batch that the library handed out
        _open_loaders.add(self)
        self._warn(3)

    # ---- iteration ----

    def __iter__(self) -> Iterator[Tuple[Any, ...]]:
        """The rest of this epoch, or the next epoch after one that was left early: tuples (images, labels), with mixup
        or cutmix (images, labels, mixes), with decode=False (records, ids)."""
        return self._iterate(self._pack)

    def batches(self) -> Iterator[Batch]:
        """The same, as pipetrain.Batch: with ids, epoch and step."""
        return self._iterate(_pack_all)

    def __len__(self) -> int:
        """Steps of an epoch; the same for all ranks."""
        return int(self._info.steps_per_epoch)

    def _iterate(self, pack: Callable[[Batch], Any]) -> _Epoch:
        self._check_process()
        self._check_place()
        with self._lock:
            if self._is_begun:
                self._seek(self._end_of_epoch())
            self._iterators += 1
            return _Epoch(self, pack, self._iterators)

    def _next(self, iterator: _Epoch) -> Batch:
        self._check_process()
        with self._lock:
            if iterator.is_over:
                self._warn(4)
                raise StopIteration
            if iterator.number != self._iterators:
                raise Error(
                    "this iterator is over: since it was made, another one was made of the same loader, or "
                    "load_state_dict was called. Threads can share one iterator; for two orders side by side open two "
                    "loaders"
                )
            if time.monotonic() >= self._messages_due:
                self._warn(4)
            if self._is_astray:
                self._seek(self._position)
            batch = self._take()
            if batch is None:
                iterator.is_over = True
                raise StopIteration
            if batch.is_last_of_epoch:
                iterator.is_over = True
            return batch

    def _take(self) -> Optional[Batch]:
        """The next batch; None at the end of the last epoch."""
        raw = self._raw
        raw.handle = 0
        try:
            result = self._wait()
            batch = self._wrap(raw) if result == lib.OK else None
        except BaseException:
            # If it was lent already, this does nothing, or only what the end of its arrays does.
            if raw.handle != 0:
                self._lender.give_back(raw.handle)
            self._is_astray = True
            raise
        if batch is not None:
            self._position = (batch.epoch, batch.step_of_epoch + 1)
            self._is_begun = not batch.is_last_of_epoch
        elif result != lib.END:
            self._fail(result, self._problem)
        return batch

    def _wait(self) -> int:
        """Take, in pieces between which Python handles signals."""
        limit_ns, lent_since = _WAIT_NS, 0.0
        while True:
            is_fenced = self._lender.reclaim()
            limit_ns = _WAIT_FENCED_NS if is_fenced else _WAIT_NS
            result: int = self._take_call(limit_ns, self._raw_reference, self._problem_reference)
            if result == lib.LENT and not is_fenced:
                # Cycles of garbage may have arrays in them, and another thread may be about to drop some.
                if lent_since == 0:
                    gc.collect()
                    lent_since = time.monotonic()
                elif time.monotonic() - lent_since > _LENT_SECONDS:
                    return result
            elif result not in (lib.TIME, lib.LENT):
                return result

    def _wrap(self, raw: lib.Batch) -> Batch:
        count = raw.count
        slot = self._slots.get(raw.ids) or self._new_slot(raw)
        images = labels = mixes = records = None
        if slot.labels is not None:
            block = Block(raw.images, (count, *self._image_shape), "|u1")
            self._lender.lend(block, raw.images, raw.handle)
            images = self._convert(np.asarray(block))
            labels = self._convert(slot.labels[:count].copy())
            if slot.mixes is not None:
                mixes = self._mixes(slot.mixes[:count])
        else:
            records = self._records(raw)
        ids = slot.ids[:count].copy()
        return Batch(images, labels, ids, mixes, records, raw.epoch, raw.step_of_epoch, raw.step, raw.global_count,
                     raw.is_last_of_epoch)  # fmt: skip

    def _new_slot(self, raw: lib.Batch) -> _Slot:
        shape = (self._info.count_max,)
        slot = self._slots[raw.ids] = _Slot(
            view(raw.labels, shape, "<i8") if raw.labels else None,
            view(raw.ids, shape, "<i8"),
            view(raw.mixes, (*shape, _MIX_BYTES // 4), "<i4") if raw.mixes else None,
        )
        return slot

    def _mixes(self, rows: npt.NDArray[Any]) -> Mixes:
        share = rows[:, 0].view(np.float32).copy()
        return Mixes(self._convert(share), self._convert(rows[:, 1:].copy()))

    def _records(self, raw: lib.Batch) -> List[Optional[memoryview]]:
        """Memoryviews of the records, all of which keep the batch."""
        rows = view(raw.records, (raw.count, 2), "<u8").tolist() if raw.count else []
        stored = [row for row in rows if row[0]]
        if not stored:
            self._lender.give_back(raw.handle)
            return [None] * raw.count
        # One array from the first byte of a record to the last one of any; what is between records is never touched.
        first = min(address for address, _ in stored)
        block = Block(first, (max(address + size for address, size in stored) - first,), "|u1", is_fixed=True)
        self._lender.lend(block, raw.records, raw.handle)
        whole = memoryview(np.asarray(block))  # type: ignore[arg-type, unused-ignore]
        return [whole[address - first : address - first + size] if address else None for address, size in rows]

    # ---- position ----

    def state_dict(self) -> dict[str, Any]:
        """The position behind the last batch that was handed out, for load_state_dict of a loader of the same data,
        order and batch, with any world, threads and depth. Plain numbers and texts: `epoch` and `step` (of the epoch),
        `seed`, `fingerprint` of the data set, and `state`, which is what load_state_dict reads."""
        self._check_process()
        epoch, step = self._position
        state, size = ctypes.create_string_buffer(lib.STATE_BYTES), ctypes.c_size_t()
        problem = lib.Problem()
        self._check(library.pipetrain_feed_state(self._feed, epoch, step, state, byref(size), byref(problem)), problem)
        return {"epoch": epoch, "step": step, "seed": self.seed, "fingerprint": self.fingerprint,
                "state": state.raw[: size.value].decode()}  # fmt: skip

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go to a position: the next `for` continues there. StateError, with the loader where it was, if the state is
        of another data set, order, seed or batch."""
        self._check_process()
        state = state_dict.get("state") if isinstance(state_dict, Mapping) else None
        if not isinstance(state, str):
            raise StateError("this is no state of a pipetrain.Loader: it has no text 'state'")
        text, problem = state.encode("utf-8", "replace"), lib.Problem()
        epoch, step = ctypes.c_uint64(), ctypes.c_uint64()
        with self._lock:
            self._check(library.pipetrain_feed_seek(self._feed, text, len(text), byref(problem)), problem)
            self._check(library.pipetrain_feed_position(self._feed, byref(epoch), byref(step)))
            self._moved((epoch.value, step.value))
            self._iterators += 1

    @property
    def position(self) -> Tuple[int, int]:
        """(epoch, step of the epoch) behind the last batch that was handed out, from 0."""
        return self._position

    def _end_of_epoch(self) -> _Position:
        return self._position[0], len(self)

    def _seek(self, position: _Position) -> None:
        problem = lib.Problem()
        self._check(library.pipetrain_feed_seek_to(self._feed, *position, byref(problem)), problem)
        self._moved(position)

    def _moved(self, position: _Position) -> None:
        self._position = position
        self._is_begun = self._is_astray = False
        self._slots.clear()

    # ---- facts ----

    records = property(lambda self: int(self._info.records), doc="Records of the data set.")
    rank = property(lambda self: int(self._info.rank), doc="The number of this process.")
    world = property(lambda self: int(self._info.world), doc="How many processes share the batches.")
    batch = property(lambda self: int(self._info.batch), doc="Samples of a step over all ranks.")
    seed = property(lambda self: int(self._info.seed), doc="The seed of order and augmentation.")
    depth = property(lambda self: int(self._info.depth), doc="Batches that exist.")
    threads = property(lambda self: int(self._info.threads), doc="Threads that decode.")
    fingerprint = property(lambda self: f"{self._info.fingerprint:016x}", doc="Of the data set's shards, as a text.")
    epoch_bytes = property(
        lambda self: int(self._info.epoch_bytes),
        doc="About the bytes of shards that this rank reads in an epoch, where they are not kept in memory.",
    )
    classes = property(lambda self: int(self._info.classes), doc="Classes that the data set describes; 0: unknown.")

    @property
    def class_names(self) -> Optional[List[str]]:
        """The names of the classes; None if the data set has none."""
        name = ctypes.create_string_buffer(4096)
        names: List[str] = []
        for number in range(self._info.named_classes):
            self._check(library.pipetrain_feed_class_name(self._feed, number, name, len(name)))
            names.append(name.value.decode("utf-8", "replace"))
        return names or None

    def class_counts(self, classes: Optional[int] = None) -> npt.NDArray[np.int64]:
        """Records of each class: int64 [classes]. Reads the labels of the whole set once.

        Args:
            classes: how many there are; None: as the data set describes. Records of further classes are left out.
        """
        self._check_process()
        count = self.classes if classes is None else _integer("classes", classes, 1, 2**31)
        if count == 0:
            raise OptionError("the data set does not say how many classes it has: give class_counts the number")
        counts, problem = np.zeros(count, np.int64), lib.Problem()
        address = counts.ctypes.data
        call = library.pipetrain_feed_class_counts
        result = _in_thread(lambda: int(call(self._feed, address, count, None, byref(problem))), self._close)
        self._check(result, problem)
        return counts

    def class_weights(self, classes: Optional[int] = None) -> npt.NDArray[np.float32]:
        """Weights of the classes for a loss, by which all of them count equally: float32 [classes]; n / (K * n_c) for a
        class with n_c of the n records, of K classes that have records, and 1 for one without. As pipetrain's
        train.class_weights = auto, and scikit-learn's compute_class_weight("balanced")."""
        counts = self.class_counts(classes)
        present = counts > 0
        weights = np.ones(len(counts), np.float32)
        weights[present] = counts.sum() / (present.sum() * counts[present])
        return weights

    def stats(self) -> Stats:
        """What happened since the loader was opened, and what limits its speed."""
        raw = lib.new(lib.Stats)
        self._check(library.pipetrain_feed_stats(self._feed, byref(raw)))
        return Stats(
            raw.open_ns / 1e9, raw.batches, raw.samples, raw.waited_ns / 1e9, raw.read_bytes, raw.damaged_records,
            raw.decoder_warnings, raw.read_busy, raw.decode_busy, raw.ready, raw.lent,
            raw.limit.decode("utf-8", "replace"),
        )  # fmt: skip

    def damaged(self) -> List[Damage]:
        """The damaged records that were left out (on_corrupt="skip"), in the order in which they were found; at most
        256."""
        problem = lib.Problem()
        found: List[Damage] = []
        while self._more(library.pipetrain_feed_damaged(self._feed, len(found), byref(problem))):
            record = None if problem.record == lib.NO_RECORD else int(problem.record)
            found.append(Damage(os.fsdecode(problem.file), record, problem.message.decode("utf-8", "replace")))
        return found

    # ---- end ----

    def close(self) -> None:
        """End the threads and close the shards. Arrays that were handed out stay valid. May be called at any time, by
        any thread; iterators of other threads then raise ClosedError."""
        self._close()
        if os.getpid() == self._process:
            self._warn(3)

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a pipetrain.Loader cannot be pickled or copied to another process: open one there. With torch's "
            "DataLoader use num_workers=0, as the library decodes with threads"
        )

    def __repr__(self) -> str:
        place = f", rank {self.rank} of {self.world}" if self.world > 1 else ""
        return f"<pipetrain.Loader: {self.records} records, batches of {self.batch}{place}, at {self._position}>"

    def _close(self) -> None:
        library.pipetrain_feed_close(self._feed)
        if os.getpid() == self._process:
            self._lender.finish()

    # ---- errors ----

    def _check_process(self) -> None:
        # The child has the lock as it was at the fork, so nothing may wait for it there.
        if os.getpid() != self._process:
            lib.fail(lib.FORKED)

    def _check_place(self) -> None:
        place = None if self._is_placed else _distributed_place()
        if place is not None and place != (self.rank, self.world):
            raise Error(
                f"this loader was opened as rank {self.rank} of {self.world}, before torch.distributed was "
                f"initialised, and this process is rank {place[0]} of {place[1]} now: open it after "
                "init_process_group, with Lightning in train_dataloader, or give rank and world"
            )

    def _check(self, result: int, problem: Optional[lib.Problem] = None) -> None:
        if result != lib.OK:
            self._fail(result, problem)

    def _more(self, result: int) -> bool:
        if result not in (lib.OK, lib.END):
            self._fail(result)
        return result == lib.OK

    def _fail(self, result: int, problem: Optional[lib.Problem] = None) -> NoReturn:
        lib.fail(result, problem, self.depth)

    def _warn(self, level: int) -> None:
        """Warn of what the library reported since, on behalf of the caller `level` frames up."""
        self._messages_due = time.monotonic() + _MESSAGES_SECONDS
        text = self._messages
        while library.pipetrain_feed_messages(self._feed, text, _MESSAGE_BYTES) == lib.OK and text[0] != b"\0":
            for line in text.value.decode("utf-8", "replace").splitlines():
                warnings.warn(line, LoaderWarning, stacklevel=level)


def _callbacks(memory: Optional[PinnedMemory]) -> Tuple[Any, Any]:
    if memory not in _kept_callbacks:
        _kept_callbacks[memory] = pinned_callbacks(memory)
    return _kept_callbacks[memory]


_kept_callbacks: dict[Optional[PinnedMemory], Tuple[Any, Any]] = {}
_OWN_NAMES = Loader.__init__.__code__.co_varnames[1 : Loader.__init__.__code__.co_argcount]
Loader.__doc__ = f"{Loader.__doc__}\n    Further options:\n\n{textwrap.indent(describe_options(), '    ')}\n"
