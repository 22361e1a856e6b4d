"""The tools of the agents that are killed: each effect class, and each way in which its outcome can be known.

All of them act at the workers' desk, which logs what it is asked and knows nothing of settlements.
"""

from __future__ import annotations

import asyncio

from settlemark import effect
from settlemark.hosting import declared_as

CELL = "cell:/{cell:path}"


def tools(desk):  # noqa: C901 - a list of tools, not a way through them
    """Return the tools by name; each takes a cell and nothing else."""

    def write(cell, *, keyed=False):
        return desk.ask("write", cell, 1, keyed=keyed)

    def undo(cell):
        return desk.ask("undo", cell, -1, keyed=True)

    def wrote(key):
        return desk.knows("write", key)

    @effect("read", scope=CELL)
    def look(cell):
        return desk.ask("read", cell)

    @effect("idempotent", scope=CELL, probe=wrote)
    def charge(cell):
        return write(cell, keyed=True)

    @effect("idempotent", scope=CELL, probe=wrote, undo=undo)
    def charge_refundable(cell):
        return write(cell, keyed=True)

    @effect("reversible", scope=CELL, undo=undo, probe=wrote)
    def add(cell):
        return write(cell)

    @effect("reversible", scope=CELL, undo=undo, probe=wrote)
    async def add_async(cell):
        await asyncio.sleep(0)
        return write(cell)

    @effect("reversible", scope=CELL, undo=undo, keyed=True)
    def add_keyed(cell):
        return write(cell, keyed=True)

    @effect("reversible", scope=CELL, undo=undo)
    def add_blind(cell):
        return write(cell)

    @effect("reversible", scope=CELL, undo=undo, cost="a fee")
    def add_at_a_cost(cell):
        return write(cell)

    @effect("reversible", may_touch=f"{CELL}/**", refine=lambda result: "cell:/shelf/3", undo=undo, probe=wrote)
    def add_somewhere(cell):
        """Tell afterwards which place below the cell was taken."""
        return desk.ask("write", f"{cell}/3", 1)

    @effect("staged", scope=CELL, keyed=True)
    def put(cell):
        return write(cell, keyed=True)

    @effect("staged", scope=CELL, probe=wrote)
    def put_probed(cell):
        return write(cell)

    @effect("staged", scope=CELL)
    def put_blind(cell):
        return write(cell)

    @effect("irreversible", scope="letter:/{cell}", keyed=True)
    def register(cell):
        return desk.ask("letter", cell, keyed=True)

    @effect("irreversible", scope="letter:/{cell}", probe=lambda key: desk.knows("letter", key))
    def wire(cell):
        return desk.ask("letter", cell)

    @effect("irreversible", scope="letter:/{cell}")
    def send(cell):
        return desk.ask("plain letter", cell)

    @effect(
        "irreversible", scope="letter:/{cell}", release=lambda cell: desk.ask("letter", cell, keyed=True), keyed=True
    )
    def seal(cell):
        """Leave by a handler of its own."""
        raise AssertionError("not reached: its release runs in its place")

    @effect("opaque", scope=CELL)
    def hire(cell):
        return write(cell)

    made = (
        look, charge, charge_refundable, add, add_async, add_keyed, add_blind, add_at_a_cost, add_somewhere, put,
        put_probed, put_blind, register, wire, send, seal, hire,
    )  # fmt: skip # a table of values
    return {f.__name__: f for f in made}


def may_be_in_doubt(tool, *, aborted):
    """Whether nobody can find out if it happened: no probe, and no key, or an abort, which issues nothing again."""
    declared = declared_as(tool)
    return declared.probe is None and (aborted or not declared.keyed)


def leaves_a_trace(tool):
    """Whether what an abort leaves of it must be named."""
    declared = declared_as(tool)
    return declared.undo is None or declared.cost is not None
