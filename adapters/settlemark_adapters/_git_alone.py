"""Git by itself: what keeps a repository's configuration from having git run programs, or lose what it says is written.

A repository is data that others write: a clone, an agent's folder. Its configuration may name programs (hooks, merge
drivers, filters, diff drivers, a file-system monitor, transports, credential helpers) and git would run them with our
rights. Settings that go before every file of configuration switch off those with one name; those a repository names
itself are switched off by the names found (`filters`), or by having git work where it has no configuration at all
(`make_bare`).

Source: git's own list of what runs programs, git-config(1), gitattributes(5), githooks(5), git-hook(1),
gitremote-helpers(7).
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

SETTINGS: Mapping[str, str] = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.askPass": "",
    "core.alternateRefsCommand": ":",  # an empty one would have the shell run the path behind it
    "credential.helper": "",  # an empty one clears the list, those for an address too
    "commit.gpgSign": "false",
    "tag.gpgSign": "false",
    "push.gpgSign": "false",
    "log.showSignature": "false",
    "merge.renormalize": "false",
    "push.recurseSubmodules": "no",
    "fetch.recurseSubmodules": "false",
    "submodule.recurse": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "core.fsync": "committed",
    "core.protectHFS": "true",
    "core.protectNTFS": "true",
    "core.quotePath": "false",
}
_ENVIRONMENT: Mapping[str, str] = {
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",  # goes before core.sshCommand
    "GIT_PROXY_COMMAND": "",  # goes before core.gitProxy
    "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",  # no ext::, and no helper that remote.*.vcs names
    "GIT_NO_LAZY_FETCH": "1",  # else reading an object may ask a remote for it, by that remote's program
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "false",
    "GIT_SEQUENCE_EDITOR": "false",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
}
_KEPT = ("PATH", "HOME", "TMPDIR", "SSH_AUTH_SOCK", "SYSTEMROOT")
UPLOAD, RECEIVE = "--upload-pack=git-upload-pack", "--receive-pack=git-receive-pack"
"""Options of a command that reaches a remote: they go before remote.*.uploadpack and remote.*.receivepack."""


def environment() -> dict[str, str]:
    """Return the variables under which git runs none of a repository's programs that have one name."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {**kept, **_ENVIRONMENT, **told(SETTINGS)}


def told(settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings as variables, which go before every file of configuration."""
    variables = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (name, value) in enumerate(settings.items()):
        variables |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return variables


def filters(names: Iterable[str]) -> set[str]:
    """Return the filters that names of settings (`filter.lfs.clean`) belong to.

    Its own name may be empty: the attribute `filter=` names that one.

    >>> sorted(filters(["filter.lfs.clean", "filter.a.b.process", "filter..smudge", "filter.clean", "core.bare"]))
    ['', 'a.b', 'lfs']
    """
    return {driver for driver, kind in _named_in("filter", names) if kind in _FILTERS}


def without(drivers: Iterable[str]) -> dict[str, str]:
    """Return settings that switch filters off: git passes files through as they are."""
    off = {f"filter.{driver}.{kind}": "" for driver in sorted(drivers) for kind in _FILTERS}
    return {**off, **{f"filter.{driver}.required": "false" for driver in sorted(drivers)}}


def runs_configured_hooks(path: str | None) -> bool:
    """Whether the git of a PATH runs hooks that a repository's configuration names itself, as git does since 2.54."""
    return version(path) >= _CONFIGURED_HOOKS


def without_hooks(names: Iterable[str]) -> dict[str, str]:
    """Return settings that switch off the hooks that names of settings (`hook.linter.command`) belong to.

    >>> without_hooks(["hook.linter.event", "hook.a.b.command", "hook.linter.command", "hook.jobs", "core.bare"])
    {'hook.a.b.enabled': 'false', 'hook.linter.enabled': 'false'}
    """
    return {f"hook.{hook}.enabled": "false" for hook in sorted({hook for hook, _ in _named_in("hook", names)})}


def _named_in(section: str, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the own name and the setting's, for each that a section of the configuration has of something it names."""
    for name in names:
        if name.startswith(f"{section}."):
            own, dot, setting = name.partition(".")[2].rpartition(".")
            if dot:
                yield own, setting


@cache
def version(_path: str | None) -> tuple[int, ...]:
    """Return the version of the git of a PATH: (2, 39)."""
    told = subprocess.run(["git", "version"], capture_output=True, check=True, text=True).stdout  # noqa: S607 - the user's git
    return tuple(int(number) for number in re.findall(r"\d+", told)[:2])


def make_bare(folder: Path, *, sha256: bool) -> None:
    """Make an empty repository in a folder: to work on another's objects, with none of its configuration."""
    for name in ("objects", "refs"):
        (folder / name).mkdir()
    (folder / "HEAD").write_text("ref: refs/heads/none\n", encoding="ascii")
    kind = "\n[extensions]\nobjectFormat = sha256" if sha256 else ""
    told = f"[core]\nbare = true\nrepositoryFormatVersion = {int(sha256)}{kind}\n"
    (folder / "config").write_text(told, encoding="ascii")


_CONFIGURED_HOOKS = (2, 54)
_FILTERS = ("clean", "smudge", "process")

__all__ = [
    "RECEIVE",
    "SETTINGS",
    "UPLOAD",
    "environment",
    "filters",
    "make_bare",
    "runs_configured_hooks",
    "told",
    "version",
    "without",
    "without_hooks",
]
