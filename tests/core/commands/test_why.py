"""`settlemark why` and `settlemark audit`: an auditor is told why an agent acted, and finds what was edited by hand."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from settlemark import Scope, Settlement, effect

RATE = Scope.parse("rate:/A")


@effect("opaque")
def sweep(fund):
    return fund


@effect("irreversible", scope="mail:/{to}")
def mail(to):
    return to


@effect("reversible", scope="rate:/{fund}", undo=lambda fund: None)
def set_rate(fund):
    return fund


@pytest.fixture
def ledger(store):
    """A run that decided, and one that has since changed what the decision stood on."""
    with Settlement(store) as settlement:
        with settlement.transaction("treasury/1") as tx:
            tx.read(RATE, lambda: 3)
            with tx.decide(
                "sweep to A", because="it yields more", alternatives=["hold"], policy="treasury-v7", grounds=[RATE, [7]]
            ):
                tx.call(sweep, fund="A")
                tx.call(mail, to="ada")
            tx.call(sweep, fund="B")
        with settlement.transaction("rates") as tx:
            tx.call(set_rate, fund="A")
        with settlement.transaction("treasury/2") as tx:
            tx.call(sweep, fund="C")
    return store


def by_hand(url, *statements):
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(sa.text(statement))


def key_of(ledger, number):
    with Settlement(ledger) as settlement:
        return [effect.row.key for recorded in settlement.transactions() for effect in recorded.effects][number]


def test_why_tells_the_decision_of_an_effect_what_it_stood_on_and_what_has_changed_since(ledger, run, run_json):
    key, changed = key_of(ledger, 0), key_of(ledger, 3)
    told = run("why", key, ledger)
    lines = told.stdout.splitlines()
    assert (told.exit_code, lines[0]) == (0, "sweep on run:/treasury: confirmed, in treasury/1")
    assert lines[1].startswith("  decided, ")
    assert lines[1].endswith(" UTC: sweep to A")
    assert lines[2:] == [
        "    because: it yields more",
        "    policy: treasury-v7",
        "    instead of: hold",
        f"    grounded on rate:/A at version 0, changed since by {changed}",
        "    grounded on [7]",
    ]
    found = run_json("why", key, ledger)
    assert (found["key"], found["title"], found["because"], found["alternatives"], found["policy"]) == (
        key,
        "sweep to A",
        "it yields more",
        ["hold"],
        "treasury-v7",
    )
    assert found["grounds"] == [{"scope": "rate:/A", "version": 0, "changed": [changed]}, {"document": [7]}]


def test_why_of_an_effect_that_nobody_decided_says_so_and_of_none_exits_with_1(ledger, run):
    told = run("why", key_of(ledger, 2), ledger)
    assert told.stdout.splitlines()[1:] == ["  no reason is on record"]
    none = run("why", "nobody#1/0", ledger)
    assert (none.exit_code, none.stdout) == (1, "")
    assert "there is no effect 'nobody#1/0' on record" in none.stderr


def test_why_of_a_run_tells_its_story_in_the_order_of_its_transactions(ledger, run, run_json):
    told = run("why", "--run", "treasury", ledger)
    first, second = told.stdout.split("\n\n")
    lines = [line for line in first.splitlines() if "key: " not in line and "decided" not in line]
    assert lines == [
        "treasury/1 committed.",
        "    because: it yields more",
        "    policy: treasury-v7",
        "    instead of: hold",
        f"    grounded on rate:/A at version 0, changed since by {key_of(ledger, 3)}",
        "    grounded on [7]",
        "  1. sweep on run:/treasury: confirmed",
        "  2. mail on mail:/ada: confirmed",
        "  3. sweep on run:/treasury: confirmed",
    ]
    assert second.splitlines()[:2] == ["treasury/2 committed.", "  1. sweep on run:/treasury: confirmed"]
    chapters = run_json("why", "--run", "treasury", ledger)
    assert [(c["transaction"], c["state"], [e["title"] for e in c["effects"]]) for c in chapters] == [
        ("treasury/1", "committed", ["sweep to A", "sweep to A", None]),
        ("treasury/2", "committed", [None]),
    ]
    assert run("why", "--run", "nobody", ledger).stdout == "Nothing of this run is on record.\n"


def test_why_is_asked_about_one_thing(ledger, run):
    for words in ([], ["a-key", ledger, "--run", "treasury"]):
        told = run("why", *words)
        assert (told.exit_code, told.stdout) == (2, "")
        assert "settlemark why KEY [LEDGER], or settlemark why --run RUN [LEDGER]" in told.stderr


def test_audit_finds_nothing_where_nobody_edited_and_gives_a_digest_to_keep(ledger, run, run_json):
    found = run_json("audit", "treasury", ledger)
    assert (found["run"], found["removed"], found["faults"]) == ("treasury", 0, [])
    told = run("audit", "treasury", ledger, "--digest", found["digest"])
    assert (told.exit_code, told.stdout.splitlines()) == (
        0,
        [
            f"All {found['rows']} rows of the run treasury are what was recorded.",
            f"digest: {found['digest']}",
        ],
    )
    none = run("audit", "rates", ledger)
    assert (none.exit_code, none.stdout) == (0, "Nothing of the run rates is in a chain: it has decided nothing.\n")


def test_audit_names_a_row_that_was_edited_and_exits_with_1(ledger, run, run_json):
    by_hand(ledger, "UPDATE settlemark_entry SET body = replace(body, 'yields more', 'yields less')")
    told = run("audit", "treasury", ledger)
    assert told.exit_code == 1
    assert "is not what was recorded: it was changed, or has another's place" in told.stdout
    (fault,) = run_json("audit", "treasury", ledger)["faults"]
    assert (fault["fault"], fault["entry"].startswith("decision/treasury/1#1~")) == ("changed", True)


def test_audit_names_a_row_that_was_removed(ledger, run_json):
    by_hand(ledger, "DELETE FROM settlemark_entry WHERE kind = 'decision'")
    faults = run_json("audit", "treasury", ledger)["faults"]
    assert [fault["fault"] for fault in faults if fault["fault"] == "missing"] == ["missing"]


def test_audit_finds_a_chain_made_anew_by_a_digest_that_was_kept(ledger, run_json):
    kept = run_json("audit", "treasury", ledger)["digest"]
    by_hand(ledger, "DELETE FROM settlemark_entry", "DELETE FROM settlemark_chain")
    faults = run_json("audit", "treasury", ledger, "--digest", kept)["faults"]
    assert [fault["fault"] for fault in faults] == ["unsealed", "unsealed", "replaced"]


def test_audit_names_an_effect_whose_row_was_edited(ledger, run, run_json):
    by_hand(ledger, f"UPDATE settlemark_effect SET result = NULL WHERE key = '{key_of(ledger, 0)}'")
    (fault,) = run_json("audit", "treasury", ledger)["faults"]
    assert (fault["fault"], fault["entry"]) == ("edited", f"effect/{key_of(ledger, 0)}")
    assert "the effect's row was changed" in run("audit", "treasury", ledger).stdout
