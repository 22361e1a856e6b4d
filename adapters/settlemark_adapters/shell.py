"""Commands: any one as an opaque effect, and declared patterns as tools of their own.

A command line can do anything, so its scope and its undo are unknown: it is opaque. A `Pattern` declares one kind of
command, whose arguments are quoted and never read as syntax. Confined are the folder a command starts in, the paths
that fill a pattern, and the environment; what a program then reaches is the operating system's to confine.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import shlex
import shutil
from collections.abc import Callable, Generator, Iterable, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple, cast

from settlemark import UNKNOWN, DeclarationError, Scope, ScopeTemplate, Settlement
from settlemark_adapters._adapter import Adapter, Operation, Parts, operation
from settlemark_adapters._marks import Mark, Marks, StillRunning
from settlemark_adapters._pattern import REST, Filled, Pattern, Template, basename, mentioned, one_word
from settlemark_adapters._running import CommandFailed, CommandTimeout, CommandUnknown, checked_environment, run
from settlemark_adapters._spans import span

_PATH = "/usr/local/bin:/usr/bin:/bin"
_OPERATORS = frozenset({"|", "||", "&", "&&", ";", "<", ">", ">>", "<<", "2>", "2>&1", "2>>", "&>"})
_SYNTAX = frozenset(";&|<>()`$\n")
_YES, _NO = 0, 1
_SHOWN = 500
_DAY = 86_400.0
OWN = ".settlemark"


class _Running(NamedTuple):
    """The running call: its key, its mark, and whether an earlier try has done it."""

    key: str
    mark: Mark
    done: bool


_running: ContextVar[_Running | None] = ContextVar("settlemark_running_command", default=None)


class Shell(Adapter):
    r"""The tool `run_command`, and one for each pattern.

    Args:
        root: the folder that commands run in.
        settlement: as for every adapter.
        patterns: the kinds of commands that are declared. What one of them says is refused by `run_command`, with the
            tool to use; of a held one (irreversible or staged) already its words in their order are, anywhere in a
            command. This keeps a model from a mistake; who must not have a right at all must not be given it: run
            without its secrets, or leave `run_command` away (`tools("git_status", …)`).
        environment: the variables of commands. They inherit nothing but these, `PATH` (the system's), `HOME` (the
            root), `LANG`, and `SETTLEMARK_KEY`: the call's idempotency key, for a program that can use one.
        secrets: more variables, whose values are blotted out in whatever a command writes.
        sh: let `run_command` hand its text to `/bin/sh`. Without, it is split into words, and syntax is refused.
        timeout: seconds after which a command is killed, with all it has started in its process group.
        most_output: how many bytes of its output, and of its errors, are kept: the first and the last.
        keep_days: how long it is known by its key what became of a declared command, in `.settlemark` under the root.
        options: `name` and `effects`, as for every adapter.

    Raises:
        NotADirectoryError: the root is none.
        DeclarationError: two patterns make one tool, or one of them contradicts itself.

    >>> import tempfile
    >>> root = tempfile.mkdtemp()
    >>> settlement = Settlement("memory:")
    >>> folder = Pattern("mkdir {path:path}", "reversible", scope="file:/{path:path}", undo="rmdir {path}")
    >>> shell = Shell(root, settlement, patterns=[folder, Pattern("ls *", "read")])
    >>> mkdir, ls = shell.tools("mkdir", "ls")
    >>> with settlement.transaction("tidy") as tx:
    ...     tx.call(mkdir, path="inbox")["exit_code"], tx.call(ls)["stdout"]
    (0, 'inbox\n')
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        settlement: Settlement | None = None,
        *,
        patterns: Iterable[Pattern] = (),
        environment: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
        sh: bool = False,
        timeout: float = 60.0,
        most_output: int = 65_536,
        keep_days: float = 30.0,
        **options: Any,
    ) -> None:
        self.root = Path(root).resolve()
        if not self.root.is_dir():
            raise NotADirectoryError(f"the root {self.root} of a Shell is no folder: make it first")
        self._patterns = list(patterns)
        basic = {"PATH": _PATH, "HOME": str(self.root), "LANG": "C.UTF-8"}
        self._environment = basic | checked_environment("environment", environment or {})
        self._environment |= checked_environment("secrets", secrets or {})
        self._hidden = [value.encode() for value in (secrets or {}).values()]
        self._sh, self._timeout, self._most = sh, span("timeout", timeout), most_output
        self._own = self.root / OWN
        self._keep = span("keep_days", keep_days, "days") * _DAY
        self._marks = Marks(self._own / "commands", self._keep)
        super().__init__(settlement, **options)

    def operations(self) -> dict[str, Operation[Any, Any]]:
        """Return `run_command` and a tool for each pattern."""
        found = super().operations()
        for pattern in self._patterns:
            if pattern.tool in found:
                raise DeclarationError(
                    f"two patterns of this Shell make the tool {pattern.tool}: give {pattern.command!r} a name=",
                    tool=pattern.tool,
                )
            found[pattern.tool] = self._declared(pattern)
        return found

    # ---- any command

    def _free(self, command: Any, directory: Any = ".") -> None:
        filled, where = self._line(command), self._inside("run_command", directory)
        self._refuse_declared(command, filled)
        self._find("run_command", filled, where)

    @operation("run_command", "opaque", check=_free)
    def run(self, command: str, directory: str = ".") -> dict[str, Any]:
        """Run one command, and return its exit code and output. It cannot be taken back.

        Args:
            command: the program and its arguments. Pipes, redirections and variables may not be allowed here.
            directory: the folder to run it in, a path under the root.
        """
        self._free(command, directory)
        return self._run("run_command", self._line(command), self.key, self._inside("run_command", directory))

    def _line(self, command: Any) -> Filled:
        """Return a valid command line.

        Raises:
            ValueError: it is invalid.
        """
        text = one_word("run_command", "command", command)
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise ValueError(f"run_command: {text!r} cannot be split into words ({error}): nothing was run") from error
        if not words or not words[0]:
            raise ValueError("run_command: command= is empty: nothing was run")
        if not self._sh and _OPERATORS & set(text.split()):
            raise ValueError(
                f"run_command: there is no shell here to read {text!r}: nothing was run; run one command at a time,"
                " without pipes and redirections"
            )
        return Filled(text, self._sh)

    def _refuse_declared(self, command: str, filled: Filled) -> None:
        plain = not (filled.sh and _SYNTAX & set(command))
        for pattern in self._patterns:
            arguments = pattern.template.match(shlex.split(command)) if plain else None
            if arguments is not None:
                spelled = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
                raise PermissionError(
                    f"run_command: {command!r} is declared: nothing was run; call"
                    f" {self._prefix}{pattern.tool}({spelled})"
                )
            if pattern.held and pattern.template.is_mentioned(mentioned(command)):
                raise PermissionError(
                    f"run_command: {command!r} speaks of `{pattern.command}`, which waits until its step settles:"
                    f" nothing was run; call {self._prefix}{pattern.tool}, or say it in other words"
                )

    # ---- declared patterns

    def _declared(self, pattern: Pattern) -> Operation[Any, Any]:
        """Return the tool of a pattern."""

        def acting(_self: Shell, *args: Any, **kwargs: Any) -> dict[str, Any]:
            return self._act(pattern, dict(pattern.signature.bind(*args, **kwargs).arguments))

        method: Any = acting
        own = list(pattern.signature.parameters.values())
        first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
        method.__name__, method.__doc__ = pattern.tool, pattern.doc
        method.__annotations__ = {p.name: p.annotation for p in own} | {"return": dict[str, Any]}
        method.__signature__ = pattern.signature.replace(parameters=[first, *own])  # what inspect.signature looks for
        roles = ["check", *(["scope"] if pattern.scope else []), *(["undo"] if pattern.undo else [])]
        parts: dict[str, Any] = {"unknown": (CommandUnknown, StillRunning)}
        if not pattern.reads:
            roles += ["around", "probe"]
            parts["window"] = self._keep
        handlers = {role: self._handler(role, pattern) for role in roles}
        return Operation(pattern.tool, pattern.kind, cast("Parts", {**parts, **handlers, **pattern.parts}), method)

    def _handler(self, role: str, pattern: Pattern) -> Callable[..., Any]:
        method: Callable[..., Any] = getattr(self, f"_{role}")

        def asked(**given: Any) -> Any:
            return method(pattern, given)

        def keyed(key: str, **given: Any) -> Any:
            return method(pattern, given, key)

        made = asked if role in ("check", "scope") else keyed
        made.__name__ = made.__qualname__ = f"{pattern.tool}.{role}"
        return made

    def _check(self, pattern: Pattern, given: dict[str, Any]) -> None:
        self._check_words(pattern, given)
        self._find(pattern.tool, pattern.template.fill(given), self.root)

    @contextlib.contextmanager
    def _around(self, pattern: Pattern, given: dict[str, Any], key: str) -> Generator[None]:
        """Mark the call on disk before it acts: the mark tells later processes the outcome."""
        self._check_words(pattern, given)
        with self._marks.held(key) as mark:
            told = mark.told()
            done = told.status in pattern.done and not told.undone
            if not done:
                self._demand(pattern, given, key)
                mark.begin()
            token = _running.set(_Running(key, mark, done=done))
            try:
                yield
                if mark.told().status is None:  # a user's own function has acted
                    self._end(pattern, mark)
            finally:
                _running.reset(token)

    def _end(self, pattern: Pattern, mark: Mark) -> None:
        try:
            mark.end(min(pattern.done))
        except OSError as error:
            raise CommandUnknown(f"{pattern.tool} has acted, and that is not on record: {error}; look at it") from error

    def _demand(self, pattern: Pattern, given: dict[str, Any], key: str) -> None:
        asked = pattern.other("check")
        if asked is not None and self._status(pattern, asked, given, key) != _YES:
            raise CommandFailed(
                f"{pattern.tool}: `{asked.fill(given).text}` says no: nothing was run; look what is there",
                exit_code=_NO,
            )

    def _act(self, pattern: Pattern, given: dict[str, Any]) -> dict[str, Any]:
        self._check_words(pattern, given)
        command, running = pattern.template.fill(given), _running.get()
        if pattern.reads or running is None:
            result = self._run(pattern.tool, command, self.key, self.root)
        elif running.done:
            return _recorded(pattern)
        else:
            result = self._run(pattern.tool, command, running.key, self.root, running.mark)
        code = result["exit_code"]
        if pattern.reads or code in pattern.done:
            return result
        said = " ".join((result["stderr"] or result["stdout"]).split())[-_SHOWN:] or "it wrote nothing"
        told = {name: result[name] for name in ("exit_code", "stdout", "stderr")}
        if pattern.says_no(code):
            raise CommandFailed(f"{pattern.tool}: `{pattern.command}` exited with {code}: {said}", **told)
        raise CommandUnknown(
            f"{pattern.tool}: `{pattern.command}` ended with {code}, which does not say if it is done: {said}", **told
        )

    def _undo(self, pattern: Pattern, given: dict[str, Any], key: str) -> None:
        undo = pattern.other("undo")
        with self._marks.held(key) as mark:
            if undo is None or mark.told().undone:
                return
            probe = pattern.other("probe")
            if probe is not None and self._status(pattern, probe, given, key) == _NO:
                mark.end(_YES, undo=True)  # it is undone: the process that did so died before recording it
                return
            result = self._run(f"the undo of {pattern.tool}", undo.fill(given), key, self.root, mark, undo=True)
        if result["exit_code"] != _YES:
            raise CommandFailed(
                f"the undo `{undo.fill(given).text}` of {pattern.tool} exited with {result['exit_code']}:"
                f" {result['stderr'][-_SHOWN:].strip()}",
                **{name: result[name] for name in ("exit_code", "stdout", "stderr")},
            )

    def _probe(self, pattern: Pattern, given: dict[str, Any], key: str) -> Any:
        """Return the result when it happened, None when it surely did not, else `UNKNOWN`."""
        told = self._marks.told(key)
        if told.running:
            return UNKNOWN
        if not told.began or told.undone or (told.status is not None and pattern.says_no(told.status)):
            return None
        if told.status in pattern.done:
            return _recorded(pattern)
        probe = pattern.other("probe")
        status = None if probe is None else self._status(pattern, probe, given, key)
        return _recorded(pattern) if status == _YES else None if status == _NO else UNKNOWN

    def _status(self, pattern: Pattern, command: Template, given: dict[str, Any], key: str) -> int:
        return int(self._run(pattern.tool, command.fill(given), key, self.root)["exit_code"])

    def _scope(self, pattern: Pattern, given: dict[str, Any]) -> Scope:
        template, values = ScopeTemplate.parse(pattern.scope or ""), dict(given)
        for hole, is_path in pattern.template.holes.items():
            if is_path and hole in values:
                values[hole] = self._inside(pattern.tool, values[hole], hole).relative_to(self.root).as_posix()
                if values[hole] == "." and hole in template.fields:
                    return Scope.parse(template.text.partition(f"{{{hole}")[0])  # the root, and everything below it
        return template.fill(values)

    def _check_words(self, pattern: Pattern, given: dict[str, Any]) -> None:
        """Refuse values that must not fill a pattern.

        Raises:
            ValueError: one is no text, or would be an option.
            PermissionError: a path leads out of the root.
        """
        for hole, is_path in pattern.template.holes.items():
            word = one_word(pattern.tool, hole, given[hole])
            if word.startswith("-") or not word:
                raise ValueError(
                    f"{pattern.tool}: {hole}={word!r} {'would be an option' if word else 'is empty'}: nothing was run;"
                    f" {'write ./' + word if is_path and word else 'name what is meant'}"
                )
            if is_path and self._own in (found := self._inside(pattern.tool, word, hole), *found.parents):
                raise PermissionError(
                    f"{pattern.tool}: {hole}={word!r} is where settlemark keeps what undoing needs: nothing was run;"
                    " choose another name"
                )
        following: list[Any] = given.get(REST) or []
        for word in following:
            one_word(pattern.tool, REST, word)

    # ---- the system

    def _inside(self, tool: str, path: Any, argument: str = "directory") -> Path:
        """Return a path under the root, with its links followed.

        Raises:
            PermissionError: it leads out of it.
        """
        found = (self.root / one_word(tool, argument, path)).resolve()
        if not found.is_relative_to(self.root):
            raise PermissionError(f"{tool}: {argument}={path!r} leads out of {self.root}: nothing was run; stay inside")
        return found

    def _find(self, tool: str, command: Filled, where: Path) -> None:
        """Refuse what cannot be started.

        Raises:
            NotADirectoryError: there is no such folder. FileNotFoundError: there is no such program.
        """
        program = command.words[0]
        if not where.is_dir():
            raise NotADirectoryError(f"{tool}: {where} is no folder: nothing was run; name one under {self.root}")
        found = str(where / program) if "/" in program else program
        if shutil.which(found, path=self._environment["PATH"]) is None:
            raise FileNotFoundError(
                f"{tool}: there is no program {program!r} here: nothing was run; PATH is {self._environment['PATH']}"
            )

    def _run(
        self, tool: str, command: Filled, key: str, where: Path, mark: Mark | None = None, *, undo: bool = False
    ) -> dict[str, Any]:
        words = command.words
        if mark is not None:
            found = shutil.which(words[0], path=self._environment["PATH"])
            words = [found if found is not None and Path(found).is_absolute() else words[0], *words[1:]]
        try:
            return run(
                words if mark is None else mark.wrapped(words, undo=undo),
                where=where,
                environment=self._environment | {"SETTLEMARK_KEY": key},
                timeout=self._timeout,
                most=self._most,
                hidden=self._hidden,
                inherited=() if mark is None else (mark.fd,),
            )
        except CommandTimeout as late:
            said = f"{tool}: {basename(words[0])} was killed after {self._timeout:g} s: how far it came is unknown"
            raise CommandTimeout(said, stdout=late.stdout, stderr=late.stderr) from None
        except OSError as error:
            raise CommandFailed(
                f"{tool}: {basename(words[0])} could not be started ({error.strerror}): nothing was run",
                exit_code=-1,
            ) from error


def _recorded(pattern: Pattern) -> dict[str, Any]:
    """Return the result of a command that is known to be done, without its lost output."""
    return {"exit_code": min(pattern.done), "stdout": "", "stderr": "", "truncated": False}


__all__ = ["CommandFailed", "CommandTimeout", "CommandUnknown", "Pattern", "Shell", "StillRunning"]
