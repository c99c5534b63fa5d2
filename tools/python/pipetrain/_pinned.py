"""Pinned memory for batches, from which GPUs copy while the program goes on (Loader(pin=True)).

An array of pinned memory may be gone while a copy from it still runs: images.to("cuda", non_blocking=True) returns
before the copy has ended, on whatever stream. So the memory is filled again only after an event that the driver records
behind all work that was queued in a context by then (cuCtxRecordEvent); one for each context that this process has.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_void_p
from typing import Any, NamedTuple, Optional

from ._errors import OptionError

_PORTABLE = 1           # CU_MEMHOSTALLOC_PORTABLE: pinned for all contexts
_DISABLE_TIMING = 2     # CU_EVENT_DISABLE_TIMING
_NOT_READY = 600        # CUDA_ERROR_NOT_READY


class Fence(NamedTuple):
    """An event behind all work of a context."""

    context: c_void_p
    event: c_void_p


class PinnedMemory:
    """Allocates pinned memory, and knows when copies from it have ended."""

    def __init__(self, driver: Any = None) -> None:
        """Raises OptionError without CUDA. Tests give a driver of their own."""
        self._driver = driver if driver is not None else _load_driver()
        self._contexts: dict[int, c_void_p] = {}
        self._idle_events: dict[int, list[c_void_p]] = {}
        self._check("cuInit", 0)
        self._first_context()

    def allocate(self, size: int) -> Optional[int]:
        """The address of pinned memory, or None."""
        block = c_void_p()
        self._driver.cuCtxPushCurrent_v2(self._first_context())
        result = self._driver.cuMemHostAlloc(byref(block), c_size_t(size), c_uint(_PORTABLE))
        self._driver.cuCtxPopCurrent_v2(byref(c_void_p()))
        return block.value if result == 0 else None

    def release(self, address: int) -> None:
        self._driver.cuMemFreeHost(c_void_p(address))

    def fence(self) -> list[Fence]:
        """Events behind all work that was queued until now."""
        self._find_contexts()
        return [self._record(context) for context in list(self._contexts.values())]

    def is_passed(self, fences: list[Fence]) -> bool:
        """Has the work ended? The events of the list are used again then."""
        results = [self._driver.cuEventQuery(fence.event) for fence in fences]
        if _NOT_READY in results:
            return False
        for fence in fences:
            self._idle_events[fence.context.value or 0].append(fence.event)
        return True

    def _check(self, name: str, *arguments: Any) -> None:
        result = getattr(self._driver, name)(*arguments)
        if result != 0:
            text = c_char_p()
            self._driver.cuGetErrorString(result, byref(text))
            reason = (text.value or b"").decode() or result
            raise OptionError(f"pin=True: CUDA cannot be used: {name}: {reason}. Leave pin out")

    def _find_contexts(self) -> None:
        """Add the contexts that this process has got since: it may not have had them when the loader was opened."""
        count = c_int()
        self._check("cuDeviceGetCount", byref(count))
        for device in range(count.value):
            flags, is_active = c_uint(), c_int()
            if device not in self._contexts:
                self._check("cuDevicePrimaryCtxGetState", device, byref(flags), byref(is_active))
                if is_active.value:
                    self._retain(device)

    def _retain(self, device: int) -> None:
        context = c_void_p()
        self._check("cuDevicePrimaryCtxRetain", byref(context), device)
        self._contexts[device] = context
        self._idle_events[context.value or 0] = []

    def _first_context(self) -> c_void_p:
        """A context to pin memory with; without any one is made, for torch's current device or else the first one."""
        self._find_contexts()
        if not self._contexts:
            torch = sys.modules.get("torch")
            self._retain(torch.cuda.current_device() if torch is not None else 0)
        return next(iter(self._contexts.values()))

    def _record(self, context: c_void_p) -> Fence:
        idle = self._idle_events[context.value or 0]
        event = idle.pop() if idle else self._new_event(context)
        self._check("cuCtxRecordEvent", context, event)
        return Fence(context, event)

    def _new_event(self, context: c_void_p) -> c_void_p:
        event = c_void_p()
        self._check("cuCtxPushCurrent_v2", context)
        self._check("cuEventCreate", byref(event), c_uint(_DISABLE_TIMING))
        self._check("cuCtxPopCurrent_v2", byref(c_void_p()))
        return event


@functools.lru_cache(maxsize=None)
def pinned_memory() -> PinnedMemory:
    """The one of this process, which keeps its contexts and events for further loaders."""
    return PinnedMemory()


def _load_driver() -> Any:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise OptionError(
            f"pin=True needs a GPU and its driver, but libcuda.so.1 cannot be loaded ({error}). Leave pin out"
        ) from None
    if not hasattr(driver, "cuCtxRecordEvent"):
        raise OptionError(
            "pin=True needs a CUDA driver 12.5 or newer: this one cannot say when copies have ended. Leave pin out"
        )
    return driver
