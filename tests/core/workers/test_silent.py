"""A worker that stops anywhere, is thought dead and comes back: what it did after all is undone or named, not doubled.

It is stopped at one exact point, in a thread. Time is virtual: its own stands still, so it beats no more; that of who
observes it goes on. It seems to be on this host, where it is seen to be alive, or on another, where nothing is seen.
"""

from __future__ import annotations

import re
import threading
from contextlib import closing

import pytest
from tests.rooms.api import duration, standing
from tests.rooms.api import who_waits as _waiting
from tests.rooms.attempt import attempt
from tests.rooms.doctor import examine
from tests.rooms.engine import Probing, TakingBack
from tests.rooms.ledger import Watch, _workers, process
from tests.rooms.lifecycle import recovery
from tests.rooms.record import SqlBook

from settlemark import (
    UNKNOWN,
    InDoubt,
    Injected,
    Refused,
    Retries,
    SettlemarkError,
    Settlement,
    WaitTimeout,
    current_call,
    effect,
)
from settlemark.hosting import host_of, run_sync
from settlemark.ledger import open_ledger
from settlemark.testing import VirtualClock

LEASE, QUARANTINE, PATIENCE = 30.0, 90.0, 30

POINTS = (
    "before the intent",
    "between the intent and the act",
    "inside the act",
    "between the act and the outcome",
    "before a release",
    "inside a release",
    "between a release and its outcome",
    "before an undo",
    "inside an undo",
    "between an undo and its outcome",
)


LOOKS = ("before the look at its lease behind the intent", "before the look at its lease ahead of a release")


class Point:
    """Where a worker stops once, until it is told to go on.

    Attributes:
        passed: the points to which it has come.
    """

    def __init__(self, name):
        self.name = name
        self.passed = []
        self.reached, self.go_on = threading.Event(), threading.Event()

    def stop(self, name):
        self.passed.append(name)
        if name == self.name and not self.reached.is_set():
            self.reached.set()
            assert self.go_on.wait(PATIENCE)


class Office:
    """A counterparty with a log of its own: what was done and undone, under which key.

    Attributes:
        worker: how far the worker has come that stops.
    """

    def __init__(self):
        self.log = []
        self.worker = None

    def knows(self, verb, key):
        return "done" if (verb, key) in self.log and ("cancel", key) not in self.log else None

    def tools(self, point):
        """The tools as one worker has them: `point` is where it stops."""

        def check(room):
            point.stop("before the intent")

        def cancel(key):
            point.stop("inside an undo")
            self.log.append(("cancel", key))
            point.stop("between an undo and its outcome")

        @effect(
            "reversible",
            scope="room:/{room}",
            undo=cancel,
            probe=lambda key: self.knows("book", key),
            check=check,
            name="book",
        )
        def book(room):
            point.stop("inside the act")
            self.log.append(("book", current_call().key))
            point.stop("between the act and the outcome")
            return "done"

        @effect("irreversible", scope="mail:/{to}", probe=lambda key: self.knows("mail", key), name="mail")
        def mail(to):
            point.stop("inside a release")
            self.log.append(("mail", current_call().key))
            point.stop("between a release and its outcome")
            return "done"

        return book, mail


class Failed(Exception):
    """The job's own failure: everything is undone."""


@pytest.fixture
def clocks():
    return VirtualClock(), VirtualClock()


@pytest.fixture
def office():
    return Office()


@pytest.fixture
def silent(shared_url, office, clocks, monkeypatch):
    """Have a worker stop at a point, and be thought dead; return it, who observes it, and what its caller was told."""
    opened, points, threads = [], [], []

    def settle(clock, host=None, quarantine=QUARANTINE):
        with monkeypatch.context() as patched:
            if host is not None:
                patched.setattr(_workers, "_host", lambda: host)
            made = Settlement(
                shared_url,
                lease=LEASE,
                quarantine=quarantine,
                keep_open=0,
                wait=PATIENCE,
                injected=Injected(monotonic=clock.monotonic),
                retries=Retries(first=0, most=0),
            )
        host_of(made).driver.probing.on_doubt = None  # the test asks
        host_of(
            made
        )._maintenance.stop()  # and looks: else what one takes up by itself is under way when the other has looked
        opened.append(made)
        return made

    def play(at, *, elsewhere, quarantine=QUARANTINE, keep_open=0, mails_first=False):
        point = office.worker = Point(at)
        points.append(point)
        worker = settle(clocks[0], "elsewhere/1/2/3.4" if elsewhere else None)
        _stop_between(worker, point, monkeypatch)
        told = []

        def job(tx):
            worker.in_doubt()  # a step: from here on others know that it has begun
            if mails_first:
                tx.call(mail, to="x")
            tx.call(book, room="a")
            if not mails_first:
                tx.call(mail, to="x")
            if "undo" in at:
                raise Failed

        book, mail = office.tools(point)

        def work():
            try:
                worker.run("job", job)
                told.append("ok")
            except (SettlemarkError, Failed) as error:
                told.append(type(error).__name__)

        thread = threading.Thread(target=work)
        threads.append(thread)
        thread.start()
        assert point.reached.wait(PATIENCE)
        observer = settle(clocks[1], quarantine=quarantine)
        office.tools(Point(None))  # what the observer knows
        lost = host_of(worker).ledger.worker
        watch(observer, clocks[1], LEASE, keep_open)
        assert all(txn.owner != lost for txn in host_of(observer).protocol.live.values())

        def back():
            point.go_on.set()
            thread.join(PATIENCE)
            assert not thread.is_alive()
            worker.in_doubt()  # a step: what was queued before it is taken, too
            return told

        return observer, back

    yield play
    for point in points:
        point.go_on.set()
    for thread in threads:
        thread.join(PATIENCE)
    for made in opened:
        made.close()


def _stop_between(worker, point, monkeypatch):
    """Have it stop, too, where no function of the user's is called."""
    driver = host_of(worker).driver
    for service, name, at in (
        (driver.acting, "_send", LOOKS[0]),
        (driver.acting, "_perform", "between the intent and the act"),
        (driver.releases, "_let_one_leave", LOOKS[1]),
        (driver.releases, "_release", "before a release"),
        (driver.taking_back, "_take_back", "before an undo"),
    ):
        original = getattr(service, name)

        def first(*args, original=original, at=at, **options):
            point.stop(at)
            return (yield from original(*args, **options))

        monkeypatch.setattr(service, name, first)


def watch(observer, clock, seconds, keep_open=0):
    """Let time pass for an observer that looks often enough, and have it end what it finds."""
    for _ in range(int(seconds / (LEASE / 3)) + 3):
        clock.advance(LEASE / 3)
        observer.recover(keep_open=keep_open)


def ask_all(settlement):
    """Have what is in doubt asked about now, and what came too late undone."""
    for _ in range(3):
        host_of(settlement).driver.resolution.asked.clear()
        settlement.recover(keep_open=0)
        settlement.transactions()


def untrue(office, settlement, *, undone_again=False):
    """Return how the record contradicts the counterparty's log, or leaves unsaid what has to be.

    An undo may be begun again by who thinks that its worker is dead, as after a crash: undos bear that.
    """
    wrong = []
    named = {left.key for left in settlement.residue()} | {doubt.key for doubt in settlement.in_doubt()}
    recorded = settlement.transactions()
    for each in recorded:
        for found in each.effects:
            key, tool = found.row.key, found.row.tool
            done, undone = office.log.count((tool, key)), office.log.count(("cancel", key))
            stays = done - min(done, undone)
            if done > 1 and key not in named:
                wrong.append(f"{key} happened {done} times, and nobody says so")
            if undone > done and not undone_again:
                wrong.append(f"{key} was undone {undone} times")
            if key in named or "/mend/" in key:
                continue
            if stays != (1 if found.outcome == "confirmed" else 0) or found.outcome in ("intended", "unknown"):
                wrong.append(f"{key} is {found.outcome} ({found.tag}) on record, and {stays} of it stays")
    known = {found.row.key for each in recorded for found in each.effects}
    wrong += [f"{entry} is on no record" for entry in office.log if entry[1] not in known]
    if host_of(settlement).protocol.live:
        wrong.append(f"unfinished: {[txn.name for txn in host_of(settlement).protocol.live.values()]}")
    return wrong


def times(office, verb):
    return sum(entry[0] == verb for entry in office.log)


def comes_back(silent, office, at, *, elsewhere):
    """Return what is wrong when a worker comes back before anybody thought it gone for good."""
    observer, back = silent(at, elsewhere=elsewhere)
    before = list(office.log)
    observer.recover(keep_open=0)
    wrong = [] if office.log == before else ["something was sent again while it may still be sending"]
    told = back()
    ask_all(observer)
    wrong += untrue(office, observer)
    wrong += [f"{left.key} is left" for left in observer.residue()]
    wrong += [f"{doubt.key} is in doubt" for doubt in observer.in_doubt()]
    stays = 1 if "release" in at else 0
    if (times(office, "mail"), times(office, "book") - times(office, "cancel")) != (stays, stays):
        wrong.append(f"the log is {office.log}")
    if told not in (["LeaseLost"], ["Failed"]):
        wrong.append(f"its caller was told {told}")
    return wrong


def passes(observer, office, use):
    """Whether another may touch the room now; where it may not, nothing was run."""
    before = len(office.log)

    @effect("reversible", scope="room:/{room}", undo=lambda room: None, name="paint")
    def paint(room):
        office.log.append(("paint", current_call().key))

    try:
        with observer.transaction(wait=0) as tx:
            if use == "reads":
                tx.read("room:/a")
            else:
                tx.call(paint, room="a")
    except WaitTimeout as error:
        return (error.data["holder"], len(office.log)) != ("job", before)
    return True


HOLDS_NOTHING = "before the intent"


def holds(silent, office, clock, at, *, elsewhere):
    """Return what is wrong with who may touch the scope of what a silent worker may be at, until that is laid."""
    observer, back = silent(at, elsewhere=elsewhere)
    wrong = []
    for use in ("reads", "writes"):
        done = {verb for verb, _ in office.log}
        came = "mail" in done or ("book" in done and "act" in at)  # its probe says so: it is gone on with at once
        if passes(observer, office, use) != (at == HOLDS_NOTHING or came):
            wrong.append(f"while it is silent another {use}")
    if elsewhere:
        watch(observer, clock, QUARANTINE)
    else:
        back()
    ask_all(observer)
    if [use for use in ("reads", "writes") if not passes(observer, office, use)]:
        wrong.append("it is held when nothing more can come")
    wrong += untrue(office, observer, undone_again="undo" in at)
    return wrong


def comes_back_late(silent, office, clock, at):
    """Return what is wrong when a worker of another host comes back after its quarantine."""
    observer, back = silent(at, elsewhere=True)
    watch(observer, clock, QUARANTINE)
    ask_all(observer)
    undone_again = "undo" in at
    wrong = untrue(office, observer, undone_again=undone_again)
    wrong += [f"{doubt.key} is in doubt" for doubt in observer.in_doubt()]
    sent = times(office, "mail")
    if sent != (1 if "release" in at else 0):
        wrong.append(f"the log is {office.log}")
    back()
    ask_all(observer)
    wrong += untrue(office, observer, undone_again=undone_again)
    doubled = times(office, "mail") > sent
    if doubled != (at in ("before a release", "inside a release")):
        wrong.append(f"the log is {office.log}")
    if [left.tool for left in observer.residue()] != (["mail"] if doubled else []):
        wrong.append(f"named is {observer.residue()}")
    if times(office, "book") - min(times(office, "cancel"), times(office, "book")) != sent:
        wrong.append(f"the log is {office.log}")
    return wrong


@pytest.mark.parametrize("elsewhere", [False, True], ids=["on this host", "elsewhere"])
@pytest.mark.sampled(3)
@pytest.mark.parametrize("at", POINTS)
def test_what_a_silent_worker_does_when_it_comes_back_is_undone_or_stands_once(silent, office, at, elsewhere):
    assert comes_back(silent, office, at, elsewhere=elsewhere) == []


@pytest.mark.parametrize("plan", ["nothing", "the mail"])
@pytest.mark.parametrize("elsewhere", [False, True], ids=["on this host", "elsewhere"])
@pytest.mark.sampled(6)
@pytest.mark.parametrize("at", [LOOKS[0], *POINTS[:4]])
def test_what_a_silent_worker_was_at_when_another_plan_took_its_name_is_undone_or_named_when_it_comes_back(
    silent, office, at, elsewhere, plan
):
    """Before it comes back the new plan is in doubt, or has taken back what there is: it never commits on it."""
    observer, back = silent(at, elsewhere=elsewhere, keep_open=10 * QUARANTINE, mails_first=True)
    _, mail = office.tools(Point(None))

    def stands():
        try:
            with observer.transaction("job", wait=0) as tx:
                if plan == "the mail":
                    tx.call(mail, to="x")
        except (InDoubt, Refused):
            return False
        return True

    at_once = stands()
    assert times(office, "mail") == (at_once and plan == "the mail")
    assert back() == ["LeaseLost"]
    ask_all(observer)
    assert any(stands() for _ in range(1 if at_once else 3))
    ask_all(observer)

    assert untrue(office, observer) == []
    assert (observer.residue(), observer.in_doubt()) == ([], [])
    assert (times(office, "book") - times(office, "cancel"), times(office, "mail")) == (0, plan == "the mail")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("at", POINTS)
def test_elsewhere_it_is_believed_to_be_dead_after_the_quarantine_and_one_that_is_not_names_what_it_doubled(
    silent, office, clocks, at
):
    assert comes_back_late(silent, office, clocks[1], at) == []


@pytest.mark.parametrize("late", [False, True], ids=["in its quarantine", "behind its quarantine"])
@pytest.mark.parametrize(("at", "stays"), [(LOOKS[0], 0), (LOOKS[1], 1)])
def test_who_lost_its_lease_before_it_acted_sends_nothing_when_it_comes_back(silent, office, clocks, at, stays, late):
    observer, back = silent(at, elsewhere=True)
    if late:
        watch(observer, clocks[1], QUARANTINE)
        ask_all(observer)
    came_to = list(office.worker.passed)
    clocks[0].advance(LEASE)  # so it knows how long it was away
    assert back() == ["LeaseLost"]
    assert office.worker.passed == came_to
    ask_all(observer)
    assert (times(office, "book") - times(office, "cancel"), times(office, "mail")) == (stays, stays)
    assert (untrue(office, observer), observer.residue(), observer.in_doubt()) == ([], [], [])


@pytest.mark.parametrize("elsewhere", [False, True], ids=["on this host", "elsewhere"])
@pytest.mark.sampled(3)
@pytest.mark.parametrize("at", POINTS)
def test_what_a_silent_worker_may_be_at_is_touched_by_nobody_until_it_cannot_send(
    silent, office, clocks, at, elsewhere
):
    assert holds(silent, office, clocks[1], at, elsewhere=elsewhere) == []


def test_a_worker_of_this_host_may_be_sending_for_as_long_as_its_process_is_there(silent, office, clocks):
    observer, back = silent("inside a release", elsewhere=False)
    watch(observer, clocks[1], 3 * QUARANTINE)
    assert times(office, "mail") == 0
    (recorded,) = observer.transactions()
    assert recorded.state == "releasing"
    assert back() == ["LeaseLost"]
    ask_all(observer)
    assert untrue(office, observer) == []
    assert times(office, "mail") == 1
    assert [each.state for each in observer.transactions()] == ["committed"]


@pytest.mark.parametrize("lives", [LEASE, QUARANTINE / 3 * 2])
def test_a_quarantine_ends_though_nobody_who_watches_lives_as_long(silent, office, clocks, lives):
    observer, back = silent("inside the act", elsewhere=True)
    member = host_of(observer).ledger._member

    def noted():
        return host_of(observer).ledger.read(lambda book: [row.watched for row in book.workers()])

    watched = noted()
    while watched:
        before = watched[0]
        assert not passes(observer, office, "reads")
        watch = Watch(clocks[1].monotonic, quarantine=QUARANTINE)  # as of a process that has just begun
        member.watch = member.transaction._watch = watch
        for _ in range(int(lives / (LEASE / 3)) + 1):
            clocks[1].advance(LEASE / 3)
            observer.recover(keep_open=0)
        clocks[1].advance(10 * QUARANTINE)  # in which nobody watches
        watched = noted()
        assert all(lives / 2 <= seconds - before <= lives for seconds in watched)
    assert before + lives >= QUARANTINE
    ask_all(observer)
    assert passes(observer, office, "reads")
    assert [each.state for each in observer.transactions() if each.row.name == "job"] == ["aborted"]
    back()
    ask_all(observer)
    assert (untrue(office, observer), observer.residue(), observer.in_doubt()) == ([], [], [])


@pytest.mark.parametrize("elsewhere", [False, True], ids=["on this host", "elsewhere"])
@pytest.mark.parametrize(
    ("at", "tool", "scope"),
    [
        ("inside the act", "book", "room:/a"),
        ("inside an undo", "book", "room:/a"),
        ("inside a release", "mail", "mail:/x"),
    ],
)
def test_people_are_told_what_is_kept_who_fell_silent_at_it_and_until_when(
    silent, shared_url, at, tool, scope, elsewhere
):
    observer, _back = silent(at, elsewhere=elsewhere)
    with closing(open_ledger(shared_url, readonly=True)) as ledger:
        stand, now = standing(ledger)
    (one,) = stand
    (kept,) = one.kept
    assert (kept.tool, kept.scope, kept.worker.startswith("elsewhere/")) == (tool, scope, elsewhere)
    who = process(kept.worker)
    until = "until it comes back or its process has ended"
    if elsewhere:
        assert 0 < kept.until - now <= QUARANTINE
        until = f"for {duration(kept.until - now)} yet, or until it comes back"
    else:
        assert kept.until is None
    said = f"keeps {scope}: {who} fell silent at {tool}, and may still be at it, {until}"
    assert said in _waiting.told(stand, now)
    assert one.values()["kept"] == [
        {"tool": tool, "scope": scope, "key": kept.key, "worker": kept.worker, "until": kept.until}
    ]
    (found,) = [finding for finding in examine(shared_url) if finding.check == "kept"]
    assert f"job keeps {scope}: {who} fell silent at {tool}" in found.found
    assert kept.key in found.advice
    assert f"It keeps {scope}, for {who} may still be at {tool}" in observer.show()
    with pytest.raises(WaitTimeout, match=f"{re.escape(who)}, which fell silent, may still be at {tool}"):
        observer.run("job", lambda tx: None, wait=0)
    with pytest.raises(WaitTimeout, match=f"{re.escape(who)}, which fell silent, may still be at {tool}"):
        with observer.transaction(wait=0) as tx:
            tx.read(scope)


@pytest.mark.parametrize(
    ("at", "tool", "state"),
    [
        ("inside the act", "book", "aborting"),
        ("inside an undo", "book", "aborting"),
        ("inside a release", "mail", "releasing"),
    ],
)
def test_cancelling_the_run_of_a_silent_worker_waits_for_nobody_and_tells_who_it_is(
    silent, office, at, tool, state, caplog
):
    observer, back = silent(at, elsewhere=True)
    before = list(office.log)
    # Time is virtual, and stands still: a wait would last until the worker comes back.
    observer.cancel("job")
    (told,) = [record.getMessage() for record in caplog.records if "is cancelled, and" in record.getMessage()]
    assert told.startswith("job is cancelled, and kept until nothing more can come of it (")
    assert f"which fell silent, may still be at {tool}: see settlemark waiting" in told
    assert (office.log, [recorded.state for recorded in observer.transactions()]) == (before, [state])
    back()
    ask_all(observer)
    assert untrue(office, observer) == []


@pytest.mark.parametrize("elsewhere", [True, False])
def test_cancelling_the_run_of_who_fell_silent_at_a_release_names_what_may_have_left(
    silent, office, clocks, monkeypatch, elsewhere
):
    monkeypatch.setattr(office, "knows", lambda _verb, _key: UNKNOWN)
    observer, back = silent("inside a release", elsewhere=elsewhere)
    observer.cancel("job")
    assert [recorded.state for recorded in observer.transactions()] == ["releasing"]
    if elsewhere:
        watch(observer, clocks[1], QUARANTINE)
        mails = [e for recorded in observer.transactions() for e in recorded.effects if e.row.tool == "mail"]
        assert [(e.outcome, e.tag) for e in mails] == [("unknown", "unresolved")]
        assert [left.key for left in observer.residue()] == [doubt.key for doubt in observer.in_doubt()]
        assert [left.key for left in observer.residue()] == [mails[0].row.key]
    back()
    ask_all(observer)
    assert untrue(office, observer) == []


@pytest.mark.parametrize("when", ["as it is left", "when it was left"])
def test_what_a_silent_worker_may_be_sending_is_in_the_hands_of_one_program_here_at_a_time(
    silent, office, monkeypatch, when
):
    """Another look finds it between the decision to leave it and the end of the program that decided so."""
    observer, back = silent("inside a release", elsewhere=True)
    driver, before = host_of(observer).driver, list(office.log)
    looks, begun, left = [], threading.Event(), threading.Event()
    at_it, together = [], []

    def look():
        run_sync(driver.recovery.take_up())
        begun.set()

    def looked_at_behind(function):
        def meanwhile(*given):
            try:
                return (yield from function(*given))
            finally:
                if not looks:
                    looks.append(threading.Thread(target=look))
                    looks[0].start()
                    assert begun.wait(PATIENCE)

        return meanwhile

    lets = driver.releases._let_leave

    def let_leave(attempt, txn):
        at_it.append(txn)
        together.append(len(at_it))
        if threading.current_thread() in looks:
            begun.set()
            assert left.wait(PATIENCE)
        try:
            yield from lets(attempt, txn)
        finally:
            at_it.remove(txn)

    service, name = (driver.releases, "_wait_for_sender") if when == "as it is left" else (driver.recovery, "_end")
    monkeypatch.setattr(service, name, looked_at_behind(getattr(service, name)))
    monkeypatch.setattr(driver.releases, "_let_leave", let_leave)
    run_sync(driver.recovery.take_up())
    run_sync(driver.recovery.take_up())
    left.set()
    looks[0].join(PATIENCE)
    assert (office.log, [recorded.state for recorded in observer.transactions()]) == (before, ["releasing"])
    assert set(together) == {1}
    back()
    ask_all(observer)
    assert untrue(office, observer) == []
    assert times(office, "mail") == 1


@pytest.mark.parametrize("at", ["inside the act", "inside an undo"])
def test_an_operator_who_knows_what_became_of_it_ends_the_wait(silent, office, clocks, at):
    observer, back = silent(at, elsewhere=False)
    key = next(effect.row.key for recorded in observer.transactions() for effect in recorded.effects)
    assert not passes(observer, office, "reads")
    observer.resolve(key, "absent", by="ada")
    observer.recover(keep_open=0)
    assert passes(observer, office, "reads")
    assert [recorded.state for recorded in observer.transactions()] == ["aborted"]
    back()


def test_without_a_quarantine_one_elsewhere_that_falls_silent_holds_nothing(silent, office):
    observer, back = silent("inside the act", elsewhere=True, quarantine=0)
    assert passes(observer, office, "reads")
    back()
    ask_all(observer)
    assert untrue(office, observer) == []


# ---- engines that are wrong about it are caught


def believes_absence(patch):
    """What a probe calls absent is sent again, whoever may still be sending it."""
    patch.setattr(SqlBook, "zombies", lambda _book: frozenset())


def says_nothing(patch):
    """Who comes back keeps to itself what its calls did."""
    patch.setattr(attempt, "first_hand", lambda *_given, **_named: None)


def forgets_who_sent_again(patch):
    """It is not on record that another has sent it again."""
    patch.setattr(Probing, "sends_again", lambda _driver, _effect: iter(()))


def undoes_at_once(patch):
    """What a silent worker may be at is undone, or given up as in doubt, and its scopes are free."""

    def never(_driver, _effect):
        yield from ()
        return False, False

    patch.setattr(TakingBack, "_undone_elsewhere", never)
    patch.setattr(recovery, "held_by_zombies", lambda *_given: [])


def is_dead_to_all(patch):
    """Whoever is only silent is off the list at once."""
    patch.setattr(SqlBook, "mark_zombie", lambda book, worker: book.remove_workers([worker]))


@pytest.mark.parametrize(
    ("mutant", "at", "late"),
    [
        (believes_absence, "inside a release", False),
        (is_dead_to_all, "inside a release", False),
        (says_nothing, "between an undo and its outcome", False),
        (undoes_at_once, "inside an undo", False),
        (forgets_who_sent_again, "inside a release", True),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_an_engine_that_is_wrong_about_silence_is_caught(silent, office, clocks, monkeypatch, mutant, at, late):
    mutant(monkeypatch)
    try:
        wrong = (
            comes_back_late(silent, office, clocks[1], at) if late else comes_back(silent, office, at, elsewhere=True)
        )
    except AssertionError as error:
        wrong = [str(error)]
    assert wrong != []
