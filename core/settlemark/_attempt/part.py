"""A part of a transaction: what joined one of its calls, and where in an attempt a tool runs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import msgspec

from settlemark._acts.current import CurrentCall, Staged
from settlemark._acts.effect import Effect
from settlemark._acts.perform import Program
from settlemark._attempt.attempt import Attempt
from settlemark._model.effect_class import EffectClass, Outcome
from settlemark._model.identity import Numbering, Path
from settlemark._model.scope import Scope


@dataclass(slots=True, eq=False)
class Part:
    """What a program holds of an attempt: the whole of it, or what joined one of its calls.

    Attributes:
        attempt: the attempt.
        numbering: numbers its decisions.
        of: what several share, and this is one's place in; None: nobody else's.
        undone: why it was undone by itself, without the rest of the attempt; None: it was not.
    """

    attempt: Attempt
    numbering: Numbering
    of: Part | None = None
    undone: str | None = None

    @property
    def joined(self) -> bool:
        """Whether it settles with the call it was begun in."""
        return self.numbering is not self.attempt.numbering

    @property
    def shared(self) -> Part:
        """All that settles with it by itself: what it has its place in, or it alone."""
        return self if self.of is None else self.of

    def under(self, *place: int) -> Part:
        """Return the place that one of those has in it who share it."""
        return Part(self.attempt, self.numbering.under(*place), of=self.shared)


Turns = dict[Path, Counter[str | None]]
"""The ids of the calls of each turn within a call that has decided something, by its place, in issuance order."""
_AGAIN = 2
"""Of the counted runs of a tool, the first that may find what an earlier one has decided."""


class Whereabouts(Protocol):
    """Where a turn is in its framework's state, which tells whether that state has what an earlier turn was answered.

    What it says of an earlier turn goes by that one's `text`. With `same` the earlier call has the id of one of these.
    """

    @property
    def text(self) -> str:
        """The place, as it is put on record."""
        ...

    def follows(self, earlier: str, *, same: bool) -> bool | None:
        """Whether it comes behind an earlier turn, or stands beside it; None: its framework's store alone knows."""
        ...

    def is_behind(self, earlier: str) -> Program[bool]:
        """Whether it comes behind an earlier turn, by its framework's store."""
        ...


class Asked(NamedTuple):
    """What a framework says of a turn that it begins, or goes on with in the middle of an agent.

    Attributes:
        now: ids of the turn's calls.
        before: ids of the calls whose answers its model was given before, as often as they were given.
        shares: the turn has its place in a part that is also that of the turns before it.
        beside: ids of the calls that its model issued with these, where they are in turns of their own.
        at: where the turn is in the framework's state; None: it does not tell.
    """

    now: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    shares: bool = False
    beside: tuple[str, ...] = ()
    at: Whereabouts | None = None


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

    def join(self, asked: Asked | None = None) -> Part:
        """Return the next part of the call: of the turn that is asked for, where an earlier run of the call had it."""
        declaration = self.effect.declaration
        read = declaration.tool if declaration.kind is EffectClass.READ else None
        number = self.joined if asked is None else self._number_of(asked)
        self.joined = max(self.joined, number + 1)
        return Part(self.attempt, Numbering((*self.effect.path, number), read=read))

    def _number_of(self, asked: Asked) -> int:
        """Return the number of a turn: its earlier one in a call that runs again, else the next.

        A framework that resumes an agent in its middle does not come to the turns before that: they are not counted
        again, and what they decided stands.
        """
        behind, others = self.stand(asked.before)
        now = set(asked.now)
        again = (place[0] for place, ids in others.items() if now.intersection(ids))
        if not asked.shares:
            return next(again, max(self.joined, behind))
        # Of what is shared there is one after the other, as each is undone by itself: the latest is gone on with.
        later = (number for number in again if number >= self.joined)
        return next(later, max(self.joined, behind - 1))

    def stand(self, answered: Iterable[str]) -> tuple[int, Turns]:
        """Keep what earlier runs of the call decided in turns whose answers a model was given.

        Return the number behind those turns, and the other turns.
        """
        left, others, stand = Counter[str | None](answered), self._turns(), set[Path]()
        for place in list(others) if left else ():
            within = any(place[: len(outer)] == outer for outer in stand)  # it stands with the call that it is within
            if not within and others[place] <= left:
                left -= others.pop(place)
                stand.add(place)
                self.attempt.expected.keep((*self.effect.path, *place))
        return max((place[0] + 1 for place in stand), default=0), others

    def _turns(self) -> Turns:
        """Return what earlier runs of the call decided; in a first run what waits, and may be gone on with in it."""
        base = self.effect.path
        turns: Turns = defaultdict(Counter)
        waiting = set[Path]()
        for path, effect in sorted(self.attempt.effects.copy().items()):
            if len(path) > len(base) + 1 and path[: len(base)] == base:
                place = path[len(base) : -1]
                turns[place][effect.call_id] += 1
                if effect.outcome is Outcome.SUSPENDED:
                    waiting.add(place)
        if self.effect.called >= _AGAIN:
            return turns
        return {place: ids for place, ids in turns.items() if place in waiting}

    def staged(self, scope: Scope) -> list[Staged]:
        """Return the requests that its transaction has staged on a scope, in order."""
        return self.attempt.staged(scope)

    def calls_again(self) -> None:
        """Note that the tool is called: what it called within, before, is to be asked for again."""
        effect = self.effect
        if effect.called and effect.path:
            self.attempt.expect(effect.path)
        self.attempt.owes.pop(effect.path, None)  # what it opens again has the same places
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


__all__ = ["Asked", "Inside", "Part", "Whereabouts", "current_of", "inside_of"]
