"""For PyTorch: a data set for torch.utils.data.DataLoader, and the mixing of mixup and CutMix.

    from torch.utils.data import DataLoader
    dataset = pipetrain.torch.Dataset("shards/train-*", batch=256, size=224, crop="resized", flip=True)
    for images, labels in DataLoader(dataset, batch_size=None):
        ...

Code that takes any iterable, such as a training loop of your own or lightning.Trainer.fit, needs no DataLoader: give it
a pipetrain.Loader with output="torch".
"""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Optional, Tuple

import torch
from torch.utils.data import IterableDataset, get_worker_info

from ._errors import Error
from ._loader import Loader, Mixes

__all__ = ["Dataset", "mix", "partners"]


class Dataset(IterableDataset):  # type: ignore[misc]
    """A torch.utils.data.IterableDataset whose samples are whole batches: for DataLoader(dataset, batch_size=None),
    with the default num_workers=0. Workers are refused, because the library decodes with threads of its own: `threads`.
    The batches are this rank's already: do not give the DataLoader to Accelerate's `prepare`, which would divide those
    of rank 0 once more and use no others.

    Takes the arguments of pipetrain.Loader, but `output`. Gives (images, labels): uint8 [N, H, W, C] and int64 [N];
    with mixup or cutmix (images, labels, mixes).

    Attributes:
        loader: the pipetrain.Loader.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__()
        self.loader = Loader(*arguments, **{**options, "output": "torch"})

    def __iter__(self) -> Iterator[Tuple[Any, ...]]:
        worker = get_worker_info()
        if worker is not None:
            raise Error(
                "pipetrain.torch.Dataset works in the process that opened it, but DataLoader has "
                f"{worker.num_workers} workers: use num_workers=0. The library decodes with threads (threads=...)"
            )
        return iter(self.loader)

    def __len__(self) -> int:
        """Steps of an epoch."""
        return len(self.loader)

    def state_dict(self) -> dict[str, Any]:
        """The position, as Loader.state_dict has it. A DataLoader with num_workers=0 takes no batch ahead, so this is
        behind the last batch that it gave."""
        return self.loader.state_dict()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go to a position."""
        self.loader.load_state_dict(state_dict)

    def close(self) -> None:
        """End the threads and close the shards."""
        self.loader.close()


def mix(images: torch.Tensor, mixes: Optional[Mixes]) -> torch.Tensor:
    """Mix a batch by mixup or CutMix as it was drawn, on the device of the images.

    The loss is then share * loss(labels) + (1 - share) * loss(partners' labels), with partners(labels).

    Args:
        images: [N, H, W, C] of any type.
        mixes: of the batch, on any device; None gives the images as float32.

    Returns:
        float32 [N, H, W, C].
    """
    own = images.to(torch.float32)
    if mixes is None:
        return own
    share = mixes.share.to(images.device).reshape(-1, 1, 1, 1)
    box = mixes.box.to(images.device)
    top, left, bottom, right = (box[:, side].reshape(-1, 1, 1, 1) for side in range(4))
    rows = torch.arange(images.shape[1], device=images.device).reshape(1, -1, 1, 1)
    columns = torch.arange(images.shape[2], device=images.device).reshape(1, 1, -1, 1)
    is_partners = (rows >= top) & (rows < bottom) & (columns >= left) & (columns < right)
    has_box = bottom > top
    other = partners(own)
    mixed = share * own + (1 - share) * other
    return torch.where(has_box, torch.where(is_partners, other, own), mixed)


def partners(samples: torch.Tensor) -> torch.Tensor:
    """The partner of every sample of a batch: 2k for 2k + 1, and the other way round; a last one without a partner is
    its own.

    Args:
        samples: [N, ...], as images or labels.

    Returns:
        A tensor of the same shape.
    """
    number = torch.arange(len(samples), device=samples.device)
    other = torch.where(number ^ 1 < len(samples), number ^ 1, number)
    return samples[other]
