"""Crash properties: the process dies between any two steps, and within one."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from settlemark import Settlement
from settlemark.hosting import in_words
from settlemark.testing import Exit, Fault, FaultInjector, KillPoint, KillPoints, Mode, Tell, can_fork, in_child
from settlemark_adapters.testing._bench import UNDO_FAILED, Bench, Worlds, account, fresh_name
from settlemark_adapters.testing._lines import Act, Lines, Moment, files_of, once_each
from settlemark_adapters.testing._report import Failed, NotApplicable
from settlemark_adapters.testing._study import Trial

_SECONDS = 60.0
_FOR_STATEMENTS = 2
_KILLS: tuple[Mode, ...] = ("kill before", "kill after")
_MEND = (
    "let a probe find the act by its key, leave the mark it looks for in one step with the act (or before it), and"
    " make undo repeatable; see what it needs before the act, at the counterparty"
)
_NEW_PROCESS = (
    "an undo runs in another process than the act: keep what it needs at the counterparty, under the key, before the"
    " act; it gets `result` None when the answer was lost"
)


@dataclass(frozen=True, slots=True)
class Death:
    """How a process dies: at a step, at a statement of its ledger, or at a line; without any of them it lives."""

    fault: Fault | None = None
    statement: int | None = None
    moment: Moment | None = None
    abort: bool = False
    where: str = ""


def between_steps(trial: Trial) -> str:
    """Whenever the process dies between two steps, the recovery leaves all of it, or nothing, or names it."""
    _check(trial)
    with trial.worlds() as worlds:
        return _told(Counter(_die(trial, worlds.fresh(), death)[0] for death in _between(trial, worlds)))


def inside_steps(trial: Trial) -> str:
    """Whenever the process dies at a line within the act, the release or the undo, the same holds."""
    _check(trial)
    acts: tuple[Act, ...] = ("release",) if trial.held else ("call", "undo")
    ends: Counter[str] = Counter()
    with trial.worlds() as worlds:
        for act in acts:
            ends += _die_at_lines(trial, worlds, act)
    if not ends:
        raise NotApplicable("no line of the adapter's own runs while it acts")
    return _told(ends)


def _check(trial: Trial) -> None:
    trial.needs_effect()
    if not trial.is_sampled:
        raise NotApplicable("a process is killed in the first example alone, unless points=None asks for all")
    if not can_fork():
        raise NotApplicable("this system cannot copy a process, so none is killed")
    trial.study.clean(trial.example)
    importlib.import_module("settlemark.ledger._replica.store")  # here, and not in every fork of this process


def _told(ends: Counter[str]) -> str:
    total = sum(ends.values())
    told = ", ".join(f"{count} {end}" for end, count in sorted(ends.items()))
    return f"{total} death{'' if total == 1 else 's'}: {told}"


# ---- where it may die


def _between(trial: Trial, worlds: Worlds) -> Iterator[Death]:
    """Yield the deaths around each step, and around statements of the ledger."""
    tool = trial.declaration.tool
    acts, undo = (1 + trial.held, "release" if trial.held else "call"), (2, "undo")
    yield Death(Fault(2 - trial.held, "kill before"), where="before the commit")
    for (number, act), abort in [(acts, False)] if trial.held else [(acts, False), (undo, True)]:
        for mode in _KILLS:
            yield Death(Fault(number, mode), abort=abort, where=f"{mode[5:]} the {act} of {tool}")
    if trial.study.points is None or trial.study.points >= _FOR_STATEMENTS:
        ended = _play(worlds.fresh(), Death(), tell_points=True)
        check_exit(ended)
        for point in trial.study.sample([KillPoint(*told) for told in ended.told]):
            yield Death(statement=point.number, where=f"{point.when} the ledger's {point.statement:.40}")


def _die_at_lines(trial: Trial, worlds: Worlds, act: Act) -> Counter[str]:
    """Die at lines of an act, among them those between which the world changes, which are found by bisection.

    Of an undo only at some: it is repeated from wherever it was.
    """
    moments = [moment for moment in moments_of(trial, worlds) if moment.act == act]
    ends: Counter[str] = Counter()
    died: dict[int, bool] = {}

    def changes(number: int) -> bool:
        """Die at a moment, and return whether the world had changed by then."""
        if number not in died:
            moment = moments[number]
            death = Death(moment=moment, abort=act == "undo", where=f"at {moment}")
            end, died[number] = _die(trial, worlds.fresh(), death)
            ends[end] += 1
        return died[number]

    before, after = -1, len(moments)
    while after - before > 1 and act != "undo" and trial.study.points != 0:
        middle = (before + after) // 2
        before, after = (before, middle) if changes(middle) else (middle, after)
    for number in trial.study.sample(list(range(len(moments)))):
        changes(number)
    return ends


def moments_of(trial: Trial, worlds: Worlds) -> list[Moment]:
    """Return the moments of the example's acts: its call and its undo, or its release.

    Raises:
        Failed: the example itself fails.
    """
    known = trial.study.moments.get(id(trial.example))
    if known is None:
        acts: tuple[Act, ...] = ("release",) if trial.held else ("call", "undo")
        ended = _play(worlds.fresh(), Death(abort=not trial.held), acts=acts)
        check_exit(ended)
        known = trial.study.moments[id(trial.example)] = once_each([Moment(*told) for told in ended.told])
    return known


# ---- one death


def _play(
    bench: Bench,
    death: Death,
    *,
    url: str | None = None,
    name: str | None = None,
    acts: tuple[Act, ...] = (),
    tell_points: bool = False,
) -> Exit:
    """Play the example in a fork of this process, which dies as told; else it reports where it could."""
    url, name = url or bench.file(), name or fresh_name()

    def act(tell: Tell) -> None:
        observer = None
        if death.moment is not None:
            observer = Lines((death.moment.act,), at=death.moment.number)
        elif acts:
            observer = Lines(acts, tell=lambda moment: tell(moment.told))
        injector = FaultInjector(*(() if death.fault is None else (death.fault,)))
        with bench.opened(url, make=injector.settlement, observe=observer) as (settlement, adapter), ExitStack() as on:
            if observer is not None:
                observer.files = files_of(type(adapter))
            if death.statement is not None or tell_points:
                # Entered here: a crash while a ledger is created does not concern the adapter.
                on.enter_context(KillPoints(death.statement, tell=_telling(tell) if tell_points else None))
            bench.play(settlement, adapter, name=name, abort=death.abort)

    return in_child(act, timeout=_SECONDS)


def _telling(tell: Tell) -> Callable[[KillPoint], None]:
    return lambda point: tell([point.number, point.when, point.statement])


def _die(trial: Trial, bench: Bench, death: Death) -> tuple[str, bool]:
    """Die once and recover; return how that left the world, and whether it had changed when the process died."""
    url, name = bench.file(), fresh_name()
    check_exit(_play(bench, death, url=url, name=name))
    changed = not bench.is_new
    end, why, mend = _recovered(
        trial, bench, url, name, again=death.fault is not None and death.fault.mode == "kill after"
    )
    if mend:
        raise Failed(f"its process died {death.where}, and after the recovery {why}", mend)
    return end, changed


def _recovered(trial: Trial, bench: Bench, url: str, name: str, *, again: bool) -> tuple[str, str, str]:
    """Recover with a fresh adapter; return how that left the world, what is wrong with it, and the correction.

    With `again` the caller comes back: what has committed is replayed, what was undone is done again.
    """
    with bench.opened(url, keep_open=0.0) as (settlement, adapter):
        report = settlement.recover(keep_open=0)
        if report.stuck:
            return "", f"it is stuck: {report.stuck}", "let a fresh adapter declare the same tools by the same names"
        end, why, mend = judged(trial, bench, settlement, name)
        if mend or end == "named" or not again:
            return end, why, mend
        try:
            bench.play(settlement, adapter, name=name)
        except Exception as error:
            return "", f"it was {end}, and the same work fails when it is begun again: {in_words(error)}", _MEND
        if not trial.study.is_all(trial.example, bench.look()):
            return "", f"it was {end}, and the same work, begun again, leaves another world than one clean run", _MEND
    return end, "", ""


def judged(trial: Trial, bench: Bench, settlement: Settlement, name: str) -> tuple[str, str, str]:
    """Return whether the world is all, nothing or named, as the settlement says; else what is wrong and the mend."""
    said = account(settlement, name)
    found = bench.look()
    if said.ended == "named":
        if UNDO_FAILED in said.told:
            return "", f"the undo does not work: {said.told}", _NEW_PROCESS
        return "named", "", ""
    if said.ended == "undone":
        if found == bench.nothing:
            return "nothing", "", ""
        whole = "all of it is" if trial.study.is_all(trial.example, found) else "something of it is"
        return "", f"{whole} there, though the settlement says that nothing is, and names nothing", _MEND
    if found != bench.nothing and trial.study.is_all(trial.example, found):
        return "all", "", ""
    less = "nothing of it is there" if found == bench.nothing else "the world is not as after one clean run"
    return "", f"{less}, though the settlement says that it is done", _MEND


def check_exit(ended: Exit) -> None:
    """Check that a process ended, or died as told.

    Raises:
        Failed: it failed otherwise, or hung.
    """
    if ended.error is not None:
        last = ended.error.strip().splitlines()[-1]
        raise Failed(f"it failed in a copy of this process: {last}", "let make() and look() work behind a fork")
    if ended.late:
        raise Failed(
            f"it did not come to its end in {_SECONDS:g} s; it was here:\n{ended.stack}", "give its waits a deadline"
        )


__all__ = ["between_steps", "check_exit", "inside_steps", "judged", "moments_of"]
