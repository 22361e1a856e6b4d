"""A worker that stands still behind any answer of its program, and is thought dead, acts and writes no more.

It is stopped where its program waits for something: behind each request that was carried out, before the program learns
of it. Its clock goes on meanwhile, as a real one does; another worker buries it, waits until it surely sends nothing,
and ends its work. All of that happens in one thread: nothing here depends on who is faster.
"""

from __future__ import annotations

import ast
import threading
from pathlib import Path

import pytest
from tests.rooms.ledger import _workers
from tests.rooms.runtime import sync

import settlemark
from settlemark import Injected, Retries, SettlemarkError, Settlement, current_call, effect
from settlemark.hosting import host_of
from settlemark.testing import VirtualClock

LEASE, QUARANTINE = 30.0, 90.0


class Failed(Exception):
    """The job's own failure: everything is undone."""


class Office:
    """A counterparty with a log of its own: who did what, and under which key; it may fail, or lose its answer."""

    def __init__(self):
        self.log = []
        self.who = "worker"
        self.faults = {}

    def act(self, verb, key, fault=None):
        fault = self.faults.get(verb, []).pop(0) if self.faults.get(verb) else None
        if fault == "before":
            raise Failed(verb)
        who = self.who if threading.current_thread() is threading.main_thread() else "other"
        self.log.append((who, verb, key))
        if fault == "after":
            raise TimeoutError

    def stays(self, verb, key):
        keys = [entry[1:] for entry in self.log]
        return keys.count((verb, key)) - keys.count((f"un{verb}", key))

    def tools(self):
        def probe(verb):
            return lambda key: "done" if self.stays(verb, key) else None

        @effect(
            "reversible",
            scope="room:/{room}",
            undo=lambda key: self.act("unbook", key),
            probe=probe("book"),
            name="book",
        )
        def book(room):
            self.act("book", current_call().key)
            return "done"

        @effect("irreversible", scope="mail:/{to}", probe=probe("mail"), name="mail")
        def mail(to):
            self.act("mail", current_call().key)
            return "done"

        return book, mail


def commits(settlement, book, mail, **options):
    with settlement.transaction("job", **options) as tx:
        tx.call(book, room="a")
        tx.call(mail, to="x")
        tx.call(book, room="b")
        tx.call(mail, to="y")


def asks(settlement, book, mail):
    commits(settlement, book, mail, on_failure="ask", ask=lambda _failure: "retry")


def looks(settlement, book, mail):
    with settlement.transaction("job") as tx:
        tx.read("price:/a", lambda: 7, live=lambda: "etag")
        tx.call(book, room="a")
        tx.call(mail, to="x")


def aborts(settlement, book, mail):
    with settlement.transaction("job") as tx:
        tx.call(book, room="a")
        tx.call(book, room="b")
        tx.call(mail, to="x")
        raise Failed


JOBS = {
    "a job that commits": (commits, {}, 12),
    "a job that is undone": (aborts, {}, 12),
    "a job whose calls are tried again": (commits, {"book": ["before", "after"], "mail": ["before", "after"]}, 22),
    "a job whose undo is tried again": (aborts, {"unbook": ["before", "before"]}, 16),
    "a job whose failures are asked about": (asks, {"book": ["before"], "mail": ["before"]}, 18),
    "a job that looks anew before it settles": (looks, {}, 13),
}


@pytest.fixture
def office():
    return Office()


@pytest.fixture
def play(shared_url, office, monkeypatch):
    """Have a worker do a job, and stand still behind its n-th request.

    Returns what its caller was told; who ended its work, and the record then; and the requests up to there.
    """
    clocks, opened = (VirtualClock(), VirtualClock()), []

    def settle(clock, host=None):
        with monkeypatch.context() as patched:
            if host is not None:
                patched.setattr(_workers, "_host", lambda: host)
            made = Settlement(
                shared_url,
                lease=LEASE,
                quarantine=QUARANTINE,
                keep_open=0,
                injected=Injected(monotonic=clock.monotonic),
                retries=Retries(first=0, most=0),
                on_failure="retry",
            )
        host_of(made)._maintenance.stop()
        host_of(made).driver.probing.on_doubt = None  # the test asks
        opened.append(made)
        return made

    def stands_still(worker):
        """Its clock goes on, and so does the other's, who looks often enough, and ends what it finds."""
        office.who = "other"
        with host_of(worker).ledger._member.commits.leading:  # no thread of it moves
            other = settle(clocks[1])
            for _ in range(int((LEASE + QUARANTINE) / (LEASE / 3)) + 6):
                clocks[1].advance(LEASE / 3)
                host_of(other).driver.resolution.asked.clear()
                other.recover(keep_open=0)
            clocks[0].advance(LEASE + QUARANTINE)
        office.who = "ghost"
        return other, record_of(other)

    def run(job, number):
        do, faults, _ = JOBS[job]
        office.faults = {verb: list(planned) for verb, planned in faults.items()}
        worker = settle(clocks[0], "elsewhere/1/2/3.4")
        member = host_of(worker).ledger._member
        monkeypatch.setattr(member.batches, "look", lambda: None)  # no thread of it learns anything while it stands
        monkeypatch.setattr(member, "is_due", lambda: False)
        asked, standing, others = [], [], []

        def carry_out(request):
            mine = not (others or standing) and threading.current_thread() is threading.main_thread()
            if not mine:
                return carried_out(request)
            asked.append(type(request).__name__)
            try:
                return carried_out(request)
            finally:
                if len(asked) == number:
                    standing.append(True)
                    others.append(stands_still(worker))

        carried_out = sync.carry_out
        monkeypatch.setattr(sync, "carry_out", carry_out)
        told = "done"
        try:
            do(worker, *office.tools())
        except (SettlemarkError, Failed) as error:
            told = type(error).__name__
        monkeypatch.setattr(sync, "carry_out", carried_out)
        return told, others, asked

    yield run
    for made in opened:
        made.close()


def untrue(office, other, asked):
    """Return how the record of who ended the work contradicts the log, or what is left.

    Whose undo was out when it stood still is thought to have crashed in it: that one is begun again.
    """
    wrong = [str(entry) for entry in office.log if entry[0] == "ghost"]
    by_worker = [entry for entry in office.log if entry[0] == "worker"]
    out = by_worker[-1] if by_worker and by_worker[-1][1] == "unbook" and asked[-1] == "Act" else None
    for recorded in other.transactions():
        for found in recorded.effects:
            stays = office.stays(found.row.tool, found.row.key) + (out is not None and out[2] == found.row.key)
            if stays != (found.outcome == "confirmed"):
                wrong.append(f"{found.row.key} is {found.outcome} ({found.tag}), and {stays} of it stays")
    wrong += [str(left) for left in (*other.residue(), *other.in_doubt())]
    wrong += [f"unfinished: {txn.name}" for txn in host_of(other).protocol.live.values()]
    mails = [key for _, verb, key in office.log if verb == "mail"]
    return wrong + ([f"sent twice: {mails}"] if len(mails) != len(set(mails)) else [])


def record_of(settlement):
    return [(r.row, r.state, r.because, r.effects) for r in settlement.transactions()]


POINTS = [(job, number) for job, (_, _, requests) in JOBS.items() for number in range(1, requests + 1)]


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("job", "number"), POINTS)
def test_a_worker_that_is_thought_dead_behind_any_answer_acts_no_more_and_another_ends_its_work_once(
    play, office, job, number
):
    told, ((other, before),), asked = play(job, number)
    begins_later = asked == ["Recorded"]  # it had only looked: nothing of it was there to be taken over
    assert begins_later or record_of(other) == before
    for _ in range(3):
        host_of(other).driver.resolution.asked.clear()
        other.recover(keep_open=0)
    wrong = untrue(office, other, asked)
    assert [each for each in wrong if not (begins_later and each.startswith("('ghost'"))] == []
    undisturbed = "Failed" if JOBS[job][0] is aborts else "done"  # it begins when it is known to live again
    assert told in ((undisturbed,) if begins_later else ("LeaseLost", "Failed", "done"))


@pytest.mark.parametrize("job", JOBS)
def test_a_job_waits_for_something_at_no_more_places_than_those_it_is_stopped_at(play, job):
    told, others, asked = play(job, -1)
    assert (others, len(asked)) == ([], JOBS[job][2])
    assert told == ("Failed" if JOBS[job][0] is aborts else "done")


# ---- where something acts: each place is listed with what it is that keeps a fenced worker from it

ACTS = {
    "perform.perform": "calls and releases: `_still_ours` before the first try, `ours` before each behind a wait",
    "retries.undo": "`ours` before each try",
    "perform.probe": "asks a counterparty: nothing acts, and `ours` comes before what it tells is believed",
    "service.judge": "a policy's function reads a call: before the intent, or before a release that is checked again",
    "telling._tell": "a channel tells people of what is on record: nothing of the agent's acts",
    "mends._ask": "a plan is proposed: it acts on nothing, and what it proposes is a call of its own",
    "primer.act_of": "tells of what is on record: an act of a primer is no request",
    "listening.following": "the caller's own function, as a run that is steered: what it calls is checked for itself",
    "claims._claiming": "an extractor reads what is about to be said: it acts on nothing",
    "calls._call": "a read of a transaction that is replayed",
    "admission.checked": "`check=` looks at arguments: before the intent, so nothing acts",
    "runs.run": "the caller's own function: what it calls is checked for itself",
    "runs.trying": "the caller's own function: what it calls is checked for itself",
    "speculation._replay": "the caller's own function: what it calls is checked for itself",
    "speculation._choose_among": "the caller's choice: what is decided on it is a step, and refused when fenced",
    "callers.asking": "makes the request of those below that ask, and acts on nothing itself",
    "kernel.asking_of_failures": "asked what a failure means: `ours` behind the answer, in `until_answered`",
    "freshness.look": "reads",
    "freshness.verify": "reads; `_still_ours` behind it, before a release",
    "gates._needs_a_yes": "asks whether somebody is to be asked",
    "counting.refuse_unfit": "asks a check about arguments in an answer: nothing acts, and nothing is recorded",
    "service.foretell": "asks a policy what it is going to say: nothing acts, and nothing is recorded",
    "asking.ask": "somebody is asked: what is done upon the answer is checked for itself",
    "asking.collect_late_answer": "a framework hands over an answer that came too late: nothing acts upon it",
    "promises._holding": "an extractor reads what is about to be said: it acts on nothing, and the call is not begun",
    "commit._examine": "hooks: what is decided upon them is a step, and refused when fenced",
}
"""Every function that has a function of the user's called."""


def test_every_place_that_calls_something_of_the_users_is_listed_with_what_keeps_a_fenced_worker_from_it():
    found = set()
    for path in Path(settlemark.__file__).parent.glob("_*/**/*.py"):
        text = path.read_text()
        for function in ast.walk(ast.parse(text)) if "Act(" in text or ".asking" in text else ():
            if isinstance(function, ast.FunctionDef):
                makes = {
                    n.func.id for n in ast.walk(function) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
                }
                takes = {n.attr for n in ast.walk(function) if isinstance(n, ast.Attribute)}
                found |= {f"{path.stem}.{function.name}"} if "Act" in makes or "asking" in takes else set()
    assert found == ACTS.keys()
