"""A repository through git's plumbing: objects, trees and refs; no hooks, no prompts, no index of the user's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from settlemark_adapters import _git_alone as alone
from settlemark_adapters.git._faults import GitFault, GitTimeout
from settlemark_adapters.git._paths import above

_WORD = re.compile(r"\S+")
_AUTHOR = re.compile(r"([^<>\x00-\x1f]+) <([^<>\s\x00-\x1f]+)>")
REGULAR = "100644"
_FILES = frozenset({REGULAR, "100755"})
_FOLDER = "040000"
_LINK = "160000"
_KINDS = {"120000": "a symbolic link", _LINK: "a submodule", _FOLDER: "a folder"}
SECONDS = 60.0
_SHA1 = 40


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a tree."""

    mode: str
    object: str


class Repository:
    """Git's plumbing on one repository.

    Args:
        path: its folder, or a folder in it.
        author: the author of commits, as `"Name <mail>"`.
        environment: more variables for git, such as for a remote's authentication; never shown.

    Raises (from everything): GitFault: git refused; nothing was changed. GitTimeout: it took too long.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, author: str, environment: Mapping[str, str] | None = None
    ) -> None:
        named = _AUTHOR.fullmatch(author)
        if named is None:
            raise GitFault(f"author={author!r}: write it as in 'Ada <ada@example.org>'", author=author)
        self._secrets = sorted(filter(None, (environment or {}).values()), key=len, reverse=True)
        who = {f"GIT_{role}_{what}": named[n] for role in ("AUTHOR", "COMMITTER") for what, n in _WHO}
        self.environment = {**alone.environment(), **who, **(environment or {})}
        try:
            self.folder = self.kept_in(path)
        except (GitFault, FileNotFoundError) as error:
            raise GitFault(f"{path} is no git repository that can be used here: {error}", path=str(path)) from None
        if alone.version(self.environment.get("PATH")) < _OLDEST:
            raise GitFault("this git is too old: version 2.38 or later is needed, for its merges without a work tree")

    def kept_in(self, path: str | os.PathLike[str]) -> Path:
        """Return the folder that the repository at a path keeps everything in, also for one of its work trees."""
        found = self._run(["-C", str(path), "rev-parse", "--git-common-dir"])
        return (Path(path) / os.fsdecode(found).removesuffix("\n")).resolve()

    # ---- running git

    def git(
        self,
        *arguments: str,
        told: bytes = b"",
        at: Path | None = None,
        ends: Sequence[int] = (0,),
        variables: Mapping[str, str] | None = None,
        seconds: float = SECONDS,
        files: bool = False,
    ) -> bytes:
        """Run a git command and return its output; in the work tree `at`, else on the repository itself.

        Files of a work tree are taken unfiltered: any command that looks at them (even one that only writes an index)
        would otherwise filter them.
        """
        where, off = self._where(at), dict[str, str]()
        if at is not None or files:
            off |= alone.without(self._filters(where) if at is None else self._filters_within(at))
        if alone.runs_configured_hooks(self.environment.get("PATH")):
            off |= alone.without_hooks(self._names(where))
        if off:
            variables = {**alone.told({**alone.SETTINGS, **off}), **(variables or {})}
        return self._run([*where, *arguments], told=told, ends=ends, variables=variables, seconds=seconds)

    def worktrees(self, *arguments: str, ends: Sequence[int] = (0,), files: bool = False) -> bytes:
        """Run a command on the repository's work trees, and return its output; one at a time, in any process.

        Each of them reads what git knows of every work tree, and fails where another is half made, or half gone.
        """
        with _one_at_a_time(self.folder / "settlemark-worktrees.lock"):
            return self.git("worktree", *arguments, ends=ends, files=files)

    def _where(self, at: Path | None) -> list[str]:
        return [f"--git-dir={self.folder}"] if at is None else ["-C", str(at)]

    def _filters(self, where: Sequence[str]) -> set[str]:
        """Return the filters configured there: a work tree may have a configuration of its own."""
        return alone.filters(self._names(where))

    def _names(self, where: Sequence[str]) -> list[str]:
        """Return the names of the settings that are configured there."""
        return self._run([*where, "config", "--list", "--name-only", "-z"]).decode(errors="surrogateescape").split("\0")

    def _filters_within(self, tree: Path) -> set[str]:
        """Return the filters of a work tree and of the repositories in it that its index names as submodules.

        To tell whether a submodule has changed, git looks at its files, under its configuration and with our settings.
        """
        found, seen, left = set[str](), set[Path](), [tree]
        while left:
            top = left.pop().resolve()  # a link may lead back
            if top not in seen:
                seen.add(top)
                found |= self._filters(self._where(top))
                left += [top / link for link in self._links(top) if os.path.lexists(top / link / ".git")]
        return found

    def _links(self, tree: Path) -> Iterator[str]:
        """Return the paths that the index of a work tree names as submodules."""
        staged = self._run([*self._where(tree), "ls-files", "--stage", "-z"]).decode(errors="surrogateescape")
        return (line.partition("\t")[2] for line in staged.split("\0") if line.startswith(f"{_LINK} "))

    def refuse_filtered(self, paths: Sequence[str], *, at: Path | None = None, index: Mapping[str, str]) -> None:
        """Check that none of these files goes through a filter that the repository configures.

        Args:
            paths: from the top of the repository.
            at: the work tree that they are in; None: a tree that was read into an index.
            index: the variables that name this index.

        Raises:
            GitFault: one does; the stored content would not be the filter's.
        """
        drivers = self._filters(self._where(at)) if paths else set[str]()
        if not drivers:
            return
        cached = () if at is not None else ("--cached",)
        asked = "".join(f"{path}\0" for path in paths).encode(errors="surrogateescape")
        said = self.git("check-attr", *cached, "-z", "--stdin", "filter", told=asked, at=at, variables=index)
        fields = said.decode(errors="surrogateescape").split("\0")
        filtered = {path: driver for path, driver in zip(fields[::3], fields[2::3], strict=False) if driver in drivers}
        if filtered:
            path, driver = next(iter(filtered.items()))
            raise GitFault(
                f"{path} goes through the filter {driver!r}, a program that the repository configures and that is not"
                " run here: nothing was written; change this file by hand, or take it out of the filter",
                path=path,
                filter=driver,
                paths=sorted(filtered),
            )

    def line(self, *arguments: str, told: bytes = b"", variables: Mapping[str, str] | None = None) -> str:
        """Run a git command and return its one line of output."""
        return self.git(*arguments, told=told, variables=variables).decode(errors="replace").strip()

    def _run(
        self,
        arguments: Sequence[str],
        *,
        told: bytes = b"",
        ends: Sequence[int] = (0,),
        variables: Mapping[str, str] | None = None,
        seconds: float = SECONDS,
    ) -> bytes:
        try:
            ended = subprocess.run(  # noqa: S603 - a list of arguments and no shell; outside names come after `--`
                ["git", *arguments],  # noqa: S607 - git is where the user's PATH has it
                input=told,
                env={**self.environment, **(variables or {})},
                capture_output=True,
                check=False,
                timeout=seconds,
            )
        except subprocess.TimeoutExpired:
            raise GitTimeout(f"git {_verb(arguments)} took more than {seconds:g} s and was ended") from None
        if ended.returncode not in ends:
            said = self.without_secrets((ended.stderr or ended.stdout).decode(errors="replace").strip())
            raise GitFault(
                f"git {_verb(arguments)} refused: {said or 'it said nothing'}",
                code=ended.returncode,
                said=said,
                output=ended.stdout,
            )
        return ended.stdout

    def without_secrets(self, text: str) -> str:
        """Return a text without secrets: of the environment, and passwords in addresses."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return _WORD.sub(_without_password, text)

    # ---- refs

    def refs(self, prefix: str) -> dict[str, str]:
        """Return the refs of this name, or below it, with their targets."""
        found = self.git("for-each-ref", "--format=%(refname) %(objectname)", prefix).decode().splitlines()
        return dict(line.split(" ", 1) for line in found)

    def ref(self, name: str) -> str | None:
        """Return a ref's target, or None."""
        return self.refs(name).get(name)

    def move(self, name: str, new: str, old: str | None, *, why: str = "settlemark") -> bool:
        """Move a ref if it still points to `old` (None: there is no such ref); return whether it did."""
        try:
            self.git("update-ref", "-m", why, name, new, old or "")
        except GitFault:
            if self.ref(name) == old:
                raise  # it was not outrun: something else is wrong
            return False
        return True

    def change_refs(self, *commands: str) -> None:
        """Change several refs together: `update NAME NEW`, `create NAME NEW`, `delete NAME`."""
        self.git("update-ref", "--stdin", told="".join(f"{command}\n" for command in commands).encode())

    def named(self, kind: str, name: str) -> str:
        """Return the ref of a branch (`heads`) or a version (`tags`).

        Raises:
            GitFault: git does not accept the name.
        """
        if name.startswith("-"):
            raise GitFault(f"{name!r} is no name that git takes: begin it with a letter or a digit")
        self.git("check-ref-format", f"refs/{kind}/{name}")
        return f"refs/{kind}/{name}"

    def commit_of(self, revision: str) -> str:
        """Return the commit that a revision names."""
        if revision.startswith("-"):
            raise GitFault(f"{revision!r} is no revision", revision=revision)
        return self.line("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")

    def is_ancestor(self, older: str, newer: str) -> bool:
        """Whether a commit is another's ancestor, or itself."""
        return not self.git("rev-list", "-n1", older, f"^{newer}")

    # ---- objects and trees

    def blob(self, content: bytes) -> str:
        """Store a file's content, and return its name."""
        return self.line("hash-object", "-w", "--stdin", told=content)

    def content(self, name: str) -> bytes:
        """Return a file's content."""
        return self.git("cat-file", "blob", name)

    def tree_of(self, commit: str | None) -> str:
        """Return a commit's tree; with None the empty one."""
        return self.line("mktree") if commit is None else self.line("rev-parse", f"{commit}^{{tree}}")

    def entry(self, tree: str, path: str) -> Entry | None:
        """Return the entry at a path, or None."""
        found = self.git("ls-tree", "--full-tree", "-z", tree, "--", path).decode(errors="surrogateescape")
        told, _, name = found.removesuffix("\0").partition("\t")
        if name != path:
            return None
        mode, _, hashed = told.split(" ")
        return Entry(mode, hashed)

    def file(self, tree: str, path: str) -> Entry | None:
        """Return the file at a path, or None.

        Raises:
            GitFault: there is something else: links are not followed, a folder or a submodule is no file.
        """
        found = self.entry(tree, path)
        if found is not None and found.mode not in _FILES:
            raise GitFault(f"{path} is {_KINDS.get(found.mode, 'no file')} here, not a file", path=path)
        if found is None:
            for folder in above(path):
                other = self.entry(tree, folder)
                if other is not None and other.mode != _FOLDER:
                    raise GitFault(f"{folder} is {_KINDS.get(other.mode, 'a file')} here, not a folder", path=path)
        return found

    def changed(self, tree: str, changes: Mapping[str, Entry | None]) -> str:
        """Return a tree with files added, or (None) removed."""
        gone = "0" * len(tree)
        told = "".join(
            f"0 {gone}\t{path}\0" if entry is None else f"{entry.mode} {entry.object}\t{path}\0"
            for path, entry in changes.items()
        )
        with tempfile.TemporaryDirectory(prefix="settlemark-") as folder:
            index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
            self.git("read-tree", tree, variables=index)
            self.refuse_filtered([path for path, entry in changes.items() if entry is not None], index=index)
            self.git("update-index", "-z", "--index-info", told=told.encode(errors="surrogateescape"), variables=index)
            return self.line("write-tree", variables=index)

    def difference(self, old: str, new: str) -> dict[str, tuple[Entry | None, Entry | None]]:
        """Return the files in which two trees differ, with their entries."""
        fields = self.git("diff-tree", "-r", "-z", "--no-renames", old, new).decode(errors="surrogateescape")
        told = fields.split("\0")
        found: dict[str, tuple[Entry | None, Entry | None]] = {}
        for line, path in zip(told[::2], told[1::2], strict=False):
            before, after, was, now, _ = line.removeprefix(":").split(" ")
            found[path] = (_entry(before, was), _entry(after, now))
        return found

    def commit(
        self, tree: str, parents: Sequence[str], message: str, *, variables: Mapping[str, str] | None = None
    ) -> str:
        """Store a commit, and return its name."""
        named = [part for parent in parents for part in ("-p", parent)]
        told = message.encode(errors="backslashreplace")
        return self.line("commit-tree", tree, *named, "-F", "-", told=told, variables=variables)

    def merged(self, ours: str, theirs: str) -> tuple[str | None, list[str]]:
        """Return the tree that two commits merge into, and no conflict; or None and the paths in conflict.

        Lines are merged, whatever merge drivers the repository configures.
        """
        with tempfile.TemporaryDirectory(prefix="settlemark-") as folder:
            alone.make_bare(Path(folder), sha256=len(ours) > _SHA1)
            found = self._run(
                [
                    f"--git-dir={folder}",
                    "merge-tree",
                    "--write-tree",
                    "--allow-unrelated-histories",
                    "-z",
                    "--name-only",
                    "--no-messages",
                    ours,
                    theirs,
                ],
                ends=(0, 1),
                variables={"GIT_OBJECT_DIRECTORY": str(self.folder / "objects")},
            ).decode(errors="backslashreplace")
        tree, *paths = found.rstrip("\0").split("\0")
        return (tree, []) if not paths else (None, sorted(set(paths)))

    def swap(self, name: str, make: Callable[[str | None], str | None], *, why: str, tries: int = 50) -> str | None:
        """Move a ref to the result of `make`, again when another is faster; return its target.

        Raises:
            GitFault: another was faster each time.
        """
        for _ in range(tries):
            old = self.ref(name)
            new = make(old)
            if new is None or new == old or self.move(name, new, old, why=why):
                return new
        raise GitFault(f"{name} was moved by other writers {tries} times: try again later", ref=name)


_windows = threading.Lock()


@contextmanager
def _one_at_a_time(path: Path) -> Generator[None]:
    """Take a lock that one process at a time has, waiting for it; a process that ends loses it."""
    if sys.platform == "win32":
        with _windows:  # within this process
            yield
        return
    import fcntl

    with path.open("wb") as lock:  # the file stays: else a waiter would lock one that nobody else finds
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)  # a child forked meanwhile has it open, too


_OLDEST = (2, 38)
_WHO = (("NAME", 1), ("EMAIL", 2))


def _without_password(word: re.Match[str]) -> str:
    """Return a word without what stands before the last @ of an address: a password may hold what a URL may not."""
    text = word[0]
    begins, ends = text.find("//"), text.rfind("@")
    return f"{text[:begins]}//***{text[ends:]}" if 0 <= begins < ends - 2 else text


def _verb(arguments: Sequence[str]) -> str:
    skipped = iter(arguments)
    for argument in skipped:
        if argument == "-C":
            next(skipped, None)
        elif not argument.startswith("-"):
            return argument
    return ""


def _entry(mode: str, hashed: str) -> Entry | None:
    return None if mode == "000000" else Entry(mode, hashed)


__all__ = ["REGULAR", "SECONDS", "Entry", "Repository"]
