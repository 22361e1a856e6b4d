"""`settlemark demo`: play, compare, report; the exit status says whether the settled side was clean."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from settlemark.commands import say, say_json
from settlemark_demo._limits import CALLS, TURNS, Limits

if TYPE_CHECKING:
    from rich.console import Console

    from settlemark import Settlement
    from settlemark_demo._live import LiveModel
    from settlemark_demo._report import Pair
    from settlemark_demo._scenarios import Scenario, Side
    from settlemark_demo._trials import Tally

RATE = 0.3
TRIALS = 100
_TRIAL_LATENCY = 0.1
_TRIAL_TIMEOUT_SECONDS = 0.5


def demo(
    *,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="PROVIDER:NAME",
            help="Play it with this live chat model, openai:gpt-5-mini say: about 20 requests to its provider.",
            show_default=False,
        ),
    ] = None,
    turns: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help=f"With --model: end a conversation after so many requests ({TURNS}).",
            show_default=False,
        ),
    ] = None,
    calls: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help=f"With --model: run no more tool calls than that in a conversation ({CALLS}).",
            show_default=False,
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.png", dir_okay=False, help="Draw the timelines.", show_default=False)
    ] = None,
    faults: Annotated[
        float | None,
        typer.Option(
            metavar="RATE",
            min=0,
            max=1,
            help=f"Then repeat the trip under random faults, each call with this probability ({RATE:g}).",
            show_default=False,
        ),
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help=f"How often to repeat it ({TRIALS}).", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(help="The faults' seed: the same seed, the same faults.")] = 1,
    ledger: Annotated[
        str | None,
        typer.Option(help="Where the ledger lives: a file or a URL; by default a new file.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Play a pipeline and four trips with stock LangGraph and with settlemark, and compare the outside world.

    Needs no key and no network, unless --model names a live one. Exits with 1 when the settled side is not clean.
    """
    from settlemark import LedgerError, Settlement
    from settlemark.commands import console as new_console
    from settlemark.commands import unmarked
    from settlemark.hosting import shown
    from settlemark_demo._live import ModelFailed
    from settlemark_demo._scenarios import scenarios, settled_side, stock_side
    from settlemark_demo._trials import draw
    from settlemark_demo._world import two_worlds

    if plot is not None:
        _check_plot(plot)
    live = _live(model, turns, calls, repeats=faults is not None or trials is not None)
    folder = Path(tempfile.mkdtemp(prefix="settlemark-demo-"))
    url, tag = _ledger(ledger, folder)
    told_url = shown(url)
    rate = RATE if faults is None else faults
    count = 0 if faults is None and trials is None else trials or TRIALS
    console = new_console(quiet=as_json)
    with ExitStack() as stack:
        try:
            settlement = stack.enter_context(Settlement(url, on_failure="retry"))
        except LedgerError as error:
            folder.rmdir()
            _refuse(str(error))
        stock_world, settled_world = two_worlds(folder)
        stack.callback(stock_world.close)
        stack.callback(settled_world.close)
        sides = (stock_side(stock_world), settled_side(settled_world, settlement))
        try:
            played = _play(console, sides, scenarios(tag), live)
        except ModelFailed as error:
            acted = any(side.world.entries_since(0) for side in sides)
            if not acted:
                stack.close()  # the counterparties write there
                shutil.rmtree(folder)
            _refuse(f"{error}; {f'what was done until then: {folder}' if acted else 'nothing was acted'}")
        told = _account(console, settlement, played)
        tallies = _repeat(console, sides, [draw(rate, seed, number, tag) for number in range(1, count + 1)], rate)
        residue = _residue_values(settlement, played)
    if plot is not None:
        from settlemark_demo._plot import save

        save(plot, sides, played)
        console.print(unmarked(f"The timelines: {plot}"), soft_wrap=True)
    console.print(unmarked(f"The ledger: {told_url} (settlemark show {told_url})"), soft_wrap=True, highlight=False)
    console.print(unmarked(f"The counterparties' logs: {folder}"), soft_wrap=True, highlight=False)
    good = _is_good(played, tallies)
    if as_json:
        values = _values(played, tallies) | {
            "model": model,
            "ledger": told_url,
            "logs": str(folder),
            "account": told,
            "residue": residue,
            "clean": good,
        }
        say_json(values)
    raise typer.Exit(0 if good else 1)


def _check_plot(path: Path) -> None:
    from settlemark.commands import why_not

    because = why_not(path)
    if because is not None:
        _refuse(f"{because}; nothing was played")


def _refuse(because: str) -> NoReturn:
    say(f"settlemark demo: {because}", err=True)
    raise typer.Exit(2)


def _live(name: str | None, turns: int | None, calls: int | None, *, repeats: bool) -> LiveModel | None:
    """Return the requested live model, with its limits; None for the scripted one."""
    if name is None:
        if turns is not None or calls is not None:
            _refuse("--turns and --calls limit a live model: name one with --model, or leave them out")
        return None
    if repeats:
        _refuse("--faults and --trials repeat the scripted model's trip: leave them out, or --model")
    from settlemark_demo._live import LiveModel, ModelFailed

    try:
        return LiveModel.open(name, Limits(turns or TURNS, calls or CALLS))
    except ModelFailed as error:
        _refuse(f"{error}; nothing was acted")


def _ledger(given: str | None, folder: Path) -> tuple[str, str]:
    """Return the ledger's URL, and a suffix that makes every name new to an older ledger."""
    if given is None:
        return f"sqlite:///{folder / 'ledger.db'}", ""
    url = given if "://" in given or given == "memory:" else f"sqlite:///{given}"
    return url, f"-{secrets.token_hex(3)}"


def _play(
    console: Console, sides: tuple[Side, Side], played: list[Scenario], live: LiveModel | None
) -> list[tuple[Scenario, Pair]]:
    from settlemark_demo import _report

    console.print(_report.introduction(sides, None if live is None else live.name))
    found: list[tuple[Scenario, Pair]] = []
    for scenario in played:
        pair = sides[0].play(scenario, live), sides[1].play(scenario, live)
        console.print()
        if live is not None:
            console.print(_report.said(scenario, sides, pair))
            if not found:
                _refuse_one_that_calls_nothing(live, pair)
        found.append((scenario, pair))
        console.print(_report.comparison(scenario, sides, pair))
    return found


def _refuse_one_that_calls_nothing(live: LiveModel, pair: Pair) -> None:
    from settlemark_demo._live import ModelFailed
    from settlemark_demo._turns import ByTurn

    turns = [turn for evidence in pair if isinstance(evidence, ByTurn) for turn in evidence.turns]
    if not any(turn.calls for turn in turns):
        unreadable = any(turn.unreadable for turn in turns)
        how = "called tools in a way that cannot be read" if unreadable else "was given tools and called none"
        raise ModelFailed(f"{live.name} {how}: name a model that calls tools")


def _account(console: Console, settlement: Settlement, played: list[tuple[Scenario, Pair]]) -> str:
    from rich.text import Text

    from settlemark.hosting import account
    from settlemark_demo._scenarios import transactions_of

    told = account(transactions_of(settlement, [scenario for scenario, _ in played]))
    console.print("\n[bold]The ledger's account of the settled run[/]\n")
    console.print(Text(told), soft_wrap=True)
    console.print()
    return told


def _repeat(console: Console, sides: tuple[Side, Side], trials: list[Scenario], rate: float) -> list[Tally]:
    if not trials:
        return []
    from rich.progress import Progress

    from settlemark_demo import _report, _trials

    for side in sides:
        side.world.pace(_TRIAL_LATENCY)
        side.world.timeout = _TRIAL_TIMEOUT_SECONDS
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("trips under faults", total=len(trials))
        tallies = _trials.repeat(trials, sides, told=lambda: progress.advance(task))
    console.print(_report.rates(tallies, rate))
    console.print()
    return tallies


def _is_good(played: list[tuple[Scenario, Pair]], tallies: list[Tally]) -> bool:
    """Whether the settled side was clean and in order throughout, by its counterparties' logs."""
    settled = [pair[1] for _, pair in played]
    return all(evidence.clean and evidence.in_order for evidence in settled) and not any(
        tally.dirty or tally.out_of_order for tally in tallies[1:]
    )


def _residue_values(settlement: Settlement, played: list[tuple[Scenario, Pair]]) -> list[dict[str, Any]]:
    from settlemark.hosting import residue_values
    from settlemark_demo._scenarios import transactions_of

    return residue_values(transactions_of(settlement, [scenario for scenario, _ in played]))


def _values(played: list[tuple[Scenario, Pair]], tallies: list[Tally]) -> dict[str, Any]:
    return {
        "scenarios": [
            {
                "name": scenario.name,
                "title": scenario.title,
                "stock": pair[0].values(),
                "settled": pair[1].values(),
            }
            for scenario, pair in played
        ],
        "trials": [tally.values() for tally in tallies],
    }
