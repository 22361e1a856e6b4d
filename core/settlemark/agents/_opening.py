"""How a turn of a model is opened: as a transaction of its own, or as a part of another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from settlemark._acts.perform import Program
from settlemark._api.settlement import Settlement, host_of
from settlemark._attempt.attempt import Attempt
from settlemark._attempt.part import Asked, Part
from settlemark._attempt.turn import Turn
from settlemark._engine.splitting import rest_of
from settlemark._lifecycle.parking import Park
from settlemark._model.guards import Order
from settlemark._model.scope import Scope
from settlemark._protocol.index import Position
from settlemark.agents._open_turn import OpenTurn
from settlemark.agents._settling import Control


def open_turn(  # noqa: PLR0913 - one keyword for each property
    settlement: Settlement,
    name: str | None,
    *,
    run: str,
    within: Part | None = None,
    turn: Turn | None = None,
    order: Order = "turn",
    position: Position | None = None,
    may_touch: Sequence[str | Scope] = (),
    max_age: float | None = None,
    undoes: bool = True,
    resumable: bool = False,
    let_through: Control = (),
    park: Park = "keep",
    asked: Asked | None = None,
    minds_doubts: bool = False,
) -> Program[OpenTurn]:
    """Return an open turn: a transaction of its own, or a part of the one whose call it is opened in.

    Args:
        settlement: settles it.
        name: the transaction's; None when nothing can ever enter it again.
        run: the job it belongs to.
        within: the part of a transaction that others settle: a failure of the turn undoes all of it.
        turn: one that several share, so that their calls keep one order.
        order: see `Turn`.
        position: shared by the siblings of one superstep, but for the ordinal.
        may_touch: scopes that it holds before its first call runs.
        max_age: seconds for which it may be open, where it is a transaction of its own; then it is undone.
        undoes: False asks for order and deduplication alone: nothing is held, nothing undone.
        resumable: the framework may come back to it under the same name.
        let_through: the framework's control flow: it puts the turn aside.
        park: while it waits for a person's answer it is kept as it is, and holds what it holds; or it is split: what
            came before commits, and the rest becomes a transaction of its own.
        asked: the ids of its calls, and of those answered before: in an agent that runs inside a call, and is resumed
            in its middle, they tell which turn this is.
        minds_doubts: a call that is the same as one of the job that is in doubt is not run: it has that one's answer.

    Raises:
        Refused: its run was cancelled, or its name is in use.

    >>> from settlemark.agents import Call, run_sync
    >>> settlement = Settlement("memory:")
    >>> look = Call("look", {"at": "sky"}, settlement.declare("look", "read"))
    >>> turn = run_sync(open_turn(settlement, "trip/step-1", run="trip"))
    >>> (place,) = run_sync(turn.place_all([look]))
    >>> answer = run_sync(turn.perform(place, lambda: "blue", look.arguments))
    >>> run_sync(turn.leave(place))
    >>> turn.settled, turn.last_word(place, answer)
    (True, 'blue')
    """
    if within is not None and asked is not None:
        keep_answered(settlement, asked.before)
    part = within or (
        yield from host_of(settlement).begin(
            name, run=run, position=position, may_touch=may_touch, max_age=max_age, comes_back=True, asked=asked
        )
    )
    before: list[Attempt] = []
    joined = part.joined
    while not joined and part.attempt.replay is not None and (rest := rest_of(part.attempt.replay)) is not None:
        before.append(part.attempt)
        numbering = part.numbering
        part = yield from host_of(settlement).begin(rest, run=run)
        part.attempt.numbering = part.numbering = numbering
    if joined:
        yield from host_of(settlement).driver.orphans.go_on(part.attempt, part.numbering.base)
    return OpenTurn(
        settlement,
        part,
        turn=turn,
        order=order,
        within=within is not None,
        undoes=undoes,
        resumable=resumable,
        let_through=let_through,
        park=park,
        before=before,
        minds_doubts=minds_doubts,
    )


def keep_answered(settlement: Settlement, answered: Iterable[str]) -> None:
    """Say that a model was given the answers to these calls: where its agent runs inside a call, they stand.

    An agent that a framework resumes behind its last turn comes to no turn any more, and nothing it had decided is to
    be taken back for that. Outside of a call this does nothing.

    Args:
        settlement: has the call.
        answered: ids of the calls, as often as they were answered.
    """
    inside = host_of(settlement).driver.kernel.callers.outer()
    if inside is not None:
        inside.stand(answered)


__all__ = ["keep_answered", "open_turn"]
