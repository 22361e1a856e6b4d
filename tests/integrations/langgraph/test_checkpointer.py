"""A settled checkpointer stores what the inner one stores: LangGraph's own conformance suite finds no difference."""

from __future__ import annotations

import threading
from contextlib import asynccontextmanager

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from tests.integrations.langgraph.world import THREAD, graph, trip, turn

from settlemark import Settlement, State, UsageError
from settlemark_langgraph import SequencedToolNode, settled_checkpointer


@asynccontextmanager
async def in_memory(_tmp_path, _request):
    yield InMemorySaver()


@asynccontextmanager
async def in_sqlite(tmp_path, _request):
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "checkpoints.db")) as saver:
        yield saver


@asynccontextmanager
async def in_postgres(_tmp_path, request):
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

    server = request.getfixturevalue("postgres")
    url = server.create_database()
    async with AsyncPostgresSaver.from_conn_string(url.replace("postgresql+psycopg", "postgresql")) as saver:
        await saver.setup()
        yield saver
    server.drop_database(url)


async def report_of(opened, tmp_path, request, settlement):
    counted = iter(range(100))

    @checkpointer_test(name="any")
    async def one():
        folder = tmp_path / str(next(counted))
        folder.mkdir()
        async with opened(folder, request) as saver:
            yield saver if settlement is None else settled_checkpointer(saver, settlement)

    report = await validate(one)
    return {
        name: (found.detected, found.passed, found.tests_passed, found.tests_failed)
        for name, found in report.results.items()
    }


@pytest.mark.parametrize("opened", [in_memory, in_sqlite, in_postgres])
async def test_it_conforms_exactly_as_the_inner_one_does(tmp_path, request, settlement, opened):
    (tmp_path / "bare").mkdir()
    (tmp_path / "settled").mkdir()

    bare = await report_of(opened, tmp_path / "bare", request, None)
    settled = await report_of(opened, tmp_path / "settled", request, settlement)

    assert settled == bare
    assert sum(passed for _, _, passed, _ in settled.values()) >= 50
    assert sum(failed for _, _, _, failed in settled.values()) == 0


@pytest.mark.parametrize("kind", [InMemorySaver, SqliteSaver, AsyncSqliteSaver])
def test_it_can_do_what_the_inner_class_can_and_nothing_else(kind, settlement):
    class Bare(BaseCheckpointSaver):
        def put(self, config, checkpoint, metadata, new_versions):
            return config

    for inner in (kind, Bare):
        settled = type(settled_checkpointer(inner.__new__(inner), settlement))
        for name in dir(BaseCheckpointSaver):
            if callable(getattr(BaseCheckpointSaver, name)) and not name.startswith("_") and name != "with_allowlist":
                overridden = getattr(inner, name) is not getattr(BaseCheckpointSaver, name)
                assert (getattr(settled, name) is not getattr(BaseCheckpointSaver, name)) == overridden, name


def test_what_else_the_inner_one_has_is_there_and_wrapping_twice_is_wrapping_once(settlement):
    inner = InMemorySaver()
    settled = settled_checkpointer(inner, settlement)

    assert settled.storage is inner.storage
    assert settled.serde is inner.serde
    assert settled_checkpointer(settled, settlement).inner is inner
    assert settled.with_allowlist({("builtins", "dict")}).settlement is settlement


def test_what_is_no_checkpointer_or_no_settlement_is_refused(settlement):
    with pytest.raises(UsageError, match="is no checkpointer: pass settled_checkpointer"):
        settled_checkpointer("memory", settlement)
    with pytest.raises(UsageError, match="settlement='memory:' is no Settlement"):
        settled_checkpointer(InMemorySaver(), "memory:")


def test_results_of_a_superstep_that_was_undone_since_are_withheld_and_its_tasks_run_again(world, tmp_path, invoke):
    """Its process died behind the first task; nobody resumed it for as long as it was kept, so it was undone."""
    stored = threading.Event()

    class Telling(InMemorySaver):
        def put_writes(self, config, writes, task_id, task_path=""):
            super().put_writes(config, writes, task_id, task_path)
            if task_path.endswith(", do"):
                stored.set()

    url, saver = f"sqlite:///{tmp_path / 'trip.db'}", Telling()
    broken = [True]

    def build(settlement):
        builder = StateGraph(MessagesState)
        builder.add_node("say", lambda state: {"messages": [turn(("book", {"hotel": "Ada"}))]})
        builder.add_node("do", SequencedToolNode(trip(world), settlement=settlement, settle="superstep"))

        def beside(state):
            if broken:
                stored.wait(30)
                raise ValueError("died")
            return {"messages": [AIMessage("fine", id="fine")]}

        builder.add_node("beside", beside)
        builder.add_edge(START, "say")
        builder.add_edge("say", "do")
        builder.add_edge("say", "beside")
        builder.add_edge("do", END)
        return builder.compile(checkpointer=settled_checkpointer(saver, settlement))

    with Settlement(url) as settlement, pytest.raises(ValueError, match="died"):
        invoke(build(settlement), {"messages": []}, THREAD)
    assert world.log == ["book Ada"]
    with Settlement(url) as settlement:
        (left,) = settlement.parked()
        settlement.answer(left.transaction, approve=False)
        assert world.log == ["book Ada", "cancel Ada"]
        broken.clear()

        invoke(build(settlement), None, THREAD)

        assert world.log == ["book Ada", "cancel Ada", "book Ada"]
        assert [(t.row.attempt, t.state) for t in settlement.transactions()] == [
            (1, State.ABORTED),
            (2, State.COMMITTED),
        ]


@pytest.mark.parametrize("settle", ["call", "node", "superstep", "run"])
def test_a_thread_that_lost_its_checkpoints_does_committed_work_again_under_new_names(world, settlement, settle):
    for _ in range(2):
        saver = settled_checkpointer(InMemorySaver(), settlement)
        built = graph(SequencedToolNode(trip(world), settlement=settlement, settle=settle), checkpointer=saver)
        built.invoke({"messages": [turn(("book", {"hotel": "Ada"}), ("mail", {"to": "a"}))]}, THREAD)

    assert world.log == ["book Ada", "mail a"] * 2
    names = [recorded.row.name for recorded in settlement.transactions()]
    assert len(set(names)) == len(names)
    assert settlement.residue() == []
