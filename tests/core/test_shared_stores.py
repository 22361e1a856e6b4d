"""Workers that share a store decide as one would alone, and as the rules say when nothing is forgotten.

Random steps are taken by workers of whom each sees what the others did only with its next step, or when it
looks. After each, the whole history is taken anew by a naive model; every replica must be in the state of
the history as far as it has seen it, whatever came to it by the log, by an image, or by joining late.
"""

from __future__ import annotations

import json
import logging
from contextlib import ExitStack
from functools import partial

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.core.explorer.mutants import with_part
from tests.core.explorer.stores import SharedStore, SteppedLedger
from tests.core.naive import Naive
from tests.extent import ALL
from tests.rooms.protocol import FLOORS, Blocked, Board, Call, Mode, then
from tests.rooms.replica import EPOCHS, Replica, image

from settlemark import LateAppend, LedgerError, Scope, SettlemarkError, State, StateError
from settlemark.hosting import Protocol, Reason
from settlemark.ledger import MemoryLedger

SCOPES = [
    Scope.parse(text) for text in ("cell:/p", "cell:/p/x", "cell:/p/y", "cell:/z", "cell:/*/x", "cell:/*", "room:/q")
]
RUNS = ["r0", "r1", "r2"]
DISTURBANCES = [
    *(Reason.FAILED, Reason.STALE, Reason.WOUNDED),
    *("revert", "drop_retry", "cancel", "withdraw", "seal", "own", "ask"),
]
ROOM = Scope.parse("room:/Ada")
FIND = {"stateful_step_count": 30, "derandomize": True, "database": None}
SHORT = 12

workers = st.integers(0, 2)
picks = st.integers(0, 5)
scopes = st.sampled_from(SCOPES)


class Workers(RuleBasedStateMachine):
    """Some workers on one store; `store` makes their ledgers."""

    store = None
    floors = FLOORS
    last = ()  # the history of the last run: when Hypothesis has found a fault, the shortest that shows it

    @initialize()
    def meet(self):
        self.ledgers = list(type(self).store())
        self.history = []
        self.seen = []  # for each entry of the log: how much of the history there was with it
        self.known = {}
        self.note_entries()
        for run in RUNS[:2]:
            self.begin(0, run, [], retry=False)

    # ---- what is known

    @property
    def naive(self):
        return self.after(len(self.history))

    def after(self, length):
        """Return what follows from the first so many steps of the history, taken from the first on."""
        if length not in self.known:
            self.known[length] = Naive(self.history[:length], self.floors)
        return self.known[length]

    def ledger(self, worker):
        return self.ledgers[worker % len(self.ledgers)]

    def live(self):
        return [t.serial for t in self.naive.live]

    def going_on(self):
        return [t.serial for t in self.naive.live if t.state is State.OPEN]

    def nobodys(self):
        return [t.serial for t in self.naive.live if not t.owner]

    def to_seal(self):
        return [t.serial for t in self.naive.live if t.state is State.OPEN and not (t.running or t.reading)]

    def to_decide(self):
        return [t.serial for t in self.naive.live if t.state in (State.SEALED, State.ABORTING)]

    def to_finish(self):
        return [t.serial for t in self.naive.live if t.state is State.RELEASING and not any(h.held for h in t.holds)]

    def undone(self):
        return [t.serial for t in self.naive.live if t.state is State.ABORTING and not (t.running or t.claims)]

    def calls(self):
        return [(t, number, call) for t in self.naive.live for number, call in t.calls.items()]

    def waiting(self):
        return [(t.serial, number) for t, number, call in self.calls() if call.wanting]

    def running(self):
        at_once = [(t, n, call) for t, n, call in self.calls() if call.mode is not Mode.HELD]
        return [(t.serial, number) for t, number, call in at_once if call.admitted and not call.returned]

    def to_release(self):
        held = [(t, n, call) for t, n, call in self.calls() if call.mode is Mode.HELD and t.state is State.RELEASING]
        return [(t.serial, number) for t, number, call in held if call.hold.held]

    def to_undo(self):
        aborting = [(t, n, call) for t, n, call in self.calls() if t.state is State.ABORTING and not t.running]
        return [(t.serial, number) for t, number, call in aborting if call.returned and call.hold.claims]

    def is_shared(self):
        return isinstance(self.ledgers[0], SteppedLedger)

    def note_entries(self):
        head = max(ledger.replica.applied for ledger in self.ledgers) if self.is_shared() else 0
        self.seen += [len(self.history)] * (head + 1 - len(self.seen))

    # ---- taking a step, by a worker and in the model

    def step(self, worker, move, *event):
        """Have a worker take a step, and compare its answer with what follows from the history."""
        ledger = self.ledger(worker)
        self.history.append(event)
        expected = self.naive.answer
        try:
            answer = ledger.now(lambda protocol, _book: move(protocol))
        except StateError:
            answer = ("state",)
        except LateAppend:
            answer = ("late",)
        except SettlemarkError:
            answer = ("refused",)
        self.note_entries()
        if isinstance(answer, Blocked):
            answer = ("waits for", answer.holder.id, answer.scope.text)
        assert answer == expected, event

    @rule(worker=workers, run=st.sampled_from(RUNS), declared=st.lists(scopes, max_size=1), retry=st.booleans())
    def begin(self, worker, run, declared, retry):
        owner, name = self.ledger(worker).worker, f"{run}/{len(self.history)}"

        def begin(protocol):
            return protocol.begin(name, run, declared=declared, retry=retry, queues=retry, owner=owner).id

        self.step(worker, begin, "begin", name, run, tuple(declared), retry, owner)

    # Each mode has a rule of its own, and all that disturbs has one together: most steps are to be ordinary ones.

    def ask(self, worker, pick, scope, mode):
        serial = chosen(pick, self.going_on())
        self.step(worker, lambda p: p.admit(Call(p.by_id[serial], scope, mode)), "ask", serial, scope, mode)

    @precondition(going_on)
    @rule(worker=workers, pick=picks, scope=scopes)
    def ask_to_read(self, worker, pick, scope):
        self.ask(worker, pick, scope, Mode.READ)

    @precondition(going_on)
    @rule(worker=workers, pick=picks, scope=scopes)
    def ask_to_write(self, worker, pick, scope):
        self.ask(worker, pick, scope, Mode.EAGER)

    @precondition(going_on)
    @rule(worker=workers, pick=picks, scope=scopes)
    def ask_to_write_for_good(self, worker, pick, scope):
        self.ask(worker, pick, scope, Mode.FINAL)

    @precondition(going_on)
    @rule(worker=workers, pick=picks, scope=scopes)
    def ask_to_hold_back(self, worker, pick, scope):
        self.ask(worker, pick, scope, Mode.HELD)

    @precondition(waiting)
    @rule(worker=workers, pick=picks)
    def ask_again(self, worker, pick):
        found = chosen(pick, self.waiting())
        self.step(worker, lambda p: p.admit(call_of(p, found)), "ask_again", *found)

    @precondition(running)
    @rule(worker=workers, pick=picks, happened=st.booleans())
    def return_from_a_call(self, worker, pick, happened):
        found = chosen(pick, self.running())
        self.step(worker, lambda p: p.acted(call_of(p, found), happened=happened), "returned", *found, happened)

    @precondition(to_seal)
    @rule(worker=workers, pick=picks)
    def seal(self, worker, pick):
        serial = chosen(pick, self.to_seal())
        self.step(worker, lambda p: p.seal(p.by_id[serial]), "seal", serial)

    @precondition(to_decide)
    @rule(worker=workers, pick=picks, releasing=st.booleans())
    def decide(self, worker, pick, releasing):
        serial = chosen(pick, self.to_decide())
        self.step(worker, lambda p: p.decide(p.by_id[serial], releasing=releasing), "decide", serial, releasing)

    @precondition(to_release)
    @rule(worker=workers, pick=picks)
    def release(self, worker, pick):
        found = chosen(pick, self.to_release())
        self.step(worker, lambda p: p.released(call_of(p, found)), "released", *found)

    @precondition(to_finish)
    @rule(worker=workers, pick=picks)
    def finish(self, worker, pick):
        serial = chosen(pick, self.to_finish())
        self.step(worker, lambda p: p.finish(p.by_id[serial]), "finish", serial)

    @precondition(to_seal)
    @rule(worker=workers, other=workers, pick=picks)
    def settle(self, worker, other, pick):
        """Take one to its end in one go: what comes after commits should not be rare."""
        serial = chosen(pick, self.to_seal())
        self.step(worker, lambda p: p.seal(p.by_id[serial]), "seal", serial)
        self.step(other, lambda p: p.decide(p.by_id[serial]), "decide", serial, False)
        for found in [found for found in self.to_release() if found[0] == serial]:
            self.step(worker, lambda p, found=found: p.released(call_of(p, found)), "released", *found)
        if serial in self.to_finish():
            self.step(other, lambda p: p.finish(p.by_id[serial]), "finish", serial)

    @precondition(live)
    @rule(worker=workers, other=workers, pick=picks, clean=st.booleans())
    def give_up(self, worker, other, pick, clean):
        """Take one back in one go, if it has not settled."""
        serial = chosen(pick, self.live())
        self.step(worker, lambda p: p.abort(p.by_id[serial], Reason.FAILED), "abort", serial, Reason.FAILED)
        for found in [found for found in self.running() if found[0] == serial]:
            returned = ("returned", *found, True)
            self.step(other, lambda p, found=found: p.acted(call_of(p, found), happened=True), *returned)
        for found in [found for found in self.to_undo() if found[0] == serial]:
            undone = ("undone", *found, clean)
            self.step(worker, lambda p, found=found: p.undone(call_of(p, found), clean=clean), *undone)
        if serial in self.undone():
            self.step(other, lambda p: p.finish_abort(p.by_id[serial]), "end_undo", serial)

    @precondition(to_undo)
    @rule(worker=workers, pick=picks, clean=st.booleans())
    def undo(self, worker, pick, clean):
        found = chosen(pick, self.to_undo())
        self.step(worker, lambda p: p.undone(call_of(p, found), clean=clean), "undone", *found, clean)

    @precondition(undone)
    @rule(worker=workers, pick=picks)
    def end_undo(self, worker, pick):
        serial = chosen(pick, self.undone())
        self.step(worker, lambda p: p.finish_abort(p.by_id[serial]), "end_undo", serial)

    @precondition(live)
    @rule(worker=workers, pick=picks, how=st.sampled_from(DISTURBANCES))
    def disturb(self, worker, pick, how):
        serial = chosen(pick, self.live())
        match how:
            case Reason():
                self.step(worker, lambda p: p.abort(p.by_id[serial], how), "abort", serial, how)
            case "revert":
                self.step(worker, lambda p: p.revert(p.by_id[serial], Reason.REFUSED), "revert", serial)
            case "drop_retry":
                self.step(worker, lambda p: p.drop_retry(p.by_id[serial]), "drop_retry", serial)
            case "cancel":
                self.step(worker, lambda p: silently(p.cancel(RUNS[0])), "cancel", RUNS[0])
            case "seal":
                self.step(worker, lambda p: p.seal(p.by_id[serial]), "seal", serial)
            case "own":
                heir = self.ledger(worker).worker
                self.step(worker, lambda p: p.own(p.by_id[serial], heir), "own", serial, heir)
            case "ask":
                call = (SCOPES[pick], Mode.READ)
                self.step(worker, lambda p: p.admit(Call(p.by_id[serial], *call)), "ask", serial, *call)
            case "withdraw":
                for found in self.waiting()[:1]:
                    self.step(worker, lambda p, found=found: p.withdraw(call_of(p, found)), "withdraw", *found)

    @precondition(live)
    @rule(worker=workers, victim=workers, pick=picks)
    def bury_and_own(self, worker, victim, pick):
        gone, heir = self.ledger(victim).worker, self.ledger(worker).worker
        if gone != heir:
            self.step(worker, lambda p: silently(p.bury(gone)), "bury", gone)
        for serial in self.nobodys()[:pick]:
            self.step(worker, lambda p, serial=serial: p.own(p.by_id[serial], heir), "own", serial, heir)

    # ---- what only workers on a shared store do

    @precondition(is_shared)
    @rule(worker=workers)
    def look(self, worker):
        self.ledger(worker).look()

    @precondition(lambda self: self.is_shared() and self.live())
    @rule(worker=workers, replaced=st.booleans())
    def write_an_image(self, worker, replaced):
        """Write one, as if so many entries had been written since; perhaps have another join, who begins with it."""
        old = self.ledger(worker)
        old._imaged = -(10**9)
        old.now(lambda _protocol, _book: None)
        self.note_entries()
        if not replaced:
            return
        if any(txn.owner == old.worker for txn in self.naive.live):
            self.history.append(("bury", old.worker))
        old.leave()
        self.note_entries()
        new = self.ledgers[worker % len(self.ledgers)] = old.newcomer()
        self.note_entries()
        old.hand_over()
        self.history.append(("skip_epochs", EPOCHS))
        new.join()
        self.note_entries()

    # ---- comparing

    @invariant()
    def every_replica_is_where_the_history_as_it_saw_it_leads(self):
        for ledger in self.ledgers:
            seen = self.seen[ledger.replica.applied] if self.is_shared() else len(self.history)
            assert_alike(ledger.protocol, self.after(seen))

    def teardown(self):
        type(self).last = self.history
        if self.is_shared():
            for ledger in self.ledgers:
                ledger.look()
            whole = [image(ledger.protocol) for ledger in (*self.ledgers, self.ledgers[0].newcomer())]
            assert all(state == whole[0] for state in whole)


def chosen(pick, found):
    return found[pick % len(found)]


def silently(_answer):
    return None


def call_of(protocol, found):
    serial, number = found
    return protocol.by_id[serial].calls[number]


def assert_alike(protocol, naive):
    """Compare all that a replica says of itself with what the model says."""
    assert {t.id: said_of(t) for t in protocol.live.values()} == {t.serial: said_by(t) for t in naive.live}
    assert protocol.fenced == naive.fenced
    assert plans_of(protocol) == {run: plan for run, plan in naive.plans.items() if plan}
    oldest = min((t.position for t in naive.live), default=naive.epoch + 1)
    reads = [seen for t in naive.live for seen in (*t.reads.values(), *t.plan.values())]
    needed = min(reads + [seen for plan in naive.plans.values() for seen in plan.values()], default=naive.sequence)
    exact = naive.room == FLOORS  # else a write may be forgotten that not everybody has seen: those were told
    for scope in SCOPES:
        assert protocol.frontier(scope) == naive.frontier(scope)
        # What every unfinished one is above, or has seen, may be forgotten: then it is final, or known, for all.
        floor, version = naive.floor(scope), naive.version(scope)
        raised = max(oldest - 1, naive.folded.get(scope.type, 0))
        assert protocol.floor(scope) == floor or floor < protocol.floor(scope) <= raised
        assert protocol.version(scope) == version or protocol.version(scope) < version <= (needed if exact else version)
    for txn in naive.live:
        ahead = protocol.ahead(protocol.by_id[txn.serial])
        assert (None if ahead is None else ahead.holder.id) == naive.ahead(txn)
        for planned in (False, True):
            changed = protocol.board.versions.changed(protocol.by_id[txn.serial], planned=planned)
            assert changed == naive.changed(txn, planned=planned)


def said_of_hold(hold):
    numbers = hold.claims, hold.held, hold.wants, hold.readings
    return (hold.scope, hold.declared, *numbers, hold.touched, hold.lined)


def said_of(txn):
    holds = [
        (h.scope, h.declared, h.claims, h.held, h.wants, h.readings, h.touched, h.lined) for h in txn.holds.values()
    ]
    calls = {n: (c.scope, c.mode, c.wanting, c.admitted, c.returned) for n, c in txn.calls.items()}
    return (
        txn.name,
        txn.run,
        txn.attempt,
        txn.position,
        txn.state,
        txn.reason,
        txn.owner,
        txn.retry,
        txn.wrote,
        txn.released,
        txn.running,
        txn.reading,
        txn.claims,
        holds,
        calls,
        as_read(txn.reads),
        as_read(txn.plan),
        txn.writes,
        txn.begins_again,
    )


def as_read(reads):
    """When each was read, whatever has become known of it."""
    return {scope: then(seen) for scope, seen in reads.items()}


def said_by(txn):
    holds = list(map(said_of_hold, txn.holds))
    calls = {n: (c.scope, c.mode, c.wanting, c.admitted, c.returned) for n, c in txn.calls.items()}
    return (
        txn.name,
        txn.run,
        txn.attempt,
        (txn.position, ""),
        txn.state,
        txn.reason,
        txn.owner,
        txn.retry,
        txn.wrote,
        txn.released,
        txn.running,
        txn.reading,
        txn.claims,
        holds,
        calls,
        txn.reads,
        txn.plan,
        txn.writes,
        txn.begins_again,
    )


def plans_of(protocol):
    found = {}
    for run, scope, seen in protocol.board.versions.planned():
        found.setdefault(run, {})[scope] = then(seen)
    return found


def machine_of(store, floors=FLOORS):
    return type("Workers", (Workers,), {"store": staticmethod(store), "floors": floors})


def run(machine, *, examples, **options):
    quickly = {"report_multiple_bugs": False, "phases": [Phase.reuse, Phase.generate, Phase.shrink], "deadline": None}
    told = {"stateful_step_count": 60, "suppress_health_check": list(HealthCheck), **quickly, **options}
    run_state_machine_as_test(machine, settings=settings(max_examples=examples, **told))


@pytest.fixture(autouse=True)
def silence(caplog):
    caplog.set_level(logging.CRITICAL + 1, "settlemark")  # who is buried says so, a thousand times


def test_one_process_alone_decides_as_the_naive_model_does():
    run(machine_of(lambda: [MemoryLedger()]), examples=150 if ALL else 50)


@pytest.fixture(params=[0, 1])
def floors(request, monkeypatch):
    """For how few commits a protocol remembers what only those need who stay behind."""
    monkeypatch.setitem(Protocol.__init__.__kwdefaults__, "floors", request.param)
    return request.param


def test_what_is_forgotten_early_changes_no_decision(floors):
    run(machine_of(lambda: [MemoryLedger()], floors), examples=300 if ALL else 40)


def test_what_is_forgotten_early_changes_no_decision_of_workers_on_one_store(tmp_path, floors):
    with SharedStore(f"sqlite:///{tmp_path}/store.db", workers=3) as store:
        run(machine_of(store, floors), examples=100 if ALL else 10)


def test_workers_on_one_sqlite_file_decide_as_the_naive_model_does(tmp_path):
    with SharedStore(f"sqlite:///{tmp_path}/store.db", workers=3) as store:
        run(machine_of(store), examples=100 if ALL else 30)


def test_workers_on_one_postgresql_decide_as_the_naive_model_does(postgres_url):
    with SharedStore(postgres_url, workers=2) as store:
        run(machine_of(store), examples=15)


# ---- where the log was cut: an image stands for what a replica has not seen


@pytest.fixture
def two(tmp_path):
    with SharedStore(f"sqlite:///{tmp_path}/store.db") as store:
        yield store()


def begun(ledger):
    """Begin a transaction and have it claim the room; return it and its call."""
    txn = ledger.now(lambda protocol, _book: protocol.begin("trip", owner=ledger.worker))
    call = Call(txn, ROOM, Mode.EAGER)
    ledger.now(lambda protocol, _book: protocol.admit(call))
    return txn, call


def cut(ledger):
    """Write an image, behind which the log is cut."""
    ledger._imaged = -(10**9)
    ledger.now(lambda _protocol, _book: None)


def test_who_has_not_seen_the_last_entry_before_an_image_begins_with_the_image(two):
    first, second = two
    txn, _ = begun(first)
    cut(first)
    rival = second.now(lambda protocol, _book: protocol.begin("rival", owner=second.worker))
    blocked = second.now(lambda protocol, _book: protocol.admit(Call(rival, ROOM, Mode.EAGER)))
    assert blocked.holder.id == txn.id
    first.look()
    assert image(first.protocol) == image(second.protocol)


def test_who_was_buried_behind_an_image_can_move_nothing_more(two):
    first, second = two
    txn, _ = begun(first)
    gone = first.worker
    second.now(lambda protocol, _book: protocol.bury(gone))
    second.now(lambda protocol, _book: protocol.own(protocol.named["trip"], second.worker))
    cut(second)
    second.now(lambda protocol, _book: protocol.skip_epochs(1))
    first.look()
    assert (txn.state, txn.reason) == (State.ABORTED, Reason.LEASE)
    assert first.protocol.named["trip"] is not txn
    assert image(first.protocol) == image(second.protocol)


def test_who_was_wounded_behind_an_image_is_told_to_conclude_it(two):
    first, second = two
    txn, call = begun(first)
    first.now(lambda protocol, _book: protocol.acted(call, happened=True))
    second.now(lambda protocol, _book: protocol.abort(protocol.named["trip"], Reason.WOUNDED))
    cut(second)
    second.now(lambda protocol, _book: protocol.skip_epochs(1))
    first.look()
    assert txn.state is State.ABORTING
    assert first.protocol.take_aborted() == [txn]


# ---- the harness finds what is wrong


class BlindToWildcards(Board):
    """Lets a wildcard overlap its own text alone."""

    def match(self, hold):
        return hold.match


class ForgetsWhatAnAbortLeft(Protocol):
    """Numbers no write for an effect that an abort could not take back."""

    def undone(self, call, *, clean):
        super().undone(call, clean=True)


class Late(Replica):
    late = None

    def _replay(self, number, text):
        late, self.late = self.late, (number, text)
        if late is not None:
            super()._replay(*late)
        self.applied = number


class KeepsUpLate(SteppedLedger):
    """Takes each of another's entries when it sees the next one."""

    def __init__(self, *given, **named):
        super().__init__(*given, **named)
        self.replica.__class__ = Late


class Unburied(Replica):
    def _replay(self, number, text):
        super()._replay(number, json.dumps([step for step in json.loads(text) if step["do"] != "bury"]))


class BuriesNobody(SteppedLedger):
    """Does not take from a worker what another thought dead."""

    def __init__(self, *given, **named):
        super().__init__(*given, **named)
        self.replica.__class__ = Unburied


MUTANTS = {
    "wildcards that overlap nothing": BlindToWildcards,
    "what an abort left is not numbered": ForgetsWhatAnAbortLeft,
    "a replica that keeps up late": KeepsUpLate,
    "a burial that is not replayed": BuriesNobody,
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_found_and_shrunk_to_a_few_steps(name, tmp_path):
    mutant = MUTANTS[name]
    with ExitStack() as stack:
        if issubclass(mutant, Protocol | Board):
            protocol = mutant if issubclass(mutant, Protocol) else partial(with_part, mutant)
            machine = machine_of(lambda: [MemoryLedger(protocol=protocol())])
        else:
            url = f"sqlite:///{tmp_path}/store.db"
            machine = machine_of(stack.enter_context(SharedStore(url, ledger=mutant)))
        with pytest.raises((AssertionError, KeyError, LedgerError)):  # the last: a replica stops at a log that is none
            run(machine, examples=500, **FIND)
    assert len(machine.last) <= SHORT, machine.last
