"""The job of a crew's, or an agent's, tools: a settlement, and the user's run id."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from crewai.tools import BaseTool
from crewai.utilities.string_utils import sanitize_tool_name

from settlemark import Settlement, UsageError
from settlemark.agents import (
    AgentRun,
    Declarations,
    Declared,
    Learned,
    Settles,
    Unsettled,
    Work,
    refuse_bad_options,
    refuse_bad_primer,
    refuse_unknown_choice,
)
from settlemark.hosting import Order, Park
from settlemark_crewai._delegating import delegation, names_of_delegation
from settlemark_crewai._private import NAMES

Settle = Literal["turn", "task", "crew"]
"""What settles together: the calls of a turn, all of a task's, or all of a crew's."""

_OURS: Mapping[str, Settles] = {"turn": "turn", "task": "part", "crew": "run"}
_default: list[Settlement] = []
_defaulting = threading.Lock()
_runs: weakref.WeakValueDictionary[tuple[int, str], AgentRun] = weakref.WeakValueDictionary()


class Job:
    """The settlement of some tools, and their run id.

    Attributes:
        given: a settlement was given; else it is that of the crew, or the default one.
        run: the user's id, or None.
        unsettled: what becomes of work that this release of CrewAI gives no turns.
        primer: whether its models are told what the record says when it is taken up again.
    """

    def __init__(
        self,
        settlement: Settlement | None,
        run: str | None = None,
        *,
        settle: Settle = "turn",
        effects: Mapping[str, Declared] | None = None,
        order: Order = "turn",
        park: Park = "keep",
        may_touch: str | Sequence[str] = (),
        unsettled: Unsettled = "refuse",
        primer: bool = False,
    ) -> None:
        if settle not in _OURS:
            raise UsageError(f"settle={settle!r}: choose one of {', '.join(map(repr, _OURS))}")
        if settlement is not None:
            refuse_bad_options(settlement, settle=_OURS[settle], order=order, park=park, run=run)
        refuse_unknown_choice(unsettled)
        refuse_bad_primer(primer)
        if settlement is not None:
            NAMES.refuse_without(settlement, unsettled)
        self.given = settlement is not None
        self.unsettled: Unsettled = unsettled
        self.run = run
        self.primer = primer
        self._settlement = settlement
        self._settle: Settles = _OURS[settle]
        self._effects = {sanitize_tool_name(name): declared for name, declared in (effects or {}).items()}
        self._order: Order = order
        self._park: Park = park
        self._may_touch = may_touch
        self._declarations: Declarations | None = None
        self._loose: AgentRun | None = None
        self._options = {
            "settle": settle,
            "effects": effects,
            "order": order,
            "park": park,
            "may_touch": may_touch,
            "unsettled": unsettled,
            "primer": primer,
        }
        self._lock = threading.Lock()
        if settlement is not None:
            _ = self.declarations  # a bad declaration is reported now, not to a model

    @property
    def settlement(self) -> Settlement:
        """The given settlement, or `Settlement()`, one for all tools without one."""
        if self._settlement is None:
            with _defaulting:
                if not _default:
                    _default.append(Settlement())
                NAMES.refuse_without(_default[0], self.unsettled)
                self._settlement = _default[0]
        return self._settlement

    @property
    def declarations(self) -> Declarations:
        """Its tools' declarations."""
        settlement = self.settlement
        with self._lock:
            if self._declarations is None:
                self._declarations = Declarations(settlement, self._effects, owner="this crew")
            return self._declarations

    def named(self, run: str | None) -> Job:
        """Return the same job under another id."""
        return Job(self._settlement, run, **cast("Any", self._options))

    def learn(self, name: str, tool: BaseTool, effect: Declared | None = None) -> Learned:
        """Add a tool under its name for models, and return it; `effect` is its declaration, if given."""
        function = getattr(tool, "func", None)
        places = (type(tool), type(tool)._run)  # noqa: SLF001 - where `@effect` may stand on a class
        arguments = tuple(tool.args_schema.model_fields)
        return self.declarations.learn(name, function, declared_on=places, arguments=arguments, effect=effect)

    def expect_delegation(self) -> None:
        """Declare the tools that delegate, so that what an ended process had open of them can be ended."""
        for name in names_of_delegation():
            if name not in self._effects:
                Declarations(self.settlement, {name: delegation(name, self.run or "any")})

    def declares(self, name: str) -> bool:
        """Whether the job's own `effects=` say what a tool does."""
        return name in self._effects

    def begin(self) -> AgentRun:
        """Return a beginning of the job."""
        return AgentRun(
            self.settlement,
            self.run,
            settle=self._settle,
            order=self._order,
            park=self._park,
            may_touch=self._may_touch,
        )

    def loose(self) -> Work:
        """Return the work of calls that no agent makes."""
        if self._loose is None:
            self._loose = self.joined()
        return self._loose.work()

    def joined(self) -> AgentRun:
        """Return the job as it runs in this process, or a new run of it."""
        if self.run is None:
            return self.begin()
        key = (id(self.settlement), self.run)
        with _defaulting:
            found = _runs.get(key)
            if found is None or found.settlement is not self.settlement:
                found = _runs[key] = self.begin()
            return found


__all__ = ["Job", "Settle"]
