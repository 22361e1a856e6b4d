"""Four agents write six lines each into one shared block: every line is kept, which the bare store does not do."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from langgraph.store.memory import InMemoryStore
from tests.adapters.store.subject import look, opened

from settlemark import Settlement
from settlemark_adapters.store import Store, VersionMoved

AGENTS, ROUNDS = 4, 6
LINES = sorted(f"{agent}.{number}" for agent in range(AGENTS) for number in range(ROUNDS))
ROOT = Path(__file__).parents[3]


def together(work):
    """Have each agent do all its rounds in a thread, and raise what any of them raised."""
    start = threading.Barrier(AGENTS)

    def agent(number):
        start.wait(30)
        for turn in range(ROUNDS):
            work(number, turn)

    with ThreadPoolExecutor(AGENTS) as pool:
        list(pool.map(agent, range(AGENTS)))


def kept(store):
    return sorted(store.get(("team",), "log").value["text"].splitlines())


def test_unguarded_agents_that_all_read_before_any_of_them_writes_keep_six_of_24_lines():
    store, all_have_read, all_have_written = InMemoryStore(), threading.Barrier(AGENTS), threading.Barrier(AGENTS)
    store.put(("team",), "log", {"text": ""})

    def work(agent, turn):
        text = store.get(("team",), "log").value["text"]
        all_have_read.wait(30)
        store.put(("team",), "log", {"text": f"{text}{agent}.{turn}\n"})
        all_have_written.wait(30)

    together(work)
    assert len(kept(store)) == ROUNDS


@pytest.mark.parametrize("url", ["memory:", "sqlite:///{folder}/ledger.db"])
@pytest.mark.parametrize("make", [lambda _: InMemoryStore(), opened], ids=["InMemoryStore", "SqliteStore"])
def test_four_agents_by_six_rounds_keep_24_of_24_appends(tmp_path, url, make):
    store = make(tmp_path)
    with Settlement(url.format(folder=tmp_path)) as settlement:
        memory = Store(store, settlement)

        def work(agent, turn):
            block = {"namespace": "team", "name": "log", "text": f"{agent}.{turn}"}
            settlement.run(f"agent-{agent}/{turn}", lambda tx: tx.call(memory.append, **block))

        together(work)
        assert (kept(store), memory.get("team", "log")["version"]) == (LINES, "24")
        assert settlement.residue() == []


def test_so_they_do_when_each_reads_the_block_itself_and_puts_back_what_it_made_of_it():
    store = InMemoryStore()
    with Settlement("memory:") as settlement:
        memory = Store(store, settlement)

        def rewrite(tx, line):
            seen = tx.call(memory.get, namespace="team", name="log")
            text = (seen["value"] or {"text": ""})["text"]
            tx.call(
                memory.put,
                namespace="team",
                name="log",
                value={"text": f"{text}{line}\n"},
                expected_version=seen["version"],
            )

        def work(agent, turn):
            tries = 0
            while True:
                try:
                    return settlement.run(
                        f"agent-{agent}/{turn}~{tries}",
                        lambda tx: rewrite(tx, f"{agent}.{turn}"),
                        on_failure="abort",
                        tries=100,
                    )
                except VersionMoved:  # it was read before another's write, and compared after it
                    tries += 1

        together(work)
        assert (kept(store), settlement.residue()) == (LINES, [])


@pytest.mark.parametrize(("agents", "rounds"), [(2, 3), pytest.param(AGENTS, ROUNDS, marks=pytest.mark.long)])
def test_so_they_do_in_processes_of_their_own_on_one_ledger(tmp_path, agents, rounds):
    opened(tmp_path).conn.close()
    roots = [str(ROOT), *(str(ROOT / name) for name in ("core", "adapters"))]
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.adapters.store.agent", str(tmp_path), str(number), str(rounds)],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(roots)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(agents)
    ]
    assert [(agent.communicate(timeout=60)[1], agent.returncode) for agent in processes] == [("", 0)] * agents
    lines = sorted(f"{agent}.{number}" for agent in range(agents) for number in range(rounds))
    assert sorted(look(tmp_path)["memory:/team/log"]["text"].splitlines()) == lines
