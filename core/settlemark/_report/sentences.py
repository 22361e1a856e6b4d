"""The contents of a ledger for people: as sentences, tables, and plain JSON values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from settlemark._edges.plain import joined, plain
from settlemark._model import json_text
from settlemark._model.disposition import AT_A_GATE
from settlemark._model.effect_class import Outcome
from settlemark._protocol.states import FINISHED, Reason, State, Tag
from settlemark._report.stuck import any_stuck
from settlemark._report.verdicts import is_rewound
from settlemark.ledger._contract import RecordedEffect, RecordedTransaction
from settlemark.ledger._lease import held_by_zombies
from settlemark.ledger._payloads.unreadable import Unreadable
from settlemark.ledger._workers import process

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.table import Table

EMPTY = "The ledger is empty: no transaction with an effect is on record."
NOTHING_LEFT = "Nothing is left to mend."
NOTHING_YET = "Nothing is left to mend so far."
"""Used in place of NOTHING_LEFT beside unfinished transactions, whose residue is not known yet."""

_WHY = {
    Reason.FAILED: "a call failed",
    Reason.STALE: "what it was planned on had changed",
    Reason.CASCADED: "what it had read early was undone",
    Reason.WOUNDED: "an older transaction needed what it had claimed",
    Reason.VETOED: "a hook said no before the commit",
    Reason.CANCELLED: "its run was cancelled",
    Reason.HALTED: "an operator had halted it",
    Reason.TIMEOUT: "it waited too long for another",
    Reason.VIOLATION: "a call came after it was sealed",
    Reason.REFUSED: "the first release was refused",
    Reason.ABANDONED: "its caller was gone",
    Reason.LOST: "its ledger failed",
    Reason.LEASE: "its process hung, and was thought dead",
    Reason.LATE: "what it holds had happened too late",
    Reason.REWOUND: "its work was rewound",
    Reason.OVERDUE: "it was open for longer than it may be",
    Reason.LEFT: "its caller was gone",
    Reason.CHOSEN: "a choice was made",
}
_BECAME = {
    Outcome.INTENDED: "begun, and its outcome is not recorded yet",
    Outcome.SUSPENDED: "paused before it acted",
    Outcome.QUEUED: "queued: leaves when this settles",
    Outcome.CONFIRMED: "confirmed",
    Outcome.FAILED: "did not happen",
    Outcome.UNKNOWN: "unknown: do not repeat",
    Outcome.UNDONE: "undone",
    Outcome.DROPPED: "never left",
}
_LONG, _TAIL = 60, 12
SHOWN_SECONDS = 0.05
"""The wait (seconds) from which a transaction's waits are reported."""


def account(transactions: Sequence[RecordedTransaction]) -> str:
    """Return the ledger's account in sentences: a paragraph for each transaction, a line for each effect.

    A paragraph says how the transaction ended and why; its effects follow in issuance order, each with its outcome and,
    where recorded, the reason for it.

    >>> account([])
    'The ledger is empty: no transaction with an effect is on record.'
    """
    return "\n\n".join(_paragraph(recorded) for recorded in transactions) or EMPTY


def dealt_account(transactions: Sequence[RecordedTransaction]) -> str:
    """Describe in sentences what an operator has dealt with; "" if nothing."""
    lines = ["Dealt with:"] if transactions else []
    for recorded, effect in left_over(transactions, dealt=True):
        lines.append(f"{_name(recorded)}: {effect.row.tool} on {effect.row.scope}: {dealt_with(effect)}")
        lines.append(f"  key: {effect.row.key}")
    return joined(lines)


def left_account(transactions: Sequence[RecordedTransaction], nothing: str = NOTHING_LEFT) -> str:
    """Describe in sentences what is left to mend, oldest first, each with the key that its counterparty knows.

    `nothing` is returned if nothing is left.

    >>> left_account([])
    'Nothing is left to mend.'
    """
    lines: list[str] = []
    for recorded in transactions:
        for number, effect in issued(recorded):
            if _is_left(recorded, effect):
                lines.append(f"{_name(recorded)}, call {number}: {_line(effect)}")
                lines.append(f"  key: {effect.row.key}")
    return joined(lines) or nothing


def issued(recorded: RecordedTransaction) -> list[tuple[int, RecordedEffect]]:
    """Return a transaction's effects in issuance order, numbered from 1.

    An effect that never began is not on record and has no number.
    """
    return list(enumerate(sorted(recorded.effects, key=lambda effect: effect.row.position), 1))


def left_over(
    transactions: Sequence[RecordedTransaction], *, dealt: bool = False
) -> Iterator[tuple[RecordedTransaction, RecordedEffect]]:
    """Yield every effect that an abort or a partial commit left for an operator to mend, oldest first.

    With `dealt`, those that an operator has dealt with.
    """
    for recorded in transactions:
        for _, effect in issued(recorded):
            if _is_left(recorded, effect, dealt=dealt):
                yield recorded, effect


def _is_left(recorded: RecordedTransaction, effect: RecordedEffect, *, dealt: bool = False) -> bool:
    if recorded.listed is not None and effect.row.key not in recorded.listed:
        return False
    return effect.dealt_at is not None if dealt else effect.tag not in (None, Tag.CLEAN) and effect.dealt_at is None


# ---- sentences


def _paragraph(recorded: RecordedTransaction) -> str:
    lines = [headline(recorded)]
    rationale: str | None = None
    for number, effect in issued(recorded):
        if effect.row.rationale and effect.row.rationale != rationale:
            rationale = effect.row.rationale
            lines.append(f"  because: {_one_line(rationale)}")
        lines.append(f"  {number}. {_line(effect)}")
    if (waited := waited_for(recorded)) and recorded.state in FINISHED:
        lines.append(f"  it waited {waited}")
    return joined(lines)


def _line(effect: RecordedEffect) -> str:
    where = f" on {effect.row.scope}" if effect.row.scope else ""  # an old effect has none any more
    return f"{effect.row.tool}{where}: {became(effect)}"


def _name(recorded: RecordedTransaction) -> str:
    row = recorded.row
    name = short(row.name)
    return name if row.attempt == 1 else f"{name} (attempt {row.attempt})"


def short(name: str) -> str:
    """Return a transaction's short name, as shown to people everywhere.

    Frameworks make long names of their own ids: a reader needs the run, and what tells its steps apart.

    >>> short("trip-42/book"), short(f"trip-42/root:{'0' * 60}:abcdef")
    ('trip-42/book', 'trip-42/…00000:abcdef')
    """
    name = plain(name)
    if len(name) <= _LONG:
        return name
    run, slash, _ = name.partition("/")
    room = _LONG - _TAIL - 1
    head = run + slash if slash and len(run) < room else name[:room]
    return f"{head}…{name[-_TAIL:]}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def headline(recorded: RecordedTransaction) -> str:
    """Say in one sentence how a transaction ended, or where it stands, and why."""
    name, state = _name(recorded), recorded.state
    left = sum(1 for _ in left_over([recorded]))
    to_mend = "" if not left else f" {left} effect{'s' * (left > 1)} left to mend."
    stuck = ", and is stuck" if any_stuck(recorded) else ""
    if state is State.COMMITTED and is_rewound(recorded):
        return f"{name} committed, and was undone afterwards, because {why(recorded)}{stuck}.{to_mend}"
    if state is State.COMMITTED:
        return f"{name} committed in part{stuck}.{to_mend}" if left else f"{name} committed."
    if state is State.ABORTED:
        return f"{name} {'aborted' if left else 'was undone'}, because {why(recorded)}{stuck}.{to_mend}"
    if state is State.ABORTING:
        return f"{name} is being undone, because {why(recorded)}.{_silent(recorded)}"
    if state is State.RELEASING:
        return f"{name} is committed and its held effects are leaving.{_silent(recorded)}"
    standing = "still open" if state is State.OPEN else "complete, and not settled yet"
    reason = _standing_because(recorded)
    return f"{name} is {standing}{f': {reason}' if reason else ''}."


def _silent(recorded: RecordedTransaction) -> str:
    """Return a sentence for each effect that another process may still be running."""
    senders = {effect.sender for effect in recorded.effects if effect.sender is not None}
    return "".join(
        f" It keeps {effect.row.scope}, for {process(effect.sender or '')} may still be at {effect.row.tool}:"
        " settlemark waiting tells until when."
        for effect in (held_by_zombies(recorded, recorded.state, senders) if senders else ())
    )


def _standing_because(recorded: RecordedTransaction) -> str:
    waiting = waits(recorded)
    return recorded.because or "" if waiting is None else f"waiting for {waiting[0]}, which holds {waiting[1]}"


def why(recorded: RecordedTransaction) -> str:
    """Say why a transaction was undone: the kind of reason, then the recorded cause."""
    if recorded.reason is None:
        return _one_line(recorded.cause or "") or "nobody said why"
    rejected = recorded.reason is Reason.VETOED and any(effect.verdict == "reject" for effect in recorded.effects)
    told = "a person said no" if rejected else _WHY[recorded.reason]
    # An exception without a message leaves its colon behind.
    given = _one_line(recorded.cause or "").removesuffix(":")
    return f"{told} ({given})" if given else told


def became(effect: RecordedEffect, quoted: Callable[[str], str] = _one_line) -> str:
    """Say an effect's outcome, with its residue if any; errors and notes stand in it as `quoted` writes them."""
    words, told = _outcome(effect, quoted), str(effect.disposed)
    if effect.tag in (None, Tag.CLEAN):
        said = answer_of(effect, quoted) or (quoted(told) if effect.disposition in AT_A_GATE and told else "")
        return f"{words} ({said})" if said else words
    dealt = "" if effect.dealt_at is None else f"; {dealt_with(effect, quoted)}"
    return f"{words} [{effect.tag}{f': {quoted(told)}' if told else ''}{dealt}]"


def dealt_with(effect: RecordedEffect, quoted: Callable[[str], str] = _one_line) -> str:
    """Say who has dealt with an effect's residue, when and how."""
    when = datetime.fromtimestamp(effect.dealt_at or 0.0, UTC).strftime("%Y-%m-%d %H:%M UTC")
    note = said_values(effect).get("note")
    return f"dealt with by {effect.said_by}, {when}{f': {quoted(str(note))}' if note else ''}"


_ANSWERS = {"approve": "approved", "edit": "approved with other arguments", "reject": "rejected"}


def answer_of(effect: RecordedEffect, quoted: Callable[[str], str] = _one_line) -> str:
    """Say what a person has answered about an effect from elsewhere; "" if nobody has."""
    answer = _ANSWERS.get(effect.verdict or "")
    because = said_values(effect).get("because")
    return "" if answer is None else f"{answer} by {effect.said_by}{f': {quoted(str(because))}' if because else ''}"


def answer_values(effect: RecordedEffect) -> dict[str, Any] | None:
    """Return a person's answer to the question about an effect; None if nobody has answered.

    Where arguments were given in place of the effect's own, and cannot be read here, nobody here can act on the answer:
    None, too.
    """
    if effect.verdict not in _ANSWERS:
        return None
    said = said_values(effect)
    if effect.verdict == "edit" and "arguments" not in said:
        return None
    return {**said, "decision": effect.verdict}


def said_values(effect: RecordedEffect) -> dict[str, Any]:
    """Return the words of a person's last answer or verdict; empty where there are none, or they cannot be read."""
    if effect.said is None or isinstance(effect.said, Unreadable):
        return {}
    return cast("dict[str, Any]", json_text.decode(effect.said))


def _outcome(effect: RecordedEffect, quoted: Callable[[str], str]) -> str:
    if effect.outcome is Outcome.FAILED and effect.error:
        return f"failed ({quoted(effect.error)})"
    if effect.outcome is Outcome.CONFIRMED and effect.tag is Tag.UNRESOLVED:
        return "confirmed, and not undone"
    if effect.outcome is Outcome.QUEUED and effect.verdict == "reject":
        return "queued: never leaves"  # it is dropped when a process that can undo the rest takes it up
    return _BECAME[effect.outcome]


def waits(recorded: RecordedTransaction) -> tuple[str, str] | None:
    """Return for whom an unfinished transaction waits, and on which resource; None when it does not wait."""
    if recorded.state not in (State.OPEN, State.SEALED) or recorded.waits_for is None:
        return None
    return short(recorded.waits_for), recorded.waits_on or ""


def waited_for(recorded: RecordedTransaction) -> str:
    """Say for how long a transaction waited for others, and for whom last; "" for no time."""
    seconds = _waited(recorded)
    if not seconds:
        return ""
    last, before = recorded.waits[-1], len(recorded.waits) - 1
    others = f", and for {before} before it" if before else ""
    return f"{seconds} for {short(last.holder)}, which held {last.scope}{others}"


def _waited(recorded: RecordedTransaction) -> str:
    seconds = sum(waited.until - waited.since for waited in recorded.waits if waited.until is not None)
    return "" if seconds < SHOWN_SECONDS else f"{seconds:.1f} s"


# ---- values


def as_values(recorded: RecordedTransaction) -> dict[str, Any]:
    """Return the record of a transaction as JSON values."""
    row = recorded.row
    return {
        "name": row.name, "attempt": row.attempt, "run": row.run, "agents": list(row.agents),
        "state": recorded.state.value,
        "reason": None if recorded.reason is None else recorded.reason.value, "cause": recorded.cause,
        "link": recorded.link, "waits_for": recorded.waits_for, "waits_on": recorded.waits_on, "epoch": recorded.epoch,
        "ordinal": row.ordinal, "owner": row.owner, "opened_at": row.at, "sealed_at": recorded.sealed_at,
        "decided_at": recorded.decided_at, "settled_at": recorded.settled_at,
        "waits": [waited._asdict() for waited in recorded.waits], "stuck": any_stuck(recorded),
        "effects": [effect_values(effect) for _, effect in issued(recorded)],
    }  # fmt: skip # a table of fields


def effect_values(effect: RecordedEffect) -> dict[str, Any]:
    """Return the record of an effect as JSON values."""
    row = effect.row
    return {
        "position": row.position, "tool": row.tool, "class": row.kind.value, "scope": row.scope, "held": row.held,
        "key": row.key, "call_id": row.call_id, "rationale": row.rationale,
        "arguments": json_text.decode(row.arguments), "outcome": effect.outcome.value,
        "result": json_text.decode(effect.result), "error": effect.error,
        "tag": None if effect.tag is None else effect.tag.value, "note": effect.disposed.told,
        "disposition": None if effect.disposition is None else effect.disposition.value, "link": effect.link,
        "question": effect.question, "contradicted": effect.contradicted,
        "intended_at": row.at, "settled_at": effect.settled_at, "said": said_values(effect) or None,
        "said_by": effect.said_by, "said_at": effect.said_at, "dealt_at": effect.dealt_at,
    }  # fmt: skip # a table of fields


def residue_values(transactions: Sequence[RecordedTransaction], *, dealt: bool = False) -> list[dict[str, Any]]:
    """Return what is left to mend as JSON values, each effect with its transaction."""
    return [
        {"transaction": recorded.row.name, "attempt": recorded.row.attempt, **effect_values(effect)}
        for recorded, effect in left_over(transactions, dealt=dealt)
    ]


# ---- tables


def tables(transactions: Sequence[RecordedTransaction]) -> RenderableType:
    """Return rich tables of transactions, their effects, who waits for whom, and the residue."""
    from rich.console import Group
    from rich.text import Text

    if not transactions:
        return Text(EMPTY)
    parts: list[RenderableType] = [_transactions_table(transactions), _effects_table(transactions)]
    waiting = [(recorded, found) for recorded in transactions if (found := waits(recorded)) is not None]
    if waiting:
        table = new_table("Waiting", "transaction", "waits for", "which holds")
        for recorded, (holder, scope) in waiting:
            add_row(table, _name(recorded), holder, scope)
        parts.append(table)
    is_over = all(recorded.state in FINISHED for recorded in transactions)
    parts.append(residue_table(transactions, NOTHING_LEFT if is_over else NOTHING_YET))
    return Group(*parts)


def residue_table(transactions: Sequence[RecordedTransaction], nothing: str = NOTHING_LEFT) -> RenderableType:
    """Return a table of what is left to mend, or one line that says `nothing`."""
    from rich.text import Text

    left = list(left_over(transactions))
    if not left:
        return Text(nothing)
    table = new_table("Left to mend", "transaction", "tool", "scope", "residue", "what happened", "key")
    for recorded, effect in left:
        tag = "" if effect.tag is None else effect.tag.value
        add_row(table, _name(recorded), effect.row.tool, effect.row.scope, tag, str(effect.disposed), effect.row.key)
    return table


def dealt_table(transactions: Sequence[RecordedTransaction]) -> Table:
    """Return a table of what an operator has dealt with."""
    table = new_table("Dealt with", "transaction", "tool", "scope", "residue", "how", "key")
    for recorded, effect in left_over(transactions, dealt=True):
        tag = "" if effect.tag is None else effect.tag.value
        add_row(table, _name(recorded), effect.row.tool, effect.row.scope, tag, dealt_with(effect), effect.row.key)
    return table


def _transactions_table(transactions: Sequence[RecordedTransaction]) -> Table:
    table = new_table("Transactions", "transaction", "run", "state", "effects", "opened (UTC)", "took", "waited", "why")
    for recorded in transactions:
        state = f"{recorded.state}{', stuck' if any_stuck(recorded) else ''}"
        if recorded.state is State.SEALED and waits(recorded) is not None:
            state = "waiting"
        settled = recorded.settled_at if recorded.state in FINISHED else None
        took = "" if settled is None else f"{settled - recorded.row.at:.3f} s"
        opened = datetime.fromtimestamp(recorded.row.at, UTC).strftime("%Y-%m-%d %H:%M:%S")
        undone = recorded.state in (State.ABORTED, State.ABORTING)
        reason = why(recorded) if undone else _standing_because(recorded)
        add_row(
            table,
            _name(recorded),
            recorded.row.run,
            state,
            str(len(recorded.effects)),
            opened,
            took,
            _waited(recorded),
            reason,
        )
    return table


def _effects_table(transactions: Sequence[RecordedTransaction]) -> Table:
    table = new_table("Effects", "transaction", "#", "tool", "class", "scope", "what became of it")
    for recorded in transactions:
        for number, effect in issued(recorded):
            row = effect.row
            add_row(table, _name(recorded), str(number), row.tool, row.kind, row.scope, became(effect))
    return table


_UNBOUND = 1 << 20


def new_table(title: str, *columns: str) -> Table:
    """Return an empty rich table; rows are shown line by line where columns would break words."""
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

    class Fitting(Table):
        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            unbound = options.update(max_width=_UNBOUND)
            if Measurement.get(console, unbound, self).minimum <= options.max_width:
                yield from super().__rich_console__(console, options)
                return
            yield Text(title, style="bold")
            for row in zip(*(column.cells for column in self.columns), strict=True):
                yield Text()
                for column, cell in zip(columns, row, strict=True):
                    if str(cell):
                        yield Text.assemble(f"{column}: " if column else "", cell)

    table = Fitting(title=title, title_justify="left", title_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def add_row(table: Table, *cells: str | Sequence[str]) -> None:
    """Add a row to a table; a cell may have several lines."""
    # As Text, since scopes and errors may contain rich's markup.
    from rich.text import Text

    table.add_row(*(Text(plain(cell) if isinstance(cell, str) else joined(cell)) for cell in cells))
