"""Owing something with a transaction, from its program or from a tool that it runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, cast

from settlemark._acts.current import current_call
from settlemark._acts.perform import Program
from settlemark._attempt.part import Part, inside_of
from settlemark._edges.errors import DeclarationError, UsageError
from settlemark._edges.given import mapping
from settlemark._edges.text import TOOL, Most, identity
from settlemark._lifecycle.owing import obligations_of
from settlemark._model import json_text
from settlemark._model.effect_class import EffectClass
from settlemark._model.scope import Scope
from settlemark._owing.obligation import Obligation, Owing
from settlemark._protocol.states import State
from settlemark._runtime.aio import run_async
from settlemark._runtime.sync import run_sync
from settlemark.ledger._owed import PAYLOAD_BYTES

_TEXT = Most(4_000, 12_000)


def asked(
    text: str,
    *,
    to: str | Scope,
    by: timedelta | datetime,
    fulfilled_by: str | None,
    scope: str | Scope | None,
    matching: Mapping[str, Any] | None,
) -> Owing:
    """Return what is to be owed, checked.

    Raises:
        UsageError: a part of it is no such thing. ScopeError: a scope is malformed. PayloadError: JSON cannot hold it.
    """
    text = identity(text, "what is owed is said in words; this", _TEXT)
    tool = "" if fulfilled_by is None else identity(fulfilled_by, "fulfilled_by= is a tool's name; this one", TOOL)
    given = {} if matching is None else mapping(matching, "matching=")
    json_text.check(given)
    payload = json_text.encode({"text": text, "matching": json_text.snapshot(given)})
    if len(payload.encode()) > PAYLOAD_BYTES:
        raise UsageError(
            f"matching= has more than {PAYLOAD_BYTES:,} bytes as JSON: name what tells the effect; nothing is owed"
        )
    whom = Scope.parse(to)
    where = whom if scope is None else Scope.parse(scope)
    if isinstance(by, timedelta):
        if by <= timedelta(0):
            raise UsageError(f"by={by!r} lies in the past: give a time to come; nothing is owed")
        return Owing(whom.text, tool, where.text, payload, None, by.total_seconds())
    if not isinstance(cast("object", by), datetime) or by.tzinfo is None:
        raise UsageError(f"by={by!r}: give a timedelta, or a datetime with its time zone; nothing is owed")
    due = by.timestamp()
    if not math.isfinite(due):
        raise UsageError(f"by={by!r} is no time; nothing is owed")
    return Owing(whom.text, tool, where.text, payload, due, None)


class Owes:
    """The part of a synchronous transaction that owes."""

    _part: Part

    def owe(
        self,
        text: str,
        *,
        to: str | Scope,
        by: timedelta | datetime,
        fulfilled_by: str | None = None,
        scope: str | Scope | None = None,
        matching: Mapping[str, Any] | None = None,
    ) -> Obligation:
        """Owe something from this transaction's commit on; return the obligation, on record and still pending.

        A transaction that is undone owes nothing; one that is retried, resumed or replayed owes once. The first later
        effect that matches fulfils it, in the decision that commits the effect: of the tool `fulfilled_by`, on a scope
        that overlaps, with the arguments of `matching`. See `Settlement.obligations` and `Settlement.on_due`.

        Args:
            text: what is owed, in words: for people. It is redacted, encrypted and pruned as arguments are.
            to: to whom: a scope, as in `"customer:/7"`.
            by: when it is due: a `timedelta` from now, or a `datetime` with its time zone; on the store's clock.
            fulfilled_by: the name of the tool that fulfils it; without one only `Settlement.waive` ends it.
            scope: where that effect acts; by default `to`.
            matching: arguments that the effect has, with their values.

        Raises:
            UsageError: an argument is no such thing, or `by` lies in the past; nothing is owed.
            ScopeError: a scope is malformed. DeclarationError: the tool is not declared in this process.
            KeyConflict: a replay owes something else here. Refused, StateError: the transaction is over.

        >>> from datetime import timedelta
        >>> from settlemark import Settlement
        >>> settlement = Settlement("memory:")
        >>> with settlement.transaction("case-7") as tx:
        ...     owed = tx.owe("call back", to="customer:/7", by=timedelta(days=2))
        >>> [(owed.text, owed.state.value) for owed in settlement.obligations()]
        [('call back', 'open')]
        """
        owing = asked(text, to=to, by=by, fulfilled_by=fulfilled_by, scope=scope, matching=matching)
        return run_sync(_owing(self._part, owing))


class AsyncOwes:
    """The part of an async transaction that owes."""

    _part: Part

    async def owe(
        self,
        text: str,
        *,
        to: str | Scope,
        by: timedelta | datetime,
        fulfilled_by: str | None = None,
        scope: str | Scope | None = None,
        matching: Mapping[str, Any] | None = None,
    ) -> Obligation:
        """Owe something from this transaction's commit on. See `Transaction.owe`."""
        owing = asked(text, to=to, by=by, fulfilled_by=fulfilled_by, scope=scope, matching=matching)
        return await run_async(_owing(self._part, owing))


def owe(
    text: str,
    *,
    to: str | Scope,
    by: timedelta | datetime,
    fulfilled_by: str | None = None,
    scope: str | Scope | None = None,
    matching: Mapping[str, Any] | None = None,
) -> Obligation:
    """Owe something from within a tool, with the transaction of its call, whatever framework runs it.

    Arguments and errors are those of `Transaction.owe`.

    Raises:
        UsageError: no settled call runs here; nothing is owed.

    >>> from datetime import timedelta
    >>> from settlemark import Settlement, effect, owe
    >>> @effect("irreversible", scope="mail:/{to}")
    ... def promise(to): owe("an answer", to=f"mail:/{to}", by=timedelta(hours=1))
    >>> settlement = Settlement("memory:")
    >>> with settlement.transaction("case-7") as tx:
    ...     tx.call(book := effect("opaque")(lambda: owe("a seat", to="seat:/7", by=timedelta(hours=1)) and None))
    >>> [owed.text for owed in settlement.obligations()]
    ['a seat']
    """
    owing = asked(text, to=to, by=by, fulfilled_by=fulfilled_by, scope=scope, matching=matching)
    return run_sync(_within(owing))


async def aowe(
    text: str,
    *,
    to: str | Scope,
    by: timedelta | datetime,
    fulfilled_by: str | None = None,
    scope: str | Scope | None = None,
    matching: Mapping[str, Any] | None = None,
) -> Obligation:
    """Do as `owe`, for an async tool."""
    owing = asked(text, to=to, by=by, fulfilled_by=fulfilled_by, scope=scope, matching=matching)
    return await run_async(_within(owing))


def _owing(part: Part, owing: Owing) -> Program[Obligation]:
    if part.numbering.read is not None:
        _refuse_in_read(part.numbering.read)
    return obligations_of(part.attempt).owe(part.attempt, part.numbering.base, owing)


def _within(owing: Owing) -> Program[Obligation]:
    inside = inside_of(current_call())
    if inside is None or inside.over:
        raise UsageError(
            "owe() was called outside of a settled call: call it in a tool that a transaction runs, or use tx.owe(...);"
            " nothing is owed"
        )
    declaration = inside.effect.declaration
    if declaration.kind is EffectClass.READ:
        _refuse_in_read(declaration.tool)
    if inside.attempt.txn is not None and inside.attempt.txn.state is not State.OPEN:
        raise UsageError(
            f"{declaration.tool} runs at the commit of {inside.attempt.name}, which owes what was owed before: owe it"
            " with tx.owe(...) beside the call; nothing is owed",
            tool=declaration.tool,
        )
    return obligations_of(inside.attempt).owe(inside.attempt, inside.effect.path, owing)


def _refuse_in_read(tool: str) -> None:
    raise DeclarationError(
        f"{tool} is declared a read, which leaves nothing, and so owes nothing: declare what it does; nothing is owed",
        tool=tool,
    )


__all__ = ["AsyncOwes", "Owes", "aowe", "asked", "owe"]
