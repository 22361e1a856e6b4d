"""Whatever is in a file, an import ends, counts every entry, and makes a history that can be analyzed."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.history import test_imported_graphs as graphs
from tests.core.history import test_imported_spans as spans
from tests.core.history.test_imported_chats import TRIP

from settlemark.history import FORMATS, HistoryError, analyze, import_trace

ATOMS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
JSON = st.recursive(
    ATOMS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
)
GOOD = {
    "chat": [*TRIP, {"messages": TRIP}, {"choices": [{"message": TRIP[2]}]}],
    "langgraph-events": [
        graphs.BEGUN, graphs.PLAN, graphs.PLANNED, *graphs.node("tools", 2, {"messages": [graphs.calls("a")]}, {}),
        graphs.tool("start", "a", input={"to": "a"}), graphs.tool("end", "a", output=None), graphs.OVER,
    ],
    "langgraph-stream": [*graphs.DEBUG, *graphs.VALUES, [["sub:1"], {"a": {}}]],
    "spans": [
        spans.chat(1, 2, "a"), spans.tool("x", 2, 3, call="a"), *spans.AGENTS, {"resourceSpans": [{"scopeSpans": []}]},
    ],
}  # fmt: skip # a table


def places(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


@st.composite
def spoiled(draw, known):
    """A file of a format in which something, somewhere, is something else."""
    values = copy.deepcopy(draw(st.lists(st.sampled_from(GOOD[known]), min_size=1, max_size=8)))
    for _ in range(draw(st.integers(0, 3))):
        *path, last = draw(st.sampled_from([path for path in places(values) if path]))
        at = values
        for key in path:
            at = at[key]
        at[last] = draw(JSON)
        if not isinstance(values, list):
            break
    return values


@pytest.mark.parametrize("known", GOOD)
@given(data=st.data())
def test_a_file_with_something_wrong_in_it_is_imported_and_every_entry_counted(tmp_path_factory, known, data):
    values = data.draw(spoiled(known))
    path = tmp_path_factory.mktemp("n") / "trace"
    path.write_text("\n".join(map(json.dumps, values)))
    for chosen in (known, data.draw(st.sampled_from(["auto", *FORMATS[1:]]))):
        try:
            imported = import_trace(path, chosen)
        except HistoryError:
            assert chosen == "auto"
            continue
        assert imported.parsed + len(imported.skipped) == imported.total
        analyze(imported.records)


@given(st.text(max_size=60))
def test_a_file_with_anything_in_it_is_imported_or_refused(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("n") / "trace"
    path.write_text(text, encoding="utf-8", errors="replace")
    for chosen in FORMATS[1:]:
        imported = import_trace(path, chosen)
        assert imported.parsed + len(imported.skipped) == imported.total
