"""What a rejected approval does on replay, in the one place that says so."""

from __future__ import annotations

import pytest
from tests.rooms.model import Disposed
from tests.rooms.payloads import Outdated
from tests.rooms.report import refuse_rejected

from settlemark import Rejected
from settlemark.hosting import Disposition

CALL = {"tool": "mail", "key": "trip#1/0", "transaction": "trip"}


@pytest.mark.parametrize(
    ("note", "because", "told"),
    [
        ("too dear", "too dear", "mail was rejected by a human: too dear; nothing of it happened"),
        (None, None, "mail was rejected by a human; nothing of it happened"),
        ("", None, "mail was rejected by a human; nothing of it happened"),
        (Outdated.of("note", "pruned"), None, "mail was rejected by a human; nothing of it happened"),
    ],
)
def test_a_no_is_told_again_with_its_reason_as_far_as_that_is_on_record(note, because, told):
    with pytest.raises(Rejected) as rejected:
        refuse_rejected(Disposed(Disposition.REJECTED, note), **CALL)
    assert (rejected.value.because, str(rejected.value).startswith(told)) == (because, True)


@pytest.mark.parametrize("disposition", [None, *(each for each in Disposition if each is not Disposition.REJECTED)])
def test_nothing_but_a_no_refuses_a_call(disposition):
    refuse_rejected(Disposed(disposition, "rejected by a person"), **CALL)
