"""What a command prints is whole wherever it goes, and its exit status says whether it could be printed."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from settlemark import Settlement, effect

COMMANDS = ("show", "residue", "export")
TABLES = ("show", "residue")


@pytest.fixture
def url(tmp_path):
    """A ledger with something for each command to tell."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"

    @effect("reversible", scope="room:/{hotel}", undo=lambda: 1 / 0)
    def reserve(hotel):
        return hotel

    @effect("irreversible", scope="mail:/{to}", approve=True)
    def confirm(to):
        return to

    with Settlement(url, on_failure="continue") as settlement:
        with pytest.raises(ValueError, match="no flight"), settlement.transaction("trip-é/undone") as tx:
            tx.call(reserve, hotel="Ada")
            raise ValueError("no flight left on monday")
        with settlement.transaction("trip-é/waiting") as tx:
            tx.call(confirm, to="ada@example.com")
    return url


def said(*args, out=subprocess.PIPE, **environment):
    given = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    return subprocess.run(
        [sys.executable, "-m", "settlemark", *args],
        env={**given, "PYTHONIOENCODING": "utf-8", **environment},
        stdout=out,
        stderr=subprocess.PIPE,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_cannot_be_printed_exits_with_2_whatever_it_found(url, command):
    with open("/dev/full", "wb") as full:  # noqa: PTH123 - a device
        failed = said(command, url, out=full)
    told = b"settlemark: [Errno 28] No space left on device: not all of it could be printed\n"
    assert (failed.returncode, failed.stderr) == (2, told)


STATUS = {"show": 0, "residue": 1, "export": 0, "in-doubt": 0}
SHAPES = [
    *(
        (command, *shape)
        for command in STATUS
        for shape in ((), ("--json",))
        if (command, *shape) != ("export", "--json")
    ),
    *((command, "--table") for command in TABLES),
]


@pytest.mark.parametrize("command", SHAPES, ids=" ".join)
def test_a_reader_who_closes_the_pipe_changes_no_exit_status(url, command):
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as gone:
        cut = said(command[0], url, *command[1:], out=gone)
    assert (cut.returncode, cut.stderr) == (STATUS[command[0]], b"")


@pytest.mark.parametrize("command", SHAPES, ids=" ".join)
@pytest.mark.parametrize("closed", [">&-", ">&- 2>&- <&-"])
def test_a_command_whose_output_is_closed_says_by_its_status_what_it_found(url, command, closed):
    asked = [sys.executable, "-m", "settlemark", command[0], url, *command[1:]]
    silent = subprocess.run(["sh", "-c", f'"$@" {closed}', "sh", *asked], capture_output=True, check=False, timeout=120)
    assert (silent.returncode, silent.stdout, silent.stderr) == (STATUS[command[0]], b"", b"")


@pytest.mark.parametrize("columns", ["0", "80"])
def test_a_table_that_is_too_wide_breaks_no_word(url, columns):
    shown = said("show", url, "--table", COLUMNS=columns).stdout.decode()
    assert [word for word in ("transaction: trip-é/undone", "state: aborted", "ValueError") if word not in shown] == []


@pytest.mark.parametrize("command", TABLES)
def test_a_table_is_shown_where_only_ascii_can_be(url, command):
    shown = said(command, url, "--table", PYTHONIOENCODING="ascii")
    assert (b"Traceback" in shown.stderr, bool(shown.stdout)) == (False, True)


@pytest.mark.parametrize("command", [("show", "--json"), ("residue", "--json"), ("export",)], ids=" ".join)
@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_json_is_whole_in_utf_8_whatever_the_terminals_encoding(url, command, encoding):
    found = said(command[0], url, *command[1:], PYTHONIOENCODING=encoding)
    texts = found.stdout.decode().splitlines() if command == ("export",) else [found.stdout.decode()]
    assert ("trip-é" in str([json.loads(text) for text in texts]), b"Traceback" in found.stderr) == (True, False)


@pytest.mark.parametrize("command", ["show"])
def test_more_than_a_store_can_count_is_no_number_of_transactions(url, command):
    shown = said(command, url, "--last", "9" * 30)
    assert (shown.returncode, b"Traceback" in shown.stderr) == (2, False)
