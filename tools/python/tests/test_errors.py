"""What bad input gets: an exception of the right class, with words that say what to do, and with file and record."""

from __future__ import annotations

import struct
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pipetrain
import shards


def open_set(folder: Path, **options: Any) -> pipetrain.Loader:
    return pipetrain.Loader(folder / "train-*", **{"batch": 16, "size": shards.SIDE, **options})


# ---- options ----


@pytest.mark.parametrize(
    "options, words",
    [
        ({"crpo": "none"}, "did you mean crop"),
        ({"batches": 3}, "did you mean batch"),
        ({"num_workers": 4}, "did you mean threads"),
        ({"zzzzzz": 3}, "help"),
        ({"crop": "sideways"}, "crop.*sideways"),
        ({"erase": 2}, "erase"),
        ({"crop": "none\ndata.limit = 5"}, "no line breaks"),
        ({"batch": 0}, "batch"),
        ({"batch": "16"}, "batch is a whole number"),
        ({"batch": 1 << 40}, "batch"),
        ({"seed": -1}, "seed"),
        ({"batch": np.array([16])}, "batch is a whole number"),
        ({"batch": True}, "batch is a whole number"),
        ({"train": "validation"}, "train is True or False"),
        ({"decode": "no"}, "decode is True or False"),
        ({"drop_last": None}, "drop_last is True or False"),
        ({"channels": 2}, "channels is 1 or 3, not 2"),
        ({"channels": 4}, "channels is 1 or 3, not 4"),
        ({"threads": 2, "decode_threads": 3}, "decode_threads is given as threads"),
        ({"input.prefetch_depth": 7}, "input.prefetch_depth is given as depth"),
        ({"drop_last": False, "last_batch": "drop"}, "last_batch is given as drop_last"),
        ({"channels": 3.0}, "channels is a whole number"),
        ({"crop": "none", "augment.crop": "resized"}, "augment.crop is given twice"),
        ({"mixup": 0.2, "rank": 0, "world": 9}, "batch of at least 18"),
        ({"size": 0}, "size"),
        ({"size": (8, 8, 3)}, "size"),
        ({"size": 1 << 31}, "."),
        ({"rank": 2, "world": 2}, "rank"),
        ({"rank": 0}, "rank and world"),
        ({"depth": 1}, "depth"),
        ({"threads": 0}, "threads"),
        ({"epochs": 0}, "epochs"),
        ({"output": "tensorflow"}, "output"),
        ({"lanes": 4}, "lanes"),
        ({"devices.towers": 2}, "devices.towers"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_wrong_options_are_named(small_set: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises((pipetrain.OptionError, pipetrain.OutOfMemoryError), match=words) as caught:
        open_set(small_set, **options)
    assert caught.value.file is None and caught.value.record is None


def test_an_option_may_have_its_section(small_set: Path) -> None:
    with open_set(small_set, **{"augment.crop": "none", "data.limit": 30}) as loader:
        assert loader.records == 30


def test_options_of_other_types_become_text(small_set: Path) -> None:
    options = {"flip": np.bool_(True), "crop": "resized", "crop_area": (0.5, 1), "policy": None, "keep_shards": "0"}
    with open_set(small_set, **options) as loader:
        assert sum(1 for _ in loader) == 7


@pytest.mark.parametrize("shards_option", [5, None, ["a", 7], "a\0b", "\ud800"], ids=str)
def test_what_is_no_path_is_refused(shards_option: Any) -> None:
    with pytest.raises(pipetrain.OptionError, match="shards"):
        pipetrain.Loader(shards_option, batch=2)


# ---- data ----


def test_missing_shards_are_named(tmp_path: Path) -> None:
    with pytest.raises(pipetrain.DataError, match="nothing-here") as caught:
        pipetrain.Loader(tmp_path / "nothing-here-*", batch=2)
    assert isinstance(caught.value, pipetrain.Error)


def test_a_missing_shard_of_several_is_warned_of(tmp_path: Path) -> None:
    folder = shards.make_set(tmp_path / "set")
    (folder / "train-00002-of-00004").unlink()
    with pytest.warns(pipetrain.LoaderWarning, match="3 of the 4 shards") as caught:
        open_set(folder).close()
    assert caught[0].filename == __file__


def test_a_list_of_paths_is_read_in_its_order(tmp_path: Path) -> None:
    folder = shards.make_set(tmp_path / "a set, copied")
    paths = sorted(folder.glob("train-*"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pipetrain.Loader(paths[::-1], batch=16, size=8, train=False, crop="none") as loader:
            labels = [label for _, labels in loader for label in labels]
    assert labels == [shards.label_of(number) for start in (75, 50, 25, 0) for number in range(start, start + 25)]
    with pytest.warns(pipetrain.LoaderWarning, match="2 of the 4 shards"):
        with pipetrain.Loader(paths[:2], batch=16, size=8) as loader:
            assert loader.records == 50
    with pipetrain.Loader(folder / "train-*", batch=16, size=8) as loader:
        assert loader.records == 100


def damage(path: Path, record: int) -> None:
    """Change a byte in the payload of a record."""
    data = bytearray(path.read_bytes())
    place = 0
    for _ in range(record):
        place += 16 + struct.unpack_from("<Q", data, place)[0]
    data[place + 12 + 20] ^= 1
    path.write_bytes(bytes(data))


def test_a_damaged_record_is_an_error_with_file_and_record(tmp_path: Path) -> None:
    folder = shards.make_set(tmp_path / "set")
    damage(folder / "train-00001-of-00004", 7)
    with open_set(folder) as loader:
        with pytest.raises(pipetrain.DataError, match="record 7") as caught:
            for _ in loader:
                pass
        assert caught.value.file == str(folder / "train-00001-of-00004") and caught.value.record == 7
        with pytest.raises(pipetrain.DataError, match="record 7"):
            for _ in loader:
                pass


def test_the_first_of_too_many_damaged_records_is_named(tmp_path: Path) -> None:
    folder = shards.make_set(tmp_path / "set")
    for record in (3, 5, 8):
        damage(folder / "train-00001-of-00004", record)
    with open_set(folder, on_corrupt="skip", max_corrupt=1) as loader:
        with pytest.raises(pipetrain.DataError, match="the first: ") as caught:
            list(labels for _, labels in loader)
    assert caught.value.file == str(folder / "train-00001-of-00004") and caught.value.record in (3, 5, 8)


def test_damaged_records_can_be_left_out(tmp_path: Path) -> None:
    folder = shards.make_set(tmp_path / "set")
    damage(folder / "train-00001-of-00004", 7)
    with pytest.warns(pipetrain.LoaderWarning, match="record 7"):       # by opening, iterating or closing
        with open_set(folder, on_corrupt="skip", max_corrupt=5) as loader:
            ids = [number for batch in loader.batches() for number in batch.ids.tolist()]
    assert len(ids) == 100 and 32 not in ids
    with open_set(folder, on_corrupt="skip", max_corrupt=5, train=False) as loader:
        labels = [label for _, labels in loader for label in labels.tolist()]
        assert labels.count(-1) == 1 and labels[32] == -1
        assert loader.damaged()[0][:2] == (str(folder / "train-00001-of-00004"), 7)
        assert loader.stats().damaged_records == 1


@pytest.mark.filterwarnings("error::pipetrain.LoaderWarning")
def test_warnings_as_errors_lose_no_batch(tmp_path: Path) -> None:
    folder = shards.make_set(tmp_path / "set")
    # A record of the last batch, so that nothing is known of it when the loader is opened.
    with open_set(folder) as loader:
        *_, last = (batch.ids[0] for batch in loader.batches())
    damage(folder / f"train-{last // 25:05d}-of-00004", last % 25)
    with open_set(folder, depth=2, on_corrupt="skip", max_corrupt=5) as loader:
        count, raised = 0, 0
        for _ in range(20):
            try:
                batches = loader.batches() if count == 0 else batches
                for batch in batches:
                    count += len(batch.ids)
                break
            except pipetrain.LoaderWarning:
                raised += 1
        assert count == 100
        while True:
            try:
                loader.close()
                break
            except pipetrain.LoaderWarning:
                raised += 1
        assert raised >= 1


def test_a_shard_that_vanishes_is_named(tmp_path: Path) -> None:
    folder = shards.make_set(tmp_path / "set")
    path = folder / "train-00003-of-00004"
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(pipetrain.DataError, match="train-00003"):
        with open_set(folder) as loader:
            assert sum(1 for _ in loader) < 7


def test_an_image_that_is_too_large_is_an_error_with_file_and_record(tmp_path: Path) -> None:
    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    side = 60_000
    image = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
    image += chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    path = tmp_path / "train-00000-of-00001"
    shards.write_shard(path, [shards.payload_of(0), shards.example(image, 1), shards.payload_of(2)])
    with pipetrain.Loader(path, batch=3, size=8) as loader:
        with pytest.raises((pipetrain.DataError, pipetrain.OutOfMemoryError), match="record 1") as caught:
            next(iter(loader))
        assert (caught.value.file, caught.value.record) == (str(path), 1)


def test_what_is_no_image_is_an_error_with_file_and_record(tmp_path: Path) -> None:
    path = tmp_path / "train-00000-of-00001"
    shards.write_shard(path, [shards.payload_of(0), shards.example(b"no image", 1), shards.payload_of(2)])
    with pipetrain.Loader(path, batch=3, size=8) as loader:
        with pytest.raises(pipetrain.DataError, match="record 1") as caught:
            next(iter(loader))
        assert (caught.value.file, caught.value.record) == (str(path), 1)
