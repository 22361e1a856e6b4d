"""What the statements of holds that lapse promise, each beside a twin namespace with the same keys: see `contract`."""

from __future__ import annotations

from tests.core.ledgers.twins import Twins, intent, opened, told
from tests.rooms.ledger import Lapse, lapse_id

from settlemark import Outcome

HOLD = Lapse(90.0, "room:/7", "release", "hold:/7", '{"text":"hold lapses","matching":{},"calls":true}')
KEY = "trip#1/0"


def written(twins: Twins) -> None:
    for side in (twins.other, twins.ours):
        for name, attempt in (("trip", 1), ("trip", 2), ("tour", 1)):
            run = f"{side.namespace}'s {name} {attempt}"
            side.write(opened(name, attempt, run=run), intent(name, attempt, position=0))
        side.write(intent("trip", 1, position=3, key="later"))


def owed(twins: Twins) -> list[tuple[object, ...]]:
    return sorted(row[1:12] for row in twins.ours.rows("owed"))


def what_lapses_is_owed_by_the_attempt_of_its_effect_behind_it_once(twins: Twins) -> None:
    written(twins)
    twins.ours.write(told(KEY, at=5.0)._replace(lapse=HOLD))
    expected = (lapse_id(KEY), "trip", 1, "ours's trip 1", 1, "room:/7", "release", "hold:/7", HOLD.payload, 5.0, 90.0)
    assert owed(twins) == [expected]
    twins.ours.write(told(KEY, at=6.0)._replace(lapse=HOLD._replace(due=91.0)))
    assert owed(twins) == [expected]
    twins.ours.write(told("later", at=7.0)._replace(lapse=HOLD))
    assert [row[:5] for row in owed(twins)] == sorted(
        [expected[:5], (lapse_id("later"), "trip", 1, "ours's trip 1", 4)], key=str
    )
    twins.ours.write(told("unknown", at=8.0)._replace(lapse=HOLD))
    assert len(owed(twins)) == 2
    for key, run in (("trip#2/0", "ours's trip 2"), ("tour#1/0", "ours's tour 1")):
        twins.ours.write(told(key)._replace(lapse=HOLD))
        assert [row[3] for row in owed(twins) if row[0] == lapse_id(key)] == [run]


def what_was_taken_back_lapses_no_more_and_what_else_is_owed_stays(twins: Twins) -> None:
    written(twins)
    for side in (twins.other, twins.ours):
        for key in (KEY, "later"):
            side.write(told(key)._replace(lapse=HOLD))
    twins.ours.write(told(KEY)._replace(outcome=Outcome.UNDONE, lapse=Lapse(None)))
    assert [row[0] for row in owed(twins)] == [lapse_id("later")]


PROMISES = [
    what_lapses_is_owed_by_the_attempt_of_its_effect_behind_it_once,
    what_was_taken_back_lapses_no_more_and_what_else_is_owed_stays,
]
