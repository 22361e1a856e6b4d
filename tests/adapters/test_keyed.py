"""What an adapter keeps under a call's key is that call's alone; a text and its bytes, in whatever encoding."""

from __future__ import annotations

import pytest

from settlemark import KeyConflict, Scope, Settlement
from settlemark_adapters import Adapter, operation
from settlemark_adapters._keyed import Order, check_new, digest_of, mark_of, running, to_bytes, to_text, tool_running


class Asked(Adapter):
    """Each call says for which it takes itself."""

    def __init__(self, settlement=None, **options):
        self.orders = []
        super().__init__(settlement, **options)

    def _undo(self, door):
        self.orders.append(("undo", Order.of("open", "a door", {"door": door})))

    @operation("open", "reversible", scope="door:/{door}", undo=_undo)
    def open(self, door: str) -> None:
        """Open a door."""
        self.orders.append(("open", Order.of("open", "a door", {"door": door})))
        self.orders.append(("part of it", Order.of("ring", "a bell", {})))
        assert tool_running(["ring", "open"]) == ("open" if running() else None)
        assert tool_running(["ring"]) is None

    @operation("ring", "irreversible", scope="bell:/")
    def ring(self) -> None:
        """Ring."""
        self.orders.append(("ring", Order.of("ring", "a bell", {})))


def test_an_order_is_under_its_calls_key_with_its_scopes_and_keeps_what_an_undo_needs():
    with Settlement("memory:") as settlement:
        asked = Asked(settlement)
        with pytest.raises(LookupError), settlement.transaction("day") as tx:
            tx.call(asked.open, door="north")
            raise LookupError
        with settlement.transaction("night") as tx:
            tx.call(asked.ring)
    told = [(name, each.key, each.alone, each.keeps, each.scopes) for name, each in asked.orders]
    ((_, other, *_),) = [each for each in told if each[0] == "part of it"]
    north = (Scope.parse("door:/north"),)
    assert told == [
        ("open", "day#1/0", False, True, north),
        ("part of it", other, True, False, None),
        ("undo", "day#1/0", False, True, north),
        ("ring", "night#1/0", False, False, (Scope.parse("bell:/"),)),
    ]
    assert all(each.mark == mark_of(each.key) for _, each in asked.orders)


def test_a_bare_call_is_under_a_key_that_nobody_else_has_and_nobody_will_undo_it():
    asked = Asked()
    asked.open("north")
    asked.open("north")
    orders = [each for name, each in asked.orders if name == "open"]
    assert len({each.key for each in orders}) == len({each.mark for each in orders}) == 2
    assert {(each.alone, each.keeps, each.scopes, each.digest) for each in orders} == {
        (True, False, None, digest_of({"door": "north"}))
    }
    assert running() is None


def an_order(**parts):
    given = {"tool": "open", "about": "a door", "key": "day#1/0", "mark": "m", "digest": "d", "alone": False}
    return Order(**{**given, "keeps": True, "scopes": (Scope.parse("door:/north"),), **parts})


@pytest.mark.parametrize(("tool", "digest"), [("open", "e"), ("close", "d")])
def test_what_another_call_did_under_its_key_is_not_taken_for_its_own(tool, digest):
    an_order().check_same("open", "d")
    with pytest.raises(KeyConflict, match=f"day#1/0 is already used here by another call of {tool}") as raised:
        an_order().check_same(tool, digest)
    assert raised.value.key == "day#1/0"
    assert raised.value.recorded == {"tool": tool, "digest": digest}
    assert raised.value.given == {"tool": "open", "digest": "d"}


def test_nothing_is_done_where_a_record_is_known_that_the_ledger_does_not_know():
    check_new("day#1/0", "a door", known=False)
    with pytest.raises(KeyConflict, match="nothing was done to a door: day#1/0 is already used here") as raised:
        check_new("day#1/0", "a door", known=True)
    assert raised.value.key == "day#1/0"


def test_nothing_is_done_where_a_name_leads_elsewhere_than_it_led_when_it_was_called():
    order = an_order(scopes=(Scope.parse("door:/north"), Scope.parse("hall:/*")))
    for inside in ("door:/north", "hall:/east"):
        order.check_claimed(inside)
    with pytest.raises(PermissionError, match="it led to door:/north when it was called, and leads to door:/south now"):
        order.check_claimed("door:/south")
    an_order(scopes=None).check_claimed("door:/south")  # a bare call has claimed nothing


@pytest.mark.parametrize(
    ("text", "encoding", "data"),
    [("ÿ", "utf-8", b"\xc3\xbf"), ("ÿ", "latin-1", b"\xff"), ("AAE=", "base64", b"\x00\x01"), ("", "base64", b"")],
)
def test_a_text_is_its_bytes_and_they_are_the_text(text, encoding, data):
    assert (to_bytes(text, encoding), to_text(data, encoding, "a file")) == (data, text)


@pytest.mark.parametrize(
    ("text", "encoding"), [("ÿ", "ascii"), ("ÿ", "klingon"), ("AAE", "base64"), ("A?E=", "base64"), (7, "utf-8")]
)
def test_a_text_that_cannot_be_so_encoded_is_refused_with_another_way(text, encoding):
    with pytest.raises(ValueError, match=f"the content is no {encoding}: .*; choose another encoding, or base64"):
        to_bytes(text, encoding)


@pytest.mark.parametrize("encoding", ["ascii", "utf-8", "klingon"])
def test_bytes_that_are_no_text_of_an_encoding_are_refused_with_another_way(encoding):
    with pytest.raises(ValueError, match=f"the file is no {encoding}: .*; choose another encoding, or base64"):
        to_text(b"\xff", encoding, "the file")


def test_equal_arguments_have_one_digest_in_whatever_order_and_others_another():
    assert digest_of({"a": 1, "b": [2]}) == digest_of({"b": [2], "a": 1}) != digest_of({"a": 1, "b": [3]})
