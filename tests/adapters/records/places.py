"""Where commits can be, how a process of its own would open them, and what is really there."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp

import sqlalchemy as sa

from settlemark.testing import die, in_child
from settlemark_adapters.records import Entity, FileBackend, GitBackend, Invoices, Journal, ObjectBackend, SqlBackend

KINDS = ("files", "sqlite", "postgres", "objects", "memory", "git")
QUICK = ("files", "sqlite", "memory", "git")
SURVIVING = tuple(kind for kind in KINDS if kind != "memory")  # its process
_numbers = itertools.count()

NOTE = Entity("Note", {"text": str, "pinned": bool}, optional=("pinned",))
LINES = [
    {"description": "Consulting hours", "qty": 10, "unit_price": 150},
    {"description": "Travel", "unit_price": 350},
    {"description": "Discount", "unit_price": -100},
]
POSTING = [{"account": "cash", "debit": 120.5}, {"account": "sales", "credit": 100}, {"account": "tax", "credit": 20.5}]


class Books(Invoices, Journal):
    """All that is shipped, and notes."""

    ENTITIES = (NOTE,)


@dataclass(frozen=True)
class Place:
    kind: str
    at: str
    opened: list = field(default_factory=list, compare=False)

    def open(self):
        """A backend as a process that has just begun would open it."""
        self.opened.append(self._backend())
        return self.opened[-1]

    def close(self):
        while self.opened:
            self.opened.pop().close()

    def _backend(self):
        match self.kind:
            case "files":
                return FileBackend(self.at)
            case "objects":
                return ObjectBackend(f"file://{self.at}")
            case "memory":
                return ObjectBackend(f"memory://{self.at}")
            case "git":
                return GitBackend(self.at)
        return SqlBackend(self.at)

    def books(self, settlement=None, **options):
        return Books(self.open(), settlement, **{"author": "Ada <ada@a.example>", "clock": lambda: 1_000.0, **options})

    def log(self):
        """What was committed, as the store itself tells it: (message, author, paths that stand, paths that do not)."""
        return getattr(self, f"_log_{self.kind}", self._log_sql)()

    def messages(self):
        """The messages of what was committed, the first first."""
        if self.kind == "git":
            return self.git("log", "--reverse", "--format=%s", "records", fails=True).splitlines()
        return [message for message, _, _ in self.log()]

    def stands(self):
        """The records that stand, by path, as the store itself tells it."""
        if self.kind == "git":
            return self._files_of_git()
        found = {}
        for _, _, contents in self.log():
            found.update(contents)
        return {path: json.loads(text) for path, text in sorted(found.items()) if text is not None}

    def _log_files(self):
        found = []
        for folder in sorted(Path(self.at, "commits").glob("*")):
            said = json.loads((folder / "commit.json").read_text())
            contents = {path: (folder / path).read_text() if there else None for path, there in said["paths"].items()}
            found.append((said["message"], said["author"], contents))
        return found

    def _log_objects(self):
        entries = [json.loads(file.read_text()) for file in sorted(Path(self.at, "log").glob("*.json"))]
        return [(said["message"], said["author"], said["contents"]) for said in entries]

    def _log_memory(self):
        import fsspec

        fs = fsspec.filesystem("memory")
        entries = [json.loads(fs.cat_file(name)) for name in sorted(fs.glob(f"{self.at}/log/*.json"))]
        return [(said["message"], said["author"], said["contents"]) for said in entries]

    def _log_git(self):
        found = []
        for commit in self.git("rev-list", "--reverse", "records", fails=True).split():
            changed = self.git("diff-tree", "--root", "-r", "--no-commit-id", "--name-status", commit).splitlines()
            files = [line.split("\t") for line in changed]
            contents = {path: None if how == "D" else self.git("show", f"{commit}:{path}") for how, path in files}
            found.append((*self.git("log", "-1", "--format=%s%n%an <%ae>", commit).splitlines(), contents))
        return found

    def _files_of_git(self):
        listed = [line.split() for line in self.git("ls-tree", "-r", "records", fails=True).splitlines()]
        texts = self.git("cat-file", "--batch", given="".join(f"{blob}\n" for _, _, blob, _ in listed))
        found = {}
        for _, _, _, path in listed:
            head, _, texts = texts.partition("\n")
            size = int(head.split()[2])
            found[path], texts = json.loads(texts[:size]), texts[size + 1 :]
        return found

    def _log_sql(self):
        engine = sa.create_engine(self.at)
        try:
            with engine.connect() as connection:
                if not sa.inspect(connection).has_table("records_commits"):
                    return []
                commits = connection.execute(sa.text("SELECT * FROM records_commits ORDER BY number")).all()
                changes = connection.execute(sa.text("SELECT * FROM records_changes ORDER BY place")).all()
        finally:
            engine.dispose()
        return [
            (commit.message, commit.author, {c.path: c.text for c in changes if c.number == commit.number})
            for commit in commits
        ]

    def git(self, *arguments, fails=False, given=None):
        if not Path(self.at).exists():
            return ""  # the first who opens it makes it
        ended = subprocess.run(
            ["git", "-C", self.at, "-c", "user.name=Bob", "-c", "user.email=bob@b.example", *arguments],
            capture_output=True,
            text=True,
            check=not fails,
            input=given,
        )
        return ended.stdout


@contextmanager
def fresh(kind, url=None):
    """A place where nothing was committed yet."""
    home = Path(mkdtemp(prefix="settlemark-records-"))
    at = {"sqlite": f"sqlite:///{home / 'books.db'}", "postgres": url, "memory": f"/records-{next(_numbers)}"}
    try:
        place = Place(kind, at.get(kind, str(home / "books")))
        yield place
    finally:
        place.close()
        shutil.rmtree(home, ignore_errors=True)


class Lines:
    """Does something, which is dying, at the n-th line that runs where records are written; and counts these lines."""

    def __init__(self, at=(), do=die):
        self.at, self.do, self.count = at, do, 0

    def __enter__(self):
        sys.settrace(self._called)
        return self

    def __exit__(self, *_exception):
        sys.settrace(None)

    def _called(self, frame, _event, _argument):
        return self._line if _writes(frame) else None

    def _line(self, _frame, event, _argument):
        if event == "line":
            self.count += 1
            if self.count in self.at:
                sys.settrace(None)
                self.do()
                sys.settrace(self._called)
        return self._line


def _writes(frame):
    """Whether this is a frame of the package that makes a commit, or one that such a frame has called."""
    path = Path(frame.f_code.co_filename)
    if path.parent.name != "records":
        return False
    if path.name == "_store.py":
        return frame.f_code.co_name in ("commit", "_publish", "take_back")
    while frame is not None and frame.f_code.co_name not in ("view", "sweep"):
        if "Staging." in frame.f_code.co_qualname or frame.f_code.co_name == "stage":
            return True
        frame = frame.f_back
    return False


def lines_of(play):
    """How many lines run where records are written."""

    def counted(tell):
        with Lines() as lines:
            play()
        tell(lines.count)

    return told(in_child(counted))


def dying(play, at):
    """Play in a child process that is killed before its n-th line; return whether it was."""

    def played(tell):
        with Lines([at]):
            play()

    ended = in_child(played)
    assert ended.error is None, ended.error
    return ended.killed


def told(ended):
    assert ended.error is None, ended.error
    (value,) = ended.told
    return value
