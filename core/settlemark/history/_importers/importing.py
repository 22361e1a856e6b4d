"""Imports histories from other formats: traces of LangGraph, of OpenTelemetry, chats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from settlemark._edges.errors import UsageError
from settlemark._model.declaration import Declaration
from settlemark.history._importers.entries import Entry, entries
from settlemark.history._importers.messages import is_mapping
from settlemark.history._recording.files import HistoryError, read
from settlemark.history._recording.record import OpRecord
from settlemark.history._recording.recorder import Recorder

if TYPE_CHECKING:
    from settlemark.history._importers.readers import Reader

Format = Literal["auto", "history", "spans", "langgraph-events", "langgraph-stream", "chat"]
FORMATS: tuple[Format, ...] = ("history", "spans", "langgraph-events", "langgraph-stream", "chat")
"""The formats of traces, in the order in which they are tried."""

_LOOKED_AT = 20
_OWN = frozenset({"agent", "read_time", "write_time", "retracted"})


@dataclass(frozen=True)
class Imported:
    """The contents of a trace.

    Attributes:
        format: its format.
        records: its operations, in the order of their write times.
        parsed: how many of its entries (messages, events, spans, lines) were understood.
        total: how many it has.
        skipped: the others: their line, and why.
        tools: how each undeclared tool was taken, by its name: "read" or "write".
        notes: what it cannot show, and what was assumed; a sentence each.
    """

    format: Format
    records: list[OpRecord]
    parsed: int
    total: int
    skipped: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    tools: dict[str, Literal["read", "write"]] = field(default_factory=dict[str, Literal["read", "write"]])
    notes: list[str] = field(default_factory=list[str])

    def __str__(self) -> str:
        return f"{self.parsed:,} of {self.total:,} parsed as {self.format}"


def import_trace(
    path: str | Path,
    format: Format = "auto",  # noqa: A002 - the name of the command's option, too
    *,
    effects: Mapping[str, str | Mapping[str, Any] | Declaration] | None = None,
    declared: Callable[[str], Declaration | None] | None = None,
) -> Imported:
    r"""Return the operations in a trace of any supported format, and how much of it was understood.

    An operation is what an agent reads until it writes, and what it writes then; of a graph of LangGraph it is also a
    node's run, with its input and output channels. Nothing is dropped silently: `skipped` has what was not understood,
    `notes` what the format cannot show.

    Args:
        path: the file: JSON Lines, an array, or values one after the other.
        format: one of `FORMATS`; found from the first lines by default.
        effects: what tools do, as in `{"audit": "read", "wire": {"kind": "write", "scope": "account:/{to}"}}`. An
            undeclared tool reads when its name's verb says so; its cell is named after the noun, and the first argument
            that is an address.
        declared: finds the declaration of a tool that `effects` does not name: `settlement.declared`, for example.

    Raises:
        HistoryError: the format is unknown; or it is a history, and one of its lines is no record.
        UsageError: there is no such format, or `effects` has an unknown kind.
        OSError: the file cannot be read.

    >>> import json, tempfile, os
    >>> call = {"id": "1", "type": "function", "function": {"name": "set_date", "arguments": '{"date": "21 June"}'}}
    >>> chat = [
    ...     {"role": "user", "content": "Move it."}, {"role": "assistant", "content": None, "tool_calls": [call]},
    ...     {"role": "tool", "tool_call_id": "1", "content": "ok"}, {"role": "oracle"},
    ... ]
    >>> path = os.path.join(tempfile.mkdtemp(), "chat.json")
    >>> _ = Path(path).write_text(json.dumps(chat))
    >>> found = import_trace(path)
    >>> print(found, found.skipped)
    3 of 4 parsed as chat [(1, 'no message: it has no role that is known, or no content')]
    >>> [record.write_values for record in found.records]
    [{'date': '21 June'}]
    """
    if format not in ("auto", *FORMATS):
        raise UsageError(f"format={format!r} is unknown: choose auto or one of {', '.join(FORMATS)}", format=format)
    following = entries(path)
    first = list(islice(following, _LOOKED_AT))
    sample = [entry.value for entry in first if entry.why is None]
    chosen = recognized(sample) if format == "auto" else format
    if chosen is None and first:
        raise _unknown(str(path), first)
    if chosen is None or chosen == "history":
        records = list(read(path))
        return Imported("history", sorted(records, key=lambda record: record.write_time), len(records), len(records))
    from settlemark.history._importers.readers import Into
    from settlemark.history._recording.touches import Tools

    with Recorder() as recorder:
        into = Into(recorder, Tools(effects, declared))
        reader = _reader(chosen)(into)
        reader.begin(sample)
        total, skipped = 0, list[tuple[int, str]]()
        for entry in chain(first, following):
            for why in (entry.why,) if entry.why is not None else reader.add(entry.value):
                total += 1
                if why is not None:
                    skipped.append((entry.line, why))
        reader.end()
        return Imported(
            chosen,
            recorder.records,
            total - len(skipped),
            total,
            skipped,
            dict(sorted(into.tools.guessed.items())),
            into.notes,
        )


def format_of(path: str | Path) -> Format | None:
    """Return the format of a file, from its first lines; None if unknown.

    Raises:
        OSError: the file cannot be read.
    """
    first = list(islice(entries(path), _LOOKED_AT))
    return recognized([entry.value for entry in first if entry.why is None]) if first else "history"


def recognized(sample: list[Any]) -> Format | None:
    """Return the format whose values these are, or None."""
    for each in FORMATS:
        if each == "history":
            if any(is_mapping(value) and _is_own(value) for value in sample):
                return each
        elif _reader(each).recognizes(sample):
            return each
    return None


def _is_own(value: dict[str, Any]) -> bool:
    return bool(value.keys() & (_OWN - {"agent"})) or (value.keys() == {"agent"})


def _reader(name: Format) -> type[Reader]:
    from settlemark.history._importers.chats import Chats
    from settlemark.history._importers.langgraph_events import LangGraphEvents
    from settlemark.history._importers.langgraph_stream import LangGraphStream
    from settlemark.history._importers.spans import Spans

    readers: dict[str, type[Reader]] = {
        "spans": Spans,
        "langgraph-events": LangGraphEvents,
        "langgraph-stream": LangGraphStream,
        "chat": Chats,
    }
    return readers[name]


def _unknown(path: str, first: list[Entry]) -> HistoryError:
    line, _, why = first[0]
    told = why or "it is none of the traces that are known"
    return HistoryError(
        f"{path}, line {line}: {told}; a trace is one of {', '.join(FORMATS)}: name it with format= (--format)",
        file=path,
        line=line,
        field=None,
    )


__all__ = ["FORMATS", "Format", "Imported", "format_of", "import_trace", "recognized"]
