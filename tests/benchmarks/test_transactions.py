"""What one transaction costs beside the bare tool, and beside a lock around it that writes it down."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from itertools import count
from time import perf_counter

import pytest

from settlemark import Settlement, effect


class World:
    """A counterparty that counts what reached it."""

    def __init__(self):
        self.acted = 0
        self.lock = threading.Lock()
        self.journal = []
        self.numbers = count()

        @effect("reversible", scope="room:/{hotel}/{date}", undo=lambda hotel, date: None)
        def reserve(hotel, date):
            self.acted += 1
            return {"confirmation": hotel}

        @effect("read", scope="room:/{hotel}")
        def look(hotel):
            self.acted += 1
            return hotel

        self.reserve = reserve
        self.look = look

    def bare(self, operations, effects=1):
        """The tool, called directly."""
        for _ in range(operations):
            for number in range(effects):
                self.reserve(hotel=f"h{number}", date="2026-12-01")
        return operations

    def locked(self, operations, effects=1):
        """A lock around each step, with intent and outcome written down as JSON."""
        for _ in range(operations):
            with self.lock:
                for number in range(effects):
                    arguments = {"hotel": f"h{number}", "date": "2026-12-01"}
                    self.journal.append(json.dumps({"tool": "reserve", **arguments}))
                    self.journal.append(json.dumps(self.reserve(**arguments)))
        self.journal.clear()
        return operations

    def settled(self, settlement, operations, effects=1):
        """The same in a transaction each, each under a name of its own."""
        for _ in range(operations):
            with settlement.transaction(f"trip-{next(self.numbers)}") as tx:
                for number in range(effects):
                    tx.call(self.reserve, hotel=f"h{number}", date="2026-12-01")
        return operations


@pytest.fixture
def world():
    return World()


@pytest.mark.parametrize(("effects", "aim"), [(1, 25), (8, 60)], ids=["one effect", "eight effects"])
def test_a_transaction_in_memory(gauge, world, effects, aim):
    settlement = Settlement("memory:")
    operations = gauge.scale(2_000 // effects, 5)

    measured = gauge.beside(
        f"transaction of {effects}, in memory",
        lambda: world.settled(settlement, operations, effects),
        {
            "the bare calls": lambda: world.bare(operations, effects),
            "lock + json.dumps": lambda: world.locked(operations, effects),
        },
        aim=aim,
    )

    assert measured.done == operations
    last = settlement.transactions()[-1]
    assert [str(e.outcome) for e in last.effects] == ["confirmed"] * effects
    assert str(last.state) == "committed"


@pytest.mark.parametrize(("tool", "aim"), [("reserve", 50), ("look", None)], ids=["effect", "read"])
def test_a_call_in_an_open_transaction(gauge, world, tool, aim):
    settlement = Settlement("memory:")
    operations = gauge.scale(500, 5)
    function = getattr(world, tool)
    arguments = {"hotel": "Ada"} if tool == "look" else {"hotel": "Ada", "date": "2026-12-01"}

    def wrapped():
        with settlement.transaction(f"trip-{next(world.numbers)}") as tx:
            for _ in range(operations):
                tx.call(function, **arguments)
        return operations

    def bare():
        for _ in range(operations):
            function(**arguments)
        return operations

    gauge.beside(f"tool call in a transaction ({tool})", wrapped, {"the bare call": bare}, aim=aim)

    acted = world.acted
    wrapped()
    assert world.acted == acted + operations


def test_a_transaction_that_is_entered_again_answers_from_the_record(gauge, world):
    settlement = Settlement("memory:")
    with settlement.transaction("trip") as tx:
        tx.call(world.reserve, hotel="Ada", date="2026-12-01")
    operations = gauge.scale(1_000, 5)

    def replayed():
        for _ in range(operations):
            with settlement.transaction("trip") as tx:
                tx.call(world.reserve, hotel="Ada", date="2026-12-01")
        return operations

    gauge.beside("replay of one effect", replayed, {"a new one": lambda: world.settled(settlement, operations)})

    acted = world.acted
    replayed()
    assert world.acted == acted


def test_a_transaction_in_sqlite_beside_the_disk_it_is_on(gauge, world, tmp_path):
    settlement = Settlement(f"sqlite:///{tmp_path / 'ledger.db'}")
    memory = Settlement("memory:")
    operations = gauge.scale(40, 2)

    def settled_by_eight():
        threads = [threading.Thread(target=world.settled, args=(settlement, operations)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return operations * len(threads)

    def synced():
        with (tmp_path / "probe").open("ab", buffering=0) as file:
            for _ in range(operations):
                file.write(b"." * 256)
                os.fdatasync(file.fileno())
        return operations

    started = perf_counter()
    eight = settled_by_eight()
    each = (perf_counter() - started) / eight * 1e6
    gauge.beside(
        "transaction of 1, in SQLite",
        lambda: world.settled(settlement, operations),
        {
            "append 256 B + fdatasync": synced,
            "the same in memory": lambda: world.settled(memory, operations),
        },
        known={"eight threads at once, each": each},
    )

    settlement.close()
    connection = sqlite3.connect(tmp_path / "ledger.db")
    kept = connection.execute("SELECT count(*) FROM settlemark_effect WHERE outcome = 'confirmed'").fetchone()[0]
    connection.close()
    assert kept == next(world.numbers) - len(memory.transactions())


def test_the_bytes_that_an_effect_takes_in_the_ledger(gauge, world, tmp_path):
    path = tmp_path / "ledger.db"
    effects = gauge.scale(4_000, 16)

    def size_after(transactions):
        settlement = Settlement(f"sqlite:///{path}")
        world.settled(settlement, transactions, 8)
        settlement.close()
        return path.stat().st_size

    empty = size_after(0)
    full = gauge.once(lambda: size_after(effects // 8))
    payload = len(json.dumps({"hotel": "h0", "date": "2026-12-01"}) + json.dumps({"confirmation": "h0"}))
    each = (full - empty) / effects
    gauge.count(
        "bytes per effect, in SQLite", each, "B", size=effects, ratios={"its arguments and result": each / payload}
    )

    assert world.acted == effects // 8 * 8
    assert full > empty
