"""The same engines with a slow ledger, and with somebody who cancels or aborts at any moment.

Here every write to the ledger and every act takes its time: others move before it is answered. What
a fence promises is judged from the world's log: once `cancel` has returned, nothing of its run acts.
"""

from __future__ import annotations

import itertools

import pytest
from tests.core.explorer.explorer import explore
from tests.core.explorer.programs import explore_all
from tests.rooms.protocol import Txn

from settlemark import State
from settlemark.hosting import Protocol, Reason

OPERATIONS = ("rx", "ex", "sx", "ox", "jx", "ux", "ep", "sp")
PAIRS = list(itertools.product([(op,) for op in OPERATIONS], repeat=2))
SHARDS = 16
MEDDLED = [
    ("sx sy",),
    ("ex sy",),
    pytest.param(("ex sy", "rx"), marks=pytest.mark.long),
    pytest.param(("ey jx", "ry sx"), marks=pytest.mark.long),
    pytest.param(("ux sy", "rx"), marks=pytest.mark.long),
    ("ox sy",),
    pytest.param(("ex ey", "ep"), marks=pytest.mark.long),
    pytest.param(("rx sx", "ex"), marks=pytest.mark.long),
]


@pytest.mark.sampled(SHARDS)
@pytest.mark.parametrize("shard", range(SHARDS))
def test_every_pair_of_operations_is_right_over_a_slow_ledger(shard, record_property):
    assert explore_all(PAIRS[shard::SHARDS], record_property, durable=True) == []


@pytest.mark.parametrize("programs", MEDDLED, ids=" | ".join)
def test_a_run_that_is_cancelled_at_any_moment_leaves_nothing_and_acts_no_more(programs, record_property):
    assert explore_all([programs], record_property, durable=True, cancelled=[0]) == []


@pytest.mark.parametrize("programs", MEDDLED, ids=" | ".join)
def test_a_transaction_that_somebody_else_aborts_at_any_moment_is_undone_or_has_left_whole(programs, record_property):
    assert explore_all([programs], record_property, durable=True, aborted=[0]) == []


class AbortsWhatIsLeaving(Protocol):
    """Takes back a decision although somebody is carrying it out."""

    def abort(self, txn: Txn, reason: Reason, **detail: object) -> None:
        if txn.state is State.RELEASING and not txn.released:
            self.revert(txn, reason, **detail)
        else:
            super().abort(txn, reason, **detail)


class FenceWithoutWaiting(Protocol):
    """Tells a canceller of nothing that is still leaving."""

    def cancel(self, run: str) -> list[Txn]:
        return [txn for txn in super().cancel(run) if txn.state is not State.RELEASING]


def test_an_abort_from_elsewhere_of_what_is_leaving_is_caught():
    assert explore("ex sy", durable=True, aborted=[0], protocol=AbortsWhatIsLeaving).violations != {}


def test_a_fence_that_does_not_wait_for_what_is_leaving_is_caught():
    assert explore("sx sy", durable=True, cancelled=[0], protocol=FenceWithoutWaiting).violations != {}
