"""A journal of accounts: an entry with its lines is one commit, and debits always equal credits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, ClassVar, cast

from settlemark_adapters.records._entity import Entity
from settlemark_adapters.records._errors import BadRecord
from settlemark_adapters.records._money import amount, cents, plain, total
from settlemark_adapters.records._records import Records
from settlemark_adapters.records._tool import record_tool
from settlemark_adapters.records._tx import Tx

JOURNAL_ENTRY = Entity("JournalEntry", {"memo": str, "total": float}, computed=("total",))
JOURNAL_LINE = Entity("JournalLine", {"entry_id": str, "account": str, "debit": float, "credit": float})
_SIDES = ("debit", "credit")


class Journal(Records):
    """Journal entries and their lines.

    Tool: `post_journal_entry`, beside those of `Records`.

    Laws: after every commit, by any author, each line belongs to an entry, and the debits of an entry's lines are
    its credits, and its `total`. So the sum of all accounts is zero.

    >>> from settlemark_adapters.records import SqlBackend
    >>> journal = Journal(SqlBackend("sqlite://"))
    >>> try:
    ...     journal.post_journal_entry([{"account": "cash", "debit": 5}, {"account": "sales", "credit": 4}])
    ... except ValueError as refused:
    ...     print(refused)
    debits are 5.00 and credits 4.00: they must be equal; nothing was written
    >>> journal.query_records("JournalLine")
    []
    """

    ENTITIES: ClassVar[tuple[Entity, ...]] = (JOURNAL_ENTRY, JOURNAL_LINE)

    def _balanced(self, lines: list[dict[str, Any]], memo: str) -> None:
        JOURNAL_ENTRY.fit({"memo": memo}, partly=True)
        balanced(lines)

    @record_tool("post_journal_entry", creates=("JournalEntry", "JournalLine"), check=_balanced)
    def post_journal_entry(  # noqa: D417 - a model reads this, which passes no tx
        self, tx: Tx, lines: list[dict[str, Any]], memo: str = ""
    ) -> dict[str, Any]:
        """Post a journal entry with all its lines, or nothing. Debits and credits must come to the same.

        Args:
            lines: One object for each line: {"account": "cash", "debit": 120.5}, or with "credit" in place of "debit".
            memo: What it is for.
        """
        self._balanced(lines, memo)
        fit, due = balanced(lines)
        tx.message = f"post JournalEntry with {len(fit)} lines"
        entry = tx.create("JournalEntry", {"memo": memo, "total": plain(due)})
        return {
            "entry": entry,
            "lines": [tx.create("JournalLine", {"entry_id": entry["id"], **line}) for line in fit],
        }

    def before_commit(self, tx: Tx) -> None:
        """Refuse books that do not balance, and lines of no entry."""
        super().before_commit(tx)
        lines = [line for pair in tx.changed("JournalLine") for line in pair if line is not None]
        heads = [head for pair in tx.changed("JournalEntry") for head in pair if head is not None]
        for entry_id in dict.fromkeys([*(head["id"] for head in heads), *(line["entry_id"] for line in lines)]):
            _add_up(tx.peek("JournalEntry", entry_id), tx.look("JournalLine", {"entry_id": entry_id}), entry_id)


def balanced(lines: object) -> tuple[list[dict[str, Any]], Decimal]:
    """Return an entry's lines, each with both sides, and the sum of either side.

    Raises:
        BadRecord: they do not balance, or one is invalid; it says which and why.

    >>> balanced([{"account": "cash", "debit": 1}, {"account": "sales", "credit": 1}])[1]
    Decimal('1.00')
    """
    if not isinstance(lines, list | tuple) or len(cast("Sequence[Any]", lines)) < len(_SIDES):
        raise BadRecord("lines: give a list with at least two lines, a debit and a credit; nothing was written")
    fit = [_line(f"lines[{n}]", line) for n, line in enumerate(cast("Sequence[Any]", lines))]
    return fit, _sides(fit)


def _line(where: str, line: object) -> dict[str, Any]:
    if not isinstance(line, Mapping):
        raise BadRecord(f"{where} is {line!r}: give an object with account, and debit or credit; nothing was written")
    given = cast("Mapping[str, Any]", line)
    sides = [side for side in _SIDES if given.get(side) is not None]
    if unknown := sorted(set(given) - {"account", *_SIDES}):
        raise BadRecord(
            f"{where} has {', '.join(map(repr, unknown))}: it may have account, debit or credit; nothing was written"
        )
    account: Any = given.get("account")
    if not isinstance(account, str) or not account.strip():
        raise BadRecord(f"{where}.account is {account!r}: name an account; nothing was written")
    if len(sides) != 1:
        raise BadRecord(
            f"{where} has {' and '.join(sides) or 'neither debit nor credit'}: give one; nothing was written"
        )
    value = amount(given[sides[0]], f"{where}.{sides[0]}")
    if value <= 0 or value != cents(value):
        raise BadRecord(
            f"{where}.{sides[0]} is {given[sides[0]]!r}: give an amount above zero in whole cents: books"
            " do not round; nothing was written"
        )
    return {"account": account, "debit": 0, "credit": 0, sides[0]: plain(cents(value))}


def _sides(lines: Sequence[Mapping[str, Any]]) -> Decimal:
    debits, credits_ = (total((amount(line[side], side) for line in lines), f"the {side}s together") for side in _SIDES)
    if debits != credits_:
        raise BadRecord(f"debits are {debits} and credits {credits_}: they must be equal; nothing was written")
    return debits


def _add_up(entry: dict[str, Any] | None, lines: list[dict[str, Any]], entry_id: str) -> None:
    if entry is None:
        if lines:
            stray, *_ = lines
            raise BadRecord(
                f"JournalLine {stray['id']} belongs to no entry: there is no {entry_id}; nothing was written",
                entity="JournalLine",
                record_id=stray["id"],
            )
        return
    if any((line["debit"] > 0) == (line["credit"] > 0) or min(line["debit"], line["credit"]) < 0 for line in lines):
        raise BadRecord(
            f"a line of JournalEntry {entry_id} is not one of debit and credit; nothing was written",
            entity="JournalEntry",
            record_id=entry_id,
        )
    due = _sides(lines)
    if due != amount(entry["total"], "total"):
        raise BadRecord(
            f"JournalEntry {entry_id} says {entry['total']}, and its lines come to {plain(due)}; nothing was written",
            entity="JournalEntry",
            record_id=entry_id,
        )


__all__ = ["JOURNAL_ENTRY", "JOURNAL_LINE", "Journal", "balanced"]
