"""For operators and webhooks: effects in doubt, verdicts on them, approvals and rewinds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, get_args

from settlemark._acts.perform import Program
from settlemark._api.checked import checked_word
from settlemark._api.host import EFFECT_KEY, Host
from settlemark._approvals.terms import names_in
from settlemark._edges.errors import InDoubt, UsageError
from settlemark._edges.given import mapping
from settlemark._edges.text import KEY, WHO, brief, prose
from settlemark._lifecycle.asked.answered import Answer, Answered
from settlemark._lifecycle.resolution import Doubt
from settlemark._lifecycle.rewind.plan import Rewind
from settlemark._model import json_text
from settlemark._model.effect_class import UNKNOWN, Outcome
from settlemark._report.questions import Question
from settlemark._report.verdicts import Verdict
from settlemark._runtime.aio import run_async
from settlemark._runtime.sync import run_sync


class Keyed(Protocol):
    """Something that has an effect's key: a `Doubt`, a `Residue`."""

    @property
    def key(self) -> str:
        """The key."""
        ...


class Operators:
    """The part of a settlement for operators and webhooks."""

    _host: Host

    def in_doubt(self) -> list[Doubt]:
        """Return every effect whose outcome nobody here can tell, oldest first, each with what to do.

        Effects still being probed are among them; those given up are not: see `residue`.

        >>> from settlemark import Settlement
        >>> Settlement("memory:").in_doubt()
        []
        """
        return self._host.ledger.now(self._host.driver.resolution.doubts)

    def confirm(self, key: str, outcome: Any, *, note: str = "") -> Outcome:
        """Record an effect's outcome, as its counterparty reported it by another way than the call's answer.

        For a webhook. `outcome` is what a probe would answer: the result, as plain data; None: it did not happen;
        `settlemark.UNKNOWN`: that is not known either. The outcome is on record when this returns, whatever process
        made the call. An effect that happened although its transaction was undone is undone now, else named in the
        residue. Repeating a report has no effect; of two that contradict each other the first stays, and both are named
        as residue.

        Args:
            key: `current_call().key`; the counterparty sent it back.
            outcome: see above.
            note: why, for the record.

        Returns:
            The effect's outcome by now, such as `UNDONE` when the report came too late.

        Raises:
            UsageError: no effect has this key, or nothing of it was sent yet, or the outcome is False.
            PayloadError: the outcome is no JSON. Nothing was recorded.

        >>> from settlemark import Settlement, current_call, effect
        >>> keys = []
        >>> @effect("opaque", scope="bank:/{account}")
        ... def wire(account):
        ...     keys.append(current_call().key)
        ...     raise TimeoutError
        >>> settlement = Settlement("memory:")
        >>> with settlement.transaction("sweep") as tx:
        ...     try: tx.call(wire, account="ops")
        ...     except Exception as error: print(type(error).__name__)
        InDoubt
        >>> settlement.confirm(keys[0], {"wire": "w7"}).value, settlement.in_doubt()
        ('confirmed', [])
        """
        became: Outcome = run_sync(self._confirming(key, outcome, note))
        return became

    async def aconfirm(self, key: str, outcome: Any, *, note: str = "") -> Outcome:
        """Do as `confirm`, for an event loop."""
        return await run_async(self._confirming(key, outcome, note))

    def _confirming(self, key: str, outcome: Any, note: str) -> Program[Outcome]:
        if outcome is False:
            raise UsageError(
                "confirm() got False, which says neither that it happened nor that it did not: pass None when it is"
                " absent, its result when it happened, settlemark.UNKNOWN when nobody can tell; nothing was recorded"
            )
        if outcome is not UNKNOWN:
            json_text.check(outcome)
        return self._host.driver.resolution.confirm(
            checked_word(key, EFFECT_KEY, KEY), outcome, by="settlement.confirm", note=note, wait=self._host.patience
        )

    def resolve(
        self, effect: str | Keyed | InDoubt, verdict: Verdict, *, by: str, note: str = "", result: Any = None
    ) -> Outcome:
        """Decide the outcome of an effect in doubt, as an operator who has asked its counterparty.

        * `"confirmed"`: it happened. If its transaction was undone, the effect is undone now, else named in the
          residue.
        * `"absent"`: it did not happen.
        * `"give_up"`: nobody will know; it stays named as residue, and is no longer in doubt.
        * `"dealt_with"`: its residue was mended by hand; it leaves `residue()` and stays in the record, until there is
          news.

        About other residue, `"confirmed"` tries a failed undo once more or accepts what stands, and `"absent"` says
        that it was mended by hand; so a verdict settles contradicting reports. Who, when and why stand in the record.
        An earlier verdict of an operator stays as it is.

        Args:
            effect: its key, or something that has one: a `Doubt`, a `Residue`, an `InDoubt`.
            verdict: see above.
            by: who decides.
            note: why.
            result: what the call would have returned, as plain data, with `"confirmed"`.

        Raises:
            UsageError: as `confirm`; nothing was recorded.
        """
        became: tuple[Outcome, bool] = run_sync(self._host.resolving(_key_of(effect), verdict, by, note, result))
        return became[0]

    async def aresolve(
        self, effect: str | Keyed | InDoubt, verdict: Verdict, *, by: str, note: str = "", result: Any = None
    ) -> Outcome:
        """Do as `resolve`, for an event loop."""
        became: tuple[Outcome, bool] = await run_async(self._host.resolving(_key_of(effect), verdict, by, note, result))
        return became[0]

    def approvals(self) -> list[Question]:
        """Return every call that waits for a person's yes, oldest first, wherever it waits.

        >>> from settlemark import Settlement
        >>> Settlement("memory:").approvals()
        []
        """
        return self._host.driver.answers.asked()

    def approve(
        self,
        which: str | Keyed,
        *,
        by: str,
        roles: str | Iterable[str] = (),
        arguments: Mapping[str, Any] | None = None,
        seen: str | None = None,
    ) -> Answered:
        """Approve a call that waits for a person, wherever it waits, and return what the answer has brought about.

        The answer is on record when this returns. A process whose approver is still asking continues with it; a
        framework does when it resumes; a parked transaction settles once all of its calls are approved, here if its
        tools are declared in this process, else in one where they are. Approving twice has no further effect.

        Args:
            which: the call's key, or something that has one, such as one of `approvals()`; or its transaction's name,
                for all of its calls.
            by: who approves. You know that it is so: the ledger only checks whether this name may answer.
            roles: as what, such as `"finance"`, where a role may answer: `Approval(by="role:finance")`.
            arguments: all the arguments to run the call with, in place of its own.
            seen: the digest of the arguments that were approved, as in `approvals()[0].approval.digest`.

        Raises:
            UsageError: nothing waits under it, it was answered otherwise, or the arguments cannot be stored; nothing
                was recorded. Or the answer does not count: `by` may not answer, it comes too late (which is a no), or
                its arguments are others than were `seen`; that alone was recorded.
            Stale: something that the call stands on has changed: its transaction is undone, and the answer refused.
            WaitTimeout, PartialCommit, InDoubt: what was put aside did not settle; see `answer`.

        >>> sent = []
        >>> from settlemark import Settlement, effect
        >>> @effect("irreversible", scope="mail:/{to}", approve=True)
        ... def send_mail(to): sent.append(to)
        >>> settlement = Settlement("memory:")
        >>> _ = settlement.run("trip-42", lambda tx: tx.call(send_mail, to="a@b.example"))
        >>> settlement.approve(settlement.approvals()[0], by="ada").settled, sent
        (True, ['a@b.example'])
        """
        done: Answered = run_sync(self._saying(which, "approve", by, roles, arguments, None, seen))
        return done

    async def aapprove(
        self,
        which: str | Keyed,
        *,
        by: str,
        roles: str | Iterable[str] = (),
        arguments: Mapping[str, Any] | None = None,
        seen: str | None = None,
    ) -> Answered:
        """Do as `approve`, for an event loop."""
        done: Answered = await run_async(self._saying(which, "approve", by, roles, arguments, None, seen))
        return done

    def reject(self, which: str | Keyed, *, because: str, by: str, roles: str | Iterable[str] = ()) -> Answered:
        """Reject a call that waits for a person: it never runs, and its program is told why; see `approve`.

        What was put aside is undone. Entering its name again asks about the call again, under another key, and the log
        says that the call was rejected before.

        Raises:
            UsageError: as `approve`.
        """
        done: Answered = run_sync(self._saying(which, "reject", by, roles, None, because, None))
        return done

    async def areject(self, which: str | Keyed, *, because: str, by: str, roles: str | Iterable[str] = ()) -> Answered:
        """Do as `reject`, for an event loop."""
        done: Answered = await run_async(self._saying(which, "reject", by, roles, None, because, None))
        return done

    def redeem(
        self,
        token: str,
        decision: Answer,
        *,
        because: str | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> Answered:
        """Answer with a one-time link, in the name of the person it was brought to; see `approve`.

        A channel brings a token to each recipient: `settlemark_adapters.channels.MailChannel`. The page behind the link
        calls this when its reader has pressed a button: never when it is only opened, which mail scanners do, too.

        Args:
            token: as in the link.
            decision: `"approve"`, `"reject"`, or `"edit"` with `arguments`.
            because: why.
            arguments: all the arguments to run the call with, in place of its own.

        Raises:
            UsageError: the link is none, was used for another answer, or the answer does not count: see `approve`.
            Stale: something that the call stands on has changed.

        >>> from settlemark import Settlement
        >>> Settlement("memory:").redeem("no-such-token", "approve")
        Traceback (most recent call last):
        ...
        settlemark._edges.errors.UsageError: this link answers nothing: it is none, or too old; nothing was recorded
        """
        done: Answered = run_sync(self._redeeming(token, decision, because, arguments))
        return done

    async def aredeem(
        self,
        token: str,
        decision: Answer,
        *,
        because: str | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> Answered:
        """Do as `redeem`, for an event loop."""
        done: Answered = await run_async(self._redeeming(token, decision, because, arguments))
        return done

    def _redeeming(
        self, token: str, decision: Answer, because: str | None, arguments: Mapping[str, Any] | None
    ) -> Program[Answered]:
        text = checked_word(token, "token= is the token of a link, a text", KEY)
        if decision not in get_args(Answer) or (decision == "edit") is not (arguments is not None):
            raise UsageError(
                f'{brief(decision)} is no answer: "approve", "reject", or "edit" with arguments=; nothing was recorded'
            )
        if arguments is not None:
            arguments = mapping(arguments, "arguments=")
            json_text.check(arguments)
        told = None if because is None else prose(because)
        return self._host.driver.answers.redeem(text, decision, arguments=arguments, because=told)

    def _saying(
        self,
        which: str | Keyed,
        decision: Answer,
        by: str,
        roles: str | Iterable[str],
        arguments: Mapping[str, Any] | None,
        because: str | None,
        seen: str | None,
    ) -> Program[Answered]:
        key = checked_word(getattr(which, "key", which), "a call is named by its key, a text", KEY)
        who = checked_word(by, "by= is who answers, a text", WHO)
        if seen is not None:
            seen = checked_word(seen, "seen= is the digest of the arguments, a text", KEY)
        if because is not None:
            because = prose(because)
        if arguments is not None:
            arguments = mapping(arguments, "arguments=")
            json_text.check(arguments)
            decision = "edit"
        return self._host.driver.answers.say(
            key, decision, arguments=arguments, because=because, by=who, roles=names_in(roles, "roles="), seen=seen
        )

    def rewind(
        self,
        transactions: str | Iterable[str],
        *,
        by: str,
        note: str = "",
        dry_run: bool = True,
        overwrite: Iterable[str] = (),
    ) -> Rewind:
        """Rewind transactions: undo what they did, newest first; by default only report what that would do.

        Effects that cannot be undone are reported before anything happens, and are residue afterwards. So are effects
        on which others have built since: an undo would overwrite their work (what commutes with them does not count).
        Unfinished transactions are aborted first. From then on the names are refused: entering one of them again raises
        `Rewound`, and replays nothing. Who, when and why stand in the record. A crash midway leaves the rewind to
        recovery, which continues it.

        Args:
            transactions: their names, in any order; a split transaction includes its split-off parts.
            by: who rewinds.
            note: why.
            dry_run: report what would happen, and do nothing.
            overwrite: keys of conflicts to undo nevertheless, whatever was built upon them.

        Raises:
            UsageError: one of them is not on record, or a key of `overwrite` is none of theirs.
            DeclarationError: an undo is unknown in this process. Nothing was undone.
            WaitTimeout: another holds one of their scopes, or one of their calls has not returned; nothing that had
                committed was undone.
            Halted: one of them was leaving when it was halted, and stays as it is until that is lifted: resume, then
                rewind again. Nothing that had committed was undone.

        >>> rooms = []
        >>> from settlemark import Settlement, effect
        >>> @effect("reversible", scope="room:/{hotel}", undo=lambda hotel: rooms.remove(hotel))
        ... def reserve(hotel): rooms.append(hotel)
        >>> settlement = Settlement("memory:")
        >>> with settlement.transaction("trip-42/1") as tx:
        ...     tx.call(reserve, hotel="Ada")
        >>> print(settlement.rewind("trip-42/1", by="ada"))
        Going back over 1 transaction; nothing has happened yet.
        To be undone, in this order:
          1. trip-42/1: reserve on room:/Ada
        >>> _ = settlement.rewind("trip-42/1", by="ada", dry_run=False)
        >>> rooms
        []
        """
        options: dict[str, Any] = {"by": by, "note": note, "dry_run": dry_run, "overwrite": overwrite}
        found: Rewind = run_sync(self._host.rewinding(transactions, **options))
        return found

    async def arewind(
        self,
        transactions: str | Iterable[str],
        *,
        by: str,
        note: str = "",
        dry_run: bool = True,
        overwrite: Iterable[str] = (),
    ) -> Rewind:
        """Do as `rewind`, for an event loop."""
        options: dict[str, Any] = {"by": by, "note": note, "dry_run": dry_run, "overwrite": overwrite}
        return await run_async(self._host.rewinding(transactions, **options))


def _key_of(effect: str | Keyed | InDoubt) -> str:
    return effect if isinstance(effect, str) else effect.key


__all__ = ["Keyed", "Operators"]
