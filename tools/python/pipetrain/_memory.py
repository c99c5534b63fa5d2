"""Memory of batches that the library lends: arrays that view it, and how it is given back when the last view is gone.

The base of a view is a Block. A weak reference to it calls the library when the block dies, from C code alone: no
Python runs then, so that no KeyboardInterrupt can come in between, and it works in any thread, in collected cycles and
at the end of the interpreter. Weak references that call something have to live longer than what they refer to:
`_references` keeps them.
"""

from __future__ import annotations

import collections
import functools
import threading
import time
import weakref
from typing import Any, Callable, Optional, Tuple

import numpy as np
import numpy.typing as npt

from ._errors import OptionError
from ._library import Allocate, Release, library
from ._pinned import Fence, PinnedMemory


class Block:
    """Memory as NumPy's array interface describes it."""

    __slots__ = ("__array_interface__", "__weakref__")

    def __init__(self, address: int, shape: Tuple[int, ...], typestr: str, is_fixed: bool = False) -> None:
        self.__array_interface__ = {"version": 3, "data": (address, is_fixed), "shape": shape, "typestr": typestr}


def view(address: int, shape: Tuple[int, ...], typestr: str) -> npt.NDArray[Any]:
    """An array over memory that somebody else keeps."""
    return np.asarray(Block(address, shape, typestr))


class _Reference(weakref.ref):  # type: ignore[type-arg]
    """Calls a function of C with itself, which ctypes passes as the number in _as_parameter_."""

    __slots__ = ("_as_parameter_", "call")
    _as_parameter_: int
    call: Callable[[Any], object]


# By feed and address: memory that is lent again replaces the reference of its last use. At address 0: to the loader.
_references: dict[tuple[int, int], _Reference] = {}


def _forget_dead() -> None:
    for key, reference in list(_references.items()):
        if reference() is None:
            _references.pop(key, None)


def free_with(owner: object, feed: int) -> None:
    """Free the feed when its owner dies."""
    _forget_dead()
    reference = _Reference(owner, library.pipetrain_feed_free)
    reference._as_parameter_ = feed
    _references[feed, 0] = reference


class Lender:
    """Lends the batches of a feed."""

    def __init__(self, feed: int) -> None:
        self._feed = feed
        self._give_back = functools.partial(library.pipetrain_feed_give_back, feed)

    def lend(self, block: Block, address: int, handle: int) -> None:
        """Give the batch back when `block`, whose memory at `address` no other batch has meanwhile, is gone."""
        reference = _Reference(block, self._give_back)
        reference._as_parameter_ = handle
        _references[self._feed, address] = reference

    def give_back(self, handle: int) -> None:
        """Give a batch back that was not lent on."""
        self._give_back(handle)

    def reclaim(self) -> bool:
        """Give back what had to wait. Returns whether batches still wait."""
        return False

    def finish(self) -> None:
        """Give back what has to wait, and wait for it."""


# Batches of pinned memory that were dropped, and those for which events were recorded since; of all loaders, because a
# loader may be gone before its batches. Those that are dropped after their loader was closed are freed when the next
# loader with pinned memory takes or closes.
_dropped: collections.deque[_Reference] = collections.deque()
_fenced: collections.deque[tuple[list[Fence], list[_Reference]]] = collections.deque()
_reclaiming = threading.Lock()


class PinnedLender(Lender):
    """Lends batches from which copies may still run when their arrays are gone."""

    def __init__(self, feed: int, memory: PinnedMemory) -> None:
        super().__init__(feed)
        self._memory = memory

    def lend(self, block: Block, address: int, handle: int) -> None:
        reference = _Reference(block, _dropped.append)
        reference._as_parameter_, reference.call = handle, self._give_back
        _references[self._feed, address] = reference

    def reclaim(self) -> bool:
        with _reclaiming:
            self._fence_dropped()
            while _fenced and self._memory.is_passed(_fenced[0][0]):
                for reference in _fenced.popleft()[1]:
                    reference.call(reference)
            return bool(_fenced)

    def finish(self) -> None:
        while self.reclaim():
            time.sleep(0.001)

    def _fence_dropped(self) -> None:
        dropped = [_dropped.popleft() for _ in range(len(_dropped))]
        if not dropped:
            return
        try:
            _fenced.append((self._memory.fence(), dropped))
        except OptionError:
            _dropped.extendleft(dropped)
            raise


def pinned_callbacks(memory: Optional[PinnedMemory]) -> tuple[Any, Any]:
    """What the library calls to allocate and to release the memory of a batch; NULL without pinned memory."""
    if memory is None:
        return Allocate(), Release()
    return Allocate(lambda _, size: memory.allocate(size)), Release(lambda _, address, size: memory.release(address))
