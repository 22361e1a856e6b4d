"""Going back before transactions undoes what they did, newest first; what stays is told before anything happens."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import threading
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from tests.extent import examples

from settlemark import (
    DeclarationError,
    InDoubt,
    Outcome,
    Refused,
    Rewound,
    Settlement,
    Stale,
    UsageError,
    WaitTimeout,
    current_call,
    effect,
)
from settlemark.hosting import host_of
from settlemark.testing import KillPoints, VirtualClock, in_child

pytestmark = [pytest.mark.own_time, pytest.mark.every_store]

WHEN = "2026-01-01 12:00 UTC"


class Desk:
    """A booking desk with a log of its own; a cancellation that comes twice under one key is one."""

    def __init__(self):
        self.log = []
        self.cancelled = set()
        self.broken = []
        self.tools = self._tools()

    def act(self, *words):
        self.log.append(" ".join(words))

    def cancel(self, room, key):
        if self.broken:
            raise self.broken[0]
        if key not in self.cancelled:
            self.cancelled.add(key)
            self.act("cancel", room)

    def _tools(self):
        @effect("reversible", scope="room:/{room:path}", undo=self.cancel)
        def book(room):
            self.act("book", room)
            return f"R-{room}"

        @effect("reversible", scope="car:/{room}", undo=self.cancel, cost="a fee of 20")
        def rent(room):
            self.act("rent", room)

        @effect("irreversible", scope="mail:/{to}")
        def mail(to):
            self.act("mail", to)

        @effect("staged", scope="room:/{room}")
        def put(room):
            self.act("put", room)

        @effect("idempotent", scope="account:/{account}")
        def charge(account):
            self.act("charge", account)

        @effect("opaque")
        def shout(word):
            self.act("shout", word)

        @effect("read", scope="room:/{room}")
        def look(room):
            return sum(line.endswith(f" {room}") for line in self.log)

        return {tool.__name__: tool for tool in (book, rent, mail, put, charge, shout, look)}


@pytest.fixture
def desk():
    return Desk()


@pytest.fixture
def commit(settlement, desk):
    """Commit a transaction that makes these calls: `book a`, `mail b`."""

    def commit(name, *calls, of=settlement):
        with of.transaction(name) as tx:
            for call in calls:
                tool, argument = call.split()
                tx.call(desk.tools[tool], argument)

    return commit


@pytest.fixture
def rewind(settlement):
    """Go back, in fact."""
    return lambda *names, **options: settlement.rewind(names, by="ada", note="wrong week", dry_run=False, **options)


def named(affected):
    """Which effects these are."""
    return [f"{one.transaction}: {one.tool} {next(iter(one.arguments.values()))}" for one in affected]


def everything(settlement):
    """All that is on record."""
    return [
        (t.row.name, t.row.attempt, t.state, t.because, [(e.row.key, e.outcome, e.tag, e.note) for e in t.effects])
        for t in settlement.transactions()
    ]


def of(settlement, name):
    """The record of a transaction: state, reason, and of each effect what became of it, its tag and its note."""
    found = next(t for t in settlement.transactions() if t.row.name == name)
    return found.state.value, found.because, [(e.outcome.value, e.tag and e.tag.value, e.note) for e in found.effects]


# ---- what would happen


def test_a_dry_run_tells_what_would_be_undone_in_which_order_and_what_stays_and_changes_nothing(
    settlement, desk, commit
):
    commit("trip/1", "book a", "mail x")
    commit("trip/2", "look a", "charge y", "rent b", "book c")
    commit("other", "book z")
    before, log = everything(settlement), list(desk.log)

    plan = settlement.rewind(["trip/1", "trip/2"], by="ada")

    assert plan.transactions == ("trip/2", "trip/1")
    assert named(plan.undo) == ["trip/2: book c", "trip/2: rent b", "trip/1: book a"]
    assert [one.why for one in plan.undo] == ["", "a cost stays: a fee of 20", ""]
    assert named(plan.residue) == ["trip/2: charge y", "trip/1: mail x"]
    assert [one.why for one in plan.residue] == [
        "idempotent effects of charge have no undo",
        "irreversible effects of mail have no undo",
    ]
    assert (plan.conflicts, plan.unfinished, plan.done) == ((), (), False)
    assert (everything(settlement), desk.log) == (before, log)
    with settlement.transaction("trip/1") as tx:
        assert tx.call(desk.tools["book"], "a") == "R-a"
    assert desk.log == log


def test_the_plan_is_told_in_sentences_as_a_table_and_as_json(settlement, commit):
    commit("trip/1", "book a", "mail x")
    commit("trip/2", "book b")
    commit("other", "book b")

    plan = settlement.rewind(["trip/1", "trip/2"], by="ada", note="wrong week")

    assert str(plan) == (
        "Going back over 2 transactions; nothing has happened yet.\n"
        "To be undone, in this order:\n"
        "  1. trip/1: book on room:/a\n"
        "Stays, since it cannot be undone:\n"
        "  1. trip/1: mail on mail:/x: irreversible effects of mail have no undo\n"
        "Stays, since others have built upon it:\n"
        "  1. trip/2: book on room:/b: other has written room:/b since, and undoing it would overwrite that"
    )
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(plan)
    assert "To be undone, in this order" in console.export_text()
    told = json.loads(json.dumps(plan.to_json()))
    assert (told["by"], told["note"], told["done"]) == ("ada", "wrong week", False)
    assert [one["key"] for one in told["undo"]] == ["trip/1#1/0"]
    assert [one["arguments"] for one in told["conflicts"]] == [{"room": "b"}]
    assert str(settlement.rewind((), by="ada")) == (
        "Going back over 0 transactions; nothing has happened yet.\nNo effect is there to undo."
    )


# ---- what happens


def test_effects_are_undone_newest_first_across_transactions_and_the_record_says_who_and_why(
    settlement, desk, commit, rewind
):
    commit("trip/1", "book a", "book b")
    commit("trip/2", "book c")
    commit("trip/3", "book d")

    found = rewind("trip/2", "trip/1")

    assert desk.log[4:] == ["cancel c", "cancel b", "cancel a"]
    assert named(found.undo) == ["trip/2: book c", "trip/1: book b", "trip/1: book a"]
    assert {one.outcome for one in found.undo} == {Outcome.UNDONE}
    assert (found.residue, found.conflicts, found.done) == ((), (), True)
    undone = ("undone", "clean", f"undone on request (ada, {WHEN}: wrong week)")
    assert of(settlement, "trip/1") == ("committed", f"rewound: ada, {WHEN}: wrong week", [undone, undone])
    assert of(settlement, "trip/2") == ("committed", f"rewound: ada, {WHEN}: wrong week", [undone])
    assert of(settlement, "trip/3") == ("committed", None, [("confirmed", None, None)])
    assert (settlement.residue(), settlement.in_doubt(), host_of(settlement).protocol.live) == ([], [], {})
    assert "trip/1 committed, and was undone afterwards, because its work was rewound" in settlement.show()


def test_what_was_undone_is_neither_replayed_nor_run_again_under_its_name(settlement, desk, commit, rewind):
    commit("trip/1", "book a")
    rewind("trip/1")
    before, log = everything(settlement), list(desk.log)

    with pytest.raises(Rewound, match=r"trip/1 was undone on request \(ada, .*: wrong week\)") as refused:
        commit("trip/1", "book a")

    assert isinstance(refused.value, Refused)
    assert refused.value.transaction == "trip/1"
    assert (everything(settlement), desk.log) == (before, log)
    commit("trip/1 again", "book a")
    assert desk.log == ["book a", "cancel a", "book a"]


def test_what_cannot_be_undone_is_residue_afterwards(settlement, desk, commit, rewind):
    commit("trip", "look a", "book a", "charge y", "shout z", "rent b", "mail x")

    found = rewind("trip")

    assert desk.log[5:] == ["cancel b", "cancel a"]
    assert sorted(named(found.residue)) == sorted(["trip: mail x", "trip: shout z", "trip: charge y", "trip: rent b"])
    left = {one.tool: (one.tag.value, one.note) for one in settlement.residue()}
    assert left == {
        "charge": ("unresolved", stays("idempotent effects of charge have no undo")),
        "shout": ("unresolved", stays("opaque effects of shout have no undo")),
        "mail": ("leaked", stays("irreversible effects of mail have no undo")),
        "rent": ("unresolved", f"undone, but a cost stays: a fee of 20 (ada, {WHEN}: wrong week)"),
    }


def stays(why):
    return f"it stays, although it was to be undone on request: {why} (ada, {WHEN}: wrong week)"


def test_an_eager_effect_that_was_held_behind_a_gate_is_undone_before_the_gate_is_looked_at(
    settlement, desk, commit, rewind
):
    commit("trip", "book a", "put b", "book b")
    assert desk.log == ["book a", "put b", "book b"]

    found = rewind("trip")

    assert desk.log[3:] == ["cancel b", "cancel a"]
    assert named(found.residue) == ["trip: put b"]


def test_going_back_twice_is_as_good_as_once(settlement, desk, commit, rewind):
    commit("trip/1", "book a", "mail x")
    rewind("trip/1")
    before, log = everything(settlement), list(desk.log)

    found = settlement.rewind("trip/1", by="bob", dry_run=False)

    assert (found.undo, named(found.residue)) == ((), ["trip/1: mail x"])
    assert (everything(settlement), desk.log) == (before, log)


def test_who_has_read_the_scope_before_it_was_undone_is_stale_after_it(settlement, desk, commit, rewind):
    commit("trip", "book a")
    with pytest.raises(Stale), settlement.transaction("reader") as reader:
        assert reader.call(desk.tools["look"], "a") == 1
        rewind("trip")
        reader.call(desk.tools["book"], "b")
    assert desk.log == ["book a", "cancel a"]


async def test_in_an_event_loop_it_is_awaited(settlement, desk):
    async with settlement.transaction("trip") as tx:
        await tx.call(desk.tools["book"], "a")
    plan = await settlement.arewind("trip", by="ada")
    assert (named(plan.undo), desk.log) == (["trip: book a"], ["book a"])
    assert (await settlement.arewind("trip", by="ada", dry_run=False)).done
    assert desk.log == ["book a", "cancel a"]


# ---- what others have built


def test_what_others_have_built_upon_stays_unless_it_is_named(settlement, desk, commit, rewind):
    commit("trip/1", "book hotel/a", "book b")
    commit("trip/2", "book hotel")
    commit("other", "book hotel/a/bed")

    found = rewind("trip/1", "trip/2")

    assert desk.log[4:] == ["cancel b"]
    assert named(found.conflicts) == ["trip/2: book hotel", "trip/1: book hotel/a"]
    assert {one.why for one in found.conflicts} == {
        "other has written room:/hotel since, and undoing it would overwrite that",
        "other has written room:/hotel/a since, and undoing it would overwrite that",
    }
    assert [(one.key, one.tag.value) for one in settlement.residue()] == [
        ("trip/1#1/0", "unresolved"),
        ("trip/2#1/0", "unresolved"),
    ]

    named_ones = settlement.rewind(
        ["trip/1", "trip/2"], by="ada", dry_run=False, overwrite=[one.key for one in found.conflicts]
    )

    assert desk.log[5:] == ["cancel hotel", "cancel hotel/a"]
    assert [one.outcome for one in named_ones.undo] == [Outcome.UNDONE, Outcome.UNDONE]
    assert settlement.residue() == []


def test_what_others_wrote_before_or_elsewhere_or_have_undone_is_in_nobodys_way(settlement, desk, commit, rewind):
    commit("before", "book a")
    commit("trip", "book a")
    commit("elsewhere", "book b")
    commit("undone", "book a")
    rewind("undone")
    with suppress(RuntimeError), settlement.transaction("failed") as tx:
        tx.call(desk.tools["book"], "a")
        raise RuntimeError

    found = rewind("trip")

    assert (named(found.undo), found.conflicts) == (["trip: book a"], ())
    assert desk.log[-1] == "cancel a"


@pytest.mark.parametrize(
    ("theirs", "commutes"),
    [("add a", True), ("multiply a", False), ("set a", False), ("add a/b", False)],
    ids=["its own group", "another group", "no group", "a part of its scope"],
)
def test_what_commutes_with_an_effect_is_not_built_upon_it(settlement, desk, rewind, theirs, commutes):
    def take(cell):
        desk.act("take", cell)

    def declared(tool, group):
        @effect("reversible", scope="cell:/{cell:path}", undo=take, commutes=group, name=tool)
        def change(cell):
            desk.act(tool, cell)

        return change

    groups = {"add": "add", "multiply": "multiply", "set": None}
    tools = {tool: declared(tool, group) for tool, group in groups.items()}
    with settlement.transaction("trip") as tx:
        tx.call(tools["add"], "a")
    tool, argument = theirs.split()
    with settlement.transaction("other") as tx:
        tx.call(tools[tool], argument)

    found = rewind("trip")

    of_trip = ["trip: add a"]
    assert (named(found.undo), named(found.conflicts)) == ((of_trip, []) if commutes else ([], of_trip))
    assert desk.log == ["add a", f"{tool} {argument}", *(["take a"] if commutes else [])]


def test_what_commutes_is_known_of_a_tool_that_this_process_does_not_know(shared_url, open_here, desk):
    @effect("reversible", scope="cell:/{cell}", undo=lambda cell: desk.act("take", cell), commutes="add")
    def add(cell):
        desk.act("add", cell)

    with open_here(shared_url) as first:
        first.declare("enlist", "staged", scope="cell:/{room}", commutes="add")
        for name, tool in [("trip", add), ("other", enlist)]:
            with first.transaction(name) as tx:
                tx.call(tool, "a")

    found = open_here(shared_url).rewind("trip", by="ada", dry_run=False)

    assert (named(found.undo), found.conflicts, desk.log) == (["trip: add a"], (), ["add a", "take a"])


def test_what_another_builds_between_the_look_and_the_claim_is_seen(settlement, desk, commit, someone_waits):
    commit("trip", "book a", "book b")
    found = []
    older = settlement.transaction("older")
    tx = older.__enter__()
    tx.call(desk.tools["book"], "a")
    waits = someone_waits(settlement)
    thread = threading.Thread(
        target=lambda: found.append(settlement.rewind("trip", by="ada", dry_run=False)), daemon=True
    )
    thread.start()
    assert waits.wait(20)
    assert "cancel b" not in desk.log
    older.__exit__(None, None, None)
    thread.join(20)

    assert desk.log == ["book a", "book b", "book a", "cancel b"]
    assert named(found[0].undo) == ["trip: book b"]
    assert named(found[0].conflicts) == ["trip: book a"]


def test_who_holds_a_scope_for_too_long_is_named_and_nothing_is_undone(url, open_here, desk, commit, monkeypatch):
    settlement = open_here(url)
    commit("trip", "book a", "book b", of=settlement)
    with settlement.transaction("slow") as slow:
        slow.call(desk.tools["book"], "a")
        before = everything(settlement)
        with monkeypatch.context() as patched:
            patched.setattr(host_of(settlement), "patience", 0.0)  # for this alone: the store may take its time
            with pytest.raises(WaitTimeout, match="waiting for slow, which holds room:/a"):
                settlement.rewind("trip", by="ada", dry_run=False)
        assert (everything(settlement), desk.log) == (before, ["book a", "book b", "book a"])
        assert [txn.name for txn in host_of(settlement).protocol.live.values()] == ["slow"]


# ---- what has not ended


def test_what_has_not_ended_is_aborted_first_and_its_name_is_refused_too(settlement, desk, commit, rewind):
    commit("trip/1", "book a")
    with settlement.transaction("trip/2") as tx:
        tx.call(desk.tools["book"], "b")
        tx.call(desk.tools["mail"], "x")
        tx.park()
    plan = settlement.rewind(["trip/1", "trip/2"], by="ada")
    assert (named(plan.undo), plan.unfinished) == (["trip/2: book b", "trip/1: book a"], ("trip/2",))
    assert desk.log == ["book a", "book b"]

    found = rewind("trip/1", "trip/2")

    assert desk.log == ["book a", "book b", "cancel b", "cancel a"]
    assert (named(found.undo), found.unfinished) == (["trip/2: book b", "trip/1: book a"], ("trip/2",))
    assert of(settlement, "trip/2")[0] == "aborted"
    assert settlement.parked() == []
    with pytest.raises(Rewound):
        commit("trip/2", "book b")
    assert (desk.log[4:], settlement.residue()) == ([], [])


def test_the_record_of_what_had_not_ended_says_who_went_back_and_why(settlement, desk, rewind):
    with settlement.transaction("trip") as tx:
        tx.call(desk.tools["book"], "a")
        tx.park()
    rewind("trip")
    (trip,) = settlement.transactions()
    assert (trip.state.value, trip.cause) == ("aborted", f"ada, {WHEN}: wrong week")


def test_what_was_split_off_goes_with_it(settlement, desk, rewind):
    with settlement.transaction("trip") as tx:
        tx.call(desk.tools["book"], "a")
        tx.call(desk.tools["mail"], "x")
        tx.call(desk.tools["mail"], "y")
        tx.park("split")
    first, _ = [waiting.transaction for waiting in settlement.parked()]
    settlement.answer(first, approve=True)

    found = rewind("trip")

    assert desk.log == ["book a", "mail x", "cancel a"]
    assert named(found.residue) == [f"{first}: mail x"]
    assert settlement.parked() == []


def test_what_another_process_has_put_aside_is_aborted_too(shared_url, open_here, desk):
    with open_here(shared_url) as other:
        with other.transaction("trip/1") as tx:
            tx.call(desk.tools["book"], "a")
        with other.transaction("trip/2") as tx:
            tx.call(desk.tools["book"], "b")
            tx.park()
    settlement = open_here(shared_url)

    found = settlement.rewind(["trip/1", "trip/2"], by="ada", dry_run=False)

    assert desk.log == ["book a", "book b", "cancel b", "cancel a"]
    assert (found.unfinished, settlement.parked(), settlement.residue()) == (("trip/2",), [], [])


def test_two_who_go_back_at_once_undo_it_once(settlement, desk, commit):
    commit("trip/1", "book a", "book b")
    commit("trip/2", "book c", "mail x")
    start, found = threading.Barrier(2), []

    def go():
        start.wait(20)
        found.append(settlement.rewind(["trip/1", "trip/2"], by="ada", dry_run=False))

    threads = [threading.Thread(target=go, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert desk.log == ["book a", "book b", "book c", "mail x", "cancel c", "cancel b", "cancel a"]
    assert [one.done for one in found] == [True, True]
    assert [(one.tool, one.tag.value) for one in settlement.residue()] == [("mail", "leaked")]
    assert host_of(settlement).protocol.live == {}


def test_what_has_recorded_nothing_is_aborted_and_its_name_refused(settlement, desk, rewind, commit):
    with settlement.transaction("trip") as tx:
        tx.call(desk.tools["look"], "a")
        tx.park()
    rewind("trip")
    assert host_of(settlement).protocol.live == {}
    with pytest.raises(Rewound):
        commit("trip", "book a")
    assert desk.log == []


def test_a_call_that_does_not_return_is_waited_for_and_nothing_that_had_committed_is_undone(
    url, open_here, desk, commit, monkeypatch
):
    settlement = open_here(url)
    commit("trip/1", "book a", of=settlement)
    inside, go_on, ended = threading.Event(), threading.Event(), []

    @effect("reversible", scope="room:/{room}", undo=desk.cancel)
    def dawdle(room):
        inside.set()
        go_on.wait(20)
        desk.act("book", room)

    def work():
        try:
            with settlement.transaction("trip/2") as tx:
                tx.call(dawdle, "b")
        except Rewound as refused:
            ended.append(refused)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert inside.wait(20)
    with monkeypatch.context() as patched:
        patched.setattr(host_of(settlement), "patience", 0.0)  # for this alone: the store may take its time
        with pytest.raises(WaitTimeout, match="a call of it has not returned") as told:
            settlement.rewind(["trip/1", "trip/2"], by="ada", dry_run=False)
    assert (told.value.holder, told.value.scope, told.value.transaction) == ("trip/2", None, "trip/2")
    assert (told.value.epoch, told.value.waited) == (host_of(settlement).protocol.named["trip/2"].epoch, 0.0)
    assert desk.log == ["book a"]
    go_on.set()
    thread.join(20)
    assert desk.log == ["book a", "book b", "cancel b"]
    assert len(ended) == 1

    settlement.rewind(["trip/1", "trip/2"], by="ada", dry_run=False)
    assert desk.log[3:] == ["cancel a"]


# ---- what goes wrong


def test_an_undo_that_fails_is_named_the_others_are_undone_and_an_operator_has_it_tried_again(
    settlement, desk, commit, rewind
):
    broken = [True]

    def cancel(room):
        if broken:
            raise ConnectionError("the desk is closed")
        desk.act("cancel", room)

    @effect("reversible", scope="suite:/{room}", undo=cancel)
    def suite(room):
        desk.act("suite", room)

    commit("trip/1", "book a")
    with settlement.transaction("trip/2") as tx:
        tx.call(suite, "s")

    found = rewind("trip/1", "trip/2")

    assert desk.log == ["book a", "suite s", "cancel a"]
    assert (named(found.undo), named(found.residue)) == (["trip/1: book a"], ["trip/2: suite s"])
    assert found.residue[0].why == (
        f"its undo failed 3 times: ConnectionError: the desk is closed (ada, {WHEN}: wrong week)"
    )
    assert [one.key for one in settlement.residue()] == ["trip/2#1/0"]
    broken.clear()
    assert settlement.resolve("trip/2#1/0", "confirmed", by="bob") is Outcome.UNDONE
    assert (desk.log[3:], settlement.residue()) == (["cancel s"], [])


@pytest.mark.parametrize("happened", [True, False])
def test_what_nobody_knew_is_asked_about_before_it_is_undone(settlement, desk, rewind, happened):
    answers = ["lost"]

    def asked(room):
        if answers:
            raise ConnectionError
        return f"R-{room}" if happened else None

    @effect("reversible", scope="suite:/{room}", undo=desk.cancel, probe=asked)
    def suite(room):
        desk.act("suite", room)
        raise TimeoutError

    with settlement.transaction("trip") as tx, pytest.raises(InDoubt):
        tx.call(suite, "s")
    plan = settlement.rewind("trip", by="ada")
    assert [one.why for one in plan.undo] == ["its counterparty is asked first whether it happened"]
    answers.clear()

    found = rewind("trip")

    assert desk.log == (["suite s", "cancel s"] if happened else ["suite s"])
    assert [one.outcome for one in found.undo] == [Outcome.UNDONE if happened else Outcome.FAILED]
    assert (settlement.residue(), settlement.in_doubt()) == ([], [])


def test_an_undo_that_this_process_does_not_know_is_told_and_refused_with_nothing_undone(open_here, desk, tmp_path):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with open_here(url) as first:
        first.declare("enlist", "reversible", scope="desk:/{room}", undo=desk.cancel)
        with first.transaction("trip") as tx:
            tx.call(desk.tools["book"], "a")
            tx.call(enlist, "h")
    second = open_here(url)
    plan = second.rewind("trip", by="ada")
    assert [(one.tool, one.why) for one in plan.residue] == [("enlist", "its undo is not known here: declare enlist")]
    before = everything(second)
    with pytest.raises(DeclarationError, match="the undo of enlist is not known in this process: nothing was undone"):
        second.rewind("trip", by="ada", dry_run=False)
    assert (everything(second), desk.log) == (before, ["book a"])


def enlist(room):
    """A tool of somebody else: what it does is declared where it is used."""
    return room


def test_names_nobody_knows_keys_of_others_and_nobody_as_who_goes_back_are_refused(settlement, desk, commit):
    commit("trip", "book a")
    commit("other", "book a")
    before, log = everything(settlement), list(desk.log)
    with pytest.raises(UsageError, match="no transaction 'tripp' is on record in the namespace 'default'"):
        settlement.rewind(["trip", "tripp"], by="ada", dry_run=False)
    with pytest.raises(UsageError, match="overwrite= names 'other#1/0', which is no effect of the rewound"):
        settlement.rewind("trip", by="ada", dry_run=False, overwrite=["other#1/0"])
    with pytest.raises(UsageError, match="by= is who rewinds, a text"):
        settlement.rewind("trip", by=" ", dry_run=False)
    with pytest.raises(UsageError, match="takes names of transactions"):
        settlement.rewind([""], by="ada")
    assert (everything(settlement), desk.log) == (before, log)


def test_a_ledger_finds_the_attempts_of_a_run_and_those_since_an_epoch(settlement, desk, commit):
    commit("trip/1", "book a")
    commit("other", "book b")
    commit("trip/2", "book c")
    every = settlement.transactions()
    read = host_of(settlement).ledger.read
    assert [t.row.name for t in read(lambda book: book.of_run("trip"))] == ["trip/1", "trip/2"]
    since = read(lambda book: book.since(every[1].epoch))
    assert [(t.row.name, len(t.effects)) for t in since] == [("other", 1), ("trip/2", 1)]


# ---- any history


CALLS = st.tuples(st.sampled_from(["book", "rent", "mail", "charge"]), st.sampled_from("ab"))
WORK = st.lists(st.tuples(st.booleans(), st.lists(CALLS, min_size=1, max_size=3)), min_size=1, max_size=5)


@settings(max_examples=examples(60))
@given(WORK)
def test_every_effect_is_undone_in_exact_reverse_or_named_and_no_other_is_touched(work):
    desk = Desk()
    with Settlement("memory:", **VirtualClock().options()) as settlement:
        names = []
        for number, (mine, calls) in enumerate(work):
            name = f"{'trip' if mine else 'other'}/{number}"
            names += [name] if mine else []
            with settlement.transaction(name) as tx:
                for tool, argument in calls:
                    tx.call(desk.tools[tool], argument)
        acted, theirs = list(desk.log), everything(settlement)

        plan = settlement.rewind(names, by="ada")
        found = settlement.rewind(names, by="ada", dry_run=False)

        assert [one.key for one in found.undo] == [one.key for one in plan.undo]
        assert desk.log == [*acted, *(f"cancel {one.arguments['room']}" for one in found.undo)]
        keys = [one.key for one in (*plan.undo, *plan.residue, *plan.conflicts)]
        assert sorted(keys) == sorted(
            effect[0] for name, _, _, _, effects in theirs if name in names for effect in effects
        )
        others = [entry for entry in theirs if entry[0] not in names]
        assert [entry for entry in everything(settlement) if entry[0].startswith("other")] == others
        left = {one.key for one in settlement.residue()}
        assert left == {one.key for one in (*found.residue, *found.conflicts)}
        built = {(n, scope) for n, (mine, calls) in enumerate(work) if not mine for scope in calls}
        for one in plan.undo:
            number, argument = int(one.transaction.split("/")[1]), one.arguments["room"]
            assert not any(n > number and call == (one.tool, argument) for n, call in built)


# ---- crashes


class Counter:
    """A desk in a file: its log outlives whoever acts there."""

    def __init__(self, path):
        self.path = path

    def tools(self, *, dies_at=None, acts_first=False):
        def log(line):
            with self.path.open("a") as file:
                file.write(f"{line}\n")

        def cancel(room, key):
            if dies_at == room and not acts_first:
                os.kill(os.getpid(), signal.SIGKILL)
            if f"cancel {room} {key}" not in self.log():
                log(f"cancel {room} {key}")
            if dies_at == room:
                os.kill(os.getpid(), signal.SIGKILL)

        @effect("reversible", scope="room:/{room}", undo=cancel, name="counter_book")
        def book(room):
            log(f"book {room} {current_call().key}")

        return book

    def log(self):
        return self.path.read_text().splitlines() if self.path.exists() else []


NAMES = ("trip/1", "trip/2", "trip/3")
BOOKED = [f"book {room} trip/{room}#1/0" for room in "123"]
CANCELLED = [f"cancel {room} trip/{room}#1/0" for room in "321"]


@pytest.fixture
def counter(tmp_path):
    return Counter(tmp_path / "desk.log")


@pytest.fixture
def booked(tmp_path, counter):
    """Three bookings, in a ledger that can be had anew."""
    kept = tmp_path / "kept.db"
    book = counter.tools()
    with Settlement(f"sqlite:///{kept}") as settlement:
        for number, name in enumerate(NAMES, 1):
            with settlement.transaction(name) as tx:
                tx.call(book, str(number))
    log = counter.path.read_text()

    def anew():
        for file in tmp_path.glob("ledger.db*"):
            file.unlink()
        shutil.copy(kept, tmp_path / "ledger.db")
        counter.path.write_text(log)
        return f"sqlite:///{tmp_path / 'ledger.db'}"

    return anew


def go_back(url):
    with Settlement(url) as settlement:
        settlement.rewind(NAMES, by="ada", dry_run=False)


@pytest.mark.parametrize("acts_first", [False, True], ids=["before it acts", "before that is on record"])
@pytest.mark.parametrize("room", ["3", "2", "1"])
def test_who_dies_between_two_undos_leaves_the_rest_to_recovery_and_nothing_is_undone_twice(
    booked, counter, room, acts_first
):
    url = booked()
    counter.tools(dies_at=room, acts_first=acts_first)
    assert in_child(lambda tell: go_back(url), timeout=20).signal == signal.SIGKILL
    undone = CANCELLED[: 3 - int(room) + acts_first]
    assert counter.log() == [*BOOKED, *undone]

    counter.tools()
    with Settlement(url) as settlement:
        settlement.recover()
        assert counter.log() == [*BOOKED, *CANCELLED]
        assert [of(settlement, name)[2][0][:2] for name in NAMES] == [("undone", "clean")] * 3
        assert settlement.residue() == []
        with pytest.raises(Rewound), settlement.transaction(NAMES[0]):
            pass


@pytest.mark.deep
def test_a_death_at_any_statement_leaves_all_of_it_or_nothing_and_going_back_again_finishes_it(booked, counter):
    counter.tools()
    url = booked()
    points = KillPoints(url=url).run(lambda: go_back(url)).told
    begun = next(number for number, _, statement in points if "settlemark_effect" in statement)
    seen = set()
    for number in range(begun, len(points) + 1, 9):
        booked()
        if not KillPoints(number, url=url).run(lambda: go_back(url)).killed:
            break  # how often its threads look at the store differs: it had fewer statements this time
        with Settlement(url) as settlement:
            settlement.recover(keep_open=0)
            undone = counter.log()[3:]
            seen.add(len(undone))
            assert undone in ([], CANCELLED)
            settlement.rewind(NAMES, by="ada", dry_run=False)
            assert settlement.residue() == []
        assert counter.log() == [*BOOKED, *CANCELLED]
    assert seen == {0, 3}
