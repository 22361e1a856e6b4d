"""The settlement protocol: values in, decisions out; no I/O, no clock, no randomness.

Sources: Atomix §2.4 and appendix A (seal, progress predicate, stale reads), timely dataflow
(holds as capabilities), and rules that were model-checked for this project:

* A transaction *holds* what it touches from its first request until it is finished.
* *Commit*: sealed, the oldest unfinished holder on every scope it touched, no undo running where
  its held effects will land, every read current. One that wrote nothing skips the first.
* *Claim*: an effect that runs before commit takes its scope exclusively. The claim waits for
  another's claim, undo or release, for an older one's held effect or waiting request, for a read
  in flight; an effect that cannot be undone cleanly waits for every older holder too.
* *Read*: of settled state only; it waits for another's claim, undo or release.
* A touch that meets a younger's claim *wounds* the younger when the toucher held part of the scope
  first or holds a claim itself; otherwise the toucher is *restamped* above it. A touch below the
  floor is restamped. A restamp takes along, in order, the younger holders of what it claims.
* A retry keeps its position and its footprint, in the same step in which the old attempt finishes.

Every wait then goes from a larger position to a smaller one, or for an undo, release or read that
waits for nobody: no deadlock. Writers commit in position order on each scope: committed
transactions are conflict-serializable.

One rule is stronger than the checked model: claims are kept through `releasing`, so that a
transaction whose first release is refused for good can still be undone whole (see `_states`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from settlemark._errors import Cancelled, InternalError, LateAppend, OutsideDeclared, SettlemarkError, StateError
from settlemark._index import ACTIVE, BUSY, HOLDS, READING, Match, Node, Position, Positions, ScopeIndex
from settlemark._picture import picture
from settlemark._refusals import refusal
from settlemark._scope import Scope
from settlemark._states import RETRIED, TRANSITIONS, Event, Reason, State
from settlemark._txn import AT_ONCE, Blocked, Call, Hold, Mode, Ticket, Txn
from settlemark._versions import Versions

_UNSETTLED = (State.OPEN, State.SEALED)


class Protocol:
    """Decides who may touch, who waits, who commits and who aborts.

    Every method is one step. After a step, `take_woken` has the tickets to fire and `take_aborted`
    the transactions whose abort somebody must conclude (undo, then `finish_abort`).

    >>> protocol = Protocol()
    >>> t = protocol.begin("trip-42")
    >>> call = protocol.request(t, Scope.parse("room:/Ada"), Mode.EAGER)
    >>> protocol.admit(call), protocol.acted(call, happened=True)
    (None, None)
    >>> protocol.seal(t)
    >>> protocol.decide(t), t.state.value
    (None, 'committed')
    """

    def __init__(self, *, first_epoch: int = 1, plans: int = 10_000) -> None:
        self.next_epoch = first_epoch
        self.index = ScopeIndex()
        self.live: dict[Position, Txn] = {}
        self.fenced: set[str] = set()
        self._order = Positions()
        self._tick = 0
        self._woken: list[Ticket] = []
        self._aborted: list[Txn] = []
        self.versions = Versions(self.index, plans=plans)

    # ---- beginning

    def begin(
        self,
        name: str,
        run: str | None = None,
        *,
        attempt: int = 1,
        declared: Iterable[Scope] = (),
        position: Position | None = None,
        retry: bool = False,
        fenced: bool = False,
    ) -> Txn:
        """Return a new open transaction at a fresh epoch (or at `position`, while nobody has it).

        `fenced` lets one begin behind a fence: to end what the run's earlier process left.

        Raises:
            Cancelled: a fence stands on its run.
        """
        run = run or name.split("/", 1)[0]
        if run in self.fenced and not fenced:
            raise Cancelled(
                f"{run} was cancelled: nothing of it acts any more; start again under another run id",
                transaction=name, epoch=None,
            )  # fmt: skip
        if position is None or position in self.live:
            position = self._fresh()
        txn = Txn(name, run, attempt, position, retry=retry)
        self.live[position] = txn
        self._order.add(position)
        self.versions.take_plan(txn)
        for scope in declared:
            self._hold(txn, scope, declared=True)
        return txn

    def _fresh(self) -> Position:
        epoch = self.next_epoch
        self.next_epoch = epoch + 1
        return (epoch, "")

    # ---- touching

    def request(self, txn: Txn, scope: Scope, mode: Mode) -> Call:
        """Return a request, to be admitted; nothing has moved yet."""
        return Call(txn, scope, mode)

    def admit(self, call: Call) -> Blocked | None:
        """Admit a request and return None, or return whom it waits for; ask again when they moved.

        Raises:
            LateAppend: the transaction was sealed; it is aborted as a protocol violation.
            Refused: it was aborted, or its plan turned out stale just now.
            StateError: it has settled.
        """
        txn, scope, mode = call.txn, call.scope, call.mode
        if txn.state is not State.OPEN:
            self._refuse_append(txn, scope)
        if mode in AT_ONCE:
            changed = self.versions.changed(txn, planned=True)
            if changed is not None:
                self.abort(txn, Reason.STALE, scope=changed)
                raise self.refusal(txn)
        hold = call.hold or self._touch(txn, scope)
        call.hold = hold
        match = self._match(hold)
        self._meet_claims(txn, match)
        blocked = None if mode is Mode.HELD else self._blocked(txn, mode, match, scope)
        if (blocked is not None) is not call.wanting:
            call.wanting = blocked is not None
            hold.wants += 1 if call.wanting else -1
        if blocked is None:
            self._grant(call, hold)
        self._refresh(hold)
        return blocked

    def _refuse_append(self, txn: Txn, scope: Scope) -> None:
        if txn.state is State.SEALED:
            self.abort(txn, Reason.VIOLATION, scope=scope)
            raise LateAppend(
                f"a call on {scope} came after {txn.name} was sealed: it was refused and {txn.name} was aborted;"
                " wait for every call before the step ends",
                transaction=txn.name, scope=scope,
            )  # fmt: skip
        if txn.state in (State.ABORTING, State.ABORTED):
            raise self.refusal(txn)
        raise LateAppend(
            f"a call on {scope} came after {txn.name} had settled: it was refused; use a new transaction",
            transaction=txn.name, scope=scope,
        )  # fmt: skip

    def _touch(self, txn: Txn, scope: Scope) -> Hold:
        path = self.index.enter(scope)
        # No floor of the whole type reaches it: the common case, told by one look.
        reached = self.versions.base >= txn.position or path[0].all_floor >= txn.position
        if reached and not (txn.holds and self._covered(txn, scope)):
            match = self.index.match(scope) if self.index.wildcards else Match(path[:-1], path[-1:])
            if max(self.index.floor(match), self.versions.base) >= txn.position:
                self._restamp(txn)
        return self._hold_at(txn, scope, path, declared=False)

    def _covered(self, txn: Txn, scope: Scope) -> bool:
        match = self.index.match(scope)
        held = txn.holds
        # A node on the way covers the scope, unless a wildcard branched the way to it.
        if any(node in held and held[node].scope.covers(scope) for node in match.ways):
            return True
        return any(node in held and held[node].scope.covers(scope) for node in match.ends)

    def _hold(self, txn: Txn, scope: Scope, *, declared: bool) -> Hold:
        return self._hold_at(txn, scope, self.index.enter(scope), declared=declared)

    def _hold_at(self, txn: Txn, scope: Scope, path: list[Node], *, declared: bool) -> Hold:
        end = path[-1]
        hold = txn.holds.get(end)
        if hold is not None:
            self.index.leave(end)
            hold.declared = hold.declared and declared
            return hold
        self._tick += 1
        hold = txn.holds[end] = Hold(txn, scope, path, self._tick, declared=declared)
        self.index.add_position(path, HOLDS, txn.position)
        return hold

    def _match(self, hold: Hold) -> Match:
        if self.index.wildcards:
            return self.index.match(hold.scope)
        return hold.match

    def _meet_claims(self, txn: Txn, match: Match) -> None:
        for other in self.index.holds(match, BUSY):
            rival = other.txn
            if rival is txn or rival.state not in _UNSETTLED or rival.position < txn.position or not other.claims:
                continue
            if txn.claims or self._held_before(txn, other):
                self.abort(rival, Reason.WOUNDED, scope=other.scope, holder=txn.name)
            else:
                self._restamp(txn)

    @staticmethod
    def _held_before(txn: Txn, claim: Hold) -> bool:
        return any(h.since < claim.granted and h.scope.overlaps(claim.scope) for h in txn.holds.values())

    def _blocked(self, txn: Txn, mode: Mode, match: Match, scope: Scope) -> Blocked | None:
        if mode is not Mode.READ:
            # The nearest older one: waiters form a chain, and a departure wakes one of them.
            layer = HOLDS if mode is Mode.FINAL else ACTIVE
            older = self.index.below(match, layer, txn.position)
            if older is not None:
                return Blocked(self.live[older], scope)
        for hold in self.index.holds(match, BUSY):
            if hold.txn is not txn:
                return Blocked(hold.txn, scope)
        if mode is not Mode.READ:
            for hold in self.index.holds(match, READING):
                if hold.txn is not txn:
                    return Blocked(hold.txn, scope)
        return None

    def _grant(self, call: Call, hold: Hold) -> None:
        txn = call.txn
        call.admitted = hold.touched = True
        if call.mode is Mode.READ:
            hold.readings += 1
            txn.reading += 1
            self.versions.read(txn, hold.scope)
            return
        txn.wrote = True
        if call.mode is Mode.HELD:
            hold.held += 1
            return
        self._tick += 1
        hold.claims += 1
        hold.granted = hold.granted or self._tick
        txn.claims += 1
        txn.running += 1

    def withdraw(self, call: Call) -> None:
        """Take back a request that is still waiting; a hold that served nothing else is dropped with it."""
        hold = call.hold
        if not call.wanting or hold is None:
            return
        call.wanting = False
        if call.txn.state is not State.OPEN:
            return
        hold.wants -= 1
        self._refresh(hold)
        if not (hold.touched or hold.active or hold.declared):
            self._drop_hold(hold)
            self._wake(call.txn)

    def acted(self, call: Call, *, happened: bool) -> None:
        """Note that an admitted read or effect has returned; an effect that did not happen frees its claim."""
        txn, hold = call.txn, call.hold
        if hold is None or not call.admitted:
            raise InternalError(f"{txn.name}: {call.scope} returned without having been admitted")
        if call.mode is Mode.READ:
            txn.reading -= 1
            if txn.state is State.OPEN:
                hold.readings -= 1
                self._refresh(hold)
            return
        txn.running -= 1
        if not txn.running:
            self._wake(txn)
        if not happened:
            self._drop_claim(hold)
        if txn.state is State.ABORTING and not txn.running:
            self._conclude(txn)

    def resumed(self, calls: Iterable[Call]) -> None:
        """Note that a suspended effect, whose claims are still held, runs again.

        Raises:
            Refused: the transaction was aborted meanwhile. LateAppend: it is sealed or settled.
        """
        for call in calls:
            if call.txn.state is not State.OPEN:
                self._refuse_append(call.txn, call.scope)
            call.txn.running += 1

    def released(self, call: Call) -> None:
        """Note that a held effect has left, or may have: from here on there is no way back."""
        hold = call.hold
        assert hold is not None
        hold.txn.released = True
        hold.held -= 1
        self._refresh(hold)

    def unhold(self, call: Call) -> None:
        """Note that a held effect will never leave (it was refused, or could not be recorded)."""
        hold = call.hold
        assert hold is not None
        # After an abort the hold may be a retry's: what that one holds is not ours to drop.
        if hold.held and hold.txn is call.txn:
            hold.held -= 1
            self._refresh(hold)

    def undone(self, call: Call, *, clean: bool) -> None:
        """Note that an abort dealt with one executed effect; what stays in the world is a write."""
        hold = call.hold
        assert hold is not None
        if not clean:
            self.versions.wrote([hold])
        self._drop_claim(hold)

    def _drop_claim(self, hold: Hold) -> None:
        hold.claims -= 1
        hold.txn.claims -= 1
        if not hold.claims:
            hold.granted = 0
        self._refresh(hold)

    def refine(self, call: Call, to: Iterable[Scope]) -> list[Call]:
        """Replace an effect's broad claim by what it turned out to touch; return the narrower calls.

        Raises:
            OutsideDeclared: a refinement lies outside what was declared; nothing moved.
        """
        txn, broad = call.txn, call.hold
        assert broad is not None
        to = tuple(to)
        for scope in to:
            if not call.scope.covers(scope):
                raise OutsideDeclared(
                    f"{txn.name} refined {call.scope} to {scope}, which lies outside it:"
                    " declare a may_touch= scope that covers what the tool touches",
                    scope=scope, declared=call.scope,
                )  # fmt: skip
        if txn.state not in _UNSETTLED:
            return [call]
        narrower: list[Call] = []
        for scope in to:
            hold = self._hold(txn, scope, declared=False)
            hold.since = min(hold.since, broad.since)
            hold.granted = min(hold.granted or broad.granted, broad.granted)
            hold.claims += 1
            txn.claims += 1
            self._refresh(hold)
            following = Call(txn, scope, call.mode)
            following.hold, following.admitted = hold, True
            narrower.append(following)
        self._drop_claim(broad)
        if not (broad.active or broad.declared or broad.scope in txn.reads or broad.scope in to):
            self._drop_hold(broad)
            self._wake(txn)
        return narrower

    # ---- settling

    def seal(self, txn: Txn) -> None:
        """Freeze the footprint; what was declared and stayed untouched is dropped.

        Raises:
            Refused: the transaction was aborted. StateError: it has been sealed or settled before.
        """
        if txn.state in (State.ABORTING, State.ABORTED):
            raise self.refusal(txn)
        self._move_state(txn, Event.SEAL)
        for hold in [h for h in txn.holds.values() if h.declared]:
            self._drop_hold(hold)
        self._wake(txn)

    def waits_for(self, txn: Txn) -> Blocked | None:
        """Return whom a sealed transaction waits for, or None when it could commit now.

        Raises:
            Refused: it was aborted, or what it read has changed.
        """
        self._require_sealed(txn)
        changed = self.versions.changed(txn, planned=txn.wrote)
        if changed is not None:
            self.abort(txn, Reason.STALE, scope=changed)
            raise self.refusal(txn)
        if not txn.wrote:
            return None
        for hold in txn.holds.values():
            match = self._match(hold)
            older = self.index.below(match, HOLDS, txn.position)
            if older is not None:
                return Blocked(self.live[older], hold.scope)
            if hold.held:
                for other in self.index.holds(match, BUSY):
                    if other.txn.state is State.ABORTING:
                        return Blocked(other.txn, hold.scope)
        return None

    def decide(self, txn: Txn, *, lasting: bool = False) -> Blocked | None:
        """Commit and return None, or return whom to wait for; with nothing to release it is finished too.

        Not so with `lasting`: then it is releasing until `finish`, because its record is still to be
        made durable, and while that can fail it can be undone.

        Raises:
            Refused: it was aborted, or what it read has changed.
        """
        blocked = self.waits_for(txn)
        if blocked is not None:
            return blocked
        self._move_state(txn, Event.DECIDE)
        if txn.wrote:
            written = [hold for hold in txn.holds.values() if hold.claims or hold.held]
            self.versions.wrote(written, position=txn.position, footprint=txn.holds.values())
        if not lasting and not any(hold.held for hold in txn.holds.values()):
            self.finish(txn)
            return None
        for hold in txn.holds.values():
            self._refresh(hold)
        return None

    def finish(self, txn: Txn) -> None:
        """Note that every release is done: the transaction is committed and holds nothing."""
        self._move_state(txn, Event.FINISH)
        if txn.wrote:
            self.versions.consume_plan(txn)
        elif txn.reads:
            self.versions.keep_plan(txn)
        self._forget(txn)

    def abort(self, txn: Txn, reason: Reason, **detail: Any) -> None:
        """Abort a transaction that has not settled; one that is past that is left alone.

        Its held effects are dropped at once. `take_aborted` names it when its undo can begin.
        """
        if txn.state in _UNSETTLED:
            self._abort(txn, reason, detail)

    def revert(self, txn: Txn, reason: Reason, **detail: Any) -> None:
        """Abort a releasing transaction of which nothing has left: only who releases it knows that.

        Raises:
            StateError: something has left, or it is not releasing; nothing moved.
        """
        if txn.state is not State.RELEASING or txn.released:
            raise StateError(f"{txn.name} is {txn.state}: what has left cannot be called back",
                             transaction=txn.name, state=txn.state)  # fmt: skip
        self._abort(txn, reason, detail)

    def _abort(self, txn: Txn, reason: Reason, detail: dict[str, Any]) -> None:
        self._move_state(txn, Event.ABORT)
        txn.reason = reason
        txn.detail = detail
        for hold in txn.holds.values():
            hold.held = hold.wants = hold.readings = 0
            self._refresh(hold)
        self._wake(txn)
        if not txn.running:
            self._conclude(txn)

    def _conclude(self, txn: Txn) -> None:
        self._aborted.append(txn)
        if not txn.claims:
            self.finish_abort(txn)

    def finish_abort(self, txn: Txn) -> None:
        """Note that its undos are done; a retry takes its position and footprint in this same step."""
        if txn.claims or txn.running:
            raise InternalError(f"{txn.name} cannot finish: {txn.claims} claims, {txn.running} calls")
        self._move_state(txn, Event.FINISH)
        if txn.reason is Reason.STALE:
            self.versions.drop_plan(txn.run)
        elif txn.reads and txn.reason is not Reason.WOUNDED:
            self.versions.keep_plan(txn)
        if txn.retry and txn.reason in RETRIED and txn.run not in self.fenced:
            self._succeed(txn)
        else:
            self._forget(txn)

    def _succeed(self, txn: Txn) -> None:
        again = Txn(txn.name, txn.run, txn.attempt + 1, txn.position, retry=True)
        txn.successor = again
        self.live[txn.position] = again
        self.versions.forget(txn)
        self.versions.take_plan(again)
        again.holds, txn.holds = txn.holds, {}
        for hold in again.holds.values():
            hold.txn = again
            hold.declared = True
        self._wake(txn)
        self.versions.prune(self._order.least())

    def cancel(self, run: str) -> list[Txn]:
        """Put up a fence: abort all of a run that has not settled, and refuse all that comes later.

        Returns every unfinished transaction of the run: a releasing one stops before its next release.
        """
        self.fenced.add(run)
        found = [txn for txn in self.live.values() if txn.run == run]
        for txn in found:
            self.abort(txn, Reason.CANCELLED)
        return found

    def unretry(self, txn: Txn) -> None:
        """Note that nobody will retry this transaction: its abort frees its place."""
        txn.retry = False

    # ---- waiting

    def watch(self, *watched: Txn) -> Ticket:
        """Return a ticket that fires when one of these transactions moves."""
        ticket = Ticket()
        for txn in watched:
            if txn.finished:
                ticket.fired = True
            txn.watchers[ticket] = None
        return ticket

    def unwatch(self, ticket: Ticket, *watched: Txn) -> None:
        """Take a ticket back."""
        for txn in watched:
            txn.watchers.pop(ticket, None)

    def nudge(self, txn: Txn) -> None:
        """Wake whoever watches a transaction: something about it outside the protocol has changed."""
        self._wake(txn)

    def take_woken(self) -> Sequence[Ticket]:
        """Return the tickets that fired since the last call."""
        if not self._woken:
            return ()
        woken, self._woken = self._woken, []
        return woken

    @property
    def has_aborted(self) -> bool:
        """Whether `take_aborted` has something to give."""
        return bool(self._aborted)

    def take_aborted(self) -> list[Txn]:
        """Return the transactions whose abort is now the caller's to conclude."""
        aborted, self._aborted = self._aborted, []
        return aborted

    def _wake(self, txn: Txn) -> None:
        watchers = txn.watchers
        if watchers:
            txn.watchers = {}
            for ticket in watchers:
                if not ticket.fired:
                    ticket.fired = True
                    self._woken.append(ticket)

    # ---- what users may ask

    def frontier(self, scope: Scope) -> int:
        """Return the smallest epoch among holds overlapping a scope; with none, the next epoch."""
        least = self.index.least(self.index.match(scope))
        return self.next_epoch if least is None else least[0]

    def floor(self, scope: Scope) -> int:
        """Return the epoch at or below which all on this scope is final; it never goes back."""
        return max(self.index.floor(self.index.match(scope)), self.versions.base)[0]

    def version(self, scope: Scope) -> int:
        """Return the number of the last committed write overlapping a scope, 0 for none still needed."""
        return self.index.version(self.index.match(scope))

    def refusal(self, txn: Txn) -> SettlemarkError:
        """Return the error that tells why a transaction was aborted, and what to do next."""
        assert txn.reason is not None
        return refusal(txn.name, txn.epoch, txn.reason, txn.detail)

    # ---- the inside

    def _move_state(self, txn: Txn, event: Event) -> None:
        following = TRANSITIONS[txn.state].get(event)
        if following is None:
            raise StateError(
                f"{txn.name} is {txn.state}: it cannot {event}; begin a new transaction",
                transaction=txn.name, state=txn.state,
            )  # fmt: skip
        txn.state = following

    def _require_sealed(self, txn: Txn) -> None:
        if txn.state in (State.ABORTING, State.ABORTED):
            raise self.refusal(txn)
        if txn.state is not State.SEALED:
            raise StateError(f"{txn.name} is {txn.state}: only a sealed transaction can commit",
                             transaction=txn.name, state=txn.state)  # fmt: skip

    def _refresh(self, hold: Hold) -> None:
        txn = hold.txn
        busy = hold.claims > 0 or (hold.held > 0 and txn.state is State.RELEASING)
        reading = hold.readings > 0
        active = busy or reading or hold.held > 0 or hold.wants > 0
        index, path = self.index, hold.path
        calmer = False
        if active is not hold.active:
            hold.active = active
            if active:
                index.add_position(path, ACTIVE, txn.position)
            else:
                index.drop_position(path, ACTIVE, txn.position)
                calmer = True
        if busy is not hold.busy:
            hold.busy = busy
            if busy:
                index.add_hold(path, BUSY, hold)
            else:
                index.drop_hold(path, BUSY, hold)
                calmer = True
        if reading is not hold.reading:
            hold.reading = reading
            if reading:
                index.add_hold(path, READING, hold)
            else:
                index.drop_hold(path, READING, hold)
                calmer = True
        if calmer:
            self._wake(txn)

    def _drop_hold(self, hold: Hold) -> None:
        txn, path = hold.txn, hold.path
        index = self.index
        if hold.active:
            index.drop_position(path, ACTIVE, txn.position)
        if hold.busy:
            index.drop_hold(path, BUSY, hold)
        if hold.reading:
            index.drop_hold(path, READING, hold)
        index.drop_position(path, HOLDS, txn.position)
        del txn.holds[path[-1]]
        index.leave(path[-1])

    def _forget(self, txn: Txn) -> None:
        for hold in list(txn.holds.values()):
            self._drop_hold(hold)
        del self.live[txn.position]
        self._order.discard(txn.position)
        self.versions.forget(txn)
        self._wake(txn)
        self.versions.prune(self._order.least())

    def _restamp(self, txn: Txn) -> None:
        followers = sorted(self._behind(txn), key=lambda t: t.position)
        for moved in (txn, *followers):
            self._place(moved, self._fresh())

    def _behind(self, txn: Txn) -> set[Txn]:
        """The younger unfinished holders of what a transaction claims, transitively."""
        found: set[Txn] = set()
        todo = [txn]
        while todo:
            ahead = todo.pop()
            for hold in ahead.holds.values():
                if not hold.claims:
                    continue
                for position in self.index.above(self._match(hold), ahead.position):
                    other = self.live[position]
                    coming_back = other.state is State.ABORTING and other.retry
                    if other is not txn and other not in found and (other.state in _UNSETTLED or coming_back):
                        found.add(other)
                        todo.append(other)
        return found

    def _place(self, txn: Txn, position: Position) -> None:
        index, old = self.index, txn.position
        for hold in txn.holds.values():
            index.drop_position(hold.path, HOLDS, old)
            index.add_position(hold.path, HOLDS, position)
            if hold.active:
                index.drop_position(hold.path, ACTIVE, old)
                index.add_position(hold.path, ACTIVE, position)
        del self.live[old]
        self.live[position] = txn
        self._order.discard(old)
        self._order.add(position)
        txn.position = position
        self._wake(txn)

    def freeze(self) -> tuple[Any, ...]:
        """Return a hashable picture of the state in which two states that behave alike are equal."""
        return picture(self.index, self.versions, self.live, self.fenced)
