"""What an operator does from another process: answers who waits for a person, and deals with what was left."""

from __future__ import annotations

import json
import threading

import pytest
from tests.rooms.cli import show_command
from tests.rooms.model import Registry
from tests.rooms.model import declare as declared
from tests.rooms.runtime import Maintenance

from settlemark import Injected, Outcome, Rejected, Retries, UsageError, Vetoed, effect
from settlemark.hosting import host_of, run_sync


class Desk:
    """A world with a log of its own, and its tools."""

    def __init__(self):
        self.sent = []
        self.faulty = True

        @effect("irreversible", scope="mail:/{to}", approve=True)
        def send_mail(to, text="hello"):
            self.sent.append((to, text))

        @effect("reversible", scope="room:/{hotel}", undo=self.cancel)
        def reserve(hotel):
            return hotel

        self.send_mail, self.reserve = send_mail, reserve

    def cancel(self, hotel):
        if self.faulty:
            raise RuntimeError(f"{hotel} does not answer")


@pytest.fixture
def desk():
    return Desk()


@pytest.fixture(params=["sqlite", "postgres"])
def shared(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'trip.db'}"
    return request.getfixturevalue("postgres").create_database()


@pytest.fixture
def here(shared, open_settlement):
    return open_settlement(shared)


@pytest.fixture
def elsewhere(shared, open_settlement):
    """Another worker on the same ledger: to it the first is another process."""
    return open_settlement(shared)


def put_aside(settlement, desk, *to, name="trip"):
    with settlement.transaction(name) as tx:
        for each in to:
            tx.call(desk.send_mail, to=each)
    return {one.arguments["to"]: one.key for one in settlement.approvals()}


# ---- approvals


def test_what_was_put_aside_waits_and_an_approval_from_another_process_lets_it_leave_once(here, elsewhere, desk):
    keys = put_aside(here, desk, "ada")
    (asked,) = elsewhere.approvals()

    done = elsewhere.approve(asked, by="bo")
    again = elsewhere.approve(keys["ada"], by="bo")

    assert (asked.tool, asked.scope, asked.arguments, asked.parked) == (
        "send_mail",
        "mail:/ada",
        {"to": "ada", "text": "hello"},
        True,
    )
    assert (done.news, done.settled) == (True, True)
    assert (again.news, again.settled) == (False, True)
    assert desk.sent == [("ada", "hello")]
    assert here.approvals() == elsewhere.approvals() == []
    assert [t.state.value for t in here.transactions()] == ["committed"]


def test_of_several_calls_all_are_approved_before_anything_leaves_each_with_its_own_arguments(here, elsewhere, desk):
    keys = put_aside(here, desk, "ada", "bo", "cy")

    first = elsewhere.approve(keys["ada"], by="x")
    second = elsewhere.approve(keys["bo"], by="y", arguments={"to": "bo", "text": "bye"})
    before = list(desk.sent)
    third = elsewhere.approve(keys["cy"], by="z")

    assert [done.settled for done in (first, second, third)] == [False, False, True]
    assert keys["bo"] in first.waits
    assert before == []
    assert sorted(desk.sent) == [("ada", "hello"), ("bo", "bye"), ("cy", "hello")]


def test_an_answer_is_not_changed_by_another_and_nothing_leaves_for_it(here, elsewhere, desk):
    keys = put_aside(here, desk, "ada", "bo")
    elsewhere.approve(keys["ada"], by="x")

    with pytest.raises(UsageError, match="answered already by x: approve"):
        here.reject(keys["ada"], because="no", by="y")
    with pytest.raises(UsageError, match="answered already by x: approve"):
        here.approve(keys["ada"], by="y", arguments={"to": "eve"})

    assert desk.sent == []
    assert [one.answer for one in here.approvals()] == [{"decision": "approve"}, None]


def test_what_is_rejected_is_undone_says_why_and_stays_so(here, elsewhere, desk):
    keys = put_aside(here, desk, "ada", "bo")

    done = elsewhere.reject(keys["ada"], because="too expensive", by="x")
    again = here.reject(keys["ada"], because="too expensive", by="x")

    assert (done.settled, again.news) == (True, False)
    assert desk.sent == []
    (recorded,) = here.transactions()
    assert recorded.state.value == "aborted"
    assert "rejected by x: too expensive" in here.show()
    with pytest.raises(UsageError, match="answered already by x: reject"):
        here.approve(keys["ada"], by="y")


@pytest.mark.parametrize("which", ["trip", "no#1/0", "nobody"])
def test_an_answer_to_what_does_not_wait_is_refused_and_nothing_changes(open_settlement, desk, which):
    settlement = open_settlement()
    settlement.run("trip", lambda tx: tx.call(desk.reserve, hotel="Ada"))
    before = settlement.show()

    with pytest.raises(UsageError, match="nothing waits for a person under"):
        settlement.approve(which, by="x")
    with pytest.raises(UsageError, match="nothing waits for a person under"):
        settlement.reject(which, because="no", by="x")

    assert settlement.show() == before


def test_the_process_that_waits_goes_on_with_what_was_said_elsewhere_though_its_approver_never_answers(
    here, elsewhere, desk
):
    asks, never = threading.Event(), threading.Event()
    results = []

    def wait_for_ever(_gate):
        asks.set()
        never.wait(60)
        return False

    def work():
        results.append(here.run("trip", lambda tx: tx.call(desk.send_mail, to="ada"), approver=wait_for_ever))

    thread = threading.Thread(target=work)
    thread.start()
    assert asks.wait(60)
    asked = elsewhere.approvals()
    done = elsewhere.approve(asked[0], by="bo")
    again = elsewhere.approve(asked[0], by="bo")
    thread.join(30)
    never.set()

    assert (asked[0].parked, done.settled, again.news) == (False, False, False)
    assert len(results) == 1
    assert desk.sent == [("ada", "hello")]


def test_the_process_that_waits_is_told_no_from_elsewhere(here, elsewhere, desk):
    asks, never = threading.Event(), threading.Event()
    caught = []

    def wait_for_ever(_gate):
        asks.set()
        return never.wait(60)

    def work():
        with pytest.raises(Rejected) as error:
            here.run("trip", lambda tx: tx.call(desk.send_mail, to="ada"), approver=wait_for_ever)
        caught.append(error.value.because)

    thread = threading.Thread(target=work)
    thread.start()
    assert asks.wait(60)
    asked = elsewhere.approvals()
    elsewhere.reject(asked[0], because="not today", by="bo")
    thread.join(30)
    never.set()

    assert caught == ["not today"]
    assert desk.sent == []


async def test_a_task_that_waits_goes_on_with_what_was_said_elsewhere(tmp_path, open_settlement, desk):
    import asyncio

    url = f"sqlite:///{tmp_path / 'trip.db'}"
    here, elsewhere = open_settlement(url), open_settlement(url)

    asks = asyncio.Event()

    async def ask(_gate):
        asks.set()
        await asyncio.Event().wait()

    async def body(tx):
        return await tx.call(desk.send_mail, to="ada")

    task = asyncio.ensure_future(here.run("trip", body, approver=ask))
    await asyncio.wait_for(asks.wait(), 30)
    asked = elsewhere.approvals()
    await elsewhere.aapprove(asked[0], by="bo")
    await asyncio.wait_for(task, 30)

    assert desk.sent == [("ada", "hello")]


def test_what_a_process_without_its_tools_approves_settles_in_one_that_has_them(shared, open_settlement, desk, run):
    first = open_settlement(shared)
    put_aside(first, desk, "ada")
    first.close()
    known, declared._declared = declared._declared, Registry()
    done = run("approve", "trip", shared, "--by", "bo")
    declared._declared = known

    assert done.exit_code == 0
    assert "It is on record, and has not settled yet" in done.stdout
    assert desk.sent == []
    able = open_settlement(shared)
    able.recover()
    while able.transactions()[0].state.value != "committed":  # its own thread may be at it
        threading.Event().wait(0.02)
    assert desk.sent == [("ada", "hello")]


@pytest.fixture
def answered(shared, open_settlement, desk, run, monkeypatch):
    """Have a mail put aside and answered by a process without its tools; nobody takes it up by itself."""
    monkeypatch.setattr(Maintenance, "start", lambda _self: None)

    def answer(command, *options):
        first = open_settlement(shared)
        put_aside(first, desk, "ada")
        first.close()
        known, declared._declared = declared._declared, Registry()
        done = run(command, "trip", shared, "--by", "bo", *options)
        declared._declared = known
        return done.stdout

    return answer


def test_recovering_what_is_approved_tells_that_it_is_committed(answered, shared, open_settlement, desk):
    answered("approve")

    report = open_settlement(shared).recover()

    assert (report.committed, report.undone, report.kept, report.left) == (["trip"], [], [], [])
    assert desk.sent == [("ada", "hello")]


def test_recovering_what_is_rejected_tells_that_it_is_undone(answered, shared, open_settlement, desk):
    answered("reject", "--because", "too dear")

    report = open_settlement(shared).recover()

    assert (report.committed, report.undone, report.kept, report.left) == ([], ["trip"], [], [])
    assert desk.sent == []


def test_entering_the_name_again_settles_what_was_approved_meanwhile(answered, shared, open_settlement, desk):
    answered("approve")

    again = open_settlement(shared)
    with again.transaction("trip") as tx:
        mail = tx.call(desk.send_mail, to="ada")

    assert (desk.sent, mail.outcome, again.approvals()) == ([("ada", "hello")], Outcome.CONFIRMED, [])


def test_entering_the_name_again_tells_that_it_was_rejected_meanwhile(answered, shared, open_settlement, desk):
    answered("reject", "--because", "too dear")

    again = open_settlement(shared)
    with pytest.raises(Vetoed, match="too dear"), again.transaction("trip") as tx:
        tx.call(desk.send_mail, to="ada")

    assert (desk.sent, again.approvals(), again.transactions()[0].state) == ([], [], "aborted")


def test_what_is_answered_and_has_not_settled_says_who_answered_and_how_it_goes_on(answered, shared, run):
    said = answered("approve")

    assert said.splitlines()[1:] == [
        "It is on record, and has not settled yet: send_mail is not declared in this process.",
        (
            "Any process that has its tools, and its key if it is encrypted, settles it; settlemark recover"
            " --module YOURAPP.TOOLS does, too, if it is not."
        ),
    ]
    assert "put aside, until a process has its tools" in run("waiting", shared).stdout
    assert "is answered, by bo: send_mail on mail:/ada" in run("waiting", shared).stdout
    asked = run("approvals", shared).stdout
    assert "answered: approve, by bo; any process that has its tools settles it" in asked
    assert "To answer" not in asked


def test_what_is_put_aside_since_nobody_can_be_asked_says_so_and_how_to_answer(here, desk, caplog):
    put_aside(here, desk, "ada", "bo")

    (told,) = [record.getMessage() for record in caplog.records if "nobody is asked here" in record.getMessage()]
    assert told.startswith("send_mail needs a person's yes")
    assert "trip is put aside at its end" in told
    assert "settlemark approve" in told


def test_the_commands_tell_what_waits_and_take_the_answer(shared, open_settlement, desk, run, run_json):
    settlement = open_settlement(shared)
    keys = put_aside(settlement, desk, "ada", name="trip-1") | put_aside(settlement, desk, "bo", name="trip-2")

    (first, second) = run_json("approvals", shared)
    assert (first["key"], first["tool"], first["arguments"], first["answer"]) == (
        keys["ada"],
        "send_mail",
        {"to": "ada", "text": "hello"},
        None,
    )
    assert "trip-1: send_mail on mail:/ada waits for a person" in run("approvals", shared).stdout
    assert "mail:/ada" in run("approvals", shared, "--table").stdout
    assert f"settlemark approve {keys['ada']} --by NAME" in run("waiting", shared).stdout
    assert "recovery leaves it as it is" in run("waiting", shared).stdout
    assert [one["approvals"] for one in run_json("waiting", shared)] == [[keys["ada"]], [keys["bo"]]]
    assert "trip-1: send_mail on mail:/ada waits for a person" in run("show", shared).stdout
    told = {one["check"]: one for one in run_json("doctor", shared)}
    assert told["approvals"]["found"] == "2 wait for a person"
    assert "nobody's" not in told["unfinished"]["found"]
    assert run("doctor", shared).stdout.count(keys["ada"]) == 1

    (one, _two) = run_json("show", shared)
    assert (one["approvals"], one["waits"]) == ([keys["ada"]], [])
    assert one["state_since"] >= one["opened_at"] > 0

    yes = run_json("edit", keys["ada"], '{"to": "cy"}', shared, "--as", "bo")
    assert (yes["decision"], yes["changed"], yes["settled"]) == ("edit", True, True)
    assert run("reject", second["key"], shared, "--because", "no", "--by", "bo").exit_code == 0
    assert desk.sent == [("cy", "hello")]
    for wrong in (
        ["approve", "nobody", shared, "--by", "bo"],
        ["reject", keys["ada"], shared, "--because", "x", "--by", "bo"],
    ):
        assert run(*wrong).exit_code == 1
    for wrong in ("{", "[1]"):
        assert run("edit", keys["bo"], wrong, shared, "--by", "bo").exit_code == 2
    again = run("edit", keys["ada"], '{"to": "cy"}', shared, "--by", "bo")
    assert again.exit_code == 0
    assert "already" in again.stdout
    assert run("approvals", shared).stdout == "Nothing waits for a person.\n"
    assert desk.sent == [("cy", "hello")]


# ---- residue


def leave(settlement, desk, name):
    with pytest.raises(KeyError), settlement.transaction(name) as tx:
        tx.call(desk.reserve, hotel=name)
        raise KeyError(name)


def test_residue_that_is_dealt_with_leaves_the_list_and_stays_in_the_record(url, open_settlement, desk):
    settlement = open_settlement(url, retries=Retries(first=0, most=0))
    leave(settlement, desk, "trip-1")
    leave(settlement, desk, "trip-2")
    first, second = settlement.residue()

    outcome = settlement.resolve(first, "dealt_with", by="ada", note="called the hotel")

    assert outcome is Outcome.CONFIRMED
    assert settlement.residue() == [second]
    (dealt,) = settlement.residue(dealt=True)
    assert (dealt.key, dealt.tag, dealt.dealt_by) == (first.key, first.tag, "ada")
    assert "dealt with by ada" in settlement.show()
    assert "called the hotel" in settlement.show()
    assert run_sync(host_of(settlement).resolving(first.key, "dealt_with", "bo")) == (Outcome.CONFIRMED, False)
    assert run_sync(host_of(settlement).resolving(first.key, "absent", "bo")) == (Outcome.CONFIRMED, False)
    assert settlement.residue(dealt=True) == [dealt]


def test_an_undo_that_is_tried_again_on_an_operators_word_leaves_the_list_when_it_works(url, open_settlement, desk):
    settlement = open_settlement(url, retries=Retries(first=0, most=0))
    leave(settlement, desk, "trip")
    (left,) = settlement.residue()
    desk.faulty = False

    assert settlement.resolve(left, "confirmed", by="ada") is Outcome.UNDONE
    assert settlement.residue() == []
    assert run_sync(host_of(settlement).resolving(left.key, "confirmed", "bo")) == (Outcome.UNDONE, False)


def test_there_is_nothing_to_deal_with_in_what_is_settled_or_unfinished(url, open_settlement, desk):
    settlement = open_settlement(url)
    keys = []

    def book(tx):
        tx.call(desk.reserve, hotel="Ada")

    settlement.run("trip", book)
    keys += [e.row.key for t in settlement.transactions() for e in t.effects]
    before = settlement.show()
    with pytest.raises(UsageError, match="left nothing to deal with"):
        settlement.resolve(keys[0], "dealt_with", by="ada")
    assert settlement.show() == before


def test_resolving_twice_says_so_changes_nothing_and_exits_with_1(shared, open_settlement, desk, run, run_json):
    settlement = open_settlement(shared, retries=Retries(first=0, most=0))
    leave(settlement, desk, "trip")
    key = settlement.residue()[0].key
    before = run("residue", shared)
    assert (before.exit_code, key in before.stdout) == (1, True)

    assert run("resolve", key, "dealt-with", shared, "--by", "ada", "--note", "by phone").exit_code == 0
    record = run_json("show", shared)
    again = run("resolve", key, "absent", shared, "--by", "bo")

    assert again.exit_code == 1
    assert "was resolved already" in again.stderr
    assert run_json("show", shared) == record
    assert (run("residue", shared).exit_code, run("residue", shared).stdout) == (0, "Nothing is left to mend.\n")
    told = run("residue", shared, "--all")
    assert told.exit_code == 0
    assert "dealt with by ada" in told.stdout
    assert "by phone" in told.stdout
    (dealt,) = run_json("residue", shared, "--all")
    assert (dealt["key"], dealt["said_by"], dealt["tag"]) == (key, "ada", "unresolved")
    assert "Dealt with" in run("residue", shared, "--all", "--table").stdout


# ---- pages


def test_a_page_has_the_last_those_since_of_a_run_and_in_a_state(url, open_settlement, desk):
    clock = [1000.0]
    settlement = open_settlement(url, retries=Retries(first=0, most=0), injected=Injected(clock=lambda: clock[0]))
    for number in range(6):
        clock[0] += 10
        name = f"run-{number % 2}/{number}"
        if number == 3:
            leave(settlement, desk, name)
        else:
            settlement.run(name, lambda tx, n=number: tx.call(desk.reserve, hotel=str(n)))

    def names(**page):
        return [recorded.row.name for recorded in settlement.transactions(**page)]

    assert names(last=2) == ["run-0/4", "run-1/5"]
    assert names(since=1045.0) == ["run-0/4", "run-1/5"]
    assert names(run="run-1") == ["run-1/1", "run-1/3", "run-1/5"]
    assert names(run="run-1", last=1) == ["run-1/5"]
    assert names(state="aborted") == ["run-1/3"]
    assert names(state="open") == []
    assert len(names()) == 6
    assert [len(recorded.effects) for recorded in settlement.transactions(last=2)] == [1, 1]
    assert settlement.show(last=1).startswith("run-1/5")
    assert [one.transaction for one in settlement.residue(last=1)] == ["run-1/3"]
    assert settlement.residue(run="run-0") == []
    assert settlement.residue(since=1e12) == []
    for wrong in ({"last": 0}, {"last": True}, {"since": "x"}, {"state": "gone"}):
        with pytest.raises(UsageError):
            settlement.transactions(**wrong)


def test_a_terminal_is_shown_the_last_20_and_told_how_to_see_others(shared, open_settlement, desk, run, monkeypatch):
    settlement = open_settlement(shared)
    for number in range(23):
        settlement.run(f"trip-{number:02}", lambda tx, n=number: tx.call(desk.reserve, hotel=str(n)))

    assert run("show", shared).stdout.count("committed.") == 23
    monkeypatch.setattr(show_command, "on_terminal", lambda: True)
    told = run("show", shared).stdout
    assert told.count("committed.") == 20
    assert "trip-02 " not in told
    assert "These are the last 20" in told
    assert run("show", shared, "--last", "22").stdout.count("committed.") == 22
    assert run("show", shared, "--state", "aborted").stdout == "Nothing of that is on record.\n"
    assert len(json.loads(run("show", shared, "--json", "--since", "1h").stdout)) == 23
