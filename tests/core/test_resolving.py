"""What is in doubt is asked about until it is known, and what turns out too late is undone or named."""

from __future__ import annotations

import asyncio
import threading

import pytest

from settlemark import (
    UNKNOWN,
    Doubt,
    InDoubt,
    Outcome,
    PayloadError,
    Retries,
    Stale,
    State,
    Tag,
    UsageError,
    current_call,
    effect,
)
from settlemark.hosting import host_of, run_sync

pytestmark = [pytest.mark.own_time, pytest.mark.every_store]


class Boom(Exception):
    """A failure of the caller's own."""


class Desk:
    """A booking desk: it books, may lose its answer, and may be asked afterwards; its log is the truth."""

    def __init__(self):
        self.log = []
        self.booked = {}  # by key
        self.lose = []  # raised by the next bookings once they are made; `None` answers
        self.blind = 0  # so many questions are answered with UNKNOWN (or the exception that is set)
        self.blindness = UNKNOWN

    def tool(self, kind="reversible", name="book", **parts):
        if kind == "reversible":
            parts.setdefault("undo", self.cancel)

        @effect(kind, scope="room:/{room}", name=name, **parts)
        def book(room):
            key = current_call().key
            self.log.append(f"book {room}")
            self.booked[key] = {"id": len(self.booked) + 1}
            lost = self.lose.pop(0) if self.lose else None
            if lost is not None:
                raise lost
            return self.booked[key]

        return book

    def cancel(self, room, result, key):
        self.log.append(f"cancel {room} {result['id']} {key}")

    def status(self, key):
        self.log.append("asked")
        if self.blind:
            self.blind -= 1
            if isinstance(self.blindness, Exception):
                raise self.blindness
            return self.blindness
        return self.booked.get(key)

    def forget(self):
        """The booking never arrived."""
        self.booked.clear()

    @property
    def acts(self):
        return [line for line in self.log if line != "asked"]


@pytest.fixture
def desk():
    return Desk()


@pytest.fixture
def later(clock):
    """Let so many seconds pass, and what is due be asked about."""

    def let_pass(settlement, seconds=1.0):
        run_sync(host_of(settlement).driver.resolution.ask_again())
        clock.advance(seconds)
        run_sync(host_of(settlement).driver.resolution.ask_again())

    return let_pass


def lose(settlement, tool, name="trip", *, undone=True):
    """Make a call whose answer is lost and of which nobody can tell; return its key."""
    keys = []
    try:
        with settlement.transaction(name) as tx:
            with pytest.raises(InDoubt) as doubt:
                tx.call(tool, room="a")
            keys.append(doubt.value.key)
            if undone:
                raise Boom
    except Boom:
        pass
    return keys[0]


def told(settlement, key="trip#1/0"):
    """What is on record of an effect."""
    recorded = host_of(settlement).ledger.read(lambda book: book.find(key))
    found = next(e for e in recorded.effects if e.row.key == key)
    return found.outcome.value, found.tag and found.tag.value


def note(settlement, key="trip#1/0"):
    recorded = host_of(settlement).ledger.read(lambda book: book.find(key))
    return next(e for e in recorded.effects if e.row.key == key).disposed.told


# ---- within the call


@pytest.mark.parametrize("blindness", [UNKNOWN, ValueError("the desk is closed")], ids=["cannot tell", "raises"])
def test_a_probe_that_cannot_tell_is_asked_again_after_a_pause(settlement, desk, clock, recorded, blindness):
    desk.lose, desk.blind, desk.blindness = [TimeoutError()], 2, blindness
    with settlement.transaction("trip") as tx:
        assert tx.call(desk.tool(probe=desk.status), room="a") == {"id": 1}
    assert desk.log == ["book a", "asked", "asked", "asked"]
    assert clock.monotonic() == pytest.approx(0.05 + 0.075)
    assert recorded(settlement, "trip") == [("committed", [("book", "confirmed", None)])]
    assert settlement.in_doubt() == []


def test_after_its_tries_it_is_in_doubt_and_the_agent_is_told_not_to_repeat_it(settlement, desk):
    desk.lose, desk.blind = [TimeoutError("late")], 3
    with settlement.transaction("trip") as tx:
        with pytest.raises(
            InDoubt, match=r"unknown \(TimeoutError: late\): do not repeat it; settlemark goes on asking"
        ):
            tx.call(desk.tool(probe=desk.status), room="a")
        assert desk.log == ["book a", "asked", "asked", "asked"]


def test_a_failure_that_is_no_loss_is_asked_about_once(quick, desk):
    desk.lose, desk.blind = [Boom("refused")], -1
    with pytest.raises(Boom), quick.transaction("trip") as tx:
        tx.call(desk.tool(probe=desk.status), room="a")
    assert desk.log == ["book a", "asked"]


async def test_who_is_cancelled_while_asking_does_not_forget_that_it_may_have_happened(
    url, open_settlement, desk, recorded
):
    settlement = open_settlement(url, retries=Retries(first=60, most=60))
    asked = asyncio.Event()

    async def status(key):
        found = desk.booked[key] if asked.is_set() else UNKNOWN
        asked.set()
        return found

    async def work():
        async with settlement.transaction("trip") as tx:
            await tx.call(desk.tool(probe=status), room="a")

    desk.lose = [TimeoutError()]
    task = asyncio.create_task(work())
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert desk.acts == ["book a", "cancel a 1 trip#1/0"]
    assert recorded(settlement, "trip") == [("aborted", [("book", "undone", "clean")])]


# ---- asked again, later


def test_a_truth_that_comes_before_the_end_is_the_outcome_of_the_call(settlement, desk, later):
    desk.lose, desk.blind = [TimeoutError()], 3
    with settlement.transaction("trip") as tx:
        with pytest.raises(InDoubt):
            tx.call(desk.tool(probe=desk.status), room="a")
        assert [d.key for d in settlement.in_doubt()] == ["trip#1/0"]
        later(settlement)
        assert told(settlement) == ("confirmed", None)
    assert (told(settlement), settlement.in_doubt(), settlement.residue()) == (("confirmed", None), [], [])
    assert desk.acts == ["book a"]


def test_who_asks_again_is_told_of_a_doubt_while_its_transaction_is_still_open(settlement, desk):
    host_of(settlement).driver.probing.on_doubt = lambda: doubts.append([d.key for d in settlement.in_doubt()])
    doubts, desk.lose, desk.blind = [], [TimeoutError()], 3
    with settlement.transaction("trip") as tx:
        with pytest.raises(InDoubt):
            tx.call(desk.tool(probe=desk.status), room="a")
        assert doubts == [["trip#1/0"]]


def test_a_truth_that_comes_before_an_abort_is_undone_with_it(settlement, desk, later, recorded):
    desk.lose, desk.blind = [TimeoutError()], 3
    with pytest.raises(Boom), settlement.transaction("trip") as tx:
        with pytest.raises(InDoubt):
            tx.call(desk.tool(probe=desk.status), room="a")
        later(settlement)
        raise Boom
    assert recorded(settlement, "trip") == [("aborted", [("book", "undone", "clean")])]
    assert desk.acts == ["book a", "cancel a 1 trip#1/0"]
    assert [t.row.name for t in settlement.transactions()] == ["trip"]


@pytest.mark.parametrize("arrived", [True, False])
def test_what_a_commit_left_in_doubt_is_found_out_and_is_residue_no_more(settlement, desk, later, arrived, recorded):
    desk.lose, desk.blind = [TimeoutError()], 3
    lose(settlement, desk.tool(probe=desk.status), undone=False)
    assert told(settlement) == ("unknown", "unresolved")
    if not arrived:
        desk.forget()
    later(settlement)
    outcome = "confirmed" if arrived else "failed"
    assert recorded(settlement, "trip") == [("committed", [("book", outcome, None)])]
    assert (settlement.in_doubt(), settlement.residue(), desk.acts) == ([], [], ["book a"])


def test_what_happened_although_it_was_undone_is_undone_now(settlement, desk, later, recorded):
    desk.lose, desk.blind = [TimeoutError()], 6
    lose(settlement, desk.tool(probe=desk.status))
    assert recorded(settlement, "trip") == [("aborted", [("book", "unknown", "unresolved")])]
    later(settlement)
    assert desk.acts == ["book a", "cancel a 1 trip#1/0"]
    assert recorded(settlement, "trip") == [("aborted", [("book", "undone", "clean")])]
    assert recorded(settlement, "trip#1/mend/0") == [("aborted", [("book", "undone", "clean")])]
    assert note(settlement) == (
        "undone after its transaction was (its counterparty, probed again, 2026-01-01 12:00 UTC)"
    )
    assert (settlement.in_doubt(), settlement.residue(), host_of(settlement).protocol.live) == ([], [], {})


def test_what_did_not_happen_leaves_nothing(settlement, desk, later, recorded):
    desk.lose, desk.blind = [TimeoutError()], 6
    lose(settlement, desk.tool(probe=desk.status))
    desk.forget()
    later(settlement)
    assert recorded(settlement, "trip") == [("aborted", [("book", "failed", "clean")])]
    assert (settlement.in_doubt(), settlement.residue(), desk.acts) == ([], [], ["book a"])


def test_what_happened_too_late_and_has_no_undo_is_named(settlement, desk, later):
    desk.lose, desk.blind = [TimeoutError()], 6
    lose(settlement, desk.tool("opaque", probe=desk.status))
    later(settlement)
    assert told(settlement) == ("confirmed", "unresolved")
    assert "it happened after its transaction was undone, and opaque effects of book have no undo" in note(settlement)
    assert (settlement.in_doubt(), [r.key for r in settlement.residue()]) == ([], ["trip#1/0"])


def test_a_late_undo_with_a_cost_is_undone_and_the_cost_named(quick, desk, later):
    desk.lose, desk.blind = [TimeoutError()], 6
    lose(quick, desk.tool(probe=desk.status, cost="a fee of 20"))
    later(quick)
    assert desk.acts == ["book a", "cancel a 1 trip#1/0"]
    assert told(quick) == ("undone", "unresolved")
    assert "a cost stays: a fee of 20" in note(quick)


def test_a_late_undo_that_fails_is_named_and_an_operator_has_it_tried_again(settlement, desk, later):
    broken = [True]

    def cancel(room, result, key):
        if broken:
            raise ConnectionError("the desk is closed")
        desk.cancel(room, result, key)

    desk.lose, desk.blind = [TimeoutError()], 6
    lose(settlement, desk.tool(probe=desk.status, undo=cancel))
    later(settlement)
    assert told(settlement) == ("confirmed", "unresolved")
    assert "its undo failed 3 times: ConnectionError: the desk is closed" in note(settlement)
    assert [r.key for r in settlement.residue()] == ["trip#1/0"]
    broken.clear()
    assert settlement.resolve("trip#1/0", "confirmed", by="ada", note="they are open again") is Outcome.UNDONE
    assert desk.acts == ["book a", "cancel a 1 trip#1/0"]
    assert (told(settlement), settlement.residue()) == (("undone", "clean"), [])
    assert "ada, 2026-01-01 12:00 UTC: they are open again" in note(settlement)


def test_the_pauses_between_two_questions_grow_from_a_second_to_five_minutes(quick, desk, clock):
    desk.lose, desk.blind = [TimeoutError()], -1
    lose(quick, desk.tool(probe=desk.status))
    desk.log.clear()
    asked = []
    run_sync(host_of(quick).driver.resolution.ask_again())
    began = clock.monotonic()
    for _ in range(12):
        clock.advance(host_of(quick).driver.resolution.until_due())
        run_sync(host_of(quick).driver.resolution.ask_again())
        asked.append(clock.monotonic() - began)
    assert desk.log == ["asked"] * 12
    pauses = [after - before for before, after in zip([0.0, *asked], asked, strict=False)]
    assert pauses == pytest.approx([1, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300])


def test_before_its_time_nothing_is_asked(quick, desk, clock):
    desk.lose, desk.blind = [TimeoutError()], 6
    lose(quick, desk.tool(probe=desk.status))
    desk.log.clear()
    run_sync(host_of(quick).driver.resolution.ask_again())
    clock.advance(0.5)
    run_sync(host_of(quick).driver.resolution.ask_again())
    assert desk.log == []


def test_what_nobody_can_be_asked_about_is_left_to_an_operator(quick, desk, later):
    desk.lose = [TimeoutError()]
    lose(quick, desk.tool())
    later(quick, 600)
    assert host_of(quick).driver.resolution.until_due() is None
    assert told(quick) == ("unknown", "unresolved")


def test_a_settlement_asks_by_itself(url, open_settlement):
    settlement, answers, cancelled = open_settlement(url), [UNKNOWN] * 6, threading.Event()

    @effect("reversible", scope="room:/a", undo=cancelled.set, probe=lambda: answers.pop() if answers else "booked")
    def book():
        raise TimeoutError

    with pytest.raises(InDoubt), settlement.transaction("trip") as tx:
        tx.call(book)
    assert cancelled.wait(20)


# ---- a release in doubt


def in_doubt_release(settlement, desk, *, alone=False, **parts):
    with pytest.raises(InDoubt), settlement.transaction("trip") as tx:
        if not alone:
            tx.call(desk.tool(name="other"), room="b")
        desk.lose = [TimeoutError()]
        tx.call(desk.tool("irreversible", name="mail", **parts), room="a")


def test_a_release_in_doubt_that_had_left_completes_its_commit(settlement, desk, later, recorded):
    desk.blind = 3
    in_doubt_release(settlement, desk, probe=desk.status)
    assert recorded(settlement, "trip") == [
        ("committed", [("other", "confirmed", None), ("mail", "unknown", "unresolved")])
    ]
    later(settlement)
    assert recorded(settlement, "trip") == [("committed", [("other", "confirmed", None), ("mail", "confirmed", None)])]
    assert (settlement.in_doubt(), settlement.residue()) == ([], [])


def test_a_release_in_doubt_that_never_left_is_named_since_the_rest_stands_without_it(settlement, desk, later):
    desk.blind = 3
    in_doubt_release(settlement, desk, probe=desk.status)
    desk.booked.pop("trip#1/1")
    later(settlement)
    assert told(settlement, "trip#1/1") == ("failed", "partial_commit")
    assert "it never left, and the rest of its transaction stands" in note(settlement, "trip#1/1")
    assert settlement.in_doubt() == []


def test_a_release_in_doubt_that_was_all_there_was_leaves_nothing(quick, desk, later):
    desk.blind = 3
    in_doubt_release(quick, desk, probe=desk.status, alone=True)
    desk.forget()
    later(quick)
    assert (told(quick), quick.residue()) == (("failed", None), [])


# ---- a late undo and the others on its scope


def test_a_late_undo_waits_for_whoever_is_at_work_on_its_scope(settlement, open_here, desk, later):
    desk.lose, desk.blind = [TimeoutError()], 6
    key = lose(settlement, desk.tool(probe=desk.status))
    host_of(settlement).patience = 0
    with settlement.transaction("other") as other:
        other.call(desk.tool(name="take"), room="a")
        assert settlement.confirm(key, {"id": 1}) is Outcome.CONFIRMED
        assert desk.acts == ["book a", "book a"]
        assert told(settlement) == ("confirmed", "unresolved")
        assert [r.key for r in settlement.residue()] == [key]
        assert "is to be undone" in note(settlement)
    later(settlement)
    assert desk.acts == ["book a", "book a", "cancel a 1 trip#1/0"]
    assert (told(settlement), settlement.residue()) == (("undone", "clean"), [])


def test_who_read_the_scope_before_a_late_undo_is_stale_after_it(settlement, desk):
    desk.lose = [TimeoutError()]
    key = lose(settlement, desk.tool())
    with pytest.raises(Stale, match="room:/a changed after it was read"), settlement.transaction("other") as other:
        other.read("room:/a")
        other.call(desk.tool(name="note"), room="b")
        settlement.confirm(key, {"id": 1})
    assert desk.acts == ["book a", "book b", "cancel a 1 trip#1/0", "cancel b 2 other#1/0"]


def test_each_late_effect_is_undone_by_itself(settlement, desk, later):
    tool = desk.tool(probe=desk.status)
    desk.lose, desk.blind = [TimeoutError(), TimeoutError()], 12
    with pytest.raises(Boom), settlement.transaction("trip") as tx:
        for room in "ab":
            with pytest.raises(InDoubt):
                tx.call(tool, room=room)
        raise Boom
    later(settlement)
    assert sorted(desk.acts) == ["book a", "book b", "cancel a 1 trip#1/0", "cancel b 2 trip#1/1"]
    assert (told(settlement, "trip#1/0"), told(settlement, "trip#1/1")) == (("undone", "clean"),) * 2


def test_a_late_effect_of_a_cancelled_run_is_undone_too(settlement, desk):
    desk.lose = [TimeoutError()]
    key = lose(settlement, desk.tool())
    settlement.cancel("trip")
    assert settlement.confirm(key, {"id": 1}) is Outcome.UNDONE
    assert desk.acts == ["book a", "cancel a 1 trip#1/0"]


def test_a_late_effect_of_a_transaction_that_was_tried_again_is_undone_and_the_new_one_stays(settlement, desk):
    desk.lose = [TimeoutError()]
    tool = desk.tool()
    key = lose(settlement, tool)
    with settlement.transaction("trip") as tx:
        tx.call(tool, room="a")
    settlement.confirm(key, {"id": 1})
    assert desk.acts == ["book a", "book a", "cancel a 1 trip#1/0"]
    assert (told(settlement, "trip#1/0"), told(settlement, "trip#2/0")) == (("undone", "clean"), ("confirmed", None))


# ---- told by a webhook


def test_a_confirmation_is_the_result_of_a_call_whose_answer_is_lost_after_it(settlement, desk):
    @effect("opaque", scope="room:/a")
    def book():
        settlement.confirm(current_call().key, {"id": 7})  # the webhook is faster than the answer
        raise TimeoutError

    with settlement.transaction("trip") as tx:
        assert tx.call(book) == {"id": 7}
    assert (told(settlement), settlement.in_doubt()) == (("confirmed", None), [])


def test_a_confirmation_reaches_a_call_that_another_process_made(tmp_path, open_here, desk):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    worker, webhook = open_here(url), open_here(url)
    desk.lose = [TimeoutError()]
    with worker.transaction("trip") as tx:
        with pytest.raises(InDoubt):
            tx.call(desk.tool("opaque"), room="a")
        assert webhook.confirm("trip#1/0", {"id": 1}) is Outcome.CONFIRMED
    assert tx.state is State.COMMITTED
    assert (told(worker), worker.residue(), worker.in_doubt()) == (("confirmed", None), [], [])


def test_a_confirmation_in_a_process_without_the_tool_is_undone_by_one_that_has_it(tmp_path, open_here, desk, later):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    worker, webhook = open_here(url), open_here(url)
    host_of(webhook).tools.recorded_as = host_of(webhook).driver.kernel.declaration = lambda _tool, _version=None: None
    desk.lose = [TimeoutError()]
    key = lose(worker, desk.tool())
    assert webhook.confirm(key, {"id": 1}) is Outcome.CONFIRMED
    assert [d.remedy.split(",")[0] for d in webhook.in_doubt()] == ["import or declare book in this process"]
    assert [r.key for r in webhook.residue()] == [key]
    later(worker)
    assert desk.acts == ["book a", "cancel a 1 trip#1/0"]
    assert (told(webhook), webhook.in_doubt(), webhook.residue()) == (("undone", "clean"), [], [])


def test_a_confirmation_after_the_abort_is_undone_and_twice_is_as_good_as_once(settlement, desk):
    desk.lose = [TimeoutError()]
    key = lose(settlement, desk.tool())
    for _ in range(2):
        assert settlement.confirm(key, {"id": 1}, note="wire.completed") is Outcome.UNDONE
    assert desk.acts == ["book a", "cancel a 1 trip#1/0"]
    assert (told(settlement), settlement.residue(), settlement.in_doubt()) == (("undone", "clean"), [], [])
    assert note(settlement) == (
        "undone after its transaction was (settlement.confirm, 2026-01-01 12:00 UTC: wire.completed)"
    )


def test_none_says_as_a_probe_would_that_it_did_not_happen(settlement, desk):
    desk.lose = [TimeoutError()]
    key = lose(settlement, desk.tool())
    assert settlement.confirm(key, None) is Outcome.FAILED
    assert settlement.confirm(key, None) is Outcome.FAILED
    assert (told(settlement), settlement.residue(), desk.acts) == (("failed", "clean"), [], ["book a"])


def test_unknown_says_nothing(quick, desk):
    desk.lose = [TimeoutError()]
    key = lose(quick, desk.tool())
    assert quick.confirm(key, UNKNOWN) is Outcome.UNKNOWN
    assert told(quick) == ("unknown", "unresolved")


async def test_an_event_loop_confirms_and_resolves_too(settlement, desk):
    desk.lose = [TimeoutError(), TimeoutError()]
    tool = desk.tool()
    first = await asyncio.to_thread(lose, settlement, tool)
    second = await asyncio.to_thread(lose, settlement, tool)
    assert await settlement.aconfirm(first, {"id": 1}) is Outcome.UNDONE
    assert await settlement.aresolve(second, "absent", by="ada") is Outcome.FAILED


def test_a_key_nobody_knows_is_refused_with_where_it_was_looked_for(url, open_here, desk):
    settlement = open_here(url, namespace="berlin")
    with settlement.transaction("trip") as tx:
        tx.call(desk.tool(), room="a")
    for say in (lambda: settlement.confirm("trip#1/0", {}), lambda: settlement.resolve("trip#1/0", "absent", by="ada")):
        with pytest.raises(
            UsageError, match="no effect with the key 'trip#1/0' is on record in the namespace 'berlin'"
        ):
            say()
    assert settlement.confirm("berlin:trip#1/0", {"id": 1}) is Outcome.CONFIRMED
    assert told(settlement, "berlin:trip#1/0") == ("confirmed", None)


def test_what_was_not_sent_yet_cannot_be_confirmed_and_nothing_changed(settlement, desk):
    with settlement.transaction("trip") as tx:
        mail = tx.call(desk.tool("irreversible", name="mail"), room="a")
        with pytest.raises(UsageError, match="mail on room:/a has not been sent yet: nothing was recorded"):
            settlement.confirm(mail.key, {"id": 1})
        assert told(settlement) == ("queued", None)
    assert (told(settlement), desk.acts) == (("confirmed", None), ["book a"])


def test_an_outcome_that_is_no_json_is_refused_and_nothing_changed(quick, desk):
    desk.lose = [TimeoutError()]
    key = lose(quick, desk.tool())
    with pytest.raises(PayloadError, match="which JSON cannot hold"):
        quick.confirm(key, {1, 2})
    with pytest.raises(UsageError, match="an effect's key is a text"):
        quick.confirm(7, {})
    assert (told(quick), desk.acts) == (("unknown", "unresolved"), ["book a"])


def test_of_two_truths_the_first_stays_and_the_contradiction_is_logged_and_named(settlement, desk, caplog):
    with settlement.transaction("trip") as tx:
        tx.call(desk.tool(), room="a")
    for _ in range(2):
        assert settlement.confirm("trip#1/0", {"id": 9}) is Outcome.CONFIRMED
    assert told(settlement) == ("confirmed", "unresolved")
    assert [r.result for r in settlement.residue()] == [{"id": 1}]
    assert note(settlement) == (
        'told otherwise: that it happened, with {"id":9} (settlement.confirm, 2026-01-01 12:00 UTC);'
        " what was recorded first stays: ask the counterparty"
    )
    assert [r.levelname for r in caplog.records if "told otherwise" in r.getMessage()] == ["WARNING"]
    assert settlement.resolve("trip#1/0", "confirmed", by="ada", note="it was a test") is Outcome.CONFIRMED
    assert (told(settlement), settlement.residue()) == (("confirmed", None), [])


def test_what_was_told_to_be_absent_and_then_to_have_happened_is_named_and_not_undone(settlement, desk):
    desk.lose = [TimeoutError()]
    key = lose(settlement, desk.tool())
    settlement.confirm(key, None)
    assert settlement.confirm(key, {"id": 1}) is Outcome.FAILED
    assert (told(settlement), desk.acts) == (("failed", "unresolved"), ["book a"])


def test_a_call_thought_to_have_failed_that_happened_after_all_is_undone(settlement, desk):
    desk.lose = [Boom("503")]
    with pytest.raises(Boom), settlement.transaction("trip") as tx:
        tx.call(desk.tool(), room="a")
    assert told(settlement) == ("failed", "clean")
    assert settlement.confirm("trip#1/0", {"id": 1}) is Outcome.UNDONE
    assert desk.acts == ["book a", "cancel a 1 trip#1/0"]


def test_one_that_happened_after_all_in_a_commit_that_did_not_count_on_it_is_named(settlement, desk):
    desk.lose = [Boom("503")]
    with settlement.transaction("trip") as tx:
        with pytest.raises(Boom):
            tx.call(desk.tool(), room="a")
    assert settlement.confirm("trip#1/0", {"id": 1}) is Outcome.CONFIRMED
    assert told(settlement) == ("confirmed", "unresolved")
    assert "it happened after all, although its call had failed" in note(settlement)


class Racing:
    """A probe that cannot tell; while it is asked for the n-th time, a webhook does."""

    def __init__(self, desk, at, outcome):
        self.desk, self.at, self.outcome, self.settlement = desk, at, outcome, None

    def __call__(self, key):
        self.at -= 1
        if self.at == 0:
            self.settlement.confirm(key, self.outcome)
        return UNKNOWN


def racing(open_here, clock, desk, url, at, outcome):
    settlement = open_here(url, retries=clock.retries(tries=1))
    probe = Racing(desk, at, outcome)
    probe.settlement = settlement
    desk.lose = [TimeoutError()]
    return settlement, probe


@pytest.mark.parametrize(("outcome", "becomes"), [({"id": 1}, "confirmed"), (None, "failed")])
def test_a_truth_that_comes_while_the_call_gives_up_is_not_written_over(
    url, open_here, clock, desk, recorded, outcome, becomes
):
    settlement, probe = racing(open_here, clock, desk, url, 1, outcome)
    with settlement.transaction("trip") as tx:
        with pytest.raises(InDoubt):
            tx.call(desk.tool("opaque", probe=probe), room="a")
        assert told(settlement) == (becomes, None)
    assert recorded(settlement, "trip") == [("committed", [("book", becomes, None)])]
    assert settlement.residue() == []


@pytest.mark.parametrize(("outcome", "becomes"), [({"id": 1}, "confirmed"), (None, "failed")])
def test_a_truth_that_comes_while_the_release_gives_up_is_not_written_over(
    url, open_here, clock, desk, outcome, becomes
):
    settlement, probe = racing(open_here, clock, desk, url, 1, outcome)
    with pytest.raises(InDoubt), settlement.transaction("trip") as tx:
        tx.call(desk.tool("irreversible", name="mail", probe=probe), room="a")
    expected = (becomes, None) if outcome else ("unknown", "unresolved")  # "not sent" is no news of what is under way
    assert told(settlement) == expected


def test_a_truth_that_comes_while_its_undo_gives_up_is_undone_after_it(url, open_here, clock, desk, later):
    settlement, probe = racing(open_here, clock, desk, url, 2, {"id": 1})
    with pytest.raises(InDoubt), settlement.transaction("trip") as tx:
        tx.call(desk.tool(probe=probe), room="a")
    assert (told(settlement), desk.acts) == (("confirmed", "unresolved"), ["book a"])
    assert note(settlement).startswith("it happened after its transaction was undone, and is to be undone (told that")
    later(settlement)
    assert (told(settlement), desk.acts) == (("undone", "clean"), ["book a", "cancel a 1 trip#1/0"])
    assert settlement.residue() == []


def test_a_failure_that_its_undo_finds_to_have_happened_after_all_is_undone_after_it(settlement, desk, later):
    desk.lose = [Boom("503")]
    with pytest.raises(Boom), settlement.transaction("trip") as tx:
        with pytest.raises(Boom):
            tx.call(desk.tool(), room="a")
        assert settlement.confirm("trip#1/0", {"id": 1}) is Outcome.CONFIRMED
        raise Boom
    assert told(settlement) == ("confirmed", "unresolved")
    later(settlement)
    assert (told(settlement), desk.acts) == (("undone", "clean"), ["book a", "cancel a 1 trip#1/0"])


# ---- decided by an operator


def test_an_operator_sees_what_is_in_doubt_since_when_why_and_what_to_do(settlement, desk, clock):
    desk.lose = [TimeoutError("late")]
    clock.advance(60)
    lose(settlement, desk.tool())
    assert settlement.in_doubt() == [
        Doubt(
            transaction="trip", attempt=1, tool="book", scope="room:/a", key="trip#1/0", since=clock() ,
            why="TimeoutError: late",
            remedy="ask its counterparty by the key, then"
            ' settlement.resolve(\'trip#1/0\', "confirmed" | "absent" | "give_up", by=…)',
        )
    ]  # fmt: skip # a list of names and values


@pytest.mark.parametrize(
    ("verdict", "became", "acts", "left"),
    [
        ("confirmed", ("undone", "clean"), ["book a", "cancel a 7 trip#1/0"], 0),
        ("absent", ("failed", "clean"), ["book a"], 0),
        ("give_up", ("unknown", "unresolved"), ["book a"], 1),
    ],
)
def test_an_operators_verdict_is_carried_out_and_on_record_with_who_when_and_why(
    settlement, desk, verdict, became, acts, left
):
    desk.lose = [TimeoutError()]
    key = lose(settlement, desk.tool())
    result = {"id": 7} if verdict == "confirmed" else None
    outcome = settlement.resolve(key, verdict, by="ada", note="called the desk", result=result)
    assert (outcome.value, told(settlement)) == (became[0], became)
    assert desk.acts == acts
    assert settlement.in_doubt() == []
    assert len(settlement.residue()) == left
    assert "ada, 2026-01-01 12:00 UTC: called the desk" in note(settlement)


def test_what_was_given_up_is_asked_about_no_more_and_a_late_truth_still_counts(settlement, desk, later):
    desk.lose, desk.blind = [TimeoutError()], 6
    key = lose(settlement, desk.tool(probe=desk.status))
    settlement.resolve(key, "give_up", by="ada", note="the desk is bankrupt")
    desk.log.clear()
    later(settlement, 600)
    assert desk.log == []
    assert [r.note for r in settlement.residue()] == ["given up by ada, 2026-01-01 12:00 UTC: the desk is bankrupt"]
    assert settlement.confirm(key, {"id": 1}) is Outcome.UNDONE
    assert settlement.residue() == []


@pytest.mark.parametrize("of", ["doubt", "residue", "error"])
def test_whatever_has_the_key_names_the_effect(quick, desk, of):
    desk.lose = [TimeoutError()]
    with pytest.raises(InDoubt) as error, quick.transaction("trip") as tx:
        tx.call(desk.tool(), room="a")
    what = {"doubt": quick.in_doubt()[0], "residue": quick.residue()[0], "error": error.value}[of]
    assert quick.resolve(what, "absent", by="ada") is Outcome.FAILED


def test_residue_that_was_seen_to_by_hand_is_residue_no_more(settlement, desk):
    with pytest.raises(Boom), settlement.transaction("trip") as tx:
        tx.call(desk.tool("opaque"), room="a")
        raise Boom
    assert told(settlement) == ("confirmed", "unresolved")
    assert settlement.resolve("trip#1/0", "absent", by="ada", note="cancelled by phone") is Outcome.UNDONE
    assert (told(settlement), settlement.residue()) == (("undone", "clean"), [])
    assert note(settlement) == "seen to by hand (ada, 2026-01-01 12:00 UTC: cancelled by phone)"


@pytest.mark.parametrize(
    ("verdict", "options", "match"),
    [
        ("maybe", {"by": "ada"}, "verdict='maybe': choose one of 'confirmed', 'absent', 'give_up', 'dealt_with'"),
        ("absent", {"by": " "}, "by= is who decides"),
        ("absent", {"by": "ada", "result": 1}, 'result= belongs to "confirmed"'),
    ],
)
def test_a_verdict_that_says_nothing_is_refused_and_nothing_changed(quick, desk, verdict, options, match):
    desk.lose = [TimeoutError()]
    key = lose(quick, desk.tool())
    with pytest.raises(UsageError, match=match):
        quick.resolve(key, verdict, **options)
    assert (told(quick), [d.key for d in quick.in_doubt()]) == (("unknown", "unresolved"), [key])


def test_nothing_that_is_settled_or_still_open_can_be_given_up(quick, desk):
    with quick.transaction("trip") as tx:
        tx.call(desk.tool(), room="a")
    with pytest.raises(UsageError, match="nothing of it is left to give up"):
        quick.resolve("trip#1/0", "give_up", by="ada")
    desk.lose = [TimeoutError()]
    with quick.transaction("other") as tx:
        with pytest.raises(InDoubt):
            tx.call(desk.tool(), room="a")
        with pytest.raises(UsageError, match="other has not ended yet: say that book is confirmed or absent"):
            quick.resolve("other#1/0", "give_up", by="ada")
        assert told(quick, "other#1/0") == ("unknown", None)
    assert told(quick) == ("confirmed", None)


def test_residue_and_tags_agree_with_what_is_in_doubt(quick, desk):
    desk.lose = [TimeoutError()]
    key = lose(quick, desk.tool())
    assert [(r.key, r.tag) for r in quick.residue()] == [(key, Tag.UNRESOLVED)]


# ---- asked to recover


def test_recover_asks_once_about_what_is_in_doubt_and_undoes_what_came_too_late(settlement, desk):
    desk.lose, desk.blind = [TimeoutError()], 7
    lose(settlement, desk.tool(probe=desk.status))
    desk.log.clear()
    assert settlement.recover().undone == []
    assert (desk.log, told(settlement)) == (["asked"], ("unknown", "unresolved"))
    assert settlement.recover().undone == ["trip#1/mend/0"]
    assert desk.acts == ["cancel a 1 trip#1/0"]
    assert (told(settlement), settlement.recover().undone) == (("undone", "clean"), [])


def test_residue_that_an_operator_has_dealt_with_is_nobodys_to_look_at_any_more(settlement, tools):
    with pytest.raises(Boom), settlement.transaction("trip") as tx:
        tx.call(tools.book_with_fee, room="a")
        raise Boom
    (left,) = settlement.residue()
    settlement.resolve(left, "dealt_with", by="ada")
    assert settlement.residue() == []
    (recorded,) = settlement.transactions()
    assert [(effect.tag, effect.said_by) for effect in recorded.effects] == [(Tag.UNRESOLVED, "ada")]
