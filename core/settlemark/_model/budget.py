"""Budgets: how much of a unit may be spent, by whom or in what time; and what one call spends.

Amounts are exact: an integer or a `Decimal`; a float counts as the decimal number that Python prints for it. They have
at most 18 digits before the point and 18 behind it, so that sums are exact, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Context, Decimal, Inexact, InvalidOperation
from hashlib import sha256
from typing import Literal, NamedTuple, get_args

from settlemark._edges.errors import UsageError
from settlemark._edges.text import NAME, NAMESPACE, brief, identity
from settlemark._edges.user_code import through

Amount = int | float | str | Decimal
Per = Literal["run", "agent", "day", "namespace"]
DIGITS = 18
_LONGEST, _KEPT = 400, 80
_EXACT = Context(prec=80, traps=[Inexact, InvalidOperation])
NONE = Decimal(0)


class Ask(NamedTuple):
    """What is asked of one bucket of a budget: `limit` is how much the bucket holds."""

    budget: str
    bucket: str
    limit: Decimal
    amount: Decimal


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit on what is spent of a unit: in each run, by each agent, on each day (UTC), or in the whole namespace.

    Give budgets to `Settlement(budgets=[…])`; an effect says what it spends with `spends=`. Several may have one name:
    each of them then counts what is spent under it.

    Args:
        name: the unit, as in `"usd"`.
        limit: how much of it, exactly: an integer, a `Decimal`, or a text such as `"49.90"`.
        per: what has a bucket of its own: `"run"`, `"agent"`, `"day"` on the store's clock, or `"namespace"`.
        agent: for `per="agent"`: returns the agent's name from the id of a run.

    Raises:
        UsageError: a part of it is wrong.

    >>> Budget("usd", "49.90", per="day").limit
    Decimal('49.9')
    """

    name: str
    limit: Decimal
    per: Per
    agent: Callable[[str], str] | None

    def __init__(
        self, name: str, limit: Amount, per: Per = "run", *, agent: Callable[[str], str] | None = None
    ) -> None:
        name = identity(name, "a budget's name", NAMESPACE)
        if per not in get_args(Per):
            raise UsageError(f"per={brief(per)} of the budget {name}: choose one of {', '.join(get_args(Per))}")
        if (per == "agent") is not callable(agent):
            raise UsageError(f'the budget {name}: per="agent" and agent=, a function of a run\'s id, go together')
        for field, value in (("name", name), ("limit", amount_of(limit, f"limit= of the budget {name}"))):
            object.__setattr__(self, field, value)
        object.__setattr__(self, "per", per)
        object.__setattr__(self, "agent", agent)

    def bucket(self, run: str, at: float) -> str:
        """Return the bucket that a run spends from at a time of the store (seconds since 1970)."""
        if self.per == "namespace":
            return "namespace"
        if self.per == "day":
            return f"day:{datetime.fromtimestamp(at, UTC).date().isoformat()}"
        if self.agent is None:
            return f"run:{_short(run)}"
        agent = identity(through(self.agent, run), f"what agent= of the budget {self.name} returned", NAME)
        return f"agent:{_short(agent)}"


def _short(name: str) -> str:
    """Return a name that an index holds beside others: of a long one its beginning, and a digest of all of it."""
    if len(name.encode()) <= _LONGEST:
        return name
    return f"{name[:_KEPT]}~{sha256(name.encode()).hexdigest()[:32]}"


def amount_of(value: object, what: str) -> Decimal:
    """Return an amount, exactly.

    Raises:
        UsageError: it is no number, not finite, negative, or has too many digits.

    >>> amount_of(0.1, "a price") + amount_of("0.2", "a price")
    Decimal('0.3')
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        raise _wrong(value, what, "is no number")
    if isinstance(value, int) and abs(value) >= 10**DIGITS:
        raise _wrong(value, what, f"has more than {DIGITS} digits")
    try:
        found = Decimal(repr(value) if isinstance(value, float) else value)
    except (InvalidOperation, ValueError):
        raise _wrong(value, what, "is no number") from None
    if not found.is_finite():
        raise _wrong(value, what, "is not finite")
    if found < 0:
        raise _wrong(value, what, "is negative")
    if found == 0:
        return NONE
    _, digits, exponent = found.as_tuple()
    while isinstance(exponent, int) and exponent < -DIGITS and digits[-1] == 0:
        digits, exponent = digits[:-1], exponent + 1
    if found.adjusted() >= DIGITS or not isinstance(exponent, int) or exponent < -DIGITS:
        raise _wrong(value, what, f"has more than {DIGITS} digits before or behind its point")
    return Decimal(amount_text(found))


def amount_text(amount: Decimal) -> str:
    """Return an amount as it is recorded: each has one text.

    >>> amount_text(Decimal("1E+2")), amount_text(Decimal("0.500"))
    ('100', '0.5')
    """
    text = format(amount, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _wrong(value: object, what: str, why: str) -> UsageError:
    return UsageError(f"{what} is {brief(value)}, which {why}: give an int, a Decimal, or a text such as '49.90'")


def plus(one: Decimal, other: Decimal) -> Decimal:
    """Return an exact sum.

    >>> plus(Decimal("29.9"), Decimal("0.1"))
    Decimal('30')
    """
    return Decimal(amount_text(_EXACT.add(one, other)))


def minus(one: Decimal, other: Decimal) -> Decimal:
    """Return an exact difference."""
    return Decimal(amount_text(_EXACT.subtract(one, other)))


def asks(budgets: Iterable[Budget], spends: Mapping[str, Decimal], *, run: str, at: float) -> list[Ask]:
    """Return what a run that spends so much at a time asks of each bucket; of two equal ones, the smaller limit.

    >>> asks([Budget("usd", 50)], {"usd": Decimal(7)}, run="trip-42", at=0.0)
    [Ask(budget='usd', bucket='run:trip-42', limit=Decimal('50'), amount=Decimal('7'))]
    """
    found: dict[tuple[str, str], Ask] = {}
    for budget in budgets:
        if budget.name not in spends:
            continue
        bucket = budget.bucket(run, at)
        before = found.get((budget.name, bucket))
        limit = budget.limit if before is None else min(before.limit, budget.limit)
        found[budget.name, bucket] = Ask(budget.name, bucket, limit, spends[budget.name])
    return list(found.values())


__all__ = ["NONE", "Amount", "Ask", "Budget", "Per", "amount_of", "amount_text", "asks", "minus", "plus"]
