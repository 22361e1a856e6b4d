"""What a person is told of what is stuck: once, in the commit that says that nothing has mended it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from settlemark._acts.perform import Program
from settlemark._approvals.channel import Notice
from settlemark._edges.errors import UsageError
from settlemark._edges.text import CAUSE, brief, prose
from settlemark._engine.kernel import Kernel
from settlemark._mending.claims import Case, body_of, draft_of
from settlemark._mending.remedy import FOR_A_PERSON, KIND, RemedyState, notice_id, transaction_of
from settlemark._mending.stuck import Stuck
from settlemark._observe.logs import Quote, about
from settlemark._protocol.protocol import Protocol
from settlemark.ledger._contract import Book
from settlemark.ledger._notices import add_notice

log = logging.getLogger("settlemark")

Proposer: TypeAlias = Callable[[Stuck], Any]
"""Proposes a plan for what is stuck: rules, or a model; async, too."""


def checked_proposer(given: object) -> Proposer | None:
    """Return what proposes plans.

    Raises:
        UsageError: it cannot be called.
    """
    if given is not None and not callable(given):
        raise UsageError(f"on_stuck={brief(given)}: give a function of what is stuck that returns a plan")
    return cast("Proposer | None", given)


def leave_to_a_person(
    book: Book,
    number: str,
    stuck: Stuck,
    tried: RemedyState,
    why: str,
    *,
    plan: Sequence[Mapping[str, Any]] | None,
    channels: Iterable[str],
    at: float,
    version: int | None,
) -> bool:
    """Record what a remedy came to, and that a person is to be told by these channels; return whether this was first.

    Without channels, nobody is told: another process, which has some, goes on with it. `version` is the remedy's last
    one; None: there is none yet.
    """
    names = tuple(channels)
    state = RemedyState.PAGED if names else tried
    body = body_of(stuck, plan=plan, why=why, tried=tried)
    if version is None:
        won = book.entries.add(draft_of(number, stuck, state, body, at=at, due=None)).won
    else:
        won = book.entries.change(
            KIND, number, state=str(state), at=at, from_version=version, body=body, open=not names
        ).won
    if won and names:
        notice = _notice(number, stuck, tried, why, plan, at)
        add_notice(book, notice, run=stuck.run, channels=names, name=stuck.transaction, attempt=stuck.attempt)
    return won


def say(
    kernel: Kernel, case: Case, state: RemedyState, why: str, *, plan: Sequence[Mapping[str, Any]] | None = None
) -> Program[bool]:
    """Record the next state of a remedy; return whether there is more to do, and it is this worker's."""
    told, because = plan if plan is not None else case.remedy.plan, prose(why, CAUSE)

    def step(_protocol: Protocol, book: Book) -> bool:
        at = kernel.ledger.time()
        if state in FOR_A_PERSON:
            return leave_to_a_person(
                book,
                case.id,
                case.stuck,
                state,
                because,
                plan=told,
                channels=case.channels,
                at=at,
                version=case.version,
            )
        body = body_of(case.stuck, plan=told)
        return book.entries.change(
            KIND, case.id, state=str(state), at=at, from_version=case.version, body=body, open=True
        ).won

    won: bool = yield from kernel.step(step, durable=True)
    if won and why:
        log.warning(
            "%s is stuck, and is not mended: %s",
            case.stuck.transaction,
            Quote(because),
            extra=about(transaction=case.stuck.transaction, run=case.stuck.run),
        )
    return won and state not in FOR_A_PERSON


def _notice(
    number: str, stuck: Stuck, tried: RemedyState, why: str, plan: Sequence[Mapping[str, Any]] | None, at: float
) -> Notice:
    effects = [
        {"key": e.key, "tool": e.tool, "scopes": list(e.scopes), "cause": str(e.cause), "note": e.note}
        for e in stuck.effects
    ]
    steps = None if plan is None else [dict(step) for step in plan]
    told = {"state": str(tried), "why": why, "plan": steps, "transaction": transaction_of(number)}
    what = ", ".join(f"{effect.tool} on {' '.join(effect.scopes)}" for effect in stuck.effects)
    return Notice(
        id=notice_id(number),
        occasion="stuck",
        to=(),
        subject=f"{stuck.transaction} is stuck",
        text=(
            f"{stuck.transaction} was undone, but for {what}. Tried: {tried}, {why}. See settlemark stuck; then"
            f" settlemark undo-again, or settlemark settle-by-hand, {stuck.transaction}."
        ),
        data={
            "transaction": stuck.transaction,
            "attempt": stuck.attempt,
            "run": stuck.run,
            "effects": effects,
            "tried": told,
        },
        at=at,
    )


__all__ = ["Proposer", "checked_proposer", "leave_to_a_person", "say"]
