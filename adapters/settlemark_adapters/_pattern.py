"""A command with holes in it, and what running it does to the world."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

from settlemark import DeclarationError, EffectClass
from settlemark.hosting import HELD_CLASSES, EffectName

_HOLE = re.compile(r"\{(\w+)(:path)?\}")
_QUOTES = ("'", '"')
_WORD = re.compile(r"[^\s;&|()<>`$\"'\\{}=,]+")
_KILLED, _SIGNALS = 128, 64
_BEFORE = ("\\", "$")
_NO_QUOTES = ("`", "<<", "$((")
_ROLES: tuple[Literal["undo", "probe", "check"], ...] = ("undo", "probe", "check")
REST = "arguments"
_TAKEN = frozenset({REST, "key", "result", "self"})


class Filled(NamedTuple):
    """A command that can be run: its words, or with `sh` the one text for `/bin/sh`."""

    text: str
    sh: bool

    @property
    def words(self) -> list[str]:
        """The words to execute."""
        return ["/bin/sh", "-c", self.text] if self.sh else shlex.split(self.text)


@dataclass(frozen=True)
class Template:
    """A command's text with holes: `{x}` is one word, `{x:path}` one that names a file under the root.

    A `*` at its end stands for any further words. What is filled in is quoted: it is never read as syntax.

    Raises:
        DeclarationError: it cannot be read.

    >>> Template("git log {branch} *").fill({"branch": "a b; rm x", "arguments": ["-n", "1"]}).words
    ['git', 'log', 'a b; rm x', '-n', '1']
    """

    text: str
    sh: bool = False

    def __post_init__(self) -> None:
        try:
            words = shlex.split(self._body)
        except ValueError as error:
            raise self._wrong(f"cannot be split into words ({error})") from error
        if not words or _HOLE.search(words[0]):
            raise self._wrong("does not begin with a program's name")
        quote, escaped = "", False
        for at, character in enumerate(self._body):
            if character in _QUOTES and quote in ("", character) and not escaped:
                quote = "" if quote else character
            escaped = character == "\\" and not escaped and quote != "'"
            # Inside quotes, the value's own quotes would close them.
            if _HOLE.match(self._body, at) and (quote or self._body[at - 1] in _BEFORE):
                raise self._wrong("has a hole in quotes, or behind a $: leave these away, what is filled in is quoted")
        names = [found[1] for found in _HOLE.finditer(self._body)]
        if self.sh and names and any(syntax in self._body for syntax in _NO_QUOTES):
            raise self._wrong(f"has a hole and one of {' '.join(_NO_QUOTES)}, in which quotes do not hold: write $(…)")
        wrong = [name for name in names if name in _TAKEN or not name.isidentifier()]
        if wrong or "*" in self._body.replace("\\*", ""):
            raise self._wrong(f"has a hole named {', '.join(wrong)}" if wrong else "has a `*` that is not at its end")

    def _wrong(self, what: str) -> DeclarationError:
        return DeclarationError(f"the command {self.text!r} {what}", tool=self.text)

    @cached_property
    def rest(self) -> bool:
        """Whether any further words may follow."""
        return self.text.rstrip().endswith("*") and not self.text.rstrip().endswith("\\*")

    @property
    def _body(self) -> str:
        return self.text.rstrip()[:-1].rstrip() if self.rest else self.text.strip()

    @cached_property
    def holes(self) -> dict[str, bool]:
        """Its holes in order, and whether each names a file."""
        return {found[1]: found[2] is not None for found in _HOLE.finditer(self._body)}

    def fill(self, arguments: Mapping[str, Any]) -> Filled:
        """Return the command for these arguments, which the shell adapter has checked."""
        filled = _HOLE.sub(lambda hole: shlex.quote(arguments[hole[1]]), self._body)
        rest: list[str] = list(arguments.get(REST) or ()) if self.rest else []
        return Filled(" ".join([filled, *map(shlex.quote, rest)]), self.sh)

    def match(self, words: list[str]) -> dict[str, Any] | None:
        """Return the arguments that make these words, or None.

        >>> Template("mkdir {path:path}").match(["/bin/mkdir", "a"])
        {'path': 'a'}
        """
        mine = shlex.split(self._body)
        if not words or len(words) < len(mine) or (len(words) > len(mine) and not self.rest):
            return None
        found: dict[str, Any] = {}
        for own, word in zip(mine, [basename(words[0]), *words[1:]], strict=False):
            parts = _HOLE.split(own)
            spelled = "".join("(.*)" if n % 3 == 1 else re.escape(p or "") for n, p in enumerate(parts) if n % 3 < 2)  # noqa: PLR2004 - text, name, `:path`; and again
            match = re.fullmatch(spelled, word, re.DOTALL)
            if match is None:
                return None
            found |= dict(zip(parts[1::3], match.groups(), strict=True))
        return found | ({REST: words[len(mine) :]} if self.rest else {})

    def is_mentioned(self, words: list[str]) -> bool:
        """Whether its fixed words occur among these, in order: after `env`, in `sh -c`, with options between.

        >>> Template("git push *").is_mentioned(mentioned("sudo sh -c 'git -C x push'"))
        True
        """
        fixed = [word for word in shlex.split(self._body) if not _HOLE.search(word)]
        left = iter(words)
        return all(word in left for word in map(basename, fixed))


def basename(word: str) -> str:
    """Return a program's name without its folders."""
    return word.rpartition("/")[2] or word


def mentioned(command: str) -> list[str]:
    """Return every word in a command, however nested."""
    try:
        outer = shlex.split(command)
    except ValueError:
        outer = []
    return [basename(word) for text in (*outer, *([] if outer else [command])) for word in _WORD.findall(text)]


def one_word(tool: str, argument: str, value: Any) -> str:
    """Return a text that can be an argument of a program.

    Raises:
        ValueError: it is no text, or has a NUL.
    """
    if not isinstance(value, str):
        raise ValueError(f"{tool}: {argument}={value!r}: give text")  # noqa: TRY004 - for a model it is one of its mistakes
    try:
        ends_early = b"\0" in value.encode()
    except UnicodeEncodeError:
        ends_early = True
    if ends_early:
        raise ValueError(f"{tool}: {argument}={value!r} has a character that no program can be given: nothing was run")
    return value


@dataclass(frozen=True)
class Pattern:
    """A kind of command, as a tool of its own, and what it does.

    Args:
        command: its template: `"git status *"`, `"mkdir {path:path}"`; see `Template`.
        kind: its effect class.
        name: the tool's name; by default the command's fixed words: `git_status`.
        scope: the resource it acts on, a template over its holes. For a hole `{x:path}` it gets the file's own path
            under the root, so that two spellings of one are one.
        undo: for a reversible one, the command that takes it back. It is run again when it failed, and in another
            process after a crash: repeating it must do no harm.
        probe: a command whose exit status says whether it happened: 0 yes, 1 no, another: unknown. It is asked only
            about a command that was cut off: the outcome of others is known by their key.
        check: a command whose status must be 0 before it is run: what an undo would wrongly remove (a folder that was
            there before) is refused here, as in `check="test ! -e {path}"`.
        sh: run by `/bin/sh`, so that pipes and the like work in the template (never in filled-in values).
        done: the exit statuses that say it is done.
        refused: those that say it did nothing; by default all others. A status in neither leaves it unknown.
        description: what a model is told; by default the command.
        parts: further parts of its declaration: `cost`, `approve`, `may_touch`, `valid_for`, …

    Raises:
        DeclarationError: a command cannot be read, or asks for a value that the first has no hole for.
    """

    command: str
    kind: EffectName
    name: str = ""
    scope: str | None = None
    undo: str | None = None
    probe: str | None = None
    check: str | None = None
    sh: bool = False
    done: Collection[int] = (0,)
    refused: Collection[int] | None = None
    description: str = ""
    parts: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        known = {*self.template.holes, *([REST] if self.template.rest else [])}
        for role in _ROLES:
            template = self.other(role)
            unknown = [] if template is None else [hole for hole in template.holes if hole not in known]
            if unknown or (template is not None and template.rest):
                asked = ", ".join(map(repr, unknown)) or "'*'"
                raise DeclarationError(
                    f"{role}= of {self.tool} asks for {asked}, which {self.command!r} has no hole for", tool=self.tool
                )

    @cached_property
    def template(self) -> Template:
        """Its command, to be filled."""
        return Template(self.command, self.sh)

    def other(self, role: Literal["undo", "probe", "check"]) -> Template | None:
        """Return the command of one of its handlers."""
        text: str | None = getattr(self, role)
        return None if text is None else Template(text, self.sh)

    @cached_property
    def tool(self) -> str:
        """Its tool's name."""
        fixed = [word for word in shlex.split(self.command) if not _HOLE.search(word)]
        return self.name or re.sub(r"\W+", "_", " ".join(map(basename, fixed))).strip("_")

    @property
    def held(self) -> bool:
        """Whether it waits for the commit."""
        return EffectClass(self.kind) in HELD_CLASSES

    @property
    def reads(self) -> bool:
        """Whether it changes nothing."""
        return EffectClass(self.kind) is EffectClass.READ

    def says_no(self, status: int) -> bool:
        """Whether an exit status says that it did nothing."""
        killed = status < 0 or _KILLED < status <= _KILLED + _SIGNALS  # the latter as `/bin/sh` reports it
        return status not in self.done and not killed and (self.refused is None or status in self.refused)

    @cached_property
    def signature(self) -> inspect.Signature:
        """The signature of its tool."""
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        holes = [inspect.Parameter(hole, kind, annotation=str) for hole in self.template.holes]
        rest = [inspect.Parameter(REST, kind, annotation=list[str] | None, default=None)] if self.template.rest else []
        return inspect.Signature([*holes, *rest], return_annotation=dict[str, Any])

    @property
    def doc(self) -> str:
        """The description for a model."""
        told = {hole: "a path under the root" if path else "one word" for hole, path in self.template.holes.items()}
        told |= {REST: "what follows"} if self.template.rest else {}
        lines = [f"    {name}: {what}." for name, what in told.items()]
        first = self.description or f"Run `{self.command}`."
        return "\n".join([first, "", "Args:", *lines] if lines else [first])


__all__ = ["REST", "Filled", "Pattern", "Template", "basename", "mentioned", "one_word"]
