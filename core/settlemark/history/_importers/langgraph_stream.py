"""Reads the chunks of `graph.stream(…)`, one a line: updates, values, tasks or debug, alone or together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from settlemark.history._importers.graphs import channels_of, writes_of
from settlemark.history._importers.messages import is_list, is_mapping, messages_in, unserialized_within
from settlemark.history._importers.readers import Into, counted, cut_short, shared_notes
from settlemark.history._importers.supersteps import Supersteps
from settlemark.history._importers.turns import Turns
from settlemark.history._recording.values import compact

MODES = frozenset({"updates", "values", "tasks", "debug", "checkpoints", "messages", "custom"})
_DEBUG = frozenset({"checkpoint", "task", "task_result"})
_RICHEST = ("debug", "tasks", "updates", "values")


class _Chunk(NamedTuple):
    mode: str
    namespace: str
    data: Any


class LangGraphStream:
    """Reads chunks. The most detailed mode in the file describes the nodes; the other modes' repetitions are skipped.

    `debug` and `tasks` have each node's input and output; `updates` has outputs, based on the last `values` if those
    are there, too; `values` alone shows what has changed, not which node did it.
    """

    def __init__(self, into: Into) -> None:
        self._into = into
        self._steps = Supersteps(into.recorder)
        self._turns = Turns(into.recorder, into.tools)
        self._mode = "updates"
        self._bare: str | None = None
        self._state: dict[str, Any] | None = None
        self._step: dict[str, int] = {}
        self._running: set[str] = set()
        self._turn_of: dict[str, object] = {}
        self._said: set[str] = set()
        self._entry = 0

    @staticmethod
    def recognizes(sample: Sequence[Any]) -> bool:
        """Whether these are such chunks; bare updates and values must all fit."""
        if any(_marked(value) is not None for value in sample):
            return True
        return bool(sample) and (all(map(_is_update, sample)) or _is_growing(sample))

    def begin(self, sample: Sequence[Any]) -> None:
        """Find the modes in the file."""
        modes = {chunk.mode for value in sample if (chunk := _marked(value)) is not None}
        if not modes:
            self._bare = "updates" if all(map(_is_update, sample)) and not _is_growing(sample) else "values"
            modes = {self._bare}
        self._mode = next((mode for mode in _RICHEST if mode in modes), "updates")
        if not modes & {*_RICHEST}:
            self._into.notes.append(
                f"a stream of {' and '.join(sorted(modes))} alone does not tell what nodes read and wrote: stream with"
                ' stream_mode="debug"'
            )
        elif self._mode == "updates" and "values" not in modes:
            self._into.notes.append(
                "updates tell what nodes returned, and not what they were given: no reads, so no stale ones; stream"
                ' with stream_mode=["updates", "values"], or "debug", to have them'
            )
        elif self._mode == "values":
            self._into.notes.append(
                "values tell what has changed, and not who changed it: each superstep is one agent; stream with"
                ' stream_mode="debug" to have the nodes'
            )

    def add(self, value: Any) -> Iterable[str | None]:
        """Add a chunk."""
        self._entry += 1
        value = unserialized_within(value)
        chunk = _marked(value)
        if chunk is None and self._bare is not None and is_mapping(value):
            chunk = _Chunk(self._bare, "", value)
        yield "no chunk of a stream" if chunk is None else self._why_not(chunk)

    def _why_not(self, chunk: _Chunk) -> str | None:
        data = chunk.data
        if chunk.mode not in MODES:
            return f"{chunk.mode} is no mode of a stream that is known"
        if chunk.mode == "values" and self._mode in {"values", "updates"} and not chunk.namespace:
            if not is_mapping(data):
                return "values that are no state"
            self._values(channels_of(data))
        if chunk.mode != self._mode or chunk.mode == "values":
            return None
        if not is_mapping(data):
            return f"a chunk of {chunk.mode} that is no object"
        if chunk.mode == "updates":
            return self._updates(chunk.namespace, data)
        return self._debug(chunk.namespace, data) if chunk.mode == "debug" else self._task(chunk.namespace, data, None)

    # ---- chunks that describe nodes

    def _values(self, state: dict[str, Any]) -> None:
        if self._mode == "values":
            before = self._state or {}
            changed = {key: value for key, value in state.items() if key not in before or before[key] != value}
            if self._state is None:
                self._into.recorder.seed({key: compact(value) for key, value in changed.items()}, agent="input")
            elif changed:
                step = self._next_step("")
                begun = self._into.recorder.begin(f"superstep {step}", barrier=step - 1)
                begun.commit({key: compact(value) for key, value in changed.items()}, barrier=step)
        else:
            self._steps.over("", state)
            self._running.discard("")
        self._state = state

    def _updates(self, namespace: str, data: dict[str, Any]) -> str | None:
        why = None
        for node, update in channels_of(data).items():
            writes = writes_of(update)
            if writes is None:
                why = f"what {node} returned is a text: write chunks as JSON"
                continue
            if namespace not in self._running or self._state is None or namespace:
                self._next_step(namespace)  # where values do not tell which nodes ran together, each runs by itself
            self._over_within(namespace, f"{node}:")
            task = object()
            self._steps.began(
                task,
                graph=namespace,
                run=namespace,
                node=_label(namespace, node),
                step=self._step[namespace],
                given=self._state if not namespace else None,
                prefix=_prefix(namespace),
                keeps_state=not namespace,
            )
            self._steps.ended(task, writes)
            self._calls(_label(namespace, node), update)
        return why

    def _debug(self, namespace: str, data: dict[str, Any]) -> str | None:
        kind, payload = data.get("type"), data.get("payload")
        if str(kind) not in _DEBUG or not is_mapping(payload):
            return f"a chunk of debug of the kind {kind!r}, which is not known"
        step = data.get("step")
        return None if kind == "checkpoint" else self._task(namespace, payload, step if isinstance(step, int) else None)

    def _task(self, namespace: str, data: dict[str, Any], step: int | None) -> str | None:
        task, node = data.get("id"), data.get("name")
        if not isinstance(task, str) or not isinstance(node, str):
            return "a task without id or name"
        label = _label(namespace, node)
        if "input" in data or "triggers" in data:
            if step is not None:
                self._step[namespace] = step
            elif namespace not in self._running:
                self._next_step(namespace)
            given = data.get("input")
            pushed = data.get("triggers") == ["__pregel_push"]
            self._steps.began(
                task,
                graph=namespace,
                run=namespace,
                node=label,
                step=self._step[namespace],
                given=channels_of(given) if is_mapping(given) and not pushed else None,
                prefix=_prefix(namespace),
                keeps_state=not namespace,
            )
            return None
        self._running.discard(namespace)  # all nodes of a superstep begin before one ends
        self._over_within(namespace, f"{node}:{task}")
        if data.get("error") is not None or data.get("interrupts"):
            self._steps.failed(task)
            return None
        result = data.get("result")
        writes = writes_of(result)
        self._steps.ended(task, writes)
        self._calls(label, result)
        return None if writes is not None else f"what {node} returned is a text: write chunks as JSON"

    def _over_within(self, namespace: str, task: str) -> None:
        """End a subgraph, if a task was one."""
        start = f"{namespace}|{task}".removeprefix("|")
        for inner in [each for each in self._step if each.startswith(start)] if len(self._step) > 1 else ():
            self._steps.over(inner)
            del self._step[inner]

    def _next_step(self, namespace: str) -> int:
        self._running.add(namespace)
        self._step[namespace] = self._step.get(namespace, 0) + 1
        return self._step[namespace]

    def _calls(self, agent: str, update: Any) -> None:
        """Add the calls and answers among an update's messages, in order."""
        for each in messages_in(update):
            if each.role == "assistant" and each.id not in self._said:
                self._said |= {each.id} if each.id is not None else set()
                if each.calls:
                    self._turns.over(self._turn_of.get(agent))
                    turn = self._turn_of[agent] = object()
                    self._turns.issued(agent, each.calls, turn=turn)
                else:
                    self._turns.answered(agent)
            for result in each.results:
                # Answers in one update are in the transcript's order, which is not the order of their effects.
                if result.call is not None and self._turns.knows(result.call):
                    self._turns.ended(result.call, result.content, failed=result.failed, at=self._entry)

    def end(self) -> None:
        """End what is open."""
        for namespace in sorted(self._step, reverse=True):  # inner graphs first
            self._steps.over(namespace)
        self._steps.close()
        self._turns.close()
        if self._steps.lost:
            self._into.notes.append(cut_short(self._steps.lost))
        if self._turns.unordered:
            self._into.notes.append(
                f"of {counted(self._turns.unordered, 'turn', 'turns')} the answers came together: in which order their"
                " effects happened is not told; astream_events tells it"
            )
        self._into.notes.extend(shared_notes(self._turns))


def _label(namespace: str, node: str) -> str:
    return ":".join([*(part.partition(":")[0] for part in namespace.split("|") if part), node])


def _prefix(namespace: str) -> str:
    return f"{namespace}/" if namespace else ""


def _marked(value: Any) -> _Chunk | None:  # noqa: PLR0911 - the first shape that fits decides
    """Return a chunk that names its mode: a pair, a triple with the namespace first, `version="v2"`, or debug's own."""
    if is_mapping(value):
        if str(value.get("type")) in _DEBUG and is_mapping(value.get("payload")):
            return _Chunk("debug", "", value)
        if str(value.get("type")) in MODES and "data" in value:
            return _Chunk(str(value["type"]), _joined(value.get("ns")), value["data"])
        if {"id", "name"} <= value.keys() and (
            {"input", "triggers"} <= value.keys() or {"result", "interrupts"} <= value.keys()
        ):
            return _Chunk("tasks", "", value)
        return None
    if not is_list(value) or len(value) not in (2, 3):
        return None
    *space, mode, data = value
    if is_list(mode) and not space and is_mapping(data) and all(isinstance(part, str) for part in mode):
        kind = "debug" if str(data.get("type")) in _DEBUG else "updates" if _is_update(data) else "values"
        return _Chunk(kind, _joined(mode), data)
    if not isinstance(mode, str) or mode not in MODES:
        return None
    return _Chunk(mode, _joined(space[0]) if space else "", data)


def _joined(namespace: Any) -> str:
    return "|".join(map(str, namespace)) if is_list(namespace) else ""


def _is_update(value: Any) -> bool:
    """Whether a value looks like updates: nodes by name, each with the channels it writes."""
    return (
        is_mapping(value)
        and 0 < len(value) <= 16  # noqa: PLR2004 - a superstep of more nodes names its mode
        and all(item is None or is_mapping(item) or key == "__interrupt__" for key, item in value.items())
    )


def _is_growing(sample: Sequence[Any]) -> bool:
    """Whether these are the states of one run: each has the messages of the one before, and perhaps more."""
    states = [value.get("messages") if is_mapping(value) else None for value in sample]
    return len(states) > 1 and all(
        is_list(one) and is_list(other) and other[: len(one)] == one for one, other in pairwise(states)
    )


__all__ = ["LangGraphStream"]
