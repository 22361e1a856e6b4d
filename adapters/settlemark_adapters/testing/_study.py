"""What the kit knows of an adapter: its tools, and what a clean run of each example leaves."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from settlemark import Declaration, EffectClass, Scope
from settlemark.hosting import in_words
from settlemark_adapters.testing._bench import UNDOABLE, Worlds, known_of, made, tool_of
from settlemark_adapters.testing._likeness import common, fits
from settlemark_adapters.testing._lines import Moment
from settlemark_adapters.testing._report import Failed, NotApplicable
from settlemark_adapters.testing._subject import Example, Subject

POINTS = 6


@dataclass(slots=True)
class Clean:
    """The world before, between the call and the end, and after a clean run of an example, and its result."""

    nothing: Any
    between: Any
    all: Any
    result: Any
    again: Clean | None = None


class Study:
    """An adapter under examination.

    Args:
        subject: its description.
        points: see `conformance`.

    Attributes:
        moments: of an example's acts, by its identity, once they are known.
    """

    def __init__(self, subject: Subject, *, points: int | None = POINTS) -> None:
        self.subject = subject
        self.points = points
        self._folder = tempfile.TemporaryDirectory(prefix="settlemark-kit-", ignore_cleanup_errors=True)
        weakref.finalize(self, self._folder.cleanup)
        self._clean: dict[int, Clean] = {}
        self.moments: dict[int, list[Moment]] = {}
        self._stack = ExitStack()
        weakref.finalize(self, self._stack.close)
        place = self._stack.enter_context(subject.world())
        with made(subject, None, place) as adapter:
            self.adapter = type(adapter)
            self.tools = {str(getattr(tool, "__name__", "")): tool for tool in adapter.tools()}
            self._names = {name: str(tool_of(adapter, name).__name__) for name in {e.tool for e in subject.examples}}
            # Computed while the world exists: a scope may be that of a link's target.
            self._scopes = {id(example): self._scopes_of(example) for example in subject.examples}
        self.shared = place if callable(getattr(place, "reset", None)) else None
        if self.shared is None:
            self._stack.close()

    def _scopes_of(self, example: Example) -> tuple[Scope, ...] | Exception:
        known = self.declaration(example)
        try:
            return known.scopes(known.arguments((), dict(example.arguments)))
        except Exception as error:
            return error

    def examples(self, tool: str) -> list[Example]:
        """Return the examples of a tool."""
        return [example for example in self.subject.examples if self._names[example.tool] == tool]

    def declaration(self, example: Example) -> Declaration:
        """Return the declaration of an example's tool."""
        return known_of(self.tools[self._names[example.tool]])

    def scopes(self, example: Example) -> tuple[Scope, ...]:
        """Return the declared scopes of an example's call.

        Raises:
            Failed: its arguments are refused.
        """
        found = self._scopes[id(example)]
        if isinstance(found, Exception):
            raise Failed(
                f"the arguments of {shown(example)} are refused: {in_words(found)}",
                "give it arguments that its scopes can be made of",
            ) from found
        return found

    def meet(self, one: Example, other: Example) -> bool:
        """Whether two examples' declared scopes overlap."""
        return any(mine.overlaps(theirs) for mine in self.scopes(one) for theirs in self.scopes(other))

    @contextmanager
    def worlds(self, example: Example) -> Generator[Worlds]:
        """Yield counterparties for an example."""
        worlds = Worlds(self.subject, example, Path(self._folder.name), self.shared)
        try:
            yield worlds
        finally:
            worlds.close()

    def sample(self, moments: list[Any]) -> list[Any]:
        """Return the members to try, the first and the last among them."""
        wanted = self.points
        if wanted is None or len(moments) <= wanted:
            return moments
        if wanted <= 1:
            return moments[-1:][:wanted]
        return [moments[n * (len(moments) - 1) // (wanted - 1)] for n in range(wanted)]

    # ---- clean runs

    def clean(self, example: Example) -> Clean:
        """Return what a clean run of an example leaves, from an earlier run if there was one.

        Raises:
            Failed: it does not succeed.
        """
        if id(example) not in self._clean:
            self._clean[id(example)] = self._learn(example)
        return self._clean[id(example)]

    def _learn(self, example: Example) -> Clean:
        with self.worlds(example) as worlds:
            bench = worlds.fresh()
            between: list[Any] = []

            def look(_results: list[Any]) -> None:
                between.append(bench.look())

            try:
                result = bench.played(inside=look)
            except Exception as error:
                raise Failed(
                    f"its example {shown(example)} failed on a fresh world: {in_words(error)}",
                    "give arguments that succeed, and let before= make what the call needs",
                ) from error
            return Clean(bench.nothing, between[0], bench.look(), result)

    def is_all(self, example: Example, found: Any) -> bool:
        """Whether a world is as after a clean run of the example, except what varies from run to run."""
        return self._is_like(example, "all", found)

    def is_result(self, example: Example, found: Any) -> bool:
        """Whether a result is that of a clean run, except what varies from run to run."""
        return self._is_like(example, "result", found)

    def _is_like(self, example: Example, part: str, found: Any) -> bool:
        clean = self.clean(example)
        if found == getattr(clean, part):
            return True
        if clean.again is None:
            clean.again = self._learn(example)
        shape = common(getattr(clean, part), getattr(clean.again, part))
        return fits(shape, found)


@dataclass(frozen=True, slots=True)
class Trial:
    """One example under one property.

    Attributes:
        study, example, kind: what is examined.
    """

    study: Study
    example: Example
    declaration: Declaration = field(compare=False)

    @property
    def kind(self) -> EffectClass:
        """The effect class of its tool."""
        return self.declaration.kind

    @property
    def held(self) -> bool:
        """Whether it waits for the commit."""
        return self.declaration.held

    @property
    def is_sampled(self) -> bool:
        """Whether slow checks apply to this example: to a tool's first, or to all if requested."""
        return self.study.points is None or self.example is self.study.examples(self.declaration.tool)[0]

    def needs_effect(self) -> None:
        """Check that the tool changes the world.

        Raises:
            NotApplicable: it only reads.
        """
        if self.kind is EffectClass.READ:
            raise NotApplicable("a read changes nothing")

    def needs_undo(self) -> None:
        """Check that the tool can be undone.

        Raises:
            NotApplicable: it cannot.
        """
        self.needs_effect()
        if self.held:
            raise NotApplicable(f"what is {self.kind} acts at the commit, so there is nothing to undo")
        if self.kind not in UNDOABLE or self.declaration.undo is None:
            raise NotApplicable(f"it is {self.kind} without an undo: an abort names what stays")

    def worlds(self) -> AbstractContextManager[Worlds]:
        """Yield counterparties for its example."""
        return self.study.worlds(self.example)


def shown(example: Example) -> str:
    """Return an example as a call."""
    return f"{example.tool}({', '.join(f'{name}={value!r:.80}' for name, value in example.arguments.items())})"


__all__ = ["POINTS", "Clean", "Study", "Trial", "shown"]
