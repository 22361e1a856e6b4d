"""Rules on pairs of tools: do tools that share a resource ever overlap?"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from settlemark._model.effect_class import EffectClass
from settlemark.lint._looking import Looking, Remark
from settlemark.lint._rules.scopes import scopes
from settlemark.lint._source.facts import Address
from settlemark.lint._source.templates import Template
from settlemark.lint._source.tools import Tool


def sharing(looking: Looking) -> Iterator[Remark]:
    """Yield pairs of tools whose scopes never overlap though they share a resource, each tool once."""
    told: set[int] = set()
    # A tool with a wrong resource is reported already: whom it overlaps is unknown until that is corrected.
    lost = {id(remark.about) for remark in scopes(looking) if remark.code == "SM201"}
    declared = [tool for tool in looking.tools if tool.declared and tool.kind is not None and id(tool) not in lost]
    for one, other in combinations(declared, 2):
        if one.name == other.name or not (one.acts or other.acts) or id(other) in told:
            continue
        remark = _apart(looking, one, other)
        if remark is not None:
            told.add(id(other))
            yield remark
    for tool in declared:
        if id(tool) not in told and tool.kind is EffectClass.READ and not tool.parts and not tool.partial:
            yield from _unscoped_read(looking, tool, declared)


def _apart(looking: Looking, one: Tool, other: Tool) -> Remark | None:
    if not one.templates or not other.templates:
        return None
    pairs = [(a, b) for a in one.templates for b in other.templates]
    shared = _shared(looking, one, other)
    for a, b in pairs:
        argument = a.misplaced(b)
        if argument is not None and not any(a.may_overlap(b) and not a.misplaced(b) for a, b in pairs):
            return looking.remark(
                "SM205",
                other,
                f"{one.name} ({a.text}) and {other.name} ({b.text}) name {argument} at different places: their scopes"
                " overlap by accident only, so the two do not wait for each other",
                f'scope="{a.text}", as {one.name} has it',
                at="scope",
            )
    if any(a.may_overlap(b) for a, b in pairs):
        return None
    alike = next(((a, b) for a, b in pairs if a.looks_like(b)), None)
    if alike is None and shared is None:
        return None
    a, b = alike or pairs[0]
    why = f"share {shared}" if shared is not None else f"say {a.type} and {b.type}, two spellings of one word"
    return looking.remark(
        "SM205",
        other,
        f"{one.name} ({a.text}) and {other.name} ({b.text}) {why}: their scopes never overlap, so the two do"
        " not wait for"
        " each other",
        f'scope="{_moved(b, a.type)}", of the type that {one.name} has',
        at="scope",
    )


def _moved(template: Template, kind: str) -> str:
    return f"{kind}:{template.text.partition(':')[2]}"


def _shared(looking: Looking, one: Tool, other: Tool) -> str | None:
    """Return the resource that both reach, as far as their texts show; one of them changes it."""
    same_file = (one.home or one.source) is (other.home or other.source)
    for mine in looking.facts(one).addresses:
        for theirs in looking.facts(other).addresses:
            if mine.medium != theirs.medium or (mine.medium == "object" and not same_file):
                continue
            if mine.way == theirs.way != "write" or not _same(mine, theirs):
                continue  # two reads, or two creations, do not clash
            return _shown(mine)
    return None


def _same(mine: Address, theirs: Address) -> bool:
    if mine.resource != theirs.resource:
        return False
    # A place without anything that identifies it proves nothing.
    return mine.resource[1:] not in {("any",), ("",), ("{}",)} or bool(mine.arguments and theirs.arguments)


def _shown(address: Address) -> str:
    name = "/".join(address.resource[1:])
    match address.medium:
        case "table":
            return f"the table {name}"
        case "url":
            return f"/{name}" if name != "any" else "what their URLs name"
        case "file":
            return "the files that their arguments name" if name == "any" else name
        case "object":
            return ".".join(address.resource[1:2]) + "".join(f" ({each})" for each in address.resource[2:])


def _unscoped_read(looking: Looking, tool: Tool, declared: list[Tool]) -> Iterator[Remark]:
    for other in declared:
        if other.acts and other.templates and (shared := _shared(looking, other, tool)) is not None:
            yield looking.remark(
                "SM207",
                tool,
                f"{tool.name} reads {shared}, which {other.name} changes, and names no scope: what a plan read there"
                " may"
                " change, and it settles all the same",
                f'"read", scope="{_readable(other.templates[0], tool)}"',
            )
            return


def _readable(template: Template, tool: Tool) -> str:
    """Return as much of a template as the reader's arguments can fill."""
    if tool.takes_anything or set(template.fields) <= set(tool.arguments):
        return template.text
    kind, _, path = template.text.partition(":/")
    kept: list[str] = []
    for text, segment in zip(path.split("/"), template.segments, strict=False):
        if not set(segment.fields) <= set(tool.arguments):
            break
        kept.append(text)
    return f"{kind}:/{'/'.join(kept)}"


__all__ = ["sharing"]
