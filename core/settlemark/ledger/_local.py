"""A look at what is this process's own, under the ledger's lock."""

from __future__ import annotations

from threading import get_ident
from types import TracebackType

from settlemark._edges.shield import closed, lock_holders
from settlemark._protocol.holdings import fire
from settlemark._protocol.protocol import Protocol
from settlemark.ledger._contract import Ledger


class Local:
    """A look at this process's attempts, tickets and replica; programs that the look woke go on after it."""

    __slots__ = ("_ledger",)

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    @closed
    def __enter__(self) -> Protocol:
        self._ledger.lock.acquire()
        lock_holders.append(get_ident())
        return self._ledger.protocol

    @closed
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        woken = self._ledger.protocol.board.woken and self._ledger.protocol.take_woken()
        self._ledger.lock.release()
        lock_holders.remove(get_ident())
        if woken:
            fire(woken)


__all__ = ["Local"]
