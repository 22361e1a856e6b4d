"""A choice that is begun now and made later, perhaps by another process: as of a framework that runs the branches."""

from __future__ import annotations

import pytest
from tests.rooms.runtime import chosen_in

from settlemark import LedgerError, Outcome, Refused, Scope, Settlement, Stale, State, Transaction, UsageError
from settlemark.hosting import Choice, Part, Reason, host_of, run_sync

RECORD = "trip/choose"


@pytest.fixture
def begin():
    """Begin a choice, or come back to it."""

    def begin(settlement):
        return run_sync(host_of(settlement).choice("trip/plan", run="trip").begin())

    return begin


def candidate(settlement, choice, label, **options):
    """A candidate, to call tools in."""
    attempt = run_sync(choice.candidate(label, **options))
    return Transaction(host_of(settlement), Part(attempt, attempt.numbering))


def make(choice, label):
    run_sync(choice.make(label, record=RECORD))


def two(settlement, choice, tools):
    """Two candidates that have each done something at once, and hold something back."""
    for label in "ab":
        tx = candidate(settlement, choice, label)
        tx.call(tools.book, room=label)
        tx.call(tools.send, to=label)


def test_the_chosen_one_commits_when_the_others_are_undone_and_the_choice_is_on_record(settlement, begin, tools, world):
    choice = begin(settlement)
    two(settlement, choice, tools)
    assert world.log == [("book", "a"), ("book", "b")]
    make(choice, "b")
    assert world.log[2:] == [("cancel", "a"), ("send", "b", "hello")]
    assert choice.is_made
    assert host_of(settlement).protocol.live == {}
    recorded = {found.row.name: found for found in settlement.transactions()}
    assert chosen_in(recorded[RECORD]) == ("b", "trip/plan")
    assert {name: found.state for name, found in recorded.items()} == {
        "trip/plan~a": State.ABORTED,
        "trip/plan~b": State.COMMITTED,
        RECORD: State.COMMITTED,
    }
    assert recorded["trip/plan~a"].because == "abandoned: another branch was chosen"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("charge", {"account": "1", "amount": 5}),
        ("book_with_fee", {"room": "a"}),
        ("shout", {"word": "hi"}),
        ("put", {"cell": "1", "value": 2}),
    ],
)
def test_what_an_abort_would_leave_behind_is_held_until_its_candidate_has_won(
    settlement, begin, tools, world, tool, arguments
):
    choice = begin(settlement)
    for label in "ab":
        candidate(settlement, choice, label).call(getattr(tools, tool), **arguments)
    assert world.log == []
    make(choice, "a")
    assert len(world.log) == 1
    assert settlement.residue() == []


def test_choosing_none_undoes_all_and_that_is_on_record_too(settlement, begin, tools, world):
    choice = begin(settlement)
    two(settlement, choice, tools)
    make(choice, None)
    assert world.rooms == set()
    assert host_of(settlement).protocol.live == {}
    record = next(found for found in settlement.transactions() if found.row.name == RECORD)
    assert chosen_in(record) == (None, "trip/plan")


def test_a_candidate_that_never_began_has_done_nothing_and_may_win(settlement, begin, tools, world):
    choice = begin(settlement)
    two(settlement, choice, tools)
    make(choice, "c")
    assert world.rooms == set()
    assert host_of(settlement).protocol.live == {}


def test_what_was_undone_cannot_be_chosen_and_nothing_moves(settlement, begin, tools, world):
    choice = begin(settlement)
    two(settlement, choice, tools)
    run_sync(host_of(settlement).driver.undoing.abort(choice.candidates["a"], Reason.FAILED, cause="no"))
    log, open_ = list(world.log), set(host_of(settlement).protocol.named)
    with pytest.raises(UsageError, match="'a' cannot be chosen: it was undone .no.; nothing moved; choose one of 'b'"):
        make(choice, "a")
    assert (world.log, set(host_of(settlement).protocol.named)) == (log, open_)
    make(choice, "b")
    assert world.rooms == {"b"}


def test_who_comes_to_a_candidate_that_was_undone_may_not_go_on_in_it_unless_it_begins_anew(
    settlement, begin, tools, world
):
    first = begin(settlement)
    two(settlement, first, tools)
    run_sync(host_of(settlement).driver.undoing.abort(first.candidates["a"], Reason.FAILED, cause="no"))
    run_sync(first.suspend())
    choice = begin(settlement)
    tx = candidate(settlement, choice, "a")
    with pytest.raises(Refused, match="it was undone before .failed: no."):
        tx.call(tools.book, room="a")
    assert world.rooms == {"b"}
    candidate(settlement, choice, "a", anew=True).call(tools.book, room="a")
    make(choice, "a")
    assert world.rooms == {"a"}


def test_a_candidate_declares_what_it_may_touch(settlement, begin):
    choice = begin(settlement)
    attempt = run_sync(choice.candidate("a", declared=[Scope.parse("room:/a")]))
    assert [hold.scope.text for hold in attempt.live.holds.values()] == ["room:/a"]
    run_sync(choice.undo("no more"))
    assert host_of(settlement).protocol.live == {}


def test_one_that_is_suspended_is_come_back_to_with_all_that_was_done(settlement, begin, tools, world):
    choice = begin(settlement)
    two(settlement, choice, tools)
    run_sync(choice.suspend())
    again = begin(settlement)
    assert candidate(settlement, again, "a").call(tools.book, room="a") == {"confirmation": "R-a"}
    make(again, "a")  # and the one that nobody has come back to is undone
    assert world.log == [("book", "a"), ("book", "b"), ("cancel", "b"), ("send", "a", "hello")]
    assert host_of(settlement).protocol.live == {}


def entered(settlement, choice, label, turn, *place):
    """A turn's part in a candidate, to call tools in."""
    return Transaction(host_of(settlement), run_sync(choice.enter(label, turn, *place, may_touch=["cell:/1"])))


def test_turns_have_parts_in_one_candidate_each_with_numbers_of_its_own(settlement, begin, tools, world):
    choice = begin(settlement)
    for place in (1, 2):
        entered(settlement, choice, "a", f"turn-{place}", place).call(tools.book, room=f"{place}")
    held = {hold.scope.text for hold in choice.candidates["a"].live.holds.values()}
    standing = choice.stands
    make(choice, "a")
    assert (world.rooms, standing, "cell:/1" in held) == ({"1", "2"}, True, True)
    assert [
        [effect.row.decision for effect in found.effects]
        for found in settlement.transactions()
        if found.row.name == "trip/plan~a"
    ] == [[(1, 0), (2, 0)]]


@pytest.mark.parametrize(("before", "begins"), [(["one"], True), (["one", "other"], False)])
def test_a_turn_that_is_all_there_was_of_an_undone_candidate_begins_it_again(
    settlement, begin, tools, world, before, begins
):
    choice = begin(settlement)
    for place, turn in enumerate(before):
        entered(settlement, choice, "a", turn, place).call(tools.book, room=turn)
    run_sync(host_of(settlement).driver.undoing.abort(choice.candidates["a"], Reason.FAILED, cause="no"))
    stood = choice.stands
    again = entered(settlement, choice, "a", "one", 0)
    if begins:
        again.call(tools.book, room="one")
    else:
        with pytest.raises(Refused):
            again.call(tools.book, room="one")
    assert (world.rooms, stood, choice.stands) == ({"one"} if begins else set(), False, begins)


def test_what_a_choice_decided_is_told_by_its_record_and_what_is_not_made_is_found(settlement, begin, tools, world):
    host, choice = host_of(settlement), begin(settlement)
    two(settlement, choice, tools)
    before = run_sync(host.chosen(RECORD))
    run_sync(choice.suspend())
    left = run_sync(host.choices_left("trip"))
    make(begin(settlement), "a")
    assert (before, left) == (None, ["trip/plan"])
    assert (run_sync(host.chosen(RECORD)), run_sync(host.choices_left("trip"))) == (("a", "trip/plan"), [])
    assert run_sync(host.choices_left("other")) == []
    recorded, unfinished = run_sync(host.of_run("trip"))
    assert ({found.row.name for found in recorded}, unfinished) == ({"trip/plan~a", "trip/plan~b", RECORD}, [])
    assert world.log[2:] == [("cancel", "b"), ("send", "a", "hello")]


def test_a_stale_winner_is_undone_with_the_others_and_that_is_told_again(settlement, begin, tools, world):
    with settlement.transaction("older") as older:
        choice = begin(settlement)
        candidate(settlement, choice, "b").call(tools.book, room="b")
        winner = candidate(settlement, choice, "a")
        winner.read("cell:/1")
        winner.call(tools.book, room="a")
        older.call(tools.put, cell="1", value=1)
        older.commit()
        with pytest.raises(Stale):
            make(choice, "a")
    assert world.rooms == set()
    with pytest.raises(Refused, match="a was chosen, and undone before it could commit"):
        run_sync(host_of(settlement).choice("trip/plan", run="trip").carry_out("a"))
    assert host_of(settlement).protocol.live == {}


def test_an_interrupt_while_a_loser_is_undone_does_not_keep_the_winner_from_committing(quick, begin, tools, world):
    choice = begin(quick)
    two(quick, choice, tools)
    world.fail("cancel", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        make(choice, "a")
    assert world.log[-1] == ("send", "a", "hello")
    assert host_of(quick).protocol.live == {}


# ---- death


class Died(BaseException):
    """The process ended here."""


def dies(settlement, at):
    """Have a settlement end as with its process when its driver comes to this."""

    def die(*_given, **_named):
        raise Died

    driver = host_of(settlement).driver
    setattr(driver.selection if at == "discard_all" else driver.settling, at, die)


@pytest.mark.parametrize("keep_open", [0, 30])
@pytest.mark.parametrize("at", ["discard_all", "commit"])
def test_a_choice_that_is_on_record_is_carried_out_by_whoever_recovers(
    tmp_path, open_settlement, begin, tools, world, at, keep_open
):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    dying = open_settlement(url)
    choice = begin(dying)
    two(dying, choice, tools)
    dies(dying, at)
    if at == "discard_all":
        host_of(dying).driver.settling.commit = host_of(dying).driver.selection.discard_all
    with pytest.raises((Died, LedgerError)):
        make(choice, "a")
    dying.close()
    with Settlement(url) as settlement:
        for _ in range(2):  # the choice ends behind its candidates
            settlement.recover(keep_open=keep_open)
        run_sync(host_of(settlement).choice("trip/plan", run="trip").carry_out("a"))
        assert world.rooms == {"a"}
        assert sorted(world.log) == [("book", "a"), ("book", "b"), ("cancel", "b"), ("send", "a", "hello")]
        assert world.log.index(("cancel", "b")) < world.log.index(("send", "a", "hello"))
        left = [txn.role for txn in host_of(settlement).protocol.live.values()]
        assert left == ([] if keep_open == 0 else ["choice"])  # kept for its framework, and holding nothing


def test_a_choice_that_was_not_made_is_come_back_to_in_another_process(tmp_path, open_settlement, begin, tools, world):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    dying = open_settlement(url)
    two(dying, begin(dying), tools)
    dying.close()
    with Settlement(url) as settlement:
        assert sorted(settlement.recover(keep_open=30).kept) == ["trip/plan", "trip/plan~a", "trip/plan~b"]
        choice = begin(settlement)
        make(choice, "b")
        assert world.log == [("book", "a"), ("book", "b"), ("cancel", "a"), ("send", "b", "hello")]
        assert host_of(settlement).protocol.live == {}


def test_a_choice_is_kept_as_long_as_one_of_its_candidates(tmp_path, open_settlement, begin, tools, world):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    dying = open_settlement(url)
    choice = begin(dying)
    two(dying, choice, tools)
    run_sync(host_of(dying).driver.undoing.suspend(choice.candidates["a"]))
    dying.close()
    with Settlement(url) as settlement:
        report = settlement.recover(keep_open=0)
        assert (sorted(report.kept), report.undone) == (["trip/plan", "trip/plan~a"], ["trip/plan~b"])
        assert world.rooms == {"a"}
        assert isinstance(begin(settlement), Choice)


def test_when_the_store_fails_at_the_choice_nothing_is_chosen(tmp_path, open_settlement, begin, tools, world):
    settlement = open_settlement(f"sqlite:///{tmp_path / 'ledger.db'}")
    choice = begin(settlement)
    two(settlement, choice, tools)
    run_sync(host_of(settlement).driver.kernel.flush())
    log = list(world.log)

    def fails(_step, *, durable=False):
        raise LedgerError("no space left")
        yield

    step, host_of(settlement).driver.kernel.step = host_of(settlement).driver.kernel.step, fails
    with pytest.raises(LedgerError):
        run_sync(
            host_of(settlement).driver.selection.choose(choice.candidates["a"], [choice.candidates["b"]], cause="x")
        )
    host_of(settlement).driver.kernel.step = step
    assert world.log == log
    assert {attempt.live.state for attempt in choice.candidates.values()} == {State.OPEN}
    make(choice, "b")
    assert world.rooms == {"b"}


def test_a_held_effect_of_the_winner_that_is_refused_for_good_is_told_and_everything_is_undone(
    quick, begin, tools, world
):
    choice = begin(quick)
    two(quick, choice, tools)
    world.fail("send", *[ValueError("no such address")] * 3)
    with pytest.raises(Refused):
        make(choice, "a")
    assert world.rooms == set()
    assert quick.residue() == []
    effects = [e for found in quick.transactions() for e in found.effects if e.row.tool == "send"]
    assert {effect.outcome for effect in effects} <= {Outcome.DROPPED, Outcome.FAILED}
