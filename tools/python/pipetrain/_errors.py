"""The exceptions and the warning of this package, and which result of the library becomes which exception."""

from __future__ import annotations

from typing import Optional


class Error(Exception):
    """What every exception of this package is.

    Attributes:
        file: path of the damaged file, or None if the problem is not with one record.
        record: number of the damaged record in that file, from 0, or None.
    """

    file: Optional[str] = None
    record: Optional[int] = None


class OptionError(Error, ValueError):
    """An option is wrong, or options contradict each other or the data set."""


class DataError(Error):
    """Shards are missing, unreadable or damaged. `file` and `record` name a damaged record."""


class OutOfMemoryError(Error, MemoryError):
    """Memory, threads or open files are exhausted, or an image needs too much memory."""


class StateError(Error, ValueError):
    """A state that is none, or one of another data set or order. The loader stays where it was."""


class BatchesLentError(Error, BufferError):
    """All batches are still in use by arrays, so that none is left to be filled: drop arrays, copy them, or use a
    larger `depth`. The loader can be used again as soon as a batch is free."""


class ForkedError(Error, RuntimeError):
    """The loader was opened by the parent of this process, whose threads do not exist here."""


class ClosedError(Error, RuntimeError):
    """The loader is closed."""


class InternalError(Error, RuntimeError):
    """An error of the library or of this package."""


class LoaderWarning(UserWarning):
    """What the library reports without failing, such as damaged records that are left out."""
