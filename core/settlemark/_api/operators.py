"""What an operator of a settlement sees of effects in doubt, and what operators and webhooks say of them."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping
from typing import Any, Protocol, get_args

from settlemark._acts.perform import Program
from settlemark._edges.errors import InDoubt, UsageError
from settlemark._edges.text import DERIVED, KEY, WHO, Most, brief, identity, prose
from settlemark._lifecycle.approval import Answer, Answered, Question
from settlemark._lifecycle.resolution import Doubt
from settlemark._lifecycle.rewind import Request
from settlemark._lifecycle.rewind_plan import Rewind
from settlemark._model import json_text
from settlemark._model.effect_class import UNKNOWN, Outcome
from settlemark._report.verdicts import Verdict
from settlemark._runtime.aio import run_async
from settlemark._runtime.driver import Driver
from settlemark._runtime.sync import run_sync
from settlemark.ledger import Ledger

_KEY = "an effect's key is a text: what current_call().key is inside of its tool"
_NAMES = "rewind() takes names of transactions, as in 'trip-42/1'"


class Keyed(Protocol):
    """What has the key of an effect: a `Doubt`, a `Residue`."""

    @property
    def key(self) -> str:
        """The key."""
        ...


class Operators:
    """The part of a settlement that operators and webhooks talk to."""

    driver: Driver
    ledger: Ledger
    _wait: float

    def in_doubt(self) -> list[Doubt]:
        """Return every effect of which nobody here can say what became of it, oldest first, each with what to do.

        What is still being asked about is among them; what was given up is not: see `residue`.

        >>> from settlemark import Settlement
        >>> Settlement("memory:").in_doubt()
        []
        """
        return self.ledger.now(self.driver.resolution.doubts)

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

    def aconfirm(self, key: str, outcome: Any, *, note: str = "") -> Awaitable[Outcome]:
        """Do as `confirm`, for an event loop."""
        return run_async(self._confirming(key, outcome, note))

    def _confirming(self, key: str, outcome: Any, note: str) -> Program[Outcome]:
        if outcome is False:
            raise UsageError(
                "confirm() got False, which says neither that it happened nor that it did not: pass None when it is"
                " absent, its result when it happened, settlemark.UNKNOWN when nobody can tell; nothing was recorded"
            )
        if outcome is not UNKNOWN:
            json_text.check(outcome)
        return self.driver.resolution.confirm(
            _checked(key, _KEY, KEY), outcome, by="settlement.confirm", note=note, wait=self._wait
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
        became: tuple[Outcome, bool] = run_sync(self._resolving(effect, verdict, by, note, result))
        return became[0]

    async def aresolve(
        self, effect: str | Keyed | InDoubt, verdict: Verdict, *, by: str, note: str = "", result: Any = None
    ) -> Outcome:
        """Do as `resolve`, for an event loop."""
        became: tuple[Outcome, bool] = await run_async(self._resolving(effect, verdict, by, note, result))
        return became[0]

    def approvals(self) -> list[Question]:
        """Return every call that waits for a person's yes, oldest first, wherever it waits.

        >>> from settlemark import Settlement
        >>> Settlement("memory:").approvals()
        []
        """
        return self.driver.answers.asked()

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
        """Say no to a call that waits for a person: it never runs, and whoever waits is told why; see `approve`.

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
        key = _checked(which if isinstance(which, str) else which.key, "a call is named by its key, a text", KEY)
        who = _checked(by, "by= is who answers, a text", WHO)
        if because is not None:
            because = prose(because)
        if arguments is not None:
            json_text.check(arguments)
            decision = "edit"
        return self.driver.answers.say(key, decision, arguments=arguments, because=because, by=who)

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
        found: Rewind = run_sync(self.rewinding(transactions, **options))
        return found

    def arewind(
        self,
        transactions: str | Iterable[str],
        *,
        by: str,
        note: str = "",
        dry_run: bool = True,
        overwrite: Iterable[str] = (),
    ) -> Awaitable[Rewind]:
        """Do as `rewind`, for an event loop."""
        options: dict[str, Any] = {"by": by, "note": note, "dry_run": dry_run, "overwrite": overwrite}
        return run_async(self.rewinding(transactions, **options))

    def rewinding(
        self,
        transactions: str | Iterable[str],
        *,
        by: str,
        note: str,
        dry_run: bool,
        overwrite: Iterable[str],
        barred: Mapping[str, str] | None = None,
    ) -> Program[Rewind]:
        """Return the program of `rewind`, for an integration that maps its own history onto transactions.

        `barred` are further names, each with its run, under which nothing is to begin any more where something is
        undone: as of what would have come next.
        """
        names = [transactions] if isinstance(transactions, str) else list(transactions)
        word = self.driver.rewinds.word(_checked(by, "by= is who goes back, a text", WHO), note)
        keys = frozenset([overwrite] if isinstance(overwrite, str) else overwrite)
        for key in keys:
            _checked(key, _KEY, KEY)
        for text in (*(barred or {}).keys(), *(barred or {}).values()):
            _checked(text, _NAMES, DERIVED)
        request = Request(tuple(_checked(name, _NAMES, DERIVED) for name in names), word, keys, dict(barred or {}))
        return self.driver.rewinds.rewind(request, dry_run=dry_run, wait=self._wait)

    def _resolving(
        self, effect: str | Keyed | InDoubt, verdict: Verdict, by: str, note: str, result: Any
    ) -> Program[tuple[Outcome, bool]]:
        key = _checked(effect if isinstance(effect, str) else effect.key, _KEY, KEY)
        if verdict not in get_args(Verdict):
            raise UsageError(f"verdict={verdict!r}: choose one of {', '.join(map(repr, get_args(Verdict)))}")
        if result is not None and verdict != "confirmed":
            raise UsageError(f'result= belongs to "confirmed", not to {verdict!r}: nothing was recorded')
        json_text.check(result)
        found = (True if result is None else result) if verdict == "confirmed" else None
        who = _checked(by, "by= is who decides, a text", WHO)
        return self.driver.resolution.resolve(key, verdict, found, by=who, note=note, wait=self._wait)

    def resolved(self, effect: str | Keyed | InDoubt, verdict: Verdict, **said: Any) -> tuple[Outcome, bool]:
        """Do as `resolve`, and also return whether it was news: for whoever tells a person so."""
        became: tuple[Outcome, bool] = run_sync(
            self._resolving(effect, verdict, said["by"], said.get("note", ""), said.get("result"))
        )
        return became


def _checked(text: object, what: str, most: Most) -> str:
    if not isinstance(text, str) or not text.strip():
        raise UsageError(f"{what}, not {brief(text)}: nothing was recorded")
    return identity(text, f"{what}; this one", most)


__all__ = ["Keyed", "Operators"]
