"""A person's yes from elsewhere: another thread, process or host.

An answer is recorded beside its effect. The program that waits reads it there: the process whose approver is still
asking, the framework that returns to its question, or any process that has the tools of what was put aside. So an
answer may be given anywhere, whether or not a program waits just then; giving it twice has no further effect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from settlemark._acts.effect import Effect
from settlemark._acts.perform import Program
from settlemark._approvals.answers import Count
from settlemark._attempt.attempt import Attempt
from settlemark._attempt.revival import lacks_key
from settlemark._edges.errors import DeclarationError, Halted, InDoubt, PartialCommit, Refused, Stale, UsageError
from settlemark._edges.text import prose
from settlemark._engine.kernel import Kernel, log
from settlemark._engine.splitting import leaving_whole
from settlemark._lifecycle.asked.answered import Answer, Answered
from settlemark._lifecycle.asked.counting import Voice, counted, refuse_late, refuse_unfit, refuse_unfit_by_link
from settlemark._lifecycle.parking import Parking, Unfit
from settlemark._lifecycle.resolution import Resolution
from settlemark._model import json_text
from settlemark._model.disposition import Disposition
from settlemark._observe.events import Recovered
from settlemark._observe.logs import about
from settlemark._protocol.holdings import Halt
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.states import FINISHED, State, Tag
from settlemark._report.questions import Question, asked, is_parked, questions
from settlemark.ledger._approvals import approval_of_key, put_again
from settlemark.ledger._contract import Book, RecordedEffect, RecordedTransaction, Said
from settlemark.ledger._links import Link, use_link

Remake = Callable[[str, Effect, Mapping[str, Any]], Effect]


class Answers:
    """Takes answers from people who are elsewhere.

    Attributes:
        remake: returns a run's effect with other arguments.
        patience: how long an approved transaction may wait for others (seconds).
    """

    def __init__(self, kernel: Kernel, resolution: Resolution, parking: Parking) -> None:
        self.remake: Remake = lambda _run, effect, _arguments: effect
        self._kernel = kernel
        self._resolution = resolution
        self._parking = parking
        self.patience = 30.0

    def asked(self) -> list[Question]:
        """Return what waits for a person's yes, oldest first. Blocks."""
        return self._kernel.ledger.now(asked)

    def say(
        self,
        which: str,
        decision: Answer,
        *,
        arguments: Mapping[str, Any] | None,
        because: str | None,
        by: str,
        roles: tuple[str, ...] = (),
        seen: str | None = None,
        asked_in: int | None = None,
    ) -> Program[Answered]:
        """Record an answer, settle what was put aside with it, and return what the answer has brought about.

        `which` is a call's key, or a transaction's name: the answer is then for all of its waiting calls. `seen` is the
        digest of the arguments that the answer is about.

        Raises:
            UsageError: nothing waits under it, it was answered otherwise, or the answer cannot be stored. Nothing was
                recorded. Or it does not count: nothing but that was recorded.
            Stale: something that the call stands on has changed; nothing but that was recorded.
        """
        answer: dict[str, Any] = {"decision": decision}
        if arguments is not None:
            answer["arguments"] = json_text.snapshot(dict(arguments))
        if because is not None:
            answer["because"] = prose(because)
        text = json_text.encode(answer)
        voice = Voice(decision, by, roles, because, arguments, seen, asked_in)

        def record(protocol: Protocol, book: Book) -> tuple[list[Question], bool, bool, list[Count]]:
            waiting = questions(protocol, book)
            mine = [one for one in waiting if one.key == which] or [one for one in waiting if one.transaction == which]
            if not mine:
                return [], False, self._said_before(book, which, voice), []
            if arguments is not None and len(mine) > 1:
                raise UsageError(
                    f"{len(mine)} calls of {which} wait for a person: name the one whose arguments these are by its"
                    f" key, as in {mine[0].key!r}; nothing was recorded"
                )
            fresh: list[Question] = []
            for one in mine:
                if one.answer is not None:
                    _refuse_other(one.key, str(one.answer.get("decision")), one.answered_by, decision)
                    if one.answer.get("arguments") != answer.get("arguments"):
                        _refuse_other(one.key, _OTHERS, one.answered_by, decision)
                    continue
                self._refuse_unrecordable(one, arguments)
                fresh.append(one)
            counts = counted(self._kernel, protocol, book, fresh, voice)
            for one, found in zip(fresh, counts, strict=True):
                if found.decided:
                    told = (one.key, text, prose(by, 255), self._kernel.clock())
                    book.write([Said(*told, dealt=False, tool=one.tool, verdict=decision)])
            return mine, any(found.news for found in counts), False, counts

        mine: list[Question]
        counts: list[Count]
        yield from refuse_unfit(self._kernel, which, arguments, self.remake)
        try:
            mine, news, over, counts = yield from self._kernel.step(record, durable=True)
        except Stale:
            yield from self._parking.end_stale()
            raise
        yield from self._refuse_late([one for one, found in zip(mine, counts, strict=False) if found.late])
        more = max((found.more for found in counts), default=0)
        keys = tuple(one.key for one in mine) or (which,)
        if not mine:
            return Answered(keys, decision, news=False, settled=over)
        if not mine[0].parked or more:
            return Answered(keys, decision, news, settled=False, more=more)
        settled, waits = yield from self._take_said(mine[0].transaction)
        if settled and not (yield from self._is_over(mine[0].transaction)):
            settled, waits = False, "another program has begun to settle it, and has not finished yet"
        return Answered(keys, decision, news, settled, waits)

    def overdue(self, key: str) -> Program[bool]:
        """Have a question answered with no if nobody has answered it in time; return whether that is so now."""
        late: Question | None = yield from self._kernel.step(partial(refuse_late, self._kernel, key), durable=True)
        if late is not None:
            yield from self._settle_late([late])
        return late is not None

    def redeem(
        self, token: str, decision: Answer, *, arguments: Mapping[str, Any] | None, because: str | None
    ) -> Program[Answered]:
        """Answer with a one-time link, as `say`.

        Raises:
            UsageError: the link is none, of an earlier round, or used for another answer; else as `say`.
        """

        def use(_protocol: Protocol, book: Book) -> Link:
            return use_link(book, token, decision, self._kernel.ledger.time())

        yield from refuse_unfit_by_link(self._kernel, token, arguments, self.remake)
        link: Link = yield from self._kernel.step(use, durable=True)
        said = self.say(
            link.key, decision, arguments=arguments, because=because, by=link.by, roles=link.roles, seen=link.seen,
            asked_in=link.round,
        )  # fmt: skip # all that the link says
        return (yield from said)

    def _refuse_late(self, late: list[Question]) -> Program[None]:
        """Return when answers came in time.

        Raises:
            UsageError: they did not, and what they are about has a no.
        """
        if late:
            yield from self._settle_late(late)
            key = late[0].key
            raise UsageError(f"{key} was not answered in time, which is a no: this answer changes nothing", key=key)

    def _settle_late(self, late: list[Question]) -> Program[None]:
        """Settle what was put aside and has a no now, as far as that is possible here."""
        for name in dict.fromkeys(one.transaction for one in late if one.parked):
            with suppress(Refused, Unfit):
                yield from self._take_said(name)

    def _is_over(self, name: str) -> Program[bool]:
        """Return whether an answered transaction has ended, waiting for another thread of this process if need be."""
        with self._kernel.local as protocol:
            txn = protocol.named.get(name)
            attempt = None if txn is None else self._kernel.attempts.get(txn)
        if txn is None or attempt is None:
            return txn is None
        yield from self._kernel.waits.until_finished(attempt, txn)
        return txn.finished

    def recover(self, *, keep_open: float | None = None) -> Program[Recovered]:
        """Recover as `Recovery.recover`, then settle what was put aside and is answered by now."""
        report: Recovered = yield from self._resolution.recover(keep_open=keep_open)
        yield from self.settle_answered()
        with self._kernel.local as protocol:
            # Includes those that another thread of this process settled first.
            over = [name for name in report.kept if name not in protocol.named]
        if over:
            found: list[RecordedTransaction | None]
            found = yield from self._kernel.step(lambda _protocol, book: [book.load(name) for name in over])
            for name, recorded in zip(over, found, strict=True):
                _tell_end(report, name, recorded)
        return report

    def keep(self, attempt: Attempt) -> Program[None]:
        """Put a transaction aside as `Parking.keep`; one entered again and answered by now settles instead.

        Raises:
            Refused: it was undone meanwhile, or was rejected; else as `answer`.
        """
        yield from self._parking.keep(attempt)
        if attempt.again:
            with suppress(Unfit):
                yield from self._take_said(attempt.name)
            # Another thread may have heard the answer first, and be carrying it out.
            yield from self._kernel.waits.until_finished(attempt, attempt.live)
            if attempt.live.state in (State.ABORTING, State.ABORTED):
                with self._kernel.local as protocol:
                    raise protocol.refusal(attempt.live)

    def settle_answered(self) -> Program[None]:
        """Settle everything put aside that is answered by now."""
        with self._kernel.local as protocol:
            if not any(is_parked(txn) for txn in protocol.live.values()):
                return
        waiting: list[Question] = yield from self._kernel.step(questions)
        for name in dict.fromkeys(one.transaction for one in waiting if one.parked and one.answer is not None):
            try:
                yield from self._take_said(name)
            except (Refused, Unfit) as error:
                log.info("%s is approved and did not settle: %s", name, error, extra=about(transaction=name))
            except (UsageError, InDoubt, PartialCommit) as error:  # what else is answered settles all the same
                log.warning("%s is approved and needs a look: %s", name, error, extra=about(transaction=name))

    def _take_said(self, name: str) -> Program[tuple[bool, str]]:
        """Settle a parked transaction if all of its calls are answered; return whether it has, else why not.

        Raises: as `answer`.
        """
        waiting: list[Question] = yield from self._kernel.step(questions)
        mine = [one for one in waiting if one.parked and one.transaction == name]
        if not mine:
            return True, ""  # another program was first
        said = [(one.key, dict(one.answer)) for one in mine if one.answer is not None]
        no = next((answer for _, answer in said if answer["decision"] == "reject"), None)
        if no is None and len(said) < len(mine):
            rest = [one.key for one in mine if one.answer is None]
            return False, f"{len(rest)} more of it to be approved: {', '.join(rest)}"
        edits = {key: answer["arguments"] for key, answer in said if answer.get("arguments") is not None}
        waits: str = yield from self._kernel.step(partial(self._keeps_waiting, name, no is None, edits))
        if waits:
            return False, waits
        try:
            yield from self._parking.answer(
                name,
                approve=no is None,
                arguments=None,
                edits=edits,
                because=None if no is None else no.get("because"),
                remake=lambda effect, arguments: self.remake(name.split("/", 1)[0], effect, arguments),
                wait=self.patience,
                retries=self._kernel.retries,
                signed=True,
            )
        except DeclarationError as error:
            return False, f"{error.tool} is not declared in this process"
        except Unfit as error:
            yield from self._take_back_said(name, error)
            raise
        except Halted as error:
            if not (yield from self._still_asked(name)):
                raise
            return False, _until_resumed(error)  # what it is to be called with now is halted
        except UsageError:
            if (yield from self._still_asked(name)):
                raise
        return True, ""

    def _still_asked(self, name: str) -> Program[bool]:
        still: list[Question] = yield from self._kernel.step(questions)
        return any(one.transaction == name for one in still)

    def _keeps_waiting(
        self, name: str, yes: bool, edits: Mapping[str, Mapping[str, Any]], protocol: Protocol, book: Book
    ) -> str:
        """Return what keeps an answered transaction from settling in this process; "" when nothing does."""
        txn = protocol.named.get(name)
        halt = None if txn is None else protocol.halted(txn)
        if txn is None or halt is not None:
            return "" if halt is None else _until_resumed(halt)
        if yes and self._parking.lacks_hooks(txn, edited=bool(edits)):
            return "its before_commit= hooks are not known in this process: enter its name with them"
        whole = leaving_whole(protocol, book, name) if yes else None
        if whole is not None:
            return f"{whole}, which it was split from, has not left yet, and may still be undone"
        lacking = [self._parking.lacks_limits(book, key) for key in edits] if yes else []
        recorded = None if txn in self._kernel.attempts else book.load(name)
        return next(filter(None, lacking), "" if recorded is None else lacks_key(recorded))

    def _take_back_said(self, name: str, unfit: Unfit) -> Program[None]:
        """Take an answer back whose arguments do not fit its call."""

        def take_back(protocol: Protocol, book: Book) -> Question | None:
            still = [one for one in questions(protocol, book) if one.key == unfit.key and one.parked]
            for one in still:
                book.write([Said(one.key, "{}", "settlemark", self._kernel.clock(), dealt=False, tool=one.tool)])
                put_again(book, one.key, self._kernel.ledger.time())
            return next((one for one in still if one.answer is not None), None)

        found: Question | None = yield from self._kernel.step(take_back, durable=True)
        if found is not None:
            log.warning(
                "%s still waits for an answer: the answer by %s is taken back, since %s",
                found.key,
                found.answered_by,
                unfit,
                extra=about(transaction=name, key=found.key, tool=found.tool),
            )

    def _refuse_unrecordable(self, one: Question, arguments: Mapping[str, Any] | None) -> None:
        if arguments is None:
            return
        text = json_text.encode(dict(arguments))
        if self._kernel.ledger.payloads.redact(text, tool=one.tool) != text:
            raise UsageError(
                f"{one.tool} has fields that are never recorded (redact=), so new arguments cannot be given to"
                " another process: answer in the call's own process, or without other arguments; nothing was"
                " recorded",
                key=one.key,
            )

    def _said_before(self, book: Book, which: str, voice: Voice) -> bool:
        """Return whether a call that no longer waits, and was answered alike, is over.

        Raises:
            UsageError: it was answered otherwise, or never waited.
        """
        recorded = book.find(which) or book.load(which)
        effects = [] if recorded is None else [e for e in recorded.effects if which in (e.row.key, e.row.name)]
        told = [(effect, found) for effect in effects if (found := _answered(effect)) is not None]
        if not told:
            raise UsageError(
                f"nothing waits for a person under {which!r}: nothing was recorded; settlement.approvals(), and"
                " settlemark approvals, list what does",
                key=which,
            )
        for effect, found in told:
            _refuse_other(effect.row.key, found, effect.said_by, voice.decision)
            record = approval_of_key(book, effect.row.key)
            edits = {vote.digest for vote in record.votes if vote.decision == "edit"} if record else set[str]()
            if voice.decision == "edit" and edits and voice.vote("", 0.0).digest not in edits:
                _refuse_other(effect.row.key, _OTHERS, effect.said_by, voice.decision)
        return recorded is not None and recorded.state in FINISHED


def _until_resumed(halt: Halt | Halted) -> str:
    return f"{halt.what} is halted by {halt.by}: it settles once that is lifted"


def _tell_end(report: Recovered, name: str, recorded: RecordedTransaction | None) -> None:
    """Add the end of a parked, answered transaction to a report."""
    ends = {State.COMMITTED: report.committed, State.ABORTED: report.undone}
    end = None if recorded is None else ends.get(recorded.row.state)
    if recorded is None or end is None:
        return  # it still waits, as the report says
    report.kept[:] = [kept for kept in report.kept if kept != name]
    end.append(name)
    if any(effect.tag not in (None, Tag.CLEAN) for effect in recorded.effects):
        report.left.append(name)


def _answered(effect: RecordedEffect) -> str | None:
    """Return the answer recorded with an effect that was taken up, or None."""
    if effect.verdict in _ANSWERS.values():
        return effect.verdict
    return None if effect.disposition is None else _ANSWERS.get(effect.disposition)


_OTHERS = "edit, with other arguments"
_ANSWERS: dict[Disposition, Answer] = {
    Disposition.APPROVED: "approve",
    Disposition.REJECTED: "reject",
    Disposition.EDITED: "edit",
}


def _refuse_other(key: str, before: str, by: str | None, now: str) -> None:
    """Check that an answer equals the earlier one.

    Raises:
        UsageError: it differs.
    """
    if before == now:
        return
    who = ", where it was asked" if by is None else f" by {by}"
    raise UsageError(
        f"{key} was answered already{who}: {before}; nothing was changed, since the earlier answer may be acted on"
        " by now",
        key=key,
        decision=before,
    )


__all__ = ["Answers"]
