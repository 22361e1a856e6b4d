"""Engines with one rule broken each, and the programs that must show it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from settlemark._driver import Driver
from settlemark._effect import Outcome
from settlemark._index import NOWHERE, Match, Node, Position, ScopeIndex
from settlemark._protocol import Protocol
from settlemark._scope import Scope
from settlemark._states import State
from settlemark._txn import Blocked, Call, Hold, Mode, Txn
from settlemark._versions import Versions


class PrematureFrontier(Protocol):
    def waits_for(self, txn: Txn) -> Blocked | None:
        super().waits_for(txn)
        return None


class _BlindVersions(Versions):
    def changed(self, txn: Txn, *, planned: bool) -> Scope | None:
        return None


class NoStaleCheck(Protocol):
    def __init__(self) -> None:
        super().__init__()
        self.versions = _BlindVersions(self.index, plans=10)


class AppendAfterSeal(Protocol):
    def _refuse_append(self, txn: Txn, scope: Scope) -> None:
        if txn.state in (State.ABORTING, State.ABORTED):
            super()._refuse_append(txn, scope)


class NoClaimExclusion(Protocol):
    def _blocked(self, txn: Txn, mode: Mode, match: Match, scope: Scope) -> Blocked | None:
        return super()._blocked(txn, mode, match, scope) if mode is Mode.READ else None


class NoWound(Protocol):
    def _meet_claims(self, txn: Txn, match: Match) -> None:
        return None


class NoRestamp(Protocol):
    def _restamp(self, txn: Txn) -> None:
        return None


class RestampLeavesOthersBehind(Protocol):
    def _behind(self, txn: Txn) -> set[Txn]:
        return set()


class _LateFloors(ScopeIndex):
    """Keeps floors back until they are let through."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[tuple[list[Node], Position]] = []

    def raise_floor(self, path: list[Node], position: Position) -> None:
        self.kept.append((path, position))


class FloorAfterRelease(Protocol):
    def __init__(self) -> None:
        super().__init__()
        self.index = _LateFloors()
        self.versions = Versions(self.index, plans=10)

    def finish(self, txn: Txn) -> None:
        kept, self.index.kept = self.index.kept, []
        for path, position in kept:
            if position == txn.position:
                ScopeIndex.raise_floor(self.index, path, position)
            else:
                self.index.kept.append((path, position))
        super().finish(txn)


class FreshEpochOnRetry(Protocol):
    def _succeed(self, txn: Txn) -> None:
        super()._succeed(txn)
        assert txn.successor is not None
        self._place(txn.successor, self._fresh())


class HoldsDroppedAtDecision(Protocol):
    def decide(self, txn: Txn) -> Blocked | None:
        blocked = super().decide(txn)
        if blocked is None and txn.state is State.RELEASING:
            for hold in list(txn.holds.values()):
                self._drop_hold(hold)
            self._wake(txn)
        return blocked

    def released(self, call: Call) -> None:
        call.txn.released = True


class _ExactFloors(ScopeIndex):
    def floor(self, match: Match) -> Position:
        return max((node.floor for node in match.ends), default=NOWHERE)


class ExactNameFloors(Protocol):
    def __init__(self) -> None:
        super().__init__()
        self.index = _ExactFloors()
        self.versions = Versions(self.index, plans=10)


class ClaimIgnoresHeldEffects(Protocol):
    def _refresh(self, hold: Hold) -> None:
        held, hold.held = hold.held, 0 if hold.txn.state is not State.RELEASING else hold.held
        super()._refresh(hold)
        hold.held = held


class ReadsDuringUndo(Protocol):
    def _blocked(self, txn: Txn, mode: Mode, match: Match, scope: Scope) -> Blocked | None:
        return None if mode is Mode.READ else super()._blocked(txn, mode, match, scope)


class BlindRetry(Driver):
    """Believes that a call that raised has not happened."""

    def _act(self, attempt: Any, txn: Txn, effect: Any, let_through: Any) -> Any:
        declaration = effect.declaration
        object.__setattr__(declaration, "probe", None)
        object.__setattr__(declaration, "keyed", True)
        return super()._act(attempt, txn, effect, let_through)


class ForgetsUndo(Driver):
    """Aborts without undoing what ran."""

    def _conclude(self, txn: Txn) -> Any:
        attempt = self._attempts.get(txn)
        if attempt is not None:
            for effect in attempt.effects.values():
                if effect.outcome is Outcome.CONFIRMED:
                    effect.outcome = Outcome.INTENDED
        return super()._conclude(txn)


@dataclass(frozen=True)
class Mutant:
    engine: type[Protocol | Driver]
    programs: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def swap(self) -> dict[str, Any]:
        return {"driver" if issubclass(self.engine, Driver) else "protocol": self.engine}


MUTANTS = {
    "a premature frontier": Mutant(PrematureFrontier, ("rx sx", "rx sx")),
    "no stale check": Mutant(NoStaleCheck, ("rx sx", "rx sx")),
    "append after seal": Mutant(AppendAfterSeal, ("sx",), {"siblings": {0: "sy"}}),
    "blind retry": Mutant(BlindRetry, ("ux",), {"on_failure": "retry"}),
    "no claim exclusion": Mutant(NoClaimExclusion, ("ex f", "ex")),
    "no wound": Mutant(NoWound, ("sx ey", "ey rx")),
    "no restamp": Mutant(NoRestamp, ("ry sx", "sx")),
    "a restamp that leaves those behind it": Mutant(RestampLeavesOthersBehind, ("ex ry", "rx sx", "sy")),
    "a floor raised after the release": Mutant(FloorAfterRelease, ("ry sx", "sx")),
    "holds dropped at the decision": Mutant(HoldsDroppedAtDecision, ("ex sy", "rx ry")),
    "exact-name floors under a parent and child": Mutant(ExactNameFloors, ("rz sp", "sx")),
    "a claim that ignores held effects": Mutant(ClaimIgnoresHeldEffects, ("sx", "ex")),
    "reads during an undo": Mutant(ReadsDuringUndo, ("ex f", "rx sy")),
    "an abort that forgets to undo": Mutant(ForgetsUndo, ("ex f", "rx")),
}

STARVATION = Mutant(FreshEpochOnRetry, ("sx", "rx sx"))

__all__ = ["MUTANTS", "STARVATION", "Mutant"]
