"""The mutants of a toy: told apart, counted, kept over a stop, and never run where nothing could be shown."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.mutants.__main__ import EQUIVALENTS, ROOT, STATE, app, opened
from tests.mutants._mutating import changed_lines, mutants_of
from tests.mutants._operators import OWN
from tests.mutants._rooms import ROOMS, Room
from tests.mutants._running import Checkout, NothingShown
from typer.testing import CliRunner

TOY = '''"""A toy."""


def clamp(number: int, most: int | None = None) -> int:
    if most is not None and number > most:
        return most
    return number


def unread(flag: bool) -> bool:
    return not flag
'''
REST = """

def rest() -> int:
    return signal.pause() if False else 0
"""
# What is asked writes down that it was.
CHECK = """
import os, pathlib
from toy.limits import clamp
with open(os.environ["LOG"], "a") as log:
    log.write("asked\\n")
assert (clamp(3, 2), clamp(1, 2), clamp(3)) == (2, 1, 3)
"""
LISTED = """
[[equivalent]]
file = "core/toy/limits.py"
was = "if most is not None and number > most:"
became = "if most is not None and number >= most:"
why = "the most is the most, whichever of two equal ones is returned"
"""
ROOM = Room("toy", ("core/toy/*.py",), ("check.py",), 80, (sys.executable,))


class Toy:
    def __init__(self, folder):
        self.root, self.log, self.state = folder / "toy", folder / "log", folder / "state"
        (self.root / "core" / "toy").mkdir(parents=True)
        self.write("core/toy/limits.py", TOY)
        self.write("check.py", CHECK)
        self.write("equivalent.toml", LISTED)
        subprocess.run(["git", "init", "-q"], cwd=self.root, check=True)

    def write(self, name, text):
        (self.root / name).write_text(text)

    def open(self, **options):
        environment = {"LOG": str(self.log)}
        equivalents = self.root / "equivalent.toml"
        return Checkout(self.root, equivalents, self.state, environment=environment, **{"least": 3.0} | options)

    def play(self, **options):
        with self.open() as checkout:
            return checkout.play(ROOM, checkout.chosen(ROOM), **options)

    def asked(self):
        """How often the tests were run since it was asked last."""
        count = self.log.read_text().count("asked") if self.log.exists() else 0
        self.log.unlink(missing_ok=True)
        return count


@pytest.fixture
def toy(tmp_path):
    return Toy(tmp_path)


def changes(toy):
    source = (toy.root / "core/toy/limits.py").read_text()
    changed = [each.code(source) for each in mutants_of(toy.root, "core/toy/limits.py")]
    return [changed_lines(source, each) for each in changed if each is not None]


def test_a_room_is_told_by_what_was_noticed_hung_survived_and_is_the_same(toy):
    toy.write("core/toy/limits.py", f"import signal\n{TOY}{REST}")
    toy.write("check.py", f"{CHECK}from toy.limits import rest\nassert rest() == 0\n")
    score = toy.play()
    told = score.as_json()
    assert {name: told[name] for name in ("timed_out", "survived", "left")} == {
        "timed_out": 2,
        "survived": 2,
        "left": 0,
    }
    assert [each["why"] for each in told["equivalent"]] == [
        "the most is the most, whichever of two equal ones is returned"
    ]
    assert told["run"] == told["killed"] + 4 == told["mutants"] - 1
    assert told["percent"] == 100 * (told["run"] - 2) / told["run"]
    assert all("unread" in survivor or "flag" in survivor for survivor in score.survivors)


def test_one_that_was_stopped_goes_on_where_it_was(toy):
    def stop(score):
        if len(score.endings) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        toy.play(told=stop)
    toy.asked()
    began = []
    score = toy.play(told=lambda score: began.append(len(score.endings)))
    assert (began[0], score.left) == (3, 0)
    assert toy.asked() <= 1 + len(score.endings) - 3
    assert (toy.play().as_json(), toy.asked()) == (score.as_json(), 0)


def test_what_survived_is_run_again_with_other_tests_and_what_changed_is_run_anew(toy):
    toy.play()
    toy.write("check.py", CHECK + "from toy.limits import unread\nassert unread(False) is True\n")
    toy.asked()
    assert (toy.play().count("survived"), toy.asked()) == (2, 0)
    assert (toy.play(again=True).count("survived"), toy.asked()) == (0, 3)  # once without a mutant
    toy.write("core/toy/limits.py", TOY + "\n")
    assert (toy.play().count("survived"), toy.asked() > 3) == (0, True)


def test_a_sample_is_the_same_for_the_same_seed_and_of_the_files_that_are_named(toy):
    toy.write("core/toy/more.py", "MORE = 1 + 2\n")
    with toy.open() as checkout:
        first, again, other = (checkout.chosen(ROOM, None, 5, seed) for seed in (1, 1, 2))
        assert (len(first), first == again, first == other) == (5, True, False)
        assert {each.file for each in checkout.chosen(ROOM, ["core/toy/more.py"])} == {"core/toy/more.py"}


def test_where_the_tests_fail_anyway_nothing_is_shown(toy):
    toy.write("check.py", "raise SystemExit('it is broken')")
    with pytest.raises(NothingShown, match="the tests of toy fail without a mutant(.|\\n)*it is broken"):
        toy.play()


@pytest.mark.parametrize("was", ["if most is None and number > most:", "return number"])
def test_a_listed_mutant_that_is_none_any_more_is_an_error(toy, was):
    toy.write("equivalent.toml", LISTED.replace("if most is not None and number > most:", was))
    with pytest.raises(NothingShown, match="which is no mutant any more: take it off the list"):
        toy.play()
    with pytest.raises(NothingShown, match="which no room has"):
        toy.open().check_listed([])


def test_what_the_tests_leave_running_is_not_waited_for(toy):
    toy.write("check.py", "import subprocess\nsubprocess.Popen(['sleep', '60'])\n" + CHECK)
    assert toy.play().count("timed out") == 0


@pytest.mark.parametrize("asked", [[], ["--room", "kitchen"], ["--all", "--room", "mail"]])
def test_a_command_that_does_not_say_which_is_refused_before_anything(asked):
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 2
    assert "choose from" in result.output or "say which" in result.output


def test_no_mutant_is_made_of_what_no_program_runs(toy):
    toy.write(
        "core/toy/limits.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    x = 1 + 1\n"
        "def f(a: int | None, *, b: int) -> str | None:\n    '''One AND two.'''\n__all__ = ['f'] + []\n",
    )
    assert changes(toy) == []


def test_what_the_tool_cannot_change_is_no_mutant(toy):
    toy.write("core/toy/limits.py", "try:\n    f()\nexcept (socket.error, ValueError):\n    g()\n")
    assert ("except (socket.error, ValueError):", "except (socket.error, CosmicRayTestingException):") in changes(toy)


@pytest.mark.parametrize("operator", OWN.values(), ids=OWN)
def test_each_operator_makes_what_it_says(toy, operator):
    for example in operator.examples():
        toy.write("core/toy/limits.py", example.pre_mutation_code)
        assert example.post_mutation_code.strip() in [became for _, became in changes(toy)]


def test_every_room_has_files_and_tests_and_its_list_is_true():
    for room in ROOMS:
        assert room.files(ROOT), room.name
        assert [test for test in room.tests if not Path(ROOT, test).exists()] == []
    Checkout(ROOT, EQUIVALENTS, STATE).check_listed(ROOMS)


@pytest.mark.long
@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_of_a_rooms_mutants_as_many_are_noticed_as_it_aims_at(room):
    with opened(os.cpu_count() or 1) as checkout:
        score = checkout.play(room, checkout.chosen(room, None, 40, 1))
    assert score.percent is not None
    assert score.percent >= room.aim, "\n".join(score.survivors)
