"""What an agent's tools do, as it is looked up by whoever calls them."""

from __future__ import annotations

import threading

import pytest

from settlemark import DeclarationError, Settlement, effect
from settlemark.agents import Declarations


def test_who_learns_a_tool_beside_another_thread_finds_it_declared(monkeypatch):
    @effect("read")
    def look(): ...

    settlement = Settlement("memory:")
    tools = Declarations(settlement)
    adopting, go, adopt = threading.Event(), threading.Event(), settlement.adopt

    def slowly(declaration):
        adopting.set()
        assert go.wait(20)
        adopt(declaration)

    monkeypatch.setattr(settlement, "adopt", slowly)
    first = threading.Thread(target=tools.learn, args=("look", look))
    first.start()
    assert adopting.wait(20)
    found = []
    second = threading.Thread(target=lambda: (tools.learn("look", look), found.append(tools.of("look").kind.value)))
    second.start()
    second.join(0.05)
    go.set()
    first.join(20)
    second.join(20)
    assert found == ["read"]


def test_effects_win_over_what_the_function_says():
    @effect("read")
    def look(): ...

    tools = Declarations(Settlement("memory:"), {"look": {"kind": "irreversible", "scope": "look:/all"}})
    tools.learn("look", look)
    assert tools.of("look").kind.value == "irreversible"


def test_an_undeclared_tool_is_opaque_and_it_is_said_once_how_to_declare_it(caplog):
    tools = Declarations(Settlement("memory:"))
    tools.learn("send_mail", lambda to: None, arguments=("to",))
    assert {tools.of("send_mail").kind.value for _ in range(2)} == {"opaque"}
    [said] = [record.message for record in caplog.records]
    assert 'settlement.declare("send_mail", "irreversible", scope="send_mail:/{to}")' in said


def test_effects_that_name_no_tool_there_is_are_refused_and_nothing_is_declared():
    settlement = Settlement("memory:")
    with pytest.raises(DeclarationError, match="effects= names 'b', which is no tool of this agent; its tools: a"):
        Declarations(settlement, {"a": "read", "b": "read"}, names=["a"])
    assert settlement.declared("a") is None
