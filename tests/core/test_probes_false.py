"""A probe's False is neither a result nor "absent", wherever the probe is asked: the effect stays in doubt.

The counterparty never gets the call, and keeps its own log. Whatever is on record as done is in that log.
"""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys

import pytest

from settlemark import InDoubt, Retries, UsageError, effect
from settlemark.hosting import host_of, run_sync

pytestmark = [pytest.mark.own_time, pytest.mark.every_store]

WARNING = (
    "the probe of act answered False, which is neither a result nor None: the effect counts as in doubt; return None"
    " when it is absent, its result when it happened, settlemark.UNKNOWN when nobody can tell"
)


class Counterparty:
    """Nothing reaches it, and whoever asks is told False."""

    def __init__(self, lost=TimeoutError):
        self.lost, self.log, self.sent, self.asked = lost, [], 0, 0

    def says_false(self):
        self.asked += 1
        return False

    async def says_false_later(self):
        await asyncio.sleep(0)
        return self.says_false()

    def tool(self, kind, probe="says_false", **parts):
        if kind in {"reversible", "idempotent"}:
            parts["undo"] = lambda: self.log.append("taken back")

        @effect(kind, scope="thing:/x", name="act", probe=getattr(self, probe), **parts)
        def act():
            self.sent += 1
            raise self.lost

        return act


def outcomes(settlement):
    return [(t.state.value, [e.outcome.value for e in t.effects]) for t in settlement.transactions()]


def call(settlement, tool, *, undone=False):
    with settlement.transaction("trip") as tx:
        with pytest.raises(InDoubt):
            tx.call(tool)
        if undone:
            tx.abort("on second thoughts")


def call_in_a_loop(settlement, tool):
    async def work():
        async with settlement.transaction("trip") as tx:
            with pytest.raises(InDoubt):
                await tx.call(tool)

    asyncio.run(work())


def release(settlement, tool):
    with pytest.raises(InDoubt), settlement.transaction("trip") as tx:
        tx.call(tool)


def interrupt(settlement, tool):
    with pytest.raises(KeyboardInterrupt), settlement.transaction("trip") as tx:
        tx.call(tool)


def ask_later(settlement, tool):
    call(settlement, tool)
    run_sync(host_of(settlement).driver.resolution.ask_again())


def recover(settlement, _tool):
    settlement.recover()


COMMITTED, ABORTED = [("committed", ["unknown"])], [("aborted", ["unknown"])]
PLACES = {
    "the call": (call, "reversible", "says_false", TimeoutError, COMMITTED),
    "the call, by an async probe": (call_in_a_loop, "reversible", "says_false_later", TimeoutError, COMMITTED),
    "a call that is sent again under its key": (call, "idempotent", "says_false", TimeoutError, COMMITTED),
    "its undo": (lambda s, t: call(s, t, undone=True), "reversible", "says_false", TimeoutError, ABORTED),
    "a release": (release, "irreversible", "says_false", TimeoutError, COMMITTED),
    "an interrupt": (interrupt, "reversible", "says_false", KeyboardInterrupt, ABORTED),
    "the background": (ask_later, "reversible", "says_false", TimeoutError, COMMITTED),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_probes_false_is_on_record_as_in_doubt_and_said_once(url, open_here, caplog, place):
    act, kind, probe, lost, expected = PLACES[place]
    counterparty = Counterparty(lost)
    settlement = open_here(url, retries=Retries(tries=2, first=0, most=0))
    with caplog.at_level(logging.WARNING, "settlemark"):
        act(settlement, counterparty.tool(kind, probe))
    assert outcomes(settlement) == expected
    assert counterparty.log == []
    assert [d.key for d in settlement.in_doubt()] == ["trip#1/0"]
    assert (counterparty.asked > 0, [r.getMessage() for r in caplog.records].count(WARNING)) == (True, 1)


@pytest.mark.parametrize(
    ("go_on", "keep_open", "expected"),
    [(recover, 0, ABORTED), (call, 30, COMMITTED), (call_in_a_loop, 30, COMMITTED)],
    ids=["recovery", "its name entered again", "its name entered again in a loop"],
)
def test_what_follows_a_kill_takes_no_false_for_a_result(tmp_path, open_here, caplog, go_on, keep_open, expected):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, url],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert (killed.returncode, killed.stderr) == (7, "")
    counterparty = Counterparty()
    tool = counterparty.tool("reversible")
    settlement = open_here(url, keep_open=keep_open)
    with caplog.at_level(logging.WARNING, "settlemark"):
        go_on(settlement, tool)
    assert outcomes(settlement) == expected
    assert (counterparty.log, counterparty.sent, counterparty.asked > 0) == ([], 0, True)
    assert [r.getMessage() for r in caplog.records].count(WARNING) == 1


KILLED = """
import os, sys
from settlemark import Settlement, effect

@effect("reversible", scope="thing:/x", undo=lambda: None, probe=lambda: False)
def act():
    os._exit(7)

with Settlement(sys.argv[1]).transaction("trip") as tx:
    tx.call(act)
"""


def test_a_failure_that_is_no_loss_stays_a_failure_when_the_probe_says_false(settlement):
    with pytest.raises(ValueError, match="refused"), settlement.transaction("trip") as tx:
        tx.call(Counterparty(ValueError("refused")).tool("reversible"))
    assert outcomes(settlement) == [("aborted", ["failed"])]


@pytest.mark.parametrize("way", ["confirm", "aconfirm"])
def test_false_confirms_nothing(settlement, way):
    call(settlement, Counterparty().tool("reversible"))

    async def confirm():
        return await settlement.aconfirm("trip#1/0", False)

    with pytest.raises(UsageError, match="neither that it happened nor that it did not: pass None when it is absent"):
        settlement.confirm("trip#1/0", False) if way == "confirm" else asyncio.run(confirm())
    assert outcomes(settlement) == [("committed", ["unknown"])]
