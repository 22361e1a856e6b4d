"""A counterparty's log of accesses in the format of Elle, an independent checker of isolation.

Elle learns the order of writes from reads, so each scope becomes a list: a write appends its place in the log to the
list, and a read returns the list as it was (Elle's `list-append` model, which gives it the order of all writes). So
Elle derives from the lists the order that `serializability` derives from the log, by other means.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from typing import Any

from settlemark._model.scope import Scope
from settlemark.history._detect.serializability import Access, Line, lines

Step = list[Any]
_Party = tuple[Scope, str, Hashable]
"""A scope, for all its reads and plain writes; or with a group, a transaction that writes there what commutes."""


def elle_history(log: Iterable[Access], committed: Collection[Hashable] | None = None) -> list[dict[str, Any]]:
    """Return a log as the operations of an Elle history, as plain JSON: `elle-cli --model list-append FILE.json`.

    Each transaction is one operation, on a process of its own; its name is in `transaction`, which Elle ignores. A last
    one, without a name, reads every list at the end, so that the order of all writes is known. The log does not tell
    when a transaction was asked for or answered: all are given as concurrent, so that Elle adds no order of real time,
    and its default, strict serializability, checks the same as `serializability`.

    Scopes that overlap without being equal become a list for each such pair, called `one {and} other`, to which both
    write and which both read: so Elle sees exactly the real conflicts, and none between two children of one parent.

    Elle takes every append to a list for ordered, so writes that commute share none: each transaction that has some of
    a group on a scope has lists of its own, one with each that it conflicts with; `{adds from 7}` in the name of a list
    tells the place of the first of them.

    A read holds all the writes before it: the history grows with the reads of a scope times its writes.

    Args:
        log: the accesses in the order in which the counterparty saw them.
        committed: the transactions that count, as for `serializability`; all of them by default. The others are left
            out, so that Elle cannot tell whether one of their writes was read (its `G1a`).

    Raises:
        ScopeError: a scope is malformed.
        ValueError: a read has a group.

    >>> log = [Access("a", "write", "seat:/7"), Access("b", "read", "seat:/7")]
    >>> for operation in elle_history(log)[3:]:
    ...     print(operation["type"], operation["transaction"], operation["value"])
    ok a [['append', 'seat:/7', 1]]
    ok b [['r', 'seat:/7', [1]]]
    ok None [['r', 'seat:/7', [1]]]
    """
    accesses = lines(log, committed)
    keys = _keys(accesses)
    lists: dict[str, list[int]] = {key: [] for names in keys.values() for key in names}
    steps: dict[Hashable, list[Step]] = {}
    for line in accesses:
        mine = steps.setdefault(line.transaction, [])
        for key in keys[_party(line)]:
            if line.kind == "write":
                lists[key].append(line.place)
                mine.append(["append", key, line.place])
            else:
                mine.append(["r", key, lists[key].copy()])
    operations: list[tuple[str | None, list[Step]]] = [(str(name), mine) for name, mine in steps.items()]
    if lists:
        operations.append((None, [["r", key, elements] for key, elements in lists.items()]))
    asked = [("invoke", name, [_asked(step) for step in mine]) for name, mine in operations]
    answered = [("ok", name, mine) for name, mine in operations]
    return [
        {
            "index": index,
            "process": index % len(operations),
            "type": kind,
            "f": "txn",
            "value": mine,
            "transaction": name,
        }
        for index, (kind, name, mine) in enumerate(asked + answered)
    ]


def _party(line: Line) -> _Party:
    """Return whom an access belongs to: those of one party may share a list."""
    return (line.scope, line.group, line.transaction) if line.group else (line.scope, "", None)


def _keys(accesses: Collection[Line]) -> dict[_Party, list[str]]:
    """Return the lists that each party stands for: two of them share one exactly when some of theirs conflict."""
    first: dict[_Party, Line] = {}
    alike: dict[tuple[Scope, str], tuple[Line, list[_Party]]] = {}
    for line in accesses:
        party = _party(line)
        if party not in first:
            first[party] = line
            alike.setdefault((line.scope, line.group), (line, []))[1].append(party)
    # No scope's text has a brace, so no scope has the name of one of these.
    names = {
        party: f"{line.scope.text} {{adds from {line.place}}}" if line.group else line.scope.text
        for party, line in first.items()
    }
    keys: dict[_Party, list[str]] = {}
    for one, parties in alike.values():
        others = [
            names[party]
            for other, theirs in alike.values()
            if other is not one and other.scope.overlaps(one.scope)
            for party in theirs
        ]
        for party in parties:
            keys[party] = [" {and} ".join(sorted((names[party], other))) for other in others] or [names[party]]
    return keys


def _asked(step: Step) -> Step:
    """Return an operation as it was invoked: a read's result is not known yet."""
    return [step[0], step[1], None] if step[0] == "r" else step


__all__ = ["elle_history"]
