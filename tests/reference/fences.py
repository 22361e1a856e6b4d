"""An example in a docstring is code on the site, too: each run of `>>>` lines and what they print gets a fence."""

from __future__ import annotations

from typing import Any

import griffe


def fenced(text: str) -> str:
    """Return a docstring with a fence around each of its examples."""
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        if line.lstrip().startswith(">>> ") and not inside:
            inside = True
            lines += ["", "```pycon"]
        elif inside and not line.strip():
            inside = False
            lines.append("```")
        lines.append(line)
    return "\n".join([*lines, "```"] if inside else lines)


class FencedExamples(griffe.Extension):
    """What mkdocstrings reads the packages with."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Fence the examples of one docstring."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
