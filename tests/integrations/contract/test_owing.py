"""What an agent owes, by whatever framework it runs: owed with its turn, kept by a later call, given back when due."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.integrations.contract.world import as_is, play, turns
from tests.unattended import unattended

from settlemark import PromiseCheck, Settlement, aowe, effect, owe
from settlemark.testing import VirtualClock

DAY = 86_400.0


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def settlement(clock):
    with Settlement("memory:", **{**clock.options(), "wait": 20}) as settlement:
        yield unattended(settlement)


def tools(world, clock, sort, settlement=None):
    """Promise a refund, refund it, hold a room until tomorrow, give it back, fail, and write to a customer."""
    owing = {"fulfilled_by": "refund", "by": timedelta(days=2)}

    def promise(what: str) -> str:
        """Promise a refund to a customer."""
        owe("a refund", to=f"customer:/{what}", **owing)
        return f"promised: number {world.act(f'book promise {what}')}"

    async def promise_async(what: str) -> str:
        """Promise a refund to a customer."""
        await aowe("a refund", to=f"customer:/{what}", **owing)
        return f"promised: number {world.act(f'book promise {what}')}"

    promise_async.__name__ = "promise"

    def refund(what: str) -> str:
        """Refund a customer."""
        return f"refunded: number {world.act(f'refund {what}')}"

    def give_back(what: str) -> str:
        """Give a room back."""
        return f"given back: number {world.act(f'cancel room {what}')}"

    def hold(what: str) -> dict[str, float]:
        """Hold a room until tomorrow."""
        world.act(f"book room {what}")
        return {"until": clock() + DAY}

    def fail(what: str) -> str:
        """Do what cannot be done."""
        raise ValueError(f"no {what} is to be had")

    def write(what: str) -> str:
        """Write to a customer."""
        return f"written: number {world.act(f'write {what}')}"

    def cancel(what: str):
        world.act(f"cancel promise {what}")

    def take_back(what: str):
        world.act(f"cancel room {what}")

    back = effect("irreversible", scope="room:/{what}")(as_is(give_back, sort))
    check = {} if settlement is None else {"check": PromiseCheck(settlement, PromiseCheck.commitments).guard("what")}
    return [
        effect("reversible", scope="promise:/{what}", undo=cancel)(promise if sort == "sync" else promise_async),
        effect("irreversible", scope="customer:/{what}")(as_is(refund, sort)),
        effect("reversible", scope="room:/{what}", undo=take_back, expires="{result.until}", then=back)(
            as_is(hold, sort)
        ),
        back,
        effect("opaque")(as_is(fail, sort)),
        effect("irreversible", scope="mail:/ada", **check)(as_is(write, sort)),
    ]


def owed(settlement):
    return sorted((each.to, each.fulfilled_by, str(each.state)) for each in settlement.obligations())


def test_what_a_turn_owes_is_kept_by_a_later_call_and_what_lapses_is_given_back_once(
    driver, world, settlement, clock, face, sort
):
    script = turns([("promise", "7"), ("hold", "1"), ("hold", "2")], [("refund", "7"), ("give_back", "1")])
    found = tools(world, clock, sort)
    for _ in range(2):  # the same job again owes nothing more
        play(driver, found, script, settlement, face=face)
    assert owed(settlement) == [
        ("customer:/7", "refund", "fulfilled"),
        ("room:/1", "give_back", "fulfilled"),
        ("room:/2", "give_back", "open"),
    ]
    clock.advance(DAY)
    settlement.recover()
    settlement.recover()
    assert sorted(world.log) == sorted(
        ["book promise 7", "book room 1", "book room 2", "refund 7", "cancel room 1", "cancel room 2"]
    )
    assert [state for _, _, state in owed(settlement)] == ["fulfilled"] * 3


def test_a_turn_that_fails_owes_nothing(driver, world, settlement, clock, face):
    script = turns([("promise", "7"), ("hold", "1"), ("fail", "x")])
    play(driver, tools(world, clock, "sync"), script, settlement, face=face)
    assert +world.standing() == {}
    assert {state for _, _, state in owed(settlement)} <= {"void"}
    clock.advance(3 * DAY)
    settlement.recover()
    assert "refund 7" not in world.log
    assert world.log.count("cancel room 1") == 1


def test_a_message_that_promises_what_nobody_owes_is_held_and_its_model_is_told(driver, world, settlement, clock, face):
    message = "We will refund you."
    found = tools(world, clock, "sync", settlement)
    played = play(driver, found, turns([("write", message)]), settlement, face=face)
    assert world.log == []
    assert played.error is not None or "which nobody owes" in played.texts[0]
    PromiseCheck(settlement, PromiseCheck.commitments).strike(message, run="run-2", by="ada")
    play(driver, found, turns([("write", message)]), settlement, face=face, run="run-2")
    assert world.log == [f"write {message}"]
