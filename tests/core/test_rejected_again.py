"""A no is for one attempt of a transaction: whoever enters its name again is asked anew, and told of the no."""

from __future__ import annotations

import logging

import pytest

from settlemark import UsageError, effect


@pytest.fixture
def sent():
    return []


@pytest.fixture
def put_aside(sent):
    @effect("irreversible", scope="mail:/{to}", approve=True)
    def mail(to):
        sent.append(to)

    def enter(settlement):
        with settlement.transaction("trip") as tx:
            tx.call(mail, to="ada")
        (one,) = settlement.approvals()
        return one

    return enter


@pytest.mark.every_store
def test_what_was_rejected_elsewhere_is_asked_about_anew_and_the_log_says_so(
    url, open_settlement, put_aside, sent, caplog
):
    here = open_settlement(url)
    elsewhere = here if url == "memory:" else open_settlement(url)
    first = put_aside(here)
    elsewhere.reject(first.key, because="too dear", by="bo")

    with caplog.at_level(logging.WARNING, "settlemark"):
        second = put_aside(here)

    assert (second.attempt, second.answer, sent) == (2, None, [])
    told = (
        f"{first.key} was rejected by bo: too dear, and trip is entered again: it is asked about anew, as {second.key}"
    )
    assert caplog.messages.count(told) == 1
    with pytest.raises(UsageError, match="was answered already by bo: reject"):
        elsewhere.approve(first.key, by="cy")
    assert sent == []
    elsewhere.approve(second.key, by="cy")
    assert sent == ["ada"]
    assert [t.state.value for t in here.transactions()] == ["aborted", "committed"]


def test_what_was_not_rejected_before_is_asked_about_without_a_word_of_it(quick, put_aside, caplog):
    with caplog.at_level(logging.WARNING, "settlemark"):
        put_aside(quick)

    assert not any("entered again" in text for text in caplog.messages)
    quick.cancel("trip")
