"""What one property of the conformance kit catches and no other line of it does, each by an adapter made for it."""

from __future__ import annotations

from tests.adapters.testing.book import Book, book_in, subject_of

from settlemark_adapters import operation
from settlemark_adapters.testing import Word, conformance


class Stubborn(Book):
    """Says that it can be undone, and its undo fails each time."""

    def _take_back(self, name, key):
        del key
        raise OSError(f"{name} cannot be taken back")

    @operation("write", "reversible", scope="page:/{name}", undo=_take_back, probe=Book._find, keyed=True)
    def write(self, name: str, text: str) -> dict:
        """Write a page."""
        key = self.key
        return self._acting(key, lambda book: self._written(book, name, text, key))


class Noting(Book):
    """Notes in the book itself each time it is asked for a scope, outside of any key."""

    def _where(self, name):
        with book_in(self.folder) as book:
            book.execute("INSERT INTO sent (letter, by) VALUES ('asked for a scope', '')")
        return f"page:/{name}"

    @operation("write", "reversible", scope=_where, undo=Book._take_back, probe=Book._find, keyed=True)
    def write(self, name: str, text: str) -> dict:
        """Write a page."""
        key = self.key
        return self._acting(key, lambda book: self._written(book, name, text, key))


class Fickle(Book):
    """Writes what it is told the first time, then something else, and so on."""

    written = 0

    def _written(self, book, name, text, key):
        type(self).written += 1
        return super()._written(book, name, text if self.written % 2 else "", key)[0] | {"length": 3}, None


def failed(adapter, name):
    (verdict,) = conformance(subject_of(adapter, "write"), only=name, points=1).verdicts
    return verdict.word is Word.FAILED and verdict.why


def test_an_abort_that_is_named_fails_a_tool_that_says_it_can_be_undone():
    assert failed(Stubborn, "abort").startswith("something of it stays: ")


def test_what_acts_outside_of_its_tool_when_it_is_entered_again_is_caught():
    assert failed(Noting, "commit") == "entered again under its name, it acted again"


def test_what_leaves_another_world_the_second_time_is_caught():
    assert failed(Fickle, "commit") == "it leaves another world each time"
