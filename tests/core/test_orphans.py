"""A name that is entered again and decides otherwise: nothing stays, and nothing leaves, that its plan asks not for."""

from __future__ import annotations

import asyncio
import contextlib
from types import SimpleNamespace

import pytest

from settlemark import InDoubt, KeyConflict, Opening, Retries, Scope, Stale, StateError, Tag, current_call, effect
from settlemark.agents import open_turn
from settlemark.hosting import host_of, run_sync

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


def entered_until_it_stands(settlement, plan):
    """Play a plan as who is told to begin anew does."""
    for _ in range(2):
        with contextlib.suppress(Stale), settlement.transaction("job") as tx:
            return plan(tx)
    raise AssertionError("it was refused twice")


def recorded(settlement):
    return [
        (e.row.tool, e.row.arguments, e.outcome.value, e.tag and e.tag.value)
        for one in settlement.transactions()
        for e in one.effects
    ]


def found(settlement, desk):
    return SimpleNamespace(
        log=desk.log,
        effects=recorded(settlement),
        left=[(r.tool, r.tag) for r in settlement.residue()],
        live=host_of(settlement).protocol.live,
    )


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
    assert (settlement.residue(), host_of(settlement).protocol.live) == ([], {})


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
    assert (settlement.residue(), host_of(settlement).protocol.live) == ([], {})


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
    assert (current.residue(), host_of(current).protocol.live) == ([], {})


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
    assert (settlement.residue(), host_of(settlement).protocol.live) == ([], {})


@pytest.mark.every_store
def test_what_a_call_that_is_answered_from_the_record_called_within_stands(again, desk):
    book = desk.tools["reversible"]
    at_work = []

    @effect("reversible", scope="job:/outer", undo=lambda: None, name="outer")
    def outer():
        with Opening(at_work[0], {**at_work[0].options(None, None), "independent": False}) as part:
            part.call(book, at="a")

    def plan(tx):
        at_work[:] = [tx._host]
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
    with pytest.raises(Stale, match="as reversible left it, which was decided before .* checked acted on it behind"):
        with settlement.transaction("job") as tx:
            tx.call(checked, at="x")
    assert desk.log == ["reversible x", "checked x", "undo checked x", "undo reversible x"]
    assert (settlement.residue(), host_of(settlement).protocol.live) == ([], {})


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
    assert (desk.log, host_of(settlement).protocol.live) == (["reversible a"], {})


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
    with pytest.raises(Stale, match="was decided before and not asked for again, taken back, and is asked for now"):
        with settlement.transaction("job") as tx:
            before(tx)
    with settlement.transaction("job") as tx:
        before(tx)
        keys.append(tx.attempt)
    assert desk.log == [
        "reversible a", "reversible b", "undo reversible b", "undo reversible a", "reversible a", "reversible b",
    ]  # fmt: skip # a list of names and values
    assert (keys, settlement.residue(), host_of(settlement).protocol.live) == ([2], [], {})


def test_an_async_plan_that_is_shorter_takes_back_the_rest(again, desk):
    settlement = again(
        lambda tx: (tx.call(desk.tools["reversible"], at="a"), tx.call(desk.tools["irreversible"], at="b"))
    )

    async def shorter():
        async with settlement.transaction("job"):
            pass

    asyncio.run(shorter())
    assert desk.log == ["reversible a", "undo reversible a"]
    assert (settlement.residue(), host_of(settlement).protocol.live) == ([], {})


def test_run_takes_back_the_rest(again, desk):
    settlement = again(lambda tx: tx.call(desk.tools["reversible"], at="a"))
    settlement.run("job", lambda tx: None)
    assert (desk.log, settlement.residue()) == (["reversible a", "undo reversible a"], [])


# ---- what is taken back is so for good, and known to be


@pytest.mark.every_store
def test_all_that_is_taken_back_is_on_record_before_the_first_of_it_is_undone(again, desk):
    """Who comes after a crash in between builds on none of it."""
    seen = []

    @effect("reversible", scope="thing:/{at}", undo=lambda at: seen.append(recorded(now[0])))
    def watched(at): ...

    def before(tx):
        tx.call(desk.tools["reversible"], at="a")
        tx.call(watched, at="b")
        tx.call(watched, at="c")
        tx.call(desk.tools["irreversible"], at="d")

    settlement = again(before)
    now = [settlement]
    with settlement.transaction("job") as tx:
        tx.call(desk.tools["reversible"], at="a")
    notes = [e.disposed.told for one in settlement.transactions() for e in one.effects]
    assert [[row[2] for row in rows] for rows in seen] == [
        ["confirmed", "confirmed", "confirmed", "dropped"],
        ["confirmed", "confirmed", "undone", "dropped"],
    ]
    assert notes == [None, *["decided before and not asked for again"] * 3]
    assert (settlement.residue(), host_of(settlement).protocol.live) == ([], {})


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.every_store
def test_what_was_taken_back_of_any_class_is_begun_anew_when_it_is_asked_for_and_what_was_only_named_stands(
    again, desk, kind
):
    book, tool = desk.tools["reversible"], desk.tools[kind]

    def before(tx):
        tx.call(book, at="a")
        tx.call(tool, at="b")

    settlement = again(before)
    with settlement.transaction("job") as tx:
        tx.call(book, at="a")
        tx.park("keep")
    tries = []

    def plan(tx):
        tries.append(tx.attempt)
        before(tx)

    entered_until_it_stands(settlement, plan)
    untouched = kind in ("idempotent", "opaque")
    first = ["reversible a", *([] if kind in HELD else [f"{kind} b"])]
    undone = [] if kind in HELD else [f"undo {kind} b"]
    anew = ["undo reversible a", "reversible a", f"{kind} b"]
    assert desk.log == (first if untouched else [*first, *undone, *anew])
    assert tries == ([1] if untouched else [1, 2])
    left = [(kind, Tag.UNRESOLVED, 1)] if kind == "with a cost" else []
    assert [(r.tool, r.tag, r.attempt) for r in settlement.residue()] == left
    assert host_of(settlement).protocol.live == {}


@pytest.mark.parametrize("kind", ["staged", "reversible"])
@pytest.mark.every_store
def test_a_plan_that_has_read_what_is_taken_back_is_made_again(again, kind):
    """What it decided from that was never so; a mail that says it would be a lie."""
    cells, staged, sent = {"x": 0}, [], []

    def put(at, value):
        cells[at] = value

    def take_back(at, value):
        cells[at] = 0

    undo = {"undo": take_back} if kind == "reversible" else {}
    write = effect(kind, scope="thing:/{at}", name="write", **undo)(put)

    @effect("read", scope="thing:/{at}")
    def look(at):
        waiting = current_call()._inside.attempt.staged(look_at[at])
        staged.append([each["value"] for each in waiting])
        return staged[-1][-1] if waiting else cells[at]

    @effect("irreversible", scope="mail:/{to}")
    def mail(to, text):
        sent.append(text)

    look_at = {"x": Scope.parse("thing:/x")}

    def before(tx):
        tx.call(mail, to="ada", text="x is 7")
        tx.call(write, at="x", value=7)

    settlement = again(before)

    def plan(tx):
        found = tx.call(look, at="x")
        if found:
            tx.call(mail, to="ada", text=f"x is {found}")
        return found

    assert entered_until_it_stands(settlement, plan) == 0
    assert (cells, sent) == ({"x": 0}, [])
    assert [one.state.value for one in settlement.transactions()] == ["aborted"]
    assert (settlement.residue(), host_of(settlement).protocol.live) == ([], {})


@pytest.mark.every_store
def test_a_plan_that_has_read_what_it_asks_for_afterwards_stands(again, desk):
    """The control: nothing of what was read is taken back."""

    @effect("read", scope="thing:/{at}")
    def look(at): ...

    settlement = again(lambda tx: tx.call(desk.tools["reversible"], at="a"))
    with settlement.transaction("job") as tx:
        tx.call(look, at="a")
        tx.call(desk.tools["reversible"], at="a")
    assert (desk.log, settlement.residue(), tx.attempt) == (["reversible a"], [], 1)


@pytest.mark.every_store
def test_a_hook_judges_what_will_happen_and_not_what_was_taken_back(again, desk):
    def before(tx):
        for kind in ("reversible", "with a cost", "staged", "irreversible"):
            tx.call(desk.tools[kind], at=kind.replace(" ", "-"))

    judged = []
    settlement = again(before, before_commit=judged.append)
    with settlement.transaction("job", before_commit=judged.append) as tx:
        tx.call(desk.tools["reversible"], at="reversible")
    assert [[e["tool"] for e in footprint.effects] for footprint in judged] == [["reversible"]]


@pytest.mark.parametrize("kind", ["reversible", *HELD])
@pytest.mark.every_store
def test_what_committed_without_a_decision_is_not_replayed_as_if_it_had_been_made(again, desk, kind):
    def before(tx):
        tx.call(desk.tools["reversible"], at="a")
        tx.call(desk.tools[kind], at="b")

    settlement = again(before)
    with settlement.transaction("job") as tx:
        tx.call(desk.tools["reversible"], at="a")
    was = list(desk.log)
    with pytest.raises(StateError, match="has committed"):
        with settlement.transaction("job") as tx:
            before(tx)
    assert desk.log == was
    assert settlement.residue() == []


# ---- what is learnt late


class Deaf:
    """A counterparty that loses its answer to b, and is asked in vain until it `hears`."""

    def __init__(self, undoable=True):
        self.log, self.hears = [], False

        def probe(at):
            if not self.hears:
                raise OSError("nobody answers")
            return True if f"book {at}" in self.log else None

        undo = {"undo": lambda at: self.log.append(f"undo {at}")} if undoable else {}

        @effect("reversible" if undoable else "idempotent", scope="room:/{at}", probe=probe, name="book", **undo)
        def book(at):
            self.log.append(f"book {at}")
            if at == "b":
                raise TimeoutError

        self.book = book

    def plan(self, tx):
        self.book_all(tx, "ab")

    def book_all(self, tx, rooms):
        for at in rooms:
            with contextlib.suppress(InDoubt):
                tx.call(self.book, at=at)


def told_by_an_operator(settlement, deaf, key):
    assert settlement.resolve(key, "confirmed", by="ada").value in ("undone", "confirmed")


def told_by_a_webhook(settlement, deaf, key):
    settlement.confirm(key, True)


def asked_again(settlement, deaf, key):
    deaf.hears = True
    settlement.recover()


@pytest.mark.own_time
@pytest.mark.parametrize("learn", [told_by_an_operator, told_by_a_webhook, asked_again])
@pytest.mark.parametrize("undoable", [True, False])
@pytest.mark.every_store
def test_what_turns_out_late_to_have_happened_is_undone_or_named_when_no_plan_asked_for_it(
    again, settlement_at_rest, learn, undoable
):
    deaf = Deaf(undoable)
    settlement = again(deaf.plan)
    settlement_at_rest(settlement)
    with settlement.transaction("job") as tx:
        deaf.book_all(tx, "a")
    (doubt,) = settlement.residue()
    assert (doubt.tool, doubt.note) == (
        "book",
        "decided before and not asked for again; nobody can tell whether it happened: ask the counterparty",
    )
    learn(settlement, deaf, doubt.key)
    # One that honours keys is sent again under its own while nobody answers.
    assert [*dict.fromkeys(deaf.log)] == ["book a", "book b", *(["undo b"] if undoable else [])]
    left = [(r.key, r.tag) for r in settlement.residue()]
    assert left == ([] if undoable else [(doubt.key, Tag.UNRESOLVED)])
    assert (settlement.in_doubt(), host_of(settlement).protocol.live) == ([], {})


@pytest.fixture
def told_while_put_aside(again, settlement_at_rest):
    """Put a plan aside that was made again without what was in doubt, of which an operator then says it happened."""

    def put_aside():
        deaf = Deaf()
        settlement = again(deaf.plan)
        settlement_at_rest(settlement)
        with settlement.transaction("job") as tx:
            deaf.book_all(tx, "a")
            tx.park("keep")
        (key,) = [e.row.key for one in settlement.transactions() for e in one.effects if e.outcome.value == "unknown"]
        told_by_an_operator(settlement, deaf, key)
        return deaf, settlement

    return put_aside


@pytest.mark.own_time
@pytest.mark.every_store
def test_what_turns_out_before_the_commit_to_have_happened_is_undone_behind_it(told_while_put_aside):
    deaf, settlement = told_while_put_aside()
    assert deaf.log == ["book a", "book b"]
    with settlement.transaction("job") as tx:
        deaf.book_all(tx, "a")
    settlement.recover()
    assert (deaf.log, settlement.residue()) == (["book a", "book b", "undo b"], [])


@pytest.mark.own_time
@pytest.mark.every_store
def test_what_turned_out_to_have_happened_and_is_asked_for_then_is_begun_anew(told_while_put_aside):
    deaf, settlement = told_while_put_aside()
    deaf.hears = True
    entered_until_it_stands(settlement, deaf.plan)
    settlement.recover()
    standing = [deaf.log.count(f"book {at}") - deaf.log.count(f"undo {at}") for at in "ab"]
    assert (standing, settlement.residue(), settlement.in_doubt()) == ([1, 1], [], [])


@pytest.mark.own_time
@pytest.mark.every_store
def test_a_call_that_failed_and_is_not_asked_for_again_is_undone_when_it_happened_after_all(again, settlement_at_rest):
    log = []

    @effect("reversible", scope="room:/{at}", undo=lambda at: log.append(f"undo {at}"))
    def book(at):
        log.append(f"book {at}")
        if at == "b":
            raise ValueError("no room")

    def before(tx):
        tx.call(book, at="a")
        with contextlib.suppress(ValueError):
            tx.call(book, at="b")

    settlement = again(before)
    settlement_at_rest(settlement)
    with settlement.transaction("job") as tx:
        tx.call(book, at="a")
    (key,) = [e.row.key for one in settlement.transactions() for e in one.effects if e.outcome.value == "failed"]
    assert settlement.residue() == []
    settlement.confirm(key, True)
    assert (log, settlement.residue()) == (["book a", "book b", "undo b"], [])


@pytest.fixture
def settlement_at_rest():
    """Have nobody ask again but the test itself."""

    def rest(settlement):
        host_of(settlement).driver.probing.on_doubt = None

    return rest


# ---- a turn that a framework runs


class Ask(Exception):
    """A framework's control flow."""


def turn(settlement, desk, calls, *, asks=(), absent=()):
    batch = run_sync(open_turn(settlement, "trip", run="trip", resumable=True, let_through=(Ask,)))
    seats = [batch.place(host_of(settlement).tools.of(desk.tools[kind]), {"at": at}, call_id=at) for kind, at in calls]
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
    assert (desk.log, settlement.residue(), host_of(settlement).protocol.live) == (["reversible a"], [], {})


@pytest.mark.every_store
def test_a_resumed_turn_without_its_first_call_is_refused_and_all_is_undone(url, open_settlement, desk):
    settlement = open_settlement(url)
    turn(settlement, desk, [("reversible", "a"), ("irreversible", "m"), ("reversible", "b")], asks=["b"])
    turn(settlement, desk, [("reversible", "b")])
    assert desk.log == ["reversible a", "undo reversible a"]
    assert (settlement.residue(), host_of(settlement).protocol.live) == ([], {})


@pytest.mark.every_store
def test_what_a_framework_answers_elsewhere_is_no_orphan(url, open_settlement, desk):
    settlement = open_settlement(url)
    calls = [("reversible", "a"), ("irreversible", "m"), ("reversible", "b")]
    turn(settlement, desk, calls, asks=["b"])
    turn(settlement, desk, calls, absent=["a", "m"])
    assert desk.log == ["reversible a", "reversible b", "irreversible m"]
    assert (settlement.residue(), host_of(settlement).protocol.live) == ([], {})
