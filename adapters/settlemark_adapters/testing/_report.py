"""The conformance kit's report: one verdict for each property of each tool, with the reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

_WIDTH = 110
_SHORT = {"passed": "ok", "failed": "FAILED", "not applicable": "-"}


class Word(StrEnum):
    """The verdict on one property of one tool."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The finding on one property of one tool.

    Attributes:
        property: its name, one of `properties()`.
        tool: the tool's name.
        word: passed, failed, or not applicable.
        why: the reason, in a sentence.
        mend: what to change, when it failed.
    """

    property: str
    tool: str
    word: Word
    why: str
    mend: str = ""

    def __str__(self) -> str:
        told = f"{self.tool}, {self.property}: {self.word}: {self.why}"
        return f"{told}\n  mend: {self.mend}" if self.mend else told


class Failed(Exception):
    """A property does not hold: why, and how to mend it. Raised by the properties, caught by the kit."""

    def __init__(self, why: str, mend: str) -> None:
        super().__init__(why)
        self.why = why
        self.mend = mend


class NotApplicable(Exception):
    """A property does not apply to this tool; with the reason."""


@dataclass(frozen=True, slots=True)
class Report:
    """The verdicts of a run of the kit. `str(report)` is a table, `report.check()` the test.

    >>> report = Report("Notes", (Verdict("commit", "add_note", Word.PASSED, "it is there at once"),))
    >>> print(report)
    Notes: 1 passed
    property  add_note
    commit    ok
    >>> report.ok
    True
    """

    adapter: str
    verdicts: tuple[Verdict, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return not self.failed

    @property
    def failed(self) -> list[Verdict]:
        """The failed verdicts."""
        return [verdict for verdict in self.verdicts if verdict.word is Word.FAILED]

    def of(self, name: str) -> list[Verdict]:
        """The verdicts on one property."""
        return [verdict for verdict in self.verdicts if verdict.property == name]

    def check(self) -> None:
        """Raise if something failed.

        Raises:
            AssertionError: something failed; the message says what, why, and how to correct it.
        """
        if self.failed:
            told = "\n\n".join(map(str, self.failed))
            raise AssertionError(f"{self.adapter} does not conform: {len(self.failed)} failed\n\n{told}\n\n{self}")

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain values, for JSON."""
        return {"adapter": self.adapter, "ok": self.ok, "verdicts": [asdict(verdict) for verdict in self.verdicts]}

    def __str__(self) -> str:
        counted = Counter(verdict.word for verdict in self.verdicts)
        heading = ", ".join(f"{counted[word]} {word}" for word in Word if counted[word]) or "nothing was asked"
        return "\n".join([f"{self.adapter}: {heading}", *self._tables(), *self._told()])

    def _tables(self) -> Iterator[str]:
        words = {(verdict.property, verdict.tool): _SHORT[verdict.word] for verdict in self.verdicts}
        names = list(dict.fromkeys(verdict.property for verdict in self.verdicts))
        tools = list(dict.fromkeys(verdict.tool for verdict in self.verdicts))
        first = max(map(len, ("property", *names)))
        while tools:
            columns, width = [tools.pop(0)], first
            width += 2 + max(len(columns[0]), len("FAILED"))
            while tools and (width := width + 2 + max(len(tools[0]), len("FAILED"))) <= _WIDTH:
                columns.append(tools.pop(0))
            rows = [("property", *columns), *((name, *(words.get((name, c), "") for c in columns)) for name in names)]
            widths = [max(len(row[n]) for row in rows) for n in range(len(columns) + 1)]
            for row in rows:
                yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()

    def _told(self) -> Iterator[str]:
        for verdict in self.failed:
            yield str(verdict)
        unsaid: dict[tuple[str, str], list[str]] = {}
        for verdict in self.verdicts:
            if verdict.word is Word.NOT_APPLICABLE:
                unsaid.setdefault((verdict.property, verdict.why), []).append(verdict.tool)
        for (name, why), tools in unsaid.items():
            yield f"- {name}: {why} ({', '.join(tools)})"


__all__ = ["Failed", "NotApplicable", "Report", "Verdict", "Word"]
