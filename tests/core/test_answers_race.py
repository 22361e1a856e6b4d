"""The first answer that is on record is the one that is acted on, whoever gives another at the same time."""

from __future__ import annotations

import asyncio
import threading

import pytest
from tests.rooms.engine import Waits
from tests.rooms.lifecycle import Answers, Asking

from settlemark import Rejected, UsageError, effect
from settlemark.hosting import host_of, run_sync

ANSWERS = {"approve": True, "reject": False}


@pytest.fixture
def mailed():
    return []


@pytest.fixture
def mail(mailed):
    @effect("irreversible", scope="mail:/{to}", approve=True)
    def mail(to):
        mailed.append(to)

    return mail


def answered_elsewhere(settlement, decision):
    """Answer as another would, and return what that one is told: whether it is news, or why not."""
    (one,) = settlement.approvals() or [None]
    which = settlement.transactions()[-1].effects[0].row.key if one is None else one.key
    try:
        if decision == "approve":
            return settlement.approve(which, by="ada").news
        return settlement.reject(which, because="no", by="ada").news
    except UsageError as error:
        return "refused" if "was answered already" in str(error) else str(error)


def run(settlement, mail):
    try:
        with settlement.transaction("trip") as tx:
            tx.call(mail, to="bee")
    except Rejected:
        return "reject"
    return "approve"


@pytest.mark.every_store
@pytest.mark.parametrize("elsewhere", ANSWERS)
@pytest.mark.parametrize("here", ANSWERS)
@pytest.mark.parametrize("when", ["before the answer here is taken", "when it is taken"])
def test_the_first_answer_on_record_is_acted_on_and_the_other_is_told(
    url, open_settlement, mail, mailed, monkeypatch, here, elsewhere, when
):
    told = []
    settlement = open_settlement(url, approver=lambda gate: ANSWERS[here])
    other = settlement if url == "memory:" else open_settlement(url)
    take = Asking._take_answer

    def meanwhile(self, *asked):
        if when == "before the answer here is taken":
            told.append(answered_elsewhere(other, elsewhere))
        answer = yield from take(self, *asked)
        if when == "when it is taken":
            told.append(answered_elsewhere(other, elsewhere))
        return answer

    monkeypatch.setattr(Asking, "_take_answer", meanwhile)
    acted = run(settlement, mail)

    before = when.startswith("before")
    first = elsewhere if before else here
    assert acted == first
    assert mailed == (["bee"] if first == "approve" else [])
    assert told == [True if before else here != elsewhere and "refused"]


@pytest.mark.parametrize("elsewhere", ANSWERS)
@pytest.mark.parametrize("awaited", [False, True], ids=["asked", "awaited"])
def test_who_still_thinks_here_is_not_waited_for_once_another_process_has_answered(
    shared_url, open_settlement, mail, mailed, elsewhere, awaited
):
    over, late = threading.Event(), []
    other = open_settlement(shared_url)

    def think(_gate):
        assert answered_elsewhere(other, elsewhere) is True
        late.append(over.wait(20))
        return elsewhere == "reject"

    async def think_and_await(gate):
        assert await asyncio.to_thread(answered_elsewhere, other, elsewhere) is True
        async with asyncio.timeout(20):
            await asyncio.Event().wait()
        late.append(gate)

    settlement = open_settlement(shared_url, approver=think_and_await if awaited else think)
    acted = run(settlement, mail)

    assert (acted, mailed, late) == (elsewhere, ["bee"] if elsewhere == "approve" else [], [])
    over.set()


def edited_elsewhere(settlement, decision):
    """Answer as another would, maybe with other arguments, and return what that one is told."""
    if decision != "edit":
        return answered_elsewhere(settlement, decision)
    try:
        (one,) = settlement.approvals()
        return settlement.approve(one.key, by="ada", arguments={"to": "cy"}).news
    except ValueError:
        return "refused"


@pytest.mark.every_store
@pytest.mark.parametrize("kind", ["irreversible", "reversible"])
@pytest.mark.parametrize("elsewhere", [*ANSWERS, "edit"])
@pytest.mark.parametrize("when", ["before", "behind"])
def test_who_gives_other_arguments_is_no_quicker_than_who_was_told_that_it_is_done(
    url, open_settlement, mailed, monkeypatch, kind, elsewhere, when
):
    def mail(to):
        mailed.append(to)

    undo = (lambda to: mailed.remove(to)) if kind == "reversible" else None
    mail = effect(kind, scope="mail:/{to}", approve=True, undo=undo)(mail)
    told = []
    settlement = open_settlement(url, approver=lambda gate: {"decision": "edit", "arguments": {"to": "dan"}})
    other = settlement if url == "memory:" else open_settlement(url)
    withdraw = Asking.withdraw

    def meanwhile(self, attempt, effect, note, **options):
        edits = "answer" in options and not told
        if edits and when == "before":
            told.append(edited_elsewhere(other, elsewhere))
        found = yield from withdraw(self, attempt, effect, note, **options)
        if edits and when == "behind":
            told.append(edited_elsewhere(other, elsewhere))
        return found

    monkeypatch.setattr(Asking, "withdraw", meanwhile)
    acted = run(settlement, mail)

    sent = {"approve": ["bee"], "edit": ["cy"], "reject": []}[elsewhere] if when == "before" else ["dan"]
    assert mailed == sent
    assert acted == ("approve" if sent else "reject")
    assert told == [True if when == "before" else "refused"]
    (recorded,) = other.transactions()
    confirmed = [found for found in recorded.effects if found.outcome == "confirmed"]
    assert [found.row.arguments for found in confirmed] == [f'{{"to":"{to}"}}' for to in sent]
    assert {found.outcome for found in recorded.effects if found not in confirmed} <= {"dropped"}
    assert (other.residue(), other.in_doubt(), other.approvals()) == ([], [], [])


def test_whose_answer_another_thread_carries_out_is_told_when_it_is_carried_out(open_settlement, monkeypatch):
    settlement = open_settlement()
    undoing, waiting, cancelled = threading.Event(), threading.Event(), []

    def cancel(room):
        undoing.set()
        assert waiting.wait(30)
        cancelled.append(room)

    @effect("reversible", scope="room:/{room}", undo=cancel)
    def book(room):
        return room

    @effect("irreversible", scope="mail:/{to}")
    def mail(to):
        raise AssertionError(to)

    with settlement.transaction("trip") as tx:
        tx.call(book, room="a")
        tx.call(mail, to="bee")
        tx.park()
    take, until = Answers._take_said, Waits.until_finished
    quicker = []

    def behind_another(self, name):
        if not quicker:
            quicker.append(threading.Thread(target=lambda: run_sync(take(self, name))))
            quicker[0].start()
            assert undoing.wait(30)
        return (yield from take(self, name))

    def told(self, attempt, txn):
        if threading.current_thread() is threading.main_thread():
            waiting.set()
        return (yield from until(self, attempt, txn))

    monkeypatch.setattr(Answers, "_take_said", behind_another)
    monkeypatch.setattr(Waits, "until_finished", told)
    answered = settlement.reject("trip", because="too expensive", by="ada")
    assert (answered.settled, answered.waits, cancelled) == (True, "", ["a"])
    quicker[0].join()
    assert host_of(settlement).protocol.live == {}
