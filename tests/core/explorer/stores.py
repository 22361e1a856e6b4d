"""SQL stores as an explorer wants them: several workers in one process, each of which moves when it is told to.

A worker here has no thread: its steps are taken when they are given, it sees what others did with its own
next step or when it is told to look, and what it gave to be taken later waits until then.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Self
from uuid import uuid4

import sqlalchemy as sa
from tests.rooms.acts import Pending
from tests.rooms.ledger import Step, T
from tests.rooms.model import ID_DIGITS
from tests.rooms.record import prepare
from tests.rooms.replica import Member
from tests.rooms.sql import Wire, saying, wire_to, writing_engine

from settlemark.hosting import Protocol
from settlemark.ledger import Book

_UNSEEN = saying("SELECT steps FROM settlemark_log WHERE namespace = :namespace AND n > :n ORDER BY n")
_BEGIN = saying("INSERT INTO settlemark_head (namespace, n) VALUES (:namespace, 0)")


class SteppedLedger(Member):
    """One worker's ledger on a shared store, without a thread.

    Attributes:
        peers: the ledgers of all workers on the store, this one among them.
    """

    id = "0" * ID_DIGITS  # two runs that move alike make the same keys
    immediate = False
    peers: Sequence[SteppedLedger] = ()
    _over = False
    _unseen: tuple[tuple[int, int], tuple[str, ...]] = ((0, 0), ())

    def __init__(self, engine: sa.Engine, *, url: str, namespace: str) -> None:
        super().__init__(engine, url=url, namespace=namespace, lease=1e9, monotonic=_zero)
        self.transaction.tells_time = False  # two runs that move alike write the same log
        self.transaction.enrols = False  # a death is the explorer's to say

    def submit(self, step: Step[Any], *, durable: bool, looks: bool = False, wait: float | None = None) -> Any:
        """Take a step at once, and return its answer as a future that is done."""
        answer: Pending = super().submit(step, durable=durable, looks=looks, wait=wait)
        answer.lead()
        return answer

    def now(self, step: Step[T]) -> T:
        """Take a step and return what it returns."""
        result: T = self.submit(step, durable=False).result()
        return result

    def read(self, query: Callable[[Book], T]) -> T:
        """Return what a query finds, after all that was given before."""
        return self.now(lambda _protocol, book: query(book))

    def undecided(self) -> float:
        """Return 0: a death is the explorer's to say."""
        return 0.0

    def watch_aborts(self, told: Callable[[], None]) -> None:
        """Do nothing: an explorer looks whether there is something to conclude."""

    def watch_leases(self, told: Callable[[str, int], None]) -> None:
        """Do nothing: an explorer has no observer."""

    @property
    def stalled(self) -> bool:
        """Whether the store was silent for longer than a caller waited."""
        return self.batches.stalled

    @property
    def is_elsewhere(self) -> bool:
        """Say no: an explorer does not fork."""
        return False

    def listen(self, change: int) -> None:
        """Do nothing: an explorer looks at every moment."""

    def close(self) -> None:
        """Do nothing: the store's connections outlive a run."""

    # ---- what an explorer may do and ask

    def hold(self, wire: Wire) -> None:
        """Work over this connection: a run is too short to open one of its own."""
        self.connection.wire = wire

    def hand_over(self) -> Wire:
        """Return the connection, for the next run; what programs that are thrown away still give is not taken."""
        self._over = True
        return self.connection.opened()

    def later(self, step: Step[Any]) -> None:
        """Queue a step for the next one, or for `keep`."""
        if not self._over:
            super().later(step)

    def keep(self) -> None:
        """Do what the thread of a ledger does now and then: take what was given for later, and look."""
        with self.commits.leading:
            self.batches.take_queued()
            self.look()

    def look(self) -> None:
        """Take the steps that others took, and none of its own."""
        self.batches.look()

    @property
    def due(self) -> bool:
        """Whether `keep` would change anything."""
        return bool(self.queue.steps or self.unseen())

    def unseen(self) -> tuple[str, ...]:
        """Return the steps that others took and this replica has not, as the log has them."""
        applied = self.replica.applied
        head = max((peer.replica.applied for peer in self.peers), default=applied)
        if head == applied:
            return ()
        if self._unseen[0] != (applied, head):
            wire = self.connection.opened()
            wire.begin_to_read()
            found = wire.query(_UNSEEN, {"namespace": self.namespace, "n": applied})
            wire.commit()
            steps = tuple(json.dumps(step) for (entry,) in found for step in json.loads(entry))
            self._unseen = (applied, head), steps
        return self._unseen[1]

    def freeze(self) -> tuple[Any, ...]:
        """Return a hashable picture of this worker's side: replica, what it has not seen, and what waits."""
        waiting = tuple(item.step.__qualname__ for item in self.queue.steps)
        aborted = tuple((txn.name, txn.attempt) for txn in self.protocol.aborted())
        return self.protocol.freeze(), self.unseen(), waiting, aborted

    def newcomer(self) -> Self:
        """Return the ledger of another worker on the same store, which has just come."""
        other = type(self)(self.connection.engine, url=self.connection.url, namespace=self.namespace)
        other.hold(self.connection.opened())
        other.now(_nothing)
        return other


class SharedStore:
    """A SQL store for many short runs, each in a namespace of its own.

    Args:
        url: a SQLite file (best in memory: nothing here has to survive) or a PostgreSQL database.
        workers: how many share it.
        ledger: their ledgers, or a mutant of them.

    >>> from tempfile import TemporaryDirectory
    >>> from tests.core.explorer.explorer import explore
    >>> with TemporaryDirectory() as folder, SharedStore(f"sqlite:///{folder}/store.db") as store:
    ...     explore("ex", "rx sy", store=store).violations
    {}
    """

    def __init__(self, url: str, *, workers: int = 2, ledger: Callable[..., SteppedLedger] = SteppedLedger) -> None:
        self.url = url
        self._ledger = ledger
        parsed = sa.make_url(url)
        sqlite = parsed.get_backend_name() == "sqlite"
        self._engine = writing_engine(parsed) if sqlite else sa.create_engine(parsed)
        self._name = uuid4().hex[:8]
        self._numbers = count()
        self._before: list[SteppedLedger] = []
        with self._engine.connect() as connection, connection.begin():
            prepare(connection, url, namespace="", readonly=False)
        self._wires = [wire_to(self._engine) for _ in range(workers)]

    def __call__(self, protocol: Callable[[], Protocol] = Protocol) -> Sequence[SteppedLedger]:
        """Return the ledgers of workers that have just met where nobody was before."""
        namespace = f"{self._name}-{next(self._numbers):06}"
        wires = self._wires = list(map(self._open, [ledger.hand_over() for ledger in self._before] or self._wires))
        wires[0].begin(durable=False)
        wires[0].execute(_BEGIN, {"namespace": namespace})
        wires[0].commit()
        ledgers = [self._ledger(self._engine, url=self.url, namespace=namespace) for _ in wires]
        for ledger, wire in zip(ledgers, wires, strict=True):
            ledger.replica.protocol = protocol()
            ledger.hold(wire)
            ledger.peers = ledgers
            ledger.now(_nothing)
        self._before = ledgers
        return ledgers

    def _open(self, wire: Wire) -> Wire:
        """Return a connection that is open: a replica that stops, because its log is none, has let go of its own."""
        try:
            wire.begin_to_read()
            wire.commit()
        except Exception:
            return wire_to(self._engine)
        return wire

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        for wire in [ledger.hand_over() for ledger in self._before] or self._wires:
            wire.close()
        self._engine.dispose()


def _zero() -> float:
    return 0.0


def _nothing(_protocol: Protocol, _book: Book) -> None:
    return None


__all__ = ["SharedStore", "SteppedLedger"]
