"""Commits in a git repository: the records are files of a branch, and one `update-ref` makes a commit real.

A transaction's objects are written as it goes, and nobody finds them before the branch points at them; git itself
removes unreferenced ones. The branch moves only from where it was seen, so of two committers one is refused. A commit's
trailers name its call, so it outlives a rebase; people's commits are read like any other.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from settlemark_adapters import _git_alone
from settlemark_adapters.records._backend import DAY, Moved
from settlemark_adapters.records._commit import Commit, Head
from settlemark_adapters.records._entity import split
from settlemark_adapters.records._errors import BadRecord, OutcomeUnknown, StoreError
from settlemark_adapters.records._log import LogBackend

SECONDS = 60.0
_KEY, _REQUEST, _RESULT, _REVERTS = (f"Settlemark-{name}" for name in ("Key", "Request", "Result", "Reverts"))
_BRANCH = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")
_AUTHOR = re.compile(r"([^<>]*[^<>\s])\s*(?:<([^<>\s]*)>)?")
_COMMIT, _FILE = "%x01%H%x00%P%x00%at%x00%an <%ae>%x00%B%x00", re.compile(r":\d+ (\d+) \w+ (\w+) \w")


class GitBackend(LogBackend):
    """Commits on a branch of a git repository.

    Args:
        repository: its path; a missing one is created, bare.
        branch: the branch, which nobody has checked out there; made by the first commit.
        projection: the database for queries, an SQLAlchemy URL; by default memory, made from the branch.

    Laws: as `FileBackend`. A rewritten branch is read anew.

    Raises:
        StoreError: this is no repository, its branch is checked out, or git is not installed.
    """

    def __init__(
        self, repository: str | os.PathLike[str], branch: str = "records", *, projection: str = "sqlite://"
    ) -> None:
        self.repository, self.branch = Path(repository).absolute(), branch
        if not _BRANCH.fullmatch(branch) or ".." in branch or branch.endswith((".lock", "/", ".")):
            raise StoreError(f"{branch!r} is no name of a branch: use letters, digits and . _ - /", store=branch)
        if not self.repository.exists():
            _run(None, "init", "--bare", "--quiet", str(self.repository))
        self._ref = f"refs/heads/{branch}"
        bare = _run(self.repository, "rev-parse", "--is-bare-repository").strip() == "true"
        if not bare and _run(self.repository, "symbolic-ref", "-q", "HEAD", fails=True).strip() == self._ref:
            raise StoreError(
                f"{branch} is checked out in {self.repository}, whose files would not follow it: choose a branch that"
                " nobody works on, or a bare repository",
                store=str(repository),
            )
        super().__init__(projection)

    def __repr__(self) -> str:
        return f"GitBackend({str(self.repository)!r}, {self.branch!r})"

    def git(
        self,
        *arguments: str,
        given: str | None = None,
        fails: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> str:
        """Return what a git command prints."""
        return _run(self.repository, *arguments, given=given, fails=fails, environment=environment)

    def tip(self) -> str | None:
        """Return the commit that the branch points at."""
        return self.git("rev-parse", "--verify", "--quiet", f"{self._ref}^{{commit}}", fails=True).strip() or None

    def since(self, head: Head, *, known: bool) -> Iterable[Commit] | None:
        """Return the commits after this one, the oldest first; None when the branch no longer contains it."""
        del known
        tip = self.tip()
        if tip == head.id:
            return ()
        if tip is None:
            return None
        span = tip if head.id is None else f"{head.id}..{tip}"
        listed = self.git(
            "log",
            "--first-parent",
            "--reverse",
            "-z",
            "--raw",
            "--no-abbrev",
            "--no-renames",
            "--root",
            "-m",
            f"--format={_COMMIT}",
            span,
            "--",
            fails=head.id is not None,
        )
        found = self._read(listed, head)
        # A branch may contain a commit through a merge, or not at all: then it is read from its beginning.
        return found if found and found[0].parent == head.id else (None if head.id is not None else found)

    def stage(self, tenant: str, key: str) -> GitStaging:
        """Return a place for a transaction's writes."""
        del tenant, key
        return GitStaging(self)

    def sweep(self, older_than: float = DAY) -> list[str]:
        """Remove objects that no commit points at, as `git prune` does, and return their names.

        Raises:
            StoreError: the repository's configuration has git ask a program of its own which of them to keep.
        """
        if self.git("config", "--get-all", "gc.recentObjectsHook", fails=True):
            raise StoreError(
                f"{self.repository} names a program in gc.recentObjectsHook, which is not run here: nothing was"
                " removed; unset it, or run `git prune` by hand",
                store=str(self.repository),
            )
        said = self.git("prune", "--verbose", f"--expire={int(older_than)}.seconds.ago")
        return said.splitlines()

    def move(self, old: str | None, new: str) -> None:
        """Point the branch at a commit, if it still points where it was seen."""
        try:
            self.git("update-ref", "-m", "settlemark", self._ref, new, old or "0" * len(new))
        except StoreError as error:
            if self.tip() != old:
                raise Moved from error
            raise
        except TimeoutError as error:
            raise OutcomeUnknown(f"{self!r} did not say whether {new} is committed: {error}") from error

    def _read(self, listed: str, head: Head) -> list[Commit]:
        found: list[Commit] = []
        blobs: dict[str, str] = {}
        for number, text in enumerate(listed.split("\x01")[1:], head.number + 1):
            oid, parents, at, author, body, *raw = text.split("\x00")
            files = _files(raw)
            blobs.update({f"{oid}\x00{path}": blob for path, blob in files.items() if blob})
            message, said = _said(body)
            contents: dict[str, str | None] = {
                path: f"{oid}\x00{path}" if blob else None for path, blob in files.items()
            }
            found.append(
                Commit(
                    message,
                    author.removesuffix(" <>"),
                    float(said.get("at", at)),
                    contents,
                    said.get("result"),
                    said.get("key"),
                    said.get("request", ""),
                    said.get("reverts"),
                    number,
                    parents.split(" ")[0] or None,
                    oid,
                )
            )
        texts = self._texts(blobs)
        return [
            replace(each, contents={p: None if at is None else texts[at] for p, at in each.contents.items()})
            for each in found
        ]

    def _texts(self, blobs: Mapping[str, str]) -> dict[str, str]:
        wanted = dict.fromkeys(blobs.values())
        if not wanted:
            return {}
        said = _bytes(self.repository, "cat-file", "--batch", given="".join(f"{blob}\n" for blob in wanted).encode())
        texts: dict[str, str] = {}
        for blob in wanted:
            line, _, said = said.partition(b"\n")
            size = int(line.split()[2])
            texts[blob] = said[:size].decode("utf-8", "replace")
            said = said[size + 1 :]
        return {at: texts[blob] for at, blob in blobs.items()}


class GitStaging:
    """What one transaction has written so far: objects that no branch points at."""

    def __init__(self, backend: GitBackend) -> None:
        self._backend = backend
        self._blobs: dict[str, str | None] = {}

    def put(self, path: str, text: str | None) -> None:
        """Write a record's text, or record its deletion."""
        made = None if text is None else self._backend.git("hash-object", "-w", "--stdin", given=text).strip()
        self._blobs[path] = made

    def publish(self, commit: Commit, head: Head) -> Commit:
        """Publish in one atomic step: the branch points at it from then on."""
        made = replace(commit, number=head.number + 1, parent=head.id)
        made = replace(made, id=self._commit(made, self._tree(head, made.contents)))
        self._backend.move(head.id, made.id)
        return made

    def discard(self) -> None:
        """Do nothing: git removes unreferenced objects."""
        self._blobs.clear()

    def _tree(self, head: Head, contents: Iterable[str]) -> str:
        with tempfile.TemporaryDirectory(prefix="settlemark-") as folder:
            alone = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
            if head.id is not None:
                self._backend.git("read-tree", head.id, environment=alone)
            gone = f"0 {'0' * len(head.id or '')}"
            blobs = ((path, self._blobs[path]) for path in contents)
            lines = (f"{gone if blob is None else f'100644 {blob}'}\t{path}\n" for path, blob in blobs)
            self._backend.git("update-index", "--add", "--index-info", given="".join(lines), environment=alone)
            return self._backend.git("write-tree", environment=alone).strip()

    def _commit(self, commit: Commit, tree: str) -> str:
        name, mail = author_of(commit.author)
        when = f"@{int(commit.at)} +0000"
        who = {
            f"GIT_{role}_{part}": value
            for role in ("AUTHOR", "COMMITTER")
            for part, value in (("NAME", name), ("EMAIL", mail), ("DATE", when))
        }
        parent = () if commit.parent is None else ("-p", commit.parent)
        return self._backend.git("commit-tree", tree, *parent, given=_message(commit), environment=who).strip()


def author_of(author: str) -> tuple[str, str]:
    """Return a name and an address, which may be empty.

    Raises:
        BadRecord: git could not write it so.

    >>> author_of("Ada <ada@a.example>"), author_of("Ada")
    (('Ada', 'ada@a.example'), ('Ada', ''))
    """
    found = _AUTHOR.fullmatch(author)
    if found is None:
        raise BadRecord(f"the author {author!r}: write 'Ada' or 'Ada <ada@a.example>'; nothing was written")
    return found[1], found[2] or ""


def _message(commit: Commit) -> str:
    trailers = {
        _KEY: None if commit.key is None else json.dumps(commit.key),
        _REQUEST: json.dumps([commit.request, commit.at]),
        _REVERTS: commit.reverts,
        _RESULT: json.dumps(commit.result),
    }
    return f"{commit.message}\n\n" + "".join(f"{name}: {text}\n" for name, text in trailers.items() if text is not None)


def _said(body: str) -> tuple[str, dict[str, Any]]:
    """Return a commit's message, and its trailers if they are ours."""
    lines = body.rstrip("\n").split("\n")
    trailers = dict(line.split(": ", 1) for line in lines[1:] if line.startswith("Settlemark-") and ": " in line)
    said: dict[str, Any] = {}
    try:
        if _REQUEST in trailers:
            said["request"], said["at"] = json.loads(trailers[_REQUEST])
            said["result"] = json.loads(trailers.get(_RESULT, "null"))
            said["reverts"] = trailers.get(_REVERTS)
            said["key"] = json.loads(trailers[_KEY]) if _KEY in trailers else None
    except ValueError:
        said = {}  # somebody has edited them: it is a commit like any other
    return lines[0], said


def _files(raw: list[str]) -> dict[str, str | None]:
    """Return the records that a commit changed, by path: the blob, or None where one is deleted."""
    found: dict[str, str | None] = {}
    tokens = iter(raw)
    for token in tokens:
        told = _FILE.match(token.strip("\n"))
        if told is None:
            continue
        path = next(tokens, "")
        if split(path) is not None:
            found[path] = told[2] if told[1].startswith("100") else None  # no link, and no repository within
    return found


def _run(
    repository: Path | None,
    *arguments: str,
    given: str | None = None,
    fails: bool = False,
    environment: Mapping[str, str] | None = None,
) -> str:
    data = None if given is None else given.encode()
    return _bytes(repository, *arguments, given=data, fails=fails, environment=environment).decode("utf-8", "replace")


def _bytes(
    repository: Path | None,
    *arguments: str,
    given: bytes | None = None,
    fails: bool = False,
    environment: Mapping[str, str] | None = None,
) -> bytes:
    """Return a git command's output; nothing, when it fails and may.

    Raises:
        StoreError: it failed, or git is not there.
        TimeoutError: it took too long.
    """
    where = () if repository is None else ("-C", str(repository))
    above = "" if repository is None else str(repository.parent)
    alone = {
        **_git_alone.environment(),
        "GIT_CEILING_DIRECTORIES": above,  # never a user's repository around this one
        **(environment or {}),
    }
    try:
        if repository is not None and _git_alone.runs_configured_hooks(alone.get("PATH")):
            listed = ("git", *where, "config", "--list", "--name-only", "-z")
            names = subprocess.run(listed, capture_output=True, timeout=SECONDS, env=alone, check=False).stdout  # noqa: S603 - as below
            hooks = _git_alone.without_hooks(os.fsdecode(names).split("\0"))
            alone |= _git_alone.told({**_git_alone.SETTINGS, **hooks})
        ended = subprocess.run(  # noqa: S603 - git, with arguments of our own making
            ["git", *where, *arguments],  # noqa: S607 - the user's git
            input=given if given is not None else b"",
            capture_output=True,
            timeout=SECONDS,
            env=alone,
            check=False,
        )
    except FileNotFoundError as error:
        raise StoreError("records in a git repository need git: install it", store=str(repository)) from error
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f"git {arguments[0]} took more than {SECONDS:g} s") from error
    if ended.returncode and not fails:
        said = ended.stderr.decode("utf-8", "replace").strip()
        raise StoreError(f"git {arguments[0]} failed in {repository}: {said}", store=str(repository))
    return b"" if ended.returncode else ended.stdout


__all__ = ["GitBackend", "GitStaging", "author_of"]
