"""What is due about questions: one that nobody has answered in time is answered with no, in whatever process looks."""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakMethod

from settlemark._acts.perform import Program
from settlemark._approvals.answers import ApprovalRecord, ApprovalState
from settlemark._approvals.terms import ANYONE, Approval
from settlemark._engine.kernel import Kernel
from settlemark._lifecycle.asked.telling import Notices
from settlemark._protocol.protocol import Protocol
from settlemark._report.questions import is_parked, questions
from settlemark.ledger._approvals import approvals_waiting, close
from settlemark.ledger._contract import Book


class Questions:
    """Has what is due about questions done.

    Args:
        kernel: takes the steps.
        notices: tells people.
        overdue: has one question answered with no, if nobody has answered it in time.

    Attributes:
        on_asked: called when a question is put about which something may become due.
        until: when something is, on the store's clock; None: nothing is known of.
    """

    def __init__(self, kernel: Kernel, notices: Notices, overdue: Callable[[str], Program[bool]]) -> None:
        self._kernel = kernel
        self._notices = notices
        self._overdue = overdue
        self.on_asked: Callable[[], None] | None = None
        self.until: float | None = None
        kernel.on_asked = WeakMethod(self.asked)

    def asked(self, terms: Approval) -> None:
        """Report that a question with these terms is put."""
        if self.on_asked is not None and (self._notices.channels or terms is not ANYONE):
            self.on_asked()

    def look_again(self) -> None:
        """Report that something may be due, where anything waits for a person."""
        with self._kernel.local as protocol:
            waits = any(is_parked(txn) for txn in protocol.live.values())
        if waits and self.on_asked is not None:
            self.on_asked()

    def tell_again(self) -> None:
        """Report that people may have to be told of something that is no question."""
        if self._notices.channels and self.on_asked is not None:
            self.on_asked()

    def until_due(self) -> float | None:
        """Return for how many seconds nothing is due; None: nothing is known to become due."""
        return None if self.until is None else max(0.0, self.until - self._kernel.ledger.time())

    def settle_due(self) -> Program[None]:
        """Answer with no what nobody has answered in time, tell people, and end what waits no more."""
        late: list[ApprovalRecord] = yield from self._kernel.step(self._look)
        for record in late:
            yield from self._overdue(record.key)
        yield from self._notices.tell_people()

    def _look(self, protocol: Protocol, book: Book) -> list[ApprovalRecord]:
        recorded, now = approvals_waiting(book), self._kernel.ledger.time()
        asked = {one.key: one for one in questions(protocol, book)} if recorded else {}
        for record in recorded:
            if record.key not in asked and not _is_on_its_way(protocol, record):
                close(book, record.key, ApprovalState.VOID, now)
        waiting = [record for record in recorded if record.key in asked]
        for record in waiting:
            if asked[record.key].answer is None:
                self._notices.ask(book, record, asked[record.key], now)
        dues = [record.due for record in waiting]
        if self._notices.channels:
            dues += [record.next_telling() for record in approvals_waiting(book)] if waiting else []
            dues.append(self._notices.next(book))
        self.until = min((due for due in dues if due is not None and due > now), default=None)
        return [record for record in waiting if record.is_late(now)]


def _is_on_its_way(protocol: Protocol, record: ApprovalRecord) -> bool:
    """Whether a question's transaction is open still, and may yet be put aside."""
    txn = protocol.named.get(record.transaction)
    return txn is not None and not txn.finished and txn.attempt == record.attempt


__all__ = ["Questions"]
