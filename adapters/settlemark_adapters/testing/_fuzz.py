"""The scope fuzzer: calls that Hypothesis makes up, each beside what it really changed at the counterparty.

A scope that does not cover what a call changes lets two agents write over each other; one that covers what no call
of its tool shares with another makes them wait for nothing.
"""

from __future__ import annotations

import inspect
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

from settlemark import Declaration, EffectClass, Scope, ScopeError, ScopeTemplate, Settlement, UsageError
from settlemark.hosting import escape, missing
from settlemark_adapters.testing._arguments import Pool, leaves
from settlemark_adapters.testing._bench import Bench, Call, Worlds, fresh_name, known_of, tool_of, transact
from settlemark_adapters.testing._findings import Finding, FuzzReport, Kind
from settlemark_adapters.testing._study import Study, shown
from settlemark_adapters.testing._subject import Example, Subject

if TYPE_CHECKING:
    from hypothesis.strategies import DataObject

EXAMPLES = 60
_HISTORY = 2


@dataclass(frozen=True, slots=True)
class _Seen:
    """A call, what it declares, and what it changed."""

    calls: tuple[str, ...]
    arguments: Mapping[str, Any]
    declared: tuple[Scope, ...]
    changed: tuple[Scope, ...]


class _Found(Exception):
    """A call that shows a finding: Hypothesis looks for a shorter one."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(str(finding))
        self.finding = finding


def fuzz(
    subject: Subject,
    *,
    examples: int = EXAMPLES,
    seed: int = 0,
    only: str | Sequence[str] | None = None,
    progress: Callable[[str], object] | None = None,
) -> FuzzReport:
    """Call an adapter's tools with arguments that Hypothesis makes up, and compare what changed with their scopes.

    Each call is made with the real engine, on a fresh counterparty, behind up to two examples that make it ready;
    `subject.resources` (or `look`, where that returns such a mapping) tells what is there before and after it.

    *Too narrow*: a resource has changed that no scope of the call covers; also by a call that failed. *A read changes
    it*: a read has changed anything. Two hints: *too broad*: calls of one tool declare the same scope, and fall into
    groups none of which changed what another did, although the arguments name what each changed, below that scope.
    *Never touched*: of several scopes, one held no change in any call.

    Args:
        subject: the adapter, its counterparty, and examples to start from.
        examples: how many calls of each tool are tried.
        seed: the same one makes up the same calls.
        only: tools to look at, by name; all by default.
        progress: called with a tool's name before each call of it.

    Raises:
        ImportError: Hypothesis is not installed.
        UsageError: the subject does not tell what changed by scope, or there is no such tool.
    """
    try:
        import hypothesis
    except ImportError as error:
        raise missing("the scope fuzzer needs Hypothesis", "fuzz", error) from error
    del hypothesis
    study = Study(subject)
    names = [only] if isinstance(only, str) else list(study.tools if only is None else only)
    unknown = [name for name in names if name not in study.tools]
    if unknown:
        raise UsageError(f"there is no tool {unknown[0]!r}: there are {', '.join(study.tools)}")
    with TemporaryDirectory(prefix="settlemark-fuzz-") as folder:
        fuzzer = _Fuzzer(study, Path(folder), examples, seed, progress)
        findings = list(itertools.chain.from_iterable(fuzzer.look_at(name) for name in names))
        return FuzzReport(study.adapter.__name__, tuple(findings), dict(fuzzer.tried), dict(fuzzer.changing))


@dataclass
class _Fuzzer:
    study: Study
    folder: Path
    examples: int
    seed: int
    progress: Callable[[str], object] | None
    tried: Counter[str] = field(default_factory=Counter[str])
    changing: Counter[str] = field(default_factory=Counter[str])

    def look_at(self, tool: str) -> Iterator[Finding]:
        """Yield what is wrong with the scopes of a tool."""
        bases = self.study.examples(tool)
        declaration = known_of(self.study.tools[tool])
        self.tried[tool] += 0
        if not bases or (declaration.scope is None and not declaration.may_touch and not _reads(declaration)):
            return  # an undeclared scope needs no check: it is its run's alone
        seen: list[_Seen] = []
        narrow = self._search(tool, bases, seen)
        self.tried[tool] += len(seen)
        self.changing[tool] += sum(bool(each.changed) for each in seen)
        if narrow is not None:
            yield narrow
        elif not _reads(declaration):
            yield from _hints(declaration, seen)

    def _search(self, tool: str, bases: list[Example], seen: list[_Seen]) -> Finding | None:
        from hypothesis import HealthCheck, Phase, given, settings
        from hypothesis import seed as seeded
        from hypothesis import strategies as st
        from hypothesis.errors import Flaky

        pool, parameters = Pool(self.study.subject.examples), inspect.signature(self.study.tools[tool]).parameters
        others = [e for e in self.study.subject.examples if not _reads(self.study.declaration(e))]
        found: list[Finding] = []
        with ExitStack() as stack:
            worlds = [Worlds(self.study.subject, base, self.folder, self.study.shared) for base in bases]
            for each in worlds:
                stack.callback(each.close)

            def attempt(data: DataObject) -> None:
                number = data.draw(st.integers(0, len(bases) - 1))
                history = data.draw(st.lists(st.sampled_from(others), max_size=_HISTORY)) if others else []
                arguments = data.draw(pool.arguments(self.study.tools[tool], bases[number]))
                arguments = {name: arguments[name] for name in parameters if name in arguments}
                if self.progress is not None:
                    self.progress(tool)
                call = Example(tool, arguments)
                seen.append(_played(worlds[number].fresh(), history, call))
                finding = _narrow(known_of(self.study.tools[tool]), seen[-1])
                if finding is not None:
                    found.append(finding)
                    raise _Found(finding)

            quiet = settings(
                max_examples=self.examples,
                database=None,
                deadline=None,
                report_multiple_bugs=False,
                phases=(Phase.generate, Phase.shrink),
                print_blob=False,
                suppress_health_check=[HealthCheck(check) for check in HealthCheck],
            )
            try:
                seeded(self.seed)(quiet(given(st.data())(attempt)))()
            except _Found as shortest:
                return shortest.finding
            except Flaky:  # a counterparty with varying answers: the finding stands
                return min(found, key=lambda finding: len(str(finding)))
        return None


def _reads(declaration: Declaration) -> bool:
    return declaration.kind is EffectClass.READ


def _played(bench: Bench, history: list[Example], call: Example) -> _Seen:
    """Make a call after others, and return what it changed."""
    with bench.opened() as (settlement, adapter):
        for earlier in history:
            _try(settlement, (tool_of(adapter, earlier.tool), earlier.arguments))
        before = _resources(bench)
        tool = tool_of(adapter, call.tool)
        # The scopes may depend on the world: the engine asks before the call, too.
        scopes = _scopes(known_of(tool), call.arguments)
        result = _try(settlement, (tool, call.arguments))
        after = _resources(bench)
        declared = _refined(known_of(tool), scopes, result)
    return _Seen(
        (*map(shown, history), shown(call)),
        call.arguments,
        declared,
        tuple(sorted(scope for scope in {*before, *after} if before.get(scope) != after.get(scope))),
    )


def _try(settlement: Settlement, call: Call) -> list[Any] | None:
    """Return a call's result; None when it is refused, as many made-up calls are."""
    try:
        return transact(settlement, [call], name=fresh_name())
    except Exception:
        return None


def _scopes(declaration: Declaration, given: Mapping[str, Any]) -> tuple[Scope, ...]:
    """Return the scopes that a call declares; none of one that is refused."""
    try:
        return declaration.scopes(declaration.arguments((), dict(given)))
    except (ScopeError, TypeError):
        return ()


def _refined(declaration: Declaration, scopes: tuple[Scope, ...], result: list[Any] | None) -> tuple[Scope, ...]:
    """Return the scopes that a call holds in the end: the declared ones, refined by its result."""
    if not scopes or declaration.refine is None or result is None or declaration.held:
        return scopes
    found = declaration.refine(result[0])
    refined = (found,) if isinstance(found, str | Scope) else tuple(found)
    own = scopes[: len(scopes) - len(declaration.may_touch)] if declaration.may_touch else ()
    return (*own, *map(Scope.parse, refined))


def _resources(bench: Bench) -> dict[Scope, Any]:
    """Return the resources by scope.

    Raises:
        UsageError: the subject does not return them by scope.
    """
    tell = bench.subject.resources
    found = bench.look() if tell is None else tell(bench.place)
    advice = 'give the subject resources=, which returns what is there by scope: {scope_of("file", "a.txt"): "…"}'
    if not isinstance(found, Mapping):
        raise UsageError(f"what look() returns is no mapping: {advice}")
    try:
        return {Scope.parse(name): value for name, value in cast("Mapping[str, Any]", found).items()}
    except ScopeError as error:
        raise UsageError(f"{error}: {advice}") from error


# ---- what is wrong


def _narrow(declaration: Declaration, seen: _Seen) -> Finding | None:
    """Return the finding that a call shows by itself."""
    if _reads(declaration):
        kind, bare = Kind.READ_CHANGES, seen.changed
    else:
        kind = Kind.TOO_NARROW
        bare = tuple(scope for scope in seen.changed if not any(known.covers(scope) for known in seen.declared))
    if not bare:
        return None
    declared = ", ".join(map(str, seen.declared)) or "nothing"
    why = f"it changed {', '.join(map(str, bare))} and declares {'to read ' if _reads(declaration) else ''}{declared}"
    mend = (
        "declare what it does to the world, not read"
        if _reads(declaration)
        else "let its scope= name all that it changes, spelled as the counterparty spells it, or add may_touch="
    )
    return _finding(declaration, kind, seen.calls, [seen], why, mend)


def _hints(declaration: Declaration, seen: list[_Seen]) -> Iterator[Finding]:
    """Yield what is wrong with scopes that cover too much."""
    changing = [each for each in seen if each.changed]
    by_scope: dict[tuple[Scope, ...], list[_Seen]] = {}
    for each in changing:
        by_scope.setdefault(each.declared, []).append(each)
    pairs = [pair for same in by_scope.values() if (pair := _apart(same)) is not None]
    if pairs:
        one, other = min(pairs, key=lambda pair: sum(len(each.calls[-1]) for each in pair))
        mine, theirs = (", ".join(map(str, each.changed)) for each in (one, other))
        why = (
            f"two calls declare {', '.join(map(str, one.declared))}, so one waits for the other, and they changed"
            f" {mine} and {theirs}"
        )
        calls = (one.calls[-1], other.calls[-1])
        mend = "let its scope= name what the call changes, by the argument that names it"
        yield _finding(declaration, Kind.TOO_BROAD, calls, [one, other], why, mend)
    yield from _never(declaration, changing)


def _apart(same: list[_Seen]) -> tuple[_Seen, _Seen] | None:
    """Return the shortest two calls under one declaration that touch nothing in common, nor do those like them."""
    groups: list[list[_Seen]] = []
    for each in same:
        meeting = [group for group in groups if any(_meet(each, other) for other in group)]
        groups = [group for group in groups if group not in meeting]
        groups.append([each, *itertools.chain.from_iterable(meeting)])
    shortest = [min(group, key=lambda each: len(each.calls[-1])) for group in groups]
    named = sorted((each for each in shortest if _is_nameable(each)), key=lambda each: len(each.calls[-1]))
    return (named[0], named[1]) if len(named) > 1 else None


def _meet(one: _Seen, other: _Seen) -> bool:
    return any(mine.overlaps(theirs) for mine in one.changed for theirs in other.changed)


def _is_nameable(seen: _Seen) -> bool:
    """Whether a narrower scope could have been named before the call: its arguments name what it changed."""
    values = {escape(value) for value in leaves(seen.arguments) if value and not value.isspace()}
    for changed in seen.changed:
        depths = [len(known.parts) for known in seen.declared if known.covers(changed)]
        below = changed.parts[max(depths, default=0) :]
        if not below or not any(value in below[0] for value in values):
            return False
    return True


def _never(declaration: Declaration, changing: list[_Seen]) -> Iterator[Finding]:
    """Yield the templates of several that held no change in any call."""
    templates: list[ScopeTemplate] = list(declaration.templates)
    if len(templates) < 2 or not changing or declaration.refine is not None:  # noqa: PLR2004 - several
        return
    for number, template in enumerate(templates):
        held = [each for each in changing if any(each.declared[number].covers(scope) for scope in each.changed)]
        if not held:
            last = min(changing, key=lambda each: len(each.calls[-1]))
            why = f"{template.text} held no change in {len(changing)} calls that changed something"
            mend = f"leave {template.text} out, if the call does not depend on it either"
            yield _finding(declaration, Kind.NEVER_TOUCHED, last.calls[-1:], [last], why, mend)


def _finding(
    declaration: Declaration, kind: Kind, calls: tuple[str, ...], seen: list[_Seen], why: str, mend: str
) -> Finding:
    declared = tuple(dict.fromkeys(str(scope) for each in seen for scope in each.declared))
    changed = tuple(", ".join(map(str, each.changed)) for each in seen)
    return Finding(declaration.tool, kind, calls, declared, changed, why, mend)


__all__ = ["EXAMPLES", "fuzz"]
