"""A hand that takes random steps of the protocol, as a driver would."""

from __future__ import annotations

import random
from contextlib import suppress

from tests.rooms.model import ALL_ON
from tests.rooms.protocol import NOBODY, Mode

from settlemark import Scope, SettlemarkError, State
from settlemark.hosting import Protocol, Reason

SCOPES = [
    Scope.parse(text) for text in ("cell:/p", "cell:/p/x", "cell:/p/y", "cell:/z", "cell:/*/x", "cell:/p/**", "room:/q")
]


class Hand:
    """Takes random steps as a driver would, and keeps what they were in a journal."""

    def __init__(self, seed, **options):
        self.random = random.Random(seed)
        self.protocol = Protocol(plans=3, **options)
        self.protocol.journal = []
        self.begun = 0
        self.known = {}
        self.calls = []

    def step(self):  # noqa: C901, PLR0912, PLR0915 - a table of what can happen
        protocol, random = self.protocol, self.random
        live = list(protocol.live.values())
        kinds = [
            "begin",
            "begin",
            "ask",
            "ask",
            "ask",
            "ask",
            "ask",
            "return",
            "return",
            "seal",
            "seal",
            "decide",
            "decide",
            "abort",
            "undo",
            "undo",
            "undo",
            "release",
            "finish",
            "finish",
            "cancel",
            "refine",
            "withdraw",
            "takeover",
            "skip",
            "advance",
            "declare",
            "park",
            "come back",
            "split",
            "split",
            "tool",
            "drop_retry",
            "revert",
            "unfence",
            "resume",
            "tell",
            "retract",
        ]
        kind = random.choice(kinds)
        if kind == "begin" or not live:
            self.begun += 1
            declared = random.sample(SCOPES, random.choice((0, 0, 1)))
            run = f"r{random.randint(0, 5)}"
            holds = [t.id for t in live if t.role]
            protocol.begin(
                f"{run}/{self.begun}",
                run,
                declared=declared,
                retry=random.random() < 0.5,
                owner=random.choice("ab"),
                role=random.choice(["", "", "", "", "", "", "hold", "choice"]),
                group=random.choice([0, *holds]),
                parent=random.choice([0] * 8 + list(protocol.by_id)),
                queues=random.random() < 0.5,
                guards=random.choice([ALL_ON, ALL_ON, ALL_ON._replace(reads="early")]),
            )
            return
        txn = random.choice(live)
        pending = [
            c for t in live for c in t.calls.values() if c.admitted and not c.returned and c.mode is not Mode.HELD
        ]
        if kind == "ask":
            call = protocol.request(txn, random.choice(SCOPES), random.choice(list(Mode)), random.randint(0, 5))
            tool = random.choice("xyz")
            protocol.admit(call, random.choice([None, None, (tool, tool, protocol.changes)]), random.random() < 0.8)
        elif kind == "return" and pending:
            protocol.acted(random.choice(pending), happened=random.random() < 0.8)
        elif kind == "withdraw":
            for call in [c for c in txn.calls.values() if c.wanting]:
                protocol.withdraw(call)
        elif kind == "refine":
            eager = [c for c in txn.calls.values() if c.mode is Mode.EAGER and c.returned and c.hold and c.hold.claims]
            if eager and txn.state is State.OPEN:
                protocol.refine(eager[0], [eager[0].scope])
        elif kind == "seal" and not (txn.running or txn.reading):
            protocol.seal(txn, hooked=random.random() < 0.5)
        elif kind == "decide":
            for other in live:
                if other.state is State.SEALED:
                    protocol.decide(other, releasing=random.random() < 0.5)
        elif kind == "abort" and random.random() < 0.4:
            protocol.abort(
                txn, random.choice([Reason.FAILED, Reason.STALE, Reason.WOUNDED]), scope=SCOPES[0], holder="x"
            )
        elif kind == "undo":
            for other in live:
                if other.state is State.ABORTING and not other.running:
                    for call in list(other.calls.values()):
                        if call.hold and call.hold.claims and call.hold.txn is other:
                            protocol.undone(call, clean=random.random() < 0.7)
                    if not other.claims:
                        protocol.finish_abort(other)
        elif kind == "finish":
            for other in live:
                if other.state is State.RELEASING:
                    for call in other.calls.values():
                        if call.mode is Mode.HELD and call.hold and call.hold.held:
                            protocol.released(call)
                    protocol.finish(other)
        elif kind == "cancel" and random.random() < 0.1:
            protocol.cancel(txn.run)
        elif kind == "takeover" and random.random() < 0.2:
            for orphan in protocol.bury(random.choice("ab")):
                protocol.own(orphan, random.choice("abc"))
        elif kind == "advance":
            protocol.advance(random.choice(SCOPES), random.randint(1, protocol.next_epoch))
        elif kind == "declare":
            protocol.declare(txn, random.sample(SCOPES, 1))
        elif kind == "park":
            self.park(txn)
        elif kind == "come back":
            for other in live:
                self.come_back(other)
        elif kind == "release":
            for other in live:
                held = [c for c in other.calls.values() if c.mode is Mode.HELD and c.hold and c.hold.held]
                for call in held[:1] if other.state is State.RELEASING else ():
                    protocol.released(call)
        elif kind == "split":
            for other in live:
                if other.state is State.SEALED:
                    self.split(other)
        elif kind == "tool":
            self.change(random.choice("xyz"))
        elif kind == "drop_retry":
            protocol.drop_retry(txn)
        elif kind == "revert":
            protocol.revert(self.random.choice([t for t in live if t.state is State.RELEASING] or live), Reason.REFUSED)
        elif kind == "unfence":
            protocol.unfence(sorted(protocol.board.fenced))
            self.halt()
        elif kind == "resume":
            out = [x for t in live for x in t.calls.values() if x.returned and x.mode is Mode.EAGER and x.hold]
            protocol.resumed([x for x in out if x.hold.claims][:1])
        elif kind == "tell":
            protocol.tell_time(protocol.time + 1)
            protocol.owe("x")
        elif kind == "retract":
            protocol.retract(txn.name, txn.attempt)
            protocol.join(txn, "ada")
        elif kind == "skip" and random.random() < 0.1:
            protocol.skip_epochs(100)

    def halt(self):
        """Lift what is halted, and halt something else: a scope now and then, else a run that never begins."""
        for number in list(self.protocol.halts):
            self.protocol.lift(number)
        scope = None if self.begun % 3 else SCOPES[self.begun % len(SCOPES)]
        self.protocol.halt(scope, "r9" if scope is None else None, by="ada", because="", since=0.0)

    def change(self, tool):
        """Replace a tool, take it away, or give it back."""
        change = self.random.choice(["rebind", "rebind", "revoke", "reinstate", "reinstate"])
        if change == "rebind":
            self.protocol.rebind(tool, f"{tool}{self.protocol.changes}")
        elif change == "revoke":
            self.protocol.revoke(tool)
        else:
            self.protocol.reinstate(tool)

    def park(self, txn):
        """Put an open transaction aside."""
        if not txn.parked and txn.state is State.OPEN and not (txn.running or txn.reading):
            self.protocol.park(txn, parked=True, hooked=self.random.random() < 0.5)

    def come_back(self, txn):
        """Come back to what was put aside; what was judged as it is may also go on as it is."""
        if txn.parked and txn.state is State.OPEN:
            if txn.owner == NOBODY:
                self.protocol.own(txn, self.random.choice("ab"))
            if not txn.judged or self.random.random() < 0.5:
                self.protocol.park(txn, parked=False)

    def split(self, txn):
        """Decide about what stays of a transaction, and begin what waits for an answer."""
        self.protocol.refuse_stale(txn)
        if self.protocol.waits_for(txn) is not None:
            return
        held = [call for call in txn.calls.values() if call.mode is Mode.HELD and call.admitted]
        waits = held[self.random.randint(0, len(held)) :]
        for call in waits:
            self.protocol.drop_call(call)
        reads = list(txn.reads)
        self.protocol.decide(txn, releasing=self.random.random() < 0.5)
        for number, _ in enumerate(waits):
            self.protocol.split(f"{txn.name}!{number}", txn.run, reads, hooked=self.random.random() < 0.5)

    def steps(self, count):
        for _ in range(count):
            self.try_step()

    def try_step(self):
        """Take a step, refused or not."""
        with suppress(SettlemarkError):
            self.step()
        self.known |= self.protocol.by_id
