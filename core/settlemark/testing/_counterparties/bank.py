"""A bank in a child process: moves money between accounts, with or without honouring keys, and logs every request."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from settlemark.testing._counterparties.provider import Json, Provider

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

_TIMEOUT_SECONDS = 10.0


class Bank(Provider):
    """A `Provider` of one kind, the wire, whose wires move money between accounts.

    Args:
        accounts: the balances it opens with, and again after `reset`: whole numbers, in the smallest unit.
        keyed: whether a wire that is sent again under its key is answered with the first one. When not,
            the key is a mere reference: the money moves again.
        log_path: where its log goes; by default a temporary folder.

    Laws: as a provider's; and money is moved, never made: the balances' sum stays what it was. No account
    is overdrawn. Also without `keyed`, `status` knows what came under a key.

    Raises:
        ProviderRefused: a definite no: an unknown account, too little money. Nothing was moved.
        TimeoutError, ConnectionError: no answer: the outcome is unknown.

    A lost answer, and what a repeat under the same key does:

    >>> with Bank({"ops": 100, "fund": 0}) as bank:
    ...     bank.lose_answer()
    ...     try:
    ...         bank.wire("k1", "ops", "fund", 60)
    ...     except ConnectionError:
    ...         again = bank.wire("k1", "ops", "fund", 60)
    ...     bank.balances()
    {'fund': 60, 'ops': 40}
    """

    _server: ClassVar[str] = "settlemark.testing._counterparties.bank_server"

    def __init__(
        self,
        accounts: Mapping[str, int],
        *,
        keyed: bool = True,
        log_path: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(log_path)
        try:
            self._ask("POST", "/_accounts", {"accounts": dict(accounts), "keyed": keyed})
        except BaseException:
            self.close()
            raise

    def wire(self, key: str | None, source: str, target: str, amount: int, *, timeout: float = _TIMEOUT_SECONDS) -> str:
        """The id of the wire that moved `amount`, or of the first one under this key."""
        sent = self.book("wire", key=key, timeout=timeout, **{"from": source, "to": target, "amount": amount})
        return cast("str", sent["id"])

    def reverse(self, wire_id: str, *, timeout: float = _TIMEOUT_SECONDS) -> None:
        """Move a wire's money back; once, however often it is requested.

        Raises:
            ProviderRefused: there is no such wire, or the money is gone.
        """
        self.cancel("wire", wire_id, timeout=timeout)

    def status(self, key: str, *, timeout: float = _TIMEOUT_SECONDS) -> Json | None:
        """The last wire under `key` as it stands now (`id`, `request`, `status`), or None: there was none."""
        return self.probe(key, timeout=timeout)

    def balances(self) -> dict[str, int]:
        """Every account's balance, by name."""
        return cast("dict[str, int]", self._ask("GET", "/accounts"))

    def lose_answer(self, *, times: int = 1) -> None:
        """Let the next wires be done and their connection break before the answer (-1: all of them)."""
        self.fail("wire", "after", on="book", times=times)

    def wires(self) -> list[Json]:
        """The log's entries since the last reset, oldest first: every request as received.

        `event` is its outcome: `booked`, `replayed`, `refused`, `cancelled`, `cancel-replayed`.
        """
        return self.log()
