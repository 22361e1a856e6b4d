"""The mutants of a toy: aimed at, told apart, counted, kept over a stop, and never run where nothing could be shown."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest
from tests.mutants.__main__ import ROOT, app, opened
from tests.mutants._aiming import Aim
from tests.mutants._mutating import changed_lines, mutants_of
from tests.mutants._operators import OWN
from tests.mutants._reaching import MOST
from tests.mutants._rooms import ROOMS, Room
from tests.mutants._running import Checkout, NothingShown
from tests.servers import VARIABLE
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
_PYTEST = (sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "tests.mutants._reaching")
TESTED = Room("tested", ("core/toy/*.py",), ("test_flag.py", "test_limits.py"), 80, _PYTEST)
CONFTEST = """
import os
def pytest_runtest_call(item):
    with open(os.environ["LOG"], "a") as log:
        log.write(f"{item.name}\\n")
"""
FLAG = "from toy import limits\ndef test_flag():\n    assert limits.unread(False)\n"
QUICK = """
def pytest_collection_modifyitems(items):
    if not os.environ["SETTLEMARK_TESTS"]:
        items[:] = [item for item in items if "[2]" not in item.name]
"""
CASES = """
import pytest
from toy import limits
@pytest.mark.parametrize("most", [0, 2])
def test_limit(most):
    assert most == 0 or [limits.clamp(number, most) for number in (1, 2, 3)] + [limits.clamp(3)] == [1, 2, 2, 3]
    limits.clamp(3, most)
"""
COSTLY = """
import time
def test_costs():
    end = time.process_time() + 1
    while time.process_time() < end:
        pass
def test_left_out():
    pass
"""
LIMITS = "from toy import limits\ndef test_limit():\n    assert limits.clamp(3, 2) == 2\n"
COMMAND = """
import sys
from pathlib import Path
import tests.mutants.__main__ as command
from tests.mutants.test_mutants import ROOM
command.ROOT, command.ROOMS = Path(sys.argv[1]), (ROOM,)
command.EQUIVALENTS, command.STATE = command.ROOT / "equivalent.toml", Path(sys.argv[2])
command.app(["--room", "toy", "--processes", "1"])
"""
# Without a mutant it passes, with the first it fails, and with the second it hangs, and so does what it started.
HANGING = """
import os, pathlib, signal, subprocess, sys
log = pathlib.Path(os.environ["LOG"])
count = len(log.read_text()) if log.exists() else 0
log.write_text("." * (count + 1))
if count == 2:
    alive = os.open(log.with_name("alive"), os.O_WRONLY)
    subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], pass_fds=[alive])
    os.write(alive, b"hangs\\n")
    signal.pause()
sys.exit(count)
"""


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
        equivalents = self.root / "equivalent.toml"
        usual = {"environment": {"LOG": str(self.log)}, "least": 60.0, "deep": 0.0}
        return Checkout(self.root, equivalents, self.state, **usual | options)

    def play(self, **options):
        with self.open() as checkout:
            return checkout.play(ROOM, checkout.chosen(ROOM), **options)

    def play_tested(self, lines=range(100), **options):
        """Play the mutants of some lines with pytest, as the rooms do."""
        environment = {"PYTHONPATH": f"core{os.pathsep}{ROOT}", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        with self.open(environment={"LOG": str(self.log)} | environment, least=60.0, deep=60.0) as checkout:
            chosen = [each for each in checkout.chosen(TESTED) if each.where[0][0] in lines]
            return checkout.play(TESTED, chosen, **options)

    def ran(self):
        """Which tests were run since it was asked last."""
        names = self.log.read_text().split() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return names

    def asked(self):
        """How often the tests were run since it was asked last."""
        count = self.log.read_text().count("asked") if self.log.exists() else 0
        self.log.unlink(missing_ok=True)
        return count


@pytest.fixture
def toy(tmp_path):
    return Toy(tmp_path)


@pytest.fixture
def tested(toy):
    toy.write("conftest.py", CONFTEST)
    toy.write("test_flag.py", FLAG)
    toy.write("test_limits.py", LIMITS)
    return toy


def changes(toy):
    source = (toy.root / "core/toy/limits.py").read_text()
    changed = [each.code(source) for each in mutants_of(toy.root, "core/toy/limits.py")]
    return [changed_lines(source, each) for each in changed if each is not None]


def test_a_room_is_told_by_what_was_noticed_hung_survived_and_is_the_same(toy):
    toy.write("core/toy/limits.py", f"import signal\n{TOY}{REST}")
    toy.write("check.py", f"{CHECK}from toy.limits import rest\nassert rest() == 0\n")
    with toy.open(least=10.0) as checkout:
        score = checkout.play(ROOM, checkout.chosen(ROOM))
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
    again = toy.play()
    assert toy.asked() == 0
    # two at a time: which of them ends first is nobody's promise
    assert sorted(again.survivors) == sorted(score.survivors)
    assert again.as_json() | {"survivors": score.survivors} == score.as_json()


def test_a_command_that_is_ended_ends_what_it_runs_and_keeps_what_was_done(toy, tmp_path):
    toy.write("check.py", HANGING)
    (tmp_path / "copies").mkdir()
    os.mkfifo(tmp_path / "alive")
    command = subprocess.Popen(
        [sys.executable, "-c", COMMAND, str(toy.root), str(toy.state)],
        env={**os.environ, VARIABLE: "none", "LOG": str(toy.log), "TMPDIR": str(tmp_path / "copies")},
        cwd=ROOT,
        stderr=subprocess.DEVNULL,
    )
    with (tmp_path / "alive").open() as alive:
        assert alive.readline() == "hangs\n"
        command.terminate()
        assert alive.read() == ""  # comes to its end when nobody is alive who could write
    assert command.wait(120) != 0
    assert list((tmp_path / "copies").iterdir()) == []
    toy.write("check.py", CHECK)
    began = []
    toy.play(told=lambda score: began.append(len(score.endings)))
    assert began[0] == 1


def test_the_tests_that_reach_a_mutant_run_first_and_deeper_ones_only_if_it_survives_these(tested):
    score = tested.play_tested({11})
    assert (score.count("killed"), score.count("survived")) == (2, 0)
    assert tested.ran() == ["test_flag", "test_limit", "test_flag", "test_flag"]
    tested.write("test_limits.py", LIMITS.replace("== 2", "> 0"))
    score = tested.play_tested({5})
    survived = score.count("survived")
    assert survived > 0
    ran = tested.ran()
    assert ran[0] == "test_limit"
    assert Counter(ran) == {"test_limit": 1 + len(score.endings) + survived, "test_flag": 2 * survived}


def test_what_the_quick_cases_do_not_notice_meets_all_cases_of_the_same_tests(tested):
    tested.write("conftest.py", CONFTEST + QUICK)
    tested.write("test_limits.py", CASES)
    score = tested.play_tested({5})
    assert score.count("survived") == 0
    ran = Counter(tested.ran())
    assert ran["test_limit[0]"] > ran["test_limit[2]"] > 0


@pytest.mark.parametrize("file", ["test_limits.py", "conftest.py"])
def test_a_file_of_tests_that_cannot_be_imported_with_a_mutant_has_noticed_it(tested, file):
    tested.write("test_limits.py", "from toy import limits\ndef test_limit():\n    limits.clamp(3, 2)\n")
    read = (tested.root / file).read_text()
    seen = "[limits.clamp(number, 2) for number in (1, 2, 3)] + [limits.clamp(3)]"
    tested.write(file, f"from toy import limits\nassert {seen} == [1, 2, 2, 3]\n{read}")
    score = tested.play_tested({5})
    assert (len(score.endings) > 0, score.survivors) == (True, [])


def test_a_test_that_only_reads_the_program_meets_what_the_others_do_not_notice(tested):
    read = "def test_read():\n    assert 'return number\\n' in open('core/toy/limits.py').read()\n"
    tested.write("test_flag.py", FLAG + read)
    score = tested.play_tested({7})
    assert (score.count("killed"), score.count("survived")) == (1, 0)
    assert tested.ran()[-1] == "test_read"


def test_a_test_that_fails_without_a_mutant_is_told_and_set_aside_until_it_passes(tested):
    tested.write("test_flag.py", FLAG + "def test_fails():\n    assert limits.unread(True)\n")
    score = tested.play_tested({5})
    assert score.aside == ["test_flag.py::test_fails"]
    assert score.count("killed") > 0
    assert Counter(tested.ran())["test_fails"] == 1
    tested.write("test_flag.py", FLAG)
    assert tested.play_tested({7}).aside == []


def test_nothing_is_shown_by_tests_that_were_all_skipped_nor_is_that_kept(tested):
    skipped = "import pytest\npytestmark = pytest.mark.skip\n"
    for name, text in (("test_flag.py", FLAG), ("test_limits.py", LIMITS)):
        tested.write(name, skipped + text)
    with pytest.raises(NothingShown, match="no test of tested reaches a line of it"):
        tested.play_tested({5})
    assert [path.name for path in tested.state.iterdir()] == ["tested.sqlite"]


@pytest.mark.long  # it starts tests of its own, whose costs a busy machine falsifies
def test_tests_that_cost_more_than_they_are_given_are_not_begun(tested):
    tested.write("test_flag.py", COSTLY)
    environment = {"PYTHONPATH": f"core{os.pathsep}{ROOT}", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", MOST: "0.5"}
    told = {**os.environ, **environment, "LOG": str(tested.log)}
    subprocess.run([*_PYTEST, "test_flag.py"], cwd=tested.root, env=told, check=True, capture_output=True)
    assert tested.ran() == ["test_costs"]


def test_what_the_tests_reach_is_kept_until_they_change_and_all_of_it_until_anything_else_does(tested):
    tested.play_tested({11})
    tested.ran()
    tested.play_tested({6})
    assert tested.ran() == ["test_limit"]
    tested.write("test_flag.py", FLAG + "    assert not limits.unread(True)\n")
    tested.play_tested({7})
    ran = tested.ran()
    assert (ran[:1], ran[1:3], ran[3:]) == (["test_flag"], ["test_limit", "test_flag"], ["test_limit", "test_flag"])
    tested.write("core/toy/limits.py", f"{TOY}\n")
    tested.play_tested({6})
    assert tested.ran() == ["test_flag", "test_limit", "test_limit"]


def test_first_come_the_quickest_that_reach_the_line_then_those_about_it_and_no_more_than_there_is_time_for(toy):
    file = "core/toy/limits.py"
    reached = {"elsewhere": (1, [11]), "slow": (6, [5, 6]), "beside": (2, [7]), "quick": (1, [5, 7])}
    tests = {
        test: {"seconds": seconds, "lines": {file: lines}, "failed": False}
        for test, (seconds, lines) in reached.items()
    }
    mutant = next(each for each in mutants_of(toy.root, file) if each.where[0][0] == 5)
    source = (toy.root / file).read_text()
    assert [Aim(tests).at(mutant, source, seconds) for seconds in (20, 9, 8, 6.5, 0.5)] == [
        ["quick", "slow", "beside", "elsewhere"],
        ["quick", "slow", "beside"],
        ["quick", "slow"],
        ["quick"],
        [],
    ]
    many = {f"another{number}": {"seconds": 2, "lines": {file: [5]}, "failed": False} for number in range(25)}
    assert sorted(Aim(tests | many).at(mutant, source, 100)) == sorted(["quick", "slow", *many])


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


def test_what_a_class_says_again_of_the_one_it_is_made_of_is_for_type_checkers_and_no_mutant(toy):
    wish, more = "class Wish(Struct, frozen=True):", "class More(Wish, frozen=True):"
    toy.write("core/toy/limits.py", f"{wish}\n    pass\n{more}\n    pass\n")
    assert changes(toy) == [
        (wish, "class Wish(Struct):"),
        (wish, "class Wish(Struct, frozen=False):"),
        (more, "class More(Wish, frozen=False):"),
    ]


def test_what_the_interpreter_runs_alike_is_no_mutant(tmp_path):
    source = "def found(x):\n    if x:\n        return 1\n    return None\n"
    (tmp_path / "toy.py").write_text(source)
    assert [each.code(source) for each in mutants_of(tmp_path, "toy.py") if each.where[0][0] == 4] == [None]


def test_what_the_tool_cannot_change_is_no_mutant(toy):
    toy.write("core/toy/limits.py", "try:\n    f()\nexcept (socket.error, ValueError):\n    g()\n")
    assert ("except (socket.error, ValueError):", "except (socket.error, CosmicRayTestingException):") in changes(toy)


@pytest.mark.parametrize("operator", OWN.values(), ids=OWN)
def test_each_operator_makes_what_it_says(toy, operator):
    for example in operator.examples():
        toy.write("core/toy/limits.py", example.pre_mutation_code)
        assert example.post_mutation_code.strip() in [became for _, became in changes(toy)]


@pytest.mark.long
@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_of_a_rooms_mutants_as_many_are_noticed_as_it_aims_at(room):
    with opened(os.cpu_count() or 1) as checkout:
        score = checkout.play(room, checkout.chosen(room, None, 40, 1))
    assert score.percent is not None
    assert score.percent >= room.aim, "\n".join(score.survivors)
