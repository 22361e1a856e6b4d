"""Finds the tools of a module: declared ones, in every way of declaring, and those given to a framework."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TypeGuard

from settlemark._model.effect_class import EffectClass
from settlemark.lint._source.bindings import Definition, Function
from settlemark.lint._source.sources import Source
from settlemark.lint._source.tools import KINDS, Tool, last_name

_EFFECT = frozenset({"settlemark.effect", "settlemark._acts.effect.effect"})
_OPERATION = frozenset({"settlemark_adapters.operation", "settlemark_adapters._adapter.operation"})
_TOOL_DECORATORS = frozenset({"tool", "tool_plain", "function_tool", "kernel_function"})
_TOOL_MAKERS = frozenset({"FunctionTool", "StructuredTool", "from_function", "Tool", "to_langchain_tool"})
_TOOL_NODES = frozenset({"ToolNode", "SequencedToolNode", "create_react_agent", "create_agent", "SettledWorkbench"})
_TOOL_BASES = frozenset({"BaseTool", "StructuredTool"})


def discover(sources: Iterable[Source]) -> list[Tool]:
    """Return every tool of some files, in the order of the text; a tool declared twice comes once."""
    found = [tool for source in sources for tool in _in_source(source)]
    homes = {tool.name: tool for tool in reversed(found) if tool.function is not None}
    known: list[Tool] = []
    for tool in found:
        if tool.declared and tool.function is None and tool.name in homes:
            home = homes[tool.name]
            tool.function, tool.home = home.function, home.home or home.source
            tool.hints, tool.described = home.hints, home.described
        elif tool.declared and tool.function is None:
            tool.function = next((each for each in tool.source.tree.body if _is_named(each, tool.name)), None)
        known.append(tool)
    declared = {tool.name for tool in known if tool.declared}
    functions = {id(tool.function) for tool in known if tool.declared and tool.function is not None}
    return [
        tool for tool in known if tool.declared or (tool.name not in declared and id(tool.function) not in functions)
    ]


def _is_named(node: ast.stmt, name: str) -> TypeGuard[Definition]:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name


def _in_source(source: Source) -> list[Tool]:
    found: list[Tool] = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found += _decorated(source, node)
        elif isinstance(node, ast.ClassDef):
            found += _class(source, node)
        elif isinstance(node, ast.Call):
            found += _called(source, node)
    found.sort(key=lambda tool: (tool.line, getattr(tool.at, "col_offset", 0)))
    once: dict[tuple[object, ...], Tool] = {}
    for tool in found:
        key = (tool.way, tool.name, id(tool.function) if tool.function is not None else tool.line)
        once.setdefault(key, tool)
    return list(once.values())


def _decorated(source: Source, function: Definition) -> Iterator[Tool]:
    framework: Tool | None = None
    declared: Tool | None = None
    for decorator in function.decorator_list:
        call = decorator if isinstance(decorator, ast.Call) else None
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        if call is not None and _is_effect(source, call):
            declared = _of_effect(source, call, function)
        elif call is not None and _is_operation(source, call):
            declared = _of_operation(source, call, function)
        elif last_name(called) in _TOOL_DECORATORS:
            framework = _of_framework(source, decorator, function, call)
    if declared is not None:
        if framework is not None:
            declared.hints, declared.described = framework.hints, framework.described
        yield declared
    elif framework is not None:
        yield framework


def _is_effect(source: Source, call: ast.Call) -> bool:
    qualified = source.bindings.qualified(call.func)
    if qualified:
        return qualified in _EFFECT or (qualified.endswith(".effect") and qualified.startswith("."))
    return last_name(call.func) == "effect" and _text(_argument(call, 0, "kind")) in KINDS


def _is_operation(source: Source, call: ast.Call) -> bool:
    qualified = source.bindings.qualified(call.func)
    return qualified in _OPERATION or (
        last_name(call.func) == "operation" and _text(_argument(call, 1, "kind")) in KINDS
    )


def _argument(call: ast.Call, position: int, name: str) -> ast.expr | None:
    if len(call.args) > position and not any(isinstance(each, ast.Starred) for each in call.args[: position + 1]):
        return call.args[position]
    return next((each.value for each in call.keywords if each.arg == name), None)


def _text(expression: ast.expr | None) -> str | None:
    if isinstance(expression, ast.Constant) and isinstance(expression.value, str):
        return expression.value
    if isinstance(expression, ast.Attribute) and last_name(expression.value) == "EffectClass":
        return expression.attr.lower()
    return None


def _kind(expression: ast.expr | None) -> EffectClass | None:
    text = _text(expression)
    return EffectClass(text) if text in KINDS else None


def _parts(keywords: Iterable[ast.keyword]) -> tuple[dict[str, ast.expr], bool]:
    named = {each.arg: each.value for each in keywords if each.arg is not None}
    return named, any(each.arg is None for each in keywords)


def _of_effect(source: Source, call: ast.Call, function: Function | None) -> Tool:
    parts, partial = _parts(call.keywords)
    kind = _kind(_argument(call, 0, "kind"))
    named = _text(parts.pop("name", None))
    parts.pop("kind", None)
    name = named or (function.name if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) else "lambda")
    return Tool(name, source, call, "effect", kind, parts, partial, function)


def _of_operation(source: Source, call: ast.Call, function: Definition) -> Tool:
    parts, partial = _parts(call.keywords)
    name = _text(_argument(call, 0, "tool")) or function.name
    kind = _kind(_argument(call, 1, "kind"))
    for known in ("tool", "kind"):
        parts.pop(known, None)
    return Tool(name, source, call, "operation", kind, parts, partial, function)


def _of_framework(source: Source, at: ast.AST, function: Function, call: ast.Call | None) -> Tool:
    name = function.name if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) else "lambda"
    tool = Tool(name, source, at, "framework", function=function)
    if call is not None:
        tool.name = _text(_argument(call, 0, "name")) or _text(_argument(call, 99, "name_or_callable")) or name
        tool.hints = _hints(call)
        tool.described = _text(_argument(call, 99, "description")) or ""
    return tool


def _hints(call: ast.Call) -> dict[str, bool]:
    given = _argument(call, 99, "annotations")
    pairs: list[tuple[str | None, ast.expr]] = []
    if isinstance(given, ast.Call):
        pairs = [(each.arg, each.value) for each in given.keywords]
    elif isinstance(given, ast.Dict):
        pairs = [(_text(key), value) for key, value in zip(given.keys, given.values, strict=True)]
    return {
        name: value.value
        for name, value in pairs
        if name and isinstance(value, ast.Constant) and isinstance(value.value, bool)
    }


def _class(source: Source, owner: ast.ClassDef) -> Iterator[Tool]:
    if not any(last_name(base) in _TOOL_BASES for base in owner.bases):
        return
    name, described = "", ""
    for node in owner.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        if isinstance(target, ast.Name) and target.id == "name":
            name = _text(value) or name
        if isinstance(target, ast.Name) and target.id == "description":
            described = _text(value) or ""
    run = source.bindings.member(owner, "_run") or source.bindings.member(owner, "_arun")
    if run is None or not name:
        return  # a base class
    declaring = next((d for d in [*run.decorator_list, *owner.decorator_list] if isinstance(d, ast.Call)), None)
    if declaring is not None and _is_effect(source, declaring):
        return  # found as the decorated function
    yield Tool(name, source, owner, "framework", function=run, described=described)


def _called(source: Source, call: ast.Call) -> Iterator[Tool]:
    if isinstance(call.func, ast.Call) and _is_effect(source, call.func) and call.args:
        yield _of_effect(source, call.func, source.bindings.function(call.args[0]))
    if isinstance(call.func, ast.Attribute) and call.func.attr == "declare":
        yield from _of_declare(source, call)
    for keyword in call.keywords:
        if keyword.arg == "effects":
            yield from _of_effects(source, source.bindings.value(keyword.value))
        elif keyword.arg == "tools":
            yield from _listed(source, keyword.value)
    made = last_name(call.func)
    if made in _TOOL_MAKERS:
        given = _argument(call, 0, "func")
        if given is not None and (function := source.bindings.function(given)) is not None:
            tool = _of_framework(source, call, function, None)
            tool.name = _text(_argument(call, 99, "name")) or tool.name
            tool.described = _text(_argument(call, 99, "description")) or ""
            yield tool
    elif made in _TOOL_NODES:
        for given in call.args[:2]:
            yield from _listed(source, given)


def _of_declare(source: Source, call: ast.Call) -> Iterator[Tool]:
    name, kind = _text(_argument(call, 0, "tool")), _kind(_argument(call, 1, "kind"))
    if name is None or kind is None:
        return
    parts, partial = _parts(call.keywords)
    given = parts.pop("function", None)
    for known in ("tool", "kind"):
        parts.pop(known, None)
    function = None if given is None else source.bindings.function(given)
    yield Tool(name, source, call, "declare", kind, parts, partial, function)


def _of_effects(source: Source, given: ast.expr) -> Iterator[Tool]:
    if not isinstance(given, ast.Dict):
        return
    for key, value in zip(given.keys, given.values, strict=True):
        name = _text(key)
        if name is None or key is None:
            continue
        entry = source.bindings.value(value)
        if isinstance(entry, ast.Dict):
            parts = {text: each for k, each in zip(entry.keys, entry.values, strict=True) if (text := _text(k))}
            kind = _kind(parts.pop("kind", None))
            yield Tool(name, source, key, "effects", kind, parts, None in entry.keys)
        elif (kind := _kind(entry)) is not None:
            yield Tool(name, source, key, "effects", kind)


def _listed(source: Source, given: ast.expr) -> Iterator[Tool]:
    given = source.bindings.value(given)
    if not isinstance(given, ast.List | ast.Tuple):
        return
    for each in given.elts:
        function = source.bindings.function(each) if isinstance(each, ast.Name) else None
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            yield Tool(function.name, source, function, "framework", function=function)


__all__ = ["discover"]
