"""The package itself: version, help, where its library is, types."""

from __future__ import annotations

import importlib.util
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Callable

import pytest

import pipetrain

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def test_the_version_is_the_librarys() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", pipetrain.__version__)


def test_the_help_lists_all_options() -> None:
    text = inspect.getdoc(pipetrain.Loader) or ""
    sections = ("augment.*:", "data.*:", "input.*:")
    for words in (*sections, "uint8 [N, height, width, channels]", "    crop: ", "default", "OptionError"):
        assert words in text, words
    assert max(map(len, text.splitlines())) <= 130


def test_everything_public_is_documented() -> None:
    for name in pipetrain.__all__:
        assert name.startswith("__") or inspect.getdoc(getattr(pipetrain, name)), name
    for name, member in inspect.getmembers(pipetrain.Loader):
        assert name.startswith("_") or inspect.getdoc(member), name


def test_a_library_that_is_not_there_is_an_import_error_that_says_where(tmp_path: Path) -> None:
    code = "import pipetrain"
    result = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PIPETRAIN_FEED_LIBRARY": str(tmp_path)},
                            capture_output=True, text=True, check=False)  # fmt: skip
    assert result.returncode == 1
    assert re.search(rf"ImportError: .*{tmp_path}.*PIPETRAIN_FEED_LIBRARY", result.stderr)


def test_another_library_is_an_import_error(tmp_path: Path) -> None:
    (tmp_path / "libpipetrain-feed.so.0").write_bytes(b"no library")
    result = subprocess.run([sys.executable, "-c", "import pipetrain"], capture_output=True, text=True, check=False,
                            env={**os.environ, "PIPETRAIN_FEED_LIBRARY": str(tmp_path)})  # fmt: skip
    assert result.returncode == 1 and "cannot be loaded" in result.stderr


def test_importing_imports_no_framework(run_script: Run) -> None:
    result = run_script("print([name for name in ('torch', 'jax', 'tensorflow') if name in sys.modules])")
    assert result.stdout == "[]\n"


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")
def test_types_are_strict() -> None:
    root = Path(pipetrain.__file__).parent
    if not (root.parent / "backend").exists():
        pytest.skip("not in the sources")
    command = [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", "--cache-dir", os.devnull]
    result = subprocess.run(command, cwd=root.parents[2], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout
