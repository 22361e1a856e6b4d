"""What a person's answer has brought about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Answer = Literal["approve", "edit", "reject"]


@dataclass(frozen=True, slots=True)
class Answered:
    """What an answer has brought about.

    Attributes:
        keys: the calls it answers.
        decision: `approve`, `edit` or `reject`.
        news: the answer was not on record before.
        settled: the transaction has settled, or was undone; otherwise its waiting process continues with it.
        waits: what still keeps it from settling here; "" when nothing does.
        more: how many more have to say the same before it counts: see `Approval`.
    """

    keys: tuple[str, ...]
    decision: str
    news: bool
    settled: bool
    waits: str = ""
    more: int = 0


__all__ = ["Answer", "Answered"]
