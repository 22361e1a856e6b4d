"""One attempt of a transaction as the driver sees it: its effects, its identity, its record."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Literal

from settlemark import _codec
from settlemark._acting import Retries
from settlemark._current import CurrentCall
from settlemark._effect import Effect, EffectClass, Outcome
from settlemark._errors import KeyConflict, StateError
from settlemark._scope import Scope
from settlemark._states import State
from settlemark._txn import Txn
from settlemark.ledger._contract import (
    Change,
    EffectRow,
    OutcomeChange,
    RecordedEffect,
    RecordedTransaction,
    StateChange,
    TransactionRow,
)

log = logging.getLogger("settlemark")

OnFailure = Literal["abort", "retry", "continue"]
Hook = Callable[[Any], Any]


_told: set[str] = set()


def _tell_once(tool: str, kind: str) -> None:
    if tool not in _told:
        _told.add(tool)
        log.warning("%s returned a %s, which JSON cannot hold: a replay would answer with its text", tool, kind)


class Attempt:
    """One try of a transaction: what it did so far, and how the ledger names it.

    A *replay* (of a committed transaction whose name was entered again) has no protocol side: its
    calls answer from the record and nothing runs.
    """

    __slots__ = (
        "effects", "entering", "held_scopes", "hooks", "name", "number", "on_failure", "prefix", "recorded", "replay",
        "retries", "run", "started", "suspended", "told_waiting", "txn", "wait", "written",
    )  # fmt: skip

    def __init__(
        self,
        txn: Txn | None,
        name: str,
        run: str,
        number: int,
        *,
        prefix: str,
        wait: float,
        hooks: tuple[Hook, ...],
        on_failure: OnFailure,
        retries: Retries,
    ) -> None:
        self.txn = txn
        self.name = name
        self.run = run
        self.number = number
        self.prefix = prefix
        self.wait = wait
        self.hooks = hooks
        self.on_failure: OnFailure = on_failure
        self.retries = retries
        self.replay: RecordedTransaction | None = None
        self.recorded: dict[int, RecordedEffect] = {}
        self.effects: dict[int, Effect] = {}
        self.entering: set[Effect] = set()
        self.held_scopes: dict[Scope, None] = {}
        self.started = 0
        self.written = False
        self.suspended = False
        self.told_waiting = False

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

    def in_flight(self) -> bool:
        """Whether a call of an open transaction runs, or is on its way to run or to be held."""
        txn = self.live
        return txn.state is State.OPEN and bool(txn.running or txn.reading or self.entering)

    def become_replay(self, recorded: RecordedTransaction) -> None:
        """Answer from what has committed, from now on."""
        self.txn = None
        self.number = recorded.row.attempt
        self.replay = recorded
        self.recorded = {effect.row.position: effect for effect in recorded.effects}

    def next(self, txn: Txn) -> Attempt:
        """Return the attempt that comes after this one, on another transaction."""
        return Attempt(
            txn, self.name, self.run, self.number + 1, prefix=self.prefix, wait=self.wait, hooks=self.hooks,
            on_failure=self.on_failure, retries=self.retries,
        )  # fmt: skip

    def place(self, effect: Effect) -> None:
        """Give an effect the number of the next decision, in issuance order; a read decides nothing."""
        if effect.declaration.kind is not EffectClass.READ:
            effect.position = self.started
            self.started += 1

    def key(self, position: int, call_id: str | None) -> str:
        """Return the idempotency key of a decision: it names the decision, not its values."""
        key = f"{self.prefix}{self.name}#{self.number}/{position}"
        return key if call_id is None else f"{key}:{call_id}"

    def current(self, effect: Effect) -> CurrentCall:
        """Return what a tool sees as its current call."""
        txn = self.txn
        return CurrentCall(effect.key, self.name, 0 if txn is None else txn.epoch, self.number, self.staged)

    def staged(self, scope: Scope) -> list[dict[str, Any]]:
        """Return the requests held in the staging area on a scope, in issuance order."""
        return [
            dict(effect.arguments)
            for effect in self.in_order()
            if effect.held
            and effect.outcome is not Outcome.DROPPED
            and effect.declaration.kind is EffectClass.STAGED
            and any(s.overlaps(scope) for s in effect.scopes)
        ]

    def recall(self, effect: Effect) -> RecordedEffect | None:
        """Return what a replayed decision led to, or None when this is no replay.

        Raises:
            KeyConflict: the decision was recorded with another tool or other arguments.
            StateError: the transaction has committed without this decision.
        """
        if self.replay is None:
            return None
        found = self.recorded.get(effect.position)
        if found is None:
            _ = self.live  # says why nothing new can run
            return None
        self._compare(effect, found.row.key, found.row.tool, found.row.arguments)
        return found

    def resume(self, effect: Effect) -> Effect | None:
        """Return the effect of this same decision from before a suspension, or None when it is new.

        Raises:
            KeyConflict: the decision was made with another tool or other arguments.
        """
        earlier = self.effects.get(effect.position)
        if earlier is not None:
            self._compare(effect, earlier.key, earlier.declaration.tool, earlier.payload)
            earlier.run, earlier.declaration = effect.run, effect.declaration
            earlier.pack, earlier.unpack = effect.pack, effect.unpack
            if earlier.stored and earlier.unpack is not None and earlier.result is not None:
                earlier.result, earlier.stored = earlier.unpack(earlier.result), False
        return earlier

    def in_order(self) -> list[Effect]:
        """Return its effects in issuance order."""
        return [effect for _, effect in sorted(self.effects.items())]

    def add(self, effect: Effect) -> None:
        """Take an effect in."""
        self.effects[effect.position] = effect
        if effect.held:
            for scope in effect.scopes:
                self.held_scopes[scope] = None

    def behind_held(self, effect: Effect) -> bool:
        """Whether an effect overlaps an earlier held one of its own, and so must be held too."""
        if not self.held_scopes:
            return False
        return any(ours.overlaps(held) for ours in effect.scopes for held in self.held_scopes)

    def _compare(self, effect: Effect, key: str, tool: str, payload: str) -> None:
        given = effect.declaration.tool
        if tool == given and payload == effect.payload:
            return
        raise KeyConflict(
            f"call {effect.position + 1} of {self.name} was {tool}({payload}) before and is {given}({effect.payload})"
            " now: nothing was run; use a new name for a new decision",
            key=key,
            recorded={"tool": tool, "arguments": _codec.decode(payload)},
            given={"tool": given, "arguments": _codec.decode(effect.payload)},
        )

    # ---- what the ledger is told

    def intent(self, effect: Effect, *, owner: str, fence: int, at: float) -> list[Change]:
        """Return the changes that record an effect before it acts, with its transaction's row at the first."""
        changes: list[Change] = []
        if not self.written:
            changes.append(self.opening(owner=owner, fence=fence, at=at))
        declaration = effect.declaration
        changes.append(
            EffectRow(
                effect.key,
                self.name,
                self.number,
                effect.position,
                declaration.tool,
                declaration.kind,
                _codec.encode_texts([scope.text for scope in effect.scopes]),
                effect.held,
                effect.call_id,
                effect.payload,
                effect.rationale,
                declaration.handlers,
                declaration.version,
                effect.outcome,
                at,
            )
        )
        return changes

    def opening(self, *, owner: str, fence: int, at: float) -> TransactionRow:
        """Return this attempt's own row."""
        self.written = True
        epoch, ordinal = self.live.position
        return TransactionRow(
            self.name, self.number, self.run, self.live.state, epoch, ordinal, owner, fence, at
        )  # fmt: skip

    def state_change(self, at: float, *, waiting: str | None = None) -> StateChange:
        """Return the change that records its present state, and for whom it waits."""
        txn = self.live
        reason = txn.reason.value if txn.reason is not None else waiting
        if txn.reason is not None and txn.detail.get("cause"):
            reason = f"{reason}: {txn.detail['cause']}"
        return StateChange(self.name, self.number, txn.state, txn.epoch, _codec.printable(reason), at)

    def outcome(self, effect: Effect, at: float) -> OutcomeChange:
        """Return the change that records what is known of an effect."""
        try:
            result = effect.plain_result()
        except Exception as error:  # a result that cannot be told must not keep its outcome from the record
            result = f"{type(effect.result).__name__} ({type(error).__name__} when it was to be recorded)"
        text = None if result is None else _codec.encode_result(result)
        if text is not None and text.startswith('{"$repr"'):
            _tell_once(effect.declaration.tool, type(result).__name__)
        told, note = _codec.printable(effect.error), _codec.printable(effect.note)
        return OutcomeChange(effect.key, effect.outcome, text, told, effect.tag, note, at)
