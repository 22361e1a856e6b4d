"""Promises in prose: a message that an agent is about to send is held until each one is owed, or struck out.

Which sentences are promises is for the caller's extractor to say. What has become of each is data: an obligation of the
run that answers its fields, or an entry on record that names it. No decision reads the prose.
"""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeAlias, cast

from settlemark._acts.perform import Program
from settlemark._api.checked import checked_text, checked_word
from settlemark._api.host import RUN, Host
from settlemark._api.saying.guarding import guard_of
from settlemark._api.subjects.debts import Debts
from settlemark._claims.english import sentences
from settlemark._claims.money import money_in
from settlemark._edges.errors import Unowed, UsageError
from settlemark._edges.given import mapping, several
from settlemark._edges.text import DERIVED, WHO, brief, identity, prose
from settlemark._model import json_text
from settlemark._model.scope import Scope
from settlemark._owing.obligation import Obligation, obligation_in
from settlemark._protocol.protocol import Protocol
from settlemark._runtime.aio import run_async
from settlemark._runtime.sync import run_sync
from settlemark.ledger._contract import Book
from settlemark.ledger._entries import Draft
from settlemark.ledger._owed import OwedPage, OwedState

_KIND = "promise"
_DIGITS = 24
_TOLD = 5
_OWED = (OwedState.PENDING, OwedState.OPEN, OwedState.FULFILLED)


@dataclass(frozen=True, slots=True)
class Promise:
    """What a text promises, as an extractor has found it.

    Attributes:
        text: the sentence, as it stands in the message.
        to: to whom, a scope, where the extractor can tell.
        by: until when: a `timedelta` from now, or a `datetime` with its time zone.
        fulfilled_by: the tool that keeps it.
        matching: arguments of that tool's call.
    """

    text: str
    to: str | Scope | None = None
    by: timedelta | datetime | None = None
    fulfilled_by: str | None = None
    matching: Mapping[str, Any] = field(default_factory=dict[str, Any])


Extractor: TypeAlias = Callable[[str], Iterable[Promise | str] | Awaitable[Iterable[Promise | str]]]
"""Returns the promises in a text, or their sentences; async, too, for a model."""


class PromiseCheck:
    """Holds messages that promise what nobody owes.

    Args:
        settlement: the `Settlement` that has the obligations.
        extract: returns the promises in a text: rules, or a model, async or not. Shipped are two sets of rules for
            English: `PromiseCheck.commitments` (sentences such as "we will …", with "within 2 days" understood) and
            `PromiseCheck.refunds` (sentences that promise an amount of money back).

    A promise is *owed* when an obligation of the run, pending in the message's own transaction or open or fulfilled
    before, has every field that the promise names (`to`, `fulfilled_by`, `matching`, and is due by then), one
    obligation for each promise; or when `owed_as` has named its obligation. A person, or a program, strikes one out
    with `strike`. A promise that names neither `to` nor `fulfilled_by` is never taken for owed by itself.

    >>> from datetime import timedelta
    >>> from settlemark import PromiseCheck, Settlement, Unowed
    >>> settlement = Settlement("memory:")
    >>> promises = PromiseCheck(settlement, PromiseCheck.commitments)
    >>> message = "Thank you for calling. We will call you back within 2 days."
    >>> try:
    ...     promises.hold(message, run="case-7")
    ... except Unowed as error:
    ...     error.promises[0].text
    'We will call you back within 2 days.'
    >>> with settlement.transaction("case-7") as tx:
    ...     owed = tx.owe("call back", to="customer:/7", by=timedelta(days=2))
    ...     promises.owed_as("We will call you back within 2 days.", owed)
    >>> [promise.by.days for promise in promises.hold(message, run="case-7")]
    [2]
    """

    def __init__(self, settlement: Debts, extract: Extractor) -> None:
        if not callable(extract):
            raise UsageError(f"extract={extract!r} is no function of a text: give one, or PromiseCheck.commitments")
        self._host: Host = settlement._host  # noqa: SLF001 - the other half of the pair
        self._extract = extract

    # ---- holding

    def hold(self, text: str, *, run: str) -> list[Promise]:
        """Return the promises in a text, when each of them is owed or struck out.

        Args:
            text: the message, as it is to be sent.
            run: whose obligations count.

        Raises:
            Unowed: some are neither: its `promises` are those. UsageError: the extractor found what is no promise.
            BaseException: what the extractor raised.
        """
        return run_sync(self._holding(text, checked_text(run, RUN)))

    async def ahold(self, text: str, *, run: str) -> list[Promise]:
        """Do as `hold`, for an event loop."""
        return await run_async(self._holding(text, checked_text(run, RUN)))

    def guard(self, argument: str) -> Callable[..., Any]:
        """Return a `check=` for a tool that sends messages: a call is refused whose text promises what nobody owes.

        It looks before the call is recorded, so nothing of a held message is on record. Obligations of the call's own
        transaction count.

        Args:
            argument: the tool's argument that has the text.
        """
        awaited = inspect.iscoroutinefunction(self._extract)
        return guard_of(argument, self._holding, awaited=awaited)

    def _holding(self, text: str, run: str) -> Program[list[Promise]]:
        found = yield self._host.driver.kernel.callers.asking(run, self._extract, text)
        promises = [_checked(each) for each in several(found, "what the extractor returned")]

        def look(_protocol: Protocol, book: Book) -> list[Promise]:
            every = [obligation_in(each) for each in book.debts.find(OwedPage(run=run))]
            left = [each for each in every if each.state in _OWED]
            standing = {each.id for each in left}
            unowed: list[Promise] = []
            for promise in promises:
                entry = book.entries.get(_KIND, _id(run, promise))
                if entry is not None:
                    linked = json_text.decode(entry.body).get("obligation") if entry.state == "owed" else None
                    if entry.state == "struck" or linked in standing:
                        left = [each for each in left if each.id != linked]
                        continue
                kept = next((each for each in left if _answers(each, promise, self._host.ledger.time())), None)
                if kept is None:
                    unowed.append(promise)
                else:
                    left.remove(kept)
            return unowed

        unowed: list[Promise] = (yield from self._host.driver.kernel.look(look)) if promises else []
        if unowed:
            shown = ", ".join(brief(promise.text) for promise in unowed[:_TOLD])
            more = f" and {len(unowed) - _TOLD} more" if len(unowed) > _TOLD else ""
            raise Unowed(
                f"the message of {run} is held: it promises {shown}{more}, which nobody owes: owe it first (tx.owe), or"
                " strike it out (PromiseCheck.strike), or say it otherwise; nothing was sent",
                run=run,
                promises=unowed,
            )
        return promises

    # ---- what becomes of a promise

    def owed_as(self, promise: Promise | str, obligation: Obligation) -> None:
        """Record that an obligation is what a promise of its run stands for, whatever its fields say.

        The message may leave once the obligation stands: it is held again if that is undone, waived or withdrawn.
        """
        run_sync(self._settle(promise, obligation.run, "owed", {"obligation": obligation.id}))

    async def aowed_as(self, promise: Promise | str, obligation: Obligation) -> None:
        """Do as `owed_as`, for an event loop."""
        await run_async(self._settle(promise, obligation.run, "owed", {"obligation": obligation.id}))

    def strike(self, promise: Promise | str, *, run: str, by: str, note: str = "") -> None:
        """Record that a promise of a run binds nobody: messages with it are no longer held for it.

        Args:
            promise: as `Unowed.promises` has it, or its sentence.
            run: whose.
            by: who strikes it out.
            note: why, for the record.
        """
        run_sync(self._striking(promise, run, by, note))

    async def astrike(self, promise: Promise | str, *, run: str, by: str, note: str = "") -> None:
        """Do as `strike`, for an event loop."""
        await run_async(self._striking(promise, run, by, note))

    def _striking(self, promise: Promise | str, run: str, by: str, note: str) -> Program[None]:
        who = checked_word(by, "by= is who strikes it out, a text", WHO)
        return self._settle(promise, checked_text(run, RUN), "struck", {"by": who, "note": prose(note)})

    def _settle(self, promise: Promise | str, run: str, state: str, body: dict[str, Any]) -> Program[None]:
        found = _checked(promise)
        told = json_text.encode({"text": prose(found.text), **body})

        def record(_protocol: Protocol, book: Book) -> None:
            at, number = self._host.ledger.time(), _id(run, found)
            standing = book.entries.add(Draft(_KIND, number, run, state, at, told))
            if not standing.won:
                version = standing.entry.version
                book.entries.change(_KIND, number, state=state, at=at, from_version=version, body=told)

        yield from self._host.driver.kernel.step(record, durable=True)

    # ---- extractors

    @staticmethod
    def commitments(text: str) -> list[Promise]:
        """Return the sentences of an English text in which the speaker commits to something, with their time.

        >>> [promise.text for promise in PromiseCheck.commitments("I'll look into it. You will like it. It is done.")]
        ["I'll look into it."]
        """
        return [Promise(each, by=_within(each)) for each in sentences(text) if _COMMITS.search(each)]

    @staticmethod
    def refunds(text: str) -> list[Promise]:
        """Return the sentences of an English text that promise money back, with their time, for a tool `refund`.

        >>> PromiseCheck.refunds("You will get 20 EUR back within 3 days.")[0].matching
        {'amount': '20', 'currency': 'EUR'}
        """
        found: list[Promise] = []
        for each in sentences(text):
            money = money_in(each)
            if money is not None and _BACK.search(each) and _AHEAD.search(each):
                told = {"amount": money[0], "currency": money[1]}
                found.append(Promise(each, by=_within(each), fulfilled_by="refund", matching=told))
        return found


_AHEAD = re.compile(r"\b(?:will|shall|going to)\b|'ll\b|\u2019ll\b", re.IGNORECASE)
_COMMITS = re.compile(
    r"\b(?:I|we)(?:\s+(?:will|shall|promise|guarantee|commit)\b|['\u2019]ll\b"
    r"|(?:\s+am|\s+are|['\u2019]m|['\u2019]re)\s+going\s+to\b)",
    re.IGNORECASE,
)
_BACK = re.compile(r"\b(?:refund\w*|reimburs\w*|back|return\w*|credit\w*)\b", re.IGNORECASE)
_WITHIN = re.compile(
    r"\b(?:within|in)\s+(?:the\s+next\s+)?(?P<count>\d+|an?|one|two|three)\s+(?P<unit>minute|hour|day|week)s?\b"
    r"|\b(?P<word>today|tomorrow)\b",
    re.IGNORECASE,
)
_COUNTS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3}
_UNITS = {"minute": 60.0, "hour": 3_600.0, "day": 86_400.0, "week": 604_800.0}
_MOST = 10_000


def _within(sentence: str) -> timedelta | None:
    found = _WITHIN.search(sentence)
    if found is None:
        return None
    if found["word"]:
        return timedelta(days=1 if found["word"].lower() == "today" else 2)
    word = found["count"].lower()
    count = _COUNTS.get(word) or int(word)
    return timedelta(seconds=_UNITS[found["unit"].lower()] * count) if count <= _MOST else None


def _checked(found: object) -> Promise:
    """Return a promise.

    Raises:
        UsageError: it is none.
    """
    promise = Promise(found) if isinstance(found, str) else found
    if (
        not isinstance(promise, Promise)
        or not isinstance(cast("object", promise.text), str)
        or not promise.text.strip()
    ):
        raise UsageError(f"{brief(found)} is no promise: an extractor returns Promise(text, …), or sentences")
    by: object = promise.by
    if isinstance(by, datetime) and by.tzinfo is None:
        raise UsageError(f"by={by!r} of the promise {brief(promise.text)} has no time zone: give one")
    if promise.to is not None:
        identity(Scope.parse(promise.to).text, "to= of a promise", DERIVED)
    json_text.check(mapping(promise.matching, f"matching= of the promise {brief(promise.text)}"))
    return promise


def _id(run: str, promise: Promise) -> str:
    """Return the id under which a promise of a run is known: by its words, whatever their case and spaces."""
    words = " ".join(promise.text.casefold().split())
    return hashlib.sha256(f"{run}\0{words}".encode(errors="backslashreplace")).hexdigest()[:_DIGITS]


def _answers(owed: Obligation, promise: Promise, now: float) -> bool:
    """Whether an obligation has every field that a promise names; one that names none has none that answers it."""
    if promise.to is None and promise.fulfilled_by is None:
        return False
    if promise.to is not None and not Scope.parse(owed.to).overlaps(Scope.parse(promise.to)):
        return False
    if promise.fulfilled_by not in (None, owed.fulfilled_by):
        return False
    if any(name not in owed.matching or owed.matching[name] != value for name, value in promise.matching.items()):
        return False
    if promise.by is None:
        return True
    until = promise.by.timestamp() if isinstance(promise.by, datetime) else now + promise.by.total_seconds()
    return owed.due <= until


__all__ = ["Extractor", "Promise", "PromiseCheck"]
