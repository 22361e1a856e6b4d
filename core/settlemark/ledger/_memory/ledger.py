"""A ledger that lives as long as the process: for tests and one-shot scripts."""

from __future__ import annotations

import secrets
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from settlemark._acts.requests import Pending
from settlemark._edges.errors import LedgerError, SettlemarkError
from settlemark._edges.shield import shielded
from settlemark._edges.wording import is_a
from settlemark._model.identity import new_ledger_id
from settlemark._observe.logs import log_failure
from settlemark._protocol.commands import Command
from settlemark._protocol.holdings import fire
from settlemark._protocol.protocol import Protocol
from settlemark.ledger._acts import Acts
from settlemark.ledger._contract import Book, Step, T
from settlemark.ledger._forking import Origin, at_fork
from settlemark.ledger._memory.book import MemoryBook, _log
from settlemark.ledger._payloads.payloads import Packer
from settlemark.ledger._payloads.redaction import Redaction
from settlemark.ledger._replica.image import image, load
from settlemark.ledger._replica.journal import replay

IMAGE_EVERY = 1_000
"""After how many steps (more, the more is unfinished) the journal is replaced by an image of the protocol."""
_NOT_WRITTEN = (LedgerError, UnicodeError, OverflowError)
"""Errors of a step that asks to write what cannot be recorded: such a step refuses nothing."""


class MemoryLedger:
    """Keeps every unfinished transaction, and the last `retain` finished ones, redacted.

    >>> ledger = MemoryLedger()
    >>> ledger.read(lambda book: book.load("trip-42")) is None
    True
    """

    url = "memory:"
    immediate = True
    worker = "memory"
    """The only worker."""

    def __init__(
        self,
        *,
        retain: int = 10_000,
        protocol: Protocol | None = None,
        redaction: Redaction | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.payloads = Packer(redaction=redaction, salt=secrets.token_hex(32), limit=sys.maxsize, url=self.url)
        self.id = new_ledger_id()
        self.acts = Acts()
        self.time = clock
        self.protocol = protocol or Protocol()
        self.lock = threading.Lock()
        self._origin = Origin()
        at_fork(self)
        self.book = MemoryBook(self.payloads, retain=retain, url=self.url)
        self.protocol.board.closed = []
        self._image, self._log = image(self.protocol), list[tuple[Command, ...]]()

    # ---- steps

    def now(self, step: Step[T], *, told: bool = True) -> T:
        """Take a step and return its result.

        A step's error is its answer, where its caller is `told`, and its changes stay, as in every store; a step that
        cannot be written, or is interrupted, changes nothing.
        """
        protocol, book = self.protocol, self.book
        if self._origin.is_elsewhere:
            raise self._origin.refusal(self.url)
        self.lock.acquire()
        journal: list[Command] = []
        protocol.journal, protocol.fault = journal, None
        try:
            value = step(protocol, book)
            self._taken(journal)
        except BaseException as error:
            answers = is_a(error, Exception if told else SettlemarkError) and not is_a(error, _NOT_WRITTEN)
            answers = answers and protocol.fault is None
            (self._taken if answers else self._take_back)(journal)
            raise
        else:
            return value
        finally:
            protocol.journal = None
            woken = protocol.board.woken and protocol.take_woken()
            self.lock.release()
            if woken:
                fire(woken)

    def _taken(self, journal: list[Command]) -> None:
        """Keep a step's changes."""
        self.book.keep()
        if not journal:
            return
        protocol = self.protocol
        protocol.journal = None
        if protocol.board.closed:
            protocol.board.forget_closed()
        self._log.append(tuple(journal))
        if len(self._log) > IMAGE_EVERY + 2 * len(protocol.board.live):
            self._image, self._log = image(protocol), []

    def _take_back(self, journal: list[Command]) -> None:
        """Undo a step's changes: in the record, in this process, and in the protocol, which is restored."""
        self.book.roll_back()
        if not journal:
            return
        protocol = self.protocol
        protocol.journal = None
        before = Protocol()
        load(before, self._image)
        for entry, commands in enumerate(self._log, 1):
            replay(before, commands, entry)
        load(protocol, image(before), worker=self.worker, tried=journal)

    def submit(
        self,
        step: Step[Any],
        *,
        durable: bool,  # noqa: ARG002 - nothing outlives the process here
        looks: bool = False,  # noqa: ARG002 - each is taken at once
        wait: float | None = None,  # noqa: ARG002 - nothing is waited for
    ) -> Pending:
        """Take a step, and return its finished answer."""
        pending = Pending()
        try:
            pending.answer(self.now(step))
        except Exception as error:
            pending.answer(None, error)
        return pending

    def later(self, step: Step[Any]) -> None:
        """Take a step; a failing one is taken again with shorter texts, and its failure does not reach the caller.

        An interrupt does not lose the step: it is raised when the step is taken.
        """
        failed: BaseException | None = None
        interrupt: BaseException | None = None
        for short_ascii in (False, True):
            self.book.short_ascii = short_ascii
            try:
                self.now(step, told=False)
            except BaseException as error:
                failed = error
                interrupt = interrupt if is_a(error, Exception) else error
            else:
                break
            finally:
                self.book.short_ascii = False
        else:
            assert failed is not None
            log_failure(_log, "an outcome could not be recorded, and is lost", failed, ledger=self.url)
        if interrupt is not None:
            raise interrupt

    @shielded
    def read(self, query: Callable[[Book], T]) -> T:
        """Return what a query finds."""
        if self._origin.is_elsewhere:
            raise self._origin.refusal(self.url)
        with self.lock:
            return query(self.book)

    stalled = is_closed = False

    @property
    def is_elsewhere(self) -> bool:
        """Whether this process is a fork: parent and child have separate memory, and would give the same keys."""
        return self._origin.is_elsewhere

    def expect_end(self) -> None:
        """Do nothing: nobody waits for it."""

    def undecided(self) -> float:
        """Return 0: nobody else is there."""
        return 0.0

    def before_fork(self) -> None:
        """Do nothing: nothing of it is shared with a child."""

    after_fork = before_fork

    def in_child(self) -> None:
        """Allow reading only, in a forked child, and free the locks of threads that are not there."""
        self.lock = threading.Lock()

    def is_fresh(self) -> bool:
        """Return True: there is no other worker."""
        return True

    def watch_aborts(self, told: Callable[[], None]) -> None:
        """Do nothing: the thread that aborts a transaction here concludes it."""

    def watch_leases(self, told: Callable[[str, int], None]) -> None:
        """Do nothing: a lone process has no lease to lose."""

    def listen(self, change: int) -> None:
        """Do nothing: there is no other process."""

    def close(self) -> None:
        """Do nothing: the record ends with the object."""


__all__ = ["IMAGE_EVERY", "MemoryLedger"]
