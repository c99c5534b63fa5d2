"""pipetrain: an input pipeline for image classification.

    import pipetrain

    with pipetrain.Loader("shards/train-*", batch=256, size=(224, 224), output="torch") as loader:
        for epoch in range(90):
            for images, labels in loader:       # uint8 [N, 224, 224, 3], int64 [N]
                ...

Shards are TFRecord files, which `pipetrain-convert` makes of folders of images, archives and other sets. Threads of a C
library read, shuffle, decode and augment; the order of an epoch is a function of the data, the options and the seed,
whatever the numbers of threads and of ranks are, and `state_dict` continues in the middle of it. See
help(pipetrain.Loader), and pipetrain.torch for torch's DataLoader.
"""

from ._errors import (
    BatchesLentError,
    ClosedError,
    DataError,
    Error,
    ForkedError,
    InternalError,
    LoaderWarning,
    OptionError,
    OutOfMemoryError,
    StateError,
)
from ._library import find_library, version as __version__
from ._loader import Array, Batch, Damage, Loader, Mixes, Stats

__all__ = [
    "Array",
    "Batch",
    "BatchesLentError",
    "ClosedError",
    "Damage",
    "DataError",
    "Error",
    "ForkedError",
    "InternalError",
    "Loader",
    "LoaderWarning",
    "Mixes",
    "OptionError",
    "OutOfMemoryError",
    "StateError",
    "Stats",
    "__version__",
    "find_library",
]
