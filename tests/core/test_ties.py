"""Who may not wait for those it is tied to is told at once by whom it is held up, and on what, as data too."""

from __future__ import annotations

import pytest
from tests.rooms.protocol import Blocked, Mode

from settlemark import Entangled, Scope
from settlemark._protocol import ties

ADA = Scope.parse("room:/Ada")


def what_its_caller_holds(stage):
    outer = stage.begin("outer", "room:/*")
    inner = stage.begin("inner", parent=outer.id)
    stage.ask(inner, "room:/Ada", Mode.READ)


def what_its_caller_holds_as_it_begins(stage):
    outer = stage.begin("outer", "room:/*")
    stage.begin("inner", "room:/Ada", parent=outer.id)


def what_another_branch_has_done(stage):
    choice = stage.begin("choice", role="choice")
    outer, inner = (stage.begin(name, group=choice.id) for name in ("outer", "inner"))
    stage.write(outer, "room:/*")
    stage.ask(inner, "room:/Ada", Mode.EAGER)


def what_waits_for_its_caller(stage):
    caller, outer = stage.begin("caller"), stage.begin("outer")
    stage.write(caller, "lamp:/1")
    stage.write(outer, "room:/Ada")
    stage.ask(outer, "lamp:/1", Mode.EAGER)
    stage.ask(stage.begin("inner", parent=caller.id), "room:/Ada", Mode.EAGER)


def what_cannot_end_before_it_returns(stage):
    ties.refuse_to_wait("inner", Blocked(stage.begin("outer"), ADA))


@pytest.mark.parametrize(
    "asks_for",
    [
        what_its_caller_holds,
        what_its_caller_holds_as_it_begins,
        what_another_branch_has_done,
        what_waits_for_its_caller,
        what_cannot_end_before_it_returns,
    ],
)
def test_who_would_wait_for_ever_is_told_who_holds_what(stage, asks_for):
    with pytest.raises(Entangled) as refused:
        asks_for(stage)
    assert refused.value.data == {"transaction": "inner", "holder": "outer", "scope": ADA}
    assert [word for word in ("inner", "outer", "room:/Ada") if word not in str(refused.value)] == []


def its_own_name_in_its_call(stage):
    outer = stage.begin("outer")
    ties.refuse_own_name(stage.protocol.by_id, "outer", outer.id, outer)


def its_own_name_in_its_body(stage):
    ties.refuse_own_name(stage.protocol.by_id, "outer", 0, stage.begin("outer"), within=True)


def its_own_end(_stage):
    ties.refuse_own_end("outer")


@pytest.mark.parametrize("asks_for", [its_own_name_in_its_call, its_own_name_in_its_body, its_own_end])
def test_who_would_wait_for_itself_is_told_so(stage, asks_for):
    with pytest.raises(Entangled, match="outer") as refused:
        asks_for(stage)
    assert refused.value.data == {"transaction": "outer", "holder": "outer", "scope": None}


def test_a_name_in_use_elsewhere_or_of_one_that_is_over_is_nobodys_own(stage):
    other, over = stage.begin("other"), stage.begin("over")
    stage.commit(over)
    known = stage.protocol.by_id
    ties.refuse_own_name(known, "other", stage.begin("outer").id, other)
    ties.refuse_own_name(known, "over", 0, over, within=True)
