"""What is said to a run while it works is taken at its next boundary, once, and what it contradicts is undone."""

from __future__ import annotations

import asyncio

import pytest

from settlemark import Cancelled, DeclarationError, Halted, Rewound, Scope, ScopeError, UsageError, effect
from settlemark.hosting import host_of

pytestmark = [pytest.mark.own_time, pytest.mark.every_store]


def once(step, act):
    """Return a function of a step's number that acts the first time that the step is come to."""
    left = [step]

    def at(number):
        if left == [number]:
            left.clear()
            act()

    return at


def days(*numbers):
    return [f"book day/{number}" for number in numbers]


def test_what_is_said_waits_on_record_in_one_order_and_two_who_contradict_each_other_are_both_told(settlement):
    first = settlement.steer("trip", "revise", "Bee", scope=["trip:/hotel/**", Scope.parse("price:/x")], by="ada")
    second = settlement.steer("trip", "add", "a window seat", by="ada")
    third = settlement.steer("trip", "retract", "no hotel", scope="trip:/hotel/Bee", by="bob")
    settlement.steer("other", "retract", "no hotel", scope="trip:/hotel/Bee", by="bob")
    assert [(said.number, said.state, said.against) for said in (first, second, third)] == [
        (1, "waiting", ()),
        (2, "waiting", ()),
        (3, "waiting", (1,)),
    ]
    one, two, three = settlement.steering("trip")
    assert (one.run, one.what, one.text, one.scopes, one.by) == (
        "trip",
        "revise",
        "Bee",
        ("trip:/hotel", "price:/x"),
        "ada",
    )
    assert (one.against, two.against, three.against) == ((3,), (), (1,))
    assert (one.before, one.done_at, one.conflict, one.undone, one.bound) == (None, None, None, (), ())
    assert [(said.run, said.number) for said in settlement.steering()] == [
        ("other", 1),
        ("trip", 1),
        ("trip", 2),
        ("trip", 3),
    ]


def test_an_addition_is_told_at_the_next_step_and_nothing_is_undone(settlement, agency, trip):
    program = trip(at=once(3, lambda: settlement.steer("trip", "add", "a window seat", by="ada")))
    settlement.steered("trip", program)
    assert agency.log == [*days(1, 2, 3), "book hotel/Ada", *days(*range(5, 13))]
    assert program.told == [[], [], *[["a window seat"]] * 10]
    (said,) = settlement.steering("trip")
    assert (said.state, said.before, said.rewound, said.undone) == ("done", "3", (), ())


def test_why_an_effect_was_called_tells_who_had_steered_by_then_about_what_it_touched(settlement, agency, trip, clock):
    def say():
        clock.advance(60)
        settlement.steer("trip", "add", "a window seat", by="ada")
        settlement.steer("trip", "revise", "Bee", scope="trip:/hotel/**", by="eve")

    settlement.steered("trip", trip(at=once(9, say)))
    steered = {}
    for recorded in settlement.transactions(run="trip"):
        for each in recorded.effects:
            said = [(one["what"], one["text"], one["by"]) for one in settlement.why(each.row.key).steered]
            steered[recorded.row.name, each.row.scope] = said
    window = ("add", "a window seat", "ada")
    assert steered["trip/3", "trip:/day/3"] == []
    assert steered["trip/4", "trip:/hotel/Ada"] == []
    assert steered["trip/4~2", "trip:/hotel/Bee"] == [window, ("revise", "Bee", "eve")]
    assert steered["trip/5~2", "trip:/day/5"] == [window]


def test_a_run_that_is_begun_again_is_told_at_the_same_step_what_it_was_told_before(settlement, agency, trip):
    program = trip(at=once(3, lambda: settlement.steer("trip", "add", "a window seat", by="ada")))
    settlement.steered("trip", program)
    before, log = program.told, list(agency.log)
    again = trip()
    settlement.steered("trip", again)
    assert (again.told, agency.log) == (before, log)


def test_an_addition_waits_while_a_run_only_repeats_and_is_told_where_it_decides(settlement, agency, trip):
    def end():
        raise InterruptedError

    with pytest.raises(InterruptedError):
        settlement.steered("trip", trip(at=once(5, end)))
    settlement.steer("trip", "add", "a window seat", by="ada")
    again = trip()
    settlement.steered("trip", again)
    assert again.told == [*[[]] * 4, *[["a window seat"]] * 8]
    assert settlement.steering("trip")[0].before == "5"
    assert agency.log == [*days(1, 2, 3), "book hotel/Ada", *days(*range(5, 13))]


def test_a_revision_undoes_the_earliest_decision_in_conflict_and_all_behind_it(settlement, agency, trip):
    say = once(10, lambda: settlement.steer("trip", "revise", "Bee", scope="trip:/hotel/**", by="ada"))
    program = trip(at=say)
    settlement.steered("trip", program)
    booked = [*days(1, 2, 3), "book hotel/Ada", *days(5, 6, 7, 8, 9)]
    undone = ["cancel day/9", "cancel day/8", "cancel day/7", "cancel day/6", "cancel day/5", "cancel hotel/Ada"]
    assert agency.log == [*booked, *undone, "book hotel/Bee", *days(*range(5, 13))]
    assert program.calls == 2
    assert program.told == [*[[]] * 3, *[["Bee"]] * 9]
    (said,) = settlement.steering("trip")
    assert (said.state, said.before, said.bound) == ("done", "10", ())
    assert said.rewound == ("trip/9", "trip/8", "trip/7", "trip/6", "trip/5", "trip/4")
    assert [(each.transaction, each.scope) for each in said.undone] == [
        *((f"trip/{number}", f"trip:/day/{number}") for number in (9, 8, 7, 6, 5)),
        ("trip/4", "trip:/hotel/Ada"),
    ]
    conflict = said.conflict
    assert (conflict.transaction, conflict.title, conflict.scope, conflict.ground) == (
        "trip/4",
        "the hotel",
        "trip:/hotel/Ada",
        False,
    )
    assert settlement.residue() == []
    with pytest.raises(Rewound), settlement.transaction("trip/4") as tx:
        tx.call(agency.book, place="hotel/Ada")


def test_what_cannot_be_undone_bounds_it_is_named_and_is_not_done_twice(settlement, agency, trip):
    say = once(10, lambda: settlement.steer("trip", "revise", "Bee", scope="trip:/hotel/**", by="ada"))
    settlement.steered("trip", trip(mails=True, at=say))
    (said,) = settlement.steering("trip")
    assert [(each.transaction, each.tool, each.scope) for each in said.bound] == [("trip/6", "mail", "mail:/ada")]
    assert [each.transaction for each in said.undone] == ["trip/9", "trip/8", "trip/7", "trip/5", "trip/4"]
    assert agency.log.count("mail ada your trip") == 1
    assert agency.stands == [
        *days(1, 2, 3),
        "mail ada your trip",
        "book hotel/Bee",
        *days(5, 7, 8, 9, 10, 11, 12),
    ]
    (left,) = settlement.residue()
    assert (left.transaction, left.key) == ("trip/6", said.bound[0].key)


def test_a_run_that_is_begun_again_after_that_repeats_nothing(settlement, agency, trip):
    say = once(10, lambda: settlement.steer("trip", "revise", "Bee", scope="trip:/hotel/**", by="ada"))
    settlement.steered("trip", trip(mails=True, at=say))
    log = list(agency.log)
    again = trip(mails=True)
    settlement.steered("trip", again)
    assert (agency.log, again.calls) == (log, 1)


def test_a_revision_finds_a_decision_by_what_it_stood_on(settlement, agency, trip):
    say = once(6, lambda: settlement.steer("trip", "revise", "Bee", scope="price:/**", by="ada"))
    settlement.steered("trip", trip(at=say))
    (said,) = settlement.steering("trip")
    conflict = said.conflict
    assert (conflict.transaction, conflict.title, conflict.scope, conflict.ground) == (
        "trip/4",
        "the hotel",
        "price:/hotels",
        True,
    )
    assert agency.stands == [*days(1, 2, 3), "book hotel/Bee", *days(*range(5, 13))]


def test_what_contradicts_nothing_is_acknowledged_and_told_and_nothing_is_undone(settlement, agency, trip):
    say = once(10, lambda: settlement.steer("trip", "retract", "no museum", scope="museum:/**", by="ada"))
    program = trip(at=say)
    settlement.steered("trip", program)
    (said,) = settlement.steering("trip")
    assert (said.state, said.before, said.conflict, said.rewound) == ("done", "10", None, ())
    assert (program.calls, program.told[8:]) == (1, [[], *[["no museum"]] * 3])
    assert agency.log == [*days(1, 2, 3), "book hotel/Ada", *days(*range(5, 13))]


def test_what_is_said_in_the_last_step_is_heard_behind_it(settlement, agency, trip):
    program = trip(at=once(12, lambda: None))

    def last(run):
        value = program(run)
        if program.calls == 1:
            settlement.steer("trip", "revise", "Bee", scope="trip:/hotel/**", by="ada")
        return value

    assert settlement.steered("trip", last) == [*days(1, 2, 3), "book hotel/Bee", *days(*range(5, 13))]
    assert settlement.steering("trip")[0].before is None


def test_what_is_said_when_a_run_has_ended_waits_until_it_is_begun_again(settlement, agency, trip):
    settlement.steered("trip", trip())
    settlement.steer("trip", "revise", "Bee", scope="trip:/hotel/**", by="ada")
    assert settlement.steering("trip")[0].state == "waiting"
    settlement.steered("trip", trip())
    assert agency.stands == [*days(1, 2, 3), "book hotel/Bee", *days(*range(5, 13))]


@pytest.mark.parametrize("what", [{"run": "trip"}, {"everything": True}], ids=["the run", "everything"])
def test_a_run_that_is_halted_hears_nothing_and_undoes_nothing_until_that_is_lifted(settlement, agency, trip, what):
    def stop():
        settlement.steer("trip", "revise", "Bee", scope="trip:/hotel/**", by="ada")
        settlement.halt(**what, by="eve", because="odd bookings")

    with pytest.raises(Halted):
        settlement.steered("trip", trip(at=once(6, stop)))
    assert settlement.steering("trip")[0].state == "waiting"
    assert agency.log == [*days(1, 2, 3), "book hotel/Ada", *days(5)]
    settlement.resume(1, by="eve")
    settlement.steered("trip", trip())
    assert settlement.steering("trip")[0].state == "done"
    assert agency.stands == [*days(1, 2, 3), "book hotel/Bee", *days(*range(5, 13))]


def test_a_run_that_is_cancelled_undoes_nothing_at_its_boundary_and_says_so_of_what_it_has_not_heard(
    settlement, agency, trip
):
    def stop():
        settlement.steer("trip", "add", "no museum", by="ada")
        settlement.steer("trip", "revise", "Bee", scope="trip:/hotel/**", by="ada")
        settlement.cancel("trip")

    with pytest.raises(Cancelled):
        settlement.steered("trip", trip(at=once(6, stop)))
    assert [(said.number, said.state, said.is_open) for said in settlement.steering("trip")] == [
        (1, "unheard", False),
        (2, "unheard", False),
    ]
    assert agency.log == [*days(1, 2, 3), "book hotel/Ada", *days(5)]
    with pytest.raises(UsageError, match="was cancelled, and hears nothing more"):
        settlement.steer("trip", "add", "a window seat", by="ada")
    assert len(settlement.steering("trip")) == 2


def states_of(settlement, number=1):
    """The states that a message has had, as they are on record."""
    return host_of(settlement).ledger.read(
        lambda book: [version.state for version in book.entries.versions("steering", f"trip~{number}")]
    )


def test_what_was_taken_by_a_process_that_could_not_undo_it_is_unheard_when_its_run_is_cancelled(
    settlement, agency, trip
):
    settlement.steered("trip", trip())
    settlement.steer("trip", "revise", "Bee", scope="trip:/hotel/**", by="ada")
    kernel = host_of(settlement).driver.kernel
    known, kernel.declaration = kernel.declaration, lambda tool, version: None
    with pytest.raises(DeclarationError):
        settlement.steered("trip", trip())
    kernel.declaration = known
    before = list(agency.log)
    settlement.cancel("trip")
    (said,) = settlement.steering("trip")
    assert (said.state, said.is_open, said.done_at, said.undone) == ("unheard", False, None, ())
    assert (said.conflict.scope, said.text) == ("trip:/hotel/Ada", "Bee")
    assert states_of(settlement) == ["waiting", "taken", "unheard"]
    assert agency.log == before
    settlement.cancel("trip")
    assert states_of(settlement) == ["waiting", "taken", "unheard"]


def test_what_is_being_undone_for_a_message_as_its_run_is_cancelled_is_undone_to_its_end_and_told(
    settlement, agency, trip
):
    cancels = []

    def undo(place):
        if not cancels:
            cancels.append(place)
            settlement.cancel("trip")
        agency.log.append(f"cancel {place}")

    @effect("reversible", scope="trip:/{place:path}", undo=undo)
    def hire(place):
        agency.log.append(f"book {place}")

    def plan(run):
        for place in ("car", "bus"):
            with run.step(place) as tx:
                tx.call(hire, place=place)
        settlement.steer("trip", "retract", "no car", scope="trip:/car", by="ada")

    settlement.steered("trip", plan)
    (said,) = settlement.steering("trip")
    assert agency.log == ["book car", "book bus", "cancel bus", "cancel car"]
    assert (said.state, [each.scope for each in said.undone], said.bound) == ("unheard", ["trip:/bus", "trip:/car"], ())
    assert states_of(settlement) == ["waiting", "taken", "unheard", "unheard"]


def test_two_revisions_are_taken_in_the_order_in_which_they_were_said(settlement, agency, trip):
    def both():
        settlement.steer("trip", "revise", "Bee", scope="trip:/hotel/**", by="ada")
        settlement.steer("trip", "revise", "Cee", scope="trip:/hotel/**", by="bob")

    program = trip(at=once(10, both))
    settlement.steered("trip", program)
    first, second = settlement.steering("trip")
    assert (first.against, second.against) == ((2,), (1,))
    assert (len(first.undone), second.conflict, second.undone) == (6, None, ())
    assert program.told[3] == ["Bee", "Cee"]
    assert "book hotel/Cee" in agency.stands
    assert program.calls == 2


def test_a_later_revision_undoes_what_the_earlier_one_has_had_decided_anew(settlement, agency, trip):
    say = [once(10, lambda: settlement.steer("trip", "revise", "Bee", scope="trip:/hotel/**", by="ada"))]

    def at(number):
        say[0](number)
        if number == 10 and len(say) == 1 and "book hotel/Bee" in agency.stands:
            say.append(None)
            settlement.steer("trip", "revise", "Cee", scope="trip:/hotel/**", by="ada")

    settlement.steered("trip", trip(at=at))
    assert agency.stands == [*days(1, 2, 3), "book hotel/Cee", *days(*range(5, 13))]
    first, second = settlement.steering("trip")
    assert second.rewound == tuple(f"trip/{number}~2" for number in (9, 8, 7, 6, 5, 4))
    assert (first.against, second.against) == ((), ())


def test_a_step_that_is_open_is_undone_with_the_rest(settlement, agency):
    heard = []

    def plan(run):
        with run.step("outer") as tx:
            tx.call(agency.book, place=f"hotel/{len(heard)}")
            if not heard:
                heard.append(settlement.steer("trip", "revise", "Bee", scope="trip:/hotel/**", by="ada"))
            with run.step("inner") as inner:
                inner.call(agency.book, place="day/1")

    settlement.steered("trip", plan)
    assert agency.log == ["book hotel/0", "cancel hotel/0", "book hotel/1", "book day/1"]


def test_no_except_of_the_program_takes_the_return_to_its_beginning(settlement, agency, trip):
    say = once(10, lambda: settlement.steer("trip", "revise", "Bee", scope="trip:/hotel/**", by="ada"))
    program = trip(at=say)

    def plan(run):
        try:
            program(run)
        except Exception:
            agency.log.append("taken")

    settlement.steered("trip", plan)
    assert "taken" not in agency.log
    assert agency.stands == [*days(1, 2, 3), "book hotel/Bee", *days(*range(5, 13))]


def test_an_undo_that_is_not_known_here_stops_the_run_at_its_boundary_and_the_next_one_goes_on(
    settlement, agency, monkeypatch
):
    def undo(place):
        agency.log.append(f"cancel {place}")

    @effect("reversible", scope="trip:/{place:path}", undo=undo)
    def hire(place):
        agency.log.append(f"book {place}")

    def plan(run):
        with run.step("1") as tx:
            tx.call(hire, place="car")
        with run.step("2") as tx:
            tx.call(agency.book, place="day/2")

    kernel = host_of(settlement).driver.kernel
    known = kernel.declaration
    kernel.declaration = lambda tool, version: None if tool == "hire" else known(tool, version)

    def ending(run):
        plan(run)
        settlement.steer("trip", "retract", "no car", scope="trip:/car", by="ada")

    with pytest.raises(DeclarationError, match="hire"):
        settlement.steered("trip", ending)
    assert agency.log == ["book car", "book day/2"]
    assert settlement.steering("trip")[0].state == "taken"
    kernel.declaration = known
    settlement.steered("trip", lambda run: None)
    assert agency.log == ["book car", "book day/2", "cancel day/2", "cancel car"]
    assert settlement.steering("trip")[0].state == "done"


def test_async_programs_are_steered_alike(settlement, agency):
    async def plan(run):
        async with run.step("1") as tx:
            await tx.call(agency.book, place=f"hotel/{run.said[-1].text if run.said else 'Ada'}")
        if not run.said:
            await settlement.asteer(run.name, "revise", "Bee", scope="trip:/hotel/**", by="ada")
        async with run.step("2") as tx:
            await tx.call(agency.book, place="day/2")
        return run.said[0].what

    assert asyncio.run(settlement.steered("trip", plan)) == "revise"
    assert agency.log == ["book hotel/Ada", "cancel hotel/Ada", "book hotel/Bee", "book day/2"]


REFUSED = {
    "no run": (("", "add", "x"), {"by": "ada"}, "run is the id"),
    "no such word": (("trip", "change", "x"), {"by": "ada"}, "choose one of 'add', 'revise', 'retract'"),
    "no text": (("trip", "add", " "), {"by": "ada"}, "what is said is a text"),
    "too long": (("trip", "add", "x" * 4_001), {"by": "ada"}, "4,000 are the most"),
    "nobody": (("trip", "add", "x"), {"by": ""}, "by= is who says it"),
    "no scope": (("trip", "revise", "x"), {"by": "ada"}, "needs scope="),
    "no scopes": (("trip", "revise", "x"), {"by": "ada", "scope": 7}, "scope= is 7: give a list of them"),
    "a transaction": (("trip/1", "add", "x"), {"by": "ada"}, "a transaction of the run trip: nothing was said"),
    "a cancelled run": (("gone", "add", "x"), {"by": "ada"}, "was cancelled"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_said_is_refused_and_nothing_is_recorded(settlement, agency, case):
    given, named, told = REFUSED[case]
    settlement.cancel("gone")
    with settlement.transaction("trip/1") as tx:
        tx.call(agency.book, place="day/1")
        with pytest.raises(UsageError, match=told):
            settlement.steer(*given, **named)
    assert settlement.steering() == []


def test_a_malformed_scope_is_refused_and_nothing_is_recorded(settlement):
    with pytest.raises(ScopeError):
        settlement.steer("trip", "revise", "x", scope="hotel", by="ada")
    assert settlement.steering() == []


@pytest.mark.parametrize("name", ["", "1~2", None])
def test_a_step_without_a_name_of_its_own_is_refused(quick, name):
    with pytest.raises(UsageError):
        quick.steered("trip", lambda run: run.step(name))


@pytest.mark.parametrize("case", ["that has ended", "that is open"])
def test_a_step_is_not_answered_with_a_transaction_of_another_run(settlement, agency, case):
    def ship(run):
        with run.step("ship") as tx:
            return tx.call(agency.book, place="ship")

    def of_case(run):
        with run.step("42/ship") as tx:
            tx.call(agency.book, place="another")
            if case == "that is open":
                refused()
        refused()

    def refused():
        with pytest.raises(UsageError, match="case/42/ship is a transaction of the run case already"):
            settlement.steered("case/42", ship)

    settlement.steered("case", of_case)
    assert agency.log == ["book another"]
    assert [(each.row.name, each.row.run) for each in settlement.transactions()] == [("case/42/ship", "case")]
    settlement.steered("case/43", ship)
    assert agency.log == ["book another", "book ship"]
