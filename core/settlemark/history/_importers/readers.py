"""The interface of a trace format's reader: it receives a file's values one by one, and records what they show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from settlemark.history._recording.recorder import Recorder
from settlemark.history._recording.touches import Tools


@dataclass
class Into:
    """A reader's outputs: the recorder, the knowledge of tools, and notes for people."""

    recorder: Recorder
    tools: Tools
    notes: list[str] = field(default_factory=list[str])


class Reader(Protocol):
    """Reads one format."""

    def __init__(self, into: Into) -> None: ...

    @staticmethod
    def recognizes(sample: Sequence[Any]) -> bool:
        """Whether a file's first values are of this format."""
        ...

    def begin(self, sample: Sequence[Any]) -> None:
        """Look at the first values before they are added."""
        ...

    def add(self, value: Any) -> Iterable[str | None]:
        """Add a value; yield for each entry in it why it is not understood, or None."""
        ...

    def end(self) -> None:
        """Record what is left: there are no more values."""
        ...


def counted(number: int, one: str, several: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "call has", "calls have"), counted(2, "call has", "calls have")
    ('1 call has', '2 calls have')
    """
    return f"{number} {one if number == 1 else several}"


def cut_short(lost: int) -> str:
    """Return the note on nodes whose superstep has not ended."""
    return (
        f"the run was cut short: {counted(lost, 'node', 'nodes')} of a superstep that has not ended: what they returned"
        " did not become visible, and what they did outside is done"
    )


def shared_notes(turns: Any) -> Iterator[str]:
    """Yield the notes on the calls that a reader has recorded."""
    if turns.unanswered:
        yield (
            f"{counted(turns.unanswered, 'call has', 'calls have')} no answer: whether they acted is not known, and"
            " they count for nothing"
        )
    if turns.idle:
        yield (
            f"{counted(turns.idle, 'agent has', 'agents have')} read something and then neither acted nor answered:"
            " what they read is in no operation"
        )
    if turns.tools.unclear:
        tools = ", ".join(sorted(turns.tools.unclear))
        yield (
            f"the names of {tools} do not say whether they read or write, and they count as writes: say what they do"
            ' with effects={"…": "read"} (--effects), or name the module that declares them (--module)'
        )


__all__ = ["Into", "Reader", "counted", "cut_short", "shared_notes"]
