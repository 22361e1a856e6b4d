"""What every ledger promises, whatever stores it: steps that are taken together with their rows, in one order."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal

import pytest
from sqlalchemy import Engine, NullPool, create_engine, event, make_url, text
from tests.rooms.acts import Pending
from tests.rooms.ledger import SCHEMA_VERSION, Ask, Draft, LeaseRow, OwedPage, OwedRow, Page, charge
from tests.rooms.protocol import NOBODY, Mode
from tests.rooms.record import migrate
from tests.rooms.replica import SqlLedger, image, replica, store
from tests.rooms.sql import watchers

from settlemark import EffectClass, LedgerError, Outcome, Refused, Scope, State, Tag, effect
from settlemark.hosting import Reason, host_of, shown
from settlemark.ledger import EffectRow, Fence, OutcomeChange, StateChange, TransactionRow, open_ledger

PATIENCE, SHORT_PATIENCE = 60, 5
ROOM = Scope.parse("room:/a")


# ---- the stores


def url_of(store, request):
    if store == "memory":
        return "memory:"
    if store == "postgres":
        return request.getfixturevalue("postgres_url")
    return f"sqlite:///{request.getfixturevalue('tmp_path') / 'ledger.db'}"


@pytest.fixture
def opening():
    """Open ledgers, and close them at the end."""
    opened = []

    def open_(url, **options):
        opened.append(SqlLedger(url, **options) if "monotonic" in options else open_ledger(url, **options))
        return opened[-1]

    yield open_
    for ledger in opened:
        ledger.close()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def ledger(request, opening):
    return opening(url_of(request.param, request))


@pytest.fixture(params=["sqlite", "postgres"])
def url(request):
    """Where a ledger lives that outlives its process and may have several at once."""
    return url_of(request.param, request)


@pytest.fixture
def file_url(tmp_path):
    return f"sqlite:///{tmp_path / 'ledger.db'}"


def peek(url, statement):
    """Read a store from outside of settlemark."""
    engine = create_engine(url, poolclass=NullPool)
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(text(statement))]


# ---- rows and steps


def opened(name="trip", attempt=1, *, at=1.0, epoch=1):
    return TransactionRow(name, attempt, "run", State.OPEN, epoch, "", "worker", at)


def intent(name="trip", attempt=1, position=0, **parts):
    values = {
        "key": f"{name}#{attempt}/{position}", "name": name, "attempt": attempt, "position": position, "tool": "book",
        "kind": EffectClass.REVERSIBLE, "scopes": '["room:/a"]', "held": False, "call_id": None,
        "arguments": '{"room":"a"}', "rationale": None, "handlers": "{}", "version": "1", "outcome": Outcome.INTENDED,
        "at": 1.0, **parts,
    }  # fmt: skip # a table
    return EffectRow(**values)


def outcome(key="trip#1/0", what=Outcome.CONFIRMED, result='{"id":7}', error=None, tag=None, note=None, at=2.0):
    return OutcomeChange(key, what, result, error, tag, note, at)


def ended(name="trip", attempt=1, state=State.COMMITTED, *, epoch=1, reason=None, at=3.0):
    return StateChange(name, attempt, state, epoch, reason, at)


def writing(*changes):
    return lambda _protocol, book: book.write(list(changes))


def beginning(name, *scopes, then=(), mode=Mode.EAGER):
    """A step that begins a transaction, has it touch scopes, and writes rows."""

    def begin(protocol, book):
        txn = protocol.begin(name, owner="worker")
        for scope in scopes:
            call = protocol.request(txn, scope, mode)
            assert protocol.admit(call) is None
            protocol.acted(call, happened=True)
        book.write(list(then))
        return txn

    return begin


def nothing(_protocol, _book):
    return None


def write(ledger, *changes):
    ledger.now(writing(*changes))


def load(ledger, name="trip"):
    return ledger.read(lambda book: book.load(name))


def names(ledger):
    return [recorded.row.name for recorded in ledger.read(lambda book: book.transactions())]


def outcomes(ledger, name="trip"):
    return [(e.outcome, e.result, e.error, e.tag, e.note, e.settled_at) for e in load(ledger, name).effects]


def come(answer):
    """A submitted step's answer, or the error it was told."""
    if isinstance(answer, Pending):
        answer.lead()
    return answer.exception(PATIENCE) or answer.result(PATIENCE)


def plain(ledger):
    """The whole state of a replica, as it is now."""
    with ledger.lock:
        return json.loads(json.dumps(image(ledger.protocol)))


def settled(ledger):
    """The whole state of a replica that has taken all there is."""
    ledger.read(lambda book: book.unfinished())
    return plain(ledger)


NAMED = [
    (opened(), "name", "name"), (opened(), "run", "run"), (opened(), "ordinal", "ordinal"),
    (opened(), "owner", "owner"), (ended(), "name", "name"), (ended(), "link", "link"),
    (Fence("run", 1.0), "run", "run"),
    *((intent(), name, name) for name in ("key", "name", "tool", "version", "fingerprint", "arguments", "scopes",
                                          "handlers")),
    (intent(), "call_id", "call id"),
]  # fmt: skip # a list of names and values
"""What names something, or is what is asked for: by its row, its column, and what people call it."""


@pytest.mark.parametrize(
    ("row", "column", "word"), NAMED, ids=[f"{type(row).__name__}.{name}" for row, name, _ in NAMED]
)
@pytest.mark.parametrize("bad", ["no \0", "no \ud83d"], ids=["a NUL", "half a character"])
def test_what_no_store_can_hold_is_refused_by_the_field_it_stands_in_and_nothing_was_recorded(
    opening, row, column, word, bad
):
    ledger = opening("memory:")
    with pytest.raises(LedgerError, match=f"the {word} .*nothing was recorded") as refused:
        write(ledger, opened("other"), intent("other"), row._replace(**{column: bad}))
    assert refused.value.field == word
    assert ledger.read(lambda book: book.transactions()) == []


NUMBERS = [
    (opened(), "attempt"), (opened(), "epoch"), (ended(), "attempt"), (ended(), "epoch"), (intent(), "attempt"),
    (intent(), "position"), (opened(), "at"), (ended(), "at"), (ended(), "sealed_at"), (ended(), "decided_at"),
    (Fence("run", 1.0), "at"), (intent(), "at"), (intent(), "window"),
]  # fmt: skip # a list of names and values


@pytest.mark.parametrize(("row", "column"), NUMBERS, ids=[f"{type(row).__name__}.{name}" for row, name in NUMBERS])
@pytest.mark.parametrize("bad", [1 << 63, -(1 << 63) - 1])
def test_a_number_that_no_column_can_hold_is_refused_and_nothing_was_recorded(opening, row, column, bad):
    ledger = opening("memory:")
    with pytest.raises(LedgerError, match="nothing was recorded"):
        write(ledger, opened("other"), intent("other"), row._replace(**{column: bad}))
    assert ledger.read(lambda book: book.transactions()) == []


# ---- the record


def test_a_name_never_recorded_is_not_known(ledger):
    assert load(ledger) is None
    for query in ("transactions", "unfinished", "gone"):
        assert ledger.read(lambda book, query=query: getattr(book, query)()) == []


def test_rows_come_back_as_they_were_written(ledger):
    rows = [
        intent(),
        intent(position=1, kind=EffectClass.IRREVERSIBLE, held=True, call_id="c7", rationale="né ☃ 'quoted' 100% :x",
               arguments='{"to":"ünï","n":[1,null]}', outcome=Outcome.QUEUED, version="2", at=1.25,
               scopes='["mail:/x","room:/b"]', leaves=3),
    ]  # fmt: skip # a list of names and values
    write(ledger, opened(epoch=2**40), *rows)
    recorded = load(ledger)
    assert (recorded.row, recorded.state, recorded.epoch) == (opened(epoch=2**40), State.OPEN, 2**40)
    assert (recorded.reason, recorded.settled_at) == (None, None)
    assert [effect.row for effect in recorded.effects] == rows
    assert outcomes(ledger) == [
        (Outcome.INTENDED, None, None, None, None, None),
        (Outcome.QUEUED, None, None, None, None, None),
    ]
    assert recorded.effects[0].row.fingerprint == intent().fingerprint
    assert recorded.effects[1].row.scope == "mail:/x room:/b"


def test_outcomes_and_states_are_the_latest(ledger):
    write(ledger, opened(), intent(), intent(position=1))
    write(ledger, outcome(), outcome("trip#1/1", Outcome.FAILED, None, "Boom: no"))
    write(ledger, outcome("trip#1/1", Outcome.UNKNOWN, None, "lost", Tag.UNRESOLVED, "ask", 4.0))
    told = {"cause": "no", "waits_for": "tour", "waits_on": "room:/a", "link": "trip/2"}
    write(ledger, ended(state=State.ABORTED, epoch=9, reason=Reason.FAILED, at=5.0)._replace(**told))
    recorded = load(ledger)
    assert (recorded.state, recorded.epoch, recorded.reason, recorded.settled_at) == (
        State.ABORTED,
        9,
        Reason.FAILED,
        5.0,
    )
    assert {name: getattr(recorded, name) for name in told} == told
    assert recorded.because == "failed: no"
    assert outcomes(ledger) == [
        (Outcome.CONFIRMED, '{"id":7}', None, None, None, 2.0),
        (Outcome.UNKNOWN, None, "lost", Tag.UNRESOLVED, "ask", 4.0),
    ]


def test_effects_come_in_issuance_order_whatever_order_they_were_written_in(ledger):
    write(ledger, opened(), *(intent(position=n) for n in (11, 2, 0, 10, 1)))
    assert [e.row.position for e in load(ledger).effects] == [0, 1, 2, 10, 11]
    (listed,) = ledger.read(lambda book: book.transactions())
    assert [e.row.position for e in listed.effects] == [0, 1, 2, 10, 11]


def test_the_last_attempt_is_loaded_and_every_one_is_listed_oldest_first(ledger):
    for attempt in (1, 2, 3):
        state = State.ABORTED if attempt < 3 else State.SEALED
        write(ledger, opened(attempt=attempt), intent(attempt=attempt), ended(attempt=attempt, state=state))
    write(ledger, opened("other", at=2.0))
    assert load(ledger).row.attempt == 3
    listed = [(r.row.name, r.row.attempt) for r in ledger.read(lambda book: book.transactions())]
    assert listed == [("trip", 1), ("trip", 2), ("trip", 3), ("other", 1)]
    unfinished = [(r.row.name, r.row.attempt) for r in ledger.read(lambda book: book.unfinished())]
    assert sorted(unfinished) == [("other", 1), ("trip", 3)]


def test_an_attempt_that_is_opened_again_stays_as_it_is(ledger):
    write(ledger, opened(epoch=1, at=1.0), intent())
    write(ledger, opened(epoch=9, at=9.0), intent(position=1))
    assert (load(ledger).row, len(load(ledger).effects)) == (opened(epoch=1, at=1.0), 2)


def test_a_fence_on_record_twice_is_the_same_fence(ledger):
    for run in ("one", "two", "one"):
        write(ledger, Fence(run, 1.0))
    assert names(ledger) == []


def test_a_change_to_what_was_never_recorded_changes_nothing(ledger):
    write(ledger, opened(), intent())
    write(ledger, outcome("ghost#1/0"), ended("ghost"))
    assert (load(ledger, "ghost"), names(ledger)) == (None, ["trip"])
    assert (load(ledger).state, outcomes(ledger)[0][0]) == (State.OPEN, Outcome.INTENDED)


# ---- steps


def test_a_step_answers_with_what_it_returns(ledger):
    assert ledger.now(lambda protocol, _book: protocol is ledger.protocol) is True
    assert come(ledger.submit(lambda _protocol, _book: 7, durable=False)) == 7
    assert come(ledger.submit(lambda _protocol, _book: 8, durable=True)) == 8
    assert ledger.read(lambda book: book.load("trip")) is None


def test_steps_are_taken_in_the_order_given_however_they_are_given(ledger):
    ledger.now(writing(opened(), intent()))
    taken, answers = [], []
    for number in range(300):

        def step(_protocol, book, number=number):
            taken.append(number)
            book.write([outcome(result=str(number))])
            return number

        if number % 3 == 0:
            ledger.later(step)
        elif number % 3 == 1:
            answers.append(ledger.submit(step, durable=number % 2 == 0))
        else:
            assert ledger.now(step) == number
    assert [come(answer) for answer in answers] == list(range(1, 300, 3))
    assert taken == list(range(300))
    assert outcomes(ledger)[0][1] == "299"


@pytest.mark.parametrize("after", ["now", "submit", "read", "durable"])
def test_what_is_to_be_done_later_is_done_before_anything_after_it(ledger, after):
    write(ledger, opened(), intent())
    epoch = ledger.protocol.next_epoch

    def bump(protocol, book):
        book.write([outcome(result=str(protocol.skip_epochs(1)))])

    for _ in range(5):
        ledger.later(bump)

    def seen(protocol, book):
        return protocol.next_epoch - epoch, book.load("trip").effects[0].result

    if after == "now":
        found = ledger.now(seen)
    elif after == "read":
        found = ledger.read(lambda book: seen(ledger.protocol, book))
    else:
        found = come(ledger.submit(seen, durable=after == "durable"))
    assert found == (5, str(epoch + 4))


def test_of_what_is_unfinished_or_left_as_much_is_listed_as_is_asked_for(ledger):
    doubts = [f"trip#1/{position}" for position in (1, 2, 3)]
    write(ledger, opened(), *(intent(position=position, at=float(position)) for position in range(4)))
    write(ledger, outcome("trip#1/0"))
    write(ledger, *(outcome(key, Outcome.UNKNOWN, None, tag=Tag.UNRESOLVED) for key in doubts))
    (found,) = ledger.read(lambda book: book.unfinished(Outcome.CONFIRMED))
    assert [effect.row.key for effect in found.effects] == ["trip#1/0"]
    for last, listed in ((None, doubts), (1, doubts[-1:]), (2, doubts[-2:])):
        (left,) = ledger.read(lambda book, last=last: book.left(Page(last=last)))
        assert left.listed == set(listed)


def test_what_is_to_be_done_later_is_done_though_nothing_comes_after_it(ledger):
    done = threading.Event()
    ledger.later(lambda _protocol, _book: done.set())
    assert done.wait(PATIENCE)


def test_what_is_submitted_is_done_by_another_thread_when_asked_to_hurry(url, opening):
    answer = opening(url).submit(lambda _protocol, _book: threading.current_thread().name, durable=True)
    answer.wake_thread()
    assert answer.result(PATIENCE) == "settlemark-ledger"


def test_steps_of_many_threads_are_each_taken_once(ledger):
    firsts, first = [], ledger.protocol.next_epoch

    def work():
        for number in range(25):
            step = lambda protocol, _book: firsts.append(protocol.skip_epochs(1))  # noqa: E731 - the same step three ways
            if number % 3 == 0:
                ledger.later(step)
            elif number % 3 == 1:
                ledger.now(step)
            else:
                come(ledger.submit(step, durable=False))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    ledger.read(lambda _book: None)
    assert firsts == list(range(first, first + 200))
    assert ledger.protocol.next_epoch == first + 200


def test_a_read_sees_all_that_was_given_before(ledger):
    ledger.submit(writing(opened()), durable=False)
    ledger.later(writing(intent()))
    ledger.submit(writing(outcome()), durable=True)
    assert outcomes(ledger) == [(Outcome.CONFIRMED, '{"id":7}', None, None, None, 2.0)]


# ---- what a step refuses


@pytest.mark.parametrize("error", [Refused("no"), ValueError("a fault of our own")], ids=["a refusal", "a bug"])
def test_a_step_that_refuses_is_told_alone_and_what_it_moved_stays(ledger, error):
    txn = ledger.now(beginning("trip", then=[opened(), intent()]))

    def refuse(protocol, book):
        protocol.abort(txn, Reason.STALE, scope=ROOM)
        book.write([ended(state=State.ABORTED, reason=Reason.STALE)])
        raise error

    answers = [
        ledger.submit(beginning("before", then=[opened("before")]), durable=False),
        ledger.submit(refuse, durable=True),
        ledger.submit(beginning("after", then=[opened("after")]), durable=False),
    ]
    before, told, after = [come(answer) for answer in answers]
    assert told is error
    assert [before.state, after.state, txn.state, txn.reason] == [State.OPEN, State.OPEN, State.ABORTED, Reason.STALE]
    assert (sorted(names(ledger)), load(ledger).state) == (["after", "before", "trip"], State.ABORTED)
    assert [t.name for t in ledger.protocol.live.values()] == ["before", "after"]


def test_what_a_step_refused_is_the_same_in_every_process(url, opening):
    one, two = opening(url), opening(url)
    txn = one.now(beginning("trip", ROOM))

    def refuse(protocol, _book):
        protocol.abort(txn, Reason.STALE, scope=ROOM)
        raise protocol.refusal(txn)

    with pytest.raises(Refused):
        one.now(refuse)
    assert settled(two) == settled(one)
    assert next(iter(two.protocol.live.values())).state is State.ABORTING


# ---- what the store refuses


BAD = {
    "an effect of no transaction": [intent("ghost")],
    "a key twice in one step": [opened("x"), intent("x"), intent("x")],
    "a key that is taken": [opened("x"), intent("x", key="before#1/0")],
    "a key that is taken, behind changes": [ended("before"), outcome("before#1/0"), intent("before")],
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_a_write_that_fails_takes_everything_of_its_step_back_and_is_told_alone(ledger, bad):
    known = ledger.now(beginning("before", ROOM, then=[opened("before"), intent("before")]))

    def step(protocol, book):
        protocol.abort(known, Reason.FAILED)
        protocol.cancel("gone")
        protocol.begin("x", owner="worker")
        book.write(bad[:1])
        book.write(bad[1:])

    epoch = ledger.protocol.next_epoch
    answers = [
        ledger.submit(beginning("one", then=[opened("one"), intent("one")]), durable=False),
        ledger.submit(step, durable=True),
        ledger.submit(beginning("two", then=[opened("two"), intent("two")]), durable=False),
    ]
    one, told, two = [come(answer) for answer in answers]
    assert isinstance(told, LedgerError)
    assert told.url == shown(ledger.url)
    assert [txn.name for txn in ledger.protocol.live.values()] == ["before", "one", "two"]
    assert [txn.state for txn in (known, one, two)] == [State.OPEN] * 3
    assert (ledger.protocol.fenced, ledger.protocol.next_epoch) == (set(), epoch + 2)
    assert sorted(names(ledger)) == ["before", "one", "two"]
    for name in ("before", "one", "two"):
        assert outcomes(ledger, name) == [(Outcome.INTENDED, None, None, None, None, None)]


BESIDE = {
    "a lease": lambda book: book.leases.put(LeaseRow("checkout:/docs", 9, "ada", 1.0, 61.0, 60.0, 10.0)),
    "a lease given back": lambda book: book.leases.drop(LEASE),
    "leases forgotten": lambda book: book.leases.forget(99.0),
    "money": lambda book: charge(book.purse, [DOLLAR], key="c2", transaction="trip"),
    "money of no key": lambda book: charge(book.purse, [DOLLAR], transaction="trip"),
    "money handed over": lambda book: book.purse.move("c1", "c2"),
    "an entry": lambda book: book.entries.add(DRAFT._replace(id="d2")),
    "an entry's change": lambda book: book.entries.change("decision", "d1", state="over", at=2.0, from_version=1),
    "an obligation": lambda book: book.write([OWED]),
    "fences removed": lambda book: book.remove_fences(["gone"]),
}
DOLLAR = Ask("usd", "namespace", Decimal(9), Decimal(1))
DRAFT = Draft("decision", "d1", "run", "made", 1.0, '{"why":"cheap"}')
LEASE = LeaseRow("checkout:/repo", 7, "ada", 1.0, 61.0, 60.0, 10.0)
OWING = OwedPage()
OWED = OwedRow("o1", "before", 1, "run", 1, "customer:/7", "refund", "customer:/7", "{}", 1.0, 9.0)


def beside(book):
    """Return what the record has beside transactions and effects."""
    spent = [book.purse.spends(key) for key in ("c1", "c2")]
    fences = book.old_fences(9.0, limit=9)
    return book.leases.every(), book.purse.buckets(), spent, book.entries.chain("run"), book.debts.find(OWING), fences


@pytest.mark.parametrize("act", BESIDE.values(), ids=BESIDE.keys())
def test_a_step_that_fails_behind_what_it_wrote_beside_its_effects_leaves_nothing_of_that(ledger, act):
    def prepared(_protocol, book):
        book.write([opened("before"), Fence("gone", 1.0)])
        book.leases.put(LEASE)
        charge(book.purse, [DOLLAR], key="c1", transaction="trip")
        book.entries.add(DRAFT)

    def step(_protocol, book):
        act(book)
        raise LedgerError("behind it")

    ledger.now(prepared)
    before = ledger.read(beside)
    with pytest.raises(LedgerError, match="behind it"):
        ledger.now(step)
    assert ledger.read(beside) == before
    ledger.now(lambda _protocol, book: act(book))
    assert ledger.read(beside) != before


@pytest.mark.parametrize("token", [object(), {1, 2}, 1 << 80], ids=["no value", "a set", "too great"])
def test_a_value_that_the_stores_driver_cannot_write_fails_its_own_step_alone(url, opening, token):
    ledger = opening(url)
    answers = [
        ledger.submit(lambda _protocol, book, row=row: book.leases.put(row), durable=False)
        for row in (LEASE, LEASE._replace(scope="checkout:/bad", token=token), LEASE._replace(scope="mail:/in"))
    ]
    one, told, two = [come(answer) for answer in answers]
    assert (one, type(told), two) == (None, LedgerError, None)
    assert [row.scope for row in ledger.read(lambda book: book.leases.every())] == [LEASE.scope, "mail:/in"]


def test_whoever_holds_a_transaction_goes_on_with_it_after_the_store_has_failed(ledger):
    txn = ledger.now(beginning("trip", ROOM, then=[opened(), intent()]))
    claims = list(txn.calls.values())
    before = plain(ledger)
    with pytest.raises(LedgerError):
        write(ledger, intent("ghost"))
    assert plain(ledger) == before
    assert (ledger.protocol.by_id[txn.id], list(txn.calls.values())) == (txn, claims)

    def commit(protocol, book):
        protocol.seal(txn)
        assert protocol.decide(txn) is None
        book.write([ended()])

    ledger.now(commit)
    assert (txn.state, ledger.protocol.live, load(ledger).state) == (State.COMMITTED, {}, State.COMMITTED)


# ---- a store that fails for a while, and one that is interrupted


@pytest.fixture
def meddle():
    """Let something happen before or after every statement that begins like this."""
    added = []

    def add(moment, beginning, what):
        def told(when, statement):
            if when == moment and statement.startswith(beginning):
                what()

        added.append(told)
        watchers.append(told)

    yield add
    for told in added:
        watchers.remove(told)


def failing(times, error):
    """Something that raises an error this often, and counts down in the list that comes with it."""
    left = [error] * times

    def fail():
        if left:
            raise left.pop()

    return fail, left


STATEMENTS = ["BEGIN", "UPDATE settlemark_head", "INSERT INTO settlemark_log", "COMMIT"]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_step_that_the_store_fails_is_told_and_was_not_taken_and_the_next_one_is(
    url, opening, meddle, disk_full, statement
):
    ledger = opening(url)
    txn = ledger.now(beginning("before", ROOM, then=[opened("before")]))
    before = plain(ledger)
    fail, left = failing(1, disk_full(ledger))
    meddle("before", statement, fail)
    with pytest.raises(LedgerError, match="free some space"):
        ledger.now(beginning("trip", then=[opened()]))
    assert (left, plain(ledger), names(ledger)) == ([], before, ["before"])
    assert ledger.protocol.by_id[txn.id] is txn
    ledger.now(beginning("trip", then=[opened()]))
    assert names(ledger) == ["before", "trip"]
    assert settled(opening(url))["live"] == settled(ledger)["live"]


def test_what_is_to_be_done_later_waits_until_the_store_works_again_and_keeps_its_order(
    url, opening, meddle, disk_full, monkeypatch
):
    monkeypatch.setattr(store, "RETRY_SECONDS", 0.01)
    ledger = opening(url)
    write(ledger, opened(), intent())
    fail, left = failing(3, disk_full(ledger))
    meddle("before", "UPDATE settlemark_head", fail)
    firsts, done, first = [], threading.Event(), ledger.protocol.next_epoch

    def bump(protocol, book):
        epoch = protocol.skip_epochs(1)
        book.write([outcome(result=str(epoch))])
        return lambda: firsts.append(epoch)

    for _ in range(4):
        ledger.later(bump)
    ledger.later(lambda _protocol, _book: done.set())
    assert done.wait(PATIENCE)
    assert (left, outcomes(ledger)[0][1]) == ([], str(first + 3))
    assert ledger.protocol.next_epoch == first + 4


@pytest.mark.parametrize("how", ["now", "later"])
def test_a_step_whose_commit_was_made_and_not_acknowledged_is_taken_once(url, opening, meddle, disk_full, how):
    ledger = opening(url)
    first = ledger.protocol.next_epoch
    fail, left = failing(1, disk_full(ledger))
    meddle("after", "COMMIT", fail)
    told = []
    if how == "later":
        ledger.later(lambda protocol, _book: protocol.skip_epochs(1))
    else:
        try:
            ledger.now(lambda protocol, _book: protocol.skip_epochs(1))
        except LedgerError as error:
            told.append(error)
    while left:
        with suppress(LedgerError):
            ledger.now(nothing)
    ledger.now(nothing)
    assert ledger.protocol.next_epoch == first + (0 if told else 1)


@pytest.mark.parametrize("where", ["in the step", *STATEMENTS])
def test_ctrl_c_in_the_middle_of_a_step_takes_it_back_and_nothing_else(url, opening, meddle, where):
    ledger = opening(url)
    txn = ledger.now(beginning("before", ROOM, then=[opened("before")]))
    ctrl_c, left = failing(1, KeyboardInterrupt())

    def step(protocol, book):
        protocol.abort(txn, Reason.FAILED)
        book.write([opened()])
        if where == "in the step":
            ctrl_c()

    if where != "in the step":
        meddle("before", where, lambda: threading.current_thread() is threading.main_thread() and ctrl_c())
    answer = ledger.submit(writing(opened("neighbour")), durable=False)
    with pytest.raises(KeyboardInterrupt):
        ledger.now(step)
    assert left == []
    answer.wake_thread()
    assert answer.result(SHORT_PATIENCE) is None
    assert (txn.state, sorted(names(ledger))) == (State.OPEN, ["before", "neighbour"])
    assert settled(opening(url))["live"] == settled(ledger)["live"]


# ---- the end, and what comes after it


def test_what_was_acknowledged_is_there_when_the_store_is_opened_again(url, opening):
    first = opening(url)

    def step(protocol, book):
        protocol.cancel("gone")
        book.write([opened(), intent(), outcome(), ended(), Fence("gone", 1.0)])

    first.now(step)
    before = first.read(lambda book: book.transactions())
    first.close()
    second = opening(url)
    assert (second.read(lambda book: book.transactions()), second.protocol.fenced) == (before, {"gone"})


@pytest.mark.parametrize("how", ["submit", "later"])
def test_a_close_takes_what_is_queued(url, opening, how):
    first = opening(url)
    if how == "submit":
        answer = first.submit(writing(opened()), durable=False)
    else:
        first.later(writing(opened()))
    first.close()
    assert how == "later" or answer.result(PATIENCE) is None
    assert load(opening(url)).row == opened()


def test_a_ledger_that_is_closed_says_so_and_takes_nothing_more(url, opening):
    ledger = opening(url)
    write(ledger, opened())
    ledger.close()
    ledger.close()
    acts: list[Callable[[], object]] = [
        lambda: ledger.now(writing(opened("late"))),
        lambda: ledger.submit(writing(opened("late")), durable=True),
        lambda: ledger.read(lambda book: book.transactions()),
    ]
    for act in acts:
        with pytest.raises(LedgerError, match="is closed: make a new Settlement"):
            act()
    assert names(opening(url)) == ["trip"]


def test_what_a_closed_ledger_left_unfinished_is_nobodys_and_its_claims_stand(url, opening):
    first = opening(url)

    def begin(protocol, _book):
        txn = protocol.begin("trip", owner=first.worker)
        call = protocol.request(txn, ROOM, Mode.EAGER)
        protocol.admit(call)

    first.now(begin)
    first.close()
    second = opening(url)
    (left,) = second.protocol.live.values()
    assert (left.name, left.owner, left.state, left.claims, left.running) == ("trip", NOBODY, State.OPEN, 1, 0)


# ---- several processes on one store


def test_two_ledgers_on_one_store_see_each_others_steps(url, opening):
    one, two = opening(url), opening(url)
    assert one.worker != two.worker
    mine = one.now(beginning("one", ROOM, then=[opened("one"), intent("one")]))
    assert settled(two) == settled(one)
    assert names(two) == ["one"]

    def meet(protocol, book):
        txn = protocol.begin("two", owner="two")
        blocked = protocol.admit(protocol.request(txn, ROOM, Mode.EAGER))
        book.write([opened("two", at=2.0)])
        return blocked.holder.name, blocked.scope

    assert two.now(meet) == ("one", ROOM)

    def commit(protocol, book):
        protocol.seal(mine)
        assert protocol.decide(mine) is None
        book.write([ended("one")])

    one.now(commit)
    assert settled(two) == settled(one)
    assert (names(two), [txn.name for txn in two.protocol.live.values()]) == (["one", "two"], ["two"])


def test_whoever_waits_for_another_process_is_woken(url, opening):
    one, two = opening(url), opening(url)
    txn = one.now(beginning("one", ROOM))
    theirs = two.now(lambda protocol, _book: protocol.named["one"])
    woken = threading.Event()
    two.listen(1)
    with two.lock:
        ticket = two.protocol.watch(theirs)
        ticket.wake = woken.set

    def commit(protocol, _book):
        protocol.seal(txn)
        protocol.decide(txn)

    one.now(commit)
    assert woken.wait(PATIENCE)
    assert (theirs.state, ticket.fired) == (State.COMMITTED, True)
    two.listen(-1)


def test_steps_of_two_ledgers_at_once_are_taken_in_one_order(url, opening):
    ledgers = [opening(url), opening(url)]
    firsts = [[], []]

    def work(ledger, given):
        for _ in range(40):
            given.append(ledger.now(lambda protocol, _book: protocol.skip_epochs(1)))

    first = ledgers[1].protocol.next_epoch
    threads = [threading.Thread(target=work, args=pair) for pair in zip(ledgers, firsts, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert [sorted(given) for given in firsts] == firsts
    assert sorted(firsts[0] + firsts[1]) == list(range(first, first + 80))
    assert settled(ledgers[0]) == settled(ledgers[1])


def test_namespaces_of_one_store_are_separate(url, opening):
    one, two = opening(url, namespace="one"), opening(url, namespace="two")
    for ledger, at in ((one, 1.0), (two, 2.0)):
        assert ledger.now(lambda protocol, _book: protocol.next_epoch) == 1
        ledger.now(beginning("trip", ROOM, then=[opened(at=at), intent(at=at)]))
    write(two, outcome(), ended())
    one.now(lambda protocol, _book: protocol.cancel("gone"))
    assert (load(one).row.at, load(one).state, load(one).effects[0].outcome) == (1.0, State.OPEN, Outcome.INTENDED)
    assert (load(two).row.at, load(two).state, load(two).effects[0].outcome) == (
        2.0,
        State.COMMITTED,
        Outcome.CONFIRMED,
    )
    assert (one.protocol.fenced, two.protocol.fenced) == ({"gone"}, set())
    assert one.read(lambda book: book.gone()) == []


def test_epochs_are_given_once_whoever_opens_the_store_and_how_often(url, opening):
    given = []
    for _ in range(3):
        ledgers = [opening(url), opening(url)]
        for count, ledger in ((10, ledgers[0]), (1, ledgers[1]), (5, ledgers[0])):
            first = ledger.now(lambda protocol, _book, count=count: protocol.skip_epochs(count))
            given += range(first, first + count)
            given.append(ledger.now(beginning(f"t{len(given)}")).epoch)
        for ledger in ledgers:
            ledger.close()
    assert len(given) == 57
    assert given == sorted(set(given))


# ---- images


@pytest.fixture
def few_entries(monkeypatch):
    monkeypatch.setattr(replica, "IMAGE_EVERY", 5)


def entries(url):
    return peek(url, "SELECT count(*) FROM settlemark_log")[0][0]


def live_and_let_live(ledger, number):
    """Begin a transaction that stays, and one that commits."""
    ledger.now(beginning(f"stays-{number}", Scope.parse(f"lamp:/{number}")))

    def commit(protocol, _book):
        txn = protocol.begin(f"goes-{number}")
        call = protocol.request(txn, Scope.parse(f"bulb:/{number}"), Mode.EAGER)
        assert protocol.admit(call) is None
        protocol.acted(call, happened=True)
        protocol.seal(txn)
        assert protocol.decide(txn) is None

    ledger.now(commit)


@pytest.mark.usefixtures("few_entries")
def test_a_newcomer_begins_from_an_image_and_the_log_behind_it_and_the_log_stays_short(url, opening):
    first = opening(url)
    for number in range(6):
        live_and_let_live(first, number)
        newcomer = opening(url)
        assert settled(newcomer) == settled(first)
        newcomer.close()
    assert len(first.protocol.live) == 6
    for _ in range(60):
        first.now(nothing)
    assert entries(url) <= 5 + 2 * len(first.protocol.live) + 1


@pytest.mark.usefixtures("few_entries")
def test_one_who_lags_behind_an_image_comes_to_the_same_state(url, opening):
    first, laggard = opening(url), opening(url)
    txn = laggard.now(beginning("laggards"))
    for number in range(20):
        live_and_let_live(first, number)
    assert settled(laggard) == settled(first)
    assert laggard.protocol.by_id[txn.id] is txn


@pytest.mark.usefixtures("few_entries")
def test_the_objects_of_a_replica_outlive_a_failure_before_and_behind_an_image(url, opening):
    ledger = opening(url)
    for number in range(12):
        txn = ledger.now(beginning(f"t{number}", Scope.parse(f"lamp:/{number}")))
        with pytest.raises(LedgerError):
            write(ledger, intent("ghost"))
        assert (ledger.protocol.by_id[txn.id], txn.state, txn.claims) == (txn, State.OPEN, 1)
    assert len(ledger.protocol.live) == 12


# ---- leases


@pytest.fixture(params=[False, True], ids=["the log tells", "an image tells"])
def buried(request, url, opening, monkeypatch):
    """A ledger that did not move for longer than its lease, its open transaction, and the one who buried it."""
    monkeypatch.setattr(replica, "IMAGE_EVERY", 5 if request.param else 1_000)
    hung = opening(url, lease=0.05, monotonic=lambda: 1.0)
    other = opening(url)
    worker = hung.worker
    txn = hung.now(lambda protocol, _book: protocol.begin("trip", owner=worker))
    call = hung.now(lambda protocol, _book: protocol.request(txn, ROOM, Mode.EAGER))
    hung.now(lambda protocol, _book: protocol.admit(call))

    def bury(protocol, book):
        gone = book.gone()
        for each in gone:
            protocol.bury(each)
        return gone

    found = []
    while not found:
        found = other.now(bury)
    assert found == [worker]
    for _ in range(30):
        other.now(nothing)
    return hung, txn, call, worker, other


def test_who_was_thought_dead_can_move_nothing_of_what_it_had(buried):
    hung, txn, call, worker, other = buried
    before = settled(other)
    with pytest.raises(Refused, match="lease"):
        hung.now(lambda protocol, _book: protocol.admit(protocol.request(txn, Scope.parse("room:/b"), Mode.EAGER)))
    assert (txn.state, txn.reason, call.hold) == (State.ABORTED, Reason.LEASE, None)
    assert hung.worker != worker
    (left,) = settled(other)["live"]
    assert (left["name"], left["owner"], left["state"]) == ("trip", NOBODY, "open")
    assert left == before["live"][0]
    assert settled(hung)["live"] == [left]


# ---- a settlement on a store


def test_an_effects_intent_is_on_disk_before_it_acts_and_its_outcome_after(url, open_settlement):
    seen = []

    @effect("reversible", scope="room:/{room}", undo=lambda room: None)
    def book(room):
        seen.extend(peek(url, "SELECT key, outcome, arguments FROM settlemark_effect"))

    @effect("irreversible", scope="mail:/{to}")
    def send(to):
        seen.extend(peek(url, "SELECT state FROM settlemark_transaction"))
        seen.extend(peek(url, "SELECT key, outcome FROM settlemark_effect WHERE held"))

    settlement = open_settlement(url)
    with settlement.transaction("trip") as tx:
        tx.call(book, room="a")
        tx.call(send, to="ada")
    assert seen == [("trip#1/0", "intended", '{"room":"a"}'), ("releasing",), ("trip#1/1", "queued")]
    settlement.close()
    assert peek(url, "SELECT key, outcome FROM settlemark_effect ORDER BY key") == [
        ("trip#1/0", "confirmed"),
        ("trip#1/1", "confirmed"),
    ]


def test_what_cannot_be_recorded_does_not_act(url, open_settlement, world, tools, meddle, disk_full):
    settlement = open_settlement(url)
    fail, left = failing(2, disk_full(host_of(settlement).ledger))
    meddle("before", "INSERT INTO settlemark_effect", fail)
    for name in ("trip", "tour"):
        with pytest.raises(LedgerError, match="free some space: nothing was run that could not be recorded"):
            with settlement.transaction(name) as tx:
                tx.call(tools.book, room="a")
        assert (tx.state, world.log, settlement.transactions()) == (State.ABORTED, [], [])
    assert (left, host_of(settlement).protocol.live, host_of(settlement).driver.kernel.attempts) == ([], {}, {})


@pytest.mark.parametrize("times", [1, 2, 4])
def test_a_commit_that_a_failing_store_cannot_record_is_undone_when_it_works_again(
    url, open_settlement, world, tools, meddle, disk_full, monkeypatch, times
):
    monkeypatch.setattr(store, "RETRY_SECONDS", 0.01)
    settlement = open_settlement(url, keep_open=0)
    fail, left = failing(times, disk_full(host_of(settlement).ledger))
    with pytest.raises(LedgerError), settlement.transaction("trip") as tx:
        tx.call(tools.book, room="a")
        tx.call(tools.send, to="ada")
        settlement.transactions()
        meddle("before", "UPDATE settlemark_head", fail)
    while left:
        with suppress(LedgerError):
            settlement.transactions()
    settlement.recover()
    assert (world.log, tx.state) == ([("book", "a"), ("cancel", "a")], State.ABORTED)
    assert [(e.outcome, e.tag) for r in settlement.transactions() for e in r.effects] == [
        (Outcome.UNDONE, Tag.CLEAN),
        (Outcome.DROPPED, Tag.CLEAN),
    ]
    assert (host_of(settlement).protocol.live, host_of(settlement).driver.kernel.attempts) == ({}, {})


# ---- stores that cannot be opened


def test_a_ledger_of_another_schema_version_is_refused_and_stays_as_it_is(url, opening):
    opening(url).close()
    engine = create_engine(url, poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(text("UPDATE settlemark_meta SET value = '99' WHERE key = 'schema'"))
    before = peek(url, "SELECT namespace, n FROM settlemark_head")
    with pytest.raises(
        LedgerError, match=f"version 99, this settlemark knows {SCHEMA_VERSION}: install a newer settlemark"
    ):
        opening(url)
    assert peek(url, "SELECT value FROM settlemark_meta WHERE key = 'schema'") == [("99",)]
    assert peek(url, "SELECT namespace, n FROM settlemark_head") == before


@pytest.mark.parametrize("act", ["a step", "a query that writes"])
def test_a_ledger_that_was_opened_to_be_read_changes_nothing(url, opening, act):
    write(opening(url), opened())
    reading = opening(url, readonly=True)
    with pytest.raises(LedgerError):
        if act == "a step":
            reading.now(writing(opened("other")))
        else:
            reading.read(lambda book: book.write([opened("other")]))
    assert names(reading) == ["trip"]
    assert peek(url, "SELECT count(*) FROM settlemark_worker") == [(1,)]


def test_a_file_that_is_no_database_is_refused_and_stays_as_it_is(tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("not a database at all, but long enough to look like one" * 50)
    before = file.read_bytes()
    with pytest.raises(LedgerError, match="this file is something else, or damaged: name another one"):
        open_ledger(f"sqlite:///{file}")
    assert file.read_bytes() == before


def test_a_folder_that_is_not_there_is_told(tmp_path):
    with pytest.raises(LedgerError, match="there is no folder .*: create it, or name another file") as refused:
        open_ledger(f"sqlite:///{tmp_path}/missing/ledger.db")
    assert refused.value.url == f"sqlite:///{tmp_path}/missing/ledger.db"


def test_a_database_that_is_not_there_is_told_without_the_password(postgres_url):
    url = postgres_url.replace("postgres@", "postgres:secret@", 1).replace("/settlemark_", "/nosuch_", 1)
    assert url.count("secret") == 1
    with pytest.raises(LedgerError, match="create it, or name another one") as refused:
        open_ledger(url)
    assert "secret" not in f"{refused.value} {refused.value.url}"


@pytest.mark.parametrize(
    ("url", "why"), [("nonsense", "is no ledger"), ("nosuchstore://x", "no ledger is made there"), ("", "is empty")]
)
def test_a_url_that_is_none_is_told_what_to_write(url, why):
    with pytest.raises(LedgerError, match=f"{why}.*use memory:, sqlite:///FILE or postgresql"):
        open_ledger(url)


# ---- what only memory does


def test_a_memory_ledger_keeps_what_is_unfinished_what_left_a_residue_and_the_last_finished_ones():
    ledger = open_ledger("memory:", retain=2)
    write(ledger, opened("open"), intent("open"))
    write(ledger, opened("left"), intent("left"), outcome("left#1/0", tag=Tag.UNRESOLVED), ended("left"))
    for name in "abcd":
        write(ledger, opened(name), intent(name), ended(name))
    assert names(ledger) == ["open", "left", "c", "d"]
    assert load(ledger, "a") is None
    assert len(ledger.book._effects) == 4


def test_whoever_makes_or_migrates_a_file_waits_for_the_disk(tmp_path):
    told = []

    def committed(connection):
        if connection.dialect.name == "sqlite":
            told.append(connection.connection.driver_connection.execute("PRAGMA synchronous").fetchone()[0])

    event.listen(Engine, "commit", committed)
    try:
        open_ledger(f"sqlite:///{tmp_path / 'new.db'}").close()
        made = len(told)
        migrate(f"sqlite:///{tmp_path / 'new.db'}")
    finally:
        event.remove(Engine, "commit", committed)
    assert 0 < made < len(told)
    assert set(told) == {2}


def test_a_file_is_in_wal_mode_and_an_acknowledged_commit_waits_for_the_disk(file_url, opening):
    ledger = opening(file_url)
    ledger.now(nothing)
    assert peek(file_url, "PRAGMA journal_mode") == [("wal",)]
    levels = []

    def level(_protocol, book):
        levels.append(book._wire._driver.execute("PRAGMA synchronous").fetchone()[0])

    come(ledger.submit(level, durable=True))
    come(ledger.submit(level, durable=False))
    come(ledger.submit(level, durable=True))
    assert levels == [2, 1, 2]
    assert isinstance(ledger.read(lambda book: book._wire._driver), sqlite3.Connection)


@pytest.mark.parametrize("said_by", ["the URL", "the environment", "the database"])
def test_a_server_is_waited_for_whoever_has_it_that_commits_do_not_wait(postgres_url, opening, monkeypatch, said_by):
    url = make_url(postgres_url)
    if said_by == "the URL":
        url = url.update_query_dict({"options": "-csynchronous_commit=off"})
    elif said_by == "the environment":
        monkeypatch.setenv("PGOPTIONS", "-csynchronous_commit=off")
    else:
        engine = create_engine(url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(f'ALTER DATABASE "{url.database}" SET synchronous_commit = off'))
        engine.dispose()
    ledger = opening(url.render_as_string(hide_password=False))
    waits = []

    def look(_protocol, book):
        waits.append(book._wire._send("SHOW synchronous_commit", {}).fetchone()[0])

    for durable in (True, False, True):
        come(ledger.submit(look, durable=durable))
    assert waits == ["on", "off", "on"]
