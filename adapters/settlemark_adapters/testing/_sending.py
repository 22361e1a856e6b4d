"""Delivery properties: a call whose answer is lost, and one that is delivered twice."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

from settlemark.hosting import bear, in_words, json_text
from settlemark.testing import Fault, FaultInjector, InjectedTimeout
from settlemark_adapters.testing._bench import Bench, Tool, fresh_name, known_of, transact
from settlemark_adapters.testing._crashing import judged
from settlemark_adapters.testing._report import Failed, NotApplicable
from settlemark_adapters.testing._study import Trial

_UNKNOWN = (
    "raise TimeoutError or ConnectionError, or name the error in unknown=, when it may have happened; and let a probe"
    " find it by its key"
)
_TOLD = {"all": "it is there once", "nothing": "nothing is there", "named": "it is named in doubt"}


def lost_ack(trial: Trial) -> str:
    """When the answer is lost there is one effect in the end, or a doubt that is named."""
    trial.needs_effect()
    lose = trial.study.subject.lose
    ends: dict[str, str] = {}
    with trial.worlds() as worlds:
        bench = worlds.fresh()
        injector = FaultInjector(Fault(2 if trial.held else 1, "after"))
        ends["in this process"] = _lose(trial, bench, make=injector.settlement)
        if lose is not None:
            bench = worlds.fresh()
            lose(bench.place)
            ends["by the counterparty"] = _lose(trial, bench)
    return "; ".join(f"lost {where}: {_TOLD[end]}" for where, end in ends.items())


def _lose(trial: Trial, bench: Bench, **options: Any) -> str:
    name = fresh_name()
    with bench.opened(**options) as (settlement, adapter):
        raised, result = "", None
        try:
            result = bench.play(settlement, adapter, name=name)
        except Exception as error:
            raised = f" (it raised {in_words(error)})"
        end, why, mend = judged(trial, bench, settlement, name)
    if mend:
        raise Failed(f"the answer was lost, and {why}{raised}", _UNKNOWN)
    if end == "all" and not raised and result is not None and not trial.study.is_result(trial.example, result):
        clean = trial.study.clean(trial.example).result
        raise Failed(
            f"the answer was lost, and then it returned {result!r:.120}; a clean run returns {clean!r:.120}",
            "let its probe, or a repeat under its key, answer as the call would have",
        )
    return end


def duplicate_delivery(trial: Trial) -> str:
    """A keyed call that is delivered twice does as one; one that is probed is not sent a second time."""
    trial.needs_effect()
    declaration = trial.declaration
    if not declaration.keyed and declaration.probe is None:
        raise NotApplicable("it is neither keyed nor probed, so the engine never sends it twice: a doubt is named")
    with trial.worlds() as worlds:
        bench = worlds.fresh()
        return _deliver_twice(trial, bench) if declaration.keyed else _send_once(bench)


def _deliver_twice(trial: Trial, bench: Bench) -> str:
    answers: list[Any] = []
    with bench.opened() as (settlement, adapter):
        tool, arguments = bench.call(adapter)
        calls = [(_around(tool, answers, times=2), arguments)]
        try:
            transact(settlement, calls, name=fresh_name())
        except Exception as error:
            if len(answers) == 1:
                raise Failed(
                    f"delivered twice under one key, the second raised {in_words(error)}",
                    "answer a repeat under a key with the first outcome",
                ) from error
            raise
    if not trial.study.is_all(trial.example, bench.look()):
        raise Failed(
            "delivered twice under one key, it leaves another world than once",
            "send self.key to a counterparty that honours it, or say keyed=False",
        )
    if json_text.encode(answers[0]) != json_text.encode(answers[1]):
        raise Failed(
            f"delivered twice under one key, it answers {answers[0]!r:.80} and then {answers[1]!r:.80}",
            "answer a repeat under a key with the first outcome",
        )
    return "twice under one key is once"


def _send_once(bench: Bench) -> str:
    answers: list[Any] = []
    name = fresh_name()
    with bench.opened() as (settlement, adapter):
        tool, arguments = bench.call(adapter)
        try:
            transact(settlement, [(_around(tool, answers, lost=_lost), arguments)], name=name)
        except Exception as error:
            raised = f": it raised {type(error).__name__}"
        else:
            raised = ""
    if len(answers) > 1:
        raise Failed(
            f"its answer was lost, its probe did not find it, and it was sent {len(answers)} times",
            "let its probe find it by its key from the moment it acts",
        )
    return f"its probe finds it, so it is not sent a second time{raised}"


def _lost() -> None:
    raise InjectedTimeout("no answer came, because the kit asked for it")


def _around(tool: Tool, answers: list[Any], *, times: int = 1, lost: Callable[[], None] | None = None) -> Tool:
    """Return a tool that calls another one so many times, and records the answers."""
    if inspect.iscoroutinefunction(tool):

        @wraps(tool)
        async def made_async(*args: Any, **kwargs: Any) -> Any:
            for _ in range(times):
                answers.append(await tool(*args, **kwargs))  # noqa: PERF401 - the first is kept when the second raises
            if lost is not None:
                lost()
            return answers[0]

        return _bearing(made_async, tool)

    @wraps(tool)
    def made(*args: Any, **kwargs: Any) -> Any:
        for _ in range(times):
            answers.append(tool(*args, **kwargs))  # noqa: PERF401 - the first is kept when the second raises
        if lost is not None:
            lost()
        return answers[0]

    return _bearing(made, tool)


def _bearing(made: Tool, tool: Tool) -> Tool:
    bear(made, replace(known_of(tool), function=made))
    return made


__all__ = ["duplicate_delivery", "lost_ack"]
