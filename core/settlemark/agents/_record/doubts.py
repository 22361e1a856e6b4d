"""What of a job is in doubt, for turns that a framework knows again by names of its own: no call repeats it.

Such a turn has nothing to recall: its framework brings back what was answered. But a model that was told that an
outcome is unknown may ask for the same again, in a later turn: that is refused until somebody knows what came of the
first, and then goes by that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from settlemark._acts.effect import Effect
from settlemark._acts.perform import Program, in_doubt
from settlemark._api.per_settlement import OfSettlement
from settlemark._api.settlement import Settlement, host_of
from settlemark._attempt.attempt import Attempt
from settlemark._model import json_text
from settlemark._model.effect_class import Outcome
from settlemark._model.identity import Path
from settlemark._protocol.protocol import Protocol
from settlemark.agents._call import Call, PlacedCall
from settlemark.agents._record.recalled import Decision, decision_of, names, stands
from settlemark.ledger._contract import Book, RecordedEffect

Run = str


@dataclass(frozen=True, slots=True)
class Doubt:
    """A decision that was in doubt when it was seen last, and which one in its transaction it is."""

    decision: Decision
    transaction: str
    path: Path

    def is_like(self, call: Call, payload: str) -> bool:
        """Whether a call is the same act."""
        return names(call, self.decision) and self.decision.same(payload)


class Doubts:
    """What the jobs of one settlement have in doubt.

    One that turned out to have happened is kept here, in memory, until one call that repeats it has its result.
    """

    def __init__(self, settlement: Settlement) -> None:
        host = host_of(settlement)
        self._look = host.driver.kernel.look
        self._payloads = host.ledger.payloads
        self._known: dict[Run, set[str]] = {}
        self._lock = threading.Lock()

    def note(self, run: Run, effect: Effect) -> None:
        """Take note of what a turn has left in doubt, so that it is known again when somebody has told of it."""
        with self._lock:
            self._known.setdefault(run, set()).add(effect.key)

    def of_run(self, run: Run, *, recorded: bool) -> Program[dict[str, Doubt]]:
        """Return what of a job is in doubt, or was and has happened, by key; what was found not to have is let go.

        `recorded` says that the job may have begun before, here or in another process.
        """
        with self._lock:
            known = set(self._known.get(run, ()))
        if not (recorded or known):
            return dict[str, Doubt]()

        def look(_protocol: Protocol, book: Book) -> list[RecordedEffect]:
            now = book.in_doubt(run)
            ended = (book.find(key) for key in known.difference(effect.row.key for effect in now))
            return [*now, *(e for found in ended if found is not None for e in found.effects if e.row.key in known)]

        effects: list[RecordedEffect] = yield from self._look(look)
        found: dict[str, Doubt] = {}
        for effect in effects:
            is_sent = effect.outcome is Outcome.INTENDED  # again, just now
            now = replace(effect, outcome=Outcome.UNKNOWN) if is_sent else effect
            if stands(now):
                found[now.row.key] = Doubt(decision_of(now, self._payloads), now.row.name, now.row.decision)
        with self._lock:
            kept = self._known.get(run, set())
            found = {
                key: doubt for key, doubt in found.items() if key in kept or key not in known
            }  # answered meanwhile
            self._keep(run, (kept - known) | found.keys())
        return found

    def take(self, run: Run, key: str) -> bool:
        """Whether what has happened after all answers one call: it answers no second one."""
        with self._lock:
            now = self._known.get(run, set())
            self._keep(run, now - {key})
            return key in now

    def _keep(self, run: Run, keys: set[str]) -> None:
        if keys:
            self._known[run] = keys
        else:
            self._known.pop(run, None)


doubts_of = OfSettlement(Doubts)


@dataclass(frozen=True, slots=True)
class DoubtsOfTurn:
    """What of its job was in doubt when a turn began.

    Attributes:
        doubts: the settlement's.
        run: the job.
        found: what is in doubt.
    """

    doubts: Doubts
    run: Run
    found: dict[str, Doubt]

    def leave_out(self, keys: Collection[str]) -> None:
        """Have these answer no call here: something else does."""
        for key in keys:
            self.found.pop(key, None)

    def let_go(self, key: str) -> None:
        """Have one that has happened after all answer no call any more."""
        self.doubts.take(self.run, key)

    def answer(
        self, call: PlacedCall, arguments: Mapping[str, Any], attempt: Attempt, unpack: Callable[[Any], Any] | None
    ) -> Callable[[], Any] | None:
        """Return what gives a call the answer of one that is the same and was in doubt, or raises; None: it is new.

        What is on record of the call itself goes on from there.
        """
        path = call.placed.path
        before = attempt.effects.get(path)
        if not self.found or (before is not None and before.key):
            return None
        payload = json_text.encode(dict(arguments))
        made = Call(call.tool, arguments, call.declaration, call.call_id)
        for doubt in self.found.values():
            if (doubt.transaction, doubt.path) == (attempt.name, path) or not doubt.is_like(made, payload):
                continue
            if doubt.decision.is_doubt or self.doubts.take(self.run, doubt.decision.key):
                return partial(doubt.decision.answer, made, unpack)
        return None


def doubts_before(settlement: Settlement, run: Run, *, recorded: bool) -> Program[DoubtsOfTurn]:
    """Return what of a job is in doubt as a turn of it begins; see `Doubts.of_run`."""
    doubts = doubts_of(settlement)
    return DoubtsOfTurn(doubts, run, (yield from doubts.of_run(run, recorded=recorded)))


def answer_in_doubt(call: PlacedCall, arguments: Mapping[str, Any], attempt: Attempt) -> Callable[[], Any] | None:
    """Return what raises where an equal call that an ended process made in the same transaction is in doubt, or None.

    That one may be issued again itself, and then goes on from its own record: until then nothing is done in its stead.
    """
    before, path = attempt.effects.get(call.placed.path), call.placed.path
    if attempt.replay is not None or (before is not None and before.outcome is not Outcome.FAILED):
        return None
    for other in sorted(attempt.expected.paths - {path}):
        effect = attempt.effects.get(other)
        is_unknown = effect is not None and effect.outcome in (Outcome.INTENDED, Outcome.UNKNOWN)
        if effect is not None and is_unknown and effect.declaration.tool == call.tool and effect.arguments == arguments:
            return partial(_raise, in_doubt(effect))
    return None


def _raise(error: Exception) -> Any:
    raise error


__all__ = ["DoubtsOfTurn", "answer_in_doubt", "doubts_before", "doubts_of"]
