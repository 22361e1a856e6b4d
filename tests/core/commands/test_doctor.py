from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import ClassVar

import pytest
import sqlalchemy as sa
from tests.rooms.doctor import files, judge, mounted, surroundings, work

from settlemark import Policy, Retries, Settlement, effect
from settlemark._cli.doctor import Severity, examine
from settlemark.testing import die, in_child

GOOD = {
    "fsync": "on", "full_page_writes": "on", "synchronous_commit": "on", "synchronous_standby_names": "s1",
    "default_transaction_isolation": "read committed", "autovacuum": "on", "server_version": "16.2",
    "server_version_num": "160002",
}  # fmt: skip # a table


@effect("reversible", scope="room:/{hotel}", undo=lambda: None)
def reserve(hotel): ...


@effect("idempotent", scope="room:/{hotel}")
def keep(hotel): ...


@pytest.fixture
def ledger(tmp_path):
    path = tmp_path / "trip.db"
    with Settlement(f"sqlite:///{path}") as settlement, settlement.transaction("trip-1") as tx:
        tx.call(reserve, hotel="Ada")
    path.chmod(0o600)
    return path


def found(findings, check):
    return [(finding.severity, finding.found) for finding in findings if finding.check == check]


def bad(findings):
    return {finding.check: finding.severity for finding in findings if finding.severity in ("attention", "danger")}


def test_processes_that_judge_by_different_policies_at_once_are_told(tmp_path):
    url = f"sqlite:///{tmp_path / 'trip.db'}"

    def policies():
        return found(examine(url), "policies")

    with Settlement(url, policy=Policy("v7", default="allow")) as one, Settlement(url) as other:
        other.enforce(Policy("v7", default="allow"))
        for name, settlement in (("trip-1", one), ("trip-2", other)):
            with settlement.transaction(name) as tx:
                tx.call(reserve, hotel=name)
        ((severity, said),) = policies()
        assert (severity, said.startswith("v7 in ")) == ("ok", True)
        other.enforce(Policy("v8", default="allow"))
        with other.transaction("trip-3") as tx:
            tx.call(reserve, hotel="Bee")
        ((severity, said),) = policies()
        assert (severity, "at once: v7 in" in said, "; v8 in" in said) == ("attention", True, True)
        one.enforce(Policy("v8", default="allow"))
        with one.transaction("trip-4") as tx:
            tx.call(reserve, hotel="Cid")
        ((severity, said),) = policies()
        assert (severity, said.startswith("v8 in ")) == ("ok", True)
    assert policies() == [("ok", "no process that is alive has judged a call lately")]


def test_a_process_that_has_died_judges_by_no_policy_any_more(tmp_path):
    url = f"sqlite:///{tmp_path / 'trip.db'}"

    def dies(_tell):
        settlement = Settlement(url, policy=Policy("v7", default="allow"))
        with settlement.transaction("trip-1") as tx:
            tx.call(reserve, hotel="Ada")
        die()

    assert in_child(dies).error is None
    assert found(examine(url), "policies") == [("ok", "no process that is alive has judged a call lately")]


def test_residue_that_an_operator_has_dealt_with_is_counted_no_more(tmp_path):
    url = f"sqlite:///{tmp_path / 'trip.db'}"
    with Settlement(url, retries=Retries(first=0, most=0)) as settlement:
        with pytest.raises(ZeroDivisionError), settlement.transaction("trip-1") as tx:
            for hotel in ("Ada", "Bee"):
                tx.call(keep, hotel=hotel)
            raise ZeroDivisionError
        said = [found(examine(url), "residue")]
        for left in settlement.residue():
            settlement.resolve(left, "dealt_with", by="ada")
            said.append(found(examine(url), "residue"))
    assert said == [[("note", "2")], [("note", "1")], [("ok", "none")]]


# -- the command ----------------------------------------------------------------------------------------------


def test_a_sound_ledger_is_told_check_by_check_and_exits_with_0(ledger, run, run_json):
    said = run("doctor", ledger)

    assert said.exit_code == 0
    for line in (
        "ok         journal_mode: WAL",
        "ok         synchronous: FULL for intents and decisions",
        "ok         unfinished: none",
        "ok         in doubt: none",
        "ok         residue: none",
    ):
        assert line in said.stdout
    checks = [finding["check"] for finding in run_json("doctor", ledger)]
    assert checks == [
        "schema", "journal_mode", "synchronous", "clock", "workers", "policies", "log", "unfinished", "approvals",
        "in doubt", "residue",
        "filesystem", "permissions", "free space", "write-ahead log",
    ]  # fmt: skip # a list of names and values
    assert "Doctor" in run("doctor", ledger, "--table").stdout


def test_looking_writes_nothing(ledger, run):
    before = ledger.read_bytes()

    run("doctor", ledger)

    assert ledger.read_bytes() == before


def test_what_weakens_durability_exits_with_1_and_says_what_to_do(ledger, run, monkeypatch):
    mounts = ledger.with_name("mounts")
    mounts.write_text("srv:/x / nfs4 rw,hard 0 0\n")
    monkeypatch.setattr(files, "MOUNTS", mounts)

    said = run("doctor", ledger)

    assert said.exit_code == 1
    assert "DANGER     filesystem: nfs4, a network file system, on which SQLite's WAL can be corrupted" in said.stdout
    assert "           -> move the file to a local disk, or use PostgreSQL" in said.stdout
    table = run("doctor", ledger, "--table")
    assert table.exit_code == 1
    shown = " ".join(table.stdout.replace("│", " ").split())
    assert "DANGER filesystem nfs4, a" in shown
    assert "ok journal_mode WAL" in shown


def test_another_schema_is_told_and_nothing_else_is_asked(ledger, run, run_json):
    with closing(sqlite3.connect(ledger)) as connection, connection:
        connection.execute("UPDATE settlemark_meta SET value = '99' WHERE key = 'schema'")

    (finding,) = run_json("doctor", ledger)

    assert (finding["check"], finding["severity"]) == ("schema", "attention")
    assert "schema version 99" in finding["found"]
    assert finding["advice"]
    assert run("doctor", ledger).exit_code == 0


@pytest.mark.parametrize("name", ["none.db", "memory:", "nosuch://host/db"])
def test_what_is_no_ledger_is_an_error(name, run, tmp_path):
    said = run("doctor", name)

    assert said.exit_code == 2
    assert said.stderr.startswith("settlemark: ")
    assert list(tmp_path.iterdir()) == []


# -- a file ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "severity"),
    [
        ("/dev/sda1 / ext4 rw,relatime 0 0", Severity.OK),
        ("/dev/sda1 / ext4 rw,nobarrier 0 0", Severity.DANGER),
        ("tmpfs / tmpfs rw 0 0", Severity.DANGER),
        ("//srv/x / cifs rw 0 0", Severity.DANGER),
        ("overlay / overlay rw 0 0", Severity.ATTENTION),
    ],
)
def test_a_file_lies_on_what_the_kernel_says(ledger, tmp_path, line, severity):
    mounts = tmp_path / "mounts"
    mounts.write_text(f"{line}\n")

    findings = list(surroundings(sa.make_url(f"sqlite:///{ledger}"), mounts=mounts))

    assert [s for s, _ in found(findings, "filesystem")] == [severity]


def test_the_nearest_mount_point_counts_also_one_with_a_blank_in_its_name(tmp_path):
    folder = tmp_path / "my disk"
    folder.mkdir()
    escaped = str(folder).replace(" ", "\\040")
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/sda1 / ext4 rw 0 0\nsrv:/x {escaped} nfs rw,hard 0 0\n/dev/sdb /other xfs rw 0 0\n")

    assert mounted(folder / "trip.db", mounts) == ("nfs", frozenset({"rw", "hard"}))
    assert mounted(tmp_path / "trip.db", mounts) == ("ext4", frozenset({"rw"}))
    assert mounted(tmp_path, Path("/no/such/mounts")) == (None, frozenset())


@pytest.mark.parametrize(
    ("mode", "severity"),
    [(0o600, Severity.OK), (0o644, Severity.ATTENTION), (0o640, Severity.ATTENTION), (0o666, Severity.ATTENTION)],
)
def test_a_file_that_everybody_may_read_or_change_is_told(ledger, mode, severity):
    ledger.chmod(mode)
    ledger.parent.chmod(0o755)

    findings = list(surroundings(sa.make_url(f"sqlite:///{ledger}")))

    assert [s for s, _ in found(findings, "permissions")] == [severity]


@pytest.mark.parametrize("which", ["file", "folder"])
def test_a_file_or_a_folder_that_this_user_may_not_write_is_told(ledger, monkeypatch, which):
    denied = ledger if which == "file" else ledger.parent
    monkeypatch.setattr(files.os, "access", lambda path, _mode: path != denied)

    ((severity, told),) = found(surroundings(sa.make_url(f"sqlite:///{ledger}")), "permissions")
    assert (severity, told.partition(":")[0]) == (Severity.ATTENTION, "this user may not write")


@pytest.mark.parametrize(
    ("level", "told"),
    [
        (0, (Severity.DANGER, "OFF for intents and decisions")),
        (1, (Severity.DANGER, "NORMAL for intents and decisions")),
        (2, (Severity.OK, "FULL for intents and decisions")),
        (3, (Severity.OK, "EXTRA for intents and decisions")),
        (7, (Severity.OK, "7 for intents and decisions")),
    ],
)
def test_a_commit_that_does_not_wait_for_the_disk_is_a_danger_and_what_was_asked_is_closed(monkeypatch, level, told):
    class Wire:
        done: ClassVar[list[str]] = []

        def query(self, *_asked):
            return ((level,),)

        def __getattr__(self, name):
            return lambda **_: self.done.append(name)

    monkeypatch.setattr(files.sys, "platform", "linux")
    monkeypatch.setattr(files, "wire_to", lambda _engine: Wire())
    finding = files._synchronous()
    assert ((finding.severity, finding.found), Wire.done) == (told, ["begin", "rollback", "close"])


@pytest.mark.parametrize(
    ("length", "told"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (3 << 30, "3.0 GiB"), (5 << 50, "5120.0 TiB")],
)
def test_a_length_is_told_in_whole_bytes_or_in_tenths_of_a_unit(length, told):
    assert files.size(length) == told


def test_little_room_and_a_long_log_are_told(ledger, monkeypatch):
    monkeypatch.setattr(files, "LEAST_FREE", 1 << 62)
    monkeypatch.setattr(files, "LARGEST_WAL", 3)
    ledger.with_name("trip.db-wal").write_bytes(b"long")

    findings = list(surroundings(sa.make_url(f"sqlite:///{ledger}")))

    assert {"free space", "write-ahead log"} <= bad(findings).keys()


def test_a_journal_mode_that_another_program_has_set_is_told(ledger):
    with closing(sqlite3.connect(ledger)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")

    assert found(examine(f"sqlite:///{ledger}"), "journal_mode") == [
        (Severity.ATTENTION, "delete, where settlemark sets WAL")
    ]


# -- the work -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("here", "told"), [(1_000_000.0, "ahead of this host's"), (9_000_000_000.0, "behind this host's")]
)
def test_a_clock_that_differs_is_told(ledger, here, told):
    findings = examine(f"sqlite:///{ledger}", clock=lambda: here)

    ((severity, said),) = found(findings, "clock")
    assert severity is Severity.ATTENTION
    assert told in said


def test_a_log_that_is_not_cut_is_told_with_whom_to_look_for(ledger, monkeypatch):
    ((severity, said),) = found(examine(f"sqlite:///{ledger}"), "log")
    assert severity is Severity.OK
    monkeypatch.setattr(work, "IMAGE_EVERY", 0)

    (finding,) = [finding for finding in examine(f"sqlite:///{ledger}") if finding.check == "log"]
    assert (finding.severity, finding.found) == (Severity.ATTENTION, said)
    assert "a worker lags behind" in finding.advice


def test_what_an_ended_process_has_left_is_told(store, ends_amid):
    ends_amid(store, "trip-1", "tx.call(reserve, hotel='Ada')")

    findings = examine(store)

    assert bad([f for f in findings if f.check in ("workers", "unfinished")]) == {
        "workers": "attention",
        "unfinished": "attention",
    }
    assert "1 of them are nobody's now" in found(findings, "unfinished")[0][1]


@pytest.mark.parametrize(
    ("body", "held"), [("tx.call(reserve, hotel='Ada')", ", holds room:/Ada;"), ("settlement.transactions()", "")]
)
def test_of_what_nobody_ends_it_is_told_what_it_holds_when_it_holds_something(tmp_path, ends_amid, body, held):
    store = f"sqlite:///{tmp_path / 'trip.db'}"
    ends_amid(store, "trip-1", body)

    ((_, said),) = found(examine(store), "ends")

    assert said.startswith("trip-1 is open for ")
    assert held in said
    assert ("holds" in said) is bool(held)


def test_live_workers_and_their_work_are_fine(store):
    with Settlement(store) as settlement, settlement.transaction("trip-1") as tx:
        tx.call(reserve, hotel="Ada")
        findings = examine(store)

    assert [severity for severity, _ in found(findings, "workers")] == [Severity.OK]
    assert [severity for severity, _ in found(findings, "unfinished")] == [Severity.OK]


# -- a server -------------------------------------------------------------------------------------------------


def test_a_servers_own_settings_are_read(postgres_url, run):
    Settlement(postgres_url).close()
    engine = sa.create_engine(postgres_url)
    with engine.connect() as connection:
        names = ("fsync", "synchronous_commit")
        settings = {name: connection.execute(sa.text(f"SHOW {name}")).scalar() for name in names}
    engine.dispose()

    said = json.loads(run("doctor", postgres_url, "--json").stdout)

    told = {finding["check"]: finding for finding in said}
    assert told["fsync"]["found"].startswith(settings["fsync"])
    assert told["fsync"]["severity"] == ("ok" if settings["fsync"] == "on" else "danger")
    assert told["synchronous_commit"]["found"].startswith(settings["synchronous_commit"])
    assert {"clock", "version", "replication", "isolation", "full_page_writes"} <= told.keys()


def test_a_user_whose_commits_are_not_waited_for_is_told_that_the_ledgers_are(postgres_url, run):
    Settlement(postgres_url).close()
    engine = sa.create_engine(postgres_url)
    with engine.connect() as connection, connection.begin():
        name = sa.make_url(postgres_url).database
        connection.execute(sa.text(f'ALTER DATABASE "{name}" SET synchronous_commit = off'))
    engine.dispose()

    said = run("doctor", postgres_url)

    assert "ok         synchronous_commit: off for this user, and on for the ledger's own connections" in said.stdout


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, {}),
        ({"fsync": "off"}, {"fsync": "danger"}),
        ({"full_page_writes": "off"}, {"full_page_writes": "danger"}),
        ({"synchronous_commit": "off"}, {}),
        ({"synchronous_commit": "local"}, {"synchronous_commit": "attention"}),
        ({"synchronous_standby_names": ""}, {}),
        ({"default_transaction_isolation": "serializable"}, {}),
        ({"autovacuum": "off"}, {"autovacuum": "attention"}),
        ({"server_version_num": "90600"}, {"version": "attention"}),
    ],
)
def test_a_setting_is_judged_by_what_it_may_lose(changed, expected):
    assert bad(judge({**GOOD, **changed}, standby=False, unlogged=[])) == expected


def test_unlogged_tables_and_a_standby_are_told():
    findings = list(judge(GOOD, standby=True, unlogged=["settlemark_log"]))

    assert bad(findings) == {"tables": "danger", "server": "attention"}
    assert [f.advice for f in findings if f.check == "tables"] == ["ALTER TABLE settlemark_log SET LOGGED"]
