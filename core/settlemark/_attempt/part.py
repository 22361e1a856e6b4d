"""A part of a transaction: what joined one of its calls, and where in an attempt a tool runs."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from settlemark._acts.current import CurrentCall, Staged
from settlemark._acts.effect import Effect
from settlemark._attempt.attempt import Attempt
from settlemark._model.effect_class import EffectClass
from settlemark._model.identity import Numbering
from settlemark._model.scope import Scope


@dataclass(slots=True, eq=False)
class Part:
    """What a program holds of an attempt: the whole of it, or what joined one of its calls."""

    attempt: Attempt
    numbering: Numbering

    @property
    def joined(self) -> bool:
        """Whether it settles with the call it was begun in."""
        return self.numbering is not self.attempt.numbering


class Inside(msgspec.Struct, eq=False):
    """Where a tool runs: for which effect, of which attempt; a transaction begun there is a part of that.

    A sub-agent is part of its caller's act: its calls become the outer transaction's and settle with that, unless it
    is to be independent. Each is named by where it was made (`trip#1/0.0.2`: the third call of the first that joined
    call 0), so a replay that answers call 0 from the record, and runs none of what it made, still knows all that
    follow. Source: flat nesting, as in Gray and Reuter (1993), chapter 4.
    """

    attempt: Attempt
    effect: Effect
    joined: int = 0
    over: bool = False

    def join(self) -> Part:
        """Return the next part of the call."""
        declaration = self.effect.declaration
        read = declaration.tool if declaration.kind is EffectClass.READ else None
        part = Part(self.attempt, Numbering((*self.effect.path, self.joined), read=read))
        self.joined += 1
        return part

    def staged(self, scope: Scope) -> list[Staged]:
        """Return the requests that its transaction has staged on a scope, in order."""
        return self.attempt.staged(scope)

    def calls_again(self) -> None:
        """Note that the tool is called: what it called within, before, is to be asked for again."""
        effect = self.effect
        if effect.called and effect.path:
            self.attempt.expect(effect.path)
        effect.called += 1


def current_of(attempt: Attempt, effect: Effect) -> CurrentCall:
    """Return what a tool sees as its current call."""
    txn = attempt.txn
    epoch = 0 if txn is None else txn.epoch
    return CurrentCall(effect.key, attempt.name, epoch, attempt.number, Inside(attempt, effect))


def inside_of(call: CurrentCall | None) -> Inside | None:
    """Return where in an attempt a call runs; None outside a transaction."""
    inside = None if call is None else call._inside  # noqa: SLF001 - kept there for this
    return inside if isinstance(inside, Inside) else None


__all__ = ["Inside", "Part", "current_of", "inside_of"]
