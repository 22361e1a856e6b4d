"""A turn that needs a person's yes, where nobody can be asked: it is refused as a whole, before any call of it acts."""

from __future__ import annotations

from settlemark._acts.perform import Program
from settlemark._api.settlement import host_of
from settlemark.agents._open.open_turn import OpenTurn


def refuse_unasked(turn: OpenTurn, fix: str) -> Program[None]:
    """Return when no call of a turn needs a yes for which nobody can be asked. Call it when all have their places.

    What is on record of a turn is gone on with: its questions may have their answers. A call that its tool cannot take
    is no question: its model is told what is wrong with it, and may ask for what the tool takes.

    Args:
        turn: one in which the framework asks nobody.
        fix: what to give so that somebody is asked.

    Raises:
        UsageError: one does; nothing of the turn was run, and it is over.

    >>> from settlemark import Settlement, UsageError
    >>> from settlemark.agents import Call, open_turn, run_sync
    >>> settlement = Settlement("memory:")
    >>> pay = Call("pay", {}, settlement.declare("pay", "irreversible", scope="bill:/all", approve=True))
    >>> turn = run_sync(open_turn(settlement, "trip/step-1", run="trip"))
    >>> places = run_sync(turn.place_all([pay]))
    >>> try:
    ...     run_sync(refuse_unasked(turn, "approver="))
    ... except UsageError as error:
    ...     print(error)
    pay needs a person's yes, and there is nobody to ask: nothing was run of its turn; give approver=
    """
    attempt = turn.attempt
    if attempt.replay is not None or attempt.approver is not None or attempt.parks is not None or not turn.undoes:
        return
    driver = host_of(turn.settlement).driver
    effects = [call.placed for call in turn.calls if not (call.over or call.refused or call.untaken)]
    if driver.kernel.judging.policy is None and not any(effect.declaration.approve for effect in effects):
        return
    try:
        yield from driver.gates.refuse_unasked(attempt, effects, fix)
    except Exception as error:
        yield from turn.abandon(error)
        raise


__all__ = ["refuse_unasked"]
