"""Memory tools over LangGraph's stores and over shared blocks: what they write, undo, refuse and let others see."""

from __future__ import annotations

import inspect
import json
import shelve
from contextlib import nullcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.store.memory import InMemoryStore
from langgraph.store.postgres import PostgresStore
from tests.adapters.store.subject import opened

from settlemark import UNKNOWN, DeclarationError, PayloadError, ScopeError, Settlement, Stale, effect
from settlemark.hosting import declaration_of
from settlemark.testing import Fault, FaultInjector
from settlemark_adapters.store import Blocks, MemoryFault, Store, StoreLost, VersionMoved

PLAN = {"namespace": "team", "name": "plan"}
TEXTS = st.text(alphabet="abc ~/\n", max_size=5)


@pytest.fixture(params=["dict", "shelve", "InMemoryStore", "SqliteStore"])
def base(request, tmp_path):
    match request.param:
        case "dict":
            yield Blocks({})
        case "shelve":
            with shelve.open(str(tmp_path / "shelf")) as shelf:
                yield Blocks(shelf)
        case "InMemoryStore":
            yield InMemoryStore()
        case "SqliteStore":
            store = opened(tmp_path)
            yield store
            store.conn.close()


@pytest.fixture
def settlement():
    with Settlement("memory:") as made:
        yield made


@pytest.fixture
def memory(base, settlement):
    made = Store(base, settlement)
    made.put("team", "plan", {"text": "book the room", "day": 3})
    return made


def everything(base):
    """All that others see in a store: no marks, and nothing of what the adapter keeps for itself."""
    found = base.search(("team",), limit=100)
    return {item.key: {f: v for f, v in item.value.items() if f != "$settlemark"} for item in found}


class TestInATransaction:
    def test_what_it_writes_stays_when_it_commits(self, base, settlement, memory):
        with settlement.transaction("t") as tx:
            assert tx.call(memory.append, **PLAN, text="call Ada") == {"version": "2"}
            assert tx.call(memory.replace, **PLAN, old="room", new="hall") == {"version": "3"}
            assert tx.call(memory.put, namespace="team", name="new", value={"n": [1]}) == {"version": "1"}
            assert tx.call(memory.get, **PLAN)["value"]["text"] == "book the hall\ncall Ada"
        assert everything(base) == {"plan": {"text": "book the hall\ncall Ada", "day": 3}, "new": {"n": [1]}}

    def test_all_of_it_is_undone_when_it_fails_and_no_version_is_used_again(self, base, settlement, memory):
        before = everything(base)
        with pytest.raises(RuntimeError), settlement.transaction("t") as tx:
            tx.call(memory.append, **PLAN, text="call Ada")
            tx.call(memory.replace, **PLAN, old="room", new="hall")
            tx.call(memory.put, namespace="team", name="new", value={"n": 1})
            tx.call(memory.delete, **PLAN)
            raise RuntimeError
        assert (everything(base), settlement.residue()) == (before, [])
        assert memory.get("team", "plan") == {"value": before["plan"], "version": "7"}
        assert memory.get("team", "new") == {"value": None, "version": "2"}

    def test_another_waits_for_it_and_then_sees_what_it_left(self, base, settlement, memory):
        with settlement.transaction("t") as tx:
            seen = tx.call(memory.get, **PLAN)
            assert tx.call(memory.delete, **PLAN, expected_version=seen["version"]) == {"version": "2"}
        assert (everything(base), memory.get(**PLAN)) == ({}, {"value": None, "version": "2"})
        assert memory.put(**PLAN, value={"text": "anew"}, expected_version="2") == {"version": "3"}

    def test_a_write_past_the_settlement_after_its_read_makes_it_stale(self, base, settlement, memory):
        with pytest.raises(Stale, match="from outside"), settlement.transaction("t") as tx:
            tx.call(memory.get, **PLAN)
            base.put(("team",), "plan", {"text": "burn it down"})
            tx.call(memory.put, namespace="team", name="copy", value={})
        assert everything(base) == {"plan": {"text": "burn it down"}}

    def test_a_search_finds_what_stands_below_a_namespace(self, settlement, memory):
        memory.put("team/minutes", "monday", {"text": "nobody came"})
        memory.put("teams", "plan", {"text": "of another"})
        with settlement.transaction("t") as tx:
            found = tx.call(memory.search, namespace="team")
        assert sorted((item["namespace"], item["name"], item["value"]["text"]) for item in found) == [
            ("team", "plan", "book the room"),
            ("team/minutes", "monday", "nobody came"),
        ]


class TestStaged:
    """The same tools declared staged: nothing is written until the commit, and its own reads see it."""

    @pytest.fixture
    def memory(self, base, settlement):
        tools = ("put_memory", "append_memory", "replace_in_memory", "delete_memory")
        made = Store(base, settlement, name="my", effects=dict.fromkeys(tools, "staged"))
        Store(base).put("team", "plan", {"text": "book the room"})
        return made

    def test_what_a_tool_of_somebody_elses_has_staged_there_does_not_keep_it_from_being_read(
        self, base, settlement, memory
    ):
        @effect("staged", scope="memory:/team/plan")
        def remind() -> None:
            """Do something about the plan, later."""

        with settlement.transaction("t") as tx:
            tx.call(remind)
            tx.call(memory.append, namespace="team", name="plan", text="call Ada")
            assert tx.call(memory.get, **PLAN)["value"] == {"text": "book the room\ncall Ada"}
        assert everything(base) == {"plan": {"text": "book the room\ncall Ada"}}

    def test_its_own_reads_see_it_and_nobody_else_does(self, base, settlement, memory):
        before = everything(base)
        with settlement.transaction("t") as tx:
            tx.call(memory.append, **PLAN, text="call Ada")
            tx.call(memory.replace, **PLAN, old="room", new="hall")
            tx.call(memory.put, namespace="team", name="new", value={"text": "x"}, expected_version="0")
            assert tx.call(memory.get, **PLAN) == {"value": {"text": "book the hall\ncall Ada"}, "version": "3"}
            found = tx.call(memory.search, namespace="team")
            assert sorted(item["name"] for item in found) == ["new", "plan"]
            assert tx.call(memory.search, namespace="team", query="Ada")[0]["name"] == "plan"
            tx.call(memory.delete, **PLAN)
            assert [item["name"] for item in tx.call(memory.search, namespace="team")] == ["new"]
            assert everything(base) == before
        assert everything(base) == {"new": {"text": "x"}}

    def test_nothing_of_it_is_written_when_it_fails(self, base, settlement, memory):
        before = everything(base)
        with pytest.raises(RuntimeError), settlement.transaction("t") as tx:
            tx.call(memory.delete, **PLAN)
            raise RuntimeError
        assert everything(base) == before

    def test_a_version_that_has_moved_by_then_refuses_all_of_it(self, base, settlement, memory):
        with pytest.raises(Exception, match="is at version 2, not 1"), settlement.transaction("t") as tx:
            tx.call(memory.put, **PLAN, value={"text": "mine"}, expected_version="1")
            Store(base).append("team", "plan", "theirs")
        assert everything(base) == {"plan": {"text": "book the room\ntheirs"}}


class TestVersions:
    def test_a_version_that_has_moved_is_refused_with_what_stands_there_now(self, base, settlement, memory):
        memory.append(**PLAN, text="call Ada")
        before = everything(base)
        with pytest.raises(VersionMoved) as refused, settlement.transaction("t") as tx:
            tx.call(memory.put, **PLAN, value={"text": "mine"}, expected_version="1")
        assert "team/plan is at version 2, not 1: nothing was written; it is now" in str(refused.value)
        assert "call Ada" in str(refused.value)
        assert (refused.value.version, refused.value.expected, refused.value.value) == ("2", "1", before["plan"])
        assert everything(base) == before

    def test_so_it_is_for_a_delete_and_for_one_that_was_to_be_new(self, base, memory):
        before = everything(base)
        with pytest.raises(VersionMoved):
            memory.delete(**PLAN, expected_version="0")
        with pytest.raises(VersionMoved):
            memory.put(**PLAN, value={}, expected_version="0")
        assert everything(base) == before

    def test_a_change_past_the_settlement_is_another_version_also_when_the_mark_is_kept(self, base, memory):
        stored = dict(base.get(("team",), "plan").value)
        base.put(("team",), "plan", {**stored, "text": "burn it down"})
        assert memory.get(**PLAN)["version"].startswith("1~")
        with pytest.raises(VersionMoved):
            memory.put(**PLAN, value={}, expected_version="1")
        assert memory.put(**PLAN, value={}, expected_version=memory.get(**PLAN)["version"]) == {"version": "2"}

    @given(
        st.lists(
            st.tuples(st.sampled_from(["put", "append", "delete"]), st.sampled_from("ab"), TEXTS, st.booleans()),
            max_size=8,
        )
    )
    def test_no_version_of_a_name_ever_comes_twice_and_aborts_leave_nothing(self, steps):
        base, model, seen = Blocks({}), {}, {"a": {"0"}, "b": {"0"}}
        with Settlement("memory:") as settlement:
            memory = Store(base, settlement)
            for number, (verb, name, text, fails) in enumerate(steps):
                place = {"namespace": "team", "name": name}
                calls = {
                    "put": lambda tx, p=place, t=text: tx.call(memory.put, **p, value={"text": t}),
                    "append": lambda tx, p=place, t=text: tx.call(memory.append, **p, text=t),
                    "delete": lambda tx, p=place: tx.call(memory.delete, **p),
                }
                was = model.get(name, "")
                after = {
                    "put": text,
                    "append": was + ("\n" if was and not was.endswith("\n") else "") + text,
                    "delete": None,
                }
                try:
                    with settlement.transaction(f"t{number}") as tx:
                        calls[verb](tx)
                        if fails:
                            raise RuntimeError
                except MemoryFault:
                    assert (verb, name in model) == ("delete", False)
                    continue
                except RuntimeError:
                    pass
                else:
                    model.pop(name, None)
                    if after[verb] is not None:
                        model[name] = after[verb]
                version = memory.get("team", name)["version"]
                assert version not in seen[name]
                seen[name].add(version)
            assert everything(base) == {name: {"text": text} for name, text in model.items()}
            assert settlement.residue() == []


class TestOnlyWhileItIsOurs:
    @pytest.mark.parametrize(
        "meddle",
        [
            lambda base: base.put(("team",), "plan", {"text": "burn it down"}),
            lambda base: base.put(("team",), "plan", {**base.get(("team",), "plan").value, "text": "burn it down"}),
            lambda base: base.delete(("team",), "plan"),
            lambda base: Store(base).append("team", "plan", "PS"),
        ],
        ids=["put", "put with our mark", "delete", "another Store"],
    )
    def test_a_change_past_the_settlement_is_never_overwritten_by_an_undo(self, base, settlement, memory, meddle):
        with pytest.raises(RuntimeError), settlement.transaction("t") as tx:
            tx.call(memory.append, **PLAN, text="call Ada")
            meddle(base)
            after = everything(base)
            raise RuntimeError
        assert everything(base) == after
        (left,) = settlement.residue()
        assert "ChangedOutside: team/plan was changed past the settlement" in left.note

    def test_what_it_needed_and_was_pruned_is_said_to_be_gone(self, base, settlement):
        memory = Store(base, settlement, clock=lambda: 0.0)
        with pytest.raises(RuntimeError), settlement.transaction("t") as tx:
            tx.call(memory.append, **PLAN, text="call Ada")
            assert Store(base).prune() == 1
            raise RuntimeError
        assert "no longer kept" in settlement.residue()[0].note
        assert everything(base) == {"plan": {"text": "call Ada"}}

    def test_a_prune_keeps_what_is_younger(self, base, settlement, memory):
        with pytest.raises(RuntimeError), settlement.transaction("t") as tx:
            tx.call(memory.append, **PLAN, text="call Ada")
            assert memory.prune() == 0
            raise RuntimeError
        assert settlement.residue() == []


class TestUnderOneKey:
    """What a lost answer leaves: the store is asked under the key of the call."""

    def test_an_answer_that_is_lost_is_found(self, base):
        injector = FaultInjector(Fault(1, "after"))
        with injector.settlement("memory:") as settlement:
            memory = Store(base, settlement)
            with settlement.transaction("t") as tx:
                assert tx.call(memory.append, **PLAN, text="once") == {"version": "1"}
        assert everything(base) == {"plan": {"text": "once"}}

    @pytest.mark.parametrize("fails", [False, True])
    def test_one_whose_record_was_pruned_is_known_by_its_mark_and_not_made_again(self, settlement, fails):
        class Losing(Blocks):
            def put(self, namespace, key, value, index=None, /):
                super().put(namespace, key, value, index)
                if namespace == ("team",) and memory.prune(-1):
                    raise OSError("its answer was lost")

        memory = Store(Losing({"team/plan": "book the room"}), settlement)
        with pytest.raises(RuntimeError) if fails else nullcontext(), settlement.transaction("t") as tx:
            assert tx.call(memory.append, **PLAN, text="call Ada") == {"version": "1"}
            if fails:
                raise RuntimeError
        assert memory.get(**PLAN) == {"value": {"text": "book the room\ncall Ada"}, "version": "1"}
        assert [left.tool for left in settlement.residue()] == (["append_memory"] if fails else [])

    def test_a_call_that_never_arrived_is_made_again(self, base):
        injector = FaultInjector(Fault(1, "unsent"))
        with injector.settlement("memory:") as settlement:
            memory = Store(base, settlement)
            with settlement.transaction("t") as tx:
                assert tx.call(memory.append, **PLAN, text="once") == {"version": "1"}
        assert everything(base) == {"plan": {"text": "once"}}

    def test_a_call_that_comes_twice_under_its_key_acts_once(self, base, settlement):
        memory = Store(base, settlement)

        def twice(namespace: str, name: str, text: str) -> dict[str, str]:
            return [memory.append(namespace, name, text), memory.append(namespace, name, text)][1]

        with settlement.transaction("t") as tx:
            assert tx.call(memory.declare("append_memory", twice), **PLAN, text="once") == {"version": "1"}
        assert everything(base) == {"plan": {"text": "once"}}

    def test_the_store_tells_of_each_call_behind_later_ones_of_its_transaction(self, base, settlement, memory):
        with settlement.transaction("t") as tx:
            tx.call(memory.append, **PLAN, text="one")
            tx.call(memory.delete, **PLAN)
            tx.call(memory.append, **PLAN, text="two")
            probe = declaration_of(memory.append).probe.function
            found = [probe(**PLAN, key=f"t#1/{number}") for number in range(4)]
        assert found == [{"version": "2"}, {"version": "3"}, {"version": "4"}, None]

    def test_nobody_can_tell_behind_a_write_past_the_settlement(self, base, settlement, memory):
        with settlement.transaction("t") as tx:
            tx.call(memory.append, **PLAN, text="one")
            base.put(("team",), "plan", {"text": "burn it down"})
            assert declaration_of(memory.append).probe.function(**PLAN, key="t#1/0") is UNKNOWN

    @pytest.mark.parametrize("arrives", [True, False])
    def test_a_store_that_fails_while_it_writes_is_asked_what_it_did(self, settlement, arrives):
        class Failing(Blocks):
            faults = 1

            def put(self, namespace, key, value, index=None):
                if namespace == ("team",) and self.faults:
                    self.faults -= 1
                    if arrives:
                        super().put(namespace, key, value)
                    raise OSError("the line is dead")
                super().put(namespace, key, value)

        base = Failing({})
        memory = Store(base, settlement)
        with settlement.transaction("t") as tx:
            assert tx.call(memory.append, **PLAN, text="once") == {"version": "1"}
        assert everything(base) == {"plan": {"text": "once"}}
        base.faults = 1
        with pytest.raises(StoreLost, match="failed while team/plan was written"):
            memory.append(**PLAN, text="bare")


class TestBadInput:
    @pytest.mark.parametrize(
        ("namespace", "name", "said"),
        [
            ("", "plan", "is no namespace"),
            ("team//x", "plan", "is no namespace"),
            ("a.b", "plan", "is no namespace"),
            ("../team", "plan", "is no namespace"),
            (" team", "plan", "is no namespace"),
            ("settlemark/effects", "plan", "is reserved"),
            ("langgraph", "plan", "is reserved"),
            ("team", " ", "needs a name"),
        ],
    )
    @pytest.mark.parametrize("tool", ["get_memory", "put_memory", "delete_memory"])
    def test_what_is_no_place_is_refused(self, base, settlement, memory, tool, namespace, name, said):
        before = everything(base)
        value = {"value": {}} if tool == "put_memory" else {}
        with pytest.raises(ScopeError, match=said), settlement.transaction("t") as tx:
            tx.call(memory.tool(tool), namespace=namespace, name=name, **value)
        with pytest.raises(MemoryFault, match=said):
            memory.tool(tool)(namespace=namespace, name=name, **value)
        assert (everything(base), settlement.transactions()) == (before, [])

    @pytest.mark.parametrize(
        ("tool", "arguments", "error", "said"),
        [
            ("put_memory", {"value": "text"}, MemoryFault, "a memory is an object"),
            ("put_memory", {"value": {"$settlemark": {}}}, MemoryFault, "a memory is an object"),
            ("put_memory", {"value": {"when": {1}}}, PayloadError, "which JSON cannot hold"),
            ("append_memory", {"text": "x", "name": "number"}, MemoryFault, "is int, not a text"),
            ("replace_in_memory", {"old": "o", "new": ""}, MemoryFault, "stands 4 times"),
            ("replace_in_memory", {"old": "", "new": "x"}, MemoryFault, "stands 0 times"),
            ("replace_in_memory", {"old": "x", "new": "", "name": "none"}, MemoryFault, "stands 0 times"),
            ("delete_memory", {"name": "none"}, MemoryFault, "there is no memory team/none"),
        ],
    )
    def test_what_cannot_be_done_is_refused(self, base, settlement, memory, tool, arguments, error, said):
        memory.put("team", "number", {"text": 7})
        before = everything(base)
        with pytest.raises(error, match=said), settlement.transaction("t") as tx:
            tx.call(memory.tool(tool), **{**PLAN, **arguments})
        assert (everything(base), settlement.residue()) == (before, [])

    def test_a_closed_database_is_said_and_nothing_is_lost(self, tmp_path, settlement):
        store = opened(tmp_path)
        memory = Store(store, settlement)
        memory.append(**PLAN, text="one")
        store.conn.close()
        with pytest.raises(Exception, match="closed"), settlement.transaction("t") as tx:
            tx.call(memory.append, **PLAN, text="two")
        again = opened(tmp_path)
        assert everything(again) == {"plan": {"text": "one"}}
        again.conn.close()


class TestThreeWays:
    def test_as_tools_of_any_framework(self, memory):
        names = [tool.__name__ for tool in memory.tools()]
        assert names == [
            "get_memory", "search_memory", "put_memory", "append_memory", "replace_in_memory", "delete_memory",
        ]  # fmt: skip # a list of names and values
        put = memory.tool("put_memory")
        assert list(inspect.signature(put).parameters) == ["namespace", "name", "value", "expected_version"]
        assert "Args:" in put.__doc__
        assert declaration_of(put).scopes({**PLAN, "value": {}})[0].text == "memory:/team/plan"

    def test_as_a_declaration_of_a_function_of_ones_own(self, base, settlement, memory):
        def jot(namespace: str, topic: str, line: str) -> dict[str, str]:
            return memory.append(namespace, topic, line)

        mine = memory.declare("append_memory", jot, name="topic", text="line")
        before = everything(base)
        with pytest.raises(RuntimeError), settlement.transaction("t2") as tx:
            assert tx.call(mine, namespace="team", topic="plan", line="jot") == {"version": "2"}
            raise RuntimeError
        assert (everything(base), settlement.residue()) == (before, [])

    def test_a_function_without_a_place_is_no_such_tool(self, memory):
        with pytest.raises(DeclarationError, match="asks for 'namespace', 'name'"):
            memory.declare("append_memory", lambda text: None)

    def test_bare(self):
        blocks = {"team/plan": "book the room"}
        memory = Store(blocks)
        assert memory.append("team", "plan", "call Ada") == {"version": "1"}
        assert blocks["team/plan"]["text"] == "book the room\ncall Ada"
        assert list(blocks) == ["team/plan"]


async def test_from_an_event_loop(settlement, memory):
    async with settlement.transaction("t") as tx:
        await tx.call(memory.append, **PLAN, text="call Ada")
        assert (await tx.call(memory.get, **PLAN))["version"] == "2"


def test_nothing_is_handed_out_that_is_still_in_the_store(memory):
    memory.put("team", "list", {"of": [1]})
    memory.get("team", "list")["value"]["of"].append(2)
    assert memory.get("team", "list")["value"] == {"of": [1]}


def test_in_postgres_too(postgres_url, settlement):
    with PostgresStore.from_conn_string(postgres_url.replace("+psycopg", "")) as base:
        base.setup()
        memory = Store(base, settlement)
        with settlement.transaction("t") as tx:
            tx.call(memory.put, **PLAN, value={"text": "book", "cost": 1e22, "z": 2.0, "a": 0.1})
            tx.call(memory.append, **PLAN, text="the room")
        before = everything(base)
        with pytest.raises(RuntimeError), settlement.transaction("u") as tx:
            tx.call(memory.append, **PLAN, text="call Ada")
            tx.call(memory.delete, **PLAN)
            raise RuntimeError
        assert (everything(base), settlement.residue()) == (before, [])
        assert json.loads(json.dumps(before)) == {"plan": {"text": "book\nthe room", "cost": 1e22, "z": 2.0, "a": 0.1}}
