"""What a job had decided when it was begun before: so that it does nothing twice.

A framework that begins a job again (in a new process, or because a guardrail refused its answer) asks the model
anew, and the model issues its calls anew, with new ids, perhaps in other words. Each decision on record answers
one call: the same tool with the same arguments gets the recorded result. One that is alike only (the same tool,
an overlapping scope, other arguments) is refused once, with what was done: it may be the same act in other words.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from settlemark._acts.effect import Effect
from settlemark._acts.perform import Program, in_doubt
from settlemark._api.settlement import Settlement, host_of
from settlemark._api.transaction import Queued
from settlemark._attempt.recall import follow
from settlemark._edges.errors import InDoubt, Refused, SettlemarkError
from settlemark._engine.splitting import rest_of
from settlemark._model import json_text
from settlemark._model.declaration import Declaration
from settlemark._model.disposition import Disposition
from settlemark._model.effect_class import Outcome
from settlemark._model.scope import Scope
from settlemark._protocol.holdings import Txn
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.states import FINISHED, State
from settlemark._report.approval_rejected_on_replay import refuse_recorded_rejection
from settlemark.agents._call import Call, unset
from settlemark.agents._record.since_answered import since
from settlemark.agents._words import DoneBefore
from settlemark.ledger._contract import Book, EffectRow, RecordedEffect, RecordedTransaction
from settlemark.ledger._payloads.payloads import Packer

_STANDS = (Outcome.CONFIRMED, Outcome.UNKNOWN, Outcome.QUEUED)


@dataclass(slots=True, eq=False)
class Decision:
    """One effect that stands, as it is on record, or in a transaction that is still open here.

    Attributes:
        tool, call_id, key: which one it is.
        scopes: what it acted on.
        same: whether a payload is the one it was decided with.
        shown: its arguments, as they may be told.
        outcome: what became of it.
        answer: gives the call of another that is the same what this one was given, or raises.
    """

    tool: str
    call_id: str | None
    key: str
    scopes: tuple[Scope, ...]
    same: Callable[[str], bool]
    shown: str
    outcome: str
    answer: Callable[[Call, Callable[[Any], Any] | None], Any]
    claimed: bool = False
    shown_once: bool = False

    @property
    def is_doubt(self) -> bool:
        """Whether nobody knew whether it happened."""
        return self.outcome == Outcome.UNKNOWN.value

    def refusal(self, call: Call) -> SettlemarkError | None:
        """Return why a call that repeats it fails, and with it its turn: nobody knows what came of it, or it was no."""
        try:
            self.answer(call, None)
        except (InDoubt, Refused) as error:
            return error
        return None

    def is_like(self, declaration: Declaration, scopes: Iterable[Scope]) -> bool:
        """Whether a call of this tool on these scopes may be the same act in other words."""
        if self.tool != declaration.tool and self.tool not in declaration.aliases:
            return False
        return any(ours.overlaps(theirs) for ours in self.scopes for theirs in scopes)


@dataclass(slots=True, eq=False)
class Left:
    """A turn that an ended process left open, or that its framework put aside.

    Attributes:
        name: the transaction's.
        effects: what it had begun to do, with what of it was split off.
        payloads: tells whether arguments are those on record.
        open: the name of what is open of it: what was split off last.
        scopes: what it holds.
        parked: its framework has put it aside, until somebody answers.
    """

    name: str
    effects: list[RecordedEffect]
    payloads: Packer
    open: str
    scopes: tuple[Scope, ...]
    parked: bool

    def is_in_the_way_of(self, scopes: Iterable[Scope]) -> bool:
        """Whether a call on these scopes would wait for it, although nobody is there to end it."""
        return not self.parked and any(ours.overlaps(theirs) for ours in self.scopes for theirs in scopes)

    def rest_of(self, acting: Sequence[Call]) -> list[Call] | None:
        """Return what of these calls that turn had not begun to do, or None: they are others, or it had begun none."""
        begun: set[int] = set()
        for effect in self.effects:
            place, *within = effect.row.decision
            if within:  # made inside another call
                continue
            if place >= len(acting) or acting[place].tool != effect.row.tool:
                return None
            if not _same(self.payloads, effect)(json_text.encode(dict(acting[place].arguments))):
                return None
            begun.add(place)
        return [call for number, call in enumerate(acting) if number not in begun] if begun else None


@dataclass(slots=True)
class Recalled:
    """What was decided before, and what was left open.

    Attributes:
        decisions: what stands, the oldest first.
        left: turns that nobody has ended.
        names: of all transactions that were looked at.
        untrue: what is told in place of the answers to calls that did not stand, with the calls' records.
    """

    decisions: list[Decision] = field(default_factory=list[Decision])
    left: list[Left] = field(default_factory=list[Left])
    names: set[str] = field(default_factory=set[str])
    untrue: list[tuple[EffectRow, Callable[[str], bool], str]] = field(
        default_factory=list[tuple[EffectRow, Callable[[str], bool], str]]
    )

    def add(self, decisions: Iterable[Decision]) -> None:
        """Add decisions that are not among those known."""
        known = {decision.key for decision in self.decisions}
        self.decisions.extend(decision for decision in decisions if decision.key not in known)

    def undone_of(self, answered: Mapping[int, Call]) -> dict[int, str]:
        """Return what is told of these calls, whose answers their model was given before they were undone, by place."""
        stands = {decision.call_id for decision in self.decisions}
        return {
            place: told
            for place, call in answered.items()
            for row, same, told in self.untrue
            if call.call_id and (call.call_id, call.tool) == (row.call_id, row.tool) and call.call_id not in stands
            if same(json_text.encode(dict(call.arguments)))
        }

    def claim(
        self, calls: Sequence[tuple[Call, Sequence[Scope]]], *, once: bool = False
    ) -> list[Decision | SettlemarkError | None]:
        """Return for each call of a turn the decision that it repeats, or why it is refused, or None: it is new.

        With `once` a program makes them, and no model: a decision answers all that equal it, and none is alike.
        """
        if once:
            known = ((call, next(iter(self._equal(call)), None)) for call, _ in calls)
            return [None if decision is None else decision.refusal(call) or decision for call, decision in known]
        repeated = [(call, scopes, self._repeated(call)) for call, scopes in calls]
        # What another call of the turn repeats is not taken for this one in other words.
        return [
            self._alike(call, scopes) if decision is None else decision.refusal(call) or decision
            for call, scopes, decision in repeated
        ]

    def let_go(self, claimed: Decision | SettlemarkError | None) -> None:
        """Take back what a call has claimed: it is another call now."""
        if isinstance(claimed, Decision):
            claimed.claimed = False
        elif isinstance(claimed, DoneBefore):
            for decision in self.decisions:
                if decision.key == claimed.data.get("key"):
                    decision.shown_once = False

    def goes_on(self, left: Left, acting: Sequence[Call]) -> bool:
        """Whether these calls go on with a turn that was left: none of the others in it was decided before."""
        rest = left.rest_of(acting)
        return rest is not None and not any(self._equal(call) for call in rest)

    def repeats(self, calls: Iterable[Call]) -> bool:
        """Whether each of these calls was decided before, and none is new; nothing is claimed by asking."""
        taken: list[Decision] = []
        for call in calls:
            found = next((decision for decision in self._equal(call) if decision not in taken), None)
            if found is None:
                return False
            taken.append(found)
        return True

    def _equal(self, call: Call) -> list[Decision]:
        payload = json_text.encode(dict(call.arguments))
        return [d for d in self.decisions if not d.claimed and names(call, d) and d.same(payload)]

    def _repeated(self, call: Call) -> Decision | None:
        equal = self._equal(call)
        found = next((d for d in equal if d.call_id is not None and d.call_id == call.call_id), None)
        found = found or next(iter(equal), None)
        if found is not None and not found.is_doubt:
            found.claimed = True  # what is in doubt answers every call that repeats it
        return found

    def _alike(self, call: Call, scopes: Sequence[Scope]) -> DoneBefore | None:
        free = (d for d in self.decisions if not (d.claimed or d.shown_once))
        alike = next((d for d in free if d.is_like(call.declaration, scopes)), None)
        if alike is None:
            return None
        alike.shown_once = True  # who asks for it again means it
        return DoneBefore(
            f"{call.tool} was done before in this job, with {alike.shown} ({alike.outcome}), and was not done again:"
            " nothing was run. If that is what you meant, go on from there; if it is to be done besides, call it again",
            key=alike.key,
            recorded={"tool": alike.tool, "arguments": alike.shown},
            given={"tool": call.tool, "arguments": dict(call.arguments)},
        )


def recall(
    settlement: Settlement, run: str, belongs: Callable[[str], bool], *, answered: Collection[str], wait: float
) -> Program[Recalled]:
    """Return what is on record of the transactions of a run whose names belong; one that is on its end is waited for.

    `answered` are ids of calls that the model knows the answers of: they are nobody's to repeat.

    Raises:
        WaitTimeout: another process works under the same run just now.
    """
    driver, payloads = host_of(settlement).driver, host_of(settlement).ledger.payloads

    def look(protocol: Protocol, book: Book) -> tuple[list[tuple[RecordedTransaction, str]], dict[str, _Live]]:
        live = {txn.name: _live(txn) for txn in protocol.live.values() if txn.run == run}
        found = [recorded for recorded in book.of_run(run) if belongs(recorded.row.name)]
        return [(follow(book, recorded), _last_of(book, recorded)) for recorded in found], live

    found, live = yield from driver.kernel.look(look)
    ending = [name for name, txn in live.items() if txn.state is not State.OPEN and belongs(name)]
    if ending:
        for name in ending:
            yield from driver.entrance.ended(name, wait=wait)
        found, live = yield from driver.kernel.look(look)
    recalled = Recalled()
    for recorded, last in found:
        name = recorded.row.name
        recalled.names.add(name)
        txn = live.get(last)
        if txn is not None and txn.state is State.OPEN:
            recalled.left.append(Left(name, recorded.effects, payloads, last, txn.scopes, txn.parked))
            continue
        recalled.decisions.extend(
            decision_of(effect, payloads)
            for effect in recorded.effects
            # What is in doubt is nobody's to do again, although the model was told that it is.
            if stands(effect) and (effect.outcome is Outcome.UNKNOWN or effect.row.call_id not in answered)
        )
        for effect in recorded.effects if recorded.state in FINISHED else ():
            told = since(effect, recorded).told
            if told is not None and effect.row.call_id not in answered:
                recalled.untrue.append((effect.row, _same(payloads, effect), told))
    return recalled


def ask_again(settlement: Settlement, decisions: list[Decision]) -> Program[None]:
    """Look up what is known by now of decisions in doubt: what happened is answered, what did not is forgotten."""
    doubts = {decision.key: decision for decision in decisions if decision.is_doubt}
    if not doubts:
        return
    payloads = host_of(settlement).ledger.payloads

    def look(_protocol: Protocol, book: Book) -> dict[str, RecordedEffect]:
        recorded = {key: book.find(key) for key in doubts}
        return {
            key: next(effect for effect in found.effects if effect.row.key == key)
            for key, found in recorded.items()
            if found is not None
        }

    known: dict[str, RecordedEffect] = yield from host_of(settlement).driver.kernel.look(look)
    for key, effect in known.items():
        if effect.outcome in (Outcome.UNKNOWN, Outcome.INTENDED):
            continue
        decisions.remove(doubts[key])
        if stands(effect):
            decisions.append(decision_of(effect, payloads))


class _Live(NamedTuple):
    """What is to be known of a transaction that has not ended."""

    state: State
    scopes: tuple[Scope, ...]
    parked: bool


def _live(txn: Txn) -> _Live:
    return _Live(txn.state, tuple(hold.scope for hold in txn.holds.values()), txn.parked)


def _last_of(book: Book, recorded: RecordedTransaction) -> str:
    """Return the name of what was split off last from a transaction, or its own."""
    name, rest = recorded.row.name, rest_of(recorded)
    part = None if rest is None else book.load(rest)
    return name if part is None else _last_of(book, part)


def standing(effects: Iterable[Effect], payloads: Packer) -> list[Decision]:
    """Return what stands of the effects of a transaction that is open in this process."""
    return [_live_decision(effect, payloads) for effect in effects if effect.outcome in _STANDS and effect.key]


def names(call: Call, decision: Decision) -> bool:
    """Whether a call is of a decision's tool, by its name now or one it had before."""
    return decision.tool == call.tool or decision.tool in call.declaration.aliases


def stands(effect: RecordedEffect) -> bool:
    """Whether a recorded effect happened or may have, and is not to be undone; or a person said no to it."""
    if effect.outcome is Outcome.DROPPED:
        return effect.disposition is Disposition.REJECTED
    return effect.outcome in _STANDS and effect.disposition is not Disposition.TO_UNDO


def _same(payloads: Packer, effect: RecordedEffect) -> Callable[[str], bool]:
    row = effect.row

    def same(payload: str) -> bool:
        return (payloads.plain and payload == row.arguments) or payloads.same(
            payload, row.fingerprint, effect_key=row.key
        )

    return same


def decision_of(effect: RecordedEffect, payloads: Packer) -> Decision:
    """Return a recorded effect that stands, as a decision."""
    row = effect.row

    def answer(call: Call, unpack: Callable[[Any], Any] | None) -> Any:
        if effect.outcome is Outcome.DROPPED:
            refuse_recorded_rejection(effect)
        if effect.outcome is Outcome.UNKNOWN:
            scopes = tuple(Scope.parse(text) for text in json_text.decode(row.scopes))
            doubtful = Effect(call.declaration, scopes, dict(call.arguments), unset, call_id=row.call_id)
            doubtful.key, doubtful.error = row.key, effect.error
            raise in_doubt(doubtful)
        value = json_text.decode(effect.result)
        return value if unpack is None or value is None else unpack(value)

    return Decision(
        row.tool,
        row.call_id,
        row.key,
        tuple(Scope.parse(text) for text in json_text.decode(row.scopes)),
        _same(payloads, effect),
        payloads.redact(row.arguments, tool=row.tool),
        effect.outcome.value,
        answer,
    )


def _live_decision(effect: Effect, payloads: Packer) -> Decision:
    tool = effect.declaration.tool

    def answer(_call: Call, _unpack: Callable[[Any], Any] | None) -> Any:
        if effect.outcome is Outcome.UNKNOWN:
            raise in_doubt(effect)
        return effect.result if effect.outcome is Outcome.CONFIRMED else Queued(effect)

    return Decision(
        tool,
        effect.call_id,
        effect.key,
        effect.scopes,
        lambda payload: payload == effect.payload,
        payloads.redact(effect.payload, tool=tool),
        effect.outcome.value,
        answer,
    )


__all__ = ["Decision", "Recalled", "ask_again", "decision_of", "names", "recall", "standing", "stands"]
