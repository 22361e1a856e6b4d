"""What the commands share: naming and opening a ledger, loading the user's handlers."""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from settlemark._cli.exits import Exit
from settlemark._cli.terminal import fail
from settlemark._edges.errors import LedgerError, ScopeError, SettlemarkError
from settlemark._edges.wording import in_words
from settlemark.ledger import open_ledger
from settlemark.ledger._contract import Ledger

if TYPE_CHECKING:
    from settlemark._api.settlement import Settlement

T = TypeVar("T")

WAIT_SECONDS = 30.0
"""How long a command waits (seconds) for a store that does not answer, at each access."""

_SQLITE = "sqlite:///"
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_DIGITS = 10
_URL = "A file or a URL; by default $SETTLEMARK_URL, else settlemark.db in this folder."

LedgerName = Annotated[str | None, typer.Argument(metavar="[LEDGER]", help=_URL, show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, with every field there is.")]
AsTable = Annotated[bool, typer.Option("--table", help="Print tables instead of sentences.")]
Namespace = Annotated[str, typer.Option(help="The namespace the ledger was written under.")]
Module = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE[:FUNCTION]",
        help="The module that declares your tools, as in yourapp.tools; FUNCTION(settlement) is called when given.",
        show_default=False,
    ),
]


def since_when(since: str) -> float:
    """Parse a time, as seconds since 1970; show the valid forms and exit with 2 if it is none."""
    number, unit = since[:-1], since[-1:]
    if number.isdecimal() and number.isascii() and len(number) < _DIGITS and unit in _UNITS:
        return time.time() - int(number) * _UNITS[unit]
    try:
        when = datetime.fromisoformat(since)
        return (when if when.tzinfo is not None else when.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError, OSError):
        fail(f"--since {since} is not a time: give one such as 2026-11-30, 2026-11-30T12:00Z, 90m, 12h or 7d")


def ledger_url(given: str | None) -> str:
    """Return the URL of a ledger given by the user: a path means a SQLite file.

    >>> ledger_url("trip.db"), ledger_url("postgresql+psycopg://db/trips")
    ('sqlite:///trip.db', 'postgresql+psycopg://db/trips')
    """
    from settlemark._api.settlement import DEFAULT_URL

    text = given or os.environ.get("SETTLEMARK_URL") or DEFAULT_URL
    return text if "://" in text or text == "memory:" else f"{_SQLITE}{text}"


def named_url(given: str | None) -> str:
    """Return the URL of a ledger that can exist already.

    Raises:
        LedgerError: the ledger ends with its process.
    """
    url = ledger_url(given)
    if url == "memory:":
        raise LedgerError("a memory: ledger ends with its process: name a file or a URL", url=url)
    return url


@contextmanager
def reading(given: str | None, *, namespace: str = "default") -> Generator[Ledger]:
    """Open an existing ledger for reading; nothing is created and nothing changed.

    Raises:
        LedgerError: there is no ledger of that name; the message says what to do.
    """
    ledger = open_ledger(named_url(given), namespace=namespace, readonly=True, wait=WAIT_SECONDS)
    try:
        yield ledger
    finally:
        ledger.close()


def seen(given: str | None, namespace: str, query: Callable[[Ledger], T]) -> T:
    """Return the result of a query on a ledger; say what is wrong and exit with 2 when it cannot be read."""
    try:
        with reading(given, namespace=namespace) as ledger:
            return query(ledger)
    except LedgerError as error:
        fail(error)


def declared_in(module: str | None) -> Callable[[Any], None]:
    """Import the module that declares the user's tools; return a function that declares the rest to a settlement.

    The module is looked for from this folder, as `python -m` does. Says what is wrong and exits with 2 if it is
    missing.
    """
    if module is None:
        return lambda _settlement: None
    name, _, function = module.partition(":")
    if os.getcwd() not in sys.path:  # noqa: PTH109 - an entry of sys.path is a text
        sys.path.insert(0, os.getcwd())  # noqa: PTH109
    try:
        found = importlib.import_module(name)
    except Exception as error:
        fail(f"--module {name} cannot be imported: {in_words(error)}; name one that can, from this folder")
    if not function:
        return lambda _settlement: None
    declare: Callable[[Any], None] | None = getattr(found, function, None)
    if not callable(declare):
        fail(f"--module {module}: {name} has no function called {function}")

    def declaring(settlement: Any) -> None:
        try:
            declare(settlement)
        except Exception as error:
            fail(f"--module {module}: {function} failed: {in_words(error)}; it is given a settlement")

    return declaring


@contextmanager
def operating(given: str | None, namespace: str, module: str | None) -> Generator[Settlement]:
    """Open a settlement on an existing ledger, for an operator: `module` declares its tools.

    Says what is wrong, and exits with 2 when the store cannot be used or a scope is none, with 1 when the settlement
    refuses.
    """
    from settlemark._api.settlement import Settlement

    declare = declared_in(module)
    seen(given, namespace, lambda _ledger: None)  # a missing ledger is not created
    try:
        with Settlement(ledger_url(given), namespace=namespace, wait=WAIT_SECONDS) as settlement:
            declare(settlement)
            yield settlement
    except (LedgerError, ScopeError) as error:
        fail(error)
    except SettlemarkError as error:
        fail(error, code=Exit.FOUND)


__all__ = [
    "WAIT_SECONDS",
    "AsJson",
    "AsTable",
    "LedgerName",
    "Module",
    "Namespace",
    "declared_in",
    "ledger_url",
    "named_url",
    "operating",
    "reading",
    "seen",
    "since_when",
]
