"""The services of a driver, each alone: on a kernel over a ledger in memory, with others in the place of those it uses.

What all of them do together is every other test's. Here each is shown to need no more than its constructor says.
"""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import fields, replace
from functools import partial
from math import inf
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.core.ledgers.twins import intent, opened
from tests.rooms.attempt import LiveRead, current_of
from tests.rooms.engine import (
    Acting,
    Admission,
    Callers,
    Calls,
    Deadline,
    Freshness,
    Kernel,
    Mending,
    Orphans,
    Probing,
    Releases,
    Residue,
    Settling,
    Splitting,
    TakingBack,
    Undoing,
    Waits,
    returned,
)
from tests.rooms.lifecycle import (
    Ages,
    Answers,
    Elsewhere,
    Ending,
    Entrance,
    Fences,
    Gates,
    Halts,
    Leases,
    Mends,
    Notices,
    Obligations,
    Parking,
    Pauses,
    Questions,
    Recovery,
    Request,
    Resolution,
    Rewinds,
    Runs,
    Selection,
    Steers,
)
from tests.rooms.model import Disposed
from tests.rooms.payloads import Sealed
from tests.rooms.protocol import Blocked, Mode
from tests.rooms.runtime import PARTS, Parts

import settlemark
from settlemark import (
    UNKNOWN,
    Effect,
    Entangled,
    Outcome,
    Retries,
    Scope,
    Stale,
    State,
    Tag,
    UsageError,
    WaitTimeout,
    effect,
)
from settlemark.hosting import Attempt, Disposition, Driver, Part, Reason, declaration_of, run_sync
from settlemark.ledger import MemoryLedger, OutcomeChange, RecordedEffect, RecordedTransaction
from settlemark.observe import Recovered

CORE = Path(settlemark.__file__).parent


class Stand:
    """What stands in for a service: its programs do nothing, answer as they are told, and are written down."""

    def __init__(self, **answers):
        self.heard = []
        self._answers = answers

    def __getattr__(self, name):
        def program(*given, **named):
            self.heard.append((name, *given, *named.values()))
            answer = self._answers.get(name)
            if isinstance(answer, BaseException):
                raise answer
            return answer
            yield

        return program


class At_once(Stand):  # noqa: N801 - it is only a kind of stand
    """What stands in for a service whose methods are plain functions."""

    def __getattr__(self, name):
        def function(*given, **named):
            self.heard.append((name, *given, *named.values()))
            return self._answers.get(name)

        return function


@pytest.fixture
def now():
    return SimpleNamespace(seconds=100.0)


@pytest.fixture
def kernel(now):
    return Kernel(MemoryLedger(clock=lambda: now.seconds), clock=lambda: now.seconds, monotonic=lambda: now.seconds)


@pytest.fixture
def begun(kernel):
    """Return a function that begins a transaction, with a program of this process at it."""

    def begin(name, *, retry=False, **given):
        def enter(protocol, book):
            txn = protocol.begin(name, name, owner=kernel.ledger.worker, retry=retry)
            attempt = Attempt(
                txn, name, name, 1, prefix=kernel.prefix, payloads=kernel.ledger.payloads, wait=0.0,
                hooks=given.get("hooks", ()), on_failure="abort", retries=Retries(tries=1),
            )  # fmt: skip # a table of values
            kernel.seat(book, txn, attempt)
            return attempt

        return run_sync(kernel.step(enter))

    return begin


@pytest.fixture
def log():
    return []


@pytest.fixture
def book(log):
    @effect("reversible", scope="room:/{room}", undo=lambda room: log.append(("cancel", room)))
    def book(room):
        log.append(("book", room))
        return f"booked {room}"

    return book


@pytest.fixture
def mail(log):
    @effect("irreversible", scope="mail:/{to}")
    def mail(to):
        log.append(("mail", to))

    return mail


def made(attempt, tool, **given):
    """Return the effect of a call that has been placed and prepared, and nothing else."""
    declaration = declaration_of(tool)
    (scope,) = given.values()
    made = Effect(declaration, (Scope.parse(f"{tool.__name__}:/{scope}"),), given, lambda: tool(**given))
    attempt.place(made)
    made.key = attempt.key(made.path, None)
    return made


def acted(kernel, attempt, tool, **given):
    """Return an effect that was admitted, is on record, and has happened."""
    found = made(attempt, tool, **given)
    run_sync(Admission(kernel, Stand()).admit(attempt, attempt.live, found, Mode.EAGER, intends=True))
    found.confirm(found.run())

    def back(protocol, book):
        returned(protocol, found.calls, happened=True)
        attempt.put(book, [attempt.records.outcome(found, kernel.clock())])

    run_sync(kernel.step(back))
    return found


def recorded(kernel, name):
    return run_sync(kernel.look(lambda _protocol, book: book.load(name)))


def undoing_on(kernel):
    taking_back = TakingBack(kernel, Probing(kernel), Stand())
    return Undoing(kernel, Probing(kernel), Freshness(kernel), At_once(), taking_back)


# ---- the house


SERVICES = [getattr(PARTS, part.name) for part in fields(Parts)]


@pytest.mark.parametrize("service", [Driver, *SERVICES], ids=lambda service: service.__name__)
def test_a_driver_and_its_services_have_no_base_class(service):
    assert service.__mro__ == (service, object)


def test_no_service_leaves_a_method_to_another_class():
    raised = [
        f"{path.name}:{node.lineno}"
        for room in ("_attempt", "_engine", "_lifecycle", "_runtime")
        for path in (CORE / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Name) and node.id == "NotImplementedError"
    ]
    assert raised == []


OF_A_CALLERS_CODE = {
    "Acting.act", "Acting.read", "Calls.call", "Parking.answer", "Pauses.kept",
    "Runs.branch", "Runs.run", "Runs.trying",
}  # fmt: skip # a list of names
"""What they return is what a tool, a body or an agent returned, or kept."""


def test_what_a_service_returns_has_a_type_unless_it_is_a_callers_own_value():
    untyped = set()
    for service in SERVICES:
        for name, method in inspect.getmembers(service, inspect.isfunction):
            told = str(inspect.signature(method).return_annotation).replace("[str, Any]", "")
            if not name.startswith("_") and re.search(r"\bAny\b", told):
                untyped.add(f"{service.__name__}.{name}")
    assert untyped <= OF_A_CALLERS_CODE
    assert {name for name in OF_A_CALLERS_CODE if name not in untyped} == set(), "take it off the list"


def test_a_service_reaches_for_nothing_private_of_another():
    private = [
        f"{path.name}:{node.lineno}: {ast.unparse(node)}"
        for room in ("_engine", "_lifecycle")
        for path in (CORE / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and isinstance(node.value, ast.Attribute)
        and ast.unparse(node.value.value) == "self"
    ]
    assert private == []


def test_every_service_is_tested_alone_here():
    alone = {
        node.func.id
        for node in ast.walk(ast.parse(Path(__file__).read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert {service.__name__ for service in SERVICES} - alone == set()


def test_a_driver_takes_a_service_of_anothers_making_in_place_of_its_own():
    class Silent(Probing):
        def doubt(self):
            return None

    parts = Parts(probing=Silent)
    driver = Driver(MemoryLedger(), clock=lambda: 0.0, monotonic=lambda: 0.0, parts=parts)
    assert type(driver.probing) is Silent
    assert [type(getattr(driver, part.name)) for part in fields(Parts) if part.name != "probing"] == [
        service for service in SERVICES if service is not Probing
    ]


# ---- the kernel, and who finds out


def test_the_kernel_forgets_who_was_seated_in_a_step_that_was_interrupted(kernel, begun):
    first = begun("trip")

    def is_interrupted(protocol, book):
        kernel.seat(book, protocol.begin("tour", owner=kernel.ledger.worker), first)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_sync(kernel.step(is_interrupted))
    assert list(kernel.attempts.values()) == [first]


@pytest.fixture
def waits(kernel, now):
    """Waits on a kernel, with others in the place of the observer's and the callers'."""
    return Waits(
        kernel.ledger,
        kernel.local,
        kernel.step,
        clock=lambda: now.seconds,
        monotonic=lambda: now.seconds,
        telling=At_once(),
        callers=At_once(time_for=0.0),
        attempts=kernel.attempts,
    )


@pytest.fixture
def in_the_way(kernel, begun, book):
    """One that waits, whom for, and its ticket."""
    older, younger = begun("older"), begun("younger")
    acted(kernel, older, book, room="a")
    blocked = Blocked(older.live, Scope.parse("room:/a"))
    with kernel.local as protocol:
        return younger, blocked, protocol.watch(older.live, younger.live)


def test_a_wait_ends_when_whom_it_waits_for_is_out_of_the_way(kernel, waits, in_the_way):
    younger, blocked, ticket = in_the_way
    program = waits.wait_for(younger, ticket, blocked, Deadline(5.0), "older")
    asked = next(program)
    assert (asked.seconds, asked.holder, asked.scope) == (5.0, "older", "room:/a")
    assert list(waits.waiting.values()) == [("younger", "older", Scope.parse("room:/a"))]
    with pytest.raises(StopIteration):
        program.send(True)
    assert (waits.waiting, [wait.until is None for wait in younger.waited.told()]) == ({}, [False])


def test_a_wait_is_given_up_when_whom_it_waits_for_has_not_changed_all_the_while(kernel, waits, in_the_way, now):
    younger, blocked, ticket = in_the_way
    program = waits.wait_for(younger, ticket, blocked, Deadline(5.0), "older")
    next(program)
    now.seconds += 6.0
    with pytest.raises(WaitTimeout, match="younger gave up after 0 s waiting for older, which holds room:/a"):
        program.send(False)
    assert (waits.waiting, ticket in blocked.holder.watchers) == ({}, False)


def test_a_wait_goes_on_when_whom_it_waits_for_has_come_further(kernel, waits, in_the_way, now):
    younger, blocked, ticket = in_the_way
    program = waits.wait_for(younger, ticket, blocked, Deadline(5.0), "older", whom="first")
    next(program)
    now.seconds += 6.0
    moves = iter(["second"])
    deadline = Deadline(5.0)
    assert deadline.moves(now.seconds, next(moves), now.seconds) is True
    assert (deadline.at, deadline.moves(now.seconds, "second", now.seconds)) == (now.seconds + 5.0, False)
    program.close()
    assert waits.waiting == {}


def test_a_deadline_counts_from_when_whom_it_waits_for_has_changed_but_not_back_and_not_from_a_time_to_come():
    deadline = Deadline(5.0)
    assert (deadline.moves(100.0, "a", 100.0), deadline.at) == (True, 105.0)
    assert (deadline.moves(101.0, "a", 101.0), deadline.at) == (False, 105.0)  # the same one, as it was
    assert (deadline.moves(103.0, "b", 102.0), deadline.at) == (True, 107.0)  # it changed a second ago
    assert (deadline.moves(104.0, "c", 50.0), deadline.at) == (True, 107.0)  # before what is counted from already
    assert (deadline.moves(105.0, "d", 200.0), deadline.at) == (True, 110.0)
    deadline.pass_by()
    assert (deadline.moves(106.0, "d", 106.0), deadline.at) == (False, -inf)
    assert (deadline.moves(106.0, "e", 106.0), deadline.at) == (True, 111.0)


def test_a_caller_within_a_transaction_is_given_no_time_to_wait_for_its_end(kernel, begun, book):
    attempt, other, seen = begun("trip"), begun("tour"), []
    callers = Callers(kernel, kernel.prefix, kernel.local, kernel.attempts)
    asks = callers.asking(
        "trip", lambda: seen.append((callers.time_for(attempt.live, 9), callers.time_for(other.live, 9)))
    )
    with asks.around():
        asks.function()
    asks.function()
    assert (seen, callers.inside(), callers.outer()) == ([(0.0, 9), (9, 9)], 0, None)
    with asks.around(), pytest.raises(Entangled):
        callers.refuse_wait_within(other, Blocked(attempt.live, Scope.parse("room:/a")))
    callers.refuse_wait_within(other, Blocked(attempt.live, Scope.parse("room:/a")))


def test_probing_says_that_nobody_knows_when_there_is_nobody_to_ask(kernel, begun, book):
    probing, told = Probing(kernel), []
    probing.on_doubt = lambda: told.append("asked again")
    attempt = begun("trip")
    one = made(attempt, book, room="a")
    assert run_sync(probing.ask(one, current_of(attempt, one), None, final=True)) is UNKNOWN
    probing.doubt()
    assert told == ["asked again"]


def test_residue_tells_of_what_stays_once_and_has_what_is_in_doubt_asked_about(kernel, begun, book, log):
    told, doubts = [], At_once()
    residue = Residue(kernel, doubts, told.append)
    attempt = begun("trip")
    one = acted(kernel, attempt, book, room="a")
    residue.tell(attempt)
    assert (told, doubts.heard) == ([], [])
    one.tag, one.outcome = Tag.UNRESOLVED, Outcome.UNKNOWN
    residue.tell(attempt)
    assert (told, doubts.heard) == (["trip"], [("doubt",)])


def test_residue_is_warned_of_effect_by_effect_and_what_is_clean_or_not_looked_at_is_not(kernel, begun, book, caplog):
    doubts, attempt = At_once(), begun("trip")
    residue = Residue(kernel, doubts)
    one, _untouched, clean = (acted(kernel, attempt, book, room=room) for room in "abc")
    one.tag, one.disposed = Tag.UNRESOLVED, Disposed(note="its undo failed 3 times")
    clean.tag = Tag.CLEAN
    residue.tell(attempt)
    (told,) = caplog.records
    assert (told.levelname, told.getMessage()) == (
        "WARNING",
        "trip left book on book:/a: its undo failed 3 times",
    )
    assert (told.settlemark["tag"], told.settlemark["key"], doubts.heard) == ("unresolved", one.key, [])
    kernel.warns = False
    residue.tell(attempt)
    assert len(caplog.records) == 1


def test_residue_that_is_to_be_undone_later_has_somebody_look_for_it(kernel, begun, book):
    doubts, attempt = At_once(), begun("trip")
    one = acted(kernel, attempt, book, room="a")
    one.disposed = Disposed(Disposition.TO_UNDO)
    Residue(kernel, doubts).tell(attempt)
    assert doubts.heard == [("doubt",)]


def test_residue_has_who_mends_look_again_and_a_listeners_own_fault_is_told_and_reaches_nobody(kernel, caplog):
    def fails(name):
        raise KeyboardInterrupt(name)

    looked, residue = [], Residue(kernel, At_once(), fails)
    residue.on_left = lambda: lambda: looked.append("looked")
    residue.tell_listener("trip")
    assert (looked, [record.getMessage().partition(":")[0] for record in caplog.records]) == (
        ["looked"],
        ["on_residue failed for trip"],
    )
    residue.on_left, residue.on_residue = lambda: None, looked.append
    residue.tell_listener("tour")
    assert looked == ["looked", "tour"]


def test_a_counterparty_remembers_a_key_for_its_window_to_the_second_and_not_from_a_time_to_come(kernel, now):
    probing, sent = Probing(kernel), now.seconds
    one = SimpleNamespace(at=sent, declaration=SimpleNamespace(window=10.0))
    found = {}
    for seconds in (-1.1, -1.0, 0.0, 9.9, 10.0):
        now.seconds = sent + seconds
        found[seconds] = probing.is_forgotten(one)
    assert found == {-1.1: True, -1.0: False, 0.0: False, 9.9: False, 10.0: True}
    assert not probing.is_forgotten(SimpleNamespace(at=0.0, declaration=SimpleNamespace(window=None)))


def test_freshness_lets_a_read_hold_until_it_is_as_old_as_it_may_be_to_the_second(kernel, begun, now):
    freshness, attempt, began = Freshness(kernel), begun("trip"), now.seconds
    read = LiveRead("look", (Scope.parse("price:/a"),), None, None, began + 5.0, 5.0)
    now.seconds = began + 4.9
    assert run_sync(freshness.verify(attempt, [read])) is None
    now.seconds = began + 5.0
    wrong = run_sync(freshness.verify(attempt, [read]))
    assert wrong == {"scope": read.scopes[0], "how": "was read more than 5 s ago"}


def test_freshness_keeps_what_a_run_has_read_until_it_has_written_or_was_found_stale(kernel, begun):
    def plan_of(*names):
        return [LiveRead(what, (Scope.parse(f"price:/{what}"),), None, 1, None, None) for what in names]

    def ends(state, reason, *, wrote, reads=("new",)):
        freshness, name = Freshness(kernel), f"trip-{len(kernel.attempts)}"
        attempt = begun(name)
        attempt.live_reads, freshness.live_plans[name] = {read.what: read for read in plan_of(*reads)}, plan_of("old")
        attempt.live.state, attempt.live.reason, attempt.live.wrote = state, reason, wrote
        freshness.keep_plan(attempt, attempt.live)
        return [read.what for read in freshness.live_plans.get(name, [])]

    assert ends(State.COMMITTED, None, wrote=True) == []
    assert ends(State.COMMITTED, None, wrote=False) == ["old", "new"]
    assert ends(State.COMMITTED, None, wrote=False, reads=()) == ["old"]
    assert [ends(State.ABORTED, reason, wrote=False) for reason in (Reason.STALE, Reason.CASCADED)] == [[], []]
    assert ends(State.ABORTED, Reason.FAILED, wrote=True) == ["old", "new"]
    assert ends(State.ABORTED, Reason.WOUNDED, wrote=True) == ["old"]  # its retry reads anew


def test_freshness_finds_the_read_that_has_changed_and_lets_its_own_write_pass(kernel, begun, book):
    world = {"a": 1}
    freshness, attempt = Freshness(kernel), begun("trip")
    read = LiveRead("look", (Scope.parse("book:/a"),), lambda: world["a"], 1, None, None)
    attempt.live_reads["look"] = read
    assert run_sync(freshness.verify(attempt, [read])) is None
    world["a"] = 2
    wrong = run_sync(freshness.verify(attempt, [read]))
    assert wrong == {"scope": read.scopes[0], "how": "changed, from outside, after it was read"}
    freshness.after_writing(attempt, made(attempt, book, room="a"))
    assert run_sync(freshness.verify(attempt, freshness.live_reads(attempt))) is None


def told_meanwhile(kernel, begun, tool, outcome, *told, held=False, undo=True):
    """Take back an effect of which its counterparty says nothing, and the record is told something meanwhile."""
    attempt = begun(f"trip-{len(kernel.attempts)}")
    one = acted(kernel, attempt, tool, room=attempt.name)
    one.outcome, one.held = outcome, held
    if not undo:
        one.declaration = replace(one.declaration, undo=None)
    taking_back = TakingBack(kernel, Stand(ask=UNKNOWN), Stand())
    for what, tag, disposed in ((outcome, None, Disposed()), *told):
        change = OutcomeChange.of(one.key, what, '"R1"', None, tag, disposed, 7.0, "book")
        run_sync(kernel.step(partial(lambda change, _protocol, book: book.write([change]), change)))
    run_sync(taking_back.undo_one(attempt, one, lambda _protocol, _clean: None))
    (found,) = recorded(kernel, attempt.name).effects
    assert (found.outcome, found.tag, found.disposition) == (one.outcome, one.tag, one.disposition)
    return found.outcome, found.tag, found.disposition, str(found.disposed)


def test_of_an_effect_that_is_taken_back_and_in_doubt_what_the_record_was_told_meanwhile_is_not_written_over(
    kernel, begun, book
):
    by_eve, clean = Disposed(note="eve says so"), (Outcome.FAILED, Tag.CLEAN, Disposed(note="eve says so"))
    happened = (Outcome.CONFIRMED, None, by_eve)
    found = told_meanwhile(kernel, begun, book, Outcome.UNKNOWN)
    assert found[:3] == (Outcome.UNKNOWN, Tag.UNRESOLVED, None)
    found = told_meanwhile(kernel, begun, book, Outcome.UNKNOWN, clean)
    assert found == (Outcome.FAILED, Tag.CLEAN, None, "eve says so")
    found = told_meanwhile(kernel, begun, book, Outcome.UNKNOWN, happened)
    assert found[:3] == (Outcome.CONFIRMED, Tag.UNRESOLVED, Disposition.TO_UNDO)
    assert "eve says so" in found[3]
    found = told_meanwhile(kernel, begun, book, Outcome.UNKNOWN, happened, undo=False)
    assert found[:3] == (Outcome.CONFIRMED, Tag.UNRESOLVED, Disposition.NO_UNDO)
    assert "reversible effects of book have no undo (eve says so)" in found[3]
    found = told_meanwhile(kernel, begun, book, Outcome.UNKNOWN, happened, held=True)
    assert found == (Outcome.CONFIRMED, Tag.LEAKED, None, "it had left before the abort (eve says so)")


# ---- one transaction


def test_admission_has_the_intent_on_record_before_anything_acts(kernel, begun, book, log):
    tidies = Stand()
    admission, attempt = Admission(kernel, tidies), begun("trip")
    one = made(attempt, book, room="a")
    run_sync(admission.admit(attempt, attempt.live, one, Mode.EAGER, intends=True))
    (found,) = recorded(kernel, "trip").effects
    assert (found.row.key, found.outcome, log, attempt.effects) == (one.key, Outcome.INTENDED, [], {(0,): one})
    assert tidies.heard == []  # nothing was aborted by it


def test_admission_gives_up_a_call_for_which_another_stays_in_the_way_and_nothing_is_on_record(
    kernel, begun, book, log
):
    admission = Admission(kernel, Stand())
    older = begun("tour")
    acted(kernel, older, book, room="a")
    attempt = begun("trip")
    one = made(attempt, book, room="a")
    with pytest.raises(WaitTimeout):
        run_sync(admission.admit(attempt, attempt.live, one, Mode.EAGER, intends=True))
    assert (recorded(kernel, "trip"), attempt.effects, log) == (None, {}, [("book", "a")])
    assert not any(call.wanting for call in attempt.live.calls.values())


def test_calls_make_a_call_of_what_is_admitted_and_nobody_is_asked_where_no_yes_is_needed(kernel, begun, book, log):
    gates, undoing = Stand(), Stand()
    acting = Stand(act="booked a")
    calls = Calls(kernel, undoing, Admission(kernel, undoing), acting, gates)
    attempt = begun("trip")
    one = made(attempt, book, room="a")
    assert run_sync(calls.call(attempt, one)) == "booked a"
    assert (acting.heard, log, gates.heard) == ([("act", attempt, attempt.live, one, ())], [], [])


def test_acting_has_the_intent_on_record_then_the_tool_called_then_its_outcome_noted(kernel, begun, log):
    attempt, seen = begun("trip"), []

    @effect("reversible", scope="room:/{room}", undo=lambda room: None)
    def rent(room):
        (found,) = recorded(kernel, "trip").effects
        seen.append((found.outcome, room))
        return room

    acting = Acting(kernel, Probing(kernel), Freshness(kernel), Stand(), Admission(kernel, Stand()))
    one = made(attempt, rent, room="a")
    assert run_sync(acting.act(attempt, attempt.live, one, ())) == "a"
    (found,) = recorded(kernel, "trip").effects
    assert (seen, found.outcome) == ([(Outcome.INTENDED, "a")], Outcome.CONFIRMED)


def test_a_gate_leaves_what_nobody_is_here_to_approve_to_the_end_of_its_transaction(kernel, begun, log):
    @effect("irreversible", scope="room:/{room}", approve=True)
    def rent(room):
        log.append(room)

    gates, attempt = Gates(kernel, Freshness(kernel), Stand(), Admission(kernel, Stand())), begun("trip")
    attempt.parks = "keep"
    one = made(attempt, rent, room="a")
    assert run_sync(gates.gate(attempt, attempt.live, one, None, ())) is None
    assert (attempt.park, one.outcome, log) == ("keep", Outcome.INTENDED, [])


def test_undoing_takes_back_what_acted_and_the_transaction_is_over(kernel, begun, book, log):
    attempt = begun("trip")
    one = acted(kernel, attempt, book, room="a")
    run_sync(undoing_on(kernel).abort(attempt, Reason.FAILED, cause="no"))
    (found,) = recorded(kernel, "trip").effects
    assert (found.outcome, found.tag, one.tag) == (Outcome.UNDONE, Tag.CLEAN, Tag.CLEAN)
    assert (log, attempt.live.state, kernel.attempts) == ([("book", "a"), ("cancel", "a")], State.ABORTED, {})


def test_undoing_puts_an_abort_off_where_an_effect_cannot_be_taken_back_yet(kernel, begun, book, log):
    attempt, others = begun("trip"), Stand(undo_one=False)
    one = acted(kernel, attempt, book, room="a")
    run_sync(Undoing(kernel, Probing(kernel), Freshness(kernel), At_once(), others).abort(attempt, Reason.FAILED))
    assert [heard[:3] for heard in others.heard] == [("undo_one", attempt, one)]
    assert (attempt.handed_over, attempt.live.state, log) == (True, State.ABORTING, [("book", "a")])


def test_an_effect_is_taken_back_and_on_record_so_before_the_protocol_lets_others_at_its_scope(
    kernel, begun, book, log
):
    attempt, clean = begun("trip"), []
    one = acted(kernel, attempt, book, room="a")
    taking_back = TakingBack(kernel, Probing(kernel), Stand())
    assert run_sync(taking_back.undo_one(attempt, one, lambda _protocol, nothing_stays: clean.append(nothing_stays)))
    (found,) = recorded(kernel, "trip").effects
    assert (found.outcome, found.tag, clean) == (Outcome.UNDONE, Tag.CLEAN, [True])
    assert log == [("book", "a"), ("cancel", "a")]


def test_taking_back_leaves_what_a_mend_holds_to_mending(kernel, begun, book, log):
    mending, attempt = Stand(take_back=True), begun("trip")
    one = acted(kernel, attempt, book, room="a")
    attempt.live.mends, one.call_id = True, "tour#1/0"
    run_sync(TakingBack(kernel, Probing(kernel), mending).undo_one(attempt, one, lambda _protocol, _clean: None))
    assert ([heard[0] for heard in mending.heard], log) == (["take_back"], [("book", "a")])


def test_mending_has_nothing_to_do_when_nobody_has_a_late_effect_to_undo(kernel, begun, book, log):
    attempt = begun("trip")
    one = acted(kernel, attempt, book, room="a")
    one.call_id = "tour#1/0"
    assert run_sync(Mending(kernel, Probing(kernel)).take_back(attempt, one)) is False
    assert (one.tag, one.disposed.note, log) == (Tag.CLEAN, "see tour#1/0", [("book", "a")])


def test_orphans_are_on_record_as_taken_back_before_the_first_is_undone(kernel, begun, book, log):
    attempt, seen = begun("trip"), []
    one = acted(kernel, attempt, book, room="a")
    attempt.expected.paths.add(one.path)

    class Watching(Stand):
        def undo_one(self, _attempt, effect, _back, *, because):
            (found,) = recorded(kernel, "trip").effects
            seen.append((effect, because, found.disposition))
            return True
            yield

    run_sync(Orphans(kernel, Stand(), Watching()).take_back_orphans(attempt))
    assert [(effect, because is on_record) for effect, because, on_record in seen] == [(one, True)]
    assert (attempt.expected.paths, attempt.live.state) == (set(), State.OPEN)


def test_splitting_puts_behind_each_gate_what_was_to_leave_after_it(kernel, begun, mail):
    @effect("staged", scope="note:/{to}")
    def note(to):
        return to

    attempt = begun("trip")
    for tool, to in ((note, "early"), (mail, "bee"), (note, "late")):
        one = made(attempt, tool, to=to)
        attempt.records.prepare(one)
        one.held, one.outcome = True, Outcome.QUEUED
        attempt.add(one)
    (splinter,) = Splitting(kernel, Freshness(kernel)).splinters(attempt)
    assert [effect.arguments["to"] for effect in splinter.effects] == ["bee", "late"]
    assert (splinter.attempt.name, [effect.path for effect in splinter.moved]) == ("trip!1", [(0,), (1,)])


def test_settling_records_its_decision_and_leaves_the_rest_to_releases(kernel, begun, mail, log):
    class Leaving(At_once):
        def release_all(self, attempt, txn):
            self.heard.append(("release_all", recorded(kernel, "trip").state))
            return ()

    releases = Leaving(to_leave=["a mail"])
    settling = Settling(kernel, Freshness(kernel), Stand(), Stand(), Stand(), releases, Stand())
    attempt = begun("trip")
    one = made(attempt, mail, to="bee")
    one.outcome, one.held = Outcome.QUEUED, True
    run_sync(Admission(kernel, Stand()).admit(attempt, attempt.live, one, Mode.HELD, intends=True))
    run_sync(settling.commit(attempt))
    assert (log, attempt.live.state) == ([], State.RELEASING)
    # Asked whether the decision ends it, and again when the decision is written.
    assert releases.heard == [*[("to_leave", attempt)] * 2, ("release_all", State.RELEASING)]


def test_releases_let_what_is_held_leave_when_the_decision_is_taken(kernel, begun, mail, log):
    residue = At_once()
    releases = Releases(kernel, Probing(kernel), Freshness(kernel), Stand(), residue, Stand())
    attempt = begun("trip")
    one = made(attempt, mail, to="bee")
    one.outcome, one.held = Outcome.QUEUED, True
    run_sync(Admission(kernel, Stand()).admit(attempt, attempt.live, one, Mode.HELD, intends=True))

    def decide(protocol, _book):
        protocol.seal(attempt.live)
        return protocol.decide(attempt.live)

    assert (run_sync(kernel.step(decide)), log) == (None, [])
    run_sync(releases.release_all(attempt, attempt.live))
    (found,) = recorded(kernel, "trip").effects
    assert (log, found.outcome, attempt.live.state) == ([("mail", "bee")], Outcome.CONFIRMED, State.COMMITTED)
    assert (kernel.attempts, residue.heard) == ({}, [("tell", attempt)])


def test_settling_refuses_by_its_hook_and_leaves_the_undo_to_undoing(kernel, begun, mail, log):
    def never(_footprint):
        return "too late in the day"

    refused = Stale("vetoed", transaction="trip", epoch=1)
    undoing = Stand(refuse=refused)
    settling = Settling(kernel, Freshness(kernel), Stand(), undoing, Stand(), At_once(to_leave=[]), Stand())
    attempt = begun("trip", hooks=(never,))
    with pytest.raises(Stale):
        run_sync(settling.commit(attempt))
    assert ("refuse", attempt, Reason.VETOED, "never", "too late in the day") in undoing.heard
    assert log == []


# ---- what outlives one process, or one opinion


def test_recovery_leaves_what_a_program_of_this_process_is_at(kernel, begun):
    attempt = begun("trip")
    report = run_sync(Recovery(kernel, Probing(kernel), Stand(), At_once(), Stand()).take_up(keep_open=0))
    assert (bool(report), attempt.live.state, kernel.attempts) == (False, State.OPEN, {attempt.live: attempt})


def test_recovery_aborts_what_nobody_is_at_when_its_grace_is_over(kernel, begun):
    attempt = begun("trip")
    kernel.attempts.clear()
    undoing = Stand()
    recovery = Recovery(kernel, Probing(kernel), undoing, At_once(), Stand())
    kept = run_sync(recovery.take_up(keep_open=30))
    assert (kept.kept, undoing.heard) == (["trip"], [])
    run_sync(recovery.take_up(keep_open=0))
    (taken,) = [heard for heard in undoing.heard if heard[0] == "abort"]
    assert (taken[1].live, taken[2]) == (attempt.live, Reason.LEFT)


def test_a_halt_waits_for_what_may_still_act_and_for_nothing_else(kernel):
    alone, tended = At_once(is_unattended=True), At_once(is_unattended=False)
    halts = {True: Halts(kernel, Stand(), alone, Stand()), False: Halts(kernel, Stand(), tended, Stand())}

    def is_still(state, *, alone=False, **told):
        told = {"finished": False, "parked": False, "running": 0} | told
        return halts[alone]._is_still(SimpleNamespace(state=state, **told))

    assert [is_still(state) for state in (State.OPEN, State.SEALED, State.RELEASING, State.ABORTING)] == [
        False,
        True,
        False,
        False,
    ]
    assert is_still(State.ABORTED, finished=True)
    assert [is_still(State.OPEN, parked=True, running=running) for running in (0, 1)] == [True, False]
    assert [is_still(state, alone=True) for state in (State.OPEN, State.RELEASING, State.ABORTING)] == [
        False,
        True,
        False,  # nobody lets anything leave there; what is to be undone will be
    ]


def test_recovery_needs_the_tools_of_what_is_still_to_leave_or_to_be_undone_and_no_others(kernel):
    undo, eager = '{"undo":"cancel"}', (Outcome.CONFIRMED, Outcome.INTENDED, Outcome.UNKNOWN, Outcome.FAILED)
    effects = [RecordedEffect(intent(position=n, handlers=undo), outcome) for n, outcome in enumerate(eager)]
    effects += [
        RecordedEffect(intent(position=4, handlers=undo), Outcome.CONFIRMED, tag=Tag.CLEAN),
        RecordedEffect(intent(position=5, handlers='{"keyed":true}'), Outcome.CONFIRMED),
        RecordedEffect(intent(position=6, held=True, handlers=undo), Outcome.QUEUED),
        RecordedEffect(intent(position=7, held=True, handlers=undo), Outcome.CONFIRMED),
    ]
    recovery = Recovery(kernel, Probing(kernel), Stand(), At_once(), Stand())

    def beyond(declared, *effects):
        kernel.declaration = lambda _tool, _version: declared
        recorded = RecordedTransaction(opened(), State.OPEN, 1, effects=list(effects))
        found = {state: recovery.beyond(SimpleNamespace(state=state), recorded) for state in State}
        return {state.value: [e.row.position for e in wanted] for state, wanted in found.items() if wanted}

    def known(function):
        return SimpleNamespace(function=function, undo=None, probe=None, release=None)

    undone, leaves = {"open": [0, 1, 2], "aborting": [0, 1, 2]}, {"sealed": [6], "releasing": [6]}
    assert beyond(None, *effects) == undone | leaves
    assert beyond(known(None), *effects) == leaves  # its handlers are known, what leaves is not
    assert beyond(known(print), *effects) == {}
    sealed = Sealed.of("arguments", "this process has no key")
    for each in effects:
        each.row = each.row._replace(arguments=sealed)
    assert beyond(known(print), *effects) == undone | leaves
    assert recovery.beyond(SimpleNamespace(state=State.OPEN), None) == []


def test_recovery_keeps_what_is_open_for_its_grace_what_is_put_aside_and_a_choice_of_which_a_candidate_is_kept(
    kernel, begun, now
):
    recovery = Recovery(kernel, Probing(kernel), Stand(), At_once(), Stand())
    names = ("young", "mend", "sealed", "aside")
    young, mend, sealed, aside = (begun(name).live for name in names)
    mend.mends, aside.parked = True, True
    with kernel.local as protocol:
        protocol.seal(sealed)
    kernel.attempts.clear()

    def kept(after, grace=30.0):
        now.seconds = 100.0 + after
        return [txn.name for txn in (young, mend, sealed, aside) if recovery._is_kept(txn, grace)]

    assert [kept(after) for after in (0.0, 29.9, 30.0)] == [["young", "aside"], ["young", "aside"], ["aside"]]
    assert kept(30.0, grace=31.0) == ["young", "aside"]
    choice = SimpleNamespace(state=State.OPEN, mends=False, role="choice", members={1: young}, id=99, parked=False)
    assert [recovery._is_kept(choice, grace) for grace in (31.0, 30.0)] == [True, True]  # it was seen just now
    now.seconds += 40.0
    assert [recovery._is_kept(choice, grace) for grace in (71.0, 40.0)] == [True, False]


def test_resolution_refuses_word_of_an_effect_that_is_not_on_record(kernel):
    resolution = Resolution(kernel, Probing(kernel), Stand(), Stand(), At_once())
    with pytest.raises(settlemark.UsageError, match="no effect with the key 'trip#1/0' is on record"):
        run_sync(resolution.confirm("trip#1/0", True, by="ada"))
    assert (resolution.asked, resolution.until_due()) == ({}, None)


def test_parking_keeps_a_transaction_open_and_asks_undoing_to_put_it_aside(kernel, begun):
    undoing, orphans = Stand(), Stand()
    parking = Parking(kernel, At_once(), undoing, orphans, Stand(), Stand(), Stand(), At_once())
    attempt = begun("trip")
    run_sync(parking.keep(attempt))
    assert (orphans.heard, undoing.heard) == ([("take_back_orphans", attempt)], [("suspend", attempt)])
    assert (attempt.live.state, parking.parked()) == (State.OPEN, [])


def test_elsewhere_forgets_what_another_process_has_resumed_and_nothing_that_is_still_put_aside_here(kernel, begun):
    theirs, ours = begun("theirs"), begun("ours")
    theirs.suspended = ours.suspended = True
    theirs.live.owner = "another"
    run_sync(Elsewhere(kernel, At_once(is_at=False)).look())
    assert list(kernel.attempts.values()) == [ours]


def test_answers_refuse_a_yes_to_what_nobody_asked_about(kernel):
    answers = Answers(kernel, Stand(), Stand())
    with pytest.raises(settlemark.UsageError):
        run_sync(answers.say("trip#1/0", "approve", arguments=None, because=None, by="ada"))
    assert answers.asked() == []


def test_ages_have_what_is_older_than_it_may_be_aborted(kernel, begun, now):
    undoing = Stand()
    ages, attempt = Ages(kernel, undoing, At_once(coming=set())), begun("trip")
    ages.on_age = lambda: None
    attempt.max_age = 60.0
    ages.watch_age(attempt)
    run_sync(ages.look_at_ages())
    assert (undoing.heard, ages.until_aged()) == ([], 45.0)
    now.seconds += 60
    run_sync(ages.look_at_ages())
    assert [heard[0] for heard in undoing.heard] == ["abandon", "abort"]
    assert ages.stranded() == []


def test_ages_are_told_of_at_three_quarters_and_ended_when_they_are_reached_to_the_second(kernel, begun, now, caplog):
    undoing = Stand()
    ages, attempt, free = Ages(kernel, undoing, At_once(coming=set())), begun("trip"), begun("free")
    attempt.max_age = 100.0
    began, found = now.seconds, []
    for seconds in (74.9, 75.0, 99.9, 100.0, 101.0, 3_599.9, 3_600.0, 3_601.0):
        now.seconds = began + seconds
        before = (len(caplog.records), len(undoing.heard))
        run_sync(ages.look_at_ages())
        told = [record.getMessage().partition(",")[0] for record in caplog.records[before[0] :]]
        found.append((seconds, told, [heard[0] for heard in undoing.heard[before[1] :]]))
    assert found == [
        (74.9, [], []),
        (75.0, ["trip has been open for 75 s"], []),
        (99.9, [], []),
        (100.0, [], ["abandon", "abort"]),
        (101.0, [], []),
        (3_599.9, [], []),
        (3_600.0, ["free has been open for 3600 s"], []),
        (3_601.0, [], []),
    ]
    abandoned, aborted = undoing.heard
    assert abandoned == ("abandon", attempt)
    assert aborted[1:] == (attempt, Reason.OVERDUE, "it was open for longer than max_age=100 s", 100.0)
    assert (attempt.age_told, attempt.overdue, free.age_told, free.overdue) == (True, True, True, False)
    assert ages.until_aged() is None


def test_who_looks_at_ages_is_woken_only_for_one_that_is_due_before_all_others(kernel, begun, now):
    ages, woken = Ages(kernel, Stand(), At_once(coming=set())), []
    ages.on_age = lambda: woken.append(now.seconds)
    for name, age, wakes in (
        ("first", 100.0, True),
        ("as soon", 100.0, False),
        ("later", 200.0, False),
        ("sooner", 40.0, True),
        ("never", None, False),
    ):
        attempt = begun(name)
        attempt.max_age = age
        before = len(woken)
        ages.watch_age(attempt)
        assert (len(woken) > before) is wakes, name
    assert ages.until_aged() == 30.0


def test_nobody_is_too_old_who_is_put_aside_or_sealed_or_a_hold_for_work_to_come(kernel, begun, now):
    ages = Ages(kernel, Stand(), At_once(coming=set()))
    for name in ("aside", "parked", "hold", "sealed"):
        attempt = begun(name)
        attempt.max_age, attempt.suspended = 10.0, name == "aside"
        txn = attempt.live
        txn.parked, txn.role = name == "parked", "hold" if name == "hold" else ""
        if name == "sealed":
            with kernel.local as protocol:
                protocol.seal(txn)
    now.seconds += 1_000
    run_sync(ages.look_at_ages())
    assert ages.until_aged() is None
    assert not any(attempt.age_told or attempt.overdue for attempt in kernel.attempts.values())


def test_rewinds_refuse_a_name_that_was_never_begun_and_nothing_moves(kernel):
    undoing = Stand()
    rewinds = Rewinds(kernel, At_once(), undoing, Stand(), At_once(where="this ledger"))
    request = Request(("trip",), rewinds.word("ada", "no"))
    with pytest.raises(settlemark.UsageError, match="trip"):
        run_sync(rewinds.rewind(request, dry_run=False, wait=1.0))
    assert undoing.heard == []


def test_an_entrance_begins_a_name_that_nobody_has_used(kernel):
    ages = At_once()
    entrance = Entrance(kernel, At_once(), ages)
    attempt = run_sync(
        entrance.begin(
            "trip", "trip", known=True, declared=(), hooks=(), wait=1.0, on_failure="abort", retries=Retries(),
            retry=False,
        )
    )  # fmt: skip # a table of values
    assert (attempt.number, attempt.live.state, kernel.attempts) == (1, State.OPEN, {attempt.live: attempt})
    assert ages.heard == [("watch_age", attempt)]
    assert run_sync(entrance.ended("tour", wait=1.0)) is None


def test_runs_call_the_body_and_commit_and_discard_when_the_body_fails(kernel, begun):
    settling, undoing = Stand(), Stand()
    runs = Runs(kernel, undoing, settling, Stand(), Stand(), At_once())

    def entering(attempt):
        return Part(attempt, attempt.numbering)
        yield

    first, second = begun("trip"), begun("tour")
    assert run_sync(runs.run(entering(first), lambda _part: lambda: "done", tries=1)) == "done"

    def fails():
        raise ValueError("no room")

    with pytest.raises(ValueError, match="no room"):
        run_sync(runs.run(entering(second), lambda _part: fails, tries=1))
    assert (settling.heard, undoing.heard) == (
        [("commit", first)],
        [("discard", second, Reason.FAILED, "ValueError: no room")],
    )


def test_a_selection_seals_the_winner_and_dooms_the_losers_in_one_step(kernel, begun, book):
    undoing, settling = Stand(), Stand()
    selection = Selection(kernel, Freshness(kernel), undoing, Stand(), settling, Stand())
    winner, loser = begun("a"), begun("b")
    acted(kernel, loser, book, room="b")
    run_sync(selection.choose(winner, [loser], cause="b was dearer"))
    assert (winner.live.state, loser.live.state) == (State.SEALED, State.ABORTING)
    assert undoing.heard == [("discard", loser, Reason.ABANDONED, "b was dearer")]
    assert settling.heard[-1] == ("commit", winner, True)


def test_obligations_strike_out_nothing_that_is_not_owed(kernel):
    obligations = Obligations(kernel)
    with pytest.raises(settlemark.UsageError, match="nothing is owed under 17"):
        run_sync(obligations.waive("17", by="ada", note=""))
    run_sync(obligations.settle_due())
    assert obligations.until_due() is None


def test_questions_end_those_whose_calls_wait_no_more_and_nothing_else_is_due(kernel):
    late = []
    waits = Questions(kernel, Notices(kernel), late.append)
    run_sync(waits.settle_due())
    assert (late, waits.until_due()) == ([], None)


def test_notices_tell_nobody_without_a_channel(kernel):
    notices = Notices(kernel)
    run_sync(notices.tell_people())
    assert kernel.ledger.read(notices.next) is None


def test_halts_keep_everything_from_beginning_and_end_what_is_open(kernel, begun):
    halts = Halts(kernel, undoing_on(kernel), Stand(take_up=Recovered()), Stand(settle_answered=None))
    attempt = begun("trip")
    found = run_sync(halts.halt(None, None, None, by="ada", because="odd", wait=0))
    assert (attempt.live.state, kernel.attempts, found.undone, found.silent) == (State.ABORTED, {}, ("trip",), True)
    with pytest.raises(settlemark.Halted):
        begun("trip")
    run_sync(halts.resume(1, by="ada"))
    assert begun("trip").live.state is State.OPEN


def test_pauses_stop_a_run_at_its_boundary_until_somebody_goes_on_with_it(kernel):
    pauses = Pauses(kernel, Stand(), Stand())
    run_sync(pauses.stop_here("trip", "1", None, None))
    run_sync(pauses.pause("trip", by="ada", because="no"))
    with pytest.raises(settlemark.Paused):
        run_sync(pauses.stop_here("trip", "2", {"notes": []}, "sb-1"))
    assert run_sync(pauses.kept("trip")) == ({"notes": []}, "sb-1")
    assert run_sync(pauses.go_on("trip", by="ada")).before == "2"
    run_sync(pauses.stop_here("trip", "2", None, None))


def test_what_is_said_to_a_run_is_taken_at_its_boundary_and_what_it_contradicts_is_rewound(kernel, begun, book):
    acted(kernel, begun("trip"), book, room="7")
    rewinds = Stand()
    steers = Steers(kernel, rewinds)
    for what, about in (("add", ()), ("retract", (Scope.parse("book:/8"),)), ("retract", (Scope.parse("book:/7"),))):
        run_sync(steers.say("trip", what, "a word", about, by="ada"))
    assert run_sync(steers.hear("trip", "2", adds=True, wait=1.0)) is True
    place = run_sync(steers.place("trip", "trip/2"))
    run_sync(steers.tell("trip", "2", {3}))
    told = [(said.state, said.before, said.told, said.rewound) for said in run_sync(steers.place("trip", "x")).said]
    assert told == [("done", "2", "2", ()), ("done", "2", "2", ()), ("done", "2", "2", ("trip",))]
    assert (place.name, place.rewound, place.is_new, place.said[2].told) == ("trip/2", (), True, None)
    assert [name for name, *_ in rewinds.heard] == ["rewind"]


def test_leases_are_renewed_when_they_are_kept_and_by_nobody_else(kernel, now):
    leases = Leases(kernel)
    row = run_sync(leases.grant(Scope.parse("checkout:/repo"), holder="ada", period=60.0, grace=0.0))
    assert leases.until_due() is None
    kept = leases.keep(row)
    now.seconds += 25
    run_sync(leases.renew_due())
    assert (leases.until_due(), kept.row) == (20.0, row._replace(until=now.seconds + 60))
    leases.let_go(row)
    assert leases.until_due() is None


def test_fences_keep_a_run_from_beginning_anything_and_end_what_it_had_begun(kernel, begun):
    fences = Fences(kernel, undoing_on(kernel), Stand(take_up=Recovered()))
    attempt = begun("trip")
    run_sync(fences.cancel("trip"))
    assert (attempt.live.state, kernel.attempts) == (State.ABORTED, {})
    with pytest.raises(settlemark.Cancelled):
        begun("trip")


def test_ending_says_that_what_is_not_stuck_is_not_and_asks_for_no_undo(kernel):
    resolution = Stand()
    ending = Ending(kernel, resolution, Stand())
    for program in (
        ending.undo_again("trip", None, by="ada", note="", wait=0.0),
        ending.settle_by_hand("trip", None, by="ada", note=""),
    ):
        with pytest.raises(UsageError, match="trip is not stuck"):
            run_sync(program)
    assert resolution.heard == []


def test_mends_do_nothing_where_nobody_proposes_and_nobody_is_paged(kernel):
    woken = []
    mends = Mends(kernel, Stand())
    mends.on_stuck = lambda: woken.append("woken")
    for program in (mends.mend(), mends.look_for_others()):
        run_sync(program)
    mends.look_again()
    assert (woken, mends.until_due(), mends.works) == ([], None, False)
