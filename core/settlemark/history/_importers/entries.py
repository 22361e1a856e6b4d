"""The JSON values of a file, with their line numbers: JSON Lines, one array, or values one after the other."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

_BOM = "\ufeff"
_NEXT = re.compile(r"[\s,]*")
_VALUE = re.compile(r"^\{", re.MULTILINE)


class Entry(NamedTuple):
    """A value of a file with its line (from 1), or why it cannot be read."""

    line: int
    value: Any
    why: str | None = None


def entries(path: str | Path) -> Iterator[Entry]:
    r"""Yield the values of a file. JSON Lines are read one at a time; anything else is read as a whole.

    Raises:
        OSError: the file cannot be read.

    >>> import tempfile, os
    >>> path = Path(tempfile.mkdtemp()) / "a.json"
    >>> _ = path.write_text('[{"a": 1},\n 2]')
    >>> [(entry.line, entry.value) for entry in entries(path)]
    [(1, {'a': 1}), (2, 2)]
    """
    with Path(path).open(encoding="utf-8", errors="replace") as file:
        if _has_lines(path):
            for number, line in enumerate(file, 1):
                text = line.strip().removeprefix(_BOM)
                if text:
                    yield _line(number, text)
        else:
            yield from _values(file.read().removeprefix(_BOM))


def _has_lines(path: str | Path) -> bool:
    """Whether the first line that is not empty is a JSON value by itself, or no JSON at all."""
    with Path(path).open(encoding="utf-8", errors="replace") as file:
        first = next((line for line in file if line.strip()), "").strip().removeprefix(_BOM)
        others = any(line.strip() for line in file)
    if not others:
        return not first.startswith("[")
    if _line(1, first).why is None:
        return True
    return not first.startswith(("{", "["))


def _line(number: int, text: str) -> Entry:
    try:
        return Entry(number, json.loads(text))
    except (ValueError, RecursionError) as error:
        return Entry(number, None, f"no JSON: {error}")


def _values(text: str) -> Iterator[Entry]:
    """Yield an array's elements, or consecutive values; after a broken one, from the next line."""
    decoder = json.JSONDecoder()
    array = text.lstrip().startswith("[")
    at = text.index("[") + 1 if array else 0
    line, counted = 1, 0
    while (found := _NEXT.match(text, at)) is not None and found.end() < len(text):
        at = found.end()
        line, counted = line + text.count("\n", counted, at), at
        if array and text[at] == "]":
            array, at = False, at + 1
            continue
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            yield Entry(line, None, f"no JSON: {error}")
            following = _VALUE.search(text, at + 1)
            if following is None:
                return
            at = following.start()
        else:
            yield Entry(line, value)


__all__ = ["Entry", "entries"]
