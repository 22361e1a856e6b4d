"""Rules on undo, probe and key: can the effect be taken back, and can anybody tell whether it happened?"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from settlemark._model.effect_class import EffectClass
from settlemark.lint._engine_check import refusal
from settlemark.lint._looking import Looking, Remark
from settlemark.lint._source.bindings import Function, parameters
from settlemark.lint._source.facts import SentKey
from settlemark.lint._source.tools import Tool
from settlemark.lint._source.words import ACTS_FOR_SURE, Act, inverse_of, parts_of, verb_of

_ASKS = frozenset({"find", "get", "probe", "status", "lookup", "check", "sent", "was", "has"})
_SHOWN = 60


def handlers(looking: Looking) -> Iterator[Remark]:
    """Yield what is wrong with the handlers of each tool."""
    for tool in looking.tools:
        if not tool.declared or tool.kind is None:
            continue
        yield from _refused(looking, tool)
        yield from _undo(looking, tool)
        yield from _probe(looking, tool)
        yield from _unknowable(looking, tool)
        yield from _key(looking, tool)


def _refused(looking: Looking, tool: Tool) -> Iterator[Remark]:
    if tool.kind is EffectClass.REVERSIBLE and tool.handler("undo") is None and not tool.partial:
        verb = verb_of(tool.name)
        if verb is not None and verb[1] in ACTS_FOR_SURE:
            mend = f'"irreversible"{_scope_text(tool)}: it is held until its step has succeeded'
        else:
            mend = undo_for(looking, tool) or f"undo=…, or declare {tool.name} irreversible: then it is held"
        yield looking.remark(
            "SM102", tool, f"{tool.name} is reversible and has no undo: nothing takes it back when its step fails", mend
        )
        return
    found = refusal(tool)
    if found is not None:
        what, _, advice = found[0].partition(": ")
        yield looking.remark("SM101", tool, what, advice, at=found[1])


def _scope_text(tool: Tool) -> str:
    given = tool.parts.get("scope")
    if isinstance(given, ast.Constant) and isinstance(given.value, str):
        return f', scope="{given.value}"'
    return "" if given is None else f", scope={ast.unparse(given)}"


def undo_for(looking: Looking, tool: Tool) -> str | None:
    """Return the function of this code base that by its name makes an undo, or None."""
    names = looking.names
    found = inverse_of(tool.name, [name for name in names if name != tool.name])
    return None if found is None else f"undo={undo_by(found, names[found][1], tool.arguments)}"


def undo_by(name: str, function: Function, arguments: list[str]) -> str:
    """Return the handler that calls a function with a call's arguments, or fields of its result.

    >>> undo_by("cancel", ast.parse("def cancel(booking): ...").body[0], ["hotel"])
    'inverse(cancel, booking="booking")'
    """
    required = len(parameters(function)) - len(function.args.defaults) - len(function.args.kwonlyargs)
    needed = [each.arg for each in parameters(function)[:required] if each.arg not in {"self", "cls", "ctx"}]
    if all(each in (*arguments, "result", "key") for each in needed):
        return name
    fields = ", ".join(f'{each}="{each}"' for each in needed)
    return f"inverse({name}, {fields})"


def _undo(looking: Looking, tool: Tool) -> Iterator[Remark]:
    facts = looking.facts(tool)
    undo = tool.handler("undo")
    if undo is not None and undo.function is not None and not (facts.empty and tool.function is not None):
        nothing = looking.handler_facts(tool, undo).empty
        if nothing:
            verb = verb_of(tool.name)
            sends = verb is not None and verb[1] in ACTS_FOR_SURE
            mend = (
                f'"irreversible"{_scope_text(tool)}: it is held until its step has succeeded'
                if sends
                else undo_for(looking, tool) or "undo=… that takes it back, or declare it irreversible: then it is held"
            )
            yield looking.remark(
                "SM103",
                tool,
                f"the undo of {tool.name} does nothing: an abort says clean, and what it did stays",
                mend,
                at="undo",
            )
    if undo is None and tool.kind in (EffectClass.IDEMPOTENT, EffectClass.OPAQUE) and not tool.partial:
        yield from _left_out(looking, tool)


def _left_out(looking: Looking, tool: Tool) -> Iterator[Remark]:
    verb = verb_of(tool.name)
    if verb is None or verb[1] is Act.READ:
        return
    undo = undo_for(looking, tool)
    if undo is None and verb[1] not in ACTS_FOR_SURE:
        return
    kind = f'"reversible", {undo}' if undo is not None and tool.kind is EffectClass.OPAQUE else undo
    yield looking.remark(
        "SM106",
        tool,
        f"{tool.name} is {tool.kind} and has no undo: it acts at once, and when its step fails it stays, named for"
        " an operator to mend",
        kind or f'"irreversible"{_scope_text(tool)}{_keyed(tool)}: it is held until its step has succeeded',
    )


def _keyed(tool: Tool) -> str:
    return ", keyed=True" if tool.keyed else ""


def _probe(looking: Looking, tool: Tool) -> Iterator[Remark]:
    probe = tool.handler("probe")
    if probe is None or probe.function is None or probe.mapped is not None:
        return
    if _says_false(probe.function):
        yield looking.remark(
            "SM107",
            tool,
            f"the probe of {tool.name} can answer False, which is no answer: the effect stays in doubt",
            "return None when it is absent, its result when it happened, settlemark.UNKNOWN when nobody can tell",
            at="probe",
        )


def _says_false(function: Function) -> bool:
    if isinstance(function, ast.Lambda):
        return _is_bool(function.body)
    if isinstance(function.returns, ast.Name) and function.returns.id == "bool":
        return True
    inner = {
        id(node)
        for each in ast.walk(function)
        if each is not function and isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for node in ast.walk(each)
    }
    return any(
        isinstance(node, ast.Return) and id(node) not in inner and _is_bool(node.value) for node in ast.walk(function)
    )


def _is_bool(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id in {"any", "all", "bool", "isinstance"}
    if isinstance(value, ast.UnaryOp):
        return isinstance(value.op, ast.Not)
    return isinstance(value, ast.Compare) or (isinstance(value, ast.Constant) and value.value is False)


def _unknowable(looking: Looking, tool: Tool) -> Iterator[Remark]:
    if not tool.acts or tool.keyed or tool.partial or tool.handler("probe") is not None:
        return
    if tool.kind is EffectClass.OPAQUE:
        return  # the class says so
    facts = looking.facts(tool)
    seen = tool.function is not None and not facts.empty
    verb = verb_of(tool.name)
    if verb is not None and verb[1] is Act.READ and not facts.written:
        return  # a read, reported elsewhere
    if seen and facts.outside is None:
        return  # everything stays in this process: no answer can be lost
    told = next(
        (each.what for each in facts.written if each.how != "memory"),
        "" if facts.outside is None else ast.unparse(facts.outside),
    )
    how = f"{tool.name} reaches out of this process ({_short(told)})" if seen and told else f"{tool.name} acts"
    probe = _probe_for(looking, tool)
    mend = (
        f"probe={probe}"
        if probe
        else "keyed=True, and send current_call().key along; or probe=…, which asks by the key"
    )
    yield looking.remark(
        "SM104",
        tool,
        f"{how} without probe or key: after a lost answer nobody can tell whether it happened, so it stays in doubt",
        mend,
    )


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 2]} …"


def _probe_for(looking: Looking, tool: Tool) -> str | None:
    """Return a function that by its name and arguments asks by the key."""
    nouns = set(parts_of(tool.name)) - {"key"}
    for name, (source, function) in looking.names.items():
        words = parts_of(name)
        if (
            source is tool.source
            and words
            and words[0] in _ASKS
            and set(words[1:]) & nouns
            and "key" in [p.arg for p in parameters(function)]
        ):
            return name
    return None


def _key(looking: Looking, tool: Tool) -> Iterator[Remark]:
    facts = looking.facts(tool)
    if not tool.acts or not tool.keyed or tool.function is None or facts.empty:
        return
    if facts.asks_key or facts.uncertain or facts.outside is None or (tool.home or tool.source) is not tool.source:
        return
    if any(_is_judged(sent) for sent in facts.keys) or _asks_elsewhere(tool, looking):
        return
    why = "idempotent" if tool.kind is EffectClass.IDEMPOTENT else "keyed"
    yield looking.remark(
        "SM105",
        tool,
        f"{tool.name} is {why}, so it is sent again after a lost answer, and its key goes nowhere: the repeat"
        " is a second"
        " effect",
        "idempotency_key=current_call().key",
    )


def _is_judged(sent: SentKey) -> bool:
    """Whether a sent key is the call's own, or left to the rules on keys."""
    found = {origin.partition(":")[0] for origin in sent.value.origins}
    return sent.sure and bool(found & {"key", "uuid", "random", "clock", "value", "model"})


def _asks_elsewhere(tool: Tool, looking: Looking) -> bool:
    release = tool.handler("release")
    return release is not None and (release.function is None or looking.handler_facts(tool, release).asks_key)


__all__ = ["handlers", "undo_by", "undo_for"]
