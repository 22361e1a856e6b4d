"""Parking: a transaction is put aside until a person has answered, and continues in any process that hears the answer.

Parked whole (`keep`) it stays open and holds its scopes; split (`split`), what was eager settles and each gate waits
alone. A parked transaction has no owner: any process that has declared its tools may answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from settlemark._acts.effect import Effect
from settlemark._acts.perform import Program, Retries
from settlemark._attempt.attempt import Attempt
from settlemark._attempt.revival import named, readable
from settlemark._edges.errors import DeclarationError, OverBudget, UsageError
from settlemark._engine.admission import Admission, checked_as_given, judged_as_given
from settlemark._engine.calls import Calls
from settlemark._engine.commit import Settling
from settlemark._engine.kernel import Kernel
from settlemark._engine.orphans import Orphans
from settlemark._engine.splitting import Splitting, leaving_whole
from settlemark._engine.undo.abort import Undoing
from settlemark._lifecycle.asked.counting import end_unsigned, refuse_unsigned
from settlemark._lifecycle.recovery import Recovery
from settlemark._model import json_text
from settlemark._model.disposition import Disposed, Disposition
from settlemark._model.effect_class import Outcome
from settlemark._policy.service import Asked
from settlemark._protocol.holdings import Mode, Txn
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.refusals import halted
from settlemark._protocol.states import Reason, State, Tag
from settlemark._report.judged import judged_on
from settlemark._report.questions import gated_in, is_parked
from settlemark.ledger._approvals import put_again
from settlemark.ledger._contract import Book, RecordedTransaction

Park = Literal["keep", "split"]


@dataclass(frozen=True, slots=True)
class Parked:
    """A transaction that waits for an answer; see `Settlement.answer`.

    Attributes:
        transaction: its name.
        run: the run it belongs to.
        gates: one mapping for each effect that would leave: tool, arguments, scope, key, rationale.
    """

    transaction: str
    run: str
    gates: tuple[Mapping[str, Any], ...]


class Unfit(UsageError):
    """A person's answer does not fit the call, or no longer: it waits for one as before. Attribute `key`: the call."""


class Parking:
    """Puts transactions aside and continues them."""

    def __init__(
        self,
        kernel: Kernel,
        splitting: Splitting,
        undoing: Undoing,
        orphans: Orphans,
        admission: Admission,
        calls: Calls,
        settling: Settling,
        recovery: Recovery,
    ) -> None:
        self._kernel = kernel
        self._splitting = splitting
        self._undoing = undoing
        self._orphans = orphans
        self._admission = admission
        self._calls = calls
        self._settling = settling
        self._recovery = recovery

    def keep(self, attempt: Attempt) -> Program[None]:
        """Put a transaction aside once its calls have returned: it stays open, and keeps its holds.

        Raises:
            Refused: it was undone meanwhile.
        """
        yield from self._orphans.take_back_orphans(attempt)
        yield from self._kernel.waits.quiesce(attempt, attempt.live)
        if attempt.live.state is not State.OPEN:
            with self._kernel.local as protocol:
                raise protocol.refusal(attempt.live)
        yield from self._undoing.suspend(attempt)

    def end_stale(self) -> Program[None]:
        """Undo what an answer has found to stand on what has changed, as far as that is possible here."""
        yield from self._undoing.tidy()
        yield from self._recovery.take_up()

    def split(self, attempt: Attempt) -> Program[None]:
        """Commit everything but the gated effects: each of these is parked in a transaction of its own.

        Raises: as `commit`; nothing was split off then.
        """
        yield from self._orphans.take_back_orphans(attempt)
        attempt.splinters = self._splitting.splinters(attempt)
        yield from self._settling.commit(attempt)

    def parked(self) -> list[Parked]:
        """Return what waits for an answer, oldest first. Blocks."""

        def look(protocol: Protocol, book: Book) -> list[Parked]:
            found = sorted((txn for txn in protocol.live.values() if is_parked(txn)), key=lambda txn: txn.id)
            return [Parked(txn.name, txn.run, _gates(book.load(txn.name), txn)) for txn in found]

        return self._kernel.ledger.now(look)

    def answer(
        self,
        name: str,
        *,
        approve: bool,
        arguments: Mapping[str, Any] | None,
        because: str | None,
        edits: Mapping[str, Mapping[str, Any]] | None = None,
        remake: Callable[[Effect, Mapping[str, Any]], Effect],
        wait: float,
        retries: Retries,
        signed: bool = False,
    ) -> Program[list[Any]]:
        """Commit what is parked under this name, or undo it; return the results of what left, in order.

        `remake` returns an effect with other arguments; `edits` has those arguments, by key. `signed` says that whoever
        had to answer has.

        Raises:
            UsageError: nothing is parked under it, it is not to be edited, or its hooks are unknown here.
            DeclarationError: one of its tools is not declared here. LedgerError: it cannot be read here. Nothing moved.
            Halted: it is halted, and waits as before.
            Denied, Vetoed: the policy in force denies what would leave, or asks what cannot wait; it was undone.
            Unfit: that policy asks about what would leave: the question is put again, and waits for a new answer.
            Refused: something it read has changed, or its scopes stayed taken; it was undone.
        """

        def take(protocol: Protocol, book: Book) -> Attempt:
            txn = protocol.named.get(name)
            if txn is None or not is_parked(txn):
                raise UsageError(f"{name} waits for no answer: nothing moved; settlement.parked() lists what does")
            halt = protocol.halted(txn)
            if halt is not None:
                raise halted(name, txn.epoch, halt, parked=True)
            edited = arguments is not None or bool(edits)
            if approve and (whole := leaving_whole(protocol, book, name)):
                raise UsageError(f"{whole}, which {name} was split from, has not left yet: answer then; nothing moved")
            if not signed:
                refuse_unsigned(protocol, book, txn, self._kernel.ledger.time(), approve=approve, edited=edited)
            if approve and self.lacks_hooks(txn, edited=edited):
                raise UsageError(
                    f"{name} has before_commit= hooks, and this process does not know them: answer in the process that"
                    " put it aside, or enter its name with them; nothing moved",
                    transaction=name,
                )
            attempt = self._kernel.attempts.get(txn)
            recorded = None
            if attempt is None:
                recorded = readable(book, name)
                self._refuse_unknown(name, recorded)
                attempt = Attempt(
                    txn,
                    name,
                    txn.run,
                    txn.attempt,
                    prefix=self._kernel.prefix,
                    payloads=self._kernel.ledger.payloads,
                    wait=wait,
                    hooks=(),
                    on_failure="abort",
                    retries=retries,
                )
            effects = recorded.effects if recorded is not None else attempt.in_order()
            paused = next((e for e in effects if e.outcome is Outcome.SUSPENDED), None) if approve else None
            if paused is not None:
                raise UsageError(
                    f"{name} waits in its framework, which resumes it with the answer: answer there; nothing moved"
                )
            if approve and arguments is not None and (gates := len(_gates(recorded, txn, attempt))) != 1:
                raise UsageError(
                    f"{name} has {gates} gated effects, so arguments= does not say which of them is meant: answer"
                    ' without arguments, or split it (park="split") so that each has an answer of its own; nothing'
                    " moved"
                )
            changed = edits or [gate["key"] for gate in _gates(recorded, txn, attempt)]
            for key in changed if approve and edited else ():
                if lacking := self.lacks_limits(book, key):
                    raise UsageError(f"{name} cannot be answered with other arguments here: {lacking}; nothing moved")
            if recorded is not None:
                self._recovery.revived(protocol, book, txn, attempt, recorded)
            else:
                protocol.own(txn, self._kernel.ledger.worker)
                self._kernel.come_to(book, attempt)
            attempt.expected.paths.clear()  # the answer is about everything that was parked
            attempt.judged = txn.judged and not edited
            protocol.park(txn, parked=False)
            if not signed:
                ended.extend(end_unsigned(book, txn, self._kernel.ledger.time(), approve=approve, edited=edited))
            return attempt

        ended: list[str] = []
        attempt: Attempt = yield from self._kernel.step(take)
        self._kernel.telling.began(attempt, "taken up")
        if not approve:
            verdict = because or "no"
            yield from self._undoing.abort(attempt, Reason.VETOED, hook="the person asked", verdict=verdict)
            return []
        return (yield from self._leave(attempt, arguments, edits or {}, remake, ended))

    def _leave(
        self,
        attempt: Attempt,
        arguments: Mapping[str, Any] | None,
        edits: Mapping[str, Mapping[str, Any]],
        remake: Callable[[Effect, Mapping[str, Any]], Effect],
        ended: list[str],
    ) -> Program[list[Any]]:
        """Commit what was approved, and return the results of what left; `ended` are the questions to ask again if not.

        Raises: as `answer`.
        """
        try:
            yield from self._judge_again(attempt)
            held: list[Effect] = yield from self._as_approved(attempt, arguments, edits, remake)
        except GeneratorExit:
            raise
        except BaseException:
            yield from self._still_waits(attempt, ended)
            raise
        yield from self._settling.commit(attempt)
        return [effect.result for effect in held]

    def _still_waits(self, attempt: Attempt, ended: list[str]) -> Program[None]:
        """Have what was not carried out wait for an answer as before, and the questions that had ended asked again."""

        def ask_again(_protocol: Protocol, book: Book) -> None:
            for key in ended:
                put_again(book, key, self._kernel.ledger.time())

        if attempt.live.state is State.OPEN:
            if ended:
                yield from self._kernel.step(ask_again)
            yield from self._undoing.suspend(attempt)

    def judge_again(self, attempt: Attempt) -> Program[list[Asked]]:
        """Have judged what is to leave and was judged by another policy; return what a person is to be asked about.

        Raises:
            Denied: that policy denies it. Vetoed: it asks about what cannot wait for an answer. All is undone.
        """
        asked = yield from self._settling.judge_again(attempt, later=True)
        for effect, said in asked:
            if not effect.declaration.can_wait:
                yield from self._settling.refuse_unasked(attempt, effect, said)  # nothing else is answered later
        return asked

    def _judge_again(self, attempt: Attempt) -> Program[None]:
        """Have judged again what is to leave. Raises: as `judge_again`. Unfit: a person is to answer anew."""
        asked = yield from self.judge_again(attempt)
        if asked:
            (first, said), tools = asked[0], ", ".join(sorted({effect.declaration.tool for effect, _ in asked}))
            raise Unfit(
                f"{attempt.name} was planned under another policy, and the policy {said.policy} asks a person about"
                f" {tools} (rule {said.rule!r}): it is asked about again, and nothing left; answer once more",
                key=first.key,
            )

    def _as_approved(
        self,
        attempt: Attempt,
        arguments: Mapping[str, Any] | None,
        edits: Mapping[str, Mapping[str, Any]],
        remake: Callable[[Effect, Mapping[str, Any]], Effect],
    ) -> Program[list[Effect]]:
        """Return the effects that are to leave, with the answer's arguments, and their scopes held.

        Raises:
            Unfit: a tool does not take the answer's arguments, or they spend more than is left; that call waits.
        """
        held = [e for e in attempt.in_order() if e.held and e.outcome is Outcome.QUEUED]
        chosen = dict(edits)
        if arguments is not None:
            gate = next(e for e in held if e.declaration.can_wait)
            chosen[gate.key] = arguments
        likenesses: dict[str, Effect] = {}
        for gate in [e for e in held if e.key in chosen]:  # check all before the first is replaced
            try:
                likenesses[gate.key] = yield from self._alike(attempt, gate, remake(gate, chosen[gate.key]))
            except DeclarationError:
                raise
            except UsageError as error:
                raise Unfit(str(error), key=gate.key) from error
        for position, gate in enumerate(held):
            if gate.key in likenesses:
                try:
                    held[position] = yield from self._edit(attempt, gate, likenesses[gate.key])
                except OverBudget as error:  # no other answer would count while this one stands
                    raise Unfit(f"the arguments that were given spend too much: {error}", key=gate.key) from error
        for effect in held:
            if not any(call.hold is not None for call in effect.calls):
                effect.calls = yield from self._admission.admit(attempt, attempt.live, effect, Mode.HELD)
        return held

    def lacks_hooks(self, txn: Txn, *, edited: bool) -> bool:
        """Whether a parked transaction has hooks to ask that are unknown in this process."""
        attempt = self._kernel.attempts.get(txn)
        return txn.hooked and (edited or not txn.judged) and (attempt is None or not attempt.hooks)

    def lacks_limits(self, book: Book, key: str) -> str:
        """Return why a call cannot leave from this process with arguments given in place of its own; "" if it can.

        What a policy has judged, or a budget counts, would leave unjudged and uncounted where there is none.
        """
        judged = judged_on(book, key)
        if judged is not None and self._kernel.judging.policy is None:
            return f"the policy {judged.policy} has judged it, and none is in force in this process"
        counting = {spend.budget for spend in book.purse.spends(key)} - {each.name for each in self._kernel.budgets}
        return f"it spends {', '.join(sorted(counting))}, and this process has no such budget" if counting else ""

    def _alike(self, attempt: Attempt, gate: Effect, edited: Effect) -> Program[Effect]:
        """Return an effect that can be held in the place of another.

        Raises:
            UsageError: it cannot be stored, or its check refuses it.
        """
        edited.arguments = json_text.snapshot(dict(edited.arguments))
        edited.payload = json_text.encode(edited.arguments)
        edited.call_id, edited.rationale, edited.held = gate.call_id, gate.rationale, True
        edited.decision = gate.decision
        edited.path, edited.position = (*gate.path, 0), attempt.placed
        edited.key, edited.instead_of = attempt.key(edited.path, edited.call_id), gate.key
        yield from checked_as_given(attempt, edited)
        yield from judged_as_given(self._kernel, attempt, edited)
        return edited

    def _edit(self, attempt: Attempt, gate: Effect, edited: Effect) -> Program[Effect]:
        """Hold an effect in the place of another that is known never to leave."""
        yield from self._calls.hold(attempt, attempt.live, edited)
        gate.outcome, gate.tag = Outcome.DROPPED, Tag.CLEAN
        gate.disposed = Disposed(Disposition.EDITED, link=edited.key)
        told = attempt.records.outcome(gate, self._kernel.clock())

        def replaced(protocol: Protocol, book: Book) -> None:
            for call in gate.calls:
                protocol.drop_call(call)
            attempt.put(book, [told])

        yield from self._kernel.step(replaced, durable=True)
        return edited

    def _refuse_unknown(self, name: str, recorded: RecordedTransaction | None) -> None:
        """Check that everything of a recorded transaction can leave, or be undone, in this process.

        Raises:
            DeclarationError: a tool is not declared here; nothing moved.
        """
        missing: set[str] = set()
        for effect in recorded.effects if recorded is not None else ():
            declared = self._kernel.declaration(effect.row.tool, effect.row.version)
            leaves = effect.row.held and effect.outcome is Outcome.QUEUED
            if (leaves and (declared is None or declared.function is None)) or (
                effect.row.handled and declared is None
            ):
                missing.add(named(effect.row))
        if missing:
            raise DeclarationError(
                f"{name} cannot be answered in this process, where nothing called {', '.join(sorted(missing))} is"
                " declared: import or declare it, then answer again; nothing moved",
                tool=min(missing),
            )


def _gates(
    recorded: RecordedTransaction | None, txn: Txn, attempt: Attempt | None = None
) -> tuple[Mapping[str, Any], ...]:
    """Return the gated effects that would leave, as recorded or as this process knows them."""
    if recorded is None:
        return tuple(
            {"tool": e.declaration.tool, "key": e.key}
            for e in (attempt.in_order() if attempt is not None else ())
            if e.held and e.outcome is Outcome.QUEUED and e.declaration.can_wait
        )
    return tuple(
        {
            "tool": effect.row.tool,
            "arguments": json_text.decode(effect.row.arguments),
            "scope": effect.row.scope,
            "key": effect.row.key,
            "rationale": effect.row.rationale,
        }
        for effect in gated_in(recorded, txn)
    )


__all__ = ["Park", "Parked", "Parking"]
