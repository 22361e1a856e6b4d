"""What redaction means for recovery: after a crash, handlers get the recorded arguments and no others."""

from __future__ import annotations

import re
from collections.abc import Iterable

from settlemark._model.declaration import EVERY, ROLES, Declaration, Handler, Role
from settlemark.ledger._payloads.redaction import Redaction, withheld
from settlemark.ledger._payloads.unreadable import Unreadable

_FIELD = re.compile(r"\{([^{}:]+)(?::path)?\}")


def needed_by_handlers(declaration: Declaration) -> set[str]:
    """Return the arguments that an undo, probe or release of this tool may ask for after a crash.

    A held effect without a release needs all of the tool's arguments: the tool itself runs. `"*"` stands for arguments
    with unknown names.

    >>> from settlemark._model.declare import declare
    >>> def pay(to: str, token: str) -> str: ...
    >>> needed_by_handlers(declare("pay", "reversible", scope="shop:/{to}", function=pay, undo=lambda token: None))
    {'token'}
    """
    return {name for role in ROLES for name in declaration.needed[role]}


def objections(declaration: Declaration, redactions: Iterable[Redaction]) -> list[str]:
    """Return warnings about a tool's declaration under these rules, one sentence each.

    Rules that are a function, or begin with `*`, can be applied only to a payload: see `cannot_run`.
    """
    told: list[str] = []
    for redaction in redactions:
        for role in ROLES:
            needed = declaration.needed[role]
            rules = redaction.rules() if EVERY in needed else [r for name in needed for r in redaction.rules((name,))]
            sure = sorted({rule for rule in rules if rule == EVERY or not rule.startswith(EVERY)})
            if sure:
                told.append(_lost(role, declaration, sure))
        fields = dict.fromkeys(name for template in declaration.templates for name in _FIELD.findall(template.text))
        told.extend(
            f"the scope of {declaration.tool} names `{field}`, which redact= removes from its arguments: scopes are"
            " recorded as they are; name another field in the scope, or a digest of this one"
            for field in fields
            # A rule about a part of the field removes nothing from a scope: a value with parts fills no segment.
            if any(rule.count(".") <= field.count(".") for rule in redaction.rules(tuple(field.split("."))))
        )
    return told


def cannot_run(role: Role, declaration: Declaration, arguments: str, result: str | None) -> str | None:
    """Return why a handler must not run on these recorded payloads, or None.

    It would send a marker to the counterparty in place of the secret. A handler that asks for `result` does not run if
    anything is missing, since nobody knows which of its fields it reads.
    """
    needed = declaration.needed[role]
    asks_for_result = _asks_for_result(declaration, role, needed)
    for text, what in ((arguments if needed else None, "arguments"), (result if asks_for_result else None, "result")):
        if isinstance(text, Unreadable):
            return f"{_what(role, declaration)} needs its {what}, which nobody here can read: {text.why}"
    lacking = withheld(arguments)
    lost = sorted(path for path in lacking if not path or EVERY in needed or path.split(".")[0] in needed)
    if asks_for_result:
        lost += [f"result.{path}" if path else "result" for path in sorted(withheld(result))]
    return _lost(role, declaration, lost) if lost else None


def withheld_from(declaration: Declaration, arguments: str, result: str | None) -> dict[str, str]:
    """Return by role which handlers must not run on these recorded payloads, and why."""
    found = {role: cannot_run(role, declaration, arguments, result) for role in ROLES}
    return {role: why for role, why in found.items() if why is not None}


def _asks_for_result(declaration: Declaration, role: Role, needed: frozenset[str]) -> bool:
    handler: Handler | None = getattr(declaration, role)
    return handler is not None and handler.takes("result") and "result" not in needed


def _what(role: Role, declaration: Declaration) -> str:
    tool = declaration.tool
    return f"{role} of {tool}" if getattr(declaration, role) is not None else f"{tool} itself, which is held,"


def _lost(role: Role, declaration: Declaration, paths: list[str]) -> str:
    what = _what(role, declaration)
    fields = ", ".join(f"`{path}`" for path in paths)
    them = "it" if len(paths) == 1 else "them"
    return (
        f"{what} needs {fields}, which redact= removes: it could not run after a crash; let it look {them} up by a"
        f" field that is kept, or take {them} off redact= and use encrypt="
    )


__all__ = ["cannot_run", "needed_by_handlers", "objections", "withheld_from"]
