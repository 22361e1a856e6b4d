"""SIGKILL before and after every statement of a governed transaction: no effect is without its verdict, nor doubled.

The next process has the same policy, or one that denies what was held: then nothing leaves but what was decided before.

`SETTLEMARK_CRASHES=full` kills at every point; else at each third.
"""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from tests.core.crashes.conftest import FULL
from tests.core.crashes.sweep import kill_at_each

from settlemark import UNKNOWN, Denied, Policy, PolicyRule, Refused, Retries, Settlement, State, current_call, effect

V7 = Policy(
    "v7",
    [
        PolicyRule("small", "allow", tool="wire", amount="{amount}", up_to=100),
        PolicyRule("mails", "ask", tool="mail"),
        PolicyRule("rooms", "allow", tool="book"),
    ],
)
V8 = Policy("v8", [PolicyRule("no wires", "deny", tool="wire"), PolicyRule("rest", "allow")])

pytestmark = [pytest.mark.usefixtures("still"), pytest.mark.long]


class Desk:
    """Keeps each act in a file, under its key: so a probe can be told whether it happened."""

    def __init__(self, file):
        self.file = file

        def happened(key):
            return next(({"done": True} for entry in self.log() if entry["key"] == key), None)

        def take_back(room, key):
            self.act("undo", room)

        @effect("reversible", scope="room:/{room}", undo=take_back, probe=happened, keyed=True)
        def book(room):
            return self.act("book", room)

        @effect("irreversible", scope="account:/{to}", probe=happened, keyed=True)
        def wire(to, amount):
            return self.act("wire", to)

        @effect("irreversible", scope="mail:/{to}", probe=happened, keyed=True)
        def mail(to):
            return self.act("mail", to)

        self.book, self.wire, self.mail = book, wire, mail

    def log(self):
        return [json.loads(line) for line in self.file.read_text().splitlines()] if self.file.exists() else []

    def act(self, what, whom):
        call = current_call()
        key = UNKNOWN if call is None else call.key
        if what != "undo" and any(entry["key"] == key for entry in self.log()):
            return {"done": True}
        with self.file.open("a") as file:
            file.write(json.dumps({"key": key, "what": what, "whom": whom}) + "\n")
        return {"done": True}


class Case:
    """One store, and the desk beside it."""

    def __init__(self, case):
        self.case = case
        self.desk = Desk(case.desk.with_suffix(".acts"))

    def open(self, policy=V7):
        return Settlement(
            self.case.url,
            namespace=self.case.namespace,
            retries=Retries(first=0, most=0),
            policy=policy,
            approver=lambda gate: True,
        )

    def work(self, settlement):
        with settlement.transaction("eod/1") as tx:
            tx.call(self.desk.book, room="7")
            with suppress(Denied):
                tx.call(self.desk.wire, to="tax", amount=5_000)
            tx.call(self.desk.wire, to="ops", amount=5)
            tx.call(self.desk.mail, to="ada")

    def live(self):
        with self.open() as settlement:
            self.work(settlement)

    def done(self):
        acts = [(entry["what"], entry["whom"]) for entry in self.desk.log()]
        return {act: acts.count(act) for act in acts}

    def unjudged(self, settlement):
        """What of the record is wrong: an effect without a verdict, a verdict without its effect, a broken chain."""
        effects = {e.row.key: e for found in settlement.transactions() for e in found.effects}
        said = {each.key: each for each in settlement.verdicts()}
        wrong = [f"{key} has no verdict" for key in effects.keys() - said.keys()]
        wrong += [f"{key} has no effect" for key in said.keys() - effects.keys() if said[key].verdict != "deny"]
        wrong += [f"{key} was denied" for key in said if said[key].verdict == "deny" and self._acted(key)]
        return [*wrong, *map(str, settlement.audit("eod").faults), *settlement.residue(), *settlement.in_doubt()]

    def _acted(self, key):
        return any(entry["key"] == key for entry in self.desk.log())

    def judged(self):
        """Return what is wrong once the next process has gone on under the same policy."""
        with self.open() as settlement:
            settlement.recover(keep_open=0)
            self.work(settlement)
            wrong, done = self.unjudged(settlement), self.done()
        undone = done.pop(("undo", "7"), 0)
        expected = {("book", "7"): undone + 1, ("wire", "ops"): 1, ("mail", "ada"): 1}
        return [*wrong, *([] if done == expected else [f"{done}, {undone} undone"])]

    def judged_by_another(self):
        """Return what is wrong once the next process has gone on under a policy that denies what was held."""
        with self.open(V8) as settlement:
            settlement.recover(keep_open=0)
            with suppress(Refused):
                self.work(settlement)
            wrong, done = self.unjudged(settlement), self.done()
            committed = [f.row.name for f in settlement.transactions() if f.state is State.COMMITTED]
        wired = done.get(("wire", "ops"), 0)
        if done.get(("wire", "tax")) or wired > 1 or (wired and not committed):
            wrong.append(f"{done}, committed: {committed}")
        return wrong


@pytest.mark.parametrize("how", ["judged", "judged_by_another"])
@pytest.mark.parametrize(("store", "every"), [("in_memory", 1 if FULL else 3), ("namespaces", 20)])
def test_whatever_statement_it_dies_at(store, every, how, request, record_property):
    record_property(
        "explored_kills", kill_at_each(request.getfixturevalue(store), Case, every, lambda case: getattr(case, how)())
    )
