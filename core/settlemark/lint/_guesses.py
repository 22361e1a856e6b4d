"""Guesses what an undeclared tool does: from hints, name, docstring and body, with the reasons.

Of two possible guesses it takes the safer: held rather than eager, a broader scope rather than a narrower.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from settlemark._model.effect_class import EffectClass
from settlemark.lint._looking import Looking, template_of
from settlemark.lint._rules.handlers import undo_by
from settlemark.lint._source.facts import Facts
from settlemark.lint._source.templates import Template
from settlemark.lint._source.tools import Tool
from settlemark.lint._source.words import (
    ACTS_FOR_SURE,
    PATHS,
    Act,
    inverse_of,
    is_address,
    nouns_of,
    parts_of,
    singular,
    verb_of,
)

_FOR_GOOD = re.compile(
    r"\b(can(?:not|'t| not) be (?:undone|reversed|taken back)|irreversibl\w*|permanently)\b", re.IGNORECASE
)
_TYPE = re.compile(r"[^a-z0-9._+-]")


@dataclass(frozen=True, slots=True)
class Guess:
    """The guess about a tool.

    Attributes:
        tool: its name.
        file: its function's file; `line` in it.
        kind: the class.
        scope: the template; None for a read that names nothing.
        undo: the expression for `undo=`; None without.
        handler: the module and function that `undo` needs, when they can be imported.
        reasons: why, one sentence each.
    """

    tool: str
    file: str
    at: int
    kind: EffectClass
    scope: str | None
    undo: str | None
    handler: tuple[str, str] | None
    reasons: tuple[str, ...]

    @property
    def parts(self) -> list[str]:
        """The arguments of the declaration, as written."""
        found = [quoted(self.tool), f'"{self.kind}"']
        if self.scope is not None:
            found.append(f'scope="{self.scope}"')
        if self.undo is not None:
            found.append(f"undo={self.undo}")
        return found

    @property
    def line(self) -> str:
        """The declaration as one line of code."""
        return f"settlement.declare({', '.join(self.parts)})"


def quoted(text: str) -> str:
    """Return a text as code, in double quotes.

    >>> quoted("mail")
    '"mail"'
    """
    return json.dumps(text, ensure_ascii=False)


def guess(looking: Looking, tool: Tool) -> Guess:
    """Return the guess about one tool."""
    facts = looking.facts(tool)
    home = tool.home or tool.source
    file, line = home.place(tool.line if tool.function is None else tool.function.lineno)
    kind, undo, handler, reasons = _kind(looking, tool, facts)
    scope, why = _scope(tool, facts, kind)
    return Guess(tool.name, file, line, kind, scope, undo, handler, (*reasons, *why))


def guesses(looking: Looking, tools: Sequence[Tool]) -> list[Guess]:
    """Return guesses about some tools, with overlapping scopes for those of one resource."""
    found = [guess(looking, tool) for tool in tools]
    declared = [template for tool in looking.tools if tool.declared for template in tool.templates or ()]
    return [_aligned(each, found, declared) for each in found]


# ---- the class


_Told = tuple[EffectClass, str | None, tuple[str, str] | None, list[str]]


def _kind(looking: Looking, tool: Tool, facts: Facts) -> _Told:  # noqa: PLR0911 - the first clue decides
    word, act = verb_of(tool.name) or ("", None)
    hinted = _by_hints(tool)
    if hinted is not None:
        return hinted
    for_good = _FOR_GOOD.search(tool.doc)
    if for_good is not None:
        return EffectClass.IRREVERSIBLE, None, None, [f'its docstring says "{for_good[0]}"']
    inverse = _inverse(looking, tool)
    if inverse is not None:
        return inverse
    if act in ACTS_FOR_SURE:
        return EffectClass.IRREVERSIBLE, None, None, [f'its name says "{word}": held until its step has succeeded']
    if act is Act.READ and facts.hard is None:
        return EffectClass.READ, None, None, [f'its name says "{word}", and its body shows no change']
    changed = next((each for each in facts.written), None)
    if changed is not None:
        why = [f"its body changes something ({changed.what}), and nothing here is known to take it back: held"]
        return EffectClass.IRREVERSIBLE, None, None, why
    if not facts.empty and facts.outside is None and not facts.uncertain:
        return EffectClass.READ, None, None, ["its body changes nothing and calls nothing outside"]
    if act is not None:
        why = [f'its name says "{word}", and nothing is known to take it back: held']
        return EffectClass.IRREVERSIBLE, None, None, why
    return EffectClass.IRREVERSIBLE, None, None, ["nothing tells what it does: held, which is the safe guess"]


def _by_hints(tool: Tool) -> _Told | None:
    if tool.hints.get("readOnlyHint"):
        return EffectClass.READ, None, None, ["its hints say readOnlyHint=True"]
    if tool.hints.get("destructiveHint"):
        return EffectClass.IRREVERSIBLE, None, None, ["its hints say destructiveHint=True"]
    return None


def _inverse(looking: Looking, tool: Tool) -> _Told | None:
    names = looking.names
    own = tool.function
    found = inverse_of(tool.name, [name for name, (_, function) in names.items() if function is not own])
    if found is None:
        return None
    source, function = names[found]
    file, line = source.place(function.lineno)
    where = f"{found} ({file}:{line})"
    if function not in source.tree.body or not source.module.replace(".", "_").isidentifier():
        told = f"{where} looks like its undo, and cannot be imported from there: held, until it can"
        return EffectClass.IRREVERSIBLE, None, None, [told]
    undo = undo_by(found, function, tool.arguments)
    why = [f"{where} looks like its undo"]
    if undo != found:
        why.append("the fields of its result that the undo takes are a guess")
    return EffectClass.REVERSIBLE, undo, (source.module, found), why


# ---- the scope


def _scope(tool: Tool, facts: Facts, kind: EffectClass) -> tuple[str | None, list[str]]:
    by_use = [name for name in facts.arguments() if name in tool.arguments]
    entity, named = _entity(tool, facts)
    why = [named]
    if by_use:
        names = [name for name in tool.arguments if name in by_use]
        why.append(f"{_and(names)}: used as an address")
    else:
        names = _named(tool)
        why += [f"{_and(names)}: an address by its name"] if names else []
    if not names:
        if kind is EffectClass.READ:
            return None, []
        return f"{entity}:/", [*why, "no argument says which one: all calls wait for each other"]
    files = {name for address in facts.addresses if address.medium == "file" for name in address.arguments}
    paths = [name for name in names if name in files or parts_of(name)[-1] in PATHS]
    return template_of(names, entity, paths=paths), why


def _named(tool: Tool) -> list[str]:
    """Return the one argument whose name identifies the resource: a narrower scope needs a person."""
    strong = [name for name in tool.arguments if is_address(name, strong=True)]
    weak = [name for name in tool.arguments if is_address(name)]
    return (strong or weak)[:1]


def _entity(tool: Tool, facts: Facts) -> tuple[str, str]:
    """Return the scope's type, and why."""
    for address in facts.addresses:
        if address.medium == "table":
            return _typed(singular(address.resource[1])), f"it reaches the table {address.resource[1]}"
        if address.medium == "file":
            return "file", f"it reaches a file ({address.shown})"
        if address.medium == "url" and address.resource[1:] not in {("any",), ("",)}:
            return _typed(singular(address.resource[-1])), f"it reaches /{'/'.join(address.resource[1:])}"
    verb, _ = verb_of(tool.name) or ("", None)
    nouns = nouns_of(tool.name)
    if verb in {"email", "mail"}:
        return "mail", f'its name says "{verb}"'
    if nouns:
        word = {"email": "mail"}.get(nouns[-1], nouns[-1])
        return _typed(singular(word)), f'its name says "{nouns[-1]}"'
    return _typed(parts_of(tool.name)[0]), "its name says no more"


def _typed(word: str) -> str:
    plain = _TYPE.sub("-", word.lower()).strip("-.")
    return plain if len(plain) > 1 and plain[0].isalpha() else f"the-{plain or 'thing'}"


def _and(names: Sequence[str]) -> str:
    return ", ".join(names)


def _aligned(own: Guess, others: Sequence[Guess], declared: Sequence[Template]) -> Guess:
    """Return a guess whose scope overlaps those of the same resource: broader, if they use other arguments."""
    mine = Template.parse(own.scope or "")
    if mine is None:
        return own
    theirs = [t for each in others if each is not own and (t := Template.parse(each.scope or "")) is not None]
    kin = [template for template in (*theirs, *declared) if template.type == mine.type and template.text != mine.text]
    strangers = [template for template in kin if not set(template.fields) & set(mine.fields)]
    if strangers and mine.fields:
        theirs_is = _and(strangers[0].fields) or "nothing"
        why = f"others name {mine.type} by {theirs_is}: all of {mine.type}, so that they meet"
        return replace(own, scope=f"{mine.type}:/", reasons=(*own.reasons, why))
    shared = [name for name in mine.fields if all(name in template.fields for template in kin)]
    if kin and list(mine.fields) != shared:
        paths = [name for segment in mine.segments if segment.several for name in segment.fields]
        why = f"others name {mine.type} by {_and(shared)} alone: so does this, so that they meet"
        return replace(own, scope=template_of(shared, mine.type, paths=paths), reasons=(*own.reasons, why))
    return own


__all__ = ["Guess", "guess", "guesses", "quoted"]
