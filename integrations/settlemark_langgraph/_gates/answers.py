"""Answers to gates in the forms in which LangChain's own approvals take them, besides settlemark's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from settlemark.hosting import approve, edit, reject

_FIELDS = frozenset({"type", "message", "edited_action", "args"})
_YES, _NO = ("approve", "accept"), ("reject", "ignore", "respond", "response")


def as_answer(given: Any, tool: str) -> Any:
    """Return the answer to one gate as settlemark's; what is in no form of LangChain's stays as it is.

    These are `{"decisions": […]}` with one decision, a list of one (as agent inboxes send it), and the decision alone:
    `{"type": "approve" | "edit" | "reject" | "respond", …}`. A response stands for a no: the call did not run, and the
    model is told what the person wrote.

    >>> as_answer({"decisions": [{"type": "approve"}]}, "mail")
    {'decision': 'approve'}
    >>> as_answer({"type": "edit", "edited_action": {"name": "mail", "args": {"to": "bee"}}}, "mail")
    {'decision': 'edit', 'arguments': {'to': 'bee'}}
    >>> as_answer([{"type": "ignore", "args": None}], "mail"), as_answer({"decision": "approve"}, "mail")
    ({'decision': 'reject', 'because': None}, {'decision': 'approve'})
    """
    found: Any = given
    if isinstance(found, Mapping) and set(cast("Mapping[str, Any]", found)) == {"decisions"}:
        found = cast("Any", found["decisions"])
    if isinstance(found, list):
        several: Any = cast("Any", found)
        found = several[0] if len(several) == 1 else None
    if not isinstance(found, Mapping):
        return given
    decision = cast("Mapping[str, Any]", found)
    if not decision.keys() <= _FIELDS:
        return given
    kind, said = decision.get("type"), decision.get("message")
    if kind in _YES and said is None:
        return approve()
    if kind in _NO:
        old = decision.get("args")
        return reject(said if said is not None else old if isinstance(old, str) else None)
    if kind == "edit":
        action: Any = decision.get("edited_action", decision.get("args"))
        if isinstance(action, Mapping):
            return _edited(cast("Mapping[str, Any]", action), tool, given)
    misspelt = isinstance(kind, str) and kind not in (*_YES, *_NO, "edit")
    return {"decision": kind} if misspelt else given  # the refusal names it: 'aprove' is not a decision


def _edited(action: Mapping[str, Any], tool: str, given: Any) -> Any:
    name: Any = action.get("name", action.get("action", tool))
    arguments: Any = action.get("args", action)
    if name != tool or not isinstance(arguments, Mapping):
        return given
    return edit(cast("Mapping[str, Any]", arguments))


__all__ = ["as_answer"]
