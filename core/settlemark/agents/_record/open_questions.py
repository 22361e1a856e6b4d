"""Which questions to a person are open: the call has not acted, its turn is open, and it waits for the answer alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from settlemark._acts.perform import Program
from settlemark._api.settlement import Settlement, host_of
from settlemark._edges.errors import PayloadError
from settlemark._engine.doubt import effect_of_key
from settlemark._model import json_text
from settlemark._model.disposition import Disposition
from settlemark._model.effect_class import Outcome
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.states import State
from settlemark._report.questions import answer_on_record, questions
from settlemark.agents._names import Names
from settlemark.ledger._contract import Book, RecordedEffect
from settlemark.ledger._payloads.payloads import Packer


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """A call that waits for a person's answer, or whose answer is on record and not used yet.

    Attributes:
        key: the call's key now: another than it was asked under if the call was split off from its turn.
        transaction: the name of the transaction that the question keeps open.
        answered: an answer is on record, from any process.
    """

    key: str
    transaction: str
    answered: bool
    _effect: RecordedEffect
    _payloads: Packer

    def is_of(self, run: str, work: str) -> bool:
        """Whether the agent of this name asked the question."""
        return Names.of(run, work).has_part(self.transaction)

    def is_about(self, call_id: str, tool: str, arguments: Mapping[str, Any]) -> bool:
        """Whether the question is about this call; a model may use an id again in a later turn."""
        row = self._effect.row
        if (call_id, tool) != (row.call_id, row.tool):
            return False
        try:
            payload = json_text.encode(dict(arguments))
        except PayloadError:  # a call with such arguments is never recorded
            return False
        return self._payloads.same(payload, row.fingerprint, effect_key=row.key)


def open_questions(settlement: Settlement, run: str, keys: Iterable[str]) -> Program[dict[str, OpenQuestion]]:
    """Return a job's open questions, each under the key given: those with these keys, and those answered elsewhere.

    "Elsewhere" is any process: an answer from there reaches the record alone, and another process may have asked.

    >>> from settlemark.agents import run_sync
    >>> run_sync(open_questions(Settlement("memory:"), "trip", ["trip#1/0"]))
    {}
    """
    given = list(keys)

    def look(protocol: Protocol, book: Book) -> dict[str, OpenQuestion]:
        elsewhere = [one.key for one in questions(protocol, book) if one.run == run and one.answer is not None]
        found = {key: _now(book, effect_of_key(book, key)) for key in dict.fromkeys([*given, *elsewhere])}
        return {
            key: OpenQuestion(effect.row.key, effect.row.name, answer_on_record(effect) is not None, effect, payloads)
            for key, effect in found.items()
            if effect is not None and _is_open(protocol, book, effect, run)
        }

    host = host_of(settlement)
    payloads = host.ledger.payloads
    return host.driver.kernel.look(look)


def _now(book: Book, effect: RecordedEffect | None) -> RecordedEffect | None:
    """Return an effect where it is now: a gate may have split the effect off from its turn."""
    if effect is None or effect.disposition is not Disposition.SPLIT_OFF:
        return effect
    part = book.load(effect.link or "")
    same = (effect.row.call_id, effect.row.tool)
    moved = [] if part is None else [e for e in part.effects if (e.row.call_id, e.row.tool) == same]
    # Calls without ids are told apart by their places, which those keep that were split off together.
    found = next((e for e in moved if e.row.decision == effect.row.decision), next(iter(moved), None))
    return _now(book, found)


def _is_open(protocol: Protocol, book: Book, effect: RecordedEffect, run: str) -> bool:
    live, recorded = protocol.named.get(effect.row.name), book.load(effect.row.name)
    return (
        effect.outcome is Outcome.SUSPENDED
        and live is not None
        and live.state is State.OPEN
        and recorded is not None
        and (recorded.row.run, recorded.row.attempt) == (run, effect.row.attempt)
    )


__all__ = ["OpenQuestion", "open_questions"]
