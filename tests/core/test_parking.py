"""A transaction waits for a person: whole, or split at its gates; any process may bring the answer."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from settlemark import (
    Cancelled,
    DeclarationError,
    Refused,
    Scope,
    Settlement,
    Stale,
    State,
    UsageError,
    Vetoed,
    WaitTimeout,
    Wounded,
    effect,
)
from settlemark.hosting import host_of
from settlemark.testing import InjectedFault

PATIENCE = 60.0


class Boom(Exception):
    """A failure of the caller's own."""


def book_and_mail(settlement, tools, how, *, reads=(), mails="xy"):
    with settlement.transaction("trip", park=how) as tx:
        for scope in reads:
            tx.read(scope)
        tx.call(tools.book, room="a")
        tx.call(tools.put, cell="1", value=7)
        queued = [tx.call(tools.send, to=to) for to in mails]
        tx.park()
    return queued


def waiting(settlement):
    return [parked.transaction for parked in settlement.parked()]


@pytest.fixture
def two(shared_url, open_settlement):
    """Two processes on one store, as far as a store can tell."""
    return open_settlement(shared_url), open_settlement(shared_url)


# ---- keep


@pytest.mark.every_store
def test_a_parked_transaction_holds_its_scopes_and_nothing_leaves(settlement, tools, world, recorded):
    book_and_mail(settlement, tools, "keep")
    assert world.log == [("book", "a")]
    assert waiting(settlement) == ["trip"]
    (parked,) = settlement.parked()
    assert [gate["arguments"]["to"] for gate in parked.gates] == ["x", "y"]
    with (
        settlement.transaction("other", wait=0) as other,
        pytest.raises(WaitTimeout, match="trip, which holds room:/a"),
    ):
        other.call(tools.book, room="a")
    assert recorded(settlement, "trip")[0][0] == "open"


def test_it_is_put_aside_once_its_calls_have_returned_and_not_before(quick, someone_waits):
    began, goes_on, seen, waits = threading.Event(), threading.Event(), [], someone_waits(quick)

    @effect("reversible", scope="room:/{room}", undo=lambda room: None)
    def book(room):
        began.set()
        return goes_on.wait(PATIENCE)

    def look():
        waits.wait(PATIENCE)
        seen.append(waiting(quick))
        goes_on.set()

    with quick.transaction("trip", park="keep") as tx:
        threads = [threading.Thread(target=tx.call, args=(book,), kwargs={"room": "a"}), threading.Thread(target=look)]
        threads[0].start()
        assert began.wait(PATIENCE)
        threads[1].start()
        tx.park()
    for thread in threads:
        thread.join()
    assert (seen, waiting(quick)) == ([[]], ["trip"])


@pytest.mark.every_store
def test_a_yes_commits_all_of_it(settlement, tools, world):
    first, second = book_and_mail(settlement, tools, "keep")
    assert settlement.answer("trip", approve=True) == [7, "sent to x", "sent to y"]
    assert world.log == [("book", "a"), ("put", "1", 7), ("send", "x", "hello"), ("send", "y", "hello")]
    assert (first.result(), second.result()) == ("sent to x", "sent to y")
    assert waiting(settlement) == []
    assert host_of(settlement).protocol.live == {}


def test_a_no_undoes_all_of_it_and_is_on_record(settlement, tools, world, recorded):
    book_and_mail(settlement, tools, "keep")
    assert settlement.answer("trip", approve=False, because="too expensive") == []
    assert world.log == [("book", "a"), ("cancel", "a")]
    assert recorded(settlement, "trip")[0][0] == "aborted"
    assert settlement.residue() == []
    assert host_of(settlement).protocol.live == {}


@pytest.mark.parametrize(("because", "told"), [("too expensive", "too expensive"), (None, "no"), ("", "no")])
def test_the_record_of_what_a_person_refused_says_why_or_at_least_that_it_was_refused(settlement, tools, because, told):
    book_and_mail(settlement, tools, "keep")
    settlement.answer("trip", approve=False, because=because)
    (trip,) = settlement.transactions()
    assert trip.because == f"vetoed: {told}"


def test_entering_its_name_goes_on_with_it(settlement, tools, world):
    book_and_mail(settlement, tools, "keep")
    with settlement.transaction("trip") as tx:
        tx.call(tools.book, room="a")
        tx.call(tools.put, cell="1", value=7)
        for to in "xy":
            tx.call(tools.send, to=to)
        tx.call(tools.send, to="z")
    assert world.log == [("book", "a"), ("put", "1", 7), *(("send", to, "hello") for to in "xyz")]
    assert waiting(settlement) == []


@pytest.fixture(params=["this process", "the next"])
def coming_back(request, url, kind_of_store, open_settlement):
    """The settlement in which a name is parked, and the one in which it is entered again."""
    if request.param == "this process":
        one = open_settlement(url)
        return lambda: one
    if kind_of_store == "memory":
        pytest.skip("memory is one process's")
    opened = []

    def settle():
        for earlier in opened:
            earlier.close()
        opened.append(open_settlement(url))
        return opened[-1]

    return settle


def no(_footprint):
    return "too expensive"


def park_it(settlement, tools, **said):
    with settlement.transaction("trip", **said) as tx:
        tx.call(tools.book, room="a")
        tx.call(tools.send, to="x")
        tx.park()


@pytest.mark.every_store
@pytest.mark.parametrize("before", [{}, {"before_commit": lambda _footprint: True}])
def test_the_hooks_of_who_goes_on_with_it_are_asked(coming_back, tools, world, recorded, before):
    park_it(coming_back(), tools, **before)
    settlement = coming_back()
    with pytest.raises(Vetoed, match="too expensive"), settlement.transaction("trip", before_commit=no) as tx:
        tx.call(tools.book, room="a")
        tx.call(tools.send, to="x")
    assert world.log == [("book", "a"), ("cancel", "a")]
    assert [state for state, _ in recorded(settlement, "trip")] == ["aborted"]
    assert settlement.residue() == []


def test_hooks_stay_where_who_goes_on_with_it_gives_none(settlement, tools, world):
    park_it(settlement, tools, before_commit=no)
    with pytest.raises(Vetoed, match="too expensive"), settlement.transaction("trip") as tx:
        tx.call(tools.book, room="a")
        tx.call(tools.send, to="x")
    assert world.log == [("book", "a"), ("cancel", "a")]


@pytest.mark.every_store
def test_a_hook_that_said_yes_before_is_asked_no_more_when_another_is_given(coming_back, tools, world):
    park_it(coming_back(), tools, before_commit=no)
    asked = []
    with coming_back().transaction("trip", before_commit=lambda footprint: asked.append(footprint) is None) as tx:
        tx.call(tools.book, room="a")
        tx.call(tools.send, to="x")
    assert [[each["tool"] for each in footprint.effects] for footprint in asked] == [["book", "send"]]
    assert world.log == [("book", "a"), ("send", "x", "hello")]


@pytest.mark.every_store
def test_whoever_goes_on_with_it_says_anew_what_is_said_of_a_transaction(coming_back, tools, world):
    park_it(coming_back(), tools)
    settlement = coming_back()
    said = {
        "before_commit": lambda _footprint: True,
        "wait": 7.0,
        "on_failure": "ask",
        "ask": lambda _failure: "abort",
        "approver": lambda _gate: True,
        "max_age": 60.0,
    }
    fresh = {}
    for name in ("trip", "fresh"):
        with settlement.transaction(name, **said) as tx:
            attempt = tx._attempt
            fresh[name] = {slot: getattr(attempt, slot) for slot in SAID}
            tx.call(tools.book, room="a")
            tx.call(tools.send, to="x")
    assert fresh["trip"] == fresh["fresh"]
    assert fresh["trip"]["approver"] is said["approver"]


SAID = ("hooks", "wait", "on_failure", "ask", "approver", "retries", "max_age", "park", "parks")


@pytest.mark.every_store
def test_what_changed_while_it_waited_undoes_it_when_the_answer_comes(settlement, tools, world):
    with settlement.transaction("older") as older:
        book_and_mail(settlement, tools, "keep", reads=["cell:/2"])
        older.call(tools.put, cell="2", value=1)
        older.commit()
        with pytest.raises(Stale):
            settlement.answer("trip", approve=True)
    assert world.log == [("book", "a"), ("put", "2", 1), ("cancel", "a")]
    assert host_of(settlement).protocol.live == {}


def test_an_older_one_that_needs_its_claim_does_not_wait_for_the_person(settlement, tools, world):
    with settlement.transaction("older", may_touch="room:/a") as older:
        book_and_mail(settlement, tools, "keep")
        older.call(tools.book, room="a")
        assert waiting(settlement) == []
        with pytest.raises(UsageError, match="trip waits for no answer"):
            settlement.answer("trip", approve=True)
    assert world.log == [("book", "a"), ("cancel", "a"), ("book", "a")]


# ---- split


@pytest.mark.every_store
def test_a_split_settles_what_need_not_wait_and_holds_nothing_for_the_rest(settlement, tools, world, recorded):
    first, second = book_and_mail(settlement, tools, "split")
    assert world.log == [("book", "a"), ("put", "1", 7)]
    assert waiting(settlement) == ["trip!2", "trip!3"]
    assert recorded(settlement, "trip") == [
        (
            "committed",
            [
                ("book", "confirmed", None),
                ("put", "confirmed", None),
                ("send", "dropped", "clean"),
                ("send", "dropped", "clean"),
            ],
        )
    ]
    assert recorded(settlement, "trip!2") == [("open", [("send", "queued", None)])]
    assert (first.outcome, second.outcome) == ("queued", "queued")
    assert all(txn.holds == {} for txn in host_of(settlement).protocol.live.values())
    with settlement.transaction("other", wait=0) as other:
        other.call(tools.book, room="a")
        other.call(tools.send, to="x")


def test_each_gate_has_its_own_answer(settlement, tools, world, recorded):
    first, second = book_and_mail(settlement, tools, "split")
    assert settlement.answer("trip!3", approve=True) == ["sent to y"]
    assert settlement.answer("trip!2", approve=False) == []
    assert world.log == [("book", "a"), ("put", "1", 7), ("send", "y", "hello")]
    assert (first.outcome, second.result()) == ("dropped", "sent to y")
    assert recorded(settlement, "trip!2") == [("aborted", [("send", "dropped", "clean")])]
    assert recorded(settlement, "trip!3") == [("committed", [("send", "confirmed", None)])]
    assert waiting(settlement) == []
    assert host_of(settlement).protocol.live == {}


@pytest.mark.every_store
def test_what_it_had_read_is_looked_at_again_when_the_answer_comes(settlement, tools, world):
    book_and_mail(settlement, tools, "split", reads=["cell:/2"])
    with settlement.transaction("other") as other:
        other.call(tools.put, cell="2", value=1)
    with pytest.raises(Stale, match="trip!2 was undone: cell:/2 changed"):
        settlement.answer("trip!2", approve=True)
    assert ("send", "x", "hello") not in world.log
    assert waiting(settlement) == ["trip!3"]


def test_what_it_changed_itself_is_no_change_to_what_it_had_read(settlement, tools, world):
    book_and_mail(settlement, tools, "split", reads=["room:/a", "cell:/1"])
    assert settlement.answer("trip!2", approve=True) == ["sent to x"]


@pytest.mark.parametrize("how", ["keep", "split"])
def test_what_it_had_read_live_is_compared_again_when_the_answer_comes(settlement, tools, world, how):
    tags = [1]
    with settlement.transaction("trip", park=how) as tx:
        tx.read("price:/Ada", live=lambda: tags[-1])
        tx.call(tools.send, to="x")
        tx.park()
    tags.append(2)
    with pytest.raises(Stale, match="price:/Ada changed, from outside, after it was read"):
        settlement.answer(*waiting(settlement), approve=True)
    assert world.log == []
    assert waiting(settlement) == []


def test_what_leaves_with_the_whole_is_no_change_from_outside_to_what_was_split_off(settlement, tools, world):
    with settlement.transaction("trip", park="split") as tx:
        tx.read("cell:/1", live=lambda: world.cells.get("1"))
        tx.call(tools.put, cell="1", value=7)
        tx.call(tools.send, to="x")
        tx.park()
    assert world.log == [("put", "1", 7)]
    assert settlement.answer("trip!1", approve=True) == ["sent to x"]


def test_what_was_held_behind_a_gate_waits_with_it(settlement, tools, world):
    with settlement.transaction("trip") as tx, tx.turn(order="issued") as turn:
        turn.call(tools.put, cell="1", value="before")
        turn.call(tools.send, to="x")
        turn.call(tools.book, room="a")
        turn.call(tools.put, cell="2", value="behind")
        turn.call(tools.send, to="y")
        tx.park("split")
    assert world.log == [("put", "1", "before")]
    assert waiting(settlement) == ["trip!1", "trip!4"]
    settlement.answer("trip!4", approve=True)
    assert settlement.answer("trip!1", approve=True) == ["sent to x", {"confirmation": "R-a"}, "behind"]
    assert world.log[1:] == [("send", "y", "hello"), ("send", "x", "hello"), ("book", "a"), ("put", "2", "behind")]


def test_a_split_without_a_gate_is_a_commit(settlement, tools, world):
    with settlement.transaction("trip") as tx:
        tx.call(tools.put, cell="1", value=1)
        tx.park("split")
    assert world.cells == {"1": 1}
    assert waiting(settlement) == []


def test_a_split_that_does_not_commit_leaves_nothing_to_answer(settlement, tools, world):
    def no(_footprint):
        return False

    with pytest.raises(Vetoed), settlement.transaction("trip", before_commit=no) as tx:
        tx.call(tools.book, room="a")
        tx.call(tools.send, to="x")
        tx.park("split")
    assert world.rooms == set()
    assert waiting(settlement) == []
    assert host_of(settlement).protocol.live == {}


def test_what_was_split_off_from_one_whose_own_release_is_refused_is_dropped_with_it(settlement, tools, world):
    world.fail("put", *[InjectedFault()] * 3)
    with pytest.raises(Refused):
        book_and_mail(settlement, tools, "split")
    assert world.log == [("book", "a"), ("cancel", "a")]
    assert waiting(settlement) == []
    assert host_of(settlement).protocol.live == {}


@pytest.mark.every_store
def test_a_replay_knows_what_was_answered(settlement, tools, world):
    book_and_mail(settlement, tools, "split")
    first, second = book_and_mail(settlement, tools, "split")
    assert (first.outcome, second.outcome) == ("queued", "queued")
    settlement.answer("trip!2", approve=True)
    settlement.answer("trip!3", approve=False)
    first, second = book_and_mail(settlement, tools, "split")
    assert (first.result(), second.outcome) == ("sent to x", "dropped")
    assert world.log.count(("send", "x", "hello")) == 1


# ---- other arguments


@pytest.mark.parametrize(("how", "name"), [("keep", "trip"), ("split", "trip!2")])
def test_an_approval_may_give_other_arguments_and_another_scope(settlement, tools, world, recorded, how, name):
    book_and_mail(settlement, tools, how, mails="x")
    assert settlement.answer(name, approve=True, arguments={"to": "boss", "text": "dear boss"})[-1] == "sent to boss"
    assert world.log[-1] == ("send", "boss", "dear boss")
    assert ("send", "x", "hello") not in world.log
    assert [effect[1:] for effect in recorded(settlement, name)[0][1] if effect[0] == "send"] == [
        ("dropped", "clean"),
        ("confirmed", None),
    ]
    (replayed,) = book_and_mail(settlement, tools, how, mails="x")
    assert replayed.result() == "sent to boss"
    assert host_of(settlement).protocol.live == {}


@pytest.mark.parametrize("mails", ["", "xy"])
def test_other_arguments_need_one_effect_to_go_to_and_nothing_moved(settlement, tools, world, mails):
    book_and_mail(settlement, tools, "keep", mails=mails)
    with pytest.raises(UsageError, match=f"trip has {len(mails)} gated effects, so arguments= does not say which"):
        settlement.answer("trip", approve=True, arguments={"to": "z"})
    assert waiting(settlement) == ["trip"]
    assert settlement.answer("trip", approve=True)[0] == 7


def only_hello(text):
    if text == "interrupt":
        raise KeyboardInterrupt
    if text != "hello":
        raise Boom(f"{text} is not to be said")


UNFIT = {
    "what the tool does not take": {"nope": 1},
    "no scope": {"to": ""},
    "half a character": {"to": "y", "text": "\ud83d"},
    "no JSON": {"to": "y", "text": object()},
    "what its check refuses": {"to": "y", "text": "bad"},
}
given = pytest.mark.parametrize("arguments", UNFIT.values(), ids=UNFIT)


@pytest.fixture
def careful(world):
    """A mail whose text is looked at before it is recorded."""

    @effect("irreversible", scope="mail:/{to}", check=only_hello)
    def send(to, text="hello"):
        world.act("send", to, text)
        return f"sent to {to}"

    return send


def put_aside(settlement, tools, careful, how, **options):
    with settlement.transaction("trip", park=how, **options) as tx:
        tx.call(tools.book, room="a")
        tx.call(careful, to="x")
        tx.park()


@pytest.mark.every_store
@pytest.mark.parametrize("how", ["keep", "split"])
@pytest.mark.parametrize("answers", ["answer", "approve"])
@given
def test_other_arguments_that_do_not_fit_leave_it_as_it_was_and_another_answer_settles_it(
    settlement, tools, careful, world, answers, how, arguments
):
    put_aside(settlement, tools, careful, how)
    said = {"answer": {"approve": True}, "approve": {"by": "ada"}}[answers]
    say = partial(getattr(settlement, answers), **said)
    (name,) = waiting(settlement)
    with pytest.raises(UsageError):
        say(name, arguments=arguments)
    assert (world.log, waiting(settlement)) == ([("book", "a")], [name])
    assert [one.answer for one in settlement.approvals()] == [None]
    say(name, arguments={"to": "z"})
    assert world.log == [("book", "a"), ("send", "z", "hello")]
    assert (waiting(settlement), host_of(settlement).protocol.live) == ([], {})


def test_an_interrupt_of_an_answer_leaves_it_as_it_was(settlement, tools, careful, world):
    put_aside(settlement, tools, careful, "keep")
    with pytest.raises(KeyboardInterrupt):
        settlement.answer("trip", approve=True, arguments={"to": "y", "text": "interrupt"})
    assert (world.log, waiting(settlement)) == ([("book", "a")], ["trip"])
    assert settlement.answer("trip", approve=True) == ["sent to x"]


def test_of_several_answers_the_one_that_does_not_fit_is_refused_alone(settlement, tools, careful, world):
    with settlement.transaction("trip") as tx:
        for to in "xy":
            tx.call(careful, to=to)
        tx.park()
    first, second = [one.key for one in settlement.approvals()]
    settlement.approve(first, by="ada", arguments={"to": "ada"})
    with pytest.raises(
        UsageError, match=r"send refuses these arguments: Boom: bad is not to be said; nothing was recorded"
    ):
        settlement.approve(second, by="bob", arguments={"to": "bob", "text": "bad"})
    assert [(one.answered_by, one.key) for one in settlement.approvals()] == [("ada", first), (None, second)]
    assert settlement.approve(second, by="bob").settled
    assert world.log == [("send", "ada", "hello"), ("send", "y", "hello")]


def test_an_answer_that_a_check_refuses_by_the_time_it_is_gone_on_with_is_taken_back(
    shared_url, open_settlement, tools, judge, world, caplog
):
    strict = []

    @effect("irreversible", scope="mail:/{to}", check=lambda text="hello": strict and only_hello(text))
    def send(to, text="hello"):
        world.act("send", to, text)

    with open_settlement(shared_url) as ended:
        put_aside(ended, tools, send, "keep", before_commit=judge)
    settlement = open_settlement(shared_url)
    answered = settlement.approve("trip", by="ada", arguments=UNFIT["what its check refuses"])
    assert (answered.settled, "hooks" in answered.waits) == (False, True)
    strict.append("from now on")
    put_aside(settlement, tools, send, "keep", before_commit=judge)
    assert (world.log, waiting(settlement), judge.asked) == ([("book", "a")], ["trip"], [])
    assert [one.answer for one in settlement.approvals()] == [None]
    assert "the answer by ada is taken back, since" in caplog.text
    settlement.approve("trip", by="bob")
    assert world.log == [("book", "a"), ("send", "x", "hello")]


# ---- nobody's, and anybody's


@pytest.mark.parametrize(("how", "names"), [("keep", ["trip"]), ("split", ["trip!2", "trip!3"])])
def test_another_live_process_may_answer(two, tools, world, how, names):
    one, other = two
    book_and_mail(one, tools, how)
    assert waiting(other) == names
    for name in names:
        other.answer(name, approve=True)
    assert sorted(world.log) == [("book", "a"), ("put", "1", 7), ("send", "x", "hello"), ("send", "y", "hello")]
    with pytest.raises(UsageError, match="waits for no answer"):
        one.answer(names[0], approve=True)
    one.recover()
    assert host_of(one).protocol.live == host_of(other).protocol.live == {}
    host_of(one).driver.kernel.attempts.clear()


@pytest.mark.parametrize(("how", "names"), [("keep", ["trip"]), ("split", ["trip!2", "trip!3"])])
def test_it_outlives_its_process(tmp_path, tools, world, how, names):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with Settlement(url) as settlement:
        book_and_mail(settlement, tools, how)
    with Settlement(url, keep_open=0) as settlement:
        settlement.recover(keep_open=0)
        assert waiting(settlement) == names
        assert [settlement.answer(name, approve=True)[-1] for name in names][-1] == "sent to y"
    assert world.log[:2] == [("book", "a"), ("put", "1", 7)]
    assert len(world.log) == 4


def test_a_no_from_another_process_undoes_what_the_first_did(two, tools, world):
    one, other = two
    book_and_mail(one, tools, "keep")
    other.answer("trip", approve=False)
    one.recover()
    assert world.log == [("book", "a"), ("cancel", "a")]


def test_a_parked_one_that_is_wounded_is_undone_once(two, tools, world):
    one, other = two
    with other.transaction("older", may_touch="room:/a") as older:
        book_and_mail(one, tools, "keep")
        older.call(tools.book, room="a")
    assert world.log == [("book", "a"), ("cancel", "a"), ("book", "a")]
    assert waiting(one) == []


def test_an_answer_needs_the_tools_declared_and_nothing_moved(tmp_path, world):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with Settlement(url) as settlement:
        wire = settlement.declare("wire_of_nobody", "irreversible", scope="wire:/{to}")

        def wire_of_nobody(to):
            world.act("wire", to)

        with settlement.transaction("trip") as tx:
            tx.call(wire_of_nobody, to="x")
            tx.park("split")
        assert wire.function is None
    with Settlement(url) as settlement:
        with pytest.raises(DeclarationError, match="nothing called wire_of_nobody is declared"):
            settlement.answer("trip!0", approve=True)
        assert waiting(settlement) == ["trip!0"]
        settlement.declare("wire_of_nobody", "irreversible", scope="wire:/{to}", function=wire_of_nobody)
        settlement.answer("trip!0", approve=True)
    assert world.log == [("wire", "x")]


# ---- around


def test_only_what_is_parked_can_be_answered_and_only_once(settlement, tools):
    book_and_mail(settlement, tools, "split")
    settlement.answer("trip!2", approve=True)
    for name in ("trip", "trip!2", "nobody"):
        with pytest.raises(UsageError, match=f"{name} waits for no answer: nothing moved"):
            settlement.answer(name, approve=True)
    with settlement.transaction("open"), pytest.raises(UsageError, match="open waits for no answer"):
        settlement.answer("open", approve=True)
    assert waiting(settlement) == ["trip!3"]


def test_cancelling_the_run_ends_what_waits(settlement, tools, world):
    book_and_mail(settlement, tools, "split")
    settlement.cancel("trip")
    assert waiting(settlement) == []
    assert host_of(settlement).protocol.live == {}
    with pytest.raises(UsageError, match="waits for no answer"):
        settlement.answer("trip!2", approve=True)
    assert world.log == [("book", "a"), ("put", "1", 7)]
    with pytest.raises(Cancelled), settlement.transaction("trip/2"):
        pass


def test_an_error_undoes_it_as_ever(settlement, tools, world):
    with pytest.raises(Boom), settlement.transaction("trip") as tx:
        tx.call(tools.book, room="a")
        tx.park()
        raise Boom
    assert world.log == [("book", "a"), ("cancel", "a")]
    assert waiting(settlement) == []


def test_one_that_was_wounded_before_it_could_be_parked_says_so(settlement, tools, world):
    with settlement.transaction("older", may_touch="room:/a") as older:
        with pytest.raises(Wounded), settlement.transaction("trip") as tx:
            tx.call(tools.book, room="a")
            tx.park()
            older.call(tools.book, room="a")
    assert waiting(settlement) == []


def test_a_part_of_a_call_cannot_be_parked_alone(settlement):
    @effect("opaque")
    def delegate():
        with settlement.transaction() as inner:
            with pytest.raises(UsageError, match="a part of outer cannot be parked alone"):
                inner.park()

    with settlement.transaction("outer") as outer:
        outer.call(delegate)
    assert outer.state is State.COMMITTED


def test_what_is_no_way_to_park_is_refused(quick):
    with pytest.raises(UsageError, match="park='drop': choose one of 'keep', 'split'"):
        quick.transaction("trip", park="drop")
    with quick.transaction("trip") as tx, pytest.raises(UsageError, match="choose one of"):
        tx.park("drop")


async def test_it_is_the_same_awaited(settlement, tools, world):
    async with settlement.transaction("trip") as tx:
        await tx.call(tools.book, room="a")
        await tx.call(tools.send, to="x")
        tx.park("split")
    assert await settlement.aanswer("trip!1", approve=True) == ["sent to x"]
    assert world.log == [("book", "a"), ("send", "x", "hello")]


# ---- the rule


def test_what_was_split_off_depends_on_what_was_read_and_holds_nothing(stage):
    part = stage.protocol.split("trip!0", "trip", [Scope.parse("room:/a")])
    assert (part.parked, part.owner, part.holds, part.state) == (True, "", {}, State.OPEN)
    writer = stage.begin("writer")
    stage.write(writer, "room:/a")
    stage.commit(writer)
    stage.hold(part, "mail:/x")
    stage.protocol.seal(part)
    with pytest.raises(Stale):
        stage.protocol.decide(part)


def test_what_is_put_aside_is_nobodys(stage):
    txn = stage.begin("trip", owner="me")
    stage.protocol.park(txn, parked=True)
    assert (txn.parked, txn.owner) == (True, "")
    stage.protocol.own(txn, "you")
    stage.protocol.park(txn, parked=False)
    assert (txn.parked, txn.owner) == (False, "you")


# ---- hooks, and an answer from a process that does not know them


class Judge:
    """A hook that keeps what it was asked about."""

    def __init__(self):
        self.asked = []
        self.verdict = True

    def __call__(self, footprint):
        self.asked.append([(each["tool"], each["arguments"]) for each in footprint.effects])
        return self.verdict


@pytest.fixture
def judge():
    return Judge()


@pytest.fixture
def elsewhere(shared_url, open_settlement, tools, judge):
    """What puts a transaction with a hook aside, in a process that ends then; returned is another process."""

    def put_aside(how):
        with open_settlement(shared_url) as settlement:
            with settlement.transaction("trip", park=how, before_commit=judge) as tx:
                tx.call(tools.book, room="a")
                tx.call(tools.send, to="x")
                tx.park()
        return open_settlement(shared_url)

    return put_aside


BOOKED, SENT = ("book", {"room": "a"}), ("send", {"to": "x", "text": "hello"})


def test_a_yes_in_a_process_without_its_hooks_is_refused_and_nothing_moved(elsewhere, judge, world, recorded):
    settlement = elsewhere("keep")
    for yes in ({}, {"arguments": {"to": "y"}}):
        with pytest.raises(UsageError, match="before_commit= hooks, and this process does not know them: answer in"):
            settlement.answer("trip", approve=True, **yes)
    assert (world.log, judge.asked) == ([("book", "a")], [])
    assert waiting(settlement) == ["trip"]
    assert recorded(settlement, "trip")[0][0] == "open"


@pytest.mark.parametrize(
    "say_no",
    [
        lambda settlement: settlement.answer("trip", approve=False),
        lambda settlement: settlement.reject("trip", because="no", by="ada"),
    ],
    ids=["answer", "reject"],
)
def test_a_no_needs_none_of_its_hooks(elsewhere, judge, world, say_no):
    settlement = elsewhere("keep")
    say_no(settlement)
    assert (world.log, judge.asked) == ([("book", "a"), ("cancel", "a")], [])
    assert settlement.residue() == []


def test_a_yes_that_is_on_record_waits_until_its_name_is_entered_with_its_hooks(elsewhere, judge, tools, world):
    settlement = elsewhere("keep")
    answered = settlement.approve("trip", by="ada")
    assert (answered.settled, answered.waits) == (
        False,
        "its before_commit= hooks are not known in this process: enter its name with them",
    )
    settlement.recover()
    assert (world.log, judge.asked, waiting(settlement)) == ([("book", "a")], [], ["trip"])
    with settlement.transaction("trip", before_commit=judge) as tx:
        tx.call(tools.book, room="a")
        tx.call(tools.send, to="x")
        tx.park()
    assert judge.asked == [[BOOKED, SENT]]
    assert world.log == [("book", "a"), ("send", "x", "hello")]
    assert waiting(settlement) == []


def test_the_process_that_knows_its_hooks_takes_a_yes_from_elsewhere(two, tools, world, judge):
    first, second = two
    with first.transaction("trip", before_commit=judge) as tx:
        tx.call(tools.book, room="a")
        tx.call(tools.send, to="x")
        tx.park()
    judge.verdict = "too expensive"
    second.approve("trip", by="ada")
    first.recover()
    assert judge.asked == [[BOOKED, SENT]]
    assert world.log == [("book", "a"), ("cancel", "a")]


def test_what_its_hooks_have_seen_before_it_was_split_off_they_need_not_see_again(elsewhere, judge, world):
    settlement = elsewhere("split")
    settlement.answer("trip!1", approve=True)
    assert judge.asked == [[BOOKED, SENT]]
    assert world.log == [("book", "a"), ("send", "x", "hello")]


def test_other_arguments_for_what_was_split_off_are_refused_where_its_hooks_are_not_known(elsewhere, judge, world):
    settlement = elsewhere("split")
    with pytest.raises(UsageError, match="before_commit= hooks"):
        settlement.answer("trip!1", approve=True, arguments={"to": "y"})
    answered = settlement.approve("trip!1", by="ada", arguments={"to": "y"})
    assert (answered.settled, "before_commit= hooks" in answered.waits) == (False, True)
    assert (world.log, waiting(settlement)) == ([("book", "a")], ["trip!1"])
    assert judge.asked == [[BOOKED, SENT]]


@pytest.mark.every_store
@pytest.mark.parametrize("verdict", [True, "too expensive"])
def test_other_arguments_for_what_was_split_off_are_shown_to_its_hooks(settlement, tools, judge, world, verdict):
    with settlement.transaction("trip", park="split", before_commit=judge) as tx:
        tx.call(tools.book, room="a")
        tx.call(tools.send, to="x")
        tx.park()
    judge.verdict = verdict
    if verdict is True:
        settlement.answer("trip!1", approve=True, arguments={"to": "y"})
    else:
        with pytest.raises(Vetoed, match="too expensive"):
            settlement.answer("trip!1", approve=True, arguments={"to": "y"})
    assert judge.asked == [[BOOKED, SENT], [("send", {"to": "y", "text": "hello"})]]
    assert world.log == [("book", "a"), *([("send", "y", "hello")] if verdict is True else [])]
    assert waiting(settlement) == []
