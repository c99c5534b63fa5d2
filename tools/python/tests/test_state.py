"""Positions: states continue in the middle of an epoch, with other ranks and threads too."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import pipetrain
import shards


def open_small(small_set: Path, **options: Any) -> pipetrain.Loader:
    defaults = {"batch": 16, "size": 6, "crop": "resized", "flip": True}
    return pipetrain.Loader(small_set / "train-*", **{**defaults, **options})


def rest_of(loader: pipetrain.Loader) -> list[tuple[int, int, list[int], bytes]]:
    """Where and what the batches of the rest of an epoch are."""
    return [(batch.epoch, batch.step, batch.ids.tolist(), batch.images.tobytes()) for batch in loader.batches()]


def test_a_state_continues_after_any_step(small_set: Path) -> None:
    with open_small(small_set) as whole:
        expected = [batch for _ in range(3) for batch in rest_of(whole)]
    with open_small(small_set) as loader, open_small(small_set, threads=1, depth=2) as other:
        states = [loader.state_dict()]
        for _ in range(2):
            for _ in loader:
                states.append(loader.state_dict())
        for step, state in enumerate(states):
            other.load_state_dict(json.loads(json.dumps(pickle.loads(pickle.dumps(state)))))
            rest = rest_of(other)
            assert rest == expected[step : step + len(rest)] and len(rest) == 7 - step % 7
            assert other.position == ((step // 7), 7)


def test_a_state_within_a_loop_is_behind_the_batch_in_hand(small_set: Path) -> None:
    with open_small(small_set) as loader, open_small(small_set) as whole:
        expected = rest_of(whole)
        for batch in loader.batches():
            if batch.step == 2:
                state = loader.state_dict()
                assert (state["epoch"], state["step"], state["seed"]) == (0, 3, 1)
                break
        del batch
        loader.load_state_dict(state)
        assert rest_of(loader) == expected[3:]


def test_an_iterator_from_before_a_state_was_loaded_is_refused(small_set: Path) -> None:
    with open_small(small_set) as loader:
        batches = iter(loader)
        next(batches)
        loader.load_state_dict(loader.state_dict())
        with pytest.raises(pipetrain.Error, match="load_state_dict was called"):
            next(batches)


@pytest.mark.parametrize("world", [1, 3])
def test_another_number_of_ranks_continues(small_set: Path, world: int) -> None:
    with open_small(small_set) as whole:
        expected = rest_of(whole)
    with open_small(small_set, rank=1, world=2) as loader:
        batches = iter(loader)
        for _ in range(4):
            next(batches)
        state = loader.state_dict()
    for rank in range(world):
        with open_small(small_set, rank=rank, world=world) as loader:
            loader.load_state_dict(state)
            for (epoch, step, ids, images), whole_batch in zip(rest_of(loader), expected[4:]):
                assert (epoch, step) == whole_batch[:2]
                first = whole_batch[2].index(ids[0]) if ids else 0
                size = 6 * 6 * 3
                assert ids == whole_batch[2][first : first + len(ids)]
                assert images == whole_batch[3][first * size : (first + len(ids)) * size]


def test_a_finished_loader_stays_finished(small_set: Path) -> None:
    with open_small(small_set, epochs=1) as loader:
        rest_of(loader)
        state = loader.state_dict()
    with open_small(small_set, epochs=1) as loader:
        loader.load_state_dict(state)
        assert rest_of(loader) == []


@pytest.mark.parametrize(
    "options", [{"seed": 2}, {"batch": 8}, {"train": False}, {"drop_last": True}, {"shuffle": "none"}], ids=str
)
def test_a_state_of_another_order_is_refused(small_set: Path, options: dict[str, Any]) -> None:
    with open_small(small_set) as loader, open_small(small_set, **options) as other:
        expected = [ids for _, _, ids, _ in rest_of(other)]
    with open_small(small_set, **options) as other:
        with pytest.raises(pipetrain.StateError) as caught:
            other.load_state_dict(loader_state(small_set))
        assert isinstance(caught.value, ValueError) and str(caught.value)
        assert [ids for _, _, ids, _ in rest_of(other)] == expected


def loader_state(small_set: Path) -> dict[str, Any]:
    with open_small(small_set) as loader:
        next(iter(loader))
        return loader.state_dict()


def test_a_state_of_another_set_is_refused(small_set: Path, tmp_path: Path) -> None:
    other = shards.make_set(tmp_path / "other", records=99)
    with open_small(other) as loader, pytest.raises(pipetrain.StateError):
        loader.load_state_dict(loader_state(small_set))


@pytest.mark.parametrize(
    "state", [{}, None, {"state": 5}, {"state": ""}, {"state": "\0\ud800"}, {"epoch": 1, "step": 2}], ids=str
)
def test_what_is_no_state_is_refused(small_set: Path, state: Any) -> None:
    with open_small(small_set) as loader, pytest.raises(pipetrain.StateError):
        loader.load_state_dict(state)


def test_a_damaged_state_is_refused_at_every_byte(small_set: Path) -> None:
    state = loader_state(small_set)
    text = state["state"]
    with open_small(small_set) as loader:
        for place in range(0, len(text), 7):
            broken = text[:place] + chr(ord(text[place]) ^ 1) + text[place + 1 :]
            for damaged in (broken, text[:place]):
                with pytest.raises(pipetrain.StateError):
                    loader.load_state_dict({"state": damaged})
        loader.load_state_dict(state)
