"""Adopting a code base: its tools are declared by guesses, which cannot be imported until somebody has decided each."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rooms.lint import marked

from settlemark import DeclarationError, Settlement, UsageError
from settlemark.lint import adopt, lint

APP = '''
import requests
from langchain_core.tools import tool

@tool
def book_room(hotel: str, date: str) -> dict:
    """Book a room."""
    return requests.post(f"{URL}/rooms/{hotel}", json={"date": date}).json()

def cancel_room(booking: str) -> None:
    requests.delete(f"{URL}/bookings/{booking}")

@tool
def send_email(to: str, subject: str) -> None:
    smtp.send(to, subject)

@tool
def get_price(hotel: str) -> int:
    return requests.get(f"{URL}/prices/{hotel}").json()
'''

PLAIN = """
def book_room(hotel): log.append(("book", hotel)); return {"booking": "R7"}
def cancel_room(booking): log.append(("cancel", booking))
def send_email(to, subject): log.append(("mail", to))
def get_price(hotel): return 7
log = []
tools = dict(tools=[book_room, send_email, get_price])
"""


def guessed(path, **options):
    return {each.tool: each.line.removeprefix("settlement.declare") for each in adopt(path, **options).guesses}


def decided(text, *tools):
    kept = [line for line in text.splitlines() if not any(line.startswith(f'undecided("{tool}"') for tool in tools)]
    return "\n".join(kept) + "\n"


def test_it_guesses_from_names_bodies_and_pairs(write):
    assert guessed(write(APP)) == {
        "book_room": '("book_room", "reversible", scope="room:/{hotel}", undo=inverse(cancel_room, booking="booking"))',
        "send_email": '("send_email", "irreversible", scope="mail:/{to}")',
        "get_price": '("get_price", "read", scope="price:/{hotel}")',
    }


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "def lock(door): doors.lock(door)\ndef unlock(door): doors.open(door)",
            '"reversible", scope="lock:/", undo=unlock',
        ),
        (
            "def create_user(name): db.add(name)\ndef delete_user(name): db.drop(name)",
            '"reversible", scope="user:/{name}", undo=delete_user',
        ),
        ("def tidy(id):\n    'Tidies up, permanently.'\n    notes.tidy(id)", '"irreversible", scope="tidy:/{id}"'),
        ("def total(items): return sum(items)", '"read"'),
        ("def append(path, line): open(path, 'a').write(line)", '"irreversible", scope="file:/{path:path}"'),
        (
            "def raise_limit(id): db.execute('UPDATE accounts SET top = 9 WHERE id = ?', (id,))",
            '"irreversible", scope="account:/{id}"',
        ),
        ("def mystery(x): return thing(x)", '"irreversible", scope="mystery:/"'),
        ("def pay_bill(bill): 'Pay it.'", '"irreversible", scope="bill:/"'),
    ],
)
def test_where_two_guesses_are_possible_it_takes_the_safer_one(write, text, line):
    name = text.removeprefix("def ").partition("(")[0]
    assert guessed(write(f"{text}\nagent = Agent(tools=[{name}])")) == {name: f'("{name}", {line})'}


def test_hints_go_before_names(write):
    text = "@mcp.tool(annotations=ToolAnnotations({}))\ndef {}(note: str): notes.go(note)"
    assert guessed(write(text.format("readOnlyHint=True", "send_note"))) == {"send_note": '("send_note", "read")'}
    assert '"irreversible"' in guessed(write(text.format("destructiveHint=True", "get_note")))["get_note"]


def test_tools_of_one_resource_that_name_it_differently_get_a_scope_on_which_they_meet(write):
    text = "@tool\ndef book_room(hotel, date): hotels.book(hotel, date)\n@tool\ndef clean_room(key): maids.clean(key)\n"
    found = adopt(write(text)).guesses
    assert [each.scope for each in found] == ["room:/", "room:/"]
    assert "so that they meet" in found[0].reasons[-1]


def test_an_undo_that_cannot_be_imported_leaves_the_tool_held(write):
    text = (
        "def make():\n    @tool\n    def book_room(hotel): hotels.book(hotel)\n"
        "    def cancel_room(hotel): hotels.cancel(hotel)"
    )
    (found,) = adopt(write(text)).guesses
    assert (found.kind, found.undo) == ("irreversible", None)
    assert "cannot be imported from there" in found.reasons[0]


def test_what_is_declared_is_left_alone(write):
    assert (
        adopt(write('@effect("read")\ndef look(hotel): ...\n@tool\n@effect("read")\ndef see(hotel): ...')).guesses == ()
    )


def test_importing_a_guess_raises_with_file_line_and_tool_until_each_is_decided(
    write, tmp_path, importable, monkeypatch
):
    write(PLAIN, "app.py")
    place = tmp_path / "declarations.py"
    place.write_text(adopt(tmp_path / "app.py").text)

    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # the file changes faster than its date
    for left in (["book_room", "send_email", "get_price"], ["send_email", "get_price"], ["get_price"]):
        sys.modules.pop("declarations", None)
        importlib.invalidate_caches()
        with pytest.raises(DeclarationError, match=f"nobody has decided what {left[0]} .*app.py:") as raised:
            importlib.import_module("declarations")
        assert (raised.value.tool, raised.value.file, raised.value.undecided) == (left[0], str(place), left)
        assert place.read_text().splitlines()[raised.value.line - 1].startswith(f'undecided("{left[0]}"')
        place.write_text(decided(place.read_text(), left[0]))
    importlib.invalidate_caches()
    declared = importlib.import_module("declarations")

    with Settlement("memory:") as settlement:
        declared.declare_tools(settlement)
        app = importlib.import_module("app")
        with pytest.raises(RuntimeError), settlement.transaction("trip") as tx:
            tx.call(app.book_room, hotel="Ada")
            tx.call(app.send_email, to="ada", subject="booked")
            raise RuntimeError
        assert app.log == [("book", "Ada"), ("cancel", "R7")]


@pytest.mark.parametrize("width", ["79", "88", "120"])
def test_what_it_writes_is_formatted_and_checked_as_ruff_does(write, tmp_path, width):
    long = "@tool\ndef send_" + "very_" * 16 + "long_letter(to): letters.send(to)\n"
    place = tmp_path / "declarations.py"
    place.write_text(adopt(write(APP + long)).text)
    for command in (["format", "--check"], ["check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--isolated", "--line-length", width, str(place)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout


def test_adopting_again_keeps_what_people_decided_and_adds_what_is_new(write):
    path = write(APP)
    first = adopt(path).text
    edited = decided(first, "send_email").replace('scope="mail:/{to}"', 'scope="letter:/{to}"')
    assert adopt(path, existing=edited).text == edited

    write(APP + "\n@tool\ndef delete_user(user_id): users.delete(user_id)\n")
    again = adopt(path, existing=edited)
    assert [each.tool for each in again.guesses] == ["delete_user"]
    assert again.kept == ("book_room", "send_email", "get_price")
    assert 'scope="letter:/{to}"' in again.text
    assert marked(again.text) == ["book_room", "get_price", "delete_user"]
    assert again.text.splitlines()[-4:] == [
        "    declare_book_room(settlement)",
        "    declare_send_email(settlement)",
        "    declare_get_price(settlement)",
        "    declare_delete_user(settlement)",
    ]
    assert adopt(path, existing=again.text).text == again.text


@pytest.mark.parametrize(
    ("written", "known"),
    [
        ('settlement.declare("write_letter", KIND)', True),
        ('declare("write_letter", "read")', True),
        ('settlement.declare(NAME, "write_letter")', False),
        ('settlement.declare("read", "write_letter")', False),
        ('settlement.declare(name="write_letter")', False),
        ('settlement.declaration("write_letter")', False),
    ],
)
def test_a_tool_is_declared_already_where_a_call_of_declare_names_it_first(write, written, known):
    path = write("@tool\ndef write_letter(to): post.send(to)")
    again = adopt(path, existing=f"def declare_tools(settlement):\n    {written}\n")
    assert [each.tool for each in again.guesses] == ([] if known else ["write_letter"])


def test_adopting_again_after_all_was_decided_brings_the_mark_back(write):
    path = write(APP)
    clean = decided(adopt(path).text, "book_room", "send_email", "get_price")
    clean = clean.replace("from settlemark.lint import undecided\n", "")
    write(APP + "\n@tool\ndef delete_user(user_id): users.delete(user_id)\n")
    again = adopt(path, existing=clean).text
    assert again.count("from settlemark.lint import undecided\n") == 1
    compile(again, "declarations.py", "exec")


def test_tools_that_are_gone_are_named_and_their_text_stays(write):
    text = adopt(write(APP)).text
    again = adopt(write("@tool\ndef send_email(to): smtp.send(to)"), existing=text)
    assert (again.gone, again.text) == (("book_room", "get_price"), text)


@pytest.mark.parametrize(
    ("existing", "why"),
    [("x = 1\n", "it has no function declare_tools"), ("def (:\n", "line 1 of it is no Python")],
)
def test_a_file_that_it_did_not_write_is_not_touched(write, existing, why):
    with pytest.raises(UsageError, match=why):
        adopt(write(APP), existing=existing)


def test_the_linter_finds_nothing_in_what_it_guesses_but_that_nobody_can_tell_what_happened(write, tmp_path):
    path = write(APP)
    (tmp_path / "declarations.py").write_text(adopt(path).text)
    assert {finding.rule for finding in lint(tmp_path)} == {"SM104"}


@pytest.mark.parametrize("name", ["Book a Room", "send-mail", "x", "_", "日本", "7", 'a"b\\'])
def test_names_that_are_no_identifiers_are_declared_as_they_are(write, name):
    found = adopt(write(f"@tool({name!r})\ndef work(_, ä): world.go()\n"))
    space = {"__name__": "declarations"}
    exec(compile(found.text.replace("undecided(", "len("), "declarations.py", "exec"), space)
    with Settlement("memory:") as settlement:
        space["declare_tools"](settlement)
        assert settlement.declared(name).tool == name
    assert [each.rule for each in lint(write(f"@tool({name!r})\ndef work(_, ä): world.go()\n"))] == ["SM405"]


NAMES = st.from_regex(r"[a-z][a-z_]{0,12}[a-z]", fullmatch=True)


@given(
    st.lists(
        st.tuples(NAMES, st.lists(NAMES, max_size=3, unique=True)), min_size=1, max_size=5, unique_by=lambda t: t[0]
    )
)
def test_whatever_the_tools_are_called_the_result_compiles_declares_each_and_is_kept(tmp_path_factory, tools):
    path = tmp_path_factory.mktemp("app") / "tools.py"
    tools = [(f"{name}_", [f"{argument}_" for argument in arguments]) for name, arguments in tools]
    path.write_text("".join(f"@tool\ndef {name}({', '.join(args)}): world.go()\n" for name, args in tools))

    found = adopt(path)
    assert [each.tool for each in found.guesses] == [name for name, _ in tools]
    space = {"__name__": "declarations"}
    exec(compile(decided(found.text, *(name for name, _ in tools)), "declarations.py", "exec"), space)
    with Settlement("memory:") as settlement:
        space["declare_tools"](settlement)
        assert all(settlement.declared(name) is not None for name, _ in tools)
    assert adopt(path, existing=found.text).text == found.text
