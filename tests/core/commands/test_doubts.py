from __future__ import annotations

import contextlib
import json

import pytest

from settlemark import InDoubt, Settlement, effect


@effect("idempotent", scope="account:/{account}")
def charge(account):
    raise TimeoutError("no answer")


@effect("reversible", scope="room:/{hotel}", undo=lambda: None)
def reserve(hotel): ...


KEY = "trip-1#1/0"


@pytest.fixture
def doubtful(store):
    with Settlement(store) as settlement, contextlib.suppress(InDoubt), settlement.transaction("trip-1") as tx:
        tx.call(charge, account="Ada")
    return store


def recorded(run_json, store):
    ((effect_,),) = [transaction["effects"] for transaction in run_json("show", store)]
    return effect_


def test_a_ledger_without_a_doubt_says_so_and_exits_with_0(store, run, run_json):
    with Settlement(store) as settlement, settlement.transaction("trip-1") as tx:
        tx.call(reserve, hotel="Ada")

    said = run("in-doubt", store)

    assert (said.exit_code, said.stdout) == (0, "Nothing is in doubt.\n")
    assert run_json("in-doubt", store) == []


def test_a_doubt_is_named_with_its_key_and_what_to_do_and_exits_with_1(doubtful, run, run_json):
    said, table = run("in-doubt", doubtful), run("in-doubt", doubtful, "--table")

    assert said.exit_code == table.exit_code == 1
    assert "trip-1: charge on account:/Ada, since" in said.stdout
    assert f"  key: {KEY}" in said.stdout
    assert "  to do: ask its counterparty by the key, then settlemark resolve with what you know" in said.stdout
    assert f"settlemark resolve KEY confirmed|absent|give-up" in said.stdout  # noqa: F541 - as it is printed
    assert "In doubt" in table.stdout
    (doubt,) = run_json("in-doubt", doubtful)
    assert (doubt["transaction"], doubt["attempt"], doubt["tool"], doubt["scope"], doubt["key"]) == (
        "trip-1",
        1,
        "charge",
        "account:/Ada",
        KEY,
    )


DIES = "import os\n@effect('{kind}', scope='hall:/a'{more})\ndef dies(): os._exit(0)\ntx.call(dies)"


@pytest.mark.parametrize(
    ("kind", "more", "remedy"),
    [
        ("reversible", ", undo=lambda: None", "name the module that declares dies with --module, here and for"),
        ("idempotent", "", "the next process that settles here, or settlemark recover, takes"),
    ],
)
def test_what_a_process_was_at_when_it_ended_is_in_doubt(store, ends_amid, run, run_json, kind, more, remedy):
    ends_amid(store, "trip-7", DIES.format(kind=kind, more=more))

    (doubt,) = run_json("in-doubt", store)

    assert (doubt["transaction"], doubt["tool"], doubt["key"].partition(".")[2]) == ("trip-7", "dies", "trip-7#1/0")
    assert doubt["remedy"].startswith(remedy)
    assert run("in-doubt", store).exit_code == 1


def test_what_is_known_to_have_happened_is_not_in_doubt_when_its_process_has_ended(store, ends_amid, module, run):
    ends_amid(store, "trip-7", "tx.call(reserve, hotel='Ada')")

    for options in ([], ["--module", module]):
        said = run("in-doubt", store, *options)
        assert (said.exit_code, said.stdout) == (0, "Nothing is in doubt.\n")


def test_an_operator_says_that_it_happened_and_with_what_result(doubtful, run, run_json):
    said = run(
        "resolve", KEY, "confirmed", doubtful, "--by", "Bo", "--note", "seen at the bank", "--result", '{"id": 7}'
    )

    assert (said.exit_code, said.stdout) == (0, f"{KEY} is confirmed, by Bo: seen at the bank.\n")
    assert run_json("in-doubt", doubtful) == []
    effect_ = recorded(run_json, doubtful)
    assert (effect_["outcome"], effect_["result"]) == ("confirmed", {"id": 7})
    assert "Bo" in effect_["note"]
    assert "seen at the bank" in effect_["note"]


def test_an_operator_says_that_it_did_not_happen(doubtful, run, run_json):
    assert run_json("resolve", KEY, "absent", doubtful, "--by", "Bo") == {
        "key": KEY,
        "outcome": "failed",
        "changed": True,
    }

    assert (recorded(run_json, doubtful)["outcome"], recorded(run_json, doubtful)["tag"]) == ("failed", "clean")
    assert run("in-doubt", doubtful).exit_code == run("residue", doubtful).exit_code == 0


def test_what_an_operator_gives_up_is_no_longer_in_doubt_and_stays_residue(doubtful, run):
    said = run("resolve", KEY, "give-up", doubtful, "--by", "Bo", "--note", "the bank is gone")

    assert said.exit_code == 0
    assert run("in-doubt", doubtful).exit_code == 0
    assert run("residue", doubtful).exit_code == 1


def test_what_came_too_late_is_undone_when_a_module_declares_how(store, ends_amid, module, run, run_json, world):
    ends_amid(
        store,
        "trip-1",
        "import settlemark._acts.perform\ntry:\n    tx.call(charge, account='Ada')\nexcept Exception: pass",
    )
    run("recover", store, "--module", module)

    (doubt,) = run_json("in-doubt", store)
    said = run("resolve", doubt["key"], "confirmed", store, "--by", "Bo", "--module", module)

    assert said.exit_code == 0
    assert run_json("in-doubt", store) == []


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (("trip-9#1/0", "absent", "--by", "Bo"), 1, "no effect with the key 'trip-9#1/0' is on record"),
        ((KEY, "confirmed", "--by", "Bo", "--result", "{"), 2, "--result is not JSON"),
        ((KEY, "absent", "--by", "Bo", "--result", "1"), 2, "--result belongs to confirmed"),
        ((KEY, "maybe", "--by", "Bo"), 2, ""),
        ((KEY, "absent"), 2, ""),
        ((KEY, "absent", "--by", "Bo", "--module", "no_such_tools"), 2, "no_such_tools cannot be imported"),
    ],
)
def test_what_cannot_be_put_on_record_says_why_and_nothing_changed(doubtful, run, run_json, arguments, status, told):
    before = run_json("show", doubtful)

    said = run("resolve", *arguments[:2], doubtful, *arguments[2:])

    assert said.exit_code == status
    assert told in said.stderr
    assert run_json("show", doubtful) == before


def test_resolving_in_a_ledger_that_is_not_there_makes_none(tmp_path, run):
    said = run("resolve", KEY, "absent", "none.db", "--by", "Bo")

    assert said.exit_code == 2
    assert "there is no ledger at" in said.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_doubt_is_printed_as_json_values(doubtful, run):
    (doubt,) = json.loads(run("in-doubt", doubtful, "--json").stdout)

    assert set(doubt) == {"transaction", "attempt", "tool", "scope", "key", "since", "why", "remedy"}
