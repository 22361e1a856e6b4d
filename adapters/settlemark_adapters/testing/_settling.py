"""What a commit, an abort and a replay do; that nobody else sees staged effects; and what a probe finds."""

from __future__ import annotations

import inspect
from collections.abc import Generator
from dataclasses import replace
from functools import wraps
from typing import Any

from settlemark import UNKNOWN, CurrentCall, EffectClass, Settlement
from settlemark.hosting import Act, bear, in_words, json_text, kind_of, message_of, run_sync
from settlemark_adapters.testing._bench import Bench, Tool, account, fresh_name, known_of, tool_of, transact
from settlemark_adapters.testing._likeness import common, fits
from settlemark_adapters.testing._report import Failed, NotApplicable
from settlemark_adapters.testing._study import Trial

_PROBE = "ask by the key: self.key, or `key` as an argument of the probe; never by the values of the arguments"


def commit(trial: Trial) -> str:
    """An eager effect is there at once, a held one only after the commit; a replay does nothing twice."""
    clean = trial.study.clean(trial.example)
    try:
        json_text.check(clean.result)
    except Exception as error:
        raise Failed(
            f"its result is no JSON: {message_of(error)}", "return plain values: text, numbers, lists, mappings"
        ) from None
    if trial.kind is EffectClass.READ:
        if clean.all != clean.nothing:
            raise Failed("it is a read, and the world is another one after it", "declare what it changes")
        return "it answers, and changes nothing"
    if clean.all == clean.nothing:
        raise Failed(
            "nothing of it is to be seen after its commit", "let look() show what it does, or its example do something"
        )
    if trial.held and clean.between != clean.nothing:
        raise Failed(f"it is {trial.kind}, and it acted before the commit", "declare it reversible, with an undo")
    if not trial.held and clean.between != clean.all:
        raise Failed(
            f"it is {trial.kind}, and what it leaves is not there when its call returns",
            "let it return when it has acted, or declare it staged or irreversible",
        )
    with trial.worlds() as worlds:
        _replay(trial, worlds.fresh())
    return "it is there after the commit, and not before" if trial.held else "it is there at once, and stays"


def _replay(trial: Trial, bench: Bench) -> None:
    name = fresh_name()
    with bench.opened() as (settlement, adapter):
        first = bench.play(settlement, adapter, name=name)
        seen = bench.look()
        again = bench.play(settlement, adapter, name=name)
        if bench.look() != seen:
            raise Failed("entered again under its name, it acted again", "let nothing act outside of its tools")
        if json_text.encode(first) != json_text.encode(again):
            raise Failed(
                f"entered again under its name, it answers {again!r:.80}, and {first!r:.80} before",
                "return plain values, so that they can be recorded",
            )
    if not trial.study.is_all(trial.example, seen):
        raise Failed("it leaves another world each time", "let before= and the arguments settle what it does")


def abort(trial: Trial) -> str:
    """After an abort the world is as before, or what stays is named."""
    trial.needs_effect()
    name = fresh_name()
    with trial.worlds() as worlds:
        bench = worlds.fresh()
        with bench.opened() as (settlement, adapter):
            bench.play(settlement, adapter, name=name, abort=True)
            said, found = account(settlement, name), bench.look()
    if found == bench.nothing:
        return "nothing of it ever left" if trial.held else "the world is as before"
    if said.ended == "named" and not trial.declaration.leaves_nothing:
        return f"what stays is named: {said.told}"
    if said.ended == "named":
        raise Failed(f"something of it stays: {said.told}", "let its undo take back what the call did")
    raise Failed(
        "the world is another one after an abort, and nothing is named",
        "let its undo take back all that the call did, or say with cost= what it leaves",
    )


# ---- what is staged


def staged_invisibility(trial: Trial) -> str:
    """Until the commit the counterparty has nothing of it; its own transaction's reads see what is staged."""
    trial.needs_effect()
    if not trial.held:
        raise NotApplicable(f"it is {trial.kind}: it acts at once")
    seen: list[Any] = []
    with trial.worlds() as worlds:
        bench = worlds.fresh()
        with bench.opened() as (settlement, adapter):
            reads = _reads(trial, adapter)
            calls = [bench.call(adapter), *reads]
            results = transact(settlement, calls, name=fresh_name(), inside=lambda _results: seen.append(bench.look()))[
                1:
            ]
            after = [transact(settlement, [read], name=fresh_name())[0] for read in reads]
        if seen[0] != bench.nothing:
            raise Failed("something of it is there before the commit", "act at the release, in the tool itself")
        if trial.kind is not EffectClass.STAGED:
            return "nothing of it is there before the commit"
        if not reads:
            return "nothing of it is there before the commit (no example reads its scope)"
        if results != after and not fits(common(after, _read_anew(trial, worlds.fresh())), results):
            raise Failed(
                f"its own transaction reads {results!r:.120} before the commit, and {after!r:.120} is read after it",
                "let the reads look at current_call().staged(scope), and tell of it as it will be",
            )
    return "nothing of it is there before the commit, and its own reads see it"


def _reads(trial: Trial, adapter: Any) -> list[tuple[Tool, Any]]:
    """Return the reads, among all examples, of its scopes."""
    study = trial.study
    return [
        (_telling(tool_of(adapter, example.tool)), example.arguments)
        for example in study.subject.examples
        if study.declaration(example).kind is EffectClass.READ and study.meet(trial.example, example)
    ]


def _read_anew(trial: Trial, bench: Bench) -> list[Any]:
    with bench.opened() as (settlement, adapter):
        bench.play(settlement, adapter, name=fresh_name())
        return [transact(settlement, [read], name=fresh_name())[0] for read in _reads(trial, adapter)]


class Raised(dict[str, str]):
    """A read's exception, as an answer: which error, and its message for people."""

    def __init__(self, error: Exception) -> None:
        super().__init__(raised=kind_of(error))
        self.said = message_of(error)

    def __repr__(self) -> str:
        return f"{self['raised']}: {self.said}"


def _telling(tool: Tool) -> Tool:
    """Return a read that returns its errors as results: "not found" is an answer, too."""
    if inspect.iscoroutinefunction(tool):

        @wraps(tool)
        async def made_async(*args: Any, **kwargs: Any) -> Any:
            try:
                return await tool(*args, **kwargs)
            except Exception as error:
                return Raised(error)

        return _bearing(made_async, tool)

    @wraps(tool)
    def made(*args: Any, **kwargs: Any) -> Any:
        try:
            return tool(*args, **kwargs)
        except Exception as error:
            return Raised(error)

    return _bearing(made, tool)


def _bearing(made: Tool, tool: Tool) -> Tool:
    bear(made, replace(known_of(tool), function=made))
    return made


# ---- what a probe finds


def probe_truth(trial: Trial) -> str:
    """A probe finds nothing before the act, its result after it, and nothing again after its undo."""
    trial.needs_effect()
    if trial.declaration.probe is None:
        keyed = "it is sent again under its key" if trial.declaration.keyed else "a person is told of it"
        raise NotApplicable(f"it has no probe: when its outcome is unknown, {keyed}")
    with trial.worlds() as worlds:
        first, second = fresh_name(), fresh_name()
        bench = worlds.fresh()
        with bench.opened() as (settlement, adapter):
            bench.play(settlement, adapter, name=first, abort=True)
            key = _key(settlement)
        if trial.held or trial.declaration.leaves_nothing:
            _expect_nothing(trial, bench, key, "after it was dropped" if trial.held else "after its undo")
        key, bench = key.replace(first, second), worlds.fresh()
        _expect_nothing(trial, bench, key, "before the act")
        with bench.opened() as (settlement, adapter):
            result = bench.play(settlement, adapter, name=second)
            key = _key(settlement)  # another ledger's keys are different
        found = _ask(trial, bench, key)
        if found is None or found is UNKNOWN:
            said = "absent" if found is None else "unknown"
            raise Failed(f"its probe says {said} after the act", _PROBE)
        if result is not None and json_text.encode(found) != json_text.encode(result):
            raise Failed(
                f"its probe finds {found!r:.120}, and the call returned {result!r:.120}",
                "return from the probe what the call would have returned: keep it at the counterparty, under the key",
            )
        if trial.kind is not EffectClass.IDEMPOTENT:
            _expect_nothing(trial, bench, f"{key}-of-another", "under another's key")
    return "absent before the act, found after it with its result"


def _key(settlement: Settlement) -> str:
    return settlement.transactions()[-1].effects[0].row.key


def _expect_nothing(trial: Trial, bench: Bench, key: str, when: str) -> None:
    found = _ask(trial, bench, key)
    if found is not None and found is not UNKNOWN:
        raise Failed(f"its probe finds {found!r:.120} {when}", _PROBE)


def _ask(trial: Trial, bench: Bench, key: str) -> Any:
    """Ask a fresh adapter's probe, as the engine would."""
    with bench.opened() as (_, adapter):
        declaration = known_of(tool_of(adapter, trial.example.tool))
        handler = declaration.probe
        assert handler is not None
        arguments = declaration.arguments((), dict(trial.example.arguments))
        bound = handler.bind(arguments, result=None, key=key)
        try:
            return run_sync(_acting(Act(handler.function, bound, CurrentCall(key, key, 1, 1), final=True)))
        except Exception as error:
            raise Failed(
                f"its probe raised {in_words(error)}",
                "answer None for absent and settlemark.UNKNOWN where nobody can tell; raise only when it cannot ask",
            ) from error


def _acting(act: Act) -> Generator[Act, Any, Any]:
    return (yield act)


__all__ = ["abort", "commit", "probe_truth", "staged_invisibility"]
