"""Cancelling a run: a fence ends what of the run has not settled, and nothing of the run acts any more."""

from __future__ import annotations

from settlemark._acts.perform import Program
from settlemark._acts.requests import Wait
from settlemark._edges.errors import UsageError
from settlemark._engine.kernel import Kernel, log
from settlemark._engine.undo.abort import Undoing
from settlemark._lifecycle.recovery import Recovery
from settlemark._observe.logs import about_txn
from settlemark._protocol.holdings import Txn
from settlemark._protocol.protocol import Protocol
from settlemark.ledger._contract import Book, Fence

CANCEL_SECONDS = 30.0


class Fences:
    """Cancels runs."""

    def __init__(self, kernel: Kernel, undoing: Undoing, recovery: Recovery) -> None:
        self._kernel = kernel
        self._undoing = undoing
        self._recovery = recovery

    def cancel(self, run: str) -> Program[None]:
        """Fence a run, durably, and end what of it has not settled, in this process or left by earlier ones.

        Raises:
            UsageError: the name is a transaction's, not a run's; nothing is fenced.
        """
        at = self._kernel.clock()

        def cancel(protocol: Protocol, book: Book) -> list[Txn]:
            known = protocol.named.get(run)
            if known is not None and known.run != run:
                raise UsageError(
                    f"{run} is a transaction of the run {known.run}: nothing was cancelled; cancel {known.run!r}"
                )
            found = protocol.cancel(run)
            book.write([Fence(run, at)])
            return found

        found = yield from self._kernel.step(cancel, durable=True)
        yield from self._undoing.tidy()
        yield from self._recovery.take_up()
        began = self._kernel.monotonic()
        for txn in found:
            attempt = self._kernel.attempts.get(txn)
            patience = CANCEL_SECONDS if attempt is None else min(attempt.wait, CANCEL_SECONDS)
            yield from self.until_over(txn, began + self._kernel.callers.time_for(txn, patience))

    def until_over(self, txn: Txn, deadline: float) -> Program[None]:
        """Wait until a transaction is finished, by any program."""
        while not txn.finished:
            with self._kernel.local as protocol:
                ticket = protocol.watch(txn)
            attempt = self._kernel.attempts.get(txn)
            left = attempt is None or attempt.handed_over
            if left and (silence := (yield from self._kernel.waits.silence(txn))):
                # What can be undone is undone; the rest waits until its sender is known to be gone, which may take
                # long.
                log.warning(
                    "%s is cancelled, and kept%s", txn.name, silence, extra=about_txn(txn, state=txn.state.value)
                )
                return
            seconds = deadline - self._kernel.monotonic()
            if not (yield from self._kernel.waits.listen(Wait(ticket, seconds, txn.name, "its own"))):
                log.warning(
                    "%s is cancelled, and %s: it ends when its call returns",
                    txn.name,
                    txn.state,
                    extra=about_txn(txn, state=txn.state.value),
                )
                return
