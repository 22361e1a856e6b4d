"""The engine writes its own history: what committed, on what it was grounded, and in which order it left."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rooms.model import Guards
from tests.rooms.protocol import WRITES, Chronicle, Mode
from tests.rooms.replica import image, load

from settlemark import Scope, SettlemarkError, Settlement, Stale, UsageError, effect
from settlemark.history import HistoryError, HistoryFile, Level, analyze, read
from settlemark.hosting import Protocol, Reason, host_of


@pytest.fixture
def path(tmp_path):
    return tmp_path / "history.jsonl"


@pytest.fixture(params=["memory:", "sqlite"])
def url(request, tmp_path):
    return request.param if request.param == "memory:" else f"sqlite:///{tmp_path / 'trip.db'}"


@effect("reversible", scope="cell:/{cell}", undo=lambda: None)
async def put(cell): ...


@effect("irreversible", scope="cell:/{cell}")
async def announce(cell): ...


@effect("staged", scope="cell:/{cell}")
async def note(cell): ...


@effect("read", scope="cell:/{cell}")
async def get(cell): ...


def told(path):
    return [(r.name, r.read_time, r.write_time, r.read_values, r.write_values) for r in read(path)]


def test_a_record_says_what_was_read_and_written_by_its_versions(url, path):
    with Settlement(url, history=path) as settlement:
        with settlement.transaction("ada/1") as tx:
            tx.read("cell:/x")
            tx.call(sync(put), cell="x")
        with settlement.transaction("bob/1") as tx:
            tx.read("cell:/x")
            tx.read("cell:/y")
    assert told(path) == [
        ("ada/1", 0, 1, {"cell:/x": None}, {"cell:/x": "ada/1#1"}),
        ("bob/1", 1, 2, {"cell:/x": "ada/1#1", "cell:/y": None}, {}),
    ]
    assert [(record.agent, record.preds, record.direct) for record in read(path)] == [
        ("ada", [], True),
        ("bob", ["ada/1#1"], True),
    ]


def sync(function):
    """The tool in plain code: what it does is nothing."""
    from settlemark.hosting import bear, declaration_of

    def plain(cell):
        return None

    bear(plain, declaration_of(function))
    return plain


def test_what_was_undone_leaves_no_record(url, path):
    with Settlement(url, history=path) as settlement:
        with pytest.raises(RuntimeError), settlement.transaction("ada/1") as tx:
            tx.call(sync(put), cell="x")
            raise RuntimeError
        bob = settlement.transaction("bob/1")
        older = bob.__enter__()
        with pytest.raises(Stale), settlement.transaction("ada/2") as tx:
            tx.read("cell:/x")
            older.call(sync(put), cell="x")
            bob.__exit__(None, None, None)
            tx.call(sync(put), cell="y")
    assert told(path) == [("bob/1", 0, 1, {}, {"cell:/x": "bob/1#1"})]


def test_a_write_that_overlaps_what_was_read_counts_as_one_of_it(url, path):
    with Settlement(url, history=path) as settlement:
        with settlement.transaction("ada/1") as tx:
            tx.read("cell:/")
        with settlement.transaction("bob/1") as tx:
            tx.call(sync(put), cell="x")
    (_, began, _, seen, _), (_, _, wrote, _, written) = told(path)
    assert (began, seen, wrote, written) == (0, {"cell:/": None}, 2, {"cell:/x": "bob/1#1"})


def test_what_was_seen_already_when_it_was_read_is_not_stale(url, path):
    with Settlement(url, history=path) as settlement:
        with settlement.transaction("ada/1") as tx:
            tx.read("cell:/x")
            for n in (1, 2):
                with settlement.transaction(f"bob/{n}", independent=True) as other:
                    other.call(sync(put), cell="y")
            tx.read("cell:/y")
    assert [(r.name, r.read_time, sorted(r.read_values)) for r in read(path)][2:] == [
        ("ada/1", 0, ["cell:/x"]),
        ("ada/1", 2, ["cell:/y"]),
    ]
    assert analyze(read(path)).level is Level.L4


def test_effects_are_told_as_they_left_and_what_is_held_is_issued_to_the_commit(url, path):
    with Settlement(url, history=path) as settlement, settlement.transaction("ada/1") as tx:
        tx.call(sync(announce), cell="x")
        tx.call(sync(put), cell="y")
    (record,) = read(path)
    assert record.io == record.co == [("cell:/y", 1), ("cell:/x", 0)]
    assert record.externalized


def test_what_is_held_is_issued_in_the_order_in_which_it_leaves(url, path):
    with Settlement(url, history=path) as settlement, settlement.transaction("ada/1") as tx:
        tx.call(sync(announce), cell="x")
        tx.call(sync(note), cell="y")
    (record,) = read(path)
    assert record.io == record.co == [("cell:/y", 1), ("cell:/x", 0)]


def test_what_somebody_went_back_over_is_retracted_and_who_had_read_it_stands(url, path):
    with Settlement(url, history=path) as settlement:
        with settlement.transaction("ada/1") as tx:
            tx.read("cell:/a")
            with settlement.transaction("eve/1", independent=True) as other:
                other.call(sync(put), cell="b")
            tx.read("cell:/b")
            tx.call(sync(put), cell="x")
        with settlement.transaction("bob/1") as tx:
            tx.read("cell:/x")
            tx.call(sync(announce), cell="y")
        settlement.rewind("ada/1", by="eve", dry_run=False)
    assert [(r.name, r.aborted) for r in read(path)] == [
        ("eve/1", False),
        ("ada/1", True),
        ("ada/1", True),
        ("bob/1", False),
    ]
    found = analyze(read(path))
    assert (found["A3"].count, found["A3x"].count, found.level) == (1, 1, Level.L1)


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_agents_do_beside_each_other_no_anomaly_is_in_it(url, path, seed):
    chance = random.Random(seed)
    plans = [[(chance.choice([get, put, announce]), chance.choice("xyz")) for _ in range(3)] for _ in range(24)]

    async def work(settlement, number, plan):
        async def body(tx):
            for tool, cell in plan:
                await tx.call(tool, cell=cell)
                await asyncio.sleep(0)

        await settlement.run(f"agent{number % 6}/{number}", body)

    settlement = Settlement(url, history=path, wait=60)
    await asyncio.gather(*(work(settlement, n, plan) for n, plan in enumerate(plans)))
    await asyncio.to_thread(settlement.close)
    found = analyze(read(path))
    assert (found.level, found["A1"].count, found["effects"].count) == (Level.L4, 0, 0)
    assert {record.name for record in read(path)} == {f"agent{n % 6}/{n}" for n in range(24)}


def test_each_process_that_shares_a_store_can_write_all_of_it(tmp_path):
    url = f"sqlite:///{tmp_path / 'trip.db'}"
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    names = [f"{agent}/{n}" for n in range(3) for agent in ("ada", "bob")]
    with Settlement(url, history=one) as first, Settlement(url, history=two) as second:
        for name in names:
            with (first if name.startswith("ada") else second).transaction(name) as tx:
                tx.read("cell:/x")
                tx.call(sync(put), cell="x")
    assert [record.name for record in read(one)] == names
    assert list(read(two)) == list(read(one))


def test_a_later_process_goes_on_with_the_history_at_its_clock(url, path):
    for n in (1, 2, 3):
        with Settlement(url, history=path) as settlement, settlement.transaction(f"ada/{n}") as tx:
            tx.read("cell:/x")
            tx.call(sync(put), cell="x")
    assert told(path) == [
        ("ada/1", 0, 1, {"cell:/x": None}, {"cell:/x": "ada/1#1"}),
        ("ada/2", 1, 2, {"cell:/x": "ada/1#1"}, {"cell:/x": "ada/2#1"}),
        ("ada/3", 2, 3, {"cell:/x": "ada/2#1"}, {"cell:/x": "ada/3#1"}),
    ]
    assert [record.preds for record in read(path)] == [[], ["ada/1#1"], ["ada/2#1"]]
    assert [verdict.anomaly for verdict in analyze(read(path)).verdicts if verdict.count] == []


def test_a_transaction_that_is_called_as_an_earlier_one_of_the_file_has_an_id_of_its_own(path):
    for n in range(3):
        with Settlement("memory:", history=path) as settlement:
            with settlement.transaction("ada/1") as tx:
                tx.call(sync(put), cell="x")
            with settlement.transaction("bob/1") as tx:
                tx.read("cell:/x")
            if n == 1:
                settlement.rewind("ada/1", by="eve", dry_run=False)
    ids = [(record.id, record.preds, record.aborted) for record in read(path)]
    assert ids == [
        ("ada/1#1", [], False),
        ("bob/1#1", ["ada/1#1"], False),
        ("ada/1#1+2", [], True),
        ("bob/1#1+2", ["ada/1#1+2"], False),
        ("ada/1#1+4", [], False),
        ("bob/1#1+4", ["ada/1#1+4"], False),
    ]
    assert analyze(read(path))["A3"].count == 1


def test_what_an_earlier_process_did_is_retracted_by_a_later_one(tmp_path, path):
    url = f"sqlite:///{tmp_path / 'trip.db'}"
    with Settlement(url, history=path) as settlement, settlement.transaction("ada/1") as tx:
        tx.call(sync(put), cell="x")
    with Settlement(url, history=path) as settlement:
        settlement.declare("put", "reversible", scope="cell:/{cell}", undo=lambda: None)
        settlement.rewind("ada/1", by="eve", dry_run=False)
    assert [(record.id, record.aborted) for record in read(path)] == [("ada/1#1", True)]


def test_a_second_settlement_on_one_file_is_refused_and_nothing_changed(tmp_path, path):
    url = f"sqlite:///{tmp_path / 'trip.db'}"
    with Settlement(url, history=path) as settlement:
        with settlement.transaction("ada/1"):
            pass
        before = path.read_bytes()
        with pytest.raises(UsageError, match="is being written by another process"):
            Settlement(url, history=path)
        assert path.read_bytes() == before
        with settlement.transaction("ada/2"):
            pass
    assert [record.name for record in read(path)] == ["ada/1", "ada/2"]


def test_a_file_that_is_no_history_is_refused_and_nothing_changed(path):
    path.write_text('{"name": "ada"}\n')
    with pytest.raises(HistoryError, match="line 1"):
        Settlement("memory:", history=path)
    assert path.read_text() == '{"name": "ada"}\n'


def test_a_name_that_no_file_takes_is_refused_and_its_history_goes_on(path):
    with Settlement("memory:", history=path, wait=60) as settlement:
        with pytest.raises(UsageError, match="half a character that no store can hold"):
            settlement.transaction("ada\ud800/1")
        with settlement.transaction("bob/1") as tx:
            tx.call(sync(announce), cell="x")
        assert [t.row.name for t in settlement.transactions()] == ["bob/1"]
    assert [record.name for record in read(path)] == ["bob/1"]


def test_a_record_that_no_file_takes_ends_the_history_and_nothing_else(path, caplog, monkeypatch):
    def full(*_args):
        raise OSError("no space left on device")

    with Settlement("memory:", history=path, wait=60) as settlement:
        monkeypatch.setattr(HistoryFile, "write", full)
        with caplog.at_level(logging.ERROR, "settlemark"):
            for name in ("ada/1", "bob/1"):
                with settlement.transaction(name) as tx:
                    tx.call(sync(announce), cell="x")
        assert [t.state.value for t in settlement.transactions()] == ["committed"] * 2
    assert [r.message.partition(": ")[0] for r in caplog.records] == [
        f"the history {path} ends here, since it cannot be written"
    ]
    assert list(read(path)) == []


class Told:
    """A chronicle, and what it has written."""

    def __init__(self):
        self.records = []
        self.chronicle = Chronicle(self.records.append)
        self.protocol = Protocol()

    def written(self):
        return [(record["name"], record.get("aborted", False)) for record in self.records]

    def held(self, name):
        """A sealed transaction with one held effect."""
        txn = self.protocol.begin(name)
        self.protocol.admit(self.protocol.request(txn, Scope.parse(f"cell:/{name}"), Mode.HELD))
        self.protocol.seal(txn)
        return txn


def test_who_listens_from_the_midst_of_a_release_on_tells_nothing_of_it_and_all_that_follows():
    told = Told()
    releasing = told.held("before")
    assert told.protocol.decide(releasing) is None
    told.protocol.chronicle = told.chronicle
    told.protocol.finish(releasing)
    following = told.held("after")
    told.protocol.decide(following)
    told.protocol.finish(following)
    assert told.written() == [("after", False)]


def test_what_the_store_has_lost_is_told_as_retracted_and_does_not_hold_up_what_follows():
    told = Told()
    told.protocol.chronicle = told.chronicle
    before = image(told.protocol)
    assert told.protocol.decide(told.held("lost")) is None
    load(told.protocol, before)
    following = told.held("after")
    told.protocol.decide(following)
    told.protocol.finish(following)
    assert told.written() == [("lost", True), ("after", False)]


def test_a_file_that_cannot_be_written_any_more_ends_the_history_and_nothing_else(url, path, caplog, monkeypatch):
    with Settlement(url, history=path) as settlement:
        with settlement.transaction("ada/1"):
            pass

        def full(record):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(host_of(settlement)._historian._file, "write", full)
        with caplog.at_level(logging.ERROR, "settlemark"):
            for name in ("ada/2", "ada/3"):
                with settlement.transaction(name) as tx:
                    tx.call(sync(put), cell="x")
    assert [t.state.value for t in Settlement(url).transactions()] in ([], ["committed"] * 2, ["committed"] * 3)
    assert [r.message for r in caplog.records] == [
        f"the history {path} ends here, since it cannot be written: OSError: [Errno 28] No space left on device"
    ]
    assert [record.name for record in read(path)] == ["ada/1"]


class Both:
    """Two chronicles that hear the same; an engine knows one."""

    def __init__(self, *chronicles):
        self.chronicles = chronicles

    def __getattr__(self, name):
        methods = [getattr(chronicle, name) for chronicle in self.chronicles]

        def tell(*args, **kwargs):
            for method in methods:
                method(*args, **kwargs)

        return tell


CELLS = ["cell:/a", "cell:/a/1", "cell:/b", "cell:/*", "cell:/*/1", "room:/a"]
AGENTS = 4


class Agents:
    """Some who are always at work, one transaction after the other."""

    def __init__(self, stage, guards):
        self.stage, self.guards = stage, guards
        self.txns = [stage.begin(f"agent {n}", guards=guards) for n in range(AGENTS)]
        self.calls = [[] for _ in self.txns]

    def touch(self, number, mode, cell):
        protocol = self.stage.protocol
        call = protocol.request(self.txns[number], Scope.parse(cell), mode)
        try:
            blocked = protocol.admit(call)
        except SettlemarkError:
            self.end(number)
            return
        if blocked is not None:
            protocol.withdraw(call)
            return
        protocol.acted(call, happened=True)
        if mode is Mode.EAGER:
            self.calls[number].append(call)

    def end(self, number, *, fails=False):
        """Commit, if that can be, or be undone."""
        protocol, txn = self.stage.protocol, self.txns[number]
        with contextlib.suppress(SettlemarkError):
            if not fails:
                protocol.seal(txn)
            if fails or protocol.decide(txn) is not None:
                protocol.abort(txn, Reason.FAILED)
        for other in protocol.take_aborted():
            for call in self.calls[self.txns.index(other)]:
                protocol.undone(call, clean=True)
            if not other.finished:
                protocol.finish_abort(other)
        for place, other in enumerate(self.txns):
            if other.finished:
                self.txns[place] = self.stage.begin(f"{other.name}'", guards=self.guards)
                self.calls[place] = []


@given(
    acts=st.lists(st.tuples(st.integers(0, AGENTS - 1), st.sampled_from("rwwef"), st.sampled_from(CELLS)), max_size=60),
    guards=st.builds(Guards, current=st.booleans(), reads=st.sampled_from(["settled", "early", "any"])),
)
def test_writes_that_are_forgotten_early_leave_every_record_as_it_was(make_stage, acts, guards):
    stage, short, whole = make_stage(), [], []
    stage.protocol.chronicle = Both(Chronicle(short.append, writes=0), Chronicle(whole.append, writes=10**6))
    agents = Agents(stage, guards)
    for number, kind, cell in acts:
        if kind in "ef":
            agents.end(number, fails=kind == "f")
        else:
            agents.touch(number, Mode.READ if kind == "r" else Mode.EAGER, cell)
    for number in (*range(AGENTS), *range(AGENTS)):
        agents.end(number)
    assert short == whole
    for chronicle in stage.protocol.chronicle.chronicles:
        assert chronicle._index.root.children == {}  # who has ended has nothing to be told


def test_a_history_beside_one_that_stays_open_keeps_of_the_writes_of_others_a_few(make_stage):
    stage, records = make_stage(), []
    chronicle = stage.protocol.chronicle = Chronicle(records.append)
    idle = stage.begin("idle")
    stage.read(idle, "room:/a")
    for number in range(20 * WRITES):
        txn = stage.begin(f"other {number}")
        stage.write(txn, "cell:/a")
        stage.commit(txn)
    assert len(chronicle._writes) <= 2 * WRITES
    assert (len(records), chronicle._open[idle.id].before) == (20 * WRITES, {})
