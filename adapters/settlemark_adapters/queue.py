"""A table of a database as an outbox: published when the step settles, delivered at least once, and handled once.

Consumers take everything in the table, so a message is irreversible and leaves with the commit. Its id comes from the
call's key, so that publishing it again, after a lost answer or a crash, finds it. It is delivered until its handler has
returned, in the order of its topic; a handler within `Inbox.once` handles it once. Source: the transactional outbox and
the idempotent consumer of service design; Atomix §2.3 (externalized effects).
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from settlemark import Settlement, current_call
from settlemark.hosting import CLOCKS, EffectName, escape, json_text
from settlemark_adapters._adapter import Adapter, operation
from settlemark_adapters._database import (
    Database,
    DatabaseRefused,
    DatabaseUnavailable,
    OutcomeLost,
    insert_unless_there,
)
from settlemark_adapters._spans import span

LEASE_SECONDS = 60.0
_IDS = uuid.UUID("6a1f4b0e-6f5d-5a86-9d8c-5b1c5f0c3d11")

_tables = sa.MetaData()
_topics = sa.Table(
    "settlemark_topics",
    _tables,
    sa.Column("topic", sa.Text, primary_key=True),
    sa.Column("last", sa.BigInteger, nullable=False, default=0),
)
_outbox = sa.Table(
    "settlemark_outbox",
    _tables,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("topic", sa.Text, nullable=False),
    sa.Column("number", sa.BigInteger, nullable=False),
    sa.Column("message", sa.Text),
    sa.Column("at", sa.DateTime, nullable=False, server_default=sa.func.current_timestamp()),
    sa.UniqueConstraint("topic", "number"),
)
_consumers = sa.Table(
    "settlemark_consumers",
    _tables,
    sa.Column("consumer", sa.Text, primary_key=True),
    sa.Column("topic", sa.Text, primary_key=True),
    sa.Column("position", sa.BigInteger, nullable=False, default=0),
    sa.Column("tries", sa.Integer, nullable=False, default=0),
    sa.Column("worker", sa.Text),
    sa.Column("until", sa.Float, nullable=False, default=0.0),
)

_handled_tables = sa.MetaData()
_handled = sa.Table(
    "settlemark_handled",
    _handled_tables,
    sa.Column("consumer", sa.Text, primary_key=True),
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("at", sa.DateTime, nullable=False, server_default=sa.func.current_timestamp()),
)


class MessageConflict(ValueError):
    """The same call published another message before; nothing was published. Attribute `message_id`: the earlier."""

    def __init__(self, message: str, *, message_id: str = "") -> None:
        super().__init__(message)
        self.message_id = message_id


@dataclass(frozen=True)
class Message:
    """A delivered message.

    Attributes:
        id: stable: the same whenever it is published or delivered again.
        topic: where it was published.
        number: its place in the topic: 1, 2, 3, with none left out.
        body: its content, as JSON.
        attempt: 1 for the first delivery to this consumer.
    """

    id: str
    topic: str
    number: int
    body: Any
    attempt: int


class Outbox(Adapter):
    """The tool `publish`, and the delivery of what was published.

    Args:
        url: of SQLAlchemy, SQLite or PostgreSQL, or an engine. Its tables are made when they are first needed.
        settlement: knows the tool's declaration.
        lease: seconds after which a consumer's worker that does not move is thought dead, and another delivers again.
            They are told by the database's clock, which for SQLite is this host's: where that is set forward, or a
            worker hangs for longer, a message may be in two hands at once; handlers that mind use `Inbox.once`.
        clock: injected time, for tests; the database's by default.
        name: a prefix to the tool's name. effects: declares it otherwise; see `Adapter`.

    Laws: a message is published once for each decision, however often the call is sent. Each consumer, by its name,
    gets every message of a topic at least once and in order; a message whose handler raises holds up those behind it.
    Of one consumer, one worker at a time delivers a topic.

    Raises:
        ValueError: it is another database, or a SQLite one in memory.

    >>> import tempfile
    >>> settlement = Settlement("memory:")
    >>> outbox = Outbox(f"sqlite:///{tempfile.mkdtemp()}/outbox.db", settlement)
    >>> with settlement.transaction("order-7") as tx:
    ...     _ = tx.call(outbox.publish, topic="orders", message={"order": 7})
    ...     outbox.consume("orders", print)
    0
    >>> outbox.consume("orders", lambda message: print(message.number, message.body))
    1 {'order': 7}
    1
    """

    def __init__(
        self,
        url: str | sa.URL | sa.Engine,
        settlement: Settlement | None = None,
        *,
        lease: float = LEASE_SECONDS,
        clock: Callable[[], float] | None = None,
        name: str = "",
        effects: Mapping[str, EffectName | Mapping[str, Any]] | None = None,
    ) -> None:
        self.database = Database(url, create=True)
        self._lease, self._clock = span("lease", lease), clock
        super().__init__(settlement, name=name, effects=effects)

    # ---- publishing

    def _named(self, topic: str) -> str:
        return f"queue:/{escape(self.database.name)}/{escape(topic)}"

    def _fit(self, topic: Any, message: Any = None) -> None:
        if not isinstance(topic, str) or not topic.strip():
            raise ValueError(f"topic={topic!r:.80} is none: give a text, as in 'orders'")
        if "\x00" in topic:
            raise ValueError(f"topic={topic!r:.80} has a NUL character, which no database keeps: leave it out")
        json_text.check(message, "message")

    def _fit_new(self, topic: Any, message: Any = None) -> None:
        self._fit(topic, message)
        if current_call() is not None:
            self._check_new(self.key)

    def _find(self, topic: str) -> dict[str, Any] | None:
        id_ = message_id(self.key)
        with self._acting("probing publish", keep=False) as connection:
            _lock_topic(connection, topic)  # waits for a concurrent publisher
            found = connection.execute(sa.select(_outbox).where(_outbox.c.id == id_)).one_or_none()
            return None if found is None else {"id": found.id, "topic": found.topic, "number": found.number}

    @operation("publish", "irreversible", scope=_named, check=_fit_new, probe=_find, keyed=True)
    def publish(self, topic: str, message: Any) -> dict[str, Any]:
        """Publish a message to a topic; it is delivered to all its consumers once this step has settled.

        Args:
            topic: the topic's name.
            message: what to tell: text, a number, a list or an object.
        """
        self._fit(topic, message)
        id_, body = message_id(self.key), json_text.encode(message)
        with self._acting("publish") as connection:
            number = _lock_topic(connection, topic) + 1
            found = connection.execute(sa.select(_outbox).where(_outbox.c.id == id_)).one_or_none()
            if found is not None:
                if found.topic != topic or found.message not in (body, None):
                    raise _conflict(self.key, found.topic)
                return {"id": id_, "topic": topic, "number": found.number}
            connection.execute(_topics.update().where(_topics.c.topic == topic).values(last=number))
            connection.execute(_outbox.insert().values(id=id_, topic=topic, number=number, message=body))
        return {"id": id_, "topic": topic, "number": number}

    def _check_new(self, key: str) -> None:
        """Check that there is no message under the key of a call that is made for the first time.

        A probe would take another ledger's message for this call's.
        """
        self.database.prepare(_tables)
        with self.database.looking("looking for the message") as connection:
            wanted = sa.select(_outbox.c.topic).where(_outbox.c.id == message_id(key))
            found = connection.execute(wanted).scalar_one_or_none()
        if found is not None:
            raise _conflict(key, found)

    # ---- delivering

    def consume(
        self, topic: str, handler: Callable[[Message], object], *, consumer: str = "default", batch: int = 100
    ) -> int:
        """Deliver a topic's messages that a consumer has not handled yet, in order, and return how many.

        A message is handled when its handler has returned. A handler's exception is raised here: the message is
        delivered again, and those before it are not. The same holds when the process dies, at the latest when its lease
        is over. Returns 0 while another worker of this consumer delivers the topic.

        Args:
            topic: the topic's name.
            handler: called with each `Message`.
            consumer: the consumer's name: each gets all messages.
            batch: how many to deliver at most.

        Raises:
            DatabaseUnavailable, OutcomeLost: the database failed; the message being handled may be delivered again.
        """
        delivered = 0
        claim = _Claim(topic, consumer, uuid.uuid4().hex)
        if not self._claimed(claim):
            return 0
        try:
            while delivered < batch and (message := self._next(claim)) is not None:
                handler(message)
                claim.handled = message.number
                delivered += 1
        except BaseException:
            # A failure here too ends with the lease.
            with suppress(DatabaseUnavailable, DatabaseRefused, OutcomeLost):
                self._let_go(claim)
            raise
        self._let_go(claim)
        return delivered

    def prune(self, topic: str) -> int:
        """Remove the contents of messages that all consumers of a topic have handled, and return how many.

        Their ids stay, so that publishing one again still finds it. A consumer that comes later does not get them.
        """
        with self._acting("pruning the outbox") as connection:
            least = sa.select(sa.func.min(_consumers.c.position)).where(_consumers.c.topic == topic)
            done = sa.and_(_outbox.c.topic == topic, _outbox.c.number <= least.scalar_subquery())
            pruned = _outbox.update().where(done, _outbox.c.message.is_not(None)).values(message=None)
            return connection.execute(pruned, execution_options={"preserve_rowcount": True}).rowcount

    def _claimed(self, claim: _Claim) -> bool:
        """Take a consumer's place at a topic for the time of a lease, unless another has it."""
        line = {"consumer": claim.consumer, "topic": claim.topic}
        with self._acting("consuming") as connection:
            insert_unless_there(connection, _consumers, line)
            now = self._now(connection)
            free = sa.or_(_consumers.c.worker.is_(None), _consumers.c.until <= now)
            # A row that another is claiming right now is not waited for.
            mine = sa.select(_consumers.c.position).where(claim.place, free).with_for_update(skip_locked=True)
            if connection.execute(mine).one_or_none() is None:
                return False
            taken = _consumers.update().where(claim.place)
            connection.execute(taken.values(worker=claim.worker, until=now + self._lease))
            return True

    def _next(self, claim: _Claim) -> Message | None:
        """Record a handled message, and return the next; None: there is none, or another worker has taken over."""
        with self._acting("consuming") as connection:
            held = sa.and_(claim.place, _consumers.c.worker == claim.worker)
            found = connection.execute(sa.select(_consumers).where(held).with_for_update()).one_or_none()
            if found is None:
                return None
            position, tries = found.position, found.tries
            if claim.handled is not None:
                position, tries, claim.handled = claim.handled, 0, None
            left = sa.and_(_outbox.c.topic == claim.topic, _outbox.c.number > position, _outbox.c.message.is_not(None))
            line = connection.execute(sa.select(_outbox).where(left).order_by(_outbox.c.number).limit(1)).one_or_none()
            tries += line is not None
            values = {"position": position, "tries": tries, "until": self._now(connection) + self._lease}
            connection.execute(_consumers.update().where(held).values(values))
        return None if line is None else Message(line.id, line.topic, line.number, json.loads(line.message), tries)

    def _let_go(self, claim: _Claim) -> None:
        with self._acting("consuming") as connection:
            held = sa.and_(claim.place, _consumers.c.worker == claim.worker)
            values: dict[str, Any] = {"worker": None, "until": 0.0}
            if claim.handled is not None:
                values |= {"position": claim.handled, "tries": 0}
            connection.execute(_consumers.update().where(held).values(values))

    def _now(self, connection: sa.Connection) -> float:
        """Return the time, in seconds since 1970: two workers' hosts may not agree on it."""
        if self._clock is not None:
            return self._clock()
        return float(connection.execute(sa.text(f"SELECT {CLOCKS[connection.dialect.name]}")).scalar_one())

    def _acting(self, doing: str, *, keep: bool = True) -> AbstractContextManager[sa.Connection]:
        self.database.prepare(_tables)
        return self.database.begin(doing, keep=keep)


@dataclass
class _Claim:
    """A worker's place at a topic, and the number of a message that it has handled and not recorded yet."""

    topic: str
    consumer: str
    worker: str
    handled: int | None = None

    @property
    def place(self) -> sa.ColumnElement[bool]:
        return sa.and_(_consumers.c.topic == self.topic, _consumers.c.consumer == self.consumer)


class Inbox:
    """A consumer's memory of handled messages, in the consumer's own database.

    A message is delivered at least once; the handler's changes on its connection are committed together with the mark
    that it was handled, in one transaction, and so happen once.

    Args:
        url: of SQLAlchemy, SQLite or PostgreSQL, or an engine: where the handler writes.

    >>> import tempfile
    >>> inbox = Inbox(f"sqlite:///{tempfile.mkdtemp()}/books.db")
    >>> [inbox.once("message-1", lambda connection: print("handled"), consumer="billing") for _ in range(2)]
    handled
    [True, False]
    """

    def __init__(self, url: str | sa.URL | sa.Engine) -> None:
        self.database = Database(url, create=True)

    def once(self, message_id: str, handler: Callable[[sa.Connection], object], *, consumer: str = "default") -> bool:
        """Call `handler(connection)` unless this message was handled before, and return whether it was called.

        Its effects elsewhere than on that connection may happen again. When it raises, the message is unhandled, and
        its changes on the connection are rolled back.

        Raises:
            DatabaseUnavailable, DatabaseRefused: it is not handled.
            OutcomeLost: nobody knows; deliver it again.
        """
        self.database.prepare(_handled_tables)
        line = {"consumer": consumer, "id": message_id}
        with self.database.begin("handling a message") as connection:
            # A concurrent handling is waited for: its end says whether there is anything left to do.
            if not insert_unless_there(connection, _handled, line):
                return False
            handler(connection)
            return True

    def handling(
        self, handler: Callable[[Message, sa.Connection], object], *, consumer: str = "default"
    ) -> Callable[[Message], bool]:
        """Return a handler for `Outbox.consume` that calls `handler(message, connection)` once a message."""

        def handle(message: Message) -> bool:
            return self.once(message.id, lambda connection: handler(message, connection), consumer=consumer)

        return handle


def message_id(key: str) -> str:
    """Return the id of the message that the call with this key publishes.

    >>> message_id("order-7#1/0")
    '433f268b-24dd-5e33-b630-2df723b5a618'
    """
    return str(uuid.uuid5(_IDS, key))


def _conflict(key: str, topic: str) -> MessageConflict:
    return MessageConflict(
        f"another message was published under the key {key!r}, to {topic}: nothing was published; give each ledger that"
        " publishes to one database a namespace= of its own",
        message_id=message_id(key),
    )


def _lock_topic(connection: sa.Connection, topic: str) -> int:
    """Keep others from publishing to a topic until this transaction ends, and return its last message's number.

    So the numbers of a topic become visible in order, and a reader that continues from the last one skips none.
    """
    insert_unless_there(connection, _topics, {"topic": topic})
    last: int = connection.execute(
        sa.select(_topics.c.last).where(_topics.c.topic == topic).with_for_update()
    ).scalar_one()
    return last


__all__ = [
    "DatabaseRefused",
    "DatabaseUnavailable",
    "Inbox",
    "Message",
    "MessageConflict",
    "Outbox",
    "OutcomeLost",
    "message_id",
]
