"""`reads="early"`: who sees work that is not settled commits behind it, or is undone before it."""

from __future__ import annotations

import asyncio
import sys
import threading

import pytest

from settlemark import Cascaded, Settlement, Stale, effect
from settlemark.history import analyze, read

PATIENCE = 60


@pytest.fixture
def world():
    return {"log": []}


@pytest.fixture
def put(world):
    def take_back(cell, value, result):
        world["log"].append(("undo", cell, value))
        world[cell] = result

    @effect("reversible", scope="cell:/{cell}", undo=take_back)
    def put(cell, value):
        before = world.get(cell)
        world[cell] = value
        world["log"].append(("put", cell, value))
        return before

    return put


@pytest.fixture
def mail(world):
    @effect("irreversible", scope="mail:/{to}")
    def mail(to, text):
        world["log"].append(("mail", to, text))

    return mail


@pytest.fixture
def charge(world):
    @effect("opaque", scope="card:/{card}")
    def charge(card):
        world["log"].append(("charge", card))

    return charge


@pytest.fixture(params=["memory:", "sqlite"])
def settlement(request, tmp_path):
    url = request.param if request.param == "memory:" else f"sqlite:///{tmp_path / 'trip.db'}"
    with Settlement(url, history=tmp_path / "history.jsonl", reads="early", wait=5) as settlement:
        yield settlement


class Begun:
    """A transaction that a test leaves when it wants to."""

    def __init__(self, settlement, name):
        self.opening = settlement.transaction(name)
        self.tx = self.opening.__enter__()

    def commit(self):
        self.opening.__exit__(None, None, None)

    def fail(self):
        self.opening.__exit__(ValueError, ValueError("no"), None)


def look(world, cell):
    return lambda: world.get(cell)


def test_it_is_not_waited_for(settlement, world, put):
    writer, reader = Begun(settlement, "writer"), Begun(settlement, "reader")
    writer.tx.call(put, "x", 1)
    assert reader.tx.read("cell:/x", look(world, "x")) == 1
    writer.commit()
    reader.commit()


def test_what_it_saw_executed_does_not_make_it_stale_and_what_came_behind_does(settlement, world, put):
    writer, reader = Begun(settlement, "writer"), Begun(settlement, "reader")
    late = Begun(settlement, "late")
    writer.tx.call(put, "x", 1)
    late.tx.read("cell:/x", look(world, "x"))
    writer.tx.call(put, "x", 2)
    reader.tx.read("cell:/x", look(world, "x"))
    writer.commit()
    reader.commit()
    with pytest.raises(Stale, match="cell:/x changed after it was read"):
        late.commit()


def test_what_is_held_on_what_it_saw_and_leaves_behind_its_read_makes_it_stale(settlement, world, put):
    @effect("staged", scope="cell:/{cell}")
    def stage(cell, value):
        world[cell] = value

    writer, reader = Begun(settlement, "writer"), Begun(settlement, "reader")
    writer.tx.call(put, "x", 1)
    writer.tx.call(stage, "x", 2)
    assert reader.tx.read("cell:/x", look(world, "x")) == 1
    writer.commit()
    assert world["x"] == 2
    with pytest.raises(Stale, match="cell:/x changed after it was read"):
        reader.commit()


def test_it_commits_behind_whose_work_it_saw(settlement, world, put, mail, someone_waits):
    writer, reader = Begun(settlement, "writer"), Begun(settlement, "reader")
    writer.tx.call(put, "x", 1)
    reader.tx.call(mail, "ada", reader.tx.read("cell:/x", look(world, "x")))
    waits = someone_waits(settlement)
    leaving = threading.Thread(target=reader.commit)
    leaving.start()
    assert waits.wait(PATIENCE)
    assert settlement.waiting() == [("reader", "writer", "cell:/x")]
    assert world["log"] == [("put", "x", 1)]
    writer.commit()
    leaving.join()
    assert world["log"] == [("put", "x", 1), ("mail", "ada", 1)]


def test_it_is_undone_before_that_is_undone_and_nothing_it_held_leaves(settlement, world, put, mail):
    writer, reader = Begun(settlement, "writer"), Begun(settlement, "reader")
    writer.tx.call(put, "x", 1)
    reader.tx.read("cell:/x", look(world, "x"))
    reader.tx.call(put, "y", 2)
    reader.tx.call(mail, "ada", "hello")
    writer.fail()
    with pytest.raises(Cascaded, match="it had read cell:/x as writer left it") as refused:
        reader.commit()
    assert (str(refused.value.scope), refused.value.holder) == ("cell:/x", "writer")
    assert world["log"] == [("put", "x", 1), ("put", "y", 2), ("undo", "y", 2), ("undo", "x", 1)]
    assert settlement.residue() == []


def chained(settlement, world, put, length):
    """Open transactions of which each has seen the one before it."""
    chain = [Begun(settlement, f"link{n}") for n in range(length)]
    chain[0].tx.call(put, "c0", 0)
    for n, link in enumerate(chain[1:], 1):
        link.tx.read(f"cell:/c{n - 1}", look(world, f"c{n - 1}"))
        link.tx.call(put, f"c{n}", n)
    return chain


def test_a_cascade_follows_who_saw_whom(settlement, world, put):
    chain = chained(settlement, world, put, 4)
    chain[0].fail()
    for link in chain[1:]:
        with pytest.raises(Cascaded):
            link.commit()
    assert world["log"] == [("put", f"c{n}", n) for n in range(4)] + [("undo", f"c{n}", n) for n in (3, 2, 1, 0)]


@pytest.mark.deep
def test_a_cascade_may_be_longer_than_the_interpreter_has_frames(world, put):
    length = 2 * sys.getrecursionlimit()
    with Settlement("memory:", reads="early") as settlement:
        chain = chained(settlement, world, put, length)
        chain[0].fail()
        assert settlement.residue() == []
    links = range(length)
    assert world["log"] == [("put", f"c{n}", n) for n in links] + [("undo", f"c{n}", n) for n in reversed(links)]


def test_what_cannot_be_undone_waits_for_whose_work_it_is_grounded_on(settlement, world, put, charge, someone_waits):
    writer, reader = Begun(settlement, "writer"), Begun(settlement, "reader")
    writer.tx.call(put, "x", 1)
    reader.tx.read("cell:/x", look(world, "x"))
    waits = someone_waits(settlement)
    charging = threading.Thread(target=lambda: reader.tx.call(charge, "visa"))
    charging.start()
    assert waits.wait(PATIENCE)
    assert settlement.waiting() == [("reader", "writer", "cell:/x")]
    assert world["log"] == [("put", "x", 1)]
    writer.commit()
    charging.join()
    reader.commit()
    assert world["log"] == [("put", "x", 1), ("charge", "visa")]


def test_run_does_it_again_on_what_is_there_then(settlement, world, put):
    writer = Begun(settlement, "writer")
    writer.tx.call(put, "x", 1)
    tries = []

    def grounded(tx):
        tries.append(tx.read("cell:/x", look(world, "x")))
        if len(tries) == 1:
            writer.fail()
        tx.call(put, "y", tries[-1])

    settlement.run("reader", grounded)
    assert tries == [1, None]
    assert (world["x"], world["y"]) == (None, None)


def test_it_takes_no_half_done_act_for_done(settlement, world, someone_waits):
    acts, on = threading.Event(), threading.Event()

    @effect("reversible", scope="cell:/{cell}", undo=lambda: None)
    def slow(cell):
        acts.set()
        on.wait(PATIENCE)
        world[cell] = 1

    writer, reader = Begun(settlement, "writer"), Begun(settlement, "reader")
    acting = threading.Thread(target=lambda: writer.tx.call(slow, "x"))
    acting.start()
    assert acts.wait(PATIENCE)
    seen = []
    waits = someone_waits(settlement)
    reading = threading.Thread(target=lambda: seen.append(reader.tx.read("cell:/x", look(world, "x"))))
    reading.start()
    assert waits.wait(PATIENCE)
    assert settlement.waiting() == [("reader", "writer", "cell:/x")]
    on.set()
    acting.join()
    reading.join()
    assert seen == [1]
    writer.commit()
    reader.commit()


def test_the_history_has_whom_it_saw_and_no_cascade(settlement, tmp_path, world, put):
    writer, reader = Begun(settlement, "writer"), Begun(settlement, "reader")
    writer.tx.call(put, "x", 1)
    reader.tx.read("cell:/x", look(world, "x"))
    writer.commit()
    reader.commit()
    failed, cut = Begun(settlement, "failed"), Begun(settlement, "cut")
    failed.tx.call(put, "x", 2)
    cut.tx.read("cell:/x", look(world, "x"))
    failed.fail()
    with pytest.raises(Cascaded):
        cut.commit()
    settlement.close()
    records = list(read(tmp_path / "history.jsonl"))
    assert [(r.id, r.read_values, r.write_values, r.preds, r.aborted) for r in records] == [
        ("writer#1", {}, {"cell:/x": "writer#1.1"}, [], False),
        ("reader#1", {"cell:/x": "writer#1.1"}, {}, ["writer#1"], False),
    ]
    assert analyze(records).point == {"A1", "A2", "A3", "A6"}


def test_a_claim_that_turned_out_narrower_ties_nobody_who_read_beside_it(settlement, world):
    @effect("reversible", scope="cell:/{cell}", undo=lambda: None, may_touch=["cell:/**"], refine=lambda result: result)
    def broad(cell):
        return [f"cell:/{cell}"]

    writer, reader = Begun(settlement, "writer"), Begun(settlement, "reader")
    writer.tx.call(broad, "x")
    reader.tx.read("cell:/y")
    reader.commit()
    writer.fail()
    assert settlement.residue() == []


def test_what_is_done_behind_a_claim_that_turned_out_narrower_is_seen_at_once(settlement, world):
    @effect("reversible", scope="cell:/{cell}", undo=lambda: None, may_touch=["cell:/**"], refine=lambda result: result)
    def broad(cell):
        world[cell] = 1
        return [f"cell:/{cell}"]

    writer, reader = Begun(settlement, "writer"), Begun(settlement, "reader")
    writer.tx.call(broad, "x")
    assert reader.tx.read("cell:/x", look(world, "x")) == 1
    writer.commit()
    reader.commit()


def test_who_reads_its_own_work_and_anothers_in_one_look_is_undone_with_the_other(settlement, world, put):
    writer, reader = Begun(settlement, "writer"), Begun(settlement, "reader")
    writer.tx.call(put, "x", 1)
    reader.tx.call(put, "a", 2)
    reader.tx.read("cell:/**")
    writer.fail()
    with pytest.raises(Cascaded):
        reader.commit()
    assert world["log"][2:] == [("undo", "a", 2), ("undo", "x", 1)]


def test_one_that_saw_two_who_end_together_is_undone_once(settlement, world, put):
    first, second, third = (Begun(settlement, name) for name in ("first", "second", "third"))
    first.tx.call(put, "x", 1)
    second.tx.read("cell:/x", look(world, "x"))
    second.tx.call(put, "y", 2)
    third.tx.read("cell:/x", look(world, "x"))
    third.tx.read("cell:/y", look(world, "y"))
    third.tx.call(put, "z", 3)
    first.fail()
    for cut in (second, third):
        with pytest.raises(Cascaded):
            cut.commit()
    assert world["log"][3:] == [("undo", "z", 3), ("undo", "y", 2), ("undo", "x", 1)]


def test_who_writes_anew_what_was_taken_back_waits_for_who_had_seen_it_and_stands_in_line(settlement, world, put):
    bodies = []

    async def story():
        acted_upon = asyncio.Event()

        async def planner(tx):
            bodies.append(tx.name)
            await tx.call(put, "plan", tx.name)
            if tx.name == "first":
                await acted_upon.wait()
                raise ValueError("no")

        async def executor(tx):
            plan = await tx.read("cell:/plan", look(world, "plan"))
            await tx.call(put, "result", plan)
            acted_upon.set()

        async def plans():
            with pytest.raises(ValueError, match="no"):
                await settlement.run("first", planner)
            await settlement.run("second", planner)

        await asyncio.gather(plans(), settlement.run("executor", executor))

    asyncio.run(story())
    assert bodies == ["first", "second"]
    assert (world["plan"], settlement.residue()) == ("second", [])


def test_who_has_done_what_nobody_can_take_back_reads_what_is_settled(settlement, world, put, charge, someone_waits):
    writer, reader = Begun(settlement, "writer"), Begun(settlement, "reader")
    writer.tx.call(put, "x", 1)
    reader.tx.call(charge, "visa")
    waits = someone_waits(settlement)
    reading = threading.Thread(target=lambda: reader.tx.read("cell:/x", look(world, "x")))
    reading.start()
    assert waits.wait(PATIENCE)
    assert settlement.waiting() == [("reader", "writer", "cell:/x")]
    writer.fail()
    reading.join()
    reader.commit()
    assert settlement.residue() == []


def test_whoever_stays_open_keeps_nobody_else_out_of_the_history(settlement, tmp_path, world, put):
    writer, reader = Begun(settlement, "writer"), Begun(settlement, "reader")
    writer.tx.call(put, "x", 1)
    reader.tx.read("cell:/x", look(world, "x"))
    with settlement.transaction("other") as tx:
        tx.call(put, "y", 1)
    assert [record.name for record in read(tmp_path / "history.jsonl")] == ["other"]
    writer.commit()
    reader.commit()


def test_what_is_seen_while_the_rest_leaves_is_what_was_decided(settlement, tmp_path, world, put):
    leaving, on = threading.Event(), threading.Event()

    @effect("irreversible", scope="mail:/{to}")
    def slow_mail(to):
        leaving.set()
        on.wait(PATIENCE)

    writer, reader = Begun(settlement, "writer"), Begun(settlement, "reader")
    writer.tx.call(put, "x", 1)
    writer.tx.call(slow_mail, "ada")
    committing = threading.Thread(target=writer.commit)
    committing.start()
    leaving.wait()
    assert reader.tx.read("cell:/x", look(world, "x")) == 1
    on.set()
    committing.join()
    reader.commit()
    settlement.close()
    records = list(read(tmp_path / "history.jsonl"))
    assert records[0].write_values == {"cell:/x": "writer#1", "mail:/ada": "writer#1"}
    assert records[1].read_values == {"cell:/x": "writer#1"}
    assert analyze(records)["residue"].count == 0
