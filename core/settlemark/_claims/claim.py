"""What a text says has come about, held against the record: its effects, their arguments and their outcomes.

Which sentences state an outcome is for an extractor to say. Whether the record bears one out is decided by data alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any, Literal, cast, get_args

from settlemark._claims.english import bases_of, stated
from settlemark._claims.money import CURRENCIES
from settlemark._edges.errors import ScopeError, UsageError
from settlemark._edges.given import mapping, several
from settlemark._edges.text import DERIVED, KEY, TOOL, brief, identity
from settlemark._model import json_text
from settlemark._model.disposition import ELSEWHERE
from settlemark._model.effect_class import EffectClass, Outcome
from settlemark._model.scope import Scope
from settlemark._protocol.states import State
from settlemark.ledger._contract import Book, RecordedEffect, RecordedTransaction
from settlemark.ledger._payloads.redaction import MARKER
from settlemark.ledger._payloads.unreadable import Unreadable

Says = Literal["happened", "did_not_happen"]
_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z]+|\d+")
_CODE = re.compile(r"[A-Z]{3}")
_TAKES_BACK = {
    "abort", "block", "cancel", "decline", "deny", "dispute", "forbid", "prevent", "refuse", "reject", "reverse",
    "revert", "revoke", "skip", "stop", "undo", "unsend", "void", "withdraw",
}  # fmt: skip # a table of words
"""Verbs that say of what stands beside them that it is not done, or no longer."""
_IN_DOUBT = (Outcome.UNKNOWN, Outcome.INTENDED)
_NOT_YET = (Outcome.QUEUED, Outcome.SUSPENDED)


class Verdict(StrEnum):
    """What the record says of a claim: it bears it out, it does not, or it says the contrary."""

    SUPPORTED = "supported"
    UNSUPPORTED = "unsupported"
    CONTRADICTED = "contradicted"


class Ground(StrEnum):
    """Why the record says so.

    `on_record`: effects of this outcome are there; `not_on_record`: no such effect is; `other_arguments`: effects of
    the tool are there, with other arguments; `in_doubt`: nobody knows the outcome; `not_yet`: it has not left, or waits
    for a person; `by_hand`: a person has mended it, and what stands now is not on record; `did_not_happen`: it failed,
    was rejected or was undone; `happened`: it did happen; `obscured`: an effect may be the one, and what would
    tell is redacted, pruned or cannot be read here; `too_few`: it happened, but not so many times;
    `names_nothing`: the claim names nothing that could be looked for.
    """

    ON_RECORD = "on_record"
    NOT_ON_RECORD = "not_on_record"
    OTHER_ARGUMENTS = "other_arguments"
    IN_DOUBT = "in_doubt"
    NOT_YET = "not_yet"
    BY_HAND = "by_hand"
    DID_NOT_HAPPEN = "did_not_happen"
    HAPPENED = "happened"
    OBSCURED = "obscured"
    TOO_FEW = "too_few"
    NAMES_NOTHING = "names_nothing"


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement of an outcome, as an extractor has found it; each part that is given has to fit.

    Attributes:
        text: the sentence, as it stands.
        tool: the tool whose effect it is.
        verb: where the tool is not known: a verb in its base form that the tool's name has in it, as `"refund"` has
            `refund_customer`.
        key: the effect's key.
        scope: where it acted.
        matching: arguments of the call, or fields of its result, by name.
        mentions: values that the call's arguments or its result have somewhere, whatever their names. A currency's
            code excludes effects that have the code of another.
        says: that it happened, or that it did not.
        times: how many effects it speaks of.
    """

    text: str
    tool: str | None = None
    verb: str | None = None
    key: str | None = None
    scope: str | Scope | None = None
    matching: Mapping[str, Any] = field(default_factory=dict[str, Any])
    mentions: tuple[str | int | float | Decimal, ...] = ()
    says: Says = "happened"
    times: int = 1


@dataclass(frozen=True, slots=True)
class HeldClaim:
    """A claim, and what the record says of it.

    Attributes:
        claim: the claim.
        verdict: whether the record bears it out.
        ground: why.
        keys: the keys of the effects that this stands on.
    """

    claim: Claim
    verdict: Verdict
    ground: Ground
    keys: tuple[str, ...] = ()

    @property
    def stands(self) -> bool:
        """Whether the record bears it out."""
        return self.verdict is Verdict.SUPPORTED

    @property
    def told(self) -> str:
        """What is wrong with it, in words; of one that stands, what bears it out."""
        return _TOLD[self.ground]

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        claim = self.claim
        return {
            "text": claim.text, "says": claim.says, "verdict": self.verdict.value, "ground": self.ground.value,
            "told": self.told, "keys": list(self.keys), "tool": claim.tool, "verb": claim.verb, "key": claim.key,
            "scope": None if claim.scope is None else Scope.parse(claim.scope).text, "matching": dict(claim.matching),
            "mentions": [str(each) for each in claim.mentions], "times": claim.times,
        }  # fmt: skip # a table of fields


_TOLD = {
    Ground.ON_RECORD: "the record has it",
    Ground.NOT_ON_RECORD: "no such effect is on record",
    Ground.OTHER_ARGUMENTS: "the record has it with other arguments alone",
    Ground.IN_DOUBT: "its outcome is in doubt",
    Ground.NOT_YET: "it has not happened yet",
    Ground.BY_HAND: "a person has mended it by hand, and the record does not say what stands",
    Ground.DID_NOT_HAPPEN: "it failed, or was undone",
    Ground.HAPPENED: "it did happen",
    Ground.OBSCURED: "what would tell is redacted, pruned or unreadable in the record",
    Ground.TOO_FEW: "it did not happen so many times",
    Ground.NAMES_NOTHING: "it names nothing that could be looked for in the record",
}


def checked_claim(found: object) -> Claim:
    """Return a claim.

    Raises:
        UsageError: it is none.
    """
    claim = Claim(found) if isinstance(found, str) else found
    if not isinstance(claim, Claim) or not isinstance(cast("object", claim.text), str) or not claim.text.strip():
        raise UsageError(f"{brief(found)} is no claim: give Claim(text, …), or sentences")
    of = f"of the claim {brief(claim.text)}"
    if claim.says not in get_args(Says):
        raise UsageError(f"says={brief(claim.says)} {of}: choose 'happened' or 'did_not_happen'")
    if isinstance(claim.times, bool) or not isinstance(cast("object", claim.times), int) or claim.times < 1:
        raise UsageError(f"times={brief(claim.times)} {of}: give how many, 1 or more")
    for what, text, most in (("tool", claim.tool, TOOL), ("verb", claim.verb, TOOL), ("key", claim.key, KEY)):
        if text is not None:
            identity(text, f"{what}= of a claim", most)
    if claim.scope is not None:
        identity(Scope.parse(claim.scope).text, "scope= of a claim", DERIVED)
    several(claim.mentions, f"mentions= {of}")
    json_text.check(mapping(claim.matching, f"matching= {of}"))
    return claim


def outcomes(text: str) -> list[Claim]:
    """Return the claims of an English text: what its speaker says has come about, or has not.

    The verb stands for tools that have it in their names. Amounts of money, their currency, and mail addresses are
    looked for among the values of the call's arguments and its result.

    >>> [(claim.verb, claim.mentions, claim.says) for claim in outcomes("I have refunded 20 EUR. The payment failed.")]
    [('refund', ('20', 'EUR'), 'happened'), ('pay', (), 'did_not_happen')]
    """
    says: tuple[Says, Says] = ("happened", "did_not_happen")
    return [
        Claim(each.text, verb=each.verb, mentions=each.mentions, says=says[each.negated], times=each.times)
        for each in stated(text)
    ]


def hold(book: Book, claims: Iterable[Claim], run: str | None) -> list[HeldClaim]:
    """Return what the record says of each claim; with a run, what its effects say."""
    claims = list(claims)
    if not claims:
        return []
    attempts = book.transactions() if run is None else book.of_run(run)
    acts = [
        _Seen(recorded, effect)
        for recorded in attempts
        for effect in recorded.effects
        if effect.row.kind is not EffectClass.READ and effect.disposition not in ELSEWHERE
    ]
    return [_held(claim, acts) for claim in claims]


class _Seen:
    """An effect as claims are held against it."""

    def __init__(self, recorded: RecordedTransaction, effect: RecordedEffect) -> None:
        self.key = effect.row.key
        self.row = effect.row
        self.arguments = _read(effect.row.arguments)
        self.result = _read(effect.result)
        self._unread = any(isinstance(each, Unreadable) for each in (effect.row.arguments, effect.result))
        self._unplaced = not json_text.decode(effect.row.scopes)
        self._obscured = self._unread or _hides(self.arguments) or _hides(self.result)
        self.in_doubt = effect.outcome in _IN_DOUBT
        undone = recorded.state is State.ABORTING
        stood = effect.outcome is Outcome.CONFIRMED and not undone
        self.by_hand = stood and effect.dealt_at is not None
        self.happened = stood and not self.by_hand
        self.not_yet = effect.outcome in _NOT_YET and not undone

    def is_named(self, claim: Claim) -> bool:
        """Whether a claim is about such an effect, whatever its arguments."""
        return self._is_called(claim) and (claim.scope is None or self._is_on(Scope.parse(claim.scope)))

    def may_be(self, claim: Claim) -> bool:
        """Whether it may be what a claim is about, for all that can be read of it, and happened or may have."""
        if not self._is_called(claim) or not (self.happened or self.in_doubt or self.not_yet or self.by_hand):
            return False
        if claim.scope is not None and not self._unplaced and not self._is_on(Scope.parse(claim.scope)):
            return False
        for name, wanted in claim.matching.items():
            given = self._given(name)
            if not (self._unread or any(_same(each, wanted) or _hides(each) for each in given) or self._is_hidden()):
                return False
        return self._obscured or self._mentions(claim)

    def _is_called(self, claim: Claim) -> bool:
        row = self.row
        if claim.key not in (None, row.key) or claim.tool not in (None, row.tool):
            return False
        return claim.verb is None or claim.verb.casefold() in verbs_of(row.tool)

    def _is_on(self, scope: Scope) -> bool:
        for text in json_text.decode(self.row.scopes):
            try:
                if Scope.parse(text).overlaps(scope):
                    return True
            except ScopeError:  # edited by hand: an auditor finds it
                continue
        return False

    def fits(self, claim: Claim) -> bool:
        """Whether it has the arguments, or the result, that a claim names."""
        for name, wanted in claim.matching.items():
            if not any(_same(each, wanted) for each in self._given(name)):
                return False
        return self._mentions(claim)

    def _given(self, name: str) -> list[Any]:
        fields = [cast("dict[str, Any]", each) for each in (self.arguments, self.result) if isinstance(each, dict)]
        return [each[name] for each in fields if name in each]

    def _is_hidden(self) -> bool:
        """Whether its arguments or its result are redacted as a whole."""
        return any(isinstance(each, dict) and MARKER in each for each in (self.arguments, self.result))

    def _mentions(self, claim: Claim) -> bool:
        if not claim.mentions:
            return True
        values = [*_values(self.arguments), *_values(self.result)]
        return all(_mentioned(values, wanted) for wanted in claim.mentions)


def verbs_of(tool: str) -> frozenset[str]:
    """Return the verbs, in their base forms, that a tool's name may have in it.

    Where one of them takes the others back, the tool does that one alone.

    >>> "refund" in verbs_of("makeRefund"), "send" in verbs_of("mail.send_now"), "pay" in verbs_of("repayment")
    (True, True, False)
    >>> ["refund" in verbs_of(tool) for tool in ("refund", "reject_refund", "refundDenied")]
    [True, False, False]
    """
    words = [{word, *bases_of(word), re.sub("ied$", "y", word)} for word in map(str.lower, _WORDS.findall(tool))]
    return frozenset(base for word in [each for each in words if each & _TAKES_BACK] or words for base in word)


def _held(claim: Claim, acts: list[_Seen]) -> HeldClaim:
    if (claim.tool, claim.verb, claim.key, claim.scope) == (None, None, None, None) and not (
        claim.matching or claim.mentions
    ):
        return HeldClaim(claim, Verdict.UNSUPPORTED, Ground.NAMES_NOTHING)
    named = [act for act in acts if act.is_named(claim)]
    said = _denied if claim.says == "did_not_happen" else _stated
    found = [act for act in named if act.fits(claim)]
    fitting = set(found)
    hidden = [act for act in acts if act not in fitting and act.may_be(claim)]
    verdict, ground, on = said(claim, named, found, hidden)
    return HeldClaim(claim, verdict, ground, tuple(act.key for act in on))


_Said = tuple[Verdict, Ground, list[_Seen]]


def _stated(claim: Claim, named: list[_Seen], found: list[_Seen], hidden: list[_Seen]) -> _Said:
    """Return what the record says of a claim that something happened."""
    happened = [act for act in found if act.happened]
    if len(happened) >= claim.times:
        return Verdict.SUPPORTED, Ground.ON_RECORD, happened
    if open_ := _open(found, hidden):
        return open_
    if happened:
        return Verdict.CONTRADICTED, Ground.TOO_FEW, happened
    if found:
        return Verdict.CONTRADICTED, Ground.DID_NOT_HAPPEN, found
    others = [act for act in named if act.happened]
    # A key names one effect: if that has other arguments, the record says the contrary.
    verdict = Verdict.CONTRADICTED if others and claim.key is not None else Verdict.UNSUPPORTED
    return verdict, Ground.OTHER_ARGUMENTS if others else Ground.NOT_ON_RECORD, others


def _denied(_claim: Claim, _named: list[_Seen], found: list[_Seen], hidden: list[_Seen]) -> _Said:
    """Return what the record says of a claim that something did not happen."""
    happened = [act for act in found if act.happened]
    if happened:
        return Verdict.CONTRADICTED, Ground.HAPPENED, happened
    return _open(found, hidden) or (Verdict.SUPPORTED, Ground.DID_NOT_HAPPEN if found else Ground.NOT_ON_RECORD, found)


def _open(found: list[_Seen], hidden: list[_Seen]) -> _Said | None:
    """Return what the record says while it cannot tell what stands; None where it can."""
    grounds = {
        Ground.IN_DOUBT: [act for act in found if act.in_doubt],
        Ground.NOT_YET: [act for act in found if act.not_yet],
        Ground.BY_HAND: [act for act in found if act.by_hand],
        Ground.OBSCURED: hidden,
    }
    return next(((Verdict.UNSUPPORTED, ground, acts) for ground, acts in grounds.items() if acts), None)


def _hides(value: Any) -> bool:
    """Whether a value has anything in it that was redacted."""
    if isinstance(value, dict):
        told = cast("dict[str, Any]", value)
        return MARKER in told or any(map(_hides, told.values()))
    return isinstance(value, list) and any(map(_hides, cast("list[object]", value)))


def _read(text: str | None) -> Any:
    return None if text is None or isinstance(text, Unreadable) else json_text.decode(text)


def _values(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for each in cast("dict[str, Any]", value).values():
            yield from _values(each)
    elif isinstance(value, list):
        for each in cast("list[object]", value):
            yield from _values(each)
    else:
        yield value


def _mentioned(values: list[Any], wanted: Any) -> bool:
    if wanted in CURRENCIES and not any(_is_code(each) for each in values):
        return True  # the record names no currency at all
    return any(_same(each, wanted) for each in values)


def _is_code(value: Any) -> bool:
    """Whether a value may be a currency's code: any three capitals are, for there are more than are known here."""
    return isinstance(value, str) and (bool(_CODE.fullmatch(value)) or value.upper() in CURRENCIES)


def _same(given: Any, wanted: Any) -> bool:
    """Whether two values are the same to a reader: 20, "20" and "20.00" are, and so are "Ada" and "ada"."""
    if given == wanted:
        return isinstance(given, bool) is isinstance(wanted, bool)
    number = _number(given)
    if number is not None and number == _number(wanted):
        return True
    return isinstance(given, str) and isinstance(wanted, str) and given.casefold() == wanted.casefold()


def _number(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return None
    try:
        number = Decimal(str(value).strip())
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


__all__ = ["Claim", "Ground", "HeldClaim", "Says", "Verdict", "checked_claim", "hold", "outcomes", "verbs_of"]
