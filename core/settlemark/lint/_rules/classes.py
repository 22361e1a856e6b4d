"""Rules on the class: does it agree with the tool's name, its body, its hints and its docstring?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from settlemark._model.effect_class import EffectClass
from settlemark.lint._looking import Looking, Remark
from settlemark.lint._source.facts import Facts
from settlemark.lint._source.tools import Tool
from settlemark.lint._source.words import ACTS_FOR_SURE, Act, parts_of, verb_of, word_set

_FOR_GOOD = re.compile(
    r"\b(can(?:not|'t| not) be (?:undone|reversed|taken back)|irreversibl\w*|permanently)\b", re.IGNORECASE
)
_ONLY_READS = re.compile(
    r"\b(read[- ]only|does not (?:change|modify)|without (?:changing|modifying)|no side[- ]effects?)\b"
)
_TAKES_BACK = word_set("recall unsend retract withdraw unpublish revoke delete refund void reverse rollback")
_PAYS_BACK = word_set("cancel back credit unpay repay return undo")
_TAKEN_BACK = frozenset({EffectClass.READ, EffectClass.REVERSIBLE, EffectClass.IDEMPOTENT})
_SURE_VERBS = word_set("book reserve insert update write upload cancel rename append edit")


def classes(looking: Looking) -> Iterator[Remark]:
    """Yield the tools whose class contradicts other evidence."""
    for tool in looking.tools:
        if tool.declared and tool.kind is not None:
            remark = (
                _acts(looking, tool) or _sends(looking, tool) or _hinted(looking, tool) or _only_reads(looking, tool)
            )
            if remark is not None:
                yield remark


def _scope(tool: Tool) -> str:
    if tool.templates:
        return f'scope="{tool.templates[0].text}"'
    return f'scope="{parts_of(tool.name)[-1]}:/{{{tool.arguments[0]}}}"' if tool.arguments else "scope=…"


def _held(tool: Tool) -> str:
    return f'"irreversible", {_scope(tool)}'


def _acts(looking: Looking, tool: Tool) -> Remark | None:
    if tool.kind is not EffectClass.READ:
        return None
    facts = looking.facts(tool)
    evidence = _evidence(tool, facts)
    if evidence is None:
        return None
    return looking.remark(
        "SM401",
        tool,
        f"{tool.name} is declared read, and {evidence}: it runs without a claim, nothing is recorded before"
        " it, and nothing"
        " takes it back",
        _held(tool),
    )


def _evidence(tool: Tool, facts: Facts) -> str | None:
    verb = verb_of(tool.name)
    reads_by_name = verb is not None and verb[1] is Act.READ
    if facts.hard is not None and not (reads_by_name and facts.hard.what.endswith((".commit()", ".flush()"))):
        return f"its body writes ({facts.hard.what})"
    soft = next((each for each in facts.written if each.how == "soft"), None)
    posts = next((each for each in facts.written if each.how == "post"), None)
    acts = soft or posts
    if not reads_by_name and acts is not None:
        return f"its body acts ({acts.what})"
    memory = next((each for each in facts.written if each.how == "memory"), None)
    if not reads_by_name and memory is not None and verb is not None:
        return f"its body changes something ({memory.what})"
    if verb is None or reads_by_name or not (facts.uncertain or facts.outside is not None or facts.empty):
        return None
    if verb[1] in ACTS_FOR_SURE or verb[0] in _SURE_VERBS:
        return f'its name says "{verb[0]}"'
    return None


def _sends(looking: Looking, tool: Tool) -> Remark | None:
    verb = verb_of(tool.name)
    if tool.kind is not EffectClass.REVERSIBLE or verb is None or verb[1] not in {Act.SEND, Act.PAY}:
        return None
    undo = tool.handler("undo")
    if undo is None:
        return None  # another rule reports it
    if undo.function is not None and looking.handler_facts(tool, undo).empty:
        return None  # another rule reports it
    said = set(parts_of(ast.unparse(undo.expression if undo.function is None else undo.function)))
    if said & _TAKES_BACK or (verb[1] is Act.PAY and (said & _PAYS_BACK or tool.true("cost"))):
        return None
    return looking.remark(
        "SM402",
        tool,
        f'{tool.name} is declared reversible, so it leaves at once, and by its name ("{verb[0]}")'
        " nothing takes it back: when its step fails, it has left",
        _held(tool),
    )


def _hinted(looking: Looking, tool: Tool) -> Remark | None:
    hints, kind = tool.hints, tool.kind
    reads = kind is EffectClass.READ
    found: tuple[str, str] | None = None
    if hints.get("readOnlyHint") and not reads:
        found = "its hints say readOnlyHint=True", '"read", ' + _scope(tool)
    elif reads and (hints.get("destructiveHint") or hints.get("readOnlyHint") is False):
        found = (
            f"its hints say {'destructiveHint=True' if hints.get('destructiveHint') else 'readOnlyHint=False'}",
            _held(tool),
        )
    elif kind is EffectClass.IDEMPOTENT and hints.get("idempotentHint") is False:
        found = "its hints say idempotentHint=False", _held(tool)
    elif kind in _TAKEN_BACK and (told := _FOR_GOOD.search(tool.doc)) is not None:
        found = f'its docstring says "{told[0]}"', _held(tool)
    elif not reads and kind is not None and (told := _ONLY_READS.search(tool.doc)) is not None:
        found = f'its docstring says "{told[0]}"', '"read", ' + _scope(tool)
    if found is None:
        return None
    return looking.remark(
        "SM404", tool, f"{tool.name} is declared {kind}, and {found[0]}: one of the two is wrong", found[1]
    )


def _only_reads(looking: Looking, tool: Tool) -> Remark | None:
    verb = verb_of(tool.name)
    if tool.kind in (None, EffectClass.READ) or verb is None or verb[1] is not Act.READ:
        return None
    facts = looking.facts(tool)
    if facts.written or "undo" in tool.parts:
        return None
    held = tool.kind in (EffectClass.STAGED, EffectClass.IRREVERSIBLE)
    why = "its caller gets no answer until the step settles" if held else "it waits for others, and others for it"
    return looking.remark(
        "SM403",
        tool,
        f'{tool.name} is declared {tool.kind}, and by its name ("{verb[0]}") and its body it only reads: {why}',
        f'"read", {_scope(tool)}',
    )


__all__ = ["classes"]
