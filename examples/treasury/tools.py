"""The treasury's tools: plain functions, and beside each what it does to the world."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from counterparties import CURRENCIES, Counterparties

from settlemark import Approval, Escalation, current_call, effect

HOUR = 3600.0
CFO = "cfo@firm.example"
TREASURER = "treasurer@firm.example"
LIMIT = 100
"""What a payment to others may come to without a person's yes, in thousands."""
REGULATOR = "liquidity@regulator.example"


class Tools(NamedTuple):
    """What the agent can do."""

    statement: Callable[..., dict[str, int]]
    cash: Callable[..., int]
    wire: Callable[..., str]
    pay: Callable[..., str]
    post: Callable[..., None]
    file: Callable[..., dict[str, str]]
    report: Callable[..., dict[str, str]]


def tools_of(them: Counterparties, *, strike: Callable[[], None] = lambda: None) -> Tools:
    """Return the tools that act on these counterparties; `strike` is called before each act and after it."""

    def key() -> str:
        call = current_call()
        assert call is not None, "every act of the day is in a transaction"
        return call.key

    def accounts(bank: str, source: str, target: str) -> Iterable[str]:
        return (f"account:/{bank}/{source}", f"account:/{bank}/{target}")

    def entries(bank: str, source: str, target: str) -> Iterable[str]:
        return (f"books:/{bank}/{source}", f"books:/{bank}/{target}")

    def dollars(bank: str, amount: int) -> int:
        return amount if CURRENCIES[bank] == "USD" else 0

    def found(bank: str, key: str) -> str | None:
        wire = them.banks[bank].status(key)
        return None if wire is None or wire["status"] != "confirmed" else wire["id"]

    def send(bank: str, source: str, target: str, amount: int) -> str:
        strike()
        wire = them.banks[bank].wire(key(), source, target, amount)
        strike()
        return wire

    def reverse(bank: str, result: str) -> None:
        them.banks[bank].reverse(result)

    # The morning's balances are put on record: what is decided upon them is decided upon the same ones after a crash.
    @effect("idempotent", scope="statement:/{date}", name="statement")
    def statement(date: str) -> dict[str, int]:
        del date  # the banks tell what there is now
        strike()
        return them.cash()

    def balance(bank: str) -> int:
        return them.banks[bank].balances()["ops"]

    # Looked at once more before anything that stands on it leaves.
    @effect("read", scope="account:/{bank}/ops", live=balance, name="cash")
    def cash(bank: str) -> int:
        return balance(bank)

    # Within the firm: until the cutoff a bank takes a wire back, whatever else has moved since.
    @effect(
        "reversible",
        scope=accounts,
        undo=reverse,
        probe=found,
        keyed=True,
        name="wire",
        spends={"usd": dollars},
        commutes="money",
    )
    def wire(bank: str, source: str, target: str, amount: int) -> str:
        return send(bank, source, target, amount)

    approval = Approval(
        by=TREASURER, within=4 * HOUR, escalate=Escalation(CFO, after=2 * HOUR), when=lambda amount: amount > LIMIT
    )

    # To others: nobody gives it back.
    @effect(
        "irreversible",
        scope=accounts,
        probe=found,
        keyed=True,
        name="pay",
        spends={"usd": dollars},
        approve=approval,
    )
    def pay(bank: str, source: str, target: str, amount: int) -> str:
        return send(bank, source, target, amount)

    def contrary(key: str) -> None:
        them.books.reverse(key)

    def posted(key: str) -> bool | None:
        return them.books.has(key) or None

    @effect("reversible", scope=entries, undo=contrary, probe=posted, keyed=True, commutes="entry", name="post")
    def post(bank: str, source: str, target: str, amount: int) -> None:
        strike()
        of = CURRENCIES[bank]
        them.books.post(key(), [(f"{bank}:{source}", of, -amount), (f"{bank}:{target}", of, amount)])
        strike()

    def message_id(key: str) -> str:
        return f"<{hashlib.sha256(key.encode()).hexdigest()[:32]}@firm.example>"

    def find_mail(key: str) -> dict[str, str] | None:
        sent = (mail for mail in them.mail.messages() if mail["message_id"] == message_id(key))
        return next(({name: mail[name] for name in ("to", "subject", "message_id")} for mail in sent), None)

    def mail(to: str, subject: str, body: str) -> dict[str, str]:
        strike()
        receipt = them.mail.send(to, subject, body, message_id=message_id(key()))
        strike()
        return receipt

    @effect("irreversible", scope="filing:/{date}", probe=find_mail, name="file")
    def file(date: str, cash: dict[str, Any]) -> dict[str, str]:
        return mail(REGULATOR, f"liquidity {date}", ", ".join(f"{bank} {held}" for bank, held in sorted(cash.items())))

    @effect("irreversible", scope="mail:/{to}", probe=find_mail, name="report")
    def report(to: str, subject: str, body: str) -> dict[str, str]:
        return mail(to, subject, body)

    return Tools(statement, cash, wire, pay, post, file, report)
