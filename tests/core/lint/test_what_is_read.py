"""What the linter reads in one statement: which resource, addressed by which arguments, changed how, and where."""

from __future__ import annotations

import ast

import pytest
from tests.rooms.lint import Bindings, Template, read
from tests.rooms.model import ScopeTemplate

HEAD = (
    "import os, shutil, requests, json\nfrom pathlib import Path\nfrom urllib.parse import quote\n"
    'table = {}\nlog = {}\ndef helper(one, two): open(two, "w")\n'
)
READ = {
    'open(a, "w")': "write file any of a; hard change; leaves",
    "open(a)": "read file any of a; leaves",
    'open(a, mode="r+")': "write file any of a; hard change; leaves",
    'open(f"notes/{b}/{a}.txt", "a")': "write file notes/{b}/{a}.txt of b, a; hard change; leaves",
    'os.path.join("d", a)': "",
    'open(os.path.join("d", a), "w")': "write file d/{a} of a; hard change; leaves",
    "Path(a).write_text(b)": "write file any of a; hard change; leaves",
    'Path("d", a).unlink()': "write file d/{a} of a; hard change; leaves",
    '(Path("d") / a / b).read_text()': "read file d/{a}/{b} of a, b; leaves",
    'Path("d").joinpath(a).rename(b)': "write file d/{a} of a; write file any of b; hard change; leaves",
    "os.remove(a)": "write file any of a; hard change; leaves",
    "shutil.copy(a, b)": "write file any of a; write file any of b; hard change; leaves",
    "os.listdir(a)": "read file any of a; leaves",
    'requests.get(f"https://shop/orders/{a}")': "read url orders of a; leaves",
    'requests.post("https://shop/orders", json=b)': "create url orders; post change; leaves",
    'requests.delete("https://shop/orders/" + a)': "write url orders of a; hard change; leaves",
    'requests.put("https://shop/orders/%s" % a)': "write url orders of a; hard change; leaves",
    'requests.patch("https://shop/{}/x".format(a))': "write url any of a; hard change; leaves",
    'requests.put(f"https://shop/orders/{b}/{a}")': "write url orders of b, a; hard change; leaves",
    'requests.put(f"{BASE}/orders/{a}?x={b}")': "write url orders of a, b; hard change; leaves",
    "requests.put(a)": "write url any of a; hard change; leaves",
    'db.execute("UPDATE t SET x = ? WHERE y = ?", (a, b))': "write table t of b; hard change; leaves",
    'db.execute("DELETE FROM t WHERE y=:y AND z=:z", {"z": a, "y": b})': "write table t of b, a; hard change; leaves",
    'db.execute("INSERT INTO t VALUES (?)", (a,))': "create table t; hard change; leaves",
    'db.execute("SELECT x FROM t WHERE y = ?", [a])': "read table t of a; leaves",
    'db.execute("SELECT x FROM t WHERE y = ?", a)': "read table t of a; leaves",
    "table[a] = b": "write object table of a; memory change",
    "del table[a]": "write object table of a; memory change",
    "table[a]": "read object table of a",
    "table.pop(a)": "write object table of a; memory change",
    "table.append(a)": "create object table in part; memory change",
    "table.add(a)": "create object table of a in part; memory change",
    "table.get(a)": "read object table of a",
    'table["open"][a] = b': "write object table[open] of a; memory change",
    "[x for x in a][0] = b": "",
    "log[a] = b": "",
    'agency.cancel("rooms", a)': "write object agency/rooms in part; soft change; leaves",
    "agency.cancel(a)": "write object agency.cancel in part; soft change; leaves",
    "agency.find(a)": "read object agency.find in part; leaves",
    "agency.rooms.cancel(a)": "write object agency.rooms.cancel in part; soft change; leaves",
    "agency.rooms.state = a": "memory change",
    "client.session().cancel(a)": "read object client.session in part; soft change; leaves",
    'for x in a: open(x, "w")': "write file ? of a; hard change; leaves",
    'x, y = a, b\n    open(y, "w")': "write file any of b; hard change; leaves",
    'x = [a, b]\n    open(x, "w")': "write file ? of a, b; hard change; leaves",
    'x = a.strip().lower()\n    open(x, "w")': "write file any of a; hard change; leaves",
    'x = "/".join([a, b])\n    open(x, "w")': "write file ? of a, b; hard change; leaves",
    'x = a or "none"\n    open(x, "w")': "write file ? of a; hard change; leaves",
    "x = [y for y in a]\n    x.append(b)": "",
    'x = "{}-{}".format(a, b)\n    open(x, "w")': "write file {}-{}{a}{b} of a, b; hard change; leaves",
    'x = "a,b".replace("a", a)\n    open(x, "w")': "write file ? of a; hard change; leaves",
    '"a,b".cancel(a)': "",
    'table["open"].append(a)': "create object table[open] in part; memory change",
    'agency["rooms"].cancel(a)': "write object agency[rooms].cancel in part; soft change; leaves",
    "helper(b, a)": "write file any of a; hard change; leaves",
    "helper(two=a, one=b)": "write file any of a; hard change; leaves",
    "print(a)": "",
    "json.dumps(a)": "",
    'open(str(a), "w")': "write file any of a; hard change; leaves",
    'open(quote(a), "w")': "write file any of a; hard change; leaves",
    'open("fixed", "w")': "write file fixed; hard change; leaves",
    'open(a.path, "w")': "write file ? of a; hard change; leaves",
    "with open(a) as x: x.write(b)": "read file any of a; leaves",
}
"""Of each body of `tool(a, b)`: the way, the medium, the resource and the arguments that say which one; how it is
changed; whether it leaves the process."""


@pytest.mark.parametrize("body", READ)
def test_a_statement_is_read_as_what_it_does_to_which_resource(body):
    tree = ast.parse(f"{HEAD}def tool(a, b):\n    {body}\n")
    facts = read(tree.body[-1], Bindings(tree))
    told = [
        f"{each.way} {each.medium} {'/'.join(each.resource[1:]) or '?'}"
        + (f" of {', '.join(each.arguments)}" if each.arguments else "")
        + ("" if each.whole else " in part")
        for each in facts.addresses
    ]
    told += [f"{each.how} change" for each in facts.written]
    assert "; ".join([*told, *(["leaves"] if facts.outside is not None else [])]) == READ[body]


def test_what_the_methods_of_its_class_do_is_read_as_if_it_stood_in_the_tool():
    tree = ast.parse(
        f"{HEAD}class Rooms:\n"
        "    def tool(self, a, b): self.agency.cancel(a); self._free(b); self._note(a, db=b); note(b)\n"
        "    def _free(self, one): self.agency.rooms.cancel(one)\n"
        '    def _note(self, one, db): open(one, "w"); self.bank.cancel(db)\n'
        'def note(one): open(one, "w")\n'
    )
    facts = read(tree.body[-2].body[0], Bindings(tree), injected=["self"])
    told = [" ".join([*each.resource[1:], *each.arguments]) for each in facts.addresses]
    assert told == ["self.agency.cancel", "self.agency.rooms.cancel", "any a", "self.bank.cancel", "any b"]


TEMPLATES = [
    "room:/a", "room:/b", "room:/a/b", "room:/{x}", "room:/{x}/b", "room:/a{x}", "room:/{x}.a", "room:/*/b", "room:/**",
    "room:/{x:path}", "room:/a/{x:path}", "room:/a.b", "rooms:/a", "ROOM:/a", "room:/./a", r"room:\a", "room:/{x}/{y}",
]  # fmt: skip # a list of names and values
VALUES = ["a", "b", "ab", ".b", "b.a", "a.b", "a/b"]


@pytest.mark.parametrize("one", TEMPLATES)
def test_two_templates_may_overlap_exactly_when_some_arguments_make_their_scopes_overlap(one):
    def scopes(text):
        template = ScopeTemplate.parse(text)
        given = [{"x": x, "y": y} for x in VALUES for y in VALUES] if "{" in text else [{}]
        return {template.fill(each) for each in given}

    overlap = {other: any(a.overlaps(b) for a in scopes(one) for b in scopes(other)) for other in TEMPLATES}
    mine = Template.parse(one)
    assert {other: mine.may_overlap(Template.parse(other)) for other in TEMPLATES} == overlap
