"""What cannot be undone leaves last: a mail never left when anything else of its turn failed, wherever that stood."""

from __future__ import annotations

import pytest
from tests.integrations.contract.world import World, play, turns, unaccounted, unfinished

from settlemark import Tag, effect
from settlemark.testing import Mailbox

NO_ROOM = "no Bad is to be had"
CLASSES = {
    "read": {},
    "idempotent": {},
    "reversible": {"undo": lambda what: None},
    "reversible, at a cost": {"undo": lambda what: None, "cost": "a fee"},
    "staged": {},
    "opaque": {},
    "irreversible": {},
}


@pytest.fixture(scope="module")
def server():
    with Mailbox() as mailbox:
        yield mailbox


@pytest.fixture
def mailbox(server):
    server.reset()
    return server


def tools(world, mailbox, kind):
    """A booking that can be undone, a mail that cannot, and a call of some class that always fails."""

    @effect("reversible", scope="room:/{what}", undo=lambda what: world.act(f"cancel {what}"))
    def book(what: str) -> str:
        """Book a room."""
        return f"book {what}: number {world.act(f'book {what}')}"

    @effect("irreversible", scope="mail:/{what}")
    def mail(what: str) -> str:
        """Send a mail."""
        mailbox.send(f"{what}@b.example", "Booked", "all of it")
        return f"mail {what}: number {world.act(f'mail {what}')}"

    def fail(what: str) -> str:
        """Fail."""
        raise ValueError(NO_ROOM)

    name = kind.partition(",")[0]
    scope = {} if name == "opaque" else {"scope": "thing:/{what}"}
    return [book, mail, effect(name, **scope, **CLASSES[kind])(fail)]


def sent(mailbox):
    return [mail["to"] for mail in mailbox.messages()]


@pytest.mark.parametrize("place", ["behind", "before"])
@pytest.mark.parametrize("kind", CLASSES)
def test_a_mail_never_left_when_a_call_of_its_turn_fails_whatever_that_does_and_wherever_it_was_issued(
    driver, settlement, mailbox, kind, place
):
    fails = ("fail", "Bad")
    around = [("mail", "ada"), fails] if place == "behind" else [fails, ("mail", "ada")]
    script = turns([("book", "Ada"), *around, ("book", "Bee")])
    world = World()

    settled = play(driver, tools(world, mailbox, kind), script, settlement)

    assert (unaccounted(world, settlement), unfinished(settlement)) == ([], [])
    if (kind, place) == ("irreversible", "behind"):  # one of two that cannot be undone is the first to leave
        assert sent(mailbox) == ["ada@b.example"]
        assert [(left.tool, left.tag) for left in settlement.residue()] == [("fail", Tag.PARTIAL_COMMIT)]
    else:
        assert sent(mailbox) == []
        assert (+world.standing(), settlement.residue()) == ({}, [])
    assert NO_ROOM in (str(settled.error) if settled.error is not None else " ".join(settled.texts))


def test_with_nothing_failing_a_mail_leaves_once_and_last(driver, settlement, mailbox):
    """The control: what is held back is not lost."""
    world = World()

    @effect("staged", scope="page:/{what}")
    def publish(what: str) -> str:
        """Publish a page."""
        return f"publish {what}: number {world.act(f'publish {what}')}"

    book, mail, _ = tools(world, mailbox, "read")
    script = turns([("mail", "ada"), ("book", "Ada"), ("publish", "home"), ("mail", "bee"), ("book", "Bee")])

    settled = play(driver, [book, mail, publish], script, settlement)

    assert world.log == ["book Ada", "book Bee", "publish home", "mail ada", "mail bee"]
    assert sent(mailbox) == ["ada@b.example", "bee@b.example"]
    assert [text.rpartition(" ")[2] for text in settled.texts] == ["4", "1", "3", "5", "2"]
    assert (unaccounted(world, settlement), unfinished(settlement), settlement.residue()) == ([], [], [])
