"""A later process knows of each command whether it never began, still runs, was cut short, or how it ended."""

from __future__ import annotations

import os
import stat
import subprocess
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rooms.adapters import run

from settlemark.testing import die, in_child
from settlemark_adapters._marks import Marks, StillRunning, Told, _told

KEY = "t#1/0"


@pytest.fixture
def marks(tmp_path):
    return Marks(tmp_path / "marks", keep=60)


def ran(mark, text, *, undo=False, **options):
    return run(
        mark.wrapped(["/bin/sh", "-c", text], undo=undo),
        where=mark.path.parent,
        environment={"PATH": "/usr/bin:/bin"},
        timeout=10,
        most=100,
        inherited=(mark.fd,),
        **options,
    )


def test_what_never_began_is_not_there_and_nothing_is_made_by_asking(marks, tmp_path):
    assert marks.told(KEY) == Told()
    assert list(tmp_path.iterdir()) == []


def test_the_exit_status_is_written_by_the_command_itself(marks):
    with marks.held(KEY) as mark:
        mark.begin()
        assert ran(mark, "echo said; exit 3") == {"exit_code": 3, "stdout": "said\n", "stderr": "", "truncated": False}
        assert marks.told(KEY).running
    assert marks.told(KEY) == Told(began=True, status=3)


def test_its_arguments_are_handed_on_as_they_are(marks):
    with marks.held(KEY) as mark:
        words = ["printf", "%s|", "a b", "$(id)", "'", "", "-n"]
        done = subprocess.run(mark.wrapped(words), capture_output=True, text=True, check=True)
    assert done.stdout == "a b|$(id)|'||-n|"


def test_while_it_is_held_nobody_else_gets_it(marks):
    with marks.held(KEY), marks.held("t#1/1"), pytest.raises(StillRunning) as refused, marks.held(KEY):
        pass
    assert refused.value.key == KEY


def test_one_whose_starter_died_goes_on_and_its_end_is_known(marks, tmp_path):
    go = tmp_path / "go"
    os.mkfifo(go)

    def play(_tell):
        with marks.held(KEY) as mark:
            mark.begin()
            words = mark.wrapped(["/bin/sh", "-c", f"read line <{go}; exit 4"])
            subprocess.Popen(words, pass_fds=(mark.fd,), stdout=subprocess.DEVNULL, start_new_session=True)
            die()

    assert in_child(play).killed
    assert marks.told(KEY) == Told(began=True, running=True)
    with pytest.raises(StillRunning), marks.held(KEY):
        pass
    go.write_text("\n")
    while marks.told(KEY).running:  # it ends by itself: nobody here is its parent
        threading.Event().wait(0.001)
    assert marks.told(KEY) == Told(began=True, status=4)


def test_one_that_is_killed_was_cut_short(marks):
    with marks.held(KEY) as mark:
        mark.begin()
        subprocess.run(mark.wrapped(["/bin/sh", "-c", "kill -9 $PPID"]), check=False, capture_output=True)
    assert marks.told(KEY) == Told(began=True, status=None)


def test_an_undo_is_known_until_it_begins_anew(marks):
    with marks.held(KEY) as mark:
        mark.begin()
        ran(mark, "true")
        ran(mark, "exit 1", undo=True)
        assert mark.told() == Told(began=True, status=0)
        ran(mark, "true", undo=True)
        assert mark.told() == Told(began=True, status=0, undone=True)
        mark.begin()
        assert mark.told() == Told(began=True)


@given(st.lists(st.sampled_from(["begun", "undone 0", "undone 1", "0", "1", "137"]), max_size=8))
def test_the_last_try_counts(lines):
    told = _told("".join(f"{line}\n" for line in lines))
    tries = "\n".join(lines).split("begun")
    assert told.began == (len(tries) > 1)
    last = tries[-1].split("\n")
    statuses = [int(line) for line in last if line.isdigit()]
    undos = [line for line in last if line.startswith("undone")]
    assert told.status == (statuses[-1] if statuses else None)
    assert told.undone == (bool(undos) and undos[-1] == "undone 0")


def test_no_git_sees_them_and_nobody_else_reads_them(marks, tmp_path):
    with marks.held(KEY) as mark:
        assert stat.S_IMODE(mark.path.stat().st_mode) == 0o600
    assert (tmp_path / "marks" / ".gitignore").read_text() == "*\n"


def test_old_ones_go_and_others_stay(tmp_path):
    marks = Marks(tmp_path, keep=60)
    for key in ("old", "young"):
        with marks.held(key) as mark:
            mark.begin()
        if key == "old":
            os.utime(mark.path, (0, 0))
    again = Marks(tmp_path, keep=60)
    assert (again.told("old"), again.told("young")) == (Told(), Told(began=True))


def test_what_a_power_cut_leaves_of_a_mark_says_nothing(marks):
    with marks.held(KEY) as mark:
        mark.begin()
        mark.path.write_bytes(mark.path.read_bytes() + b"\0\0\xff")
        assert mark.told() == Told(began=True)
    assert marks.told(KEY) == Told(began=True)


def test_no_variable_of_the_environment_is_changed_for_the_command(marks):
    own = {"mark": "m", "word": "w", "code": "c", "PATH": "/usr/bin:/bin"}
    with marks.held(KEY) as mark:
        done = subprocess.run(mark.wrapped(["/usr/bin/env"]), capture_output=True, text=True, check=True, env=own)
    told = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert {name: told[name] for name in own} == own
