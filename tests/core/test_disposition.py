"""State is data, prose is for people: whatever becomes of the words of a record, it is acted on as before."""

from __future__ import annotations

import ast
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from tests.rooms.payloads import PRUNED, PRUNED_WHY, Outdated, Sealed
from tests.rooms.report import because_in

from settlemark import (
    InDoubt,
    Injected,
    MovedOn,
    Outcome,
    Payloads,
    Rejected,
    Settlement,
    StateError,
    Tag,
    effect,
    new_key,
)
from settlemark._model.disposition import NOTHING, TOLD_BY_NOTE, Disposed, words
from settlemark.hosting import Disposition, edit, host_of, reject, run_sync

DAY = 86_400.0


class Boom(Exception):
    """A failure of the caller's own."""


class Office:
    """Tools with a log, whoever acts, and a store in which they settle."""

    def __init__(self, settle, lose, clock):
        self.log = []
        self.clock = clock
        self.settle = settle
        self.lose_words = lose
        self.answers = []
        self.late = []
        self.fails = []
        self.meanwhile = []
        self.lost = set()

    def tool(self, name, kind="reversible", **parts):
        def take_back(to):
            if self.fails:
                raise self.fails[0]
            if self.meanwhile:
                self.meanwhile.pop()()
            self.log.append(f"un{name} {to}")

        undo = {"undo": take_back} if kind == "reversible" else {}

        @effect(kind, name=name, **{"scope": f"{name}:/{{to}}", **undo, **parts})
        def act(to):
            self.log.append(f"{name} {to}")
            if self.late:
                raise self.late.pop()
            return f"{name} done"

        return act

    def person(self, gate):
        return self.answers.pop(0)


# ---- the words of a record are lost


ENVELOPE = '{"$sealed":1,"key":"9f3c21aa0b4d","nonce":"AAAAAAAAAAAAAAAA","data":"AAAA"}'
IN_MEMORY = {
    "redacted": lambda field: "[redacted]" if field == "note" else "{}",
    "sealed": lambda field: Sealed.of(field, "under the key 9f3c21aa0b4d: give encrypt= to read it"),
    "pruned": lambda field: Outdated.of(field, PRUNED_WHY),
}
STORED = {"redacted": "[redacted]", "sealed": ENVELOPE, "pruned": PRUNED}


def lose_words(settlement, url, how):
    """Have every note, and every word of a person, be what redaction, a lost key, or its age leaves of it."""
    if url == "memory:":
        for recorded in settlement.transactions():
            for found in recorded.effects:
                for field in ("note", "said"):
                    if getattr(found, field) is not None:
                        setattr(found, field, IN_MEMORY[how](field))
        return
    host_of(settlement).ledger.read(lambda _book: None)  # all that was given before is there
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        lost = sa.text("UPDATE settlemark_effect SET note = :lost WHERE note IS NOT NULL")
        connection.execute(lost, {"lost": STORED[how]})
        lost = sa.text("UPDATE settlemark_effect SET said = :lost WHERE said IS NOT NULL")
        connection.execute(lost, {"lost": "{}" if how == "redacted" else STORED[how]})


@pytest.fixture(params=["kept", *STORED])
def office(request, url, open_here, clock):
    """Tools, and a settlement over each store: of another process, when the words of the record are lost."""
    opened = []

    def settle(**options):
        if not opened or (url != "memory:" and options.pop("anew", False)):
            opened.append(open_here(url, **options))
        return opened[-1]

    def lose(*, here=False):
        made.lost |= {each.disposition for one in settle().transactions() for each in one.effects} - {None}
        if request.param != "kept":
            lose_words(settle(), url, request.param)
        if here:
            return
        if url != "memory:":
            settle().close()
        settle(anew=True)

    made = Office(settle, lose, clock)
    return made


def a_call_that_was_rejected_is_not_taken_for_one_that_was_dropped(office):
    send = office.tool("send", "irreversible", approve=True)
    office.answers = [reject("no such person")]
    for again in (False, True):
        with office.settle().transaction("trip", approver=office.person) as tx, pytest.raises(Rejected):
            tx.call(send, to="ada")
        if not again:
            office.lose_words()
    assert office.log == []


def a_call_that_was_approved_with_other_arguments_replays_what_they_led_to(office):
    book = office.tool("book", approve=True)
    office.answers = [edit({"to": "bee"})]
    for _ in range(2):
        with office.settle().transaction("trip", approver=office.person) as tx:
            assert tx.call(book, to="ada") == "book done"
        office.lose_words()
    assert office.log == ["book bee"]


def put_aside_and_come_back(office, send, *, to="ada", refused=False):
    """Call it, be asked once, put it aside, lose the words of the record, and call it again: nobody is asked."""
    for again in (False, True):
        with office.settle().transaction("trip", approver=office.person) as tx:
            with pytest.raises(Rejected) if refused else nullcontext():
                tx.call(send, to=to)
            if not again:
                tx.park()
        if not again:
            office.lose_words()


def a_call_that_was_approved_and_has_not_left_yet_is_asked_about_no_more(office):
    office.answers = [True]
    put_aside_and_come_back(office, office.tool("send", "irreversible", approve=True))
    assert office.log == ["send ada"]


def a_call_that_was_rejected_is_so_for_whoever_comes_back_before_the_end(office):
    office.answers = [reject("no such person")]
    put_aside_and_come_back(office, office.tool("send", "irreversible", approve=True), refused=True)
    assert office.log == []


def a_call_that_was_approved_with_other_arguments_has_those_for_whoever_comes_back(office):
    office.answers = [edit({"to": "bee"})]
    put_aside_and_come_back(office, office.tool("send", "irreversible", approve=True))
    assert office.log == ["send bee"]


def a_call_that_was_skipped_is_skipped_again(office):
    book = office.tool("book")
    office.late = [Boom("no rooms")]
    for _ in range(2):
        with office.settle().transaction("trip", on_failure="ask", ask=lambda _failure: "skip") as tx:
            assert tx.call(book, to="ada") is None
        office.lose_words()
    assert office.log == ["book ada"]


def what_no_plan_asked_for_again_is_none_of_what_has_committed(office):
    book, rent = office.tool("book"), office.tool("rent")
    with office.settle().transaction("trip") as tx:
        tx.call(book, to="ada")
        tx.call(rent, to="ada")
        tx.park()
    with office.settle().transaction("trip") as tx:
        tx.call(book, to="ada")
    office.lose_words()
    with office.settle().transaction("trip") as tx:
        assert tx.call(book, to="ada") == "book done"
        with pytest.raises(StateError, match="replays its results"):
            tx.call(rent, to="ada")
    assert office.log == ["book ada", "rent ada", "unrent ada"]


def what_was_split_off_is_known_by_its_name_and_gone_back_over_with_its_whole(office):
    book, send = office.tool("book"), office.tool("send", "irreversible")
    with office.settle().transaction("trip") as tx:
        tx.call(book, to="ada")
        tx.call(send, to="ada")
        tx.park("split")
    (part,) = office.settle().parked()
    office.settle().answer(part.transaction, approve=True)
    office.lose_words()
    with office.settle().transaction("trip") as tx:
        tx.call(book, to="ada")
        assert tx.call(send, to="ada").outcome == "confirmed"
    found = office.settle().rewind(["trip"], by="ada")
    assert sorted(found.transactions) == ["trip", part.transaction]


def in_doubt(office, tool, **said):
    office.late = [TimeoutError()]
    with suppress(Boom), office.settle().transaction("trip", **said) as tx:
        with pytest.raises(InDoubt) as doubt:
            tx.call(tool, to="ada")
        raise Boom
    return doubt.value.key


def what_came_too_late_is_still_to_be_undone(office):
    key = in_doubt(office, office.tool("book"))
    settlement = office.settle()
    host_of(settlement).patience = 0
    with settlement.transaction("other") as other:
        other.call(office.tool("take", scope="book:/{to}"), to="ada")
        assert settlement.confirm(key, "late") is Outcome.CONFIRMED
        assert office.log == ["book ada", "take ada"]
    office.lose_words()
    settlement = office.settle()
    for _ in range(2):
        run_sync(host_of(settlement).driver.resolution.ask_again())
        office.clock.advance(1.0)
    assert office.log == ["book ada", "take ada", "unbook ada"]
    assert settlement.residue() == []


def what_somebody_called_absent_is_not_undone_when_another_says_that_it_happened(office):
    key = in_doubt(office, office.tool("book"))
    office.settle().resolve(key, "absent", by="ada", note="called them")
    office.lose_words()
    assert office.settle().confirm(key, "late") is Outcome.FAILED
    assert (office.log, [left.tag for left in office.settle().residue()]) == (["book ada"], [Tag.UNRESOLVED])


def what_was_given_up_is_nobodys_doubt_any_more(office):
    key = in_doubt(office, office.tool("book"))
    office.settle().resolve(key, "give_up", by="ada", note="they are bankrupt")
    office.lose_words()
    assert office.settle().in_doubt() == []


def what_was_contradicted_is_contradicted_once(office):
    key = in_doubt(office, office.tool("book"))
    office.settle().resolve(key, "absent", by="ada")
    office.settle().confirm(key, "late")
    office.lose_words()
    before = records(office.settle())
    office.settle().confirm(key, "later still")
    assert records(office.settle()) == before


def records(settlement):
    return [(e.outcome, e.tag, e.note, e.settled_at) for one in settlement.transactions() for e in one.effects]


def a_call_that_somebody_is_asked_about_is_on_the_list_until_there_is_an_answer(office):
    send, listed = office.tool("send", "irreversible", approve=True), []

    def person(_gate):
        office.lose_words(here=True)
        listed.extend(asked.tool for asked in office.settle().approvals())
        return True

    with office.settle().transaction("trip", approver=person) as tx:
        tx.call(send, to="ada")
    assert (listed, office.settle().approvals(), office.log) == (["send"], [], ["send ada"])


def a_call_behind_what_was_split_off_is_called_there(office):
    send, book = office.tool("send", "irreversible"), office.tool("book")
    with office.settle().transaction("trip") as tx, tx.turn(order="issued") as turn:
        turn.call(send, to="ada")
        turn.call(book, to="ada")
        tx.park("split")
    office.lose_words()
    (part,) = office.settle().parked()
    office.settle().answer(part.transaction, approve=True)
    assert office.log == ["send ada", "book ada"]


def what_is_to_be_undone_on_request_is_undone_whatever_is_lost_meanwhile(office):
    book, rent = office.tool("book"), office.tool("rent")
    with office.settle().transaction("trip") as tx:
        tx.call(book, to="ada")
        tx.call(rent, to="ada")
    office.meanwhile = [partial(office.lose_words, here=True)]
    office.settle().rewind(["trip"], by="ada", dry_run=False)
    assert office.log == ["book ada", "rent ada", "unrent ada", "unbook ada"]
    assert office.settle().residue() == []


def fails_and_is_taken_back(office, *tools):
    with suppress(Boom), office.settle().transaction("trip") as tx:
        for tool in tools:
            tx.call(tool, to="ada")
        raise Boom


def what_is_stuck_is_so_for_its_own_cause_until_its_undo_succeeds(office):
    office.fails = [LookupError("the desk is closed")]
    fails_and_is_taken_back(office, office.tool("book"), office.tool("ring", "opaque"))
    office.lose_words()
    (found,) = office.settle().stuck()
    assert [(each.tool, str(each.cause)) for each in found.effects] == [("book", "failed"), ("ring", "missing")]
    office.fails = []
    office.settle().undo_again("trip", by="ada")
    (found,) = office.settle().stuck()
    assert [each.tool for each in found.effects] == ["ring"]


def what_no_longer_applies_is_stuck_for_that_cause(office):
    office.fails = [MovedOn("let to somebody else")]
    fails_and_is_taken_back(office, office.tool("book"))
    office.lose_words()
    (found,) = office.settle().stuck()
    assert [(each.tool, str(each.cause)) for each in found.effects] == [("book", "moved_on")]


def what_somebody_has_mended_by_hand_is_no_residue_and_is_not_undone_again(office):
    office.fails = [LookupError("the desk is closed")]
    fails_and_is_taken_back(office, office.tool("book"))
    office.fails = []
    (left,) = office.settle().residue()
    office.settle().resolve(left, "absent", by="ada", note="called the desk")
    office.lose_words()
    office.settle().recover()
    assert (office.settle().residue(), office.settle().stuck(), office.log) == ([], [], ["book ada"])


def what_an_operator_has_decided_stays_decided(office):
    office.late = [TimeoutError()]
    with office.settle().transaction("trip") as tx:
        with pytest.raises(InDoubt) as doubt:
            tx.call(office.tool("book"), to="ada")
        office.settle().resolve(doubt.value.key, "confirmed", by="ada")
    office.lose_words()
    before = records(office.settle())
    assert office.settle().resolve(doubt.value.key, "absent", by="bee") is Outcome.CONFIRMED
    assert (records(office.settle()), office.settle().residue()) == (before, [])


def what_a_plan_has_mended_is_stuck_no_more(office):
    _, taken = office.tool("void", scope="book:/{to}"), []
    book = office.tool("book", probe=lambda to: None if "void ada" in office.log else "book done")
    office.settle(on_stuck=lambda _stuck: taken.append(1) or [{"tool": "void", "arguments": {"to": "ada"}}])
    office.fails = [LookupError("the desk is closed")]
    fails_and_is_taken_back(office, book)
    office.settle().recover()
    office.lose_words()
    assert (office.settle().stuck(), office.settle().residue()) == ([], [])
    assert (office.log, taken) == (["book ada", "void ada"], [1])


PLACES = {
    a_call_that_somebody_is_asked_about_is_on_the_list_until_there_is_an_answer: {Disposition.ASKED},
    a_call_behind_what_was_split_off_is_called_there: {Disposition.SPLIT_OFF},
    what_is_to_be_undone_on_request_is_undone_whatever_is_lost_meanwhile: {Disposition.TO_REWIND},
    what_is_stuck_is_so_for_its_own_cause_until_its_undo_succeeds: {Disposition.NO_UNDO, Disposition.UNDO_FAILED},
    what_no_longer_applies_is_stuck_for_that_cause: {Disposition.MOVED_ON},
    what_somebody_has_mended_by_hand_is_no_residue_and_is_not_undone_again: {Disposition.BY_HAND},
    what_an_operator_has_decided_stays_decided: {Disposition.HAPPENED},
    what_a_plan_has_mended_is_stuck_no_more: {Disposition.MENDED},
    a_call_that_was_rejected_is_not_taken_for_one_that_was_dropped: {Disposition.REJECTED},
    a_call_that_was_approved_with_other_arguments_replays_what_they_led_to: {Disposition.APPROVED, Disposition.EDITED},
    a_call_that_was_approved_and_has_not_left_yet_is_asked_about_no_more: {Disposition.APPROVED},
    a_call_that_was_rejected_is_so_for_whoever_comes_back_before_the_end: {Disposition.REJECTED},
    a_call_that_was_approved_with_other_arguments_has_those_for_whoever_comes_back: {
        Disposition.APPROVED,
        Disposition.EDITED,
    },
    a_call_that_was_skipped_is_skipped_again: {Disposition.SKIPPED},
    what_no_plan_asked_for_again_is_none_of_what_has_committed: {Disposition.ORPHANED},
    what_was_split_off_is_known_by_its_name_and_gone_back_over_with_its_whole: {Disposition.SPLIT_OFF},
    what_came_too_late_is_still_to_be_undone: {Disposition.TO_UNDO},
    what_somebody_called_absent_is_not_undone_when_another_says_that_it_happened: {Disposition.ABSENT},
    what_was_given_up_is_nobodys_doubt_any_more: {Disposition.GIVEN_UP},
    what_was_contradicted_is_contradicted_once: {Disposition.ABSENT},
}
"""What is decided by the record, and the dispositions that are on it when its words are lost."""
NO_PLACE = {Disposition.BEHIND: "a shim alone makes it, and all that decide take it for SPLIT_OFF (`ELSEWHERE`)"}


@pytest.mark.every_store
@pytest.mark.own_time
@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__.replace("_", " "))
def test_whatever_becomes_of_the_words_of_a_record(office, place):
    place(office)
    assert office.lost == PLACES[place]


def test_every_disposition_that_is_decided_by_is_on_record_in_one_of_these_places():
    assert set().union(*PLACES.values()) == set(Disposition) - set(NO_PLACE)


# ---- as they are lost


@pytest.mark.every_store
@pytest.mark.parametrize("to", ["person", "by a person", "rejected by a person"])
def test_a_rejection_of_a_call_with_a_secret_that_is_one_of_our_words_is_one_in_a_replay(url, open_settlement, to):
    send = effect("irreversible", scope="mail:/all", name="send", approve=True)(lambda to: None)
    settlement = open_settlement(url, approver=lambda _gate: reject("no such person"), payloads=Payloads(redact=["to"]))
    for _ in range(2):
        with settlement.transaction("trip") as tx, pytest.raises(Rejected):
            tx.call(send, to=to)


@pytest.mark.every_store
def test_a_rejection_is_one_in_a_replay_after_its_words_were_pruned(url, open_settlement, clock):
    send = effect("irreversible", scope="mail:/{to}", name="send", approve=True)(lambda to: None)
    settlement = open_settlement(url, approver=lambda _gate: reject("too late"), injected=Injected(clock=clock))
    with settlement.transaction("trip") as tx, pytest.raises(Rejected) as first:
        tx.call(send, to="ada")
    clock.advance(10 * DAY)
    assert settlement.prune(1).payloads == 1
    with settlement.transaction("trip") as tx, pytest.raises(Rejected) as again:
        tx.call(send, to="ada")
    assert (first.value.because, again.value.because) == ("too late", None)


@pytest.mark.every_store
def test_a_rejection_is_one_in_a_replay_where_its_words_cannot_be_read(shared_url, open_settlement):
    pytest.importorskip("cryptography")
    send = effect("irreversible", scope="mail:/{to}", name="send", approve=True)(lambda to: None)
    said = {"approver": lambda _gate: reject("too late")}
    with (
        Settlement(shared_url, payloads=Payloads(encrypt=new_key()), **said) as settlement,
        settlement.transaction("trip") as tx,
    ):
        with pytest.raises(Rejected):
            tx.call(send, to="ada")
    (trip,) = open_settlement(shared_url).transactions()
    (found,) = trip.effects
    assert (found.outcome, found.disposition, because_in(found.note)) == (Outcome.DROPPED, Disposition.REJECTED, None)


@pytest.mark.parametrize("name", ["desk/mend/7", "desk/rewind/7"])
def test_a_transaction_that_is_named_as_one_of_ours_is_a_users_all_the_same(shared_url, open_settlement, name):
    acts = []
    book = effect("reversible", scope="room:/{to}", name="book", undo=lambda to: acts.append(f"unbook {to}"))(
        lambda to: acts.append(f"book {to}")
    )
    first = open_settlement(shared_url)
    left = first.transaction(name, run=name).__enter__()  # it stays entered: a process ends, and no caller drops it
    left.call(book, to="ada")
    first.close()
    settlement = open_settlement(shared_url, keep_open=1e6)
    assert settlement.recover().kept == [name]
    with settlement.transaction(name, run=name) as tx:
        tx.call(book, to="ada")
    assert (acts, left.state) == (["book ada"], "open")


# ---- the words


TEXTS = st.none() | st.text(min_size=1)


@given(st.builds(Disposed, st.none() | st.sampled_from(Disposition), TEXTS, TEXTS, st.none() | st.integers(0)))
def test_what_people_are_told_has_the_words_of_the_disposition_and_ends_with_the_note(disposed):
    told = str(disposed)
    assert told.endswith(disposed.note or "")
    whole = disposed.disposition in TOLD_BY_NOTE and disposed.note is not None
    assert disposed.disposition is None or told.startswith(
        disposed.note if whole else words(disposed.disposition, link=disposed.link, question=disposed.question)
    )
    assert (told == "") is (disposed.disposition is None and disposed.note is None)


def test_each_disposition_has_words_of_its_own():
    assert len({words(each) for each in Disposition}) == len(Disposition)
    assert NOTHING.told is None


# ---- nothing is decided by words


HERE = Path(__file__).parents[2]
ROOMS = ("core/settlemark", "integrations", "adapters")
FROZEN = ("settlemark/lint",)
"""What reads programs."""
ENUMS = {"reason"}
"""Prose where something is handed over with it; of a transaction it is a value of an enum, which is looked up by."""
PROSE = {"note", "notes", "reason", "cause", "because", "waits_for"}
PARSES = {
    "startswith", "endswith", "removeprefix", "removesuffix", "partition", "rpartition", "split", "rsplit", "find",
    "rfind", "index", "match", "fullmatch", "search",
}  # fmt: skip # a table


def is_prose(node, but=frozenset()):
    """Whether a node is a text for people, or one made of it."""
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name in PROSE - but
        case ast.BoolOp() | ast.JoinedStr():
            return any(map(is_prose, ast.iter_child_nodes(node)))
        case (
            ast.Call(func=ast.Name(id="str"), args=[text])
            | ast.Call(func=ast.Attribute(value=text, attr="lower" | "upper" | "casefold" | "strip"))
        ):
            return is_prose(text)
    return False


def is_parsed(node):
    """Whether a node takes a text for people apart, compares it, or looks something up by it."""
    match node:
        case ast.Call(func=ast.Attribute(value=text, attr=how), args=given) if how in PARSES:
            return any(map(is_prose, [text, *given]))
        case ast.Call(func=ast.Attribute(attr="get"), args=[key, *_]) | ast.Subscript(slice=key):
            return is_prose(key, but=ENUMS)
        case ast.Match(subject=text):
            return is_prose(text, but=ENUMS)
        case ast.Compare():
            compared = zip([node.left, *node.comparators], node.ops, node.comparators, strict=False)
            return any(
                is_prose(right) or is_prose(left, but=frozenset() if isinstance(how, ast.Eq | ast.NotEq) else ENUMS)
                for left, how, right in compared
                if not isinstance(how, ast.Is | ast.IsNot)
            )
    return False


@pytest.mark.parametrize(
    ("line", "parses"),
    [
        ('(effect.note or "").startswith(WAITS)', True),
        ('note.removeprefix("x")', True),
        ("re.match(pattern, note)", True),
        ('"told otherwise" in effect.note', True),
        ("effect.note == SKIPPED", True),
        ("effect.note in (SKIPPED, GIVEN_UP)", True),
        ('(note or "").lower().startswith("no")', True),
        ('str(effect.note).partition(" ")', True),
        ("_WORDS[effect.note]", True),
        ("_WORDS.get(note)", True),
        ("match effect.note:\n    case None: pass", True),
        ("effect.note is None", False),
        ("effect.disposition is Disposition.SKIPPED", False),
        ("txn.reason in RETRIED", False),
        ("_WHY[recorded.reason]", False),
        ('f"{effect.note}; {said}"', False),
    ],
)
def test_what_takes_prose_apart_is_seen(line, parses):
    assert any(map(is_parsed, ast.walk(ast.parse(line)))) is parses


def test_no_program_decides_by_prose():
    found = [
        f"{path.relative_to(HERE)}:{node.lineno}"
        for room in ROOMS
        for path in sorted((HERE / room).rglob("*.py"))
        if not any(frozen in str(path) for frozen in FROZEN)
        for node in ast.walk(ast.parse(path.read_text()))
        if is_parsed(node)
    ]
    assert found == []
