from __future__ import annotations

import time
from contextlib import closing

from tests.rooms.ledger import _workers

from settlemark import Injected, Settlement, effect
from settlemark.hosting import host_of


@effect("reversible", scope="room:/{hotel}", undo=lambda: None)
def book(hotel): ...


BLANK = {"committed": [], "undone": [], "kept": [], "waiting": [], "stuck": {}, "left": []}


def test_a_ledger_with_nothing_left_says_so(store, run, run_json):
    Settlement(store).close()

    said = run("recover", store)

    assert (said.exit_code, said.stdout) == (0, "Nothing was left to recover.\n")
    assert run_json("recover", store) == BLANK


def test_what_an_ended_process_left_open_is_undone_by_the_modules_handlers(store, ends_amid, module, run, world):
    ends_amid(store, "trip-1", "tx.call(reserve, hotel='Ada')")

    said = run("recover", store, "--module", module)

    assert (said.exit_code, said.stdout) == (0, "trip-1 is undone.\n")
    assert world() == ["reserve Ada", "free Ada"]
    assert run("recover", store, "--module", module).stdout == "Nothing was left to recover.\n"


def test_a_decision_that_was_taken_is_carried_out_by_what_a_modules_function_declares(
    store, ends_amid, module, run, world
):
    dies = "import os\ntx.call(send, to='Ada')\ntx._host.driver.releases.release_all = lambda *a: os._exit(0)\n"
    ends_amid(
        store,
        "trip-1",
        f"{dies}from settlemark.hosting import host_of, run_sync\n"
        "run_sync(host_of(settlement).driver.settling.commit(tx._attempt))",
    )

    stuck = run("recover", store, "--module", module)
    said = run("recover", store, "--module", f"{module}:declare")

    assert stuck.exit_code == 1
    assert "trip-1 is stuck" in stuck.stdout
    assert (said.exit_code, said.stdout) == (0, "trip-1 is committed.\n")
    assert world() == ["send Ada"]


def test_what_nobody_here_can_end_is_stuck_and_names_what_to_declare(store, ends_amid, run, run_json, world):
    ends_amid(store, "trip-1", "tx.call(reserve, hotel='Ada')")

    said = run("recover", store)

    assert said.exit_code == 1
    assert (
        said.stdout
        == "trip-1 is stuck: reserve is not declared here, or its record is encrypted; name the module that declares it"
        " with --module, or leave it to a process with encrypt=.\n"
    )
    assert run_json("recover", store)["stuck"] == {"trip-1": ["reserve"]}
    assert world() == ["reserve Ada"]


def test_what_could_not_be_undone_is_left_and_exits_with_1(store, ends_amid, module, run, run_json):
    ends_amid(store, "trip-1", "tx.call(reserve_for_good, hotel='Ada')")

    said = run("recover", store, "--module", module)

    assert said.exit_code == 1
    assert said.stdout == "trip-1 is undone as far as it can be, and left something to mend: see settlemark residue.\n"
    assert [left["key"].partition(".")[2] for left in run_json("residue", store)] == ["trip-1#1/0"]


def test_what_is_parked_is_kept_for_its_framework(store, ends_amid, module, run, run_json, world):
    ends_amid(
        store,
        "trip-1",
        "tx.call(reserve, hotel='Ada')\nfrom settlemark.hosting import host_of, run_sync\n"
        "run_sync(host_of(settlement).driver.undoing.suspend(tx._attempt))",
    )

    said = run("recover", store, "--module", module)

    assert said.exit_code == 0
    assert said.stdout == "trip-1 is open, and kept for its framework to resume it.\n"
    assert world() == ["reserve Ada"]


def test_what_is_open_is_given_its_time_and_then_undone(store, ends_amid, module, run_json, world):
    ends_amid(store, "trip-1", "tx.call(reserve, hotel='Ada')")

    told = run_json("recover", store, "--module", module, "--keep-open", "0.3")

    assert told == {**BLANK, "undone": ["trip-1"]}
    assert world() == ["reserve Ada", "free Ada"]


def test_what_a_live_process_works_on_is_left_alone(store, run, run_json):
    with Settlement(store) as settlement, settlement.transaction("trip-1") as tx:
        tx.call(book, hotel="Ada")
        said = run("recover", store)

    assert (said.exit_code, said.stdout) == (0, "Nothing was left to recover.\n")
    assert [transaction["state"] for transaction in run_json("show", store)] == ["committed"]


def test_a_module_that_is_not_there_stops_before_anything_is_recovered(store, ends_amid, run, run_json, module):
    ends_amid(store, "trip-1", "tx.call(reserve, hotel='Ada')")

    missing, nameless = (
        run("recover", store, "--module", "no_such_tools"),
        run("recover", store, "--module", f"{module}:x"),
    )

    assert missing.exit_code == nameless.exit_code == 2
    assert "no_such_tools cannot be imported: ModuleNotFoundError" in missing.stderr
    assert f"{module} has no function called x" in nameless.stderr
    assert [transaction["state"] for transaction in run_json("show", store)] == ["open"]


def test_recovering_a_ledger_that_is_not_there_makes_none(tmp_path, run):
    said = run("recover", "none.db")

    assert said.exit_code == 2
    assert "there is no ledger at" in said.stderr
    assert list(tmp_path.iterdir()) == []


def test_what_a_process_elsewhere_left_is_ended_once_its_lease_was_watched_to_stand_still(store, run, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(_workers, "_host", lambda: "elsewhere/1/2/3.4")
        hung = Settlement(store, lease=0.5, injected=Injected(monotonic=lambda: 1.0))
    worker = host_of(hung).ledger.worker
    host_of(hung).ledger.now(lambda protocol, _book: protocol.begin("trip-1", owner=worker))

    paused, pause = [], time.sleep
    monkeypatch.setattr(time, "sleep", lambda seconds: (paused.append(seconds), pause(seconds)))
    with closing(hung):
        said = run("recover", store)

        assert (said.exit_code, said.stdout) == (0, "trip-1 is undone.\n")
    # It looks again now and then, and asks the store nothing in between.
    assert paused
