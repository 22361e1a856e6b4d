"""What an agent's tools do, as it is looked up by whoever calls them."""

from __future__ import annotations

import threading

import pytest

from settlemark import DeclarationError, EffectClass, Settlement, effect
from settlemark.agents import Declarations, declared_at
from settlemark.agents._declarations import as_settled
from settlemark.hosting import host_of


def test_who_learns_a_tool_beside_another_thread_finds_it_declared(monkeypatch):
    @effect("read")
    def look(): ...

    settlement = Settlement("memory:")
    tools = Declarations(settlement)
    adopting, go, adopt = threading.Event(), threading.Event(), host_of(settlement).tools.learn

    def slowly(declaration):
        adopting.set()
        assert go.wait(20)
        adopt(declaration)

    monkeypatch.setattr(host_of(settlement).tools, "learn", slowly)
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


def test_what_effects_declare_is_known_before_any_tool_is_so_that_what_a_crash_left_finds_its_handlers():
    def unbook(room): ...

    settlement = Settlement("memory:")
    Declarations(settlement, {"book": {"kind": "reversible", "scope": "room:/{room}", "undo": unbook}})
    found = settlement.declared("book")
    assert (found.tool, found.kind.value, found.undo.function) == ("book", "reversible", unbook)


def test_a_tool_that_needs_a_yes_is_refused_where_nobody_can_be_asked_and_no_other_is():
    settlement = Settlement("memory:")
    settlement.declare("pay", "irreversible", scope="card:/{card}", approve=True)
    settlement.declare("mail", "irreversible", scope="mail:/{to}")
    alone, settled = Declarations(settlement, settles=False), Declarations(settlement)
    for ask in (alone.learn, alone.of):
        with pytest.raises(DeclarationError, match="pay needs a person's yes"):
            ask("pay")
        ask("mail")
    settled.learn("pay")
    assert settled.of("pay").approve is not None


SAID = {
    ("send_mail", True): (
        "send_mail is undeclared: it runs when it is called, and cannot be undone when another call of its turn fails;"
        ' declare it: settlement.declare("send_mail", "irreversible", scope="send_mail:/{to}") holds it until the turn'
        ' has succeeded, settlement.declare("send_mail", "reversible", scope="send_mail:/{to}", undo=…) undoes it; if'
        " it only runs an agent whose calls settle, leave it as it is"
    ),
    ("sendMail", False): (
        "sendMail is undeclared: it runs when it is called, and cannot be undone when another call of its turn fails;"
        ' declare it: settlement.declare("sendMail", "irreversible", scope="sendMail:/{to}") holds it until the turn'
        ' has succeeded, settlement.declare("sendMail", "reversible", scope="sendMail:/{to}", undo=…) undoes it, with'
        " settlement=Settlement(…) given"
    ),
    ("find", True): (
        "find is undeclared: it runs when it is called, and cannot be undone when another call of its turn fails;"
        ' declare it: settlement.declare("find", "reversible", scope="find:/{to}", undo=…) undoes it,'
        ' settlement.declare("find", "irreversible", scope="find:/{to}") holds it until the turn has succeeded; if it'
        ' only reads: settlement.declare("find", "read"); if it only runs an agent whose calls settle, leave it as it'
        " is"
    ),
    ("find", False): (
        "find is undeclared, so it runs after the calls issued before it; if it only reads, say so, and it runs beside"
        ' them: effects={"find": "read"}'
    ),
}


@pytest.mark.parametrize(("name", "settles"), SAID)
def test_who_uses_an_undeclared_tool_is_told_once_how_to_declare_that_very_one(caplog, name, settles):
    tools = Declarations(Settlement("memory:"), settles=settles)
    tools.learn(name, lambda to: None, arguments=("to",))
    tools.of(name)
    tools.of(name)
    tools.of("somebody else's")
    assert [record.message for record in caplog.records] == [SAID[name, settles]]


def test_a_tool_without_arguments_is_advised_a_scope_for_all_of_it(caplog):
    tools = Declarations(Settlement("memory:"))
    tools.learn("publish_all", print)
    tools.of("publish_all")
    assert 'scope="publish_all:/all"' in caplog.records[0].message


def test_effects_that_say_no_kind_are_refused_with_what_they_say():
    for given, shown in (({"scope": "a:/b", "cost": "c"}, "'scope', 'cost'"), ({}, "nothing")):
        with pytest.raises(DeclarationError, match=f'effects= of look has {shown} and no "kind": say') as refused:
            Declarations(Settlement("memory:"), {"look": given})
        assert refused.value.data["tool"] == "look"


def test_effects_may_be_whole_declarations_and_are_known_by_the_name_that_the_model_calls():
    @effect("read")
    def search(): ...

    settlement = Settlement("memory:")
    tools = Declarations(settlement, {"look": declared_at(search)}, names=["look"])
    assert (tools.of("look").kind.value, tools.of("look").tool) == ("read", "look")


def test_an_agent_without_tools_is_told_so_when_effects_name_one():
    with pytest.raises(DeclarationError, match="effects= names 'b', which is no tool of the crew; its tools: none"):
        Declarations(Settlement("memory:"), {"b": "read"}, names=[], owner="the crew")


def test_a_declaration_is_taken_from_the_first_place_that_has_one_and_is_the_tools_own():
    @effect("read")
    def look(): ...

    @effect("opaque")
    def other(): ...

    settlement = Settlement("memory:")
    tools = Declarations(settlement)
    tools.learn("find", None, declared_on=(len, look, other))
    assert (tools.of("find").kind.value, tools.of("find").tool, settlement.declared("find").tool) == (
        "read",
        "find",
        "find",
    )


def test_what_is_learned_once_stays_whatever_else_is_told_of_it_later():
    @effect("read")
    def look(): ...

    tools = Declarations(Settlement("memory:"))
    tools.learn("look", look)
    tools.learn("look", len)
    assert tools.of("look").kind.value == "read"


def test_where_nothing_is_undone_a_tool_only_reads_or_acts(office):
    with office.settlement() as settlement:
        book, look = settlement.declared("book"), settlement.declared("look")
        told = as_settled(book, False)
        assert (told.kind, told.tool, told.scope, told.undo) == (EffectClass.OPAQUE, "book", book.scope, None)
        assert (as_settled(look, False), as_settled(book, True)) == (look, book)


def test_agents_that_say_different_things_of_one_name_each_hear_their_own_whoever_was_made_last():
    settlement = Settlement("memory:")
    first, second = (Declarations(settlement, {"tell": kind}) for kind in ("read", "opaque"))

    @effect("staged", scope="note:/all")
    def tell(): ...

    third, fourth = Declarations(settlement), Declarations(settlement)
    third.learn("tell", tell)
    fourth.learn("tell", len)

    assert [tools.of("tell").kind.value for tools in (first, second, third, fourth)] == [
        "read",
        "opaque",
        "staged",
        "opaque",
    ]


def test_of_two_tools_of_one_name_each_is_what_it_says_of_itself_and_the_last_is_known_by_the_name():
    @effect("read")
    def look(): ...

    @effect("staged", scope="note:/all")
    def note(): ...

    tools = Declarations(Settlement("memory:"))
    learned = [tools.learn("tell", function) for function in (look, note)]
    learned.append(tools.learn("tell", print, effect="opaque"))

    assert [tools.of(each).kind.value for each in learned] == ["read", "staged", "opaque"]
    assert tools.of("tell").kind.value == "opaque"


def test_that_two_unlike_tools_have_one_name_is_told_once_and_what_to_do_about_it(caplog):
    def made_for(customer):
        @effect("reversible", scope="room:/all", undo=lambda: customer)
        def book(): ...

        return book

    def rival(**more):
        @effect("reversible", scope="seat:/all", undo=lambda: None, **more)
        def book(): ...

        return book

    def learn(*functions):
        caplog.clear()
        settlement = Settlement("memory:")
        for function in functions:
            Declarations(settlement).learn("book", function)
        return [record.message for record in caplog.records]

    assert learn(made_for("ada"), made_for("bob"), made_for("ada")) == []
    assert learn(made_for("ada"), rival(version="2")) == []
    [told] = learn(made_for("ada"), rival(), made_for("ada"))
    assert told == (
        "two unlike tools are called book, version '1': as long as this process runs each is carried out and undone by"
        " its own functions, but what an ended process has left of either, and what is rewound, by those of the last;"
        " give one of them another name, or a version of its own: @effect(…, version=…)"
    )


def test_what_is_declared_later_by_the_name_counts_for_each_agent():
    @effect("read")
    def look(): ...

    settlement = Settlement("memory:")
    says, has = Declarations(settlement, {"look": "read"}), Declarations(settlement)
    has.learn("look", look)
    settlement.declare("look", "staged", scope="look:/all")

    assert [tools.of("look").kind.value for tools in (says, has, Declarations(settlement))] == ["staged"] * 3


def test_what_another_agent_says_of_the_same_function_counts_where_this_one_says_nothing():
    def mail(): ...

    settlement = Settlement("memory:")
    Declarations(settlement, {"mail": {"kind": "irreversible", "scope": "mail:/all"}}).learn("mail", mail)
    same, other = Declarations(settlement), Declarations(settlement)
    same.learn("mail", mail)
    other.learn("mail", lambda: None)

    assert [tools.of("mail").kind.value for tools in (same, other)] == ["irreversible", "opaque"]


def test_what_an_agent_says_of_its_tool_says_nothing_of_a_programs_function_of_the_same_name():
    def mail():
        return "an agent's"

    def programs():
        def mail():
            return "a program's"

        return mail

    settlement = Settlement("memory:")
    Declarations(settlement, {"mail": {"kind": "irreversible", "scope": "mail:/all"}}).learn("mail", mail)
    of = host_of(settlement).tools.of

    assert [of(function).kind.value for function in (mail, programs())] == ["irreversible", "opaque"]
