"""What a process left when it was killed, and what the next one makes of it, by itself and without being held up."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.core.crashes.programs import PATIENCE, Beside, Boom, Play, Program
from tests.core.crashes.sweep import Case, judged
from tests.core.crashes.tools import tools
from tests.core.workers.world import Desk
from tests.rooms.protocol import FINISHED
from tests.rooms.sql import SqliteWire

from settlemark import Injected, LedgerError, State, Tag, WaitTimeout, effect
from settlemark._lifecycle.recovery import HANDLER_GRACE
from settlemark.hosting import Reason, host_of, run_sync
from settlemark.testing import die, in_child

LETTERS = ("a", "b", "c", "d")


@pytest.fixture(params=["sqlite", "postgres"])
def case(request, tmp_path):
    """A store and a desk of their own."""
    postgres = request.param == "postgres"
    url = request.getfixturevalue("postgres_url") if postgres else f"sqlite:///{tmp_path / 'ledger.db'}"
    return Case(url, tmp_path / "desk.db")


@pytest.fixture
def file(tmp_path):
    """The same in a file, for what does not depend on the store."""
    return Case(f"sqlite:///{tmp_path / 'ledger.db'}", tmp_path / "desk.db")


class Fatal(Desk):
    """A desk that kills its caller when it has done so many things."""

    def __init__(self, path, most):
        super().__init__(path)
        self.left = most

    def ask(self, *asked, **options):
        found = super().ask(*asked, **options)
        self.left -= 1
        if not self.left:
            die()
        return found


def killed(case, play, *, after=None):
    """Play in a process that is killed: by the desk when it has done so many things, else by the play itself."""

    def child(_tell):
        settlement, desk = case.open()
        if after is not None:
            desk = Fatal(case.desk, after)
        play(settlement, tools(desk))

    ended = in_child(child, timeout=PATIENCE)
    assert ended.killed, ended.error or ended.stack


def letters(desk):
    return [(verb, cell) for verb, cell, *_ in desk.log() if "letter" in verb]


def ends(settlement):
    return {r.row.name: r.state for r in settlement.transactions()}


def until(done, patience=PATIENCE):
    """Return when something is so, which another thread makes so."""
    deadline, look = time.monotonic() + patience, threading.Event()
    while not done():
        assert time.monotonic() < deadline, "it never came about"
        look.wait(0.005)


def until_over(settlement):
    """Return when the record has the end of everything: what ended here is taken back while the store refuses that."""

    def is_over():
        with suppress(LedgerError):
            unfinished = [name for name, state in ends(settlement).items() if state not in FINISHED]
            return not (unfinished or host_of(settlement).protocol.live or host_of(settlement).driver.kernel.attempts)
        return False

    until(is_over)


# ---- with nobody asking


def waits_behind(settlement, known, **options):
    """Leave one open, and one sealed behind it."""
    waits = Play(Program("", ()), settlement, None).watch_waiting()
    older = settlement.transaction("older").__enter__()
    older.call(known["add"], cell="b")
    older.call(known["put"], cell="a")

    def younger():
        with settlement.transaction("younger", **options) as tx:
            tx.call(known["put"], cell="a")
            tx.call(known["wire"], cell="c")

    Beside(younger).start()
    assert waits.wait(PATIENCE)
    die()


def test_what_was_sealed_and_waiting_commits_by_itself_behind_what_is_undone_by_itself(case):
    killed(case, waits_behind)
    settlement, desk = case.open(keep_open=0)
    with settlement, closing(desk):
        until_over(settlement)
        assert ends(settlement) == {"older": State.ABORTED, "younger": State.COMMITTED}
        (younger,) = (one for one in settlement.transactions() if one.row.name == "younger")
        assert 0 < younger.sealed_at <= younger.decided_at
        assert [(verb, cell) for verb, cell, *_ in desk.log()] == [
            ("write", "b"),
            ("undo", "b"),
            ("write", "a"),
            ("letter", "c"),
        ]
        assert judged(settlement, desk) == []


@pytest.mark.parametrize("check", ["a hook", "a live read"])
def test_what_was_sealed_before_its_hooks_were_asked_commits_in_no_process_that_cannot_ask_them(case, still, check):
    def play(settlement, known):
        def judge(_footprint):
            raise AssertionError("not reached: its turn never came")

        waits_behind(settlement, known, before_commit=judge)

    def read(settlement, known):
        waits = Play(Program("", ()), settlement, None).watch_waiting()
        older = settlement.transaction("older").__enter__()
        older.call(known["put"], cell="a")
        younger = settlement.transaction("younger").__enter__()
        younger.read("price:/a", live=lambda: 1)
        younger.call(known["put"], cell="a")
        younger.call(known["wire"], cell="c")
        Beside(younger.commit).start()
        assert waits.wait(PATIENCE)
        die()

    killed(case, play if check == "a hook" else read)
    settlement, desk = case.open()
    with settlement, closing(desk):
        report = settlement.recover(keep_open=0)
        assert (sorted(report.undone), report.committed, report.waiting) == (["older", "younger"], [], [])
        assert (letters(desk), ends(settlement)["younger"]) == ([], State.ABORTED)
        assert (host_of(settlement).protocol.live, judged(settlement, desk)) == ({}, [])


def waits_behind_work_that_began_later(settlement, known):
    """Leave one sealed behind a hold, and work under that hold which began when it was there."""
    waits = Play(Program("", ()), settlement, None).watch_waiting()
    hold = settlement.hold("cell:/a", name="night").__enter__()
    younger = settlement.transaction("younger").__enter__()
    younger.call(known["put"], cell="a")
    work = hold.transaction("work").__enter__()
    work.call(known["add"], cell="b")
    Beside(younger.commit).start()
    assert waits.wait(PATIENCE)
    die()


def test_what_is_left_is_ended_in_its_order_so_that_nothing_waits_for_what_is_ended_behind_it(case, still):
    killed(case, waits_behind_work_that_began_later)
    settlement, desk = case.open()
    with settlement, closing(desk):
        report = settlement.recover(keep_open=0)
        assert (report.undone, report.committed, report.waiting) == (["work", "night"], ["younger"], [])
        assert [(verb, cell) for verb, cell, *_ in desk.log()] == [("write", "b"), ("undo", "b"), ("write", "a")]
        assert (host_of(settlement).protocol.live, judged(settlement, desk)) == ({}, [])


def test_what_was_sealed_waits_on_while_the_one_before_it_is_kept(file, still):
    killed(file, waits_behind)
    settlement, desk = file.open(keep_open=PATIENCE)
    with settlement, closing(desk):
        report = settlement.recover()
        assert (report.kept, report.waiting, report.committed, report.undone) == (["older"], ["younger"], [], [])
        with settlement.transaction("older") as older:
            assert older.call(tools(desk)["add"], cell="b") == 1
            older.call(tools(desk)["put"], cell="a")
        assert settlement.recover().committed == ["younger"]
        assert [(verb, cell) for verb, cell, *_ in desk.log()] == [
            ("write", "b"),
            ("write", "a"),
            ("write", "a"),
            ("letter", "c"),
        ]
        assert judged(settlement, desk) == []


# ---- effect j of k


def send_four(tool):
    def play(settlement, known):
        with settlement.transaction("trip") as tx:
            for to in LETTERS:
                tx.call(known[tool], cell=to)

    return play


@pytest.mark.parametrize("j", [1, 2, 3, 4])
def test_releases_go_on_behind_the_one_that_a_probe_finds_to_have_left(case, j, still):
    killed(case, send_four("wire"), after=j)
    settlement, desk = case.open()
    with settlement, closing(desk):
        assert letters(desk) == [("letter", to) for to in LETTERS[:j]]
        assert settlement.recover().committed == ["trip"]
        assert letters(desk) == [("letter", to) for to in LETTERS]
        assert judged(settlement, desk) == []
        assert settlement.residue() == []


@pytest.mark.parametrize("j", [1, 2, 3, 4])
def test_releases_go_on_with_the_one_in_question_under_its_key(file, j, still):
    killed(file, send_four("register"), after=j)
    settlement, desk = file.open()
    with settlement, closing(desk):
        assert settlement.recover().committed == ["trip"]
        again = ("repeated letter", LETTERS[j - 1])
        sent = [("letter", to) for to in LETTERS]
        assert letters(desk) == [*sent[:j], again, *sent[j:]]
        assert judged(settlement, desk) == []
        assert settlement.residue() == []


@pytest.mark.parametrize("j", [1, 2, 3, 4])
def test_releases_stop_at_one_that_nobody_can_ask_about_and_what_is_behind_it_is_named(file, j, still):
    killed(file, send_four("send"), after=j)
    settlement, desk = file.open()
    with settlement, closing(desk):
        report = settlement.recover()
        assert (report.committed, report.left) == (["trip"], ["trip"])
        assert letters(desk) == [("plain letter", to) for to in LETTERS[:j]]
        behind = [(f"trip#1/{n}", Tag.PARTIAL_COMMIT) for n in range(j, 4)]
        assert [(r.key, r.tag) for r in settlement.residue()] == [(f"trip#1/{j - 1}", Tag.UNRESOLVED), *behind]
        assert judged(settlement, desk) == []


@pytest.mark.parametrize(("order", "left"), [("turn", "bdac"), ("issued", "abcd")])
@pytest.mark.parametrize("j", [1, 2, 3])
def test_releases_go_on_in_the_order_in_which_they_began_what_cannot_be_undone_last_or_as_issued(
    case, order, left, j, still
):
    def play(settlement, known):
        with settlement.transaction("trip") as tx, tx.turn(order=order) as turn:
            for tool, cell in [("wire", "a"), ("put_probed", "b"), ("wire", "c"), ("put_probed", "d")]:
                turn.call(known[tool], cell=cell)

    killed(case, play, after=j)
    settlement, desk = case.open()
    with settlement, closing(desk):
        assert "".join(cell for _, cell, *_ in desk.log()) == left[:j]
        assert settlement.recover().committed == ["trip"]
        assert "".join(cell for verb, cell, *_ in desk.log() if verb in ("write", "letter")) == left
        assert (judged(settlement, desk), settlement.residue()) == ([], [])


@pytest.mark.parametrize("undone", [0, 1, 2, 3])
def test_undos_go_on_in_their_order_and_at_most_one_is_asked_for_twice(case, undone, still):
    def three(settlement, known):
        with settlement.transaction("trip") as tx:
            for cell in "abc":
                tx.call(known["add"], cell=cell)
            raise Boom

    killed(case, three, after=3 + undone)
    settlement, desk = case.open()
    with settlement, closing(desk):
        report = settlement.recover(keep_open=0)
        assert (report.undone, report.left, settlement.residue()) == (["trip"], [], [])
        done = [(verb, cell) for verb, cell, *_ in desk.log()]
        twice = [("repeated undo", "cba"[undone - 1])] if undone else []
        undos = [("undo", cell) for cell in "cba"]
        assert done == [("write", "a"), ("write", "b"), ("write", "c"), *undos[:undone], *twice, *undos[undone:]]
        assert judged(settlement, desk, deaths=1) == []


def book_and_fail(settlement, known):
    with settlement.transaction("trip") as tx:
        tx.call(known["add"], cell="a")
        tx.call(known["wire"], cell="b")
        raise Boom


def test_that_it_aborts_is_on_record_before_anything_of_it_is_undone(case, still):
    killed(case, book_and_fail, after=2)  # within its undo
    engine = sa.create_engine(case.url)
    with engine.connect() as looker:
        found = looker.execute(sa.text("SELECT state, reason, cause FROM settlemark_transaction WHERE name = 'trip'"))
        assert [tuple(row) for row in found] == [("aborting", "failed", "Boom")]
    engine.dispose()
    settlement, desk = case.open(keep_open=PATIENCE)
    with settlement, closing(desk):
        report = settlement.recover()
        assert (report.kept, report.undone) == ([], ["trip"])
        done = [(verb, cell) for verb, cell, *_ in desk.log()]
        assert done == [("write", "a"), ("undo", "a"), ("repeated undo", "a")]
        assert judged(settlement, desk) == []


@pytest.fixture
def power_cut(file, tmp_path, still, monkeypatch):
    """Return what is left of a play that a power cut ends within the desk's so manieth act: what was synced by then."""
    synced, ledger = tmp_path / "synced", Path(file.url.removeprefix("sqlite:///"))
    committed = SqliteWire.commit

    def commit(wire):
        committed(wire)
        if wire._synchronous:  # else it is lost with the power
            for part in ledger.parent.glob(f"{ledger.name}*"):
                shutil.copyfile(part, synced / part.name)

    def cut(play, *, within):
        synced.mkdir()
        with monkeypatch.context() as patched:
            patched.setattr(SqliteWire, "commit", commit)
            killed(file, play, after=within)
        (synced / f"{ledger.name}-shm").unlink(missing_ok=True)
        return Case(f"sqlite:///{synced / ledger.name}", file.desk)

    return cut


def test_after_a_power_cut_within_an_undo_nobody_goes_on_with_what_was_being_undone(power_cut):
    settlement, desk = power_cut(book_and_fail, within=2).open(keep_open=PATIENCE)
    with settlement, closing(desk):
        with settlement.transaction("trip") as tx:
            tx.call(tools(desk)["add"], cell="a")
            tx.call(tools(desk)["wire"], cell="b")
        assert (tx.attempt, tx.state, desk.cells()) == (2, State.COMMITTED, {"a": 1})
        assert [(verb, cell) for verb, cell, *_ in desk.log()] == [
            ("write", "a"),
            ("undo", "a"),
            ("repeated undo", "a"),
            ("write", "a"),
            ("letter", "b"),
        ]
        assert judged(settlement, desk) == []


@pytest.mark.parametrize(
    ("steps", "how", "within", "done"),
    [
        ("add a", "commits", 1, "write a, undo a"),
        ("add a, add_blind b", "commits", 2, "write a, write b, undo a"),
        ("add a, wire b", "commits", 2, "write a, letter b"),
        ("add a, wire b", "asks a hook", 2, "write a, letter b"),
        ("send a, send b, send c", "commits", 2, "plain letter a, plain letter b"),
        ("put a, send b", "commits", 1, "write a, repeated write a, plain letter b"),
        ("add a, add b, add c", "fails", 5, "write a, write b, write c, undo c, undo b, repeated undo b, undo a"),
    ],
)
def test_a_power_cut_takes_no_intent_no_decision_and_no_outcome_along_on_which_the_next_act_was_grounded(
    power_cut, steps, how, within, done
):
    def play(settlement, known):
        with settlement.transaction("trip", before_commit=[lambda _: True] if how == "asks a hook" else ()) as tx:
            for step in steps.split(", "):
                tool, cell = step.split()
                tx.call(known[tool], cell=cell)
            if how == "fails":
                raise Boom

    settlement, desk = power_cut(play, within=within).open()
    with settlement, closing(desk):
        settlement.recover(keep_open=0)
        assert ", ".join(f"{verb} {cell}" for verb, cell, *_ in desk.log()) == done
        assert (host_of(settlement).protocol.live, judged(settlement, desk)) == ({}, [])


def put_aside_for_a_person(settlement, known):
    with settlement.transaction("trip") as tx:
        tx.call(known["wire"], cell="a")
        tx.park("keep")
    die()


def test_after_a_power_cut_what_waits_for_a_person_still_does(power_cut):
    settlement, desk = power_cut(put_aside_for_a_person, within=9).open(keep_open=0)
    with settlement, closing(desk):
        report = settlement.recover()
        assert (report.kept, report.undone, [p.transaction for p in settlement.parked()]) == (["trip"], [], ["trip"])
        settlement.answer("trip", approve=True)
        assert letters(desk) == [("letter", "a")]
        assert judged(settlement, desk) == []


# ---- what was open


def leave_open(settlement, known):
    tx = settlement.transaction("trip").__enter__()
    tx.call(known["add"], cell="a")
    tx.call(known["wire"], cell="b")
    settlement.transactions()  # what was done so far is on record
    die()


class Seconds:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def test_what_was_open_is_kept_for_its_time_and_undone_when_nobody_came(file, still):
    killed(file, leave_open)
    clock = Seconds()
    settlement, desk = file.open(keep_open=60, injected=Injected(monotonic=clock))
    with settlement, closing(desk):
        assert settlement.recover().kept == ["trip"]
        clock.now += 59
        assert settlement.recover().kept == ["trip"]
        assert [(verb, cell) for verb, cell, *_ in desk.log()] == [("write", "a")]
        clock.now += 1
        report = settlement.recover()
        assert (report.kept, report.undone) == ([], ["trip"])
        assert [(verb, cell) for verb, cell, *_ in desk.log()] == [("write", "a"), ("undo", "a")]
        assert judged(settlement, desk) == []


def test_who_comes_back_in_that_time_goes_on_and_nothing_runs_twice(file, still):
    killed(file, leave_open)
    clock = Seconds()
    settlement, desk = file.open(keep_open=60, injected=Injected(monotonic=clock))
    with settlement, closing(desk):
        settlement.recover()
        with settlement.transaction("trip") as tx:
            assert tx.call(tools(desk)["add"], cell="a") == 1
            tx.call(tools(desk)["wire"], cell="b")
            clock.now += 3600  # it is somebody's again: its time is over, and that is nothing to it
            assert not settlement.recover()
        assert (tx.attempt, tx.state) == (1, State.COMMITTED)
        assert [(verb, cell) for verb, cell, *_ in desk.log()] == [("write", "a"), ("letter", "b")]
        assert judged(settlement, desk) == []


def test_what_its_framework_has_put_aside_is_kept_for_as_long_as_it_takes(file, still):
    def put_aside(settlement, known):
        tx = settlement.transaction("trip").__enter__()
        tx.call(known["add"], cell="a")
        run_sync(host_of(settlement).driver.undoing.suspend(tx._attempt))
        settlement.transactions()
        die()

    killed(file, put_aside)
    clock = Seconds()
    settlement, desk = file.open(keep_open=0, injected=Injected(monotonic=clock))
    with settlement, closing(desk):
        assert settlement.recover().kept == ["trip"]
        clock.now += 1e6
        assert settlement.recover(keep_open=0).kept == ["trip"]
        with settlement.transaction("trip") as tx:
            assert tx.call(tools(desk)["add"], cell="a") == 1
        assert (tx.attempt, tx.state) == (1, State.COMMITTED)
        assert [(verb, cell) for verb, cell, *_ in desk.log()] == [("write", "a")]


# ---- nothing holds up a start


@pytest.fixture
def hanging(monkeypatch):
    """Let the desk hang when it is asked about a transaction: return when it is asked, and when it may answer."""

    def hang(name):
        asked, answer, knows = threading.Event(), threading.Event(), Desk.knows

        def hangs(desk, verb, key):
            if key.startswith(f"{name}#"):
                asked.set()
                assert answer.wait(PATIENCE)
            return knows(desk, verb, key)

        monkeypatch.setattr(Desk, "knows", hangs)
        return asked, answer

    return hang


def test_a_start_waits_for_no_probe_and_other_resources_are_free(file, hanging):
    def leave(settlement, known):
        tx = settlement.transaction("trip").__enter__()
        tx.call(known["add"], cell="a")

    killed(file, leave, after=1)
    asked, answer = hanging("trip")
    settlement, desk = file.open(keep_open=0)
    known = tools(desk)
    with settlement, closing(desk):
        assert asked.wait(PATIENCE)
        with settlement.transaction("other") as other:
            other.call(known["put"], cell="b")
        with pytest.raises(WaitTimeout, match="waiting for trip, which holds cell:/a"):
            with settlement.transaction("same", wait=0) as same:
                same.call(known["charge"], cell="a")
        assert (other.state, host_of(settlement).protocol.named["trip"].state) == (State.COMMITTED, State.ABORTING)
        answer.set()
        until_over(settlement)
        assert ends(settlement)["trip"] is State.ABORTED
        assert [(verb, cell) for verb, cell, *_ in desk.log()] == [("write", "a"), ("write", "b"), ("undo", "a")]


def test_a_probe_that_hangs_holds_up_nobody_elses_recovery(file, hanging):
    def leave(settlement, known):
        first, second = (settlement.transaction(name).__enter__() for name in ("first", "second"))
        first.call(known["charge_refundable"], cell="a")
        second.call(known["add"], cell="b")

    killed(file, leave, after=2)
    asked, answer = hanging("first")
    settlement, desk = file.open(keep_open=0)
    with settlement, closing(desk):
        assert asked.wait(PATIENCE)
        try:
            until(lambda: ends(settlement)["second"] is State.ABORTED)
            assert host_of(settlement).protocol.named["first"].state is State.ABORTING
        finally:
            answer.set()
        until_over(settlement)


def test_what_nobody_can_tell_is_named_at_the_start_and_its_resource_is_free(case):
    def leave(settlement, known):
        tx = settlement.transaction("trip").__enter__()
        tx.call(known["hire"], cell="a")

    killed(case, leave, after=1)
    told, named = [], threading.Event()
    settlement, desk = case.open(keep_open=0, on_residue=lambda name: (told.append(name), named.set()))
    with settlement, closing(desk):
        assert named.wait(PATIENCE)
        assert [(r.key, r.tag) for r in settlement.residue()] == [("trip#1/0", Tag.UNRESOLVED)]
        with settlement.transaction("next") as tx:
            tx.call(tools(desk)["add"], cell="a")
        assert (told, desk.cells()) == (["trip"], {"a": 2})
        assert judged(settlement, desk) == []


# ---- handlers that are not there yet, or gone


def test_a_tool_that_is_not_declared_yet_is_told_of_after_a_grace_and_goes_on_when_it_is(file, still, caplog):
    def leave(settlement, known):
        desk = Fatal(file.desk, 2)

        @effect("irreversible", scope="letter:/{cell}", probe=lambda key: desk.knows("letter", key))
        def wire_of_an_older_program(cell):
            desk.ask("letter", cell)

        with settlement.transaction("trip") as tx:
            for to in "abc":
                tx.call(wire_of_an_older_program, cell=to)

    killed(file, leave)
    clock = Seconds()
    settlement, desk = file.open(injected=Injected(monotonic=clock))
    caplog.set_level(logging.ERROR, logger="settlemark")
    with settlement, closing(desk):
        stuck = {"trip": ["wire_of_an_older_program"]}
        assert settlement.recover().stuck == stuck
        run_sync(host_of(settlement).driver.maintain())
        clock.now += HANDLER_GRACE / 2
        run_sync(host_of(settlement).driver.maintain())
        assert caplog.messages == []  # not yet, perhaps
        clock.now += HANDLER_GRACE
        run_sync(host_of(settlement).driver.maintain())
        run_sync(host_of(settlement).driver.maintain())
        (told,) = caplog.messages
        assert told.startswith("trip was left unfinished by a process that ended, and wire_of_an_older_program is not")
        assert "import or declare it" in told
        assert "settlement.recover()" in told
        assert letters(desk) == [("letter", "a"), ("letter", "b")]
        assert (settlement.recover().stuck, ends(settlement)) == (stuck, {"trip": State.RELEASING})

        settlement.declare(
            "wire_of_an_older_program",
            "irreversible",
            scope="letter:/{cell}",
            function=lambda cell: desk.ask("letter", cell),
            probe=lambda key: desk.knows("letter", key),
        )
        report = settlement.recover()
        assert (report.committed, report.stuck) == (["trip"], {})
        assert letters(desk) == [("letter", "a"), ("letter", "b"), ("letter", "c")]
        assert settlement.residue() == []


def leave_what_nobody_could_undo(settlement, known):
    @effect("opaque", scope="cell:/{cell}")
    def hire_of_an_older_program(cell):
        return cell

    tx = settlement.transaction("trip").__enter__()
    tx.call(hire_of_an_older_program, cell="a")
    tx.call(known["wire"], cell="b")
    settlement.transactions()  # its outcome is on record
    die()


def test_a_tool_that_is_not_declared_any_more_and_could_undo_nothing_is_not_waited_for(case, still):
    killed(case, leave_what_nobody_could_undo)
    settlement, desk = case.open()
    with settlement, closing(desk):
        report = settlement.recover(keep_open=0)
        assert (report.undone, report.left, report.stuck) == (["trip"], ["trip"], {})
        assert (letters(desk), ends(settlement), host_of(settlement).protocol.live) == ([], {"trip": State.ABORTED}, {})
        assert [(r.key, r.tag) for r in settlement.residue()] == [("trip#1/0", Tag.UNRESOLVED)]


def test_the_first_look_of_a_process_records_the_end_of_what_one_had_aborted_that_closed_before_it_said_so(file, still):
    settlement, desk = file.open()
    with closing(desk):
        with settlement:
            tx = settlement.transaction("trip").__enter__()
            tx.call(tools(desk)["send"], cell="a")  # held: there is nothing to undo, and the abort is over at once
            txn = host_of(settlement).protocol.named["trip"]
            run_sync(host_of(settlement).driver.kernel.step(lambda protocol, _: protocol.abort(txn, Reason.ABANDONED)))
        with file.open()[0] as next_one:
            run_sync(host_of(next_one).driver.recovery.take_up())
            ended = ends(next_one)
    assert ended == {"trip": State.ABORTED}
