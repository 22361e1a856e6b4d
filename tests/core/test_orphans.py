"""A name that is entered again and decides otherwise: nothing stays, and nothing leaves, that its plan asks not for."""

from __future__ import annotations

import asyncio
import contextlib
from types import SimpleNamespace

import pytest

from settlemark import KeyConflict, Refused, Retries, Tag, current_call, effect
from settlemark._batch import open_batch
from settlemark._runners import run_sync

WAYS = ("parked", "ended")
CLASSES = ("reversible", "with a cost", "idempotent", "idempotent with undo", "opaque", "staged", "irreversible")
HELD = ("staged", "irreversible")


class Desk:
    """A counterparty with a log of its own, and a tool of each class."""

    def __init__(self):
        self.log = []
        self.tools = {kind: self.tool(kind) for kind in CLASSES}

    def tool(self, kind):
        def act(at):
            self.log.append(f"{kind} {at}")
            return f"did {at}"

        def undo(at):
            self.log.append(f"undo {kind} {at}")

        parts = {"scope": "thing:/{at}", "name": kind}
        if kind in ("reversible", "with a cost", "idempotent with undo"):
            parts["undo"] = undo
        if kind == "with a cost":
            parts["cost"] = "a fee"
        return effect(kind.split()[0] if kind != "with a cost" else "reversible", **parts)(act)


@pytest.fixture
def desk():
    return Desk()


@pytest.fixture(params=WAYS)
def again(request, url, open_settlement):
    """Play a plan under a name that is left open, by parking it or by an end of its process; return who comes back."""
    if request.param == "ended" and url == "memory:":
        pytest.skip("what is in memory ends with its process")

    def play(plan, **options):
        settlement = open_settlement(url, retries=Retries(first=0, most=0))
        if request.param == "parked":
            with settlement.transaction("job", **options) as tx:
                plan(tx)
                tx.park("keep")
            return settlement
        tx = settlement.transaction("job", **options).__enter__()
        plan(tx)
        settlement.close()
        return open_settlement(url, retries=Retries(first=0, most=0))

    return play


def recorded(settlement):
    return [
        (e.row.tool, e.row.arguments, e.outcome.value, e.tag and e.tag.value)
        for one in settlement.transactions()
        for e in one.effects
    ]


def found(settlement, desk):
    return SimpleNamespace(
        log=desk.log, effects=recorded(settlement), left=[(r.tool, r.tag) for r in settlement.residue()],
        live=settlement.protocol.live,
    )  # fmt: skip


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.every_store
def test_what_is_not_asked_for_again_is_taken_back_or_named_before_the_commit(again, desk, kind):
    keep, drop = desk.tools["reversible"], desk.tools[kind]

    def plan(tx):
        tx.call(keep, at="a")
        tx.call(drop, at="b")

    settlement = again(plan)
    with settlement.transaction("job") as tx:
        tx.call(keep, at="a")
    now = found(settlement, desk)
    stays = {"with a cost": "a fee", "idempotent": "no undo", "opaque": "no undo"}
    assert now.live == {}
    assert desk.log[0] == "reversible a"
    if kind in HELD:
        assert (desk.log[1:], now.left) == ([], [])
        assert now.effects[1][2:] == ("dropped", "clean")
    elif kind in ("idempotent", "opaque"):
        assert (desk.log[1:], now.left) == ([f"{kind} b"], [(kind, Tag.UNRESOLVED)])
    else:
        assert desk.log[1:] == [f"{kind} b", f"undo {kind} b"]
        assert now.left == ([(kind, Tag.UNRESOLVED)] if kind in stays else [])
        assert now.effects[1][2] == "undone"
    assert all(stays[kind] in r.note and "not asked for again" in r.note for r in settlement.residue())
    assert now.effects[0][2:] == ("confirmed", None)


@pytest.mark.every_store
def test_a_plan_that_asks_for_all_of_it_again_does_nothing_twice_and_loses_nothing(again, desk):
    def plan(tx):
        return [tx.call(tool, at=kind.replace(" ", "-")) for kind, tool in desk.tools.items()]

    settlement = again(plan)
    with settlement.transaction("job") as tx:
        plan(tx)
    done = [f"{kind} {kind.replace(' ', '-')}" for kind in CLASSES]
    assert sorted(desk.log) == sorted(done)
    assert (settlement.residue(), {row[2] for row in recorded(settlement)}) == ([], {"confirmed"})


@pytest.mark.parametrize(
    "plan",
    [
        [],
        ["a"],
        ["a", "b"],
        ["a", "b", "c", "d"],
    ],
)
@pytest.mark.every_store
def test_a_shorter_plan_keeps_what_it_asks_for_and_undoes_the_rest_the_newest_first(again, desk, plan):
    book, send = desk.tools["reversible"], desk.tools["irreversible"]

    def before(tx):
        for at in ("a", "b", "c"):
            tx.call(book, at=at)
        tx.call(send, at="ada")

    settlement = again(before)
    with settlement.transaction("job") as tx:
        for at in plan[:3]:
            tx.call(book, at=at)
        if "d" in plan:
            tx.call(send, at="ada")
    gone = [at for at in ("c", "b", "a") if at not in plan]
    mail = ["irreversible ada"] if "d" in plan else []
    assert desk.log == [*(f"reversible {at}" for at in "abc"), *(f"undo reversible {at}" for at in gone), *mail]
    assert (settlement.residue(), settlement.protocol.live) == ([], {})


@pytest.mark.parametrize("other", ["arguments", "tool", "order"])
@pytest.mark.every_store
def test_another_decision_in_its_place_is_refused_and_all_is_undone_also_when_the_refusal_is_caught(again, desk, other):
    book, send = desk.tools["reversible"], desk.tools["irreversible"]
    call = {"arguments": (book, "z"), "tool": (desk.tools["opaque"], "a"), "order": (book, "b")}[other]

    def before(tx):
        tx.call(book, at="a")
        tx.call(book, at="b")
        tx.call(send, at="ada")

    settlement = again(before)
    with settlement.transaction("job") as tx, contextlib.suppress(KeyConflict):
        tx.call(call[0], at=call[1])
    assert desk.log == ["reversible a", "reversible b", "undo reversible b", "undo reversible a"]
    assert (settlement.residue(), settlement.protocol.live) == ([], {})


@pytest.mark.every_store
def test_what_a_tool_calls_within_and_does_not_call_again_is_taken_back(url, open_settlement, desk):
    """Its process has ended within the outer call, so that one runs again."""
    if url == "memory:":
        pytest.skip("what is in memory ends with its process")
    book, send = desk.tools["reversible"], desk.tools["irreversible"]
    inner = ["a", "b"]

    @effect("reversible", scope="job:/outer", undo=lambda: None, probe=lambda: None, name="outer")
    def outer():
        with current.transaction() as part:
            for at in inner:
                part.call(book, at=at)
            if len(inner) > 1:
                part.call(send, at="ada")
                current.close()
                raise KeyboardInterrupt

    current = open_settlement(url)
    tx = current.transaction("job").__enter__()
    with pytest.raises(BaseException):  # noqa: B017, PT011 - it is gone, whatever it says
        tx.call(outer)
    current, inner = open_settlement(url), ["a"]
    with current.transaction("job") as tx:
        tx.call(outer)
    assert desk.log == ["reversible a", "reversible b", "undo reversible b"]
    assert (current.residue(), current.protocol.live) == ([], {})


@pytest.mark.every_store
def test_what_only_an_earlier_try_of_a_tool_called_within_is_taken_back(url, open_settlement, desk):
    settlement, tries = open_settlement(url, retries=Retries(first=0, most=0)), []
    book, send = desk.tools["reversible"], desk.tools["irreversible"]

    @effect("idempotent", scope="job:/outer", name="outer")
    def outer():
        tries.append(current_call().key)
        with settlement.transaction() as part:
            part.call(book, at="a")
            if len(tries) == 1:
                part.call(book, at="b")
                part.call(send, at="ada")
                raise TimeoutError

    with settlement.transaction("job") as tx:
        tx.call(outer)
    assert (desk.log, len(set(tries))) == (["reversible a", "reversible b", "undo reversible b"], 1)
    assert (settlement.residue(), settlement.protocol.live) == ([], {})


@pytest.mark.every_store
def test_what_a_call_that_is_answered_from_the_record_called_within_stands(again, desk):
    book = desk.tools["reversible"]
    at_work = []

    @effect("reversible", scope="job:/outer", undo=lambda: None, name="outer")
    def outer():
        with at_work[0].transaction() as part:
            part.call(book, at="a")

    def plan(tx):
        at_work[:] = [tx._settlement]
        tx.call(outer)

    settlement = again(plan)
    with settlement.transaction("job") as tx:
        plan(tx)
    assert (desk.log, settlement.residue()) == (["reversible a"], [])
    assert [row[2] for row in recorded(settlement)] == ["confirmed"] * 2


@pytest.mark.every_store
def test_what_others_of_the_new_plan_have_acted_upon_undoes_all_of_it(again, desk):
    """An undo behind another act on the same thing would take that back, too."""
    refused = desk.tools["reversible"]

    def check(at):
        if allowed.get("b") is False:
            raise ValueError("not yet")

    allowed = {"b": False}

    @effect("reversible", scope="thing:/{at}", undo=lambda at: desk.log.append(f"undo checked {at}"), check=check)
    def checked(at):
        desk.log.append(f"checked {at}")

    def before(tx):
        with contextlib.suppress(ValueError):
            tx.call(checked, at="x")  # leaves its place empty
        tx.call(refused, at="x")

    settlement = again(before)
    allowed["b"] = True
    with pytest.raises(Refused, match="reversible on thing:/x was decided before and not asked for again, and checked"):
        with settlement.transaction("job") as tx:
            tx.call(checked, at="x")
    assert desk.log == ["reversible x", "checked x", "undo checked x", "undo reversible x"]
    assert (settlement.residue(), settlement.protocol.live) == ([], {})


@pytest.mark.every_store
def test_an_undo_that_fails_is_named_and_the_rest_commits(again, desk):
    def fails(at):
        raise OSError("no undo today")

    @effect("reversible", scope="thing:/{at}", undo=fails)
    def stubborn(at): ...

    def before(tx):
        tx.call(desk.tools["reversible"], at="a")
        tx.call(stubborn, at="b")

    settlement = again(before)
    with settlement.transaction("job") as tx:
        tx.call(desk.tools["reversible"], at="a")
    (left,) = settlement.residue()
    assert (left.tool, left.tag, tx.state.value) == ("stubborn", Tag.UNRESOLVED, "committed")
    assert left.note.startswith("decided before and not asked for again; its undo failed 3 times")
    assert (desk.log, settlement.protocol.live) == (["reversible a"], {})


@pytest.mark.every_store
def test_what_was_taken_back_and_is_asked_for_later_has_the_whole_begun_anew(again, desk, open_settlement):
    """Its key is used up: a provider would answer with what was just cancelled."""
    book, keys = desk.tools["reversible"], []

    @effect("irreversible", scope="mail:/{to}", approve=True)
    def mail(to): ...

    def before(tx):
        tx.call(book, at="a")
        tx.call(book, at="b")

    settlement = again(before)
    with settlement.transaction("job") as tx:
        tx.call(book, at="a")
        tx.park("keep")  # taken back, and not committed
    with pytest.raises(Refused, match="was decided before and not asked for again, taken back, and is asked for now"):
        with settlement.transaction("job") as tx:
            before(tx)
    with settlement.transaction("job") as tx:
        before(tx)
        keys.append(tx.attempt)
    assert desk.log == [
        "reversible a", "reversible b", "undo reversible b", "undo reversible a", "reversible a", "reversible b",
    ]  # fmt: skip
    assert (keys, settlement.residue(), settlement.protocol.live) == ([2], [], {})


def test_an_async_plan_that_is_shorter_takes_back_the_rest(again, desk):
    settlement = again(
        lambda tx: (tx.call(desk.tools["reversible"], at="a"), tx.call(desk.tools["irreversible"], at="b"))
    )

    async def shorter():
        async with settlement.transaction("job"):
            pass

    asyncio.run(shorter())
    assert desk.log == ["reversible a", "undo reversible a"]
    assert (settlement.residue(), settlement.protocol.live) == ([], {})


def test_run_takes_back_the_rest(again, desk):
    settlement = again(lambda tx: tx.call(desk.tools["reversible"], at="a"))
    settlement.run("job", lambda tx: None)
    assert (desk.log, settlement.residue()) == (["reversible a", "undo reversible a"], [])


# ---- a turn that a framework runs


class Ask(Exception):
    """A framework's control flow."""


def turn(settlement, desk, calls, *, asks=(), absent=()):
    batch = run_sync(open_batch(settlement, "trip", run="trip", resumable=True, let_through=(Ask,)))
    seats = [batch.seat(settlement.declaration(desk.tools[kind]), {"at": at}, call_id=at) for kind, at in calls]
    for seat, (kind, at) in zip(seats, calls, strict=True):
        if at in absent:
            batch.absent(seat)
            continue

        def run(kind=kind, at=at):
            if at in asks:
                raise Ask
            return desk.tools[kind](at)

        error = None
        try:
            run_sync(batch.perform(seat, run, {"at": at}, may_wait=False))
        except Ask as control:
            error = control
        except KeyConflict as conflict:
            error = conflict
        run_sync(batch.leave(seat, error=error))
    if batch.unattended:
        run_sync(batch.finish(seats[0]))
    return batch


@pytest.mark.every_store
def test_a_resumed_turn_takes_back_what_it_does_not_ask_for(url, open_settlement, desk):
    settlement = open_settlement(url)
    turn(settlement, desk, [("reversible", "a"), ("reversible", "b"), ("irreversible", "m")], asks=["b"])
    turn(settlement, desk, [("reversible", "a")])
    assert (desk.log, settlement.residue(), settlement.protocol.live) == (["reversible a"], [], {})


@pytest.mark.every_store
def test_a_resumed_turn_without_its_first_call_is_refused_and_all_is_undone(url, open_settlement, desk):
    settlement = open_settlement(url)
    turn(settlement, desk, [("reversible", "a"), ("irreversible", "m"), ("reversible", "b")], asks=["b"])
    turn(settlement, desk, [("reversible", "b")])
    assert desk.log == ["reversible a", "undo reversible a"]
    assert (settlement.residue(), settlement.protocol.live) == ([], {})


@pytest.mark.every_store
def test_what_a_framework_answers_elsewhere_is_no_orphan(url, open_settlement, desk):
    settlement = open_settlement(url)
    calls = [("reversible", "a"), ("irreversible", "m"), ("reversible", "b")]
    turn(settlement, desk, calls, asks=["b"])
    turn(settlement, desk, calls, absent=["a", "m"])
    assert desk.log == ["reversible a", "reversible b", "irreversible m"]
    assert (settlement.residue(), settlement.protocol.live) == ([], {})
