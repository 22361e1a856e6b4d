"""One attempt of a transaction as the driver sees it: its effects, its identity, its record."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from settlemark._acts.current import Staged
from settlemark._acts.effect import Effect
from settlemark._acts.perform import Retries
from settlemark._attempt.effect_records import EffectRecords
from settlemark._attempt.expected import Expected
from settlemark._attempt.live_read import LiveRead
from settlemark._attempt.turned_away import TurnedAway
from settlemark._attempt.wait_log import WaitLog
from settlemark._edges.errors import StateError
from settlemark._model import json_text
from settlemark._model.declaration import Declaration
from settlemark._model.disposition import NOTHING, Disposition
from settlemark._model.effect_class import EffectClass, Outcome
from settlemark._model.identity import Numbering, Path, beside_key, key_of, step_of
from settlemark._model.made import made_by
from settlemark._model.scope import Scope
from settlemark._observe.events import Began
from settlemark._observe.logs import about
from settlemark._protocol.holdings import DETACHED, Ticket, Txn
from settlemark._protocol.leaving import Held, leaving_order
from settlemark._protocol.states import Reason, State
from settlemark._report.verdicts import first_hand
from settlemark.ledger._contract import (
    HAPPENED,
    Book,
    Change,
    EffectRow,
    OutcomeChange,
    RecordedEffect,
    RecordedTransaction,
    StateChange,
    TransactionRow,
)
from settlemark.ledger._payloads.payloads import Packer

if TYPE_CHECKING:
    from settlemark._acts.failure import Ask
    from settlemark._acts.gate import Approver

log = logging.getLogger("settlemark")

OnFailure = Literal["abort", "retry", "continue", "ask"]
Hook = Callable[[Any], Any]


class Attempt:
    """One try of a transaction: what it did so far, and how the ledger names it.

    A *replay* (of a committed transaction whose name was entered again) has no protocol side: its
    calls answer from the record and nothing runs.
    """

    __slots__ = (
        "abort_on_disk", "again", "age_told", "approver", "ask", "began", "concluded", "concluding",
        "decided_at", "effects", "end_queued", "entering", "expected", "handed_over", "held_scopes", "hooks",
        "judged", "live_reads", "max_age", "name", "number", "numbering", "on_failure", "overdue", "owes", "park",
        "parks", "patient", "payloads", "placed", "placed_before", "prefix", "recorded", "records", "replay",
        "retries", "run", "sealed_at", "settling", "since", "speculative", "splinters", "stays", "suspended",
        "told_waiting", "turned_away", "txn", "wait", "waited", "waiters", "worker", "written",
    )  # fmt: skip # a list of names

    def __init__(
        self,
        txn: Txn | None,
        name: str,
        run: str,
        number: int,
        *,
        prefix: str,
        payloads: Packer,
        wait: float,
        hooks: tuple[Hook, ...],
        on_failure: OnFailure,
        retries: Retries,
        ask: Ask | None = None,
        approver: Approver | None = None,
    ) -> None:
        self.txn = txn
        self.name = name
        self.run = run
        self.number = number
        self.prefix = prefix
        self.payloads = payloads
        self.wait = wait
        self.hooks = hooks
        self.turned_away: TurnedAway | None = None
        self.judged = False  # they have said yes to all that is in it, as it is
        self.on_failure: OnFailure = on_failure
        self.ask, self.approver = ask, approver
        self.retries = retries
        self.replay: RecordedTransaction | None = None
        self.recorded: dict[Path, RecordedEffect] = {}
        self.stays: dict[Path, RecordedEffect] = {}  # what earlier attempts did, and could not undo
        self.effects: dict[Path, Effect] = {}  # walk a copy: other threads add to it
        self.entering: set[Effect] = set()
        self.expected = Expected(self.effects)
        self.records = EffectRecords(payloads, self.effects)
        self.held_scopes: dict[Scope, Path] = {}  # each with the first decision that is held on it
        self.live_reads: dict[Hashable, LiveRead] = {}
        self.numbering = Numbering()
        self.placed = self.placed_before = 0
        self.worker = ""  # the name under which this process acts, or last acted, for it
        self.again = 0  # how often it was entered again
        self.written = self.suspended = self.told_waiting = self.concluding = False
        self.abort_on_disk = False  # its undos may begin
        self.end_queued = False  # it is undone, and the store has yet to take that: this goes on by itself
        self.handed_over = False  # decided, and its program has ended: the maintenance thread goes on
        self.owes: dict[Path, int] = {}  # how many obligations its calls have opened, by the place of each
        self.park: Literal["keep", "split"] | None = None  # what its end is to be, in place of its commit
        self.parks: Literal["keep", "split"] | None = None  # how, when something of it waits for a person at its end
        self.splinters: list[Splinter] = []
        self.speculative = False  # it may lose: what an abort would leave behind is held until it has won
        self.waited = WaitLog()
        self.sealed_at: float | None = None  # on the store's clock, as `decided_at`: when its commit was decided
        self.decided_at: float | None = None
        self.patient = True  # it stands in line where others lost a race
        self.concluded: set[Path] = set()  # what of it an abort has undone, or named
        self.settling = 0  # how many programs are at its commit, or will be when what goes before it is done
        self.waiters: list[Ticket] = []
        self.since = 0.0  # when it came to this process, on the monotonic clock
        self.max_age: float | None = None  # seconds for which it may be open from then on
        self.age_told = self.overdue = False  # that it is near that, or past it
        self.began: Began | None = None  # what an observer was told of it

    @property
    def live(self) -> Txn:
        """Its protocol side.

        Raises:
            StateError: it is a replay of what has committed.
        """
        if self.txn is None:
            raise StateError(
                f"{self.name} has committed: entering it again replays its results and runs nothing new;"
                " use another name for new work",
                transaction=self.name,
                state=State.COMMITTED,
            )
        return self.txn

    @property
    def knows_more(self) -> bool:
        """Whether something of it is known here that the record may lack: what was called, and came back, here."""
        return any(not effect.stored for effect in self.effects.copy().values())

    def in_flight(self) -> bool:
        """Whether a call of an open transaction runs, or is on its way to run or to be held."""
        return bool(self.entering) and self.live.state is State.OPEN

    def become_replay(self, recorded: RecordedTransaction) -> None:
        """Answer from what has committed, from now on."""
        self.txn = None
        self.number = recorded.row.attempt
        self.replay = recorded
        self.recorded = {effect.row.decision: effect for effect in recorded.effects}

    def restart(self, entered: Attempt) -> None:
        """Expect its decisions anew, from the first: what was decided before is recalled.

        `entered` is an attempt as its caller asks for it now: what was said of it then holds no more. Its
        hooks alone stay where none are given: nothing that could refuse its commit is lost by coming back to it.
        """
        self.again += 1
        self.hooks, self.judged = entered.hooks or self.hooks, False
        self.wait, self.retries = entered.wait, entered.retries
        self.on_failure, self.ask, self.approver = entered.on_failure, entered.ask, entered.approver
        self.numbering = Numbering()
        self.park, self.owes = None, {}
        self.placed = 1 + max((effect.position for effect in self.effects.copy().values()), default=-1)

    def expect(self, base: Path = ()) -> None:
        """Expect to be asked again for what was decided before, below a place."""
        self.expected.expect(base)

    def next(self, txn: Txn) -> Attempt:
        """Return the attempt that comes after this one, on another transaction."""
        again = Attempt(
            txn, self.name, self.run, self.number + 1, prefix=self.prefix, payloads=self.payloads, wait=self.wait,
            hooks=self.hooks, on_failure=self.on_failure, retries=self.retries, ask=self.ask, approver=self.approver,
        )  # fmt: skip # the settings of this attempt
        again.parks, again.speculative, again.max_age = self.parks, self.speculative, self.max_age
        return again

    def part(self, name: str) -> Attempt:
        """Return the attempt of what is split off from this one: it has this one's number."""
        return Attempt(
            None, name, self.run, self.number, prefix=self.prefix, payloads=self.payloads, wait=self.wait,
            hooks=self.hooks, on_failure=self.on_failure, retries=self.retries, ask=self.ask, approver=self.approver,
        )  # fmt: skip # the settings of this attempt

    def place(self, effect: Effect, numbering: Numbering | None = None) -> None:
        """Give an effect the name of the next decision, in issuance order; a read decides nothing.

        Raises:
            DeclarationError: it has an effect inside a call that is declared a read.
        """
        if effect.declaration.kind is EffectClass.READ:
            return
        effect.path = (numbering or self.numbering).next(effect.declaration.tool)
        known = self.effects.get(effect.path)
        if known is not None:
            effect.position = known.position
        else:
            effect.position, effect.came = self.placed, self.again
            self.placed += 1

    @property
    def asks(self) -> Ask | None:
        """The function that is asked what a call's failure is to mean; None without one."""
        return self.ask if self.on_failure == "ask" else None

    @property
    def state_here(self) -> State | None:
        """The state of its transaction; None when another worker has it."""
        return None if self.live.id == DETACHED else self.live.state

    def about(self, effect: Effect, **data: Any) -> dict[str, Any]:
        """Return the `extra=` of a log call about an effect of it."""
        return about(
            transaction=self.name, run=self.run, attempt=self.number,
            epoch=None if self.txn is None else self.txn.epoch,
            tool=effect.declaration.tool, scope=effect.scope_text, key=effect.key, outcome=effect.outcome.value, **data,
        )  # fmt: skip # a table of fields

    @property
    def step(self) -> str:
        """What its keys have in common: no other attempt of any transaction has it."""
        return step_of(self.prefix, self.name, self.number)

    def key(self, path: Path, call_id: str | None) -> str:
        """Return the idempotency key of a decision: it names the decision, not its values."""
        return key_of(self.prefix, self.name, self.number, path, call_id)

    def staged(self, scope: Scope) -> list[Staged]:
        """Return the requests held in the staging area on a scope, in issuance order."""
        return [
            Staged(effect.declaration.tool, effect.shown(), effect.key)
            for effect in self.in_order()
            if effect.held
            and effect.outcome is not Outcome.DROPPED
            and effect.declaration.kind is EffectClass.STAGED
            and any(s.overlaps(scope) for s in effect.scopes)
        ]

    def carry_on(self, earlier: Iterable[RecordedTransaction]) -> None:
        """Take what stays of undone attempts before this one for done: a decision that comes back repeats it."""
        for recorded in sorted(earlier, key=lambda one: (one.epoch, one.row.attempt)):  # no clock tells which is last
            gone = recorded.state is State.ABORTED or recorded.reason is Reason.REWOUND
            for effect in recorded.effects if gone else ():
                if effect.outcome in HAPPENED and effect.disposition is not Disposition.TO_UNDO:  # none relies on that
                    self.stays[effect.row.decision] = effect

    def in_order(self) -> list[Effect]:
        """Return its effects in issuance order."""
        return [effect for _, effect in sorted(self.effects.copy().items())]

    def as_acted(self) -> list[Effect]:
        """Return its effects in the order in which they acted, those of an earlier entering first.

        That is as they were issued, but for those that agents made which ran beside each other.
        """
        return sorted(self.in_order(), key=lambda effect: (effect.came, effect.at))

    def made_by(self, effect: Effect) -> list[Effect]:
        """Return the effects of the calls that a call made, in issuance order."""
        effects = self.effects.copy()
        return [effects[path] for path in made_by(effect.path, {p: e.declaration.kind for p, e in effects.items()})]

    def leaving(self) -> list[Effect]:
        """Return its held effects in the order in which they leave: what cannot be undone last, else as issued.

        With that guard off, as they came in place of as issued.
        """
        held = {path: e for path, e in self.effects.copy().items() if e.held and e.outcome is not Outcome.DROPPED}
        came = [held[path] for path in (sorted(held) if held and self.live.guards.ordered else held)]
        return leaving_order(came, lambda effect: Held(effect.leaves, effect.scopes)) if came else []

    def add(self, effect: Effect) -> None:
        """Take an effect in."""
        self.effects[effect.path] = effect
        self.placed = max(self.placed, effect.position + 1)
        if effect.held:
            for scope in effect.scopes:
                self.held_scopes[scope] = min(effect.path, self.held_scopes.get(scope, effect.path))

    def must_hold(self, effect: Effect) -> bool:
        """Whether an effect waits for the commit, whatever its turn says."""
        if self.is_held(effect.declaration):
            return True
        return bool(self.held_scopes) and self.live.guards.ordered and self.behind_held(effect)

    def is_held(self, declaration: Declaration) -> bool:
        """Whether the effects of a tool wait for the commit here."""
        leaves = declaration.kind is not EffectClass.READ and not declaration.leaves_nothing
        return declaration.held or (self.speculative and leaves)

    def behind_held(self, effect: Effect) -> bool:
        """Whether an effect overlaps an earlier held one of its own, and so must be held too."""
        earlier = [scope for scope, path in self.held_scopes.copy().items() if path < effect.path]
        return any(ours.overlaps(held) for ours in effect.scopes for held in earlier)

    # ---- what the ledger is told

    def put(self, book: Book, changes: list[Change]) -> None:
        """Write what is this attempt's to say.

        Once another worker has its transaction, that is what came of its own acts, which no other worker can know.
        """
        if self.txn is None or self.txn.id != DETACHED:
            book.write(changes)
            return
        effects = {effect.key: effect for effect in self.effects.copy().values()}
        for change in changes:
            effect = effects.get(change.key) if isinstance(change, OutcomeChange) else None
            recorded = None if effect is None or not self.worker else book.find(effect.key)
            if effect is None or recorded is None:
                continue
            found = next(each for each in recorded.effects if each.row.key == effect.key)
            told = first_hand(recorded, found, effect, change.at, worker=self.worker)
            if told is not None:
                book.write([told])

    def intent(self, effect: Effect, *, owner: str, at: float, sent: float) -> list[Change]:
        """Return the changes that record an effect before it acts, with its transaction's row at the first.

        `sent` is the store's time, by which the age of its key is told.
        """
        changes: list[Change] = []
        if not self.written:
            changes.append(self.opening(owner=owner, at=at))
        effect.at = sent
        declaration = effect.declaration
        arguments, rationale = effect.packed or (effect.payload, effect.rationale)
        changes.append(
            EffectRow(
                effect.key,
                self.name,
                self.number,
                effect.position,
                declaration.tool,
                declaration.kind,
                json_text.canonical([scope.text for scope in effect.scopes]),
                effect.held,
                effect.call_id,
                arguments,
                rationale,
                declaration.handlers,
                declaration.version,
                effect.outcome,
                sent,
                effect.fingerprint,
                declaration.window,
                effect.leaves,
                beside_key(effect.path),
                None if effect.decision is None else effect.decision.id,
            )
        )
        if effect.disposed != NOTHING:
            changes.append(self.records.outcome(effect, at))
        return changes

    def opening(self, *, owner: str, at: float) -> TransactionRow:
        """Return this attempt's own row."""
        txn = self.live
        return TransactionRow(self.name, self.number, self.run, txn.state, *txn.position, owner, at, txn.agents)

    def state_change(self, at: float, *, waiting: tuple[str, str] | None = None) -> StateChange:
        """Return the change that records its present state, and for whom it waits, and on what."""
        txn = self.live
        cause = None if txn.reason is None else txn.detail.get("cause") or txn.detail.get("verdict")
        holder, scope = (None, None) if waiting is None or txn.reason is not None else waiting
        return StateChange(
            self.name, self.number, txn.state, txn.epoch, txn.reason, at, self.sealed_at, self.decided_at,
            self.waited.told(), str(cause) if cause else None, None, holder, scope, txn.agents,
        )  # fmt: skip # in the order of its fields

    def take_times(self, recorded: RecordedTransaction) -> None:
        """Take over when it was sealed and decided, and for whom it waited, where another process had it before."""
        self.sealed_at, self.decided_at = recorded.sealed_at, recorded.decided_at
        self.waited.take_over(recorded.waits)


@dataclass(slots=True, eq=False)
class Splinter:
    """What becomes a transaction of its own: its effects as they are, and as they will be recorded there.

    `behind` never leaves: a caller that comes back to the gate calls it again there.
    """

    attempt: Attempt
    effects: list[Effect]
    moved: list[Effect]
    behind: list[Effect] = field(default_factory=list["Effect"])


__all__ = ["Attempt", "Hook", "OnFailure", "Splinter"]
