"""What is stuck, a plan that mends it, and a person who ends it at any moment, in every interleaving, and with a kill.

A room stays booked, since its desk was closed when it was to be cancelled. By now the desk is open; a plan is proposed,
and runs step by step; and a person has the undo tried again, or says that it is settled. The process may end at any
moment; then another goes on, an hour later. The hotel's own log is believed.
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import pytest
from tests.core.explorer.plan import ViolatedError
from tests.core.explorer.plays import Play, every_play
from tests.rooms.api import transaction
from tests.rooms.lifecycle import Ending

from settlemark import State, UsageError, current_call, effect
from settlemark.hosting import in_words

HOUR = 3_600


class Boom(Exception):
    """A failure of the caller's own."""


class Hotel:
    """Keeps each act in its log, under its key; what comes twice under its key is one."""

    def __init__(self):
        self.log, self.open = [], False

    def act(self, what):
        key = current_call().key
        if (what, key) not in self.log:
            self.log.append((what, key))
        elif what in ("book", "void", "strike"):
            raise ViolatedError("a call was sent twice")
        return {"done": True}

    def has(self, what):
        return sum(done == what for done, _ in self.log)

    def is_taken(self):
        return bool(self.log) and self.log[-1][0] in ("book", "take again")


NOW = [Hotel()]
"""The hotel of the play that is moved."""


def _cancel(room):
    if not NOW[0].open:
        raise LookupError("the desk is closed")
    NOW[0].act("cancel")


def _happened(key):
    return {"done": True} if any(known == key for _, known in NOW[0].log) else None


@effect(
    "reversible",
    scope="room:/{room}",
    undo=_cancel,
    probe=lambda room: {"room": room} if NOW[0].is_taken() else None,
    name="book a room",
)
def book(room):
    return NOW[0].act("book")


@effect(
    "reversible",
    scope="room:/{room}",
    undo=lambda room: NOW[0].act("take again"),
    probe=_happened,
    keyed=True,
    name="void",
)
def void(room):
    return NOW[0].act("void")


@effect("staged", scope="room:/{room}", probe=_happened, keyed=True, name="strike")
def strike(room):
    return NOW[0].act("strike")


class Mended(Play):
    """A room that stays booked, a plan for it, and a person."""

    kinds, tools = ("mend",), (book, void, strike)
    ending: ClassVar[type[Ending]] = Ending
    """Ends what is stuck, in the place of the engine's own."""

    def __init__(self, plan, person, *, killed=False, at_once=False):
        self.hotel, self.person, self.did = Hotel(), person, []
        NOW[0] = self.hotel
        super().__init__(on_stuck=lambda stuck: [{"tool": plan, "arguments": {"room": "7"}}])
        with pytest.raises(Boom), self.settlement.transaction("trip") as tx:
            tx.call(book, room="7")
            raise Boom
        self.hotel.open, self.ledger.immediate = True, False
        self.add(self.driver.mends.mend())
        self.add(self.ended(), at_once=at_once)
        if killed:
            self.add(self.killing(), apart=True, at_once=True)
        self.add(self.an_hour_later(), apart=True, last=True)

    def open(self):
        super().open()
        self.driver.ending.__class__ = self.ending
        self.driver.mends.carrying.running = partial(self.running, self.host)

    # ---- who moves

    def running(self, host, name, run, scopes, calls, ours, prove):
        """Run a plan as the settlement does, one move after the other."""
        tries, driver = 0, host.driver

        def begun(part):
            def act():
                nonlocal tries
                tries += 1
                yield from ours(part.attempt.number - tries + 1)
                face = transaction.Transaction(host, part)
                for call in calls:
                    yield from driver.calls.call(part.attempt, face._effect(call.function, (), call.arguments))
                if not any(call.held for call in calls):
                    yield from prove()

            return act

        options = {**host.options(run, run, may_touch=scopes, on_failure="retry", retry=True), "name": name}
        return driver.runs.run(driver.entrance.enter(**options, independent=True), begun, tries=20)

    def ended(self):
        ending = self.driver.ending
        try:
            if self.person == "undo_again":
                became = yield from ending.undo_again("trip", None, by="ada", note="", wait=1e9)
                self.did += map(str, became.values())
            else:
                yield from ending.settle_by_hand("trip", None, by="ada", note="")
                self.did.append("settled")
        except UsageError as error:
            self.did.append("decided" if "is decided and acts now" in str(error) else "not stuck")

    def killing(self):
        self.kill()
        self.add(self.driver.recovery.recover(keep_open=0))
        yield from ()

    def an_hour_later(self):
        for _ in range(2):
            self.clock.advance(HOUR)
            yield from self.driver.recover(keep_open=0)

    # ---- what is judged

    def observe(self):
        plans = self.hotel.has("void") - self.hotel.has("take again") + self.hotel.has("strike")
        if plans + self.hotel.has("cancel") > 1:
            raise ViolatedError("the plan and the undo, or one of them twice, have acted")

    def picture(self):
        return tuple(self.hotel.log), tuple(self.did), self.clock()

    def judged(self):
        over = [each for each in self.moved if each.of in (-1, self.process)]
        failed = [in_words(each.end.error) for each in over if each.end is not None and each.end.error is not None]
        if failed or any(each.end is None for each in over):
            return failed or ["nobody can move"]
        return [*self.judged_world(), *self.judged_record()]

    def judged_world(self):
        stuck, taken = self.settlement.stuck(), self.hotel.is_taken()
        settled = "settled" in self.did or (self.person == "settle_by_hand" and self.process and not stuck)
        if taken is not bool(stuck) and not settled:
            yield f"taken: {taken}, stuck: {len(stuck)}"
        if "undone" in self.did and (taken or not self.hotel.has("cancel")):
            yield "said to be undone, and was not"

    def judged_record(self):
        stuck = self.settlement.stuck()
        if any(each.remedy is None or each.remedy.state not in ("paged", "over", "silent") for each in stuck):
            yield f"stuck, and nobody's affair: {[each.remedy for each in stuck]}"
        for each in self.settlement.transactions():
            if each.row.name.startswith("mends/") and each.state not in (State.COMMITTED, State.ABORTED):
                yield f"{each.row.name} is {each.state}"
        if (
            self.settlement.in_doubt()
            or len(self.settlement.residue()) != len(stuck)
            or self.driver.kernel.protocol.live
        ):
            yield "something else is left"


PLANS = [(plan, person) for plan in ("void", "strike") for person in ("undo_again", "settle_by_hand")]


UNDONE_AT_ONCE = [(plan, "undo_again", {"at_once": True}) for plan in ("void", "strike")]
STEP_BY_STEP = [(plan, "undo_again", {}) for plan in ("void", "strike")]


@pytest.mark.parametrize(
    ("plan", "person", "options"),
    [
        *((plan, "settle_by_hand", {}) for plan in ("void", "strike")),
        *UNDONE_AT_ONCE,
        *(pytest.param(*case, marks=pytest.mark.long) for case in STEP_BY_STEP),
    ],
)
def test_a_plan_or_a_person_ends_it_and_never_both(plan, person, options, record_property):
    played = every_play(lambda: Mended(plan, person, **options))
    record_property("explored_states", played.states)
    assert played.wrong == {}
    assert played.ends > 1


@pytest.mark.long
@pytest.mark.parametrize(("plan", "person"), PLANS)
def test_a_kill_at_any_moment_leaves_it_to_one_of_them(plan, person, record_property):
    played = every_play(lambda: Mended(plan, person, killed=True))
    record_property("explored_states", played.states)
    assert played.wrong == {}
    assert played.ends > 1


def test_states_that_look_alike_come_to_the_same_ends():
    """What tells two states apart leaves nothing out that matters later."""

    def play():
        return Mended("strike", "settle_by_hand", at_once=True)

    assert every_play(play).what == every_play(play, prunes=False).what


class LeavesThePlan(Ending):
    """Has the undo tried again whatever a plan is at."""

    def _end_plans(self, found, protocol, book, *, waits):
        return []


def test_who_undoes_beside_a_plan_is_caught():
    class Otherwise(Mended):
        ending = LeavesThePlan

    assert every_play(lambda: Otherwise("void", "undo_again"), first=True).wrong != {}
