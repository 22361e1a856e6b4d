"""What the statements of a SQL ledger promise, each beside a twin namespace that has the same names.

Every function here is one promise: it is run as a test, and again with each clause of each statement wrong.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.core.ledgers.twins import PATIENCE, Side, Twins, ended, fenced, intent, opened, shown, told
from tests.rooms.doctor import doctor as _doctor
from tests.rooms.doctor import server as _server
from tests.rooms.doctor import work as _work
from tests.rooms.ledger import QUARANTINE_SECONDS, Age, Page, Said, bury
from tests.rooms.model import Disposed
from tests.rooms.payloads import LIMIT
from tests.rooms.protocol import DETACHED, Mode
from tests.rooms.record import Blobs, oldest, transaction_in
from tests.rooms.replica import EPOCHS, Look, Member, effects, image
from tests.rooms.sql import watchers

from settlemark import LedgerError, Outcome, Scope, State, Tag
from settlemark.hosting import Disposition, Reason
from settlemark.ledger import Waited
from settlemark.testing import VirtualClock

LONG, OTHER = json.dumps("x" * (LIMIT + 1)), json.dumps("y" * (LIMIT + 1))
FAR = 1e9


def loaded(side: Side, name: str = "trip") -> Any:
    return side.book(lambda book: book.load(name))


# ---- what is recorded


def an_attempt_or_a_fence_that_is_recorded_again_stays_as_it_was(twins: Twins) -> None:
    twins.write(opened(epoch=1), fenced("gone", 1.0))
    before = twins.ours.rows("transaction"), twins.ours.rows("fence")
    twins.ours.write(opened(epoch=9, at=9.0), fenced("gone", 9.0))
    assert (twins.ours.rows("transaction"), twins.ours.rows("fence")) == before


SAID = {"cause": "no rooms", "link": "tour/2", "waits_for": "tour", "waits_on": "room:/a"}
"""What is told beside the reason of a state."""


def a_state_is_told_of_one_attempt_and_of_no_other(twins: Twins) -> None:
    twins.write(opened(), opened(attempt=2), opened("tour", at=2.0))
    twins.ours.write(ended(attempt=2, state=State.ABORTED, epoch=7, reason=Reason.FAILED, at=5.0)._replace(**SAID))
    one, two, tour = twins.ours.book(lambda book: book.transactions())
    assert [(r.row.name, r.state, r.epoch, r.reason, r.settled_at) for r in (one, two, tour)] == [
        ("trip", State.OPEN, 1, None, None),
        ("trip", State.ABORTED, 7, Reason.FAILED, 5.0),
        ("tour", State.OPEN, 1, None, None),
    ]
    nothing = dict.fromkeys(SAID)
    assert [{name: getattr(r, name) for name in SAID} for r in (one, two, tour)] == [nothing, SAID, nothing]


def when_it_was_sealed_and_decided_and_for_whom_it_waited_stays_until_its_payloads_go(twins: Twins) -> None:
    twins.write(opened(), intent(window=50.0), told())
    waited = (Waited("tour", "room:/a", 2.0, 3.0),)
    twins.ours.write(ended(state=State.SEALED)._replace(sealed_at=4.0, decided_at=5.0, waits=waited))
    twins.other.write(ended())
    twins.ours.write(ended(at=10.0))
    columns = "sealed_at_seconds, decided_at_seconds, waits"
    look = f"SELECT {columns} FROM settlemark_transaction WHERE namespace = 'ours'"
    ((sealed, decided, waits),) = twins.store.asked(look)
    assert (sealed, decided, json.loads(waits)) == (4.0, 5.0, [list(waited[0])])
    sweep(twins.ours, now=20.0, before=30.0)
    ((sealed, decided, waits),) = twins.store.asked(look)
    assert (sealed, decided, waits) == (4.0, 5.0, None)


def an_outcome_is_told_of_one_effect_and_of_no_other_and_is_news_to_whoever_had_dealt_with_it(twins: Twins) -> None:
    twins.write(opened(), intent(), intent(position=1), Said("trip#1/0", '"seen"', "ada", 2.0, dealt=True))
    twins.ours.write(told(what=Outcome.UNKNOWN, error="lost", tag=Tag.UNRESOLVED, note="ask", at=4.0))
    first, second = loaded(twins.ours).effects
    assert (first.outcome, first.result, first.error, first.tag, first.note, first.settled_at, first.dealt_at) == (
        Outcome.UNKNOWN, '{"id":7}', "lost", Tag.UNRESOLVED, "ask", 4.0, None,
    )  # fmt: skip
    assert (second.outcome, second.result, second.settled_at) == (Outcome.INTENDED, None, None)


def what_is_decided_of_an_effect_is_of_no_other_and_lasts_until_the_next_news_of_it(twins: Twins) -> None:
    twins.write(opened(), intent(), intent(position=1))
    decided = Disposed(Disposition.EDITED, "why", "trip#1/1", 2, contradicted=True)
    twins.ours.write(told()._replace(**decided._asdict()))
    assert [effect.disposed for effect in loaded(twins.ours).effects] == [decided, Disposed()]
    twins.ours.write(told())
    assert loaded(twins.ours).effects[0].disposed == Disposed()


def what_a_person_says_is_said_of_one_effect_and_of_no_other(twins: Twins) -> None:
    twins.write(opened(), intent(), intent(position=1))
    twins.ours.write(Said("trip#1/0", '"yes"', "ada", 4.0, dealt=True))
    twins.ours.write(Said("trip#1/1", '"no"', "bob", 5.0, dealt=False))
    assert [(e.said, e.said_by, e.said_at, e.dealt_at) for e in loaded(twins.ours).effects] == [
        ('"yes"', "ada", 4.0, 4.0), ('"no"', "bob", 5.0, None),
    ]  # fmt: skip


def who_may_still_be_sending_is_noted_of_the_effects_that_are_named(twins: Twins) -> None:
    twins.write(opened(), intent(), intent(position=1))
    twins.ours.book(lambda book: book.set_sender(["trip#1/1"], "ghost"))
    assert [e.sender for e in loaded(twins.ours).effects] == [None, "ghost"]


# ---- what is read


def the_last_attempt_of_a_name_is_loaded_with_its_own_effects_in_their_order(twins: Twins) -> None:
    twins.write(opened(attempt=2), opened(attempt=10), opened(attempt=1), opened("tour", 10))
    twins.write(*(intent(attempt=n, position=p) for n in (1, 10) for p in (11, 2, 0)), intent("tour", 10, key="tour"))
    assert shown([loaded(twins.ours)]) == [("trip#10 mine", ["book 0", "book 2", "book 11"])]
    twins.write(opened("zoo", attempt=99))
    twins.other.write(opened(attempt=11))
    assert shown([loaded(twins.ours)]) == [("trip#10 mine", ["book 0", "book 2", "book 11"])]
    assert loaded(twins.ours, "nobody") is None


def a_key_finds_the_attempt_that_has_it(twins: Twins) -> None:
    twins.write(opened(), opened(attempt=2), opened("tour", attempt=2))
    twins.write(intent(), intent(attempt=2), intent("tour", 2), intent("tour", 2, 1))
    find = lambda key: twins.ours.book(lambda book: book.find(key))  # noqa: E731 - asked three times
    assert shown([find("trip#2/0")]) == [("trip#2 mine", ["book 0"])]
    assert shown([find("tour#2/1")]) == [("tour#2 mine", ["book 0", "book 1"])]
    twins.other.write(opened("ours"), intent("ours"))
    assert find("ours#1/0") is None


def of_several_ages(twins: Twins) -> None:
    """Attempts in no order, some of them as old as another; effects in no order."""
    twins.write(
        opened("late", at=5.0, epoch=2), opened("early", at=1.0, epoch=9), opened("same", 2, at=5.0, epoch=1),
        opened("same", 10, at=5.0, epoch=1), opened("same", 1, at=5.0, epoch=1), opened("other", at=3.0, run="other"),
    )  # fmt: skip
    twins.write(*(intent("same", n, p) for n in (2, 10, 1) for p in (10, 9)), intent("other", 1, 3), intent("late"))
    twins.other.write(opened("theirs", at=2.0), intent("theirs"))


AGES = [
    ("early#1 mine", []), ("other#1 mine", ["book 3"]), ("same#1 mine", ["book 9", "book 10"]),
    ("same#2 mine", ["book 9", "book 10"]), ("same#10 mine", ["book 9", "book 10"]), ("late#1 mine", ["book 0"]),
]  # fmt: skip


def all_attempts_are_listed_from_the_oldest_to_the_newest(twins: Twins) -> None:
    of_several_ages(twins)
    assert shown(twins.ours.book(lambda book: book.transactions())) == AGES


def unfinished_is_what_has_not_come_to_its_end(twins: Twins) -> None:
    of_several_ages(twins)
    assert shown(twins.ours.book(lambda book: book.unfinished())) == AGES
    twins.ours.write(ended("same", 2), ended("early"))
    assert shown(twins.ours.book(lambda book: book.unfinished())) == [AGES[1], AGES[2], AGES[4], AGES[5]]


def unfinished_with_an_outcome_are_the_attempts_that_have_such_an_effect_with_those_alone(twins: Twins) -> None:
    of_several_ages(twins)
    twins.ours.write(*(told(f"same#{n}/9", Outcome.UNKNOWN) for n in (1, 2, 10)), told("late#1/0", Outcome.UNKNOWN))
    twins.ours.write(told("same#1/10", Outcome.UNKNOWN), ended("same", 2), opened("same", 3, at=2.0))
    twins.ours.write(intent("early"), told("early#1/0", Outcome.UNKNOWN))
    twins.ours.write(opened("done"), intent("done"), told("done#1/0", Outcome.UNKNOWN), ended("done"))
    twins.other.write(told("other#1/3", Outcome.UNKNOWN), told("same#10/10", Outcome.UNKNOWN))
    assert shown(twins.ours.book(lambda book: book.unfinished(Outcome.UNKNOWN))) == [
        ("early#1 mine", ["book 0"]),
        ("same#1 mine", ["book 9", "book 10"]), ("same#10 mine", ["book 9"]), ("late#1 mine", ["book 0"]),
    ]  # fmt: skip


def unresolved_are_the_effects_that_an_abort_left_and_that_happened_or_may_have(twins: Twins) -> None:
    of_several_ages(twins)
    left = [(1, Outcome.CONFIRMED, Tag.UNRESOLVED), (10, Outcome.UNKNOWN, Tag.LEAKED)]
    twins.ours.write(*(told(f"same#{n}/9", what, tag=tag) for n, what, tag in left))
    twins.ours.write(told("same#1/10", Outcome.UNKNOWN, tag=Tag.UNRESOLVED), told("late#1/0", tag=Tag.LEAKED))
    twins.ours.write(told("same#2/9", Outcome.UNDONE, tag=Tag.UNRESOLVED), told("same#2/10", tag=Tag.CLEAN))
    twins.ours.write(intent("early"), told("early#1/0", tag=Tag.LEAKED))
    twins.other.write(told("other#1/3", tag=Tag.LEAKED), told("same#10/10", tag=Tag.LEAKED))
    assert shown(twins.ours.book(lambda book: book.unresolved())) == [
        ("early#1 mine", ["book 0"]),
        ("same#1 mine", ["book 9", "book 10"]), ("same#10 mine", ["book 9"]), ("late#1 mine", ["book 0"]),
    ]  # fmt: skip


def in_doubt_of_a_run_is_what_nobody_knows_of_in_an_attempt_that_goes_on_or_left_residue(twins: Twins) -> None:
    of_several_ages(twins)
    twins.ours.write(*(told(f"same#{n}/9", Outcome.UNKNOWN, tag=Tag.UNRESOLVED) for n in (1, 2)))
    twins.ours.write(told("same#10/9", Outcome.UNKNOWN), told("same#10/10", tag=Tag.UNRESOLVED), ended("same", 2))
    twins.ours.write(Said("same#2/9", '"seen"', "ada", 4.0, dealt=True), told("late#1/0", Outcome.UNKNOWN))
    twins.ours.write(told("late#1/0", Outcome.CONFIRMED), told("other#1/3", Outcome.UNKNOWN, tag=Tag.UNRESOLVED))
    twins.other.write(told("same#10/10", Outcome.UNKNOWN, tag=Tag.UNRESOLVED))
    found = twins.ours.book(lambda book: [effect.row.key for effect in book.in_doubt("run")])
    assert sorted(found) == ["same#1/9", "same#10/9", "same#2/9"]
    assert [effect.row.key for effect in twins.ours.book(lambda book: book.in_doubt("other"))] == ["other#1/3"]


def the_attempts_of_a_run_are_its_own(twins: Twins) -> None:
    of_several_ages(twins)
    twins.other.write(opened("early", 2), intent("same", 2, 77))
    assert shown(twins.ours.book(lambda book: book.of_run("run"))) == [AGES[0], *AGES[2:]]
    assert shown(twins.ours.book(lambda book: book.of_run("other"))) == [AGES[1]]


def since_an_epoch_is_from_that_one_on(twins: Twins) -> None:
    of_several_ages(twins)
    assert shown(twins.ours.book(lambda book: book.since(2))) == [AGES[0], AGES[5]]
    assert shown(twins.ours.book(lambda book: book.since(1))) == AGES
    assert shown(twins.ours.book(lambda book: book.since(10))) == []


def a_page_is_the_newest_of_what_is_asked_for(twins: Twins) -> None:
    of_several_ages(twins)
    page = lambda **asked: shown(twins.ours.book(lambda book: book.recent(Page(**asked))))  # noqa: E731
    assert page() == AGES
    assert page(last=2) == AGES[4:]
    for last in range(1, 7):
        assert page(last=last, state=State.OPEN) == AGES[-last:]
    asked: dict[str, Any] = {"run": "run", "state": State.OPEN, "since": 5.0}
    assert page(last=3, **asked) == AGES[3:]
    assert page(last=9, **asked) == AGES[2:]
    assert page(last=2, run="run", state=State.OPEN, since=0.0) == AGES[4:]
    assert page(last=9, run="run", state=State.OPEN, since=0.0) == [AGES[0], *AGES[2:]]
    twins.ours.write(ended("same", 10, State.SEALED))
    assert page(last=9, run="run", state=State.OPEN, since=0.0) == [AGES[0], *AGES[2:4], AGES[5]]
    assert page(last=9, run="run", state=State.OPEN) == [AGES[0], *AGES[2:4], AGES[5]]
    assert page(last=9, state=State.OPEN) == [*AGES[:4], AGES[5]]
    twins.write(
        *(ended("same", n) for n in (1, 2, 10)), ended("late", epoch=2), ended("early", epoch=9), ended("other")
    )
    assert page(last=9, run="run", state=State.OPEN, since=0.0) == []
    for last in range(1, 7):
        assert page(last=last, state=State.COMMITTED) == AGES[-last:]
    assert page(last=2, run="run", state=State.COMMITTED, since=5.0) == AGES[4:]
    assert page(last=9, run="run", state=State.COMMITTED, since=5.0) == AGES[2:]
    assert page(last=5, run="run", state=State.COMMITTED, since=1.0) == [AGES[0], *AGES[2:]]
    assert page(last=4, run="run", state=State.COMMITTED, since=0.0) == AGES[2:]
    assert page(last=9, run="other", state=State.COMMITTED, since=0.0) == [AGES[1]]
    assert page(last=9, run="run", state=State.COMMITTED) == [AGES[0], *AGES[2:]]
    twins.ours.write(ended("same", 2, State.ABORTED))
    assert page(last=9, run="run", state=State.COMMITTED) == [AGES[0], AGES[2], *AGES[4:]]
    assert page(last=9, state=State.COMMITTED) == [*AGES[:3], *AGES[4:]]
    assert page(last=9, run="run", state=State.COMMITTED, since=5.0) == [AGES[2], *AGES[4:]]
    assert page(last=9, run="run", state=State.ABORTED, since=0.0) == [AGES[3]]


def lefts(twins: Twins) -> None:
    """Effects that something was left of, of several ages and runs, and one of whose neighbours is clean."""
    twins.write(opened("a"), opened("a", 2), opened("b", at=2.0), opened("c", at=3.0, run="other"))
    for name, attempt, position, at in (("b", 1, 0, 4.0), ("a", 2, 0, 4.0), ("a", 1, 0, 3.0), ("c", 1, 0, 5.0)):
        twins.write(intent(name, attempt, position, at=at), told(f"{name}#{attempt}/0", tag=Tag.UNRESOLVED))
    twins.write(intent("a", 1, 1, at=6.0), told("a#1/1", tag=Tag.CLEAN), intent("b", 1, 1, at=6.0), told("b#1/1"))
    twins.write(opened("d", at=2.0), intent("d", at=7.0), told("d#1/0", tag=Tag.CLEAN))
    twins.other.write(opened("theirs"), intent("theirs", at=8.0), told("theirs#1/0", tag=Tag.LEAKED))


def left(side: Side, *, dealt: bool = False, **asked: Any) -> list[str]:
    found = side.book(lambda book: book.left(Page(**asked), dealt=dealt))
    return [f"{r.row.name}#{r.row.attempt} {r.row.owner}" for r in found]


def what_is_left_is_shown_page_by_page_from_the_newest_until_somebody_has_dealt_with_it(twins: Twins) -> None:
    lefts(twins)
    assert left(twins.ours) == ["a#1 mine", "a#2 mine", "b#1 mine", "c#1 mine"]
    assert left(twins.ours, last=1) == ["c#1 mine"]
    assert left(twins.ours, last=2) == ["b#1 mine", "c#1 mine"]
    assert left(twins.ours, last=9, run="run", since=4.0) == ["a#2 mine", "b#1 mine"]
    assert left(twins.ours, last=1, run="run", since=4.0) == ["b#1 mine"]
    assert left(twins.ours, last=1, run="run", since=0.0) == ["b#1 mine"]
    assert left(twins.ours, last=9, run="other", since=0.0) == ["c#1 mine"]
    assert [left(twins.ours, last=last, run="run") for last in (1, 2)] == [["b#1 mine"], ["a#2 mine", "b#1 mine"]]
    assert left(twins.ours, dealt=True) == []
    twins.ours.write(Said("b#1/0", '"seen"', "ada", 7.0, dealt=True))
    assert left(twins.ours, last=9, run="run", since=0.0) == ["a#1 mine", "a#2 mine"]
    assert left(twins.ours) == ["a#1 mine", "a#2 mine", "c#1 mine"]
    assert left(twins.ours, last=2) == ["a#2 mine", "c#1 mine"]


def what_was_dealt_with_is_shown_page_by_page_from_the_newest(twins: Twins) -> None:
    lefts(twins)
    twins.write(opened("never", at=9.0), intent("never"), told("never#1/0", tag=Tag.LEAKED))
    for at, key in ((7.0, "b#1/0"), (8.0, "a#2/0"), (7.0, "c#1/0"), (7.0, "a#1/0")):
        twins.write(Said(key, '"seen"', "ada", at, dealt=True))
    twins.other.write(Said("theirs#1/0", '"seen"', "ada", 9.0, dealt=True))
    assert left(twins.ours, dealt=True) == ["a#1 mine", "a#2 mine", "b#1 mine", "c#1 mine"]
    assert left(twins.ours, dealt=True, last=9) == ["a#1 mine", "a#2 mine", "b#1 mine", "c#1 mine"]
    assert left(twins.ours, dealt=True, last=2) == ["a#2 mine", "c#1 mine"]
    assert left(twins.ours, dealt=True, last=9, run="run", since=7.0) == ["a#1 mine", "a#2 mine", "b#1 mine"]
    assert left(twins.ours, dealt=True, last=2, run="run", since=7.0) == ["a#2 mine", "b#1 mine"]
    assert left(twins.ours, dealt=True, last=9, run="run", since=7.5) == ["a#2 mine"]
    assert left(twins.ours, dealt=True, last=9, run="other", since=7.0) == ["c#1 mine"]
    assert left(twins.ours, dealt=True, last=9, run="run") == ["a#1 mine", "a#2 mine", "b#1 mine"]
    assert left(twins.ours, dealt=True, last=2, run="run") == ["a#2 mine", "b#1 mine"]
    assert left(twins.ours, dealt=True, last=9, run="other") == ["c#1 mine"]
    twins.ours.write(told("a#2/0", tag=Tag.UNRESOLVED))
    assert left(twins.ours, dealt=True, last=9, run="run") == ["a#1 mine", "b#1 mine"]
    assert left(twins.ours, last=9, run="run") == ["a#2 mine", "never#1 mine"]


def a_run_of_the_same_name_elsewhere_shows_nothing_that_is_left_here(twins: Twins) -> None:
    twins.ours.write(opened("a", run="mine"), opened("a", 2, run="second"), opened("b", run="third"))
    twins.ours.write(intent("a"), told("a#1/0", tag=Tag.LEAKED), Said("a#1/0", '"seen"', "ada", 7.0, dealt=True))
    twins.ours.write(intent("a", 1, 1), told("a#1/1", tag=Tag.LEAKED))
    twins.other.write(opened("a", run="theirs"))
    for run, seen in (("mine", ["a#1 mine"]), ("theirs", []), ("second", []), ("third", [])):
        assert left(twins.ours, last=9, run=run, since=0.0) == seen
        assert left(twins.ours, last=9, run=run, since=0.0, dealt=True) == seen


def what_is_left_is_of_the_run_of_its_own_attempt_and_namespace(twins: Twins) -> None:
    for side, runs in ((twins.ours, ("mine", "second")), (twins.other, ("theirs", "third"))):
        side.write(opened("a", run=runs[0]), opened("a", 2, run=runs[1]))
    for side in (twins.ours, twins.other):  # only now: whatever is found of these, there are two of it
        side.write(*(intent("a", n) for n in (1, 2)), *(told(f"a#{n}/0", tag=Tag.LEAKED) for n in (1, 2)))
    for side, runs in ((twins.ours, ("mine", "second")), (twins.other, ("theirs", "third"))):
        assert [[one.partition(" ")[0] for one in left(side, run=run)] for run in runs] == [["a#1"], ["a#2"]]


def an_effect_says_of_which_run_it_is_once_it_has_left_something_and_not_before(twins: Twins) -> None:
    twins.write(opened(), intent(), intent(position=1), told(), told("trip#1/1", tag=Tag.CLEAN))
    asked = "SELECT run FROM settlemark_effect WHERE namespace = 'ours' ORDER BY position"
    runs = lambda: [run for (run,) in twins.store.asked(asked)]  # noqa: E731 - asked three times
    assert runs() == [None, None]
    twins.ours.write(told(tag=Tag.LEAKED))
    assert runs() == ["run", None]
    twins.ours.write(told(tag=Tag.CLEAN))
    assert runs() == ["run", None]


def what_turned_out_to_be_clean_is_left_no_more(twins: Twins) -> None:
    twins.write(opened(), intent(), told(tag=Tag.UNRESOLVED), opened("tour"), intent("tour", at=2.0))
    twins.write(told("tour#1/0", tag=Tag.LEAKED))
    twins.ours.write(told(tag=Tag.CLEAN))
    for asked in ({}, {"last": 2}, {"last": 2, "run": "run"}, {"since": 0.0}, {"last": 2, "run": "run", "since": 0.0}):
        assert left(twins.ours, **asked) == ["tour#1 mine"]
        assert left(twins.ours, **asked, dealt=True) == []


# ---- contents that were put aside


def a_long_content_is_stored_once_for_all_that_name_it_and_goes_with_the_last(twins: Twins) -> None:
    twins.write(opened(), opened(attempt=2), opened("tour"))
    for row in (intent(), intent(position=1), intent(attempt=2), intent(position=2), intent("tour")):
        shared = LONG if (row.name, row.position) == ("trip", 0) or row.position == 1 else OTHER
        twins.write(row._replace(arguments=shared))
    uses = {("trip", 1, LONG), ("trip", 1, OTHER), ("trip", 2, LONG), ("tour", 1, OTHER)}
    for name, attempt in (("nobody", 1), ("trip", 1), ("trip", 2), ("tour", 1)):
        contents = {row[1]: row[3] for row in twins.ours.rows("blob")}
        assert {(use[1], use[2], contents[use[3]]) for use in twins.ours.rows("blob_use")} == uses
        assert set(contents.values()) == {content for _, _, content in uses}
        twins.ours.book(lambda book, which=(name, attempt): Blobs(book._wire, "ours").forget(*which))  # type: ignore[misc]
        uses = {use for use in uses if use[:2] != (name, attempt)}
    assert (twins.ours.rows("blob"), twins.ours.rows("blob_use")) == ([], [])
    assert loaded(twins.other).effects[0].row.arguments == LONG


def a_long_content_of_one_effect_is_named_by_no_other(twins: Twins) -> None:
    twins.write(opened(), intent(position=1))
    twins.other.write(intent())
    twins.ours.write(intent(arguments=LONG))
    assert [use[:3] for use in twins.ours.rows("blob_use")] == [("ours", "trip", 1)]


def a_content_is_fetched_by_its_name_from_where_it_was_stored(twins: Twins) -> None:
    twins.write(opened(), intent(arguments=LONG), intent(position=1, arguments=OTHER))
    assert [e.row.arguments[:2] for e in loaded(twins.ours).effects] == ['"x', '"y']
    digests = [row[1] for row in twins.ours.rows("blob")]
    twins.ours.book(lambda book: Blobs(book._wire, "ours").forget("trip", 1))
    for digest in digests:
        with pytest.raises(LookupError):
            twins.ours.book(lambda book, digest=digest: Blobs(book._wire, "ours").fetch(digest))  # type: ignore[misc]


# ---- what is old


def sweep(side: Side, *, now: float, before: float, keys: float = 100.0, limit: int = 99, after: Any = None) -> Any:
    return side.book(lambda book: book.sweep(Age(now, before, keys), after=after, limit=limit))


def counted(side: Side, *, now: float, before: float, keys: float = 100.0) -> Any:
    return side.book(lambda book: book.old(Age(now, before, keys)))


def pruned(side: Side) -> dict[str, bool]:
    """Return by attempt whether its payloads are gone."""
    found = side.book(lambda book: book.transactions())
    return {f"{r.row.name}#{r.row.attempt}": "$pruned" in "".join(e.row.arguments for e in r.effects) for r in found}


def of_several_fates(twins: Twins) -> None:
    """Attempts that settled at 10, 11, …, and of which something was left, is in doubt, or was dealt with."""
    for number, (name, attempt) in enumerate((("a", 1), ("a", 2), ("b", 1), ("c", 1), ("d", 1), ("e", 1))):
        twins.write(opened(name, attempt), intent(name, attempt, window=1.0), told(f"{name}#{attempt}/0", note="n"))
        twins.write(ended(name, attempt, at=10.0 + number, reason=Reason.FAILED)._replace(**SAID))
    twins.write(*(intent(name, n, 1, window=1.0) for name, n in (("a", 2), ("c", 1))), told("a#2/1"), told("c#1/1"))
    twins.write(told("a#2/0", tag=Tag.LEAKED), told("c#1/0", Outcome.UNKNOWN), told("d#1/0", tag=Tag.CLEAN))
    twins.other.write(told("b#1/0", tag=Tag.LEAKED))
    twins.write(told("e#1/0", tag=Tag.LEAKED), Said("e#1/0", '"seen"', "ada", 2.0, dealt=True))


def payloads_go_of_what_settled_before_and_nothing_is_left_of_or_in_doubt(twins: Twins) -> None:
    of_several_fates(twins)
    twins.write(opened("open"), intent("open"))
    assert sweep(twins.ours, now=15.0, before=10.0)[:3] == (0, 0, 0)
    expected = counted(twins.ours, now=10.5, before=14.0)
    assert expected[:3] == (2, 0, 2)
    assert sweep(twins.ours, now=10.5, before=14.0)[:3] == expected[:3]
    assert pruned(twins.ours) == {
        "a#1": True, "a#2": False, "b#1": True, "c#1": False, "d#1": False, "e#1": False, "open#1": False,
    }  # fmt: skip
    assert counted(twins.ours, now=10.5, before=14.0)[:3] == (0, 0, 2)
    assert counted(twins.ours, now=10.5, before=16.0)[:3] == (2, 0, 2)
    assert counted(twins.ours, now=FAR, before=16.0)[:3] == (0, 4, 2)
    assert sweep(twins.ours, now=10.5, before=16.0)[:3] == (2, 0, 2)
    recorded = loaded(twins.ours, "b")
    assert (recorded.reason, recorded.state, recorded.settled_at) == (Reason.FAILED, State.COMMITTED, 12.0)
    assert {name: getattr(recorded, name) for name in SAID} == {**dict.fromkeys(SAID), "link": SAID["link"]}
    assert {name: getattr(loaded(twins.ours, "a"), name) for name in SAID} == SAID
    (stripped,) = recorded.effects
    assert (stripped.row.scopes, stripped.row.rationale, stripped.error, stripped.said) == ("[]", None, None, None)
    assert "pruned" in stripped.note
    assert "$pruned" in stripped.result
    assert loaded(twins.ours, "a").effects[0].row.scopes == '["room:/a"]'


def every_payload_of_an_old_effect_goes_and_what_was_never_there_is_not_made_up(twins: Twins) -> None:
    twins.write(opened("full"), intent("full", window=1.0, rationale="why"), opened("bare"), intent("bare", window=1.0))
    decided = Disposed(Disposition.REJECTED, "too dear", "full#1/1", 3, contradicted=True)
    twins.write(told("full#1/0", error="lost")._replace(**decided._asdict()), told("bare#1/0", result=None))
    twins.write(Said("full#1/0", '"yes"', "ada", 2.0, dealt=False), ended("full"), ended("bare"))
    sweep(twins.ours, now=3.5, before=10.0)
    (full,), (bare,) = loaded(twins.ours, "full").effects, loaded(twins.ours, "bare").effects
    for text in (full.row.arguments, full.row.rationale, full.result, full.error, full.note, full.said):
        assert "pruned" in text
    assert full.disposed == decided._replace(note=full.note)
    assert (bare.row.rationale, bare.result, bare.error, bare.note, bare.said) == (None, None, None, None, None)


def keys_go_when_the_longest_window_is_over_and_an_unsaid_one_lasts_for_so_long(twins: Twins) -> None:
    for name, windows in (
        ("short", (1.0, 5.0)),
        ("long", (5.0, 1.0)),
        ("unsaid", (5.0, None)),
        ("wide", (200.0, None)),
    ):
        twins.write(opened(name), *(intent(name, 1, n, window=w) for n, w in enumerate(windows)))
        twins.write(*(told(f"{name}#1/{n}") for n in range(2)), ended(name, at=10.0))
    twins.write(opened("none"), ended("none", at=10.0))
    names = lambda: [r.row.name for r in twins.ours.book(lambda book: book.transactions())]  # noqa: E731
    seen = {}
    for now in (10.0, 14.9, 15.0, 109.9, 110.0, 209.9, 210.0):
        seen[now] = counted(twins.ours, now=now, before=11.0)[1]
        before = len(names())
        assert sweep(twins.ours, now=now, before=11.0).keys == seen[now]
        assert len(names()) == before - seen[now]
        if now == 10.0:
            assert sorted(names()) == ["long", "short", "unsaid", "wide"]
    assert seen == {10.0: 1, 14.9: 0, 15.0: 2, 109.9: 0, 110.0: 1, 209.9: 0, 210.0: 1}
    assert (twins.ours.rows("effect"), twins.ours.rows("transaction")) == ([], [])


def the_keys_of_what_is_not_pruned_yet_go_at_once_when_their_windows_are_over(twins: Twins) -> None:
    for name, windows in (("short", (1.0, 5.0)), ("unsaid", (5.0, None)), ("wide", (200.0, None)), ("none", ())):
        twins.write(opened(name), *(intent(name, 1, n, window=w) for n, w in enumerate(windows)))
        twins.write(*(told(f"{name}#1/{n}") for n in range(len(windows))), ended(name, at=10.0))
    for now, gone in ((14.9, 1), (15.0, 2), (110.0, 3), (210.0, 4)):
        assert counted(twins.ours, now=now, before=11.0)[:2] == (4 - gone, gone)
    assert sweep(twins.ours, now=110.0, before=11.0)[:2] == (1, 3)
    assert [r.row.name for r in twins.ours.book(lambda book: book.transactions())] == ["wide"]


def the_keys_of_a_pruned_attempt_stay_when_news_of_it_has_to_be_looked_at(twins: Twins) -> None:
    names = ["a", "b", "c", "d", "e", "f"]
    for name in names:
        twins.write(opened(name), intent(name, window=50.0), told(f"{name}#1/0"), ended(name, at=10.0))
    twins.write(opened("a", 2), intent("a", 2, window=50.0), told("a#2/0"), ended("a", 2, at=10.0))
    sweep(twins.ours, now=20.0, before=30.0)
    sweep(twins.other, now=20.0, before=30.0)
    late = (
        told("a#1/0", tag=Tag.LEAKED), told("b#1/0", Outcome.UNKNOWN), told("c#1/0", Outcome.INTENDED),
        told("d#1/0", tag=Tag.CLEAN), told("e#1/0", tag=Tag.LEAKED), Said("e#1/0", '"seen"', "ada", 2.0, dealt=True),
    )  # fmt: skip
    twins.ours.write(*late)
    twins.other.write(told("f#1/0", tag=Tag.LEAKED))
    assert counted(twins.ours, now=59.9, before=0.0)[:3] == (0, 0, 0)
    assert sweep(twins.ours, now=59.9, before=0.0)[:3] == (0, 0, 0)
    assert counted(twins.ours, now=60.0, before=0.0)[:3] == (0, 4, 0)
    assert sweep(twins.ours, now=60.0, before=0.0)[:3] == (0, 4, 0)
    kept = [f"{r.row.name}#{r.row.attempt}" for r in twins.ours.book(lambda book: book.transactions())]
    assert kept == ["a#1", "b#1", "c#1"]
    assert [row[1] for row in twins.ours.rows("effect")] == ["a#1/0", "b#1/0", "c#1/0"]


def a_sweep_takes_the_oldest_first_and_goes_on_where_the_last_one_ended(twins: Twins) -> None:
    for name, attempt, at in (("b", 2, 10.0), ("b", 10, 10.0), ("c", 1, 9.0), ("a", 1, 11.0), ("a", 2, 10.0)):
        twins.write(opened(name, attempt), intent(name, attempt, window=50.0), told(f"{name}#{attempt}/0"))
        twins.write(ended(name, attempt, at=at))
    after, seen = None, []
    for _ in range(6):
        swept = sweep(twins.ours, now=20.0, before=30.0, limit=1, after=after)
        seen.append(sorted(name for name, gone in pruned(twins.ours).items() if gone))
        if swept.after is None:
            break
        after = swept.after
    order = ["c#1", "a#2", "b#2", "b#10", "a#1"]
    assert seen == [*(sorted(order[: n + 1]) for n in range(5)), sorted(order)]
    assert sweep(twins.ours, now=20.0, before=30.0, limit=2, after=None).payloads == 0


def a_sweep_that_stops_at_what_stays_goes_on_behind_it(twins: Twins) -> None:
    for name, attempt, at in (("b", 1, 10.0), ("a", 1, 10.0), ("a", 2, 10.0), ("c", 1, 11.0)):
        twins.write(
            opened(name, attempt), intent(name, attempt, window=50.0), told(f"{name}#{attempt}/0", tag=Tag.LEAKED)
        )
        twins.write(ended(name, attempt, at=at))
    assert sweep(twins.ours, now=20.0, before=30.0, limit=2).after == (10.0, "a", 2)
    first = sweep(twins.ours, now=20.0, before=30.0, limit=3)
    assert (first.kept, first.after) == (3, (10.0, "b", 1))
    assert sweep(twins.ours, now=20.0, before=30.0, limit=3, after=first.after)[2:] == (1, None)
    assert sweep(twins.ours, now=20.0, before=30.0, limit=3, after=(10.0, "a", 1))[2:] == (3, (11.0, "c", 1))


def of_keys_that_are_over_the_first_to_be_so_go_first(twins: Twins) -> None:
    ages = (("b", 2, 60.0), ("b", 10, 60.0), ("c", 1, 50.0), ("a", 1, 70.0), ("a", 2, 60.0))
    for name, attempt, until in ages:
        twins.write(opened(name, attempt), intent(name, attempt, window=until - 10), told(f"{name}#{attempt}/0"))
        twins.write(ended(name, attempt, at=10.0))
    sweep(twins.ours, now=20.0, before=30.0)
    left_of = ["c#1", "a#2", "b#2", "b#10", "a#1"]
    while left_of:
        assert sweep(twins.ours, now=FAR, before=0.0, limit=1).keys == 1
        left_of.pop(0)
        assert {f"{row[1]}#{row[2]}" for row in twins.ours.rows("transaction")} == set(left_of)


def fences_are_struck_by_name_from_the_oldest_on(twins: Twins) -> None:
    for run, at in (("b", 2.0), ("d", 3.0), ("c", 1.0), ("a", 2.0)):
        twins.write(fenced(run, at))
    twins.other.write(fenced("theirs", 1.0))
    assert twins.ours.book(lambda book: book.old_fences(3.0, limit=9)) == ["c", "a", "b"]
    assert twins.ours.book(lambda book: book.old_fences(FAR, limit=2)) == ["c", "a"]
    twins.ours.book(lambda book: book.remove_fences(["c", "b"]))
    assert [row[1] for row in twins.ours.rows("fence")] == ["a", "d"]


# ---- workers


def workers_are_seen_in_the_order_of_their_names_but_for_oneself(twins: Twins) -> None:
    for name in ("two", "one", "three"):
        twins.ours.worker(name)
        twins.other.worker(name)
    twins.other.worker("theirs")
    assert [row.worker for row in twins.ours.book(lambda book: book.workers(), worker="one")] == ["three", "two"]
    assert [row.worker for row in twins.ours.book(lambda book: book.workers())] == ["one", "three", "two"]


def a_worker_is_marked_as_a_zombie_or_removed_by_its_name(twins: Twins) -> None:
    for name in ("one", "two", "three"):
        twins.ours.worker(name)
        twins.other.worker(name)
    twins.other.book(lambda book: book.mark_zombie("three"))
    assert twins.ours.book(lambda book: book.zombies()) == frozenset()
    twins.ours.book(lambda book: book.mark_zombie("two"))
    assert twins.ours.book(lambda book: book.zombies()) == {"two"}
    twins.ours.book(lambda book: book.remove_workers(["two", "nobody"]))
    assert ([row[1] for row in twins.ours.rows("worker")], twins.ours.book(lambda book: book.zombies())) == (
        ["one", "three"], frozenset(),
    )  # fmt: skip


def for_how_long_a_ghost_was_watched_is_noted_by_its_name(twins: Twins) -> None:
    for name in ("one", "two"):
        twins.ours.worker(name)
        twins.other.worker(name)
        twins.ours.book(lambda book, name=name: book.mark_zombie(name))
    twins.ours.book(lambda book: book.watched("two", 7.0))
    twins.other.book(lambda book: book.watched("one", 9.0))
    seen = [[row.watched for row in side.book(lambda book: book.workers())] for side in (twins.ours, twins.other)]
    assert seen == [[0.0, 7.0], [9.0, 0.0]]


def enrolled(side: Side, name: str) -> tuple[int, int, float]:
    """Return a worker's beat, up to where it surely needs nothing again, and its lease."""
    ((applied, beat, lease),) = [(row[3], row[5], row[6]) for row in side.rows("worker") if row[1] == name]
    return beat, applied, lease


def until_when(side: Side, name: str) -> float:
    (until,) = [row[2] for row in side.rows("worker") if row[1] == name]
    return float(until)


def a_worker_that_renews_its_lease_raises_its_own_beat_and_says_how_far_it_has_come(twins: Twins) -> None:
    clock = VirtualClock()
    one = twins.ours.worker("one", lease=60.0, clock=clock)
    twins.ours.worker("two")
    twins.other.worker("one")
    assert enrolled(twins.ours, "one") == (1, 0, 60.0)
    before = until_when(twins.ours, "one")
    for _ in range(3):
        twins.ours.takes(one)
    assert enrolled(twins.ours, "one") == (1, 0, 60.0)
    twins.store.asked("UPDATE settlemark_worker SET lease_until_seconds = 0 WHERE namespace = 'ours' RETURNING id")
    clock.advance(11.0)
    twins.ours.takes(one)
    assert enrolled(twins.ours, "one") == (2, 5, 60.0)
    assert until_when(twins.ours, "one") >= before
    assert enrolled(twins.ours, "two")[0] == 1


# ---- the log that processes share


def begins(side: Side, member: Member, name: str) -> Any:
    """Begin a transaction that claims a lamp of its own."""

    def begin(protocol: Any, book: Any) -> Any:
        txn = protocol.begin(name, owner=member.worker)
        call = protocol.request(txn, Scope.parse(f"lamp:/{name}"), Mode.EAGER)
        assert protocol.admit(call) is None
        book.write([opened(name)])
        return txn

    return side.takes(member, begin)


def state(member: Member) -> Any:
    return json.loads(json.dumps(image(member.protocol)))


def each_namespace_counts_its_own_entries(twins: Twins) -> None:
    one, theirs = twins.ours.worker("one"), twins.other.worker("one")
    for number in range(3):
        begins(twins.ours, one, f"t{number}")
    begins(twins.other, theirs, "t0")
    assert [[row[1] for row in side.rows("log")] for side in (twins.ours, twins.other)] == [[1, 2, 3, 4], [1, 2]]
    assert [side.rows("head")[0][1] for side in (twins.ours, twins.other)] == [4, 2]


def whoever_falls_behind_takes_what_others_took_once_and_in_their_order(twins: Twins) -> None:
    one, two, theirs = twins.ours.worker("one"), twins.ours.worker("two"), twins.other.worker("one")
    for number in range(12):
        begins(twins.ours, one, f"t{number}")
        begins(twins.other, theirs, f"u{number}")
    twins.ours.takes(two)
    assert state(two) == state(one)
    begins(twins.ours, one, "next")
    begins(twins.other, theirs, "their next")
    with twins.ours.alone():
        two.batches.look()
    assert (state(two), two.replica.applied) == (state(one), one.replica.applied)


def a_newcomer_begins_from_the_image_of_its_own_namespace_and_the_log_behind_it(twins: Twins) -> None:
    with twins.images_every(2):
        one, theirs = twins.ours.worker("one"), twins.other.worker("one")
        for side, member, count in ((twins.other, theirs, 14), (twins.ours, one, 9)):
            for name in ("t0", "t1", "t2"):
                begins(side, member, f"{name} {side.namespace}")
            for _ in range(count):
                side.takes(member)
    for number in range(11):
        begins(twins.ours, one, f"u{number}")
        begins(twins.other, theirs, f"v{number}")
    assert [row[1] for row in twins.ours.rows("image")] != [row[1] for row in twins.other.rows("image")]
    newcomer = twins.ours.worker("two")
    live = [txn["name"] for txn in state(newcomer)["live"]]
    assert live == [*(f"t{n} ours" for n in range(3)), *(f"u{n}" for n in range(11))]
    twins.ours.takes(one)
    assert state(newcomer)["live"] == state(one)["live"]
    found = twins.ours.book(lambda book: Look(book).replica())
    assert json.loads(json.dumps(image(found)))["live"] == state(one)["live"]


def an_image_is_the_last_that_was_written_and_the_log_before_it_goes(twins: Twins) -> None:
    with twins.images_every(2):
        one, theirs = twins.ours.worker("one"), twins.other.worker("one")
        for _ in range(3):
            twins.other.takes(theirs)
        images: list[int] = []
        for _ in range(12):
            twins.ours.takes(one, lambda protocol, _book: protocol.skip_epochs(1))
            images += [row[1] for row in twins.ours.rows("image") if row[1] not in images]
    assert images == [3, 6, 9, 12]
    assert [row[1] for row in twins.ours.rows("log")] == [12, 13]
    epoch = one.protocol.next_epoch
    assert twins.ours.book(lambda book: Look(book).replica()).next_epoch == epoch
    newcomer = twins.ours.worker("two")
    assert newcomer.protocol.next_epoch == epoch + EPOCHS
    twins.ours.takes(one)
    assert one.protocol.next_epoch == epoch + EPOCHS


def the_log_is_kept_for_whoever_has_not_come_as_far_and_was_not_buried(twins: Twins) -> None:
    clock = VirtualClock()
    one, buried = twins.ours.worker("one"), twins.ours.worker("buried")
    slow, slower = twins.ours.worker("slow", clock=clock), twins.ours.worker("slower", clock=clock)
    for _ in range(3):
        twins.ours.takes(one)
    clock.advance(500.0)
    twins.ours.takes(slower)
    for _ in range(3):
        twins.ours.takes(one)
    twins.ours.takes(slow)
    assert [enrolled(twins.ours, name)[1] for name in ("slower", "slow", "buried", "one")] == [7, 11, 1, 0]
    twins.ours.book(lambda book: book.mark_zombie(buried.worker))
    twins.other.worker("slow")
    with twins.images_every(2):
        for _ in range(6):
            twins.ours.takes(one)
    assert min(row[1] for row in twins.ours.rows("log")) == 8
    txn = begins(twins.ours, slower, "late")
    assert slower.protocol.by_id[txn.id] is txn
    assert state(slower)["live"] == [txn for txn in state(slower)["live"] if txn["name"] == "late"]


def whose_name_is_off_the_list_has_lost_its_lease_though_the_log_is_cut(twins: Twins) -> None:
    loses_its_lease(twins, lambda book: book.remove_workers(["hung"]))


def whose_name_is_on_the_list_as_a_ghosts_has_lost_its_lease_though_the_log_is_cut(twins: Twins) -> None:
    loses_its_lease(twins, lambda book: book.mark_zombie("hung"))


def loses_its_lease(twins: Twins, by: Callable[[Any], None]) -> None:
    hung, other = twins.ours.worker("hung"), twins.ours.worker("other")
    twins.other.worker("hung")
    txn = begins(twins.ours, hung, "trip")

    def take_over(protocol: Any, book: Any) -> None:
        by(book)
        bury(protocol, book, "hung")

    twins.ours.takes(other, take_over)
    with twins.images_every(2):
        for _ in range(9):
            twins.ours.takes(other)
    assert min(row[1] for row in twins.ours.rows("log")) > hung.replica.applied + 1
    twins.ours.takes(hung)
    assert (hung.worker != "hung", txn.id) == (True, DETACHED)


def whose_name_is_on_the_list_keeps_its_lease_though_the_log_is_cut(twins: Twins) -> None:
    one, other = twins.ours.worker("one"), twins.ours.worker("other")
    txn = begins(twins.ours, one, "mine")
    twins.store.asked("UPDATE settlemark_worker SET applied = 1000 WHERE namespace = 'ours' RETURNING id")
    with twins.images_every(2):
        for _ in range(12):
            twins.ours.takes(other)
    twins.ours.takes(one)
    assert (one.worker, one.protocol.by_id[txn.id], txn.owner) == ("one", txn, "one")


def what_the_store_has_lost_with_its_power_is_lost_to_whoever_looks(twins: Twins) -> None:
    one, theirs = twins.ours.worker("one"), twins.other.worker("one")
    begins(twins.ours, one, "kept")
    begins(twins.ours, one, "lost")
    for _ in range(2):
        twins.other.takes(theirs)
    assert [side.rows("head")[0][1] for side in (twins.ours, twins.other)] == [3, 3]
    twins.store.asked("DELETE FROM settlemark_log WHERE namespace = 'ours' AND n = 3 RETURNING n")
    twins.store.asked("UPDATE settlemark_head SET n = 2 WHERE namespace = 'ours' RETURNING n")
    with twins.ours.alone():
        one.batches.look()
    assert one.replica.applied == 2


def failing_once(twins: Twins, moment: str) -> list[Exception]:
    """Have the next COMMIT fail once: before it is made, or behind it, when only its answer is lost."""
    error: Exception
    if twins.store.url.startswith("sqlite"):
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode, error.sqlite_errorname = sqlite3.SQLITE_IOERR, "SQLITE_IOERR"
    else:
        error = twins.store.engine.dialect.loaded_dbapi.OperationalError("the connection was lost")
    left = [error]

    def fail(when: str, statement: str) -> None:
        if when == moment and statement == "COMMIT" and left:
            raise left.pop()

    watchers.append(fail)
    return left


def a_step_is_taken_when_its_own_entry_is_in_the_log_and_only_then(twins: Twins) -> None:
    one, theirs = twins.ours.worker("one"), twins.other.worker("one")
    for _ in range(4):
        twins.ours.takes(one)
    for _ in range(9):
        twins.other.takes(theirs)
    for moment, taken in (("before", False), ("after", True)):
        left = failing_once(twins, moment)
        try:
            if taken:
                begins(twins.ours, one, moment)
            else:
                with pytest.raises(LedgerError):
                    begins(twins.ours, one, moment)
        finally:
            watchers.pop()
        assert left == []
        assert (loaded(twins.ours, moment) is not None) == taken
        assert (moment in one.protocol.named) == taken


def a_step_that_may_still_be_committed_is_looked_for_when_the_server_is_done_with_it(twins: Twins) -> None:
    """A server may be at a transaction whose client is gone; a file has no such."""
    if twins.store.url.startswith("sqlite"):
        return
    one, over = twins.ours.worker("one"), threading.Event()
    ghost, stranger = (twins.store.connected().connect().connection.driver_connection for _ in range(2))
    stranger.execute("BEGIN")
    stranger.execute("UPDATE settlemark_head SET n = n WHERE namespace = 'other'")

    def end_when_waited_for() -> None:
        waiting = (
            "SELECT count(*) FROM pg_locks AS l, pg_database AS d WHERE NOT granted AND datname = current_database()"
        )
        while not over.is_set() and not stranger.execute(waiting).fetchone()[0]:
            over.wait(0.01)
        over.set()
        ghost.execute("COMMIT")

    def meddle(when: str, statement: str) -> None:
        if when == "after" and statement == "COMMIT" and not began:
            ghost.execute("BEGIN")
            ghost.execute("UPDATE settlemark_head SET n = n WHERE namespace = 'ours'")
            began.append(threading.Thread(target=end_when_waited_for))
            began[0].start()
            raise twins.store.engine.dialect.loaded_dbapi.OperationalError("the connection was lost")
        if when == "after" and statement.startswith("SELECT n FROM settlemark_head") and began:
            seen.append(over.is_set())

    began: list[threading.Thread] = []
    seen: list[bool] = []
    watchers.append(meddle)
    try:
        begins(twins.ours, one, "trip")
    finally:
        watchers.remove(meddle)
        over.set()
        began[0].join(PATIENCE)
        for connection in (ghost, stranger):
            connection.close()
    assert seen == [True]


# ---- what an operator sees


def a_look_shows_the_workers_and_the_sizes_of_one_namespace(twins: Twins) -> None:
    with twins.images_every(2):
        for side, names in ((twins.ours, ("two", "one")), (twins.other, ("one", "three", "two"))):
            for name in names:
                member = side.worker(name)
                begins(side, member, name)
                for _ in range(4):
                    side.takes(member)
    twins.ours.book(lambda book: book.mark_zombie("two"))
    found = twins.ours.book(lambda book: Look(book).workers())
    look = "SELECT buried_at_seconds FROM settlemark_worker WHERE namespace = 'ours' AND id = 'two'"
    ((since,),) = twins.store.asked(look)
    assert [(worker.name, worker.buried, worker.until) for worker in found] == [
        ("one", False, None), ("two", True, since + QUARANTINE_SECONDS),
    ]  # fmt: skip
    sizes = twins.ours.book(lambda book: Look(book).sizes())
    assert (sizes.log_entries, sizes.image_characters) == (
        len(twins.ours.rows("log")), sum(len(row[2]) for row in twins.ours.rows("image")),
    )  # fmt: skip
    assert 0 < sizes.image_characters != sum(len(row[2]) for row in twins.other.rows("image"))


def doctors(side: Side) -> dict[str, str]:
    """Return what a doctor finds of the work in a namespace, by what it looked at."""
    return side.book(lambda book: {found.check: found.found for found in _work.examine(Look(book), lambda: 0.0)})


def a_doctor_counts_what_is_in_doubt_and_what_is_left_in_one_namespace(twins: Twins) -> None:
    lefts(twins)
    twins.write(Said("b#1/0", '"seen"', "ada", 7.0, dealt=True))
    twins.write(*(intent("d", position=p) for p in (1, 2)), *(told(f"d#1/{p}", Outcome.UNKNOWN) for p in (1, 2)))
    twins.other.write(intent("d", position=3), told("d#1/3", Outcome.UNKNOWN))
    found = doctors(twins.ours)
    assert (found["in doubt"], found["residue"]) == ("2", "3")


def a_doctor_tells_which_schema_a_store_has_that_another_release_has_written(twins: Twins) -> None:
    whole = twins.store.asked("DELETE FROM settlemark_meta WHERE key = 'schema' RETURNING key, value")
    # Behind all else that the store has of itself.
    twins.store.asked("INSERT INTO settlemark_meta (key, value) VALUES ('schema', '99') RETURNING key")
    try:
        (found,) = _doctor.examine(twins.store.url, namespace="ours")
    finally:
        twins.store.asked(f"UPDATE settlemark_meta SET value = '{whole[0][1]}' WHERE key = 'schema' RETURNING key")
    assert found.found.startswith("schema version 99, and this settlemark writes")


def a_doctor_names_the_tables_of_ours_that_a_crash_of_the_server_empties(twins: Twins) -> None:
    """A file has none."""
    if twins.store.url.startswith("sqlite"):
        return
    names = ("settlemark_c", "settlemark_b", "theirs")
    for name in names:
        twins.store.wire._driver.execute(f"CREATE UNLOGGED TABLE {name} (id integer PRIMARY KEY)")
    try:
        found = {one.check: one for one in twins.ours.book(lambda book: list(_server.store(Look(book))))}
    finally:
        for name in names:
            twins.store.wire._driver.execute(f"DROP TABLE {name}")
    assert found["tables"].found == "settlemark_b, settlemark_c: unlogged, and empty after a crash of the server"
    assert found["fsync"].found == "on"


def exported(side: Side, *, batch: int = 99, **asked: Any) -> list[str]:
    def ask(statement: Any, values: Any) -> list[Any]:
        return side.book(lambda book: Look(book).rows(statement, values))

    found = [transaction_in(row) for row in oldest(ask, Page(**asked), batch)]
    return [f"{one.row.name}#{one.row.attempt} {one.row.owner}" for one in found]


def _named(head: str) -> list[str]:
    """Return the name and the attempt in a line of what was found."""
    return head.partition(" ")[0].split("#")


def decisions_are_exported_the_oldest_first_batch_by_batch(twins: Twins) -> None:
    of_several_ages(twins)
    order = [head for head, _ in AGES]
    for batch in (1, 2, 4, 99):
        assert exported(twins.ours, batch=batch) == order
        assert exported(twins.ours, batch=batch, run="run") == [order[0], *order[2:]]
        assert exported(twins.ours, batch=batch, run="other") == [order[1]]
        assert exported(twins.ours, batch=batch, since=5.0) == order[2:]
        assert exported(twins.ours, batch=batch, since=5.0, run="run", state=State.OPEN) == order[2:]
    twins.write(*(ended("same", n) for n in (1, 2, 10)), ended("late", state=State.ABORTED, epoch=2))
    for batch in (1, 2, 99):
        assert exported(twins.ours, batch=batch) == order
        assert exported(twins.ours, batch=batch, state=State.COMMITTED) == order[2:5]
        assert exported(twins.ours, batch=batch, state=State.COMMITTED, run="run", since=5.0) == order[2:5]
        assert exported(twins.ours, batch=batch, state=State.COMMITTED, run="other") == []


def decisions_that_are_not_in_the_state_asked_for_are_not_exported(twins: Twins) -> None:
    of_several_ages(twins)
    order = [head for head, _ in AGES]
    for state, name, attempt in ((State.SEALED, "early", 1), (State.ABORTED, "same", 2)):
        twins.ours.write(ended(name, attempt, state, epoch=9 if name == "early" else 1))
    for batch in (1, 2, 99):
        assert exported(twins.ours, batch=batch, state=State.OPEN) == [order[1], order[2], *order[4:]]
        assert exported(twins.ours, batch=batch, state=State.OPEN, run="run") == [order[2], *order[4:]]
        assert exported(twins.ours, batch=batch) == order


def decisions_of_every_age_are_exported_in_their_order_however_small_the_batches(twins: Twins) -> None:
    of_several_ages(twins)
    order = [head for head, _ in AGES]
    epochs = {"late": 2, "early": 9}
    twins.write(*(ended(name, int(attempt), epoch=epochs.get(name, 1)) for name, attempt in map(_named, order)))
    for batch in (1, 2, 99):
        assert exported(twins.ours, batch=batch, state=State.COMMITTED) == order
        assert exported(twins.ours, batch=batch, state=State.COMMITTED, run="run") == [order[0], *order[2:]]


def decisions_of_one_age_are_exported_once_each_however_small_the_batches(twins: Twins) -> None:
    twins.write(*(opened(name) for name in "abcde"))
    for state in (State.OPEN, State.COMMITTED):
        if state is State.COMMITTED:
            twins.write(*(ended(name) for name in "abcde"))
        for batch in (1, 2, 99):
            for asked in ({}, {"run": "run"}, {"run": "run", "since": 1.0}):
                assert sorted(exported(twins.ours, batch=batch, state=state, **asked)) == [
                    f"{name}#1 mine" for name in "abcde"
                ]


def effects_are_exported_in_the_order_of_their_positions_batch_by_batch(twins: Twins) -> None:
    of_several_ages(twins)
    twins.other.write(intent("same", 2, 3), intent("same", 2, 11))

    def asked(name: str, attempt: int, position: int = -1, most: int = 99) -> list[str]:
        rows = twins.ours.book(
            lambda book: effects(Look(book), name=name, attempt=attempt, position=position, most=most)
        )
        return [f"{row[0]}#{row[1]}/{row[2]} {row[4]}" for row in rows]

    assert asked("same", 2) == ["same#2/9 book", "same#2/10 book"]
    assert asked("same", 2, most=1) == ["same#2/9 book"]
    assert asked("same", 2, position=9) == ["same#2/10 book"]
    assert asked("late", 1) == ["late#1/0 book"]


PROMISES = [
    promise
    for name, promise in list(globals().items())
    if getattr(promise, "__module__", "") == __name__
    and list(getattr(promise, "__annotations__", ())) == ["twins", "return"]
    and name not in ("of_several_ages", "of_several_fates", "lefts")
]
