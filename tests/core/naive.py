"""The protocol's rules as plainly as they can be said: lists, and every question answered by looking at everything.

Nothing is indexed, kept up to date, or forgotten. A state is what follows from the whole history of steps,
taken anew from the first; two scopes meet when `Scope.overlaps` says so. Slow, and meant to be compared with.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.rooms.protocol import FLOORS, Mode

from settlemark import Scope, State
from settlemark.hosting import Reason

UNSETTLED = (State.OPEN, State.SEALED)
AT_ONCE = (Mode.EAGER, Mode.FINAL)


class Refusal(Exception):
    """A step that the rules refuse; its one argument is the kind of refusal."""


def refusal(txn):
    return Refusal("late" if txn.reason is Reason.VIOLATION else "refused")


@dataclass(eq=False)
class Hold:
    scope: Scope
    since: int
    declared: bool
    claims: int = 0
    granted: int = 0
    held: int = 0
    wants: int = 0
    readings: int = 0
    touched: bool = False
    acted: bool = False
    lined: bool = False


@dataclass(eq=False)
class Call:
    scope: Scope
    mode: Mode
    wanting: bool = False
    admitted: bool = False
    returned: bool = False
    hold: Hold | None = None


@dataclass(eq=False)
class Txn:
    serial: int
    name: str
    run: str
    attempt: int
    position: int
    retry: bool
    owner: str
    plan: dict[Scope, int]
    state: State = State.OPEN
    holds: list[Hold] = field(default_factory=list)
    calls: dict[int, Call] = field(default_factory=dict)
    reads: dict[Scope, int] = field(default_factory=dict)
    numbered: int = 0
    running: int = 0
    reading: int = 0
    wrote: bool = False
    released: bool = False
    reason: Reason | None = None
    queues: bool = False
    writes: bool = False
    begins_again: bool = False

    @property
    def claims(self):
        return sum(hold.claims for hold in self.holds)

    def is_busy(self, hold):
        return hold.claims > 0 or (hold.held > 0 and self.state is State.RELEASING)

    def is_active(self, hold):
        return self.is_busy(hold) or hold.readings > 0 or hold.held > 0 or hold.wants > 0


class Naive:
    """What follows from a history: a list of (kind of step, its arguments).

    Versions are never forgotten. When somebody ends, the last `floors` commits keep their floors by scope, and so many
    more for each who is unfinished; the floors of those before count for the whole type of each scope.
    """

    def __init__(self, history, floors=FLOORS):
        self.room = floors
        self.recent: list[tuple[int, set[str]]] = []
        self.folded: dict[str, int] = {}
        self.live: list[Txn] = []
        self.floors: list[tuple[Scope, int]] = []
        self.writes: list[tuple[Scope, int]] = []
        self.plans: dict[str, dict[Scope, int]] = {}
        self.fenced: set[str] = set()
        self.epoch = self.serial = self.tick = self.sequence = 0
        self.answer = None
        for kind, *arguments in history:
            try:
                self.answer = getattr(self, kind)(*arguments)
            except Refusal as refusal:
                self.answer = refusal.args

    # ---- looking

    def txn(self, serial):
        return next(txn for txn in self.live if txn.serial == serial)

    def floor(self, scope):
        return max((position for other, position in self.floors if other.overlaps(scope)), default=0)

    def reached(self, scope):
        return max(self.floor(scope), self.folded.get(scope.type, 0))

    def forget(self):
        while len(self.recent) > self.room * (1 + len(self.live)):
            position, kinds = self.recent.pop(0)
            for kind in kinds:
                self.folded[kind] = max(self.folded.get(kind, 0), position)

    def version(self, scope):
        return max((number for other, number in self.writes if other.overlaps(scope)), default=0)

    def frontier(self, scope):
        held = [txn.position for txn in self.live for hold in txn.holds if hold.scope.overlaps(scope)]
        return min(held, default=self.epoch + 1)

    def changed(self, txn, *, planned):
        for reads in (txn.reads, txn.plan) if planned else (txn.reads,):
            for scope, seen in reads.items():
                if self.version(scope) > seen:
                    return scope
        return None

    def others(self, txn, scope):
        """Return every hold of another on an overlapping scope, the oldest's first."""
        found = [(t, h) for t in self.live if t is not txn for h in t.holds if h.scope.overlaps(scope)]
        return sorted(found, key=lambda pair: (pair[0].position, pair[1].since))

    # ---- beginning and touching

    def begin(self, name, run, declared, retry, owner):
        if run in self.fenced:
            raise Refusal("refused")
        self.epoch += 1
        self.serial += 1
        txn = Txn(self.serial, name, run, 1, self.epoch, retry, owner, dict(self.plans.get(run, {})), queues=retry)
        self.live.append(txn)
        for scope in declared:
            self.hold(txn, scope, declared=True)
        return txn.serial

    def hold(self, txn, scope, *, declared=False):
        for hold in txn.holds:
            if hold.scope == scope:
                return hold
        self.tick += 1
        hold = Hold(scope, self.tick, declared)
        txn.holds.append(hold)
        return hold

    def ask(self, serial, scope, mode):
        txn = self.txn(serial)
        if txn.state is State.SEALED:
            self.to_abort(txn, Reason.VIOLATION)
            raise Refusal("late")
        if txn.state is State.ABORTING:
            raise refusal(txn)
        if txn.state is not State.OPEN:
            raise Refusal("late")
        txn.numbered += 1
        txn.calls[txn.numbered] = Call(scope, mode)
        return self.ask_again(serial, txn.numbered)

    def ask_again(self, serial, number):
        txn = self.txn(serial)
        call = txn.calls[number]
        if txn.state is State.SEALED:
            self.to_abort(txn, Reason.VIOLATION)
            raise Refusal("late")
        if txn.state is not State.OPEN:
            raise refusal(txn) if txn.state is State.ABORTING else Refusal("late")
        txn.begins_again, txn.writes = False, txn.writes or call.mode is not Mode.READ
        if call.mode in AT_ONCE and self.changed(txn, planned=True) is not None:
            self.to_abort(txn, Reason.STALE)
            raise Refusal("refused")
        if call.hold is None:
            covered = any(hold.scope.covers(call.scope) for hold in txn.holds)
            if not covered and self.reached(call.scope) >= txn.position:
                self.restamp(txn)
            call.hold = self.hold(txn, call.scope)
        self.meet_claims(txn, call.scope)
        blocked = None if call.mode is Mode.HELD else self.in_the_way(txn, call)
        if blocked is None and call.mode is not Mode.HELD:
            blocked = self.ahead_in_line(txn, call)
        if (blocked is not None) is not call.wanting:
            call.wanting = blocked is not None
            call.hold.wants += 1 if call.wanting else -1
        if blocked is not None:
            return ("waits for", blocked.serial, call.scope.text)
        self.grant(txn, call)
        return None

    def meet_claims(self, txn, scope):
        for rival, claim in self.others(txn, scope):
            if not claim.claims or rival.state not in UNSETTLED or rival.position < txn.position:
                continue
            came_first = any(h.since < claim.granted and h.scope.overlaps(claim.scope) for h in txn.holds)
            if txn.claims or came_first:
                self.to_abort(rival, Reason.WOUNDED)
            else:
                self.restamp(txn)

    def in_the_way(self, txn, call):
        others = self.others(txn, call.scope)
        if call.mode is not Mode.READ:
            older = [t for t, h in others if t.position < txn.position and (call.mode is Mode.FINAL or t.is_active(h))]
            if older:
                return max(older, key=lambda t: t.position)
        busy = [t for t, h in others if t.is_busy(h)]
        if busy:
            return busy[0]
        if call.mode is not Mode.READ:
            reading = [t for t, h in others if h.readings]
            if reading:
                return reading[0]
        return None

    def ahead_in_line(self, txn, call):
        if txn.reading:
            return None
        older = [t for t, h in self.others(txn, call.scope) if h.lined and t.position < txn.position]
        if call.mode is not Mode.READ:
            return max((t for t in older if t.begins_again), key=lambda t: t.position, default=None)
        if call.scope in txn.reads or not txn.queues:
            return None
        call.hold.lined = call.hold.lined or bool(older)
        return max(older, key=lambda t: t.position, default=None)

    def ahead(self, txn):
        """Return whom a transaction waits for before it begins again."""
        if not txn.begins_again or txn.state is not State.OPEN:
            return None
        for hold in txn.holds:
            older = [t for t, _ in self.others(txn, hold.scope) if t.position < txn.position] if hold.lined else []
            if older:
                return max(older, key=lambda t: t.position).serial
        return None

    def grant(self, txn, call):
        hold = call.hold
        call.admitted = hold.touched = True
        hold.declared = False
        if call.mode is Mode.READ:
            hold.readings += 1
            txn.reading += 1
            if call.scope not in txn.reads:
                txn.reads[call.scope] = self.sequence
                txn.plan.pop(call.scope, None)
            return
        txn.wrote = True
        if call.mode is Mode.HELD:
            hold.held += 1
            return
        self.tick += 1
        hold.claims += 1
        hold.granted = hold.granted or self.tick
        txn.running += 1

    def restamp(self, txn):
        behind = []
        todo = [txn]
        while todo:
            ahead = todo.pop()
            for hold in [h for h in ahead.holds if h.claims]:
                for other, _ in self.others(ahead, hold.scope):
                    comes_back = other.state is State.ABORTING and other.retry
                    known = other is txn or other in behind
                    if other.position > ahead.position and not known and (other.state in UNSETTLED or comes_back):
                        behind.append(other)
                        todo.append(other)
        for moved in (txn, *sorted(behind, key=lambda t: t.position)):
            self.epoch += 1
            moved.position = self.epoch
            self.live.remove(moved)
            self.live.append(moved)

    def withdraw(self, serial, number):
        self.to_withdraw(self.txn(serial), number)

    def to_withdraw(self, txn, number):
        call = txn.calls[number]
        call.wanting = False
        del txn.calls[number]
        if txn.state is State.OPEN:
            call.hold.wants -= 1
            if not (call.hold.touched or txn.is_active(call.hold) or call.hold.declared):
                txn.holds.remove(call.hold)

    def returned(self, serial, number, happened):
        self.to_return(self.txn(serial), number, happened)

    def to_return(self, txn, number, happened):
        call = txn.calls[number]
        call.returned = True
        if call.mode is Mode.READ:
            del txn.calls[number]
            txn.reading -= 1
            if txn.state is State.OPEN:
                call.hold.readings -= 1
            return
        txn.running -= 1
        call.hold.acted = call.hold.acted or happened
        if not happened:
            del txn.calls[number]
            self.drop_claim(call.hold)
        if txn.state is State.ABORTING and not txn.running and not txn.claims:
            self.end_abort(txn)

    @staticmethod
    def drop_claim(hold) -> None:
        hold.claims -= 1
        if not hold.claims:
            hold.granted = 0

    # ---- settling

    def seal(self, serial):
        txn = self.txn(serial)
        if txn.state is State.ABORTING:
            raise refusal(txn)
        if txn.state is not State.OPEN:
            raise Refusal("state")
        txn.state, txn.begins_again = State.SEALED, False
        txn.holds = [hold for hold in txn.holds if hold.wants or not hold.declared]

    def decide(self, serial, releasing):
        txn = self.txn(serial)
        if txn.state is State.ABORTING:
            raise refusal(txn)
        if txn.state is not State.SEALED:
            raise Refusal("state")
        if self.changed(txn, planned=txn.wrote) is not None:
            self.to_abort(txn, Reason.STALE)
            raise Refusal("refused")
        if txn.wrote:
            for hold in txn.holds:
                older = [t for t, _ in self.others(txn, hold.scope) if t.position < txn.position]
                if older:
                    return ("waits for", max(older, key=lambda t: t.position).serial, hold.scope.text)
                if hold.held:
                    for other, theirs in self.others(txn, hold.scope):
                        if other.is_busy(theirs) and other.state is State.ABORTING:
                            return ("waits for", other.serial, hold.scope.text)
        txn.state = State.RELEASING
        if txn.wrote:
            self.sequence += 1
            self.floors += [(hold.scope, txn.position) for hold in txn.holds]
            self.writes += [(hold.scope, self.sequence) for hold in txn.holds if hold.claims or hold.held]
            self.recent.append((txn.position, {hold.scope.type for hold in txn.holds}))
        if not releasing and not any(hold.held for hold in txn.holds):
            self.finish(serial)
        return None

    def released(self, serial, number):
        txn = self.txn(serial)
        call = txn.calls[number]
        if call.returned:
            return
        call.returned = txn.released = True
        call.hold.held -= 1

    def finish(self, serial):
        txn = self.txn(serial)
        if txn.state is not State.RELEASING:
            raise Refusal("state")
        txn.state = State.COMMITTED
        plan = self.plans.get(txn.run)
        if txn.wrote and plan is not None:
            for scope, seen in (*txn.plan.items(), *txn.reads.items()):
                if scope in plan and plan[scope] <= seen:
                    del plan[scope]
            if not plan:
                del self.plans[txn.run]
        elif not txn.wrote and txn.reads:
            self.keep_plan(txn)
        self.live.remove(txn)
        self.forget()

    def keep_plan(self, txn):
        self.plans[txn.run] = {**self.plans.pop(txn.run, {}), **txn.reads}

    # ---- aborting

    def abort(self, serial, reason):
        txn = self.txn(serial)
        if txn.state in UNSETTLED:
            self.to_abort(txn, reason)

    def revert(self, serial):
        txn = self.txn(serial)
        if txn.state is not State.RELEASING or txn.released:
            raise Refusal("state")
        self.to_abort(txn, Reason.REFUSED)

    def to_abort(self, txn, reason):
        txn.state, txn.reason = State.ABORTING, reason
        for hold in txn.holds:
            hold.held = hold.wants = hold.readings = 0
        if not txn.running and not txn.claims:
            self.end_abort(txn)

    def undone(self, serial, number, clean):
        txn = self.txn(serial)
        hold = txn.calls.pop(number).hold
        if not clean:
            self.sequence += 1
            self.writes.append((hold.scope, self.sequence))
            self.recent.append((0, set()))
        self.drop_claim(hold)

    def end_undo(self, serial):
        self.end_abort(self.txn(serial))

    def end_abort(self, txn):
        txn.state = State.ABORTED
        if txn.reason is Reason.STALE:
            self.plans.pop(txn.run, None)
        elif txn.reads and txn.reason is not Reason.WOUNDED:
            self.keep_plan(txn)
        if txn.retry and txn.reason in (Reason.STALE, Reason.WOUNDED) and txn.run not in self.fenced:
            self.serial += 1
            plan = dict(self.plans.get(txn.run, {}))
            again = Txn(self.serial, txn.name, txn.run, txn.attempt + 1, txn.position, True, txn.owner, plan)
            again.holds, again.queues = txn.holds, txn.queues
            for hold in again.holds:
                if txn.queues and txn.writes and (hold.scope in txn.reads or hold.acted):
                    hold.lined = again.begins_again = True
                hold.declared, hold.acted = True, False
            self.live[self.live.index(txn)] = again
        else:
            self.live.remove(txn)
        self.forget()

    def drop_retry(self, serial):
        self.txn(serial).retry = False

    def cancel(self, run):
        self.fenced.add(run)
        for txn in [t for t in self.live if t.run == run and t.state in UNSETTLED]:
            self.to_abort(txn, Reason.CANCELLED)

    # ---- workers

    def bury(self, worker):
        for txn in [t for t in self.live if t.owner == worker]:
            txn.owner, txn.begins_again = "", False
            for number, call in list(txn.calls.items()):
                if call.wanting:
                    self.to_withdraw(txn, number)
                elif call.admitted and not call.returned and call.mode is not Mode.HELD:
                    self.to_return(txn, number, happened=True)

    def own(self, serial, worker):
        txn = self.txn(serial)
        if txn.owner:
            raise Refusal("state")
        txn.owner = worker

    def skip_epochs(self, count):
        self.epoch += count


__all__ = ["Naive"]
