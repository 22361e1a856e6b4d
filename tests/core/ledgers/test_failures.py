"""What a store's failure means for whoever uses the ledger: each is told with its remedy, and with no password."""

from __future__ import annotations

import os
import traceback
from types import SimpleNamespace

import pytest
from tests.rooms.ledger import withhold, without_secrets

from settlemark import LedgerError
from settlemark.hosting import shown
from settlemark.ledger._failures import explain, is_gone

SERVER = "postgresql+psycopg://ada:hunter2@db/trips"
DAMAGED = "this file is something else, or damaged: name another one, or restore a backup"
DISK = "its disk fails, or its files were removed while it was open: see to that, then start anew"
REACHED = "the server is not reachable: what was open is taken up when it is back"
WHOSE = "check the user and password in the URL"
REMEDIES = {
    'FATAL: database "trips" does not exist': "create it, or name another one",
    "attempt to write a READONLY database": "make the file and its folder writable, or name another file",
    "cannot execute UPDATE in a read-only transaction": "make the file and its folder writable, or name another file",
    "permission denied for table t": "make the file and its folder writable, or name another file",
    "unable to open database file": "see that its folder is there and may be written, or name another file",
    "database or disk is full": "free some space: nothing was run that could not be recorded",
    "No space left on device": "free some space: nothing was run that could not be recorded",
    "could not extend file: disk full": "free some space: nothing was run that could not be recorded",
    "no answer from the server": "the server, or the network to it, hangs: see to that, then try again",
    "database is locked": "another process holds it for long: look for one that hangs in a transaction of its own",
    "file is not a database": DAMAGED,
    "database disk image is malformed": DAMAGED,
    "disk I/O error": DISK,
    **dict.fromkeys(
        (
            "connection refused", "could not connect to server", "server closed the connection",
            "terminating connection due to administrator command", "connection failed: no", "the connection is lost",
            "the connection is bad", "consuming input failed: EOF", "no route to host", "timeout expired",
            "Is the server running on that host?", "the database system is starting up",
        ),
        REACHED,
    ),
    "password authentication failed for user": WHOSE,
    "fe_sendauth: no password supplied": WHOSE,
    "something else": "see the cause below",
}  # fmt: skip # a table


@pytest.mark.parametrize("message", REMEDIES)
def test_a_failure_is_told_in_one_line_with_its_remedy_and_its_cause(message):
    error = RuntimeError(message.replace(" ", " \n ", 1))
    failed = explain(SERVER, error)
    assert str(failed) == f"the ledger postgresql+psycopg://ada:***@db/trips failed: {message}; {REMEDIES[message]}"
    assert (failed.data, failed.__cause__) == ({"url": "postgresql+psycopg://ada:***@db/trips"}, error)


def test_what_is_told_of_a_wrapped_failure_is_the_drivers_own_message():
    error = RuntimeError("(driver.Error) no\n[SQL: SELECT 1]")
    error.orig = ValueError("no")
    assert str(explain("memory:", error)) == "the ledger memory: failed: no; see the cause below"


def test_a_failure_that_is_told_already_stays_as_it_is_and_says_of_which_ledger_it_is():
    own, others = LedgerError("it is gone for hunter2"), LedgerError("no", url="sqlite:///b.db")
    assert (explain(SERVER, own), explain(SERVER, others)) == (own, others)
    assert (str(own), own.data["url"]) == ("it is gone for ***", "postgresql+psycopg://ada:***@db/trips")
    assert others.data["url"] == "sqlite:///b.db"


def test_only_a_ledger_whose_file_was_taken_away_is_gone():
    assert is_gone(LedgerError("removed", gone=True))
    assert not is_gone(LedgerError("full"))
    assert not is_gone(OSError("removed"))


@pytest.mark.parametrize(("flag", "said"), [(os.ST_RDONLY, True), (os.ST_RDONLY | 8, True), (8, False), (None, False)])
def test_a_file_system_that_is_mounted_read_only_is_told_where_the_system_says_so(tmp_path, monkeypatch, flag, said):
    if flag is None:
        monkeypatch.delattr(os, "statvfs")
    else:
        monkeypatch.setattr(os, "statvfs", lambda _folder: SimpleNamespace(f_flag=flag))
    told = str(explain(f"sqlite:///{tmp_path}/trip.db", OSError("no")))
    assert (f"{tmp_path} is on a file system that is mounted read-only" in told) == said


def test_a_folder_that_may_not_be_entered_is_told_and_one_that_cannot_be_looked_at_is_left(tmp_path, monkeypatch):
    def refused(_folder):
        raise error

    monkeypatch.setattr(os, "statvfs", refused)
    error = PermissionError(13, "no")
    assert f"this user may not enter the folder {tmp_path}: change" in str(
        explain(f"sqlite:///{tmp_path}/trip.db", RuntimeError("unable to open database file"))
    )
    error = OSError(5, "no")
    assert str(explain(f"sqlite:///{tmp_path}/trip.db", RuntimeError("unable to open database file"))).endswith(
        "; see that its folder is there and may be written, or name another file"
    )


def test_what_may_be_written_is_not_blamed(tmp_path):
    (tmp_path / "trip.db").touch()
    told = explain(f"sqlite:///{tmp_path}/trip.db", RuntimeError("unable to open database file"))
    assert str(told).endswith("; see that its folder is there and may be written, or name another file")
    assert str(explain("sqlite://", OSError("full"))).endswith("; see the cause below")


@pytest.mark.parametrize("end", ["", "-wal", "-shm"])
def test_each_file_of_a_ledger_that_may_not_be_written_is_named(tmp_path, monkeypatch, end):
    for each in ("", "-wal", "-shm"):
        (tmp_path / f"trip.db{each}").touch()
    wrong = tmp_path / f"trip.db{end}"
    access = os.access
    monkeypatch.setattr(os, "access", lambda file, mode: file != wrong and access(file, mode))
    told = explain(f"sqlite:///{tmp_path}/trip.db", RuntimeError("attempt to write a readonly database"))
    assert str(told).endswith(f"; this user may not write {wrong}: change its permissions, or name another file")


# ---- passwords


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("postgresql://ada:hunter2@db/x", "postgresql://ada:***@db/x"),
        ("postgresql://ada:hun@ter2@db/x", "postgresql://ada:***@db/x"),
        ("postgresql://ada:hun?ter2@db/x?a=b", "postgresql://ada:***@db/x?a=b"),
        ("postgresql://ada:hun/ter2@db/x", "postgresql://ada:***@db/x"),
        ("ada:hunter2@db/x", "ada:***@db/x"),
        ("postgresql://ada@corp:hunter2@db/x", "postgresql://ada@corp:***@db/x"),
        ("postgresql://ada@corp:hun?ter2@db/x?a=b", "postgresql://ada@corp:***@db/x?a=b"),
        ("postgresql://corp/ada:hunter2@db/x", "postgresql://corp/ada:***@db/x"),
        ("postgresql:///ada:hunter2@db/x", "postgresql:///ada:***@db/x"),
        ("postgresql//ada:hunter2@db/x", "postgresql//ada:***@db/x"),
        ("//ada:hunter2@db/x", "//ada:***@db/x"),
        ("postgresql://ada@db:5432/x?user=a@b", "postgresql://ada@db:5432/x?user=a@b"),
        ("postgresql://ada:hunter2", "postgresql://ada:***"),
        ("postgresql://ada:2hunter/x?a=b", "postgresql://ada:***"),
        ("postgresql://ada:hun?ter2", "postgresql://ada:***"),
        ("postgresql://ada:hunter2/x?user=a@b", "postgresql://ada:***"),
        ("postgresql://ada:12:hunter2", "postgresql://ada:***"),
        ("postgresql://ada@db:hunter2/x", "postgresql://ada@db:***"),
        ("postgresql://[::1]:hunter2/x", "postgresql://[::1]:***"),
        ("postgresql://:hunter2", "postgresql://:***"),
        ("postgresql:///ada:hunter2", "postgresql:///ada:***"),
        ("postgresql:/ada:hunter2", "postgresql:/ada:***"),
        ("postgresql//ada:hunter2", "postgresql//ada:***"),
        ("postgresql:ada:hunter2", "postgresql:***"),
        ("sqlite://ada:hunter2", "sqlite://ada:***"),
        ("//ada:hunter2", "//ada:***"),
        ("ada:hunter2", "ada:***"),
        ("sqlite:////home/a:b@c/x.db", "sqlite:////home/a:b@c/x.db"),
        ("postgresql://ada@db/x?password=hunter2&a=b", "postgresql://ada@db/x?password=***&a=b"),
        ("postgresql://db/x?user=a@b&password=hunter2", "postgresql://db/x?user=a@b&password=***"),
        ("postgresql://ada:hunter2@db/x?user=a@b", "postgresql://ada:***@db/x?user=a@b"),
        ("postgresql://db/x?pass%77ord=hunter2", "postgresql://db/x?pass%77ord=***"),
        (
            "postgresql://db/x?api_key=k1&access-key=k2&private.key=k3&key=4",
            "postgresql://db/x?api_key=***&access-key=***&private.key=***&key=4",
        ),
        ("host=db password = 'it is' user=ada", "host=db password = *** user=ada"),
        ("host=db sslpassword=hunter2 token=t", "host=db sslpassword=*** token=***"),
    ],
)
def test_a_url_is_shown_without_what_is_secret_in_it_and_with_all_else(url, told):
    assert shown(url) == told


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("postgresql://ada:hun%40ter%2B2@db/x", "as hun%40ter%2B2, hun@ter+2"),
        ("postgresql://db/x?password=hun+ter2", "as hun+ter2, hun ter2, hun%20ter2"),
        ("host=db password='hunter \\'2'", "as 'hunter \\'2', hunter '2"),
        ("postgresql://ada:longer@part@db/x", "as longer@part, longer, part, longer%40part"),
        ("postgresql://ada:long\\er@db/x", "as long\\er, long\\\\er, long%5Cer"),
    ],
)
def test_a_password_is_taken_out_of_a_text_however_it_is_written_there(url, text):
    assert set(without_secrets(url, text).removeprefix("as ").split(", ")) == {"***"}


@pytest.mark.parametrize(("secret", "left"), [("abc", "xabcx ***"), ("abcd", "x***x ***")])
def test_a_password_of_four_characters_is_looked_for_within_words_and_a_shorter_one_is_not(secret, left):
    assert without_secrets(f"postgresql://ada:{secret}@db/x", f"x{secret}x {secret}") == left


class Connection:
    """What a driver keeps: it knows how it was opened."""

    def __init__(self, opened):
        self.opened = opened

    def __repr__(self):
        return "a connection"


def test_an_error_loses_its_passwords_wherever_it_keeps_them_and_nothing_else():
    error = RuntimeError("hunter2", b"hunter2", 7, None, ("hunter2", ["hunter2", 1]), {"dsn": "hunter2", "n": 2})
    kept, safe = Connection("hunter2"), Connection("nothing")
    error.connection, error.other, error.raw = kept, safe, b"x"
    error.add_note("for hunter2")
    error.orig = ValueError("orig hunter2")
    error.__cause__ = KeyError("hunter2")
    error.__cause__.__context__ = error  # behind itself
    group = ExceptionGroup("both hunter2", [error, OSError(5, "hunter2")])
    withhold(SERVER, group)
    assert error.args == ("***", b"***", 7, None, ("***", ["***", 1]), {"dsn": "***", "n": 2})
    assert (error.connection, error.other, error.raw, error.__notes__) == (None, safe, b"x", ["for ***"])
    assert (error.orig.args, error.__cause__.args, group.exceptions[1].args) == (("orig ***",), ("***",), (5, "***"))
    assert "hunter2" not in "".join(traceback.format_exception(error.orig))


def test_an_error_of_a_ledger_without_a_password_is_left_as_it_is():
    error = RuntimeError("hunter2")
    error.add_note("ada")
    withhold("postgresql://ada@db/x", error)
    assert (error.args, error.__notes__) == (("hunter2",), ["ada"])
