"""Where a shim cannot keep its promises: `unsettled=` says what becomes of it, and the names it reads are looked up."""

from __future__ import annotations

import pytest

from settlemark import Settlement, UsageError
from settlemark.agents import ReadNames, cannot_keep, refuse_unknown_choice


@pytest.fixture
def settlement():
    with Settlement("memory:") as settlement:
        yield settlement


def test_it_is_refused_with_the_way_to_go_on(settlement):
    with pytest.raises(
        UsageError, match='^it has no client; or pass unsettled="warn" to go on without; nothing was run$'
    ):
        cannot_keep(settlement, "client", "it has no client", "refuse")


@pytest.mark.parametrize(("unsettled", "told"), [("warn", ["no client", "no hook"]), ("allow", [])])
def test_who_knows_it_goes_on_and_is_warned_once_of_each(settlement, caplog, unsettled, told):
    for what in ("client", "client", "hook"):
        cannot_keep(settlement, what, f"no {what}", unsettled)

    assert [record.getMessage() for record in caplog.records] == told


def test_what_is_no_choice_is_refused():
    with pytest.raises(UsageError, match="unsettled='': choose one of 'refuse', 'warn', 'allow'"):
        refuse_unknown_choice("")


class Base:
    """A class of a framework."""

    declared: int

    def __init__(self):
        self.set_in_a_method = 1


class Kind(Base):
    """One that inherits."""

    has = None


def function(parameter):
    return parameter


VALUE = "as expected"


@pytest.mark.parametrize(
    ("within", "name", "is_there"),
    [
        ("Kind", "has", True), ("Kind", "declared", True), ("Kind", "set_in_a_method", True), ("Kind", "gone", False),
        ("Gone", "has", False), ("function", "parameter", True), ("function", "gone", False),
        ("", "VALUE", True), ("", "Kind", True), ("", "GONE", False),
    ],
)  # fmt: skip # a table of values
def test_a_name_is_there_where_a_class_or_function_has_it(within, name, is_there):
    names = ReadNames("pytest", ("1", "9"), "nothing can be told", {(__name__, within): (name,)}, {"VALUE": VALUE})

    assert names.absent == ([] if is_there else [".".join(filter(None, (__name__, within, name)))])


def test_a_name_with_another_value_is_gone():
    names = ReadNames("pytest", ("1", "9"), "nothing can be told", {(__name__, ""): ("VALUE",)}, {"VALUE": "another"})

    assert names.absent == [f"{__name__}.VALUE"]


def test_without_a_name_it_says_what_cannot_be_told_and_which_releases_have_it(settlement):
    names = ReadNames("pytest", ("1", "9"), "nothing can be told", {("json", ""): ("gone",)})

    with pytest.raises(
        UsageError, match=r"^this release has no json\.gone, so nothing can be told; pytest .* is installed"
    ):
        names.refuse_without(settlement, "refuse")
