from __future__ import annotations

import importlib.metadata
import json
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from importlib.metadata import EntryPoint

import pytest
import typer
from tests.rooms.cli import main as cli
from typer.testing import CliRunner

from settlemark import Settlement, effect


@pytest.fixture(autouse=True)
def no_surroundings(monkeypatch, tmp_path):
    monkeypatch.delenv("SETTLEMARK_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    with_commands(monkeypatch)


def with_commands(monkeypatch, *entries):
    found = importlib.metadata.entry_points

    def entry_points(**chosen):
        return list(entries) if chosen == {"group": cli.GROUP} else found(**chosen)

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)


def run(*arguments):
    return CliRunner().invoke(cli.build(), [str(a) for a in arguments], prog_name="settlemark")


@effect("reversible", scope="room:/{hotel}", undo=lambda: None)
def reserve(hotel): ...


def never():
    raise LookupError("no such room")


@effect("reversible", scope="suite:/{hotel}", undo=never)
def reserve_for_good(hotel): ...


@pytest.fixture
def ledger(tmp_path):
    path = tmp_path / "trip.db"
    with Settlement(f"sqlite:///{path}") as settlement:
        for trip in ("trip-1/book", "trip-1/pay", "trip-2"):
            with settlement.transaction(trip) as tx:
                tx.call(reserve, hotel="Ada")
    return path


@pytest.fixture
def ledger_with_residue(ledger):
    with (
        Settlement(f"sqlite:///{ledger}") as settlement,
        suppress(ZeroDivisionError),
        settlement.transaction("trip-3") as tx,
    ):
        tx.call(reserve_for_good, hotel="Ada")
        raise ZeroDivisionError
    return ledger


def names(result):
    return [recorded["name"] for recorded in json.loads(result.stdout)]


# -- which ledger -----------------------------------------------------------------------------------------


def test_a_path_and_a_url_name_the_same_ledger(ledger):
    by_path, by_url = run("show", ledger, "--json"), run("show", f"sqlite:///{ledger}", "--json")

    assert by_path.exit_code == by_url.exit_code == 0
    assert by_path.stdout == by_url.stdout
    assert names(by_path) == ["trip-1/book", "trip-1/pay", "trip-2"]


def test_without_a_ledger_the_environments_is_meant_and_then_the_one_in_this_folder(ledger, monkeypatch, tmp_path):
    monkeypatch.setenv("SETTLEMARK_URL", f"sqlite:///{ledger}")
    from_environment = run("show", "--json")
    monkeypatch.delenv("SETTLEMARK_URL")
    ledger.rename(tmp_path / "settlemark.db")
    from_folder = run("show", "--json")

    assert names(from_environment) == names(from_folder) == ["trip-1/book", "trip-1/pay", "trip-2"]


@pytest.mark.parametrize("command", ["show", "residue"])
@pytest.mark.parametrize("given", ["none.db", "sqlite:///none.db", ""])
def test_a_ledger_that_is_not_there_is_an_error_and_is_not_created(command, given, tmp_path):
    result = run(command, *filter(None, [given]))

    assert result.exit_code == 2
    assert "there is no ledger at" in result.stderr
    assert result.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_a_database_of_somebody_else_is_refused_and_not_touched(tmp_path):
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (x)")
    before = path.read_bytes()

    result = run("show", path)

    assert result.exit_code == 2
    assert "no ledger of settlemark" in result.stderr
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_refused_and_not_touched(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("rooms and prices\n" * 100)

    result = run("residue", path)

    assert result.exit_code == 2
    assert "file is not a database; this file is something else, or damaged: name another one" in result.stderr
    assert path.read_text() == "rooms and prices\n" * 100


@pytest.mark.parametrize("url", ["memory:", "nosuch://host/db"])
def test_a_url_nothing_can_be_read_from_is_an_error_that_names_the_remedy(url):
    result = run("show", url)

    assert result.exit_code == 2
    assert result.stderr.startswith("settlemark: ")
    assert result.stdout == ""


# -- show -------------------------------------------------------------------------------------------------


def test_show_tells_the_account_in_sentences_with_its_reasons(tmp_path):
    with Settlement(f"sqlite:///{tmp_path / 'trip.db'}") as settlement:
        with settlement.transaction("trip-1") as tx, tx.turn(because="Ada wants a room") as turn:
            turn.call(reserve, hotel="Ada")
        told = settlement.show()

    result = run("show", "trip.db")

    assert result.exit_code == 0
    assert result.stdout == told + "\n"
    assert told.splitlines() == [
        "trip-1 committed.",
        "  because: Ada wants a room",
        "  1. reserve on room:/Ada: confirmed",
    ]


def test_a_ledger_that_nobody_may_write_is_shown(ledger_with_residue):
    ledger_with_residue.chmod(0o444)
    ledger_with_residue.parent.chmod(0o555)
    try:
        shown, left = run("show", ledger_with_residue), run("residue", ledger_with_residue)
    finally:
        ledger_with_residue.parent.chmod(0o755)

    assert (shown.exit_code, left.exit_code) == (0, 1)
    assert "trip-3 aborted" in shown.stdout


def test_showing_a_run_that_is_not_there_does_not_call_the_ledger_empty(ledger):
    assert run("show", ledger, "--run", "nobody").stdout == "Nothing of the run nobody is on record.\n"


def test_show_prints_tables_when_asked(ledger):
    result = run("show", ledger, "--table")

    assert result.exit_code == 0
    for expected in ("Transactions", "Effects", "trip-1/pay", "reserve", "confirmed", "Nothing is left to mend."):
        assert expected in result.stdout
    assert "epoch" not in result.stdout


def test_show_can_be_limited_to_a_run_and_to_the_last_ones(ledger):
    assert names(run("show", ledger, "--json", "--run", "trip-1")) == ["trip-1/book", "trip-1/pay"]
    assert names(run("show", ledger, "--json", "--last", 1)) == ["trip-2"]
    assert names(run("show", ledger, "--json", "--run", "trip-1", "--last", 1)) == ["trip-1/pay"]
    assert names(run("show", ledger, "--json", "--run", "nobody")) == []


def test_show_reads_the_namespace_it_is_given(tmp_path):
    url = f"sqlite:///{tmp_path / 'shared.db'}"
    with Settlement(url, namespace="team") as settlement, settlement.transaction("trip-9") as tx:
        tx.call(reserve, hotel="Ada")

    assert names(run("show", "shared.db", "--json")) == []
    assert names(run("show", "shared.db", "--json", "--namespace", "team")) == ["trip-9"]


# -- residue ----------------------------------------------------------------------------------------------


def test_residue_exits_with_0_when_there_is_none(ledger):
    result = run("residue", ledger)

    assert result.exit_code == 0
    assert result.stdout.strip() == "Nothing is left to mend."
    assert json.loads(run("residue", ledger, "--json").stdout) == []


def test_residue_exits_with_1_and_names_what_is_left(ledger_with_residue):
    shown, as_json = run("residue", ledger_with_residue), run("residue", ledger_with_residue, "--json")

    assert shown.exit_code == as_json.exit_code == 1
    assert shown.stdout.splitlines() == [
        (
            "trip-3, call 1: reserve_for_good on suite:/Ada: confirmed, and not undone"
            " [unresolved: its undo failed 3 times: LookupError: no such room]"
        ),
        "  key: trip-3#1/0",
    ]
    assert "Left to mend" in run("residue", ledger_with_residue, "--table").stdout
    (left,) = json.loads(as_json.stdout)
    assert (left["transaction"], left["tool"], left["scope"]) == ("trip-3", "reserve_for_good", "suite:/Ada")
    assert (left["tag"], left["arguments"]) == ("unresolved", {"hotel": "Ada"})


# -- commands of others -----------------------------------------------------------------------------------


def demo(
    loud: bool = typer.Option(False, "--loud"),
) -> None:
    """Play it."""
    typer.echo(f"played {'loudly' if loud else 'softly'}")
    raise typer.Exit(3)


def test_the_help_lists_commands_of_others_without_loading_them(monkeypatch):
    with_commands(monkeypatch, EntryPoint("demo", "no_such_package._command:demo", cli.GROUP))

    result = run("--help")

    assert result.exit_code == 0
    for command in ("show", "residue", "demo"):
        assert command in result.stdout


@pytest.mark.parametrize(
    ("arguments", "said", "status"),
    [([], "played softly", 3), (["--loud"], "played loudly", 3), (["--help"], "Play it.", 0)],
)
def test_a_command_of_others_gets_its_options_and_gives_its_exit_status(monkeypatch, arguments, said, status):
    entry = EntryPoint("demo", "fake:demo", cli.GROUP)
    monkeypatch.setattr(EntryPoint, "load", lambda self: demo)
    with_commands(monkeypatch, entry)

    result = run("demo", *arguments)

    assert said in result.stdout
    assert result.exit_code == status


@pytest.mark.parametrize(
    "error", ["No module named 'no_such_package'", 'the demo needs langgraph: pip install "settlemark[demo]"']
)
def test_a_command_whose_extra_is_missing_says_what_to_install(monkeypatch, error):
    def fails(self):
        raise ImportError(error)

    monkeypatch.setattr(EntryPoint, "load", fails)
    with_commands(monkeypatch, EntryPoint("demo", "no_such_package:demo", cli.GROUP))

    result = run("demo", "--loud")

    assert result.exit_code == 2
    assert result.stderr.count('pip install "settlemark[demo]"') == 1
    assert error in result.stderr


def test_a_command_may_be_a_whole_app(monkeypatch):
    app = typer.Typer()
    app.command()(demo)
    monkeypatch.setattr(EntryPoint, "load", lambda self: app)
    with_commands(monkeypatch, EntryPoint("demo", "fake:app", cli.GROUP))

    assert run("demo").exit_code == 3


# -- the script -------------------------------------------------------------------------------------------


def test_the_version_is_printed(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "1.2.3")

    assert run("--version").stdout == "settlemark 1.2.3\n"


def test_a_source_tree_has_no_version_and_says_so(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)

    assert "not installed" in run("--version").stdout


def test_the_script_ends_with_the_commands_status(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["settlemark", "show", "none.db"])

    with pytest.raises(SystemExit) as ended:
        cli.main()

    assert ended.value.code == 2


def test_importing_settlemark_imports_neither_rich_nor_typer():
    found = "import sys, settlemark; print([m for m in ('rich', 'typer') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", found],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )

    assert done.stdout.strip() == "[]"


HEAVY = (
    "sqlalchemy", "rich", "alembic", "psycopg", "hypothesis", "matplotlib", "langgraph", "crewai", "autogen_core",
    "pydantic_ai", "settlemark.lint", "settlemark.history",
)  # fmt: skip # a table of values


def test_help_imports_nothing_that_is_heavy_and_no_framework():
    script = (
        "import sys; sys.argv = ['settlemark', '--help']\n"
        "from settlemark._cli import main as command\n"
        "try: command.main()\n"
        "except SystemExit: pass\n"
        f"print('heavy:', [name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "heavy: []"
    assert "approvals" in done.stdout
