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
* *Line*: one that `queues`, and lost a race, waits before it begins again for every older holder of what it had read
  or claimed. A younger's claim there waits until it has begun, as for a request of its own: granted, it would be
  wounded by what that one repeats. Until it is finished, a first read by another that queues waits for it there, and
  stands in that line too. Nobody needs this to be right: it saves attempts that would be lost, and who waits too long
  goes ahead.
* A touch that meets a younger's claim *wounds* the younger when the toucher held part of the scope
  first or holds a claim itself; otherwise the toucher is *restamped* above it. A touch below the
  floor is restamped. A restamp takes along, in order, the younger holders of what it claims.
* A retry keeps its position and its footprint, in the same step in which the old attempt finishes.

* *Guards*: each transaction says which of these keep it from others (`guards`); all do by default. With
  early reads it depends on whose work it read (`early_reads`).

Every wait then goes from a larger position to a smaller one, or for an undo, release or read that
waits for nobody: no deadlock. Writers commit in position order on each scope: committed
transactions are conflict-serializable.

One rule is stronger than the checked model: claims are kept through `releasing`, so that a
transaction whose first release is refused for good can still be undone whole (see `states`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

from settlemark._edges.errors import (
    Cancelled,
    ContractViolation,
    Entangled,
    InternalError,
    LateAppend,
    OutsideDeclared,
    Revoked,
    SettlemarkError,
    StateError,
)
from settlemark._edges.text import CAUSE, prose
from settlemark._model.guards import ALL_ON, Guards
from settlemark._model.scope import Scope, escape
from settlemark._protocol import early_reads
from settlemark._protocol.chronicle import Chronicle
from settlemark._protocol.entangled import are_siblings, refuse_callers, refuse_circle, refuse_siblings, siblings
from settlemark._protocol.holdings import AT_ONCE, Binding, Blocked, Call, Hold, Mode, Role, Ticket, Txn, oldest_first
from settlemark._protocol.index import ACTIVE, BUSY, HOLDS, LINE, READING, Match, Node, Position, Positions, ScopeIndex
from settlemark._protocol.picture import picture
from settlemark._protocol.refusals import refusal
from settlemark._protocol.states import RETRIED, TRANSITIONS, Event, Reason, State
from settlemark._protocol.versions import FLOORS, LAST, Versions

NOBODY = ""
"""The owner of a transaction whose worker is gone."""

_UNSETTLED = (State.OPEN, State.SEALED)

Step = tuple[str, tuple[Any, ...], dict[str, Any]]
_Cascade = Generator["_Cascade", None, None]
_Method = TypeVar("_Method", bound=Callable[..., Any])


def step(method: _Method) -> _Method:
    """Mark a method as one that moves the protocol: with a journal, a call from outside is noted in it."""
    name = method.__name__

    @wraps(method)
    def noted(self: Protocol, *args: Any, **kwargs: Any) -> Any:
        journal = self.journal
        if journal is None:
            return method(self, *args, **kwargs)
        self.journal = None  # what it calls is part of it
        try:
            return method(self, *args, **kwargs)
        finally:
            self.journal = journal
            journal.append((name, args, kwargs))

    return cast("_Method", noted)


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

    def __init__(self, *, first_epoch: int = 1, plans: int = 10_000, floors: int = FLOORS) -> None:
        self.next_epoch = first_epoch
        self.time = 0
        self.index = ScopeIndex()
        self.live: dict[Position, Txn] = {}
        self.fenced: set[str] = set()
        self.by_id: dict[int, Txn] = {}
        self.named: dict[str, Txn] = {}
        self.journal: list[Step] | None = None
        self.bindings: dict[str, Binding] = {}  # of tools that were changed: what they are now
        self.changes = 0  # of tools, in all
        self.revoked: set[str] = set()
        self.chronicle: Chronicle | None = None  # who writes down what was decided
        self.closed: list[Txn | Call] | None = None  # what ended since the last commit, where that can fail
        self._order = Positions()
        self._tied: set[int] = set()
        self._tick = 0
        self._serial = 0
        self._woken: list[Ticket] = []
        self._aborted: list[Txn] = []
        self.versions = Versions(self.index, plans=plans, floors=floors)

    # ---- beginning

    @step
    def begin(  # noqa: PLR0913 - one keyword for each thing that is said of it
        self,
        name: str,
        run: str | None = None,
        *,
        attempt: int = 1,
        declared: Iterable[Scope] = (),
        position: Position | None = None,
        retry: bool = False,
        owner: str = NOBODY,
        parent: int = 0,
        group: int = 0,
        role: Role = "",
        guards: Guards = ALL_ON,
        queues: bool = False,
        mends: bool = False,
    ) -> Txn:
        """Return a new open transaction at a fresh epoch (or at `position`, while nobody has it).

        `owner` names the worker that brings it to its end. `parent` is the number (`Txn.id`) of the one in
        whose call it runs, `group` that of the hold it works under, before which it takes its place. `guards` are
        what keeps it from others. `mends` says that it is there to undo what others have done: it is nobody's to come
        back to, and begun anew by who finds that there is still something to undo.

        Raises:
            Cancelled: a fence stands on its run. Entangled: it declares what its parent holds.
            StateError: the hold has been dropped.
        """
        run = run or name.split("/", 1)[0]
        self.refuse_fenced(name, run)
        declared = list(declared)
        for scope in declared:
            refuse_callers(self.by_id, name, parent, scope)
        serial = self._serial + 1
        if group:
            epoch, ordinal = self._open_hold(name, group).position
            position = (epoch, f"{ordinal.removesuffix(LAST)}{serial:012d}")
        if position is None or position in self.live:
            position = self._fresh()
        if role:
            position = (position[0], position[1] + LAST)  # behind all that is to work under it
        self._serial = serial
        txn = Txn(
            serial, name, run, attempt, position, retry=retry, owner=owner, parent=parent, group=group, role=role,
            guards=Guards(*guards), queues=queues, mends=mends,
        )  # fmt: skip
        txn.since = self.time
        self._enter(txn)
        self._join_group(txn)
        self._order.add(position)
        self.versions.take_plan(txn)
        for scope in declared:
            self._hold(txn, scope, declared=True)
        if self.chronicle is not None:
            self.chronicle.began(txn)
        return txn

    def refuse_fenced(self, name: str, run: str) -> None:
        """Return when no fence stands before a run.

        Raises:
            Cancelled: one does.
        """
        if run in self.fenced:
            raise Cancelled(
                f"{run} was cancelled: nothing of it acts any more; start again under another run id",
                transaction=name, epoch=None,
            )  # fmt: skip

    def _open_hold(self, name: str, group: int) -> Txn:
        hold = self.by_id.get(group)
        if hold is None or hold.state is not State.OPEN:
            raise StateError(
                f"{name} was to work under a hold that has been dropped: nothing was run; place another",
                transaction=name, state=None if hold is None else hold.state,
            )  # fmt: skip
        return hold

    def _join_group(self, txn: Txn) -> None:
        if txn.group and txn.group in self.by_id:
            self.by_id[txn.group].members[txn.id] = txn

    def _leave_group(self, txn: Txn) -> None:
        if txn.group and txn.group in self.by_id:
            self.by_id[txn.group].members.pop(txn.id, None)

    def _next_serial(self) -> int:
        self._serial += 1
        return self._serial

    def _enter(self, txn: Txn) -> None:
        self.live[txn.position] = txn
        self.by_id[txn.id] = txn
        self.named[txn.name] = txn
        if txn.parent or txn.group:
            self._tied.add(txn.id)

    def _fresh(self, ordinal: str = "") -> Position:
        epoch = self.next_epoch
        self.next_epoch = epoch + 1
        return (epoch, ordinal)

    # ---- touching

    def request(self, txn: Txn, scope: Scope, mode: Mode, place: int = -1) -> Call:
        """Return a request, to be admitted; nothing has moved yet. `place` is its decision's, in its transaction."""
        return Call(txn, scope, mode, place)

    @step
    def admit(self, call: Call, planned: tuple[str, str, int] | None = None, patient: bool = True) -> Blocked | None:
        """Admit a request and return None, or return whom it waits for; ask again when they moved.

        `planned` is the tool that was chosen, its signature, and how many changes of tools there had been then. One
        that is not `patient` stands in no line.

        Raises:
            LateAppend: the transaction was sealed; it is aborted as a protocol violation.
            Refused: it was aborted, or its plan turned out stale just now. Revoked: the tool was; nothing moved.
            Entangled: whom it would wait for cannot end before it. StateError: it has settled.
        """
        txn, scope, mode = call.txn, call.scope, call.mode
        if txn.state is not State.OPEN:
            self._refuse_append(txn, scope)
        if txn.parent or txn.group:
            refuse_callers(self.by_id, txn.name, txn.parent, scope)
            refuse_siblings(self.by_id, call)
        if planned is not None:
            self._plan_tool(txn, *planned)
        if not call.number:
            self._number(call)
        self._leave_line(txn)
        txn.writes = txn.writes or mode is not Mode.READ
        if mode in AT_ONCE:
            self.refuse_changed(txn, planned=True)
        hold = call.hold or self._touch(txn, scope)
        call.hold = hold
        match = self._match(hold)
        self._meet_claims(txn, match)
        blocked = None if mode is Mode.HELD else self._blocked(txn, mode, match, scope)
        if blocked is None and mode is not Mode.HELD and patient and self.index.lined:
            blocked = self._stand_in_line(txn, mode, hold, match)
        if (blocked is not None) is not call.wanting:
            call.wanting = blocked is not None
            call.since = call.since or self.time
            hold.wants += 1 if call.wanting else -1
            if call.wanting:
                self._tell_tied()
        if blocked is None:
            self._grant(call, hold, match)
        self._refresh(hold)
        if blocked is not None and (txn.parent or txn.group):
            self._refuse_circle(call, blocked)
        return blocked

    def _plan_tool(self, txn: Txn, tool: str, signature: str, number: int) -> None:
        if tool in self.revoked:
            raise Revoked(
                f"{tool} was revoked: it was not run; choose another tool, or settlement.reinstate({tool!r})",
                transaction=txn.name, tool=tool,
            )  # fmt: skip
        if tool not in txn.tools:
            txn.tools[tool] = Binding(number, signature)
        if self.bindings:
            self._refuse_phantom(txn)

    def _refuse_phantom(self, txn: Txn) -> None:
        """Return when the tools that a transaction has planned to call are as they were.

        Raises:
            Stale: one is not, and the transaction is aborted.
        """
        for tool, planned in txn.tools.items() if txn.guards.tools == "checked" else ():
            if self.bindings.get(tool, planned).number > planned.number:
                self.phantom(txn, tool, "was changed", "plan the call again")
                raise self.refusal(txn)

    def phantom(self, txn: Txn, tool: str, how: str, remedy: str) -> None:
        """Abort a transaction one of whose planned calls is of a tool that is none, or another one, by now."""
        scope = Scope.parse(f"registry:/tool/{escape(tool)}")
        self.abort(txn, Reason.STALE, scope=scope, how=f"{how} after the call was planned", remedy=remedy)

    def refuse_changed(self, txn: Txn, *, planned: bool) -> None:
        """Return when what a transaction acts on is as it knew it; its run's earlier reads count if `planned`.

        Raises:
            Stale: it is not, and the transaction is aborted.
        """
        if self.bindings:
            self._refuse_phantom(txn)
        changed = self.versions.changed(txn, planned=planned) if txn.guards.current else None
        if changed is not None:
            self.abort(txn, Reason.STALE, scope=changed)
            raise self.refusal(txn)

    @step
    def rebind(self, tool: str, signature: str) -> None:
        """Note that a tool is another one from now on; one that is revoked stays so."""
        self.changes += 1
        self.bindings[tool] = Binding(self.changes, signature)

    @step
    def revoke(self, tool: str) -> None:
        """Take a tool away until it is reinstated, and abort what has planned to call it and has not settled."""
        self.revoked.add(tool)
        for txn in list(self.live.values()):
            if tool in txn.tools and txn.guards.tools != "any":
                self.phantom(txn, tool, "was revoked", f"choose another tool, or settlement.reinstate({tool!r})")

    @step
    def reinstate(self, tool: str) -> None:
        """Give a tool back."""
        self.revoked.discard(tool)

    def _refuse_circle(self, call: Call, blocked: Blocked) -> None:
        try:
            refuse_circle(self.by_id, self.live, self.index, self._tied, call.txn, blocked)
        except Entangled:
            self.withdraw(call)
            raise

    def _tell_tied(self) -> None:
        """Have those that are tied look again: somebody waits now, so they may have come into a circle."""
        for number in self._tied:
            txn = self.by_id[number]
            under = self.by_id.get(txn.group)
            if txn.watchers and (txn.parent or (under is not None and under.role == "choice")):
                self._wake(txn)

    @step
    def declare(self, txn: Txn, scopes: Iterable[Scope]) -> None:
        """Hold what an open transaction may touch; one that is past that holds nothing new."""
        if txn.state is State.OPEN:
            for scope in scopes:
                self._touch(txn, scope, declared=True)

    @staticmethod
    def _number(call: Call) -> None:
        txn = call.txn
        txn.numbered += 1
        call.number = txn.numbered
        txn.calls[call.number] = call

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

    def _touch(self, txn: Txn, scope: Scope, *, declared: bool = False) -> Hold:
        path = self.index.enter(scope)
        # No floor of the whole type reaches it: the common case, told by one look.
        versions, position = self.versions, txn.position
        reached = versions.base >= position or path[0].all_floor >= position or bool(versions.folded)
        if reached and not (txn.holds and self._covered(txn, scope)):
            match = self.index.match(scope) if self.index.wildcards else Match(path[:-1], path[-1:])
            if versions.floor(scope, match) >= position:
                self._restamp(txn)
        return self._hold_at(txn, scope, path, declared=declared)

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
        for other in oldest_first(self.index.members(match, BUSY)):
            rival = other.txn
            if rival is txn or rival.state not in _UNSETTLED or rival.position < txn.position or not other.claims:
                continue
            if txn.group and are_siblings(self.by_id, txn, rival):
                continue
            if txn.claims or self._held_before(txn, other) or self._holds_for(txn):
                self.abort(rival, Reason.WOUNDED, scope=other.scope, holder=txn.name)
            else:
                self._restamp(txn)

    def _holds_for(self, txn: Txn) -> bool:
        """Whether the hold a transaction works under stands for it on some scope: that moves with it, as claims do."""
        return bool(txn.group and txn.group in self.by_id and self.by_id[txn.group].holds)

    @staticmethod
    def _held_before(txn: Txn, claim: Hold) -> bool:
        return any(h.since < claim.granted and h.scope.overlaps(claim.scope) for h in txn.holds.values())

    def _blocked(self, txn: Txn, mode: Mode, match: Match, scope: Scope) -> Blocked | None:
        if mode is not Mode.READ:
            # The nearest older one: waiters form a chain, and a departure wakes one of them.
            older = self._older(txn, match, HOLDS if mode is Mode.FINAL else ACTIVE)
            if older is not None:
                return Blocked(older, scope)
        if mode is Mode.FINAL:
            ahead = self._unsettled_pred(txn)  # what it saw may be undone, and this cannot be
            if ahead is not None:
                return ahead
        early = mode is Mode.READ and self._reads_early(txn)
        for hold in oldest_first(self.index.members(match, BUSY)):
            if hold.txn is not txn and not (early and early_reads.is_open_to(hold)):
                return Blocked(hold.txn, scope)
        if mode is not Mode.READ:
            for hold in oldest_first(self.index.members(match, READING)):
                if hold.txn is not txn:
                    return Blocked(hold.txn, scope)
        return None

    # ---- standing in line

    @staticmethod
    def _lines_up(txn: Txn) -> bool:
        """Whether it may stand in a line: not who is tied, for those it is tied to may be behind others in it."""
        return txn.queues and txn.guards.current and not (txn.parent or txn.group or txn.role)

    def _enter_line(self, hold: Hold) -> None:
        if not hold.lined:
            hold.lined = True
            self.index.lined += 1
            self.index.add_position(hold.path, LINE, hold.txn.position)

    def _leave_line(self, txn: Txn) -> None:
        """Note that one that lost a race has begun again, or never will: its holds are no request any more."""
        if txn.begins_again:
            txn.begins_again = False
            self._wake(txn)

    def _stand_in_line(self, txn: Txn, mode: Mode, hold: Hold, match: Match) -> Blocked | None:
        """Return who is before a request in a line, and have a read stand there, too."""
        ahead = self._in_line(txn, mode, hold, match)
        if ahead is not None and mode is Mode.READ:
            self._enter_line(hold)
        return ahead

    def _in_line(self, txn: Txn, mode: Mode, hold: Hold, match: Match) -> Blocked | None:
        """Return whom a read waits for because it would else be out of date before its transaction has committed.

        Or whom a claim waits for because it would else be wounded by what that one is about to ask for again.
        """
        # Not while a read of it is in flight, of the same call perhaps: those ahead may wait for that one.
        if txn.reading:
            return None
        if mode is not Mode.READ:
            # Whoever can be waited for at all: to stand in no line saves nobody from being wounded.
            tied = txn.parent or txn.group or txn.role
            ahead = None if tied else self._ahead(txn, match, LINE, waiting=True)
            return None if ahead is None else Blocked(ahead, hold.scope, in_line=True)
        if hold.scope in txn.reads or not self._lines_up(txn):
            return None
        ahead = self._ahead(txn, match, LINE)
        return None if ahead is None else Blocked(ahead, hold.scope, in_line=True)

    def _ahead(self, txn: Txn, match: Match, layer: int, *, waiting: bool = False) -> Txn | None:
        """Return the nearest older one that works, or is `waiting` to: nobody knows when one put aside comes back."""
        position = self.index.below(match, layer, txn.position)
        while position is not None and (
            self.live[position].parked or (waiting and not self.live[position].begins_again)
        ):
            position = self.index.below(match, layer, position)
        return None if position is None else self.live[position]

    def ahead(self, txn: Txn) -> Blocked | None:
        """Return whom a transaction waits for before it begins again, or None; ask again when they moved."""
        if not txn.begins_again:
            return None
        for hold in txn.holds.values():
            older = self._ahead(txn, self._match(hold), HOLDS) if hold.lined else None
            if older is not None:
                return Blocked(older, hold.scope)
        return None

    def in_the_way(self, call: Call) -> Blocked | None:
        """Return whom a request that waits is waiting for as it stands: who holds its scope, or is before it in a line.

        Nothing moves.
        """
        hold = call.hold
        if not call.wanting or hold is None:
            return None
        match = self._match(hold)
        blocked = self._blocked(call.txn, call.mode, match, call.scope)
        return blocked or (self._in_line(call.txn, call.mode, hold, match) if self.index.lined else None)

    def first(self, txn: Txn, blocked: Blocked) -> tuple[str, float]:
        """Return the name of the first of those for whom a transaction waits, and when one before it left."""
        match = self.index.match(blocked.scope)
        least = self.index.least(match)
        first = blocked.holder if least is None or least >= txn.position else self.live[least]
        return first.name, self.index.left(match)

    def _older(self, txn: Txn, match: Match, layer: int) -> Txn | None:
        position = self.index.below(match, layer, txn.position)
        while position is not None:
            older = self.live[position]
            if not (txn.group and older.state in _UNSETTLED and are_siblings(self.by_id, txn, older)):
                return older
            position = self.index.below(match, layer, position)
        return None

    @staticmethod
    def _reads_early(txn: Txn) -> bool:
        """Whether a transaction sees what is not settled: not so one that has done what nobody can take back."""
        if txn.guards.reads == "early":
            return not any(call.admitted and call.mode is Mode.FINAL for call in txn.calls.values())
        return txn.guards.reads == "any"

    def _unsettled_pred(self, txn: Txn) -> Blocked | None:
        if not txn.preds or txn.guards.reads != "early":
            return None
        number, scopes = next(iter(txn.preds.items()))
        return Blocked(self.by_id[number], next(iter(scopes)))

    def _grant(self, call: Call, hold: Hold, match: Match) -> None:
        txn = call.txn
        call.admitted = hold.touched = True
        hold.declared = False  # not before: who gives up waiting still has what it declared
        if call.mode is Mode.READ:
            hold.readings += 1
            txn.reading += 1
            first = hold.scope not in txn.reads
            self.versions.read(txn, hold.scope)
            if self.chronicle is not None:
                self.chronicle.read(txn, hold.scope)
            if txn.guards.reads != "settled":
                seen = early_reads.depend(txn, hold.scope, oldest_first(self.index.members(match, BUSY)), first=first)
                if self.chronicle is not None:
                    self.chronicle.saw(txn, seen, first=first)
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

    @step
    def withdraw(self, call: Call) -> None:
        """Take back a request that is still waiting; a hold that served nothing else is dropped with it."""
        hold = call.hold
        if not call.wanting or hold is None:
            return
        call.wanting = False
        self._close(call)
        if call.txn.state is not State.OPEN:
            return
        hold.wants -= 1
        self._refresh(hold)
        if not (hold.touched or hold.active or hold.declared):
            self._drop_hold(hold)
            self._wake(call.txn)

    @step
    def acted(self, call: Call, *, happened: bool) -> None:
        """Note that an admitted read or effect has returned; an effect that did not happen frees its claim."""
        txn, hold = call.txn, call.hold
        if hold is None or not call.admitted:
            raise InternalError(f"{txn.name}: {call.scope} returned without having been admitted")
        call.returned = True
        if call.mode is Mode.READ:
            self._close(call)
            txn.reading -= 1
            if txn.state is State.OPEN:
                hold.readings -= 1
                self._refresh(hold)
            return
        txn.running -= 1
        if not txn.running:
            self._wake(txn, siblings=False)
        if not happened:
            self._close(call)
            self._drop_claim(hold)
        else:
            txn.acts += 1
            hold.last_act = txn.acts
            if self.chronicle is not None:
                self.chronicle.left(txn, call)
        if txn.state is State.ABORTING:
            self._conclude(txn)

    def _close(self, call: Call) -> None:
        """Note that nothing more will be said of a call."""
        call.hold = None
        call.txn.calls.pop(call.number, None)
        if self.closed is not None:
            self.closed.append(call)

    @step
    def resumed(self, calls: Iterable[Call]) -> None:
        """Note that a suspended effect, whose claims are still held, runs again.

        Raises:
            Refused: the transaction was aborted meanwhile. LateAppend: it is sealed or settled.
        """
        for call in calls:
            if call.txn.state is not State.OPEN:
                self._refuse_append(call.txn, call.scope)
            call.txn.running += 1
            call.returned = False

    @step
    def released(self, call: Call) -> None:
        """Note that a held effect has left, or may have: from here on there is no way back."""
        hold = call.hold
        if hold is None or call.returned:
            return
        call.returned = True
        hold.txn.released = True
        if self.chronicle is not None:
            self.chronicle.left(hold.txn, call)
        hold.held -= 1
        self._refresh(hold)

    @step
    def unhold(self, call: Call) -> None:
        """Note that a held effect will never leave (it was refused, or could not be recorded)."""
        hold = call.hold
        if hold is None:
            return
        self._close(call)
        # After an abort the hold may be a retry's: what that one holds is not ours to drop.
        if hold.held and hold.txn is call.txn:
            hold.held -= 1
            self._refresh(hold)

    @step
    def undone(self, call: Call, *, clean: bool) -> None:
        """Note that an abort dealt with one executed effect; what stays in the world is a write."""
        hold = call.hold
        if hold is None:
            return
        self._close(call)
        if not clean:
            self.versions.wrote([hold])
        self._drop_claim(hold)

    def _drop_claim(self, hold: Hold) -> None:
        hold.claims -= 1
        hold.txn.claims -= 1
        if not hold.claims:
            hold.granted = 0
        self._refresh(hold)

    @step
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
            hold.declared = False
            hold.granted = min(hold.granted or broad.granted, broad.granted)
            hold.last_act = max(hold.last_act, broad.last_act)
            hold.claims += 1
            txn.claims += 1
            self._refresh(hold)
            following = Call(txn, scope, call.mode, call.place, turned=call.turned)
            following.hold, following.admitted, following.returned = hold, True, True
            self._number(following)
            narrower.append(following)
        self._close(call)
        self._drop_claim(broad)
        if not (broad.active or broad.scope in txn.reads or broad.scope in to):
            self._drop_hold(broad)
            self._wake(txn)
        return narrower

    # ---- settling

    @step
    def seal(self, txn: Txn, *, hooked: bool = False) -> None:
        """Freeze the footprint; what was declared and stayed untouched is dropped.

        `hooked` says that hooks are still to be asked, which end with their process.

        Raises:
            Refused: the transaction was aborted. StateError: it has been sealed or settled before.
        """
        if txn.state in (State.ABORTING, State.ABORTED):
            raise self.refusal(txn)
        self._move_state(txn, Event.SEAL)
        txn.hooked, txn.begins_again = hooked, False
        for hold in [h for h in txn.holds.values() if h.declared and not h.wants]:
            self._drop_hold(hold)
        self._wake(txn)
        self._tell_tied()

    def waits_for(self, txn: Txn) -> Blocked | None:
        """Return whom a sealed transaction waits for, or None when it could commit now.

        Raises:
            Refused: it was aborted, or what it read has changed.
            Entangled: whoever called it has touched a scope of it meanwhile.
        """
        self._require_sealed(txn)
        self.refuse_changed(txn, planned=txn.wrote)
        for sibling in siblings(self.by_id, txn):
            for hold in (*sibling.holds.values(), *txn.holds.values()):
                return Blocked(sibling, hold.scope)  # no floor rises before every branch that lost is finished
        blocked = self._unsettled_pred(txn)
        if blocked is None and txn.wrote:
            blocked = self._waits_at_commit(txn)
        if blocked is not None and txn.parent:
            refuse_circle(self.by_id, self.live, self.index, self._tied, txn, blocked)
        return blocked

    def _waits_at_commit(self, txn: Txn) -> Blocked | None:
        for hold in txn.holds.values() if txn.parent else ():
            refuse_callers(self.by_id, txn.name, txn.parent, hold.scope)
        for hold in txn.holds.values():
            match = self._match(hold)
            older = self._older_at_commit(txn, hold, match)
            if older is not None:
                return Blocked(older, hold.scope)
            for other in oldest_first(self.index.members(match, BUSY)) if hold.held else ():
                if other.txn is not txn and (other.txn.state is State.ABORTING or not txn.guards.current):
                    return Blocked(other.txn, hold.scope)  # an undo must not meet what leaves here
        return None

    def _older_at_commit(self, txn: Txn, hold: Hold, match: Match) -> Txn | None:
        position = self.index.below(match, HOLDS, txn.position) if txn.guards.current else None
        while position is not None:
            older = self.live[position]
            # Whose work it saw, and need not stand behind: it goes first where it has only read.
            passes = txn.guards.reads == "any" and not (hold.claims or hold.held)
            if not (passes and hold.scope in txn.preds.get(older.id, ())):
                return older
            position = self.index.below(match, HOLDS, position)
        return None

    def decide(self, txn: Txn, *, lasting: bool = False) -> Blocked | None:
        """Commit and return None, or return whom to wait for; with nothing to release it is finished too.

        Not so with `lasting`: then it is releasing until `finish`, because its record is still to be
        made durable, and while that can fail it can be undone.

        Raises:
            Refused: it was aborted, or what it read has changed.
        """
        blocked = self.waits_for(txn)
        if blocked is None:
            self._decided(txn, lasting)
        return blocked

    @step
    def _decided(self, txn: Txn, lasting: bool) -> None:
        self._move_state(txn, Event.DECIDE)
        written = [hold for hold in txn.holds.values() if hold.claims or hold.held] if txn.wrote else []
        if self.chronicle is not None:
            self.chronicle.decided(txn, written, self.bindings, self.revoked)
        if txn.wrote:
            current = early_reads.readers_of(self.by_id, self.index, txn, written) if txn.dependents else ()
            self.versions.wrote(written, position=txn.position, footprint=txn.holds.values())
            for reader, scope in current:
                reader.reads[scope] = self.versions.sequence
        if not lasting and not any(hold.held for hold in txn.holds.values()):
            self.finish(txn)
            return
        for hold in txn.holds.values():
            self._refresh(hold)

    @step
    def finish(self, txn: Txn) -> None:
        """Note that every release is done: the transaction is committed and holds nothing."""
        self._move_state(txn, Event.FINISH)
        if txn.wrote:
            self.versions.consume_plan(txn)
        elif txn.reads:
            self.versions.keep_plan(txn)
        if self.chronicle is not None:
            self.chronicle.committed(txn)
        self._forget(txn)

    @step
    def abort(self, txn: Txn, reason: Reason, **detail: Any) -> None:
        """Abort a transaction that has not settled; one that is past that is left alone.

        Its held effects are dropped at once. `take_aborted` names it when its undo can begin.
        """
        if txn.state in _UNSETTLED:
            self._abort(txn, reason, detail)

    @step
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
        struck = [self._strike(txn, reason, detail)]
        while struck:  # those whom it takes along, depth first: they may be more than the interpreter has frames
            follower = next(struck[-1], None)
            if follower is None:
                struck.pop()
            else:
                struck.append(follower)

    def _strike(self, txn: Txn, reason: Reason, detail: dict[str, Any]) -> _Cascade:
        self._move_state(txn, Event.ABORT)
        txn.reason = reason
        # It stands in every replica, and in its image.
        txn.detail = {key: prose(said, CAUSE) if isinstance(said, str) else said for key, said in detail.items()}
        for follower in list(early_reads.dependents(self.by_id, txn)) if txn.dependents else ():
            scopes = follower.preds.get(txn.id)
            # Else it has ended with another of them, in this same step.
            if scopes is not None and follower.state in _UNSETTLED:
                yield self._strike(follower, Reason.CASCADED, {"scope": next(iter(scopes)), "holder": txn.name})
        for hold in txn.holds.values():
            hold.held = hold.wants = hold.readings = 0
            self._refresh(hold)
        self._wake(txn)
        self._conclude(txn)

    def may_conclude(self, txn: Txn) -> bool:
        """Whether the undo of an aborted transaction can begin: nothing of it runs, and nobody who saw it is left."""
        return not txn.running and not (txn.dependents and any(early_reads.dependents(self.by_id, txn)))

    def _conclude(self, txn: Txn) -> None:
        """Have an aborted transaction undone, if that can begin."""
        if not self.may_conclude(txn):
            return
        self._aborted.append(txn)
        if not txn.claims:
            self.finish_abort(txn)

    @step
    def finish_abort(self, txn: Txn) -> None:
        """Note that its undos are done; a retry takes its position and footprint in this same step."""
        if txn.claims or txn.running:
            raise InternalError(f"{txn.name} cannot finish: {txn.claims} claims, {txn.running} calls")
        self._move_state(txn, Event.FINISH)
        if txn.reason in (Reason.STALE, Reason.CASCADED):
            self.versions.drop_plan(txn.run)
        elif txn.reads and txn.reason is not Reason.WOUNDED:
            self.versions.keep_plan(txn)
        if self.chronicle is not None:
            self.chronicle.aborted(txn)
        if txn.retry and txn.reason in RETRIED and txn.run not in self.fenced:
            self._succeed(txn)
        else:
            self._forget(txn)

    def _succeed(self, txn: Txn) -> None:
        again = Txn(
            self._next_serial(), txn.name, txn.run, txn.attempt + 1, txn.position, retry=True, owner=txn.owner,
            parent=txn.parent, group=txn.group, role=txn.role, guards=txn.guards, queues=txn.queues,
        )  # fmt: skip
        txn.successor = again
        if self.chronicle is not None:
            self.chronicle.began(again)
        again.since = self.time
        del self.by_id[txn.id]
        if self.closed is not None:
            self.closed.append(txn)
        self._leave_group(txn)
        self._tied.discard(txn.id)
        self._enter(again)
        self._join_group(again)
        self.versions.forget(txn)
        self.versions.take_plan(again)
        again.holds, txn.holds = txn.holds, {}
        lines_up = txn.writes and self._lines_up(again)  # what only looks need stand behind nobody
        for hold in again.holds.values():
            hold.txn = again
            if lines_up and (hold.scope in txn.reads or hold.last_act):
                self._enter_line(hold)
                again.begins_again = True
            hold.declared, hold.last_act = True, 0
        if again.begins_again:
            self._tell_tied()
        self._wake(txn)
        self._part(txn)
        self.versions.prune(self._order.least(), len(self.live))

    def _part(self, txn: Txn) -> None:
        if not (txn.preds or txn.dependents):
            return
        for pred in early_reads.part(self.by_id, txn):
            if pred.state is State.ABORTING:
                self._conclude(pred)  # it was undone behind this one

    @step
    def retract(self, name: str, attempt: int) -> None:
        """Note that what has committed is undone on request: histories hear of it, and nothing moves."""
        if self.chronicle is not None:
            self.chronicle.retracted(name, attempt)

    @step
    def cancel(self, run: str) -> list[Txn]:
        """Put up a fence: abort all of a run that has not settled, and refuse all that comes later.

        Returns every unfinished transaction of the run: a releasing one stops before its next release.
        """
        self.fenced.add(run)
        found = [txn for txn in self.live.values() if txn.run == run]
        for txn in found:
            self.abort(txn, Reason.CANCELLED)
        return found

    @step
    def unfence(self, runs: Iterable[str]) -> None:
        """Take down the fences before runs that are long over."""
        self.fenced.difference_update(runs)

    @step
    def advance(self, scope: Scope, epoch: int) -> None:
        """Raise the floor of a scope: all at or below this epoch is final there, for good.

        Raises:
            ContractViolation: work at or below it may still come; nothing moved.
        """
        least = self.index.least(self.index.match(scope))
        if least is not None and least[0] <= epoch:
            holder = self.live[least]
            raise ContractViolation(
                f"{scope} cannot be advanced past epoch {epoch}: {holder.name}, at {least[0]}, may still touch it;"
                f" nothing moved; wait until it has ended, or advance to {least[0] - 1}",
                scope=scope, epoch=epoch, holder=holder.name, frontier=least[0],
            )  # fmt: skip
        if epoch >= self.next_epoch:
            raise ContractViolation(
                f"{scope} cannot be advanced past epoch {epoch}: nobody has been given it yet; nothing moved; advance"
                f" to {self.next_epoch - 1}",
                scope=scope, epoch=epoch, holder=None, frontier=self.next_epoch,
            )  # fmt: skip
        self.versions.advance(scope, (epoch, LAST))

    @step
    def unretry(self, txn: Txn) -> None:
        """Note that nobody will retry this transaction: its abort frees its place."""
        txn.retry = False

    @step
    def park(self, txn: Txn, *, parked: bool, hooked: bool = False) -> None:
        """Note that a transaction is put aside until somebody comes back to it, or that this has happened.

        Put aside it is nobody's: whoever comes back to it owns it first, in whatever process. `hooked` says that it has
        hooks to ask, so that a process without them lets nothing of it leave.
        """
        txn.parked, txn.hooked, txn.judged = parked, hooked, False
        if parked:
            txn.owner = NOBODY
            self._wake(txn)  # nobody stands in line behind it any more

    @step
    def split(
        self,
        name: str,
        run: str,
        reads: list[Scope],
        guards: Guards = ALL_ON,
        tools: Iterable[Any] = (),
        *,
        hooked: bool = False,
    ) -> Txn:
        """Return a new transaction, parked, that holds nothing and depends on these scopes as they are now.

        `tools` are what it has planned to call: for each its name, and of its binding the number and the signature.
        `hooked` says that the whole had hooks: they have said yes to what was split off, as it is.
        """
        serial = self._next_serial()
        txn = Txn(serial, name, run, 1, self._fresh(), retry=False, owner=NOBODY, guards=Guards(*guards))
        txn.tools = {tool: Binding(number, signature) for tool, number, signature in tools}
        self._enter(txn)
        self._order.add(txn.position)
        for scope in reads:
            self.versions.read(txn, scope)
        txn.parked, txn.hooked, txn.judged = True, hooked, True
        return txn

    @step
    def bury(self, worker: str) -> list[Txn]:
        """Take a dead worker's transactions from it; they are nobody's until somebody owns them.

        What they were doing is over: an act that was running has no outcome, a read is forgotten.
        """
        found = [txn for txn in self.live.values() if txn.owner == worker]
        for txn in found:
            txn.owner = NOBODY
            self._leave_line(txn)
            for call in list(txn.calls.values()):
                if call.wanting:
                    self.withdraw(call)
                elif call.admitted and not call.returned and call.mode is not Mode.HELD:
                    self.acted(call, happened=True)
            self._wake(txn)
        return found

    @step
    def own(self, txn: Txn, worker: str) -> None:
        """Give a transaction to a worker that will bring it to its end.

        Raises:
            StateError: another worker has it; nothing moved.
        """
        if txn.owner != NOBODY:
            raise StateError(
                f"{txn.name} is being brought to its end by {txn.owner}: wait for it",
                transaction=txn.name, state=txn.state,
            )  # fmt: skip
        txn.owner = worker

    @step
    def leap(self, epochs: int) -> int:
        """Leave out so many epochs, and return the first: it, and all up to the next, was never given to anybody."""
        first = self.next_epoch
        self.next_epoch += epochs
        return first

    @step
    def tell_time(self, seconds: int) -> None:
        """Note what time it is where the record lives, in seconds since 1970: no decision asks for it, people do."""
        self.time = seconds

    # ---- waiting

    def watch(self, *watched: Txn, sibling: bool = False) -> Ticket:
        """Return a ticket that fires when one of these transactions moves.

        For a `sibling`, a call that waits for others of its turn, that its calls return is no move: the turn tells it.
        """
        ticket = Ticket()
        for txn in watched:
            if txn.finished:
                ticket.fired = True
            txn.watchers[ticket] = sibling
        return ticket

    def unwatch(self, ticket: Ticket, *watched: Txn) -> None:
        """Take a ticket back."""
        for txn in watched:
            txn.watchers.pop(ticket, None)

    def nudge(self, txn: Txn, *, siblings: bool = True) -> None:
        """Wake whoever watches a transaction: something about it outside the protocol has changed."""
        self._wake(txn, siblings=siblings)

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

    def aborted(self) -> list[Txn]:
        """Return what `take_aborted` has to give, and leave it."""
        return list(self._aborted)

    def take_aborted(self, most: int | None = None) -> list[Txn]:
        """Return the transactions, or so many of them, whose abort is now the caller's to conclude."""
        aborted, self._aborted = self._aborted[:most], [] if most is None else self._aborted[most:]
        return aborted

    def _wake(self, txn: Txn, *, siblings: bool = True) -> None:
        watchers = txn.watchers
        if watchers:
            kept = () if siblings else [ticket for ticket, sibling in watchers.items() if sibling and not ticket.fired]
            txn.watchers = dict.fromkeys(kept, True)
            for ticket, sibling in watchers.items():
                if not ticket.fired and (siblings or not sibling):
                    ticket.fired = True
                    self._woken.append(ticket)

    # ---- what users may ask

    def frontier(self, scope: Scope) -> int:
        """Return the smallest epoch among holds overlapping a scope; with none, the next epoch."""
        least = self.index.least(self.index.match(scope))
        return self.next_epoch if least is None else least[0]

    def floor(self, scope: Scope) -> int:
        """Return the epoch at or below which nobody may touch a scope anew; it never goes back."""
        return self.versions.floor(scope, self.index.match(scope))[0]

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
        txn.state, txn.moved = following, self.time

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
        if hold.lined:
            hold.lined = False
            index.lined -= 1
            index.drop_position(path, LINE, txn.position)
        index.drop_position(path, HOLDS, txn.position)
        del txn.holds[path[-1]]
        index.leave(path[-1])

    def _forget(self, txn: Txn) -> None:
        for hold in list(txn.holds.values()):
            self._drop_hold(hold)
        del self.live[txn.position], self.by_id[txn.id]
        if self.closed is not None:
            self.closed.append(txn)
        self._leave_group(txn)
        self._tied.discard(txn.id)
        if self.named.get(txn.name) is txn:
            del self.named[txn.name]
        self._order.discard(txn.position)
        self.versions.forget(txn)
        self._wake(txn)
        self._part(txn)
        self.versions.prune(self._order.least(), len(self.live))

    def _restamp(self, txn: Txn) -> None:
        followers = sorted(self._behind(txn), key=lambda t: t.position)
        for moved in (txn, *followers):
            self._place(moved, self._fresh(moved.position[1]))

    def _behind(self, txn: Txn) -> set[Txn]:
        """The younger unfinished holders of what a transaction claims, transitively.

        The hold it works under stays behind it, and for what it holds that counts as a claim.
        """
        found: set[Txn] = set()
        todo = [txn]
        while todo:
            ahead = todo.pop()
            above = self.by_id.get(ahead.group) if ahead.group else None
            if above is not None and above.state is State.OPEN and above not in found:
                found.add(above)
                todo.append(above)
            for hold in ahead.holds.values():
                if not (hold.claims or ahead.role):
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
            for layer in (ACTIVE,) * hold.active + (LINE,) * hold.lined:
                index.drop_position(hold.path, layer, old)
                index.add_position(hold.path, layer, position)
        del self.live[old]
        self.live[position] = txn
        self._order.discard(old)
        self._order.add(position)
        txn.position = position
        self._wake(txn)

    def freeze(self) -> tuple[Any, ...]:
        """Return a hashable picture of the state in which two states that behave alike are equal."""
        rules = (tuple(sorted(self.fenced)), tuple(sorted(self.bindings.items())), tuple(sorted(self.revoked)))
        return picture(self.index, self.versions, self.live, rules)
