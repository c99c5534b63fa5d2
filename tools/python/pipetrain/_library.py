"""The C library libpipetrain-feed: where it is, and its functions and structs for ctypes (pipetrain-feed.h)."""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, c_bool, c_char, c_char_p, c_double, c_float, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Optional, Type, TypeVar

from . import _errors

FILE_NAME = "libpipetrain-feed.so.0"
VARIABLE = "PIPETRAIN_FEED_LIBRARY"

# enum pipetrain_feed_result
OK, END, TIME, LENT, INTERRUPTED, CLOSED, FORKED, HANDLE, OPTION, DATA, MEMORY, STATE, INTERNAL = range(13)
NO_RECORD = 2**64 - 1
STATE_BYTES = 2048

Allocate = ctypes.CFUNCTYPE(c_void_p, c_void_p, c_size_t)
Release = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_size_t)


class Problem(ctypes.Structure):
    _fields_ = [("record", c_uint64), ("file", c_char * 4096), ("message", c_char * 8192)]


class Options(ctypes.Structure):
    _fields_ = [
        ("struct_bytes", c_size_t), ("shards", c_char_p), ("settings", c_char_p),
        ("height", c_uint32), ("width", c_uint32), ("channels", c_uint32), ("batch", c_uint32),
        ("rank", c_uint32), ("world", c_uint32), ("depth", c_uint32), ("threads", c_uint32),
        ("epochs", c_uint64), ("seed", c_uint64),
        ("is_evaluation", c_bool), ("is_raw", c_bool), ("drop_last", c_bool),
        ("allocate", Allocate), ("release", Release), ("memory_arg", c_void_p),
        ("is_unwanted", POINTER(c_bool)),
    ]  # fmt: skip


class Mix(ctypes.Structure):
    _fields_ = [("share", c_float), ("top", c_uint32), ("left", c_uint32), ("bottom", c_uint32), ("right", c_uint32)]


class Batch(ctypes.Structure):
    _fields_ = [
        ("struct_bytes", c_size_t), ("handle", c_uint64), ("count", c_uint32), ("global_count", c_uint32),
        ("first_position", c_uint64), ("epoch", c_uint64), ("step_of_epoch", c_uint64), ("step", c_uint64),
        ("is_last_of_epoch", c_bool),
        ("images", c_void_p), ("labels", c_void_p), ("ids", c_void_p), ("mixes", c_void_p), ("records", c_void_p),
    ]  # fmt: skip


class Info(ctypes.Structure):
    _fields_ = [
        ("struct_bytes", c_size_t),
        ("records", c_uint64), ("steps_per_epoch", c_uint64), ("epochs", c_uint64), ("epoch_bytes", c_uint64),
        ("fingerprint", c_uint64), ("seed", c_uint64),
        ("classes", c_uint32), ("named_classes", c_uint32), ("batch", c_uint32), ("rank", c_uint32),
        ("world", c_uint32), ("count_max", c_uint32), ("depth", c_uint32), ("threads", c_uint32),
        ("read_threads", c_uint32),
        ("height", c_uint32), ("width", c_uint32), ("channels", c_uint32), ("shards", c_uint32),
        ("batch_bytes", c_uint64),
    ]  # fmt: skip


class Stats(ctypes.Structure):
    _fields_ = [
        ("struct_bytes", c_size_t),
        ("open_ns", c_uint64), ("batches", c_uint64), ("samples", c_uint64), ("waited_ns", c_uint64),
        ("read_bytes", c_uint64), ("damaged_records", c_uint64), ("decoder_warnings", c_uint64),
        ("read_busy", c_double), ("decode_busy", c_double), ("ready", c_uint32), ("lent", c_uint32),
        ("limit", c_char * 512),
    ]  # fmt: skip


class _Key(ctypes.Structure):
    _fields_ = [
        ("struct_bytes", c_size_t),
        ("name", c_char * 64), ("type", c_char * 16), ("initial", c_char * 256), ("range", c_char * 256),
        ("help", c_char * 256),
    ]  # fmt: skip


class Key(NamedTuple):
    """An option of the library that the package passes on as text."""

    name: str
    type: str
    initial: str
    range: str
    help: str


_FEED = c_void_p
_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "version": (c_char_p, ()),
    "open": (c_int, (POINTER(c_void_p), POINTER(Options), POINTER(Problem))),
    "take": (c_int, (_FEED, c_uint64, POINTER(Batch), POINTER(Problem))),
    "give_back": (c_int, (_FEED, c_uint64)),
    "position": (c_int, (_FEED, POINTER(c_uint64), POINTER(c_uint64))),
    "state": (c_int, (_FEED, c_uint64, c_uint64, c_char_p, POINTER(c_size_t), POINTER(Problem))),
    "seek": (c_int, (_FEED, c_char_p, c_size_t, POINTER(Problem))),
    "seek_to": (c_int, (_FEED, c_uint64, c_uint64, POINTER(Problem))),
    "info": (c_int, (_FEED, POINTER(Info))),
    "class_name": (c_int, (_FEED, c_uint32, c_char_p, c_size_t)),
    "class_counts": (c_int, (_FEED, c_void_p, c_uint32, POINTER(c_uint64), POINTER(Problem))),
    "stats": (c_int, (_FEED, POINTER(Stats))),
    "damaged": (c_int, (_FEED, c_uint32, POINTER(Problem))),
    "messages": (c_int, (_FEED, c_char_p, c_size_t)),
    "key": (c_int, (c_uint32, POINTER(_Key))),
    "close": (c_int, (_FEED,)),
    "free": (None, (_FEED,)),
}


def find_library() -> str:
    """The path of libpipetrain-feed, or its name if only the system's linker knows where it is.

    Looked for in this order: the file or folder in the environment variable PIPETRAIN_FEED_LIBRARY (such as a build
    folder), the folder of this package (where wheels have it), and the system's library path (`make install`).
    """
    named = os.environ.get(VARIABLE)
    if named:
        path = Path(named)
        return str(path / FILE_NAME if path.is_dir() else path)
    beside = Path(__file__).with_name(FILE_NAME)
    return str(beside) if beside.exists() else FILE_NAME


def _load() -> ctypes.CDLL:
    path = find_library()
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(
            f"pipetrain: the library {path} cannot be loaded ({error}). Install the package with its library "
            f"(pip install . in a checkout, or a wheel), or set {VARIABLE} to the build folder that has {FILE_NAME}"
        ) from None
    try:
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(library, f"pipetrain_feed_{name}")
            function.restype, function.argtypes = result, arguments
    except AttributeError as error:
        raise ImportError(f"pipetrain: the library {path} is of another version than this package: {error}") from None
    return library


library = _load()
version = library.pipetrain_feed_version().decode()

_S = TypeVar("_S", bound=ctypes.Structure)


def new(kind: Type[_S]) -> _S:
    """A struct of zeros that knows its size, as the library wants it."""
    return kind(ctypes.sizeof(kind))


def keys() -> list[Key]:
    """All options that the library takes as text."""
    row = new(_Key)
    rows: list[Key] = []
    while library.pipetrain_feed_key(len(rows), ctypes.byref(row)) == OK:
        rows.append(Key(*(getattr(row, name).decode() for name in Key._fields)))
    return rows


_CLASSES: dict[int, Type[_errors.Error]] = {
    LENT: _errors.BatchesLentError,
    CLOSED: _errors.ClosedError,
    FORKED: _errors.ForkedError,
    OPTION: _errors.OptionError,
    DATA: _errors.DataError,
    MEMORY: _errors.OutOfMemoryError,
    STATE: _errors.StateError,
}
_MESSAGES = {
    LENT: "all {depth} batches are in use by arrays that were handed out, so no further one can be filled: drop the "
          "arrays or copy what you keep (images.copy(), images.clone()), or open the loader with a larger depth",
    CLOSED: "the loader is closed",
    FORKED: "this loader was opened by the parent of this process, and its threads do not exist here: create a Loader "
            "in the process that iterates over it. With torch's DataLoader use num_workers=0, as the library decodes "
            "with threads",
}  # fmt: skip


def fail(result: int, problem: Optional[Problem] = None, depth: int = 0) -> NoReturn:
    """Raise the exception of a result that is not OK."""
    message = _MESSAGES[result].format(depth=depth) if result in _MESSAGES else ""
    if not message and problem is not None:
        message = problem.message.decode("utf-8", "replace")
    error = _CLASSES.get(result, _errors.InternalError)(message or f"result {result} of libpipetrain-feed")
    if problem is not None and result >= OPTION:
        error.file = os.fsdecode(problem.file) or None
        error.record = problem.record if problem.record != NO_RECORD and error.file else None
    raise error
