"""What a process that ended left in the ledger, brought back to life by the next."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from settlemark._acts.decision import Decision
from settlemark._acts.effect import Effect
from settlemark._acts.perform import CUT_OFF, SILENT, refuse_withheld
from settlemark._edges.errors import LedgerError
from settlemark._model import json_text
from settlemark._model.declaration import ROLES, Declaration
from settlemark._model.effect_class import Outcome
from settlemark._model.scope import Scope
from settlemark.ledger._contract import Book, EffectRow, RecordedEffect, RecordedTransaction
from settlemark.ledger._payloads.recoverable import withheld_from
from settlemark.ledger._payloads.unreadable import GONE, Unreadable

FIRST_VERSION = "1"


def revive(recorded: RecordedEffect, declaration: Declaration | None) -> Effect:
    """Return an effect as it stood when its process ended: an intent without an outcome may have happened."""
    row = recorded.row
    cut_off = recorded.outcome is Outcome.INTENDED

    def run() -> Any:
        function = declaration.function if declaration is not None else None
        if function is None:
            raise LookupError(f"{named(row)} is not declared in this process: declare it, then settle again")
        refuse_withheld(effect, "release")
        return function(**json_text.decode(row.arguments))

    result = json_text.decode(recorded.result)
    effect = Effect(
        declaration or Declaration(tool=row.tool, kind=row.kind, version=row.version),
        tuple(Scope.parse(text) for text in json_text.decode(row.scopes)),
        json_text.decode(row.arguments),
        run,
        call_id=row.call_id,
        rationale=row.rationale,
        decision=None if row.under is None else Decision.on_record(row.under),
        key=row.key,
        payload=row.arguments,
        position=row.position,
        path=row.decision,
        called=1,
        kept=None if result is None or isinstance(recorded.result, Unreadable) else (result,),
        held=row.held,
        outcome=recorded.outcome,
        result=result,
        stored=True,
        error=recorded.error if not cut_off else CUT_OFF if recorded.sender is None else SILENT,
        tag=recorded.tag,
        disposed=recorded.disposed,
        at=row.at,
        missing=named(row) if declaration is None and row.handled else None,
        fingerprint=row.fingerprint,
        withheld={} if declaration is None else withheld_from(declaration, row.arguments, recorded.result),
        unread=(result, recorded.result) if isinstance(recorded.result, Unreadable) else None,
        sender=recorded.sender,
        keyless=not row.keyed,
        unsigned=not row.keyed and not row.probed,
    )
    if cut_off or effect.outcome is Outcome.UNKNOWN:
        effect.doubt()
    effect.leaves = row.leaves  # as it was then, whatever the tool is declared now
    return effect


def afresh(recorded: RecordedEffect) -> RecordedEffect:
    """Return an effect as it is before anything is decided about it."""
    return replace(recorded, tag=None, note=None, disposition=None, link=None, question=None, contradicted=False)


def is_sealed(effect: RecordedEffect, declaration: Declaration | None) -> bool:
    """Whether another process, with the right keys, could read what handlers are given, and this one cannot."""
    handlers = [] if declaration is None else [getattr(declaration, role) for role in ROLES]
    takes_result = any(handler is not None and handler.takes("result") for handler in handlers)
    return any(map(_is_locked, (effect.row.arguments, effect.result if takes_result else None)))


def readable(book: Book, name: str) -> RecordedTransaction | None:
    """Return the record of what this process is to go on with.

    Raises:
        LedgerError: it lacks the key. It could neither send nor undo what a process that has the key still can.
    """
    recorded = book.load(name)
    if recorded is not None and (why := lacks_key(recorded)):
        raise LedgerError(f"{why}; nothing was run", transaction=name)
    return recorded


def lacks_key(recorded: RecordedTransaction) -> str:
    """Return why a process cannot go on with a transaction for want of the ledger's key; "" if it can."""
    for effect in recorded.effects:
        for what, text in (("arguments", effect.row.arguments), ("result", effect.result)):
            if _is_locked(text):
                return (
                    f"the {what} of {effect.row.tool} cannot be read in this process, and {recorded.row.name} is left"
                    " to one that can: give encrypt= the ledger's key"
                )
    return ""


def _is_locked(text: object) -> bool:
    return isinstance(text, Unreadable) and not isinstance(text, GONE)


def named(row: EffectRow) -> str:
    """Return what has to be declared to speak for a recorded effect, as people are told it."""
    return row.tool if row.version == FIRST_VERSION else f"{row.tool} (version {row.version})"
