"""What steering left standing answers calls that repeat it, in turns that their framework knows by its own names."""

from __future__ import annotations

import itertools
from contextlib import contextmanager

import pytest

from settlemark import InDoubt
from settlemark.agents import Asked, DoneBefore, open_turn, run_sync
from settlemark.hosting import hear, host_of

POST, ROOM = ("post", {"to": "bank"}), ("book", {"room": "1"})


class Job:
    """A job of one process, and what its model knows the answers of; a turn goes on with none of the turns before."""

    def __init__(self, office, settlement, names):
        self.office = office
        self.settlement = settlement
        self.names = names

    def turn(self, *issued, ids=None, answered=(), beside=(), lost=False):
        """Play a turn, and return what its model is told; `lost` loses the answers of the world."""
        ids = ids or [f"id-{next(self.names)}" for _ in issued]
        turn = run_sync(
            open_turn(
                self.settlement, f"trip/step-{next(self.names)}", run="trip", recalls=True, resumable=True,
                asked=Asked(tuple(ids), tuple(answered), beside=tuple(beside)),
            )
        )  # fmt: skip # the settings of a turn
        calls = run_sync(turn.place_all(self.office.calls(self.settlement, *issued, ids=ids)))
        found = []
        for call in calls:

            def act(call=call):
                answer = getattr(self.office, call.tool)(**call.arguments)
                if lost:
                    raise TimeoutError
                return answer

            try:
                found.append(run_sync(turn.perform(call, act, call.arguments, may_wait=False)))
                run_sync(turn.leave(call))
            except (DoneBefore, InDoubt) as error:
                found.append(type(error).__name__)
                run_sync(turn.leave(call, failed=str(error)))
        return found

    def revise(self):
        """Have it told that it is not to be room 1: what it did from that on goes, where it can."""
        self.settlement.steer("trip", "revise", "not 1", scope="room:/1", by="eve")
        run_sync(hear(host_of(self.settlement), "trip", None, listens=True))


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'ledger.db'}"


@pytest.fixture
def process(office, url):
    """Open the job in a process of its own; all act on one world."""
    names = itertools.count()

    @contextmanager
    def opened():
        with office.settlement(url) as settlement:
            yield Job(office, settlement, names)

    return opened


@pytest.fixture
def job(office, settlement):
    return Job(office, settlement, itertools.count())


def test_a_call_that_repeats_it_has_its_answer_and_the_next_one_is_new(office, job):
    job.turn(ROOM)
    job.turn(POST, ids=["first"])
    job.revise()
    assert job.turn(POST, ids=["again"]) == ["post bank"]
    assert office.log == [("book", "1"), ("post", "bank"), ("unbook", "1")]
    assert job.turn(POST, answered=["again"]) == ["post bank"]
    assert office.log[3:] == [("post", "bank")]


def test_it_has_so_in_another_process_too_and_again_where_its_model_has_forgotten_that(office, process):
    with process() as job:
        job.turn(ROOM)
        job.turn(POST)
        job.revise()
    with process() as job:
        assert job.turn(POST, ids=["again"]) == ["post bank"]
    with process() as job:
        assert job.turn(POST, ids=["again"]) == ["post bank"]  # its framework has died before it was stored
        assert job.turn(POST, ids=["later"]) == ["post bank"]  # its framework has gone back behind it
        assert [each.call_id for each in job.settlement.steering("trip")[0].repeats] == ["again", "later"]
    assert office.log == [("book", "1"), ("post", "bank"), ("unbook", "1")]


def test_what_its_model_knows_the_answer_of_answers_nothing(office, job):
    job.turn(ROOM)
    job.turn(POST, ids=["first"])
    job.revise()
    assert job.turn(POST, answered=["first"]) == ["post bank"]
    assert office.log.count(("post", "bank")) == 2


def test_of_two_that_repeat_it_in_one_turn_the_first_has_its_answer(office, job):
    job.turn(ROOM)
    job.turn(POST)
    job.revise()
    office.post = lambda to: office.act("post", to) + " anew"
    assert job.turn(POST, POST) == ["post bank", "post bank anew"]


def test_of_two_that_repeat_it_in_turns_of_their_own_that_one_model_issued_the_first_has_its_answer(office, process):
    with process() as job:
        job.turn(ROOM)
        job.turn(POST)
        job.revise()
        assert job.turn(POST, ids=["one"], beside=["other"]) == ["post bank"]
        assert office.log.count(("post", "bank")) == 1
        assert job.turn(POST, ids=["other"], beside=["one"]) == ["post bank"]
    assert office.log.count(("post", "bank")) == 2
    with process() as job:
        assert job.turn(POST, ids=["one"], beside=["other"]) == ["post bank"]  # it goes on with what it had
        assert [each.call_id for each in job.settlement.steering("trip")[0].repeats] == ["one"]
    assert office.log.count(("post", "bank")) == 2


def test_one_that_is_like_it_is_refused_once_in_whichever_process(office, process):
    other = ("post", {"to": "bank", "text": "hello"})
    with process() as job:
        job.turn(ROOM)
        job.turn(POST)
        job.revise()
        assert job.turn(other, ids=["other"]) == ["DoneBefore"]
    with process() as job:
        assert job.turn(other, answered=["other"]) == ["post bank hello"]
    assert office.log == [("book", "1"), ("post", "bank"), ("unbook", "1"), ("post", "bank", "hello")]


def test_what_is_in_doubt_is_refused_until_somebody_knows_and_then_answers_one_call(office, job):
    job.turn(ROOM)
    assert job.turn(POST, lost=True) == ["InDoubt"]
    job.revise()
    assert [job.turn(POST), job.turn(POST)] == [["InDoubt"], ["InDoubt"]]
    (doubt,) = job.settlement.in_doubt()
    job.settlement.resolve(doubt, "confirmed", by="ada", result="it is there")
    assert job.turn(POST, ids=["again"]) == ["it is there"]
    assert job.turn(POST, answered=["again"]) == ["post bank"]
    assert office.log.count(("post", "bank")) == 2


def test_a_read_is_never_answered_so(office, job):
    job.turn(ROOM)
    job.turn(("look", {"room": "2"}), POST)
    job.revise()
    job.turn(("look", {"room": "2"}))
    assert office.log.count(("look", "2")) == 2
