"""Rules for English: the sentences of a text, and what a speaker says has come about.

They are the extractor that is shipped. They know no grammar: what they miss, or find too much of, a caller's own
extractor, rules or a model, finds better.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from settlemark._claims.money import MONEY, amounts_in


class Stated(NamedTuple):
    """A sentence that states an outcome: the base form of its verb, whether that is negated, and what is mentioned.

    `times` is how often it is said to have come about.
    """

    text: str
    verb: str
    negated: bool
    mentions: tuple[str, ...]
    times: int = 1


# The patterns are texts: `re` compiles each when it is first used, and a program that says nothing pays for none.
_SENTENCE = r"(?<=[.!?])\s+|\n+"
# A run of spaces, or of letters, is taken whole, from its beginning: else a long one takes its length squared.
_CLAUSE = r"((?:(?<!\s)\s++)?[;,]\s+(?:(?:but|and)\s+)?|(?<!\s)\s++(?:but|and)\s+)"
_MAIL = r"(?<![\w.+-])[\w.+-]++@[\w-]+(?:\.[\w-]+)+"

_VERBS = (
    "add approve archive assign book buy cancel charge close complete confirm create credit debit delete deliver deploy"
    " disable drop email enable forward grant hold invite invoice issue mail merge move notify open order pay post"
    " publish purchase refund register reimburse reject release remove rename renew reschedule reserve return revoke"
    " schedule sell send ship sign start stop submit subscribe transfer unsubscribe update upgrade upload wire withdraw"
    " write"
)
_BASES = _VERBS.split()
_IRREGULAR = {
    "buy": "bought", "hold": "held", "pay": "paid", "sell": "sold", "send": "sent", "withdraw": "withdrawn",
    "write": "written",
}  # fmt: skip # a table of words
_PAST_ALONE = {"withdrew": "withdraw", "wrote": "write"}
_DOUBLED = {
    "cancel": "cancelled", "drop": "dropped", "ship": "shipped", "stop": "stopped", "submit": "submitted",
    "transfer": "transferred",
}  # fmt: skip # a table of words
_NOUNS = {
    "booking": "book", "payment": "pay", "order": "order", "refund": "refund", "reservation": "reserve",
    "cancellation": "cancel", "transfer": "transfer", "delivery": "deliver", "purchase": "buy", "shipment": "ship",
    "deletion": "delete", "reimbursement": "reimburse", "subscription": "subscribe", "registration": "register",
    "message": "send", "email": "send", "mail": "send",
}  # fmt: skip # a table of words


def _regular(base: str) -> str:
    if base.endswith("e"):
        return f"{base}d"
    return f"{base[:-1]}ied" if base.endswith("y") and base[-2] not in "aeiou" else f"{base}ed"


_DONE = {
    form: base
    for base in _BASES
    for form in {_IRREGULAR.get(base) or _regular(base), _DOUBLED.get(base, _IRREGULAR.get(base) or _regular(base))}
}
_PAST = {form: base for form, base in _DONE.items() if form not in ("withdrawn", "written")} | _PAST_ALONE
_ANY_DONE, _ANY_PAST = "|".join(sorted(_DONE)), "|".join(sorted(_PAST))
_NOT = r"(?P<not>\s+not\b|n['\u2019]t\b|\s+never\b)?"
_BETWEEN = r"(?:\s+(?:just|already|now|also|successfully|yet|even|ever|neither|\w+ly))*\s+"
_ACTIVE = (
    rf"(?i)\b(?:I|we)(?:\s+(?:have|had)|['\u2019]ve){_NOT}{_BETWEEN}(?P<done>{_ANY_DONE})\b"
    rf"|\b(?:I|we)(?:\s+(?:just|already|also|successfully|(?P<never>never)))*\s+(?P<past>{_ANY_PAST})\b"
    rf"|\b(?:I|we)\s+did(?P<did>\s+not|n['\u2019]t)\s+(?P<base>{'|'.join(_BASES)})\b"
    rf"|\b(?:I|we)\s+(?:could|can)(?P<could>\s*not|n['\u2019]t)\s+(?P<able>{'|'.join(_BASES)})\b"
)
_AGAIN = (
    rf"(?i)(?:(?:then|also|already|just)\s+)*(?:(?P<form>{_ANY_PAST}|{_ANY_DONE})"
    rf"|did(?:\s+not|n['\u2019]t)\s+(?P<base>{'|'.join(_BASES)}))\b"
)
_PASSIVE = (
    r"(?i)\b(?:is|are|was|were|(?:has|have)(?P<nothas>\s+not|n['\u2019]t)?\s+been|been)"
    rf"{_NOT}{_BETWEEN}(?P<done>{_ANY_DONE})\b"
)
_NOUN = rf"(?i)\b(?P<noun>{'|'.join(_NOUNS)})s?\b"
_WENT = r"(?i)\b(?:is|are|was|were|has|have|went|(?P<ill>failed))\b"
_WELL = r"(?i)\b(?:made|done|processed|completed?|confirmed|successful|through)\b"
_NEGATED = r"(?i)\bnot\b|n['\u2019]t\b|\bnever\b"
# "No refund was made" denies one; "with no delay", "no later than" and "order no. 7" deny nothing.
_NONE = (
    r"(?i)\b(?:none|nothing|nobody|no[ -]one|neither)\b"
    r"|(?<!\bwith\s)(?<!\bin\s)(?<!\bat\s)(?<!\bfor\s)(?<!\bby\s)(?<!\bis\s)\bno\b"
    r"(?!\.|\s*\d|\s+(?:doubt|later|less|longer|matter|more|problem|sooner))"
)
_UNTRUE = r"(?i)(?:\bnot|n['\u2019]t)\s+(?:true|correct|the\s+case)\s+that\b|\b(?:false|untrue)\s+that\b"
_OPEN = (
    r"(?i)^\W*(?:if|once|when|whenever|after|before|unless|until|as soon as)\b"
    r"|\b(?:will|shall|would|should|may|might|must|to|can|could|cannot|can['\u2019]t|going to)"
    r"\s+(?:\w+\s+)?(?:be|have)\b"
    r"|['\u2019]ll\b|\b(?:I|we)\s+wish\b|\b(?:nothing|nobody|no\s+one|none)\s+else\b|\bno\s+other\b"
    r"|\b(?:nearly|hardly|barely|scarcely|partly|partially|almost|(?:less|fewer|more)\s+than)\b"
)
# A clause that goes on with what the one before it states, "and 5 USD", has no subject of its own and no verb to come.
_OTHERWISE = r"(?i)\b(?:I|we|you|he|she|they|it)\b|\b(?:will|shall|would|should|may|might|must|can|could|cannot)\b"
_DENIED_TOO = r"(?i)(?:(?:and|but)\s+)?not\s+"
_INSTEAD = r"(?i)(?:only|just|instead|rather)\b"
_FILLER = r"(?i)(?:(?:only|just|instead|rather|not|of|the|full|to|for)\s+)*"
_TIMES = r"(?i)\b(?:(?P<twice>twice)|thrice|(?P<number>two|three|four|five|\d{1,3})\s+times)\b"
_NUMBERS = {"two": 2, "three": 3, "four": 4, "five": 5}


def sentences(text: str) -> list[str]:
    """Return the sentences of a text.

    >>> sentences("It costs 2.50 EUR. Fine! Write to a.b@x.example.")
    ['It costs 2.50 EUR.', 'Fine!', 'Write to a.b@x.example.']
    """
    return [each for found in re.split(_SENTENCE, text) if (each := found.strip())]


def stated(text: str) -> list[Stated]:
    """Return what an English text states to have come about, or not to have; of several amounts, each by itself.

    >>> for each in stated("I've refunded 20 EUR and did not book it. Shall I send it? Once it is paid, we ship it."):
    ...     print(each.verb, each.negated, each.mentions)
    refund False ('20', 'EUR')
    book True ()
    """
    return [each for sentence in sentences(text) if not sentence.endswith("?") for each in _stated_by(sentence)]


@dataclass(slots=True)
class _Found:
    """A verb that is stated, and the clauses that say of what."""

    verb: str
    negated: bool
    clauses: list[str] = field(default_factory=list[str])

    def mentioned(self) -> Iterator[tuple[tuple[str, ...], int]]:
        """Yield what is mentioned with it, each amount and each address by itself, and how often."""
        told = [(list(amounts_in(each)), re.findall(_MAIL, each), _times_in(each)) for each in self.clauses]
        amounts = [amount for found, _, times in told for amount in found * times]
        addresses = [address for _, found, _ in told for address in found]
        if not amounts and not addresses:
            yield (), max(times for _, _, times in told)
        elif len(addresses) > 1 and amounts:  # "20 EUR to a@x and 5 EUR to b@x"
            pairs = Counter(
                (*amount, address) for found, to, times in told for amount in found * times for address in to
            )
            alone = Counter(amount for found, to, times in told if not to for amount in found * times)
            others = Counter((address,) for found, to, _ in told if not found for address in to)
            yield from [*pairs.items(), *alone.items(), *others.items()]
        elif amounts:
            yield from (((*amount, *addresses), times) for amount, times in Counter(amounts).items())
        else:
            counted = Counter(address for _, found, times in told for address in found * times)
            yield from (((address,), times) for address, times in counted.items())


def _times_in(clause: str) -> int:
    times = re.search(_TIMES, clause)
    if times is None:
        return 1
    number = "2" if times["twice"] else (times["number"] or "3").lower()
    return max(_NUMBERS.get(number) or int(number), 1)


def _stated_by(sentence: str) -> Iterator[Stated]:
    found: list[_Found] = []
    goes_on = False
    parts = re.split(_CLAUSE, sentence)
    for joint, clause in zip(["", *parts[1::2]], parts[::2], strict=True):
        is_open = bool(re.search(_OPEN, clause))
        one = None if is_open else _stated_in(clause)
        if one is None and found and goes_on and not is_open:
            goes_on = _goes_on(found, clause, joint)
            continue
        if one is not None:
            found.append(_Found(*one, [clause]))
        goes_on = one is not None
    for each in found:
        for mentions, times in each.mentioned():
            yield Stated(sentence, each.verb, each.negated, mentions, 1 if each.negated else times)


def _goes_on(found: list[_Found], clause: str, joint: str) -> bool:
    """Add a clause to what was stated before it; returns whether a next one may go on from there."""
    before, turns = found[-1], "but" in joint.lower() or ";" in joint
    again = re.match(_AGAIN, clause)
    if again is not None:
        form = (again["form"] or "").lower()
        verb = _PAST.get(form) or _DONE.get(form) or again["base"].lower()
        negated = again["base"] is not None or bool(re.search(_NONE, clause)) or (before.negated and not turns)
        found.append(_Found(verb, negated, [clause]))
        return True
    if re.search(_OTHERWISE, clause):
        return False
    if re.match(_DENIED_TOO, clause) or (before.negated and (turns or re.match(_INSTEAD, clause))):
        # "…, not 50 EUR" denies it of that alone; "not …, only 20 EUR" states it of that
        if not _names(clause):
            return False
        found.append(_Found(before.verb, bool(re.match(_DENIED_TOO, clause)), [clause]))
        return True
    before.clauses.append(clause)
    return True


def _names(clause: str) -> bool:
    begins = re.match(_FILLER, clause)
    rest = clause[begins.end() :] if begins else clause
    return bool(re.match(MONEY, rest) or re.match(_MAIL, rest))


def _stated_in(clause: str) -> tuple[str, bool] | None:
    """Return the verb of a clause that states an outcome, and whether it is negated."""
    verb, negated = _verb_in(clause)
    if verb is None:
        return None
    return verb, (negated or bool(re.search(_NONE, clause))) is not bool(re.search(_UNTRUE, clause))


def _verb_in(clause: str) -> tuple[str | None, bool]:
    active = re.search(_ACTIVE, clause)
    if active is not None:
        form = next(active[name] for name in ("done", "past", "base", "able") if active[name]).lower()
        negated = any(active[name] for name in ("not", "never", "did", "could"))
        return _DONE.get(form) or _PAST.get(form, form), negated
    noun = _noun_in(clause)
    if noun is not None:
        word, failed = noun
        return _NOUNS[word.lower()], failed or bool(re.search(_NEGATED, re.sub(_UNTRUE, "", clause)))
    passive = re.search(_PASSIVE, clause)
    if passive is None:
        return None, False
    return _DONE[passive["done"].lower()], bool(passive["not"] or passive["nothas"])


def _noun_in(clause: str) -> tuple[str, bool] | None:
    """Return the noun of which a clause says how it went, and whether it failed: each word is looked at once."""
    for part in re.split(r"[,;]", clause):
        noun = re.search(_NOUN, part)
        if noun is None:
            continue
        rest = part[noun.end() :]
        well = max((found.start() for found in re.finditer(_WELL, rest)), default=-1)
        for went in re.finditer(_WENT, rest):
            if went["ill"] is not None or went.end() <= well:
                return noun["noun"], went["ill"] is not None
    return None


def bases_of(word: str) -> tuple[str, ...]:
    """Return the verbs that a word of a tool's name may stand for.

    >>> bases_of("booking"), bases_of("refunded"), bases_of("room")
    (('book',), ('refund',), ())
    """
    found = (_NOUNS.get(word), _DONE.get(word), _PAST.get(word))
    return tuple(dict.fromkeys(base for base in found if base is not None))


__all__ = ["Stated", "bases_of", "sentences", "stated"]
