"""What a reader of the demo sees: both sides' logs, side by side."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from settlemark_demo._evidence import Evidence
from settlemark_demo._scenarios import Scenario, Side
from settlemark_demo._trials import Tally

_VERDICTS = {"all": "all of it", "nothing": "nothing", "named": "what is left over is named", "broken": "neither"}

Pair = tuple[Evidence, Evidence]


def introduction(sides: Sequence[Side]) -> RenderableType:
    """Return what each side was given."""
    told = (
        "The same model turns, tools and faults on both sides; every figure is read from the counterparties'"
        " own logs (an HTTP provider, an SMTP server, a SQLite file).\n"
    )
    lines = [Text(told)]
    lines.extend(Text.assemble((f"{side.label}: ", "bold"), side.given) for side in sides)
    return Group(*lines)


def comparison(scenario: Scenario, sides: Sequence[Side], found: Pair) -> RenderableType:
    """Return one scenario's table: a row a question, a column a side."""
    title = Text.assemble((f"{scenario.name}: {scenario.title}", "bold"), "\nissued: ", _numbered(scenario.tools))
    table = Table(title=title, title_justify="left", title_style="")
    table.add_column("", overflow="fold")
    for side in sides:
        table.add_column(side.label, overflow="fold")
    table.add_row("order of effects", *(_order(evidence) for evidence in found))
    if scenario.in_sequence:
        table.add_row("traffic went", *(_detail(evidence, scenario.tools[-1]) for evidence in found))
        table.add_row("steps missing", *(_missing(evidence) for evidence in found))
    else:
        table.add_row("mails sent", *(str(evidence.mails) for evidence in found))
        table.add_row("bookings left over", *(_left(evidence) for evidence in found))
        table.add_row("told to its user as left over", *(_named(evidence) for evidence in found))
    table.add_row("duplicates", *(str(evidence.duplicates) for evidence in found))
    table.add_row("the world is", *(_verdict(evidence) for evidence in found))
    return table


def _numbered(tools: Sequence[str]) -> Text:
    return Text(", ".join(f"{number} {tool}" for number, tool in enumerate(tools, 1)))


def _order(evidence: Evidence) -> Text:
    numbers = " ".join(map(str, evidence.order)) or "none"
    undone = [str(evidence.issued.index(entry.tool) + 1) for entry in evidence.reversals]
    told = f", then undone: {' '.join(undone)}" if undone else ""
    return _colored(numbers + ("" if evidence.in_order else ", out of order") + told, evidence.in_order)


def _detail(evidence: Evidence, tool: str) -> Text:
    return Text(", ".join(entry.detail for entry in evidence.effects if entry.tool == tool) or "nowhere")


def _missing(evidence: Evidence) -> Text:
    done = {entry.tool for entry in evidence.effects}
    missing = [tool for tool in evidence.issued if tool not in done]
    return _colored(", ".join(missing) or "none", not missing)


def _left(evidence: Evidence) -> Text:
    return Text(", ".join(entry.id for entry in evidence.left_over) or "none")


def _named(evidence: Evidence) -> Text:
    known = {entry.key: entry.id for entry in evidence.entries if entry.key}
    return Text(", ".join(sorted(known.get(key, key) for key in evidence.named)) or "nothing")


def _verdict(evidence: Evidence) -> Text:
    words = _VERDICTS[evidence.outcome]
    return _colored(f"{words}: {'clean' if evidence.clean else 'NOT clean'}", evidence.clean)


def _colored(words: str, good: bool) -> Text:
    return Text(words, style="green" if good else "bold red")


def rates(tallies: Sequence[Tally], rate: float) -> RenderableType:
    """Return how often each side was clean over all trials."""
    trials = tallies[0].trials
    title = (
        f"{trials} trips: each call meets a passing fault with probability {rate:g},"
        f" each trip a refusal for good with {rate / 2:g}"
    )
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("")
    rows: dict[str, list[Text]] = {
        "clean": [_colored(f"{tally.clean} of {trials}", tally.clean == trials) for tally in tallies],
        "all of it": [Text(str(tally.outcomes["all"])) for tally in tallies],
        "nothing": [Text(str(tally.outcomes["nothing"])) for tally in tallies],
        "left over, and named exactly": [Text(str(tally.outcomes["named"])) for tally in tallies],
        "neither": [Text(str(tally.outcomes["broken"])) for tally in tallies],
        "all of it, where only passing faults stood in the way": [
            Text(f"{tally.completed} of {tally.completable}") for tally in tallies
        ],
        "duplicates": [Text(str(tally.duplicates)) for tally in tallies],
        "mails for a trip that is not booked": [Text(str(tally.stray_mails)) for tally in tallies],
        "out of order": [Text(str(tally.out_of_order)) for tally in tallies],
    }
    for tally in tallies:
        table.add_column(tally.label)
    for name, cells in rows.items():
        table.add_row(name, *cells)
    return table
