"""Undo properties: it fails once, it fails each time, and it meets another's work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from settlemark.testing import Fault, FaultInjector, Mode, can_fork, in_child
from settlemark_adapters.testing._bench import UNDO_FAILED, Account, Bench, Worlds, account, fresh_name
from settlemark_adapters.testing._crashing import check_exit, moments_of
from settlemark_adapters.testing._lines import FailedLine, Lines, Moment, files_of, may_fail
from settlemark_adapters.testing._report import Failed, NotApplicable
from settlemark_adapters.testing._study import Trial

_SECONDS = 60.0
_COST = "undone, but a cost stays"
_REPEATABLE = "let an undo be repeatable: it is tried three times, and may have done its work before it failed"
_RAISE = "let what fails in an undo raise: what is swallowed is taken for undone"


def undo_fails_once(trial: Trial) -> str:
    """An undo that fails, before, after or within its work, is tried again, and leaves nothing."""
    trial.needs_undo()
    modes: tuple[Mode, ...] = ("before", "after")
    with trial.worlds() as worlds:
        for mode in modes:
            said, found, bench = _play(worlds, Fault(2, mode))
            _expect_undone(said, found, bench, f"its undo failed once {_WHERE[mode]}")
        lines = _each_line(trial, worlds, _once)
    return f"it is tried again, and leaves nothing ({len(modes) + lines} ways to fail)"


_WHERE = {"before": "before it did anything", "after": "after it had done its work"}


def undo_fails_always(trial: Trial) -> str:
    """An undo that always fails is named, and never taken for one that worked."""
    trial.needs_undo()
    with trial.worlds() as worlds:
        said, found, _ = _play(worlds, Fault(2, "refused"))
        if said.ended != "named" or UNDO_FAILED not in said.told:
            raise Failed("its undo always failed, and nothing names it", _RAISE)
        if not trial.study.is_all(trial.example, found):
            raise Failed(
                "its undo was never run, and what it did is not there as it was",
                "let only the undo take back what the call did",
            )
        lines = _each_line(trial, worlds, _always)
    return f"what stays is named ({1 + lines} ways to fail)"


def foreign_change(trial: Trial) -> str:
    """An undo that finds another's work on its own leaves it, and is named."""
    trial.needs_undo()
    meddle = trial.study.subject.meddle
    if meddle is None:
        raise NotApplicable("the subject has no meddle=, so nobody else changes what it has made")
    name = fresh_name()
    theirs: list[Any] = []

    def change(bench: Bench) -> None:
        own = bench.look()
        meddle(bench.place, trial.example)
        theirs.append(bench.look())
        if theirs[0] == own:
            raise NotApplicable("meddle= changes nothing of this example's")

    with trial.worlds() as worlds:
        bench = worlds.fresh()
        with bench.opened() as (settlement, adapter):
            bench.play(settlement, adapter, name=name, inside=lambda _results: change(bench), abort=True)
            said, found = account(settlement, name), bench.look()
    if found != theirs[0]:
        raise Failed(
            "another program changed what it had made, and its undo wrote over that",
            "before it undoes, let the undo look whether the resource is as the call left it, and else raise",
        )
    if said.ended != "named":
        raise Failed(
            "another program changed what it had made, and its undo did nothing and said nothing",
            "let the undo raise when the resource is not as the call left it, so that it is named",
        )
    return "another's work is left as it is, and what stays is named"


def _play(worlds: Worlds, fault: Fault) -> tuple[Account, Any, Bench]:
    name, bench = fresh_name(), worlds.fresh()
    with bench.opened(make=FaultInjector(fault).settlement) as (settlement, adapter):
        bench.play(settlement, adapter, name=name, abort=True)
        return account(settlement, name), bench.look(), bench


def _expect_undone(said: Account, found: Any, bench: Bench, when: str) -> None:
    problem = _problem(said, found, bench)
    if problem:
        raise Failed(f"{when}, and {problem}", _REPEATABLE)


def _problem(said: Account, found: Any, bench: Bench) -> str:
    """Return what is wrong after an undo that failed once."""
    if said.ended == "named":
        return "" if _COST in said.told else f"then it is named as left: {said.told}"
    if found != bench.nothing:
        return "then the world is not as before, and nothing is named"
    return ""


# ---- failing at its lines


def _each_line(trial: Trial, worlds: Worlds, problem: Callable[[Account, Any, Bench], str]) -> int:
    """Let lines of the undo fail, one a run, and return how many did; in forks of this process, which it may spoil."""
    if not can_fork() or trial.study.points == 0 or not trial.is_sampled:
        return 0
    moments = [moment for moment in may_fail(moments_of(trial, worlds)) if moment.act == "undo"]
    chosen = trial.study.sample(moments)
    for moment in chosen:
        found = _struck(worlds.fresh(), moment, problem)
        if found:
            raise Failed(
                f"its undo failed {'once ' if problem is _once else 'each time '}at {moment}, and {found}",
                _REPEATABLE if problem is _once else _RAISE,
            )
    return len(chosen)


def _struck(bench: Bench, moment: Moment, problem: Callable[[Account, Any, Bench], str]) -> str:
    """Let a line of the undo fail in a fork of this process, and return what is wrong then."""
    name, struck = fresh_name(), list[bool]()  # chosen here: every fork would choose the same name

    def fail() -> None:
        if not (problem is _once and struck):
            struck.append(True)
            raise FailedLine("this line fails, because the kit asked for it")

    def act(tell: Callable[[Any], None]) -> None:
        lines = Lines(("undo",), at=moment.number, strike=fail)
        with bench.opened(observe=lines) as (settlement, adapter):
            lines.files = files_of(type(adapter))
            bench.play(settlement, adapter, name=name, abort=True)
            tell(problem(account(settlement, name), bench.look(), bench))

    ended = in_child(act, timeout=_SECONDS)
    check_exit(ended)
    return str(ended.told[0])


def _once(said: Account, found: Any, bench: Bench) -> str:
    return _problem(said, found, bench)


def _always(said: Account, found: Any, bench: Bench) -> str:
    if said.ended != "named" and found != bench.nothing:
        return "it is taken for undone, and the world is not as before"
    return ""


__all__ = ["foreign_change", "undo_fails_always", "undo_fails_once"]
