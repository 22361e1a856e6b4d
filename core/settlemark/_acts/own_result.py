"""A tool's own result, beside the answer that a framework has made of it: handlers get the one, models the other."""

from __future__ import annotations

from typing import Any, Final, cast

_OWN: Final = "$own"
_ANSWER: Final = "$answer"


def with_answer(own: Any, answer: Any) -> dict[str, Any]:
    """Return what a shim has recorded of a tool's result (`pack=`): undo, probe and release get `own` of it.

    Args:
        own: what the tool itself returned, a JSON value.
        answer: what the framework made of it, from which the shim makes the model's answer again; a JSON value.

    >>> recorded = with_answer({"id": 7}, "{'id': 7}")
    >>> own_of(recorded), answer_in(recorded), own_of({"id": 7}), answer_in({"id": 7})
    ({'id': 7}, "{'id': 7}", {'id': 7}, None)
    """
    return {_OWN: own, _ANSWER: answer}


def own_of(recorded: Any) -> Any:
    """Return the tool's own result of a recorded one."""
    return cast("dict[str, Any]", recorded)[_OWN] if _is_both(recorded) else recorded


def answer_in(recorded: Any) -> Any:
    """Return the framework's answer of a recorded result, or None where only the tool's own is recorded."""
    return cast("dict[str, Any]", recorded)[_ANSWER] if _is_both(recorded) else None


def _is_both(recorded: Any) -> bool:
    # By its type alone: a result that was never recorded may raise whatever it is asked.
    return type(recorded) is dict and set(cast("dict[str, Any]", recorded)) == {_OWN, _ANSWER}


__all__ = ["answer_in", "own_of", "with_answer"]
