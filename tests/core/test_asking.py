"""What became of an effect: the record is asked first, then who may still be sending it, then its counterparty."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from tests.core.by_hand import carried_out, in_turn
from tests.core.ledgers.twins import intent
from tests.rooms.acts import Act, Sleep
from tests.rooms.engine import Probing

from settlemark import UNKNOWN, Effect, LedgerError, Outcome, Retries, Scope, effect
from settlemark.hosting import declaration_of
from settlemark.ledger import RecordedEffect

RETRIES = Retries(tries=3, first=1.0, factor=2.0, most=10.0)
KEY = "trip#1/0"


class Desk:
    """A record, and a counterparty that answers in turn, the last for good; keeps what was asked."""

    def __init__(self, *answers, told=None, zombies=(), fails=False, by_key=False):
        self.answers, self.told, self.silent, self.fails = list(answers), told, frozenset(zombies), fails
        self.asked, self.pauses, self.signed = 0, [], []
        self.at_pause = lambda: None
        self.kernel = SimpleNamespace(
            warns=True, step=self._step, ledger=SimpleNamespace(worker="web-1", time=lambda: 100.0)
        )
        self.probing = Probing(self.kernel)
        probe = {"probe": self._by_key if by_key else self._by_room} if answers else {}

        @effect("reversible", scope="room:/{room}", undo=lambda room: None, window=10, **probe)
        def book(room):
            raise AssertionError("it is asked about, not called")

        self.effect = Effect(declaration_of(book), (Scope.parse("room:/a"),), {"room": "a"}, None)
        self.effect.key, self.effect.outcome, self.effect.at = KEY, Outcome.UNKNOWN, 95.0

    def _by_room(self, room):
        return self._answered()

    def _by_key(self, key):
        assert key == KEY
        return self._answered()

    def _answered(self):
        self.asked += 1
        return in_turn(self.answers, self.asked - 1)

    def _step(self, step, **_how):
        if self.fails:
            raise LedgerError("the store is away")
        return step(None, self)
        yield

    def find(self, key):
        assert key == KEY
        outcome, result = self.told or (Outcome.UNKNOWN, None)
        return SimpleNamespace(effects=[RecordedEffect(intent(), outcome, result)])

    def set_sender(self, keys, sender):
        self.signed.append((keys, sender))

    def zombies(self):
        return self.silent

    def ask(self, retries=RETRIES):
        return carried_out(self.probing.ask(self.effect, SimpleNamespace(), retries, final=True), self._answer_to)

    def _answer_to(self, request):
        assert request.final
        if isinstance(request, Sleep):
            self.pauses.append(request.seconds)
            self.at_pause()
            return None
        assert isinstance(request, Act)
        return request.function(**request.arguments)


def test_what_the_record_was_told_goes_before_what_its_counterparty_says():
    for told, known in (
        ((Outcome.CONFIRMED, '"R1"'), "R1"),
        ((Outcome.CONFIRMED, None), True),
        ((Outcome.FAILED, None), None),
    ):
        desk = Desk("R2", told=told)
        assert (desk.ask(), desk.asked) == (known, 0)
        assert (desk.ask(None), desk.asked) == ("R2", 1)  # asked once, of nobody else
    for outcome in (Outcome.UNKNOWN, Outcome.INTENDED, Outcome.QUEUED):
        assert Desk("R2", told=(outcome, '"R1"')).ask() == "R2"


def test_who_cannot_tell_is_asked_again_after_growing_pauses_as_often_as_is_tried():
    desk = Desk(UNKNOWN)
    assert (desk.ask(), desk.asked, desk.pauses) == (UNKNOWN, 3, [1.0, 2.0])
    desk = Desk(UNKNOWN, "R2")
    assert (desk.ask(), desk.asked, desk.pauses) == ("R2", 2, [1.0])
    desk = Desk(UNKNOWN)
    assert (desk.ask(None), desk.asked, desk.pauses) == (UNKNOWN, 1, [])
    desk = Desk(ValueError("the line is down"), "R2")
    assert (desk.ask(), desk.asked) == ("R2", 2)


def test_where_there_is_nobody_to_ask_it_is_unknown_at_once():
    desk = Desk()
    assert (desk.ask(), desk.pauses) == (UNKNOWN, [])


def test_what_the_record_is_told_in_a_pause_is_heard():
    desk = Desk(UNKNOWN)
    desk.at_pause = lambda: setattr(desk, "told", (Outcome.CONFIRMED, '"R1"'))
    assert (desk.ask(), desk.asked) == ("R1", 1)


def test_while_the_store_is_away_its_counterparty_is_asked_and_what_is_absent_may_be_on_its_way():
    assert Desk("R2", fails=True).ask() == "R2"
    desk = Desk(None, fails=True)
    assert desk.ask() is None  # nobody else was sending it
    desk.effect.sender = "web-2"
    assert desk.ask(None) is UNKNOWN


def test_what_is_absent_did_not_happen_unless_its_sender_may_still_be_sending_it():
    assert Desk(None).ask() is None
    for zombies, found in (((), None), (("web-2",), UNKNOWN), (("web-3",), None)):
        desk = Desk(None, zombies=zombies)
        desk.effect.sender = "web-2"
        assert desk.ask(None) is found
    desk = Desk("R2", zombies=("web-2",))
    desk.effect.sender = "web-2"
    assert desk.ask(None) == "R2"  # it has come


def test_what_its_sender_has_reported_goes_before_what_its_counterparty_says():
    desk = Desk(None, told=(Outcome.CONFIRMED, '"R1"'), zombies=("web-2",))
    desk.effect.sender = "web-2"
    assert (desk.ask(None), desk.asked) == ("R1", 0)


def test_what_is_not_found_by_a_key_that_is_forgotten_or_was_never_sent_may_have_happened():
    assert Desk(None, by_key=True).ask() is None
    for by_key, found in ((True, UNKNOWN), (False, None)):
        desk = Desk(None, by_key=by_key)
        desk.effect.at = 90.0  # its counterparty remembers a key for ten seconds
        assert desk.ask(None) is found
        desk = Desk(None, by_key=by_key)
        desk.effect.unsigned = True
        assert desk.ask(None) is found


def test_a_probe_that_says_false_says_nothing_and_that_is_told_once_of_each_tool(caplog):
    desk = Desk(False)
    assert [desk.ask(None), desk.ask(None)] == [UNKNOWN, UNKNOWN]
    (told,) = caplog.records
    assert told.getMessage().startswith("the probe of book answered False, which is neither a result nor None")
    assert (told.settlemark["tool"], told.settlemark["key"], told.settlemark["scope"]) == ("book", KEY, "room:/a")
    quiet = Desk(False)
    quiet.kernel.warns = False
    assert (quiet.ask(None), len(caplog.records)) == (UNKNOWN, 1)
    for falsy in (0, "", []):  # these are results
        assert Desk(falsy).ask(None) == falsy


def test_an_interrupt_while_it_is_asked_is_raised():
    with pytest.raises(KeyboardInterrupt):
        Desk(KeyboardInterrupt()).ask()


def test_that_this_worker_sends_it_again_is_recorded():
    desk = Desk(None)
    desk.effect.sender = "web-2"
    with pytest.raises(StopIteration):
        next(desk.probing.sends_again(desk.effect))
    assert (desk.signed, desk.effect.sender) == ([([KEY], "web-1")], None)
