"""Rules on the scope of one tool: does it name exactly what the tool touches?"""

from __future__ import annotations

from collections.abc import Iterator

from settlemark._model.effect_class import EffectClass
from settlemark.lint._looking import Looking, Remark, template_of
from settlemark.lint._source.facts import Address, Facts
from settlemark.lint._source.templates import Template
from settlemark.lint._source.tools import Tool
from settlemark.lint._source.words import (
    ACTS_FOR_SURE,
    PATHS,
    counterpart,
    is_address,
    is_free_text,
    parts_of,
    singular,
    verb_of,
)


def scopes(looking: Looking) -> Iterator[Remark]:
    """Yield what is wrong with each tool's scope, examined alone."""
    for tool in looking.tools:
        if not tool.declared or tool.kind is None or not tool.templates:
            continue
        facts = looking.facts(tool)
        yield from _unrefined(looking, tool)
        found = list(_by_use(looking, tool, facts))
        yield from found or _by_name(looking, tool, facts)
        if not any(remark.code == "SM203" for remark in found):
            yield from _free_text(looking, tool, facts)
        yield from _path(looking, tool, facts)


def _templates(tool: Tool) -> list[Template]:
    return tool.templates or []


def _text(tool: Tool) -> str:
    return " ".join(template.text for template in _templates(tool))


def _unrefined(looking: Looking, tool: Tool) -> Iterator[Remark]:
    if "may_touch" not in tool.parts or "refine" in tool.parts or tool.partial or not tool.acts:
        return
    broad = [template for template in _templates(tool) if template.broad and not _is_scope(tool, template)]
    if broad:
        yield looking.remark(
            "SM206",
            tool,
            f"{tool.name} holds {' '.join(t.text for t in broad)} until its step has settled: nothing says which"
            " of it was"
            " touched, so every other call on it waits",
            'refine=lambda result: f"…", which returns the scope that the result names',
            at="may_touch",
        )


def _is_scope(tool: Tool, template: Template) -> bool:
    scope = tool.parts.get("scope")
    return scope is not None and template is _templates(tool)[0]


# ---- by what the body does


def _known(tool: Tool, address: Address) -> tuple[str, ...]:
    return tuple(name for name in address.arguments if name in tool.arguments)


def _by_use(looking: Looking, tool: Tool, facts: Facts) -> Iterator[Remark]:
    fields = tool.fields
    told: set[tuple[str, ...]] = set()
    for address in facts.addresses:
        names = _known(tool, address)
        if not names or names in told or tool.kind is EffectClass.STAGED:
            continue
        told.add(names)
        if not fields:
            if tool.acts and "scope" in tool.parts:
                yield _too_broad(looking, tool, list(names), facts)
            return
        if not fields & set(names):
            if address.way == "read" and tool.acts:
                continue  # a lookup on the way
            yield _ignores(looking, tool, names, address)
        elif tool.acts and address.whole and address.way == "write" and set(names) < fields:
            extra = [name for name in tool.fields if name not in facts.arguments() and name in tool.arguments]
            if extra and not _elsewhere(facts, address, fields):
                yield _too_narrow(looking, tool, sorted(extra), address)
        elif tool.acts and address.way == "write" and fields < set(names) and _identity(names, fields):
            left = [name for name in names if name not in fields]
            yield looking.remark(
                "SM202",
                tool,
                f"the scope of {tool.name} leaves out {_and(left)}, which is part of what it touches ({address.shown}):"
                " calls that do not meet wait for each other",
                f'scope="{_with(tool, names, facts)}"',
                at="scope",
            )


def _identity(names: tuple[str, ...], fields: set[str]) -> bool:
    """Whether an argument left out of a scope is, by its name, an identity of its own."""
    return all(is_address(name) for name in names if name not in fields)


def _elsewhere(facts: Facts, address: Address, fields: set[str]) -> bool:
    """Whether another address of the tool uses the argument that this one leaves out."""
    return any(set(other.arguments) - set(address.arguments) & fields for other in facts.addresses if other != address)


def _ignores(looking: Looking, tool: Tool, names: tuple[str, ...], address: Address) -> Remark:
    word = "an argument" if len(names) == 1 else "arguments"
    return looking.remark(
        "SM201",
        tool,
        f"the scope of {tool.name} ignores {_and(names)}, {word} that it uses as an address"
        f" ({address.shown}): two calls"
        " on one of these do not wait for each other",
        _beside(tool, names, address),
        at="scope",
    )


def _beside(tool: Tool, names: tuple[str, ...], address: Address) -> str:
    kind = _type(tool)
    paths = names if address.medium == "file" else ()
    own = template_of(names, _noun(address) or kind, paths=paths)
    known = {name for other in (tool.fields,) for name in other}
    if any(is_address(name) or counterpart(name, tool.arguments) for name in known):
        return f'may_touch="{template_of(names, kind, paths=paths)}" beside its scope: both are held'
    return f'scope="{own}"'


def _too_narrow(looking: Looking, tool: Tool, extra: list[str], address: Address) -> Remark:
    names = _known(tool, address)
    verb = "is" if len(extra) == 1 else "are"
    return looking.remark(
        "SM203",
        tool,
        f"the scope of {tool.name} names {_and(extra)}, which {verb} no part of what it touches ({address.shown}): two"
        f" calls on one {_and(names)} have different scopes, and both go on",
        f'scope="{_without(tool, extra)}"',
        at="scope",
    )


def _too_broad(looking: Looking, tool: Tool, names: list[str], facts: Facts) -> Remark:
    return looking.remark(
        "SM202",
        tool,
        f"the scope of {tool.name} is {_text(tool)} whatever {_and(names)}"
        f" {'is' if len(names) == 1 else 'are'}: every call"
        " waits for every other",
        f'scope="{_with(tool, tuple(names), facts)}"',
        at="scope",
    )


# ---- by what the names say


def _by_name(looking: Looking, tool: Tool, facts: Facts) -> Iterator[Remark]:
    if not tool.acts or tool.kind is EffectClass.STAGED:
        return
    fields = tool.fields
    for name in sorted(fields):
        other = counterpart(name, tool.arguments)
        if other is not None and other not in fields:
            held = template_of([other], _type(tool), paths=_paths([other]))
            yield looking.remark(
                "SM201",
                tool,
                f"the scope of {tool.name} names {name} and ignores {other}, the other end of it: two calls on one of"
                " these do not wait for each other",
                f'may_touch="{held}" beside its scope: both are held',
                at="scope",
            )
            return
    verb = verb_of(tool.name)
    sends = verb is None or verb[1] in ACTS_FOR_SURE  # `to` may be a person, or the new value of something
    addresses = [name for name in tool.arguments if is_address(name) and (sends or name != "to")]
    if not fields and addresses and "scope" in tool.parts:
        yield _too_broad(looking, tool, addresses[:2], facts)
        return
    strong = [name for name in addresses if is_address(name, strong=True) and name in facts.used]
    if strong and not set(strong) & fields and not any(is_free_text(name) for name in fields):
        yield looking.remark(
            "SM201",
            tool,
            f"the scope of {tool.name} ignores {_and(strong)}, an argument that by its name is an address: two"
            " calls on one"
            " of these do not wait for each other",
            f'scope="{template_of(strong[:1], _type(tool), paths=_paths(strong))}"',
            at="scope",
        )


def _free_text(looking: Looking, tool: Tool, facts: Facts) -> Iterator[Remark]:
    if not tool.acts:
        return
    used = set(facts.arguments())
    texts = [name for name in sorted(tool.fields) if is_free_text(name) and name not in used]
    if not texts:
        return
    rest = [name for name in tool.fields if name not in texts]
    better = [name for name in tool.arguments if is_address(name) and name not in texts]
    mend = _without(tool, texts) if rest else template_of(better[:1] or ["…"], _type(tool), paths=_paths(better))
    told = "" if rest or better else ", with the argument that says which one it touches"
    yield looking.remark(
        "SM203",
        tool,
        f"the scope of {tool.name} names {_and(texts)}, which a model writes anew each time: two calls on one"
        " resource have"
        " different scopes, and both go on",
        f'scope="{mend}"{told}',
        at="scope",
    )


def _path(looking: Looking, tool: Tool, facts: Facts) -> Iterator[Remark]:
    several = {name for t in _templates(tool) for s in t.segments if s.several for name in s.fields}
    files = {name for address in facts.addresses if address.medium == "file" for name in address.arguments}
    for name in sorted(tool.fields - several):
        if name in files or parts_of(name)[-1:][0] in PATHS:
            text = _text(tool).replace(f"{{{name}}}", f"{{{name}:path}}")
            yield looking.remark(
                "SM204",
                tool,
                f"the scope of {tool.name} takes {name}, a path, as one segment: a.txt, ./a.txt and d/../a.txt are"
                " three"
                " scopes of one file, and no folder overlaps what is in it",
                f'scope="{text}"',
                at="scope",
            )


# ---- texts


def _paths(names: list[str]) -> list[str]:
    return [name for name in names if parts_of(name)[-1] in PATHS]


def _type(tool: Tool) -> str:
    return _templates(tool)[0].type


def _noun(address: Address) -> str | None:
    if address.medium == "file":
        return "file"
    return singular(address.resource[-1]) if address.medium == "table" else None


def _with(tool: Tool, names: tuple[str, ...], facts: Facts) -> str:
    files = {name for address in facts.addresses if address.medium == "file" for name in address.arguments}
    return template_of(names, _type(tool), paths=files | set(_paths(list(names))))


def _without(tool: Tool, extra: list[str]) -> str:
    kept = [name for template in _templates(tool)[:1] for name in template.fields if name not in extra]
    return template_of(kept, _type(tool), paths=_paths(kept))


def _and(names: list[str] | tuple[str, ...]) -> str:
    return " and ".join(f"`{name}`" for name in names)


__all__ = ["scopes"]
