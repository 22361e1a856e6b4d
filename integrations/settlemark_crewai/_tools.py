"""CrewAI's tools from outside: their mark, their arguments, and which are CrewAI's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from crewai.tools import BaseTool
from pydantic import ValidationError

from settlemark.agents import Declared, not_taken
from settlemark_crewai._delegating import delegates
from settlemark_crewai._job import Job

MARK = "__settlemark__"
_OWN = ("crewai.tools.agent_tools", "crewai.tools.memory_tools", "crewai.skills", "crewai.tools.skill")


@dataclass(frozen=True, eq=False)
class Mark:
    """Marks a tool, or a function, as settled.

    Attributes:
        job: its job outside of a settled crew; None for a tool that is settled only inside one.
        effect: its declaration, if given.
    """

    job: Job | None = None
    effect: Declared | None = None

    def is_of(self, job: Job) -> bool:
        """Whether its calls have their places in the turns of this job."""
        own = self.job
        return own is None or own is job or not own.given or (own.settlement is job.settlement and own.run == job.run)


def mark_of(tool: object) -> Mark | None:
    """Return the mark of a settled tool or function, or None."""
    for place in (tool, getattr(tool, "func", None), getattr(type(tool), "_run", None)):
        found = getattr(place, "_settlemark" if place is tool and isinstance(tool, BaseTool) else MARK, None)
        if isinstance(found, Mark):
            return found
    return None


def is_crews_own(tool: BaseTool) -> bool:
    """Whether a tool is CrewAI's own machinery, which has no effects: it remembers, or reads a given file."""
    return type(tool).__module__.startswith(_OWN) and not delegates(tool)


def given_to(tool: BaseTool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return a model's arguments as the tool will get them, its defaults included.

    Raises:
        ValidationError: the tool does not take them.
    """
    if not tool.args_schema.model_fields:
        return dict(arguments)
    return tool.args_schema.model_validate(dict(arguments)).model_dump()


def takes(tool: BaseTool, arguments: Mapping[str, Any]) -> bool:
    """Whether a tool takes these arguments; where it does not CrewAI says so to the model."""
    try:
        given_to(tool, arguments)
    except Exception:  # a validator of the user's may raise anything
        return False
    return True


def same_but_defaults(asked: Any, first: Any, again: Any) -> bool:
    """Whether two results of parsing a model's arguments differ at most in what the model did not name.

    >>> same_but_defaults({"to": "7"}, {"to": 7, "ref": "a1"}, {"to": 7, "ref": "b2"})
    True
    >>> same_but_defaults({"to": "7"}, {"to": 7, "ref": "a1"}, {"to": 8, "ref": "a1"})
    False
    """
    match asked, first, again:
        case dict(), dict(), dict():
            made, remade = cast("dict[str, Any]", first), cast("dict[str, Any]", again)
            named = cast("dict[str, Any]", asked).keys() & made.keys()
            return made.keys() == remade.keys() and all(
                same_but_defaults(asked[name], made[name], remade[name]) for name in named
            )
        case list(), list(), list():
            rows = cast("list[list[Any]]", [asked, first, again])
            return len({len(row) for row in rows}) == 1 and all(map(same_but_defaults, *rows))
        case _:
            return bool(first == again)


def edited(tool: BaseTool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return a person's replacement arguments, as the tool will get them.

    Raises:
        UsageError: the tool does not take them.
    """
    unknown = sorted(arguments.keys() - tool.args_schema.model_fields.keys())
    try:
        if not unknown:
            return given_to(tool, arguments)
        wrong = [f"it has no {name!r}" for name in unknown]
    except ValidationError as error:
        wrong = [f"{'.'.join(map(str, found['loc']))}: {found['msg']}" for found in error.errors()]
    raise not_taken(tool.name, arguments, *wrong)


__all__ = ["MARK", "Mark", "edited", "given_to", "is_crews_own", "mark_of", "same_but_defaults", "takes"]
