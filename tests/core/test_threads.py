"""Many at once, on shared and on disjoint scopes: the counterparty's own log is that of some serial order."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter, defaultdict

import pytest

from settlemark import SettlemarkError, State, current_call, effect
from settlemark.hosting import host_of

THREADS = 16
TASKS = 100
PATIENCE = 60


class Bank:
    """Accounts, and a log of who read and wrote what, kept by the bank alone."""

    def __init__(self, accounts):
        self.balance = dict.fromkeys(accounts, 0)
        self.log = []
        self.lock = threading.Lock()
        self.tools()

    def note(self, verb, account, value=None):
        """Log one thing the bank did, under the key it was asked with, and return the balance after it."""
        call = current_call()
        with self.lock:
            if value is not None:
                self.balance[account] += value
            self.log.append((verb, account, call.transaction, call.attempt))
            return self.balance[account]

    def tools(self):
        @effect("read", scope="account:/{account}")
        def look(account):
            return self.note("read", account)

        def back(account, amount):
            return self.note("undo", account, -amount)

        @effect("reversible", scope="account:/{account}", undo=back)
        def add(account, amount):
            return self.note("write", account, amount)

        @effect("irreversible", scope="account:/{account}")
        def pay(account, amount):
            return self.note("write", account, amount)

        self.look, self.add, self.pay = look, add, pay


def judge(bank, settlement, expected, committed):
    """Check the bank's log: nothing lost, nothing late, and the committed ones have a serial order.

    `expected` says which accounts each name wrote, `committed` which attempt of it its caller saw succeed.
    """
    recorded = {(t.row.name, t.row.attempt) for t in settlement.transactions() if t.state is State.COMMITTED}
    assert recorded == {(name, attempt) for name, attempt in committed if expected[name]}
    writes, undone = Counter(), Counter()
    for verb, account, name, attempt in bank.log:
        if verb == "write":
            writes[account, name, attempt] += 1
        elif verb == "undo":
            undone[account, name, attempt] += 1
    for (account, name, attempt), count in writes.items():
        stays = count - undone[account, name, attempt]
        assert stays == (count if (name, attempt) in committed else 0), f"{name} left something on {account}"
    for name, accounts in expected.items():
        found = Counter(a for (a, n, k), c in writes.items() for _ in range(c) if n == name and (n, k) in committed)
        assert found == Counter(accounts), f"{name} lost an effect, or acted twice"
    assert sum(bank.balance.values()) == sum(len(accounts) for accounts in expected.values())
    assert not has_cycle(conflicts(bank.log, committed))
    assert settlement.residue() == []
    assert host_of(settlement).protocol.live == {}
    assert (
        host_of(settlement).protocol.board.index.root.children == {}
        or host_of(settlement).protocol.board.versions._plans
    )


def conflicts(log, committed):
    """Return the edges of the conflict graph over committed attempts, from the order in the log."""
    edges = defaultdict(set)
    by_account = defaultdict(list)
    for verb, account, name, attempt in log:
        if (name, attempt) in committed and verb in ("read", "write"):
            by_account[account].append((verb, name))
    for entries in by_account.values():
        for later, (verb, name) in enumerate(entries):
            for other_verb, other in entries[:later]:
                if other != name and "write" in (verb, other_verb):
                    edges[other].add(name)
    return edges


def has_cycle(edges):
    """Whether a directed graph has a cycle (depth first, with an explicit stack)."""
    done, active = set(), set()
    for start in list(edges):
        if start in done:
            continue
        stack = [(start, iter(edges[start]))]
        active.add(start)
        while stack:
            node, following = stack[-1]
            step = next(following, None)
            if step is None:
                stack.pop()
                active.discard(node)
                done.add(node)
            elif step in active:
                return True
            elif step not in done:
                active.add(step)
                stack.append((step, iter(edges.get(step, ()))))
    return False


def test_the_checker_finds_a_cycle_and_finds_none_where_there_is_none():
    crossed = [("read", "a", "x", 1), ("read", "b", "y", 1), ("write", "b", "x", 1), ("write", "a", "y", 1)]
    assert has_cycle(conflicts(crossed, {("x", 1), ("y", 1)}))
    assert not has_cycle(conflicts(crossed, {("x", 1)}))
    serial = [("read", "a", "x", 1), ("write", "b", "x", 1), ("read", "b", "y", 1), ("write", "a", "y", 1)]
    assert not has_cycle(conflicts(serial, {("x", 1), ("y", 1)}))
    assert not has_cycle({"a": {"b", "c"}, "b": {"d"}, "c": {"d"}, "e": {"a", "d"}})
    assert has_cycle({"a": {"b", "c"}, "b": {"d"}, "c": {"d"}, "d": {"e"}, "e": {"c"}})


def jobs(seed, workers, accounts, rounds):
    """Draw for each worker a list of jobs: the accounts to read and those to write, eagerly or held."""
    draw = random.Random(seed)
    drawn = {}
    for worker in range(workers):
        for turn in range(rounds):
            steps = [
                (draw.choice(["look", "add", "add", "pay"]), draw.choice(accounts(worker)))
                for _ in range(draw.randint(1, 3))
            ]
            drawn[f"run-{worker}-{turn}/1"] = steps
    return drawn


def written(steps):
    return [account for verb, account in steps if verb != "look"]


def do(bank, tx, steps):
    """Do one job's steps, and return the attempt it was done in."""
    for verb, account in steps:
        if verb == "look":
            tx.call(bank.look, account=account)
        else:
            tx.call(getattr(bank, verb), account=account, amount=1)
    return tx.attempt


async def ado(bank, tx, steps):
    for verb, account in steps:
        if verb == "look":
            await tx.call(bank.look, account=account)
        else:
            await tx.call(getattr(bank, verb), account=account, amount=1)
    return tx.attempt


SHARED = ["a", "b", "c", "d"]
CROWDS = {"shared": lambda worker: SHARED, "disjoint": lambda worker: [f"own-{worker}", f"own-{worker}-too"]}


@pytest.mark.parametrize("crowd", sorted(CROWDS))
@pytest.mark.parametrize("seed", range(3))
def test_sixteen_threads_settle_in_some_serial_order(url, open_settlement, crowd, seed):
    settlement = open_settlement(url, wait=float(PATIENCE))
    drawn = jobs(seed, THREADS, CROWDS[crowd], rounds=4 if url == "memory:" else 2)
    bank = Bank({account for steps in drawn.values() for _, account in steps})
    barrier, errors, committed = threading.Barrier(THREADS), [], []

    def work(worker):
        barrier.wait(PATIENCE)
        for name, steps in drawn.items():
            if name.startswith(f"run-{worker}-"):
                try:
                    attempt = settlement.run(name, lambda tx, steps=steps: do(bank, tx, steps), tries=500)
                    committed.append((name, attempt))
                except Exception as error:
                    errors.append(error)

    threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads), settlement.waiting()
    assert errors == []
    judge(bank, settlement, {name: written(steps) for name, steps in drawn.items()}, set(committed))


@pytest.mark.parametrize("crowd", sorted(CROWDS))
async def test_a_hundred_tasks_settle_in_some_serial_order(open_settlement, crowd):
    settlement = open_settlement(wait=float(PATIENCE))
    drawn = jobs(7, TASKS, CROWDS[crowd], rounds=1)
    bank = Bank({account for steps in drawn.values() for _, account in steps})

    async def work(name, steps):
        async def body(tx):
            return await ado(bank, tx, steps)

        committed.append((name, await settlement.run(name, body, tries=500)))

    committed = []
    await asyncio.wait_for(asyncio.gather(*(work(name, steps) for name, steps in drawn.items())), PATIENCE)
    judge(bank, settlement, {name: written(steps) for name, steps in drawn.items()}, set(committed))


def test_workers_that_are_cancelled_or_fail_midway_leave_nothing_behind(open_settlement):
    settlement = open_settlement(wait=float(PATIENCE))
    bank = Bank(SHARED)
    drawn = jobs(11, THREADS, CROWDS["shared"], rounds=2)
    barrier, kept = threading.Barrier(THREADS), {}

    def work(worker):
        barrier.wait(PATIENCE)
        for number, (name, steps) in enumerate(drawn.items()):
            if not name.startswith(f"run-{worker}-"):
                continue

            def body(tx, steps=steps, fails=number % 3 == 0):
                attempt = do(bank, tx, steps)
                if fails:
                    raise LookupError
                return attempt

            try:
                if number % 4 == 0:
                    settlement.cancel(f"run-{worker}-{name.split('-')[2][0]}")
                attempt = settlement.run(name, body, tries=500)
                kept[name, attempt] = written(steps)
            except (LookupError, SettlemarkError):
                pass

    threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads), settlement.waiting()
    assert 0 < len(kept) < len(drawn)
    judge(bank, settlement, {name: accounts for (name, _), accounts in kept.items()}, set(kept))


def test_calls_of_one_transaction_from_many_threads_have_each_their_own_key(settlement, world, tools):
    barrier, keys = threading.Barrier(THREADS), []

    with settlement.transaction("trip") as tx:

        def work(worker):
            barrier.wait(PATIENCE)
            keys.extend(tx.call(tools.send, to=f"{worker}-{n}").key for n in range(5))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert world.log == []
    assert sorted(keys) == sorted(f"trip#1/{n}" for n in range(THREADS * 5))
    assert len(world.log) == THREADS * 5
