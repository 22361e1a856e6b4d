"""The programs that are explored exhaustively, up to what is the same by symmetry."""

from __future__ import annotations

import itertools

from settlemark.testing._explorer import explore

ON_TWO_SCOPES_AND_A_PARENT = ("rx", "ex", "sx", "rp", "ep", "sp", "ry", "ey", "sy")
ON_ONE_SCOPE = ("rx", "ex", "sx", "ox", "ix", "jx", "ux")

Program = tuple[str, ...]


def up_to_two_steps(operations: tuple[str, ...]) -> list[Program]:
    """Every program of one or two steps, those of two also with a failure at the end of what they did."""
    found: list[Program] = []
    for length in (1, 2):
        for program in itertools.product(operations, repeat=length):
            found.append(program)
            if length == 2 and any(op[0] != "r" for op in program):
                found.append((*program, "f"))
    return found


def _mirrored(program: Program) -> Program:
    return tuple(op.translate(str.maketrans("xy", "yx")) for op in program)


def pairs() -> list[tuple[Program, Program]]:
    """Every ordered pair, one of each two that differ only by which scope is called x."""
    programs = up_to_two_steps(ON_TWO_SCOPES_AND_A_PARENT)
    return [
        (first, second)
        for first in programs
        for second in programs
        if (first, second) <= (_mirrored(first), _mirrored(second))
    ]


def triples() -> list[tuple[Program, Program, Program]]:
    """Every triple of single operations on one scope, each alone and with a failure after it."""
    programs: list[Program] = [(op,) for op in ON_ONE_SCOPE]
    programs += [("ex", "f"), ("ox", "f")]
    return list(itertools.product(programs, repeat=3))


def explore_all(cases, record_property, **options):
    """Return the cases that went wrong, and report how much was visited."""
    states = finals = 0
    wrong = []
    for programs in cases:
        found = explore(*programs, **options)
        states, finals = states + found.states, finals + found.finals
        if found.violations or not found.finals:
            wrong.append((programs, found.violations))
    record_property("explored_programs", len(cases))
    record_property("explored_states", states)
    record_property("explored_ends", finals)
    return wrong
