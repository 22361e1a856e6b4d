"""Declaration properties: an example, a docstring, types, scopes; and refusal of invalid arguments."""

from __future__ import annotations

import inspect
import typing
from typing import Any

from settlemark import EffectClass, PayloadError
from settlemark.hosting import json_text
from settlemark_adapters.testing._bench import Bench, fresh_name, transact
from settlemark_adapters.testing._report import Failed
from settlemark_adapters.testing._study import Trial, shown


def declaration(trial: Trial) -> str:
    """A tool tells a model what it does, names its scopes from JSON arguments, and refuses others before any effect."""
    tool = trial.study.tools[trial.declaration.tool]
    if not (inspect.getdoc(tool) or "").strip():
        raise Failed("it has no docstring", "say in its first line what it does: a model reads it")
    parameters = inspect.signature(tool).parameters.values()
    untyped = [p.name for p in parameters if p.annotation is p.empty]
    if untyped:
        raise Failed(f"{', '.join(untyped)} has no type", "annotate each argument: a model is told its type")
    if "return" not in typing.get_type_hints(tool) and inspect.signature(tool).return_annotation is (
        inspect.Signature.empty
    ):
        raise Failed("its result has no type", "annotate what it returns")
    try:
        json_text.check(dict(trial.example.arguments))
    except PayloadError as error:
        raise Failed(f"the arguments of {shown(trial.example)} are no JSON: {error}", "give plain values") from error
    scopes = trial.study.scopes(trial.example)
    if trial.kind is EffectClass.READ:
        return f"it says what it reads: {', '.join(map(str, scopes)) or 'nothing in particular'}"
    with trial.worlds() as worlds:
        bench = worlds.fresh()
        for argument in trial.example.arguments:
            _refused(bench, {**trial.example.arguments, argument: object()}, f"{argument} is no JSON")
        _refused(bench, {**trial.example.arguments, "no such argument": 1}, "an argument is none of its own")
    return f"it acts on {', '.join(map(str, scopes)) or 'its run alone'}, and refuses what is no JSON"


def _refused(bench: Bench, arguments: dict[str, Any], why: str) -> None:
    with bench.opened() as (settlement, adapter):
        tool, _ = bench.call(adapter)
        try:
            transact(settlement, [(tool, arguments)], name=fresh_name())
        except Exception:
            if bench.is_new:
                return
            raise Failed(
                f"a call in which {why} was refused, and had acted before", "look at the arguments first, in check="
            ) from None
        raise Failed(f"a call in which {why} was not refused", "let it raise before it acts")


__all__ = ["declaration"]
