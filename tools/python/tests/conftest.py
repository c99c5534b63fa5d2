"""Fixtures: a small set, made once."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Callable

import pytest

import shards


@pytest.fixture(scope="session")
def small_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """100 records in 4 shards: shards.image_of and shards.label_of."""
    return shards.make_set(tmp_path_factory.mktemp("small"))


@pytest.fixture(autouse=True)
def quiet_torch() -> None:
    warnings.filterwarnings("ignore", category=UserWarning, module=r"torch\.")


@pytest.fixture
def run_script(small_set: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run Python code in a process of its own, in which `small_set` is the set's pattern and pipetrain is imported."""

    def run(code: str, *arguments: str, timeout: float = 60, **environment: str) -> subprocess.CompletedProcess[str]:
        head = "import os, sys, threading, time\nimport numpy as np\nimport pipetrain\n"
        head += f"small_set = {str(small_set / 'train-*')!r}\n"
        return subprocess.run(
            [sys.executable, "-c", head + code, *arguments],
            env={**os.environ, **environment}, capture_output=True, text=True, timeout=timeout, check=False,
        )  # fmt: skip

    return run
