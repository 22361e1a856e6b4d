"""A queue's database, looked at past the adapter, and a consumer's own books."""

from __future__ import annotations

from tests.adapters.sql.shop import Shop


class Depot(Shop):
    """What stands in the outbox, in its order."""

    def messages(self):
        with self.connection() as connection:
            return connection.execute(
                "SELECT topic, number, message FROM settlemark_outbox ORDER BY topic, number"
            ).fetchall()

    def ids(self):
        with self.connection() as connection:
            return [row[0] for row in connection.execute("SELECT id FROM settlemark_outbox ORDER BY number").fetchall()]

    def empty(self):
        names = ("topics", "outbox", "consumers", "handled")
        self.run(*(f"DROP TABLE IF EXISTS settlemark_{name}" for name in names), "DROP TABLE IF EXISTS booked")
        return self.open_books()

    def open_books(self):
        self.run("CREATE TABLE booked (body TEXT)")
        return self

    def booked(self):
        with self.connection() as connection:
            return [row[0] for row in connection.execute("SELECT body FROM booked ORDER BY body").fetchall()]
