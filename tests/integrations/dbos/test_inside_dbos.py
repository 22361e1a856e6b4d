"""The example's workflow in a process that is killed with SIGKILL, beside the same tools as plain DBOS steps.

What happened is read from the counterparties' own logs.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace

import pytest
from tests.rooms.testing import ChildServer

from settlemark.ledger import open_ledger
from settlemark.testing import Mailbox, Provider

EXAMPLE = Path(__file__).parents[3] / "examples" / "inside_dbos.py"

# Where the process is killed, and what DBOS alone makes of it: how often it booked and mailed.
POINTS = {
    "before the booking": (1, 1),
    "after the booking": (2, 1),
    "before DBOS knows of reserve": (2, 1),
    "before the mail": (1, 1),
    "after the mail": (1, 2),
    "before DBOS knows of tell": (1, 2),
}
at_each_point = pytest.mark.parametrize("point", POINTS)


class Town:
    """The counterparties, and the process that acts on them; `world` reads their logs."""

    def __init__(self, home):
        self.home = home
        self.provider, self.mailbox = Provider(), Mailbox()
        addresses = {"provider": self.provider.address, "mailbox": self.mailbox.address}
        (home / "world.json").write_text(json.dumps(addresses))
        self.worker = None

    def begin(self):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [*sys.path, str(EXAMPLE.parents[1])])))
            self.worker = ChildServer("tests.integrations.dbos.worker", self.home)

    def kill(self):
        os.kill(self.worker.pid, signal.SIGKILL)
        self.worker.close()

    def close(self):
        for child in (self.worker, self.provider, self.mailbox):
            if child is not None:
                child.close()

    def do(self, what, **arguments):
        return self.worker.ask({"do": what, **arguments})["is"]

    def run(self, workflow, side):
        self.do("start", workflow=workflow, side=side)
        return self.do("end", workflow=workflow)

    def bookings(self, workflow):
        return [
            f"{entry['event']} {entry['kind']}"
            for entry in self.provider.log()
            if (entry["request"] or {}).get("trip") == workflow
        ]

    def keys(self, workflow):
        """Return the keys of what reached the provider, without the ledger's id that each begins with."""
        found = [entry["key"] for entry in self.provider.log() if entry["request"]["trip"] == workflow]
        return [key and key.partition(".")[2] for key in found]

    def mails(self, workflow):
        return sum(mail["subject"] == workflow for mail in self.mailbox.messages())

    def world(self, workflow):
        return self.bookings(workflow), self.mails(workflow)

    def known_to_dbos(self):
        """The steps that have a row in DBOS's database."""
        with closing(sqlite3.connect(self.home / "dbos.db")) as database:
            return {
                f"{row[0]}/{row[1]}"
                for row in database.execute("SELECT workflow_uuid, function_name FROM operation_outputs")
            }

    def known_to_the_ledger(self):
        """Every recorded attempt: its state, and the outcomes of its effects."""
        ledger = open_ledger(f"sqlite:///{self.home / 'ledger.db'}", readonly=True)
        try:
            return {
                f"{found.row.name}#{found.row.attempt}": (str(found.state), [str(e.outcome) for e in found.effects])
                for found in ledger.read(lambda book: book.transactions())
            }
        finally:
            ledger.close()


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    """Every workflow stood at its point when the process was killed; another process has recovered them."""
    town = Town(tmp_path_factory.mktemp("town"))
    try:
        town.begin()
        for side in ("settled", "plain"):
            for point in POINTS:
                town.do("start", workflow=f"{side} {point}", side=side, stand_at=point)
        town.do("start", workflow="blind", side="blind", stand_at="after the mail")
        town.kill()
        town.after_the_kill = SimpleNamespace(dbos=town.known_to_dbos(), ledger=town.known_to_the_ledger())
        town.begin()
        yield town
    finally:
        town.close()


# -- killed, and recovered ---------------------------------------------------------------------------------


@at_each_point
def test_after_a_kill_and_recovery_there_is_one_booking_and_one_mail(town, point):
    workflow = f"settled {point}"

    status, room = town.do("end", workflow=workflow)

    repeated = ["replayed hotel"] if point == "after the booking" else []
    assert town.world(workflow) == (["booked hotel", *repeated], 1)
    assert set(town.keys(workflow)) == {f"{workflow}/reserve#1/0"}
    assert (status, room["request"]["trip"], room["status"]) == ("SUCCESS", workflow, "confirmed")
    assert {name: found for name, found in town.known_to_the_ledger().items() if name.startswith(f"{workflow}/")} == {
        f"{workflow}/{step}#1": ("committed", ["confirmed"]) for step in ("reserve", "tell")
    }


@at_each_point
def test_dbos_alone_repeats_what_it_had_not_recorded(town, point):
    workflow = f"plain {point}"

    status, _ = town.do("end", workflow=workflow)

    booked, mailed = POINTS[point]
    assert town.world(workflow) == (["booked hotel"] * booked, mailed)
    assert status == "SUCCESS"


@pytest.mark.parametrize(
    ("point", "step", "outcome"),
    [
        ("before the booking", "reserve", "intended"),
        ("after the booking", "reserve", "intended"),
        ("before DBOS knows of reserve", "reserve", "confirmed"),
        ("before the mail", "tell", "queued"),
        ("after the mail", "tell", "queued"),
        ("before DBOS knows of tell", "tell", "confirmed"),
    ],
)
def test_the_killed_process_left_a_row_in_the_ledger_and_none_with_dbos(town, point, step, outcome):
    name = f"settled {point}/{step}"

    _, outcomes = town.after_the_kill.ledger[f"{name}#1"]
    assert outcomes == [outcome]
    assert name not in town.after_the_kill.dbos


def test_a_mail_that_has_no_key_and_cannot_be_asked_about_is_in_doubt_and_not_sent_again(town):
    assert town.do("end", workflow="blind") == ["ERROR", "InDoubt"]

    assert town.mails("blind") == 1
    assert town.known_to_the_ledger()["blind/tell#1"] == ("committed", ["unknown"])


# -- run again on purpose ----------------------------------------------------------------------------------


@pytest.mark.parametrize("side", ["settled", "awaited"])
def test_a_rewound_workflow_has_the_same_id_and_is_answered_from_the_ledger(town, side):
    workflow = f"{side} rewound"
    first = town.run(workflow, side)

    town.do("rewind", workflow=workflow)

    assert town.do("end", workflow=workflow) == first
    assert first[0] == "SUCCESS"
    assert town.world(workflow) == (["booked hotel"], 1)


def test_a_workflow_of_dbos_alone_acts_again_when_it_is_rewound(town):
    town.run("plain rewound", "plain")

    town.do("rewind", workflow="plain rewound")

    assert town.do("end", workflow="plain rewound")[0] == "SUCCESS"
    assert town.world("plain rewound") == (["booked hotel"] * 2, 2)


def test_a_fork_is_another_workflow_and_acts_anew_under_its_own_keys(town):
    town.run("forked", "settled")

    fork = town.do("fork", workflow="forked", step=1)

    status, room = town.do("end", workflow=fork)
    assert (status, room["request"]["trip"]) == ("SUCCESS", fork)
    assert fork != "forked"
    assert town.world(fork) == town.world("forked") == (["booked hotel"], 1)
    assert town.keys(fork) == [f"{fork}/reserve#1/0"]


def test_a_fork_from_the_second_step_keeps_the_first_ones_effect_and_does_the_second_anew(town):
    ended = town.run("forked late", "settled")

    fork = town.do("fork", workflow="forked late", step=2)

    assert town.do("end", workflow=fork) == ended
    assert town.world("forked late") == (["booked hotel"], 1)
    assert town.world(fork) == ([], 1)


def test_a_step_that_dbos_tries_again_has_undone_its_failed_attempt(town):
    town.provider.fail("car", "before", trip="retried")

    status, room = town.run("retried", "retried")

    assert town.bookings("retried") == ["booked hotel", "refused car", "cancelled hotel", "booked hotel", "booked car"]
    assert (status, town.provider.get("hotel", room["id"])["status"]) == ("SUCCESS", "confirmed")
    assert [key for key in town.keys("retried") if key is not None] == ["retried/reserve#1/0", "retried/reserve#2/0"]


# -- cancelled ---------------------------------------------------------------------------------------------


def test_a_workflow_cancelled_in_both_layers_leaves_nothing_and_acts_no_more_when_resumed(town):
    workflow = "settled cancelled"
    town.do("start", workflow=workflow, side="settled", stand_at="after the booking")

    town.do("cancel_while_it_stands", workflow=workflow, side="settled")

    nothing = (["booked hotel", "cancelled hotel"], 0)
    assert town.world(workflow) == nothing
    assert town.do("end", workflow=workflow) == ["CANCELLED", "DBOSAwaitedWorkflowCancelledError"]

    town.do("resume", workflow=workflow)
    assert town.do("end", workflow=workflow) == ["ERROR", "Cancelled"]
    assert town.world(workflow) == nothing

    fork = town.do("fork", workflow=workflow, step=1)
    assert town.do("end", workflow=fork)[0] == "SUCCESS"
    assert town.world(fork) == (["booked hotel"], 1)


def test_a_workflow_cancelled_in_dbos_alone_keeps_what_its_step_did_and_repeats_it_when_resumed(town):
    workflow = "plain cancelled"
    town.do("start", workflow=workflow, side="plain", stand_at="after the booking")

    town.do("cancel_while_it_stands", workflow=workflow, side="plain")

    assert town.do("end", workflow=workflow) == ["CANCELLED", "DBOSAwaitedWorkflowCancelledError"]
    assert town.world(workflow) == (["booked hotel"], 0)

    town.do("resume", workflow=workflow)
    assert town.do("end", workflow=workflow)[0] == "SUCCESS"
    assert town.world(workflow) == (["booked hotel"] * 2, 1)


# -- the example itself ------------------------------------------------------------------------------------


def test_the_example_tells_what_its_first_lines_say_it_tells():
    told = subprocess.run(
        [sys.executable, str(EXAMPLE)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )

    promised = EXAMPLE.read_text().split('"""')[1].partition("logs say:\n")[2]
    assert (told.stdout.strip(), told.returncode) == (dedent(promised).strip(), 0), told.stderr
