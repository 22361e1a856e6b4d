"""A page of the record costs what is on it, however long the record is: rows that are read, plans, statements.

Every combination of the options of `show`, `residue` and `export` is tried: an option that is new fails here first.
"""

from __future__ import annotations

import inspect
import itertools
import json
import re

import pytest
from tests.extent import ALL
from tests.rooms.cli import export, lines, residue, show
from tests.rooms.ledger import Page, Said
from tests.rooms.sql import PostgresWire, SqliteWire

from settlemark import EffectClass, Outcome, State, Tag
from settlemark.ledger import EffectRow, OutcomeChange, StateChange, TransactionRow, open_ledger

NO_PAGE = {"ledger", "as_json", "_as_json", "as_table", "namespace", "output"}
LAST, LATE = 5, 10
OPTIONS = {
    "run": ["--run", "mixed"],
    "last": ["--last", str(LAST)],
    "since": ["--since", "1970-01-02"],
    "state": ["--state", "aborted"],
    "everything": ["--all"],
}
COMMANDS = {"show": show, "residue": residue, "export": export}
SIZES = (200, 5_000 if ALL else 1_000)
CHEAP_WHEN_SMALL = ("enable_seqscan", "enable_bitmapscan", "enable_sort")
"""How PostgreSQL looks into what is small, or read from its beginning to its end, whatever indexes there are."""
DAY = 86_400.0
STEPS, FIXED = 600, 60_000
"""Instructions of SQLite's machine for each row that is told, and for what a command costs anyhow."""


def options_of(command):
    """The options of a command that say which page is meant."""
    return [name for name in inspect.signature(command).parameters if name not in NO_PAGE]


def combinations():
    for name, command in COMMANDS.items():
        options = options_of(command)
        for size in range(len(options) + 1):
            for chosen in itertools.combinations(options, size):
                yield pytest.param(name, chosen, id="-".join((name, *chosen)))


def fill(url, size):
    """Write a record of so many transactions, each with an effect, of which none is unfinished.

    Half are of one long run, in which the few that aborted are the oldest; elsewhere every second one did. What is left
    to mend, and dealt with, is as common, and as rare in that run. The last few began later than all others.
    """
    ledger = open_ledger(url)
    changes, said = [], []
    for number in range(size):
        mixed = number % 2 == 0
        odd = number < 2 * LAST if mixed else number % 4 == 1
        run, state = "mixed" if mixed else f"run-{number}", State.ABORTED if odd else State.COMMITTED
        name, at = f"{run}/{number * 7919 % size}", number / size + (DAY if number >= size - LATE else 0.0)
        key = f"{name}#1/0"
        changes += [
            TransactionRow(name, 1, run, State.OPEN, number + 1, "", "worker", at),
            EffectRow(
                key, name, 1, 0, "reserve", EffectClass.REVERSIBLE, '["room:/Ada"]', False, None, "{}", None, "{}", "1",
                Outcome.INTENDED, at,
            ),
            OutcomeChange(key, Outcome.CONFIRMED, None, None, Tag.UNRESOLVED if odd else None, None, at),
            StateChange(name, 1, state, number + 1, None, at),
        ]  # fmt: skip # a list of names and values
        if odd and number % 3 == 0:
            said.append(Said(key, "{}", "ada", at, dealt=True))
    ledger.now(lambda _protocol, book: (book.write(changes), book.write(said)))
    ledger.close()
    return url


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def records(request, tmp_path_factory, postgres):
    """The same record at two sizes."""
    if request.param == "sqlite":
        folder = tmp_path_factory.mktemp("records")
        return [fill(f"sqlite:///{folder / f'{size}.db'}", size) for size in SIZES]
    urls = [fill(postgres.create_database(), size) for size in SIZES]
    for url in urls:
        analyzed(url)
    return urls


def analyzed(url):
    import sqlalchemy as sa

    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sa.text("DELETE FROM settlemark_worker"))  # who filled it, where closing took too long
        connection.execute(sa.text("VACUUM ANALYZE"))
    engine.dispose()


class Work:
    """What was asked of a store: how many rows came, what SQLite's machine did for them, and by which plans."""

    def __init__(self):
        self.rows = self.steps = self.statements = 0
        self.plans = []

    def of_sqlite(self, plain):
        def query(wire, statement, values):
            text, names = statement.said(wire.dialect)
            if not text.lstrip().startswith("SELECT"):
                return plain(wire, statement, values)
            bound = tuple(values[name] for name in names)
            plan = wire._driver.execute(f"EXPLAIN QUERY PLAN {text}", bound).fetchall()
            self.plans.append((text, "\n".join(str(row[-1]) for row in plan)))
            wire._driver.set_progress_handler(self.step, 1)
            try:
                return self.count(plain(wire, statement, values))
            finally:
                wire._driver.set_progress_handler(None, 1)

        return query

    def of_postgres(self, plain):
        def query(wire, statement, values):
            found = plain(wire, statement, values)
            text, names = statement.said(wire.dialect)
            if "settlemark_" in text and text.lstrip().startswith("SELECT"):
                bound = {name: values[name] for name in names}
                for way in CHEAP_WHEN_SMALL:  # is there another?
                    wire._driver.execute(f"SET LOCAL {way} = off")
                plan = wire._driver.execute(f"EXPLAIN {text}", bound).fetchall()
                for way in CHEAP_WHEN_SMALL:
                    wire._driver.execute(f"SET LOCAL {way} = on")
                self.plans.append((text, "\n".join(row[0] for row in plan)))
            return self.count(found)

        return query

    def step(self):
        self.steps += 1

    def count(self, found):
        self.rows += len(found)
        self.statements += 1
        return found


@pytest.fixture
def working(monkeypatch):
    """Return what a command asks of a store, and what it prints."""

    def work(run, *arguments):
        done = Work()
        with monkeypatch.context() as patched:
            patched.setattr(SqliteWire, "query", done.of_sqlite(SqliteWire.query))
            patched.setattr(PostgresWire, "query", done.of_postgres(PostgresWire.query))
            said = run(*arguments)
        assert said.exit_code in (0, 1), said.output
        return done, said.stdout

    return work


def printed(name, out):
    """How many rows of the store what was printed is made of."""
    if name == "export":
        return len(out.splitlines())
    values = json.loads(out)
    return len(values) + sum(len(one.get("effects", "..")) for one in values)


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_every_option_that_says_which_page_is_tried(command):
    assert set(options_of(command)) <= OPTIONS.keys()


@pytest.mark.parametrize(("name", "chosen"), list(combinations()))
def test_a_page_costs_what_is_on_it_however_long_the_record_is(records, run, working, name, chosen):
    given = [word for option in chosen for word in OPTIONS[option]]
    costs = []
    for url in records:
        done, out = working(run, name, url, *given, "--json")
        told = printed(name, out)
        costs.append((told, done.rows))
        assert done.rows <= 2 * told + 20
        assert done.steps <= STEPS * told + FIXED
        for text, plan in done.plans:
            refuse_scan(text, plan)
    (told, rows), (told_of_more, rows_of_more) = costs
    if told == told_of_more:
        assert rows == rows_of_more
    if "last" in chosen and "since" not in chosen:
        assert told == told_of_more > 0


def refuse_scan(text, plan):
    """See that a statement is no scan of what grows, and is not sorted, but for one transaction's own effects."""
    grows = re.search(r"FROM settlemark_(transaction|effect)\b", text)
    if grows is None or "count(*)" in text:
        return
    assert "SCAN settlemark" not in plan, (text, plan)
    assert "Seq Scan" not in plan, (text, plan)
    if "position" not in text.partition("ORDER BY")[2] and not is_unfinished(text):
        assert "TEMP B-TREE" not in plan, (text, plan)
        assert "Sort" not in plan, (text, plan)


def is_unfinished(text):
    """Whether a statement is about what is unfinished, of which every process has all in memory."""
    return "settled_at_seconds IS NULL" in text


# ---- what is exported is never all in memory


@pytest.mark.parametrize("page", [Page(), Page(run="mixed"), Page(state=State.COMMITTED), Page(since=0.5)])
def test_an_export_has_no_more_than_two_batches_in_memory(tmp_path, page):
    ledger = open_ledger(fill(f"sqlite:///{tmp_path / 'many.db'}", SIZES[0]), readonly=True)
    try:
        told = lines(ledger, page, batch=10)
        first = [next(told) for _ in range(10)]
        asked = Work()
        plain = type(ledger).read

        def read(self, query):
            return asked.count([plain(self, query)])[0]

        type(ledger).read = read
        try:
            rest = sum(1 for _ in told)
        finally:
            type(ledger).read = plain
    finally:
        ledger.close()

    assert len(first) == 10
    assert asked.statements >= rest / 20  # it has asked again and again, for ten at most


def test_attempts_of_one_moment_are_each_told_once_whatever_the_batch(tmp_path):
    url = f"sqlite:///{tmp_path / 'moment.db'}"
    ledger = open_ledger(url)
    rows = [TransactionRow(f"trip-{n:02}", 1, "trip", State.COMMITTED, 7, f"{n:02}", "w", 1.0) for n in range(23)]
    ledger.now(lambda _protocol, book: book.write(rows))
    ledger.close()
    ledger = open_ledger(url, readonly=True)
    try:
        for batch in (1, 2, 7, 23, 100):
            told = [line["transaction"] for line in lines(ledger, Page(), batch=batch)]
            assert sorted(told) == [row.name for row in rows]
    finally:
        ledger.close()


def test_what_ends_while_it_is_exported_is_told_once(tmp_path):
    url = f"sqlite:///{tmp_path / 'ends.db'}"
    writer = open_ledger(url)
    rows = [TransactionRow(f"trip-{n}", 1, "trip", State.OPEN, n + 1, "", "w", float(n)) for n in range(6)]
    ended = [StateChange(f"trip-{n}", 1, State.COMMITTED, n + 1, None, 9.0) for n in range(6)]
    writer.now(lambda _protocol, book: book.write([*rows, *ended[:3]]))
    reader = open_ledger(url, readonly=True)
    try:
        told = lines(reader, Page(), batch=1)
        first = next(told)
        writer.now(lambda _protocol, book: book.write(ended[3:]))
        names = [first["transaction"], *(line["transaction"] for line in told)]
    finally:
        reader.close()
        writer.close()

    assert names == [f"trip-{n}" for n in range(6)]


# ---- what is left


def test_residue_of_a_page_is_what_is_on_it_and_no_more_of_its_transactions(shared_url, run_json):
    ledger = open_ledger(shared_url)
    name, changes = "trip/book", [TransactionRow("trip/book", 1, "trip", State.COMMITTED, 1, "", "w", 1.0)]
    for n in range(5):
        key = f"{name}#1/{n}"
        changes.append(
            EffectRow(
                key, name, 1, n, "reserve", EffectClass.REVERSIBLE, '["room:/Ada"]', False, None, "{}", None, "{}", "1",
                Outcome.INTENDED, float(n),
            )
        )  # fmt: skip # a table of values
        changes.append(OutcomeChange(key, Outcome.CONFIRMED, None, None, Tag.UNRESOLVED, None, 9.0))
    ledger.now(lambda _protocol, book: book.write(changes))
    ledger.close()

    def keys(*given):
        return [one["key"].rpartition("/")[2] for one in run_json("residue", shared_url, *given)]

    assert keys() == list("01234")
    assert keys("--last", "2") == ["3", "4"]
    assert keys("--last", "2", "--run", "trip") == ["3", "4"]
    assert keys("--run", "other") == []
