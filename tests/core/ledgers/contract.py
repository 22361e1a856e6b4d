"""What the statements of a SQL ledger promise, each beside a twin namespace that has the same names.

Every function here is one promise: it is run as a test, and again with each clause of each statement wrong.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from tests.core.ledgers.twins import PATIENCE, Side, Twins, draft, ended, fenced, intent, opened, shown, told
from tests.rooms.doctor import doctor as _doctor
from tests.rooms.doctor import server as _server
from tests.rooms.doctor import work as _work
from tests.rooms.ledger import (
    BEGINNING,
    QUARANTINE_SECONDS,
    Age,
    Bucket,
    OwedChange,
    OwedPage,
    OwedRow,
    Page,
    Said,
    Spend,
    Told,
    Watch,
    Which,
    bury,
    worker_name,
)
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
        Outcome.UNKNOWN,
        '{"id":7}',
        "lost",
        Tag.UNRESOLVED,
        "ask",
        4.0,
        None,
    )
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
        ('"yes"', "ada", 4.0, 4.0),
        ('"no"', "bob", 5.0, None),
    ]


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
        opened("late", at=5.0, epoch=2),
        opened("early", at=1.0, epoch=9),
        opened("same", 2, at=5.0, epoch=1),
        opened("same", 10, at=5.0, epoch=1),
        opened("same", 1, at=5.0, epoch=1),
        opened("other", at=3.0, run="other"),
    )
    twins.write(*(intent("same", n, p) for n in (2, 10, 1) for p in (10, 9)), intent("other", 1, 3), intent("late"))
    twins.other.write(opened("theirs", at=2.0), intent("theirs"))


AGES = [
    ("early#1 mine", []),
    ("other#1 mine", ["book 3"]),
    ("same#1 mine", ["book 9", "book 10"]),
    ("same#2 mine", ["book 9", "book 10"]),
    ("same#10 mine", ["book 9", "book 10"]),
    ("late#1 mine", ["book 0"]),
]


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
        ("same#1 mine", ["book 9", "book 10"]),
        ("same#10 mine", ["book 9"]),
        ("late#1 mine", ["book 0"]),
    ]


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
        ("same#1 mine", ["book 9", "book 10"]),
        ("same#10 mine", ["book 9"]),
        ("late#1 mine", ["book 0"]),
    ]


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


def in_doubt_of_a_run_is_nothing_that_is_known_or_clean_or_of_another_run_or_of_an_attempt_that_ended(
    twins: Twins,
) -> None:
    unknown, left = {"what": Outcome.UNKNOWN}, {"tag": Tag.UNRESOLVED}
    ended_with = {
        "left": {**unknown, **left},
        "dealt": {**unknown, **left},
        "clean": {**unknown, "tag": Tag.CLEAN},
        "untold": unknown,
        "known": left,
        "seen": left,
    }
    for side in (twins.other, twins.ours):
        for run in ("run", "other"):
            for name, parts in ended_with.items():
                name = name if run == "run" else f"{run} {name}"  # noqa: PLW2901
                side.write(opened(name, run=run), intent(name), told(f"{name}#1/0", **parts), ended(name))
                if name.endswith(("dealt", "seen")):
                    side.write(Said(f"{name}#1/0", '"seen"', "ada", 4.0, dealt=True))
            open_ = "goes" if run == "run" else "strange"
            for attempt in (1, 2):
                side.write(
                    opened(open_, attempt, run=run), intent(open_, attempt), told(f"{open_}#{attempt}/0", **unknown)
                )
            side.write(ended(open_, 1), intent(open_, 2, 1), told(f"{open_}#2/1"))
    twins.other.write(opened("theirs"), intent("theirs"), told("theirs#1/0", **unknown))
    for name in ("known", "seen"):
        twins.other.write(told(f"{name}#1/0", **unknown, **left))
    twins.other.write(Said("seen#1/0", '"seen"', "ada", 5.0, dealt=True))
    found = twins.ours.book(lambda book: [effect.row.key for effect in book.in_doubt("run")])
    assert sorted(found) == ["dealt#1/0", "goes#2/0", "left#1/0"]


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
    }  # fmt: skip # a table
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
        told("a#1/0", tag=Tag.LEAKED),
        told("b#1/0", Outcome.UNKNOWN),
        told("c#1/0", Outcome.INTENDED),
        told("d#1/0", tag=Tag.CLEAN),
        told("e#1/0", tag=Tag.LEAKED),
        Said("e#1/0", '"seen"', "ada", 2.0, dealt=True),
    )
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
    assert sweep(twins.ours, now=20.0, before=30.0, limit=3, after=first.after)[2:4] == (1, None)
    assert sweep(twins.ours, now=20.0, before=30.0, limit=3, after=(10.0, "a", 1))[2:4] == (3, (11.0, "c", 1))


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


# ---- budgets


def taken(side: Side, key: str, budget: str, bucket: str, amount: int, stands: Any = "reserved") -> None:
    """Write that a key takes so much of a bucket, in which that is all."""
    much = Decimal(amount)
    row = Bucket(budget, bucket, much + 100, *((Decimal(0), much) if stands == "reserved" else (much, Decimal(0))))
    side.book(lambda book: book.purse.put(Spend(key, budget, bucket, much + 1, much, stands), row))


def budgeted(twins: Twins) -> None:
    for side, more in ((twins.other, 50), (twins.ours, 0)):
        for number, (key, budget, bucket) in enumerate(
            (key, budget, bucket) for key in ("k2", "k1") for budget in ("usd", "eur") for bucket in ("run:b", "run:a")
        ):
            taken(side, key, budget, bucket, number + more)


def what_a_key_takes_and_what_a_bucket_has_is_found_by_their_names(twins: Twins) -> None:
    budgeted(twins)
    ask = twins.ours.book
    found = [(s.budget, s.bucket, int(s.asked), int(s.amount), s.stands) for s in ask(lambda b: b.purse.spends("k1"))]
    assert found == [
        ("eur", "run:a", 8, 7, "reserved"),
        ("eur", "run:b", 7, 6, "reserved"),
        ("usd", "run:a", 6, 5, "reserved"),
        ("usd", "run:b", 5, 4, "reserved"),
    ]
    assert [s.key for s in ask(lambda b: b.purse.spends("k2"))] == ["k2"] * 4
    assert ask(lambda b: b.purse.bucket("usd", "run:b")) == Bucket("usd", "run:b", Decimal(104), Decimal(0), Decimal(4))
    assert ask(lambda b: b.purse.bucket("usd", "run:c")) is None
    assert [(b.budget, b.bucket, int(b.reserved)) for b in ask(lambda b: b.purse.buckets())] == [
        ("eur", "run:a", 7),
        ("eur", "run:b", 6),
        ("usd", "run:a", 5),
        ("usd", "run:b", 4),
    ]
    assert [row[-1] for row in twins.ours.rows("head")] == [1]


def who_holds_of_a_bucket_is_whoever_has_reserved_of_it_and_nobody_else(twins: Twins) -> None:
    budgeted(twins)
    taken(twins.ours, "k3", "usd", "run:a", 1)
    taken(twins.ours, "k4", "usd", "run:b", 1)
    taken(twins.ours, "k5", "eur", "run:a", 1)
    taken(twins.other, "k6", "usd", "run:a", 1)
    taken(twins.ours, "k1", "usd", "run:a", 9, "charged")
    holders = lambda limit: twins.ours.book(lambda book: book.purse.holders("usd", "run:a", limit))  # noqa: E731
    assert (holders(9), holders(1)) == (["k2", "k3"], ["k2"])
    (spend,) = [s for s in twins.ours.book(lambda b: b.purse.spends("k1")) if (s.budget, s.bucket) == ("usd", "run:a")]
    assert (int(spend.asked), int(spend.amount), spend.stands) == (10, 9, "charged")
    assert twins.ours.book(lambda b: b.purse.bucket("usd", "run:a")) == Bucket(
        "usd", "run:a", Decimal(109), Decimal(9), Decimal(0)
    )


def what_a_key_takes_may_be_another_keys_and_nobody_elses_moves(twins: Twins) -> None:
    budgeted(twins)
    twins.ours.book(lambda book: book.purse.move("k1", "k9"))
    count = {key: len(twins.ours.book(lambda book, key=key: book.purse.spends(key))) for key in ("k1", "k2", "k9")}
    assert count == {"k1": 0, "k2": 4, "k9": 4}


def what_an_effect_took_goes_with_its_key_and_nothing_else_does(twins: Twins) -> None:
    for name, attempt in (("trip", 1), ("trip", 2), ("tour", 1)):
        twins.write(opened(name, attempt), intent(name, attempt, window=1.0), told(f"{name}#{attempt}/0"))
        at = 10.0 if (name, attempt) == ("trip", 1) else FAR
        twins.write(ended(name, attempt, at=at))
        for side in (twins.ours, twins.other):
            taken(side, f"{name}#{attempt}/0", "usd", "run:a", 1, "charged")
    taken(twins.ours, "charge:1", "usd", "run:a", 1, "charged")
    twins.other.write(intent("trip", position=1, key="charge:1"))  # what is another's effect there is none here
    sweep(twins.ours, now=5_000.0, before=30.0, keys=0.0)
    assert [row[1] for row in twins.ours.rows("spend")] == ["charge:1", "tour#1/0", "trip#2/0"]
    assert len(twins.ours.rows("budget")) == 1


# ---- what is owed


def owing(number: str, name: str = "trip", attempt: int = 1, **parts: Any) -> OwedRow:
    """Return an obligation of a transaction, due at 100."""
    row = OwedRow(number, name, attempt, "run", 0, "customer:/7", "refund", "customer:/7", '{"text":"20"}', 1.0, 100.0)
    return row._replace(**parts)


def owes(twins: Twins, *rows: OwedRow) -> None:
    """Write obligations to one, and to the other as its own: the same numbers, to others."""
    twins.other.write(*(row._replace(to="theirs:/1", payload='{"text":"theirs"}') for row in rows))
    twins.ours.write(*rows)


def owed(side: Side, **asked: Any) -> list[tuple[str, str]]:
    """Return the obligations of a page, each with what it is now."""
    return [(each.row.id, str(each.state)) for each in side.book(lambda book: book.debts.find(OwedPage(**asked)))]


def of_several_debts(twins: Twins) -> None:
    """Obligations of three transactions, one of them undone and one rewound; four are over, each in its own way."""
    for number, (name, attempt) in enumerate((("trip", 1), ("trip", 2), ("tour", 1))):
        twins.write(opened(name, attempt), intent(name, attempt, window=1.0), told(f"{name}#{attempt}/0"))
        state, reason = (State.ABORTED, Reason.FAILED) if number == 1 else (State.COMMITTED, None)
        twins.write(ended(name, attempt, state, at=10.0, reason=Reason.REWOUND if number == 2 else reason))
    owes(
        twins,
        owing("z", due=9.0),
        owing("done", due=9.0),
        owing("struck", at=0.5),
        owing("told", at=0.5),
        owing("call", tool="call"),
        owing("undone", attempt=2),
        owing("back", "tour"),
    )
    twins.ours.write(
        OwedChange("done", 20.0, fulfilled="tour#1/0"),
        OwedChange("told", 22.0, told=Told.ALERTED),
        OwedChange("struck", 21.0, waived_by="ada", note="paid in cash"),
    )


def what_is_owed_is_found_in_the_order_in_which_it_is_due(twins: Twins) -> None:
    of_several_debts(twins)
    everything = [
        ("done", "fulfilled"), ("z", "open"), ("struck", "waived"), ("told", "open"), ("back", "withdrawn"),
        ("call", "open"), ("undone", "void"),
    ]  # fmt: skip # a list of names and values
    assert owed(twins.ours) == everything
    assert owed(twins.ours, unended=True) == [e for e in everything if e[0] not in ("done", "struck")]
    assert owed(twins.ours, unended=True, tools=("call", "refund"))[:3] == [
        ("z", "open"),
        ("told", "open"),
        ("back", "withdrawn"),
    ]
    assert owed(twins.ours, unended=True, tools=("call",)) == [("call", "open")]
    assert owed(twins.ours, id="struck") == [("struck", "waived")]
    assert owed(twins.ours, id="struck", unended=True) == []
    assert owed(twins.ours, id="nobody") == []
    assert [id_ for id_, _ in owed(twins.other, unended=True)] == [
        "done", "z", "struck", "told", "back", "call", "undone"
    ]  # fmt: skip # a list of names and values


def what_an_obligation_is_follows_from_its_own_transaction_and_from_no_other(twins: Twins) -> None:
    twins.other.write(opened(), ended(), opened(attempt=2), ended(attempt=2), opened("tour"), ended("tour"))
    twins.ours.write(opened(), opened(attempt=2), ended(attempt=2), opened("tour"), ended("tour"))
    owes(twins, owing("one"), owing("two", attempt=2), owing("gone", "nobody"))
    now = [("gone", "open"), ("one", "pending"), ("two", "open")]
    assert owed(twins.ours) == now
    assert owed(twins.ours, unended=True) == now
    assert owed(twins.ours, unended=True, tools=("refund",)) == now
    assert owed(twins.ours, id="one") == [("one", "pending")]


def what_is_owed_is_recorded_once_however_often_it_is_written(twins: Twins) -> None:
    owes(twins, owing("one"))
    before = twins.ours.rows("owed")
    twins.ours.write(owing("one", payload="{}", due=7.0))
    assert twins.ours.rows("owed") == before


def news_of_an_obligation_is_of_no_other_and_leaves_the_rest_of_what_is_known(twins: Twins) -> None:
    owes(twins, owing("one"), owing("two"))
    find = lambda number: twins.ours.book(lambda book: book.debts.find(OwedPage(id=number)))[0][1:8]  # noqa: E731
    twins.ours.write(OwedChange("one", 5.0, told=Told.ALERTED))
    assert find("one") == (None, None, None, None, None, Told.ALERTED, 5.0)
    twins.ours.write(OwedChange("one", 6.0, fulfilled="key"))
    assert find("one") == ("key", 6.0, None, None, None, Told.ALERTED, 5.0)
    twins.ours.write(OwedChange("one", 7.0, waived_by="ada", note="in cash"))
    assert find("one") == ("key", 6.0, "ada", 7.0, "in cash", Told.ALERTED, 5.0)
    twins.ours.write(OwedChange("one", 8.0, told=Told.HANDLED))
    assert find("one") == ("key", 6.0, "ada", 7.0, "in cash", Told.HANDLED, 8.0)
    twins.ours.write(OwedChange("one", 9.0, fulfilled="other"))
    assert find("one") == ("other", 9.0, "ada", 7.0, "in cash", Told.HANDLED, 8.0)
    assert find("two") == (None,) * 7


def what_an_effect_had_fulfilled_is_open_again_once_that_effect_is_known_not_to_stand(twins: Twins) -> None:
    twins.write(opened(), intent(), intent(position=1))
    owes(twins, owing("one"), owing("two"))
    for side in (twins.other, twins.ours):
        side.write(OwedChange("one", 5.0, fulfilled="trip#1/0"), OwedChange("two", 6.0, fulfilled="trip#1/1"))

    def write(outcome: Outcome) -> None:
        def step(book: Any) -> None:
            book.debts.used = True
            book.write([told(what=outcome)])

        twins.ours.book(step)

    find = lambda: [each[1:3] for each in twins.ours.book(lambda book: book.debts.find(OwedPage()))]  # noqa: E731
    write(Outcome.CONFIRMED)
    assert find() == [("trip#1/0", 5.0), ("trip#1/1", 6.0)]
    write(Outcome.UNDONE)
    assert find() == [(None, None), ("trip#1/1", 6.0)]


def payloads_and_keys_stay_while_their_transaction_owes_and_go_with_what_it_owed(twins: Twins) -> None:
    of_several_debts(twins)
    twins.write(opened("free"), intent("free", window=1.0), told("free#1/0"), ended("free", at=10.0))
    twins.ours.write(opened("late"), ended("late", at=30.0))
    owes(twins, owing("late", "late"))
    past = {"now": 10.5, "before": 20.0}
    assert counted(twins.ours, **past)[:3] == sweep(twins.ours, **past)[:3] == (3, 0, 1)
    assert pruned(twins.ours)["trip#1"] is False
    kept = twins.ours.rows("owed")
    assert [row[1] for row in kept if "pruned" in row[9]] == ["back", "undone"]
    for number in ("z", "told"):
        twins.ours.write(OwedChange(number, 40.0, waived_by="ada", note="in cash"))
        assert counted(twins.ours, now=FAR, before=20.0)[:3] == (0, 3, 1)
    twins.other.write(OwedChange("call", 40.0, waived_by="ada"))
    assert counted(twins.ours, now=FAR, before=20.0)[:3] == (0, 3, 1)
    assert sweep(twins.ours, now=FAR, before=20.0)[:3] == (0, 3, 1)
    twins.ours.write(OwedChange("call", 40.0, fulfilled="free#1/0"))
    assert sweep(twins.ours, **past)[:3] == (1, 0, 0)
    row = twins.ours.book(lambda book: book.debts.find(OwedPage(id="z")))[0]
    assert ("pruned" in row.row.payload, row.note, row.waived_by) == (True, None, "ada")
    assert [row[1] for row in twins.ours.rows("owed")] == ["call", "done", "late", "struck", "told", "z"]
    assert sweep(twins.ours, now=FAR, before=20.0)[:3] == (0, 1, 0)
    assert [row[1] for row in twins.ours.rows("owed")] == ["late"]
    assert owed(twins.ours) == [("late", "open")]


def owes_in_one_attempt(twins: Twins) -> None:
    """One attempt owes; the others have what is fulfilled, waived, undone or rewound; elsewhere each owes instead."""
    owes(twins, *(owing(name, name) for name in ("own", "done", "struck", "undone", "back")))
    twins.ours.write(OwedChange("done", 40.0, fulfilled="key"), OwedChange("struck", 40.0, waived_by="ada"))
    twins.other.write(OwedChange("own", 40.0, waived_by="ada"), owing("free", "free"))


def of_one_that_will_owe(twins: Twins) -> None:
    for name, attempt in (("own", 1), ("own", 2), ("done", 1), ("struck", 1), ("undone", 1), ("back", 1), ("free", 1)):
        state = State.ABORTED if name == "undone" else State.COMMITTED
        reason = Reason.REWOUND if name == "back" else None
        twins.write(opened(name, attempt), intent(name, attempt, window=1.0), told(f"{name}#{attempt}/0"))
        twins.write(ended(name, attempt, state, at=10.0, reason=reason))


def payloads_stay_of_the_attempt_that_owes_and_of_no_other(twins: Twins) -> None:
    of_one_that_will_owe(twins)
    owes_in_one_attempt(twins)
    assert counted(twins.ours, now=10.5, before=20.0)[:3] == (6, 0, 1)
    assert sweep(twins.ours, now=10.5, before=20.0)[:3] == (6, 0, 1)
    assert [attempt for attempt, gone in pruned(twins.ours).items() if not gone] == ["own#1"]


def keys_stay_of_the_attempt_that_owes_and_of_no_other(twins: Twins) -> None:
    of_one_that_will_owe(twins)
    for side in (twins.other, twins.ours):
        sweep(side, now=10.5, before=20.0)
    owes_in_one_attempt(twins)
    assert counted(twins.ours, now=FAR, before=0.0)[:3] == (0, 6, 0)
    assert sweep(twins.ours, now=FAR, before=0.0)[:3] == (0, 6, 0)
    assert list(pruned(twins.ours)) == ["own#1"]


def of_runs_that_are_steered(twins: Twins) -> None:
    """Transactions of runs, of which some are paused, or have something said to them; elsewhere the others are."""
    for name in ("asked", "said", "over", "other", "free"):
        twins.write(opened(name, run=name), intent(name, window=1.0), told(f"{name}#1/0"), ended(name, at=10.0))


def steers_some(twins: Twins) -> None:
    added(twins.ours, draft("asked~1", kind="pause", run="asked", open=True))
    added(twins.ours, draft("said~1", kind="steering", run="said", open=True))
    added(twins.ours, draft("over~1", kind="pause", run="over", open=True), draft("other", run="other", open=True))
    twins.ours.book(lambda book: book.entries.change("pause", "over~1", state="over", at=2.0, from_version=1))
    added(twins.other, draft("free~1", kind="pause", run="free", open=True))


def payloads_stay_of_the_runs_that_are_steered_and_of_no_other(twins: Twins) -> None:
    of_runs_that_are_steered(twins)
    steers_some(twins)
    assert counted(twins.ours, now=10.5, before=20.0)[:3] == (3, 0, 2)
    assert sweep(twins.ours, now=10.5, before=20.0)[:3] == (3, 0, 2)
    assert [attempt for attempt, gone in pruned(twins.ours).items() if not gone] == ["asked#1", "said#1"]


def keys_stay_of_the_runs_that_are_steered_and_of_no_other(twins: Twins) -> None:
    of_runs_that_are_steered(twins)
    for side in (twins.other, twins.ours):
        sweep(side, now=10.5, before=20.0)
    steers_some(twins)
    assert counted(twins.ours, now=FAR, before=0.0)[:3] == (0, 3, 0)
    assert sweep(twins.ours, now=FAR, before=0.0)[:3] == (0, 3, 0)
    assert list(pruned(twins.ours)) == ["asked#1", "said#1"]


# ---- workers


def workers_are_seen_in_the_order_of_their_names_but_for_oneself(twins: Twins) -> None:
    for name in ("two", "one", "three"):
        twins.ours.worker(name)
        twins.other.worker(name)
    twins.other.worker("theirs")
    assert [row.worker for row in twins.ours.book(lambda book: book.workers(), worker="one")] == ["three", "two"]
    assert [row.worker for row in twins.ours.book(lambda book: book.workers())] == ["one", "three", "two"]


def who_falls_silent_is_a_zombie_while_it_may_still_send_and_then_off_the_list(twins: Twins) -> None:
    clock = VirtualClock()
    watch, here = Watch(clock.monotonic, quarantine=2_000.0), worker_name()
    ended = f"{here.rsplit(':', 2)[0]}:0:ended"  # its number is another process's by now
    for name in ("elsewhere/0/1/2:1:0:far", here, ended):
        twins.ours.worker(name)

    def gone() -> list[str]:
        def look(book: Any) -> list[str]:
            book._watch = watch
            names: list[str] = book.gone()
            watch.look(book.looked)
            return names

        return sorted(twins.ours.book(look))

    def on_the_list() -> tuple[set[str], frozenset[str]]:
        return {row[1] for row in twins.ours.rows("worker")}, twins.ours.book(lambda book: book.zombies())

    far = "elsewhere/0/1/2:1:0:far"
    assert (gone(), on_the_list()) == ([ended], ({here, far}, frozenset()))
    for _ in range(2):
        clock.advance(400.0)
        assert gone() == []
    clock.advance(400.0)
    assert (gone(), on_the_list()) == (sorted([here, far]), ({here, far}, {here, far}))
    for _ in range(6):
        clock.advance(400.0)
        assert gone() == []
    assert on_the_list() == ({here}, {here})  # of one on this host its process tells, and that is there


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
        ["one", "three"],
        frozenset(),
    )


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
    ghost, stranger, looking = (twins.store.connected().connect().connection.driver_connection for _ in range(3))
    names = {ghost.info.backend_pid: "ghost", stranger.info.backend_pid: "stranger"}
    stranger.execute("BEGIN")
    stranger.execute("UPDATE settlemark_head SET n = n WHERE namespace = 'other'")
    looking.autocommit = True

    def end_whom_it_waits_for() -> None:
        blocking = "SELECT DISTINCT unnest(pg_blocking_pids(pid)) FROM pg_locks WHERE NOT granted"
        while not over.is_set():
            for pid in {pid for (pid,) in looking.execute(blocking)} & set(names):
                waited_for.append(names.pop(pid))
                {"ghost": ghost, "stranger": stranger}[waited_for[-1]].execute("COMMIT")
            over.wait(0.01)

    def meddle(when: str, statement: str) -> None:
        if when == "after" and statement == "COMMIT" and not began:
            ghost.execute("BEGIN")
            ghost.execute("UPDATE settlemark_head SET n = n WHERE namespace = 'ours'")
            began.append(threading.Thread(target=end_whom_it_waits_for))
            began[0].start()
            raise twins.store.engine.dialect.loaded_dbapi.OperationalError("the connection was lost")
        if when == "after" and statement.startswith("SELECT n FROM settlemark_head") and began:
            seen.append(list(waited_for))

    began: list[threading.Thread] = []
    waited_for: list[str] = []
    seen: list[list[str]] = []
    watchers.append(meddle)
    try:
        begins(twins.ours, one, "trip")
    finally:
        watchers.remove(meddle)
        over.set()
        began[0].join(PATIENCE)
        for connection in (ghost, stranger, looking):
            connection.close()
    assert seen == [["ghost"]]


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
        ("one", False, None),
        ("two", True, since + QUARANTINE_SECONDS),
    ]
    sizes = twins.ours.book(lambda book: Look(book).sizes())
    assert (sizes.log_entries, sizes.image_characters) == (
        len(twins.ours.rows("log")),
        sum(len(row[2]) for row in twins.ours.rows("image")),
    )
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


# ---- entries


def added(side: Side, *drafts: Any) -> list[bool]:
    return side.book(lambda book: [book.entries.add(each).won for each in drafts])


def changed(side: Side, id_: str = "d1", *, version: int | None = 1, **parts: Any) -> bool:
    told: dict[str, Any] = {"state": "over", "at": 2.0, **parts}
    return side.book(lambda book: book.entries.change("decision", id_, from_version=version, **told).won)


def versions(side: Side, id_: str = "d1", kind: str = "decision") -> list[tuple[int, str, bool]]:
    found = side.book(lambda book: book.entries.versions(kind, id_))
    return [(entry.version, entry.state, entry.latest) for entry in found]


def chained(side: Side, run: str = "run") -> list[str]:
    """Return what the chain of a run holds, each link of it checked."""
    chain = side.book(lambda book: book.entries.chain(run))
    before = BEGINNING
    for entry in chain.entries:
        assert (entry.digest, entry.intact) == (entry.link(before), True)
        before = entry.digest
    assert (chain.length, chain.digest) == (len(chain.entries), before)
    return [f"{entry.kind}/{entry.id}#{entry.version}" for entry in chain.entries]


def entries_in_both(twins: Twins) -> None:
    """Entries of two kinds and two runs, in no order, in both namespaces."""
    for side in (twins.other, twins.ours):
        added(side, draft("d2", at=3.0), draft("d1"), draft("d1", kind="promise"), draft("d3", run="other"))


def a_version_of_an_entry_is_answered_once_and_the_second_is_told_what_stands(twins: Twins) -> None:
    entries_in_both(twins)
    assert [changed(twins.ours, version=v) for v in (1, 1, 2, 7)] == [True, False, True, False]
    assert versions(twins.ours) == [(1, "made", False), (2, "over", False), (3, "over", True)]
    assert versions(twins.ours, "d2") == versions(twins.ours, kind="promise") == [(1, "made", True)]
    assert changed(twins.ours, version=None, from_state="made") is False
    for id_ in ("d9", "d8", "d7", "d6"):
        added(twins.ours, draft(id_))
        [changed(twins.ours, id_, version=v) for v in (1, 2, 3)]
        assert [v for v, _, _ in versions(twins.ours, id_)] == [1, 2, 3, 4]


def an_entry_that_is_added_again_stays_as_it_was(twins: Twins) -> None:
    entries_in_both(twins)
    before = twins.ours.rows("entry"), twins.ours.rows("chain")
    assert added(twins.ours, draft(at=9.0, body='{"b":1}')) == [False]
    assert (twins.ours.rows("entry"), twins.ours.rows("chain")) == before


def the_entries_of_a_run_are_one_chain_that_no_other_run_or_namespace_is_in(twins: Twins) -> None:
    entries_in_both(twins)
    changed(twins.ours)
    for number in range(11):
        added(twins.ours, draft(f"e{number}", run="long"))
    assert chained(twins.ours) == ["decision/d2#1", "decision/d1#1", "promise/d1#1", "decision/d1#2"]
    assert chained(twins.ours, "other") == ["decision/d3#1"]
    assert chained(twins.ours, "long") == [f"decision/e{number}#1" for number in range(11)]
    assert chained(twins.other) == ["decision/d2#1", "decision/d1#1", "promise/d1#1"]
    assert chained(twins.ours, "nobody") == []


def sought(side: Side, *asked: Any, **more: Any) -> list[str]:
    found = side.book(lambda book: book.entries.find(Which(*(asked or ("decision",)), **more)))
    return [f"{entry.run}/{entry.id}#{entry.version}" for entry in found]


def entries_are_found_by_their_last_version_the_oldest_first(twins: Twins) -> None:
    those: dict[str, Any] = {"key": "trip#1/0", "name": "trip", "attempt": 1, "due": 1.5}
    others: list[dict[str, Any]] = [
        {"kind": "promise"}, {"run": "other"}, {"state": "over"}, {"due": 2.0}, {"due": None}, {"key": "trip#1/1"},
        {"key": None}, {"name": "tour"}, {"name": None},
    ]  # fmt: skip # a list of names and values
    for side in (twins.other, twins.ours):
        added(side, draft("d2", at=3.0, **those), draft("d1", **those), draft("d5", **those), draft("d0", **those))
        added(side, draft("d4", run="b", at=3.0))
        for number, wrong in enumerate(others):
            added(side, draft(f"e{number}", **{**those, "at": 9.0, **wrong}))
    added(twins.other, draft("theirs", **those))
    for version in (1, 2):
        changed(twins.ours, "d0", state="made", at=4.0, due=1.5, version=version)
    every = Which("decision", "run", "made", 2.0, "trip#1/0", "trip")
    assert sought(twins.ours, *every) == ["run/d1#1", "run/d5#1", "run/d2#1", "run/d0#3"]
    assert sought(twins.ours, "decision") == [
        "run/d1#1", "run/d5#1", "b/d4#1", "run/d2#1", "run/d0#3", "other/e1#1", *(f"run/e{n}#1" for n in range(2, 9)),
    ]  # fmt: skip # a list of names and values


def the_newest_entries_are_found_by_their_last_version_the_oldest_of_them_first(twins: Twins) -> None:
    for side in (twins.other, twins.ours):
        added(side, draft("d1", at=3.0), draft("d2", at=3.0), draft("d4", at=1.0), draft("d3", run="b", at=3.0))
        added(side, draft("p1", kind="promise", at=9.0))
    added(twins.other, draft("theirs", at=9.0))
    changed(twins.ours, "d4", at=2.0)
    changed(twins.ours, "d4", at=2.5, version=2)
    assert [sought(twins.ours, "decision", newest=most) for most in (0, 1, 2, 3, 4, 5)] == [
        [], ["run/d2#1"], ["run/d1#1", "run/d2#1"], ["b/d3#1", "run/d1#1", "run/d2#1"],
        ["run/d4#3", "b/d3#1", "run/d1#1", "run/d2#1"], ["run/d4#3", "b/d3#1", "run/d1#1", "run/d2#1"],
    ]  # fmt: skip # the newest last


def entries_of_all_runs_are_paged_in_the_order_of_their_chains(twins: Twins) -> None:
    entries_in_both(twins)
    every, place, run = list[str](), 0, ""
    while some := twins.ours.book(lambda book: book.entries.page(run, place, 2)):  # noqa: B023 - called at once
        assert len(some) <= 2
        every += [f"{entry.run}/{entry.id}" for entry in some]
        run, place = some[-1].run, some[-1].place
    assert every == ["other/d3", "run/d2", "run/d1", "run/d1"]


def kept(side: Side) -> set[str]:
    """Return the versions whose bodies are there."""
    asked = f"SELECT id, version FROM settlemark_entry WHERE namespace = '{side.namespace}' AND kept"
    return {f"{id_}#{version}" for id_, version in side.store.asked(asked)}


def old_entries(twins: Twins) -> None:
    """Entries that are old, and some that are not, or still open, or of a transaction that has its payloads still."""
    twins.write(opened(), opened("tour"), intent("tour"), told("tour#1/0"), ended("tour"), opened("tour", 2))
    twins.write(opened("zoo", 2))
    for side in (twins.other, twins.ours):
        added(side, draft("d3", at=3.0, body=LONG), draft("d1", body=LONG), draft("b1", run="b"), draft("a2", run="a"))
        added(side, draft("a1", run="a"), draft("o1", open=True), draft("o2", open=True), draft("n1", at=30.0))
        added(side, draft("t1", name="trip", attempt=1), draft("t2", name="tour", attempt=2), draft("z1", name="zoo"))
        added(side, draft("z2", name="zoo", attempt=1), draft("x1", name="tour", attempt=1, at=4.0))
        changed(side, "o2", at=30.0)


OLD = ["a2#1", "a1#1", "b1#1", "d1#1", "o2#1", "z1#1", "z2#1", "d3#1"]


def what_an_entry_says_goes_when_it_is_old_and_nothing_needs_it_any_more(twins: Twins) -> None:
    old_entries(twins)
    assert counted(twins.ours, now=40.0, before=30.0).entries == len(OLD)
    sweep(twins.ours, now=40.0, before=30.0)
    assert kept(twins.ours) == {"o1#1", "n1#1", "t1#1", "t2#1", "o2#2"}
    assert counted(twins.ours, now=40.0, before=30.0).entries == 0
    added(twins.ours, draft("x2", name="tour", attempt=1, at=5.0))
    assert counted(twins.ours, now=40.0, before=30.0).entries == 1
    assert chained(twins.ours)[:2] == ["decision/d3#1", "decision/d1#1"]
    assert chained(twins.ours, "b") == ["decision/b1#1"]


def the_oldest_entries_go_first_a_few_at_a_time(twins: Twins) -> None:
    old_entries(twins)
    went = list[set[str]]()
    for _ in OLD:
        before = kept(twins.ours)
        assert sweep(twins.ours, now=40.0, before=30.0, limit=1).entries == 1
        went.append(before - kept(twins.ours))
    assert went == [{one} for one in OLD]


def the_chain_of_a_run_goes_with_the_last_that_is_recorded_of_it(twins: Twins) -> None:
    twins.write(opened(run="c"))
    for side in (twins.other, twins.ours):
        for run, at in (("a", 2.0), ("c", 1.0), ("d", 1.0), ("e", 25.0), ("b", 2.0), ("f", 3.0), ("g", 1.0)):
            added(side, draft(run, run=run, at=at, open=run == "d"))
        added(side, draft("g2", run="g", at=25.0))
    twins.other.write(opened("else", run="a"))
    added(twins.other, draft("0", run="0", at=0.5))
    sweep(twins.other, now=30.0, before=0.75, keys=1e9)
    runs = lambda: {row[1] for row in twins.ours.rows("chain")}  # noqa: E731 - asked twice
    for _ in range(7):  # one body at a time
        sweep(twins.ours, now=30.0, before=26.0, keys=1e9, limit=1)
    assert runs() == set("abcdefg")
    for left_ in ("bcdefg", "cdefg", "cdeg", "cdeg"):
        sweep(twins.ours, now=30.0, before=26.0, keys=5.0, limit=1)
        assert runs() == set(left_)
    assert {row[1] for row in twins.ours.rows("entry")} == set("cdeg")


# ---- seals of effects


def seal(side: Side, *keys: str) -> None:
    def sealed(book: Any) -> None:
        book.entries.used = True
        book.entries.seal(keys)

    side.book(sealed)


def under_decisions(twins: Twins) -> None:
    """Effects of two runs, two attempts and both namespaces: those under a decision, and one that is under none."""
    twins.write(opened(), opened("trip", 2), opened("tour", run="other"))
    twins.write(intent(under="d1"), intent("trip", 2, under="d2"), intent("tour", under="d3"), intent(position=1))
    twins.other.write(intent(position=2, under="d1"))
    twins.ours.write(intent(position=2))


def an_effect_under_a_decision_is_sealed_in_the_chain_of_its_run_in_versions_of_its_own(twins: Twins) -> None:
    under_decisions(twins)
    added(twins.ours, draft("trip#1/0", run="third"))
    for version in range(1, 6):
        changed(twins.ours, "trip#1/0", version=version)
    for _ in range(4):
        seal(twins.other, "trip#1/0", "tour#1/0")
    seal(twins.ours, "tour#1/0", "trip#1/0", "trip#1/1", "nobody#1/0")
    for outcome in (Outcome.UNKNOWN, Outcome.CONFIRMED):
        twins.ours.write(told(what=outcome))
        seal(twins.ours, "trip#1/0")
    assert chained(twins.ours) == [f"effect/trip#1/0#{version}" for version in (1, 2, 3)]
    assert chained(twins.ours, "other") == ["effect/tour#1/0#1"]
    assert versions(twins.ours, "trip#1/0", "effect") == [
        (1, "intended", False),
        (2, "unknown", False),
        (3, "confirmed", True),
    ]
    assert [row[-2] for side in (twins.ours, twins.other) for row in side.rows("head")] == [1, 0]


def a_run_has_the_effects_that_are_under_a_decision_or_were_when_they_were_sealed(twins: Twins) -> None:
    under_decisions(twins)
    keys = lambda: sorted(row["key"] for row in twins.ours.book(lambda book: book.entries.effects("run")))  # noqa: E731
    seal(twins.ours, "trip#1/0")
    seal(twins.other, "trip#1/2")
    added(twins.ours, draft("d1", key="trip#1/1"))
    assert keys() == ["trip#1/0", "trip#2/0"]
    (row, *_) = twins.ours.book(lambda book: book.entries.effects("other"))
    assert (row["key"], row["run"], row["tool"], row["decision"]) == ("tour#1/0", "other", "book", "d3")
    twins.store.wire._driver.execute("UPDATE settlemark_effect SET decision = NULL WHERE namespace = 'ours'")
    assert keys() == ["trip#1/0"]


def a_seal_stays_for_as_long_as_its_effects_row(twins: Twins) -> None:
    under_decisions(twins)
    twins.ours.write(told(), told("trip#2/0"), ended(), ended("trip", 2, at=50.0))
    twins.ours.write(*(told(f"trip#1/{number}") for number in (1, 2)))
    twins.other.write(intent(position=3, key="odd"))
    twins.ours.write(intent("tour", position=1, key="odd", under="d3"))
    seal(twins.ours, "trip#1/0", "trip#2/0", "tour#1/0", "odd")
    seal(twins.other, "trip#1/0")
    added(twins.ours, draft("d1", key="trip#1/0", at=60.0))
    assert counted(twins.ours, now=30.0, before=20.0).entries == 0
    sweep(twins.ours, now=30.0, before=20.0)
    assert kept(twins.ours) == {"trip#1/0#1", "trip#2/0#1", "tour#1/0#1", "odd#1", "d1#1"}
    assert counted(twins.ours, now=30.0, before=20.0).entries == 0
    sweep(twins.ours, now=200.0, before=20.0)
    assert kept(twins.ours) == {"trip#2/0#1", "tour#1/0#1", "odd#1", "d1#1"}
    (entry,) = twins.ours.book(lambda book: book.entries.versions("effect", "trip#1/0"))
    assert "$pruned" in entry.body


ARRANGEMENTS = (
    "budgeted", "entries_in_both", "lefts", "of_one_that_will_owe", "of_several_ages", "of_several_debts",
    "of_runs_that_are_steered", "of_several_fates", "old_entries", "owes_in_one_attempt", "steers_some",
    "under_decisions",
)  # fmt: skip # a table of values
PROMISES = [
    promise
    for name, promise in list(globals().items())
    if getattr(promise, "__module__", "") == __name__
    and list(getattr(promise, "__annotations__", ())) == ["twins", "return"]
    and name not in ARRANGEMENTS
]
