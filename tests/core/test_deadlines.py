"""A store that does not answer: everybody who waits for it leaves in time, and when it is back all is accounted for."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections import Counter
from contextlib import suppress
from datetime import timedelta

import pytest
from tests.core.hanging import LockedFile, SilentNetwork, stopped_server
from tests.rooms.ledger import _limits
from tests.rooms.sql import PostgresWire

from settlemark import (
    AsyncTransaction,
    Budget,
    LedgerError,
    SettlemarkError,
    Settlement,
    State,
    Transaction,
    UsageError,
    effect,
)
from settlemark.hosting import host_of, run_sync

WAIT = 0.3
FOREVER = 86_400
GENEROUS = 120  # for what has a third of a second, on a machine that is busy: nobody hangs
PATIENCE = 120


@pytest.fixture(params=["sqlite", "postgres", "stopped"])
def store(request, tmp_path):
    if request.param == "sqlite":
        yield LockedFile(tmp_path)
        return
    if request.param == "stopped":
        found = stopped_server(request)
    else:
        found = SilentNetwork(request.getfixturevalue("postgres_url"))
    yield found
    found.close()


class Desk:
    """A counterparty with a log of its own."""

    def __init__(self):
        self.log = []

        @effect("reversible", scope="seat:/{name}", undo=lambda name: self.log.append(("cancel", name)))
        def book(name):
            self.log.append(("book", name))
            return name

        @effect("irreversible", scope="mail:/{name}")
        def mail(name):
            self.log.append(("mail", name))

        self.book, self.mail = book, mail

    def net(self):
        """Return how often each was booked and not cancelled, and how often each was sent."""
        seats, mails = Counter(), Counter()
        for verb, name in self.log:
            mails[name] += verb == "mail"
            seats[name] += {"book": 1, "cancel": -1, "mail": 0}[verb]
        return seats, mails


def accounted_for(settlement, desk):
    """Wait until all has come to its end, and say what of the world is not as the record has it."""
    deadline = time.monotonic() + PATIENCE
    while settlement.recover(keep_open=0) is not None and host_of(settlement).protocol.live:
        live = [
            (txn.name, txn.state, txn.owner, txn in host_of(settlement).driver.kernel.attempts)
            for txn in host_of(settlement).protocol.live.values()
        ]
        assert time.monotonic() < deadline, f"stranded: {live}"
        time.sleep(0.01)
    ended = {r.row.name: r.state for r in settlement.transactions()}
    seats, mails = desk.net()
    wrong = [
        (name, ended.get(name), seats[name], mails[name])
        for name in {name for _, name in desk.log} | set(ended)
        if (seats[name], mails[name])
        not in ([(1, 0), (1, 1), (0, 1), (0, 0)] if ended.get(name) is State.COMMITTED else [(0, 0)])
    ]
    return wrong, settlement.residue(), host_of(settlement).driver.kernel.attempts


# ---- every verb


def opened(settlement, desk, name, *, mails=False):
    tx = settlement.transaction(name, wait=WAIT).__enter__()
    tx.call(desk.book, name=name)
    if mails:
        tx.call(desk.mail, name=name)
    return tx


def verbs(settlement, desk):
    """What each public verb that goes to the store does, by its name; all that it needs is there already."""

    def after(name, act, **options):
        tx = opened(settlement, desk, name, **options)
        return lambda: act(tx)

    with settlement.transaction("parked") as parked:
        parked.call(desk.mail, name="parked")
        parked.park("keep")
    with settlement.transaction("told") as told:
        told.call(desk.book, name="told")
    key = next(e.row.key for r in settlement.transactions() for e in r.effects if r.row.name == "told")
    with settlement.transaction("re/1") as re:
        re.call(desk.book, name="re/1")

    def enter(name):
        with settlement.transaction(name) as tx:
            tx.call(desk.book, name=name)

    def turn(tx):
        with tx.turn() as calls:
            calls.call(desk.book, name="Transaction.turn/more")

    def hold():
        with settlement.hold("room:/Ada", name="held"):
            pass

    def speculate():
        settlement.speculate([lambda tx: tx.call(desk.book, name="s")], lambda _found: 0, name="s")

    def steered(run):
        with run.step("1") as tx:
            tx.call(desk.book, name="steered")

    def declare():
        settlement.declare("later", "read", scope="later:/x")
        settlement.declare("later", "staged", scope="later:/x")

    return {
        "Settlement.transaction": lambda: enter("Settlement.transaction"),
        "Settlement.run": lambda: settlement.run("run", lambda tx: tx.call(desk.book, name="run"), wait=WAIT),
        "Settlement.speculate": speculate,
        "Settlement.parked": settlement.parked,
        "Settlement.answer": lambda: settlement.answer("parked", approve=True),
        "Settlement.hold": hold,
        "Settlement.advance": lambda: settlement.advance("floor:/x", 1),
        "Settlement.cancel": lambda: settlement.cancel("nobody"),
        "Settlement.declare": declare,
        "Settlement.revoke": lambda: settlement.revoke("nothing"),
        "Settlement.enforce": lambda: settlement.enforce(None),
        "Settlement.reinstate": lambda: settlement.reinstate("nothing"),
        "Settlement.residue": settlement.residue,
        "Settlement.transactions": settlement.transactions,
        "Settlement.show": settlement.show,
        "Settlement.recover": settlement.recover,
        "Settlement.prune": lambda: settlement.prune(30),
        "Settlement.budgets": settlement.budgets,
        "Settlement.charge": lambda: settlement.charge("usd", 1, run="spent"),
        "Settlement.obligations": settlement.obligations,
        "Settlement.lease": lambda: settlement.lease("checkout:/repo", for_=60),
        "Settlement.leases": settlement.leases,
        "Settlement.end_lease": lambda: settlement.end_lease("later:/a", by="ada", because="odd"),
        "Settlement.entity": lambda: list(settlement.entity("room:/Ada")),
        "Settlement.waive": lambda: settlement.waive("17", by="ada"),
        "Settlement.halt": lambda: settlement.halt("later:/**", by="ada", because="odd"),
        "Settlement.resume": lambda: settlement.resume(1, by="ada"),
        "Settlement.halts": settlement.halts,
        "Settlement.steer": lambda: settlement.steer("spent", "add", "a seat", by="ada"),
        "Settlement.steering": settlement.steering,
        "Settlement.pause": lambda: settlement.pause("paused", by="ada", because="no"),
        "Settlement.paused": settlement.paused,
        "Settlement.go_on": lambda: settlement.go_on("paused", by="ada"),
        "Settlement.hand_over": lambda: settlement.hand_over("paused", to="bob", by="ada"),
        "Settlement.discard": lambda: settlement.discard("paused", by="ada"),
        "Settlement.steered": lambda: settlement.steered("steered", steered, wait=WAIT),
        "Settlement.in_doubt": settlement.in_doubt,
        "Settlement.stuck": settlement.stuck,
        "Settlement.undo_again": lambda: settlement.undo_again("nothing", by="ada"),
        "Settlement.settle_by_hand": lambda: settlement.settle_by_hand("nothing", by="ada"),
        "Host.resolving": lambda: run_sync(host_of(settlement).resolving(key, "confirmed", "ada")),
        "Settlement.approvals": settlement.approvals,
        "Settlement.approve": lambda: settlement.approve(key, by="ada"),
        "Settlement.reject": lambda: settlement.reject(key, because="no", by="ada"),
        "Settlement.redeem": lambda: settlement.redeem("no-such-token", "approve"),
        "Settlement.primer": lambda: settlement.primer("spent"),
        "Settlement.claims": lambda: settlement.claims("I have booked it."),
        "Settlement.why": lambda: settlement.why(key),
        "Settlement.verdicts": settlement.verdicts,
        "Settlement.audit": lambda: settlement.audit("spent"),
        "Settlement.confirm": lambda: settlement.confirm(key, "told"),
        "Settlement.resolve": lambda: settlement.resolve(key, "confirmed", by="ada"),
        "Settlement.rewind": lambda: settlement.rewind("re/1", by="ada", dry_run=False),
        "Transaction.call": after("Transaction.call", lambda tx: tx.call(desk.book, name="Transaction.call/more")),
        "Transaction.read": after("Transaction.read", lambda tx: tx.read("price:/Ada", lambda: 1)),
        "Transaction.charge": after("Transaction.charge", lambda tx: tx.charge("usd", 1)),
        "Transaction.owe": after(
            "Transaction.owe", lambda tx: tx.owe("a call", to="customer:/7", by=timedelta(days=1))
        ),
        "Transaction.turn": after("Transaction.turn", turn),
        "Transaction.commit": after("Transaction.commit", lambda tx: tx.commit(), mails=True),
        "Transaction.abort": after("Transaction.abort", lambda tx: tx.abort("no"), mails=True),
    }


LOCAL = {
    # what only looks at, or changes, what this process knows
    *(f"Settlement.{name}" for name in [
        "protocol", "frontier", "declared", "waiting", "on_due",
    ]),
    *(f"Transaction.{name}" for name in [
        "name", "joined", "run", "attempt", "epoch", "state", "staged", "park", "decide",
    ]),
    # what these do for an event loop is the same program
    *(f"Settlement.{name}" for name in [
        "aanswer", "aapprove", "acancel", "acharge", "aclose", "aconfirm", "alease", "arecover", "areject", "aresolve",
        "arewind", "aredeem", "awaive", "ahalt", "aresume", "aprimer", "aundo_again", "asettle_by_hand", "aclaims",
        "aend_lease", "asteer", "apause", "ago_on", "ahand_over", "adiscard",
    ]),
    "Settlement.close",  # below
}  # fmt: skip # a table


def public(kind):
    return {
        f"{kind.__name__}.{name}"
        for name, found in inspect.getmembers(kind)
        if not name.startswith("_") and (callable(found) or isinstance(found, property))
    }


def test_the_table_has_every_verb(store, open_settlement):
    known = set(verbs(open_settlement(store.url), Desk())) | LOCAL
    told = public(Settlement) | public(Transaction)
    assert {name for name in told - known if not is_of_no_store(name)} == set()
    assert public(AsyncTransaction) == {name.replace("Transaction", "AsyncTransaction") for name in public(Transaction)}


def is_of_no_store(name):
    """Whether a verb takes its answer from the caller alone; a new one is none until somebody has said so here."""
    return name == "Settlement.url"


def test_every_verb_returns_or_raises_in_time_and_all_is_accounted_for_when_the_store_is_back(store, open_settlement):
    settlement, desk, ended = open_settlement(store.url, wait=WAIT, lease=600, budgets=[Budget("usd", 99)]), Desk(), {}

    def go(name, verb):
        try:
            verb()
            ended[name] = None
        except BaseException as error:
            ended[name] = error

    table = verbs(settlement, desk)
    threads = [threading.Thread(target=go, args=item, daemon=True) for item in table.items()]
    with store.hanging():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(GENEROUS)
        hanging = [name for name, thread in zip(table, threads, strict=True) if thread.is_alive()]
        assert hanging == []
        other = {name: error for name, error in ended.items() if not isinstance(error, SettlemarkError | None)}
        assert other == {}
        said = [str(error) for error in ended.values() if isinstance(error, LedgerError)]
        assert [text for text in said if "has not answered" in text]
    for name in ("Transaction.call", "Transaction.charge", "Transaction.owe", "Transaction.read", "Transaction.turn"):
        with suppress(SettlemarkError):
            settlement.cancel(name)
    with suppress(UsageError):  # it may have been answered
        settlement.answer("parked", approve=True)
    wrong, residue, attempts = accounted_for(settlement, desk)
    assert (wrong, residue, attempts) == ([], [], {})
    settlement.run("afterwards", lambda tx: tx.call(desk.book, name="afterwards"))
    assert desk.net()[0]["afterwards"] == 1


@pytest.mark.parametrize("moment", ["begin", "call", "read", "commit", "abort", "run", "body", "tool"])
async def test_a_cancelled_task_leaves_at_once_and_the_loop_goes_on(store, open_settlement, moment):
    settlement, desk = open_settlement(store.url, wait=FOREVER, lease=600), Desk()
    opening = settlement.transaction("trip")
    ticks = []

    async def tick():
        while True:
            ticks.append(time.monotonic())
            await asyncio.sleep(0.02)

    async def act(tx):
        if moment == "begin":
            await settlement.transaction("other", may_touch="room:/other").__aenter__()
        elif moment == "call":
            await tx.call(desk.book, name="trip/more")
        elif moment == "read":
            await tx.read("price:/Ada", lambda: 1)
        elif moment == "run":

            async def body(other):
                await other.call(desk.book, name="other")

            await settlement.run("other", body)
        elif moment == "body":  # cancelled where the store has no part in it, and the store is needed to leave
            async with held:
                await asyncio.Event().wait()
        elif moment == "tool":
            await tx.call(tarry)
        else:
            await getattr(tx, moment)()

    @effect("read", scope="clock:/x")
    async def tarry():
        await asyncio.Event().wait()

    class Held:
        async def __aenter__(self):
            pass

        async def __aexit__(self, *error):
            await opening.__aexit__(*error)

    held, tx = Held(), await opening.__aenter__()
    await tx.call(desk.book, name="trip")
    await tx.call(desk.mail, name="trip")
    with store.hanging():
        ticking = asyncio.create_task(tick())
        with pytest.raises(TimeoutError):  # whoever waits for the store all the same is never seen again
            async with asyncio.timeout(0.2):
                await act(tx)
        ticking.cancel()
        assert len(ticks) > 3
    with suppress(SettlemarkError):
        await tx.abort("over")
    assert await asyncio.to_thread(accounted_for, settlement, desk) == ([], [], {})


# ---- what was done is not lost


def test_what_an_act_did_while_the_store_hung_is_told_when_it_is_back(store, open_settlement):
    settlement, desk = open_settlement(store.url, wait=WAIT, lease=600), Desk()
    hang = store.hanging()

    @effect("reversible", scope="seat:/{name}", undo=lambda name: desk.log.append(("cancel", name)))
    def slow(name):
        desk.log.append(("book", name))
        hang.__enter__()
        return name

    tx = settlement.transaction("trip").__enter__()
    try:
        assert tx.call(slow, name="trip") == "trip"
        with pytest.raises(LedgerError, match="has not answered"):
            tx.commit()
    finally:
        hang.__exit__(None, None, None)
    assert accounted_for(settlement, desk) == ([], [], {})


@pytest.mark.parametrize("lasts", [False, True])
def test_a_commit_whose_answer_is_lost_is_found_out_and_never_told_as_not_taken(
    open_settlement, postgres_url, lasts, monkeypatch
):
    network = SilentNetwork(postgres_url)
    settlement, desk = open_settlement(network.url, wait=WAIT if lasts else PATIENCE, lease=600), Desk()
    tx = opened(settlement, desk, "trip", mails=True)
    host_of(settlement).ledger.now(lambda _protocol, _book: None)  # nothing else is to be taken
    commit = PostgresWire.commit

    def losing(wire):
        losing_once.undo()
        network.lose_answers()
        commit(wire)

    losing_once = pytest.MonkeyPatch()
    losing_once.setattr(PostgresWire, "commit", losing)
    if not lasts:
        threading.Timer(0.5, network.go_on).start()
        tx.commit()
    else:
        with monkeypatch.context() as limited, pytest.raises(LedgerError, match="is not known yet") as raised:
            limited.setattr(_limits, "LEAST_SECONDS", WAIT)
            tx.commit()
        assert raised.value.in_doubt
        network.go_on()
    wrong, residue, attempts = accounted_for(settlement, desk)
    assert (wrong, residue, attempts) == ([], [], {})
    (ended,) = settlement.transactions()
    seats, mails = desk.net()
    assert (seats["trip"], mails["trip"]) == ((1, 1) if ended.state is State.COMMITTED else (0, 0))
    network.close()


def test_a_leader_whose_time_is_over_strands_nobody_who_has_more(store, open_settlement):
    settlement, desk = open_settlement(store.url, wait=PATIENCE, lease=600), Desk()
    first, ended = threading.Event(), {}

    def go(name, wait):
        try:
            with settlement.transaction(name, wait=wait) as tx:
                tx.call(desk.book, name=name)
            ended[name] = None
        except LedgerError as error:
            ended[name] = error
        first.set()

    threads = [threading.Thread(target=go, args=(f"t{n}", WAIT if n % 2 == 0 else PATIENCE)) for n in range(6)]
    with store.hanging():
        for thread in threads:
            thread.start()
        assert first.wait(GENEROUS)
        for thread in threads[::2]:
            thread.join(GENEROUS)
            assert not thread.is_alive()
        assert set(ended) == {"t0", "t2", "t4"}
        assert all("nothing was run" in str(error) for error in ended.values())
    for thread in threads:
        thread.join(PATIENCE)
    assert {name for name, error in ended.items() if error is None} == {"t1", "t3", "t5"}
    assert accounted_for(settlement, desk) == ([], [], {})
    assert sorted(desk.log) == [("book", "t1"), ("book", "t3"), ("book", "t5")]


# ---- opening and closing


def test_opening_on_a_store_that_hangs_says_so_in_time(store, open_settlement):
    Settlement(store.url).close()
    with store.hanging():
        with pytest.raises(LedgerError):
            Settlement(store.url, wait=WAIT)
    settlement, desk = open_settlement(store.url), Desk()
    settlement.run("trip", lambda tx: tx.call(desk.book, name="trip"))
    assert desk.log == [("book", "trip")]


def test_closing_on_a_store_that_hangs_ends_and_the_next_process_finds_out_the_rest(store, caplog):
    Settlement(store.url).close()  # on a busy machine a store may take longer than `WAIT` to be made
    settlement, desk = Settlement(store.url, wait=WAIT, lease=0.5), Desk()
    tx = settlement.transaction("trip").__enter__()
    hang = store.hanging()

    @effect(
        "reversible",
        scope="seat:/{name}",
        undo=lambda name: desk.log.append(("cancel", name)),
        probe=lambda name: "yes" if ("book", name) in desk.log else None,
    )
    def slow(name):
        desk.log.append(("book", name))
        hang.__enter__()

    tx.call(slow, name="trip")
    closing = threading.Thread(target=settlement.close, daemon=True)
    closing.start()
    closing.join(GENEROUS)
    assert not closing.is_alive()
    assert "could not be recorded before the ledger was closed" in caplog.text
    hang.__exit__(None, None, None)
    with Settlement(store.url) as after:
        assert accounted_for(after, desk) == ([], [], {})
    assert desk.log == [("book", "trip"), ("cancel", "trip")]


# ---- threads


async def test_tools_in_threads_wait_for_no_thread_however_many_wait_in_theirs(open_settlement):
    settlement, log = open_settlement(wait=PATIENCE), []
    begun, waiting = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    @effect("reversible", scope="shared:/x", undo=lambda: log.append("undo"))
    def inner():
        log.append("inner")

    @effect("reversible", scope="own:/{number}", undo=lambda number: None)
    def outer(number):
        with settlement.transaction(f"sub-{number}", independent=True) as tx:
            if number == 39:
                loop.call_soon_threadsafe(waiting.set)
            tx.call(inner)

    async def holder():
        async with settlement.transaction("holder") as tx:
            await tx.call(inner)
            begun.set()
            await waiting.wait()
            await tx.call(inner)

    async def caller(number):
        async with settlement.transaction(f"caller-{number}") as tx:
            await tx.call(outer, number=number)

    holding = asyncio.create_task(holder())
    await begun.wait()
    await asyncio.gather(holding, *(caller(number) for number in range(40)))
    assert log == ["inner"] * 42
    assert await asyncio.to_thread(lambda: "free") == "free"
