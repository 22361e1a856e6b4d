"""How a turn of a model is opened: as a transaction of its own, or as a part of another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from settlemark._acts.perform import Program
from settlemark._api.settlement import Settlement, host_of
from settlemark._attempt.attempt import Attempt
from settlemark._attempt.part import Asked, Part
from settlemark._attempt.turn import Turn
from settlemark._edges.errors import Refused
from settlemark._engine.splitting import rest_of
from settlemark._lifecycle.fences import act_in
from settlemark._lifecycle.parking import Park
from settlemark._model.guards import Order
from settlemark._model.scope import Scope
from settlemark._protocol.index import Position
from settlemark._protocol.states import State
from settlemark.agents._open.open_turn import OpenTurn
from settlemark.agents._open.settling import Control
from settlemark.ledger._contract import HAPPENED


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
    recalls: bool = False,
    agent: str | None = None,
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
        agent: the name of the agent whose turn it is, by which it can be halted.
        recalls: a call is not run that repeats one of the job that is in doubt, or that steering left standing when it
            took the framework's state back behind it: it has that one's answer.

    Raises:
        Refused: its run was cancelled, it is halted, or its name is in use; or it is opened in a call of what is being
            undone.

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
    if within is None:
        refuse_in_undone(settlement)
    elif asked is not None:
        keep_answered(settlement, asked.before)
    part = within or (
        yield from host_of(settlement).begin(
            name,
            run=run,
            position=position,
            may_touch=may_touch,
            max_age=max_age,
            comes_back=True,
            asked=asked,
            agent=agent,
        )
    )
    if within is not None and agent is not None:
        yield from act_in(host_of(settlement).driver.kernel, within.attempt.live, (agent,))
    before: list[Attempt] = []
    joined = part.joined
    while not joined and part.attempt.replay is not None and (rest := rest_of(part.attempt.replay)) is not None:
        before.append(part.attempt)
        numbering = part.numbering
        part = yield from host_of(settlement).begin(rest, run=run, agent=agent)
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
        recalls=recalls,
        asked=asked,
    )


def refuse_in_undone(settlement: Settlement) -> None:
    """Return when the caller runs in no call of a transaction that is being undone.

    What an agent does in a call is a part of that call: what is issued when the call is being undone would outlive it.

    Raises:
        Refused: he does; nothing was run.
    """
    inside = host_of(settlement).driver.kernel.callers.outer()
    if inside is None or inside.effect.outcome in HAPPENED or inside.attempt.live.state is not State.ABORTING:
        return
    attempt, tool = inside.attempt, inside.effect.declaration.tool
    why = attempt.live.detail.get("cause") or "a call of it failed"
    raise Refused(
        f"nothing more is run in {tool}: {attempt.name}, of which that call is a part, is being undone because {why};"
        f" return from {tool}, and decide again",
        transaction=attempt.name,
        epoch=attempt.live.epoch,
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
