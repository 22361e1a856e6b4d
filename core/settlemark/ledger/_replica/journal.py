"""The shared log: the protocol's commands as text, and a replica that applies others' commands.

A command that was refused where it was taken is refused here too, and moves the same. Any other error while reading or
applying one is a fault: this replica would differ from the others, so it stops and says where.
"""

from __future__ import annotations

from collections.abc import Iterable

from settlemark._edges.errors import InternalError
from settlemark._edges.wording import in_words, message_of
from settlemark._protocol.commands import Command, decode, encode
from settlemark._protocol.protocol import Protocol

_REMEDY = (
    "nothing after it was applied: stop what uses this ledger and keep a copy of it; its record is still readable"
    " (`settlemark export`); if another version of settlemark writes to it, use one version everywhere"
)


def written(commands: Iterable[Command]) -> str:
    """Return commands as the inside of a JSON list."""
    return encode(commands)[1:-1]


def read(text: str, entry: int) -> tuple[Command, ...]:
    """Return the commands of an entry of the log.

    Raises:
        InternalError: it has an unknown form; none of it was applied.
    """
    try:
        return decode(text)
    except (ValueError, RecursionError) as error:  # from msgspec, or a malformed scope
        said = message_of(error)
        raise InternalError(f"entry {entry} of the log cannot be read: {said}; {_REMEDY}", entry=entry) from error


def replay(protocol: Protocol, commands: Iterable[Command], entry: int) -> None:
    """Apply the commands of an entry that another replica took.

    Raises:
        InternalError: one failed with an error that is none of its refusals.
    """
    for number, command in enumerate(commands, 1):
        try:
            protocol.apply(command)
        except command.refusals:
            continue
        except Exception as error:
            kind = type(command).__name__
            raise InternalError(
                f"command {number} of entry {entry} of the log, {kind}, failed when applied here: {in_words(error)};"
                f" {_REMEDY}",
                entry=entry,
                command=command,
            ) from error


__all__ = ["read", "replay", "written"]
