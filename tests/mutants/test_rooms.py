"""The rooms of the mutants: each module is in one, and each of them has files and tests.

A quick test, because who moves a file, or adds one, is to be told at once.
"""

from collections import Counter
from pathlib import Path

from tests.extent import DEEP
from tests.mutants.__main__ import EQUIVALENTS, ROOT, STATE
from tests.mutants._rooms import ROOMS, ROOTS
from tests.mutants._running import Checkout


def test_every_module_is_in_one_room():
    rooms = Counter(file for room in ROOMS for file in room.files(ROOT))
    modules = {path.relative_to(ROOT).as_posix() for root in ROOTS for path in (ROOT / root).rglob("*.py")}
    named = {file for file in modules if not file.endswith(("__init__.py", "__main__.py"))}
    assert sorted(named - rooms.keys()) == []
    assert [file for file, count in rooms.items() if count > 1] == []


def test_every_room_has_files_and_tests_and_its_list_is_true():
    for room in ROOMS:
        assert room.files(ROOT), room.name
        assert [test for test in room.tests if not Path(ROOT, test).exists()] == []
        deep = tuple(f"tests/{name}" for name in DEEP)
        assert room.extent == "more" or not all(test.startswith(deep) for test in room.tests), room.name
    Checkout(ROOT, EQUIVALENTS, STATE).check_listed(ROOMS)
