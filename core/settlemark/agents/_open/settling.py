"""How an open turn ends: which of its calls are over, and what becomes of it when all are."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from settlemark._acts.effect import Effect
from settlemark._acts.gate import is_asked
from settlemark._acts.perform import Program
from settlemark._acts.requests import Wait
from settlemark._attempt.part import Part
from settlemark._attempt.turn import Turn
from settlemark._edges.errors import InDoubt, PartialCommit, Refused, SettlemarkError, Wounded
from settlemark._edges.wording import in_words, is_a, kind_of
from settlemark._lifecycle.parking import Park
from settlemark._model.disposition import Disposition
from settlemark._model.effect_class import Outcome
from settlemark._protocol.holdings import Ticket, fire
from settlemark._protocol.states import Reason, State
from settlemark._runtime.driver import Driver
from settlemark.agents._call import PlacedCall
from settlemark.agents._words import too_late

Control = tuple[type[BaseException], ...]

_NO_DEADLINE = 1e6  # a sibling may run as long as it likes; each of its own waits has a deadline
_UNSETTLED = (State.OPEN, State.SEALED)


class Settling:
    """The end of one open turn: the last of its calls that is over settles it.

    Args:
        driver: settles it.
        part: its transaction, or the part it has in another's.
        turn: the order of its calls.
        calls: all of them, as they get their places.
        within: others settle the transaction; a failure here undoes all of it.
        undoes: it settles; else it keeps order and deduplicates, and that is all.
        resumable: the framework may come back to it.
        let_through: the framework's control flow: it puts the turn aside.
        park: what becomes of it while it waits for a person's answer.

    Attributes:
        refusal: why it did not commit as a whole, or None.
        broken: what else kept it from settling.
        suspended: it was put aside.
        settled: nothing of it is open any more.
        control: by what the framework put it aside.
        cut: what cut it short.
        controls: by what a call may put the turn aside also as it is to leave.
        look: finds calls that will not come and says so with `arrived`, whenever somebody begins to wait; returns the
            seconds until it is to look again, or None when it tells by itself.
        ended: called when the turn has settled, before anybody is told.
    """

    def __init__(
        self,
        driver: Driver,
        part: Part,
        turn: Turn,
        calls: Sequence[PlacedCall],
        *,
        within: bool,
        undoes: bool,
        resumable: bool,
        let_through: Control,
        park: Park,
    ) -> None:
        self.refusal: SettlemarkError | None = None
        self.broken: BaseException | None = None
        self.suspended = False
        self.settled = False
        self.control: BaseException | None = None
        self.cut: BaseException | None = None
        self.look: Callable[[], float | None] = _nothing_to_see
        self.ended: Callable[[], None] = _nothing_to_see
        self.undoes = undoes
        self.joined = part.joined
        self.attempt = part.attempt
        self._driver = driver
        self._part = part
        self._turn = turn
        self._calls = calls
        self._within = within
        self._resumable = resumable
        self._let_through = let_through
        self.controls: Control = let_through if undoes and resumable and not (within or part.joined) else ()
        self._park: Park = park
        self._expected = 0
        self._settling = False
        self._abandoned: BaseException | None = None
        self._waiting: list[Ticket] = []
        self._cause: str | None = None
        self._escaped = False
        self._lock = threading.Lock()

    # ---- what it is

    @property
    def abandoned(self) -> bool:
        """Whether it was cut short, and undone for that: who comes to it now, or to its name, comes too late."""
        return self.cut is not None and self.undoes and self.attempt.replay is None

    @property
    def lost_race(self) -> bool:
        """Whether it was undone only because an older transaction needed what it had: run it again."""
        txn = self.attempt.txn
        undone = txn is not None and txn.state is State.ABORTED and txn.reason is Reason.WOUNDED
        return not self.joined and (undone or isinstance(self.refusal, Wounded))

    @property
    def unattended(self) -> bool:
        """Whether all calls are over, and nobody is there to settle it: `until_settled` does."""
        with self._lock:
            return not (self._expected or self._settling or self.cut is not None or self._waiting)

    @property
    def is_undone(self) -> bool:
        """Whether its transaction was undone, or it by itself, inside another's call."""
        txn = self.attempt.txn
        return self._part.shared.undone is not None or (
            txn is not None and txn.state in (State.ABORTING, State.ABORTED)
        )

    @property
    def because(self) -> str:
        """Why it was undone, in words."""
        if self._abandoned is not None:
            return f"the step was stopped by {kind_of(self._abandoned)}"
        if isinstance(self.refusal, InDoubt):
            return f"the outcome of {self.refusal.data.get('tool', 'a call')} is unknown"
        if self.refusal is not None:
            return str(self.refusal)
        if self._cause is not None:
            return self._cause
        first = next((call for call in self._calls if call.has_failed), None)
        if first is not None:
            return f"{first.tool} failed: {first.failed}"
        why = self._part.shared.undone  # it failed in another turn
        if why is None and self.attempt.txn is not None:
            why = self.attempt.txn.detail.get("cause")
        return str(why) if why else "the step was stopped"

    def refuse_late(self, tool: str) -> None:
        """Return when it was not abandoned.

        Raises:
            Refused: it was: nothing of it acts any more.
        """
        if self.cut is not None and self.abandoned:
            raise too_late(tool, self.cut, self.attempt.name)

    # ---- the end of a call

    def expect(self) -> None:
        """Take note of one more call that is to come to its end."""
        self._expected += 1

    def leave(self, call: PlacedCall, *, failed: str | None, error: BaseException | None) -> Program[None]:
        """End a call; see `OpenTurn.leave`."""
        if error is not None and is_a(error, self._let_through):
            self.control = error if self.control is None else self.control
            if self.undoes:
                self._driver.calls.interrupt(call.seat, error)
            else:
                self._driver.calls.leave(call.seat, failed=False)  # as stock: it keeps back no other call
        else:
            self._escaped = self._escaped or (error is not None and is_a(error, Exception))
            call.failed = failed if error is None else in_words(error)
            call.stopped = self.settled and self._turn.failed not in (None, call.seat)
            self._driver.calls.leave(call.seat, failed=call.has_failed)
        if error is not None and not is_a(error, Exception):
            self.cut = self.cut or error  # `abandon` follows
            self._wake()
        self.arrived(call)
        if self._is_to_settle():
            yield from self._settle()
        elif self._abandoned is not None and (error is None or is_a(error, Exception)):
            yield from self.until_settled(call, cut=False)  # another thread undoes it: only then its answer is known

    def absent(self, call: PlacedCall) -> None:
        """End a call that will not come."""
        self.attempt.expected.keep(call.placed.path, call.call_id)
        self._driver.calls.leave(call.seat, failed=False)
        self.arrived(call)
        self._wake()

    def arrived(self, call: PlacedCall) -> None:
        """Count a call as over."""
        with self._lock:
            if not call.over:
                call.over = True
                self._expected -= 1

    def take_back(self, call: PlacedCall, effect: Effect) -> None:
        """Drop a held effect for which nobody waits any more; its call is not over before `leave`."""
        with self._lock:
            if call.over and not self._settling:
                call.over = False
                self._expected += 1
        self._driver.calls.drop(self.attempt, effect)

    # ---- the end of the turn

    def until_settled(self, call: PlacedCall, *, cut: bool) -> Program[None]:
        """Wait until all calls are over, and settle the turn if none does; with `cut` until it is cut short."""
        while not self.settled and not (cut and self.cut is not None):
            pause = self.look()
            ticket = Ticket()
            with self._lock:
                self._waiting.append(ticket)
            if self._is_to_settle():
                yield from self._settle()
            elif not self.settled:
                yield Wait(ticket, pause or _NO_DEADLINE, "the other calls of its turn", call.tool)

    def abandon(self, error: BaseException) -> Program[None]:
        """End what a cancellation or a crash of the framework left unsettled; nothing of it acts any more."""
        with self._lock:
            self.cut = self.cut or error
            is_first = not (self.settled or self._abandoned)
            if is_first:
                self._abandoned = self.cut
        self._wake()
        if not is_first:
            return
        try:
            yield from self._ended()
        finally:
            self.ended()
            self.settled = True
            self._wake()

    def _ended(self) -> Program[None]:
        if self.joined or self.attempt.replay is not None:
            return
        if self.undoes:
            yield from self._driver.undoing.abort(self.attempt, Reason.FAILED, cause=self.because)
        elif self._resumable:
            yield from self._suspend()
        elif self.attempt.live.state in _UNSETTLED:
            yield from self._driver.settling.commit(self.attempt)

    def _wake(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, []
        fire(waiting)

    def _is_to_settle(self) -> bool:
        """Whether all calls are over and none settles yet: then the caller does."""
        with self._lock:
            if self._expected or self._settling or self.cut is not None:
                return False
            self._settling = True
            return True

    def _settle(self) -> Program[None]:
        try:
            try:
                yield from self._ending()
            except (Refused, InDoubt, PartialCommit) as refusal:
                self.refusal = refusal
            except self.controls as control:
                # What was to leave asks somebody: it waits for the answer, and all that came before it stands.
                self.control, self.suspended = control, True
            except Exception as error:
                # Raised by the call that collects the answers, not by the bystander who came last.
                self.broken = error
            if self.lost_race:
                yield from self._driver.runs.let_pass(self.attempt)  # it is begun again when it is settled
        finally:
            self.ended()
            self.settled = True
            self._wake()

    def _ending(self) -> Program[None]:
        failed, shared = any(call.has_failed for call in self._calls), self._part.shared
        if self._within and not (failed or self.control or self._escaped):
            yield from self._driver.orphans.take_back_orphans(self.attempt, self._part.numbering.base)
        stops = failed and (self._escaped or self.attempt.on_failure != "continue")
        if shared.joined and self.undoes and (stops or shared.undone) and self.attempt.replay is None:
            yield from self._take_back(shared)
        ends = self._within and failed and not shared.joined and (stops or not self.undoes)
        if (self.joined and not ends) or self.attempt.replay is not None:
            if self.attempt.speculative and self.attempt.written:
                yield from self._driver.kernel.flush()  # the framework keeps the answers, and asks no more
            return
        if self.undoes and stops:
            self._cause = self.because  # later those fail, too, that it stops
            yield from self._driver.undoing.abort(self.attempt, Reason.FAILED, cause=self._cause)
        elif (self.control is not None) is self.undoes and (self.control or self._escaped) and self._resumable:
            yield from self._suspend()
        elif self.control is not None and self.undoes:
            cause = "it was interrupted, and nothing can resume it"
            yield from self._driver.undoing.abort(self.attempt, Reason.ABANDONED, cause=cause)
        else:
            yield from self._driver.settling.commit(self.attempt)

    def _take_back(self, shared: Part) -> Program[None]:
        """Undo what failed inside another's call, all that settles with this turn, and nothing else of that call."""
        if self.control is not None:
            return  # it is gone on with
        self._cause, base = self.because, shared.numbering.base
        shared.undone = shared.undone or self._cause
        self.attempt.expect(base)
        yield from self._driver.orphans.take_back_orphans(self.attempt, base, because=f"its turn failed: {self._cause}")

    # ---- put aside

    def _suspend(self) -> Program[None]:
        self.suspended = True
        gates = self._gates_to_split_at() if self._park == "split" and self.undoes else []
        if gates:
            behind = self._behind(gates)
            answered = [effect for effect in behind if effect.disposition is Disposition.APPROVED]
            rest = [effect for effect in behind if effect not in answered]
            edited = {effect.disposed.link for effect in answered}  # who comes back to the call finds it by what it was
            asked = [effect for effect in self.attempt.in_order() if effect.key in edited]
            yield from self._driver.settling.split_at(self.attempt, [*gates, *asked, *answered], rest)
        else:
            yield from self._driver.undoing.suspend(self.attempt)

    def _gates_to_split_at(self) -> list[Effect]:
        """Return the effects that a person was asked about, when the turn waits for nothing else and has more to it."""
        effects = self.attempt.in_order()
        paused = [e for e in effects if e.outcome is Outcome.SUSPENDED]
        if not all(map(is_asked, paused)):
            return []
        holds = any(call.hold is not None for gate in paused for call in gate.calls)
        behind = self._behind(paused) if paused else []
        leaves = (e for e in effects if e.outcome is Outcome.QUEUED and e not in behind)
        return paused if holds or any(e.executed for e in effects) or any(leaves) else []

    def _behind(self, gates: Sequence[Effect]) -> list[Effect]:
        """Return the held effects that are not to leave before those that wait for an answer."""
        waiting, found = list(gates), list[Effect]()
        for effect in self.attempt.in_order():
            if effect.path <= gates[0].path or effect.outcome is not Outcome.QUEUED:
                continue
            ours = (scope for other in waiting if other.path < effect.path for scope in other.scopes)
            if self._turn.order in ("turn", "issued") or any(a.overlaps(b) for a in ours for b in effect.scopes):
                waiting.append(effect)
                found.append(effect)
        return found


def _nothing_to_see() -> None:
    return None


__all__ = ["Control", "Settling"]
