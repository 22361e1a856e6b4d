"""The programs that are explored exhaustively, up to what is the same by symmetry."""

from __future__ import annotations

import itertools

from tests.core.explorer.explorer import explore

ON_TWO_SCOPES_AND_A_PARENT = ("rx", "ex", "sx", "rp", "ep", "sp", "ry", "ey", "sy")
ON_ONE_SCOPE = ("rx", "ex", "sx", "ox", "ix", "jx", "ux")

Program = tuple[str, ...]

RULES = {
    "a live read": [
        (("lx sy",), {"outside": "x"}),
        (("lx ey",), {"outside": "x x"}),
        (("lp",), {"outside": "y"}),
        (("lx sy", "ey"), {"outside": "x"}),
    ],
    "a read that expires": [
        (("vx sy",), {"outside": "t"}),
        (("vx ey", "sx"), {"outside": "t"}),
    ],
    "parked whole": [
        (("ex iy k", "ex"), {}),
        (("ex iy K", "rx sy"), {}),
        (("rx sy k", "sx"), {}),
        (("rx iy K", "ex f"), {}),
        (("ex", "sx iy k", "ex"), {}),
        (("lx iz k",), {"outside": "x"}),
        (("vx iz k",), {"outside": "t"}),
    ],
    "split at its gates": [
        (("ex iy g", "rx sy"), {}),
        (("ex iy G", "rx sy"), {}),
        (("rx ey iz g", "sx"), {}),
        (("sx iy sz g", "rz sx"), {}),
        (("ex iy iz g", "ry sz"), {}),
        (("rx sx iy g", "ex"), {}),
        (("jx iy g", "rx"), {}),
        (("lx ey iz g",), {"outside": "x"}),
        (("vx iz g",), {"outside": "t"}),
    ],
    "somebody is asked": [
        (("bx sy", "rx ex"), {"on_failure": "ask", "verdict": "retry"}),
        (("ey", "sx by"), {"on_failure": "ask", "verdict": "retry"}),
        (("bx sy", "rx ey"), {"on_failure": "ask", "verdict": "skip"}),
        (("sy jx", "ry"), {"on_failure": "ask", "verdict": "skip"}),
        (("ey bx", "ry ex"), {"on_failure": "ask", "verdict": "abort"}),
    ],
    "what cannot be undone leaves last": [
        (("iy sx tz", "rx sy"), {}),
        (("iy ix tx", "ey"), {}),
        (("tx iy", "rx"), {}),
        (("iy sx jz",), {"on_failure": "ask", "verdict": "skip"}),
        (("iy",), {"turns": {0: "ex"}}),
        (("iy bx", "ex"), {"turns": {0: "ez"}}),
        (("iy", "rx"), {"turns": {0: "tx"}}),
        (("sx ep bz",), {"turns": {0: "iy"}}),
        (("ix",), {"turns": {0: "ex ez"}}),
    ],
    "an advance": [
        (("ex", "sx"), {"advanced": "x"}),
        (("sx", "ex sy"), {"advanced": "x"}),
        (("rx sx", "sx"), {"advanced": "p"}),
        (("ry iz g", "sx"), {"advanced": "z"}),
    ],
    "a hold": [
        (("sx", "sx"), {"holds": {"x": (0,)}}),
        (("rx sx", "ex"), {"holds": {"p": (0,)}}),
        (("sx", "ex"), {"holds": {"x": (0, 1)}}),
        (("ex", "rx", "sx"), {"holds": {"x": (1,)}}),
    ],
    "independent, inside a call": [
        (("nx f",), {"inside": {0: "ey"}}),
        (("nx", "rx sy"), {"inside": {0: "sy"}}),
        (("nx", "ey"), {"inside": {0: "ex"}}),
        (("nz", "ex ez"), {"inside": {0: "ex"}}),
        (("nx", "ey nz"), {"inside": {0: "sy", 1: "sx"}}),
    ],
    "effects that commute": [
        (("ax", "ax f"), {}),
        (("ax ry", "ay rx"), {}),
        (("ax rx", "ax"), {}),
        (("cx", "ax rx sx"), {}),
        (("ax sx", "cx"), {}),
        (("ax", "mx f"), {}),
        (("ap", "ax"), {}),
        (("rx ax", "ax"), {}),
        (("ax", "ax", "rx"), {}),
        (("ax | ax", "ax"), {}),
        (("ax",), {"siblings": {0: "ay"}}),
        (("ax", "ax"), {"aborted": [0]}),
    ],
    "come back to with another plan": [
        (("ex ey / ",), {}),
        (("ex iz / ex",), {}),
        (("ux sy / ey",), {}),
        (("ex ey sz / ex / ex ey",), {}),
        (("ex sy / ex", "ey"), {}),
        (("sx iz / sx", "ex"), {}),
        (("ex ey / ex",), {"aborted": [0]}),
        (("ex ey / ex",), {"cancelled": [0]}),
        (("ex ey / ex",), {"durable": True}),
    ],
    "a choice": [
        (("ex | ex",), {}),
        (("ex | ey", "rx sy"), {"chosen": 1}),
        (("sx | sx", "rx sx"), {}),
        (("ex f | ex sy", "ry"), {}),
        (("ex sy | sx", "ry ex"), {"chosen": 1}),
        (("ox | sx", "rx"), {"chosen": 1}),
    ],
}
LONGER = [
    (("ax rx", "ax", "ax f"), {}),
    (("ax ey", "ay ex"), {}),
    (("ax sy", "ax ry", "ay"), {}),
    (("cx", "cx", "ax rx"), {}),
    (("ax f", "ax", "sx"), {}),
    (("ax ex", "ax ex"), {"durable": True}),
    (("rx ey / ey", "sx"), {}),
    (("ex ey / ex", "rx sy"), {}),
    (("ex ey / ex", "ey ex"), {}),
    (("ex ey / ex", "rx sy / sy"), {}),
    (("ex sy / ex", "ey"), {"durable": True}),
    (("ex ey / ex",), {"durable": True, "aborted": [0]}),
    (("lx sy", "rx ey"), {"outside": "x"}),
    (("lx sy", "ry ex"), {"outside": "x"}),
    (("lx sy", "rx ey"), {"outside": "x x"}),
    (("vx sy", "lx ey"), {"outside": "x t"}),
    (("ex iy k", "rx ey", "sx"), {}),
    (("ex iy g", "rx ey", "sx"), {}),
    (("rx sy iz g", "sy", "ex"), {}),
    (("bx sy", "ex by"), {"on_failure": "ask", "verdict": "skip"}),
    (("bx ey", "ey bx", "rx"), {"on_failure": "ask", "verdict": "retry"}),
    (("ex ry", "rx sx", "sy"), {"advanced": "x"}),
    (("sx", "ex sy", "ry sx"), {"holds": {"x": (1, 2)}}),
    (("sx", "rx sx", "sx"), {"holds": {"x": (1,)}}),
    (("sx", "sx", "rx sx"), {"holds": {"x": (0, 1)}}),
    (("sx", "ex", "sx"), {"holds": {"x": (0, 1)}}),
    (("nz", "ey ez", "ex ey"), {"inside": {0: "ex"}}),
    (("nx ey", "ry sx"), {"inside": {0: "sz"}, "durable": True}),
    (("ex | ey", "ey | ex"), {}),
    (("sx | sx", "ry sx"), {"durable": True}),
    (("ex | ey", "rx sy", "ex"), {"chosen": 1}),
]


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
