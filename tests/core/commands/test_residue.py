"""Whoever looks for residue is not told that all is well while what a dead process did is not known."""

from __future__ import annotations

from contextlib import closing

import pytest
from tests.core.commands.test_waiting import until
from tests.rooms.ledger import _workers

from settlemark import Injected, Settlement, effect
from settlemark.hosting import host_of, run_sync

DIES = "import os\ntx.call(effect('idempotent', scope='account:/{to}')(lambda to: os._exit(0)), to='Ada')"
TOLD = (
    "1 unfinished transaction is of a process that is gone or silent, and what became of it is not known yet:"
    " settlemark doctor names it, and settlemark recover --module YOURAPP.TOOLS ends it"
)


@effect("reversible", scope="room:/{hotel}", undo=lambda: None)
def reserve(hotel): ...


def test_what_died_amid_a_call_is_counted_and_exits_with_1_until_it_is_recovered(
    store, ends_amid, module, run, run_json
):
    ends_amid(store, "trip-1", DIES)

    said = run("residue", store)

    assert (said.exit_code, said.stdout, said.stderr) == (
        1,
        "Nothing is left to mend so far.\n",
        f"settlemark: {TOLD}\n",
    )
    assert run_json("residue", store) == [{"unfinished": 1, "told": TOLD}]
    assert run("residue", store, "--table").stdout == "Nothing is left to mend so far.\n"
    run("recover", store, "--module", module)
    after = run("residue", store)
    assert (after.exit_code, after.stderr) == (1, "")
    assert "trip-1, call 1: " in after.stdout
    assert "unfinished" not in str(run_json("residue", store))


def test_looking_changes_nothing(store, ends_amid, run, run_json):
    ends_amid(store, "trip-1", DIES)
    before = run_json("show", store), run_json("waiting", store)[0]["transaction"]

    run("residue", store)

    assert (run_json("show", store), run_json("waiting", store)[0]["transaction"]) == before


def test_many_are_one_line_beside_what_is_left(store, ends_amid, module, run, run_json):
    ends_amid(store, "trip-1", "tx.call(reserve_for_good, hotel='Ada')")
    run("recover", store, "--module", module)
    begin = "others = [settlement.transaction(f'more-{n}').__enter__() for n in range(30)]\n"
    ends_amid(
        store,
        "trip-2",
        f"{begin}for n, other in enumerate(others): other.call(reserve, hotel=str(n))\ntx.call(reserve, hotel='Bo')",
    )

    said = run("residue", store)

    assert said.exit_code == 1
    assert "trip-1, call 1: reserve_for_good" in said.stdout
    assert said.stderr.startswith("settlemark: 31 unfinished transactions are of a process that is gone")
    assert said.stderr.count("\n") == 1
    left, unfinished = run_json("residue", store)
    assert (left["transaction"], unfinished["unfinished"]) == ("trip-1", 31)


def test_of_one_run_and_since_a_time_only_those_are_counted(store, ends_amid, run, run_json):
    ends_amid(store, "trip-1/book", "tx.call(reserve, hotel='Ada')")
    ends_amid(store, "trip-2/book", "tx.call(reserve, hotel='Bo')")

    assert run_json("residue", store)[0]["unfinished"] == 2
    assert run_json("residue", store, "--run", "trip-2")[0]["unfinished"] == 1
    assert run_json("residue", store, "--since", "1d")[0]["unfinished"] == 2
    assert run_json("residue", store, "--since", "2999-01-01") == []
    assert run("residue", store, "--run", "trip-3").exit_code == 0


def test_what_a_live_process_works_on_or_a_framework_comes_back_to_is_not_counted(store, run):
    with Settlement(store) as settlement:
        aside = settlement.transaction("trip-1").__enter__()
        aside.call(reserve, hotel="Ada")
        run_sync(host_of(settlement).driver.undoing.suspend(aside._attempt))
        with settlement.transaction("trip-2") as tx:
            tx.call(reserve, hotel="Bo")
            said = run("residue", store)
        settlement.cancel("trip-1")

    assert (said.exit_code, said.stdout, said.stderr) == (0, "Nothing is left to mend.\n", "")


def test_what_a_process_elsewhere_whose_lease_stands_still_has_is_counted(store, run_json, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(_workers, "_host", lambda: "elsewhere/1/2/3.4")
        hung = Settlement(store, lease=0.5, injected=Injected(monotonic=lambda: 1.0))
    worker = host_of(hung).ledger.worker
    host_of(hung).ledger.now(lambda protocol, _book: protocol.begin("trip-1", owner=worker))
    with closing(hung):
        until(lambda: not run_json("waiting", store)[0]["alive"])

        assert [one["unfinished"] for one in run_json("residue", store)] == [1]


@pytest.mark.parametrize("form", [[], ["--table"], ["--json"]])
def test_show_does_not_say_that_all_is_well_either(store, ends_amid, run, form):
    ends_amid(store, "trip-1", DIES)

    said = run("show", store, *form)

    assert said.exit_code == 0
    assert said.stderr == f"settlemark: {TOLD}\n"
    assert "Nothing is left to mend." not in said.stdout
