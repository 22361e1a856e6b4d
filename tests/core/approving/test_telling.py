"""Who may answer is told of it: once by each channel, again when nobody has answered, and others in their turn."""

from __future__ import annotations

import pytest

from settlemark import Approval, Escalation, UsageError, effect
from settlemark.hosting import Notice

pytestmark = [pytest.mark.own_time, pytest.mark.every_store]

HOUR = 3_600.0


class Board:
    """A channel that keeps what it was told, and fails as often as it is to."""

    def __init__(self, name="board", fails=0):
        self.name, self.fails, self.told = name, fails, []

    def tell(self, notice: Notice):
        if self.fails:
            self.fails -= 1
            raise ConnectionError("nobody is there")
        self.told.append(notice)

    @property
    def seen(self):
        return [(notice.occasion, notice.to) for notice in self.told]


@pytest.fixture
def board():
    return Board()


@pytest.fixture
def open_with(url, open_here):
    """Open a settlement with channels whose thread looks only when it is told to, by `recover`."""

    def opened(*channels):
        return open_here(url, channels=channels)

    return opened


def ask(settlement, paid, name="case-7", **terms):
    @effect("irreversible", scope="account:/{account}", approve=Approval(**terms))
    def pay(account):
        paid.append(account)

    settlement.run(name, lambda tx: tx.call(pay, account="ada"))
    return next(one for one in settlement.approvals() if one.transaction == name)


def test_who_may_answer_is_told_once_of_what_is_asked(open_with, board):
    settlement = open_with(board)
    asked = ask(settlement, [], by=("ada", "role:board"), within=HOUR)
    for _ in range(3):
        settlement.recover()
    (notice,) = board.told
    assert (notice.occasion, notice.to, notice.subject) == (
        "asked",
        ("ada", "role:board"),
        "pay on account:/ada waits for a yes",
    )
    assert (notice.data["key"], notice.data["arguments"]) == (asked.key, {"account": "ada"})
    assert "a no unless answered by" in notice.text
    assert settlement.audit("case-7").intact


def test_by_each_channel_once_though_one_of_them_fails_for_a_while(open_with, clock):
    good, bad = Board("good"), Board("bad", fails=2)
    settlement = open_with(good, bad)
    ask(settlement, [])
    for _ in range(6):
        settlement.recover()
        clock.advance(HOUR)
    assert (good.seen, bad.seen) == ([("asked", ())], [("asked", ())])
    ((row,),) = [one.notices for one in settlement.approvals()]
    assert (row.state, row.left, sorted(row.told), row.tries) == ("told", (), ["bad", "good"], 2)
    assert good.told[0].id == bad.told[0].id


def test_nobody_is_told_before_a_failed_channel_has_had_a_pause(open_with, clock):
    bad = Board("bad", fails=1)
    settlement = open_with(bad)
    ask(settlement, [])
    settlement.recover()
    settlement.recover()
    assert (bad.fails, bad.seen) == (0, [])
    clock.advance(31)
    settlement.recover()
    assert bad.seen == [("asked", ())]


def test_who_has_not_answered_is_reminded_until_somebody_has(open_with, board, clock):
    settlement, paid = open_with(board), []
    asked = ask(settlement, paid, by="ada", remind=HOUR)
    for _ in range(3):
        settlement.recover()
        settlement.recover()
        clock.advance(HOUR)
    assert board.seen == [("asked", ("ada",)), ("reminded", ("ada",)), ("reminded", ("ada",))]
    assert len({notice.id for notice in board.told}) == 3
    settlement.approve(asked, by="ada")
    clock.advance(HOUR)
    settlement.recover()
    assert (len(board.told), paid) == (3, ["ada"])


def test_who_it_is_escalated_to_is_told_when_it_is_his_turn_and_nobody_after_the_deadline(open_with, board, clock):
    settlement, paid = open_with(board), []
    ask(
        settlement,
        paid,
        by="ada",
        escalate=Escalation(("cfo", "role:board"), after=HOUR),
        within=2 * HOUR,
        remind=7 * HOUR,
    )
    settlement.recover()
    clock.advance(HOUR)
    settlement.recover()
    clock.advance(HOUR)
    settlement.recover()
    settlement.recover()
    assert board.seen == [("asked", ("ada",)), ("escalated", ("cfo", "role:board"))]
    assert (settlement.approvals(), paid) == ([], [])


def test_a_process_that_was_away_reminds_once_for_all_the_time(open_with, board, clock):
    settlement = open_with(board)
    ask(settlement, [], by="ada", remind=HOUR)
    settlement.recover()
    clock.advance(24 * HOUR)
    settlement.recover()
    assert board.seen == [("asked", ("ada",)), ("reminded", ("ada",))]


def test_another_process_tells_what_one_without_a_channel_has_asked(url, open_here, open_with, board):
    if url == "memory:":
        pytest.skip("memory is one process's")
    ask(open_here(url), [], by="ada")
    open_with(board).recover()
    open_with(Board("board")).recover()
    assert board.seen == [("asked", ("ada",))]


def test_what_is_answered_before_anybody_was_told_is_told_to_nobody(open_with, board, clock):
    bad = Board("bad", fails=1)
    settlement = open_with(bad)
    asked = ask(settlement, [])
    settlement.recover()
    settlement.approve(asked, by="ada")
    clock.advance(HOUR)
    settlement.recover()
    assert bad.told == []


@pytest.mark.parametrize(
    ("channels", "told"),
    [
        ([print], "which tells nobody"),
        ([Board(""), Board("b")], "the name of a channel in channels= is empty"),
        ([Board("b"), Board("b")], "two that are called b"),
    ],
)
def test_channels_that_tell_nobody_are_refused(open_here, channels, told):
    with pytest.raises(UsageError, match=told):
        open_here("memory:", channels=channels)
