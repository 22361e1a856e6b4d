"""`settlemark halt`, `halts` and `resume`: what an operator at a shell stops, sees and lifts."""

from __future__ import annotations

import json

import pytest

from settlemark import Halted, effect


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'trips.db'}"


@pytest.fixture
def here(url, open_settlement):
    return open_settlement(url)


@effect("irreversible", scope="payment:/{to}")
def pay(to):
    return f"paid {to}"


def halt(run, what, url, *more):
    return run("halt", what, url, "--by", "eve", "--because", "odd payments", *more)


def test_what_a_shell_halts_is_refused_in_every_process_until_it_is_resumed_there(run, here, url):
    halted = halt(run, "payment:/**", url)
    with pytest.raises(Halted, match="by eve: odd payments"), here.transaction("trip") as tx:
        tx.call(pay, to="ada")
    listed, resumed, nothing = run("halts", url), run("resume", "1", url, "--by", "bob"), run("halts", url)
    assert [result.exit_code for result in (halted, listed, resumed, nothing)] == [0, 1, 0, 0]
    assert halted.stdout.splitlines()[-1] == "Nothing acts there any more."
    assert listed.stdout.startswith("1: payment:/ is halted since ")
    assert "by eve: odd payments" in listed.stdout
    assert (resumed.stdout, nothing.stdout) == ("payment:/ is resumed, by bob.\n", "Nothing is halted.\n")
    with here.transaction("trip") as tx:
        tx.call(pay, to="ada")


@pytest.mark.parametrize(
    ("what", "told"),
    [("run:ada/*", "run ada/*"), ("everything", "everything"), ("run:/ada", "run:/ada"), ("agent:ada", "agent ada")],
)
def test_a_run_everything_or_a_scope_is_named_by_one_argument(run, here, url, what, told):
    found = json.loads(halt(run, what, url, "--json").stdout)
    assert (found["halt"]["what"], found["silent"], found["moving"]) == (told, True, [])
    assert [each.what for each in here.halts()] == [told]


def test_halts_lists_what_was_lifted_on_request(run, here, url):
    here.resume(here.halt(everything=True, by="eve", because="odd"), by="bob")
    told = run("halts", url, "--all")
    assert (told.exit_code, "everything was halted at " in told.stdout, "by bob" in told.stdout) == (0, True, True)
    assert [each["resumed_by"] for each in json.loads(run("halts", url, "--all", "--json").stdout)] == ["bob"]


def test_what_still_acts_is_named_and_the_status_is_1(run, here, url):
    results = []

    @effect("reversible", scope="payment:/{to}", undo=lambda to: None)
    def reserve(to):
        results.append(halt(run, "payment:/**", url, "--wait", "0"))

    with pytest.raises(Halted), here.transaction("trip") as tx:
        tx.call(reserve, to="ada")
    assert results[0].exit_code == 1
    assert "MAY STILL ACT: trip, aborting, of " in results[0].stdout


def test_a_halt_that_does_not_stand_is_not_lifted(run, here, url):
    result = run("resume", "7", url, "--by", "bob")
    assert (result.exit_code, "there is no halt 7" in result.stderr) == (1, True)


@pytest.mark.parametrize(
    "command",
    [
        ("halt", "nonsense", "--by", "eve", "--because", "odd"),
        ("release", "nonsense", "--by", "eve", "--because", "odd"),
        ("steer", "trip-1", "revise", "no", "--scope", "nonsense", "--by", "eve"),
    ],
    ids=lambda command: command[0],
)
def test_a_scope_that_is_none_is_a_wrong_argument_and_no_finding(run, here, url, command):
    said = run(*command[:-4], url, *command[-4:])
    assert (said.exit_code, said.stdout) == (2, "")
    assert "the scope 'nonsense' has no type: write 'room:/nonsense' or the like" in said.stderr
    assert (here.halts(), here.steering()) == ([], [])
