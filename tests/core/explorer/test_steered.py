"""A run that is steered, paused and killed at any moment, in every interleaving.

A trip of two or three steps is told things by others, at any moment, and its process may end at any moment; then
another goes on. What was done is judged from the world's own log, and what was acknowledged from the record.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import ClassVar

import pytest
from tests.core.explorer.plan import ViolatedError
from tests.core.explorer.plays import Play, Until, every_play
from tests.rooms.api import SteeredRun
from tests.rooms.ledger import Which
from tests.rooms.lifecycle import Listener, Pauses, Steers, following

from settlemark import Paused, Scope, current_call, effect
from settlemark.hosting import in_words

RUN = "trip"


class World:
    """Keeps each act in its log, under its key; what comes twice under its key is one."""

    def __init__(self):
        self.log = []

    def act(self, what, step, place="", told=""):
        key = current_call().key
        if (what, key) in [entry[:2] for entry in self.log]:
            if what == "do":
                raise ViolatedError("a call was sent twice")
        else:
            self.log.append((what, key, step, place, told))
        return {"done": True}

    def stands(self):
        """Return what was booked and not cancelled: the step, the place, and what it was told."""
        gone = [key for what, key, *_ in self.log if what == "cancel"]
        return [entry[2:] for entry in self.log if entry[0] == "do" and entry[1] not in gone]


NOW = [World()]
"""The world of the play that is moved."""


def _find(key):
    return {"done": True} if ("do", key) in [entry[:2] for entry in NOW[0].log] else None


@effect(
    "reversible",
    scope="trip:/{step}/{place}",
    undo=lambda step, place, told: NOW[0].act("cancel", step),
    probe=_find,
    keyed=True,
    name="book a place",
)
def book(step, place, told):
    return NOW[0].act("do", step, place, told)


class Trip(Play):
    """Steps, those who say something about them, and what may happen to the run."""

    kinds, tools = ("steering", "pause"), (book,)
    parts: ClassVar[dict[str, type]] = {}
    """Services in the place of the engine's own."""

    def __init__(self, steps, *said, killed=False, paused=False):
        super().__init__()
        self.world, self.steps, self.said = World(), steps.split(), said
        NOW[0] = self.world
        self.acknowledged, self.closed = [], False
        self.arrivals, self.decided_at, self.said_at = 0, 0, {}
        self.ledger.immediate = False
        self.add(self.going())
        for number, each in enumerate(said):
            self.add(self.steering(number, *each), apart=True, at_once=True)
        if paused:
            self.add(self.pausing(), apart=True, at_once=True)
        if killed:
            self.add(self.killing(), apart=True, at_once=True)
        self.add(self.once_more(), apart=True, last=True)

    # ---- the run

    def going(self):
        """Call the run's program, again when it is gone on with after a pause."""
        while True:
            try:
                yield from self.steered()
            except Paused:
                yield Until(lambda: not self.closed)
            else:
                return

    def steered(self):
        host, driver = self.host, self.driver
        driver.steers.__class__ = self.parts.get("steers", Steers)
        driver.pauses.__class__ = self.parts.get("pauses", Pauses)
        begun = partial(self.parts.get("listener", Listener), driver.steers, driver.pauses, RUN, wait=1e9)
        return following(begun, lambda listener: partial(self.plan, host, SteeredRun(host, listener)))

    def plan(self, host, run):
        for name in self.steps:
            self.arrivals += 1
            arrival, was_closed = self.arrivals, self.closed
            step = run.step(name)
            yield from step._beginning()
            if was_closed and self.closed:
                raise ViolatedError("a paused run began a step")
            face = step._entered()
            self.decided_at = max(self.decided_at, arrival if face._attempt.replay is None else 0)
            try:
                arguments = self.decided(name, run.said)
                yield from host.driver.calls.call(face._attempt, face._effect(book, (), arguments))
            except GeneratorExit:
                raise
            except BaseException as error:
                yield from step._leaving(error)
                raise
            yield from step._leaving(None)

    def decided(self, name, said):
        about = [each.text for each in said if each.what != "add" and each.scopes == (f"trip:/{name}",)]
        told = [each.text for each in said if each.what == "add"]
        return {"step": name, "place": about[-1] if about else "first", "told": ",".join(told)}

    # ---- who comes between

    def steering(self, number, what, text, scope=""):
        scopes = (Scope.parse(scope),) if scope else ()
        yield from self.driver.steers.say(RUN, what, text, scopes, by=f"person {number}")
        self.said_at[text] = self.arrivals

    def pausing(self):
        yield from self.driver.pauses.pause(RUN, by="eve", because="a look")
        self.closed = True
        yield Until()
        yield from self.driver.pauses.go_on(RUN, by="eve")
        self.closed = False

    def killing(self):
        self.kill()
        self.add(self.going_on())
        yield from ()

    def going_on(self):
        yield from self.driver.recovery.recover(keep_open=0)
        yield from self.going()

    def once_more(self):
        """Begin the run again when all is over: what was said behind its last step is heard then."""
        yield from self.going()

    # ---- what is judged

    def observe(self):
        for each in self.ledger.book.entries.find(Which("steering", state="done")):
            number = int(each.id.rpartition("~")[2])
            if number not in self.acknowledged:
                self.acknowledged.append(number)
        standing = [step for step, *_ in self.world.stands()]
        if len(set(standing)) < len(standing):
            raise ViolatedError("a step stands twice")

    def picture(self):
        count = self.arrivals, self.decided_at, tuple(self.said_at.items())
        return tuple(self.world.log), tuple(self.acknowledged), self.closed, count

    def judged(self):
        over = [each for each in self.moved if each.of in (-1, self.process)]
        failed = [in_words(each.end.error) for each in over if each.end is not None and each.end.error is not None]
        if failed or any(each.end is None for each in over):
            return failed or ["nobody can move"]
        said = self.settlement.steering(RUN)
        return [*self.judged_acknowledgements(said), *self.judged_world(said)]

    def judged_acknowledgements(self, said):
        if [each.number for each in said] != list(range(1, len(self.said) + 1)):
            yield f"no one order: {[each.number for each in said]}"
        for each in said:
            states = self.ledger.read(
                lambda book, number=each.number: [e.state for e in book.entries.versions("steering", f"trip~{number}")]
            )
            taken = [after for before, after in pairwise(states) if before != after]
            if taken not in ([], ["done"], ["taken", "done"]) or (taken[:1] == ["taken"]) is not bool(each.rewound):
                yield f"acknowledged otherwise than once: {states}"
            waits = each.what == "add" and self.said_at[each.text] >= self.decided_at
            if each.state != "done" and not waits:
                yield f"{each.what} was not heard"
        order = {what: [n for n in self.acknowledged if (said[n - 1].what == "add") is what] for what in (True, False)}
        if any(numbers != sorted(numbers) for numbers in order.values()):
            yield f"acknowledged out of order: {self.acknowledged}"

    def judged_world(self, said):
        stands = {step: (place, told) for step, place, told in self.world.stands()}
        if [*stands] != self.steps:
            yield f"stands: {[*stands]}"
        for each in said:
            cancelled = {key for what, key, *_ in self.world.log if what == "cancel"}
            if each.bound or not {one.key for one in each.undone} <= cancelled:
                yield "acknowledged as undone, and stands"
        for step, (place, _) in stands.items():
            about = [each.text for each in said if each.what != "add" and each.scopes == (f"trip:/{step}",)]
            if place != (about[-1] if about else "first"):
                yield f"{step} stands as {place}"


BEE, CEE = ("revise", "Bee", "trip:/hotel/**"), ("revise", "Cee", "trip:/hotel/**")
GONE, WINDOW = ("retract", "gone", "trip:/flight/**"), ("add", "window")
CASES = [
    ("flight hotel museum", BEE),
    ("hotel museum", BEE),
    ("hotel museum", WINDOW),
    ("hotel", BEE, {"killed": True}),
    ("hotel museum", {"paused": True}),
    ("hotel", BEE, CEE),
]
LONG = [
    ("flight hotel", BEE, GONE),
    ("hotel museum", BEE, WINDOW),
    ("hotel", BEE, {"paused": True}),
    ("hotel", WINDOW, {"killed": True}),
    ("hotel museum", BEE, {"killed": True}),
    ("hotel", {"paused": True, "killed": True}),
]


def trip(case):
    options = case[-1] if isinstance(case[-1], dict) else {}
    return lambda: Trip(*(part for part in case if not isinstance(part, dict)), **options)


@pytest.mark.parametrize("case", [*CASES, *(pytest.param(case, marks=pytest.mark.long) for case in LONG)], ids=str)
def test_what_is_said_at_any_moment_is_done_once_and_acknowledged_once(case, record_property):
    played = every_play(trip(case))
    record_property("explored_states", played.states)
    assert played.wrong == {}
    assert played.ends > 0


@pytest.mark.parametrize("case", [("hotel", WINDOW), ("hotel", {"paused": True})], ids=str)
def test_states_that_look_alike_come_to_the_same_ends(case):
    """What tells two states apart leaves nothing out that matters later."""
    assert every_play(trip(case)).what == every_play(trip(case), prunes=False).what


class AcknowledgesFirst(Steers):
    """Acknowledges what it has found in conflict in the step that finds it, and has it undone afterwards."""

    def _take(self, run, before, adds, protocol, book):
        taken = super()._take(run, before, adds, protocol, book)
        if taken is not None and taken.state == "taken":
            self._acknowledge(taken, protocol, book)
        return taken


class DoesNotLook(Listener):
    """Comes to a boundary, and hears nothing there."""

    def arrive(self, step, *, wait):
        return (yield from self._placed(step))


class DoesNotStop(Pauses):
    """Goes on behind a pause."""

    def stop_here(self, run, before, executor, environment):
        yield from ()


@pytest.mark.parametrize(
    ("case", "mutant"),
    [
        (("hotel", BEE, {"killed": True}), {"steers": AcknowledgesFirst}),
        (("hotel museum", WINDOW), {"listener": DoesNotLook}),
        (("hotel museum", {"paused": True}), {"pauses": DoesNotStop}),
    ],
    ids=["acknowledges first", "does not look", "does not stop"],
)
def test_a_run_that_hears_otherwise_is_caught(case, mutant):
    class Otherwise(Trip):
        parts = mutant

    *said, options = case if isinstance(case[-1], dict) else (*case, {})
    assert every_play(lambda: Otherwise(*said, **options), first=True).wrong != {}
