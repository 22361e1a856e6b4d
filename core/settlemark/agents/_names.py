"""The names of a job's transactions: numbered, behind what they belong to."""

from __future__ import annotations

from dataclasses import dataclass

from settlemark._model.scope import escape

WHOLE = "*"
"""Stands where an agent's name does in what a whole run shares: no escaped name is this."""


@dataclass(frozen=True, slots=True)
class Names:
    """The names of the transactions of one agent's work, or of a whole run; no two of them share one.

    >>> names = Names.of("trip-42", "clerk")
    >>> names.name(7), names.has("trip-42/clerk/7"), names.has("trip-42/7"), names.number("trip-42/clerk/7")
    ('trip-42/clerk/7', True, False, 7)
    """

    prefix: str

    @classmethod
    def of(cls, run: str, work: str = "") -> Names:
        """Return those of the work of this name, the unnamed one by default."""
        return cls("".join(f"{escape(name)}/" for name in (run, work) if name))

    @classmethod
    def of_whole(cls, run: str) -> Names:
        """Return those of what a whole run shares."""
        return cls(f"{escape(run)}/{WHOLE}/")

    def name(self, number: int) -> str:
        """Return the name with this number."""
        return f"{self.prefix}{number}"

    def has(self, name: str) -> bool:
        """Whether a transaction's name is one of these."""
        return name.startswith(self.prefix) and name.removeprefix(self.prefix).isdecimal()

    def has_part(self, name: str) -> bool:
        """Whether a name is one of these, or that of what was split off from one at a gate."""
        return name.startswith(self.prefix) and name.removeprefix(self.prefix).partition("!")[0].isdecimal()

    def number(self, name: str) -> int:
        """Return the number in one of these."""
        return int(name.removeprefix(self.prefix))


def is_of_job(name: str, run: str) -> bool:
    """Whether a transaction is one of a job, be it of an agent's work or of the whole, or was split off from one.

    >>> is_of_job("trip-42/clerk/7!0", "trip-42"), is_of_job("trip-42/mine", "trip-42")
    (True, False)
    """
    own, _, number = name.partition("!")[0].rpartition("/")
    return number.isdecimal() and f"{own}/".startswith(Names.of(run).prefix)


__all__ = ["Names", "is_of_job"]
