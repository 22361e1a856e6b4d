"""What was split off belongs to its whole: it does not leave before that, goes with it, and is split off anew."""

from __future__ import annotations

import threading

import pytest

from settlemark import Refused, State, UsageError, effect
from settlemark.testing import InjectedFault

PATIENCE = 60.0


def note_and_mail(settlement, tools, name="trip"):
    with settlement.transaction(name, park="split") as tx:
        tx.call(tools.book, room="a")
        tx.call(tools.put, cell="1", value=7)
        tx.call(tools.send, to="x")
        tx.park("split")


def ends(settlement):
    return [(recorded.row.name, recorded.row.attempt, recorded.state) for recorded in settlement.transactions()]


@pytest.mark.every_store
def test_a_transaction_whose_release_was_refused_is_entered_and_split_again(settlement, tools, world):
    world.fail("put", *[InjectedFault()] * 2)
    for _ in range(2):
        with pytest.raises(Refused):
            note_and_mail(settlement, tools)
    note_and_mail(settlement, tools)
    (asked,) = settlement.approvals()

    assert settlement.approve(asked.key, by="ada").settled
    assert world.log == [
        *[("book", "a"), ("cancel", "a")] * 2,
        ("book", "a"),
        ("put", "1", 7),
        ("send", "x", "hello"),
    ]
    assert ends(settlement) == [
        ("trip", 1, State.ABORTED),
        ("trip!2", 1, State.ABORTED),
        ("trip", 2, State.ABORTED),
        ("trip!2", 2, State.ABORTED),
        ("trip", 3, State.COMMITTED),
        ("trip!2", 3, State.COMMITTED),
    ]


# ---- a yes while the whole is still leaving


class Desk:
    """A note that takes its time to leave, and then leaves or fails; and a mail."""

    def __init__(self, fails):
        self.began, self.goes_on, self.log = threading.Event(), threading.Event(), []

        @effect("staged", scope="note:/{text}")
        def note(text):
            self.began.set()
            assert self.goes_on.wait(PATIENCE)
            if fails:
                raise InjectedFault
            self.log.append(f"note {text}")

        @effect("irreversible", scope="mail:/{to}")
        def mail(to):
            self.log.append(f"mail {to}")

        self.note, self.mail, self.raised = note, mail, []

    def work(self, settlement):
        try:
            with settlement.transaction("trip", park="split") as tx:
                tx.call(self.note, text="paid")
                tx.call(self.mail, to="ada")
                tx.park("split")
        except Refused as error:
            self.raised.append(error)


@pytest.fixture
def leaving(shared_url, open_settlement):
    """Return a desk whose transaction is leaving in one process, that process, another one, and what waits for it."""
    threads = []

    def begin(*, fails):
        one, other = open_settlement(shared_url), open_settlement(shared_url)
        desk = Desk(fails)
        thread = threading.Thread(target=desk.work, args=[one], daemon=True)
        thread.start()
        threads.append((desk, thread))
        assert desk.began.wait(PATIENCE)

        def end():
            desk.goes_on.set()
            thread.join(PATIENCE)
            assert not thread.is_alive()

        return desk, one, other, end

    yield begin
    for desk, thread in threads:
        desk.goes_on.set()
        thread.join(PATIENCE)


def test_a_yes_waits_until_the_whole_has_left(leaving):
    desk, one, other, end = leaving(fails=False)
    (asked,) = other.approvals()

    said = other.approve(asked.key, by="ada")

    assert (said.news, said.settled, desk.log) == (True, False, [])
    assert said.waits == "trip, which it was split from, has not left yet, and may still be undone"
    end()
    one.recover()
    assert (desk.log, desk.raised, other.approvals()) == (["note paid", "mail ada"], [], [])


def test_what_a_person_has_said_yes_to_goes_with_the_whole_that_is_refused(leaving):
    desk, one, other, end = leaving(fails=True)
    (asked,) = other.approvals()
    other.approve(asked.key, by="ada")

    end()

    one.recover()
    other.recover()
    assert ([type(error) for error in desk.raised], desk.log, other.approvals()) == ([Refused], [], [])
    assert ends(other) == [("trip", 1, State.ABORTED), ("trip!1", 1, State.ABORTED)]


def test_all_of_it_is_not_answered_while_the_whole_is_leaving_and_nothing_moved(leaving):
    desk, _, other, end = leaving(fails=False)

    with pytest.raises(UsageError, match="trip, which trip!1 was split from, has not left yet: answer then"):
        other.answer("trip!1", approve=True)

    assert ([one.answer for one in other.approvals()], desk.log) == ([None], [])
    end()
    other.answer("trip!1", approve=True)
    assert desk.log == ["note paid", "mail ada"]


def test_a_no_waits_for_nothing(leaving):
    desk, _, other, end = leaving(fails=False)
    (asked,) = other.approvals()

    assert other.reject(asked.key, by="ada", because="no").settled

    end()
    assert (desk.log, other.approvals()) == (["note paid"], [])


# ---- several that are answered


@pytest.mark.every_store
def test_one_that_leaves_in_part_keeps_no_other_from_settling(settlement, tools, world, caplog):
    world.fail("send", InjectedFault())
    for name in ("first", "second"):
        with settlement.transaction(name) as tx:
            tx.call(tools.put, cell=name, value=7)
            tx.call(tools.send, to=name)
            tx.park()
    halted = settlement.halt(everything=True, by="ada", because="a drill").halt
    for asked in settlement.approvals():
        settlement.approve(asked.key, by="ada")
    assert world.log == []

    assert settlement.resume(halted.number, by="ada").number == halted.number

    assert world.log == [("put", "first", 7), ("put", "second", 7), ("send", "second", "hello")]
    assert ends(settlement) == [("first", 1, State.COMMITTED), ("second", 1, State.COMMITTED)]
    assert "first is approved and needs a look: first is committed in part" in caplog.text
    assert [each.transaction for each in settlement.residue()] == ["first"]
