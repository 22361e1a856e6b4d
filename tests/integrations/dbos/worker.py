"""A process with DBOS in it: runs the example's workflow, and others on the same tools, as it is told.

A workflow can be told to stand still at one point, until it is released or its process is killed.
"""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from pathlib import Path

from dbos import DBOS, SetWorkflowID
from dbos._sys_db import SystemDatabase
from examples.inside_dbos import cancel, launch, register, settled, tools
from tests.rooms.testing import attend

from settlemark import Cancelled, Settlement, effect
from settlemark.testing import Mailbox, Provider

SECONDS = 30.0


class Gates:
    """Where workflows stand still: each at most at one point."""

    def __init__(self):
        self._changed = threading.Condition()
        self._points = {}
        self._standing = set()

    def close(self, workflow, point):
        self._points[workflow] = point

    def pass_by(self, point):
        workflow = DBOS.workflow_id
        with self._changed:
            if self._points.get(workflow) == point:
                self._standing.add(workflow)
                self._changed.notify_all()
                self._changed.wait_for(lambda: workflow not in self._points)

    def until_at(self, workflow):
        with self._changed:
            assert self._changed.wait_for(lambda: workflow in self._standing, SECONDS), f"{workflow} never came"

    def open(self, workflow):
        with self._changed:
            del self._points[workflow]
            self._changed.notify_all()


def gated(gates, provider, mailbox):
    """The counterparties, with a point before and after each act."""

    class GatedProvider(Provider):
        def book(self, kind, **request):
            gates.pass_by("before the booking")
            booking = super().book(kind, **request)
            gates.pass_by("after the booking")
            return booking

    class GatedMailbox(Mailbox):
        def send(self, to, subject, body, **options):
            gates.pass_by("before the mail")
            receipt = super().send(to, subject, body, **options)
            gates.pass_by("after the mail")
            return receipt

    return GatedProvider.connect(**provider), GatedMailbox.connect(**mailbox)


def gate_records(gates):
    """Put a point before DBOS records how a step ended."""
    record = SystemDatabase.record_operation_result

    def recording(database, result, *arguments, **options):
        gates.pass_by(f"before DBOS knows of {result['function_name'].split()[-1]}")
        return record(database, result, *arguments, **options)

    SystemDatabase.record_operation_result = recording


def register_plain(tools):
    """The control: the same workflow on the same tools, with DBOS alone."""

    @DBOS.step(name="plain reserve")
    def reserve(city):
        return tools.reserve(trip=DBOS.workflow_id, city=city)

    @DBOS.step(name="plain tell")
    def tell(to):
        return tools.tell(trip=DBOS.workflow_id, to=to)

    @DBOS.workflow(name="plain trip")
    def trip(city, to):
        room = reserve(city)
        tell(to)
        return room

    return trip


def register_awaited(settlement, tools):
    """The example's workflow on an event loop."""

    @DBOS.step(name="awaited reserve")
    async def reserve(city):
        async with settled(settlement, "reserve") as tx:
            return await tx.call(tools.reserve, trip=DBOS.workflow_id, city=city)

    @DBOS.step(name="awaited tell")
    async def tell(to):
        async with settled(settlement, "tell") as tx:
            mail = await tx.call(tools.tell, trip=DBOS.workflow_id, to=to)
        return mail.result()

    @DBOS.workflow(name="awaited trip")
    async def trip(city, to):
        room = await reserve(city)
        await tell(to)
        return room

    return trip


def register_retried(settlement, tools, provider):
    """A step of two effects, which DBOS tries again when it failed."""

    @effect("reversible", scope="car:/{trip}", undo=lambda result: provider.cancel("car", result["id"]))
    def rent(trip):
        return provider.book("car", trip=trip)

    @DBOS.step(name="retried reserve", retries_allowed=True, interval_seconds=0.01)
    def reserve(city):
        with settled(settlement, "reserve") as tx:
            room = tx.call(tools.reserve, trip=DBOS.workflow_id, city=city)
            tx.call(rent, trip=DBOS.workflow_id)
        return room

    @DBOS.workflow(name="retried trip")
    def trip(city, to):
        return reserve(city)

    return trip


def register_blind(settlement, mailbox):
    """A mail that has no key and cannot be asked about."""

    @effect("irreversible", scope="mail:/{to}")
    def shout(trip, to):
        mailbox.send(to, trip, "Your room is reserved.")

    @DBOS.step(name="blind tell")
    def tell(to):
        with settled(settlement, "tell") as tx:
            tx.call(shout, trip=DBOS.workflow_id, to=to)

    @DBOS.workflow(name="blind trip")
    def trip(city, to):
        tell(to)

    return trip


class Worker:
    def __init__(self, home):
        world = json.loads((home / "world.json").read_text())
        self.gates = Gates()
        self.settlement = Settlement(f"sqlite:///{home / 'ledger.db'}")
        provider, mailbox = gated(self.gates, **world)
        both = tools(provider, mailbox)
        self.trips = {
            "settled": register(self.settlement, both),
            "plain": register_plain(both),
            "awaited": register_awaited(self.settlement, both),
            "retried": register_retried(self.settlement, both, provider),
            "blind": register_blind(self.settlement, mailbox),
        }
        gate_records(self.gates)
        launch(home)
        self.cancelling = {}

    def start(self, workflow, side, stand_at=None):
        """Start a workflow; return when it stands at its point."""
        if stand_at is not None:
            self.gates.close(workflow, stand_at)
        with SetWorkflowID(workflow):
            DBOS.start_workflow(self.trips[side], "Lisbon", f"{workflow}@example.com")
        if stand_at is not None:
            self.gates.until_at(workflow)

    def end(self, workflow):
        """How a workflow ended: its status, and its result or its error's name."""
        handle = DBOS.retrieve_workflow(workflow)
        try:
            result = handle.get_result(polling_interval_sec=0.02)
        except Exception as error:
            result = type(error).__name__
        return [handle.get_status().status, result]

    def cancel_while_it_stands(self, workflow, side):
        """Cancel a workflow that stands in a step, and let the step go on once it is cancelled."""
        if side == "plain":
            DBOS.cancel_workflow(workflow)
            self.gates.open(workflow)
            return
        cancelling = threading.Thread(target=cancel, args=(self.settlement, workflow))
        cancelling.start()
        with suppress(Cancelled):
            while True:  # until the fence is up
                with self.settlement.transaction(f"{workflow}/fence", run=workflow):
                    pass
        self.gates.open(workflow)
        cancelling.join(SECONDS)
        assert not cancelling.is_alive()

    def fork(self, workflow, step):
        return DBOS.fork_workflow(workflow, step).workflow_id

    def rewind(self, workflow):
        DBOS.rewind_workflow(workflow)

    def resume(self, workflow):
        DBOS.resume_workflow(workflow)


def main(home: str) -> None:
    """Do what the parent says until it is gone."""
    worker = Worker(Path(home))
    attend({}, lambda message: {"is": getattr(worker, message.pop("do"))(**message)})
