"""A remote: sending, and checking what has arrived."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

from settlemark_adapters._git_alone import RECEIVE, UPLOAD
from settlemark_adapters.git._faults import GitFault, GitTimeout, PushRefused, RemoteLost
from settlemark_adapters.git._marks import mark, marked
from settlemark_adapters.git._repository import SECONDS, Repository
from settlemark_adapters.git._work import message, named, trailers

_REJECTED = re.compile(r"^!\t[^\t]*\t(.*)$", re.MULTILINE)
_PORT = re.compile(r":\d*$")


class Remote:
    """One remote, by a name of the repository's configuration or by its address.

    Args:
        repository: the sending repository.
        address: its name or address; a password in it is never shown.
        seconds: after which a command is killed.
    """

    def __init__(self, repository: Repository, address: str, *, seconds: float = SECONDS) -> None:
        if address.startswith("-") or not address:
            raise GitFault(f"remote={address!r}: give a name or an address")
        self._repository = repository
        self._address = address
        self._seconds = seconds
        self.name = repository.without_secrets(address)

    def places(self) -> list[str]:
        """Return what it is sent to: a repository's path, or its host and path there, however it is spelled.

        Neither the user, the protocol and its port, nor `.git` tell two repositories apart: two that are taken for one
        only wait for each other.
        """
        told = self._repository.git("remote", "get-url", "--push", "--all", self._address, ends=(0, 2, 128))
        told = told or self._repository.git("ls-remote", "--get-url", self._address)
        places = {self._place(os.fsdecode(url)) for url in told.splitlines()}
        return sorted(os.fsencode(place).decode(errors="backslashreplace") for place in places)

    def _place(self, url: str) -> str:
        network = _network(url)
        if network is not None:
            host, path = network
            return f"{host.lower().rstrip('.')}/{path.strip('/').removesuffix('.git').rstrip('/')}"
        path = unquote(url.removeprefix("file://")) if url.startswith("file://") else url
        for spelled in (path, f"{path.rstrip('/')}.git"):
            with suppress(GitFault):
                return str(self._repository.kept_in(spelled))
        return str(Path(path).resolve())

    def look(self, ref: str) -> str | None:
        """Return what a ref of the remote points to, or None.

        Raises:
            GitFault: it cannot be asked.
            GitTimeout: it did not answer.
        """
        told = self._repository.git("ls-remote", UPLOAD, "--", self._address, ref, seconds=self._seconds).decode()
        found = (line.split("\t", 1) for line in told.splitlines())
        return next((object_ for object_, name in found if name == ref), None)

    def send(self, key: str, object_: str, ref: str) -> None:
        """Move a ref of the remote to this, if nothing is lost there by it; a second time does nothing.

        Raises:
            PushRefused: it refused.
            GitFault: it cannot be reached; nothing was sent.
            RemoteLost, GitTimeout: whether it arrived is unknown.
        """
        try:
            now = self.look(ref)
        except GitTimeout as error:
            raise GitFault(f"{self.name} does not answer: nothing was sent ({error})", remote=self.name) from None
        if now is not None and self._contains(now, object_, ref):
            return
        mark(self._repository, "sent", key, object_)  # before it is sent: the probe looks for this mark
        try:
            self._repository.git(
                "push",
                "--porcelain",
                "--no-verify",
                RECEIVE,
                "--",
                self._address,
                f"{object_}:{ref}",
                seconds=self._seconds,
            )
        except GitFault as fault:
            reasons = _REJECTED.findall(fault.output.decode(errors="replace"))
            if not reasons:
                raise RemoteLost(f"the connection to {self.name} broke: {fault.said}") from None
            reason = self._repository.without_secrets(reasons[0])
            raise PushRefused(
                f"{self.name} refuses {ref}: {reason}; nothing was changed there; fetch what it has, and plan again",
                remote=self.name,
                ref=ref,
                reason=reason,
            ) from None

    def publish(self, key: str, version: str, commit: str, text: str) -> str:
        """Tag a commit as a version, here and there, and return the tag; the same again under its key.

        Raises:
            GitFault: there is such a version. Else as `send`; if nothing was sent there is no tag here either.
        """
        ref, repository = f"refs/tags/{version}", self._repository
        known, tag = repository.ref(ref), marked(repository, "sent", key)
        if known not in (None, tag):
            raise GitFault(f"there is a version {version} already: choose another name", version=version)
        if tag is None:
            who = repository.line("var", "GIT_COMMITTER_IDENT")
            told = f"object {commit}\ntype commit\ntag {version}\ntagger {who}\n\n"
            told += message(text, trailers(decision=named(key)))
            tag = repository.line("mktag", told=told.encode(errors="backslashreplace"))
            mark(repository, "sent", key, tag)
        if known is None and not repository.move(ref, tag, None, why=f"settlemark: {named(key)}"):
            raise GitFault(f"there is a version {version} by now: choose another name", version=version)
        try:
            self.send(key, tag, ref)
        except GitFault:
            repository.change_refs(f"delete {ref} {tag}")
            raise
        return tag

    def arrived(self, key: str, ref: str) -> str | None:
        """Return what was sent under a key if the remote has it, else None."""
        object_ = marked(self._repository, "sent", key)
        if object_ is None:
            return None
        now = self.look(ref)
        return object_ if now is not None and self._contains(now, object_, ref) else None

    def _contains(self, now: str, object_: str, ref: str) -> bool:
        """Whether the remote has this, or something built upon it."""
        if now == object_ or ref.startswith("refs/tags/"):
            return now == object_
        self._repository.git(
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            UPLOAD,
            "--",
            self._address,
            ref,
            seconds=self._seconds,
        )
        return self._repository.is_ancestor(object_, now)


def _network(url: str) -> tuple[str, str] | None:
    """Return the host of an address and the path there; None for a path on this machine.

    >>> _network("git@host.example:team/x.git"), _network("https://ada:pw@host.example:443/team/x"), _network("../x")
    (('host.example', 'team/x.git'), ('host.example', 'team/x'), None)
    """
    protocol, begun, rest = url.partition("://")
    if begun:
        # A password may hold what a URL may not: a slash, an @.
        host, _, path = rest.rpartition("@")[2].partition("/")
        return None if protocol == "file" else (_PORT.sub("", host), unquote(path))
    before, colon, path = url.partition(":")
    return None if not colon or "/" in before else (before.rpartition("@")[2], path)


__all__ = ["Remote"]
