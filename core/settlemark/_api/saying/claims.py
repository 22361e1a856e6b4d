"""Claims in prose: what an agent is about to say has come about is held against the record.

Which sentences state an outcome is for the caller's extractor to say. What the record says of each is decided by the
effects that are in it: their keys, arguments and outcomes. No decision reads the prose.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, TypeAlias, cast

from settlemark._acts.perform import Program
from settlemark._api.checked import checked_text
from settlemark._api.host import RUN, Host
from settlemark._api.saying.guarding import guard_of
from settlemark._claims.claim import Claim, HeldClaim, checked_claim, hold, outcomes
from settlemark._edges.errors import Unfounded, UsageError
from settlemark._edges.text import brief
from settlemark._protocol.protocol import Protocol
from settlemark._runtime.aio import run_async
from settlemark._runtime.sync import run_sync
from settlemark.ledger import Book

ClaimExtractor: TypeAlias = Callable[[str], Iterable[Claim | str] | Awaitable[Iterable[Claim | str]]]
"""Returns the claims in a text, or their sentences; async, too, for a model."""
BeforeSay: TypeAlias = Callable[[list[HeldClaim]], "bool | str | Awaitable[bool | str | None] | None"]
"""Called with the claims that the record does not bear out; False or a reason stops what is about to be said."""

_TOLD = 5
_SAID = "what is about to be said"
_WHAT = "claims() takes a text, or a list of claims"


def stops(claims: list[HeldClaim]) -> bool:
    """Return False: the `before_say=` that lets nothing be said that the record does not bear out."""
    return not claims


class Claiming:
    """The part of a settlement that holds what is about to be said against the record."""

    _host: Host

    def claims(
        self,
        said: str | Iterable[Claim | str],
        *,
        run: str | None = None,
        extract: ClaimExtractor = outcomes,
        before_say: BeforeSay | None = None,
    ) -> list[HeldClaim]:
        """Return what the record says of each outcome that a text states, or of each claim.

        A claim is *supported* by effects that it names and that have happened, *contradicted* where all that it names
        came out otherwise, and *unsupported* where there are none, or nobody knows yet, or they have not left yet.

        Args:
            said: what an agent is about to say; or claims, or sentences that name nothing.
            run: whose effects count; by default those of all runs.
            extract: returns the claims in a text: rules, or a model, async or not; by default rules for English, see
                `ClaimCheck.outcomes`.
            before_say: called with the claims that are not supported, if there are any; where it returns False, or a
                reason, they are refused.

        Raises:
            Unfounded: `before_say` said no; its `claims` are those. UsageError: what was given, or extracted, is no
            claim. BaseException: what the extractor, or `before_say`, raised.

        >>> from settlemark import Settlement, effect
        >>> @effect("irreversible", scope="customer:/{customer}")
        ... def refund(customer, amount): return "done"
        >>> settlement = Settlement("memory:")
        >>> with settlement.transaction("case-7") as tx:
        ...     _ = tx.call(refund, customer="7", amount=20)
        >>> [str(held.verdict) for held in settlement.claims("I have refunded 20 EUR.", run="case-7")]
        ['supported']
        >>> for held in settlement.claims("We refunded 50 EUR, and I sent the mail.", run="case-7"):
        ...     print(held.verdict, held.told, len(held.keys))
        unsupported the record has it with other arguments alone 1
        unsupported no such effect is on record 0
        """
        return run_sync(_claiming(self._host, said, run, extract, before_say))

    async def aclaims(
        self,
        said: str | Iterable[Claim | str],
        *,
        run: str | None = None,
        extract: ClaimExtractor = outcomes,
        before_say: BeforeSay | None = None,
    ) -> list[HeldClaim]:
        """Do as `claims`, for an event loop."""
        return await run_async(_claiming(self._host, said, run, extract, before_say))


def _claiming(
    host: Host,
    said: object,
    run: str | None,
    extract: object,
    before_say: BeforeSay | None,
) -> Program[list[HeldClaim]]:
    whose = None if run is None else checked_text(run, RUN)
    if not callable(extract):
        raise UsageError(f"extract={brief(extract)} is no function of a text: give one, or ClaimCheck.outcomes")
    if before_say is not None and not callable(before_say):
        raise UsageError(f"before_say={brief(before_say)} is no function of the claims that are not supported")
    if isinstance(said, Claim) or not isinstance(said, Iterable):
        raise UsageError(f"{_WHAT}, not {brief(said)}")
    asking = partial(host.driver.kernel.callers.asking, _SAID if whose is None else whose)
    found = cast("Iterable[object]", said)
    if isinstance(said, str):
        extracted: object = yield asking(extract, said)
        if isinstance(extracted, str) or not isinstance(extracted, Iterable):
            raise UsageError(f"the extractor returned {brief(extracted)}: it returns a list of claims, or of sentences")
        found = cast("Iterable[object]", extracted)
    claims = [checked_claim(each) for each in found]

    def look(_protocol: Protocol, book: Book) -> list[HeldClaim]:
        return hold(book, claims, whose)

    held: list[HeldClaim] = (yield from host.driver.kernel.look(look)) if claims else []
    wrong = [each for each in held if not each.stands]
    if wrong and before_say is not None:
        answer = yield asking(before_say, wrong)
        if answer is False or isinstance(answer, str):
            raise _unfounded(wrong, whose, answer)
    return held


def _unfounded(wrong: list[HeldClaim], run: str | None, answer: object) -> Unfounded:
    shown = ", ".join(f"{brief(each.claim.text)} ({each.verdict}: {each.told})" for each in wrong[:_TOLD])
    more = f" and {len(wrong) - _TOLD} more" if len(wrong) > _TOLD else ""
    because = f"; {answer}" if isinstance(answer, str) and answer else ""
    of = "" if run is None else f" of {run}"
    return Unfounded(
        f"the message{of} is held: the record does not bear out {shown}{more}{because}: say what the record says, or"
        " act first; nothing was sent",
        run=run,
        claims=wrong,
    )


class ClaimCheck:
    """Holds messages that state outcomes which the record does not bear out.

    Args:
        settlement: the `Settlement` that has the record.
        extract: returns the claims in a text; by default `ClaimCheck.outcomes`, rules for English.
        before_say: called with the claims that are not supported; where it returns False, or a reason, the message is
            held. By default every such message is.

    >>> from settlemark import ClaimCheck, Settlement, Unfounded
    >>> claims = ClaimCheck(Settlement("memory:"))
    >>> try:
    ...     claims.hold("I have refunded 20 EUR.", run="case-7")
    ... except Unfounded as error:
    ...     print(error.claims[0].verdict, error.claims[0].ground)
    unsupported not_on_record
    """

    outcomes = staticmethod(outcomes)

    def __init__(
        self, settlement: Claiming, extract: ClaimExtractor = outcomes, *, before_say: BeforeSay = stops
    ) -> None:
        for what, given in (("extract", extract), ("before_say", before_say)):
            if not callable(cast("object", given)):
                raise UsageError(f"{what}={brief(given)} is no function")
        self._host: Host = settlement._host  # noqa: SLF001 - the other half of the pair
        self._extract = extract
        self._before_say = before_say

    def hold(self, text: str, *, run: str | None = None) -> list[HeldClaim]:
        """Return the claims of a text, when it may be said.

        Args:
            text: the message, as it is to be sent.
            run: whose effects count; by default those of all runs.

        Raises:
            Unfounded, UsageError: as `Settlement.claims`.
        """
        return run_sync(self._holding(text, run))

    async def ahold(self, text: str, *, run: str | None = None) -> list[HeldClaim]:
        """Do as `hold`, for an event loop."""
        return await run_async(self._holding(text, run))

    def guard(self, argument: str) -> Callable[..., Any]:
        """Return a `check=` for a tool that says something: a call is refused that states what is not so.

        It looks before the call is recorded, so nothing of a held message is on record. The effects of the call's run
        count; one that is held until its step settles has not happened yet.

        Args:
            argument: the tool's argument that has the text.
        """
        awaited = inspect.iscoroutinefunction(self._extract) or inspect.iscoroutinefunction(self._before_say)
        return guard_of(argument, self._holding, awaited=awaited)

    def _holding(self, text: str, run: str | None) -> Program[list[HeldClaim]]:
        if not isinstance(cast("object", text), str):
            raise UsageError(f"hold() takes the message, a text, not {brief(text)}")
        return _claiming(self._host, text, run, self._extract, self._before_say)


__all__ = ["BeforeSay", "ClaimCheck", "ClaimExtractor", "Claiming", "stops"]
