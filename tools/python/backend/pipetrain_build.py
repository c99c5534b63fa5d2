"""Makes the wheel of the Python package: what pip calls (PEP 517), and what `make wheel` runs.

pip gives a checkout or an unpacked release. The sources are copied to a temporary folder and configured and built
there, so that the folder that pip was given does not change. Only the library of the loader is built, which needs a C
compiler and the libraries that ./configure asks for; if one is missing, its message is the last thing that pip shows.

    python3 pipetrain_build.py LIBRARY FOLDER   writes a wheel with this library to the folder, and prints its path
"""

from __future__ import annotations

import ast
import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Any, Iterable, Optional

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "tools" / "python" / "pipetrain"
LIBRARY = "libpipetrain-feed.so.0"
# Of these the folders are copied with all that is in them but what a build has left there.
SOURCES = (
    ".clang-format bootstrap configure.ac m4 Makefile.am pyproject.toml formats stage loader compute sync tools tests "
    "bench doc examples README.md CONTRIBUTING.md CHANGELOG.md LICENSE run.conf"
).split()
MADE_BY_BOOTSTRAP = "aclocal.m4 build-aux configure Makefile.in".split()
BUILD_LEAVINGS = re.compile(r"\.deps$|\.dirstamp$|__pycache__$|.*\.(o|a|so|so\..*|log|trs|d|1)$")

_ADVICE = "On Debian and Ubuntu ./bootstrap --install in a checkout installs the tools and libraries that are needed"


class BuildError(Exception):
    """What pip shows last: which command failed, and what to do."""


def _project_value(key: str) -> Any:
    """A value of [project] that stands on one line; such strings and lists are Python's, too."""
    found = re.search(rf"^{key} = (.*)$", (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)
    assert found is not None, key
    return ast.literal_eval(found.group(1))


def _version() -> str:
    text = (ROOT / "configure.ac").read_text("utf-8")
    found = re.search(r"^AC_INIT\(\[pipetrain\], \[([^\]]+)\]", text, re.MULTILINE)
    assert found is not None
    return found.group(1)


def _metadata() -> str:
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {_project_value('name')}",
        f"Version: {_version()}",
        f"Summary: {_project_value('description')}",
        f"Requires-Python: {_project_value('requires-python')}",
        *(f"Requires-Dist: {dependency}" for dependency in _project_value("dependencies")),
        "License: MIT",
        "Classifier: Operating System :: POSIX :: Linux",
    ]
    return "\n".join(lines) + "\n"


# ---- the library ----


def _is_program(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def _leavings(folder: str, names: list[str]) -> set[str]:
    paths = ((name, Path(folder) / name) for name in names)
    return {name for name, path in paths if BUILD_LEAVINGS.match(name) or (path.is_file() and _is_program(path))}


def _copy_sources(target: Path) -> None:
    lacking = [name for name in SOURCES if not (ROOT / name).exists() and not name.startswith(".")]
    if lacking:
        raise BuildError(f"this is no full checkout or release of pipetrain: {' '.join(lacking)} not found in {ROOT}")
    for name in SOURCES + MADE_BY_BOOTSTRAP:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, symlinks=True, ignore=_leavings)
        elif source.exists():
            shutil.copy2(source, target / name)


def _run(command: Iterable[str], folder: Path) -> None:
    command = list(command)
    print("+", " ".join(command), flush=True)
    try:
        code = subprocess.run(command, cwd=folder, check=False).returncode
    except OSError as error:
        raise BuildError(f"{command[0]} cannot be started: {error.strerror}. {_ADVICE}") from None
    if code != 0:
        raise BuildError(f"{' '.join(command)} failed, see above. {_ADVICE}")


def _configure(work: Path) -> Path:
    """Copy the sources to `work` and configure them there; returns the build folder."""
    source, build = work / "source", work / "build"
    source.mkdir()
    build.mkdir()
    _copy_sources(source)
    if not (source / "configure").exists():
        _run(["./bootstrap"], source)
    _run(["../source/configure", "--without-cuda", "--without-onednn", "--without-openmpi", "--without-mpich"], build)
    return build


def _build_library(work: Path) -> Path:
    build = _configure(work)
    _run(["make", f"-j{os.cpu_count() or 1}", LIBRARY], build)
    return build / LIBRARY


# ---- the wheel ----


def _tag() -> str:
    return "py3-none-" + re.sub(r"[-.]", "_", sysconfig.get_platform())


def _wheel_lines() -> str:
    return f"Wheel-Version: 1.0\nGenerator: pipetrain_build\nRoot-Is-Purelib: false\nTag: {_tag()}\n"


def _digest(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def write_wheel(library: Path, folder: Path) -> str:
    """Write a wheel with this library to `folder`; returns the name of the file."""
    info = f"pipetrain-{_version()}.dist-info"
    members = {f"pipetrain/{path.name}": path.read_bytes() for path in sorted(PACKAGE.glob("*")) if path.is_file()}
    members[f"pipetrain/{LIBRARY}"] = library.read_bytes()
    members[f"{info}/METADATA"] = _metadata().encode()
    members[f"{info}/LICENSE"] = (ROOT / "LICENSE").read_bytes()
    members[f"{info}/WHEEL"] = _wheel_lines().encode()
    record = "".join(f"{name},{_digest(data)},{len(data)}\n" for name, data in members.items())
    members[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    name = f"pipetrain-{_version()}-{_tag()}.whl"
    with zipfile.ZipFile(folder / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        for member, data in members.items():
            # A fixed time, so that the same files make the same wheel.
            entry = zipfile.ZipInfo(member, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = (0o755 if member.endswith(LIBRARY) else 0o644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
    return name


# ---- what pip calls ----


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Optional[dict[str, Any]] = None) -> str:
    info = Path(metadata_directory) / f"pipetrain-{_version()}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(_metadata(), "utf-8")
    (info / "WHEEL").write_text(_wheel_lines(), "utf-8")
    return info.name


def build_wheel(wheel_directory: str, config_settings: Optional[dict[str, Any]] = None,
                metadata_directory: Optional[str] = None) -> str:
    with tempfile.TemporaryDirectory(prefix="pipetrain-build.") as work:
        return write_wheel(_build_library(Path(work)), Path(wheel_directory))


def build_sdist(sdist_directory: str, config_settings: Optional[dict[str, Any]] = None) -> str:
    """The release that `make dist` packs, with the description that package indexes want."""
    name = f"pipetrain-{_version()}"
    with tempfile.TemporaryDirectory(prefix="pipetrain-build.") as work:
        build = _configure(Path(work))
        _run(["make", "distdir"], build)
        (build / name / "PKG-INFO").write_text(_metadata(), "utf-8")
        with tarfile.open(Path(sdist_directory) / f"{name}.tar.gz", "w:gz", format=tarfile.PAX_FORMAT) as archive:
            archive.add(build / name, name)
    return f"{name}.tar.gz"


if __name__ == "__main__":
    print(Path(sys.argv[2]) / write_wheel(Path(sys.argv[1]), Path(sys.argv[2])))
