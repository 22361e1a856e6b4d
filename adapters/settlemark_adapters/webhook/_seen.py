"""Remembers handled events, so that a repeated delivery is handled once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from sqlalchemy import Column, Connection, Engine, Float, MetaData, String, Table, create_engine, select
from sqlalchemy.dialects import postgresql, sqlite

from settlemark.hosting import discreet
from settlemark_adapters._spans import span

DAY = 86_400.0
_LONGEST = 255


class StillHandled(RuntimeError):
    """An event came again to the thread that handles it, and cannot wait: answer 503. Attribute `event_id`."""

    def __init__(self, message: str, *, event_id: str = "") -> None:
        super().__init__(message)
        self.event_id = event_id


class Seen:
    """Remembers the ids of handled events, in a table or in this process.

    Args:
        engine: a SQLAlchemy engine, or the URL of one, for SQLite or PostgreSQL; without it ids are remembered by this
            process alone, until it ends.
        window: seconds for which an id is remembered, longer than a sender may go on; None for good.
        table: the table's name; it is made when it is missing.
        clock: the time.

    Laws: of all deliveries of an event at most one is handled to its end: one that fails is forgotten, so that the next
    is handled, and one that comes meanwhile waits: so in async code handle events in threads (`asyncio.to_thread`).
    What the handler writes through `claim`'s connection is kept if and only if the id is.

    >>> seen = Seen()
    >>> with seen.once("msg_1") as first:
    ...     first
    True
    >>> with seen.once("msg_1") as first:
    ...     first
    False
    """

    def __init__(
        self,
        engine: Engine | str | None = None,
        *,
        window: float | None = 30 * DAY,
        table: str = "settlemark_webhooks_seen",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._engine = discreet(create_engine(engine, hide_parameters=True)) if isinstance(engine, str) else engine
        self._own = isinstance(engine, str)
        self._window = None if window is None else span("window", window)
        self._clock = clock
        self._table = Table(
            table, MetaData(), Column("id", String(_LONGEST), primary_key=True), Column("at", Float, nullable=False)
        )
        self._at: dict[str, float] = {}
        self._handling: set[str] = set()
        self._within: set[tuple[str, int]] = set()  # which event which thread handles, or waits for
        self._changed = threading.Condition()
        if self._engine is not None:
            if self._engine.dialect.name not in ("sqlite", "postgresql"):
                raise ValueError(f"{self._engine.dialect.name} is no store for this: use SQLite or PostgreSQL")
            self._table.metadata.create_all(self._engine)

    def close(self) -> None:
        """Close the connections that it has opened."""
        if self._engine is not None and self._own:
            self._engine.dispose()

    @contextmanager
    def once(self, event_id: str) -> Generator[bool]:
        """Enter with whether to handle an event: True only for the first delivery, unless that fails.

        Raises:
            StillHandled: this thread handles the event already, in another task for example.
        """
        here = (event_id, threading.get_ident())
        if here in self._within:
            raise StillHandled(
                f"{event_id} came again while this thread handles it, and waiting would stop both: answer 503, so that"
                " it is sent again, and handle events in threads",
                event_id=event_id,
            )
        self._within.add(here)
        try:
            with self._entered(event_id) as first:
                yield first
        finally:
            self._within.discard(here)

    @contextmanager
    def _entered(self, event_id: str) -> Generator[bool]:
        if self._engine is not None:
            with self._engine.begin() as connection:
                yield self.claim(connection, event_id)
            return
        first = self._begin(event_id)
        try:
            yield first
        except BaseException:
            self._end(event_id, handled=False, mine=first)
            raise
        self._end(event_id, handled=True, mine=first)

    def claim(self, connection: Connection, event_id: str) -> bool:
        """Return whether to handle an event, within the caller's own transaction.

        The caller's writes in it and the event's id are stored together, or neither is.
        """
        now = self._clock()
        if self._window is not None:
            # Without those that another is about to remove: that would wait for the other's handler.
            old = select(self._table.c.id).where(self._table.c.at <= now - self._window)
            gone = old.with_for_update(skip_locked=True)
            connection.execute(self._table.delete().where(self._table.c.id.in_(gone)))
        insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
        done = connection.execute(
            insert(self._table).values(id=event_id, at=now).on_conflict_do_nothing(),
            execution_options={"preserve_rowcount": True},  # else some drivers do not count an insert
        )
        return done.rowcount == 1

    def _begin(self, event_id: str) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: event_id not in self._handling)
            if self._window is not None:
                oldest = self._clock() - self._window
                self._at = {known: at for known, at in self._at.items() if at > oldest}
            if event_id in self._at:
                return False
            self._handling.add(event_id)
            return True

    def _end(self, event_id: str, *, handled: bool, mine: bool) -> None:
        if not mine:
            return
        with self._changed:
            self._handling.discard(event_id)
            if handled:
                self._at[event_id] = self._clock()
            self._changed.notify_all()
