"""Rules on keys: a key names the decision, so it comes from the call, not from chance or a model's values."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

from settlemark.lint._looking import Looking, Remark
from settlemark.lint._source.bindings import Function, parameters
from settlemark.lint._source.facts import Facts, SentKey
from settlemark.lint._source.reading import read
from settlemark.lint._source.sources import Source
from settlemark.lint._source.tools import Tool
from settlemark.lint._source.words import is_free_text

_KEY = re.compile(r"idempot|dedup|client.?token|client.?request|message.?id", re.IGNORECASE)
_CHANCE = {"uuid": "a fresh uuid", "random": "chance", "clock": "the clock"}
_COMPUTED_TYPES = frozenset({"float", "Decimal"})


def keys(looking: Looking) -> Iterator[Remark]:
    """Yield the keys, in tools, handlers and any other function, that do not name the decision."""
    told: set[tuple[int, int]] = set()
    for source in looking.sources:
        tools = {id(tool.function): tool for tool in looking.tools if (tool.home or tool.source) is source}
        # Tools first: a key sent by a tool's own helper is the tool's.
        for function in sorted(_senders(source, tools), key=lambda each: id(each) not in tools):
            tool = tools.get(id(function))
            facts = looking.facts(tool) if tool is not None else read(function, source.bindings)
            for sent in facts.keys:
                place = (id(source), getattr(sent.node, "lineno", 0))
                remark = None if place in told else _judged(source, function, tool, facts, sent)
                if remark is not None:
                    told.add(place)
                    yield remark


def _senders(source: Source, tools: Collection[int]) -> Iterator[Function]:
    """Yield the tools' functions, and those of the others that handle keys."""
    lines = source.text.splitlines()
    texts = {each: "\n".join(lines[each.lineno - 1 : each.end_lineno]) for each in source.bindings.functions}
    sending = {getattr(each, "name", "") for each, text in texts.items() if _KEY.search(text)}
    calls = re.compile(rf"\b({'|'.join(map(re.escape, sorted(sending)))})\(") if sending else None
    for each, text in texts.items():
        if id(each) in tools or _KEY.search(text) or (calls is not None and calls.search(text)):
            yield each


def _judged(source: Source, function: Function, tool: Tool | None, facts: Facts, sent: SentKey) -> Remark | None:
    origins = sent.value.origins
    if "key" in origins:
        return None
    name = str(getattr(function, "name", "lambda")) if tool is None else tool.name
    line = int(getattr(sent.node, "lineno", 1))
    lines = (function.lineno, *(tool.lines if tool is not None else ()))
    mend = f'"{sent.name}": current_call().key' if "-" in sent.name else f"{sent.name}=current_call().key"
    chance = next((_CHANCE[origin] for origin in ("uuid", "random", "clock") if origin in origins), None)
    strict = sent.sure or (tool is not None and tool.declared and (tool.keyed or "probe" in tool.parts))
    if chance is not None and strict:
        what = (
            f"{name} sends {sent.name} from {chance}: a repeat after a lost answer has another one, so its counterparty"
            " takes it for a new request"
        )
        return Remark("SM301", name, source, line, what, mend, lines)
    values = _computed(sent, function)
    if values and sent.sure:
        what = (
            f"{name} makes {sent.name} of {', '.join(values)}, which a model computes: decided again it may"
            " differ, and then"
            " the same decision is carried out twice"
        )
        return Remark("SM302", name, source, line, what, mend, lines)
    del facts
    return None


def _computed(sent: SentKey, function: Function) -> list[str]:
    found: list[str] = []
    typed = {each.arg for each in parameters(function) if _type(each.annotation) in _COMPUTED_TYPES}
    for origin in sorted(sent.value.origins):
        kind, _, name = origin.partition(":")
        if kind == "model":
            found.append("what a model answered")
        elif (
            kind == "value" or (kind == "arg" and (is_free_text(name) or name in typed))
        ) and f"`{name}`" not in found:
            found.append(f"`{name}`")
    return found


def _type(annotation: ast.expr | None) -> str:
    return "" if annotation is None else ast.unparse(annotation).rpartition(".")[2]


__all__ = ["keys"]
