"""A process with a DBOS workflow that runs an agent, and dies where it is told to; started again, DBOS recovers it.

Usage: worker.py HOME SIDE AT, where SIDE is "settled" or "stock", and AT a point to die at, or "-".
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from dbos import DBOS, SetWorkflowID
from pydantic_ai import Agent
from pydantic_ai.durable_exec.dbos import DBOSDurability
from tests.integrations.contract.driver import ScriptedCall
from tests.integrations.pydantic_ai.driver import scripted, told

from settlemark import Settlement, current_call, effect
from settlemark.testing import Mailbox, Provider
from settlemark_pydantic_ai import Settled

WORKFLOW = "trip-42"
SCRIPT = [
    [ScriptedCall("reserve", {"city": "Lisbon"}, "1"), ScriptedCall("tell", {"to": "ada@example.com"}, "2")],
    [ScriptedCall("rent", {"city": "Lisbon"}, "3")],
]


def main(home: Path, side: str, at: str) -> None:
    """Run the workflow, or whatever of it DBOS recovers, to its end."""
    world = json.loads((home / "world.json").read_text())
    provider, mailbox = Provider.connect(**world["provider"]), Mailbox.connect(**world["mailbox"])

    def pass_by(point: str) -> None:
        with (home / "points.log").open("a") as log:
            log.write(f"{point}\n")
        if point == at:
            os.kill(os.getpid(), signal.SIGKILL)

    def booking(kind, city):
        call = current_call()
        pass_by(f"before {kind}")
        found = provider.book(kind, key=None if call is None else call.key, trip=WORKFLOW, city=city)
        pass_by(f"after {kind}")
        return {"kind": kind, "id": found["id"]}

    def undo(result):
        provider.cancel(result["kind"], result["id"])

    def booked(kind):
        def probe(key):
            found = provider.probe(key)
            return None if found is None else {"kind": kind, "id": found["id"]}

        return probe

    @effect("reversible", scope="room:/{city}", undo=undo, probe=booked("hotel"))
    def reserve(city: str) -> dict:
        """Reserve a room."""
        return booking("hotel", city)

    @effect("reversible", scope="car:/{city}", undo=undo, probe=booked("car"))
    async def rent(city: str) -> dict:
        """Rent a car."""
        return await asyncio.to_thread(booking, "car", city)

    def sent(to):
        return any(mail["subject"] == WORKFLOW for mail in mailbox.messages()) or None

    @effect("irreversible", scope="mail:/{to}", probe=sent)
    def tell(to: str) -> bool:
        """Send the mail."""
        pass_by("before mail")
        mailbox.send(to, WORKFLOW, "Your room is reserved.")
        pass_by("after mail")
        return True

    settlement = Settlement(f"sqlite:///{home / 'ledger.db'}") if side == "settled" else None
    ours = [] if settlement is None else [Settled(settlement)]
    clerk = Agent(scripted(SCRIPT), name="clerk", tools=[reserve, rent, tell], capabilities=[*ours, DBOSDurability()])

    @DBOS.workflow(name="trip")
    async def trip() -> list:
        return told(await clerk.run("go"))

    DBOS(config={
        "name": "trips", "system_database_url": f"sqlite:///{home / 'dbos.db'}", "run_admin_server": False,
        "application_version": "1", "executor_id": "local", "log_level": "ERROR",
    })  # fmt: skip # a table
    DBOS.launch()
    known = DBOS.list_workflows(workflow_ids=[WORKFLOW])
    if known:
        answers = DBOS.retrieve_workflow(WORKFLOW).get_result(polling_interval_sec=0.02)
    else:
        with SetWorkflowID(WORKFLOW):
            answers = asyncio.run(trip())
    sys.stdout.write(json.dumps({"answers": answers, "recovered": bool(known)}) + "\n")
    DBOS.destroy()
    if settlement is not None:
        settlement.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
