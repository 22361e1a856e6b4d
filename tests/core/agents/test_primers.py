"""What the model of a job that is taken up again is told of it: who is told, when, and for how long the same."""

from __future__ import annotations

import pytest
from tests.core.agents.conftest import Office

from settlemark import UsageError
from settlemark.agents import AgentRun, run_sync
from settlemark.agents._record import primers
from settlemark.agents._record.primers import refuse_bad_primer


def act(office, settlement, job, room):
    turn = job.work("clerk").turn(office.calls(settlement, ("book", {"room": room})))
    run_sync(turn.perform(0, lambda: office.book(room)))


def told(job, agent, beginning):
    """Return how many acts a model is told of, None where it is told nothing."""
    text = run_sync(job.primers.text(agent, beginning))
    return None if text is None else text.count("- book(")


def test_an_agent_of_a_job_that_is_new_is_told_nothing_for_as_long_as_it_goes_on(office, settlement, job):
    assert told(job, "clerk", 1) is None
    act(office, settlement, job, "1")
    assert told(job, "clerk", 1) is None


def test_an_agent_that_is_begun_again_is_told_and_one_that_begins_beside_it_is_not(office, settlement, job):
    assert told(job, "clerk", 1) is None
    act(office, settlement, job, "1")
    assert (told(job, "clerk", 2), told(job, "guide", 1)) == (1, None)


def test_an_agent_is_told_the_same_at_each_request_until_it_is_begun_once_more(office, settlement, job):
    assert told(job, "clerk", 1) is None
    act(office, settlement, job, "1")
    assert told(job, "clerk", 2) == 1
    act(office, settlement, job, "2")
    assert (told(job, "clerk", 2), told(job, "clerk", 3)) == (1, 2)


def test_of_a_job_that_was_begun_before_each_agent_is_told_as_it_begins(tmp_path):
    office = Office()
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with office.settlement(url) as settlement:
        act(office, settlement, AgentRun(settlement, "trip-42"), "1")
    with office.settlement(url) as settlement:
        job, other = AgentRun(settlement, "trip-42"), AgentRun(settlement, "trip-43")
        assert [told(job, agent, 1) for agent in ("clerk", "guide")] == [1, 1]
        assert told(other, "clerk", 1) is None


def test_of_ever_new_beginnings_the_latest_are_kept_and_memory_does_not_grow(office, settlement, job, monkeypatch):
    monkeypatch.setattr(primers, "_MOST", 2)
    act(office, settlement, job, "1")
    assert [told(job, "clerk", beginning) for beginning in (1, 2)] == [1, 1]
    act(office, settlement, job, "2")
    assert told(job, "clerk", 1) == 1  # it goes on
    assert [told(job, "clerk", beginning) for beginning in (3, 2)] == [2, 1]
    assert told(job, "clerk", 1) == 2  # forgotten, and told what is on record now


@pytest.mark.parametrize("primer", ["yes", 1, None])
def test_a_choice_that_is_neither_yes_nor_no_is_refused(primer):
    with pytest.raises(UsageError, match="choose True or False"):
        refuse_bad_primer(primer)
    refuse_bad_primer(False)
