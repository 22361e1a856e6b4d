"""What threads share is walked, looked up and put in order while others write to it: at any line, nothing is missed."""

from __future__ import annotations

import ast
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from tests.between import Between
from tests.rooms.attempt import WAITS, WaitLog
from tests.rooms.edges import Alive
from tests.rooms.model import Registry
from tests.rooms.payloads import payloads

import settlemark
from settlemark import Settlement, State, effect
from settlemark.agents import AgentRun
from settlemark.hosting import declaration_of, host_of
from settlemark.ledger import Packer, Redaction


class Thing:
    """What can be referred to weakly."""


@effect("reversible", scope="room:/{room}", undo=lambda room: None)
def book(room):
    return room


@effect("read")
def look():
    """Look."""


def test_a_declared_tool_is_found_while_others_are_declared():
    registry, wanted, number = Registry(), declaration_of(book), count()
    registry.add(declaration_of(look))
    registry.add(wanted)
    another = partial(replace, declaration_of(look))
    with Between("_model/declaration.py", lambda: registry.add(another(tool=f"look {next(number)}"))) as meanwhile:
        assert registry.find("book") is wanted
        assert registry.find("none") is None
    assert meanwhile.times > 0


def test_a_tool_that_is_declared_again_is_declared_at_every_moment():
    registry, wanted = Registry(), declaration_of(book)
    registry.add(wanted)
    found = []
    with Between("_model/declaration.py", lambda: found.append(registry.find("book", wanted.version))):
        registry.add(wanted)
    assert found
    assert set(found) == {wanted}


def test_a_secret_is_kept_out_of_texts_while_more_secrets_of_its_effect_are_learned():
    packer = Packer(redaction=Redaction(["password"]))
    packer.learn('{"password":"open sesame"}', effect_key="k", tool="login")
    told = []
    with Between("_payloads/payloads.py", lambda: told.append(packer.scrub("it said open sesame", ["k"]))):
        packer.learn('{"password":"another one"}', effect_key="k", tool="login")
    assert told
    assert set(told) == {"it said [redacted]"}


def test_of_the_secrets_that_are_remembered_the_oldest_go_first(monkeypatch):
    monkeypatch.setattr(payloads, "_REMEMBERED", 2)
    packer = Packer(redaction=Redaction(["password"]))
    for key in "aba":
        packer.learn(f'{{"password":"secret of {key}"}}', effect_key=key, tool="login")
    packer.learn('{"password":"secret of c"}', effect_key="c", tool="login")
    assert packer.scrub("secret of a, secret of b, secret of c", "abc") == "[redacted], secret of b, [redacted]"


def test_calls_that_begin_to_wait_at_once_leave_the_last_waits_on_record():
    steps = 1
    for place in count():
        log = WaitLog()
        for number in range(WAITS):
            log.begins(f"{number}", "room:/1", 0.0)
        passed = count()
        with Between("wait_log.py", lambda: next(passed) == place and log.begins("other", "room:/1", 0.0)) as meanwhile:  # noqa: B023 - called here
            log.begins("last", "room:/1", 0.0)
        assert len(log.told()) == WAITS
        steps = meanwhile.times
        if place > steps:
            break
    assert steps > 1


def test_what_is_alive_is_walked_while_more_is_added_and_dropped():
    alive, things = Alive(), [Thing() for _ in range(3)]
    for thing in things:
        alive.add(thing)

    def another():
        things.append(Thing())
        alive.add(things[-1])
        alive.add(Thing())

    first = things[:]
    with Between("_edges/alive.py", another) as meanwhile:
        found = list(alive)
    assert meanwhile.times > 0
    assert set(first) <= set(found)


@pytest.fixture
def settlement():
    with Settlement("memory:") as opened:
        yield opened


def test_candidates_may_begin_while_one_looks_at_what_became_of_the_others(settlement):
    choice = host_of(settlement).choice("pick", run="trip")

    class Undone:
        @property
        def txn(self):
            choice.candidates[f"{len(choice.candidates)}"] = Undone()
            found = Thing()
            found.state = State.ABORTED
            return found

    choice.candidates["0"] = Undone()
    assert not choice.stands
    assert len(choice.candidates) > 1


def doubt(key):
    found = Thing()
    found.key = key
    return found


def test_doubts_that_works_note_at_once_are_all_kept_and_each_once(settlement):
    run = AgentRun(settlement, "trip")
    run.add_doubts([doubt("a"), doubt("b")])

    def while_forgetting():
        yield doubt("c")
        found = [each.key for each in run.doubts]
        assert found == ["a", "b"], "a walk sees all, or none, of what is added"
        yield doubt("a")

    walk = iter(run.doubts)
    run.add_doubts(while_forgetting())
    run.forget_doubts({"a"})
    assert [each.key for each in run.doubts] == ["b", "c"]
    assert [each.key for each in walk] == ["a", "b"]


HERE = Path(__file__).parents[2]
ROOTS = [HERE / "core", HERE / "integrations", HERE / "adapters"]
WEAK = {"WeakSet", "WeakKeyDictionary", "WeakValueDictionary"}
TAKERS = {"all", "any", "dict", "enumerate", "list", "max", "min", "next", "set", "sorted", "sum", "tuple", "zip"}


def _name(node):
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _table(walked):
    view = isinstance(walked, ast.Call) and _name(walked.func) in {"values", "items", "keys"}
    return walked.func.value if view else walked


def _copied(table):
    return table.func.value if isinstance(table, ast.Call) and isinstance(table.func, ast.Attribute) else table


def _walked(tree):
    """The tables that are walked at each line outside of a `with`: by a loop, or by a function that takes them all."""
    within = {id(each) for block in ast.walk(tree) if isinstance(block, ast.With) for each in ast.walk(block)}
    for node in ast.walk(tree):
        if id(node) in within:
            continue
        if isinstance(node, ast.For | ast.comprehension):
            yield _table(node.iter)
        elif isinstance(node, ast.Call) and _name(node.func) in TAKERS:
            yield from map(_table, node.args)
        elif isinstance(node, ast.Call) and _name(node.func) == "copy" and isinstance(node.func, ast.Attribute):
            yield node  # of a weak table it is a walk, too
        elif isinstance(node, ast.Starred):
            yield _table(node.value)


def test_whatever_is_weak_is_walked_under_a_lock():
    """Python walks it in many steps, and breaks off when another thread adds to it; `Alive` needs no lock."""
    found = []
    for file in {file for root in ROOTS for file in root.rglob("*.py")}:
        text = file.read_text(encoding="utf-8")
        if not any(kind in text for kind in WEAK):
            continue
        tree = ast.parse(text)
        weak = {
            _name(target)
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Call)
            and _name(node.value.func) in WEAK
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        }  # fmt: skip # the names of weak tables
        found += [(file.name, ast.unparse(table)) for table in _walked(tree) if _name(_copied(table)) in weak]
    assert found == []


def test_the_candidates_of_a_choice_are_walked_in_a_copy():
    """Nodes of one superstep begin candidates while another chooses."""
    tree = ast.parse((Path(settlemark.__file__).parent / "_runtime/choice.py").read_text(encoding="utf-8"))
    walked = [ast.unparse(table) for table in _walked(tree)]
    assert "self.candidates.copy()" in walked
    assert "self.candidates" not in walked
