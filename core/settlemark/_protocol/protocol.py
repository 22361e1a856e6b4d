"""The settlement protocol: values in, decisions out; no I/O, no clock, no randomness.

`Protocol` is the facade. Its rules live in parts that are composed over one `board`, each in a file whose head says
the rule: `beginnings` (who takes which place), `admission` (who may touch, who waits), `precedence` (who gives way:
wounds and restamps), `line` (who begins again behind whom), `calls` (what becomes of a call), `staleness` and `tools`
(what has changed under a plan), `decision` (who commits), `abort` (who is undone, and tried again),
`frontier` (what is over for good: floors and fences), `ownership` (whose it is to end). `commands` has every step as a
value, `states` has the table of a transaction's life.

Sources: Atomix §2.4 and appendix A (seal, progress predicate, stale reads), timely dataflow (holds as capabilities),
and rules that were model-checked for this project. Every wait goes from a larger position to a smaller one, or for an
undo, release or read that waits for nobody: no deadlock. Writers commit in position order on each scope: committed
transactions are conflict-serializable. Each transaction says which guards keep it from others (`guards`); all do by
default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, ParamSpec, TypeVar

from settlemark._edges.errors import SettlemarkError
from settlemark._model.guards import ALL_ON, Guards
from settlemark._model.scope import Scope
from settlemark._protocol import commands as c
from settlemark._protocol.board import Board
from settlemark._protocol.chronicle import Chronicle
from settlemark._protocol.commands import Command
from settlemark._protocol.holdings import NOBODY, Blocked, Call, Mode, Role, Ticket, Txn
from settlemark._protocol.index import Position
from settlemark._protocol.picture import picture
from settlemark._protocol.rules.parts import Parts, restored
from settlemark._protocol.rules.tools import Tools, phantom
from settlemark._protocol.states import Reason
from settlemark._protocol.versions import FLOORS

_Given = ParamSpec("_Given")
_T = TypeVar("_T")


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

    Attributes:
        journal: while it is a list, the command that stands for each step is noted in it.
        fault: what a noted step has raised that its command may not answer with: no replica could take it again.
        board: the state that the parts share, and what an image is made of.
        tools: what the tools are by now.
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
        """Let a rule take a step, and note its command in the journal, refused or not."""
        if self.journal is None:
            return rule(*given, **named)
        try:
            return rule(*given, **named)
        except Exception as error:
            if not isinstance(error, kind.refusals):
                self.fault = error
            raise
        finally:
            self.journal.append(kind.of(*given, **named))

    def apply(self, command: Command) -> None:
        """Take a command that another replica took; one about what has ended moves nothing.

        Raises:
            SettlemarkError: what the command was refused for there, too: one of its `refusals`. Else it is a fault.
        """
        given = restored(self.board, command)
        if given is not None:
            self._parts.handlers[type(command)](**given)

    # ---- what is there

    @property
    def live(self) -> dict[Position, Txn]:
        """The unfinished transactions, by their positions."""
        return self.board.live

    @property
    def by_id(self) -> dict[int, Txn]:
        """The unfinished transactions, by their numbers."""
        return self.board.by_id

    @property
    def named(self) -> dict[str, Txn]:
        """The unfinished transactions, by their names."""
        return self.board.named

    @property
    def fenced(self) -> set[str]:
        """The runs that were cancelled."""
        return self.board.fenced

    @property
    def next_epoch(self) -> int:
        """The epoch that is given next."""
        return self.board.next_epoch

    @property
    def changes(self) -> int:
        """How many changes of tools there were."""
        return self.tools.changes

    @property
    def time(self) -> int:
        """What time it is where the record lives, in seconds since 1970: no decision asks for it, people do."""
        return self.board.time

    @time.setter
    def time(self, seconds: int) -> None:
        self.board.time = seconds

    @property
    def chronicle(self) -> Chronicle | None:
        """Who writes down what was decided."""
        return self.board.chronicle

    @chronicle.setter
    def chronicle(self, chronicle: Chronicle | None) -> None:
        self.board.chronicle = chronicle

    # ---- beginning

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
        into: Txn | None = None,
    ) -> Txn:
        """Return a new open transaction at a fresh epoch (or at `position`, while nobody has it).

        `owner` names the worker that brings it to its end. `parent` is the number (`Txn.id`) of the one in
        whose call it runs, `group` that of the hold it works under, before which it takes its place. `guards` are
        what keeps it from others. `mends` says that it is there to undo what others have done: it is nobody's to come
        back to, and begun anew by who finds that there is still something to undo. `into` is an object that was made
        of all this before, and takes the place.

        Raises:
            Cancelled: a fence stands on its run. Entangled: it declares what its parent holds.
            StateError: the hold has been dropped.
        """
        begin = self._parts.beginnings.begin
        return self._take(
            c.Begin, begin if into is None else partial(begin, into=into),
            name, run, attempt, tuple(declared), position, retry, owner, parent, group, role, guards, queues, mends,
        )  # fmt: skip

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
        return self._take(c.Split, self._parts.beginnings.split, name, run, reads, guards, tuple(tools), hooked=hooked)

    def refuse_fenced(self, name: str, run: str) -> None:
        """Raise `Cancelled` when a fence stands before a run."""
        self._parts.fences.refuse(name, run)

    def cancel(self, run: str) -> list[Txn]:
        """Fence a run: abort what has not settled, refuse what comes later; return all of it that is unfinished."""
        return self._take(c.Cancel, self._parts.fences.cancel, run)

    def unfence(self, runs: Iterable[str]) -> None:
        """Take down the fences before runs that are long over."""
        self._take(c.Unfence, self._parts.fences.unfence, tuple(runs))

    # ---- touching

    def request(self, txn: Txn, scope: Scope, mode: Mode, place: int = -1) -> Call:
        """Return a request, to be admitted; nothing has moved yet. `place` is its decision's, in its transaction."""
        return Call(txn, scope, mode, place)

    def admit(self, call: Call, planned: tuple[str, str, int] | None = None, patient: bool = True) -> Blocked | None:
        """Admit a request and return None, or return whom it waits for; ask again when they moved.

        `planned` is the tool that was chosen, its signature, and how many changes of tools there had been then. One
        that is not `patient` stands in no line.

        Raises:
            LateAppend: the transaction was sealed; it is aborted as a protocol violation.
            Refused: it was aborted, or its plan turned out stale just now. Revoked: the tool was; nothing moved.
            Entangled: whom it would wait for cannot end before it. StateError: it has settled.
        """
        return self._take(c.Admit, self._parts.admission.admit, call, planned, patient)

    def declare(self, txn: Txn, scopes: Iterable[Scope]) -> None:
        """Hold what an open transaction may touch; one that is past that holds nothing new."""
        self._take(c.Declare, self._parts.admission.declare, txn, tuple(scopes))

    def withdraw(self, call: Call) -> None:
        """Take back a request that is still waiting; a hold that served nothing else is dropped with it."""
        self._take(c.Withdraw, self._parts.calls.withdraw, call)

    def acted(self, call: Call, *, happened: bool) -> None:
        """Note that an admitted read or effect has returned; an effect that did not happen frees its claim."""
        self._take(c.Acted, self._parts.calls.acted, call, happened)

    def resumed(self, calls: Iterable[Call]) -> None:
        """Note that a suspended effect, whose claims are still held, runs again; refused once its step is over."""
        self._take(c.Resumed, self._parts.calls.resumed, tuple(calls))

    def released(self, call: Call) -> None:
        """Note that a held effect has left, or may have: from here on there is no way back."""
        self._take(c.Released, self._parts.calls.released, call)

    def unhold(self, call: Call) -> None:
        """Note that a held effect will never leave (it was refused, or could not be recorded)."""
        self._take(c.Unhold, self._parts.calls.unhold, call)

    def undone(self, call: Call, *, clean: bool) -> None:
        """Note that an abort dealt with one executed effect; what stays in the world is a write."""
        self._take(c.Undone, self._parts.calls.undone, call, clean=clean)

    def refine(self, call: Call, to: Iterable[Scope]) -> list[Call]:
        """Replace a broad claim by what its effect touched, none of it `OutsideDeclared`; return the narrower calls."""
        return self._take(c.Refine, self._parts.calls.refine, call, tuple(to))

    # ---- settling

    def seal(self, txn: Txn, *, hooked: bool = False) -> None:
        """Freeze the footprint, and drop what was declared and stayed untouched; refused when it is not open.

        `hooked` says that hooks are still to be asked, which end with their process.
        """
        self._take(c.Seal, self._parts.decision.seal, txn, hooked)

    def waits_for(self, txn: Txn) -> Blocked | None:
        """Return whom a sealed transaction waits for as it stands, or None; nothing moves, stale or not.

        Raises:
            Refused: it was aborted. StateError: it is not sealed. Entangled: whom it waits for cannot end before it.
        """
        self._parts.decision.require_sealed(txn)
        return self._parts.decision.waits_for(txn)

    def refuse_stale(self, txn: Txn) -> None:
        """Abort a sealed transaction when what it read, or planned to call, has changed, and raise why; else return."""
        self._parts.decision.require_sealed(txn)
        self.refuse_changed(txn, planned=txn.wrote)

    def refuse_changed(self, txn: Txn, *, planned: bool) -> None:
        """Abort a transaction when what it acts on has changed, with its run's plan if `planned`, and raise `Stale`."""
        wrong = self._parts.staleness.found(txn, planned=planned)
        if wrong is not None:
            self.abort(txn, Reason.STALE, **wrong)
            raise self.refusal(txn)

    def decide(self, txn: Txn, *, lasting: bool = False) -> Blocked | None:
        """Commit and return None, or return whom to wait for; with nothing to release it is finished too.

        Not so with `lasting`: it is releasing until `finish`, and can be undone while its record is being made durable.

        Raises:
            Refused: it was aborted, or what it read has changed, and it is aborted now.
        """
        self.refuse_stale(txn)
        blocked = self._parts.decision.waits_for(txn)
        if blocked is None:
            self._take(c.Commit, self._parts.decision.commit, txn, lasting)
        return blocked

    def finish(self, txn: Txn) -> None:
        """Note that every release is done: the transaction is committed and holds nothing."""
        self._take(c.Finish, self._parts.decision.finish, txn)

    def abort(self, txn: Txn, reason: Reason, **detail: Any) -> None:
        """Abort a transaction that has not settled; `take_aborted` names it when its undo can begin."""
        self._take(c.Abort, self._parts.aborts.abort, txn, reason, detail)

    def revert(self, txn: Txn, reason: Reason, **detail: Any) -> None:
        """Abort a releasing transaction of which nothing has left, which who releases it knows; else `StateError`."""
        self._take(c.Revert, self._parts.aborts.revert, txn, reason, detail)

    def may_conclude(self, txn: Txn) -> bool:
        """Whether the undo of an aborted transaction can begin: nothing of it runs, and nobody who saw it is left."""
        return self._parts.aborts.may_conclude(txn)

    def finish_abort(self, txn: Txn) -> None:
        """Note that its undos are done; a retry takes its position and footprint in this same step."""
        self._take(c.FinishAbort, self._parts.aborts.finish, txn)

    def unretry(self, txn: Txn) -> None:
        """Note that nobody will retry this transaction: its abort frees its place."""
        self._take(c.Unretry, self._parts.aborts.unretry, txn)

    def retract(self, name: str, attempt: int) -> None:
        """Note that what has committed is undone on request: histories hear of it, and nothing moves."""
        self._take(c.Retract, self._parts.aborts.retract, name, attempt)

    # ---- tools

    def rebind(self, tool: str, signature: str) -> None:
        """Note that a tool is another one from now on; one that is revoked stays so."""
        self._take(c.Rebind, self.tools.rebind, tool, signature)

    def revoke(self, tool: str) -> None:
        """Take a tool away until it is reinstated, and abort what has planned to call it and has not settled."""
        self._take(c.Revoke, self.tools.revoke, tool)

    def reinstate(self, tool: str) -> None:
        """Give a tool back."""
        self._take(c.Reinstate, self.tools.reinstate, tool)

    def phantom(self, txn: Txn, tool: str, how: str, remedy: str) -> None:
        """Abort a transaction one of whose planned calls is of a tool that is none, or another one, by now."""
        self.abort(txn, Reason.STALE, **phantom(tool, how, remedy))

    # ---- who brings it to its end

    def park(self, txn: Txn, *, parked: bool, hooked: bool = False) -> None:
        """Note that a transaction is put aside until somebody comes back to it, or that this has happened.

        Put aside it is nobody's, in whatever process. `hooked`: a process without its hooks lets nothing of it leave.
        """
        self._take(c.Park, self._parts.ownership.park, txn, parked=parked, hooked=hooked)

    def own(self, txn: Txn, worker: str) -> None:
        """Give a transaction to a worker that will bring it to its end; `StateError` while another has it."""
        self._take(c.Own, self._parts.ownership.own, txn, worker)

    def bury(self, worker: str) -> list[Txn]:
        """Take a dead worker's transactions from it, and return them: nobody's, and what they were doing is over."""
        return self._take(c.Bury, self._parts.ownership.bury, worker)

    # ---- epochs and time

    def advance(self, scope: Scope, epoch: int) -> None:
        """Raise the floor of a scope to an epoch; `ContractViolation` when work at or below it may still come."""
        self._take(c.Advance, self._parts.frontier.advance, scope, epoch)

    def leap(self, epochs: int) -> int:
        """Leave out so many epochs, and return the first: it, and all up to the next, was never given to anybody."""
        return self._take(c.Leap, self.board.leap, epochs)

    def tell_time(self, seconds: int) -> None:
        """Note what time it is where the record lives, in seconds since 1970: no decision asks for it, people do."""
        self._take(c.TellTime, self.board.tell_time, seconds)

    # ---- waiting

    def watch(self, *watched: Txn, sibling: bool = False) -> Ticket:
        """Return a ticket that fires when one of these transactions moves.

        That calls return is no move for a `sibling`, a call that waits for others of its turn: the turn tells it.
        """
        return self.board.watch(watched, sibling=sibling)

    def unwatch(self, ticket: Ticket, *watched: Txn) -> None:
        """Take a ticket back."""
        for txn in watched:
            txn.watchers.pop(ticket, None)

    def nudge(self, txn: Txn, *, siblings: bool = True) -> None:
        """Fire the tickets of those that watch a transaction: something outside the protocol has changed."""
        self.board.wake(txn, siblings=siblings)

    def take_woken(self) -> Sequence[Ticket]:
        """Return the tickets that fired since the last call."""
        return self.board.take_woken()

    @property
    def has_aborted(self) -> bool:
        """Whether `take_aborted` has something to give."""
        return bool(self.board.aborted)

    def aborted(self) -> list[Txn]:
        """Return what `take_aborted` has to give, and leave it."""
        return list(self.board.aborted)

    def take_aborted(self, most: int | None = None) -> list[Txn]:
        """Return the transactions, or so many of them, whose abort is now the caller's to conclude."""
        return self.board.take_aborted(most)

    def ahead(self, txn: Txn) -> Blocked | None:
        """Return whom a transaction waits for before it begins again, or None; ask again when they moved."""
        return self._parts.line.ahead(txn)

    def in_the_way(self, call: Call) -> Blocked | None:
        """Return whom a waiting request waits for as it stands, a holder or one in line; nothing moves."""
        return self._parts.admission.in_the_way(call)

    def first(self, txn: Txn, blocked: Blocked) -> tuple[str, float]:
        """Return the name of the first of those for whom a transaction waits, and when one before it left."""
        return self._parts.frontier.first(txn, blocked)

    # ---- what users may ask

    def frontier(self, scope: Scope) -> int:
        """Return the smallest epoch among holds overlapping a scope; with none, the next epoch."""
        return self._parts.frontier.of(scope)

    def floor(self, scope: Scope) -> int:
        """Return the epoch at or below which nobody may touch a scope anew; it never goes back."""
        return self._parts.frontier.floor(scope)

    def version(self, scope: Scope) -> int:
        """Return the number of the last committed write overlapping a scope, 0 for none still needed."""
        return self._parts.frontier.version(scope)

    def refusal(self, txn: Txn) -> SettlemarkError:
        """Return the error that tells why a transaction was aborted, and what to do next."""
        return self.board.refusal(txn)

    def freeze(self) -> tuple[Any, ...]:
        """Return a hashable picture of the state in which two states that behave alike are equal."""
        board, tools = self.board, self.tools
        rules = (tuple(sorted(board.fenced)), tuple(sorted(tools.bindings.items())), tuple(sorted(tools.revoked)))
        return picture(board.index, board.versions, board.live, rules)


__all__ = ["NOBODY", "Protocol"]
