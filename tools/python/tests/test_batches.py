"""What a loader hands out: which records, in which order, as which arrays, and for how long."""

from __future__ import annotations

import gc
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pipetrain
import shards

PLAIN = {"crop": "none", "flip": False}


def open_small(small_set: Path, **options: Any) -> pipetrain.Loader:
    return pipetrain.Loader(small_set / "train-*", **{"batch": 16, "size": shards.SIDE, **PLAIN, **options})


def ids_of(loader: pipetrain.Loader) -> list[list[int]]:
    """The ids of the batches of one epoch."""
    return [batch.ids.tolist() for batch in loader.batches()]


def flat(batches: list[list[int]]) -> list[int]:
    return [number for batch in batches for number in batch]


def test_an_epoch_has_every_record_once_with_its_image_and_label(small_set: Path) -> None:
    with open_small(small_set) as loader:
        assert (loader.records, len(loader)) == (100, 7)
        seen: list[int] = []
        for batch in loader.batches():
            assert batch.images.dtype == np.uint8 and batch.labels.dtype == np.int64 and batch.ids.dtype == np.int64
            assert batch.images.shape == (len(batch.ids), shards.SIDE, shards.SIDE, 3)
            for image, label, record in zip(batch.images, batch.labels, batch.ids):
                assert np.array_equal(image, shards.image_of(record)) and label == shards.label_of(record)
            seen += batch.ids.tolist()
        assert sorted(seen) == list(range(100)) and len(batch.ids) == 4 and batch.is_last_of_epoch


def test_evaluation_is_in_the_stored_order(small_set: Path) -> None:
    with open_small(small_set, train=False) as loader:
        assert flat(ids_of(loader)) == list(range(100)) == flat(ids_of(loader))


def test_every_epoch_has_another_order_that_only_the_seed_changes(small_set: Path) -> None:
    with open_small(small_set, threads=1) as one, open_small(small_set, threads=3, depth=2) as same, open_small(
        small_set, seed=2
    ) as other:
        epochs = [ids_of(one) for _ in range(3)]
        assert epochs[0] != epochs[1] != epochs[2]
        assert epochs == [ids_of(same) for _ in range(3)]
        assert epochs[0] != ids_of(other)


def test_epochs_end_the_loader(small_set: Path) -> None:
    with open_small(small_set, epochs=2) as loader:
        assert [len(ids_of(loader)) for _ in range(4)] == [7, 7, 0, 0]


def test_a_loop_that_is_left_early_is_followed_by_the_next_epoch(small_set: Path) -> None:
    with open_small(small_set) as whole, open_small(small_set, epochs=3) as loader:
        epochs = [ids_of(whole) for _ in range(3)]
        assert next(iter(loader.batches())).ids.tolist() == epochs[0][0]
        for batch in loader.batches():
            if batch.step_of_epoch == 3:
                assert batch.ids.tolist() == epochs[1][3] and batch.step == 10
                break
        stale = iter(loader)
        fresh = iter(loader.batches())
        assert next(fresh).ids.tolist() == epochs[2][0]
        with pytest.raises(pipetrain.Error, match="this iterator is over"):
            next(stale)
        assert list(iter(loader)) == []


def test_shuffle_may_be_true_or_false(small_set: Path) -> None:
    with open_small(small_set, shuffle=False) as stored, open_small(small_set, shuffle=True) as full:
        assert flat(ids_of(stored)) == list(range(100))
        with open_small(small_set, shuffle="full") as named:
            assert ids_of(full) == ids_of(named)


def test_the_last_step_can_be_left_out(small_set: Path) -> None:
    with open_small(small_set, drop_last=True) as loader:
        assert len(loader) == 6 and [len(ids) for ids in ids_of(loader)] == [16] * 6


@pytest.mark.parametrize("world", [2, 3, 7])
def test_ranks_share_the_batches_of_one_process(small_set: Path, world: int) -> None:
    with open_small(small_set) as whole:
        expected = ids_of(whole)
    loaders = [open_small(small_set, rank=rank, world=world, threads=1) for rank in range(world)]
    shares = [ids_of(loader) for loader in loaders]
    assert all(len(share) == 7 for share in shares)
    assert [flat([share[step] for share in shares]) for step in range(7)] == expected
    for loader in loaders:
        loader.close()


def test_output_for_dlpack_is_the_same_memory(small_set: Path) -> None:
    with open_small(small_set, output="dlpack") as loader, open_small(small_set) as plain:
        for (images, labels), (expected, numbers) in zip(loader, plain):
            assert (images.shape, images.dtype, labels.dtype) == (expected.shape, np.uint8, np.int64)
            view = np.from_dlpack(images)
            assert np.array_equal(view, expected) and np.array_equal(np.from_dlpack(labels), numbers)
            assert not view.flags.owndata and "shape=" in repr(images)


def test_raw_records_are_the_stored_payloads(small_set: Path) -> None:
    with open_small(small_set, decode=False) as loader:
        count = 0
        for records, ids in loader:
            for record, number in zip(records, ids):
                assert record.readonly and bytes(record) == shards.payload_of(number)
            count += len(records)
        assert count == 100
        kept = records[1]
        del records, record
        assert loader.stats().lent == 1 and bytes(kept) == shards.payload_of(ids[1])
        del kept
        assert loader.stats().lent == 0


def test_mixes_come_with_the_images(small_set: Path) -> None:
    with open_small(small_set, mixup=0.4, cutmix=1.0) as loader, open_small(small_set) as plain:
        boxes = 0
        for (images, labels, mixes), (expected, numbers) in zip(loader, plain):
            assert np.array_equal(images, expected) and np.array_equal(labels, numbers)
            share, box = mixes
            assert share.dtype == np.float32 and share.shape == labels.shape and box.shape == (len(labels), 4)
            assert ((share >= 0) & (share <= 1)).all()
            has_box = box[:, 2] > box[:, 0]
            area = (box[:, 2] - box[:, 0]) * (box[:, 3] - box[:, 1])
            assert np.allclose(share[has_box], 1 - area[has_box] / shards.SIDE**2)
            boxes += has_box.sum()
        assert 0 < boxes < 100


# ---- lent memory ----


def test_a_batch_is_given_back_with_its_last_view(small_set: Path) -> None:
    with open_small(small_set) as loader:
        batches = iter(loader)
        images, labels = next(batches)
        expected, kept = images[3:5].copy(), images[3:5]
        del images
        for images, _ in batches:
            pass
        assert np.array_equal(kept, expected)
        del images, _
        assert loader.stats().lent == 1
        del kept
        assert loader.stats().lent == 0 and len(labels) == 16


def test_labels_and_ids_may_be_collected(small_set: Path) -> None:
    with open_small(small_set, depth=2) as loader:
        collected = [(batch.labels, batch.ids) for batch in loader.batches()]
    assert all(label == shards.label_of(record) for labels, ids in collected for label, record in zip(labels, ids))


def test_all_batches_in_use_is_an_error_after_which_the_loader_goes_on(small_set: Path) -> None:
    with open_small(small_set, depth=3) as loader, open_small(small_set) as whole:
        expected = ids_of(whole)
        batches, kept = iter(loader.batches()), []
        with pytest.raises(pipetrain.BatchesLentError, match="all 3 batches are in use") as caught:
            for batch in batches:
                kept.append(batch)
        assert isinstance(caught.value, BufferError) and len(kept) == 3
        del kept[0], batch
        assert next(batches).ids.tolist() == expected[3]


def test_batches_in_cycles_of_garbage_are_found(small_set: Path) -> None:
    gc.collect()
    gc.disable()
    try:
        with open_small(small_set, depth=2) as loader:
            for images, _ in loader:
                cycle: list[Any] = [images]
                cycle.append(cycle)
    finally:
        gc.enable()


def test_arrays_outlive_their_loader(small_set: Path) -> None:
    loader = open_small(small_set)
    images, _ = next(iter(loader))
    expected = images.copy()
    loader.close()
    assert np.array_equal(images, expected)
    gone = weakref.ref(loader)
    del loader
    assert gone() is None and np.array_equal(images, expected)


def test_arrays_in_a_cycle_with_their_loader_are_freed(small_set: Path) -> None:
    loader: Any = open_small(small_set)
    loader.own = next(iter(loader))
    gone = weakref.ref(loader)
    del loader
    gc.collect()
    assert gone() is None


def test_images_may_be_written(small_set: Path) -> None:
    with open_small(small_set) as loader:
        for images, _ in loader:
            images[:] = 0


def test_threads_share_an_iterator(small_set: Path) -> None:
    with open_small(small_set, depth=8) as loader:
        batches, seen = loader.batches(), []

        def consume() -> None:
            for batch in batches:
                seen.append(batch.ids.tolist())

        threads = [threading.Thread(target=consume) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(flat(seen)) == list(range(100)) and loader.position == (0, 7)
        assert len(ids_of(loader)) == 7


def test_several_loaders_work_side_by_side(small_set: Path) -> None:
    loaders = [open_small(small_set, seed=seed) for seed in range(4)]
    assert all(sorted(flat(ids_of(loader))) == list(range(100)) for loader in loaders)
    assert sum(1 for _ in zip(*(loader.batches() for loader in loaders))) == 7


# ---- facts ----


def test_classes_are_counted_and_weighted(small_set: Path) -> None:
    expected = np.bincount([shards.label_of(record) for record in range(100)], minlength=6)
    with open_small(small_set) as loader:
        counts = loader.class_counts(6)
        assert counts.dtype == np.int64 and counts.tolist() == expected.tolist()
        weights = loader.class_weights(6)
        present = expected > 0
        assert np.allclose(weights[present], 100 / (present.sum() * expected[present]))
        assert (weights[~present] == 1).all()
        if loader.classes == 0:
            with pytest.raises(pipetrain.OptionError, match="how many classes"):
                loader.class_counts()


def test_class_names_are_those_of_the_set(small_set: Path, tmp_path: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("".join(f"class {number}\n" for number in range(shards.CLASSES)))
    with open_small(small_set, class_names=names) as loader:
        assert loader.class_names == [f"class {number}" for number in range(shards.CLASSES)]
        assert loader.class_counts().shape == (shards.CLASSES,)
    with open_small(small_set) as loader:
        assert loader.class_names is None


def test_stats_count_what_was_handed_out(small_set: Path) -> None:
    with open_small(small_set) as loader:
        ids_of(loader)
        stats = loader.stats()
        assert (stats.batches, stats.samples, stats.damaged_records) == (7, 100, 0)
        assert stats.read_bytes > 0 and stats.open_seconds > stats.waited_seconds >= 0


def test_facts_are_those_of_the_options(small_set: Path) -> None:
    with open_small(small_set, rank=1, world=2, depth=3, threads=2, seed=9) as loader:
        assert (loader.rank, loader.world, loader.depth, loader.threads, loader.seed) == (1, 2, 3, 2, 9)
        assert loader.batch == 16 and len(loader.fingerprint) == 16 and "rank 1 of 2" in repr(loader)
