"""Learns at once, from PostgreSQL, that another process has taken a step: a hint, since polling finds it anyway."""

from __future__ import annotations

import logging
import threading
from typing import Any

import sqlalchemy as sa

from settlemark._observe.logs import about, quote_of
from settlemark.ledger._sql.wire import Statement

_log = logging.getLogger("settlemark")

_PATIENCE_SECONDS = 1.0

NOTIFY = Statement("SELECT pg_notify('settlemark', :namespace)")


class NotificationListener:
    """A connection that listens, in a background thread, and wakes those that look for others' steps."""

    def __init__(self, engine: sa.Engine, namespace: str, wake: threading.Event) -> None:
        self._engine = engine
        self._namespace = namespace
        self._wake = wake
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="settlemark-ear", daemon=True)

    def start(self) -> None:
        """Begin to listen; only once."""
        self._thread.start()

    def stop(self) -> None:
        """Stop within a second."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(2 * _PATIENCE_SECONDS)

    def _listen(self) -> None:
        while not self._stopped.is_set():
            try:
                self._hear()
            except Exception as error:  # polling continues: nothing is missed
                _log.info(
                    "no notifications from the store for now: %s",
                    quote_of(error),
                    extra=about(namespace=self._namespace),
                )
                self._stopped.wait(_PATIENCE_SECONDS)

    def _hear(self) -> None:
        with self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            driver: Any = connection.connection.driver_connection
            try:
                driver.execute("LISTEN settlemark")
                while not self._stopped.is_set():
                    for heard in driver.notifies(timeout=_PATIENCE_SECONDS, stop_after=1):
                        if heard.payload == self._namespace:
                            self._wake.set()
            finally:
                connection.invalidate()  # it listens: it must not return to a pool, which may be gone by now


__all__ = ["NOTIFY", "NotificationListener"]
