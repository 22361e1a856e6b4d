"""A proposed plan: checked, let a person say yes or no to it, and run as a transaction of its own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from settlemark._acts.bodies import in_body
from settlemark._acts.perform import Program
from settlemark._api.host import Host
from settlemark._edges.errors import DeclarationError, UsageError
from settlemark._edges.text import brief
from settlemark._mending.carrying import Call
from settlemark._mending.claims import YES
from settlemark._mending.stuck import Stuck
from settlemark._model import json_text
from settlemark._model.declaration import Declaration
from settlemark._model.declare import declaration_of, effect
from settlemark._model.effect_class import EffectClass
from settlemark._model.scope import Scope
from settlemark._runtime.aio import run_async
from settlemark._runtime.sync import run_sync

_TRIES = 20
Faces = tuple[Callable[..., Any], Callable[..., Any]]
"""Make the face of a transaction, and of an async one."""
_FIELDS = {"tool", "arguments"}
_HOW = 'a plan is a list of calls, as in [{"tool": "cancel", "arguments": {"room": "7"}}]'
_KEEPS = (EffectClass.READ, EffectClass.STAGED)


@effect("irreversible", scope="mend:/{mend}", approve=True, keyed=True, name=YES)
def mend(mend: str, mends: str, plan: list[dict[str, Any]]) -> None:
    """Say that a plan for what is stuck may run: the call that a person is asked about."""
    del mend, mends, plan


GATED = cast("Declaration", declaration_of(mend))
"""What a person is asked about in the place of a plan."""


def checked(host: Host, stuck: Stuck, scopes: Sequence[str], plan: object) -> list[Call]:
    """Return the calls of a plan for a stuck transaction, which touched these scopes.

    Raises:
        UsageError: it is no plan, or a call of it is not declared, not taken by its tool, or touches what the
            transaction did not; nothing was run.
    """
    steps = _listed(plan)
    if steps is None:
        raise _wrong(plan)
    within = [Scope.parse(scope) for scope in scopes]
    return [_call(host, stuck, within, step) for step in steps]


def _listed(given: object) -> Sequence[object] | None:
    return cast("Sequence[object]", given) if isinstance(given, list | tuple) else None


def _mapped(given: object) -> Mapping[str, Any] | None:
    return cast("Mapping[str, Any]", given) if isinstance(given, Mapping) else None


def _wrong(given: object) -> UsageError:
    return UsageError(f"on_stuck= proposed {brief(given)}: {_HOW}; nothing was run")


def _call(host: Host, stuck: Stuck, within: Sequence[Scope], step: object) -> Call:
    given = _mapped(step) or {}
    arguments = _mapped(given.get("arguments"))
    if set(given) != _FIELDS or arguments is None:
        raise _wrong(step)
    declaration = _declared(host, given["tool"])
    function = declaration.function
    if function is None:
        raise DeclarationError(
            f"on_stuck= proposed {declaration.tool}, whose function is not known in this process; nothing was run",
            tool=declaration.tool,
        )
    try:
        named = declaration.arguments((), dict(arguments))
    except TypeError as error:
        raise UsageError(f"on_stuck= proposed a call that its tool does not take: {error}; nothing was run") from error
    json_text.check(named)
    named = json_text.snapshot(dict(named))  # the proposer may change its own later
    touched = host.tools.effect_of(declaration, dict(named), lambda: None, run=stuck.run).scopes
    beyond = [scope.text for scope in touched if not any(ours.covers(scope) for ours in within)]
    if beyond or not touched:
        where = ", ".join(beyond) or "no scope"
        raise UsageError(
            f"on_stuck= proposed {declaration.tool} on {where}, which {stuck.transaction} did not touch: it may touch"
            f" {', '.join(scope.text for scope in within)}; nothing was run",
            tool=declaration.tool,
        )
    undoable = declaration.kind in _KEEPS or (declaration.kind is not EffectClass.IRREVERSIBLE and declaration.undoable)
    return Call(declaration.tool, function, named, undoable, declaration.held)


def _declared(host: Host, tool: object) -> Declaration:
    """Return the declaration of a tool that a plan names.

    Raises:
        DeclarationError: no such tool is declared here; nothing was run.
    """
    found = (host.tools.known(tool) or host.tools.recorded_as(tool)) if isinstance(tool, str) else None
    if found is None or (found.kind is EffectClass.OPAQUE and not found.templates):
        raise DeclarationError(
            f"on_stuck= proposed the tool {brief(tool)}, which is not declared in this process; nothing was run",
            tool=str(tool),
        )
    return found


def gating(host: Host, faces: Faces, name: str, stuck: Stuck, plan: list[dict[str, Any]]) -> Program[Any]:
    """Return the program that has a person say yes or no to a plan, in a transaction of this name."""

    def ask(tx: Any) -> None:
        tx.call(mend, mend=name.split("/")[1], mends=stuck.transaction, plan=plan)

    return _running(host, name, stuck.run, (), ask, faces[0])


def running(
    host: Host,
    faces: Faces,
    name: str,
    run: str,
    scopes: Sequence[str],
    calls: Sequence[Call],
    ours: Callable[[int], Program[None]],
    prove: Callable[[], Program[None]],
) -> Program[Any]:
    """Return the program that runs a plan in a transaction of this name; see `Carrying.running`."""
    tries, held = 0, any(call.held for call in calls)

    def number(tx: Any) -> int:
        nonlocal tries
        tries += 1
        return int(tx.attempt) - tries + 1  # of a later try, after a lost race: the first one's

    def act(tx: Any) -> None:
        run_sync(ours(number(tx)))
        for call in calls:
            tx.call(call.function, **call.arguments)
        if not held:
            run_sync(prove())

    async def act_async(tx: Any) -> None:
        await run_async(ours(number(tx)))
        for call in calls:
            await tx.call(call.function, **call.arguments)
        if not held:
            await run_async(prove())

    if any(inspect.iscoroutinefunction(call.function) for call in calls):
        return _running(host, name, run, scopes, act_async, faces[1])
    return _running(host, name, run, scopes, act, faces[0])


def _running(
    host: Host,
    name: str,
    run: str,
    scopes: Sequence[str],
    body: Callable[..., Any],
    face: Callable[..., Any],
) -> Program[Any]:
    driver = host.driver

    def begun(part: Any) -> Callable[[], Any]:
        return partial(in_body(driver.kernel, part.attempt.name, body), face(host, part))

    options: dict[str, Any] = {**host.options(run, run, may_touch=scopes, on_failure="retry", retry=True), "name": name}
    return driver.runs.run(driver.entrance.enter(**options, independent=True), begun, tries=_TRIES)


__all__ = ["GATED", "Faces", "checked", "gating", "running"]
