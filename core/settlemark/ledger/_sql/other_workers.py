"""The other workers of a store: how many there are, and how often this process looks for what they do."""

from __future__ import annotations

import threading

import sqlalchemy as sa

from settlemark.ledger._sql.listening import NOTIFY, NotificationListener
from settlemark.ledger._sql.wire import Wire

LOOK_OFTEN_SECONDS = 0.005
LOOK_SECONDS = 0.05


class Others:
    """The other workers of a namespace.

    Args:
        engine: makes connections to the store.
        namespace: which one.
        wake: wakes the thread that looks for what others did.
        alone: seconds between two looks while there is nobody else.

    Attributes:
        count: how many there are.
        listeners: how many programs of this process wait for what the others do.
    """

    def __init__(self, engine: sa.Engine, namespace: str, wake: threading.Event, *, alone: float) -> None:
        self._engine = engine
        self._namespace = namespace
        self._wake = wake
        self._alone = alone
        self._lock = threading.Lock()
        self._notifies = engine.dialect.name == "postgresql"
        self._listener: NotificationListener | None = None
        self.count = self.listeners = 0

    def listen(self, change: int) -> None:
        """Count the programs that wait for what others do; the first one has the others listened to."""
        with self._lock:
            self.listeners += change
            if self._notifies and change > 0 and self.count and self._listener is None:
                self._listener = NotificationListener(self._engine, self._namespace, self._wake)
                self._listener.start()
        if change > 0 and self.count:
            self._wake.set()

    def tell(self, wire: Wire) -> None:
        """Tell the others, where the store can, that a step is taken."""
        if self.count and self._notifies:
            wire.execute(NOTIFY, {"namespace": self._namespace})

    @property
    def pace(self) -> float:
        """Seconds until the next look."""
        if self.listeners and self.count:
            return LOOK_OFTEN_SECONDS if self._listener is None else LOOK_SECONDS
        return LOOK_SECONDS if self.count else self._alone

    def close(self) -> None:
        """Listen no more."""
        if self._listener is not None:
            self._listener.stop()

    def in_child(self, wake: threading.Event) -> None:
        """Listen to nobody, in a forked child: the thread that listens is its parent's."""
        self._lock, self._wake, self._listener = threading.Lock(), wake, None


__all__ = ["LOOK_SECONDS", "Others"]
