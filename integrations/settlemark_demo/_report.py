"""The demo's report: both sides' logs, side by side."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from settlemark_demo._evidence import Evidence
from settlemark_demo._scenarios import Scenario, Side
from settlemark_demo._trials import Tally
from settlemark_demo._turns import ByTurn, Call, Turn

_VERDICTS = {
    "all": "all of it",
    "nothing": "nothing",
    "each": "all of it or nothing, turn by turn",
    "named": "what is left over is named",
    "broken": "neither",
}
_TEXT = 240
_STOPPED = {
    "turns": "stopped here: the limit of turns is reached (--turns)",
    "calls": "stopped here, and its last calls were not run: the limit of calls is reached (--calls)",
}

Pair = tuple[Evidence, Evidence]


def introduction(sides: Sequence[Side], model: str | None = None) -> RenderableType:
    """Return a description of each side; `model` is the live one, if there is one."""
    same = "The same model turns, tools and faults on both sides"
    if model is not None:
        same = f"The same prompts, tools and faults on both sides, {model} decides anew on each"
    lines = [
        Text(
            f"{same}; every figure is read from the counterparties'"
            " own logs (an HTTP provider, an SMTP server, a SQLite file).\n"
        )
    ]
    lines.extend(Text.assemble((f"{side.label}: ", "bold"), side.given) for side in sides)
    return Group(*lines)


def comparison(scenario: Scenario, sides: Sequence[Side], found: Pair) -> RenderableType:
    """Return one scenario's table: a row a question, a column a side."""
    title = Text.assemble((f"{scenario.name}: {scenario.title}", "bold"))
    if not any(isinstance(evidence, ByTurn) for evidence in found):
        title.append_text(Text("\nissued: ")).append_text(_numbered(scenario.tools))
    table = Table(title=title, title_justify="left", title_style="")
    table.add_column("", overflow="fold")
    for side in sides:
        table.add_column(side.label, overflow="fold")
    table.add_row("order of effects", *(_order(evidence) for evidence in found))
    if scenario.in_sequence:
        table.add_row("traffic went", *(_detail(evidence, scenario.tools[-1]) for evidence in found))
        table.add_row("steps missing", *(_missing(scenario, evidence) for evidence in found))
    else:
        if any(isinstance(evidence, ByTurn) for evidence in found):
            table.add_row("stands of what was asked for", *(_standing(scenario, evidence) for evidence in found))
        table.add_row("mails sent", *(str(evidence.mails) for evidence in found))
        table.add_row("bookings left over", *(_left(evidence) for evidence in found))
        table.add_row("told to its user as left over", *(_named(evidence) for evidence in found))
    table.add_row("duplicates", *(str(evidence.duplicates) for evidence in found))
    table.add_row("the world is", *(_verdict(evidence) for evidence in found))
    return table


def said(scenario: Scenario, sides: Sequence[Side], found: Pair) -> RenderableType:
    """Return what a live model was asked, and its turns on each side; calls are numbered in issuance order."""
    lines = [Text.assemble(("asked: ", "bold"), scenario.prompt)]
    for side, evidence in zip(sides, found, strict=True):
        if isinstance(evidence, ByTurn):
            lines.append(Text(f"{side.label}:", style="bold"))
            lines.extend(_turns(evidence))
    return Group(*lines)


def _turns(evidence: ByTurn) -> list[Text]:
    lines: list[Text] = []
    number = 0
    for n, turn in enumerate(evidence.turns, 1):
        line = Text(f"  turn {n}: ")
        calls: list[Text] = []
        for call in turn.calls:
            number += call.answer is not None
            calls.append(_call(call, number))
        line.append_text(Text(", ").join(calls) if calls else _no_call(turn))
        lines.append(line)
    if evidence.stopped is not None:
        lines.append(Text(f"  {_STOPPED[evidence.stopped]}", style="bold"))
    return lines


def _call(call: Call, number: int) -> Text:
    if call.answer is None:
        return Text(f"{call.tool} (not run)")
    return Text.assemble(f"{number} {call.tool}", (" failed", "red") if call.failed else "")


def _no_call(turn: Turn) -> Text:
    if turn.unreadable:
        return Text(f"{turn.unreadable} calls that cannot be read")
    text = " ".join(turn.text.split())
    return Text(f'"{text if len(text) <= _TEXT else text[:_TEXT] + "…"}"' if text else "nothing")


def _numbered(tools: Sequence[str]) -> Text:
    return Text(", ".join(f"{number} {tool}" for number, tool in enumerate(tools, 1)))


def _order(evidence: Evidence) -> Text:
    numbers = " ".join(map(str, evidence.order)) or "none"
    undone = " ".join(map(str, evidence.undone))
    told = f", then undone: {undone}" if undone else ""
    return _colored(numbers + ("" if evidence.in_order else ", out of order") + told, evidence.in_order)


def _detail(evidence: Evidence, tool: str) -> Text:
    return Text(", ".join(entry.detail for entry in evidence.effects if entry.tool == tool) or "nowhere")


def _missing(scenario: Scenario, evidence: Evidence) -> Text:
    done = {entry.tool for entry in evidence.effects}
    missing = [tool for tool in scenario.tools if tool not in done]
    return _colored(", ".join(missing) or "none", not missing)


def _standing(scenario: Scenario, evidence: Evidence) -> Text:
    return Text(f"{len(set(evidence.standing))} of {len(scenario.tools)}")


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
