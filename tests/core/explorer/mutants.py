"""Engines with one rule broken each, and the programs that must show it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from tests.core.parts import parts_with
from tests.rooms.engine import Acting, Calls, Freshness, Orphans, Releases, Splitting, Undoing
from tests.rooms.lifecycle import Selection
from tests.rooms.model import ALL_ON, Disposed
from tests.rooms.protocol import (
    LAST,
    NOWHERE,
    Aborts,
    Admission,
    Blocked,
    Board,
    Call,
    Decision,
    Hold,
    Match,
    Mode,
    Node,
    Position,
    Precedence,
    ScopeIndex,
    Tools,
    Txn,
    Versions,
)
from tests.rooms.protocol import Calls as ProtocolCalls

from settlemark import Failure, Outcome, Scope, State
from settlemark.hosting import Act, Disposition, Protocol, Reason


class PrematureFrontier(Decision):
    def waits_for(self, txn: Txn) -> Blocked | None:
        return None


class _BlindVersions(Versions):
    def changed(self, txn: Txn, *, planned: bool) -> Scope | None:
        return None


class NoStaleCheck(Protocol):
    def __init__(self) -> None:
        super().__init__()
        self.board.versions = _BlindVersions(self.board.index, plans=10)


class AppendAfterSeal(ProtocolCalls):
    def refuse_append(self, txn: Txn, scope: Scope) -> None:
        if txn.state in (State.ABORTING, State.ABORTED):
            super().refuse_append(txn, scope)


class NoClaimExclusion(Admission):
    def blocked(self, mode: Mode, hold: Hold, match: Match) -> Blocked | None:
        return super().blocked(mode, hold, match) if mode is Mode.READ else None


class NoWound(Precedence):
    def meet_claims(self, hold: Hold, match: Match) -> None:
        return None


class NoRestamp(Precedence):
    def restamp(self, txn: Txn) -> None:
        return None


class RestampLeavesOthersBehind(Precedence):
    def behind(self, txn: Txn) -> set[Txn]:
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
        self.board.index = _LateFloors()
        self.board.versions = Versions(self.board.index, plans=10)
        self._parts.decision.__class__ = _FinishRaisesFloors


class _FinishRaisesFloors(Decision):
    def finish(self, txn: Txn) -> None:
        index = self._board.index
        kept, index.kept = index.kept, []
        for path, position in kept:
            if position == txn.position:
                ScopeIndex.raise_floor(index, path, position)
            else:
                index.kept.append((path, position))
        super().finish(txn)


class FreshEpochOnRetry(Aborts):
    def succeed(self, txn: Txn) -> None:
        super().succeed(txn)
        assert txn.successor is not None
        self._board.place(txn.successor, self._board.fresh())


class HoldsDroppedAtDecision(Protocol):
    def decide(self, txn: Txn, *, releasing: bool = False) -> Blocked | None:
        blocked = super().decide(txn, releasing=releasing)
        if blocked is None and txn.state is State.RELEASING:
            for hold in list(txn.holds.values()):
                self.board.drop_hold(hold)
            self.wake_watchers(txn)
        return blocked

    def released(self, call: Call) -> None:
        call.txn.released = True


class _ExactFloors(ScopeIndex):
    def floor(self, match: Match) -> Position:
        return max((node.floor for node in match.ends), default=NOWHERE)


class ExactNameFloors(Protocol):
    def __init__(self) -> None:
        super().__init__()
        self.board.index = _ExactFloors()
        self.board.versions = Versions(self.board.index, plans=10)


class ClaimIgnoresHeldEffects(Board):
    def refresh(self, hold: Hold) -> None:
        held, hold.held = hold.held, 0 if hold.txn.state is not State.RELEASING else hold.held
        super().refresh(hold)
        hold.held = held


class ReadsDuringUndo(Admission):
    def blocked(self, mode: Mode, hold: Hold, match: Match) -> Blocked | None:
        return None if mode is Mode.READ else super().blocked(mode, hold, match)


class BlindRetry(Acting):
    """Believes that a call that raised has not happened."""

    def act(self, attempt: Any, txn: Txn, effect: Any, let_through: Any) -> Any:
        declaration = effect.declaration
        object.__setattr__(declaration, "probe", None)
        object.__setattr__(declaration, "keyed", True)
        return super().act(attempt, txn, effect, let_through)


class ForgetsUndo(Undoing):
    """Aborts without undoing what ran."""

    def conclude(self, txn: Txn) -> Any:
        attempt = self._kernel.attempts.get(txn)
        if attempt is not None:
            for effect in attempt.effects.values():
                if effect.outcome is Outcome.CONFIRMED:
                    effect.outcome = Outcome.INTENDED
        return super().conclude(txn)


class NeverLooksAgain(Freshness):
    """Takes a live read for a snapshot."""

    def verify(self, attempt: Any, reads: Any) -> Any:
        return None
        yield


class NeverExpires(Freshness):
    """Lets a read hold for good."""

    def verify(self, attempt: Any, reads: Any) -> Any:
        return (yield from super().verify(attempt, [replace(read, expires=None) for read in reads]))


class ParkLetsGo(Protocol):
    """Holds nothing for what is put aside."""

    def park(self, txn: Txn, *, parked: bool, hooked: bool = False) -> None:
        super().park(txn, parked=parked, hooked=hooked)
        for hold in list(txn.holds.values()) if parked else ():
            self.board.drop_hold(hold)
        self.wake_watchers(txn)


class SplitForgetsReads(Protocol):
    def split(self, name: str, run: str, reads: list[Scope], *given: Any, **options: Any) -> Txn:
        return super().split(name, run, [], *given, **options)


class SplitsNothing(Splitting):
    """Lets the gates leave with the rest."""

    def splinters(self, attempt: Any) -> Any:
        return []


class SplitForgetsLiveReads(Splitting):
    def _read_before(self, attempt: Any) -> Any:
        return []


class TriesAgainWhateverHappened(Acting):
    """Does as it is told, although the step has been undone while that was thought about."""

    def _perform(self, attempt: Any, txn: Any, effect: Any, let_through: Any) -> Any:
        while True:
            try:
                return (yield from self._try(attempt, txn, effect, let_through))
            except Exception as error:
                failure = Failure(attempt.name, effect.declaration.tool, {}, effect.scope_text, error, 1, held=False)
                if (yield Act(partial(attempt.ask, failure), {}, None)) != "retry":
                    raise


class AdvancesPastHolds(Protocol):
    def advance(self, scope: Scope, epoch: int) -> None:
        self.board.versions.advance(scope, (epoch, LAST))


class AdvanceRaisesNothing(Precedence):
    """Lets a call at or below an advanced floor be made where it is."""

    def restamp(self, txn: Txn) -> None:
        advanced = any(entry.position[1] == LAST for entry in self._board.versions._log)
        if not advanced:
            super().restamp(txn)


class HoldsForNobody(Protocol):
    def begin(self, name: str, run: str | None = None, **options: Any) -> Txn:
        return super().begin(name, run, **{**options, "declared": () if options.get("role") else options["declared"]})


class WorksBehindItsHold(Protocol):
    """Gives work under a hold a place of its own."""

    def begin(self, name: str, run: str | None = None, **options: Any) -> Txn:
        txn = super().begin(name, run, **options)
        if txn.group:
            self.board.place(txn, self.board.fresh())
        return txn


class LeavesItsHoldBehind(Precedence):
    """Moves work without the hold it is done under."""

    def behind(self, txn: Txn) -> set[Txn]:
        group, txn.group = txn.group, 0
        found = super().behind(txn)
        txn.group = group
        return found


class KnowsNoCaller(Protocol):
    """Lets what runs inside a call wait for its caller."""

    def begin(self, name: str, run: str | None = None, **options: Any) -> Txn:
        return super().begin(name, run, **{**options, "parent": 0})


class SeesNoCircle(Admission):
    def refuse_circle(self, call: Call, blocked: Blocked) -> None:
        return None


class TellsNobodyOfCircles(Board):
    """Looks for a circle only when it begins to wait, and not when others do."""

    def tell_tied(self) -> None:
        return None


class KnowsNoSiblings(Protocol):
    """Lets the branches of a choice wait for each other."""

    def begin(self, name: str, run: str | None = None, **options: Any) -> Txn:
        return super().begin(name, run, **{**options, "group": 0})


class SettlesEveryBranch(Selection):
    """Commits those that were not chosen, too."""

    def choose(self, winner: Any, losers: Any, **options: Any) -> Any:
        for attempt in losers:
            with self._kernel.local as protocol:
                protocol.board.leave_group(attempt.live)
                attempt.live.group = 0
            yield from self._settling.commit(attempt)
        yield from super().choose(winner, [], **options)


class LeavesTheLosers(Undoing):
    """Commits the branch that was chosen, and then undoes the others."""

    def discard(self, attempt: Any, reason: Reason, **detail: Any) -> Any:
        return
        yield


class CutsNobodyOff(Aborts):
    def strike(self, txn: Txn, reason: Reason, detail: dict[str, Any]) -> Any:
        return iter(()) if reason is Reason.CASCADED else super().strike(txn, reason, detail)


class CommitsBeforeWhatItSaw(Decision):
    def unsettled(self, txn: Txn) -> Blocked | None:
        return None

    def older(self, txn: Txn, hold: Hold, match: Match) -> Txn | None:
        older = super().older(txn, hold, match)
        return None if older is not None and older.id in txn.preds else older


class SawWhatCameLater(Decision):
    def commit(self, txn: Txn, releasing: bool) -> None:
        for hold in txn.holds.values():
            hold.last_act = 0
        super().commit(txn, releasing)


class CallsPhantoms(Tools):
    def phantom(self, txn: Txn, tool: str, how: str, remedy: str) -> None:
        return None


class ReleasesAsIssued(Releases):
    """Lets what cannot be undone leave before what can still fail."""

    @staticmethod
    def to_leave(attempt: Any) -> Any:
        return sorted(Releases.to_leave(attempt), key=lambda effect: effect.path)


class HoldsWhateverIsBehind(Calls):
    """Keeps back what is issued behind a held effect, so that it can fail only when that has left."""

    def _come(self, seat: Any, effect: Any) -> None:
        seat.turn.order = "issued"
        super()._come(seat, effect)


class TakesNothingBack(Orphans):
    """Commits what only the ended process had decided."""

    def take_back_orphans(self, attempt, base=()):
        attempt.expected.paths.clear()
        yield from ()


class TakesBackUnsaid(Orphans):
    """Undoes before it is on record that it does."""

    def _strike_out(self, attempt, txn, orphans, because):
        for effect in orphans:
            if effect.executed:
                effect.disposed = Disposed(Disposition.ORPHANED, because)
        yield from super()._strike_out(attempt, txn, [effect for effect in orphans if not effect.executed], because)


class ReadsBesideWhatCommutes(Admission):
    """Takes what commutes with its group for settled."""

    def blocked(self, mode: Mode, hold: Hold, match: Match) -> Blocked | None:
        found = super().blocked(mode, hold, match)
        commuting = found is not None and any(theirs.commutes for theirs in found.holder.holds.values())
        return None if mode is Mode.READ and commuting else found


class GroupsAreAlike(Admission):
    """Has any two effects commute that commute with something."""

    def admit(self, call: Call, planned: tuple[str, str, int] | None, patient: bool) -> Blocked | None:
        call.commutes = "any" if call.commutes else ""
        return super().admit(call, planned, patient)


class NothingCommutes(Admission):
    """Has those wait that need not: nothing is wrong at an end."""

    def admit(self, call: Call, planned: tuple[str, str, int] | None, patient: bool) -> Blocked | None:
        call.commutes = ""
        return super().admit(call, planned, patient)


class CommutesWhateverElseItDoes(Admission):
    """Forgets that a transaction touches the scope in another way, too."""

    def admit(self, call: Call, planned: tuple[str, str, int] | None, patient: bool) -> Blocked | None:
        before = {hold.scope: hold.commutes for hold in call.txn.holds.values()}
        blocked = super().admit(call, planned, patient)
        if call.hold is not None:
            call.hold.commutes = before.get(call.scope) or call.hold.commutes
        return blocked


class CommutesWithEveryHolder(Decision):
    """Commits before everybody older where what it did commutes with something."""

    def older(self, txn: Txn, hold: Hold, match: Match) -> Txn | None:
        return None if hold.commutes else super().older(txn, hold, match)


class StandsBelowItsGroup(Admission):
    """Touches in another way where it stands what others of its group have settled above it."""

    @staticmethod
    def stands_alone(hold: Hold, scope: Scope, group: str | None) -> bool:
        return True


EARLY = {"guards": ALL_ON._replace(reads="early")}


@dataclass(frozen=True)
class Mutant:
    """A broken engine: a service of a driver, a protocol, or one part of a protocol."""

    engine: type[object]
    programs: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def swap(self) -> dict[str, Any]:
        if issubclass(self.engine, Protocol):
            return {"protocol": self.engine}
        of_protocol = any("._protocol." in base.__module__ for base in self.engine.__mro__)
        return {"protocol": partial(with_part, self.engine)} if of_protocol else {"parts": parts_with(self.engine)}


def with_part(broken: type[Any]) -> Protocol:
    """Return a protocol one of whose parts is of a class that breaks a rule of it."""
    protocol = Protocol()
    (part,) = [part for part in vars(protocol._parts).values() if type(part) is broken.__base__]
    part.__class__ = broken
    return protocol


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
    "a live read that is not compared again": Mutant(NeverLooksAgain, ("lx sy",), {"outside": "x"}),
    "a read that never expires": Mutant(NeverExpires, ("vx sy",), {"outside": "t"}),
    "a park that lets go": Mutant(ParkLetsGo, ("ex k", "rx sy")),
    "a split that forgets what was read": Mutant(SplitForgetsReads, ("rx iz g", "sx")),
    "a split that forgets what was read live": Mutant(SplitForgetsLiveReads, ("lx iz g",), {"outside": "x"}),
    "a split that keeps nothing back": Mutant(SplitsNothing, ("ex iy g",)),
    "a retry of what was undone meanwhile": Mutant(
        TriesAgainWhateverHappened, ("ey sx", "bx"), {"on_failure": "ask", "verdict": "retry"}
    ),
    "a cascade that spares who saw": Mutant(CutsNobodyOff, ("ex f", "rx sy"), EARLY),
    "a commit before what it saw": Mutant(CommitsBeforeWhatItSaw, ("ex f", "rx sy"), EARLY),
    "a read that saw what came later": Mutant(SawWhatCameLater, ("ex ex", "rx sy"), EARLY),
    "a tool that is gone": Mutant(CallsPhantoms, ("ix",), {"revoked": "ix"}),
    "an advance past a hold": Mutant(AdvancesPastHolds, ("sx",), {"advanced": "x"}),
    "an advance that nobody below it minds": Mutant(AdvanceRaisesNothing, ("sx",), {"advanced": "x"}),
    "a hold that holds nothing": Mutant(HoldsForNobody, ("rx", "sx"), {"holds": {"x": (0,)}}),
    "work behind its hold": Mutant(WorksBehindItsHold, ("sx",), {"holds": {"x": (0,)}}),
    "work that leaves its hold behind": Mutant(LeavesItsHoldBehind, ("sx", "sx"), {"holds": {"x": (0, 1)}}),
    "an inner transaction that knows no caller": Mutant(KnowsNoCaller, ("nx",), {"inside": {0: "sx"}}),
    "a circle through a call": Mutant(SeesNoCircle, ("nz", "ex ez"), {"inside": {0: "ex"}}),
    "a circle that is closed by somebody else": Mutant(TellsNobodyOfCircles, ("nz", "ex ez"), {"inside": {0: "ex"}}),
    "branches that wait for each other": Mutant(KnowsNoSiblings, ("ex | ex",)),
    "a choice that settles every branch": Mutant(SettlesEveryBranch, ("sx | sy",)),
    "a mail that leaves before what can be refused": Mutant(ReleasesAsIssued, ("iy tx",)),
    "a turn whose last call can fail behind its mail": Mutant(HoldsWhateverIsBehind, ("iy bx",), {"turns": {0: "ez"}}),
    "a plan that keeps what only the one before it asked for": Mutant(TakesNothingBack, ("ex ey / ex",)),
    "an undo before it is on record that it is one": Mutant(TakesBackUnsaid, ("ex ey / ex",)),
    "a mail that only the plan before asked for": Mutant(TakesNothingBack, ("ex iz / ex",)),
    "a read beside effects that commute among themselves": Mutant(ReadsBesideWhatCommutes, ("ax f", "rx sy")),
    "effects of two groups beside each other": Mutant(GroupsAreAlike, ("ax", "mx f")),
    "an effect that commutes, and another beside it": Mutant(CommutesWhateverElseItDoes, ("ax ex f", "ax")),
    "a commit before an older one it does not commute with": Mutant(CommutesWithEveryHolder, ("sx", "cx")),
    "a touch below what its group has settled": Mutant(StandsBelowItsGroup, ("ax sx", "ax")),
    "a choice that leaves the losers": Mutant(LeavesTheLosers, ("ex | ey",)),
}

STARVATION = Mutant(FreshEpochOnRetry, ("sx", "rx sx"))

__all__ = ["MUTANTS", "STARVATION", "Mutant"]
