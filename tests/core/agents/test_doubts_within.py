"""An agent inside a call whose process died while a call of it was sent: an equal one is not done in its stead."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from settlemark import InDoubt, Settlement, effect
from settlemark.agents import open_turn, run_sync
from settlemark.hosting import host_of

DIES = """
import sys
from tests.core.agents.test_doubts_within import Desk
Desk(sys.argv[1], sys.argv[2]).play(dies=True)
"""


class Desk:
    """Tools whose acts are lines in a file, and a turn whose call runs an agent: it books in vain, and then again."""

    def __init__(self, url, log):
        self.log = log
        self.settlement = Settlement(url, keep_open=3600)

        @effect("reversible", scope="room:/{at}", undo=lambda at: self.act("undo", at), name="book")
        def book(at):
            raise AssertionError(at)  # the framework runs it

        @effect("idempotent", scope="task:/{name}", name="task")
        def task(name):
            raise AssertionError(name)

        self.book, self.task = host_of(self.settlement).tools.of(book), host_of(self.settlement).tools.of(task)

    def act(self, what, at):
        with Path(self.log).open("a") as file:
            file.write(f"{what} {at}\n")

    def once(self, call_id, act):
        """Have the agent issue one call, and return what it is told."""
        turn = run_sync(open_turn(self.settlement, None, run="trip", resumable=True))
        seat = turn.place(self.book, {"at": "Ada"}, call_id=call_id)
        error = None
        try:
            return run_sync(turn.perform(seat, act, {"at": "Ada"}, may_wait=False))
        except (ValueError, InDoubt) as raised:
            error = raised
            return raised
        finally:
            run_sync(turn.leave(seat, failed=None if error is None else str(error)))

    def play(self, *, dies):
        """Play the turn, and return what the agent inside was told."""
        told = []

        def full():
            raise ValueError("no room")

        def book():
            self.act("book", "Ada")
            if dies:
                os.kill(os.getpid(), signal.SIGKILL)
            return "booked"

        def agent():
            told.append(self.once("a", full if dies else book))
            if dies:
                told.append(self.once("b", book))

        turn = run_sync(open_turn(self.settlement, "trip/1", run="trip", resumable=True))
        seat = turn.place(self.task, {"name": "it"}, call_id="t")
        run_sync(turn.perform(seat, agent, {"name": "it"}))
        run_sync(turn.leave(seat))
        return told


def test_a_call_that_equals_one_in_doubt_is_not_done_in_its_stead(tmp_path):
    url, log = f"sqlite:///{tmp_path / 'ledger.db'}", tmp_path / "log"
    died = subprocess.run([sys.executable, "-c", DIES, url, str(log)], check=False)
    assert (died.returncode, log.read_text()) == (-signal.SIGKILL, "book Ada\n")

    desk = Desk(url, str(log))
    with desk.settlement:
        (told,) = desk.play(dies=False)
        assert isinstance(told, InDoubt)
        assert [left.tool for left in desk.settlement.residue()] == ["book"]
    assert log.read_text() == "book Ada\n"
