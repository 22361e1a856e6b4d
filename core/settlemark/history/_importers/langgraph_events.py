"""Reads the events of `graph.astream_events(version="v2")`, one a line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from settlemark.history._importers.graphs import NODE_TAG, Graphs, Place
from settlemark.history._importers.messages import is_list, is_mapping, unserialized_within
from settlemark.history._importers.readers import Into, cut_short, shared_notes

_IGNORED = ("_stream", "on_custom_event")


class LangGraphEvents:
    """Reads events in order: nodes with their input and output, tools in the order in which they ended."""

    def __init__(self, into: Into) -> None:
        self._into = into
        self._graphs = Graphs(into.recorder, into.tools)
        self._open: dict[str, str] = {}
        self._known: set[str] = set()

    @staticmethod
    def recognizes(sample: Sequence[Any]) -> bool:
        """Whether these are such events."""
        return any(
            is_mapping(value) and str(value.get("event", "")).startswith("on_") and "run_id" in value
            for value in sample
        )

    def begin(self, sample: Sequence[Any]) -> None:
        """Do nothing: no value is needed in advance."""

    def add(self, value: Any) -> Iterable[str | None]:
        """Add an event."""
        yield self._why_not(value)

    def _why_not(self, value: Any) -> str | None:  # noqa: PLR0911 - each kind of event has its own way to be wrong
        if not is_mapping(value) or not isinstance(value.get("event"), str) or not isinstance(value.get("run_id"), str):
            return "no event: it needs event and run_id"
        event, data, metadata = value["event"], value.get("data"), value.get("metadata")
        if not is_mapping(data) or not is_mapping(metadata):
            return "an event without data or metadata"
        above = value.get("parent_ids")
        parents = [str(each) for each in above] if is_list(above) else []
        match event:
            case "on_chain_start":
                return self._chain_began(value, data, metadata, parents)
            case "on_chain_end":
                return self._chain_ended(value["run_id"], data.get("output"))
            case "on_chain_error":
                self._graphs.node_failed(value["run_id"])
                self._graphs.over(value["run_id"], applied=False)
            case "on_chain_stream":
                if not parents:
                    self._graphs.returned(value["run_id"], data.get("chunk"))
            case "on_tool_start":
                place, name = Place.of(metadata), str(value.get("name"))
                self._graphs.tool_began(value["run_id"], name, data.get("input"), place=place, within=parents[::-1])
            case "on_tool_end" | "on_tool_error":
                output, failed = unserialized_within(data.get("output")), event == "on_tool_error"
                if not self._graphs.tool_ended(value["run_id"], output, failed=failed):
                    return "a tool ends that has not begun in this file"
            case _ if not event.startswith("on_"):
                return f"{event} is no event that is known"
            case _:
                pass
        return None

    def _chain_began(
        self, value: dict[str, Any], data: dict[str, Any], metadata: dict[str, Any], parents: list[str]
    ) -> str | None:
        tags = value.get("tags")
        if not any(str(tag).startswith(NODE_TAG) for tag in (tags if is_list(tags) else ())):
            return None
        place = Place.of(metadata)
        if place is None or not parents:
            return 'a node without langgraph_node, langgraph_step or parent_ids: was it made with version="v2"?'
        given = unserialized_within(data.get("input"))
        self._known.add(value["run_id"])
        self._graphs.node_began(value["run_id"], place, given, graph=parents[-1], root=parents[0])
        if given is not None and not is_mapping(given) and not is_list(given):
            return f"what {place.label} was given is a text, and what it read cannot be told: write events as JSON"
        return None

    def _chain_ended(self, run: str, output: Any) -> str | None:
        if run not in self._known:
            self._graphs.over(run, unserialized_within(output))
            return None
        self._known.discard(run)
        readable = self._graphs.node_ended(run, unserialized_within(output))
        if readable:
            return None
        return "what this node returned is no JSON: what it wrote is taken from the graph's stream, if that has it"

    def end(self) -> None:
        """End what is open."""
        self._graphs.close()
        if self._graphs.steps.lost:
            self._into.notes.append(cut_short(self._graphs.steps.lost))
        self._into.notes.extend(shared_notes(self._graphs.turns))


__all__ = ["LangGraphEvents"]
