"""The settled history of one resource: `Settlement.entity`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

from settlemark._acts.perform import Program
from settlemark._acts.requests import Wait
from settlemark._api.checked import checked_wait
from settlemark._api.host import Host
from settlemark._model import json_text
from settlemark._model.effect_class import EffectClass, Outcome
from settlemark._model.scope import Scope
from settlemark._protocol.holdings import Ticket
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.states import State
from settlemark._runtime.aio import run_async
from settlemark._runtime.sync import run_sync
from settlemark.ledger import Book, RecordedEffect, RecordedTransaction

_LONGEST_PAUSE = 5.0
_TOLD = (Outcome.CONFIRMED, Outcome.UNKNOWN, Outcome.UNDONE)


@dataclass(frozen=True, slots=True)
class Settled:
    """One effect in the settled history of a resource.

    Attributes:
        epoch: the place of its transaction in the settlement order; what overlaps settles in this order.
        transaction, attempt, run: whose it is.
        key: its idempotency key, unique in the ledger.
        tool, kind: what was called, and its class.
        scopes: where it acted.
        arguments, result: as recorded: redacted, or pruned.
        outcome: `confirmed`; `unknown` where nobody can tell; `undone` where it was taken back after its commit.
        decision: the id of the decision for the sake of which it was called, or None.
        at: when its transaction had settled, in seconds since 1970.
    """

    epoch: int
    transaction: str
    attempt: int
    run: str
    key: str
    tool: str
    kind: EffectClass
    scopes: tuple[str, ...]
    arguments: Any
    result: Any
    outcome: Outcome
    decision: str | None
    at: float


class Entity:
    """The settled history of a resource, as a log: what committed transactions have done there, in their order.

    Iterate over it for what there is now; `follow` goes on with what comes. What is open, aborted, or waits for its
    release is no history yet. Reads leave none. It is what *happened*: an effect that was taken back after its commit
    (`Settlement.rewind`) stands there with the outcome `undone`.

    >>> from settlemark import Settlement, effect
    >>> @effect("reversible", scope="invoice:/{number}", undo=lambda number: None)
    ... def book(number, amount): return amount
    >>> settlement = Settlement("memory:")
    >>> for name, amount in (("monday", 20), ("tuesday", 5)):
    ...     with settlement.transaction(name) as tx:
    ...         _ = tx.call(book, number="7", amount=amount)
    >>> [(each.transaction, each.arguments["amount"]) for each in settlement.entity("invoice:/7")]
    [('monday', 20), ('tuesday', 5)]
    """

    def __init__(self, host: Host, scope: Scope) -> None:
        self._host = host
        self._scope = scope

    @property
    def scope(self) -> str:
        """The resource, as text."""
        return self._scope.text

    def __iter__(self) -> Iterator[Settled]:
        return iter(run_sync(_Reader(self._host, self._scope).news()))

    def follow(self, *, wait: float | None = None) -> Iterator[Settled]:
        """Yield the settled history, and then each effect when its transaction has settled, in any process.

        It sleeps until something settles, and wakes then. Leave its loop to end it. An effect is yielded once.

        Args:
            wait: seconds after which it ends when nothing has come; without it it never ends by itself.
        """
        reader = _Reader(self._host, self._scope)
        seconds = None if wait is None else checked_wait(wait)
        while found := run_sync(reader.next(seconds)):
            yield from found

    async def afollow(self, *, wait: float | None = None) -> AsyncIterator[Settled]:
        """Do as `follow`, for an event loop: `async for`."""
        reader = _Reader(self._host, self._scope)
        seconds = None if wait is None else checked_wait(wait)
        while found := await run_async(reader.next(seconds)):
            for each in found:
                yield each

    def __repr__(self) -> str:
        return f"<Entity {self._scope.text}>"


class _Reader:
    """Reads a resource's history, and at each further look what was added.

    What has settled at or below the scope's floor is final, but for unfinished holders, such as those whose effects
    commute: so a look begins where neither of the two is any more, and knows what it has told from there on.
    """

    def __init__(self, host: Host, scope: Scope) -> None:
        self._host = host
        self._scope = scope
        self._from = 0
        self._seen: dict[str, int] = {}
        self._stood: tuple[int, int] | None = None

    def next(self, timeout: float | None) -> Program[list[Settled]]:
        """Return what was added, once there is something; nothing when the timeout is over."""
        kernel, ticket = self._host.driver.kernel, Ticket()
        until = None if timeout is None else kernel.monotonic() + timeout
        try:
            while True:
                if ticket.fired:
                    ticket = Ticket()
                with kernel.local as protocol:
                    protocol.watch_ends(ticket)  # before the look: what ends behind it wakes
                found = yield from self.news()
                left = _LONGEST_PAUSE if until is None else until - kernel.monotonic()
                if found or left <= 0:
                    return found
                yield from kernel.waits.listen(Wait(ticket, min(left, _LONGEST_PAUSE), "nobody", self._scope.text))
        finally:
            with kernel.local as protocol:
                if ticket in protocol.board.ends:
                    protocol.board.ends.remove(ticket)

    def news(self) -> Program[list[Settled]]:
        """Return what was added since the last look."""
        return self._host.driver.kernel.look(self._look)

    def _look(self, protocol: Protocol, book: Book) -> list[Settled]:
        floor, frontier = protocol.floor(self._scope), protocol.frontier(self._scope)
        if self._stood == (floor, frontier) and frontier > floor:
            return []  # nobody has settled here, and nobody is left below what has
        found = [
            _settled(recorded, effect)
            for recorded in book.since(self._from)
            if recorded.state is State.COMMITTED
            for effect in recorded.effects
            if effect.outcome in _TOLD and effect.row.kind is not EffectClass.READ and self._is_here(effect)
        ]
        fresh = sorted(
            (each for each in found if each.key not in self._seen), key=lambda each: (each.epoch, each.attempt)
        )
        self._stood, self._from = (floor, frontier), min(floor + 1, frontier)
        self._seen |= {each.key: each.epoch for each in fresh}
        self._seen = {key: epoch for key, epoch in self._seen.items() if epoch >= self._from}
        return fresh

    def _is_here(self, effect: RecordedEffect) -> bool:
        return any(Scope.parse(scope).overlaps(self._scope) for scope in json_text.decode(effect.row.scopes))


def _settled(recorded: RecordedTransaction, effect: RecordedEffect) -> Settled:
    row = effect.row
    return Settled(
        recorded.epoch,
        row.name,
        row.attempt,
        recorded.row.run,
        row.key,
        row.tool,
        row.kind,
        tuple(json_text.decode(row.scopes)),
        json_text.decode(row.arguments),
        None if effect.result is None else json_text.decode(effect.result),
        effect.outcome,
        row.under,
        recorded.settled_at or recorded.row.at,
    )


class Entities:
    """The part of a settlement that reads the history of a resource."""

    _host: Host

    def entity(self, scope: str | Scope) -> Entity:
        """Return the settled history of a resource, and of all below it, to iterate over and to follow.

        Raises:
            ScopeError: the scope is malformed.

        >>> from settlemark import Settlement
        >>> list(Settlement("memory:").entity("invoice:/7"))
        []
        """
        return Entity(self._host, Scope.parse(scope))


__all__ = ["Entities", "Entity", "Settled"]
