"""`settlemark primer`: what a run's record says of it, for whoever takes it up again."""

from __future__ import annotations

import pytest

from settlemark import InDoubt, Settlement, effect


@effect("irreversible", scope="mail:/{to}")
def mail(to):
    return "sent"


@effect("opaque", scope="bank:/{account}")
def wire(account):
    raise TimeoutError


@pytest.fixture
def ledger(store):
    with Settlement(store) as settlement:
        with settlement.transaction("trip-42/1") as tx:
            tx.call(mail, to="ada")
        with settlement.transaction("trip-42/2") as tx, pytest.raises(InDoubt):
            tx.call(wire, account="ops")
    return store


def test_a_primer_is_told_as_the_model_is_told(ledger, run):
    told = run("primer", "trip-42", ledger)
    first, *lines = told.stdout.splitlines()
    assert told.exit_code == 0
    assert first.startswith("You take up the job trip-42 again.")
    assert lines == [
        "In doubt: it may have happened. Do not repeat it, and do not say how it came out:",
        '- wire({"account":"ops"}) on bank:/ops',
        "Done, and not to be done again:",
        '- mail({"to":"ada"}) on mail:/ada: confirmed; result "sent"',
    ]


def test_as_json_it_has_every_field_and_the_text(ledger, run_json):
    found = run_json("primer", "trip-42", ledger)
    assert [(act["tool"], act["arguments"], act["outcome"]) for act in found["happened"]] == [
        ("mail", {"to": "ada"}, "confirmed")
    ]
    assert [act["tool"] for act in found["in_doubt"]] == ["wire"]
    assert found["text"].startswith("You take up the job trip-42 again.")
    assert set(found) == {
        "run", "known", "at", "paused_at", "happened", "in_doubt", "waiting", "not_done", "owed", "said", "decided",
        "changed", "budgets", "halts", "cancelled", "text",
    }  # fmt: skip # a table


def test_a_run_of_which_nothing_is_on_record_exits_with_1(ledger, run):
    told = run("primer", "nobody", ledger)
    assert (told.exit_code, told.stdout) == (1, "The job nobody is new: nothing of it is on record.\n")


def test_an_act_in_the_midst_of_which_its_process_ended_is_in_doubt_and_what_it_had_done_is_told(
    store, run_json, ends_amid
):
    body = '@effect("opaque", scope="bank:/{a}")\ndef wire(a):\n    os._exit(0)\n'
    ends_amid(store, "trip-42/1", f'{body}tx.call(reserve, hotel="Ada")\ntx.call(wire, a="ops")')
    found = run_json("primer", "trip-42", store)
    assert {part: [act["tool"] for act in found[part]] for part in ("happened", "in_doubt", "waiting", "not_done")} == {
        "happened": ["reserve"],
        "in_doubt": ["wire"],
        "waiting": [],
        "not_done": [],
    }
    assert found["in_doubt"][0]["outcome"] == "intended"
