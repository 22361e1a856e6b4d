"""What of a job is in doubt is not done again by a later turn, until somebody knows what came of it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from settlemark import InDoubt
from settlemark.agents import open_turn, run_sync

POST, CHARGE = ("post", {"to": "bank"}), ("charge", {"to": "bank"})


@pytest.fixture
def turn_of(office, settlement):
    """Play a turn of one call in a job, and return what its model is told; `lost` loses the answer of the world."""
    numbers = iter(range(99))

    def play(issued, *, run="trip", lost=False, **options):
        turn = run_sync(open_turn(settlement, f"{run}/step-{next(numbers)}", run=run, **{"recalls": True, **options}))
        (call,) = run_sync(turn.place_all(office.calls(settlement, issued)))

        def act():
            found = getattr(office, call.tool)(**call.arguments)
            if lost:
                raise TimeoutError
            return found

        try:
            found = run_sync(turn.perform(call, act, call.arguments))
        except InDoubt:
            run_sync(turn.leave(call, failed="nobody knows"))
            return "in doubt"
        run_sync(turn.leave(call))
        return turn.last_word(call, found)

    return play


def resolve(settlement, verdict, **more):
    (doubt,) = settlement.in_doubt()
    settlement.resolve(doubt, verdict, by="ada", **more)


def test_each_call_like_it_is_refused_and_each_that_is_not_is_run(office, turn_of):
    assert turn_of(POST, lost=True) == "in doubt"
    assert [turn_of(POST), turn_of(POST)] == ["in doubt", "in doubt"]
    for other in (("post", {"to": "mint"}), ("post", {"to": "bank", "text": "hello"}), ("book", {"room": "bank"})):
        assert turn_of(other) == " ".join((other[0], *other[1].values()))
    assert office.log.count(("post", "bank")) == 1


def test_in_another_job_or_where_the_framework_does_not_ask_for_it_it_is_run(office, settlement, turn_of):
    assert turn_of(POST, lost=True) == "in doubt"
    assert turn_of(POST, run="tour") == "post bank"
    assert turn_of(POST, recalls=False) == "post bank"
    turn = run_sync(open_turn(settlement, "trip/another", run="trip"))  # nor by itself
    (call,) = run_sync(turn.place_all(office.calls(settlement, POST)))
    assert run_sync(turn.perform(call, lambda: office.post("bank"), call.arguments)) == "post bank"
    assert office.log == [("post", "bank")] * 4


def test_what_turns_out_not_to_have_happened_is_run(office, settlement, turn_of):
    assert turn_of(POST, lost=True) == "in doubt"
    resolve(settlement, "absent")
    assert [turn_of(POST), turn_of(POST)] == ["post bank", "post bank"]
    assert office.log == [("post", "bank")] * 3


def test_what_turns_out_to_have_happened_answers_one_call_and_the_next_like_it_is_new(office, settlement, turn_of):
    assert turn_of(POST, lost=True) == "in doubt"
    resolve(settlement, "confirmed", result="it is there")
    assert [turn_of(POST), turn_of(POST)] == ["it is there", "post bank"]
    assert office.log == [("post", "bank")] * 2


def test_what_is_in_doubt_is_not_done_beside_the_turn_that_comes_back_to_it(office, settlement, turn_of):
    class Aside(Exception):
        """The framework comes back to the turn."""

    def charge(then):
        options = {"resumable": True, "let_through": (Aside,), "recalls": True}
        turn = run_sync(open_turn(settlement, "trip/first", run="trip", **options))
        (call,) = run_sync(turn.place_all(office.calls(settlement, CHARGE)))
        aside = None
        try:
            run_sync(turn.perform(call, then, call.arguments))
        except InDoubt:
            aside = Aside()
        run_sync(turn.leave(call, error=aside))

    def lose():
        raise TimeoutError

    def beside():
        with ThreadPoolExecutor(1) as elsewhere:
            told.append(elsewhere.submit(turn_of, CHARGE).result())
        return office.act("charge", "bank")

    told = []
    settlement.declare("charge", "idempotent", scope="account:/{to}", keyed=True)
    office.charge = lambda to: office.act("charge", to)
    charge(lose)
    charge(beside)
    assert (told, office.log) == (["in doubt"], [("charge", "bank")])


def test_of_what_another_process_left_in_doubt_a_turn_that_can_be_gone_on_with_does_nothing_again(office, tmp_path):
    from tests.core.agents.conftest import Office  # a world of the next process

    url, again = f"sqlite:///{tmp_path / 'ledger.db'}", Office()
    for world, told in ((office, "in doubt"), (again, "in doubt")):
        with world.settlement(url) as settlement:
            turn = run_sync(open_turn(settlement, f"trip/{id(world)}", run="trip", recalls=True, resumable=True))
            (call,) = run_sync(turn.place_all(world.calls(settlement, POST)))

            def act(world=world):
                world.post("bank")
                raise TimeoutError

            with pytest.raises(InDoubt):
                run_sync(turn.perform(call, act, call.arguments))
            run_sync(turn.leave(call, failed=told))
    assert (office.log, again.log) == ([("post", "bank")], [])


def test_a_name_that_is_entered_again_repeats_nothing_of_what_could_not_be_undone(office, settlement):
    def play(fails):
        turn = run_sync(open_turn(settlement, "trip/step-1", run="trip"))
        post, book = run_sync(turn.place_all(office.calls(settlement, POST, ("book", {"room": "1"}))))
        posted = run_sync(turn.perform(post, lambda: office.post("bank"), post.arguments))
        run_sync(turn.leave(post))
        if not fails:
            run_sync(turn.perform(book, lambda: office.book("1"), book.arguments))
        run_sync(turn.leave(book, failed="no rooms" if fails else None))
        return posted, turn.is_undone

    assert [play(fails=True), play(fails=False)] == [("post bank", True), ("post bank", False)]
    assert office.log == [("post", "bank"), ("book", "1")]
