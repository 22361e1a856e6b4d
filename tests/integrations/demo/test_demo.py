from __future__ import annotations

import importlib.metadata
import io
import json
import sqlite3
import sys
import tempfile
from contextlib import closing
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from tests.extent import examples
from tests.rooms.cli import main as cli
from tests.rooms.demo import Entry, Evidence, World, _report, _scenarios, _trials, _world, two_worlds
from tests.rooms.demo_whole import _plot
from typer.testing import CliRunner

from settlemark import Settlement, State

TRIP = ("reserve_hotel", "reserve_flight", "reserve_car", "send_confirmation")
TRAVEL = ("reserve_hotel", "reserve_flight", "reserve_car")
WIDTH = 160


@pytest.fixture(scope="module")
def settlement(tmp_path_factory):
    with Settlement(f"sqlite:///{tmp_path_factory.mktemp('ledger') / 'ledger.db'}", on_failure="retry") as opened:
        yield opened


@pytest.fixture(scope="module")
def sides(tmp_path_factory, settlement):
    stock, settled = two_worlds(tmp_path_factory.mktemp("worlds"), latency=0.5)
    with stock, settled:
        yield _scenarios.stock_side(stock), _scenarios.settled_side(settled, settlement)


@pytest.fixture(scope="module")
def played(sides):
    """Every scenario, as both sides' counterparties logged it."""
    return {
        scenario.name: (scenario, tuple(side.play(scenario) for side in sides)) for scenario in _scenarios.scenarios()
    }


def events(evidence):
    return [(entry.tool, entry.event) for entry in evidence.entries]


# -- what is played, read from the counterparties' logs ---------------------------------------------------


def test_a_pipeline_lands_in_the_order_issued_and_stocks_does_not(played):
    scenario, (stock, settled) = played["pipeline"]

    assert events(settled) == [(tool, "done") for tool in scenario.tools]
    assert settled.effects[-1].detail == "live, with a search index"
    assert settled.clean

    assert not stock.in_order
    assert not stock.clean


def test_a_trip_that_goes_well_is_complete_on_both_sides_and_in_order_on_the_settled_one(played):
    _, (stock, settled) = played["trip-well"]

    assert events(settled) == [*((tool, "booked") for tool in TRAVEL), (TRIP[-1], "mailed")]
    assert (settled.outcome, settled.duplicates, settled.named) == ("all", 0, frozenset())

    assert (stock.outcome, stock.duplicates) == ("all", 0)
    assert not stock.in_order


def test_a_refused_flight_leaves_nothing_on_the_settled_side_and_a_mail_and_bookings_on_stocks(played):
    _, (stock, settled) = played["trip-no-flight"]

    assert events(settled) == [
        ("reserve_hotel", "booked"),
        *[("reserve_flight", "refused")] * 3,
        ("reserve_hotel", "cancelled"),
    ]
    assert (settled.outcome, settled.mails, settled.left, settled.named) == ("nothing", 0, [], frozenset())

    assert (stock.outcome, stock.mails) == ("broken", 1)
    assert {entry.tool for entry in stock.left} == {"reserve_hotel", "reserve_car"}


def test_a_lost_answer_books_once_on_the_settled_side_and_twice_on_stocks(played):
    _, (stock, settled) = played["trip-lost-answer"]

    assert events(settled) == [*((tool, "booked") for tool in TRAVEL), (TRIP[-1], "mailed")]
    assert (settled.outcome, settled.duplicates) == ("all", 0)

    assert (stock.outcome, stock.duplicates) == ("broken", 1)
    assert events(stock).count(("reserve_flight", "booked")) == 2


def test_an_undo_that_fails_for_good_is_named_exactly_and_not_called_clean(played, settlement):
    scenario, (stock, settled) = played["trip-stuck"]

    (left,) = settled.left
    (residue,) = _scenarios.residue_of(settlement, scenario)
    assert (left.tool, residue.tool) == ("reserve_hotel", "reserve_hotel")
    assert residue.key == left.key
    assert residue.tag == "unresolved"
    assert settled.named == {left.key}
    assert (settled.outcome, settled.mails, settled.clean) == ("named", 0, True)

    assert (stock.outcome, stock.mails, stock.named) == ("broken", 1, frozenset())


def test_the_ledger_gives_account_of_every_scenario_and_leaves_none_unfinished(played, settlement):
    scenarios = [scenario for scenario, _ in played.values()]
    recorded = _scenarios.transactions_of(settlement, scenarios)

    assert [(r.row.run, r.state) for r in recorded] == [
        ("pipeline", State.COMMITTED),
        ("trip-well", State.COMMITTED),
        ("trip-no-flight", State.ABORTED),
        ("trip-lost-answer", State.COMMITTED),
        ("trip-stuck", State.ABORTED),
    ]
    for scenario, each in zip(scenarios, recorded, strict=True):
        because = str(scenario.turns()[0].content)
        assert all((effect.row.rationale or "").startswith(because) for effect in each.effects)


def test_both_sides_send_the_same_requests_and_only_the_settled_one_has_keys_to_send(sides, played):
    requests = []
    for side in sides:
        booked = [entry for entry in side.world.provider.log() if entry["event"] == "booked"]
        requests.append({json.dumps(entry["request"], sort_keys=True) for entry in booked if entry["kind"] == "hotel"})
        keys = {entry["key"] for entry in booked}
        assert (None in keys) == (side.label == "stock ToolNode")

    assert requests[0] == requests[1]


def test_the_report_shows_both_sides_from_the_logs(sides, played):
    out = io.StringIO()
    console = Console(file=out, width=WIDTH)
    console.print(_report.introduction(sides))
    for scenario, pair in played.values():
        console.print(_report.comparison(scenario, sides, pair))

    shown = out.getvalue()
    assert shown.count("NOT clean") == sum(not evidence.clean for _, pair in played.values() for evidence in pair)
    assert "live, without a search index" in shown
    assert "1, then undone: 1" in shown


def test_the_timeline_is_a_picture(sides, played, tmp_path):
    _plot.save(tmp_path / "timeline.png", sides, list(played.values()))

    assert (tmp_path / "timeline.png").read_bytes().startswith(b"\x89PNG")


# -- trials -----------------------------------------------------------------------------------------------


def test_under_random_faults_every_settled_trip_is_clean_and_completes_when_it_can_and_stocks_are_not(sides):
    for side in sides:
        side.world.pace(0.1)
        side.world.timeout = 0.3
    told = []
    trials = [_trials.draw(0.6, seed=3, number=number) for number in range(1, 11)]
    assert {scenario.must_complete for scenario in trials} == {True, False}

    stock, settled = _trials.repeat(trials, sides, told=lambda: told.append(1))

    assert len(told) == settled.trials == stock.trials == 10
    assert (settled.clean, settled.dirty, settled.duplicates, settled.stray_mails) == (10, [], 0, 0)
    assert settled.out_of_order == 0
    assert settled.completed == settled.completable == stock.completable > 0
    assert settled.outcomes["named"] + settled.outcomes["nothing"] == 10 - settled.completable > 0
    assert stock.clean < 10
    assert stock.duplicates > 0
    assert len(stock.dirty) == 10 - stock.clean


@given(st.floats(0, 1), st.integers(0, 100), st.integers(1, 100))
def test_the_same_seed_draws_the_same_faults(rate, seed, number):
    assert _trials.draw(rate, seed, number) == _trials.draw(rate, seed, number)


@given(st.integers(0, 1000))
def test_passing_faults_end_by_the_third_try_and_lasting_ones_are_owned_up_to(seed):
    drawn = _trials.draw(1.0, seed, 1)

    lasting = [rule for rule in drawn.faults if rule["times"] < 0]
    assert all(rule["times"] <= 2 for rule in drawn.faults)
    assert len(drawn.mail_faults) <= 2
    assert drawn.must_complete == (lasting == [])
    assert [rule["on"] for rule in lasting] in ([], ["book"], ["cancel", "book"])


def test_without_faults_nothing_is_drawn():
    drawn = _trials.draw(0.0, 1, 1)

    assert (drawn.faults, drawn.mail_faults, drawn.must_complete) == ((), (), True)


# -- what counts as clean ---------------------------------------------------------------------------------


def trip(*entries, named=(), **options):
    lines = [Entry(n, tool, event, id_, key) for n, (tool, event, id_, key) in enumerate(entries)]
    return Evidence(TRIP, tuple(lines), frozenset(named), **options)


BOOKED = [(tool, "booked", tool, f"key {tool}") for tool in TRAVEL]
MAILED = (TRIP[-1], "mailed", "<1@mail>", None)
CANCELLED = [(tool, "cancelled", tool, None) for tool in reversed(TRAVEL)]


@pytest.mark.parametrize(
    ("evidence", "outcome", "clean"),
    [
        (trip(), "nothing", True),
        (trip(must_complete=True), "nothing", False),
        (trip(*BOOKED, MAILED), "all", True),
        (trip(*BOOKED, MAILED, named=["key reserve_car"]), "broken", False),
        (trip(*BOOKED), "broken", False),
        (trip(*BOOKED, *CANCELLED), "nothing", True),
        (trip(*BOOKED, *CANCELLED, named=["key reserve_car"]), "broken", False),
        (trip(*BOOKED, *CANCELLED, MAILED), "broken", False),
        (trip(*BOOKED, *CANCELLED[:-1], named=["key reserve_hotel"]), "named", True),
        (trip(*BOOKED, *CANCELLED[:-1], named=["key reserve_hotel"], must_complete=True), "named", False),
        (trip(*BOOKED, *CANCELLED[:-1], named=["key reserve_car"]), "broken", False),
        (trip(*BOOKED, *CANCELLED[:-1], MAILED, named=["key reserve_hotel"]), "broken", False),
        (trip(*BOOKED, MAILED, MAILED), "broken", False),
        (trip(BOOKED[0], (TRIP[0], "booked", "again", None), CANCELLED[-1], *BOOKED[1:], MAILED), "all", False),
        (trip(MAILED, *BOOKED), "all", True),
        (trip(MAILED, *BOOKED, in_sequence=True), "all", False),
    ],
)
def test_a_trip_is_clean_when_it_is_all_or_nothing_or_what_is_left_is_named_exactly(evidence, outcome, clean):
    assert (evidence.outcome, evidence.clean) == (outcome, clean)


# A mail server logs mails and a provider bookings: no log can say otherwise.
entry = st.one_of(
    st.tuples(
        st.sampled_from(TRAVEL),
        st.sampled_from(["booked", "cancelled", "refused", "replayed"]),
        st.text("ab"),
        st.sampled_from([None, "key"]),
    ),
    st.tuples(st.just(TRIP[-1]), st.just("mailed"), st.text("ab"), st.sampled_from([None, "key"])),
)


@settings(max_examples=examples(500))
@given(st.lists(entry), st.booleans())
def test_whatever_the_logs_say_a_clean_trip_has_no_duplicate_and_no_mail_without_its_bookings(entries, must_complete):
    evidence = trip(*entries, must_complete=must_complete)

    assert json.loads(json.dumps(evidence.values())) == evidence.values()
    if evidence.clean:
        assert evidence.duplicates == 0
        assert evidence.mails == 0 or {entry.tool for entry in evidence.left} >= set(TRAVEL)
        assert evidence.complete or not must_complete


# -- the command ------------------------------------------------------------------------------------------


@pytest.fixture
def command(monkeypatch, tmp_path):
    entry = EntryPoint("demo", "settlemark_demo._command:demo", cli.GROUP)
    found = importlib.metadata.entry_points

    def entry_points(**chosen):
        return [entry] if chosen == {"group": cli.GROUP} else found(**chosen)

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def run(*arguments):
        return CliRunner().invoke(cli.build(), [str(a) for a in arguments], env={"COLUMNS": str(WIDTH)})

    return run


def test_the_command_compares_tells_the_account_and_says_where_the_ledger_lies(command, tmp_path):
    result = command("demo", "--plot", tmp_path / "timeline.png")

    assert result.exit_code == 0, result.output
    for expected in ("stock ToolNode", "SequencedToolNode", "order of effects", "mails sent", "duplicates"):
        assert expected in result.stdout
    (folder,) = tmp_path.glob("settlemark-demo-*")
    assert f"sqlite:///{folder / 'ledger.db'}" in result.stdout
    assert (tmp_path / "timeline.png").stat().st_size > 0
    assert command("show", folder / "ledger.db").exit_code == 0
    residue = command("residue", folder / "ledger.db", "--json")
    assert residue.exit_code == 1
    assert [left["tool"] for left in json.loads(residue.stdout)] == ["reserve_hotel"]


def test_the_command_prints_json_alone_when_asked_and_plays_anew_in_a_ledger_that_was_used(command, tmp_path):
    arguments = ("demo", "--json", "--ledger", tmp_path / "mine.db", "--faults", 0.1, "--trials", 1)
    first, second = command(*arguments), command(*arguments)

    assert (first.exit_code, second.exit_code) == (0, 0), first.output + second.output
    for told in (json.loads(first.stdout), json.loads(second.stdout)):
        assert told["clean"] is True
        assert [scenario["settled"]["outcome"] for scenario in told["scenarios"]] == [
            "all",
            "all",
            "nothing",
            "all",
            "named",
        ]
        assert [scenario["stock"]["clean"] for scenario in told["scenarios"]] == [False, True, False, False, False]
        assert [side["trials"] for side in told["trials"]] == [1, 1]
        assert [left["tool"] for left in told["residue"]] == ["reserve_hotel"]
    with closing(sqlite3.connect(tmp_path / "mine.db")) as connection:
        (recorded,) = connection.execute("SELECT count(*) FROM settlemark_transaction").fetchone()
    assert recorded == 2 * (5 + 1)


def test_the_command_exits_with_1_when_the_settled_side_is_not_clean(command, monkeypatch):
    monkeypatch.setattr(_scenarios, "settled_side", lambda world, settlement: _scenarios.stock_side(world))

    result = command("demo", "--json")

    assert result.exit_code == 1
    assert json.loads(result.stdout)["clean"] is False


def test_a_ledger_that_cannot_be_opened_is_an_error_and_nothing_is_started(command, monkeypatch, tmp_path):
    started = []
    monkeypatch.setattr(World, "__init__", lambda self, *a, **k: started.append(a))

    result = command("demo", "--ledger", "nosuch://host/db")

    assert result.exit_code == 2
    assert "settlemark demo: " in result.stderr
    assert started == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("plot", "said"),
    [
        ("nowhere/timeline.png", "there is no folder nowhere to draw timeline.png in: make it, or name another file"),
        ("timeline.doc", "timeline.doc names no format that can be drawn: end it in .png or .svg"),
        ("timeline", "timeline names no format that can be drawn: end it in .png or .svg"),
    ],
)
def test_a_picture_that_cannot_be_written_is_an_error_and_nothing_is_played(command, monkeypatch, tmp_path, plot, said):
    started = []
    monkeypatch.setattr(World, "__init__", lambda self, *a, **k: started.append(a))
    monkeypatch.chdir(tmp_path)

    result = command("demo", "--plot", plot)

    assert result.exit_code == 2
    assert result.stderr == f"settlemark demo: {said}; nothing was played\n"
    assert started == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("missing", ["langgraph", "langchain_core", "aiosmtpd", "matplotlib"])
def test_without_its_extra_the_command_says_what_to_install_and_the_help_still_lists_it(command, monkeypatch, missing):
    for name in [name for name in sys.modules if name.partition(".")[0] == "settlemark_demo"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)

    listed, run = command("--help"), command("demo")

    assert "demo" in listed.stdout
    assert run.exit_code == 2
    assert f'the demo needs {missing}: pip install "settlemark[demo]"' in run.stderr


# -- the worlds -------------------------------------------------------------------------------------------


def test_when_one_world_cannot_start_none_is_left_running(monkeypatch, tmp_path):
    ended = []

    class Fake:
        def __init__(self, log_path):
            self.log_path = Path(log_path)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            ended.append(self.log_path.relative_to(tmp_path).as_posix())

        def delay(self, kind, seconds):
            pass

    class Failing(Fake):
        def __init__(self, log_path):
            super().__init__(log_path)
            if self.log_path.parent.name == "settled":
                raise RuntimeError("the child died")

    monkeypatch.setattr(_world, "Provider", Fake)
    monkeypatch.setattr(_world, "Mailbox", Failing)

    with pytest.raises(RuntimeError, match="the child died"):
        two_worlds(tmp_path)

    assert sorted(ended) == ["settled/provider.jsonl", "stock/mailbox.jsonl", "stock/provider.jsonl"]
