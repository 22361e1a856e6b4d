"""A ledger says of the order of effects what the history of the same run says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from settlemark import Outcome, Settlement, Tag, effect
from settlemark.history import analyze, of_ledger, read
from settlemark.hosting import Disposition


@effect("reversible", scope="cell:/{cell}", undo=lambda: None)
def put(cell): ...


@effect("irreversible", scope="mail:/{to}")
def mail(to): ...


@effect("staged", scope="page:/{page}")
def publish(page): ...


def tool_of(cell):
    return {"cell": "put", "mail": "mail", "page": "publish"}[cell.partition(":")[0]]


def issued_by_a_model(transaction):
    """A model's calls have ids of their own: by these they are known as calls of one turn."""
    named = [replace(known, row=known.row._replace(call_id=known.row.key)) for known in transaction.effects]
    return replace(transaction, effects=named)


def a_call_behind_a_held_one(settlement):
    with settlement.transaction("trip") as tx:
        tx.call(mail, "ada")
        tx.call(put, "x")
        tx.call(publish, "home")
        tx.call(put, "y")


def turns(settlement):
    with settlement.transaction("trip") as tx:
        for tool, argument in [(mail, "ada"), (put, "x"), (publish, "home"), (put, "y")]:
            with tx.turn() as turn:
                turn.plan(tool, argument).run()


def one_turn(settlement):
    with settlement.transaction("trip") as tx, tx.turn() as turn:
        calls = [(mail, "ada"), (put, "x"), (publish, "home"), (put, "y")]
        for planned in [turn.plan(tool, argument) for tool, argument in calls]:
            planned.run()


def reordered(settlement):
    with settlement.transaction("trip") as tx, tx.turn() as turn:
        for planned in reversed([turn.plan(put, cell) for cell in "xyz"]):
            planned.run()


@pytest.mark.parametrize(
    ("story", "options", "found"),
    [
        (a_call_behind_a_held_one, {}, 0),
        (turns, {}, 0),
        (one_turn, {}, 0),
        (reordered, {"prevent": ()}, 1),
    ],
)
@pytest.mark.parametrize("store", ["memory:", "sqlite"])
def test_a_ledger_and_the_history_of_one_run_agree_on_the_order_of_its_effects(tmp_path, store, story, options, found):
    url = store if store == "memory:" else f"sqlite:///{tmp_path / 'ledger.db'}"
    with Settlement(url, history=tmp_path / "history.jsonl", **options) as settlement:
        story(settlement)
        kept = settlement.transactions()
    (of_the_ledger,) = of_ledger(kept if story is a_call_behind_a_held_one else map(issued_by_a_model, kept))
    (of_the_history,) = read(tmp_path / "history.jsonl")
    both = of_the_ledger, of_the_history
    assert both[0].co == [(cell, tool_of(cell)) for cell, _ in both[1].co]
    assert [(analyze([one])["A6"].count, analyze([one])["effects"].count) for one in both] == [(found, 0)] * 2


@effect("reversible", scope="sum:/{name}", undo=lambda: None, commutes="add")
def add(name): ...


@effect("staged", scope="sum:/{name}", commutes="add")
def add_later(name): ...


@effect("reversible", scope="sum:/{name}", undo=lambda: None, commutes="multiply")
def multiply(name): ...


@pytest.mark.parametrize("store", ["memory:", "sqlite"])
def test_a_ledger_tells_the_group_of_each_cell_on_which_all_effects_are_of_one(tmp_path, store):
    url = store if store == "memory:" else f"sqlite:///{tmp_path / 'ledger.db'}"
    calls = [(add, "x"), (add_later, "x"), (add, "y"), (multiply, "y"), (multiply, "z"), (put, "z")]
    with Settlement(url) as settlement:
        with settlement.transaction("trip") as tx:
            for tool, name in calls:
                tx.call(tool, name)
        (record,) = of_ledger(settlement.transactions())
    assert record.write_set == ["sum:/x", "sum:/y", "sum:/z", "cell:/z"]
    assert record.commutes == {"sum:/x": "add", "sum:/z": "multiply"}


def test_what_somebody_said_of_an_outcome_later_says_nothing_of_the_order():
    with Settlement("memory:") as settlement:
        one_turn(settlement)
        (kept,) = map(issued_by_a_model, settlement.transactions())
    first, *rest = kept.effects
    late = replace(first, disposition=Disposition.HAPPENED, note="(ada has seen it)", settled_at=kept.settled_at + 60)
    (record,) = of_ledger([replace(kept, effects=[late, *rest])])
    in_order = [("cell:/x", "put"), ("cell:/y", "put"), ("page:/home", "publish")]
    assert (record.io, record.co) == (in_order, in_order)
    assert list(record.write_values) == ["mail:/ada", "cell:/x", "page:/home", "cell:/y"]


def test_an_effect_that_was_taken_back_says_nothing_of_the_order():
    with Settlement("memory:") as settlement:
        one_turn(settlement)
        (kept,) = map(issued_by_a_model, settlement.transactions())
    _, first, *rest = kept.effects
    undone = replace(first, tag=Tag.CLEAN, settled_at=kept.settled_at + 60)
    (record,) = of_ledger([replace(kept, effects=[undone, *rest])])
    in_order = [("cell:/y", "put"), ("page:/home", "publish")]
    assert (record.io, record.co) == (in_order, in_order)


@effect("staged", scope="mail:/{to}")
def correct(to): ...


def test_a_held_effect_that_was_dropped_holds_back_none_behind_it():
    with Settlement("memory:") as settlement:
        with settlement.transaction("trip") as tx, tx.turn() as turn:
            for planned in [turn.plan(tool, to) for tool, to in [(mail, "bob"), (mail, "ada"), (correct, "ada")]]:
                planned.run()
        (kept,) = map(issued_by_a_model, settlement.transactions())
    bob, ada, correction = kept.effects
    dropped = replace(ada, outcome=Outcome.DROPPED, disposition=Disposition.REJECTED)
    first = replace(correction, settled_at=bob.settled_at - 1)  # without the one to ada it leaves before the mails
    (record,) = of_ledger([replace(kept, effects=[bob, dropped, first])])
    in_order = [("mail:/ada", "correct"), ("mail:/bob", "mail")]
    assert (record.io, record.co) == (in_order, in_order)
