"""What a call may be refused for before anything is recorded: its check, and the function that names its scopes."""

from __future__ import annotations

import pytest

from settlemark import Scope, ScopeError, Settlement, current_call, effect
from settlemark.hosting import declaration_of


class World:
    def __init__(self):
        self.log = []

    def act(self, *entry):
        self.log.append(entry)


@pytest.fixture
def settlement():
    with Settlement("memory:") as opened:
        yield opened


def declared(world, kind="irreversible", **parts):
    @effect(kind, scope="mail:/{to}", **parts)
    def send(to, body=""):
        world.act("send", to)

    return send


def no_newline(to):
    if "\n" in to:
        raise ValueError(f"{to!r} has a line break: give one address")


def test_what_is_held_is_refused_when_it_is_called_and_not_when_it_is_to_leave(settlement):
    world = World()
    send = declared(world, check=no_newline)
    with pytest.raises(ValueError, match="has a line break"), settlement.transaction("t") as tx:
        tx.call(send, to="ada\nbcc: eve")
    assert (world.log, settlement.transactions(), settlement.residue()) == ([], [], [])


def test_who_goes_on_behind_a_refusal_commits_the_rest(settlement):
    world = World()
    send = declared(world, check=no_newline)
    with settlement.transaction("t") as tx:
        with pytest.raises(ValueError, match="has a line break"):
            tx.call(send, to="ada\n")
        tx.call(send, to="ada")
    assert world.log == [("send", "ada")]


def test_a_check_may_ask_for_the_call_it_is_made_for(settlement):
    seen = []
    send = declared(World(), check=lambda: seen.append((current_call().key, current_call().transaction)))
    with settlement.transaction("t") as tx:
        tx.call(send, to="ada")
    assert seen == [("t#1/0", "t")]


async def test_a_check_may_be_async(settlement):
    async def fit(to):
        raise PermissionError(to)

    world = World()
    with pytest.raises(PermissionError, match="ada"):
        async with settlement.transaction("t") as tx:
            await tx.call(declared(world, check=fit), to="ada")
    assert (world.log, settlement.transactions()) == ([], [])


def test_a_replayed_call_is_not_checked_again(settlement):
    world, asked = World(), []
    send = declared(world, "opaque", check=lambda to: asked.append(to))
    for _ in range(2):
        with settlement.transaction("t") as tx:
            tx.call(send, to="ada")
    assert (asked, world.log) == (["ada"], [("send", "ada")])


def test_a_function_names_the_scopes_from_the_arguments_it_asks_for(settlement):
    @effect("staged", scope=lambda source, target: [f"file:/{source}", Scope.parse(f"file:/{target}")])
    def move(source, target, force=False):
        return None

    assert [s.text for s in declaration_of(move).scopes({"source": "a", "target": "b", "force": True})] == [
        "file:/a",
        "file:/b",
    ]
    with settlement.transaction("t") as tx:
        tx.call(move, source="a", target="b")
        assert tx.staged("file:/b") == tx.staged("file:/a") == [{"source": "a", "target": "b", "force": False}]


def test_what_such_a_function_raises_refuses_the_call_and_says_which_tool(settlement):
    world = World()

    def inside(path):
        raise PermissionError(f"{path} leaves the folder")

    @effect("reversible", scope=inside, undo=lambda: None)
    def write(path):
        world.act("write", path)

    with pytest.raises(ScopeError, match=r"write: ../x leaves the folder"), settlement.transaction("t") as tx:
        tx.call(write, path="../x")
    assert (world.log, settlement.transactions()) == ([], [])


def test_one_that_names_nothing_is_told_so(settlement):
    @effect("staged", scope=lambda: ())
    def write():
        return None

    with pytest.raises(ScopeError, match="names no scope: return at least one"), settlement.transaction("t") as tx:
        tx.call(write)
