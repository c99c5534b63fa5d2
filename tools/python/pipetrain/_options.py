"""Keywords of Loader that the package does not know itself, as the lines of text that the library parses."""

from __future__ import annotations

import difflib
import textwrap
from typing import Any, Mapping

import numpy as np

from ._errors import OptionError
from ._library import Key, keys

_KEYS = {key.name: key for key in keys()}
# What other loaders call an option.
_NAMES_ELSEWHERE = {"num_workers": "threads", "workers": "threads", "prefetch_factor": "depth", "pin_memory": "pin",
                    "scale": "crop_area", "ratio": "crop_aspect"}  # fmt: skip
# Options that are arguments of Loader by another name.
_OWN = {"data.last_batch": "drop_last", "input.decode_threads": "threads", "input.prefetch_depth": "depth"}
# In this order a keyword is looked up without its section.
_SECTIONS = ("augment", "data", "input")


def _find(name: str, own_names: tuple[str, ...]) -> Key:
    for full_name in (name, *(f"{section}.{name}" for section in _SECTIONS)):
        if full_name in _KEYS:
            return _KEYS[full_name]
    known = (*own_names, *(key.partition(".")[2] for key in _KEYS))
    near = [_NAMES_ELSEWHERE[name]] if name in _NAMES_ELSEWHERE else difflib.get_close_matches(name, known, 1)
    hint = f"did you mean {near[0]}?" if near else "help(pipetrain.Loader) lists all options"
    raise OptionError(f"there is no option {name!r}: {hint}")


def _format(name: str, value: Any) -> str:
    if isinstance(value, (bool, np.bool_)) and name == "data.shuffle":
        return "full" if value else "none"     # as DataLoader has it
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return " ".join(_format(name, item) for item in value)
    text = str(value)
    if "\n" in text or "\0" in text:
        raise OptionError(f"{name}: a value has no line breaks: {text!r}")
    return text


def settings_text(options: Mapping[str, Any], own_names: tuple[str, ...]) -> str:
    """A line for each option that is not None. OptionError names those that do not exist or are given twice; the
    library checks values."""
    used: dict[str, Any] = {}
    for name, value in options.items():
        full_name = _find(name, own_names).name
        if full_name in _OWN:
            raise OptionError(f"{name} is given as {_OWN[full_name]}")
        if full_name in used:
            raise OptionError(f"{full_name} is given twice")
        if value is not None:
            used[full_name] = value
    return "".join(f"{name} = {_format(name, value)}\n" for name, value in used.items())


def describe_options() -> str:
    """The list of all options for the help, by section."""
    lines = []
    for section in _SECTIONS:
        lines.append(f"{section}.*:")
        for key in _KEYS.values():
            if key.name.startswith(f"{section}.") and key.name not in _OWN:
                lines += _describe(key)
    return "\n".join(lines)


def _describe(key: Key) -> list[str]:
    name = key.name.partition(".")[2]
    facts = "; ".join(fact for fact in (key.range or key.type, f"default {key.initial}" if key.initial else "") if fact)
    return [f"    {name}: {facts}", *textwrap.wrap(key.help, 100, initial_indent=" " * 8, subsequent_indent=" " * 8)]
