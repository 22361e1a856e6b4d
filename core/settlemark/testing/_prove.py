"""A proof by trying: an agent is run once for each way each of its steps can fail, and the world is examined.

The snapshot compared is the user's own, of whatever the agent acts on, not settlemark's report.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast, get_args

from settlemark._acts.perform import Retries
from settlemark._api.records import Residue
from settlemark._api.settlement import Settlement
from settlemark._edges.errors import UsageError
from settlemark.testing._child import can_fork
from settlemark.testing._playing import Agent, Stage, case_ledgers
from settlemark.testing._proof import Proof
from settlemark.testing._prover import Prover, Way
from settlemark.testing._steps import InjectedFault, InjectedTimeout, Mode

DEFAULT: tuple[Way, ...] = ("before", "after", "kill before", "kill after")
_WAYS: tuple[Way, ...] = (*get_args(Mode), "statement")
_KILLS: tuple[Way, ...] = ("kill before", "kill after", "statement")


def prove_settlement(  # noqa: PLR0913 - one keyword for each option of a proof
    run: Agent,
    world: Callable[[], Any],
    *,
    reset: Callable[[], object] | None = None,
    url: str | None = None,
    modes: Iterable[Way] = DEFAULT,
    kill: bool = True,
    faults: int = 1,
    rerun: bool = False,
    between: bool = False,
    allow_residue: bool = False,
    mend: Callable[[Residue], object] | None = None,
    recover: Agent | None = None,
    refusal: Callable[[str], Exception] = InjectedFault,
    lost: Callable[[str], Exception] = InjectedTimeout,
    folder: str | Path | None = None,
    timeout: float = 60.0,
    **options: Any,
) -> Proof:
    """Run an agent once for each way each of its steps can fail, and return how each left the world.

    A step is one act on the world: a tool called or released, an undo, and the commit of a transaction. The agent first
    runs cleanly, which shows its steps and the state *all*. Then each step is struck in each way, in a fork of this
    process; in another a fresh settlement recovers what is left; and the world must be as in *nothing* or in *all*.

    Args:
        run: the agent: called with the settlement to act through; may be async. Script its model: its steps must be the
            same in every run.
        world: returns a snapshot of the outside state, compared with `==`: leave out ids and times. It must live
            outside of this process (files, a database, a `Provider`), or give `kill=False`.
        reset: makes the world new; by default the `reset` of `world`, or of the object whose method it is.
        url: the ledger; by default a new SQLite file for each case. A given one gets a namespace for each case.
        modes: the ways to fail: `before` (it fails, nothing was done), `after` (done, and the answer lost), `kill
            before` and `kill after` (its process dies); also `unsent` (no answer, and nothing was done), `refused` (it
            fails for good) and `statement` (its process dies at each statement that reaches the ledger, see
            `kill_points`).
        kill: False leaves out the kills, and runs everything in this process, where a debugger sees it.
        faults: how many strike one run: with 2 the undos and the recovery after a fault are struck too.
        rerun: the agent comes back: it runs again after each fault, and then the world must be as in *all*. Without it
            nobody does, and what a killed process left open is undone.
        between: some of the agent's transactions may have settled, and the rest not at all.
        allow_residue: the world may be torn where `settlement.residue()` names what is left.
        mend: mends one residue as an operator would; afterwards the world must be all or nothing.
        recover: what the next process does first; by default `settlement.recover(keep_open=0)`, and with `rerun`
            nothing: the agent continues by entering its names.
        refusal: makes the error that the agent sees when nothing was done, from a sentence.
        lost: makes the error that it sees when there is no answer: an HTTP client's timeout, for example.
        folder: for the ledgers' files; by default a temporary folder.
        timeout: seconds for one run; ignored where everything runs in this process.
        options: of each `Settlement`; by default nothing pauses between retries.

    Raises:
        UsageError: the proof would prove nothing; the message says what to change.

    >>> import tempfile
    >>> from settlemark import effect
    >>> rooms = Path(tempfile.mkdtemp())
    >>> def cancel(hotel): (rooms / hotel).unlink()
    >>> def booked(hotel): return True if (rooms / hotel).exists() else None
    >>> @effect("reversible", scope="room:/{hotel}", undo=cancel, probe=booked)
    ... def reserve(hotel): (rooms / hotel).touch()
    >>> def run(settlement):
    ...     with settlement.transaction("trip-42") as tx:
    ...         tx.call(reserve, hotel="Ada")
    ...         tx.call(reserve, hotel="Bee")
    >>> def reset():
    ...     for room in rooms.iterdir(): room.unlink()
    >>> proof = prove_settlement(run, lambda: sorted(room.name for room in rooms.iterdir()), reset=reset)
    >>> proof.assert_ok()
    >>> print(proof)  # doctest: +ELLIPSIS
    10 cases: 8 nothing, 2 all
    step        fault        end
    1. reserve  before       nothing
    1. reserve  after        all
    ...
    """
    ways: list[Way] = [way for way in modes if kill or way not in _KILLS]
    _check(ways, url, faults)
    with ExitStack() as stack:
        place = Path(folder or stack.enter_context(tempfile.TemporaryDirectory(prefix="settlemark-proof-")))
        place.mkdir(parents=True, exist_ok=True)
        prover = Prover(
            run=run,
            world=world,
            reset=reset or _reset_of(world),
            stage=Stage(
                not any(way in _KILLS for way in ways),
                refusal,
                lost,
                timeout,
                {"retries": Retries(first=0, most=0), **options},
            ),
            ledgers=case_ledgers(url, place),
            modes=tuple([way for way in ways if way != "statement"]),
            statements="statement" in ways,
            faults=faults,
            rerun=rerun,
            between=between,
            allow_residue=allow_residue,
            mend=mend,
            recover=recover or (None if rerun else _recover),
        )
        return prover.prove()


def _check(ways: list[Way], url: str | None, faults: int) -> None:
    unknown = [way for way in ways if way not in _WAYS]
    if unknown:
        raise UsageError(f"modes={unknown!r}: choose of {', '.join(_WAYS)}")
    if not ways:
        raise UsageError("there is no way left in which a step could fail: name some in modes=")
    if any(way in _KILLS for way in ways) and not can_fork():
        raise UsageError("killing a process needs os.fork, which this system lacks: use kill=False here")
    if url == "memory:":
        raise UsageError(
            "a proof looks at what the next process finds, and a memory ledger leaves nothing: leave out url=, or"
            " name a database"
        )
    if faults < 1:
        raise UsageError(f"faults={faults}: a proof needs one fault a run or more")


def _reset_of(world: Callable[[], Any]) -> Callable[[], object]:
    for owner in (world, getattr(world, "__self__", None)):
        found = getattr(owner, "reset", None)
        if callable(found):
            return cast("Callable[[], object]", found)
    raise UsageError("every case begins in a new world: give reset=, a function that makes it new")


def _recover(settlement: Settlement) -> None:
    """Do all that can be done when the agent does not come back."""
    while (report := settlement.recover(keep_open=0)) and (report.committed or report.undone):
        continue  # what had to wait for these may go on now
