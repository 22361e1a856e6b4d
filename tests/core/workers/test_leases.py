"""A worker that hangs is thought dead after its lease; one that comes back acts no more."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from settlemark import LeaseLost, Settlement, State
from settlemark.hosting import host_of

HERE = Path(__file__).parent
PATIENCE = 60

HOLDER = """
import sys
sys.path.insert(0, {here!r})
from world import Desk, tools
from settlemark import Settlement, SettlemarkError

desk = Desk(sys.argv[2])
known = tools(desk)
settlement = Settlement(sys.argv[1], lease=float(sys.argv[3]), keep_open=0.0)
try:
    with settlement.transaction("held") as tx:
        tx.call(known["add"], cell="x", amount=1)
        tx.call(known["send"], cell="x")
        print("holding", flush=True)
        sys.stdin.readline()
        tx.call(known["add"], cell="x", amount=10)
        print("acted", flush=True)
except SettlemarkError as error:
    print(type(error).__name__, flush=True)
    print(error, file=sys.stderr, flush=True)
with settlement.transaction("afterwards") as tx:
    tx.call(known["add"], cell="y", amount=1)
print("goes on", flush=True)
settlement.close()
"""


@pytest.fixture
def lease():
    return 1.0


@pytest.fixture
def holder(shared_url, make_crew, tmp_path, lease):
    """A worker process that holds a claim on cell x, and waits to be told to go on."""
    crew = make_crew(shared_url, lease=lease)
    paths = os.pathsep.join([str(HERE.parents[2] / "core"), os.environ.get("PYTHONPATH", "")])
    worker = subprocess.Popen(
        [sys.executable, "-c", HOLDER.format(here=str(HERE)), shared_url, str(tmp_path / "desk.db"), str(lease)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert worker.stdout.readline() == "holding\n"
    yield crew, worker
    worker.kill()
    worker.communicate(timeout=PATIENCE)


def add(settlement, crew, name):
    with settlement.transaction(name) as tx:
        tx.call(crew.tools["add"], cell="x", amount=100)


def test_a_worker_that_hangs_loses_its_holds_after_its_lease_and_one_that_comes_back_is_fenced_out(holder):
    crew, worker = holder
    os.kill(worker.pid, signal.SIGSTOP)
    with closing(Settlement(crew.url, lease=1.0, keep_open=0.0, wait=PATIENCE)) as settlement:
        add(settlement, crew, "waits for the lease")
        assert crew.desk.cells() == {"x": 100}
        os.kill(worker.pid, signal.SIGCONT)
        worker.stdin.write("\n")
        worker.stdin.flush()
        assert [worker.stdout.readline(), worker.stdout.readline()] == ["LeaseLost\n", "goes on\n"]
        assert worker.wait(PATIENCE) == 0
        assert crew.desk.cells() == {"x": 100, "y": 1}
        assert [(verb, key) for verb, _, key, _, _ in crew.desk.log() if verb == "plain letter"] == []
        states = {r.row.name: r.state for r in settlement.transactions()}
        assert states == {"held": State.ABORTED, "waits for the lease": State.COMMITTED, "afterwards": State.COMMITTED}
        assert settlement.residue() == []


@pytest.mark.parametrize("lease", [20 * PATIENCE])
def test_a_worker_that_was_killed_on_this_host_is_seen_to_be_gone_before_its_lease_ends(holder):
    crew, worker = holder
    worker.kill()
    worker.wait(PATIENCE)
    with closing(Settlement(crew.url, lease=PATIENCE, keep_open=0.0, wait=PATIENCE)) as settlement:
        add(settlement, crew, "does not wait for the lease")
        assert crew.desk.cells() == {"x": 100}
        assert settlement.residue() == []


def test_a_name_that_another_worker_runs_is_waited_for_and_then_replayed(shared_url, make_crew):
    crew = make_crew(shared_url)
    started, go_on = threading.Event(), threading.Event()
    first, second = Settlement(crew.url), Settlement(crew.url, wait=PATIENCE)

    def slow():
        with first.transaction("once") as tx:
            tx.call(crew.tools["add"], cell="x", amount=1)
            started.set()
            assert go_on.wait(PATIENCE)

    with closing(first), closing(second):
        thread = threading.Thread(target=slow)
        thread.start()
        assert started.wait(PATIENCE)
        done = []

        def again():
            done.append(second.run("once", lambda tx: tx.call(crew.tools["add"], cell="x", amount=1)))

        other = threading.Thread(target=again)
        other.start()
        go_on.set()
        thread.join(PATIENCE)
        other.join(PATIENCE)
    assert done == [1]
    assert crew.desk.cells() == {"x": 1}


def test_a_worker_whose_lease_is_taken_while_it_is_between_two_calls_is_told_at_the_next(shared_url, make_crew):
    crew = make_crew(shared_url)
    with closing(Settlement(crew.url)) as hung, closing(Settlement(crew.url, keep_open=0.0)) as other:
        with pytest.raises(LeaseLost, match="another worker's now"):
            with hung.transaction("taken") as tx:
                tx.call(crew.tools["add"], cell="x", amount=1)
                worker = host_of(hung).ledger.worker
                host_of(other).ledger.now(lambda protocol, book: (protocol.bury(worker), book.remove_workers([worker])))
                assert other.recover().undone == ["taken"]
                tx.call(crew.tools["add"], cell="x", amount=10)
        assert crew.desk.cells() == {"x": 0}
        assert host_of(hung).ledger.worker != worker
        with hung.transaction("fresh") as tx:
            tx.call(crew.tools["add"], cell="x", amount=5)
    assert crew.desk.cells() == {"x": 5}
