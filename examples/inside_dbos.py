# /// script
# requires-python = ">=3.11"
# dependencies = ["settlemark[demo]", "dbos>=3"]
# ///
"""A DBOS workflow whose steps settle: the workflow's id names the decision, the ledger's row decides.

A durable engine promises that a workflow ends, not that a step runs once. It records a step's outcome
*after* the step, so a process that is killed in between leaves an effect which the engine knows nothing
of, and on recovery the step runs again: a second booking, a second mail. The window is inside the step.

So inside the step stands a settlemark transaction, and two names tie the layers together:

* the *run* is the workflow's id: the engine gives the same one to every recovery of the same work;
* the *transaction* is the run and the step, `trip-42/reserve`: the decision, whatever its arguments are.

Entered again, that name answers from the ledger's row. Committed: the recorded result, and nothing
runs. Cut off before an outcome was on record: a tool that sends its key (`keyed=True`) is repeated
under the very same key, one that can be asked (`probe=`) is asked, and what can be neither is named
as in doubt and not guessed. Whether DBOS knows of the step's end plays no part in it.

So, with DBOS's own ways to run work again:

* *recovery* and *resume* keep the workflow's id: what happened once stays what happened;
* *rewind* keeps it too: the steps run again, and are answered from the ledger. New effects need a fork;
* *fork* is a new workflow id, so another decision: the steps it runs act anew, under keys of their own
  (what it copies from before its first step is DBOS's record, and runs nothing);
* *retries* of a step (`retries_allowed=True`) enter its name again: the failed attempt was undone, and
  the next one has keys of its own;
* *cancel* keeps a workflow from its next step, but a running step that is not `preemptible` goes on to
  its end, which DBOS does not record. `cancel` below puts up the run's fence too: what the open
  transaction did is undone, nothing held leaves, and a resume acts no more.

What to mind: a step that is called in a loop puts the round into its name (`reserve-2`). A step returns
plain values, so it takes the result of a held call after its `with` block. DBOS recovers only workflows
of its own `application_version`. A child workflow has an id of its own, thus a run and a fence of its own.
In async workflows it is `async with`, and the rest is the same.

Run it with `python examples/inside_dbos.py`. It books a trip in a process that dies right after the hotel
was booked, starts another, and tells what the hotel's and the mail server's own logs say:

    the first process was killed after the hotel had booked
    the second one finished: room hotel-1
    the hotel's log: booked, replayed
    the mail server's log: 1 mail
    trip-42/reserve committed.
      1. reserve on hotel:/Lisbon/trip-42: confirmed

    trip-42/tell committed.
      1. tell on mail:/ada@example.com: confirmed
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from dbos import DBOS, SetWorkflowID

from settlemark import Opening, Settlement, current_call, effect, inverse
from settlemark.testing import Mailbox, Provider

# ---- the tools: plain functions with a declaration, which know nothing of an engine


class Tools(NamedTuple):
    """What the agent can do."""

    reserve: Callable[..., dict[str, Any]]
    tell: Callable[..., dict[str, str]]


def tools(provider: Provider, mailbox: Mailbox) -> Tools:
    """Return the tools that act on these counterparties.

    Called outside of a transaction they have no key to send: then they are what any tool is.
    """

    def key() -> str | None:
        call = current_call()
        return None if call is None else call.key

    def message_id(key: str) -> str:
        return f"<{hashlib.sha256(key.encode()).hexdigest()[:32]}@example.com>"

    def find_mail(key: str) -> dict[str, str] | None:
        sent = (mail for mail in mailbox.messages() if mail["message_id"] == message_id(key))
        return next(({name: mail[name] for name in ("to", "subject", "message_id")} for mail in sent), None)

    def cancel_room(booking: str) -> None:
        provider.cancel("hotel", booking)

    # The hotel honours keys, so a repeat under the same key is the first booking.
    @effect(
        "reversible", scope="hotel:/{city}/{trip}", undo=inverse(cancel_room, booking="id"), keyed=True, name="reserve"
    )
    def reserve(trip: str, city: str) -> dict[str, Any]:
        return provider.book("hotel", key=key(), trip=trip, city=city)

    # A mail server knows no keys: it is asked. And a mail is not taken back: it waits for the commit.
    @effect("irreversible", scope="mail:/{to}", probe=find_mail, name="tell")
    def tell(trip: str, to: str) -> dict[str, str]:
        sent_under = key()
        return mailbox.send(
            to, trip, "Your room is reserved.", message_id=None if sent_under is None else message_id(sent_under)
        )

    return Tools(reserve, tell)


# ---- the workflow: each step is one transaction


def settled(settlement: Settlement, step: str) -> Opening:
    """Return the transaction of a step of the workflow that runs here."""
    workflow = DBOS.workflow_id
    assert workflow is not None
    # `run=` stands beside the name because a workflow's id may hold a slash.
    return settlement.transaction(f"{workflow}/{step}", run=workflow)


def register(settlement: Settlement, tools: Tools) -> Callable[[str, str], dict[str, Any]]:
    """Return the workflow `trip(city, to)`, registered with DBOS: do so before DBOS is launched."""

    @DBOS.step(name="reserve")
    def reserve(city: str) -> dict[str, Any]:
        with settled(settlement, "reserve") as transaction:
            room: dict[str, Any] = transaction.call(tools.reserve, trip=DBOS.workflow_id, city=city)
            return room

    @DBOS.step(name="tell")
    def tell(to: str) -> dict[str, str]:
        with settled(settlement, "tell") as transaction:
            mail = transaction.call(tools.tell, trip=DBOS.workflow_id, to=to)
        receipt: dict[str, str] = mail.result()  # it left when the block ended
        return receipt

    @DBOS.workflow(name="trip")
    def trip(city: str, to: str) -> dict[str, Any]:
        room = reserve(city)
        tell(to)
        return room

    return trip


def launch(home: Path) -> None:
    """Launch DBOS on a system database in `home`; what an ended process left there is recovered."""
    DBOS(
        config={
            "name": "trips",
            "system_database_url": f"sqlite:///{home / 'dbos.db'}",
            "application_version": "1",
            "log_level": "ERROR",
        }
    )
    DBOS.launch()


def cancel(settlement: Settlement, workflow: str) -> None:
    """End a workflow in both layers; whatever it did not settle is undone when this returns.

    DBOS first, so that it tells the workflow as cancelled and not as failed. Killed in between, do it
    again: both may be repeated.
    """
    DBOS.cancel_workflow(workflow)
    settlement.cancel(workflow)


# ---- the story


def work(home: Path, provider: Provider, mailbox: Mailbox) -> dict[str, Any]:
    """Book the trip `trip-42`, or go on with it: the same id is the same work."""
    with Settlement(f"sqlite:///{home / 'ledger.db'}") as settlement:
        trip = register(settlement, tools(provider, mailbox))
        launch(home)
        with SetWorkflowID("trip-42"):
            handle = DBOS.start_workflow(trip, "Lisbon", "ada@example.com")
        room = handle.get_result()
        DBOS.destroy()
        return room


class DiesAfterBooking(Provider):
    """A provider whose client is killed before it can tell anybody that it was served."""

    def book(self, kind: str, **request: Any) -> dict[str, Any]:
        """Book, and die."""
        super().book(kind, **request)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


def main() -> None:
    """Tell the story above."""
    with tempfile.TemporaryDirectory() as home, Provider() as provider, Mailbox() as mailbox:
        addresses = json.dumps([provider.address, mailbox.address])
        process = [sys.executable, __file__, home, addresses]
        lines: list[str] = []
        died = subprocess.run([*process, "die"], check=False).returncode  # noqa: S603 - this very script
        if died == -signal.SIGKILL:
            lines.append("the first process was killed after the hotel had booked")
        second = subprocess.run(process, check=True, capture_output=True, text=True)  # noqa: S603 - likewise
        lines.append(f"the second one finished: room {second.stdout.strip()}")
        lines.append(f"the hotel's log: {', '.join(entry['event'] for entry in provider.log())}")
        lines.append(f"the mail server's log: {len(mailbox.messages())} mail")
        with Settlement(f"sqlite:///{Path(home) / 'ledger.db'}") as settlement:
            lines.append(settlement.show())
        sys.stdout.write("\n".join(lines) + "\n")


def one_process(home: str, addresses: str, *how: str) -> None:
    """Be one of the two processes of the story."""
    desk, box = json.loads(addresses)
    provider = (DiesAfterBooking if how == ("die",) else Provider).connect(**desk)
    sys.stdout.write(work(Path(home), provider, Mailbox.connect(**box))["id"] + "\n")


if __name__ == "__main__":
    main() if len(sys.argv) == 1 else one_process(*sys.argv[1:])
