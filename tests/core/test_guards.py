"""What keeps transactions from each other can be left off, guard by guard: each anomaly comes back alone."""

from __future__ import annotations

import itertools
import threading
from contextlib import nullcontext

import pytest

from settlemark import Level, Settlement, Stale, UsageError, effect
from settlemark._model.guards import ALL_ON, Guards, guards_for
from settlemark.history import ANOMALIES, analyze, read
from settlemark.hosting import host_of

POINTS = [frozenset(some) for size in range(5) for some in itertools.combinations(ANOMALIES, size)]


@pytest.fixture
def world():
    return {"log": []}


@pytest.fixture
def tools(world):
    """Tools whose counterparty keeps its own log."""

    def take_back(cell, value, result):
        world["log"].append(("undo", cell, value))
        world[cell] = result

    @effect("reversible", scope="cell:/{cell}", undo=take_back)
    def put(cell, value):
        before = world.get(cell)
        world[cell] = value
        world["log"].append(("put", cell, value))
        return before

    @effect("irreversible", scope="mail:/{to}")
    def mail(to):
        world["log"].append(("mail", to))

    @effect("staged", scope="page:/{page}")
    def publish(page, text):
        world["log"].append(("publish", page, text))

    class Tools:
        pass

    tools = Tools()
    tools.put, tools.mail, tools.publish = put, mail, publish
    return tools


@pytest.fixture(params=["memory:", "sqlite"])
def open_settlement(request, tmp_path):
    opened = []

    def open_one(**options):
        url = request.param if request.param == "memory:" else f"sqlite:///{tmp_path / f'{len(opened)}.db'}"
        settlement = Settlement(url, history=tmp_path / "history.jsonl", wait=5, **options)
        opened.append(settlement)
        return settlement

    yield open_one
    for settlement in opened:
        settlement.close()


def stale_generation(settlement, tools):
    """One reads, another writes that and commits, and then the one acts on what it had read."""
    writer, reader = settlement.transaction("writer/1"), settlement.transaction("reader/1")
    other, tx = writer.__enter__(), reader.__enter__()
    tx.read("page:/draft")
    other.call(tools.publish, "draft", "new")
    writer.__exit__(None, None, None)
    tx.call(tools.publish, "review", "of the old")
    with pytest.raises(Stale, match="page:/draft") if host_of(settlement).guards.current else nullcontext():
        reader.__exit__(None, None, None)


def cascade(settlement, tools):
    """One acts, another reads that and commits, and then the one fails."""
    first = settlement.transaction("first/1")
    tx = first.__enter__()
    tx.call(tools.put, "plan", 1)
    seen = threading.Event()

    def second():
        with settlement.transaction("second/1") as other:
            other.read("cell:/plan")
            seen.set()
            other.call(tools.publish, "page", "by the plan")

    thread = threading.Thread(target=second)
    thread.start()
    if host_of(settlement).guards.reads == "any":
        thread.join()
    first.__exit__(ValueError, ValueError("no"), None)
    thread.join()
    assert seen.is_set()


def reordering(settlement, tools):
    """The calls of one turn are run in another order than they were issued in."""
    with settlement.transaction("clerk/1") as tx, tx.turn() as turn:
        calls = [turn.plan(tools.mail, name) for name in ("ada", "bob")]
        for call in reversed(calls):
            call.run()


def phantom(settlement, tools):
    """A tool is revoked between the call that was planned with it and its commit."""
    settlement.reinstate("mail")
    planned = settlement.transaction("planner/1")
    tx = planned.__enter__()
    tx.call(tools.mail, "ada")
    settlement.revoke("mail")
    with (
        nullcontext()
        if host_of(settlement).guards.tools == "any"
        else pytest.raises(Stale, match="registry:/tool/mail")
    ):
        planned.__exit__(None, None, None)


STORIES = {"A1": stale_generation, "A3": cascade, "A6": reordering, "A2": phantom}


@pytest.mark.parametrize("point", POINTS, ids=lambda point: "+".join(sorted(point)) or "none")
def test_what_is_prevented_does_not_happen_and_what_is_not_does(open_settlement, tmp_path, tools, point):
    settlement = open_settlement(prevent=point)
    for story in STORIES.values():
        story(settlement, tools)
    settlement.close()
    found = analyze(read(tmp_path / "history.jsonl"))
    assert found.point == point


@pytest.mark.parametrize("level", Level)
def test_a_level_is_what_it_names(level):
    assert guards_for(level) == guards_for(level.prevents)


def test_by_default_everything_is_prevented(open_settlement):
    assert host_of(open_settlement()).guards == guards_for(Level.L4) == ALL_ON == Guards()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"prevent": {"A9"}}, "prevent= has 'A9'"),
        ({"prevent": 2}, "prevent= has 2"),
        ({"prevent": None}, "prevent= has None"),
        ({"prevent": "L3"}, "prevent= has 'L3'"),
        ({"prevent": {"A1"}, "reads": "early"}, "reads= says how A3 is prevented"),
        ({"prevent": {"A1"}, "tools": "pinned"}, "tools= says how A2 is prevented"),
        ({"reads": "dirty"}, "reads='dirty'"),
        ({"tools": "loose"}, "tools='loose'"),
    ],
)
def test_what_cannot_be_prevented_so_is_refused_before_a_ledger_is_opened(tmp_path, options, told):
    with pytest.raises(UsageError, match=told):
        Settlement(f"sqlite:///{tmp_path / 'trip.db'}", **options)
    assert list(tmp_path.iterdir()) == []


def test_without_the_guard_against_a1_nobody_waits_for_an_older_reader(open_settlement, world, tools):
    settlement = open_settlement(prevent=Level.L0)
    older = settlement.transaction("older/1")
    older.__enter__().read("page:/draft")
    with settlement.transaction("younger/1") as tx:
        tx.call(tools.publish, "draft", "new")
    assert world["log"] == [("publish", "draft", "new")]
    older.__exit__(None, None, None)


def test_without_any_guard_an_undo_still_finds_what_it_takes_back(open_settlement, world, tools):
    settlement = open_settlement(prevent=Level.L0)
    first = settlement.transaction("first/1")
    tx = first.__enter__()
    tx.call(tools.put, "x", 1)
    wants = threading.Event()

    def second():
        with settlement.transaction("second/1") as other:
            wants.set()
            other.call(tools.put, "x", 2)

    thread = threading.Thread(target=second)
    thread.start()
    wants.wait()
    first.__exit__(ValueError, ValueError("no"), None)
    thread.join()
    assert world["log"] == [("put", "x", 1), ("undo", "x", 1), ("put", "x", 2)]
    assert settlement.residue() == []


def test_a_transaction_may_have_guards_of_its_own(open_settlement, world, tools):
    settlement = open_settlement()
    with settlement.transaction("clerk/1", prevent={"A1", "A2", "A3"}) as tx, tx.turn() as turn:
        calls = [turn.plan(tools.mail, name) for name in ("ada", "bob")]
        for call in reversed(calls):
            call.run()
    with settlement.transaction("clerk/2") as tx, tx.turn() as turn:
        calls = [turn.plan(tools.mail, name) for name in ("ada", "bob")]
        for call in reversed(calls):
            call.run()
    assert world["log"] == [("mail", "bob"), ("mail", "ada"), ("mail", "ada"), ("mail", "bob")]
    with pytest.raises(UsageError, match="'A7'"):
        settlement.transaction("clerk/3", prevent={"A7"})
