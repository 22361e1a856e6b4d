"""The settlement protocol: values in, decisions out; no I/O, no clock, no randomness.

`Protocol` is the facade. Each rule has a file of its own in `rules`, which states it at its head: `beginnings` (the
place in the order), `admission` (who may touch, who waits), `precedence` (who gives way: wounds and restamps),
`waiting_line` (who begins again behind whom), `calls` (a call after its admission), `staleness` and `tools` (what has
changed under a plan), `decision` (who commits), `abort` (who is undone, and tried again), `frontier` (what is final:
floors, fences and halts), `ownership` (which worker ends a transaction). All rules work on one `board`. `commands` has
every step as a value, `states` the table of a transaction's life.

Sources: Atomix §2.4 and appendix A (seal, progress predicate, stale reads), timely dataflow (holds as capabilities),
and rules that were model-checked for this project. Every wait goes from a larger position to a smaller one, or for an
undo, release or read that waits for nobody: no deadlock. Writers commit in position order on each scope: committed
transactions are conflict-serializable. Each transaction names its `guards`; by default all are on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, ParamSpec, TypeVar

from settlemark._edges.errors import SettlemarkError
from settlemark._edges.text import CAUSE, prose
from settlemark._model.guards import ALL_ON, Guards
from settlemark._model.scope import Scope
from settlemark._protocol import commands as c
from settlemark._protocol.board import Board
from settlemark._protocol.chronicle import Chronicle
from settlemark._protocol.commands import Command
from settlemark._protocol.holdings import NOBODY, Blocked, Call, Halt, Mode, Role, Ticket, Txn
from settlemark._protocol.index import Position
from settlemark._protocol.picture import picture
from settlemark._protocol.refusals import halted
from settlemark._protocol.rules.parts import Parts, restored
from settlemark._protocol.rules.tools import Tools, phantom
from settlemark._protocol.states import Reason, State
from settlemark._protocol.versions import FLOORS

_Given = ParamSpec("_Given")
_T = TypeVar("_T")


class Protocol:
    """Decides who may touch, who waits, who commits and who aborts.

    Every method is one step. After a step, `take_woken` has the tickets to fire and `take_aborted` the transactions
    whose abort a program must conclude (undo, then `finish_abort`).

    >>> protocol = Protocol()
    >>> t = protocol.begin("trip-42")
    >>> call = protocol.request(t, Scope.parse("room:/Ada"), Mode.EAGER)
    >>> protocol.admit(call), protocol.acted(call, happened=True)
    (None, None)
    >>> protocol.seal(t)
    >>> protocol.decide(t), t.state.value
    (None, 'committed')

    Attributes:
        journal: while it is a list, each step's command is appended.
        fault: an error of a step that its command may not answer with: no replica could repeat that step.
        board: the state that the rules share, and that an image contains.
        tools: the current tools.
    """

    def __init__(self, *, first_epoch: int = 1, plans: int = 10_000, floors: int = FLOORS) -> None:
        self.journal: list[Command] | None = None
        self.fault: Exception | None = None
        self.board = board = Board(first_epoch=first_epoch, plans=plans, floors=floors)
        self._parts = Parts(board)
        self.tools: Tools = self._parts.tools

    def _take(
        self, kind: type[Command], rule: Callable[_Given, _T], /, *given: _Given.args, **named: _Given.kwargs
    ) -> _T:
        """Let a rule take a step, and append its command, refused or not, to the journal."""
        if self.journal is None:
            return rule(*given, **named)
        try:
            return rule(*given, **named)
        except Exception as error:
            if not isinstance(error, kind.refusals):
                self.fault = error
            raise
        finally:
            said = dict(zip(named, c.plain(named.values()), strict=True)) if named else {}
            self.journal.append(kind(*c.plain(given), **said))

    def apply(self, command: Command) -> None:
        """Apply a command that another replica took; one about something that has ended moves nothing.

        Raises:
            SettlemarkError: the command is refused with one of its `refusals`, as in the other replica; else a fault.
        """
        given = restored(self.board, command)
        if given is not None:
            self._parts.handlers[type(command)](**given)

    # ---- state

    @property
    def live(self) -> dict[Position, Txn]:
        """The unfinished transactions, by position."""
        return self.board.live

    @property
    def by_id(self) -> dict[int, Txn]:
        """The unfinished transactions, by number."""
        return self.board.by_id

    @property
    def named(self) -> dict[str, Txn]:
        """The unfinished transactions, by name."""
        return self.board.named

    @property
    def fenced(self) -> set[str]:
        """The cancelled runs."""
        return self.board.fenced

    @property
    def next_epoch(self) -> int:
        """The next epoch to be given."""
        return self.board.next_epoch

    @property
    def halts(self) -> dict[int, Halt]:
        """The halts that stand, by number."""
        return self.board.halts

    @property
    def changes(self) -> int:
        """The number of tool changes so far."""
        return self.tools.changes

    @property
    def time(self) -> int:
        """The store's time, in seconds since 1970, for people; no decision reads it."""
        return self.board.time

    @property
    def chronicle(self) -> Chronicle | None:
        """Writes a history of the decisions."""
        return self.board.chronicle

    @chronicle.setter
    def chronicle(self, chronicle: Chronicle | None) -> None:
        self.board.chronicle = chronicle

    # ---- beginning

    def begin(  # noqa: PLR0913 - one keyword for each property
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
        agents: tuple[str, ...] = (),
        into: Txn | None = None,
    ) -> Txn:
        """Return a new open transaction at a fresh epoch (or at `position`, which nobody may have).

        Args:
            name: the transaction's name.
            run: the run it belongs to.
            attempt: the number of the attempt.
            declared: scopes that it may touch.
            position: its place in the order; a fresh epoch by default.
            retry: it is tried again when it loses a race.
            owner: the worker that ends it.
            parent: the number (`Txn.id`) of the transaction in whose call it runs.
            group: the number of the hold it works under, before which it takes its place.
            guards: its isolation.
            queues: after a lost race it stands in line.
            role: its purpose; see `Role`.
            mends: it exists to undo effects of others: nobody resumes it, and recovery begins a new one while there is
                something to undo.
            agents: the agents that act in it; none given: those of `parent`.
            into: an object made of all this before, which becomes the transaction.

        Raises:
            Cancelled: the run is fenced.
            Halted: the run, an agent or everything is halted.
            Entangled: it declares what its parent holds.
            StateError: its hold has been dropped.
        """
        begin: Any = self._parts.beginnings.begin
        named: dict[str, Any] = {"agents": agents} if agents else {}
        begun: Txn = self._take(
            c.Begin,
            begin if into is None else partial(begin, into=into),
            name,
            run,
            attempt,
            tuple(declared),
            position,
            retry,
            owner,
            parent,
            group,
            role,
            guards,
            queues,
            mends,
            **named,
        )
        return begun

    def split(
        self,
        name: str,
        run: str,
        reads: list[Scope],
        guards: Guards = ALL_ON,
        tools: Iterable[Any] = (),
        *,
        hooked: bool = False,
        agents: tuple[str, ...] = (),
        attempt: int = 1,
    ) -> Txn:
        """Return a new transaction, parked, that holds nothing and depends on these scopes as they are now.

        `tools` are the tools it planned to call: by name, the number and signature of each binding. `hooked` says that
        the whole transaction had hooks: they have approved the split-off part as it is.
        """
        split = self._parts.beginnings.split
        options: dict[str, Any] = {"hooked": hooked, "agents": agents, "attempt": attempt}
        return self._take(c.Split, split, name, run, reads, guards, tuple(tools), **options)

    def refuse_fenced(self, name: str, run: str) -> None:
        """Raise `Cancelled` when a run is fenced."""
        self._parts.fences.refuse(name, run)

    def cancel(self, run: str) -> list[Txn]:
        """Fence a run: abort what has not settled, refuse what comes later; return its unfinished transactions."""
        return self._take(c.Cancel, self._parts.fences.cancel, run)

    def unfence(self, runs: Iterable[str]) -> None:
        """Remove the fences of runs that are long over."""
        self._take(c.Unfence, self._parts.fences.unfence, tuple(runs))

    def halt(
        self,
        scope: Scope | None,
        run: str | None,
        agent: str | None = None,
        *,
        by: str,
        because: str,
        since: float,
    ) -> Halt:
        """Halt a scope, a run, an agent, or with none of them everything: what is open there is aborted."""
        because = prose(because, CAUSE)  # every replica keeps this text
        return self._take(c.Halt, self._parts.halts.halt, scope, run, by, because, since, agent)

    def lift(self, number: int) -> Halt:
        """Lift a halt, and return it; `UsageError` when none of this number stands."""
        return self._take(c.Lift, self._parts.halts.lift, number)

    def halted(self, txn: Txn) -> Halt | None:
        """Return a halt that keeps a transaction from acting, or None."""
        return self._parts.halts.on(txn) if self.board.halts else None

    def halted_call(self, run: str, scopes: Iterable[Scope] = (), agents: Iterable[str] = ()) -> Halt | None:
        """Return a halt that keeps a run, or agents, from acting on scopes, or None."""
        return self._parts.halts.over(run, tuple(scopes), agents) if self.board.halts else None

    def join(self, txn: Txn, agent: str) -> None:
        """Note that an agent begins to act in a transaction; `Halted` when the agent is halted, and nothing moved."""
        self._take(c.Joined, self._parts.halts.join, txn, agent)

    def stays(self, txn: Txn) -> bool:
        """Whether a sealed or decided transaction stays as it is until a halt is lifted."""
        return txn.state in (State.SEALED, State.RELEASING) and self.halted(txn) is not None

    def put_aside(self, txn: Txn, worker: str) -> None:
        """Put such a transaction aside, between two acts: its worker goes on with it when the halt is lifted."""
        self.park(txn, parked=True)
        self.own(txn, worker)

    def go_on(self, txn: Txn) -> bool:
        """Record that such a transaction is taken up; return whether it was put aside."""
        aside = txn.parked and txn.state in (State.SEALED, State.RELEASING)
        if aside:
            self.park(txn, parked=False)
        return aside

    # ---- touching

    def request(self, txn: Txn, scope: Scope, mode: Mode, place: int = -1, commutes: str = "") -> Call:
        """Return a request to be admitted; nothing has moved.

        `place` is the decision's number in its transaction, `commutes` the group of effects that it commutes with.
        """
        return Call(txn, scope, mode, place, commutes=commutes)

    def admit(self, call: Call, planned: tuple[str, str, int] | None = None, patient: bool = True) -> Blocked | None:
        """Admit a request and return None, or return whom it waits for; ask again when that one has moved.

        `planned` is the chosen tool, its signature, and the number of tool changes when it was chosen. A request that
        is not `patient` stands in no line.

        Raises:
            LateAppend: the transaction was sealed; it is aborted as a protocol violation.
            Refused: the transaction was aborted, or its plan was found stale just now.
            Halted: the scope, its run or everything is halted; nothing moved.
            Revoked: the tool was revoked; nothing moved.
            Entangled: the request would wait for a transaction that cannot end before its own.
            StateError: the transaction has settled.
        """
        return self._take(c.Admit, self._parts.admission.admit, call, planned, patient)

    def declare(self, txn: Txn, scopes: Iterable[Scope]) -> None:
        """Hold what an open transaction may touch; a transaction in another state holds nothing new."""
        self._take(c.Declare, self._parts.admission.declare, txn, tuple(scopes))

    def withdraw(self, call: Call) -> None:
        """Withdraw a waiting request; a hold that served nothing else is dropped with it."""
        self._take(c.Withdraw, self._parts.calls.withdraw, call)

    def acted(self, call: Call, *, happened: bool) -> None:
        """Record that an admitted read or effect has returned; an effect that did not happen frees its claim."""
        self._take(c.Acted, self._parts.calls.acted, call, happened)

    def resumed(self, calls: Iterable[Call]) -> None:
        """Record that a suspended effect, whose claims are still held, runs again; refused when its step is over."""
        self._take(c.Resumed, self._parts.calls.resumed, tuple(calls))

    def released(self, call: Call) -> None:
        """Record that a held effect has left, or may have: from here on the transaction cannot be undone."""
        self._take(c.Released, self._parts.calls.released, call)

    def drop_call(self, call: Call) -> None:
        """Record that a held effect will never leave (it was refused, or could not be recorded)."""
        self._take(c.DropCall, self._parts.calls.drop_call, call)

    def undone(self, call: Call, *, clean: bool) -> None:
        """Record that an abort dealt with one executed effect; what stays in the world counts as a write."""
        self._take(c.Undone, self._parts.calls.undone, call, clean=clean)

    def refine(self, call: Call, to: Iterable[Scope]) -> list[Call]:
        """Replace a broad claim by narrower ones, none of them `OutsideDeclared`; return the narrower calls."""
        return self._take(c.Refine, self._parts.calls.refine, call, tuple(to))

    # ---- settling

    def seal(self, txn: Txn, *, hooked: bool = False) -> None:
        """Freeze the footprint, and drop declared scopes that stayed untouched; refused unless open.

        `hooked` says that hooks are still to be asked; they exist only in this process.
        """
        self._take(c.Seal, self._parts.decision.seal, txn, hooked)

    def waits_for(self, txn: Txn) -> Blocked | None:
        """Return whom a sealed transaction waits for, or None; nothing moves, stale or not.

        Raises:
            Refused: the transaction was aborted.
            StateError: it is not sealed.
            Entangled: it would wait for a transaction that cannot end before it.
        """
        self._parts.decision.require_sealed(txn)
        return self._parts.decision.waits_for(txn)

    def refuse_stale(self, txn: Txn) -> None:
        """Abort a sealed transaction, and raise why, when something it read or planned to call has changed."""
        self._parts.decision.require_sealed(txn)
        self.refuse_changed(txn, planned=txn.wrote)

    def refuse_changed(self, txn: Txn, *, planned: bool) -> None:
        """Abort a transaction, and raise `Stale`, when its reads (or its run's plan, if `planned`) have changed."""
        wrong = self._parts.staleness.found(txn, planned=planned)
        if wrong is not None:
            self.abort(txn, Reason.STALE, **wrong)
            raise self.refusal(txn)

    def decide(self, txn: Txn, *, releasing: bool = False) -> Blocked | None:
        """Commit and return None, or return whom to wait for; with nothing to release it is finished too.

        With `releasing` it stays releasing until `finish`, and can be undone while its record is being made durable.

        Raises:
            Refused: it was aborted, or is aborted now because something it read has changed.
            Halted: it is halted; nothing moved.
        """
        halt = self.halted(txn)
        if halt is not None:
            raise halted(txn.name, txn.epoch, halt, parked=True)
        self.refuse_stale(txn)
        blocked = self._parts.decision.waits_for(txn)
        if blocked is None:
            self._take(c.Commit, self._parts.decision.commit, txn, releasing)
        return blocked

    def finish(self, txn: Txn) -> None:
        """Record that every release is done: the transaction is committed and holds nothing."""
        self._take(c.Finish, self._parts.decision.finish, txn)

    def abort(self, txn: Txn, reason: Reason, **detail: Any) -> None:
        """Abort a transaction that has not settled; `take_aborted` names it when its undo can begin."""
        self._take(c.Abort, self._parts.aborts.abort, txn, reason, detail)

    def revert(self, txn: Txn, reason: Reason, **detail: Any) -> None:
        """Abort a releasing transaction of which nothing has left (the caller knows); else `StateError`."""
        self._take(c.Revert, self._parts.aborts.revert, txn, reason, detail)

    def may_conclude(self, txn: Txn) -> bool:
        """Whether the undo of an aborted transaction can begin: no call of it runs, no reader of its work is left."""
        return self._parts.aborts.may_conclude(txn)

    def finish_abort(self, txn: Txn) -> None:
        """Record that its undos are done; a retry takes its position and footprint in this same step."""
        self._take(c.FinishAbort, self._parts.aborts.finish, txn)

    def drop_retry(self, txn: Txn) -> None:
        """Record that nobody will retry this transaction: its abort frees its place."""
        self._take(c.DropRetry, self._parts.aborts.drop_retry, txn)

    def retract(self, name: str, attempt: int) -> None:
        """Record that a committed transaction is undone on request: histories hear of it, and nothing moves."""
        self._take(c.Retract, self._parts.aborts.retract, name, attempt)

    # ---- tools

    def rebind(self, tool: str, signature: str) -> None:
        """Record a change of a tool; a revoked tool stays revoked."""
        self._take(c.Rebind, self.tools.rebind, tool, signature)

    def revoke(self, tool: str) -> None:
        """Revoke a tool until it is reinstated, and abort unsettled transactions that plan to call it."""
        self._take(c.Revoke, self.tools.revoke, tool)

    def reinstate(self, tool: str) -> None:
        """Reinstate a revoked tool."""
        self._take(c.Reinstate, self.tools.reinstate, tool)

    def owe(self, tool: str) -> None:
        """Record that something is owed which a tool ("": none) fulfils; its commits then look for that."""
        if tool not in self.tools.owed:
            self._take(c.Owe, self.tools.owe, tool)

    def phantom(self, txn: Txn, tool: str, how: str, remedy: str) -> None:
        """Abort a transaction if a tool it plans to call was changed or removed."""
        self.abort(txn, Reason.STALE, **phantom(tool, how, remedy))

    # ---- ownership

    def park(self, txn: Txn, *, parked: bool, hooked: bool = False) -> None:
        """Record that a transaction is put aside until it is resumed, or that it was resumed.

        A parked transaction has no owner in any process. `hooked`: a process without its hooks releases nothing of it.
        """
        self._take(c.Park, self._parts.ownership.park, txn, parked=parked, hooked=hooked)

    def own(self, txn: Txn, worker: str) -> None:
        """Give a transaction to the worker that will end it; `StateError` while another worker has it."""
        self._take(c.Own, self._parts.ownership.own, txn, worker)

    def bury(self, worker: str) -> list[Txn]:
        """Take a dead worker's transactions from it, and return them: no worker owns them now."""
        return self._take(c.Bury, self._parts.ownership.bury, worker)

    # ---- epochs and time

    def advance(self, scope: Scope, epoch: int) -> None:
        """Raise the floor of a scope to an epoch; `ContractViolation` when work at or below it may still come."""
        self._take(c.Advance, self._parts.frontier.advance, scope, epoch)

    def skip_epochs(self, epochs: int) -> int:
        """Skip so many epochs, and return the first: nobody ever gets one of them."""
        return self._take(c.SkipEpochs, self.board.skip_epochs, epochs)

    def tell_time(self, seconds: int) -> None:
        """Record the store's time, in seconds since 1970, for people; no decision reads it."""
        self._take(c.TellTime, self.board.tell_time, seconds)

    # ---- waiting

    def watch(self, *watched: Txn, sibling: bool = False) -> Ticket:
        """Return a ticket that fires when one of these transactions moves.

        A returning call is no move for a `sibling`, a call that waits for others of its own turn: the turn wakes it.
        """
        return self.board.watch(watched, sibling=sibling)

    def watch_ends(self, ticket: Ticket) -> None:
        """Have a ticket fire when any transaction ends."""
        if ticket not in self.board.ends:
            self.board.ends.append(ticket)

    def unwatch(self, ticket: Ticket, *watched: Txn) -> None:
        """Take a ticket back."""
        for txn in watched:
            txn.watchers.pop(ticket, None)

    def wake_watchers(self, txn: Txn, *, siblings: bool = True) -> None:
        """Fire the tickets of a transaction's watchers: something outside the protocol has changed."""
        self.board.wake(txn, siblings=siblings)

    def take_woken(self) -> Sequence[Ticket]:
        """Return the tickets that fired since the last call."""
        return self.board.take_woken()

    @property
    def has_aborted(self) -> bool:
        """Whether `take_aborted` would return something."""
        return bool(self.board.aborted)

    def aborted(self) -> list[Txn]:
        """Return what `take_aborted` would return, without taking it."""
        return list(self.board.aborted)

    def take_aborted(self, most: int | None = None) -> list[Txn]:
        """Return all (or so many) transactions whose abort the caller now has to conclude."""
        return self.board.take_aborted(most)

    def ahead(self, txn: Txn) -> Blocked | None:
        """Return whom a transaction waits for before it begins again, or None; ask again when that one has moved."""
        return self._parts.line.ahead(txn)

    def in_the_way(self, call: Call) -> Blocked | None:
        """Return whom a waiting request waits for, a holder or one in line; nothing moves."""
        return self._parts.admission.in_the_way(call)

    def first(self, txn: Txn, blocked: Blocked) -> tuple[str, float]:
        """Return the name of the first transaction that this one waits for, and when one before that left."""
        return self._parts.frontier.first(txn, blocked)

    # ---- queries for users

    def frontier(self, scope: Scope) -> int:
        """Return the smallest epoch among holds overlapping a scope; with none, the next epoch."""
        return self._parts.frontier.of(scope)

    def floor(self, scope: Scope) -> int:
        """Return the epoch at or below which nobody may newly touch a scope; it never decreases."""
        return self._parts.frontier.floor(scope)

    def version(self, scope: Scope) -> int:
        """Return the number of the last committed write overlapping a scope, 0 if none is still needed."""
        return self._parts.frontier.version(scope)

    def refusal(self, txn: Txn) -> SettlemarkError:
        """Return the error that tells why a transaction was aborted, and what to do next."""
        return self.board.refusal(txn)

    def freeze(self) -> tuple[Any, ...]:
        """Return a hashable picture of the state: equal for two states that behave alike."""
        board, tools = self.board, self.tools
        rules = (tuple(sorted(board.fenced)), tuple(sorted(tools.bindings.items())), tuple(sorted(tools.revoked)))
        halts = tuple(sorted((halt.what, halt.run or "") for halt in board.halts.values()))
        return picture(board.index, board.versions, board.live, (*rules, tuple(sorted(tools.owed)), halts))


__all__ = ["NOBODY", "Protocol"]
