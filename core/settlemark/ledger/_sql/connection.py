"""The one connection of a process to its store."""

from __future__ import annotations

import sqlalchemy as sa

from settlemark.ledger._sql.wire import Wire, wire_to


class Connection:
    """A connection that is opened when a step needs it, and dropped after an error.

    Attributes:
        engine: makes connections.
        url: names the store, in errors.
        wire: the open one, if any.
    """

    def __init__(self, engine: sa.Engine, url: str) -> None:
        self.engine = engine
        self.url = url
        self.wire: Wire | None = None

    @property
    def is_file(self) -> bool:
        """Whether the store is a file, and not a server."""
        return self.engine.dialect.name == "sqlite"

    def opened(self) -> Wire:
        """Return the open connection."""
        if self.wire is None:
            # One connection for good: taking one from a pool for every commit costs more than the commit's work.
            self.wire = wire_to(self.engine)
        return self.wire

    def let_go(self) -> None:
        """Close the connection: after an error nobody knows what state it is in."""
        wire, self.wire = self.wire, None
        if wire is not None:
            wire.rollback()
            wire.close()

    def in_child(self) -> None:
        """Leave the parent's connection alone, in a forked child."""
        wire, self.wire = self.wire, None
        if wire is not None:
            wire.forget()
        self.engine.dispose(close=False)


__all__ = ["Connection"]
