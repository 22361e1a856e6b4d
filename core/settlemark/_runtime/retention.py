"""Retention: old records leave a ledger, a few at a time, while others work.

Payloads go first. A decision's key and outcome stay for as long as the counterparty may remember the key, so that no
decision runs again.
"""

from __future__ import annotations

import logging
import re
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from settlemark._edges.errors import UsageError
from settlemark._edges.wording import kind_of
from settlemark._observe.logs import about, quote_of
from settlemark._protocol.protocol import Protocol
from settlemark.ledger._age import Age, Cursor, Swept
from settlemark.ledger._contract import Book, Ledger

_log = logging.getLogger("settlemark")

DAY = 86_400.0
KEYS_DAYS = 365.0
"""Days that a key stays where no tool declares a window: the counterparty may remember the key for ever."""
BATCH = 250
PAUSE_SECONDS = 0.02
EVERY_SECONDS = 3_600.0

_UNITS = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": DAY, "w": 7 * DAY}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")


class Pruned(NamedTuple):
    """What pruning removed.

    Attributes:
        payloads: transactions whose payloads are gone and whose keys stay.
        keys: transactions that are gone entirely.
        kept: old transactions that stay entirely: something of them is left to mend, or in doubt.
        fences: runs whose cancellation is forgotten.
        entries: entries, decisions among them, whose bodies are gone.
    """

    payloads: int = 0
    keys: int = 0
    kept: int = 0
    fences: int = 0
    entries: int = 0


def duration(text: str) -> float:
    """Return the seconds of a duration as people write it.

    Raises:
        UsageError: the text is no duration.

    >>> duration("30d"), duration("1.5h")
    (2592000.0, 5400.0)
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{text!r} is not a duration: give a number and a unit, as in 30d, 12h or 90m")
    return float(found[1]) * _UNITS[found[2]]


def age_of(now: float, *, older_than: float, keys: float) -> Age:
    """Return what counts as old: payloads past so many seconds, and keys that no window covers."""
    return Age(now, now - older_than, max(keys, older_than))


def prune(ledger: Ledger, age: Age, *, batch: int = BATCH) -> Iterator[Pruned]:
    """Prune what is old, and yield each step's result; others' steps come in between.

    Each yield is a good moment for a pause.
    """
    after: Cursor | None = None
    while True:
        swept: Swept = ledger.now(partial(_sweep, age, after, batch))
        yield Pruned(swept.payloads, swept.keys, swept.kept, entries=swept.entries)
        after = swept.after
        if after is None:
            break
    while fences := ledger.now(partial(_drop_fences, age.now - age.keys, batch)):
        yield Pruned(fences=fences)


def total(found: Iterator[Pruned]) -> Pruned:
    """Add up the results of all steps."""
    counts = list(found)
    return Pruned(*map(sum, zip(*counts, strict=True))) if counts else Pruned()


def _sweep(age: Age, after: Cursor | None, limit: int, _protocol: Protocol, book: Book) -> Swept:
    return book.sweep(age, after=after, limit=limit)


def _drop_fences(before: float, limit: int, protocol: Protocol, book: Book) -> int:
    unfinished = {txn.run for txn in protocol.live.values()}
    runs = [run for run in book.old_fences(before, limit=limit) if run not in unfinished]
    if runs:
        protocol.unfence(runs)
        book.remove_fences(runs)
    return len(runs)


class Pruner:
    """Prunes a ledger in a background thread, at once and every hour, until it is stopped or the ledger is collected.

    Args:
        ledger: the ledger to prune.
        older_than: seconds for which payloads are kept.
        clock: returns seconds since 1970.
    """

    def __init__(self, ledger: Ledger, *, older_than: float, clock: Callable[[], float]) -> None:
        self._ledger = weakref.ref(ledger)
        self._older_than = older_than
        self._clock = clock
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="settlemark-retention", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def tell(self) -> None:
        """Ask the thread to end soon, without waiting for it."""
        self._stopped.set()

    def stop(self) -> None:
        """Stop when the step under way is done."""
        self.tell()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _keep(self) -> None:
        while not self._stopped.is_set():
            ledger = self._ledger()
            if ledger is None:
                return
            try:
                age = age_of(self._clock(), older_than=self._older_than, keys=KEYS_DAYS * DAY)
                for _ in prune(ledger, age):
                    if self._stopped.wait(PAUSE_SECONDS):
                        return
            except Exception as error:  # the next look tries again
                if not self._stopped.is_set():
                    _log.warning(
                        "old records could not be pruned: %s", quote_of(error), extra=about(error=kind_of(error))
                    )
            del ledger
            self._stopped.wait(EVERY_SECONDS)


__all__ = ["DAY", "KEYS_DAYS", "PAUSE_SECONDS", "Pruned", "Pruner", "age_of", "duration", "prune", "total"]
