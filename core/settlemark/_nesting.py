"""A transaction begun inside another's tool call is a part of it, unless it is to be independent.

A sub-agent is part of its caller's act: its calls become the outer transaction's and settle with that.
Each is named by where it was made (`trip#1/0.0.2`: the third call of the first that joined call 0), so a
replay that answers call 0 from the record, and runs none of what it made, still knows all that follow.
Source: flat nesting, as in Gray and Reuter (1993), chapter 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from settlemark._effect import Effect, EffectClass
from settlemark._errors import DeclarationError

if TYPE_CHECKING:
    from settlemark._attempt import Attempt

Path = tuple[int, ...]
"""Names a decision in its transaction; paths sort in issuance order."""


class Numbering:
    """Names the decisions of one transaction, or of what joined one of its calls, in issuance order.

    >>> top, part = Numbering(), Numbering((0, 1))
    >>> top.next("pay"), part.next("book"), part.next("mail"), top.next("pay")
    ((0,), (0, 1, 0), (0, 1, 1), (1,))
    """

    __slots__ = ("_base", "_count", "_read")

    def __init__(self, base: Path = (), *, read: str | None = None) -> None:
        self._base = base
        self._read = read
        self._count = 0

    @property
    def base(self) -> Path:
        """What the names of all these decisions begin with."""
        return self._base

    def under(self, *numbers: int) -> Numbering:
        """Return the numbering of a part that has these numbers among the decisions.

        >>> Numbering().under(2, 0).next("book")
        (2, 0, 0)
        """
        return Numbering((*self._base, *numbers), read=self._read)

    def next(self, tool: str) -> Path:
        """Return the name of the next decision.

        Raises:
            DeclarationError: it would be made inside a read, which is neither recorded nor undone.
        """
        if self._read is not None:
            raise DeclarationError(
                f"{tool} has an effect and was called inside {self._read}, which is declared a read: nothing was run;"
                f" declare what {self._read} does, or begin the inner transaction with independent=True",
                tool=self._read,
            )
        path = (*self._base, self._count)
        self._count += 1
        return path


@dataclass(slots=True, eq=False)
class Part:
    """What a program holds of an attempt: the whole of it, or what joined one of its calls."""

    attempt: Attempt
    numbering: Numbering

    @property
    def joined(self) -> bool:
        """Whether it settles with the call it was begun in."""
        return self.numbering is not self.attempt.numbering


class Inside:
    """Where a tool runs: for which effect, of which attempt."""

    __slots__ = ("attempt", "effect", "joined", "over")

    def __init__(self, attempt: Attempt, effect: Effect) -> None:
        self.attempt = attempt
        self.effect = effect
        self.joined = 0
        self.over = False

    def join(self) -> Part:
        """Return the next part of the call."""
        declaration = self.effect.declaration
        read = declaration.tool if declaration.kind is EffectClass.READ else None
        part = Part(self.attempt, Numbering((*self.effect.path, self.joined), read=read))
        self.joined += 1
        return part


__all__ = ["Inside", "Numbering", "Part", "Path"]
