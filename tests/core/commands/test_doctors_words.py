"""What a doctor says of a ledger, of the work on it, and of what is around it: each bound, and each word of advice."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import sqlalchemy as sa
from tests.rooms.acts import Judged
from tests.rooms.api import who_waits
from tests.rooms.doctor import files, judge, mounted, surroundings, work
from tests.rooms.replica import Worker
from tests.rooms.report import body_of

from settlemark import State

NOW = 100_000.0
TAKES_UP = "any process that settles here takes its work up; or settlemark recover --module YOURAPP.TOOLS"


def told(findings, check=None):
    return [(str(f.severity), f.found, f.advice) for f in findings if check in (None, f.check)]


def standing(name="trip", **given):
    usual = {
        "attempt": 1, "run": "trip's", "state": State.OPEN, "parked": False, "since": NOW - 75, "state_since": None,
        "worker": "web-3/1:812:9:a", "alive": True, "lease_left": 9.0, "scopes": (), "waits": (),
    }  # fmt: skip # a table
    return who_waits.Standing(transaction=name, **{**usual, **given})


def asked(answer=None, key="trip#1/0"):
    return who_waits.Question(key, "trip", 1, "trip", "pay", "irreversible", "pay:/a", {}, None, 1.0, True, answer)


class Look:
    """A store in which there is what is given."""

    def __init__(self, *, theirs=NOW, workers=(), entries=0, characters=0, doubts=0, left=0, verdicts=()):
        self._counts = {"outcome": doubts, "tag": left}
        self.book = SimpleNamespace(entries=SimpleNamespace(find=lambda which: list(verdicts)))
        self.clock = lambda: theirs
        self.workers = lambda: list(workers)
        self.sizes = lambda: SimpleNamespace(log_entries=entries, image_characters=characters)

    def ask(self, text):
        assert "WHERE namespace = :namespace AND" in text
        return [(self._counts["outcome" if "outcome = 'unknown'" in text else "tag"],)]


@pytest.fixture
def examined(monkeypatch):
    """Return a function that examines a store in which these transactions stand, and returns what is said."""

    def examined(check, *stand, clock=lambda: NOW, **there):
        monkeypatch.setattr(who_waits, "found", lambda _look: (list(stand), NOW))
        return told(work.examine(Look(**there), clock), check)

    return examined


# ---- the work


@pytest.mark.parametrize(
    ("theirs", "severity", "said"),
    [
        (NOW, "ok", "the store's clock is 0.000 s ahead of this host's"),
        (NOW + 2, "ok", "the store's clock is 2.000 s ahead of this host's"),
        (NOW - 2, "ok", "the store's clock is 2.000 s behind this host's"),
        (NOW - 2.5, "attention", "the store's clock is 2.500 s behind this host's"),
    ],
)
def test_clocks_may_differ_by_two_seconds(examined, theirs, severity, said):
    ((how, what, advice),) = examined("clock", theirs=theirs)
    assert (how, what, advice.startswith("set both by NTP")) == (severity, said, severity == "attention")


def test_what_the_question_took_is_no_difference_of_the_clocks(examined):
    times = iter([NOW, NOW + 8])
    ((how, what, _),) = examined("clock", theirs=NOW + 9.5, clock=lambda: next(times))
    assert (how, what) == ("ok", "the store's clock is 5.500 s ahead of this host's")


def test_of_each_worker_it_is_said_whether_it_lives_and_who_takes_its_work_up(examined):
    workers = [
        Worker("web-1/1:1:9:a", 9.0, 1.0, ended=False),
        Worker("web-2/1:2:9:a", 9.0, 1.0, ended=True),
        Worker("web-3/1:3:9:a", 9.0, 1.0, ended=False, buried=True),
        Worker("web-4/1:4:9:a", -75.0, 1.0, ended=False),
    ]
    assert examined("workers", workers=workers) == [
        ("ok", "1 alive; process 1 on web-1", ""),
        ("attention", "process 2 on web-2 is gone: its process has ended", TAKES_UP),
        ("attention", "process 3 on web-3 was silent, its work is others' now, and it may still be sending", TAKES_UP),
        ("attention", "process 4 on web-4 is silent for 1 min 15 s longer than its lease", TAKES_UP),
    ]
    assert examined("workers") == [("ok", "0 alive", "")]


@pytest.mark.parametrize(("entries", "severity"), [(0, "ok"), (10_000, "ok"), (10_001, "attention")])
def test_a_log_of_ten_images_is_as_it_should_be_and_a_longer_one_is_not_cut(examined, entries, severity):
    ((how, said, advice),) = examined("log", entries=entries, characters=2048)
    assert (how, said) == (severity, f"{entries} entries, and an image of 2.0 KiB")
    assert advice.startswith("a worker lags behind") is (severity == "attention")


def test_what_is_unfinished_is_counted_and_the_oldest_is_told(examined):
    young, old = standing(), standing("old", since=NOW - 3601)
    assert examined("unfinished") == [("ok", "none", "")]
    assert examined("unfinished", young) == [("ok", "1, the oldest for 1 min 15 s", "")]
    assert examined("unfinished", standing(since=NOW - 3600)) == [("ok", "1, the oldest for 1 h", "")]
    assert examined("unfinished", standing(since=None)) == [("ok", "1, the oldest for 0 s", "")]
    ((how, said, advice),) = examined("unfinished", young, old, standing(since=None))
    assert (how, said, advice[:19]) == ("note", "3, the oldest for 1 h 1 s", "see settlemark wait")
    assert examined("unfinished", old, standing(alive=False)) == [
        (
            "attention",
            "2, the oldest for 1 h 1 s; 1 of them are nobody's now",
            "settlemark recover --module YOURAPP.TOOLS",
        )
    ]


def test_of_what_no_living_process_ends_it_is_told_who_does_and_what_waits_for_it(examined):
    gone = standing("gone", alive=False, scopes=("room:/1", "room:/2"))
    aside = {"parked": True, "worker": "", "alive": False}
    waits = (who_waits.Waits("gone", "room:/1", None),)
    recover = "settlemark recover --module YOURAPP.TOOLS"
    stand = [
        gone,
        standing("live", waits=waits),
        standing("late", waits=(*waits, *waits), attempt=2),
        standing("silent", alive=False, silent=True, since=None, state=State.SEALED),
        standing("asks", asked=(asked({"decision": "approve"}), asked(key="trip#1/1")), **aside),
        standing("answered", asked=(asked({"decision": "approve"}),), **aside),
        standing("put aside", **aside),
        standing("over", alive=False, ended=True),
    ]
    here = "its process 812 on web-3 is gone; settlemark recover ends it"
    nobodys = "nobody's until then: recovery leaves it as it is"
    assert examined("ends", *stand) == [
        (
            "attention",
            f"gone is open for 1 min 15 s, holds room:/1, room:/2; 2 wait for it; {here}",
            f"any process here that has its tools ends it, an open one after keep_open=; or {recover}",
        ),
        (
            "attention",
            "silent is sealed; nobody's: its worker fell silent, and may still be sending",
            "its worker fell silent and may still be sending: it is taken up when that has ended, or after quarantine=",
        ),
        (
            "note",
            f"asks is put aside, nobody has it for 1 min 15 s; {nobodys}",
            "settlemark approve KEY --by NAME, or settlemark reject KEY --because TEXT --by NAME; its KEY is trip#1/1",
        ),
        (
            "note",
            f"answered is put aside, nobody has it for 1 min 15 s; {nobodys}",
            f"it is answered: {recover} goes on with it, or any process here",
        ),
        (
            "note",
            f"put aside is put aside, nobody has it for 1 min 15 s; {nobodys}",
            "resume the run trip's in its framework, or settlement.cancel(\"trip's\") undoes it; nothing else ends it",
        ),
        ("attention", f"over is over for 1 min 15 s; {here}", f"its end is not on record yet: {recover}"),
    ]
    ((_, said, _),) = examined("ends", gone, standing("live", waits=waits))
    assert said.startswith("gone is open for 1 min 15 s, holds room:/1, room:/2; 1 waits for it; ")
    assert examined("ends", standing(parked=True, alive=False))[0][1].startswith("trip is put aside for 1 min 15 s")


def test_twenty_are_named_and_the_rest_is_counted(examined):
    many = [standing(f"gone-{number}", alive=False) for number in range(22)]
    found = examined("ends", *many)
    assert [said.split()[0] for _, said, _ in found[:-1]] == [f"gone-{number}" for number in range(20)]
    assert found[-1] == ("attention", "2 more that no living process ends", "settlemark waiting lists them all")
    assert len(examined("ends", *many[:20])) == 20


def test_what_a_silent_process_may_still_do_keeps_its_scope(examined):
    kept = who_waits.Silent("pay", "pay:/a", "trip#1/0", "web-3/1:812:9:a", NOW + 75)
    ((how, said, advice),) = examined("kept", standing(kept=(kept,)), standing("other"))
    assert (how, said) == (
        "attention",
        (
            "trip keeps pay:/a: process 812 on web-3 fell silent at pay, and may still be at it, for 1 min 15 s yet,"
            " or until it comes back"
        ),
    )
    assert advice.startswith("if you know what became of it: settlemark resolve trip#1/0;")


def test_questions_that_nobody_has_answered_are_counted_and_those_that_end_with_their_process(examined):
    answered = standing(asked=(asked({"decision": "approve"}),))
    assert examined("approvals", answered) == [("ok", "nothing waits for a person", "")]
    advice = "see settlemark approvals"
    lives, aside = standing(asked=(asked(), asked())), standing(asked=(asked(),), parked=True, worker="", alive=False)
    assert examined("approvals", lives, aside) == [("note", "3 wait for a person", advice)]
    ((_, said, _),) = examined("approvals", lives, standing(asked=(asked(),), alive=False))
    assert said == "3 wait for a person; 1 of them belong to processes that are gone, and recovery ends those"


def verdict(worker, policy, digest=""):
    body = body_of(Judged("allow", "small", policy, digest), "wire", "account:/a", "trip#1/0", worker)
    return SimpleNamespace(body=body, kept=True)


def test_that_processes_judge_by_different_policies_at_once_is_said_with_which_does(examined):
    three, four = "web-3/1:812:9:a", "web-4/1:77:9:b"
    workers = [Worker(name, 9.0, 1.0, ended=False) for name in (three, four)]
    (nothing,) = examined("policies", workers=workers)
    assert nothing == ("ok", "no process that is alive has judged a call lately", "")
    agree = [verdict(three, "v6"), verdict(three, "v7"), verdict(four, "v7"), verdict("web-5/1:5:9:c", "v5")]
    ((severity, said, _),) = examined("policies", workers=workers, verdicts=agree)
    assert severity == "ok"
    assert said.startswith("v7 in ")
    assert said.endswith("; a policy is in force per process")
    ((severity, said, advice),) = examined("policies", workers=workers, verdicts=[*agree, verdict(four, "v8")])
    assert (severity, said.count("web-3"), said.count("web-4"), "v7 in" in said, "v8 in" in said) == (
        "attention",
        1,
        1,
        True,
        True,
    )
    assert "per process" in advice
    other = [verdict(three, "v7", "1a" * 32), verdict(four, "v7", "2b" * 32)]
    ((severity, said, _),) = examined("policies", workers=workers, verdicts=other)
    assert (severity, "v7 (table 1a1a1a1a)" in said, "v7 (table 2b2b2b2b)" in said) == ("attention", True, True)


def test_doubts_and_residue_are_counted_each_for_itself(examined):
    assert examined("in doubt") + examined("residue") == [("ok", "none", ""), ("ok", "none", "")]
    assert examined("in doubt", doubts=3, left=2) == [("note", "3", "see settlemark in-doubt")]
    assert examined("residue", doubts=3, left=2) == [("note", "2", "see settlemark residue")]


# ---- what is around a file


@pytest.fixture
def ledger(tmp_path):
    path = tmp_path / "folder" / "trip.db"
    path.parent.mkdir(mode=0o755)
    path.touch(0o600)
    return path


def around(ledger, check, **given):
    return told(surroundings(sa.make_url(f"sqlite:///{ledger}"), **given), check)


@pytest.mark.parametrize(
    ("folder", "file", "said"),
    [
        (0o700, 0o644, ""),  # nobody else comes to it
        (0o755, 0o600, ""),
        (0o710, 0o640, "others on this host may read what your tools were asked"),
        (0o701, 0o604, "others on this host may read what your tools were asked"),
        (0o777, 0o600, "everybody on this host may change or remove it"),
        (0o1777, 0o600, ""),  # what is in it only its owner may remove
        (0o1777, 0o602, "everybody on this host may change or remove it"),
    ],
)
def test_who_may_come_to_a_file_and_what_he_may_do_there_is_told(ledger, folder, file, said):
    ledger.chmod(file)
    ledger.parent.chmod(folder)
    ((how, what, advice),) = around(ledger, "permissions")
    assert (how, what.rpartition(": ")[0]) == ("attention" if said else "ok", said)
    shown = what.rpartition(": ")[2]
    assert (shown.split()[1:3], shown.split()[-1]) == (["trip.db", "in"], "folder")
    assert advice.startswith("chmod") is bool(said)


@pytest.mark.parametrize("end", ["-wal", "-shm", "-journal"])
def test_a_file_beside_it_that_others_may_read_is_named(ledger, end):
    beside = Path(f"{ledger}{end}")
    beside.touch()
    beside.chmod(0o640)
    ((how, _, advice),) = around(ledger, "permissions")
    assert (how, advice.partition(";")[0]) == ("attention", f"chmod go-rwx {beside}")


def test_where_the_kernel_does_not_tell_on_what_a_file_lies_its_owner_is_to_look(ledger, tmp_path):
    unknown = [("note", "unknown: this system does not tell", "see that it is a local disk")]
    elsewhere = tmp_path / "mounts"
    elsewhere.write_text("/dev/sdb /other xfs rw 0 0\n")
    assert around(ledger, "filesystem", mounts=elsewhere) == unknown
    assert around(ledger, "filesystem", mounts=tmp_path / "none") == unknown


def test_of_two_mounts_on_one_point_the_later_one_covers_the_earlier(tmp_path):
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/sda1 {tmp_path} ext4 rw 0 0\nsrv:/x {tmp_path} nfs rw 0 0\n/dev/sdc / xfs rw 0 0\n")
    assert mounted(tmp_path / "trip.db", mounts) == ("nfs", frozenset({"rw"}))


def test_room_and_a_log_are_told_up_to_their_bounds(ledger, monkeypatch):
    free = files.LEAST_FREE
    monkeypatch.setattr(files.shutil, "disk_usage", lambda _folder: SimpleNamespace(free=free))
    assert around(ledger, "free space") == [("ok", "256.0 MiB", "")]
    monkeypatch.setattr(files, "LEAST_FREE", free + 1)
    ((how, said, _),) = around(ledger, "free space")
    assert (how, said) == ("attention", "256.0 MiB")
    assert around(ledger, "write-ahead log") == [("ok", "empty", "")]
    Path(f"{ledger}-wal").write_bytes(b"1234")
    monkeypatch.setattr(files, "LARGEST_WAL", 4)
    assert around(ledger, "write-ahead log") == [("ok", "4 B", "")]


@pytest.mark.parametrize(
    ("mode", "severity"),
    [("wal", "ok"), ("delete", "attention"), ("truncate", "attention"), ("memory", "danger"), ("off", "danger")],
)
def test_a_journal_that_a_crash_takes_is_a_danger_and_one_that_is_slow_is_not(mode, severity):
    assert str(files._journal_mode(mode).severity) == severity


def test_on_macos_it_is_said_that_a_disk_keeps_what_it_has_in_its_cache(monkeypatch):
    monkeypatch.setattr(files.sys, "platform", "darwin")
    finding = files._synchronous()
    assert (str(finding.severity), finding.found) == (
        "note",
        "FULL for intents and decisions; on macOS fsync leaves the disk's own cache",
    )


# ---- a server


def judged(check, **settings):
    return told(judge(settings, standby=False, unlogged=[]), check)


def test_who_waits_for_no_standby_is_told_so_only_where_there_is_one_to_wait_for():
    alone, beside = {"synchronous_commit": "local"}, {"synchronous_standby_names": "s1"}
    assert judged("synchronous_commit", **alone) == [("ok", "local", "")]
    assert judged("synchronous_commit", **alone, **beside)[0][:2] == (
        "attention",
        "local: the synchronous standbys are not waited for",
    )
    assert judged("synchronous_commit", synchronous_commit="on", **beside) == [("ok", "on", "")]
    assert judged("replication", **beside) == [("ok", "synchronous: s1", "")]
    assert judged("replication")[0][:2] == (
        "note",
        "no synchronous standby: what was acknowledged is on this server's disk alone",
    )


def test_what_a_server_does_not_tell_is_unknown_and_is_not_taken_for_safe():
    found = {finding.check: (str(finding.severity), finding.found) for finding in judge({}, standby=False, unlogged=[])}
    assert found == {
        "fsync": ("danger", "unknown: a crash of the machine may corrupt the whole database"),
        "full_page_writes": ("danger", "unknown: a crash amid the write of a page may corrupt it"),
        "synchronous_commit": ("ok", "unknown"),
        "replication": ("note", "no synchronous standby: what was acknowledged is on this server's disk alone"),
        "isolation": ("ok", "unknown by default; settlemark states its own for each transaction"),
        "version": ("attention", "PostgreSQL unknown"),
    }


@pytest.mark.parametrize(("number", "severity"), [("129999", "attention"), ("130000", "ok")])
def test_a_server_is_old_before_postgresql_13(number, severity):
    assert judged("version", server_version_num=number, server_version="x")[0][:2] == (severity, "PostgreSQL x")
