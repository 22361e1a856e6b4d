"""The part of a settlement, and of a transaction, that charges what was spent, and shows what is left of budgets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from settlemark._acts.perform import Program
from settlemark._api.checked import checked_text, checked_word
from settlemark._api.host import RUN, Host
from settlemark._edges.errors import UsageError
from settlemark._edges.text import WHO
from settlemark._model.budget import Amount, Ask, amount_of, asks
from settlemark._protocol.protocol import Protocol
from settlemark._runtime.aio import run_async
from settlemark._runtime.sync import run_sync
from settlemark.ledger._budgets import Bucket, charge
from settlemark.ledger._contract import Book

if TYPE_CHECKING:
    from settlemark._attempt.attempt import Attempt

_KEY = "the key of a charge is a text, as in the id of a model's answer"


def _charging(
    host: Host, budget: str, amount: Amount, *, run: str, key: str | None, beyond: bool, transaction: str | None
) -> Program[bool]:
    """Return the program that charges an amount; what it returns is whether it was charged now.

    Raises:
        UsageError: there is no such budget here, or the amount is none. OverBudget: it has not so much left.
    """
    kernel = host.driver.kernel
    exact = amount_of(amount, f"what is charged to the budget {budget}")
    if budget not in {each.name for each in kernel.budgets}:
        known = ", ".join(sorted({each.name for each in kernel.budgets})) or "none"
        raise UsageError(f"there is no budget {budget!r} here, nothing was charged: known is {known}; see budgets=")
    named = None if key is None else f"charge:{checked_word(key, _KEY, WHO)}"

    def wanted() -> Iterable[Ask]:
        return asks(kernel.budgets, {budget: exact}, run=run, at=kernel.ledger.time())

    def take(_protocol: Protocol, book: Book) -> bool:
        return charge(book.purse, wanted(), key=named, transaction=transaction, beyond=beyond)

    return kernel.step(take, durable=True)


class Charging:
    """Charges of a transaction."""

    _host: Host
    _attempt: Attempt

    def charge(self, budget: str, amount: Amount, *, key: str | None = None, beyond: bool = False) -> bool:
        """Charge what a read, or a model's answer, costs to its run; see `Settlement.charge`.

        The charge stands, whatever becomes of the transaction: the money is gone.
        """
        return run_sync(_charge_of(self, budget, amount, key, beyond=beyond))


class AsyncCharging:
    """Charges of a transaction, awaited."""

    _host: Host
    _attempt: Attempt

    async def charge(self, budget: str, amount: Amount, *, key: str | None = None, beyond: bool = False) -> bool:
        """Charge what a read, or a model's answer, costs to its run. See `Transaction.charge`."""
        return await run_async(_charge_of(self, budget, amount, key, beyond=beyond))


def _charge_of(
    face: Charging | AsyncCharging, budget: str, amount: Amount, key: str | None, *, beyond: bool
) -> Program[bool]:
    host, attempt = face._host, face._attempt  # noqa: SLF001 - the other half of the pair
    return _charging(host, budget, amount, run=attempt.run, key=key, beyond=beyond, transaction=attempt.name)


class Budgeting:
    """The part of a settlement that charges, and shows what is left of budgets."""

    _host: Host

    def charge(self, budget: str, amount: Amount, *, run: str, key: str | None = None, beyond: bool = False) -> bool:
        """Charge what was spent outside of effects, such as a model's tokens, and return whether it was charged now.

        Args:
            budget: the name of a `Budget`, in each of whose buckets it counts.
            amount: how much, exactly: a float counts as the decimal number that Python prints for it.
            run: whose it is.
            key: names the charge: a second one under the same key charges nothing.
            beyond: charge also what is not left: for what is spent already. The budget is overrun then, and refuses
                what comes later.

        Raises:
            UsageError: there is no such budget here, or the amount is none; nothing was charged.
            OverBudget: the budget has not so much left; nothing was charged.

        >>> from settlemark import Budget, Settlement
        >>> settlement = Settlement("memory:", budgets=[Budget("usd", 1)])
        >>> settlement.charge("usd", 0.1, run="trip-42", key="answer-1")
        True
        >>> settlement.charge("usd", 0.1, run="trip-42", key="answer-1")
        False
        >>> str(settlement.budgets()[0].left)
        '0.9'
        """
        run = checked_text(run, RUN)
        return run_sync(_charging(self._host, budget, amount, run=run, key=key, beyond=beyond, transaction=None))

    async def acharge(
        self, budget: str, amount: Amount, *, run: str, key: str | None = None, beyond: bool = False
    ) -> bool:
        """Do as `charge`, for an event loop."""
        run = checked_text(run, RUN)
        return await run_async(_charging(self._host, budget, amount, run=run, key=key, beyond=beyond, transaction=None))

    def budgets(self, budget: str | None = None) -> list[Bucket]:
        """Return every bucket of which something was ever asked, by budget and bucket; with `budget`, those of one.

        Each has its `limit`, what is `charged` for good and `reserved` for effects whose outcome is not known yet, and
        what is `left`: exact decimal numbers.

        >>> from settlemark import Settlement
        >>> Settlement("memory:").budgets()
        []
        """
        found = self._host.ledger.read(lambda book: book.purse.buckets())
        return [bucket for bucket in found if budget in (None, bucket.budget)]


__all__ = ["AsyncCharging", "Budgeting", "Charging"]
