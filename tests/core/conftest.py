"""What the tests of the core share: a protocol to drive by hand, and a world that keeps its own log."""

from __future__ import annotations

import sqlite3
import threading
from collections import defaultdict
from contextlib import suppress
from types import SimpleNamespace

import pytest
from tests.rooms.acts import Pending
from tests.rooms.protocol import Mode
from tests.rooms.record import SqlBook
from tests.unattended import unattended

from settlemark import LedgerError, Retries, Scope, Settlement, effect
from settlemark.hosting import Protocol, Reason, host_of
from settlemark.testing import VirtualClock

MARKERS = (
    "every_store: runs over PostgreSQL, too, where it opens a store",
    "own_time: settlements are in the time of `clock`, and nobody asks again but the test itself",
)


def pytest_configure(config):
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)


def pytest_generate_tests(metafunc):
    """Run a test that opens a store over each kind of it."""
    if "kind_of_store" in metafunc.fixturenames:
        everywhere = metafunc.definition.get_closest_marker("every_store") is not None
        metafunc.parametrize("kind_of_store", ["memory", "sqlite", "postgres"] if everywhere else ["memory", "sqlite"])


class Stage:
    """A protocol, and short words for what is done with it."""

    def __init__(self, **options):
        self.protocol = Protocol(**options)

    def begin(self, name, *may_touch, **options):
        return self.protocol.begin(name, declared=[Scope.parse(s) for s in may_touch], **options)

    def ask(self, txn, scope, mode):
        """Ask to touch a scope; return the call and who is in the way."""
        call = self.protocol.request(txn, Scope.parse(scope), mode)
        blocked = self.protocol.admit(call)
        return call, None if blocked is None else blocked.holder

    def touch(self, txn, scope, mode, *, happened=True):
        """Touch a scope, which must be free."""
        call, holder = self.ask(txn, scope, mode)
        assert holder is None, f"{txn.name} waits for {holder.name}"
        if mode is not Mode.HELD:
            self.protocol.acted(call, happened=happened)
        return call

    def read(self, txn, scope):
        return self.touch(txn, scope, Mode.READ)

    def write(self, txn, scope):
        return self.touch(txn, scope, Mode.EAGER)

    def hold(self, txn, scope):
        return self.touch(txn, scope, Mode.HELD)

    def commit(self, txn):
        """Seal and settle a transaction that nobody is in the way of."""
        self.protocol.seal(txn)
        assert self.protocol.decide(txn) is None
        if not txn.finished:
            self.protocol.finish(txn)

    def undo(self, txn, *calls, clean=True):
        """Conclude an abort as a driver does."""
        assert txn in self.protocol.take_aborted()
        for call in calls:
            self.protocol.undone(call, clean=clean)
        if not txn.finished:
            self.protocol.finish_abort(txn)

    def abort(self, txn, *calls, clean=True):
        self.protocol.abort(txn, Reason.FAILED)
        self.undo(txn, *calls, clean=clean)

    def version(self, scope):
        return self.protocol.version(Scope.parse(scope))

    def floor(self, scope):
        return self.protocol.floor(Scope.parse(scope))

    def frontier(self, scope):
        return self.protocol.frontier(Scope.parse(scope))


@pytest.fixture
def stage():
    return Stage()


@pytest.fixture(scope="session")
def make_stage():
    return Stage


class World:
    """A counterparty: it knows nothing of settlements, and logs all that happens to it."""

    def __init__(self):
        self.log = []
        self.rooms = set()
        self.cells = {}
        self.faults = defaultdict(list)
        self.lock = threading.Lock()
        self.tools = self._tools()

    def act(self, *entry):
        """Do one thing, unless a fault is due for it; a fault marked `after` strikes when it is done."""
        verb = entry[0]
        fault = self.faults[verb].pop(0) if self.faults[verb] else None
        if isinstance(fault, BaseException):
            raise fault
        with self.lock:
            self.log.append(entry)
        if fault is not None:
            raise fault[1]

    def fail(self, verb, *faults):
        self.faults[verb].extend(faults)

    def _tools(self):
        def cancel(room):
            self.act("cancel", room)
            self.rooms.discard(room)

        @effect("reversible", scope="room:/{room}", undo=cancel)
        def book(room):
            self.act("book", room)
            self.rooms.add(room)
            return {"confirmation": f"R-{room}"}

        @effect("reversible", scope="fee:/{room}", undo=cancel, cost="a fee of 20")
        def book_with_fee(room):
            self.act("book", room)
            self.rooms.add(room)
            return "booked"

        @effect("read", scope="room:/{room}")
        def look(room):
            return room in self.rooms

        @effect("irreversible", scope="mail:/{to}")
        def send(to, text="hello"):
            self.act("send", to, text)
            return f"sent to {to}"

        @effect("staged", scope="cell:/{cell}")
        def put(cell, value):
            self.act("put", cell, value)
            self.cells[cell] = value
            return value

        @effect("idempotent", scope="account:/{account}")
        def charge(account, amount):
            self.act("charge", account, amount)
            return amount

        def shout(word):
            self.act("shout", word)
            return word.upper()

        return SimpleNamespace(
            book=book,
            book_with_fee=book_with_fee,
            cancel=cancel,
            look=look,
            send=send,
            put=put,
            charge=charge,
            shout=shout,
        )


@pytest.fixture
def world():
    return World()


@pytest.fixture
def tools(world):
    return world.tools


@pytest.fixture
def url(request, kind_of_store, tmp_path):
    if kind_of_store == "postgres":
        return request.getfixturevalue("postgres_url")
    return "memory:" if kind_of_store == "memory" else f"sqlite:///{tmp_path / 'ledger.db'}"


@pytest.fixture(params=["sqlite", "postgres"])
def shared_url(request, tmp_path):
    """A store that outlives its process, and that several may share."""
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return f"sqlite:///{tmp_path / 'ledger.db'}"


def ends_without_a_record(settlement):
    """Name what the protocol has finished, no program of this process is at, and the record has as unfinished."""
    host = host_of(settlement)

    def look(protocol, book):
        at = {(txn.name, txn.attempt) for txn in (*protocol.live.values(), *host.driver.kernel.attempts)}
        return [
            recorded.row.name for recorded in book.unfinished() if (recorded.row.name, recorded.row.attempt) not in at
        ]

    if host.ledger.is_closed or host.ledger.is_elsewhere:
        return []
    with suppress(LedgerError):
        return host.ledger.now(look)
    return []


@pytest.fixture
def open_settlement():
    """Open settlements that never pause between retries, and close them at the end."""
    opened = []

    def open_(url="memory:", **options):
        options.setdefault("retries", Retries(first=0, most=0))
        options.setdefault("wait", 20.0)
        settlement = Settlement(url, **options)
        opened.append(settlement)
        return settlement

    yield open_
    # Every unfinished transaction has a living program, a lease, or a deadline.
    stranded = [found for settlement in opened for found in host_of(settlement).driver.ages.stranded()]
    unrecorded = [found for settlement in opened for found in ends_without_a_record(settlement)]
    for settlement in opened:
        settlement.close()
    assert (stranded, unrecorded) == ([], [])


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def open_here(open_settlement, clock):
    """Open settlements in the clock's time, where nobody asks again but the test itself."""

    def open_(url="memory:", **options):
        return unattended(open_settlement(url, **{**clock.options(), **options}))

    return open_


@pytest.fixture
def open_as_marked(request):
    return request.getfixturevalue("open_here" if request.node.get_closest_marker("own_time") else "open_settlement")


@pytest.fixture
def settlement(url, open_as_marked):
    return open_as_marked(url)


@pytest.fixture
def quick(open_as_marked):
    """A settlement in memory, for what does not depend on the store."""
    return open_as_marked()


class Noticed(dict):
    """Says when somebody begins to wait."""

    def __init__(self):
        super().__init__()
        self.noticed = threading.Event()

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        self.noticed.set()


@pytest.fixture
def someone_waits():
    """Return an event that is set when somebody begins to wait in a settlement, from now on."""

    def watch(settlement):
        host_of(settlement).driver.kernel.waits.waiting = Noticed()
        return host_of(settlement).driver.kernel.waits.waiting.noticed

    return watch


def _disk_full(ledger):
    if ledger.immediate:
        return LedgerError("database or disk is full", url=ledger.url)
    error = ledger._member.connection.engine.dialect.dbapi.OperationalError("database or disk is full")
    if ledger.url.startswith("sqlite"):
        error.sqlite_errorcode, error.sqlite_errorname = sqlite3.SQLITE_FULL, "SQLITE_FULL"
    return error


@pytest.fixture(scope="session")
def disk_full():
    """Return what a ledger's store raises when it has no room."""
    return _disk_full


@pytest.fixture
def in_step(monkeypatch):
    """Let something happen inside every step that writes such a change, before the change is kept."""

    def meet(settlement, is_it, what):
        ledger = host_of(settlement).ledger
        owner = ledger.book if ledger.immediate else SqlBook
        keep = owner.write

        def write(*args):
            if any(is_it(change) for change in args[-1]):
                what()
            return keep(*args)

        monkeypatch.setattr(owner, "write", write)

    return meet


class Taken(Pending):
    """A step's answer, behind which something happens before whoever waits for it goes on."""

    def __init__(self, answer, then):
        super().__init__()
        self.answer, self.then = answer, then

    def lead(self):
        self.answer.lead()

    def result(self, timeout=None):
        value = self.answer.result(timeout)
        self.then()
        return value


@pytest.fixture
def when_taken(in_step):
    """Let something happen once, when the first step that writes such a change is on record."""

    def meet(settlement, is_it, what):
        ledger, told, now, submit = (
            host_of(settlement).ledger,
            [],
            host_of(settlement).ledger.now,
            host_of(settlement).ledger.submit,
        )

        def then():
            if told == ["written"]:
                told.append("over")
                what()

        def taken(step, **options):
            value = now(step, **options)
            then()
            return value

        in_step(settlement, is_it, lambda: told or told.append("written"))
        if ledger.immediate:
            ledger.now = taken
        else:
            ledger.submit = lambda step, **options: Taken(submit(step, **options), then)

    return meet


def rows(settlement, name):
    """The recorded attempts of a name: (state, [(tool, outcome, tag)])."""
    return [
        (recorded.state.value, [(e.row.tool, e.outcome.value, e.tag and e.tag.value) for e in recorded.effects])
        for recorded in settlement.transactions()
        if recorded.row.name == name
    ]


@pytest.fixture
def recorded():
    return rows


@pytest.fixture
def sqlite_rows():
    """Read a ledger's file from outside of settlemark."""

    def query(url, statement):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        try:
            return connection.execute(statement).fetchall()
        finally:
            connection.close()

    return query
