"""A `check=` for tools that say something: the text is looked at before the call is recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from settlemark._acts.current import current_call
from settlemark._acts.perform import Program
from settlemark._api.checked import checked_text
from settlemark._attempt.part import inside_of
from settlemark._edges.errors import UsageError
from settlemark._runtime.aio import run_async
from settlemark._runtime.sync import run_sync


def guard_of(argument: str, holding: Callable[[str, str], Program[Any]], *, awaited: bool) -> Callable[..., Any]:
    """Return a `check=` that holds the text of a tool's argument, with the run of its call.

    Args:
        argument: the name of the argument.
        holding: returns the program that holds a text of a run, or raises.
        awaited: something of the user's in it has to be awaited, so that the check is async.
    """
    argument = checked_text(argument, "guard() takes the name of the tool's argument that has the text")

    def told(given: Mapping[str, Any]) -> tuple[str, str]:
        inside = inside_of(current_call())
        if inside is None or argument not in given:
            raise UsageError(f"guard({argument!r}) looks at a call's argument {argument!r}, and there is none here")
        return str(given[argument]), inside.attempt.run

    async def look_async(**given: Any) -> None:
        await run_async(holding(*told(given)))

    def look(**given: Any) -> None:
        run_sync(holding(*told(given)))

    return look_async if awaited else look


__all__ = ["guard_of"]
