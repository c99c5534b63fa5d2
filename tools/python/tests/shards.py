"""Writes small TFRecord shards with nothing but NumPy: the package is also tested without the project's programs."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from typing import Any, Sequence

import numpy as np

_CRC_TABLE = []
for _byte in range(256):
    for _ in range(8):
        _byte = _byte >> 1 ^ (0x82F63B78 if _byte & 1 else 0)
    _CRC_TABLE.append(_byte)


def _masked_crc(data: bytes) -> bytes:
    """CRC-32C as TFRecord stores it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC_TABLE[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _varint(number: int) -> bytes:
    data = b""
    while number > 127:
        data += bytes([number & 127 | 128])
        number >>= 7
    return data + bytes([number])


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _feature(name: str, value: Any) -> bytes:
    """An entry of Features.feature: a bytes_list, or an int64_list."""
    if isinstance(value, bytes):
        feature = _field(1, _field(1, value))
    else:
        feature = _field(3, _field(1, _varint(int(value))))
    return _field(1, _field(1, name.encode()) + _field(2, feature))


def png(image: np.ndarray) -> bytes:
    """An image of [height, width, 3] as a PNG file."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    height, width, _ = image.shape
    rows = b"".join(b"\0" + row.tobytes() for row in image)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def example(image: bytes, label: int) -> bytes:
    """A tf.train.Example."""
    return _field(1, _feature("image/encoded", image) + _feature("image/class/label", label))


def write_shard(path: Path, payloads: Sequence[bytes]) -> None:
    with path.open("wb") as file:
        for payload in payloads:
            size = struct.pack("<Q", len(payload))
            file.write(size + _masked_crc(size) + payload + _masked_crc(payload))


SIDE = 8
CLASSES = 5


def image_of(record: int) -> np.ndarray:
    """The image of a record: uint8 [SIDE, SIDE, 3], different for each."""
    return np.random.default_rng(record).integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)


def payload_of(record: int) -> bytes:
    return example(png(image_of(record)), label_of(record))


def label_of(record: int) -> int:
    return record * record % CLASSES


def make_set(folder: Path, records: int = 100, shards: int = 4, names: Sequence[str] = ()) -> Path:
    """A set of PNG images, whose record i is image_of(i) and label_of(i). Returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    bounds = [records * shard // shards for shard in range(shards + 1)]
    for shard in range(shards):
        payloads = [payload_of(record) for record in range(bounds[shard], bounds[shard + 1])]
        write_shard(folder / f"train-{shard:05d}-of-{shards:05d}", payloads)
    if names:
        (folder / "names.json").write_text(json.dumps(list(names)))
    return folder
