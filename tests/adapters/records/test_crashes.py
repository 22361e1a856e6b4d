"""Who is killed while it commits, at whichever line: readers see all of the commit or nothing, and it is made once."""

from __future__ import annotations

import pytest
from tests.adapters.records.places import KINDS, LINES, SURVIVING, Lines, dying, lines_of
from tests.extent import ALL

from settlemark import Settlement

POINTS = 30 if ALL else 3
"""At how many lines a process is killed; the last two, and the end, come beside them."""
SOME = [kind if kind == "files" else pytest.param(kind, marks=pytest.mark.long) for kind in SURVIVING]


def points(play):
    """The lines to be killed at, spread over the whole, and one after them."""
    last = lines_of(play)
    return sorted({1 + number * last // POINTS for number in range(POINTS)} | {last - 1, last, last + 1})


def begin(place):
    place.books().transaction("begin", lambda tx: tx.create("Note", {"text": "0"}, "count"))
    place.close()


def step(name):
    def write(tx):
        for half in "ab":
            tx.create("Note", {"text": half}, f"{name}{half}")
        tx.update("Note", "count", {"text": name})
        return name

    return write


def seen(place):
    """What a process that has just begun sees, having compared all that it can be asked."""
    books = place.books()
    with books.snapshot() as snapshot:
        notes, log = snapshot.query("Note"), snapshot.log()
    stands = place.stands()
    assert {f"data/Note/{note['id']}.json": {"text": note["text"]} for note in notes} == stands
    assert [entry["message"] for entry in reversed(log)] == place.messages()
    place.close()
    return stands


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", SURVIVING)
def test_a_commit_is_there_as_a_whole_or_not_at_all_and_is_made_once(place_of, kind):
    place = place_of(kind)
    begin(place)

    def commit(name):
        return place.books().transaction(f"step {name}", step(name), key=name)

    killed = set()
    after = seen(place)
    for number in points(lambda: commit("all")):
        before = seen(place)
        name = f"n{number}"
        died = dying(lambda name=name: commit(name), number)
        after = {**before, **{f"data/Note/{name}{half}.json": {"text": half} for half in "ab"}}
        after["data/Note/count.json"] = {"text": name}
        found = seen(place)
        assert found in (before, after)
        killed.add((died, found == after))
        commit(name)
        assert seen(place) == after
        assert place.messages().count(f"step {name}") == 1
    assert killed == {(True, False), (True, True), (False, True)}


@pytest.mark.parametrize("kind", SOME)
def test_a_commit_is_taken_back_as_a_whole_or_not_at_all_and_once(place_of, kind):
    place = place_of(kind)
    begin(place)

    def commit(name):
        place.books().transaction(f"step {name}", step(name), key=name)
        place.close()

    commit("all")
    last = points(lambda: place.books().take_back("all"))
    before = seen(place)
    for number in last:
        name = f"n{number}"
        commit(name)
        after = seen(place)
        dying(lambda name=name: place.books().take_back(name), number)
        assert seen(place) in (before, after)
        place.books().take_back(name)
        assert seen(place) == before
        assert place.messages().count(f'Revert "step {name}"') == 1


@pytest.mark.parametrize("staged", [False, True], ids=["eager", "staged"])
@pytest.mark.parametrize("kind", SOME)
def test_a_settlement_that_is_killed_is_ended_by_the_next(place_of, tmp_path, kind, staged):
    place = place_of(kind)
    begin(place)
    url = f"sqlite:///{tmp_path}/ledger.db"

    def play(name):
        with Settlement(url) as settlement:
            books = place.books(settlement, staged=staged)
            with settlement.transaction(name) as tx:
                tx.call(books.create_invoice_with_lines, customer_id=name, lines=LINES)

    for number in points(lambda: play("all")):
        name = f"n{number}"
        dying(lambda name=name: play(name), number)
        with Settlement(url) as settlement:
            books = place.books(settlement, staged=staged)
            settlement.recover()
            made = [invoice["id"] for invoice in books.query_records("Invoice", {"customer_id": name})]
            assert settlement.residue() == []
            with settlement.transaction(name) as tx:
                answer = tx.call(books.create_invoice_with_lines, customer_id=name, lines=LINES)
            (invoice,) = books.query_records("Invoice", {"customer_id": name})
            assert len(books.query_records("InvoiceLine", {"invoice_id": invoice["id"]})) == len(LINES)
            assert invoice == (answer.result() if staged else answer)["invoice"]
            assert made in ([], [invoice["id"]])
        place.close()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", KINDS)
def test_whoever_looks_while_a_commit_is_made_sees_all_of_it_or_nothing(place_of, kind):
    place = place_of(kind)
    begin(place)
    before, found = seen(place), []
    last = lines_of(lambda: place.books().transaction("step x", step("x"), key="counted"))
    if kind != "memory":  # a child's is its own
        place.books().take_back("counted")
    writing = place.books()

    def look():
        opened = list(place.opened)
        place.opened.clear()
        found.append(seen(place))
        place.opened.extend(opened)

    with Lines(range(1, last + 1, max(1, last // (2 * POINTS))), look):
        writing.transaction("step n", step("n"), key="n")
    after = seen(place)
    assert all(each in (before, after) for each in found)
    assert before in found
    assert sorted(found, key=lambda each: each == after) == found
