"""What an agent says has come about is held against the record, by whatever framework it runs."""

from __future__ import annotations

from tests.integrations.contract.world import as_is, play, turns

from settlemark import ClaimCheck, effect

SAID = "I have refunded 20 EUR."


def tools(world, settlement, sort):
    """Refund an amount, and write to a customer."""

    def refund(what: str) -> str:
        """Refund an amount."""
        return f"refunded: number {world.act(f'refund {what}')}"

    def write(what: str) -> str:
        """Write to a customer."""
        return f"written: number {world.act(f'write {what}')}"

    check = ClaimCheck(settlement).guard("what")
    return [
        effect("irreversible", scope="customer:/7")(as_is(refund, sort)),
        effect("irreversible", scope="mail:/ada", check=check)(as_is(write, sort)),
    ]


def test_what_the_record_does_not_bear_out_is_not_said_and_the_model_is_told_why(driver, world, settlement, face, sort):
    played = play(driver, tools(world, settlement, sort), turns([("write", SAID)]), settlement, face=face)
    assert (world.log, settlement.residue()) == ([], [])
    assert played.error is not None or "the record does not bear out" in played.texts[0]


def test_what_it_bears_out_is_said_once_it_has_settled(driver, world, settlement, face):
    script = turns([("refund", "20")], [("write", SAID)])
    played = play(driver, tools(world, settlement, "sync"), script, settlement, face=face)
    assert (played.error, world.log) == (None, ["refund 20", f"write {SAID}"])
