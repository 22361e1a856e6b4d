"""The engine's own check of a declaration, run with stand-in functions that do nothing."""

from __future__ import annotations

import ast
from collections.abc import Callable
from copy import deepcopy
from typing import Any, cast

from settlemark._edges.errors import UsageError
from settlemark._model.declare import declare
from settlemark._model.effect_class import EffectClass
from settlemark.lint._source.bindings import Function
from settlemark.lint._source.tools import HELD, Handler, Tool

_HANDLERS = ("undo", "probe", "release", "check", "live")
_UNDOABLE = frozenset({EffectClass.REVERSIBLE, EffectClass.IDEMPOTENT})


def refusal(tool: Tool) -> tuple[str, str] | None:
    """Return why the engine refuses a declaration, and the part concerned; None if it accepts it."""
    if tool.kind is None:
        return None
    parts = _fitting(tool) if tool.way == "operation" else tool.parts
    given: dict[str, Any] = {}
    for role in _HANDLERS:
        if role in parts:
            given[role] = _stand_in(tool.handler(role))
    given["scope"] = _scope(tool)
    given["may_touch"] = _may_touch(tool)
    if "redact" in parts:
        given["redact"] = _literal(parts["redact"], otherwise=())
    if "approve" in parts:
        approve = tool.handler("approve")
        given["approve"] = _literal(parts["approve"], otherwise=_stand_in(approve))
    for role, otherwise in (("cost", "a cost"), ("window", 1.0), ("valid_for", 1.0), ("commutes", "a group")):
        if role in parts:
            given[role] = _literal(parts[role], otherwise=otherwise)
    if tool.partial:
        given = {"undo": _anything, "scope": _anything, **given} if tool.kind in _UNDOABLE else given
        given["scope"] = given["scope"] or _anything
    try:
        declare(tool.name, tool.kind, function=_like(tool), **given)
    except UsageError as error:
        text = str(error)
        found = (role for role in (*parts, "scope") if f"{role}=" in text or f"the {role} " in text)
        return text, next(found, "scope" if "scope" in text else "")
    except (TypeError, ValueError):
        return None  # a signature that only its framework understands
    return None


def _anything(**_arguments: Any) -> None:
    return None


def _fitting(tool: Tool) -> dict[str, ast.expr]:
    """Return the parts of an adapter's operation that its class uses; the others are for other classes."""
    unused: set[str] = set()
    if tool.kind not in _UNDOABLE:
        unused.add("undo")
    if tool.kind not in HELD:
        unused.add("release")
    if tool.kind is not EffectClass.REVERSIBLE:
        unused.add("cost")
    if tool.kind not in (EffectClass.REVERSIBLE, EffectClass.STAGED):
        unused.add("commutes")
    if tool.kind is not EffectClass.READ:
        unused |= {"live", "valid_for"}
    if tool.kind in (EffectClass.READ, EffectClass.STAGED):
        unused.add("approve")
    return {role: part for role, part in tool.parts.items() if role not in unused}


def _literal(given: ast.expr, *, otherwise: Any) -> Any:
    try:
        return ast.literal_eval(given)
    except (ValueError, TypeError):  # a TypeError for `{[]: 1}`: Python raises the same at run time
        return otherwise


def _scope(tool: Tool) -> Any:
    if "scope" not in tool.parts:
        return None
    value = tool.source.bindings.value(tool.parts["scope"])
    if isinstance(value, ast.Constant):
        return value.value
    return _stand_in(tool.handler("scope")) or _anything


def _may_touch(tool: Tool) -> Any:
    if "may_touch" not in tool.parts:
        return ()
    value = tool.source.bindings.value(tool.parts["may_touch"])
    return _literal(value, otherwise=("unknown:/",))


def _stand_in(handler: Handler | None) -> Any:
    if handler is None:
        return None
    if handler.mapped is not None:
        return _made("def inverse(*, result): pass")
    if handler.function is None:
        return _constant_or_anything(handler.expression)
    return _empty(handler.function, without=1 if handler.bound else 0)


def _constant_or_anything(expression: ast.expr) -> Any:
    return expression.value if isinstance(expression, ast.Constant) else _anything


def _like(tool: Tool) -> Callable[..., Any] | None:
    if tool.function is None or tool.function.args.posonlyargs:
        return None
    return _empty(tool.function, without=1 if tool.bound else 0)


def _empty(function: Function, *, without: int) -> Callable[..., Any]:
    """Return a function with the same parameter names that does nothing."""
    given = deepcopy(function.args)
    positional = [*given.posonlyargs, *given.args]
    if without and positional:
        (given.posonlyargs or given.args).pop(0)
        given.defaults = given.defaults[-(len(positional) - 1) :] if len(positional) > 1 else []
    for each in ast.walk(given):
        if isinstance(each, ast.arg):
            each.annotation = None
    given.defaults = [ast.Constant(None) for _ in given.defaults]
    given.kw_defaults = [None if default is None else ast.Constant(None) for default in given.kw_defaults]
    name = function.name if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) else "<lambda>"
    asynchronous = "async " if isinstance(function, ast.AsyncFunctionDef) else ""
    made = _made(f"{asynchronous}def handler({ast.unparse(given)}): pass")
    made.__name__ = made.__qualname__ = name
    return made


def _made(text: str) -> Callable[..., Any]:
    space: dict[str, Any] = {"__name__": "your code"}
    exec(compile(text, "<a stand-in>", "exec"), space)  # noqa: S102 - a signature alone: no default, no annotation, no body
    return cast("Callable[..., Any]", next(value for name, value in space.items() if name in {"handler", "inverse"}))


__all__ = ["refusal"]
