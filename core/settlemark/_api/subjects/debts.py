"""What a settlement tells of obligations, and does about them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any, cast

from settlemark._acts.bodies import in_body
from settlemark._acts.perform import Program
from settlemark._api.checked import checked_word
from settlemark._api.host import Host
from settlemark._edges.errors import UsageError
from settlemark._edges.text import KEY, TOOL, WHO, identity, prose
from settlemark._model.scope import Scope
from settlemark._owing.obligation import DUE, Obligation
from settlemark._runtime.aio import run_async
from settlemark._runtime.sync import run_sync
from settlemark.ledger._owed import OwedPage, OwedState

_TRIES = 20
_ID = "an obligation is named by its id, a text, as in settlement.obligations()"


class Debts:
    """The part of a settlement that has to do with obligations."""

    _host: Host

    def _begin_owing(self, face: Callable[..., Any], async_face: Callable[..., Any]) -> None:
        self._handlers: dict[str | None, Callable[..., Any]] = {}
        self._host.driver.obligations.handling = partial(_handling, self._host, self._handlers, (face, async_face))

    def obligations(
        self,
        *,
        state: OwedState | str | None = None,
        run: str | None = None,
        to: str | Scope | None = None,
        due_before: datetime | None = None,
    ) -> list[Obligation]:
        """Return what is owed, or was, by this namespace's transactions, those due first at the front.

        Args:
            state: only those in this state, such as `"open"`.
            run: only those of one run.
            to: only those owed to this scope, exactly.
            due_before: only those due before this time, which has its time zone.

        Raises:
            UsageError: there is no such state, or the time has no time zone. ScopeError: `to` is malformed.

        >>> from settlemark import Settlement
        >>> Settlement("memory:").obligations(state="open")
        []
        """
        if state is not None and state not in list(OwedState):
            raise UsageError(f"state={state!r}: choose one of {', '.join(map(repr, map(str, OwedState)))}")
        if due_before is not None and (
            not isinstance(cast("object", due_before), datetime) or due_before.tzinfo is None
        ):
            raise UsageError(f"due_before={due_before!r}: give a datetime with its time zone")
        page = OwedPage(
            run=run,
            to=None if to is None else Scope.parse(to).text,
            due_before=None if due_before is None else due_before.timestamp(),
        )
        found = self._host.ledger.read(partial(self._host.driver.obligations.found, page))
        return [each for each in found if state is None or each.state == state]

    def waive(self, obligation: str | Obligation, *, by: str, note: str = "") -> Obligation:
        """Strike out an open obligation: nobody has to fulfil it any more; return it as it is now.

        Args:
            obligation: its id, or the obligation.
            by: who strikes it out.
            note: why, for the record.

        Raises:
            UsageError: there is none of this id, or it is not open; nothing was recorded.
        """
        return run_sync(self._waiving(obligation, by, note))

    async def awaive(self, obligation: str | Obligation, *, by: str, note: str = "") -> Obligation:
        """Do as `waive`, for an event loop."""
        return await run_async(self._waiving(obligation, by, note))

    def _waiving(self, obligation: str | Obligation, by: str, note: str) -> Program[Obligation]:
        number = checked_word(obligation.id if isinstance(obligation, Obligation) else obligation, _ID, KEY)
        who = checked_word(by, "by= is who strikes it out, a text", WHO)
        return self._host.driver.obligations.waive(number, by=who, note=prose(note))

    def on_due(self, handler: Callable[[Any, Obligation], Any], *, tool: str | None = None) -> None:
        """Have a handler called when an obligation is due that nothing has fulfilled.

        It is called as `handler(tx, obligation)`, in a transaction of its own that is named `due/<id>`, by one process,
        and commits once: in a process that was killed its work is undone, or goes on, as any transaction's. If the
        obligation is fulfilled or waived meanwhile, the handler's transaction is undone. An obligation whose handler
        fails, or for which no process has one within 30 s, is reported once: in the log, and to the observer.

        What an effect with `expires=` owes needs no handler: its `then=` is called when it is due.

        The time is the store's. Handlers run in the background; `recover()` runs those that are due now.

        Args:
            handler: async or not.
            tool: handles what is fulfilled by this tool; by default all that has no handler of its own.

        Raises:
            UsageError: the handler cannot be called, or the tool is no name.

        >>> from settlemark import Settlement
        >>> Settlement("memory:").on_due(lambda tx, obligation: None)
        """
        if not callable(handler):
            raise UsageError(f"on_due() takes a function of the transaction and the obligation, not {handler!r}")
        if tool is not None:
            identity(tool, "tool= is a tool's name; this one", TOOL)
        self._handlers[tool] = handler
        self._host.driver.obligations.look_again()


def _handling(
    host: Host,
    handlers: dict[str | None, Callable[..., Any]],
    faces: tuple[Callable[..., Any], Callable[..., Any]],
    obligation: Obligation,
) -> Program[Any] | None:
    handler = handlers.get(obligation.fulfilled_by) or handlers.get(None) or _release(host, obligation)
    if handler is None:
        return None
    name = f"{DUE}{obligation.id}"
    face = faces[inspect.iscoroutinefunction(handler)]
    driver = host.driver

    def body(part: Any) -> Callable[[], Any]:
        return partial(in_body(driver.kernel, part.attempt.name, handler), face(host, part), obligation)

    options = host.options(name, name, on_failure="retry", retry=True)
    return driver.runs.run(driver.entrance.enter(**options, independent=True), body, tries=_TRIES)


def _release(host: Host, obligation: Obligation) -> Callable[..., Any] | None:
    """Return the handler of what has lapsed where none was given: it calls the tool that is owed."""
    if not obligation.lapses or obligation.fulfilled_by is None:
        return None
    declaration = host.tools.recorded_as(obligation.fulfilled_by)
    tool = None if declaration is None else declaration.function
    if tool is None:
        return None

    def release(tx: Any, due: Obligation) -> None:
        tx.call(tool, **due.matching)

    async def release_async(tx: Any, due: Obligation) -> None:
        await tx.call(tool, **due.matching)

    return release_async if inspect.iscoroutinefunction(tool) else release


__all__ = ["Debts"]
