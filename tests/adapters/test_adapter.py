"""An operation is written once, and is a tool, a declaration for a user's own function, and a plain call."""

from __future__ import annotations

import contextlib
import inspect
import typing
from typing import Annotated

import pytest

from settlemark import DeclarationError, Settlement, Tag, current_call, effect
from settlemark.hosting import declaration_of
from settlemark_adapters import Adapter, operation


class Shelf(Adapter):
    """A counterparty in memory, with its own log."""

    def __init__(self, settlement=None, **options):
        self.log = []
        self.books = {}
        super().__init__(settlement, **options)

    def _kept(self, title, key):
        @contextlib.contextmanager
        def keeping():
            self.log.append(("before", title, key))
            yield
            self.log.append(("after", title))

        return keeping()

    def _fit(self, title):
        if title.startswith("banned"):
            raise ValueError(f"{title} may not stand here")

    def _off(self, title, result, key):
        self.log.append(("undo", title, result, key))
        del self.books[title]

    def _find(self, title):
        return self.books.get(title)

    @operation("shelve", "reversible", scope="book:/{title}", undo=_off, probe=_find, check=_fit, around=_kept)
    def put(self, title: str, place: int = 1) -> dict[str, int]:
        """Put a book on the shelf.

        Args:
            title: the book.
            place: where it stands.
        """
        self.books[title] = place
        return {"place": place}

    @operation("look", "read", scope="book:/{title}")
    def look(self, title: str) -> int | None:
        """Say where a book stands."""
        return self.books.get(title)


@pytest.fixture
def settlement():
    with Settlement("memory:") as opened:
        yield opened


def test_its_operations_are_tools_with_a_signature_a_docstring_and_a_declaration(settlement):
    shelve, look = Shelf(settlement).tools()
    assert (shelve.__name__, look.__name__) == ("shelve", "look")
    assert str(inspect.signature(shelve)) == "(title: str, place: int = 1) -> dict[str, int]"
    assert shelve.__annotations__ == {"title": str, "place": int, "return": dict[str, int]}
    assert inspect.getdoc(shelve).startswith("Put a book on the shelf.")
    assert (declaration_of(shelve).tool, declaration_of(shelve).kind.value) == ("shelve", "reversible")
    assert settlement.declared("shelve") is declaration_of(shelve)


def test_called_bare_it_acts_at_once():
    shelf = Shelf()
    assert shelf.put("Emma", place=3) == {"place": 3}
    assert (shelf.books, [entry[0] for entry in shelf.log]) == ({"Emma": 3}, ["before", "after"])


def test_in_a_transaction_that_fails_it_is_undone_under_its_key(settlement):
    shelf = Shelf(settlement)
    with pytest.raises(RuntimeError), settlement.transaction("t") as tx:
        tx.call(shelf.put, title="Emma")
        raise RuntimeError
    key = "t#1/0"
    assert shelf.log == [("before", "Emma", key), ("after", "Emma"), ("undo", "Emma", {"place": 1}, key)]
    assert (shelf.books, settlement.residue()) == ({}, [])


def test_its_check_refuses_before_anything_is_recorded(settlement):
    shelf = Shelf(settlement)
    with pytest.raises(ValueError, match="banned Emma may not stand here"), settlement.transaction("t") as tx:
        tx.call(shelf.put, title="banned Emma")
    assert (shelf.books, shelf.log, settlement.transactions()) == ({}, [], [])


def test_a_function_of_the_users_own_runs_under_its_declaration(settlement):
    shelf = Shelf(settlement)

    def store(name: str) -> dict[str, int]:
        """Store a book."""
        shelf.books[name] = 7
        return {"key of": len(current_call().key)}

    mine = shelf.declare("shelve", store, title="name")
    assert (mine.__name__, str(inspect.signature(mine))) == ("store", "(name: str) -> dict[str, int]")
    with pytest.raises(RuntimeError), settlement.transaction("t") as tx:
        tx.call(mine, name="Emma")
        raise RuntimeError
    assert [entry[0] for entry in shelf.log] == ["before", "after", "undo"]
    assert (shelf.books, settlement.transactions()[0].effects[0].row.scope) == ({}, "book:/Emma")


async def test_an_async_function_of_the_users_own_too(settlement):
    shelf = Shelf(settlement)

    async def store(title: str) -> None:
        shelf.books[title] = 7

    mine = shelf.declare("shelve", store)
    with pytest.raises(RuntimeError):
        async with settlement.transaction("t") as tx:
            await tx.call(mine, title="Emma")
            raise RuntimeError
    assert (shelf.books, [entry[0] for entry in shelf.log]) == ({}, ["before", "after", "undo"])


def test_a_function_without_the_arguments_that_the_declaration_needs_is_refused(settlement):
    shelf = Shelf(settlement)
    with pytest.raises(DeclarationError, match="title"):
        shelf.declare("shelve", lambda name: None)


def test_a_class_may_be_told_it_by_whoever_uses_it_and_handlers_it_does_not_use_are_left_out(settlement):
    shelf = Shelf(settlement, effects={"shelve": "irreversible"})
    with settlement.transaction("t") as tx:
        queued = tx.call(shelf.put, title="Emma")
        assert (shelf.books, queued.outcome) == ({}, "queued")
    assert shelf.books == {"Emma": 1}


def test_parts_may_be_told_it_too(settlement):
    shelf = Shelf(settlement, effects={"shelve": {"cost": "a trip"}})
    with pytest.raises(RuntimeError), settlement.transaction("t") as tx:
        tx.call(shelf.put, title="Emma")
        raise RuntimeError
    (left,) = settlement.residue()
    assert (left.tag, left.note) == (Tag.UNRESOLVED, "undone, but a cost stays: a trip")


@pytest.mark.parametrize(
    ("effects", "said"),
    [
        ({"shelf": "read"}, "effects= of Shelf: there is no tool 'shelf'; there are shelve, look"),
        ({"shelve": "done"}, "effects= of shelve says 'done': choose one of read, idempotent"),
    ],
)
def test_what_cannot_be_told_it_is_refused(effects, said):
    with pytest.raises(DeclarationError) as refused:
        Shelf(effects=effects)
    assert said in str(refused.value)


def test_two_of_a_kind_have_names_of_their_own(settlement):
    one, two = Shelf(settlement, name="left"), Shelf(settlement, name="right")
    with settlement.transaction("t") as tx:
        tx.call(one.put, title="Emma")
        tx.call(two.put, title="Persuasion")
    assert [e.row.tool for e in settlement.transactions()[0].effects] == ["left_shelve", "right_shelve"]
    assert (one.books, two.books) == ({"Emma": 1}, {"Persuasion": 1})


def test_a_subclass_may_write_a_handler_anew(settlement):
    class Gentle(Shelf):
        def _off(self, title, result, key):
            self.log.append(("laid aside", title))

    shelf = Gentle(settlement)
    with pytest.raises(RuntimeError), settlement.transaction("t") as tx:
        tx.call(shelf.put, title="Emma")
        raise RuntimeError
    assert shelf.log[-1] == ("laid aside", "Emma")


def test_a_tool_that_another_one_calls_as_a_part_of_its_work_has_a_key_of_its_own(settlement):
    shelf = Shelf(settlement)

    @effect("opaque")
    def tidy():
        shelf.put("Emma")
        shelf.put("Persuasion")

    with settlement.transaction("t") as tx:
        tx.call(tidy)
        tx.call(shelf.put, title="Sanditon")
    keys = [entry[2] for entry in shelf.log if entry[0] == "before"]
    assert (len(set(keys)), keys[2], "t#1/0" in keys) == (3, "t#1/1", False)


def test_a_transaction_that_a_bare_tool_begins_has_its_own_keys_and_is_undone_under_them(settlement):
    class Asking(Shelf):
        def _off(self, title):
            self.log.append(("undo", title, self.key))
            del self.books[title]

    outer, inner = Shelf(name="outer"), Asking(settlement)

    def rearrange(title: str) -> None:
        with pytest.raises(RuntimeError), settlement.transaction("within") as tx:
            tx.call(inner.put, title=title)
            raise RuntimeError

    outer.declare("shelve", rearrange)(title="Emma")
    key = "within#1/0"
    assert inner.log == [("before", "Emma", key), ("after", "Emma"), ("undo", "Emma", key)]
    assert (inner.books, settlement.residue()) == ({}, [])


class Asking(Adapter):
    """Operations that a person is asked about."""

    @operation("send", "irreversible", scope="mail:/{to}", approve=True)
    def send(self, to: Annotated[str, "whom"]) -> str:
        """Send it."""
        return to


@pytest.mark.parametrize("kind", ["read", "staged", "opaque", "irreversible"])
def test_an_operation_is_declared_as_another_class_with_what_that_class_takes(kind):
    (declared,) = Asking(effects={"send": kind}).declarations()
    assert (declared.tool, declared.kind) == ("send", kind)


def test_a_tool_has_its_annotations_as_they_were_written():
    assert typing.get_type_hints(Asking().tool("send"), include_extras=True)["to"] == Annotated[str, "whom"]


def test_a_tool_that_an_adapter_does_not_have_is_refused_with_those_that_it_has():
    with pytest.raises(DeclarationError, match=r"there is no tool 'sent'; there are send$"):
        Asking(effects={"sent": "read"})

    class Bare(Adapter):
        """Nothing yet."""

    with pytest.raises(DeclarationError, match=r"there is no tool 'sent'; there are none$"):
        Bare(effects={"sent": "read"})


def test_adapters_of_a_kind_in_one_settlement_are_each_undone_by_their_own_handlers():
    settlement = Settlement("memory:")
    shelves = [Shelf(settlement), Shelf(settlement)]

    for number, shelf in enumerate(shelves):
        with pytest.raises(RuntimeError, match="no room"), settlement.transaction(f"t-{number}") as tx:
            tx.call(shelf.put, title="Emma")
            raise RuntimeError("no room")

    assert [[entry[0] for entry in shelf.log] for shelf in shelves] == [["before", "after", "undo"]] * 2
    assert [shelf.books for shelf in shelves] == [{}, {}]
    assert settlement.residue() == []
