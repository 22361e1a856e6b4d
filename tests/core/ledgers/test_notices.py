"""Notices and one-time links on record: told by one process at a time, for a time, and used once."""

from __future__ import annotations

import pytest
from tests.rooms.ledger import links, notices

from settlemark import UsageError
from settlemark.hosting import Notice
from settlemark.ledger import MemoryLedger

NOTICE = Notice("n1", "asked", ("ada",), "pay waits for a yes", "pay would act", {"key": "k"}, 100.0)
BOTH = ("mail", "chat")


class Desk:
    """A ledger in memory, whose steps are taken one by one."""

    def __init__(self):
        self._ledger = MemoryLedger()

    def step(self, act, *given, **named):
        return self._ledger.now(lambda _protocol, book: act(book, *given, **named))

    def add(self, notice=NOTICE, channels=BOTH, **of):
        return self.step(notices.add_notice, notice, run="trip", channels=channels, **of)

    def take(self, at, channels=BOTH):
        return self.step(notices.take_notices, at, channels)

    def next(self):
        return self.step(notices.next_notice)

    def stands(self):
        entry = self.step(lambda book: book.entries.get(notices.KIND, "n1"))
        return entry.state, entry.due, entry.open


@pytest.fixture
def desk():
    return Desk()


# ---- notices


def test_a_notice_is_recorded_once_and_is_to_be_told_from_its_moment_on(desk):
    assert desk.next() is None
    assert [desk.add(), desk.add()] == [True, False]
    assert (desk.next(), desk.stands()) == (100.0, ("waiting", 100.0, True))


def test_who_takes_a_notice_has_it_for_a_minute_and_then_another_may(desk):
    desk.add()
    assert desk.take(99.9) == []
    (row,) = desk.take(100.0)
    assert (row.state, row.left, row.told, row.tries, row.notice) == ("telling", BOTH, {}, 0, NOTICE)
    assert (desk.next(), desk.take(159.9)) == (160.0, [])
    (again,) = desk.take(160.0)  # who had it has died
    assert again.version == row.version + 1


def test_a_notice_is_taken_only_by_who_has_one_of_its_channels(desk):
    desk.add(channels=("mail",))
    assert (desk.take(100.0, ("chat",)), desk.stands()) == ([], ("waiting", 100.0, True))
    assert [row.left for row in desk.take(100.0, ("chat", "mail"))] == [("mail",)]


def test_a_notice_is_told_when_each_of_its_channels_has_told_it(desk):
    desk.add()
    (row,) = desk.take(100.0)
    half = desk.step(notices.note_told, row, 105.0, "mail")
    assert (half.left, half.told, half.state, desk.stands()) == (
        ("chat",),
        {"mail": 105.0},
        "telling",
        ("telling", 165.0, True),
    )
    whole = desk.step(notices.note_told, half, 107.0, "chat")
    assert (whole.left, whole.told, whole.state) == ((), {"mail": 105.0, "chat": 107.0}, "told")
    assert (desk.stands(), desk.next(), desk.take(1e9)) == (("told", None, False), None, [])


def test_what_another_has_taken_meanwhile_is_not_noted_and_nothing_changes(desk):
    desk.add()
    (late,) = desk.take(100.0)
    desk.take(160.0)
    assert desk.step(notices.note_told, late, 170.0, "mail") is None
    assert desk.step(notices.put_off, late, 170.0) is None
    desk.step(notices.drop_notice, late, 170.0)
    assert desk.stands() == ("telling", 220.0, True)


def test_what_could_not_be_told_is_tried_again_after_growing_pauses_and_twelve_times_in_all(desk):
    desk.add()
    pauses, at = [], 100.0
    for tries in range(1, 13):
        (row,) = desk.take(at)
        off = desk.step(notices.put_off, row, at)
        state, due, is_open = desk.stands()
        assert (off.tries, off.state, state, is_open) == (tries, state, state, due is not None)
        pauses.append(None if due is None else due - at)
        at = due or at
    assert pauses == [30, 60, 120, 240, 480, 960, 1_920, 3_600, 3_600, 3_600, 3_600, None]
    assert (state, desk.next(), desk.take(1e9)) == ("failed", None, [])


def test_a_notice_that_need_not_be_told_any_more_is_dropped(desk):
    desk.add()
    (row,) = desk.take(100.0)
    desk.step(notices.drop_notice, row, 101.0)
    assert (desk.stands(), desk.next()) == (("dropped", None, False), None)


def test_the_next_notice_is_the_one_that_is_to_be_told_first(desk):
    for number, at in ((1, 130.0), (2, 110.0), (3, 120.0)):
        desk.add(Notice(f"n{number}", "asked", (), "s", "t", {}, at))
    assert desk.next() == 110.0
    assert sorted(row.notice.id for row in desk.take(120.0)) == ["n2", "n3"]
    assert desk.next() == 130.0


def test_the_notices_about_a_call_are_found_by_its_key_and_tell_who_was_told_what(desk):
    desk.add(name="trip/1", attempt=1, key="trip/1#1/0")
    desk.add(Notice("n2", "reminded", ("bo",), "s", "t", {}, 101.0), key="trip/1#1/1")
    (row,) = desk.step(notices.notices_about, "trip/1#1/0")
    assert (row.about, row.run) == ("trip/1#1/0", "trip")
    assert row.account() == {
        "id": "n1", "occasion": "asked", "to": ["ada"], "at": 100.0, "state": "waiting", "left": ["mail", "chat"],
        "told": {}, "tries": 0,
    }  # fmt: skip # a table
    assert desk.step(notices.notices_about, "trip/1#1/2") == []


# ---- links

LINK = links.Link("trip/1#1/0", "digest", "ada", ("board",), 0)


def linked(desk, link=LINK, token="token"):
    desk.step(links.add_link, token, link, run="trip", name="trip/1", attempt=1, at=100.0)


def state(desk, token="token"):
    entry = desk.step(lambda book: book.entries.get(links.KIND, links.link_id(token)))
    return entry.state, entry.version


def test_a_link_says_once_what_it_was_used_for_and_the_same_again_changes_nothing(desk):
    linked(desk)
    assert (desk.step(links.linked, "token"), state(desk)) == ("trip/1#1/0", ("open", 1))
    for _ in range(2):
        assert desk.step(links.use_link, "token", "approve", 101.0) == LINK
        assert state(desk) == ("approve", 2)


def test_a_link_that_was_used_otherwise_is_refused_and_nothing_changes(desk):
    linked(desk)
    desk.step(links.use_link, "token", "approve", 101.0)
    with pytest.raises(UsageError, match="this link was used already, to approve; nothing was recorded") as refused:
        desk.step(links.use_link, "token", "reject", 102.0)
    assert (refused.value.decision, state(desk)) == ("approve", ("approve", 2))


def test_a_token_of_no_link_answers_nothing(desk):
    linked(desk)
    assert desk.step(links.linked, "other") is None
    with pytest.raises(UsageError, match="this link answers nothing: it is none, or too old"):
        desk.step(links.use_link, "other", "approve", 101.0)
    assert state(desk) == ("open", 1)


def test_the_token_itself_is_nowhere_on_record(desk):
    linked(desk, token="s3cret")
    (entry,) = desk.step(lambda book: book.entries.chain("trip").entries)
    assert "s3cret" not in repr(entry)
    assert (entry.name, entry.attempt, entry.key, entry.at) == ("trip/1", 1, "trip/1#1/0", 100.0)
