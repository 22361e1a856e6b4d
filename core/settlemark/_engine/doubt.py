"""What became of an effect: what the record was told of it meanwhile, else what its counterparty says.

An answer may come by another way than the call's own: a webhook, an operator, another process that asked.
It is written to the record; a sender in doubt looks there first, and never writes "unknown" over it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from settlemark._acts.current import CurrentCall
from settlemark._acts.effect import Effect
from settlemark._acts.perform import Program, Retries, probe
from settlemark._acts.requests import Sleep
from settlemark._attempt.attempt import Attempt
from settlemark._edges.errors import LedgerError
from settlemark._edges.text import CAUSE, prose
from settlemark._edges.user_code import through
from settlemark._engine.kernel import Kernel, log
from settlemark._model import json_text
from settlemark._model.disposition import Disposition
from settlemark._model.effect_class import UNKNOWN, Outcome
from settlemark._observe.logs import Quote, about, log_failure
from settlemark._protocol.states import Tag
from settlemark.ledger._contract import Book, Change, OutcomeChange, RecordedEffect

_TOLD = (Outcome.CONFIRMED, Outcome.FAILED)
SLACK_SECONDS = 1.0


class Probing:
    """Finds out what became of an effect.

    Attributes:
        on_doubt: called when an effect is left in doubt, so that somebody goes on asking.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.on_doubt: Callable[[], None] | None = None
        self._answered_false: set[str] = set()  # tools of whose probe that was told

    def ask(self, effect: Effect, current: CurrentCall, retries: Retries | None, *, final: bool) -> Program[object]:
        """Return an effect's result, None for absent, or `UNKNOWN` when nobody can tell.

        Without `retries` its counterparty is asked once, and nobody else; with them the record is looked at
        too, and both again after a pause while the answer is `UNKNOWN`.
        """
        asked = 0
        while True:
            if retries is not None:
                told = yield from self._told(effect)
                if told is not UNKNOWN:
                    return told
            silent, told = yield from self.of_sender(effect)
            if told is not UNKNOWN:
                return told
            found = yield from probe(effect, current)
            if found is False:
                found = self._said_false(effect)
            forgotten = effect.unsigned or self.is_forgotten(effect)
            if found is None and (silent or (effect.declaration.asks_by_key and forgotten)):
                found = UNKNOWN  # forgotten, without a key, or yet to be sent, it is not found, happened or not
            asked += 1
            over = retries is None or effect.declaration.probe is None or asked >= retries.tries
            if found is not UNKNOWN or over:
                return found
            assert retries is not None
            yield Sleep(retries.pause(asked), final)

    def _said_false(self, effect: Effect) -> object:
        """Return what a probe's False stands for, and say so once of each tool.

        Most often it is meant for "absent". Taken for the result it would lose an effect in silence, and taken for
        "absent" it would repeat the effect of a probe that tells a result.
        """
        tool = effect.declaration.tool
        if self._kernel.warns and tool not in self._answered_false:
            self._answered_false.add(tool)
            log.warning(
                "the probe of %s answered False, which is neither a result nor None: the effect counts as in doubt;"
                " return None when it is absent, its result when it happened, settlemark.UNKNOWN when nobody can tell",
                tool,
                extra=about(tool=tool, key=effect.key, scope=effect.scope_text),
            )
        return UNKNOWN

    def is_forgotten(self, effect: Effect) -> bool:
        """Whether its counterparty has forgotten its key by now, so that it must not be sent again."""
        window = effect.declaration.window
        # A key that was sent after now: somebody has set the store's clock back, and nobody can tell how old it is.
        return window is not None and not -SLACK_SECONDS <= self._kernel.ledger.time() - effect.at < window

    def sends_again(self, effect: Effect) -> Program[None]:
        """Record that this worker sends what a buried worker may still be sending.

        Should that one come back and say that it did, it happened twice.
        """
        key, worker = effect.key, self._kernel.ledger.worker
        yield from self._kernel.step(lambda _protocol, book: book.set_sender([key], worker), durable=True)
        effect.sender = None

    def of_sender(self, effect: Effect) -> Program[tuple[bool, object]]:
        """Return whether its sender may still be sending it, and what that one said of it, if so, or `UNKNOWN`.

        To be asked before its counterparty is: what is absent then may come later.
        """
        sender = effect.sender
        if sender is None:
            return False, UNKNOWN
        try:
            silent, told = yield from self._kernel.step(
                lambda _protocol, book: (sender in book.zombies(), told_of(book, effect.key))
            )
        except LedgerError:
            return True, UNKNOWN
        return silent, UNKNOWN if told is None else answer_in(told)

    def _told(self, effect: Effect) -> Program[object]:
        """Return what the record was told of an effect that is in doubt here, or `UNKNOWN`."""
        try:
            found: RecordedEffect | None = yield from self._kernel.step(
                lambda _protocol, book: told_of(book, effect.key)
            )
        except LedgerError:
            return UNKNOWN
        return UNKNOWN if found is None else answer_in(found)

    def doubt(self) -> None:
        """Say that an effect is left in doubt."""
        if self.on_doubt is not None:
            self.on_doubt()


class Residue:
    """Tells of what stays of a transaction that nobody wanted.

    Attributes:
        on_left: returns what is called when something stays, known weakly.
    """

    def __init__(self, kernel: Kernel, probing: Probing, on_residue: Callable[[str], None] | None = None) -> None:
        self._kernel = kernel
        self._probing = probing
        self.on_residue = on_residue
        self.on_left: Callable[[], Callable[[], None] | None] = lambda: None

    def tell(self, attempt: Attempt) -> None:
        """Warn of each effect that stays, tell who listens, and have what is in doubt asked about again."""
        effects = attempt.effects.copy().values()
        left = [e for e in effects if e.tag not in (None, Tag.CLEAN)]
        for effect in left if self._kernel.warns else ():
            note = prose(attempt.payloads.scrub(str(effect.disposed), [effect.key]), CAUSE)
            log.warning(
                "%s left %s on %s: %s",
                attempt.name,
                effect.declaration.tool,
                effect.scope_text,
                Quote(note),
                extra=attempt.about(effect, tag=effect.tag and effect.tag.value),
            )
        if left:
            self.tell_listener(attempt.name)
        if any(e.outcome is Outcome.UNKNOWN or e.disposed.disposition is Disposition.TO_UNDO for e in effects):
            self._probing.doubt()

    def tell_listener(self, name: str) -> None:
        """Tell who listens, and who mends, that a transaction left something to mend."""
        look_again = self.on_left()
        if look_again is not None:
            look_again()
        if self.on_residue is None:
            return
        try:
            through(self.on_residue, name)
        except BaseException as error:  # a listener's own fault must not reach the caller that settled
            log_failure(log, f"on_residue failed for {name}", error, transaction=name)


def effect_of_key(book: Book, key: str) -> RecordedEffect | None:
    """Return the recorded effect of a key, or None."""
    recorded = book.find(key)
    return None if recorded is None else next(e for e in recorded.effects if e.row.key == key)


def told_of(book: Book, key: str) -> RecordedEffect | None:
    """Return the recorded effect of a key whose outcome is known, or None."""
    found = effect_of_key(book, key)
    return found if found is not None and found.outcome in _TOLD else None


def answer_in(found: RecordedEffect) -> Any:
    """Return what a probe would have answered, where the record knows it."""
    if found.outcome is Outcome.FAILED:
        return None
    result = json_text.decode(found.result)
    return True if result is None else result  # it happened, and nobody said with what result


def unless_told(book: Book, changes: list[Change]) -> list[Change]:
    """Return changes without those that would write "unknown" over what the record was told meanwhile."""
    return [
        change
        for change in changes
        if not (
            type(change) is OutcomeChange
            and change.outcome is Outcome.UNKNOWN
            and told_of(book, change.key) is not None
        )
    ]


__all__ = ["Probing", "Residue", "answer_in", "effect_of_key", "told_of", "unless_told"]
