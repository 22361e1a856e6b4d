"""A counterparty that survives its client, and a sound adapter for it: pages of text in one SQLite file."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import tempfile
from pathlib import Path

from settlemark import current_call
from settlemark_adapters import Adapter, operation
from settlemark_adapters.testing import Example, Subject, scope_of

_TABLES = """
PRAGMA synchronous = OFF;
CREATE TABLE pages (name TEXT PRIMARY KEY, text TEXT NOT NULL, by TEXT NOT NULL);
CREATE TABLE sent (n INTEGER PRIMARY KEY, letter TEXT NOT NULL, by TEXT NOT NULL);
CREATE TABLE marks (by TEXT PRIMARY KEY, result TEXT NOT NULL, before TEXT, undone INTEGER NOT NULL DEFAULT 0);
CREATE TABLE faults (lose INTEGER NOT NULL);
INSERT INTO faults VALUES (0);
"""


class LostError(ConnectionError):
    """The book has acted, and its answer did not come."""


class ChangedError(Exception):
    """Somebody else has written on the page since."""


@contextlib.contextmanager
def book_in(folder):
    """A transaction of the book: all of it is there afterwards, or nothing."""
    connection = sqlite3.connect(Path(folder) / "book.db", isolation_level=None, timeout=10)
    try:
        connection.execute("PRAGMA synchronous = OFF")  # a process may be killed here, not the machine
        connection.execute("BEGIN IMMEDIATE")
        with connection:
            yield connection
    finally:
        connection.close()


@contextlib.contextmanager
def world():
    with tempfile.TemporaryDirectory() as folder:
        connection = sqlite3.connect(Path(folder) / "book.db")
        connection.executescript(_TABLES)
        connection.close()
        yield folder


def look(folder):
    with book_in(folder) as book:
        pages = dict(book.execute("SELECT name, text FROM pages ORDER BY name").fetchall())
        return {"pages": pages, "sent": [letter for (letter,) in book.execute("SELECT letter FROM sent ORDER BY n")]}


def resources(folder):
    seen = look(folder)
    return {
        **{scope_of("page", name): text for name, text in seen["pages"].items()},
        **{scope_of("letter", letter): seen["sent"].count(letter) for letter in seen["sent"]},
    }


def lose(folder):
    with book_in(folder) as book:
        book.execute("UPDATE faults SET lose = 1")


def scribble(folder, example):
    with book_in(folder) as book:
        name = example.arguments.get("name")
        book.execute("UPDATE pages SET text = text || '!', by = 'somebody' WHERE name = ?", (name,))


class Book(Adapter):
    """Pages and letters."""

    def __init__(self, settlement=None, folder="", **options):
        self.folder = folder
        super().__init__(settlement, **options)

    # ---- under a key

    def _acting(self, key, act):
        """Do it once: what it found and what it answered stay under the key."""
        with book_in(self.folder) as book:
            mark = book.execute("SELECT result FROM marks WHERE by = ?", (key,)).fetchone()
            result = json.loads(mark[0]) if mark else self._marked(book, key, act)
            lost = book.execute("SELECT lose FROM faults").fetchone()[0]
            book.execute("UPDATE faults SET lose = 0")
        if lost:
            self._lost()
        return result

    def _marked(self, book, key, act):
        result, before = act(book)
        book.execute("INSERT INTO marks VALUES (?, ?, ?, 0)", (key, json.dumps(result), json.dumps(before)))
        return result

    def _lost(self):
        raise LostError("the line went dead")

    def _find(self, key):
        with book_in(self.folder) as book:
            mark = book.execute("SELECT result FROM marks WHERE by = ? AND NOT undone", (key,)).fetchone()
        return json.loads(mark[0]) if mark else None

    def _take_back(self, name, key):
        with book_in(self.folder) as book:
            mark = book.execute("SELECT before FROM marks WHERE by = ? AND NOT undone", (key,)).fetchone()
            if mark is None:
                return
            page = book.execute("SELECT by FROM pages WHERE name = ?", (name,)).fetchone()
            if page is None or page[0] != key:
                raise ChangedError(f"{name} was changed since: look at it, and settle it by hand")
            self._restore(book, name, json.loads(mark[0]))
            book.execute("UPDATE marks SET undone = 1 WHERE by = ?", (key,))

    def _restore(self, book, name, before):
        book.execute("DELETE FROM pages WHERE name = ?", (name,))
        if before is not None:
            book.execute("INSERT INTO pages VALUES (?, ?, ?)", (name, *before))

    def _written(self, book, name, text, key):
        before = book.execute("SELECT text, by FROM pages WHERE name = ?", (name,)).fetchone()
        book.execute("INSERT OR REPLACE INTO pages VALUES (?, ?, ?)", (name, text, key))
        return {"name": name, "length": len(text)}, before

    # ---- its tools

    @operation("write", "reversible", scope="page:/{name}", undo=_take_back, probe=_find, keyed=True)
    def write(self, name: str, text: str) -> dict:
        """Write a page.

        Args:
            name: the page.
            text: what stands on it.
        """
        key = self.key
        return self._acting(key, lambda book: self._written(book, name, text, key))

    @operation("append", "reversible", scope="page:/{name}", undo=_take_back, probe=_find, keyed=True)
    def append(self, name: str, line: str) -> dict:
        """Add a line to a page.

        Args:
            name: the page.
            line: what is added.
        """
        key = self.key

        def act(book):
            found = book.execute("SELECT text FROM pages WHERE name = ?", (name,)).fetchone()
            return self._written(book, name, f"{found[0] if found else ''}{line}\n", key)

        return self._acting(key, act)

    @operation("draft", "staged", scope="page:/{name}", probe=_find)
    def draft(self, name: str, text: str) -> dict:
        """Write a page when the step settles.

        Args:
            name: the page.
            text: what stands on it.
        """
        key = self.key
        return self._acting(key, lambda book: self._written(book, name, text, key))

    @operation("post", "irreversible", scope="letter:/{letter}", probe=_find, keyed=True)
    def post(self, letter: str) -> dict:
        """Post a letter.

        Args:
            letter: what it says.
        """
        key = self.key

        def act(book):
            book.execute("INSERT INTO sent (letter, by) VALUES (?, ?)", (letter, key))
            return {"posted": letter}, None

        return self._acting(key, act)

    @operation("title", "idempotent", scope="page:/title")
    def title(self, text: str) -> dict:
        """Set the book's title.

        Args:
            text: the title.
        """
        with book_in(self.folder) as book:
            return self._written(book, "title", text, self.key)[0]

    @operation("shout", "opaque", scope="letter:/{letter}")
    def shout(self, letter: str) -> None:
        """Post a letter, and keep no mark of it.

        Args:
            letter: what it says.
        """
        with book_in(self.folder) as book:
            book.execute("INSERT INTO sent (letter, by) VALUES (?, '')", (letter,))

    @operation("read", "read", scope="page:/{name}")
    def read(self, name: str) -> str | None:
        """Read a page, as it will be.

        Args:
            name: the page.
        """
        call = current_call()
        staged = [] if call is None else call.staged(f"page:/{name}")
        if staged:
            return staged[-1]["text"]
        with book_in(self.folder) as book:
            found = book.execute("SELECT text FROM pages WHERE name = ?", (name,)).fetchone()
        return found[0] if found else None


def an_old_page(folder):
    with book_in(folder) as book:
        book.execute("INSERT INTO pages VALUES ('a', 'old', 'somebody')")


EXAMPLES = (
    Example("write", {"name": "a", "text": "one"}, before=an_old_page),
    Example("append", {"name": "a", "line": "two"}),
    Example("draft", {"name": "a", "text": "three"}),
    Example("post", {"letter": "dear Ada"}),
    Example("title", {"text": "Emma"}),
    Example("shout", {"letter": "dear Bee"}),
    Example("read", {"name": "a"}, before=an_old_page),
)


def subject_of(adapter, *tools, meddle=scribble):
    """The subject of a book's adapter, with the examples of these tools, or of all."""

    def make(settlement, folder):
        made = adapter(settlement, folder)
        made.tools = lambda *names: type(made).tools(made, *(names or tools))
        return made

    return Subject(
        make=make,
        world=world,
        look=look,
        examples=[example for example in EXAMPLES if not tools or example.tool in tools],
        lose=lose,
        meddle=meddle,
        resources=resources,
    )


SUBJECT = subject_of(Book)
