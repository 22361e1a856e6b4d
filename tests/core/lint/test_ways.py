"""Every way to declare a tool, or to give one to a framework, is found; and nothing is ever run."""

from __future__ import annotations

import json
import sys

import pytest

from settlemark import UsageError
from settlemark.lint import lint

SEND = "def send_mail(to): smtp.send(to)\n"


@pytest.mark.parametrize(
    "text",
    [
        '@effect("read")\n' + SEND,
        "import settlemark\n@settlemark.effect(kind='read')\n" + SEND,
        "from settlemark import effect as declared\n@declared('read')\n" + SEND,
        "from settlemark import EffectClass\n@effect(EffectClass.READ)\n" + SEND,
        "@tool\n@effect('read')\n" + SEND,
        "@effect('read', name='send_mail')\nasync def send(to): await smtp.send(to)",
        SEND + "tool = effect('read')(send_mail)",
        "send_mail = 3\nsettlement.declare('send_mail', 'read')",
        SEND + "settlement.declare('send_mail', kind='read', function=send_mail)",
        "node = SequencedToolNode(tools, effects={'send_mail': 'read'})",
        "EFFECTS = {'send_mail': {'kind': 'read', 'scope': 'mail:/{to}'}}\nnode = SettledWorkbench(s, effects=EFFECTS)",
        (
            "from settlemark_adapters import Adapter, operation\nclass Mail(Adapter):\n"
            "    @operation('send_mail', 'read', scope='mail:/{to}')\n    def send(self, to): self.smtp.send(to)"
        ),
        (
            "class Send(BaseTool):\n    name: str = 'send'\n    @effect('read', name='send_mail')\n"
            "    def _run(self, to): smtp.send(to)"
        ),
    ],
)
def test_a_declared_tool_is_found(found, text):
    (finding,) = found(text, "SM401")
    assert finding.tool == "send_mail"


@pytest.mark.parametrize(
    "text",
    [
        "@tool\n" + SEND,
        "@tool('send_mail')\ndef send(to): smtp.send(to)",
        "@agent.tool\ndef send_mail(ctx, to): ctx.deps.smtp.send(to)",
        "@agent.tool_plain(retries=2)\n" + SEND,
        "@mcp.tool(name='send_mail')\ndef send(to): smtp.send(to)",
        SEND + "tools = [FunctionTool(send_mail, description='Send it.')]",
        SEND + "tools = [StructuredTool.from_function(func=send_mail)]",
        "def send(to): smtp.send(to)\ntools = [FunctionTool(send, name='send_mail', description='Send it.')]",
        SEND + "agent = Agent('model', tools=[send_mail])",
        SEND + "TOOLS = [send_mail]\nnode = ToolNode(TOOLS)",
        SEND + "agent = create_react_agent(model, [send_mail])",
        "class Send(BaseTool):\n    name: str = 'send_mail'\n    def _run(self, to): smtp.send(to)",
    ],
)
def test_a_tool_that_a_framework_has_and_nobody_declared_is_found_once(codes, text):
    assert codes(text) == [("SM405", "send_mail")]


def test_a_tool_is_declared_though_it_is_so_in_another_file(write):
    write(
        'from elsewhere import s\ns.declare("send_mail", "irreversible", scope="mail:/{subject}", keyed=True)',
        "app/d.py",
    )
    write("@tool\ndef send_mail(to, subject): smtp.send(to)", "app/t.py")

    (finding,) = lint(write("", "app/__init__.py").parent)
    assert (finding.rule, finding.file.rpartition("/")[2], finding.line) == ("SM203", "d.py", 3)
    assert finding.mend == 'scope="mail:/{to}"'


def test_what_a_framework_fills_in_is_no_argument(codes):
    text = (
        "@agent.tool\n@effect('irreversible', scope='mail:/{to}', probe=sent)\n"
        "def send(context: RunContext[Deps], to, password: Annotated[str, InjectedState('password')]):\n"
        "    context.deps.smtp.send(to, password)"
    )
    assert codes(text) == []


# ---- files


def test_nothing_is_run_and_what_cannot_be_imported_is_looked_at_too(write, tmp_path, importable):
    write('raise SystemExit\nimport no_such_thing\n@effect("read")\n' + SEND, "shop/tools.py")
    write("raise SystemExit", "shop/__init__.py")

    by_path = lint(tmp_path / "shop" / "tools.py")
    assert [finding.rule for finding in by_path] == ["SM401"]
    assert lint("shop/tools.py") == lint("shop.tools") == lint("shop") == by_path
    assert by_path[0].file == "shop/tools.py"
    assert "shop" not in sys.modules


def test_a_file_is_looked_at_once_however_often_it_is_named(write, tmp_path):
    path = write('@effect("read")\n' + SEND)
    assert lint(path, str(path), tmp_path) == lint(path)


def test_a_file_that_is_no_python_is_a_finding_and_the_others_are_looked_at(write, tmp_path):
    write("def broken(:\n", "a.py", head="")
    (tmp_path / "b.py").write_bytes(b"\xff\xfe\x00")
    write('@effect("read")\n' + SEND, "c.py")

    first, second, third = lint(tmp_path)
    assert (first.rule, first.line, first.file.rpartition("/")[2]) == ("SM001", 1, "a.py")
    assert (second.rule, second.file.rpartition("/")[2]) == ("SM001", "b.py")
    assert third.rule == "SM401"


@pytest.mark.parametrize("name", ["no_such_module", "no/such/path.py", "no.such.module", "not a name"])
def test_what_is_not_there_is_a_usage_error_that_says_how_to_name_it(name):
    with pytest.raises(UsageError, match="name yourapp.tools, or path/to/tools.py") as raised:
        lint(name)
    assert raised.value.target == name


def test_the_cells_of_a_notebook_are_one_story_and_a_finding_names_its_cell(tmp_path):
    cells = [
        {"cell_type": "markdown", "source": ["# Tools"]},
        {"cell_type": "code", "source": ["%pip install settlemark\n", "from settlemark import effect\n", "await go()"]},
        {"cell_type": "code", "source": ["%%bash\n", "echo 'no python'"]},
        {"cell_type": "code", "source": ["\n", '@effect("read")\n', SEND]},
    ]
    path = tmp_path / "story.ipynb"
    path.write_text(json.dumps({"cells": cells}))

    (finding,) = lint(path)
    assert (finding.rule, finding.file, finding.line) == ("SM401", f"{path.as_posix()}:cell 4", 2)


def test_the_python_blocks_of_a_page_are_one_story_and_a_finding_names_its_line(tmp_path):
    path = tmp_path / "README.md"
    path.write_text(
        "# Tools\n```python\nfrom settlemark import effect\n```\nand\n```text\nno python\n```\n"
        f'```python\n@effect("read")\n{SEND}```\n'
    )
    (finding,) = lint(path)
    assert (finding.rule, finding.file, finding.line) == ("SM401", path.as_posix(), 10)


# ---- which findings


def test_a_comment_silences_a_rule_on_its_line_or_on_its_tool(codes):
    bad = (
        '@effect("reversible", scope="mail:/{{subject}}", undo=lambda: None, probe=sent){}\n'
        "def send_mail(to, subject):{}\n    smtp.send(to)"
    )
    everything = [("SM103", "send_mail"), ("SM203", "send_mail")]
    assert codes(bad.format("", "")) == everything
    assert codes(bad.format("  # settlemark: ignore[SM203]", "")) == everything[:1]
    assert codes(bad.format("", "  # settlemark: ignore[SM103, sm203] - it is a fake")) == []
    assert codes(bad.format("", "  # settlemark: ignore")) == []
    assert codes(bad.format("", "  # settlemark: ignore[SM999]")) == everything
    assert codes("# settlemark: ignore-file[SM103]\n" + bad.format("", "")) == everything[1:]
    assert codes(f"text = '# settlemark: ignore-file'\n{bad.format('', '')}") == everything


def test_rules_are_chosen_by_code_by_kind_or_by_name(write):
    path = write(
        '@effect("reversible", scope="mail:/{subject}", undo=lambda: None)\ndef send_mail(to, subject): smtp.send(to)'
    )

    def rules(**chosen):
        return [finding.rule for finding in lint(path, **chosen)]

    assert rules() == ["SM103", "SM104", "SM203"]
    assert rules(select=["SM1"]) == rules(ignore=["SM2"]) == ["SM103", "SM104"]
    assert rules(select=["scope-too-narrow"]) == ["SM203"]
    assert rules(select=["SM1"], ignore=["sm104"]) == ["SM103"]
    with pytest.raises(UsageError, match="there is no rule 'SM9': the rules are SM001, SM101"):
        rules(select=["SM9"])


def test_a_finding_says_where_what_and_how_to_mend_it_and_can_be_printed(found):
    (finding,) = found('@effect("reversible", scope="room:/{hotel}")\ndef book(hotel): hotels.book(hotel)', "SM102")
    assert str(finding).endswith(
        "tools.py:2: SM102 undo-missing (error): book is reversible and has no undo: nothing takes it back when its"
        " step fails\n    write: undo=…, or declare book irreversible: then it is held"
    )
