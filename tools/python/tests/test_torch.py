"""With PyTorch, Lightning and Accelerate, where they are installed."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pipetrain
import shards

torch = pytest.importorskip("torch")
import pipetrain.torch  # noqa: E402

PLAIN = {"batch": 16, "size": shards.SIDE, "crop": "none", "flip": False}


def records_of(images: Any, labels: Any) -> list[int]:
    """Which records the images are, found by their bytes."""
    numbers = []
    for image, label in zip(images, labels):
        number = NUMBERS[image.numpy().tobytes()]
        assert label == shards.label_of(number)
        numbers.append(number)
    return numbers


NUMBERS = {shards.image_of(number).tobytes(): number for number in range(100)}


def test_tensors_are_views_that_give_the_batch_back(small_set: Path) -> None:
    with pipetrain.Loader(small_set / "train-*", output="torch", **PLAIN) as loader:
        images, labels = next(iter(loader))
        assert (images.dtype, labels.dtype) == (torch.uint8, torch.int64)
        assert tuple(images.shape) == (16, shards.SIDE, shards.SIDE, 3)
        part = images.permute(0, 3, 1, 2)[2:4]
        expected = part.clone()
        del images
        gc.collect()
        assert loader.stats().lent == 1 and torch.equal(part, expected)
        del part
        assert loader.stats().lent == 0


def test_a_data_loader_gives_each_record_once(small_set: Path) -> None:
    dataset = pipetrain.torch.Dataset(small_set / "train-*", **PLAIN)
    loader = torch.utils.data.DataLoader(dataset, batch_size=None)
    assert len(loader) == 7
    orders = [[number for batch in loader for number in records_of(*batch)] for _ in range(2)]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(100)) and orders[0] != orders[1]
    dataset.close()


def test_a_data_set_continues_in_the_middle_of_an_epoch(small_set: Path) -> None:
    dataset = pipetrain.torch.Dataset(small_set / "train-*", **PLAIN)
    batches = iter(torch.utils.data.DataLoader(dataset, batch_size=None))
    for _ in range(3):
        next(batches)
    state = dataset.state_dict()
    expected = [records_of(*batch) for batch in batches]
    other = pipetrain.torch.Dataset(small_set / "train-*", **PLAIN)
    other.load_state_dict(state)
    assert [records_of(*batch) for batch in torch.utils.data.DataLoader(other, batch_size=None)] == expected
    assert len(expected) == 4


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_are_refused_in_words(small_set: Path, context: str) -> None:
    dataset = pipetrain.torch.Dataset(small_set / "train-*", **PLAIN)
    loader = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=2, multiprocessing_context=context)
    with pytest.raises((pipetrain.Error, TypeError), match="num_workers=0"):
        next(iter(loader))
    assert len(list(map(len, dataset))) == 7
    dataset.close()


def test_ranks_are_those_of_torch_distributed(small_set: Path, tmp_path: Path) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'meeting'}", rank=0, world_size=1)
    try:
        with pipetrain.Loader(small_set / "train-*", **PLAIN) as loader:
            assert (loader.rank, loader.world) == (0, 1)
    finally:
        torch.distributed.destroy_process_group()


def test_a_loader_that_was_opened_before_the_ranks_met_says_so(
    small_set: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    early = pipetrain.Loader(small_set / "train-*", **PLAIN)
    placed = pipetrain.Loader(small_set / "train-*", rank=0, world=1, **PLAIN)
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'meeting'}", rank=0, world_size=1)
    try:
        assert sum(1 for _ in early) == 7
        monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
        with pytest.raises(pipetrain.Error, match="rank 0 of 1.*rank 0 of 2 now: open it after init_process_group"):
            iter(early)
        assert sum(1 for _ in placed) == 7
    finally:
        torch.distributed.destroy_process_group()
    assert sum(1 for _ in early) == 7
    early.close()
    placed.close()


class OpensInWorker(torch.utils.data.IterableDataset):  # type: ignore[misc]
    """Opens a loader where it is iterated over."""

    def __init__(self, pattern: Path, **place: int) -> None:
        self.arguments = {"shards": pattern, "output": "torch", **PLAIN, **place}

    def __iter__(self) -> Any:
        return iter(pipetrain.Loader(**self.arguments))


def test_a_loader_in_each_worker_is_refused(small_set: Path) -> None:
    pattern = small_set / "train-*"
    with pytest.raises(pipetrain.OptionError, match="worker . of 2 of a DataLoader.*num_workers=0"):
        list(torch.utils.data.DataLoader(OpensInWorker(pattern), batch_size=None, num_workers=2))
    placed = OpensInWorker(pattern, rank=0, world=1)
    batches = torch.utils.data.DataLoader(placed, batch_size=None, num_workers=1)
    assert sum(len(images) for images, _ in batches) == 100


def test_cores_are_shared_between_ranks_of_torchrun(small_set: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cores = len(os.sched_getaffinity(0))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(max(2, cores)))
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    with pipetrain.Loader(small_set / "train-*", **PLAIN) as loader:
        assert loader.threads == 1


@pytest.mark.parametrize("mixing", [{"mixup": 0.4}, {"cutmix": 1.0}], ids=str)
def test_mixing_is_that_of_its_definition(small_set: Path, mixing: dict[str, float]) -> None:
    with pipetrain.Loader(small_set / "train-*", output="torch", **PLAIN, **mixing) as loader:
        for images, labels, mixes in loader:
            mixed = pipetrain.torch.mix(images, mixes).numpy()
            other_labels = pipetrain.torch.partners(labels)
            for sample in range(len(images)):
                partner = sample ^ 1 if sample ^ 1 < len(images) else sample
                own, other = images[sample].numpy().astype(np.float32), images[partner].numpy().astype(np.float32)
                top, left, bottom, right = mixes.box[sample].tolist()
                share = np.float32(mixes.share[sample])
                if bottom > top:
                    own[top:bottom, left:right] = other[top:bottom, left:right]
                else:
                    own = share * own + (1 - share) * other
                assert np.allclose(mixed[sample], own, atol=1e-3) and other_labels[sample] == labels[partner]
        assert torch.equal(pipetrain.torch.mix(images, None), images.float())


def test_lightning_resumes_in_the_middle_of_an_epoch(small_set: Path, tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning")

    class Module(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)
            self.seen: list[list[int]] = []

        def training_step(self, batch: Any, number: int) -> Any:
            images, labels = batch
            self.seen.append(records_of(images, labels))
            return self.layer(images.float().mean().reshape(1, 1)).sum()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.0)

    def fit(steps: int, checkpoint: Any = None) -> list[list[int]]:
        module = Module()
        quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
        trainer = lightning.Trainer(max_steps=steps, accelerator="cpu", enable_checkpointing=False,
                                    default_root_dir=tmp_path, **quiet)  # fmt: skip
        with pipetrain.Loader(small_set / "train-*", output="torch", **PLAIN) as loader:
            trainer.fit(module, loader, ckpt_path=checkpoint)
            trainer.save_checkpoint(tmp_path / "last.ckpt")
        return module.seen

    expected = fit(17)
    seen = fit(10)
    seen += fit(17, tmp_path / "last.ckpt")
    assert seen == expected and len(expected) == 17


def test_accelerate_saves_and_loads_the_position(small_set: Path, tmp_path: Path) -> None:
    accelerate = pytest.importorskip("accelerate")
    with pipetrain.Loader(small_set / "train-*", output="torch", **PLAIN) as whole:
        expected = [records_of(*batch) for batch in whole]
    accelerator = accelerate.Accelerator(cpu=True)
    loader = pipetrain.Loader(small_set / "train-*", output="torch", **PLAIN)
    accelerator.register_for_checkpointing(loader)
    batches = iter(loader)
    for _ in range(3):
        next(batches)
    accelerator.save_state(str(tmp_path / "state"))
    next(batches)
    accelerator.load_state(str(tmp_path / "state"))
    assert [records_of(*batch) for batch in loader] == expected[3:]
    loader.close()
