"""A detector's findings: the count, and the first few witnesses, each as a sentence."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

WITNESSES = 5
"""How many witnesses of an anomaly are kept; all are counted."""

TITLES = {
    "A1": "stale generation",
    "A1-self": "stale generation by the agent itself",
    "A1-semantic": "stale generation by supersteps",
    "A2": "phantom tool",
    "A3": "causal cascade",
    "A3x": "causal cascade that has left",
    "A4": "split view",
    "A6": "effect reordering",
    "residue": "a value that nobody wrote",
    "effects": "effects lost or added",
}


@dataclass(frozen=True)
class Witness:
    """One occurrence of an anomaly.

    Attributes:
        sentence: what happened.
        records: the places of the records in the history, from 1, the faulty one first.
        cell: the cell, if it is about one.
        times: its times, in the order of the sentence.
        values: its values, in the order of the sentence.
    """

    sentence: str
    records: tuple[int, ...]
    cell: str | None = None
    times: tuple[int, ...] = ()
    values: tuple[Any, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        return {
            "sentence": self.sentence,
            "records": list(self.records),
            "cell": self.cell,
            "times": list(self.times),
            "values": list(self.values),
        }


@dataclass
class Verdict:
    """The findings about one anomaly in a history.

    Attributes:
        anomaly: `A1`, `A2`, `A3`, …
        count: how many records have it.
        witnesses: the first few.
    """

    anomaly: str
    count: int = 0
    witnesses: list[Witness] = field(default_factory=list[Witness])

    @property
    def title(self) -> str:
        """Its name in words."""
        return TITLES[self.anomaly]

    @property
    def absent(self) -> bool:
        """Whether the history is free of it."""
        return self.count == 0

    def wants(self) -> bool:
        """Count one occurrence, and return whether its witness is to be kept."""
        self.count += 1
        return len(self.witnesses) < WITNESSES

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        return {
            "anomaly": self.anomaly,
            "title": self.title,
            "count": self.count,
            "witnesses": [witness.as_dict() for witness in self.witnesses],
        }


__all__ = ["TITLES", "WITNESSES", "Verdict", "Witness"]
