"""One memory has one name, and a held write that cannot be done is refused while nothing has left."""

from __future__ import annotations

import pytest
from langgraph.store.memory import InMemoryStore

from settlemark import ScopeError, Settlement
from settlemark_adapters.store import MemoryFault, Store, VersionMoved

PLAN = {"namespace": "team", "name": "plan"}
HELD = ("put_memory", "append_memory", "replace_in_memory", "delete_memory")
PLACES = {
    "get_memory": {},
    "put_memory": {"value": {"text": "x"}},
    "append_memory": {"text": "x"},
    "replace_in_memory": {"old": "x", "new": "y"},
    "delete_memory": {},
}
CANNOT = {
    "a memory that is no object": ("put_memory", {**PLAN, "value": "x"}, MemoryFault),
    "a version that has moved": ("put_memory", {**PLAN, "value": {}, "expected_version": "9"}, VersionMoved),
    "a line that is no text": ("append_memory", {**PLAN, "text": 5}, MemoryFault),
    "a line behind what is no text": ("append_memory", {"namespace": "team", "name": "n", "text": "x"}, MemoryFault),
    "a passage that is no text": ("replace_in_memory", {**PLAN, "old": "book", "new": None}, MemoryFault),
    "a passage that is not there": ("replace_in_memory", {**PLAN, "old": "hall", "new": "x"}, MemoryFault),
    "a memory that is not there": ("delete_memory", {"namespace": "team", "name": "none"}, MemoryFault),
    "another version to delete": ("delete_memory", {**PLAN, "expected_version": "9"}, VersionMoved),
}


@pytest.fixture
def settlement():
    with Settlement("memory:") as made:
        yield made


def test_every_tool_that_names_a_memory_is_tried_here_and_so_is_every_one_that_writes():
    taking = {declared.tool for declared in Store({}).declarations() if declared.tool != "search_memory"}
    assert (taking, {tool for tool, _, _ in CANNOT.values()}) == (set(PLACES), set(HELD))


@pytest.mark.parametrize("tool", PLACES)
@pytest.mark.parametrize(("namespace", "name"), [("team", "trip/plan"), ("team", 5), (5, "plan")])
def test_in_shared_blocks_no_block_has_a_second_name(settlement, tool, namespace, name):
    blocks = {"team/trip/plan": "book the room"}
    memory = Store(blocks, settlement)
    with pytest.raises(ScopeError), settlement.transaction("t") as tx:
        tx.call(memory.tool(tool), namespace=namespace, name=name, **PLACES[tool])
    with pytest.raises(MemoryFault):
        memory.tool(tool)(namespace, name, **PLACES[tool])
    assert (blocks, settlement.transactions()) == ({"team/trip/plan": "book the room"}, [])


def test_what_is_kept_of_a_deleted_memory_is_not_that_of_another_one(settlement):
    memory = Store(InMemoryStore(), settlement)
    memory.put("team", "trip/plan", {"text": "book the room"})
    memory.delete("team", "trip/plan")
    assert memory.get("team", "trip/plan") == {"value": None, "version": "2"}
    assert memory.get("team/trip", "plan") == {"value": None, "version": "0"}


@pytest.mark.parametrize("why", CANNOT)
@pytest.mark.parametrize("kind", ["reversible", "staged"])
def test_a_write_that_cannot_be_done_is_refused_at_the_call_and_nothing_is_left(settlement, kind, why):
    tool, arguments, error = CANNOT[why]
    blocks = {"team/plan": "book the room", "team/n": {"text": 7}}
    memory = Store(blocks, settlement, effects=dict.fromkeys(HELD, kind))
    called = []
    with pytest.raises(error), settlement.transaction("t") as tx:
        tx.call(memory.put, namespace="team", name="first", value={"text": "x"})
        called.append("first")
        tx.call(memory.tool(tool), **arguments)
        called.append("second")
    shown = {path: value for path, value in blocks.items() if not path.startswith("settlemark/")}
    assert (called, shown) == (["first"], {"team/plan": "book the room", "team/n": {"text": 7}})
    assert settlement.residue() == []


def test_a_held_write_is_checked_against_what_its_own_step_has_staged(settlement):
    blocks = {}
    memory = Store(blocks, settlement, effects=dict.fromkeys(HELD, "staged"))
    with settlement.transaction("t") as tx:
        tx.call(memory.put, **PLAN, value={"text": "book the room"}, expected_version="0")
        tx.call(memory.replace, **PLAN, old="room", new="hall")
        tx.call(memory.append, **PLAN, text="call Ada")
    assert memory.get(**PLAN)["value"] == {"text": "book the hall\ncall Ada"}
