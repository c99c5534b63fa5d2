"""Pinned memory, on a driver that this file imitates: no GPU is needed, and none is used."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pytest

import pipetrain
import shards
from pipetrain import _loader, _pinned


class ImitatedDriver:
    """One context, whose events pass when `is_idle` is set."""

    def __init__(self) -> None:
        self.blocks: dict[int, Any] = {}
        self.is_idle = True
        self.recorded = 0
        self.created = 0

    def cuInit(self, flags: int) -> int:
        return 0

    def cuDeviceGetCount(self, count: Any) -> int:
        count._obj.value = 2
        return 0

    def cuDevicePrimaryCtxGetState(self, device: int, flags: Any, is_active: Any) -> int:
        is_active._obj.value = int(device == 1)
        return 0

    def cuDevicePrimaryCtxRetain(self, context: Any, device: int) -> int:
        assert device == 1, "a context was made on a device that the program does not use"
        context._obj.value = 0x10
        return 0

    def cuCtxPushCurrent_v2(self, context: Any) -> int:
        return 0

    def cuCtxPopCurrent_v2(self, context: Any) -> int:
        return 0

    def cuMemHostAlloc(self, address: Any, size: Any, flags: Any) -> int:
        block = ctypes.create_string_buffer(size.value + 64)
        start = (ctypes.addressof(block) + 63) // 64 * 64
        self.blocks[start] = block
        address._obj.value = start
        return 0

    def cuMemFreeHost(self, address: Any) -> int:
        del self.blocks[address.value]
        return 0

    def cuEventCreate(self, event: Any, flags: Any) -> int:
        self.created += 1
        event._obj.value = self.created
        return 0

    def cuCtxRecordEvent(self, context: Any, event: Any) -> int:
        assert context.value == 0x10
        self.recorded += 1
        return 0

    def cuEventQuery(self, event: Any) -> int:
        return 0 if self.is_idle else 600


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> ImitatedDriver:
    imitated = ImitatedDriver()
    memory = _pinned.PinnedMemory(imitated)
    monkeypatch.setattr(_loader, "pinned_memory", lambda: memory)
    return imitated


def test_memory_of_a_dropped_batch_waits_for_its_copies(small_set: Path, driver: ImitatedDriver) -> None:
    with pipetrain.Loader(small_set / "train-*", batch=16, size=shards.SIDE, depth=4, pin=True) as loader:
        assert len(driver.blocks) == 4
        batches = iter(loader)
        driver.is_idle = False
        for _ in range(3):
            next(batches)
        assert loader.stats().lent == 3 and driver.recorded >= 2
        driver.is_idle = True
        assert sum(1 for _ in batches) == 4
        assert driver.created <= 4 < driver.recorded
        loader.__iter__()
        del batches
    del loader
    assert driver.blocks == {}


def test_without_a_driver_pin_is_refused(small_set: Path) -> None:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        with pytest.raises(pipetrain.OptionError, match="pin=True needs a GPU"):
            pipetrain.Loader(small_set / "train-*", batch=16, size=shards.SIDE, pin=True)
    else:
        pytest.skip("there is a driver")
