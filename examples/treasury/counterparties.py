"""Who the treasury deals with: four banks in three currencies, the firm's own books, and a mail server.

Each keeps its own log, in a process or a file of its own, and none of them knows of a settlement.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

from settlemark.testing import Bank, Mailbox

CURRENCIES = {"harbour": "USD", "union": "USD", "rhein": "EUR", "southern": "AUD"}

OPENING = {
    "harbour": {"ops": 900, "fund": 0, "fx": 0, "street": 500},
    "union": {"ops": 640, "fund": 0, "loans": 0, "street": 500},
    "rhein": {"ops": 780, "fund": 0, "street": 500},
    "southern": {"ops": 100, "fx": 150, "street": 500},
}
"""What is in each account in the morning, in thousands. `street` is everybody else's."""

OTHERS = ("credit", "short")
"""How the keys of wires begin that are not the treasury's."""


class Books:
    """The firm's general ledger: entries that balance, each once under its key. Nothing in them is ever changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._open() as books:
            books.execute(
                "CREATE TABLE IF NOT EXISTS line"
                " (entry TEXT, number INTEGER, account TEXT, currency TEXT, amount INTEGER,"
                " PRIMARY KEY (entry, number))"
            )

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._path, timeout=30)) as connection, connection:
            yield connection

    def post(self, entry: str, lines: list[tuple[str, str, int]]) -> None:
        """Post lines of account, currency and amount; under the same name again it changes nothing.

        Raises:
            ValueError: they do not balance: nothing is posted.
        """
        for currency in {currency for _, currency, _ in lines}:
            if sum(amount for _, of, amount in lines if of == currency):
                raise ValueError(f"the entry {entry} does not balance in {currency}")
        with self._open() as books:
            books.executemany(
                "INSERT OR IGNORE INTO line VALUES (?, ?, ?, ?, ?)",
                [(entry, number, *line) for number, line in enumerate(lines)],
            )

    def has(self, entry: str) -> bool:
        """Whether an entry has been posted."""
        return any(name == entry for name, *_ in self.lines())

    def reverse(self, entry: str) -> None:
        """Post the contrary of an entry: books are corrected, not rubbed out. What was not posted is not reversed."""
        with self._open() as books:
            books.execute(
                "INSERT OR IGNORE INTO line"
                " SELECT 'contrary of ' || entry, number, account, currency, -amount FROM line WHERE entry = ?",
                [entry],
            )

    def lines(self) -> list[tuple[str, str, str, int]]:
        """Every line ever posted: entry, account, currency, amount."""
        with self._open() as books:
            return list(books.execute("SELECT entry, account, currency, amount FROM line ORDER BY rowid"))


class Movement(NamedTuple):
    """Money that a bank has moved and not moved back, by its own log."""

    bank: str
    source: str
    target: str
    amount: int
    key: str | None


class Counterparties:
    """All of them, open until the block ends; another process reaches the same ones by `connect(address)`."""

    banks: dict[str, Bank]
    mail: Mailbox
    books: Books

    def __init__(self, home: Path) -> None:
        self.home = home
        self._closing = ExitStack()
        self.banks = {
            name: self._closing.enter_context(Bank(accounts, log_path=home / f"{name}.log"))
            for name, accounts in OPENING.items()
        }
        self.mail = self._closing.enter_context(Mailbox(home / "mail.log"))
        self.books = Books(home / "books.db")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    @property
    def address(self) -> str:
        """What another process needs to reach them, as JSON."""
        banks = {name: bank.address for name, bank in self.banks.items()}
        return json.dumps({"home": str(self.home), "banks": banks, "mail": self.mail.address})

    @classmethod
    def connect(cls, address: str) -> Self:
        """Return those that run already."""
        told: dict[str, Any] = json.loads(address)
        self = cls.__new__(cls)
        self.home, self._closing = Path(told["home"]), ExitStack()
        self.banks = {name: Bank.connect(**bank) for name, bank in told["banks"].items()}
        self.mail = Mailbox.connect(**told["mail"])
        self.books = Books(self.home / "books.db")
        return self

    def reset(self) -> None:
        """Begin a new day: opening balances, empty logs and books, and nothing that an agent has kept of another."""
        for bank in self.banks.values():
            bank.reset()
        self.mail.reset()
        for kept in ("books.db*", "ledger.db*", "checkpoint.json"):
            for file in self.home.glob(kept):
                file.unlink()
        self.books = Books(self.home / "books.db")

    def credit(self, amount: int, *, key: str) -> None:
        """Have somebody pay in at harbour; once, however often it is told."""
        self.banks["harbour"].wire(key, "street", "ops", amount)

    def movements(self) -> list[Movement]:
        """What has moved and stayed moved, by the banks' logs."""
        return [
            Movement(name, sent["from"], sent["to"], sent["amount"], entry["key"])
            for name, bank in self.banks.items()
            for entry, sent in ((each, each["request"]) for each in _standing(bank))
        ]

    def cash(self) -> dict[str, int]:
        """What each bank has in `ops`."""
        return {name: bank.balances()["ops"] for name, bank in self.banks.items()}


def _standing(bank: Bank) -> list[dict[str, Any]]:
    log = bank.wires()
    gone = {each["id"] for each in log if each["event"] == "cancelled"}
    return [each for each in log if each["event"] == "booked" and each["id"] not in gone]
