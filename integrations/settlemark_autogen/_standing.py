"""Which questions stand: the call has not acted, its turn is open, and it waits only for somebody's yes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from autogen_core import FunctionCall

from settlemark import Outcome, PayloadError, Settlement, State
from settlemark.agents import Names
from settlemark.hosting import Disposition, Program, Protocol, effect_of_key, host_of, json_text, questions, said_values
from settlemark.ledger import Book, Packer, RecordedEffect
from settlemark_autogen._messages import NO_JSON, arguments_of


@dataclass(frozen=True, slots=True)
class Standing:
    """A question that stands.

    Attributes:
        effect: the effect in question, as recorded now: under another key if its turn was split.
        payloads: compares arguments with the recorded ones.
    """

    effect: RecordedEffect
    payloads: Packer

    @property
    def is_answered(self) -> bool:
        """Whether its answer is on record, from any process, and nobody has acted on it yet."""
        return "decision" in said_values(self.effect)

    @property
    def key(self) -> str:
        """The key under which the call will be asked about next."""
        return self.effect.row.key

    @property
    def transaction(self) -> str:
        """The name of the transaction that it keeps open."""
        return self.effect.row.name

    def is_of(self, run: str, agent: str) -> bool:
        """Whether an agent of this name asked it."""
        return Names.of(run, agent).has_part(self.transaction)

    def is_about(self, call: FunctionCall) -> bool:
        """Whether it is about this call; ids alone may be used again in a later turn."""
        row, given = self.effect.row, arguments_of(call)
        if (call.id, call.name) != (row.call_id, row.tool) or given is NO_JSON:
            return False
        try:
            payload = json_text.encode(dict(cast("Mapping[str, Any]", given)) if isinstance(given, Mapping) else {})
        except PayloadError:  # it could not have been recorded
            return False
        return self.payloads.same(payload, row.fingerprint, effect_key=row.key)


Stands = Callable[[Iterable[str]], Program[dict[str, Standing]]]
"""Finds, by a question's original key, the questions that stand, and those answered elsewhere."""


def standing(settlement: Settlement, run: str, keys: Iterable[str]) -> Program[dict[str, Standing]]:
    """Return those of a run's questions that stand, by their given keys; and those answered elsewhere.

    An answer from elsewhere does not come through this workbench, and another process may have asked.
    """
    given = list(keys)

    def look(protocol: Protocol, book: Book) -> dict[str, Standing]:
        elsewhere = [one.key for one in questions(protocol, book) if one.run == run and one.answer is not None]
        found = {key: _now(book, effect_of_key(book, key)) for key in dict.fromkeys([*given, *elsewhere])}
        payloads = host_of(settlement).ledger.payloads
        return {
            key: Standing(effect, payloads)
            for key, effect in found.items()
            if effect is not None and _is_open(protocol, book, effect, run)
        }

    return host_of(settlement).driver.kernel.look(look)


def _now(book: Book, effect: RecordedEffect | None) -> RecordedEffect | None:
    """Return an effect where it is now: it may have been split off from its turn."""
    if effect is None or effect.disposition is not Disposition.SPLIT_OFF:
        return effect
    part = book.load(effect.link or "")
    same = (effect.row.call_id, effect.row.tool)
    moved = [] if part is None else [e for e in part.effects if (e.row.call_id, e.row.tool) == same]
    return _now(book, moved[0]) if moved else None


def _is_open(protocol: Protocol, book: Book, effect: RecordedEffect, run: str) -> bool:
    live, recorded = protocol.named.get(effect.row.name), book.load(effect.row.name)
    return (
        effect.outcome is Outcome.SUSPENDED
        and live is not None
        and live.state is State.OPEN
        and recorded is not None
        and (recorded.row.run, recorded.row.attempt) == (run, effect.row.attempt)
    )


__all__ = ["Standing", "Stands", "standing"]
