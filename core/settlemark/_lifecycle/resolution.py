"""Resolving effects in doubt: by repeated probes, a webhook, or an operator's verdict.

An outcome that arrives while its transaction is unfinished is written to the record, where the settling program looks
first. An effect found to have happened after its abort is undone in a transaction of its own (`trip#1/mend/0`), which
claims the scope, holds the late effect as if it had just acted, and aborts. So this undo runs like every undo, is
recovered after a crash like every abort, and overwrites nobody's work. Source: the loop that resolves the third
outcome, in the orchestrator's six primitives (§IX).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any

from settlemark._acts.current import CurrentCall
from settlemark._acts.effect import Effect
from settlemark._acts.perform import CUT_OFF, Program
from settlemark._attempt.attempt import Attempt
from settlemark._attempt.revival import afresh, is_sealed, named, revive
from settlemark._edges.errors import Refused, UsageError, WouldBlock
from settlemark._edges.wording import by_reader
from settlemark._engine.admission import Admission, returned
from settlemark._engine.doubt import Probing
from settlemark._engine.kernel import Kernel, log
from settlemark._engine.undo.abort import Undoing
from settlemark._engine.undo.mend import tell_change
from settlemark._lifecycle.recovery import Recovery
from settlemark._model import json_text
from settlemark._model.declaration import Declaration, Role
from settlemark._model.effect_class import UNKNOWN, Outcome
from settlemark._model.scope import Scope
from settlemark._observe.events import Recovered
from settlemark._protocol.holdings import Mode, Txn
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.states import Reason, State
from settlemark._report import verdicts
from settlemark._report.verdicts import Verdict, Word, is_in_doubt, is_to_undo
from settlemark.ledger._contract import Book, OutcomeChange, RecordedEffect, RecordedTransaction, Said
from settlemark.ledger._payloads.recoverable import cannot_run

MEND, REWIND = "/mend/", "/rewind/"
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 300.0
WAIT_SECONDS = 30.0

_TO_TAKE_UP = "the next process that settles here, or settlemark recover, takes its transaction up and then asks"

Found = tuple[RecordedTransaction, RecordedEffect]


@dataclass(frozen=True, slots=True)
class Doubt:
    """An effect whose outcome, or whose remedy, nobody here can tell.

    Attributes:
        transaction, attempt, tool, scope, key: the effect; its counterparty knows it by the key.
        since: when it was about to act, in seconds since 1970.
        why: what is known.
        remedy: what to do.
    """

    transaction: str
    attempt: int
    tool: str
    scope: str
    key: str
    since: float
    why: str
    remedy: str


class Resolution:
    """Resolves effects in doubt."""

    def __init__(
        self, kernel: Kernel, probing: Probing, undoing: Undoing, admission: Admission, recovery: Recovery
    ) -> None:
        self._kernel = kernel
        self._probing = probing
        self._undoing = undoing
        self._admission = admission
        self._recovery = recovery
        self.asked: dict[str, tuple[float, float]] = {}  # by key: when to probe again, and the pause then (seconds)
        self._looked = -inf

    # ---- verdicts

    def confirm(
        self, key: str, outcome: Any, *, by: str, note: str = "", wait: float = WAIT_SECONDS
    ) -> Program[Outcome]:
        """Record an effect's outcome, undo the effect if it came too late, and return its outcome by then.

        Raises:
            UsageError: there is no such effect, or nothing of it was sent yet; nothing was recorded.
        """
        word = Word(outcome, by, self._kernel.clock(), note)

        def learn(_protocol: Protocol, book: Book) -> OutcomeChange | None:
            recorded, effect = self._recorded_as(book, key)
            if outcome is UNKNOWN:
                return None
            return verdicts.judge(recorded, effect, word, undoable=self._is_undoable(effect))

        return (yield from self._learn(key, learn, wait))

    def resolve(
        self, key: str, verdict: Verdict, found: Any, *, by: str, note: str = "", wait: float = WAIT_SECONDS
    ) -> Program[tuple[Outcome, bool]]:
        """Record an operator's verdict on an effect; return the outcome by then, and whether the verdict was news.

        Raises:
            UsageError: as `confirm`.
        """
        word = Word(found, by, self._kernel.clock(), note)
        news: list[Said] = []

        def learn(_protocol: Protocol, book: Book) -> OutcomeChange | None:
            recorded, effect = self._recorded_as(book, key)
            change = verdicts.resolve(recorded, effect, verdict, word, undoable=self._is_undoable(effect))
            news[:] = []
            if change is not None or (verdict == "dealt_with" and effect.dealt_at is None):
                news.append(verdicts.said_of(effect, change, verdict, word))
                book.write([*([] if change is None else [change]), *news])
            return change

        outcome: Outcome = yield from self._learn(key, learn, wait, written=True)
        return outcome, bool(news)

    def _learn(
        self, key: str, judged: Callable[[Protocol, Book], OutcomeChange | None], wait: float, *, written: bool = False
    ) -> Program[Outcome]:
        def learn(protocol: Protocol, book: Book) -> OutcomeChange | None:
            change = judged(protocol, book)
            if change is not None and not written:
                book.write([change])
            if change is not None and change.outcome is Outcome.CONFIRMED and change.tag is None:
                book.set_sender([key], None)  # it has arrived: its former sender does nothing more
            if change is not None and self._recorded_as(book, key)[0].state is State.ABORTING:
                self._kernel.call_maintenance()  # an abort may have waited for this
            return change

        change: OutcomeChange | None = yield from self._kernel.step(learn, durable=True)
        if change is not None:
            tell_change(change)
        yield from self._mend(key, wait)
        found: RecordedEffect = yield from self._kernel.step(lambda _protocol, book: self._recorded_as(book, key)[1])
        return found.outcome

    def _recorded_as(self, book: Book, key: str) -> Found:
        recorded = book.find(key)
        if recorded is None:
            raise UsageError(
                f"no effect with the key {key!r} is on record in {self.where()}: nothing was recorded; a key is what"
                " current_call().key was in the tool, and is looked for in this settlement's namespace only",
                key=key,
            )
        return recorded, next(effect for effect in recorded.effects if effect.row.key == key)

    def where(self) -> str:
        return f"the namespace {self._kernel.namespace!r}"

    def _is_undoable(self, effect: RecordedEffect) -> bool:
        declared = self._kernel.declaration(effect.row.tool, effect.row.version)
        return effect.row.undoable or (declared is not None and declared.undo is not None)

    # ---- probing again

    def look_now_and_then(self) -> Program[None]:
        """Every five minutes, look for effects in doubt that this process can deal with, and request that."""
        if self._kernel.monotonic() - self._looked >= LONGEST_PAUSE:
            self._looked = self._kernel.monotonic()
            found: list[Found] = yield from self._kernel.step(self._open_questions)
            if any(self._can_deal_with(recorded, effect) for recorded, effect in found):
                self._probing.doubt()

    def recover(self, *, keep_open: float | None = None) -> Program[Recovered]:
        """Recover as `Recovery.recover`; then probe once what is in doubt, and undo what happened too late."""
        report: Recovered = yield from self._recovery.recover(keep_open=keep_open)
        found: list[Found] = yield from self._kernel.step(self._open_questions)
        known = False
        for recorded, effect in found:
            if self._can_deal_with(recorded, effect):
                outcome = yield from self._deal_with(recorded, effect, wait=0.0)
                known = known or (outcome is not Outcome.UNKNOWN and recorded.state is State.ABORTING)
                if outcome is Outcome.UNDONE:
                    report.undone.append(_mend_of(effect))
        if known:  # an abort may have waited for that
            again: Recovered = yield from self._recovery.recover(keep_open=keep_open)
            report.waiting = [name for name in report.waiting if name not in again.undone]
            report.undone += again.undone
            report.left += again.left
        return report

    def ask_again(self) -> Program[None]:
        """Probe every effect in doubt that is due, and undo those found to have happened too late.

        The pauses between two probes of one effect grow, from a second to five minutes.
        """
        found: list[Found] = yield from self._kernel.step(self._open_questions)
        now = self._kernel.monotonic()
        current = {effect.row.key for _, effect in found}
        for key in self.asked.keys() - current:
            self.asked.pop(key, None)
        for recorded, effect in found:
            if not self._can_deal_with(recorded, effect):
                continue
            key = effect.row.key
            at_once = is_to_undo(recorded, effect)
            due, pause = self.asked.setdefault(key, (now if at_once else now + FIRST_PAUSE, FIRST_PAUSE))
            if due > now or self._is_halted(recorded, effect):
                continue
            self.asked[key] = (now + pause, min(pause * 2, LONGEST_PAUSE))
            yield from self._deal_with(recorded, effect, wait=WAIT_SECONDS)

    def _is_halted(self, recorded: RecordedTransaction, effect: RecordedEffect) -> bool:
        """Whether an operator wants nothing asked or done on an effect's scopes for now."""
        if not self._kernel.protocol.halts:
            return False
        scopes = [Scope.parse(text) for text in json_text.decode(effect.row.scopes)]
        return self._kernel.protocol.halted_call(recorded.row.run, scopes, recorded.agents) is not None

    def until_due(self) -> float | None:
        """Return the seconds until the next probe is due, or None."""
        dues = [due for due, _ in list(self.asked.values())]
        return max(0.0, min(dues) - self._kernel.monotonic()) if dues else None

    def _deal_with(self, recorded: RecordedTransaction, effect: RecordedEffect, *, wait: float) -> Program[Outcome]:
        """Undo an effect that happened too late, or probe one in doubt; return its outcome by then."""
        row = effect.row
        if is_to_undo(recorded, effect):
            return (yield from self._learn(row.key, _nothing_new, wait))
        late = revive(effect, self._kernel.declaration(row.tool, row.version))
        current = CurrentCall(row.key, row.name, recorded.epoch, row.attempt)
        found = yield from self._probing.ask(late, current, None, final=True)
        if found is UNKNOWN:
            return Outcome.UNKNOWN
        word = Word(found, "its counterparty, probed again", self._kernel.clock())

        def learn(_protocol: Protocol, book: Book) -> OutcomeChange | None:
            again, now = self._recorded_as(book, row.key)
            # A verdict given meanwhile takes precedence over an answer that may be older.
            if not is_in_doubt(now):
                return None
            return verdicts.judge(again, now, word, undoable=self._is_undoable(now))

        return (yield from self._learn(row.key, learn, wait))

    def _open_questions(self, _protocol: Protocol, book: Book) -> list[Found]:
        """Return the effects in doubt or to be undone that were not given up, oldest first."""
        found: dict[str, Found] = {}
        for recorded in [*book.unresolved(), *book.unfinished(Outcome.UNKNOWN)]:
            for effect in recorded.effects:
                if is_in_doubt(effect) or is_to_undo(recorded, effect):
                    found[effect.row.key] = (recorded, effect)
        return list(found.values())

    def _can_deal_with(self, recorded: RecordedTransaction, effect: RecordedEffect) -> bool:
        return self._handler(effect, "undo" if is_to_undo(recorded, effect) else "probe") is not None

    def _handler(self, effect: RecordedEffect, role: Role) -> Declaration | None:
        """Return the declaration that has this handler for a recorded effect, or None."""
        row = effect.row
        declared = self._kernel.declaration(row.tool, row.version)
        if declared is None or getattr(declared, role) is None:
            return None
        return None if cannot_run(role, declared, row.arguments, effect.result) else declared

    # ---- undoing late effects

    def _mend(self, key: str, wait: float) -> Program[None]:
        """Undo an effect that happened after its transaction was undone, unless another does or it is impossible."""

        def enter(protocol: Protocol, book: Book) -> tuple[Attempt, Effect] | None:
            recorded, late = self._recorded_as(book, key)
            declared = self._handler(late, "undo") if is_to_undo(recorded, late) else None
            name = _mend_of(late)
            if declared is None or name in protocol.named or late.sender in book.zombies():
                return None
            before = book.load(name)
            number = 1 if before is None else before.row.attempt + 1
            txn = protocol.begin(name, name, attempt=number, owner=self._kernel.ledger.worker, mends=True)
            attempt = Attempt(
                txn,
                name,
                name,
                number,
                prefix=self._kernel.prefix,
                payloads=self._kernel.ledger.payloads,
                wait=wait,
                hooks=(),
                on_failure="abort",
                retries=self._kernel.retries,
            )
            self._kernel.seat(book, txn, attempt)
            mirror = revive(afresh(late), declared)
            mirror.call_id, mirror.sender = key, None
            attempt.place(mirror)
            mirror.key = attempt.key(mirror.path, None)
            return attempt, mirror

        entered: tuple[Attempt, Effect] | None = yield from self._kernel.step(enter)
        if entered is None:
            return
        attempt, mirror = entered
        self._kernel.telling.began(attempt)
        try:
            yield from self._admission.admit(attempt, attempt.live, mirror, Mode.EAGER, intends=True)
            self._kernel.ledger.later(lambda protocol, _book: returned(protocol, mirror.calls, happened=True))
        except (Refused, WouldBlock) as error:
            log.info("%s is not undone yet: %s", key, error, extra=attempt.about(mirror))
            self.asked.setdefault(key, (self._kernel.monotonic() + FIRST_PAUSE, FIRST_PAUSE))
            self._probing.doubt()
        except GeneratorExit:
            raise
        except BaseException:
            yield from self._undoing.abort(attempt, Reason.LATE)
            raise
        yield from self._undoing.abort(attempt, Reason.LATE)

    # ---- the operator's view

    def doubts(self, protocol: Protocol, book: Book, *, stuck: bool = True) -> list[Doubt]:
        """Return every effect that an operator has to look at.

        With `stuck`, also known effects that cannot be ended for want of handlers in this process.
        """
        found = [self._doubted(recorded, effect) for recorded, effect in self._open_questions(protocol, book)]
        known = {doubt.key for doubt in found if doubt is not None}
        unfinished = {(r.row.name, r.row.attempt): r for r in book.unfinished()}
        for txn in protocol.live.values():
            recorded = unfinished.get((txn.name, txn.attempt))
            if recorded is None or not self._recovery.is_unattended(txn):
                continue
            beyond = {effect.row.key for effect in self._recovery.beyond(txn, recorded)}
            found.extend(
                self._as_doubt(
                    effect,
                    f"{txn.name} was left unfinished",
                    self._to_declare(effect) if effect.row.key in beyond else _TO_TAKE_UP,
                )
                for effect in recorded.effects
                if effect.row.key not in known
                and (_may_have_acted(txn, effect) or (stuck and effect.row.key in beyond))
            )
        return sorted((doubt for doubt in found if doubt is not None), key=lambda doubt: doubt.since)

    def _doubted(self, recorded: RecordedTransaction, effect: RecordedEffect) -> Doubt | None:
        declared = self._kernel.declaration(effect.row.tool, effect.row.version)
        late = is_to_undo(recorded, effect)
        role: Role = "undo" if late else "probe"
        if declared is None and effect.row.handled:
            remedy = self._to_declare(effect)
        elif late and self._can_deal_with(recorded, effect):
            return None  # known, and about to be undone
        elif declared is not None and getattr(declared, role) is not None:
            lacking = cannot_run(role, declared, effect.row.arguments, effect.result)
            remedy = lacking or f"its counterparty is probed again automatically; if you know more: {_saying(effect)}"
        else:
            remedy = f"ask its counterparty by the key, then {_saying(effect)}"
        why = str(effect.disposed) if late else effect.error or CUT_OFF
        return self._as_doubt(effect, why, remedy)

    @staticmethod
    def _as_doubt(effect: RecordedEffect, why: str, remedy: str) -> Doubt:
        row = effect.row
        return Doubt(row.name, row.attempt, row.tool, row.scope, row.key, row.at, why, remedy)

    @staticmethod
    def _to_declare(effect: RecordedEffect) -> str:
        if is_sealed(effect, None):
            return "give encrypt= the key of the record; then settlement.recover()"
        return by_reader(
            f"import or declare {named(effect.row)} in this process, or tell its successor so with aliases= or"
            " versions=; then settlement.recover()",
            f"name the module that declares {named(effect.row)} with --module, here and for settlemark recover",
        )


def _mend_of(effect: RecordedEffect) -> str:
    """Return the name of the transaction that undoes a late effect."""
    return f"{effect.row.name}#{effect.row.attempt}{MEND}{effect.row.position}"


def _may_have_acted(txn: Txn, effect: RecordedEffect) -> bool:
    """Whether the outcome of an effect is unknown, in an unfinished transaction that no program is at work on."""
    leaves = effect.outcome is Outcome.QUEUED and txn.state is State.RELEASING
    return effect.outcome is Outcome.INTENDED or leaves


def _nothing_new(_protocol: Protocol, _book: Book) -> None:
    return None


def _saying(effect: RecordedEffect) -> str:
    return by_reader(
        f'settlement.resolve({effect.row.key!r}, "confirmed" | "absent" | "give_up", by=…)',
        "settlemark resolve with what you know",
    )


__all__ = ["REWIND", "Doubt", "Resolution"]
