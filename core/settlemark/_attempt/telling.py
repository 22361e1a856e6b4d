"""Telling an observer what a driver does; with none it costs one `if` at each place."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, TypeVar

from settlemark._acts.bodies import asked_for
from settlemark._acts.current import CurrentCall
from settlemark._acts.effect import Effect
from settlemark._acts.perform import Program
from settlemark._attempt.attempt import Attempt
from settlemark._observe.events import Acted, Acting, Began, Ended, Event, Told, Waited
from settlemark._protocol.holdings import DETACHED, Txn
from settlemark._protocol.states import Tag

T = TypeVar("T")


class Telling:
    """Tells an observer what happens to attempts and their effects.

    Args:
        asker: stands for this driver: an observer that waits for the transaction it is told of would wait for itself.
        monotonic: returns seconds, to measure waits with.

    Attributes:
        observer: who is told; nobody by default.
        elsewhere: attempts put aside here that another process goes on with: the observer is still to hear their end.
    """

    def __init__(self, asker: object, monotonic: Callable[[], float]) -> None:
        self.observer: Told | None = None
        self.elsewhere: dict[Txn, Attempt] = {}
        self._asker = asker
        self._monotonic = monotonic

    def observe(self, name: str, event: Event) -> None:
        """Tell the observer of a transaction: its program waits until the observer returns."""
        if self.observer is not None:
            with asked_for(self._asker, name):
                self.observer.tell(event)

    def began(self, attempt: Attempt, how: Literal["begun", "retried", "taken up"] = "begun") -> None:
        """Tell that an attempt begins here, once; one that comes back here has begun before."""
        txn = attempt.txn
        if self.observer is None or txn is None or attempt.began is not None:
            return
        before = self.elsewhere.pop(txn, None)
        if before is not None:
            attempt.began = before.began
            return
        attempt.began = Began(attempt.name, attempt.run, attempt.number, txn.epoch, how)
        self.observe(attempt.name, attempt.began)

    def ended(self, attempt: Attempt, again: Attempt | None = None) -> None:
        """Tell that an attempt is finished, or was taken from this process, once; and that another begins in its place.

        Another process that has gone on with what was put aside here says that by its record; see `leave`.
        """
        left = sum(1 for effect in attempt.effects.copy().values() if effect.tag not in (None, Tag.CLEAN))
        self._end(attempt, left, elsewhere=False)
        if again is not None and self.observer is not None and attempt.txn is not None:
            self.began(again, "retried")

    def leave(self, attempt: Attempt | None) -> None:
        """Take note that another process goes on with an attempt, if there is one: its end is still to be told."""
        if attempt is not None and attempt.began is not None and attempt.txn is not None and attempt.txn.id != DETACHED:
            self.elsewhere[attempt.txn] = attempt

    def ended_elsewhere(self, attempt: Attempt, left: int) -> None:
        """Tell that an attempt that was put aside here is finished, with so much residue, unless it has come back."""
        if attempt.txn is not None and self.elsewhere.pop(attempt.txn, None) is attempt:
            self._end(attempt, left, elsewhere=True)

    def _end(self, attempt: Attempt, left: int, *, elsewhere: bool) -> None:
        began, txn = attempt.began, attempt.txn
        if self.observer is None or began is None or txn is None:
            return
        attempt.began = None
        self.observe(attempt.name, Ended(began, txn.state, txn.reason, left, elsewhere))

    def waited(self, attempt: Attempt, holder: str, scope: str, since: float, *, gave_up: bool) -> None:
        if self.observer is not None:
            seconds = self._monotonic() - since
            self.observe(attempt.name, Waited(attempt.began, attempt.name, holder, scope, seconds, gave_up))

    def observed(
        self,
        attempt: Attempt,
        effect: Effect,
        act: Literal["call", "release", "undo"],
        current: CurrentCall,
        program: Program[T],
    ) -> Program[T]:
        """Run a program that acts, tell what comes of it, and let the observer surround what it calls."""
        observer = self.observer
        if observer is None:
            return (yield from program)
        declaration = effect.declaration
        acting = Acting(
            attempt.began,
            attempt.name,
            attempt.number,
            act,
            declaration.tool,
            declaration.kind,
            effect.scope_text,
            effect.key,
        )
        current._around = partial(observer.around, acting)  # noqa: SLF001 - kept there for this
        began = self._monotonic()
        self.observe(attempt.name, acting)
        try:
            return (yield from program)
        finally:
            self.observe(attempt.name, Acted(acting, effect.outcome, effect.tag, self._monotonic() - began))


__all__ = ["Telling"]
