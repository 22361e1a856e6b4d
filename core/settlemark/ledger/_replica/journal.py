"""The shared log: commands of the protocol as text, and a replica that takes what others took.

What a command was refused for where it was taken, it is refused for here, and moves the same. Anything else that keeps
one from being read or taken is a fault: this replica would not be what the others are, so it stops and says where.
"""

from __future__ import annotations

from collections.abc import Iterable

from settlemark._edges.errors import InternalError
from settlemark._edges.wording import in_words, message_of
from settlemark._protocol.commands import Command, decode, encode
from settlemark._protocol.protocol import Protocol

_REMEDY = (
    "nothing behind it was taken: stop what uses this ledger and keep a copy of it; its record can be read still"
    " (`settlemark export`); if another version of settlemark writes to it, have all of one version"
)


def written(commands: Iterable[Command]) -> str:
    """Return commands as the inside of a JSON list."""
    return encode(commands)[1:-1]


def read(text: str, entry: int) -> tuple[Command, ...]:
    """Return the commands of an entry of the log.

    Raises:
        InternalError: it has another form than ours; none of it was taken.
    """
    try:
        return decode(text)
    except (ValueError, RecursionError) as error:  # what msgspec raises, and a scope that is none
        said = message_of(error)
        raise InternalError(f"entry {entry} of the log cannot be read: {said}; {_REMEDY}", entry=entry) from error


def replay(protocol: Protocol, commands: Iterable[Command], entry: int) -> None:
    """Take the commands of an entry that another replica took.

    Raises:
        InternalError: one failed otherwise than by a refusal that it may answer with.
    """
    for number, command in enumerate(commands, 1):
        try:
            protocol.apply(command)
        except command.refusals:
            continue
        except Exception as error:
            kind = type(command).__name__
            raise InternalError(
                f"command {number} of entry {entry} of the log, {kind}, failed where it is taken again:"
                f" {in_words(error)}; {_REMEDY}",
                entry=entry,
                command=command,
            ) from error


__all__ = ["read", "replay", "written"]
