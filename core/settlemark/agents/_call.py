"""One call of a turn: what the model issued, and its place once the turn is open."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from settlemark._acts.effect import Effect
from settlemark._attempt.turn import Seat
from settlemark._model.declaration import Declaration
from settlemark._model.disposition import ANSWERED_NO
from settlemark._model.effect_class import EffectClass, Outcome
from settlemark._protocol.holdings import Ticket
from settlemark._protocol.states import Tag


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One call that a model issued.

    Attributes:
        tool: the tool's name.
        arguments: as the model gave them: the decision is known again by these.
        declaration: what the tool does; see `Declarations`.
        call_id: the model's id for it, where there is one.
        given: the arguments as the tool will get them, where the framework makes them of the model's.
        refused: why its framework runs nothing of it (it has no such tool, or the tool cannot take the arguments), or
            None. It is a failure of its turn like any other: a mail about a room does not leave when the room was asked
            for in words that nobody can take.
        untaken: its tool does not take these arguments. Either something of the framework's gives it others before it
            runs (a hook that adds a tenant, say), or the framework tells its model, and `AgentTurn.turn_down` the turn.

    >>> from settlemark._model.declare import declare
    >>> Call("look", {"at": "sky"}, declare("look", "read")).acts
    False
    """

    tool: str
    arguments: Mapping[str, Any]
    declaration: Declaration
    call_id: str | None = None
    given: Mapping[str, Any] | None = None
    refused: str | None = None
    untaken: bool = False

    @property
    def acts(self) -> bool:
        """Whether it has an effect."""
        return self.refused is None and self.declaration.kind is not EffectClass.READ


@dataclass(slots=True, eq=False)
class PlacedCall:
    """One call of an open turn: its place, and what came of it.

    Attributes:
        declaration, arguments, call_id: as in `Call`.
        seat: its place in the turn's order.
        placed: holds its place among the transaction's effects.
        refused: why its framework runs nothing of it, or None.
        untaken: its tool does not take the arguments that it has so far.
        effects: what it asked for; more than one where a wrapper made it again with other arguments.
        failed: why it failed, in words.
        skipped: the turn goes on without it, although it failed.
        over: the framework is done with it.
        stopped: the failure of another stopped it, when the turn was settled: it is no failure of its own.
    """

    declaration: Declaration
    arguments: Mapping[str, Any]
    call_id: str | None
    seat: Seat
    placed: Effect
    refused: str | None = None
    untaken: bool = False
    effects: list[Effect] = field(default_factory=list[Effect])
    failed: str | None = None
    skipped: bool = False
    over: bool = False
    stopped: bool = False

    def of(self, call: Call) -> Self:
        """Take note of what else is known of the call, and return this."""
        self.refused, self.untaken = call.refused, call.untaken
        return self

    @property
    def tool(self) -> str:
        """The tool's name."""
        return self.declaration.tool

    @property
    def last(self) -> Effect | None:
        """What it asked for last, or None: it has asked for nothing yet."""
        return next(reversed(self.effects), None)

    @property
    def control(self) -> BaseException | None:
        """By what its framework put it aside, or None; known before any other call of the turn hears of it."""
        return self.seat.interruption

    def ask_in(self, place: Hashable) -> None:
        """Have a person asked about it beside those asked about in other places, and after those in this one."""
        self.seat.asks_in = place

    def run_as_agent(self) -> None:
        """Have it run beside other agents of its turn: what it does it does by calls of its own, in their order."""
        self.seat.is_agent = True

    def change(self, made: Effect, *, held: bool) -> list[Ticket]:
        """Let another tool have its place, which somebody put in its stead; return the tickets of who waited for it."""
        self.declaration = made.declaration
        return self.seat.turn.change(self.seat, made.declaration, *made.scopes, held=held)

    def recall(self, known: Mapping[tuple[int, ...], Effect]) -> None:
        """Take note of what it did before its turn was put aside: that is still told of, if it is undone."""
        found = known.get(self.placed.path)
        if found is not None and not self.effects:
            self.effects.append(found)

    def acts_by(self, found: Effect, effect: Effect) -> None:
        """Take note of what acts for an effect of it, unless that was approved with other arguments."""
        if found.path == effect.path:
            self.effects[self.effects.index(effect)] = found

    @property
    def held(self) -> bool:
        """Whether it is held until its turn settles."""
        return self.seat.held

    @property
    def has_failed(self) -> bool:
        """Whether it has failed itself, and its turn does not go on without it."""
        return self.failed is not None and not (self.skipped or self.stopped)


def is_given_up(effect: Effect) -> bool:
    """Whether nothing is left of an effect, and not because a person said no or gave it other arguments."""
    if effect.outcome is Outcome.UNDONE:
        return effect.tag is Tag.CLEAN
    return effect.outcome is Outcome.DROPPED and effect.disposition not in ANSWERED_NO


def unset() -> None:
    """Stand for a tool in an effect that does not run."""
    raise AssertionError


__all__ = ["Call", "PlacedCall", "is_given_up", "unset"]
