"""What people see: no text of anybody's steers a terminal or forges a line, and no secret stands in what is told."""

from __future__ import annotations

import ast
import io
import json
import logging
import os
import pickle
import re
import shutil
import sqlite3
import stat
import subprocess
import sys
import traceback
import unicodedata
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.places import RAISED
from tests.core.test_logs import log_calls
from tests.rooms.cli import doctor_command
from tests.rooms.cli import main as cli
from tests.rooms.edges import plain, plain_json, plain_traceback
from tests.rooms.ledger import explain, failures, withhold, without_secrets
from tests.rooms.observe import JsonLines, log_failure
from tests.servers import require_driver
from typer.testing import CliRunner

import settlemark
import settlemark_adapters
import settlemark_langgraph
from settlemark import (
    Budget,
    Denied,
    LedgerError,
    Payloads,
    Policy,
    PolicyRule,
    Scope,
    SettlemarkError,
    Settlement,
    effect,
    new_key,
)
from settlemark.commands import console, unmarked
from settlemark.hosting import host_of, shown

FORGED = "  1. send_money on bank:/boss: confirmed"
EVIL = f"ev\x1b[2J\x1b]0;pwned\x07\x9b31m\u202egnp\u2066\u200b\x7f\r[red]\n{FORGED}"
HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
ROOTS = [Path(package.__file__).parent for package in (settlemark, settlemark_adapters, settlemark_langgraph)]


def unseen(text):
    """Return what is in a text that nobody sees, or that moves what they see: line breaks apart."""
    return {c for c in text if c != "\n" and unicodedata.category(c) in HIDDEN}


def forged(text):
    return [line for line in text.splitlines() if line.strip() == FORGED.strip()]


# ---- the door


@given(st.text())
def test_a_plain_text_is_one_line_that_shows_all_there_is(text):
    assert unseen(plain(text)) <= {"\u200c", "\u200d"}
    assert "\n" not in plain(text)
    assert plain(plain(text)) == plain(text)


def test_every_character_that_is_not_to_be_seen_is_escaped_and_words_and_pictures_stay_as_they_are():
    hidden = [chr(code) for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) in HIDDEN]

    assert [c for c in hidden if plain(f"a{c}b") == f"a{c}b"] == []
    for told in ("\U0001f469\u200d\U0001f4bb", "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "Zoë, 東京", "a\\b"):
        assert plain(told) == told


@given(st.recursive(st.none() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_plain_json_has_the_same_value(value):
    text = plain_json(json.dumps(value, ensure_ascii=False, indent=2))

    assert json.loads(text) == value
    assert unseen(text) <= {"\u200c", "\u200d"}


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no words")


def test_an_exception_is_told_with_its_causes_in_lines_that_no_message_has_forged():
    try:
        try:
            raise Mute
        except Mute as error:
            error.add_note(EVIL)
            raise ExceptionGroup(EVIL, [LookupError(EVIL)]) from error
    except ExceptionGroup as error:
        told, silent = plain_traceback(error), plain_traceback(error, messages=False)

    assert unseen(told) == set()
    assert forged(told) == []
    assert told.count("[red]") == 3
    assert "Mute: (its own message is not available: RuntimeError)" in told
    assert "[red]" not in silent
    assert "LookupError" in silent


@pytest.mark.parametrize("raised", RAISED)
def test_any_exception_is_told_and_logged_with_its_traceback_whatever_it_says_of_itself(raised, caplog):
    try:
        RAISED[raised]()
    except BaseException as error:
        kind = type.__dict__["__name__"].__get__(type(error))
        try:
            told = [plain_traceback(error), plain_traceback(error, messages=False)]
            log_failure(logging.getLogger("settlemark"), "it failed", error)
        except Exception as failed:  # pytest could not report the other one
            told = [f"{failed!r}"]
    [record] = [each for each in caplog.records if each.message.startswith("it failed: ")]
    record.exc_info = None
    texts = [*told, record.exc_text or ""]
    assert [kind in text for text in texts] == [True] * 3
    assert [unseen(text) for text in (*texts, record.message)] == [set()] * 4


def kinds_of_error(of=SettlemarkError):
    return [of, *(kind for sub in of.__subclasses__() for kind in kinds_of_error(sub))]


@pytest.mark.parametrize("kind", kinds_of_error(), ids=lambda kind: kind.__name__)
def test_no_error_that_nobody_catches_steers_a_terminal(kind):
    error = kind(f"gave up on {EVIL}", transaction=EVIL)
    assert str(error).split("\n") == [plain(line) for line in f"gave up on {EVIL}".split("\n")]
    assert error.data["transaction"] == EVIL
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.data) == (str(error), error.data)


def test_an_argument_that_is_missing_is_told_with_a_tools_name_that_steers_no_terminal():
    @effect("opaque", name=EVIL)
    def tool(amount):
        pass

    with Settlement("memory:") as settlement, pytest.raises(TypeError) as raised, settlement.transaction("trip") as tx:
        tx.call(tool)
    assert str(raised.value) == f"{plain(EVIL)}() missing a required argument: 'amount'"


def test_a_console_shows_names_as_they_are_and_its_own_colors():
    out = io.StringIO()
    shown_to = console()
    shown_to.file = out
    shown_to.print(unmarked(EVIL))

    assert "[red]" in out.getvalue()
    assert unseen(out.getvalue()) == set()
    assert forged(out.getvalue()) == []


def test_nothing_is_printed_by_another_door():
    own = ("settlemark/_cli/terminal.py", "settlemark/testing/_counterparties/process.py")
    found = []
    for path in (path for root in ROOTS for path in root.rglob("*.py")):
        text = path.read_text()
        if not re.search(r"print\(|echo\(|Console\(|write\(", text):
            continue
        for node in ast.walk(ast.parse(text)):
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if called in ("print", "typer.echo", "typer.secho", "click.echo", "Console", "rich.print") or re.fullmatch(
                r"sys\.(stdout|stderr)\.write", called
            ):
                where = f"{path.parents[len(path.relative_to(path.anchor).parts) - 1]}"
                name = "/".join(
                    path.parts[path.parts.index(next(p for p in path.parts if p.startswith("settlemark"))) :]
                )
                if not any(each.endswith(name) for each in own) and not is_progress(node):
                    found.append(f"{where}{name}:{node.lineno}: {called}")
    assert found == []


def is_progress(call):
    """Whether it is the count that an export shows while it runs, which has no text of anybody's."""
    return ast.unparse(call.args[0]).startswith("f'\\r{counted} lines") if call.args else False


def test_every_logger_is_the_one_whose_records_pass_the_door():
    calls = re.compile(r"^(?! *>>>).*logging\.getLogger\((.*?)\)", re.MULTILINE)
    named = {name for root in ROOTS for path in root.rglob("*.py") for name in calls.findall(path.read_text())}

    assert named == {'"settlemark"', "LOGGER"}


# ---- every command, every inlet


@effect("reversible", scope="room:/{hotel}", undo=lambda: None, name="QQtool")
def reserve(hotel, note):
    return {"echo": note}


def failing_undo():
    raise RuntimeError("QQundo")


@effect("reversible", scope="suite:/{hotel}", undo=failing_undo, name="QQtool2")
def reserve_for_good(hotel):
    return "QQresult"


@effect("opaque", scope="bank:/{account}", name="QQtool3")
def wire(account):
    raise TimeoutError("QQlost")


@effect("irreversible", scope="mail:/{to}", name="QQtool4", approve=True)
def send(to, text): ...


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A ledger in which every text is hostile that a name, a note, a reason, an error or a person can bring in."""
    folder = tmp_path_factory.mktemp("hostile")
    logging.getLogger("settlemark").setLevel(logging.CRITICAL)
    path = folder / "plain.db"
    policy = Policy("QQpolicy", [PolicyRule("QQrule", "deny", transaction="QQrun/denied")], default="allow")
    with Settlement(f"sqlite:///{path}", budgets=[Budget("QQunit", 9)], policy=policy) as settlement:
        settlement.charge("QQunit", 1, run="QQrun", key="QQcharge")
        settlement.lease("checkout:/QQrepo", for_=60, by="QQagent")
        with settlement.transaction("QQrun/1") as tx:
            grounds = [Scope.parse("rate:/QQground"), {"QQname": "QQvalue"}]
            with tx.decide("QQtitle", because="QQbecause", alternatives=["QQelse"], policy="QQpolicy", grounds=grounds):
                tx.call(reserve, hotel="QQscope", note="QQargument")
            tx.owe("QQpromise", to="customer:/QQcustomer", by=timedelta(days=9), matching={"QQname": "QQvalue"})
        for name in ("QQrun/2", "QQrun/3"):
            try:
                with settlement.transaction(name) as tx:
                    tx.call(reserve_for_good, hotel=f"QQscope{name[-1]}")
                    raise RuntimeError("QQreason")
            except RuntimeError:
                pass
        try:
            with settlement.transaction("QQrun/4") as tx:
                tx.call(wire, account="QQaccount")
        except Exception:
            pass
        with suppress(Denied), settlement.transaction("QQrun/denied") as tx:
            tx.call(reserve, hotel="QQdenied", note="")
        left = settlement.residue()[0]
        settlement.resolve(left.key, "give_up", by="QQby", note="QQnote")
        with settlement.transaction("QQrun/5") as tx:
            tx.call(send, to="QQto", text="QQtext")
            tx.park()
        settlement.halt("halted:/QQhalted", by="QQby", because="QQbecause")
        settlement.steer("QQrun", "revise", "QQrevised", scope="rate:/QQground", by="QQby")
        settlement.pause("QQrun", by="QQby", because="QQbecause")
        waiting = settlement.transaction("QQrun/6")
        tx = waiting.__enter__()
        tx.call(reserve, hotel="QQheld", note="")
        copy = folder / "copy.db"
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
            settlement.transactions()  # all that is queued is written
            source.backup(target)
        waiting.__exit__(None, None, None)
    logging.getLogger("settlemark").setLevel(logging.NOTSET)
    poison(copy)
    return copy


JSON_COLUMNS = ("arguments", "scopes", "result", "steps", "state", "handlers", "payload", "body")


def poison(path):
    """Put the hostile text in the place of every QQ, and a stranger's host in that of this one."""
    with closing(sqlite3.connect(path)) as store, store:
        store.execute("PRAGMA foreign_keys=OFF")
        # A command about what is no scope is not taken: nobody can bring one in.
        store.execute("UPDATE settlemark_log SET steps = replace(steps, ':/QQ', ':/qq')")
        tables = [name for (name,) in store.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in (name for name in tables if name.startswith("settlemark_")):
            columns = [row[1] for row in store.execute(f"PRAGMA table_info({table})")]
            for column in columns:
                as_json = column in JSON_COLUMNS and table != "settlemark_transaction"
                store.execute(
                    f"UPDATE {table} SET {column} = replace({column}, 'QQ', ?) WHERE typeof({column}) = 'text'",
                    (json.dumps(EVIL)[1:-1] if as_json else EVIL,),
                )
        store.execute("UPDATE settlemark_worker SET id = ? || id", (EVIL,))


LEDGER = object()
"""Where it stands, when not in front."""
COMMANDS = {
    "show": [[], ["--table"], ["--json"], ["--run", EVIL], ["--run", f"no{EVIL}"]],
    "waiting": [[], ["--table"], ["--json"]],
    "residue": [[], ["--table"], ["--json"], ["--all"], ["--all", "--table"], ["--since", EVIL]],
    "approvals": [[], ["--table"], ["--json"]],
    "approve": [],
    "edit": [],
    "reject": [],
    "in-doubt": [[], ["--table"], ["--json"], ["--module", EVIL]],
    "resolve": [],
    "stuck": [[], ["--json"]],
    "undo-again": [],
    "settle-by-hand": [],
    "recover": [["--module", f"no{EVIL}"], ["--json"], []],
    "export": [[], ["--run", EVIL], ["--since", EVIL]],
    "doctor": [[], ["--table"], ["--json"]],
    "migrate": [[], ["--json"]],
    "prune": [["--older-than", "30d"], ["--older-than", EVIL], ["--older-than", "30d", "--json"]],
    "budgets": [[], ["--json"]],
    "leases": [[], ["--json"]],
    "release": [],
    "obligations": [[], ["--json"], ["--all"]],
    "waive": [],
    "primer": [[f"{EVIL}run", LEDGER], [f"{EVIL}run", LEDGER, "--json"], [EVIL, LEDGER]],
    "claims": [
        [f"I have sent {EVIL} now", LEDGER],
        [f"I have sent {EVIL} now", LEDGER, "--json"],
        [EVIL, "--run", EVIL],
    ],
    "why": [[f"{EVIL}run/1#1/0", LEDGER], [EVIL, LEDGER], ["--run", f"{EVIL}run"], ["--run", f"{EVIL}run", "--json"]],
    "audit": [[f"{EVIL}run", LEDGER], [f"{EVIL}run", LEDGER, "--json"], [EVIL, LEDGER, "--digest", EVIL]],
    "verdicts": [[], ["--json"], ["--run", EVIL], ["--denied"]],
    "halt": [],
    "resume": [],
    "halts": [[], ["--json"], ["--all"]],
    "pause": [],
    "pauses": [[], ["--json"], ["--all"]],
    "go-on": [],
    "hand-over": [],
    "discard": [],
    "steer": [],
    "steering": [[], ["--json"], ["--run", f"{EVIL}run"], ["--run", EVIL]],
    "check": [[], ["--json"], ["--format", EVIL], ["--plot", f"{EVIL}.png"]],
    "lint": [[], [EVIL]],
    "adopt": [[], [EVIL]],
}
NO_LEDGER = {"lint", "adopt"}


def run(*arguments):
    return CliRunner().invoke(cli.build(), [str(a) for a in arguments], prog_name="settlemark")


def names_of_commands():
    return sorted({command.__name__.replace("_", "-") for command in cli.COMMANDS})


def assert_plain(result, *, what):
    told = result.output + (result.stderr or "")
    assert unseen(told) <= {"\t"}, what  # click indents its choices with it
    assert forged(told) == [], what
    return told


def test_every_command_is_looked_at_here():
    assert sorted(COMMANDS) == names_of_commands()


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_no_text_in_a_ledger_or_an_argument_steers_a_terminal_or_forges_a_line(command, hostile, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    ledger = tmp_path / "t.db"
    seen = ""
    for options in COMMANDS[command]:
        shutil.copy(hostile, ledger)
        given = options if command in NO_LEDGER or LEDGER in options else [ledger, *options]
        given = [ledger if each is LEDGER else each for each in given]
        result = run(command, *given)
        told = assert_plain(result, what=(command, options))
        if "--json" in options and result.stdout.strip():
            json.loads(result.stdout)
        seen += told
    told_nothing = {
        "undo-again",
        "settle-by-hand",
        "release",
        "resolve",
        "approve",
        "edit",
        "reject",
        "waive",
        "halt",
        "resume",
        "adopt",
        "lint",
        "migrate",
        "prune",
        "steer",
        "pause",
        "go-on",
        "hand-over",
        "discard",
    }
    if command not in told_nothing:
        assert "pwned" in seen  # the hostile text was there to be shown


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_no_argument_of_a_command_is_shown_as_it_was_given(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SETTLEMARK_URL", raising=False)
    for words in ([f"--no{EVIL}"], [EVIL], [EVIL, EVIL, EVIL], [f"nosuch{EVIL}://x"], ["--namespace", EVIL, "memory:"]):
        assert_plain(run(command, *words), what=(command, words))
    assert_plain(run(EVIL), what="a command of that name")


def test_a_word_of_an_operator_is_shown_plainly_when_it_is_put_on_record(hostile, tmp_path):
    ledger = tmp_path / "t.db"
    shutil.copy(hostile, ledger)
    with sqlite3.connect(ledger) as store:
        (key,) = store.execute("SELECT key FROM settlemark_effect WHERE outcome = 'unknown'").fetchone()

    for options in ([], ["--json"]):
        told = assert_plain(
            run("resolve", key, "confirmed", ledger, "--by", EVIL, "--note", EVIL, *options), what=options
        )
        assert options or "pwned" in told  # JSON has its key and its outcome alone, and not every key quotes it
    assert_plain(run("show", ledger), what="afterwards")


def test_an_error_that_nobody_expected_is_told_plainly_and_exits_with_2(monkeypatch):
    def broken(*_args, **_options):
        raise RuntimeError(EVIL)

    monkeypatch.setattr(doctor_command, "ledger_url", broken)
    result = run("doctor")

    assert result.exit_code == 2
    assert "pwned" in assert_plain(result, what="doctor")


def test_what_a_settlement_tells_of_itself_is_plain(hostile, tmp_path):
    shutil.copy(hostile, tmp_path / "t.db")
    with Settlement(f"sqlite:///{tmp_path / 't.db'}") as settlement:
        told = settlement.show()

    assert unseen(told) == set()
    assert forged(told) == []
    assert "pwned" in told


# ---- the log


@pytest.fixture
def logged():
    """What two handlers of somebody's print: one as text, one as JSON."""
    logger, text, as_json = logging.getLogger("settlemark"), io.StringIO(), io.StringIO()
    handlers = [logging.StreamHandler(text), logging.StreamHandler(as_json)]
    handlers[0].setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    handlers[1].setFormatter(JsonLines())
    level = logger.level
    logger.setLevel(logging.DEBUG)
    for handler in handlers:
        logger.addHandler(handler)
    yield lambda: (text.getvalue(), as_json.getvalue())
    logger.setLevel(level)
    for handler in handlers:
        logger.removeHandler(handler)


def test_no_name_and_no_message_in_a_log_steers_a_terminal_or_forges_a_line(logged):
    logger = logging.getLogger("settlemark")
    logger.warning("%s waits for %s: %s %d", EVIL, "x", LookupError(EVIL), 7, extra={"settlemark": {"tool": EVIL}})
    logger.warning(EVIL)
    logger.warning("%(name)s", {"name": EVIL})
    try:
        raise LookupError(EVIL)
    except LookupError:
        logger.exception("it failed for %s", EVIL)

    text, lines = logged()
    assert unseen(text) == set()
    assert forged(text) == []
    assert unseen(lines) == set()
    told = [json.loads(line) for line in lines.splitlines()]
    assert [line["message"].count("pwned") for line in told] == [2, 1, 1, 1]
    assert told[0]["tool"] == EVIL


def test_every_log_call_gives_an_exception_as_itself_or_as_a_quote_which_can_be_withheld():
    calls = [call for _, call in log_calls()]
    words = [
        ast.unparse(inner)
        for call in calls
        for argument in call.args
        for inner in ast.walk(argument)
        if (isinstance(inner, ast.JoinedStr) and re.search(r"error|cause|failure", ast.unparse(inner)))
        or (isinstance(inner, ast.Call) and ast.unparse(inner.func) in ("in_words", "message_of", "str", "repr"))
    ]

    assert len(calls) > 10
    assert words == []


SECRET = "4242-4242-4242"


def test_with_encrypt_no_log_quotes_an_argument_a_result_an_error_or_a_note(logged, kind_of_store, tmp_path):
    class Watching:
        def tell(self, event):
            raise RuntimeError(f"observer {event} {SECRET}")

        def around(self, _acting):
            raise RuntimeError(SECRET)

    def listener(_name):
        raise RuntimeError(SECRET)

    def undo(card):
        raise RuntimeError(f"undo of {card}")

    @effect("reversible", scope="pay:/{to}", undo=undo)
    def pay(to, card):
        return card

    @effect("opaque", scope="bank:/{to}")
    def transfer(to, card):
        raise TimeoutError(card)

    url = "memory:" if kind_of_store == "memory" else f"sqlite:///{tmp_path / 't.db'}"
    options = {"payloads": Payloads(encrypt=new_key()), "observe": Watching(), "on_residue": listener}
    with Settlement(url, **options) as settlement:
        with pytest.raises(RuntimeError), settlement.transaction("a") as tx:
            tx.call(pay, to="x", card=SECRET)
            raise RuntimeError(SECRET)
        with pytest.raises(settlemark.InDoubt), settlement.transaction("b") as tx:
            tx.call(transfer, to="x", card=SECRET)
        doubt = settlement.in_doubt()[0]
        settlement.confirm(doubt.key, {"wire": SECRET}, note=SECRET)
        settlement.confirm(doubt.key, {"wire": f"{SECRET}!"}, note=SECRET)
        settlement.resolve(doubt.key, "absent", by="ada", note=SECRET)
        with pytest.raises(settlemark.Vetoed), settlement.transaction("c", before_commit=lambda _f: SECRET) as tx:
            tx.call(pay, to="y", card=SECRET)
        text, lines = logged()
    logging.getLogger("settlemark").warning("%s", LookupError("told again"))

    assert SECRET not in text
    assert SECRET not in lines
    assert "withheld" in text
    assert "RuntimeError" in text
    assert "told again" in logged()[0]


# ---- passwords

PASSWORD = "hunter2%40!x"  # as it stands in a URL; its driver is given hunter2@!x
URLS = [
    f"postgresql+psycopg://ada:{PASSWORD}@127.0.0.1:1/db",
    f"postgresql+psycopg://127.0.0.1:1/db?user=ada&password={PASSWORD}&connect_timeout=1",
    f"postgresql+psycopg://127.0.0.1:1/db?connect_timeout=1&sslpassword={PASSWORD}&sslkey=x",
    f"postgresql+psycopg://127.0.0.1:1/db?user=ada&pass%77ord={PASSWORD}&connect_timeout=1",
    f"postgresql+psycopg:///?host=127.0.0.1&port=1&password={PASSWORD}",
    "postgresql+psycopg://ada:hunter2@!x@127.0.0.1:1/db",
    "postgresql+psycopg://ada:hunter2/!x@127.0.0.1:1/db",
    "postgresql+psycopg://ada:hunter2?!x@127.0.0.1:1/db",
    "postgresql://ada:hunter2@127.0.0.1:port/db",
    "postgresql://ada:hunter2",
    "postgresql+psycopg://ada:1hunter2/db?sslmode=disable",
    "postgresql://ada:x/hunter2?hunter2",
    "nosuch://ada:hunter2@127.0.0.1/db",
    "host=127.0.0.1 port=1 user=ada password=hunter2",
    "host=127.0.0.1 port=1 user=ada password='hunter2 \\'x'",
]


ASKED = (
    ["show"],
    ["doctor"],
    ["doctor", "--json"],
    ["recover"],
    ["migrate"],
    ["export"],
    ["prune", "--older-than", "1d"],
)


def texts_of(error):
    """Return all that an error and those behind it tell of themselves."""
    seen, behind = [], [error]
    while behind:
        one = behind.pop()
        if one is None or one in seen:
            continue
        seen.append(one)
        behind += [one.__cause__, one.__context__, getattr(one, "orig", None)]
    told = [f"{one} {one!r} {one.args} {vars(one)} {getattr(one, '__notes__', '')}" for one in seen]
    return "\n".join([*told, *(line for one in seen for line in traceback.format_exception_only(one))])


@pytest.mark.parametrize("url", URLS)
def test_a_password_is_in_no_error_log_or_output_wherever_the_url_has_it(url, logged, monkeypatch):
    require_driver()
    with pytest.raises(LedgerError) as caught:
        Settlement(url)
    monkeypatch.setenv("SETTLEMARK_URL", url)
    with pytest.raises(LedgerError):
        Settlement()

    assert "hunter2" not in texts_of(caught.value)
    assert "hunter2" not in "".join(logged())
    assert "hunter2" not in pickle.dumps(caught.value).decode("latin-1")
    for command in ASKED:
        result = run(*command)
        assert result.exit_code == 2
        assert "hunter2" not in result.output + result.stderr
        assert "hunter2" not in str(result.exception)


def test_an_error_of_the_driver_that_quotes_a_password_is_told_without_it_and_so_is_its_cause():
    url = f"postgresql+psycopg://ada:{PASSWORD}@db/trips?sslpassword=tr%C3%A8s+secret"
    try:
        try:
            raise ValueError(b"hunter2@!x", {"dsn": "password=hunter2@!x"})
        except ValueError as inner:
            inner.add_note("très secret")
            raise OSError(f"user ada, password hunter2@!x (as {PASSWORD}), key très secret") from inner
    except OSError as error:
        failed = explain(url, error)

    told = texts_of(failed)
    assert "hunter2" not in told
    assert "secret" not in told
    assert "user ada, password *** (as ***), key ***" in str(failed)


def test_a_short_password_is_taken_out_as_a_word_and_words_that_hold_it_stay():
    assert (
        without_secrets("postgresql://ada:an@db/x", "an error: cannot read an, 'an'")
        == "*** error: cannot read ***, '***'"
    )


def test_an_error_that_cannot_be_changed_is_left():
    class Fixed(Exception):
        __slots__ = ()

    withhold("postgresql://ada:hunter2@db/x", Fixed("hunter2"))


@pytest.mark.parametrize(
    "url",
    ["sqlite:////data/a:b@c.db", "sqlite:///trip.db", "memory:", "postgresql+psycopg://ada@db/trips?sslmode=require",
     "postgresql://db:5432", "postgresql://ada@db:5432/x?options=a:b", "postgresql://[::1]:5432/x", "postgresql://[::1]",
     "postgresql:///x?host=/tmp/a:b", "sqlite:trips.db", "sqlite://C:/trips.db", "host=::1 user=ada"],
)  # fmt: skip # a table of values
def test_a_url_without_a_password_is_shown_as_it_is(url):
    assert shown(url) == url


def test_who_was_forked_is_told_so_without_the_password(postgres, logged):
    url = postgres.create_database()
    url = f"{url}{'&' if '?' in url else '?'}sslpassword=hunter2"
    with Settlement(url) as settlement:
        origin = host_of(settlement).ledger._member.origin
        origin.is_elsewhere = True
        with pytest.raises(LedgerError, match="forked") as caught:
            settlement.run("a", lambda tx: tx.call(reserve, hotel="Ada", note=""))
        assert "hunter2" not in texts_of(caught.value)
        assert "hunter2" not in repr(settlement)
        origin.is_elsewhere = False
    assert "hunter2" not in "".join(logged())


# ---- files

HISTORY = "\n".join(
    json.dumps(line) for line in ({"agent": "a", "reads": {}, "writes": {"x": 1}, "read_time": 1, "write_time": 2},)
)


def modes(folder):
    return {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in folder.iterdir()}


def test_every_file_that_is_made_is_its_owners_alone_whatever_the_umask(tmp_path):
    script = """
import os, sys
os.umask(0)
from settlemark import Settlement, effect
from settlemark._cli import main
from typer.testing import CliRunner

@effect("reversible", scope="room:/{hotel}", undo=lambda: None)
def reserve(hotel): ...

def cli(*given):
    result = CliRunner().invoke(main.build(), list(given))
    assert result.exit_code == 0, (given, result.output)

settlement = Settlement("sqlite:///trip.db", history="trip.jsonl")
settlement.run("trip", lambda tx: tx.call(reserve, hotel="Ada"))
cli("show", "trip.db")
cli("export", "trip.db", "--output", "trip.export.jsonl")
cli("check", "trip.jsonl", "--plot", "trip.png")
cli("doctor", "trip.db")
for name in os.listdir("."):
    print(name, oct(os.stat(name).st_mode & 0o777))
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    found = dict(line.rsplit(" ", 1) for line in done.stdout.splitlines() if not line.startswith("ok"))
    assert set(found) >= {"trip.db", "trip.db-wal", "trip.db-shm", "trip.jsonl", "trip.export.jsonl", "trip.png"}
    assert set(found.values()) == {"0o600"}


def test_a_file_that_is_there_keeps_its_mode_and_doctor_tells_of_it(tmp_path):
    path = tmp_path / "trip.db"
    path.touch()
    path.chmod(0o644)
    tmp_path.chmod(0o755)
    with Settlement(f"sqlite:///{path}") as settlement:
        settlement.run("a", lambda tx: tx.call(reserve, hotel="Ada", note=""))
        told = run("doctor", path).output
        assert set(modes(tmp_path).values()) == {"0o644"}

    assert "others on this host may read what your tools were asked" in told
    assert "chmod go-rwx" in told


# ---- why a file cannot be written


def refusal(url):
    with pytest.raises(LedgerError) as caught:
        Settlement(url)
    return str(caught.value)


def test_a_ledger_that_cannot_be_made_says_what_is_true_of_its_place(tmp_path, monkeypatch):
    (tmp_path / "file").touch()

    assert f"there is no folder {tmp_path}/no/such: create it" in refusal(f"sqlite:///{tmp_path}/no/such/trip.db")
    assert f"{tmp_path}/file is a file, not a folder" in refusal(f"sqlite:///{tmp_path}/file/trip.db")
    assert f"{tmp_path} is a folder: name a file" in refusal(f"sqlite:///{tmp_path}")

    def refuse(*_args, **_options):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(failures, "_is_readonly", lambda _folder: True)
    told = refusal(f"sqlite:///{tmp_path}/trip.db")
    assert "is on a file system that is mounted read-only: name a file on one that can be written" in told
    assert "create its folder" not in told


def test_a_ledger_whose_file_or_folder_may_not_be_written_says_which(tmp_path, monkeypatch):
    path = tmp_path / "trip.db"
    Settlement(f"sqlite:///{path}").close()
    monkeypatch.setattr(os, "access", lambda file, _mode: Path(file) != path)
    assert f"this user may not write {path}" in str(
        explain(f"sqlite:///{path}", sqlite3.OperationalError("attempt to write a readonly database"))
    )
    monkeypatch.setattr(os, "access", lambda file, _mode: Path(file) != tmp_path)
    assert f"this user may not write in {tmp_path}" in str(
        explain(f"sqlite:///{path}", sqlite3.OperationalError("unable to open database file"))
    )
