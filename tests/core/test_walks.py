"""What a transaction did is walked while other threads go on with it: agents that are run as tools, reads, siblings."""

from __future__ import annotations

import ast
import itertools
from pathlib import Path

import pytest
from tests.between import Between

import settlemark
from settlemark import Effect, Outcome, Retries, Scope, effect
from settlemark.hosting import Attempt, declaration_of
from settlemark.ledger import MemoryLedger


@effect("reversible", scope="room:/{room}", undo=lambda room: None)
def book(room):
    return room


@effect("staged", scope="note:/{to}")
def note(to):
    return to


def made(tool, *path, **arguments):
    declaration = declaration_of(tool)
    found = Effect(declaration, tuple(declaration.scopes(arguments)), arguments, lambda: None)
    found.path, found.key, found.outcome = path, "/".join(map(str, path)), Outcome.CONFIRMED
    return found


@pytest.fixture
def attempt():
    attempt = Attempt(
        None, "trip", "trip", 1, prefix="x", payloads=MemoryLedger().payloads, wait=0.0,
        hooks=(), on_failure="abort", retries=Retries(tries=1),
    )  # fmt: skip # the settings of an attempt
    for number in range(3):
        attempt.add(made(book, number, room=f"{number}"))
    held = made(note, 3, to="x")
    held.held = True
    attempt.add(held)
    attempt.expect()
    return attempt


def meanwhile(attempt):
    """Have another thread record an effect between any two steps of this one."""
    numbers = itertools.count(10)

    def record():
        effect = made(note, number := next(numbers), to=f"{number}")
        effect.held = True
        attempt.add(effect)
        attempt.expected.paths.add(effect.path)

    return Between(("_attempt/attempt.py", "_attempt/expected.py", "_attempt/effect_records.py"), record)


WALKS = {
    "its effects in order": lambda attempt: attempt.in_order(),
    "its effects as they acted": lambda attempt: attempt.as_acted(),
    "what a call made": lambda attempt: attempt.made_by(attempt.effects[0,]),
    "whether more is known than is on record": lambda attempt: attempt.knows_more,
    "what overlaps a held effect": lambda attempt: attempt.behind_held(attempt.effects[2,]),
    "what is staged on a scope": lambda attempt: attempt.staged(Scope.parse("note:/**")),
    "what is expected again": lambda attempt: attempt.expect(),
    "what was not asked for again": lambda attempt: attempt.expected.orphans(()),
    "what a read has seen": lambda attempt: attempt.expected.sees([Scope.parse("room:/**")]),
    "what is on record with a secret": lambda attempt: attempt.records.cause({"cause": "x"}),
    "an attempt that goes on": lambda attempt: attempt.restart(attempt),
}


@pytest.mark.parametrize("walk", WALKS.values(), ids=WALKS)
def test_a_walk_is_not_disturbed_by_an_effect_that_is_recorded_meanwhile(attempt, walk):
    before = len(attempt.effects)
    with meanwhile(attempt):
        walk(attempt)
    assert len(attempt.effects) > before, "nothing came in between: the test shows nothing"


SHARED = {"effects", "held_scopes", "live_reads"}
OTHERS = {"candidates"}  # of a choice
TAKERS = {"all", "any", "dict", "enumerate", "list", "max", "min", "next", "set", "sorted", "sum", "tuple", "zip"}
CORE = Path(settlemark.__file__).parent


def _walked(tree):
    """The expressions that are walked, or whose entries are: by a loop, or by a function that takes them all."""
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.comprehension):
            yield node.iter
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in TAKERS:
            yield from node.args
        elif isinstance(node, ast.Assign | ast.Return | ast.Starred):
            yield node.value


def test_whatever_walks_a_table_that_calls_write_walks_a_copy():
    """The tables are those of an attempt: the effects of a recorded transaction are a list, which nobody changes."""
    found = []
    for file in CORE.rglob("*.py"):
        for walked in _walked(ast.parse(file.read_text())):
            view = isinstance(walked, ast.Call) and getattr(walked.func, "attr", "") in {"values", "items", "keys"}
            table = walked.func.value if view else walked
            if isinstance(table, ast.Attribute) and table.attr.lstrip("_") in SHARED | OTHERS:
                owner = ast.unparse(table.value)
                is_attempts = owner.endswith("attempt") or (owner == "self" and file.parent.name == "_attempt")
                if is_attempts or table.attr in OTHERS:
                    found.append((file.name, ast.unparse(walked)))
    assert found == []


def test_every_table_of_an_attempt_that_is_written_by_calls_is_among_them(attempt):
    tables = {name for name in Attempt.__slots__ if isinstance(getattr(attempt, name, None), dict)}
    assert tables - SHARED == {"recorded", "stays", "owes"}, "replaced whole, or looked up and never walked"
