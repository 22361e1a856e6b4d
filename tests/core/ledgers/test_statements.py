"""The store contract of a SQL ledger's statements; that every statement is in it; and that it misses no clause."""

from __future__ import annotations

import pytest
from tests.core.ledgers import contract, contract_lapses, contract_leases
from tests.core.ledgers.statements import all_statements, changes, heard, said_wrongly
from tests.core.ledgers.twins import Twins

PROMISES = [*contract.PROMISES, *contract_lapses.PROMISES, *contract_leases.PROMISES]


def play(promise, store):
    twins = Twins(store)
    try:
        promise(twins)
    finally:
        twins.close()


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__.replace("_", " "))
def test_beside_a_twin_namespace_with_the_same_names(store, promise):
    play(promise, store)


@pytest.fixture(scope="module")
def senders(store):
    """By the text of each statement that is sent: the promises that send it."""
    found = {}
    for promise in PROMISES:
        with heard() as sent:
            play(promise, store)
        for text in sent:
            found.setdefault(text, []).append(promise)
    return found


ELSEWHERE = {
    "schema: INSERT INTO": "sent by Core, once, when a namespace is first opened",
    "shared_log._LOCKED": "a file has one writer, and it is over when its process is: for a server alone",
    "server: ": "a doctor asks these of a server alone",
}
"""Statements that not every store's promises send, and why."""

RANGE = "what is pruned has settled: it makes the other condition a range of an index"
PARTIAL = "the condition beside it says so too: it lets the store use an index of such rows alone"
GROUPED = "each effect is put to its own attempt: what is seen is the order within one, and an index gives this one"
USED = "a content that nobody names is there no more: it bounds how many are looked at"
EQUAL = {
    ("blobs._DROP", "without digest IN"): USED,
    ("blobs._DROP", "without namespace = :namespace (again"): USED,
    ("blobs._DROP", "without name ="): USED,
    ("blobs._DROP", "without attempt ="): USED,
    ("entries._SUPERSEDE", "without latest"): "those before it are marked so already: it spares them",
    ("entries.finding(all)", "in the order of run DESC"): "they are of one run",
    ("statements.IN_DOUBT", "without tag IS NOT NULL"): PARTIAL,
    ("statements.IN_DOUBT", "without tag <> 'clean'"): "what is clean has left nothing, and has no run",
    ("statements.IN_DOUBT", "without dealt_at_seconds IS N"): "each part has what the other has not",
    ("statements.IN_DOUBT", "without settlemark_transaction.forget_at_seconds IS NULL"): RANGE,
    ("statements.LAST", "without LIMIT 1"): "only the first row is taken: it spares the others",
    ("statements.UNFINISHED", "without settlemark_transaction.forget_at_seconds IS NULL"): RANGE,
    ("statements.OPEN_WITH", "without settlemark_transaction.forget_at_seconds IS NULL"): RANGE,
    ("statements.EFFECTS_OPEN_WITH", "without settlemark_transaction.forget_at_seconds IS NULL"): RANGE,
    ("pages.left_of(", "without tag IS NOT NULL"): PARTIAL,
    ("pages.left_of(dealt of a run since)", "without dealt_at_seconds IS NOT NULL"): PARTIAL,
    ("pages.of_state", "without LIMIT :last"): "what is behind it is cut off: it spares the others",
    ("pages.after", "without LIMIT :most"): "what comes again is told once: it bounds how many are looked at",
    ("sweeping._OLD", "without t.settled_at_seconds >= :settled"): "the place says so too: a range of an index",
    ("sweeping._COUNT_OLD", "with :keys >= longest"): "where they are as long either may be taken",
    ("work: SELECT count", "without tag IS NOT NULL"): PARTIAL,
    ("server: SELECT name", "without name = ANY"): "what else a server is set to is looked at by nobody",
} | {
    (f"statements.{name}", f"in the order of settlemark_effect.{column} DESC"): GROUPED
    for name in ("ALL_EFFECTS", "UNRESOLVED_EFFECTS", "EFFECTS_OF_RUN", "EFFECTS_SINCE", "UNFINISHED_EFFECTS",
                 "EFFECTS_OPEN_WITH")
    for column in ("name", "attempt")
}  # fmt: skip # a table
"""What may be wrong with a statement, and nobody could notice: by how its name, and what is wrong, begin."""


def is_equal(name, what):
    return any(name.startswith(known) and what.startswith(wrong) for known, wrong in EQUAL)


def fails(store, promise, text, wrong):
    with said_wrongly(text, wrong):
        try:
            play(promise, store)
        except (Exception, pytest.fail.Exception) as error:
            if "syntax" in str(error):
                raise
            return True
    return False


def unnoticed(store, senders, text):
    """Return what may be wrong with a statement so that every promise is kept."""
    promises, left = list(senders.get(text, ())), []
    for change in changes(text):
        broken = next((promise for promise in promises if fails(store, promise, text, change.text)), None)
        if broken is None:
            left.append(change.what)
        else:  # it is asked first from here on: what notices one clause often notices the next
            promises.remove(broken)
            promises.insert(0, broken)
    return left


def test_every_statement_of_the_ledger_is_sent_by_a_promise_and_no_other_is(senders):
    known = all_statements()
    unsent = [name for name, text in known.items() if changes(text) and text not in senders]
    assert [name for name in unsent if not name.startswith(tuple(ELSEWHERE))] == []
    pages = ("SELECT namespace , name , attempt", "SELECT key , name , attempt FROM settlemark_effect")
    others = [text for text in senders if changes(text) and text not in known.values()]
    assert [text for text in others if not text.startswith(pages)] == []


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", all_statements())
def test_whatever_clause_of_a_statement_is_wrong_a_promise_is_broken(store, senders, name):
    if name.startswith(tuple(ELSEWHERE)) and all_statements()[name] not in senders:
        return
    left = unnoticed(store, senders, all_statements()[name])
    unequal = [what for what in left if not is_equal(name, what)]
    assert unequal == [], "\n".join(unequal)


def test_each_clause_that_nobody_could_miss_is_still_there():
    """What is listed as equal stands in a statement, or the list would excuse another some day."""
    written = {(name, change.what) for name, text in all_statements().items() for change in changes(text)}
    for known, wrong in EQUAL:
        assert [one for one in written if one[0].startswith(known) and one[1].startswith(wrong)] != [], (known, wrong)
