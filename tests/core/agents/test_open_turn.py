"""A turn whose framework knows it by a name of its own, and says itself when a tool runs and when a call is over."""

from __future__ import annotations

from functools import partial

import pytest

from settlemark import Declaration, EffectClass, InDoubt, Queued, Refused, UsageError, effect
from settlemark.agents import Call, Names, Since, Undone, open_turn, run_sync, since_answered, words
from settlemark.hosting import Wait, host_of

BOOK, MAIL = ("book", {"room": "1"}), ("mail", {"to": "ada"})
BOOK_ACT, MAIL_ACT = ("book", "1"), ("mail", "ada")


class Aside(Exception):
    """A framework's control flow."""


@pytest.fixture
def opened(office, settlement):
    """Open a turn and place its calls."""

    def opened(*issued, **options):
        turn = run_sync(open_turn(settlement, "trip/step-1", run="trip", **options))
        return turn, run_sync(turn.place_all(office.calls(settlement, *issued)))

    return opened


@pytest.fixture
def perform(office):
    """Run the tool of a call; it is not over by that."""

    def perform(turn, place, **options):
        tool = getattr(office, place.tool)
        return run_sync(turn.perform(place, lambda: tool(**place.arguments), place.arguments, **options))

    return perform


def states(settlement):
    return [(recorded.row.name, recorded.state.value) for recorded in settlement.transactions()]


def test_a_turn_that_is_opened_again_under_its_name_does_nothing_twice(office, settlement, opened, perform):
    answers = []
    for _ in range(2):
        turn, (book, mail) = opened(BOOK, MAIL)
        answers.append([perform(turn, book), perform(turn, mail, may_wait=False)])
        for place in (book, mail):
            run_sync(turn.leave(place))
        answers[-1] = [turn.last_word(place, found) for place, found in zip((book, mail), answers[-1], strict=True)]
    assert answers == [["book 1", "mail ada"]] * 2
    assert (office.log, states(settlement)) == ([BOOK_ACT, MAIL_ACT], [("trip/step-1", "committed")])
    assert (turn.settled, turn.refusal, turn.broken, turn.is_undone, turn.abandoned) == (True, None, None, False, False)
    assert (turn.name, turn.is_open, turn.joined) == ("trip/step-1", False, False)


@pytest.mark.parametrize("resumable", [True, False])
def test_what_has_committed_stands_however_a_turn_ends_that_replays_it(office, settlement, opened, perform, resumable):
    options = {"resumable": resumable, "let_through": (Aside,)}
    turn, (book, mail) = opened(BOOK, MAIL, **options)
    for place in (book, mail):
        perform(turn, place, may_wait=False)
        run_sync(turn.leave(place))
    before = settlement.transactions()
    cut = KeyboardInterrupt()
    for end in ({"failed": "no rooms"}, {"error": OSError("no net")}, {"error": Aside()}, {"error": cut}):
        turn, (book, mail) = opened(BOOK, MAIL, **options)
        found = perform(turn, book)
        run_sync(turn.leave(book))
        run_sync(turn.leave(mail, **end))
        if end.get("error") is cut:
            run_sync(turn.abandon(cut))
        assert (turn.settled, turn.suspended, turn.is_undone, turn.abandoned) == (True, False, False, False)
        assert (turn.refusal, turn.broken, turn.last_word(book, found)) == (None, None, "book 1")
        assert (office.log, settlement.transactions()) == ([BOOK_ACT, MAIL_ACT], before)


def test_what_leaves_with_the_call_that_its_turn_is_a_part_of_is_put_aside_by_nothing(office, settlement):
    def ask():
        raise Aside

    @effect("opaque")
    def agent():
        turn = run_sync(open_turn(settlement, None, run="trip", resumable=True, let_through=(Aside,)))
        (mail,) = run_sync(turn.place_all(office.calls(settlement, MAIL)))
        run_sync(turn.perform(mail, ask, mail.arguments, may_wait=False))
        run_sync(turn.leave(mail))

    with pytest.raises(Refused), settlement.transaction("trip") as tx:
        tx.call(agent)
    assert states(settlement) == [("trip", "aborted")]
    assert (settlement.waiting(), host_of(settlement).protocol.live) == ([], {})


def test_a_turn_in_which_a_call_can_have_no_place_is_undone_and_holds_nothing(office, settlement):
    turn = run_sync(open_turn(settlement, "trip/step-1", run="trip"))
    with pytest.raises(UsageError, match="half a character"):
        run_sync(turn.place_all(office.calls(settlement, BOOK, MAIL, ids=["a", "half \ud83d"])))
    assert (turn.settled, turn.abandoned, host_of(settlement).protocol.live, office.log) == (True, True, {}, [])


def test_a_call_that_is_over_while_another_thread_undoes_its_turn_waits_until_that_is_done(office, settlement, opened):
    turn, (book,) = opened(BOOK)
    found = run_sync(turn.perform(book, lambda: office.book("1"), book.arguments))
    leaving, asked = turn.leave(book), []

    class Log(list):
        def append(self, act):
            super().append(act)
            asked.append((leaving.send(None), turn.settled))

    office.log = Log(office.log)
    run_sync(turn.abandon(TimeoutError()))

    assert office.log == [BOOK_ACT, ("unbook", "1")]
    assert [(type(request), settled) for request, settled in asked] == [(Wait, False)]
    with pytest.raises(StopIteration):
        leaving.send(True)
    with pytest.raises(Undone, match=r"^undone: book had .* because the step was stopped by TimeoutError$"):
        turn.last_word(book, found)


def test_the_last_word_on_a_call_that_had_succeeded_is_that_it_was_undone(office, settlement, opened, perform):
    office.fails.add(MAIL_ACT)
    turn, (book, mail) = opened(BOOK, MAIL)
    found = [perform(turn, book), perform(turn, mail, may_wait=False)]
    assert (turn.last_word(book, found[0]), type(found[1]), turn.is_final) == ("book 1", Queued, False)
    run_sync(turn.leave(book))
    run_sync(turn.leave(mail))
    with pytest.raises(Undone, match=r"^undone: book had .* because .*mail: mail ada is out of order$"):
        turn.last_word(book, found[0])
    with pytest.raises(OSError, match="mail ada is out of order"):
        turn.last_word(mail, found[1])
    assert (office.log, turn.is_undone, settlement.residue()) == ([BOOK_ACT, ("unbook", "1")], True, [])


def test_a_turn_does_not_settle_before_a_held_call_that_was_cut_short_is_over(office, opened, perform):
    turn, (book, mail) = opened(BOOK, MAIL)
    perform(turn, book)
    waiting = turn.perform(mail, lambda: office.mail("ada"), mail.arguments)
    assert isinstance(waiting.send(None), Wait)  # for the other call
    with pytest.raises(TimeoutError):
        waiting.throw(TimeoutError())
    run_sync(turn.leave(book))
    assert (turn.settled, turn.unattended, office.log) == (False, False, [BOOK_ACT])
    run_sync(turn.leave(mail, failed="it took too long"))
    assert (turn.settled, turn.is_undone, office.log) == (True, True, [BOOK_ACT, ("unbook", "1")])


def test_a_turn_settles_without_the_calls_that_are_said_not_to_come(office, settlement, opened, perform):
    turn, (book, mail) = opened(BOOK, MAIL)
    perform(turn, book)
    run_sync(turn.leave(book))
    assert (turn.unattended, turn.settled) == (False, False)
    turn.absent(mail)
    assert (turn.unattended, turn.settled) == (True, False)
    run_sync(turn.finish(mail))
    assert (turn.settled, office.log, states(settlement)) == (True, [BOOK_ACT], [("trip/step-1", "committed")])


def test_a_turn_that_was_put_aside_and_let_go_is_settled_as_far_as_it_came(office, settlement, opened, perform):
    turn, (book, mail) = opened(BOOK, MAIL, resumable=True, let_through=(Aside,), undoes=False)
    perform(turn, book)
    run_sync(turn.leave(book))
    run_sync(turn.leave(mail, error=OSError("no net")))
    assert (turn.suspended, turn.is_left, states(settlement)) == (True, True, [("trip/step-1", "open")])
    run_sync(turn.let_go())
    assert (turn.is_left, office.log, states(settlement)) == (False, [BOOK_ACT], [("trip/step-1", "committed")])


@pytest.mark.parametrize("ended", [None, Aside()], ids=["well", "by control flow"])
def test_where_nothing_is_undone_a_turn_in_which_nothing_failed_is_over_though_it_could_be_gone_on_with(
    office, settlement, opened, perform, ended
):
    turn, (book, mail) = opened(BOOK, MAIL, resumable=True, let_through=(Aside,), undoes=False)
    perform(turn, book)
    run_sync(turn.leave(book))
    run_sync(turn.leave(mail, error=ended))
    assert (turn.suspended, turn.is_left, turn.settled) == (False, False, True)
    assert (office.log, states(settlement)) == ([BOOK_ACT], [("trip/step-1", "committed")])


@pytest.mark.parametrize("resumable", [True, False])
def test_control_flow_puts_aside_what_can_be_gone_on_with_and_undoes_what_nobody_can(
    office, settlement, opened, perform, resumable
):
    turn, (book, mail) = opened(BOOK, MAIL, resumable=resumable, let_through=(Aside,))
    perform(turn, book)
    run_sync(turn.leave(book))
    run_sync(turn.leave(mail, error=Aside()))
    undone = [] if resumable else [("unbook", "1")]
    assert (turn.suspended, turn.is_undone, office.log) == (resumable, not resumable, [BOOK_ACT, *undone])
    assert states(settlement) == [("trip/step-1", "open" if resumable else "aborted")]


class Boom(Exception):
    """What a framework does not answer its model with: it escapes."""


@pytest.mark.parametrize("undoes", [True, False])
def test_a_call_that_is_put_aside_keeps_back_those_behind_it_and_where_nothing_is_undone_none(
    office, opened, perform, undoes
):
    turn, (book, post) = opened(BOOK, ("post", {"to": "x"}), resumable=True, let_through=(Aside,), undoes=undoes)
    run_sync(turn.leave(book, error=Aside()))
    if undoes:
        with pytest.raises(Aside):
            perform(turn, post)
        assert office.log == []
    else:
        assert perform(turn, post) == "post x"


@pytest.mark.parametrize("over_last", [0, 1], ids=["the other is over last", "the failed one is over last"])
def test_where_nothing_is_undone_an_error_that_escapes_keeps_the_turn_to_be_gone_on_with(
    settlement, opened, perform, over_last
):
    turn, calls = opened(BOOK, MAIL, resumable=True, undoes=False)
    perform(turn, calls[0])
    for at in (1 - over_last, over_last):
        run_sync(turn.leave(calls[at], error=Boom() if at else None))
    assert (turn.suspended, states(settlement)) == (True, [("trip/step-1", "open")])
    settlement.cancel("trip")


@pytest.mark.parametrize("over_last", [0, 1], ids=["the other is over last", "the failed one is over last"])
def test_where_failures_do_not_stop_a_turn_an_error_that_escapes_undoes_it(office, opened, perform, over_last, request):
    settlement = office.settlement(on_failure="continue")
    request.addfinalizer(settlement.close)
    turn = run_sync(open_turn(settlement, "trip/step-1", run="trip"))
    calls = run_sync(turn.place_all(office.calls(settlement, BOOK, MAIL)))
    perform(turn, calls[0])
    for at in (1 - over_last, over_last):
        run_sync(turn.leave(calls[at], error=Boom() if at else None))
    assert (office.log, states(settlement)) == ([BOOK_ACT, ("unbook", "1")], [("trip/step-1", "aborted")])


def test_what_was_split_off_from_one_of_its_turns_is_a_part_of_an_agents_work_and_nothing_else_is():
    names = Names.of("trip", "clerk")
    found = ("trip/clerk/7", "trip/clerk/7!1", "trip/clerk/7!1!2", "trip/clerk/mine", "trip/boss/7", "trip/boss/7!1")
    assert [names.has_part(name) for name in found] == [True, True, True, False, False, False]


@pytest.fixture
def asked(office, settlement):
    """Run a turn that is split where it waits for a person's answer."""
    settlement.declare(
        "pay", "irreversible", scope="pay:/{to}", approve=True, function=lambda to: office.act("pay", to)
    )

    def ask(*_asked):
        raise Aside

    def asked(*issued, park="split", order="turn"):
        options = {"resumable": True, "let_through": (Aside,), "park": park, "order": order}
        turn = run_sync(open_turn(settlement, "trip/step-1", run="trip", **options))
        for place in run_sync(turn.place_all(office.calls(settlement, *issued))):
            run, aside = partial(office.act, place.tool, *place.arguments.values()), None
            try:
                run_sync(turn.perform(place, run, place.arguments, ask=ask, may_wait=False))
            except Aside as error:
                aside = error
            run_sync(turn.leave(place, error=aside))
        return turn

    return asked


def test_what_one_question_keeps_waiting_is_split_off_and_the_rest_of_the_turn_commits(office, settlement, asked):
    turn = asked(BOOK, ("pay", {"to": "ada"}))
    whole, part = sorted(states(settlement))
    assert (turn.suspended, office.log, whole) == (True, [BOOK_ACT], ("trip/step-1", "committed"))
    assert part[1] == "open"


PAY, FAX = ("pay", {"to": "ada"}), ("mail", {"to": "bob"})


@pytest.mark.parametrize(
    ("issued", "options", "became"),
    [
        ([PAY], {}, "asks"),
        ([PAY, MAIL], {}, "asks, behind"),
        ([MAIL, PAY], {}, "left, asks"),
        ([BOOK, MAIL, PAY, FAX], {}, "left, left, asks, behind"),
        ([BOOK, PAY, MAIL], {"order": "issued"}, "left, asks, behind"),
        ([BOOK, PAY, MAIL], {"order": "scopes"}, "left, asks, left"),  # on another scope
    ],
)
def test_what_waits_for_an_answer_keeps_back_what_is_not_to_leave_before_it_and_nothing_else(
    office, settlement, asked, issued, options, became
):
    said = {"split_off": "asks", "behind": "behind"}
    asked(*issued, **options)
    whole, part = settlement.transactions()
    assert (whole.state.value, part.state.value) == ("committed", "open")
    assert ", ".join(said.get(effect.disposition, "left") for effect in whole.effects) == became
    left = [tool for (tool, _), how in zip(issued, became.split(", "), strict=True) if how == "left"]
    assert ([act for act, _ in office.log], [effect.row.tool for effect in part.effects]) == (left, ["pay"])


def test_a_turn_that_is_kept_waits_as_it_is(office, settlement, asked):
    asked(BOOK, PAY, MAIL, park="keep")
    (whole,) = settlement.transactions()
    assert (whole.state.value, office.log) == ("open", [BOOK_ACT])
    assert [str(effect.outcome) for effect in whole.effects] == ["confirmed", "suspended", "queued"]


def test_what_a_call_did_before_its_turn_was_put_aside_stands_when_it_is_answered_elsewhere(
    office, settlement, opened, perform
):
    aside = {"resumable": True, "let_through": (Aside,)}
    turn, (book, mail) = opened(BOOK, MAIL, **aside)
    perform(turn, book)
    run_sync(turn.leave(book))
    run_sync(turn.leave(mail, error=Aside()))
    turn, (book, mail) = opened(BOOK, MAIL, **aside)
    turn.absent(book)
    perform(turn, mail, may_wait=False)
    run_sync(turn.leave(mail))
    assert (office.log, states(settlement)) == ([BOOK_ACT, MAIL_ACT], [("trip/step-1", "committed")])


@pytest.mark.parametrize("fails", [False, True], ids=["it leaves", "it is refused"])
def test_a_call_that_was_approved_with_other_arguments_is_answered_with_what_became_of_these(office, settlement, fails):
    def ask(*_asked):
        raise Aside

    def pay(given):
        return lambda: office.act("pay", given["to"]), None

    def played():
        turn = run_sync(open_turn(settlement, "trip/step-1", run="trip", resumable=True, let_through=(Aside,)))
        book, paid = run_sync(turn.place_all(office.calls(settlement, BOOK, ("pay", {"to": "ada"}))))
        run_sync(turn.perform(book, lambda: office.book("1"), book.arguments))
        run_sync(turn.leave(book))
        found = aside = None
        try:
            found = run_sync(
                turn.perform(paid, pay(paid.arguments)[0], paid.arguments, ask=ask, remake=pay, may_wait=False)
            )
        except Aside as error:
            aside = error
        run_sync(turn.leave(paid, error=aside))
        return turn, book, paid, found

    settlement.declare("pay", "irreversible", scope="pay:/{to}", approve=True)
    played()
    settlement.approve("trip/step-1", by="eve", arguments={"to": "bob"})
    office.fails.update([("pay", "bob")] if fails else [])
    turn, book, paid, found = played()

    assert turn.acting(paid).scope_text == "pay:/bob"
    if fails:
        with pytest.raises(OSError, match="pay bob is out of order"):
            turn.last_word(paid, found)
        told = [turn.correction(call).split(":")[0] for call in (book, paid)]
        assert (told, office.log) == (["undone", "never left"], [BOOK_ACT, ("unbook", "1")])
    else:
        assert (turn.last_word(paid, found), turn.correction(paid)) == ("pay bob", None)
        assert office.log == [BOOK_ACT, ("pay", "bob")]


def test_of_a_call_that_never_left_it_is_told_why_and_not_that_a_person_had_said_yes(office, settlement):
    def ask(*_asked):
        raise Aside

    def played(**end):
        turn = run_sync(open_turn(settlement, "trip/step-1", run="trip", resumable=True, let_through=(Aside,)))
        paid, posted = run_sync(turn.place_all(office.calls(settlement, PAY, ("post", {"to": "x"}))))
        found = aside = None
        try:
            found = run_sync(turn.perform(paid, lambda: office.act("pay"), paid.arguments, ask=ask, may_wait=False))
        except Aside as error:
            aside = error
        run_sync(turn.leave(paid, error=aside))
        run_sync(turn.leave(posted, **end))
        return turn, paid, found

    settlement.declare("pay", "irreversible", scope="pay:/{to}", approve=True)
    played()
    settlement.approve("trip/step-1", by="eve")
    turn, paid, found = played(failed="no stamps")
    with pytest.raises(Refused, match=r"pay was held and never left, .* from this: post failed: no stamps$"):
        turn.last_word(paid, found)
    assert office.log == []


# ---- what became of calls that were answered before their turn had settled


@pytest.mark.parametrize("url", ["memory:", "sqlite:///{}/trip.db"], ids=["memory", "SQLite"])
def test_of_a_call_that_was_acknowledged_and_has_left_its_result_is_the_answer(office, tmp_path, url):
    with office.settlement(url.format(tmp_path)) as settlement:
        turn = run_sync(open_turn(settlement, "trip/step-1", run="trip"))
        book, mail = run_sync(turn.place_all(office.calls(settlement, BOOK, MAIL)))
        for place, act in ((book, office.book), (mail, office.mail)):
            run_sync(
                turn.perform(
                    place, lambda act=act, given=place.arguments: act(**given), place.arguments, may_wait=False
                )
            )
        keys = [turn.acting(place).key for place in (book, mail)]
        before = since_answered(settlement, keys)
        run_sync(turn.leave(book))
        run_sync(turn.leave(mail))
        after = since_answered(settlement, [*keys, "nobody's", "half \ud83d", ""])
    assert before == {}
    assert after == {keys[0]: Since("book"), keys[1]: Since("mail", left=True, result="mail ada")}


def test_of_calls_that_were_undone_since_it_is_told_why(office, settlement, opened, perform):
    turn, (book, mail, post) = opened(BOOK, MAIL, ("post", {"to": "x"}))
    perform(turn, book)
    perform(turn, mail, may_wait=False)
    run_sync(turn.leave(book))
    run_sync(turn.leave(mail))
    run_sync(turn.leave(post, failed="no stamps"))
    keys = [turn.acting(place).key for place in (book, mail)]
    assert since_answered(settlement, keys) == {
        keys[0]: Since("book", "undone: book had succeeded, and was undone because post failed: no stamps"),
        keys[1]: Since("mail", "never left: mail was held, and dropped because post failed: no stamps"),
    }
    assert office.log == [BOOK_ACT, ("unbook", "1")]


def test_of_a_call_that_a_person_went_back_over_it_is_told_that_it_was_undone(office, settlement, opened, perform):
    turn, (book, post) = opened(BOOK, ("post", {"to": "x"}))
    perform(turn, book)
    run_sync(turn.leave(book))
    perform(turn, post)
    run_sync(turn.leave(post))
    keys = [turn.acting(place).key for place in (book, post)]
    assert since_answered(settlement, keys) == {keys[0]: Since("book"), keys[1]: Since("post")}

    settlement.rewind("trip/step-1", by="ops", note="a mistake", dry_run=False)
    told = since_answered(settlement, keys)
    assert office.log == [BOOK_ACT, ("post", "x"), ("unbook", "1")]
    assert told[keys[0]].told.startswith("undone: book had succeeded, and was undone because ")


@pytest.mark.parametrize("asks", [True, False])
def test_what_an_undeclared_tool_does_keeps_no_other_turn_of_its_run_waiting(office, settlement, asks):
    """Neither while a person is asked in its middle, nor while it just takes its time."""
    note = Call("note", {"text": "a"}, Declaration("note", EffectClass.OPAQUE), "1")
    turns = [
        run_sync(open_turn(settlement, f"trip/{n}", run="trip", resumable=True, let_through=(Aside,))) for n in "ab"
    ]
    places = [run_sync(turn.place_all([note]))[0] for turn in turns]

    def act(n):
        return run_sync(turns[n].perform(places[n], lambda: tools[n](), note.arguments))

    def second():
        office.log.append("b acted")
        return "noted"

    def first():
        if asks:
            raise Aside
        assert act(1) == "noted"
        return "noted too"

    tools = [first, second]
    if asks:
        with pytest.raises(Aside) as aside:
            act(0)
        run_sync(turns[0].leave(places[0], error=aside.value))
        assert turns[0].suspended
        assert act(1) == "noted"
    else:
        assert act(0) == "noted too"
        run_sync(turns[0].leave(places[0]))
    run_sync(turns[1].leave(places[1]))

    assert office.log == ["b acted"]
    assert dict(states(settlement)) == {"trip/a": "open" if asks else "committed", "trip/b": "committed"}


def test_where_nothing_is_undone_a_call_that_fails_stops_no_other(office, opened, perform):
    office.fails.add(BOOK_ACT)
    turn, (book, mail) = opened(BOOK, MAIL, undoes=False)
    with pytest.raises(OSError, match="book 1 is out of order") as failed:
        perform(turn, book)
    run_sync(turn.leave(book, error=failed.value))
    assert (perform(turn, mail), office.log) == ("mail ada", [MAIL_ACT])


def test_a_calls_place_is_by_its_arguments_as_its_tool_will_get_them(office, settlement):
    turn = run_sync(open_turn(settlement, "trip/step-1", run="trip", order="scopes"))
    calls = [Call("book", {}, settlement.declared("book"), None, {"room": room}) for room in ("1", "2")]
    _, second = run_sync(turn.place_all(calls))
    assert (
        run_sync(turn.perform(second, lambda: office.book("2"), {}, given=calls[1].given)) == "book 2"
    )  # waits for no other
    run_sync(turn.leave(second))
    run_sync(turn.abandon(Aside()))
    assert office.log == [("book", "2"), ("unbook", "2")]


def test_of_a_turn_that_was_undone_what_a_read_was_answered_stands(office, opened, perform):
    office.fails.add(BOOK_ACT)
    turn, (look, mail, book) = opened(("look", {"room": "2"}), MAIL, BOOK)
    found = perform(turn, look)
    run_sync(turn.leave(look))
    perform(turn, mail, may_wait=False)
    run_sync(turn.leave(mail))
    with pytest.raises(OSError, match="book 1 is out of order") as failed:
        perform(turn, book)
    run_sync(turn.leave(book, error=failed.value))
    assert (turn.is_undone, turn.last_word(look, found), office.log) == (True, "look 2", [("look", "2")])


def test_where_a_failing_call_stops_no_other_the_turn_settles_without_it(office, perform):
    office.fails.add(BOOK_ACT)
    with office.settlement(on_failure="continue") as settlement:
        turn = run_sync(open_turn(settlement, "trip/step-1", run="trip"))
        book, mail = run_sync(turn.place_all(office.calls(settlement, BOOK, MAIL)))
        with pytest.raises(OSError, match="book 1 is out of order") as failed:
            perform(turn, book)
        run_sync(turn.leave(book, failed=str(failed.value)))  # the framework has told its model
        perform(turn, mail, may_wait=False)
        run_sync(turn.leave(mail))
        assert (turn.settled, office.log, states(settlement)) == (True, [MAIL_ACT], [("trip/step-1", "committed")])


def test_a_call_that_failed_in_a_turn_that_committed_fails_when_that_is_replayed_and_does_nothing(office, perform):
    with office.settlement(on_failure="continue") as settlement:
        told = []
        for fails in ({BOOK_ACT}, set()):
            office.fails = fails
            turn = run_sync(open_turn(settlement, "trip/step-1", run="trip"))
            book, mail = run_sync(turn.place_all(office.calls(settlement, BOOK, MAIL)))
            try:
                told.append(perform(turn, book))
            except Exception as error:
                told.append(words(error))
            run_sync(turn.leave(book, failed=str(told[-1])))
            perform(turn, mail, may_wait=False)
            run_sync(turn.leave(mail))
        assert told[0] == "OSError: book 1 is out of order"
        assert told[1].startswith(
            "Refused: book failed before: OSError: book 1 is out of order; trip/step-1 has gone on without it"
        )
        assert office.log == [MAIL_ACT]


def test_what_may_have_happened_in_an_earlier_turn_of_its_job_is_not_done_again(office, settlement):
    def post():
        office.post("bank")
        raise TimeoutError

    first = run_sync(open_turn(settlement, "trip/step-1", run="trip", recalls=True))
    (lost,) = run_sync(first.place_all(office.calls(settlement, ("post", {"to": "bank"}))))
    with pytest.raises(InDoubt):
        run_sync(first.perform(lost, post, lost.arguments))
    run_sync(first.leave(lost, failed="nobody knows"))
    second = run_sync(open_turn(settlement, "trip/step-2", run="trip", recalls=True))
    (repeated,) = run_sync(second.place_all(office.calls(settlement, ("post", {"to": "bank"}))))
    with pytest.raises(InDoubt, match="do not repeat it"):
        run_sync(second.perform(repeated, post, repeated.arguments))
    assert office.log == [("post", "bank")]


def test_a_call_that_was_made_again_with_other_arguments_is_told_of_what_it_did_last(
    office, settlement, opened, perform
):
    turn, (book, mail) = opened(BOOK, MAIL)
    office.fails = {BOOK_ACT}
    with pytest.raises(OSError, match="book 1 is out of order"):
        perform(turn, book)
    assert run_sync(turn.perform(book, lambda: office.book("2"), {"room": "2"})) == "book 2"
    run_sync(turn.leave(book))
    run_sync(turn.leave(mail, failed="no net"))
    assert turn.correction(book) == "undone: book had succeeded, and was undone because mail failed: no net"
    assert (office.log, states(settlement)) == ([("book", "2"), ("unbook", "2")], [("trip/step-1", "aborted")])
