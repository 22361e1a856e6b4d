"""What a user calls one job of his agents: the name under which all they do is known, also when it is begun again."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, get_args

from settlemark._acts.once import Once
from settlemark._acts.perform import Program
from settlemark._api.checked import checked_park
from settlemark._api.settlement import Settlement, host_of
from settlemark._edges.errors import InDoubt, PartialCommit, Refused, SettlemarkError, UsageError
from settlemark._lifecycle.parking import Park
from settlemark._model import json_text
from settlemark._model.declare import declare
from settlemark._model.effect_class import Outcome
from settlemark._model.guards import Order, checked_order
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.states import State
from settlemark.agents._job.host import Settles
from settlemark.agents._job.shared import Succession
from settlemark.agents._job.work import Work
from settlemark.agents._names import Names, is_of_job
from settlemark.agents._open.opening import open_turn
from settlemark.agents._open.settling import Control
from settlemark.agents._record.left_open import take_up, undo_left
from settlemark.agents._record.primers import Primers
from settlemark.agents._record.recalled import Decision, Recalled, recall
from settlemark.ledger._contract import Book, RecordedTransaction


class Missing:
    """There is no such thing on record."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing()


class AgentRun:
    """One job of a user's agents, whose tool calls settle.

    Args:
        settlement: settles them.
        run: the caller's id for the job. The same id in another process is the same job begun again: what it had
            decided is not done twice. None is a fresh one: then nothing can know the job again.
        settle: what settles together; see `Settles`.
        order: `"turn"` keeps the order of effects that run at once, and what is held leaves last; `"scopes"` that of
            effects on overlapping scopes; `"issued"` that of all, also behind what cannot be undone.
        park: what becomes of a turn that waits for a person's yes: it is kept as it is, or split.
        may_touch: scopes that each transaction holds from its beginning.
        let_through: the framework's control flow: exceptions that put a turn aside, to be gone on with.
        asks: the framework can ask a person for a yes: the shim gives `perform` an `ask=`. Else the settlement's
            approver is asked; where there is none, a turn with a call that needs a yes is refused as a whole.
        asks_together: the framework can show all questions of a turn at once, each under its call's id.

    Raises:
        UsageError: an option is none of those; nothing was begun.

    >>> from settlemark import Settlement, effect
    >>> from settlemark._runtime.sync import run_sync
    >>> from settlemark.agents import Call
    >>> sent = []
    >>> @effect("irreversible", scope="mail:/{to}")
    ... def mail(to): sent.append(to)
    >>> settlement = Settlement("memory:")
    >>> job = AgentRun(settlement, "trip-42")
    >>> call = Call("mail", {"to": "ada"}, host_of(settlement).tools.of(mail))
    >>> turn = job.work("clerk").turn([call])
    >>> run_sync(turn.perform(0, lambda: mail("ada"))), sent
    (None, ['ada'])
    >>> again = AgentRun(settlement, "trip-42").work("clerk").turn([call])
    >>> run_sync(again.perform(0, lambda: mail("ada"))), sent
    (None, ['ada'])
    """

    def __init__(
        self,
        settlement: Settlement,
        run: str | None,
        *,
        settle: Settles = "turn",
        order: Order = "turn",
        park: Park = "keep",
        may_touch: str | Sequence[str] = (),
        let_through: Control = (),
        asks: bool = False,
        asks_together: bool = False,
    ) -> None:
        refuse_bad_options(settlement, settle=settle, order=order, park=park, run=run)
        self._host = host_of(settlement)
        if run is None:
            self._host.tell_once(
                "no run",
                "this job has no id of yours, so nothing can know it again after a crash: give it one, run=…",
            )
        self._host.tools.adopt(_RESULT)  # so that steering, and a rewind, know how it is undone
        self.settlement = settlement
        self.name = uuid.uuid4().hex if run is None else run
        self._names = Names.of_whole(self.name)
        self.resumable = run is not None
        self.settle: Settles = settle
        self.order: Order = order
        self.park: Park = park
        self.may_touch = (may_touch,) if isinstance(may_touch, str) else tuple(may_touch)
        self.let_through = let_through
        self.asks, self.asks_together = asks, asks_together
        self.doubts: list[Decision] = []  # replaced whole: its works walk it, each in threads of its own
        self._doubting = threading.Lock()
        self.primers = Primers(settlement, self.name)
        self._earlier: Once[list[Decision]] = Once(self.name)
        self._begun = 0
        self._works: dict[str, Work] = {}
        self._kept: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._shared = Succession(settlement, self.name, self._named, self.may_touch) if settle == "run" else None

    @property
    def patience(self) -> float:
        """Seconds after which a call that has not come is taken for answered by the framework itself."""
        return self._host.patience

    def work(self, name: str = "", *, agent: str | None = None) -> Work:
        """Return the work of one agent, or task, of this name; the same for the same name.

        `agent` is the name of the agent that acts in it, where that is another: by it the agent can be halted.
        """
        with self._lock:
            found = self._works.get(name)
            if found is None:
                found = self._works[name] = Work(self, name, len(self._works), self._shared)
            if agent is not None:
                found.agent = agent or None
            return found

    def add_doubts(self, found: Iterable[Decision]) -> None:
        """Add what is in doubt, and not known to be."""
        with self._doubting:
            known = {doubt.key for doubt in self.doubts}
            self.doubts = [*self.doubts, *(doubt for doubt in found if doubt.key not in known)]

    def forget_doubts(self, keys: Collection[str]) -> None:
        """Forget doubts about acts that were undone."""
        with self._doubting:
            self.doubts = [doubt for doubt in self.doubts if doubt.key not in keys]

    def note_doubts(self) -> None:
        """Note what is in doubt of any agent's work: none of the job does it again."""
        with self._lock:
            works = list(self._works.values())
        for work in works:
            work.note_doubts()

    def end(self, error: BaseException | None = None) -> Program[None]:
        """Say that it has come to its end: what of it is open commits, or is undone after an error.

        Raises:
            Refused, InDoubt, PartialCommit: it did not settle as a whole, and no turn follows that is told; or what
                turns shared was undone before, and who had done it has not gone on since: all of it is undone then.
        """
        with self._lock:
            works = list(self._works.values())
        if error is None and self.resumable:
            yield from self._take_back_left()
        refused: SettlemarkError | None = None
        for end in (*(work.end for work in works), *([] if self._shared is None else [self._shared.end])):
            try:
                yield from end(error)
            except (Refused, InDoubt, PartialCommit) as refusal:
                refused = refused or refusal  # the others end, too
        if refused is not None:
            self._kept = {}
            raise refused
        kept, self._kept = self._kept, {}
        for name, value in kept.items() if error is None else ():
            yield from self._record(name, value)

    def _take_back_left(self) -> Program[None]:
        """Undo what an ended process had left open of it, and nothing of it has come back to: it has gone on without.

        What its framework has put aside is kept for the person who answers.
        """

        def find(protocol: Protocol, _book: Book) -> list[str]:
            live = [txn for txn in protocol.live.values() if txn.run == self.name and txn.state is State.OPEN]
            return [txn.name for txn in live if is_of_job(txn.name, self.name) and not txn.parked]

        found: list[str] = yield from self._host.driver.kernel.look(find)
        for name in found:
            yield from take_up(self.settlement, name)

    # ---- what its parts came to

    def recorded(self, name: str) -> Program[Any]:
        """Return what was kept under this name, here or in an ended process, or `MISSING`."""
        full: str = yield from self._standing(name)

        def look(_protocol: Protocol, book: Book) -> RecordedTransaction | None:
            return book.load(full)

        found: RecordedTransaction | None = yield from self._host.driver.kernel.look(look)
        if found is None or found.state is not State.COMMITTED or not found.effects:
            return MISSING
        effect = found.effects[0]
        return json_text.decode(effect.result) if effect.outcome is Outcome.CONFIRMED else MISSING

    def keep(self, name: str, value: Any) -> Program[None]:
        """Record the result of a part of the job, a JSON value: the job begun again takes it from there.

        With `settle="run"` that is when the run has settled, for until then the part may be undone.

        Raises:
            PayloadError: it is no JSON value; nothing was recorded.
        """
        json_text.check(value)
        if self._shared is None:
            yield from self._record(name, value)
        else:
            self._kept[name] = value

    def _record(self, name: str, value: Any) -> Program[None]:
        named = {"run": self.name, "name": name or "run"}
        standing: str = yield from self._standing(name)
        turn = yield from open_turn(self.settlement, standing, run=self.name)
        call = turn.place(_RESULT, named)
        try:
            yield from turn.perform(call, lambda: value, named)
        finally:
            yield from turn.leave(call)

    def _standing(self, name: str) -> Program[str]:
        """Return the name under which a result is kept: that of one that steering has undone is not used again."""
        place = yield from self._host.driver.steers.place(self.name, f"{Names.of(self.name, name).prefix}result")
        return str(place.name)

    # ---- what all of it shares

    def _named(self) -> Program[str]:
        """Return the name of the next transaction of the whole run."""
        yield from self.earlier()
        with self._lock:
            self._begun += 1
            return self._names.name(self._begun)

    def earlier(self) -> Program[list[Decision]]:
        """Return what stands of the whole run from before it was begun here; what was left open of it is undone."""
        return self._earlier.get(self._recollect)

    def _recollect(self) -> Program[list[Decision]]:
        if not (self.resumable and self._shared):
            return list[Decision]()
        found: Recalled = yield from self._recall()
        for left in found.left:
            yield from undo_left(self.settlement, self.name, left.open)
        if found.left:
            found = yield from self._recall()
        self._begun = max(map(self._names.number, found.names), default=0)
        return found.decisions

    def _recall(self) -> Program[Recalled]:
        return recall(self.settlement, self.name, self._names.has, answered=(), wait=self.patience)


def _forget() -> None:
    """Forget a result whose part of the job was undone: nothing is to be done for that, it is no result any more."""


_RESULT = replace(declare("settlemark.result", "reversible", scope="result:/{run}/{name}", undo=_forget), own=True)


def refuse_bad_options(
    settlement: object,
    *,
    settle: object,
    order: object,
    park: Park,
    run: object = None,
    among: Sequence[str] = get_args(Settles),
    alone: Sequence[str] = ("turn",),
) -> None:
    """Return when a shim was given options that there are.

    Args:
        settlement: what settles.
        settle: what settles together.
        order: as for `AgentRun`.
        park: as for `AgentRun`.
        run: the caller's id for the job, or None.
        among: what may settle together in the shim's framework.
        alone: those of `among` with which each turn settles by itself, so that it can be split.

    Raises:
        UsageError: it was not; nothing was begun.
    """
    if not isinstance(settlement, Settlement):
        raise UsageError(f"settlement={settlement!r} is no Settlement: pass Settlement(url)")
    if settle not in among:
        raise UsageError(f"settle={settle!r}: choose one of {', '.join(map(repr, among))}")
    checked_order(order)
    if checked_park(park) == "split" and settle not in alone:
        raise UsageError(
            f'park="split" with settle={settle!r}: what turns share waits as a whole; choose settle="{alone[0]}", or'
            ' park="keep"'
        )
    if run is not None and not (isinstance(run, str) and run.strip()):
        raise UsageError(f"run={run!r}: give your id for the job, a text, or leave it out")


__all__ = ["MISSING", "AgentRun", "Missing", "Settles", "refuse_bad_options"]
