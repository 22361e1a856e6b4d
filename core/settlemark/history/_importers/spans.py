"""Reads OpenTelemetry spans of agents, by the GenAI conventions: as OTLP JSON, or as the SDK's own `to_json`.

An `execute_tool` span is a call, from its start to its end. A model's answer (`chat`) shows which calls it issued, in
which order, where the application records that; else calls that overlap count as issued together, in the order in which
they began. OpenInference's and OpenLLMetry's names are understood as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from settlemark.history._importers.messages import ToolCall, arguments, is_list, is_mapping, message, seconds
from settlemark.history._importers.readers import Into, counted, shared_notes
from settlemark.history._importers.turns import Turns

_OPERATIONS = {
    "execute_tool": "tool",
    "tool": "tool",
    "chat": "model",
    "text_completion": "model",
    "generate_content": "model",
    "llm": "model",
    "completion": "model",
    "invoke_agent": "agent",
    "create_agent": "agent",
    "agent": "agent",
    "invoke_workflow": "agent",
}
_KIND = ("gen_ai.operation.name", "openinference.span.kind", "traceloop.span.kind", "llm.request.type")
_TOOL = ("gen_ai.tool.name", "tool.name", "traceloop.entity.name")
_CALL = ("gen_ai.tool.call.id", "tool_call.id", "tool.call.id", "tool.id")
_ARGUMENTS = (
    "gen_ai.tool.call.arguments",
    "tool_arguments",
    "tool.parameters",
    "input.value",
    "traceloop.entity.input",
)
_RESULT = ("gen_ai.tool.call.result", "tool_response", "output.value", "traceloop.entity.output")
_AGENT = ("gen_ai.agent.name", "agent.name", "gen_ai.agent.id")
_OUTPUT = ("gen_ai.output.messages", "gen_ai.response.messages", "output.value")
_FLAT = re.compile(r"(?:completion|output_messages)\.\d+\..*?tool_calls\.(\d+)\.(?:tool_call\.)?id$")
_VALUES = ("stringValue", "intValue", "doubleValue", "boolValue", "bytesValue")
_NANO = 1e9


@dataclass(frozen=True, eq=False)
class _Span:
    id: str
    trace: str
    parent: str | None
    name: str
    kind: str
    start: float
    end: float
    failed: bool
    attributes: dict[str, Any]
    events: list[Any]

    def get(self, names: Sequence[str]) -> Any:
        return next((self.attributes[name] for name in names if self.attributes.get(name) is not None), None)


class Spans:
    """Reads spans; they are dumped as they end, so all are read before any is recorded."""

    def __init__(self, into: Into) -> None:
        self._into = into
        self._turns = Turns(into.recorder, into.tools)
        self._spans: dict[tuple[str, str], _Span] = {}
        self._since: dict[str, int] = {}
        self._silent = 0

    @staticmethod
    def recognizes(sample: Sequence[Any]) -> bool:
        """Whether there are spans among these."""
        return any(
            is_mapping(value)
            and (
                is_list(value.get("resourceSpans"))
                or (is_mapping(value.get("context")) and "start_time" in value)
                or ("traceId" in value and "spanId" in value)
            )
            for value in sample
        )

    def begin(self, sample: Sequence[Any]) -> None:
        """Do nothing: no value is needed in advance."""

    def add(self, value: Any) -> Iterable[str | None]:
        """Add a span, or a batch of them."""
        for raw in _unpacked(value):
            yield self._take(raw)

    def _take(self, raw: Any) -> str | None:
        if not is_mapping(raw):
            return "no span"
        found = _span(raw)
        if isinstance(found, str):
            return found
        self._spans[found.trace, found.id] = found
        return None

    # ---- from spans to calls

    def end(self) -> None:
        """Record the calls, in the order in which they began and ended."""
        spans = sorted(self._spans.values(), key=lambda span: (span.start, span.end))
        tools = [span for span in spans if span.kind == "tool"]
        happened: list[tuple[float, int, Callable[[], object]]] = []
        self._issue(tools, [span for span in spans if span.kind == "model"], happened)
        for span in tools:
            happened.append((span.start, 1, self._beginning(span)))
            happened.append((span.end, 2, self._ending(span)))
        happened += [
            (span.end, 4, partial(self._turns.answered, self._agent(span)))
            for span in spans
            if span.kind == "agent" or (span.kind == "model" and not _issued(span) and span.get(_OUTPUT) is not None)
        ]
        for _, _, act in sorted(happened, key=lambda each: each[:2]):
            act()
        self._turns.close()
        if self._silent:
            self._into.notes.append(
                f"{counted(self._silent, 'read does', 'reads do')} not say what was found (gen_ai.tool.call.result):"
                " they count for nothing; record the content of tool calls to have them"
            )
        if self._turns.unordered:
            self._into.notes.append(
                f"in {counted(self._turns.unordered, 'turn', 'turns')} calls ended at the same time: the order of their"
                " effects is not told"
            )
        self._into.notes.extend(shared_notes(self._turns))

    def _issue(
        self, tools: list[_Span], models: list[_Span], happened: list[tuple[float, int, Callable[[], object]]]
    ) -> None:
        left = dict.fromkeys(tools)
        by_call: dict[tuple[str, str], list[_Span]] = {}
        for span in tools:
            by_call.setdefault((span.trace, str(span.get(_CALL))), []).append(span)
        guessed = 0
        for model in models:
            found: list[_Span] = []
            for call in _issued(model):
                waiting = by_call.get((model.trace, call), [])
                first = next((each for each in waiting if each.start >= model.start), None)
                if first is not None:
                    waiting.remove(first)
                    found.append(first)
                    del left[first]
            if found:
                happened.append((min(found[0].start, model.end), 0, self._issuing(found)))
        for together in _overlapping(list(left)):
            guessed += len(together) > 1
            happened.append((together[0].start, 0, self._issuing(together)))
        if guessed:
            self._into.notes.append(
                f"of {counted(guessed, 'turn', 'turns')} no model's answer says in which order its calls were issued"
                " (gen_ai.output.messages): the order in which they began counts as that"
            )

    def _issuing(self, spans: list[_Span]) -> Callable[[], object]:
        calls = [ToolCall(_key(span), _tool(span), arguments(span.get(_ARGUMENTS))) for span in spans]
        agent, name = self._agent(spans[0]), spans[0].trace
        return lambda: self._turns.issued(agent, calls, name=name)

    def _beginning(self, span: _Span) -> Callable[[], object]:
        def begin() -> None:
            self._since[_key(span)] = self._turns.moment

        return begin

    def _ending(self, span: _Span) -> Callable[[], object]:
        def end() -> None:
            key, result = _key(span), span.get(_RESULT)
            reads = self._turns.tools.of(_tool(span), arguments(span.get(_ARGUMENTS))).does == "read"
            silent = reads and result is None and not span.failed
            self._silent += silent
            self._turns.ended(key, result, failed=span.failed or silent, since=self._since.pop(key, 0), at=span.end)

        return end

    def _agent(self, span: _Span) -> str:
        at: _Span | None = span
        seen: set[str] = set()
        while at is not None and at.id not in seen:
            seen.add(at.id)
            name = at.get(_AGENT) or (at.name if at.kind == "agent" else None)
            if name:
                return str(name)
            at = None if at.parent is None else self._spans.get((at.trace, at.parent))
        return f"trace {span.trace[:8]}"


def _overlapping(tools: list[_Span]) -> Iterator[list[_Span]]:
    """Yield groups of spans that overlap and have one parent, each in the order in which they began."""
    by_parent: dict[tuple[str, str | None], list[_Span]] = {}
    for span in tools:
        by_parent.setdefault((span.trace, span.parent), []).append(span)
    for spans in by_parent.values():
        group: list[_Span] = []
        until = 0.0
        for span in spans:
            if group and span.start >= until:
                yield group
                group = []
            group.append(span)
            until = max(until, span.end)
        yield group


def _key(span: _Span) -> str:
    return f"{span.trace} {span.id}"


def _tool(span: _Span) -> str:
    return str(span.get(_TOOL) or span.name.removeprefix("execute_tool ").strip() or "tool")


def _issued(span: _Span) -> list[str]:
    """Return the ids of the calls in a model's answer, in order."""
    flat = sorted((int(found[1]), str(value)) for key, value in span.attributes.items() if (found := _FLAT.search(key)))
    if flat:
        return [call for _, call in flat]
    answers = [span.get(_OUTPUT)]
    for event in span.events:
        if is_mapping(event) and event.get("name") == "gen_ai.choice":
            given = _attributes(event.get("attributes"))
            answers += [given.get("message"), given]
    return [call for answer in answers for call in _calls_in(answer)]


def _calls_in(answer: Any) -> Iterator[str]:
    if isinstance(answer, str):
        try:
            answer = json.loads(answer)
        except ValueError:
            return
    if is_list(answer):
        for each in answer:
            yield from _calls_in(each)
    elif is_mapping(answer):
        parts = answer.get("parts")
        for part in parts if is_list(parts) else ():
            if is_mapping(part) and part.get("type") == "tool_call" and part.get("id") is not None:
                yield str(part["id"])
        found = message({"role": "assistant", **answer})
        for call in () if found is None else found.calls:
            yield call.id


# ---- the two shapes


def _unpacked(value: Any) -> Iterator[Any]:
    """Yield the spans of an OTLP batch, or the one span there is."""
    if not is_mapping(value) or not is_list(value.get("resourceSpans")):
        yield value
        return
    for resource in value["resourceSpans"]:
        for scope in _inner(resource, "scopeSpans", "instrumentationLibrarySpans"):
            yield from _inner(scope, "spans")


def _inner(value: Any, *names: str) -> list[Any]:
    """Return the contents of a part of a batch; of a broken part the part itself, so that it is counted."""
    found: Any = value.get(names[0], value.get(names[-1], ())) if is_mapping(value) else None
    return found if is_list(found) else [] if found == () else [value]


def _span(raw: dict[str, Any]) -> _Span | str:
    context = raw.get("context")
    otlp = not is_mapping(context)
    where: dict[str, Any] = raw if not is_mapping(context) else context
    identity = str(where.get("spanId" if otlp else "span_id") or "")
    trace = str(where.get("traceId" if otlp else "trace_id") or "")
    if not identity or not trace:
        return "a span without its ids"
    start, end = _times(raw)
    if start is None or end is None:
        return f"span {raw.get('name')}: it has no start or no end"
    attributes = _attributes(raw.get("attributes"))
    name = str(raw.get("name") or "")
    told = next((attributes[key] for key in _KIND if attributes.get(key) is not None), None)
    kind = _OPERATIONS.get(str(told).lower()) if told is not None else None
    if told is None and name.startswith("execute_tool"):
        kind = "tool"
    if kind is None and told is None and not any(key.startswith("gen_ai.") for key in attributes):
        return f"span {name}: it has no gen_ai attributes"
    parent = raw.get("parentSpanId" if otlp else "parent_id") or None
    return _Span(
        identity,
        trace,
        None if parent is None else str(parent),
        name,
        kind or "other",
        start,
        end,
        _has_failed(raw.get("status"), attributes),
        attributes,
        raw["events"] if is_list(raw.get("events")) else [],
    )


def _times(raw: dict[str, Any]) -> tuple[float | None, float | None]:
    if "startTimeUnixNano" in raw:
        try:
            return int(raw["startTimeUnixNano"]) / _NANO, int(raw["endTimeUnixNano"]) / _NANO
        except (KeyError, TypeError, ValueError):
            return None, None
    return seconds(raw.get("start_time")), seconds(raw.get("end_time"))


def _attributes(given: Any) -> dict[str, Any]:
    if is_mapping(given):
        return given
    return {
        str(each["key"]): _value(each.get("value"))
        for each in (given if is_list(given) else ())
        if is_mapping(each) and "key" in each
    }


def _value(given: Any) -> Any:
    """Return an OTLP value as a plain value."""
    if not is_mapping(given):
        return given
    for name in _VALUES:
        if name in given:
            return int(given[name]) if name == "intValue" else given[name]
    if is_mapping(given.get("arrayValue")):
        values = given["arrayValue"].get("values")
        return [_value(each) for each in values] if is_list(values) else []
    if is_mapping(given.get("kvlistValue")):
        return _attributes(given["kvlistValue"].get("values"))
    return None


def _has_failed(status: Any, attributes: dict[str, Any]) -> bool:
    code = status.get("status_code", status.get("code")) if is_mapping(status) else None
    return code in {"ERROR", "STATUS_CODE_ERROR", 2} or "error.type" in attributes


__all__ = ["Spans"]
