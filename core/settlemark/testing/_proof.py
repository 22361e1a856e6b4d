"""The findings of a proof: one case a line, and the differences where the world was torn."""

from __future__ import annotations

import difflib
import pprint
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from settlemark._api.records import Residue

_WIDTH = 100


class End(StrEnum):
    """How a case left the world.

    `nothing`, `all`: as if it had not run, as if nothing had failed. `between`: some of its transactions have settled,
    each as a whole. `named`: neither, and `settlement.residue()` names what is left. `TORN`: neither, or not as asked
    for, and nothing names it. `late`: it did not end in time. `missed`: the fault struck nothing, so nothing was shown.
    """

    NOTHING = "nothing"
    ALL = "all"
    BETWEEN = "between"
    NAMED = "named"
    TORN = "TORN"
    LATE = "late"
    MISSED = "missed"


ACCEPTED = frozenset({End.NOTHING, End.ALL, End.BETWEEN, End.NAMED})


@dataclass(frozen=True, slots=True)
class Case:
    """One run under one fault (or several), and how it left the world.

    Attributes:
        where: the struck steps, such as `3. send_mail (release)`.
        how: the faults, such as `kill after`.
        end: how it left the world.
        found: the world's snapshot.
        residue: what the settlement names as left.
        raised: the agent's last exception, or None.
        why: what is wrong, in a sentence; empty when nothing is.
    """

    where: tuple[str, ...]
    how: tuple[str, ...]
    end: End
    found: Any
    residue: tuple[Residue, ...] = ()
    raised: str | None = None
    why: str = ""

    @property
    def ok(self) -> bool:
        """Whether the world is all or nothing, or the rest is named."""
        return self.end in ACCEPTED

    def __str__(self) -> str:
        struck = ", then ".join(f"{how} {where}" for how, where in zip(self.how, self.where, strict=True))
        return f"{struck or 'run twice'}: {self.end}"


@dataclass(frozen=True, slots=True)
class Proof:
    """The cases of a proof, and the states of the world that they were compared with.

    `str(proof)` is a table, `proof.ok` the verdict, `proof.assert_ok()` the test.

    >>> proof = Proof((Case(("1. book",), ("before",), End.NOTHING, []),), nothing=[], all=["Ada"])
    >>> print(proof)
    1 case: 1 nothing
    step     fault   end
    1. book  before  nothing
    >>> proof.ok
    True
    """

    cases: tuple[Case, ...]
    nothing: Any
    all: Any
    between: tuple[Any, ...] = field(default=())

    @property
    def ok(self) -> bool:
        """Whether every case left the world in a permitted state."""
        return all(case.ok for case in self.cases)

    @property
    def failed(self) -> list[Case]:
        """The cases that did not."""
        return [case for case in self.cases if not case.ok]

    def assert_ok(self) -> None:
        """Raise if a case failed.

        Raises:
            AssertionError: a case failed; the message shows each, and how its world differs.
        """
        failed = self.failed
        if failed:
            told = "\n\n".join(self._tell(case) for case in failed)
            raise AssertionError(f"{len(failed)} of {_cases(len(self.cases))} failed\n\n{told}\n\n{self}")

    def __str__(self) -> str:
        ends = Counter(case.end for case in self.cases)
        heading = f"{_cases(len(self.cases))}: " + ", ".join(f"{ends[end]} {end}" for end in End if ends[end])
        rows = [("step", "fault", "end")]
        rows += [
            (", ".join(case.where) or "-", ", ".join(case.how) or "run twice", _ended(case)) for case in self.cases
        ]
        widths = [max(len(row[column]) for row in rows) for column in range(2)]
        table = [f"{row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]}" for row in rows]
        return "\n".join([heading, *table])

    def _tell(self, case: Case) -> str:
        told = [f"{case}", f"  {case.why}"]
        if case.raised is not None:
            told.append(f"  the agent raised {case.raised}")
        told += [f"  named as left: {_left(residue)}" for residue in case.residue]
        if case.end is End.TORN:
            told += [f"  {line}" for line in self._difference(case)]
        return "\n".join(told)

    def _difference(self, case: Case) -> list[str]:
        """How the world differs from the nearest state."""
        states = {"all": self.all, "nothing": self.nothing}
        found = _lines(case.found)
        nearest = max(states, key=lambda name: _likeness(found, _lines(states[name])))
        compared = difflib.ndiff(_lines(states[nearest]), found)
        return [f"the world against {nearest} (- missing, + too much):", *(line for line in compared if line[0] != "?")]


def _cases(count: int) -> str:
    return f"{count} case{'' if count == 1 else 's'}"


def _ended(case: Case) -> str:
    left = "; ".join(_left(residue) for residue in case.residue)
    return f"{case.end} ({left})" if left else f"{case.end}"


def _left(residue: Residue) -> str:
    return f"{residue.tool} on {residue.scope}: {residue.tag}"


def _lines(state: Any) -> list[str]:
    return pprint.pformat(state, width=_WIDTH).splitlines()


def _likeness(one: Sequence[str], other: Sequence[str]) -> float:
    return difflib.SequenceMatcher(None, "\n".join(one), "\n".join(other)).ratio()


def difference(one: Any, other: Any) -> str:
    """Two snapshots line by line, for an error message."""
    lines: Iterable[str] = difflib.ndiff(_lines(one), _lines(other))
    return "\n".join(f"  {line}" for line in lines if not line.startswith("?"))
