"""A user's own function has acted when it is over; what fails behind it is never told as "it did not happen"."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from tests.rooms.adapters import Acts, Desk, Mark

from settlemark import InDoubt, Retries, Settlement
from settlemark_adapters import Adapter
from settlemark_adapters.filesystem import Filesystem
from settlemark_adapters.mail import Mail
from settlemark_adapters.objects import Objects
from settlemark_adapters.records import Records
from settlemark_adapters.shell import Pattern, Shell


class Failed(Exception):
    """The user's own function fails."""


KEEPERS = {"filesystem": Filesystem, "objects": Objects}
KEEP_NOTHING = (Mail, Records)
"""What they run a user's own function in leaves nothing to be recorded or put back behind it."""


@pytest.fixture
def settlement():
    with Settlement("memory:", retries=Retries(first=0, most=0)) as opened:
        yield opened


@pytest.fixture(params=KEEPERS)
def keeper(request, tmp_path, settlement):
    where = tmp_path / "root"
    where.mkdir()
    (where / "a").write_text("before")
    made = KEEPERS[request.param](str(where) if request.param == "filesystem" else f"file://{where}", settlement)
    return made, where


def _put(adapter):
    return "write_file" if isinstance(adapter, Filesystem) else "put_object"


def _named(settlement):
    return [(left.tool, str(left.tag)) for left in settlement.residue()]


def _spoil(path: Path):
    """Leave a folder where a file was: nothing puts the file back over it."""
    path.unlink(missing_ok=True)
    path.mkdir()
    (path / "in it").write_text("theirs")


def test_every_adapter_that_keeps_something_around_a_function_is_tried_here():
    def below(known):
        return {known, *(each for sub in known.__subclasses__() for each in below(sub))}

    ours = {known for known in below(Adapter) if known.__module__.startswith("settlemark_adapters.")}
    around = {
        known
        for known in ours
        if any("around" in getattr(member, "parts", {}) for base in known.__mro__ for member in vars(base).values())
    }
    # Those of a Shell are made of its patterns.
    assert {known for known in around if not issubclass(known, KEEP_NOTHING)} == set(KEEPERS.values())


@pytest.mark.parametrize("error", [Failed, KeyboardInterrupt])
def test_what_a_function_that_fails_leaves_and_nothing_puts_back_is_named(keeper, settlement, error):
    adapter, where = keeper

    def save(path: str) -> None:
        _spoil(where / path)
        raise error

    saving = adapter.declare(_put(adapter), save)
    with pytest.raises(InDoubt if error is Failed else error), settlement.transaction("day") as tx:
        tx.call(saving, path="a")
    assert (where / "a" / "in it").read_text() == "theirs"
    assert _named(settlement) == [("save", "unresolved")]


def test_what_a_function_has_done_that_cannot_be_recorded_is_named(keeper, settlement, monkeypatch):
    adapter, where = keeper
    over = []

    def save(path: str) -> None:
        (where / path).write_text("theirs")
        over.append(path)

    def full(kept):
        def saving(*args):
            if over:
                raise OSError(errno.ENOSPC, "no space left")
            kept(*args)

        return saving

    monkeypatch.setattr(Desk, "save", full(Desk.save))
    monkeypatch.setattr(Acts, "_save", full(Acts._save))
    saving = adapter.declare(_put(adapter), save)
    with pytest.raises(InDoubt), settlement.transaction("day") as tx:
        tx.call(saving, path="a")
    assert ((where / "a").read_text(), over) == ("theirs", ["a"])
    assert _named(settlement) == [("save", "unresolved")]


def test_so_is_what_a_function_under_a_pattern_has_done(tmp_path, settlement, monkeypatch):
    touch = Pattern("touch {what}", "reversible", scope="tidy:/{what}", undo="rm {what}")
    shell = Shell(tmp_path, settlement, patterns=[touch])

    def full(_mark, _status, **_):
        raise OSError(errno.ENOSPC, "no space left")

    def tidy(what: str) -> None:
        (tmp_path / what).write_text("theirs")

    monkeypatch.setattr(Mark, "end", full)
    with pytest.raises(InDoubt), settlement.transaction("day") as tx:
        tx.call(shell.declare("touch", tidy), what="a")
    assert (tmp_path / "a").read_text() == "theirs"
    assert _named(settlement) == [("tidy", "unresolved")]
