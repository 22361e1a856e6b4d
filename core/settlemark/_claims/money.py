"""Amounts of money in an English text, as people write them: `€1,200.50`, `EUR 20`, `1'020 CHF`, `five euros`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

_WELL_KNOWN = ("EUR", "USD", "GBP", "CHF")
_OTHERS = [
    "AED",
    "AUD",
    "BGN",
    "BRL",
    "CAD",
    "CNY",
    "CZK",
    "DKK",
    "HKD",
    "HUF",
    "IDR",
    "ILS",
    "INR",
    "JPY",
    "KRW",
    "MXN",
    "MYR",
    "NOK",
    "NZD",
    "PHP",
    "PLN",
    "RON",
    "SAR",
    "SEK",
    "SGD",
    "THB",
    "TRY",
    "TWD",
    "UAH",
    "VND",
    "ZAR",
]
CURRENCIES = frozenset((*_WELL_KNOWN, *_OTHERS))
_SIGNS = {"€": "EUR", "$": "USD", "£": "GBP", "¥": "JPY"}
_NAMES = {"euro": "EUR", "dollar": "USD", "pound": "GBP", "franc": "CHF", "yen": "JPY"}
_FACTORS = {
    "hundred": 100, "k": 1_000, "thousand": 1_000, "m": 10**6, "mn": 10**6, "million": 10**6, "bn": 10**9,
    "billion": 10**9,
}  # fmt: skip # a table of words
_ONES = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
_TENS = ["ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_WORDS = {
    **{word: 10 * number for number, word in enumerate(_TENS, 1)},
    **{word: number for number, word in enumerate(_ONES, 1)},
    "a": 1,
    "an": 1,
}

# What stands between groups of digits: an apostrophe, or a space that may be thin or not breaking.
_GAP = "['\u2019 \u00a0\u2009\u202f]"
_NUMBER = (
    rf"(?<!\d)(?<!\d[.,'\u2019])(?:(?<!\w)[-\u2212])?(?:\d{{1,3}}(?:{_GAP}\d{{3}})+(?!\d)(?:[.,]\d+)?"
    r"|\d(?:[\d.,'\u2019]*\d)?)"
)
_SPELLED = rf"(?<![\w-])(?:(?:{'|'.join(_TENS)})[-\s](?:{'|'.join(_ONES)})|{'|'.join(_WORDS)})\b"
_FACTOR = rf"(?:[\s-]?(?P<{{0}}>{'|'.join(_FACTORS)})\b)?"
_CODE = rf"(?:{'|'.join(_WELL_KNOWN)}|(?-i:{'|'.join(_OTHERS)}))"
_NAME = rf"(?:{'|'.join(_NAMES)})s?"
_SIGN = f"[{''.join(_SIGNS)}]"
# A text: `re` compiles it when it is first used.
MONEY = (
    rf"(?i)(?P<front>{_SIGN}|\b{_CODE})\s?(?P<behind>{_NUMBER}){_FACTOR.format('one')}(?![\d])"
    rf"|(?P<before>{_NUMBER}){_FACTOR.format('two')}[\s-]?(?P<unit>{_SIGN}(?!\d)|(?:{_CODE}|{_NAME})\b)"
    rf"|(?P<spelled>{_SPELLED}){_FACTOR.format('three')}[\s-]?(?P<name>{_NAME})\b"
)
_GROUPED = (
    rf"\d{{1,3}}(?:{_GAP}\d{{3}})+(?:[.,]\d+)?",
    r"[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?",
    r"[1-9]\d{0,2}(?:\.\d{3})+(?:,\d+)?",
)
_PLAIN = r"\d+(?:[.,]\d+)?"


def money_in(sentence: str) -> tuple[str, str] | None:
    """Return the first amount of money in a sentence, and its currency's code; None without one.

    >>> money_in("It was €1,200.50, not more.")
    ('1200.50', 'EUR')
    """
    return next(amounts_in(sentence), None)


def amounts_in(text: str) -> Iterator[tuple[str, str]]:
    """Yield the amounts of money in a text, each with its currency's code.

    An amount that cannot be read as a number is given as it stands: it is the amount of nothing.

    >>> list(amounts_in("CHF 1'020, 10,00 EUR, 1.000,50 EUR, $20k, five euros, and 1,0,0 EUR"))
    [('1020', 'CHF'), ('10.00', 'EUR'), ('1000.50', 'EUR'), ('20000', 'USD'), ('5', 'EUR'), ('1,0,0', 'EUR')]
    """
    for found in re.finditer(MONEY, text):
        unit = found["front"] or found["unit"] or found["name"]
        number = found["behind"] or found["before"] or found["spelled"]
        code = _SIGNS.get(unit) or _NAMES.get(unit.lower().removesuffix("s"), unit.upper())
        yield _amount(number, found["one"] or found["two"] or found["three"]), code


def _amount(text: str, factor: str | None) -> str:
    sign = "-" if text[0] in "-\u2212" else ""
    number = _number(text.lower() if not sign else text[1:], whole=factor is None)
    if number is None:
        return text
    return sign + (number if factor is None else f"{Decimal(number) * _FACTORS[factor.lower()]:f}")


def _number(text: str, *, whole: bool) -> str | None:
    """Return a number with a decimal point, and without what groups its digits; None where it cannot be told."""
    if text[0].isalpha():
        return str(sum(_WORDS[word] for word in re.split(r"[-\s]", text)))
    if whole or not re.fullmatch(_PLAIN, text):  # 1.500 EUR are 1500, and 1.500 million EUR 1.5 million
        for grouped in _GROUPED:
            if re.fullmatch(grouped, text):
                return _ungrouped(text)
    return text.replace(",", ".") if re.fullmatch(_PLAIN, text) else None


def _ungrouped(text: str) -> str:
    first = re.search(r"\D", text)
    mark = "" if first is None else first[0]
    groups = re.compile(_GAP) if re.match(_GAP, mark) else re.compile(re.escape(mark))
    return groups.sub("", text).replace(",", ".")


__all__ = ["CURRENCIES", "MONEY", "amounts_in", "money_in"]
