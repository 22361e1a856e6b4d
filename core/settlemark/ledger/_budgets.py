"""What is spent of budgets: reserved with an effect's intent, charged or given back with its outcome.

Every change of a budget is a part of the step that records why: the same transaction of the store, under the lock of
its log's head. So no two processes sell the same money. A bucket's totals are rows, never a part of the protocol's
image: what finished runs and past days have spent takes no memory. What an effect's outcome means for its reservation
is decided in one place, `became`, wherever that outcome comes from: the call, a probe, an operator, recovery.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Literal, NamedTuple, Protocol

from settlemark._edges.errors import OverBudget
from settlemark._model.budget import NONE, Ask, amount_text, minus, plus
from settlemark._model.effect_class import Outcome
from settlemark._protocol.states import Tag

Stands = Literal["reserved", "charged", "returned"]
_TOLD = 5


class Spend(NamedTuple):
    """What one effect, or one charge, takes from a bucket.

    `asked` was reserved; `amount` is what counts: the same, until its result says otherwise.
    """

    key: str
    budget: str
    bucket: str
    asked: Decimal
    amount: Decimal
    stands: Stands


class Bucket(NamedTuple):
    """A bucket of a budget, with what is charged to it for good and what is reserved: exact amounts.

    `limit` is the one that was last asked under. `left` may be negative, where more was charged than was reserved.
    """

    budget: str
    bucket: str
    limit: Decimal
    charged: Decimal = NONE
    reserved: Decimal = NONE

    @property
    def left(self) -> Decimal:
        """What is neither charged nor reserved."""
        return minus(self.limit, plus(self.charged, self.reserved))

    @property
    def per(self) -> str:
        """Whose bucket it is: `run`, `agent`, `day` or `namespace`."""
        return self.bucket.partition(":")[0]

    def values(self) -> dict[str, str]:
        """Return it as JSON values: amounts are texts."""
        amounts = {"limit": self.limit, "charged": self.charged, "reserved": self.reserved, "left": self.left}
        shown = {name: amount_text(amount) for name, amount in amounts.items()}
        return {"budget": self.budget, "per": self.per, "bucket": self.bucket, **shown}


class Purse(Protocol):
    """The rows of budgets, as one step may read and write them; false while nothing was ever taken from a budget."""

    def __bool__(self) -> bool:
        """Whether anything was ever taken from a budget."""
        ...

    def spends(self, key: str) -> list[Spend]:
        """Return what was taken under a key."""
        ...

    def bucket(self, budget: str, bucket: str) -> Bucket | None:
        """Return a bucket, or None: nothing was ever asked of it."""
        ...

    def buckets(self) -> list[Bucket]:
        """Return all buckets, by budget and name."""
        ...

    def holders(self, budget: str, bucket: str, limit: int) -> list[str]:
        """Return keys of effects for which something of a bucket is reserved, at most so many."""
        ...

    def put(self, spend: Spend, bucket: Bucket) -> None:
        """Write what a key takes from a bucket, and the bucket."""
        ...

    def put_bucket(self, bucket: Bucket) -> None:
        """Write a bucket."""
        ...

    def move(self, key: str, to: str) -> None:
        """Let another key have what was taken under a key."""
        ...


def reserve(purse: Purse, key: str, wanted: Iterable[Ask], *, transaction: str, instead_of: str | None = None) -> None:
    """Reserve what an effect spends; what is reserved under its key already is not reserved again.

    `instead_of` is the key of an effect in whose place it comes: that one's reservation is given back first.

    Raises:
        OverBudget: a bucket has not so much left; nothing was reserved.
    """
    wanted = list(wanted)
    own = {(spend.budget, spend.bucket): spend for spend in purse.spends(key)}
    before = [] if instead_of is None else [each for each in purse.spends(instead_of) if each.stands == "reserved"]
    freed = {(spend.budget, spend.bucket): spend.amount for spend in before}
    days = {spend.budget: spend for spend in own.values() if spend.bucket.startswith("day:")}
    puts: list[tuple[Spend, Bucket]] = []
    for ask in wanted:
        known = own.get((ask.budget, ask.bucket))
        if known is None and ask.bucket.startswith("day:"):
            known = days.get(ask.budget)  # it counts on the day on which it was first asked for
        if known is not None and known.stands != "returned":
            continue
        found = _asked(purse, ask, freed.get((ask.budget, ask.bucket), NONE), transaction)
        spend = Spend(key, ask.budget, ask.bucket, ask.amount, ask.amount, "reserved")
        puts.append((spend, found))
    for spend in before:
        _turn(purse, spend, "returned", spend.amount)
    for spend, found in puts:
        now = purse.bucket(spend.budget, spend.bucket) or found
        purse.put(spend, now._replace(limit=found.limit, reserved=plus(now.reserved, spend.amount)))


def charge(
    purse: Purse, wanted: Iterable[Ask], *, key: str | None = None, transaction: str | None = None, beyond: bool = False
) -> bool:
    """Charge what was or will be spent outside of effects; return False if it was charged under this key before.

    Raises:
        OverBudget: a bucket has not so much left, and it may not go `beyond`; nothing was charged.
    """
    wanted = list(wanted)
    if key is not None and purse.spends(key):
        return False
    found = [
        Bucket(ask.budget, ask.bucket, ask.limit) if beyond else _asked(purse, ask, NONE, transaction) for ask in wanted
    ]
    for ask, known in zip(wanted, found, strict=True):
        now = purse.bucket(ask.budget, ask.bucket) or known
        now = now._replace(limit=ask.limit, charged=plus(now.charged, ask.amount))
        if key is None:
            purse.put_bucket(now)
        else:
            purse.put(Spend(key, ask.budget, ask.bucket, ask.amount, ask.amount, "charged"), now)
    return True


def follow(purse: Purse, key: str, outcome: Outcome, tag: Tag | None, spent: Mapping[str, Decimal]) -> None:
    """Let what was reserved for an effect be what its outcome makes of it; `spent` is what its result says."""
    for spend in purse.spends(key):
        stands = became(outcome, tag)
        amount = spend.asked if stands != "charged" else spent.get(spend.budget, spend.amount)
        _turn(purse, spend, stands, amount)


def became(outcome: Outcome, tag: Tag | None) -> Stands:
    """Return how money stands that was reserved for an effect with this outcome.

    It is kept while nobody knows, and charged where the effect happened; it is given back where the effect is known not
    to have happened, or was undone cleanly.
    """
    if outcome is Outcome.CONFIRMED or (outcome is Outcome.UNDONE and tag is not Tag.CLEAN):
        return "charged"
    return "returned" if outcome in (Outcome.FAILED, Outcome.DROPPED, Outcome.UNDONE) else "reserved"


def _turn(purse: Purse, spend: Spend, stands: Stands, amount: Decimal) -> None:
    if (stands, amount) == (spend.stands, spend.amount):
        return
    bucket = purse.bucket(spend.budget, spend.bucket)
    assert bucket is not None, "something was taken from it"
    charged, reserved = bucket.charged, bucket.reserved
    if spend.stands == "charged":
        charged = minus(charged, spend.amount)
    elif spend.stands == "reserved":
        reserved = minus(reserved, spend.amount)
    if stands == "charged":
        charged = plus(charged, amount)
    elif stands == "reserved":
        reserved = plus(reserved, amount)
    turned = spend._replace(stands=stands, amount=amount)
    purse.put(turned, bucket._replace(charged=charged, reserved=reserved))


def _asked(purse: Purse, ask: Ask, freed: Decimal, transaction: str | None) -> Bucket:
    """Return the bucket that is asked, if it has so much left.

    Raises:
        OverBudget: it has not.
    """
    found = purse.bucket(ask.budget, ask.bucket) or Bucket(ask.budget, ask.bucket, ask.limit)
    found = found._replace(limit=ask.limit)
    left = plus(found.left, freed)
    if ask.amount <= left:
        return found
    holders = purse.holders(ask.budget, ask.bucket, _TOLD)
    by = f" (for {', '.join(holders)})" if holders else ""
    shown = {name: amount_text(amount) for name, amount in found._asdict().items() if isinstance(amount, Decimal)}
    raise OverBudget(
        f"the budget {ask.budget} of {ask.bucket} has {amount_text(left)} left and {amount_text(ask.amount)} is asked:"
        f" of {shown['limit']}, {shown['charged']} is charged and {shown['reserved']} reserved{by}; nothing was run:"
        " spend less, wait until what is reserved is given back, or raise the limit",
        transaction=transaction,
        budget=ask.budget,
        bucket=ask.bucket,
        limit=ask.limit,
        charged=found.charged,
        reserved=found.reserved,
        asked=ask.amount,
        holders=holders,
    )


__all__ = ["Bucket", "Purse", "Spend", "became", "charge", "follow", "reserve"]
