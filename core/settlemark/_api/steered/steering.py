"""The part of a settlement that steers runs while they work."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, get_args

from settlemark._acts.perform import Program
from settlemark._api.checked import checked_text, checked_word
from settlemark._api.host import RUN, Host
from settlemark._api.steered.run import SteeredRun
from settlemark._edges.errors import UsageError
from settlemark._edges.given import several
from settlemark._edges.text import DERIVED, WHO, Most, identity
from settlemark._model.scope import Scope
from settlemark._runtime.aio import run_async
from settlemark._runtime.sync import run_sync
from settlemark._steering.listening import Listener, following
from settlemark._steering.message import Steering, What
from settlemark._steering.steers import said_in, said_to

_TEXT = Most(4_000, 12_000)
_RUN = "run is the id of the run that is steered, a text"


class Steerable:
    """The part of a settlement that steers runs."""

    _host: Host

    def steer(
        self, run: str, what: What, text: str, *, scope: str | Scope | Iterable[str | Scope] = (), by: str
    ) -> Steering:
        """Say something to a run while it works, from any process, and return it as it is on record.

        The run takes it at its next boundary: before its next step, or turn of a model. It is acknowledged once, with
        what was done about it; see `Settlement.steering`.

        * `"add"`: something besides. What was done stands; the next call of the model is told.
        * `"revise"`, `"retract"`: something in another way, or not at all. The earliest decision is found that touched
          `scope=`, or that stood on it (`grounds=` of `tx.decide`). What the run did from there on is undone, the
          newest first; what cannot be undone is named (`bound`), and not done twice. What was done before stays, and is
          answered from the record when the run goes on.

        All that is said to a run has one order. What others have said about the same, and this may contradict, is
        named in `against`.

        Args:
            run: the run's id; it may not have begun yet.
            what: see above.
            text: in words, for the model: no decision reads it. It is redacted, encrypted and pruned as arguments are;
                of the rest, by which the run is steered, rules of `redact=` remove nothing.
            scope: what it is about: one scope, or several. A revision or a retraction needs one.
            by: who says it.

        Raises:
            UsageError: an argument is no such thing, the run is a transaction's name, or was cancelled.
            ScopeError: a scope is malformed. Nothing was recorded.

        >>> from settlemark import Settlement
        >>> settlement = Settlement("memory:")
        >>> said = settlement.steer("trip-42", "retract", "no museum", scope="museum:/**", by="ada")
        >>> said.number, said.state
        (1, 'waiting')
        """
        return run_sync(self._saying_to(run, what, text, scope, by))

    async def asteer(
        self, run: str, what: What, text: str, *, scope: str | Scope | Iterable[str | Scope] = (), by: str
    ) -> Steering:
        """Do as `steer`, for an event loop."""
        return await run_async(self._saying_to(run, what, text, scope, by))

    def _saying_to(
        self, run: str, what: What, text: str, scope: str | Scope | Iterable[str | Scope], by: str
    ) -> Program[Steering]:
        run = checked_word(run, _RUN, DERIVED)
        if what not in get_args(What):
            raise UsageError(f"{what!r}: choose one of {', '.join(map(repr, get_args(What)))}; nothing was said")
        text = identity(text, "what is said is a text; this one", _TEXT)
        who = checked_word(by, "by= is who says it, a text", WHO)
        about = (scope,) if isinstance(scope, str | Scope) else several(scope, "scope=")
        scopes = tuple(map(Scope.parse, about))
        if what != "add" and not scopes:
            raise UsageError(f'{what!r} needs scope=, what it is about, as in scope="hotel:/**"; nothing was said')
        return self._host.driver.steers.say(run, what, text, scopes, by=who)

    def steering(self, run: str | None = None) -> list[Steering]:
        """Return what was said to a run, in its one order, each with what was done about it; without a run, to all.

        >>> from settlemark import Settlement
        >>> Settlement("memory:").steering("trip-42")
        []
        """
        if run is None:
            return self._host.ledger.read(said_in)
        known = checked_word(run, _RUN, DERIVED)
        return self._host.ledger.read(lambda book: said_to(book, known))

    def steered(self, run: str, function: Callable[[Any], Any], *, wait: float | None = None) -> Any:
        """Call `function(run)`, the program of a run that can be steered, and return its value.

        Its work is in steps, `with run.step("1") as tx`: each is a transaction, and entering it is a boundary. When
        steering has undone steps, the function is called again: steps that stand are answered from the record, the
        others are decided anew, with what was said in `run.said`. So outside of its steps it does nothing that is not
        to be repeated. The same run in another process goes on where this one has ended. With an async function, await
        the result.

        Args:
            run: the run's id.
            function: called with a `SteeredRun`.
            wait: seconds to wait behind the last step for what is to be undone; the settlement's by default.

        Raises:
            UsageError: it is no such id; nothing was run.
            DeclarationError: the undo of what is to be undone is unknown in this process. WaitTimeout: another holds
                it. Both at a boundary: nothing of the step has run, and what was said is taken at the next one.
            Paused: the run is paused; what it did stands, and it goes on when it is called again: see `pause`.
            BaseException: the exception of `function`.

        >>> from settlemark import Settlement, effect
        >>> rooms = []
        >>> @effect("reversible", scope="room:/{hotel}", undo=lambda hotel: rooms.remove(hotel))
        ... def reserve(hotel): rooms.append(hotel)
        >>> settlement = Settlement("memory:")
        >>> def plan(run):
        ...     with run.step("hotel") as tx:
        ...         tx.call(reserve, hotel=run.said[-1].text if run.said else "Ada")
        ...     if not run.said:
        ...         settlement.steer(run.name, "revise", "Bee", scope="room:/**", by="eve")
        >>> settlement.steered("trip-42", plan)
        >>> rooms
        ['Bee']
        """
        known = checked_text(run, RUN)
        host, driver = self._host, self._host.driver
        patience = host.patience if wait is None else host.options(known, known, wait=wait)["wait"]
        program = following(
            partial(Listener, driver.steers, driver.pauses, known, wait=patience),
            lambda listener: partial(function, SteeredRun(host, listener)),
        )
        return run_async(program) if inspect.iscoroutinefunction(function) else run_sync(program)


__all__ = ["Steerable"]
