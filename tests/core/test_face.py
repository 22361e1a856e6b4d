"""The public face: one rule for sync and async, parts of a declaration alike everywhere, small values for settings."""

from __future__ import annotations

import ast
import asyncio
import inspect
import pydoc
import textwrap
from contextlib import closing
from pathlib import Path

import pytest

import settlemark
from settlemark import (
    AsyncTransaction,
    ClaimCheck,
    DeclarationError,
    Entity,
    Hold,
    Injected,
    Lease,
    Payloads,
    PlannedCall,
    PromiseCheck,
    Settlement,
    SteeredRun,
    Transaction,
    UsageError,
    effect,
)
from settlemark.hosting import host_of
from settlemark.ledger import open_ledger

WITH_A_FUNCTION = {"Settlement.run", "Settlement.speculate", "Settlement.steered"}
"""Awaited when the function that they are given is async."""
ENTERED = {"Settlement.transaction", "Settlement.hold", "Hold.transaction", "SteeredRun.step"}
"""Entered by `with`, or by `async with`."""
OF_THE_LEDGER = {
    "Settlement.advance", "Settlement.approvals", "Settlement.audit", "Settlement.budgets",
    "Settlement.declare", "Settlement.declared", "Settlement.frontier", "Settlement.obligations", "Settlement.on_due",
    "Settlement.halts", "Settlement.stuck",
    "Settlement.steering",
    "Settlement.paused",
    "Settlement.entity", "Settlement.in_doubt", "Settlement.leases", "Settlement.parked", "Settlement.prune",
    "Settlement.enforce", "Settlement.reinstate", "Settlement.residue",
    "Settlement.revoke", "Settlement.show", "Settlement.transactions", "Settlement.waiting",
    "Settlement.verdicts", "Settlement.why",
}  # fmt: skip # a table
"""They read or write the ledger, and wait for no other transaction and no handler."""


OF_NO_LEDGER = {
    "ClaimCheck.guard", "ClaimCheck.outcomes", "PromiseCheck.commitments", "PromiseCheck.guard", "PromiseCheck.refunds",
    "SteeredRun.keep",
}  # fmt: skip # a list of names
"""They compute what they return, or keep a value in this process."""
FACE = (Settlement, Hold, PlannedCall, Lease, Entity, ClaimCheck, PromiseCheck, SteeredRun)
"""What a program holds, but for a transaction: that one is `AsyncTransaction` where it is entered by `async with`."""


def methods():
    """Yield every public method of what a program holds, with its name."""
    for kind in FACE:
        for name, found in inspect.getmembers(kind, inspect.isfunction):
            if not name.startswith("_"):
                yield f"{kind.__name__}.{name}", found


def twin(called):
    kind, name = called.split(".")
    return f"{kind}.a{name}"


def test_each_method_is_awaited_by_one_rule():
    """Given a function, entered, or with a second form that begins with `a`; else of the ledger alone, or of none."""
    known = dict(methods())
    second = {twin(called) for called in known} & known.keys()
    paired = {called for called in known if twin(called) in second}
    assert known.keys() - second - paired == WITH_A_FUNCTION | ENTERED | OF_THE_LEDGER | OF_NO_LEDGER
    assert all(is_async(known[called]) for called in second)
    assert not any(is_async(known[called]) for called in known.keys() - second)


def is_async(function):
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def test_the_rule_is_held_to_everything_public_that_is_awaited():
    awaited = {
        name
        for name, kind in vars(settlemark).items()
        if name in settlemark.__all__ and inspect.isclass(kind)
        if any(is_async(method) for called, method in vars(kind).items() if not called.startswith("_"))
    }
    functions = {name for name in settlemark.__all__ if is_async(getattr(settlemark, name))}
    assert awaited - {kind.__name__ for kind in FACE} == {"AsyncTransaction"}
    assert functions == {"aowe"}
    assert inspect.signature(settlemark.aowe).parameters == inspect.signature(settlemark.owe).parameters


@pytest.mark.parametrize("called", [called for called, _ in methods() if twin(called) in dict(methods())])
def test_a_method_and_its_second_form_take_the_same(called):
    first, second = (inspect.signature(dict(methods())[name]) for name in (called, twin(called)))
    assert first.parameters == second.parameters
    assert first.return_annotation == second.return_annotation.replace("AsyncIterator[", "Iterator[")


@pytest.mark.parametrize("called", sorted(OF_THE_LEDGER))
def test_what_has_one_form_runs_no_program_that_waits(called):
    """Such a method runs nothing but what the ledger is asked or told."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(dict(methods())[called])))
    run = [
        ast.unparse(node.args[0])
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "run_sync"
    ]
    assert all("registering(" in program or "driver.advance(" in program or program == "rebind" for program in run)


def test_the_two_faces_of_a_transaction_have_the_same_methods():
    public = [{name for name in dir(kind) if not name.startswith("_")} for kind in (Transaction, AsyncTransaction)]
    assert public[0] == public[1]


async def test_a_settlement_is_closed_in_an_event_loop_while_what_it_began_goes_on_in_that(tmp_path):
    """An async undo of its last transaction runs in the loop, which no close holds up."""
    undone = []

    async def cancel(room):
        await asyncio.sleep(0)
        undone.append(room)

    @effect("reversible", scope="room:/{room}", undo=cancel)
    async def book(room):
        return room

    async with Settlement(f"sqlite:///{tmp_path / 'ledger.db'}") as settlement:
        with pytest.raises(LookupError):
            async with settlement.transaction("trip") as tx:
                await tx.call(book, room="a")
                raise LookupError
        assert (await settlement.arecover(keep_open=0)).undone == []
    assert undone == ["a"]
    with closing(open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}", readonly=True)) as ledger:
        assert [recorded.state.value for recorded in ledger.read(lambda book: book.transactions())] == ["aborted"]


# ---- settings


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"payloads": {"redact": ["a"]}}, "give a settlemark.Payloads"),
        ({"injected": 1.0}, "give a settlemark.Injected"),
        ({"max_age": 0}, "max_age=0"),
        ({"lease": 0.1}, "give 0.5 seconds or more"),
        ({"quarantine": -1}, "quarantine=-1"),
        ({"keep_open": None}, "keep_open=None"),
    ],
)
def test_a_setting_that_is_none_is_refused_and_no_ledger_is_made(tmp_path, given, told):
    with pytest.raises(UsageError, match=told):
        Settlement(f"sqlite:///{tmp_path / 'ledger.db'}", **given)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("given", "told"), [({"retention": -1}, "give days"), ({"retain": -1}, "0 or more")])
def test_what_is_to_become_of_payloads_is_refused_where_it_is_written(given, told):
    with pytest.raises(UsageError, match=told):
        Payloads(**given)


def test_time_and_names_come_from_where_they_are_injected():
    settlement = Settlement("memory:", injected=Injected(clock=lambda: 7.0, ids=lambda: "first"))
    with settlement.transaction(run="trip") as tx:
        assert tx.name == "first"
        tx.call(print, "booked")
    assert [recorded.row.at for recorded in settlement.transactions()] == [7.0]


def test_what_a_host_works_with_outlives_its_settlement():
    """A shim may hold the host alone."""
    host = host_of(Settlement("memory:"))
    assert host.patience == 30.0
    assert host.protocol.live == {}


# ---- declarations


def test_the_parts_of_a_declaration_are_the_same_wherever_it_is_made_and_shown_by_help():
    settlement = Settlement("memory:")
    parts = [
        {name: str(each) for name, each in inspect.signature(function).parameters.items()}
        for function in (effect, settlement.declare)
    ]
    for own in ("kind", "name"):
        parts[0].pop(own)
    for own in ("kind", "tool"):
        parts[1].pop(own)
    assert parts[0] == parts[1]
    assert len(parts[0]) == 23
    assert "approve: 'bool | Callable[..., Any] | Approval' = False" in pydoc.render_doc(
        effect, renderer=pydoc.plaintext
    )


def test_a_part_that_is_misspelled_is_refused_with_what_was_meant_and_nothing_is_declared():
    settlement = Settlement("memory:")
    with pytest.raises(DeclarationError, match="did you mean scope=") as refused:
        settlement.declare("send_mail", "irreversible", scop="mail:/{to}")
    assert refused.value.tool == "send_mail"
    with pytest.raises(DeclarationError, match="its parts are scope, undo,"):
        effect("read", zzz=1)(print)
    assert settlement.declared("send_mail") is None


def test_the_example_for_type_checkers_uses_the_whole_face():
    """`tests/typing/api.py` is read by mypy and pyright: what stands there keeps its type."""
    tree = ast.parse((Path(__file__).parents[1] / "typing" / "api.py").read_text())
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    face = {name for called, _ in methods() for name in [called.split(".")[1]]}
    face |= {name for name in dir(Transaction) if not name.startswith("_")}
    taken = {node.arg for node in ast.walk(tree) if isinstance(node, ast.keyword)}
    assert face - used == set()
    assert set(inspect.signature(Settlement).parameters) - {"url"} - taken == set()
    assert set(inspect.signature(effect).parameters) - {"kind"} - taken == set()
