"""Agents that touch nothing in common do not wait for each other; under one lock they all do."""

from __future__ import annotations

import threading
from time import sleep

import pytest
from tests.rooms.runtime import sync

from settlemark import Settlement, effect

TOOL_SECONDS = 0.001


@effect("reversible", scope="desk:/{agent}", undo=lambda agent: None)
def work(agent):
    sleep(TOOL_SECONDS)
    return agent


@pytest.fixture
def waits(monkeypatch):
    """The waits that were carried out, as (holder, scope)."""
    found = []
    original = sync._wait_sync

    def counted(request):
        found.append((request.holder, request.scope))
        return original(request)

    monkeypatch.setattr(sync, "_wait_sync", counted)
    return found


def run_agents(agents, act):
    """Let each agent act in a thread of its own, all begun together."""
    ready = threading.Barrier(agents)
    done = []

    def agent(number):
        ready.wait()
        done.append(act(number))

    threads = [threading.Thread(target=agent, args=(number,)) for number in range(agents)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done)


@pytest.mark.parametrize("agents", [2, 8, 32, 128])
def test_agents_at_desks_of_their_own(gauge, waits, agents):
    each = gauge.scale(6, 1)
    settlement = Settlement("memory:")
    lock = threading.Lock()
    rounds = []

    def settled(number):
        for step in range(each):
            with settlement.transaction(f"agent-{number}/{len(rounds)}.{step}") as tx:
                tx.call(work, agent=number)
        return each

    def locked(number):
        for _ in range(each):
            with lock:
                work(number)
        return each

    def bare(number):
        for _ in range(each):
            work(number)
        return each

    def all_settled():
        rounds.append(agents)
        return run_agents(agents, settled)

    measured = gauge.beside(
        "1 ms of work by N agents at their own desks",
        all_settled,
        {
            "one lock for all": lambda: run_agents(agents, locked),
            "no coordination": lambda: run_agents(agents, bare),
        },
        rounds=3,
        size=agents,
    )
    gauge.count("  waits", len(waits), "", aim=0, size=agents)

    assert measured.done == agents * each
    assert waits == []


def test_agents_at_one_desk_do_wait(gauge, waits):
    settlement = Settlement("memory:")

    def act(number):
        with settlement.transaction(f"agent-{number}") as tx:
            tx.call(work, agent="shared")
        return 1

    done = gauge.once(lambda: run_agents(8, act))
    gauge.count("1 ms of work by N agents at one desk: waits", len(waits), "", size=8)

    assert done == 8
    assert waits
    assert {scope for _, scope in waits} == {"desk:/shared"}
