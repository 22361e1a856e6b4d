"""Faults strike the step they were meant for, once, and what they say happened is what happened."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from settlemark import InDoubt, Refused, Settlement, UsageError, Vetoed, effect
from settlemark.hosting import declaration_of
from settlemark.testing import Fault, FaultInjector, InjectedFault, InjectedTimeout, Step, in_child


class Office:
    """A counterparty that logs what is done to it."""

    def __init__(self):
        self.log = []
        log = self.log.append

        @effect("reversible", scope="room:/{room}", undo=lambda room: log(f"cancel {room}"))
        def book(room):
            log(f"book {room}")
            return f"R-{room}"

        @effect("reversible", scope="room:/{room}", undo=lambda room: log(f"cancel {room}"))
        async def abook(room):
            log(f"book {room}")

        @effect("irreversible", scope="mail:/{to}")
        def mail(to):
            log(f"mail {to}")

        @effect("irreversible", scope="post:/{to}", release=lambda to: log(f"post {to}"))
        def post(to):
            raise AssertionError("its release runs in its place")

        @effect("idempotent", scope="account:/{account}")
        def charge(account):
            log(f"charge {account}")

        @effect("read", scope="room:/{room}")
        def look(room):
            return room

        self.book, self.abook, self.mail, self.post, self.charge, self.look = book, abook, mail, post, charge, look


@pytest.fixture
def office():
    return Office()


def plain(office, settlement):
    with settlement.transaction("trip") as tx:
        tx.call(office.look, room="a")
        tx.call(office.book, room="a")
        tx.read("price:/a", lambda: 1)
        tx.call(office.mail, to="x")
        tx.call(office.post, to="y")


def steps(injector):
    return [str(step) for step in injector.steps]


# ---- what counts


def test_acts_and_the_commit_are_steps_and_reads_are_none(office, quick):
    injector = FaultInjector()
    with injector.settlement("memory:") as settlement:
        plain(office, settlement)
    assert steps(injector) == ["1. book", "2. commit", "3. mail (release)", "4. post (release)"]
    with_it, office.log = list(office.log), office.log
    office.log.clear()
    plain(office, quick)
    assert office.log == with_it


def test_undos_are_steps(office):
    injector = FaultInjector(Fault(2, "before"))
    with injector.settlement("memory:") as settlement, pytest.raises(Vetoed, match="step 2, the commit, is refused"):
        plain(office, settlement)
    assert steps(injector) == ["1. book", "2. commit", "3. book (undo)"]
    assert office.log == ["book a", "cancel a"]


def test_a_tool_that_nobody_declared_is_a_step():
    injector = FaultInjector()
    with injector.settlement("memory:") as settlement, settlement.transaction("trip") as tx:
        tx.call(print)
    assert steps(injector) == ["1. print", "2. commit"]


def test_counting_goes_on_where_it_is_told_to():
    told = []
    injector = FaultInjector(first=7, on_step=told.append)
    injector.wrap(print)()
    assert told == injector.steps == [Step(7, "print", "call")]


# ---- what strikes


@pytest.mark.parametrize(
    ("mode", "error", "log"),
    [
        ("before", InjectedFault, []),
        ("refused", InjectedFault, []),
        ("unsent", InDoubt, []),
        ("after", InDoubt, ["book a"]),
    ],
)
def test_a_call_is_struck_and_what_is_said_to_have_been_done_was_done(office, mode, error, log):
    injector = FaultInjector(Fault(1, mode))
    with injector.settlement("memory:") as settlement, pytest.raises(error):
        plain(office, settlement)
    assert office.log == log
    assert injector.struck == [Fault(1, mode)]


def test_an_answer_that_is_lost_is_a_timeout(office):
    with pytest.raises(TimeoutError, match="step 1, book, has no answer: it was done"):
        FaultInjector(Fault(1, "after")).wrap(office.book)(room="a")
    assert office.log == ["book a"]
    assert issubclass(InjectedTimeout, InjectedFault)


def test_the_errors_are_the_agents_own_when_it_says_so(office):
    injector = FaultInjector(Fault(1, "before"), Fault(2, "after"), refusal=PermissionError, lost=ConnectionResetError)
    book = injector.wrap(office.book)
    with pytest.raises(PermissionError):
        book(room="a")
    with pytest.raises(ConnectionResetError):
        book(room="a")
    assert office.log == ["book a"]


def test_a_release_that_fails_once_is_tried_again(office, no_pauses):
    injector = FaultInjector(Fault(3, "before"))
    with injector.settlement("memory:", on_failure="retry", **no_pauses) as settlement:
        plain(office, settlement)
    assert office.log == ["book a", "mail x", "post y"]
    assert steps(injector) == ["1. book", "2. commit", "3. mail (release)", "4. mail (release)", "5. post (release)"]


def test_a_release_that_is_refused_is_refused_for_good(office, no_pauses):
    injector = FaultInjector(Fault(3, "refused"))
    with injector.settlement("memory:", on_failure="retry", **no_pauses) as settlement, pytest.raises(Refused):
        plain(office, settlement)
    assert office.log == ["book a", "cancel a"]
    assert steps(injector)[2:] == [*(f"{n}. mail (release)" for n in (3, 4, 5)), "6. book (undo)"]


def test_an_undo_can_be_struck_too(office, no_pauses):
    injector = FaultInjector(Fault(2, "before"), Fault(3, "refused"))
    with injector.settlement("memory:", **no_pauses) as settlement:
        with pytest.raises(Vetoed):
            plain(office, settlement)
        assert [left.note.split(":")[0] for left in settlement.residue()] == ["its undo failed 3 times"]
    assert office.log == ["book a"]


def test_async_tools_are_struck_alike(office):
    async def run(injector):
        with injector.settlement("memory:") as settlement:
            async with settlement.transaction("trip") as tx:
                await tx.call(office.abook, room="a")
                await tx.call(office.abook, room="b")

    injector = FaultInjector(Fault(2, "before"))
    with pytest.raises(InjectedFault):
        asyncio.run(run(injector))
    assert steps(injector) == ["1. abook", "2. abook", "3. abook (undo)"]
    assert office.log == ["book a", "cancel a"]
    with pytest.raises(InDoubt):
        asyncio.run(run(FaultInjector(Fault(1, "after"))))
    assert office.log == ["book a", "cancel a", "book a"]


def test_a_function_that_returns_a_coroutine_has_acted_when_that_is_over():
    acted = []

    async def later():
        acted.append("done")

    called = FaultInjector(Fault(1, "after")).wrap(lambda: later())()
    assert acted == []
    with pytest.raises(InjectedTimeout):
        asyncio.run(called)
    assert acted == ["done"]


@pytest.mark.parametrize(("mode", "log"), [("kill before", ""), ("kill after", "acted")])
def test_a_kill_takes_the_process_and_what_it_had_done_stays(tmp_path, mode, log):
    file = tmp_path / "log"
    file.write_text("")
    parent = os.getpid()
    ended = in_child(
        lambda tell: FaultInjector(Fault(1, mode), on_strike=lambda f: tell(f.mode)).wrap(file.write_text)("acted")
    )
    assert (ended.signal, ended.killed, ended.late, ended.told) == (signal.SIGKILL, True, False, [mode])
    assert file.read_text() == log
    assert os.getpid() == parent


# ---- tools of a settlement that others make


def test_a_wrapped_tool_keeps_its_declaration_and_its_undo_is_a_step(office):
    injector = FaultInjector(Fault(2, "before"))
    book = injector.wrap(office.book)
    assert (declaration_of(book).tool, declaration_of(book).kind) == ("book", "reversible")
    assert declaration_of(book).scope == declaration_of(office.book).scope
    with Settlement("memory:") as settlement, pytest.raises(InjectedFault), settlement.transaction("trip") as tx:
        assert tx.call(book, room="a") == "R-a"
        tx.call(book, room="b")
    assert steps(injector) == ["1. book", "2. book", "3. book (undo)"]
    assert office.log == ["book a", "cancel a"]


def test_a_wrapped_tool_in_a_settlement_that_counts_is_counted_once(office):
    injector = FaultInjector()
    with injector.settlement("memory:") as settlement, settlement.transaction("trip") as tx:
        tx.call(injector.wrap(office.book), room="a")
        tx.call(injector.wrap(office.mail), to="x")
    assert steps(injector) == ["1. book", "2. commit", "3. mail (release)"]


def test_a_tool_that_reads_is_returned_as_it_is(office):
    assert FaultInjector().wrap(office.look) is office.look


# ---- refusals


@pytest.mark.parametrize(("step", "mode"), [(1, "sideways"), (0, "before")])
def test_a_fault_that_cannot_be_is_refused(step, mode):
    with pytest.raises(UsageError, match="a fault strikes in these ways|there is no step 0"):
        Fault(step, mode)


def test_a_fault_that_a_commit_cannot_suffer_waits_and_strikes_nothing(office):
    injector = FaultInjector(Fault(2, "after"))
    with injector.settlement("memory:") as settlement:
        plain(office, settlement)
    assert (injector.struck, office.log) == ([], ["book a", "mail x", "post y"])
