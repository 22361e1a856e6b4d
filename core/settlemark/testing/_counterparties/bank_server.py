"""The bank's server, which `Bank` runs in a child process: a provider's books, and balances."""

from __future__ import annotations

from typing import Any, ClassVar, cast

from settlemark.testing._counterparties.process import Journal
from settlemark.testing._counterparties.provider import Json
from settlemark.testing._counterparties.provider_server import Answer, Desk, Handler, Refusal, serve


class BankDesk(Desk):
    """The books of wires, each of which moves money."""

    kinds: ClassVar[tuple[str, ...]] = ("wire",)

    def __init__(self, journal: Journal) -> None:
        self._opening: dict[str, int] = {}
        self._keyed = True
        super().__init__(journal)

    def clear(self) -> None:
        """Forget everything but the given ids: the balances are the opening ones."""
        super().clear()
        self._balances = dict(self._opening)

    def honours_keys(self) -> bool:
        """Whether this bank honours keys."""
        return self._keyed

    def open(self, accounts: Json, *, keyed: bool) -> Answer:
        """Open accounts with these balances."""
        bad = {name: balance for name, balance in accounts.items() if not _is_amount(balance)}
        if bad:
            raise Refusal(400, f"a balance is a whole number, 0 or more, not {bad!r}")
        with self.lock:
            self._opening, self._keyed = dict(accounts), keyed
            self._balances = dict(accounts)
        return 201, {}

    def balances(self) -> Answer:
        """Every account's balance."""
        with self.lock:
            return 200, dict(sorted(self._balances.items()))

    def take(self, kind: str, request: Json) -> None:
        """Move a wire's money."""
        del kind
        self._move(request.get("from"), request.get("to"), request.get("amount"))

    def give_back(self, kind: str, request: Json) -> None:
        """Move it back."""
        del kind
        self._move(request.get("to"), request.get("from"), request.get("amount"))

    def _move(self, source: object, target: object, amount: object) -> None:
        unknown = [name for name in (source, target) if name not in self._balances]
        if unknown:
            raise Refusal(404, f"there is no account {unknown[0]!r}: there are {', '.join(sorted(self._balances))}")
        if not _is_amount(amount) or not amount:
            raise Refusal(422, f"an amount is a whole number, 1 or more, not {amount!r}")
        giver, taker, sum_ = cast("str", source), cast("str", target), cast("int", amount)
        if self._balances[giver] < sum_:
            raise Refusal(409, f"{giver} has {self._balances[giver]}, too little for {sum_}")
        self._balances[giver] -= sum_
        self._balances[taker] += sum_


class BankHandler(Handler):
    """HTTP routes of the bank: a provider's, and the accounts."""

    desk: BankDesk

    def read(self, path: list[str]) -> Answer | None:
        """Answer a GET."""
        return self.desk.balances() if path == ["accounts"] else super().read(path)

    def write(self, path: list[str]) -> Answer | None:
        """Answer a POST."""
        if path != ["_accounts"]:
            return super().write(path)
        given = self.body()
        return self.desk.open(given["accounts"], keyed=bool(given["keyed"]))


def _is_amount(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def main(log_path: str) -> None:
    """Run the bank until the parent is gone."""
    serve(BankDesk(Journal(log_path)), BankHandler)
