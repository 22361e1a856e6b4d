"""What an operator of a settlement sees of effects in doubt, and what operators and webhooks say of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from settlemark._acts.perform import Program
from settlemark._api.checked import checked_word
from settlemark._api.host import EFFECT_KEY, Host
from settlemark._edges.errors import InDoubt, UsageError
from settlemark._edges.text import KEY, WHO, prose
from settlemark._lifecycle.approval import Answer, Answered
from settlemark._lifecycle.resolution import Doubt
from settlemark._lifecycle.rewind.plan import Rewind
from settlemark._model import json_text
from settlemark._model.effect_class import UNKNOWN, Outcome
from settlemark._report.questions import Question
from settlemark._report.verdicts import Verdict
from settlemark._runtime.aio import run_async
from settlemark._runtime.sync import run_sync


class Keyed(Protocol):
    """What has the key of an effect: a `Doubt`, a `Residue`."""

    @property
    def key(self) -> str:
        """The key."""
        ...


class Operators:
    """The part of a settlement that operators and webhooks talk to."""

    _host: Host

    def in_doubt(self) -> list[Doubt]:
        """Return every effect of which nobody here can say what became of it, oldest first, each with what to do.

        What is still being asked about is among them; what was given up is not: see `residue`.

        >>> from settlemark import Settlement
        >>> Settlement("memory:").in_doubt()
        []
        """
        return self._host.ledger.now(self._host.driver.resolution.doubts)

    def confirm(self, key: str, outcome: Any, *, note: str = "") -> Outcome:
        """Say what became of an effect, as its counterparty told it by another way than the call's answer.

        For a webhook. `outcome` is what a probe would answer: the result, as plain data; None: it did not
        happen; `settlemark.UNKNOWN`: that is not known either. It is on record when this returns, whatever
        process the call was made in. What happened although its transaction was undone is undone now, else
        named. Saying it twice is as good as once; of two that contradict each other the first stays, and
        they are named as residue.

        Args:
            key: what `current_call().key` was; the counterparty sent it back.
            outcome: see above.
            note: why, for the record.

        Returns:
            What the effect is by now, as `UNDONE` when it came too late.

        Raises:
            UsageError: no effect has this key, or nothing of it was sent yet, or the outcome is False. PayloadError:
                the outcome is no JSON. Nothing was recorded.

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
        """Decide what became of an effect in doubt, as an operator who has asked its counterparty.

        `"confirmed"`: it happened. When its transaction was undone it is undone now, else named.
        `"absent"`: it did not happen. `"give_up"`: nobody will know; it stays named as residue, and is no
        longer in doubt. `"dealt_with"`: what it left is seen to; it leaves `residue()` and stays in the record, until
        there is news of it. About other residue, `"confirmed"` tries a failed undo once more or accepts what
        stands, and `"absent"` says that it was seen to by hand; so it decides between words that contradict each
        other. Who, when and why stand in the record. What an operator has decided
        already stays as it is.

        Args:
            effect: its key, or what has one: a `Doubt`, a `Residue`, an `InDoubt`.
            verdict: see above.
            by: who says so.
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

    def approve(self, which: str | Keyed, *, by: str, arguments: Mapping[str, Any] | None = None) -> Answered:
        """Say yes to a call that waits for a person, wherever it waits, and return what came of that.

        It is on record when this returns. A process whose approver is still asking goes on with it; a framework does
        when it comes back to its question; what was put aside settles once all of its calls are approved, here if its
        tools are declared in this process, else in one where they are. Saying it twice is as good as once.

        Args:
            which: the call's key, or what has one, as one of `approvals()`; or its transaction's name, for all of it.
            by: who says so.
            arguments: to run it with instead, all of them.

        Raises:
            UsageError: nothing waits under it, it was answered otherwise, or the arguments cannot be kept; nothing was
                recorded. Stale, WaitTimeout, PartialCommit, InDoubt: what was put aside did not settle; see `answer`.

        >>> sent = []
        >>> from settlemark import Settlement, effect
        >>> @effect("irreversible", scope="mail:/{to}", approve=True)
        ... def send_mail(to): sent.append(to)
        >>> settlement = Settlement("memory:")
        >>> _ = settlement.run("trip-42", lambda tx: tx.call(send_mail, to="a@b.example"))
        >>> settlement.approve(settlement.approvals()[0], by="ada").settled, sent
        (True, ['a@b.example'])
        """
        done: Answered = run_sync(self._saying(which, "approve", by, arguments, None))
        return done

    async def aapprove(self, which: str | Keyed, *, by: str, arguments: Mapping[str, Any] | None = None) -> Answered:
        """Do as `approve`, for an event loop."""
        done: Answered = await run_async(self._saying(which, "approve", by, arguments, None))
        return done

    def reject(self, which: str | Keyed, *, because: str, by: str) -> Answered:
        """Say no to a call that waits for a person: the call never runs, and its program is told why; see `approve`.

        What was put aside is undone. Whoever enters its name again decides anew: the call is then asked about again,
        under another key, and the log says that it was rejected before.

        Raises:
            UsageError: as `approve`.
        """
        done: Answered = run_sync(self._saying(which, "reject", by, None, because))
        return done

    async def areject(self, which: str | Keyed, *, because: str, by: str) -> Answered:
        """Do as `reject`, for an event loop."""
        done: Answered = await run_async(self._saying(which, "reject", by, None, because))
        return done

    def _saying(
        self, which: str | Keyed, decision: Answer, by: str, arguments: Mapping[str, Any] | None, because: str | None
    ) -> Program[Answered]:
        key = checked_word(which if isinstance(which, str) else which.key, "a call is named by its key, a text", KEY)
        who = checked_word(by, "by= is who answers, a text", WHO)
        if because is not None:
            because = prose(because)
        if arguments is not None:
            json_text.check(arguments)
            decision = "edit"
        return self._host.driver.answers.say(key, decision, arguments=arguments, because=because, by=who)

    def rewind(
        self,
        transactions: str | Iterable[str],
        *,
        by: str,
        note: str = "",
        dry_run: bool = True,
        overwrite: Iterable[str] = (),
    ) -> Rewind:
        """Go back before transactions: undo what they did, newest first; by default only tell what that would do.

        What cannot be undone is told before anything happens, and is residue afterwards. So is what others have
        built upon since: undoing it would overwrite their work. What has not ended is aborted first. From then
        on the names are refused: entering one of them again raises `Rewound`, and replays nothing. Who, when and
        why stand in the record. A crash midway leaves it to recovery, which goes on where it stopped.

        Args:
            transactions: their names, in any order; with one that was split goes what was split off from it.
            by: who says so.
            note: why.
            dry_run: tell what would happen, and do nothing.
            overwrite: keys of conflicts that are undone nevertheless, whatever was built upon them.

        Raises:
            UsageError: one of them is on no record, or a key of `overwrite` is none of theirs. DeclarationError: an
                undo is not known in this process. Nothing was undone.
            WaitTimeout: another holds one of their scopes, or a call of theirs has not returned; nothing that had
                committed was undone.

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
