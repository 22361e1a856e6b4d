"""An undo gets what the tool itself returned, whatever its framework makes of that for the model."""

from __future__ import annotations

from typing import Any

import pytest
from tests.integrations.contract.world import as_is, play, turns

from settlemark import effect, inverse

RESULTS = [{"id": 7}, {"id": {"deep": [1, "2"]}, "$own": 1}, [1, 2], [{"id": 7}], 5, 5.5, True, "text", None]


def tools(sort, result, undo):
    def book(what: str) -> Any:
        """Book a room."""
        return result

    def fail(what: str) -> Any:
        """Fail."""
        raise ValueError(what)

    return [
        effect("reversible", scope="room:/{what}", undo=undo)(as_is(book, sort)),
        effect("reversible", scope="other:/{what}", undo=lambda: None)(as_is(fail, sort)),
    ]


@pytest.mark.parametrize("result", RESULTS, ids=repr)
def test_an_undo_gets_what_the_tool_itself_returned(driver, settlement, face, sort, result):
    got = []

    def undo(result):
        got.append(result)

    play(driver, tools(sort, result, undo), turns([("book", "Ada"), ("fail", "Bad")]), settlement, face=face)

    assert got == [result]
    assert settlement.residue() == []


def test_an_undo_gets_fields_of_what_the_tool_itself_returned(driver, settlement, face, sort):
    got = []
    undo = inverse(lambda booking: got.append(booking), booking="id")

    play(driver, tools(sort, {"id": 7}, undo), turns([("book", "Ada"), ("fail", "Bad")]), settlement, face=face)

    assert (got, settlement.residue()) == ([7], [])
