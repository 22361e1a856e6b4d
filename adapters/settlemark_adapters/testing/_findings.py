"""The scope fuzzer's findings: scopes that do not match what their calls do, each with the shortest example."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from settlemark.hosting import joined


class Kind(StrEnum):
    """What is wrong with a scope. The last two are hints: they cost time, and nothing is lost."""

    TOO_NARROW = "too narrow"
    READ_CHANGES = "a read changes it"
    TOO_BROAD = "too broad"
    NEVER_TOUCHED = "never touched"


_HINTS = frozenset({Kind.TOO_BROAD, Kind.NEVER_TOUCHED})


@dataclass(frozen=True, slots=True)
class Finding:
    """A scope that does not match what its calls do.

    Attributes:
        tool: the tool.
        kind: what is wrong.
        calls: the shortest example: the call after those that prepare it, or two that need not wait.
        declared: its declared scopes.
        changed: what each call changed.
        why: what was seen, in a sentence.
        mend: what to change.
    """

    tool: str
    kind: Kind
    calls: tuple[str, ...]
    declared: tuple[str, ...]
    changed: tuple[str, ...]
    why: str
    mend: str

    @property
    def is_hint(self) -> bool:
        """Whether it costs time only."""
        return self.kind in _HINTS

    def __str__(self) -> str:
        return joined(
            [
                f"{self.tool}: {self.kind}: {self.why}",
                f"  example: {'; '.join(self.calls)}",
                f"  mend: {self.mend}",
            ]
        )


@dataclass(frozen=True, slots=True)
class FuzzReport:
    """The findings, how many calls of each tool were tried, and how many of these changed something.

    `str(report)` tells it in sentences, `report.ok` says that there are only hints.
    """

    adapter: str
    findings: tuple[Finding, ...]
    calls: Mapping[str, int]
    changing: Mapping[str, int]

    @property
    def ok(self) -> bool:
        """Whether every call changed only what its scopes cover."""
        return all(finding.is_hint for finding in self.findings)

    @property
    def unshown(self) -> list[str]:
        """The tools of which no call changed anything: nothing is shown of their scopes."""
        return [tool for tool in self.calls if not self.changing.get(tool)]

    def check(self) -> None:
        """Raise if a call changed more than its scopes cover.

        Raises:
            AssertionError: one changed more; the message has the shortest example.
        """
        if not self.ok:
            raise AssertionError(str(self))

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain values, for JSON."""
        return {
            "adapter": self.adapter,
            "ok": self.ok,
            "findings": [asdict(finding) for finding in self.findings],
            "calls": dict(self.calls),
            "changing": dict(self.changing),
        }

    def __str__(self) -> str:
        total, changing = sum(self.calls.values()), sum(self.changing.values())
        hints = sum(finding.is_hint for finding in self.findings)
        found = f"{len(self.findings) - hints} findings, {hints} hints"
        lines = [f"{self.adapter}: {found} ({total} calls, {changing} of which changed something)"]
        lines += map(str, self.findings)
        if self.unshown:
            lines.append(f"nothing is shown of {', '.join(self.unshown)}: no call of them changed anything")
        return "\n".join(lines)


__all__ = ["Finding", "FuzzReport", "Kind"]
