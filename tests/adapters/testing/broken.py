"""Adapters that are each broken in one way, and the properties that catch it."""

from __future__ import annotations

import json
from collections import Counter
from typing import NamedTuple

from tests.adapters.testing.book import Book, ChangedError, an_old_page, book_in, subject_of

from settlemark_adapters import operation


class Silent(Book):
    """Says nothing of what it does."""

    @operation("write", "reversible", scope="page:/{name}", undo=Book._take_back, probe=Book._find)
    def write(self, name: str, text: str) -> dict:
        key = self.key
        return self._acting(key, lambda book: self._written(book, name, text, key))

    write.__doc__ = None


class Hasty(Book):
    """Acts before it looks at its arguments."""

    def _fill(self, name):
        if not isinstance(name, str):
            with book_in(self.folder) as book:
                book.execute("INSERT INTO pages VALUES ('?', '', '')")
        return f"page:/{name}"

    @operation("write", "reversible", scope=_fill, undo=Book._take_back, probe=Book._find)
    def write(self, name: str, text: str) -> dict:
        """Write a page."""
        key = self.key
        return self._acting(key, lambda book: self._written(book, name, text, key))


class Counting(Book):
    """Its read changes what it reads."""

    @operation("read", "read", scope="page:/{name}")
    def read(self, name: str) -> str:
        """Read a page."""
        with book_in(self.folder) as book:
            book.execute("UPDATE pages SET text = text || '.' WHERE name = ?", (name,))
        return name


class Unplain(Book):
    """Returns what no ledger can keep."""

    @operation("read", "read", scope="page:/{name}")
    def read(self, name: str) -> set:
        """Read a page."""
        return {name}


class Thorough(Book):
    """Its undo takes away more than its call brought: what had been there before it, too."""

    def _restore(self, book, name, before):
        super()._restore(book, name, None)


class Blind(Book):
    """Its read does not see what its own transaction has staged."""

    @operation("read", "read", scope="page:/{name}")
    def read(self, name: str) -> str | None:
        """Read a page."""
        with book_in(self.folder) as book:
            found = book.execute("SELECT text FROM pages WHERE name = ?", (name,)).fetchone()
        return found[0] if found else None


class Eager(Book):
    """What it stages is there when it is called."""

    def _now(self, name, text):
        with book_in(self.folder) as book:
            self._written(book, name, text, "nobody")

    @operation("draft", "staged", scope="page:/{name}", probe=Book._find, check=_now)
    def draft(self, name: str, text: str) -> dict:
        """Write a page when the step settles."""
        key = self.key
        return self._acting(key, lambda book: self._written(book, name, text, key))


class Nostalgic(Book):
    """Its probe finds what has been undone."""

    def _find(self, key):
        with book_in(self.folder) as book:
            mark = book.execute("SELECT result FROM marks WHERE by = ?", (key,)).fetchone()
        return json.loads(mark[0]) if mark else None


class Credulous(Book):
    """Its probe takes anybody's letter for its own."""

    def _find_any(self, letter):
        with book_in(self.folder) as book:
            found = book.execute("SELECT letter FROM sent WHERE letter = ?", (letter,)).fetchone()
        return {"posted": letter} if found else None

    @operation("post", "irreversible", scope="letter:/{letter}", probe=_find_any)
    def post(self, letter: str) -> dict:
        """Post a letter."""
        with book_in(self.folder) as book:
            book.execute("INSERT INTO sent (letter, by) VALUES (?, '')", (letter,))
        return {"posted": letter}


class Confident(Book):
    """Takes a lost answer for a refusal."""

    def _lost(self):
        raise RuntimeError("the book does not answer")

    @operation("write", "reversible", scope="page:/{name}", undo=Book._take_back, keyed=True)
    def write(self, name: str, text: str) -> dict:
        """Write a page."""
        key = self.key
        return self._acting(key, lambda book: self._written(book, name, text, key))


class Keyless(Book):
    """Says that a repeat is answered with the first outcome, and posts each time."""

    @operation("post", "irreversible", scope="letter:/{letter}", probe=Book._find, keyed=True)
    def post(self, letter: str) -> dict:
        """Post a letter."""
        key = self.key

        def act(book):
            book.execute("INSERT INTO sent (letter, by) VALUES (?, ?)", (letter, key))
            return {"posted": letter}, None

        with book_in(self.folder) as book:
            result, _ = act(book)
            book.execute("INSERT OR REPLACE INTO marks VALUES (?, ?, NULL, 0)", (key, json.dumps(result)))
        return result


class Once(Book):
    """Its undo believes that it has done what it has begun."""

    def __init__(self, settlement=None, folder="", **options):
        self._begun = set()
        super().__init__(settlement, folder, **options)

    def _take_back(self, name, key):
        if key not in self._begun:
            self._begun.add(key)
            super()._take_back(name, key)


class Unrepeatable(Book):
    """Its undo fails when it finds its work done."""

    def _take_back(self, name, key):
        if self._find(key) is None:
            raise ChangedError(f"{name} is not ours")
        super()._take_back(name, key)


class Resigned(Book):
    """Its undo gives up at its third try, and says nothing of it."""

    def __init__(self, settlement=None, folder="", **options):
        self._tries = Counter()
        super().__init__(settlement, folder, **options)

    def _take_back(self, name, key):
        self._tries[key] += 1
        if self._tries[key] < 3:
            super()._take_back(name, key)


class Ruthless(Book):
    """Its undo writes over what another writer has written since."""

    def _take_back(self, name, key):
        with book_in(self.folder) as book:
            mark = book.execute("SELECT before FROM marks WHERE by = ? AND NOT undone", (key,)).fetchone()
            if mark is not None:
                self._restore(book, name, json.loads(mark[0]))
                book.execute("UPDATE marks SET undone = 1 WHERE by = ?", (key,))


class Cached(Book):
    """Writes what it remembers of a page, whatever others have written on it since."""

    def __init__(self, settlement=None, folder="", **options):
        self._pages = {}
        if folder:
            with book_in(folder) as book:
                self._pages = dict(book.execute("SELECT name, text FROM pages").fetchall())
        super().__init__(settlement, folder, **options)

    @operation("append", "reversible", scope="page:/{name}", undo=Book._take_back, probe=Book._find, keyed=True)
    def append(self, name: str, line: str) -> dict:
        """Add a line to a page."""
        key, text = self.key, f"{self._pages.get(name, '')}{line}\n"
        return self._acting(key, lambda book: self._written(book, name, text, key))


class Forgetful(Book):
    """What its undo needs is in the memory of the process that called it."""

    def __init__(self, settlement=None, folder="", **options):
        self._before = {}
        super().__init__(settlement, folder, **options)

    def _marked(self, book, key, act):
        result, self._before[key] = act(book)
        book.execute("INSERT INTO marks VALUES (?, ?, 'null', 0)", (key, json.dumps(result)))
        return result

    def _restore(self, book, name, before):
        found = book.execute("SELECT by FROM pages WHERE name = ?", (name,)).fetchone()
        super()._restore(book, name, self._before[found[0]])


class Torn(Book):
    """Acts first, and leaves its mark in a second step."""

    def _acting(self, key, act):
        if (found := self._find(key)) is not None:
            return found
        with book_in(self.folder) as book:
            result, before = act(book)
        with book_in(self.folder) as book:
            book.execute("INSERT INTO marks VALUES (?, ?, ?, 0)", (key, json.dumps(result), json.dumps(before)))
        return result


class Broken(NamedTuple):
    """An adapter, the tools it is looked at by, and all properties that it lacks: first the one it is made for."""

    adapter: type[Book]
    tools: tuple[str, ...]
    lacks: tuple[str, ...]

    @property
    def subject(self):
        return subject_of(self.adapter, *self.tools)


_CRASHES = ("crash-between-steps", "crash-inside-a-step")
BROKEN = (
    Broken(Silent, ("write",), ("declaration",)),
    Broken(Hasty, ("write",), ("declaration",)),
    Broken(Counting, ("read",), ("commit",)),
    Broken(Unplain, ("read",), ("commit",)),
    Broken(Thorough, ("write",), ("abort", "undo-fails-once", *_CRASHES)),
    Broken(Blind, ("draft", "read"), ("staged-invisibility",)),
    Broken(Eager, ("draft",), ("staged-invisibility", "commit", "abort", "crash-between-steps")),
    Broken(Nostalgic, ("write",), ("probe-truth",)),
    Broken(Credulous, ("post",), ("probe-truth",)),
    Broken(Confident, ("write",), ("lost-ack",)),
    Broken(Keyless, ("post",), ("duplicate-delivery",)),
    Broken(Once, ("write",), ("undo-fails-once", "undo-fails-always", "foreign-change")),
    Broken(Unrepeatable, ("write",), ("undo-fails-once", *_CRASHES)),
    Broken(Resigned, ("write",), ("undo-fails-always", "foreign-change")),
    Broken(Ruthless, ("write",), ("foreign-change",)),
    Broken(Cached, ("append",), ("two-transactions", "crash-between-steps")),
    Broken(Forgetful, ("write",), _CRASHES),
    Broken(Torn, ("write",), ("crash-inside-a-step",)),
)

__all__ = ["BROKEN", "Broken", "an_old_page"]
