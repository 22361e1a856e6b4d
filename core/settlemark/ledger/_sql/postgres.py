"""Connections to PostgreSQL whose every wait is bounded, whatever the server and the network do.

psycopg waits in slices for what a generator asks of the socket: the time limit is checked between two slices. A
connection that was given up is closed, since nobody knows what the server still does for it.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any, cast

import sqlalchemy as sa
from sqlalchemy import event

from settlemark._edges.wording import is_a
from settlemark.ledger._forking import disconnect_in_child
from settlemark.ledger._limits import LateError, here

_SETTINGS: Mapping[str, str] = {
    "idle_in_transaction_session_timeout": "60s",  # a client cut off by the network keeps no lock
    "client_connection_check_interval": "2s",  # nor does one that has given up keep waiting for a lock
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "4",
}
_SOCKET: Mapping[str, str] = {"keepalives_idle": "10", "keepalives_interval": "5", "keepalives_count": "4"}
_CONFIGURE = (  # constant text
    "SELECT set_config(name, CASE name "  # noqa: S608 - no value is in it
    + " ".join(f"WHEN '{name}' THEN '{value}'" for name, value in _SETTINGS.items())
    + " END, false) FROM pg_settings WHERE name IN ("
    + ", ".join(f"'{name}'" for name in _SETTINGS)
    + ") UNION ALL SELECT set_config('synchronous_commit', 'on', false)"
    + " WHERE current_setting('synchronous_commit') = 'off'"  # whoever has said so: a decision is on disk when told
)

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[Any]


def postgres_engine(url: sa.URL) -> sa.Engine:
    """Return an engine to a server, whose connections wait no longer than their limit."""
    engine = sa.create_engine(
        url,
        isolation_level="READ COMMITTED",
        pool_size=2,
        max_overflow=1,
        pool_timeout=5,
        hide_parameters=True,
        connect_args={name: value for name, value in _SOCKET.items() if name not in url.query},
    )
    return bound(engine)


def bound(engine: sa.Engine) -> sa.Engine:
    """Limit each wait of an engine's connections to their thread's limit."""
    if engine.dialect.driver != "psycopg":
        return engine
    kind = _bounded()

    @event.listens_for(engine, "do_connect")
    def connect(_dialect: Any, _record: Any, arguments: Any, options: Any) -> Any:
        options["client_encoding"] = "utf8"  # whatever the URL or the environment says: every text can be sent
        connection = kind.connect(*arguments, **options)
        disconnect_in_child(connection)
        return connection

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _record: Any) -> None:
        before, connection.autocommit = connection.autocommit, True
        connection.execute(_CONFIGURE)  # only the settings this server knows
        connection.autocommit = before

    return engine


def _bounded() -> type[Connection]:
    import psycopg
    from psycopg import waiting

    class Late(psycopg.OperationalError, LateError):
        """The server has not answered in time."""

    def until_late(waited: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        limit = here.limit
        try:
            wanted = next(waited)
            while True:
                ready = yield wanted
                if limit.remaining() <= 0:
                    raise Late("no answer from the server in time")
                wanted = waited.send(ready)
        except StopIteration as stop:
            return stop.value

    class Bounded(psycopg.Connection[Any]):
        @classmethod
        def _connect_gen(cls, *args: Any, **options: Any) -> Any:
            return until_late(cast("Any", super())._connect_gen(*args, **options))  # noqa: SLF001 - psycopg's own extension point

        def wait(self, gen: Any, interval: float = 0.1, **options: Any) -> Any:  # type: ignore[override]  # as it grows
            try:
                return waiting.wait(until_late(gen), self.pgconn.socket, interval=interval, **options)
            except BaseException as error:
                # psycopg would ask the server to cancel, and wait for that: nobody waits here any more.
                if is_a(error, LateError) or not is_a(error, Exception):
                    self.pgconn.finish()
                raise

    return Bounded


__all__ = ["bound", "postgres_engine"]
