"""Sums of money, computed exactly: in decimals, rounded to cents half away from zero, and stored as numbers."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Decimal

from settlemark_adapters.records._errors import BadRecord

CENT = Decimal("0.01")
MOST = Decimal(10) ** 12
"""Every sum is below this: up to here a JSON number is exact to the cent."""


def amount(value: object, what: str) -> Decimal:
    """Return a number as it was written: `0.1` is a tenth.

    Raises:
        BadRecord: it is no number, or too large for a sum of money.

    >>> amount(0.1, "price") * 3
    Decimal('0.3')
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadRecord(f"{what} is {value!r}: give a number, as 19.99; nothing was written")
    number = Decimal(repr(value))
    if not number.is_finite() or abs(number) >= MOST:
        raise BadRecord(f"{what} is {value!r}: give a number below {MOST:.0E}; nothing was written")
    return number


def cents(sum_: Decimal) -> Decimal:
    """Return a sum rounded to cents.

    >>> cents(Decimal("1.005")), cents(Decimal("-1.005"))
    (Decimal('1.01'), Decimal('-1.01'))
    """
    return sum_.quantize(CENT, ROUND_HALF_UP)


def total(sums: Iterable[Decimal], what: str) -> Decimal:
    """Return the sum of sums.

    Raises:
        BadRecord: it is too large.
    """
    found = cents(sum(sums, Decimal(0)))
    if abs(found) >= MOST:
        raise BadRecord(f"{what} is {found}, more than {MOST:.0E}: write several; nothing was written")
    return found


def plain(sum_: Decimal) -> int | float:
    """Return a sum as a JSON number.

    >>> plain(Decimal("1850.00")), plain(Decimal("0.30"))
    (1850, 0.3)
    """
    return int(sum_) if sum_ == sum_.to_integral_value() else float(sum_)


__all__ = ["CENT", "MOST", "amount", "cents", "plain", "total"]
