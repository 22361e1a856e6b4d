"""The demo with a live chat model, which decides for itself what to call; here a fake one stands in for it."""

from __future__ import annotations

import importlib.metadata
import json
import re
import sys
import tempfile
from importlib.metadata import EntryPoint

import langchain.chat_models
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import SecretStr
from tests.rooms.cli import main as cli
from tests.rooms.demo import Entry, Limits, World, _report, _scenarios, two_worlds
from tests.rooms.demo_whole import ByTurn, Call, LiveModel, ModelFailed, Turn, _graph, _plot
from typer.testing import CliRunner

from settlemark import Settlement, State

TRIP = ("reserve_hotel", "reserve_flight", "reserve_car", "send_confirmation")
WIDTH = 160
NAME = "fake:model"
EXAMPLE = "--model openai:gpt-5-mini"


class Fake(BaseChatModel):
    """A provider's model: `say` is told the prompt and its own earlier turns, and returns the next one's calls."""

    say: object = None
    requests: list = []  # noqa: RUF012 - a pydantic field
    given: list = []  # noqa: RUF012 - so is this
    key: SecretStr | None = None

    @property
    def _llm_type(self):
        return "fake"

    @property
    def lc_secrets(self):
        return {"key": "FAKE_API_KEY", "servers": "FAKE_SERVERS"}

    def bind_tools(self, tools, **options):
        return self.model_copy(update={"given": [tool.name for tool in tools]})

    def _generate(self, messages, stop=None, run_manager=None, **options):
        self.requests.append((messages[0].text, self.given))
        said = [message for message in messages if message.type == "ai"]
        calls = self.say(messages[0].text, said)
        if isinstance(calls, Exception):
            raise calls
        calls = [
            {"name": name, "args": args, "id": f"call-{n}", "type": "tool_call"} for n, (name, args) in enumerate(calls)
        ]
        message = AIMessage("I act." if calls else "That is what stands.", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=message)])


class Toolless(BaseChatModel):
    """A model that has no `bind_tools` of its own."""

    @property
    def _llm_type(self):
        return "toolless"

    def _generate(self, messages, stop=None, run_manager=None, **options):
        raise AssertionError("it must not be asked")


def asked_for(prompt):
    """The calls that a prompt asks for, as a model that does as it is told makes them."""
    named = re.search(r"The trip is called (\S+), the traveller is (\S+)\.", prompt)
    if named is None:
        return [(name, {}) for name in re.search(r"Call (.*?): all", prompt)[1].split(", ")]
    trip, to = named.groups()
    booked = [(name, {"trip": trip, "city": "Lisbon"}) for name in TRIP[:-1]]
    return [*booked, (TRIP[-1], {"trip": trip, "to": to})]


def all_at_once(prompt, said):
    return [] if said else asked_for(prompt)


def one_a_turn(prompt, said):
    return asked_for(prompt)[len(said) : len(said) + 1]


def live(say, **limits):
    return LiveModel(NAME, Fake(say=say, requests=[]), Limits(**limits))


@pytest.fixture(scope="module")
def settlement(tmp_path_factory):
    with Settlement(f"sqlite:///{tmp_path_factory.mktemp('ledger') / 'ledger.db'}", on_failure="retry") as opened:
        yield opened


@pytest.fixture(scope="module")
def sides(tmp_path_factory, settlement):
    stock, settled = two_worlds(tmp_path_factory.mktemp("worlds"), latency=0.3)
    with stock, settled:
        yield _scenarios.stock_side(stock), _scenarios.settled_side(settled, settlement)


@pytest.fixture
def play(sides, request):
    """Play a scenario, under a name of this test's own, with a model on both sides."""

    def play(which, model):
        (scenario,) = [s for s in _scenarios.scenarios(f"-{request.node.name}") if s.name.startswith(which)]
        return [side.play(scenario, model) for side in sides]

    return play


def events(evidence):
    return [(entry.tool, entry.event) for entry in evidence.entries]


BOOKED = [*((tool, "booked") for tool in TRIP[:-1]), (TRIP[-1], "mailed")]


# -- what it does, and what is told of it -----------------------------------------------------------------


def test_both_sides_get_the_same_prompt_and_tools_and_the_models_own_calls_run(play):
    model = live(all_at_once)

    stock, settled = play("trip-well", model)

    assert len(model.chat.requests) == 4
    assert len({prompt for prompt, _ in model.chat.requests}) == 1
    assert all(given == [*TRIP] for _, given in model.chat.requests)
    assert (events(settled), settled.order, settled.outcome, settled.clean) == (BOOKED, [1, 2, 3, 4], "all", True)
    assert (sorted(events(stock)), stock.in_order, stock.outcome) == (sorted(BOOKED), False, "all")
    for evidence in (stock, settled):
        (acted, ended) = evidence.turns
        assert [call.tool for call in acted.calls] == [*TRIP]
        assert not any(call.failed for call in acted.calls)
        assert (ended.text, ended.calls, evidence.stopped) == ("That is what stands.", (), None)


def test_a_turn_that_fails_is_undone_and_the_model_is_told_and_stock_leaves_half_of_it(play, settlement):
    stock, settled = play("trip-no-flight", live(all_at_once))

    assert [*map(str, settled.undone)] == ["1"]
    assert (settled.outcome, settled.clean, settled.mails) == ("nothing", True, 0)
    assert all(call.failed for call in settled.turns[0].calls)
    assert settled.turns[0].calls[0].answer.startswith("undone: reserve_hotel had succeeded")
    assert (stock.outcome, stock.clean, stock.mails) == ("broken", False, 1)
    assert [call.failed for call in stock.turns[0].calls] == [False, True, False, False]
    assert [t.state for t in settlement.transactions()][-1] is State.ABORTED


def test_a_model_that_spreads_its_calls_over_turns_is_judged_turn_by_turn(play):
    stock, settled = play("trip-no-flight", live(one_a_turn))

    assert [part.issued for part in settled.parts] == [(tool,) for tool in TRIP]
    assert [part.outcome for part in settled.parts] == ["all", "nothing", "all", "all"]
    assert (settled.outcome, settled.order, settled.clean) == ("each", [1, 3, 4], True)
    assert (stock.outcome, stock.order, stock.clean) == ("each", [1, 3, 4], True)
    assert settled.left_over == []


def test_a_model_that_asks_again_for_what_was_undone_gets_it_once(play):
    def again_without_the_flight(prompt, said):
        calls = asked_for(prompt)
        return [calls, [calls[0], calls[2]], []][len(said)]

    _, settled = play("trip-no-flight", live(again_without_the_flight))

    assert [(t, e) for t, e in events(settled) if e != "refused"] == [
        ("reserve_hotel", "booked"),
        ("reserve_hotel", "cancelled"),
        ("reserve_hotel", "booked"),
        ("reserve_car", "booked"),
    ]
    assert (settled.issued, settled.order, settled.undone) == ((*TRIP, TRIP[0], TRIP[2]), [1, 5, 6], [1])
    assert (settled.outcome, settled.duplicates, settled.clean) == ("each", 0, True)


def test_what_cannot_be_undone_is_named_exactly_whatever_the_model_called_its_trip(play):
    def otherwise(prompt, said):
        return [] if said else [(name, args | {"trip": "my own"}) for name, args in asked_for(prompt)]

    stock, settled = play("trip-stuck", live(otherwise))

    (left,) = settled.left
    assert (left.tool, settled.named) == ("reserve_hotel", {left.key})
    assert (settled.outcome, settled.clean) == ("named", True)
    assert (stock.outcome, stock.clean) == ("broken", False)


@pytest.mark.parametrize("wrong", [("no_such_tool", {}), ("reserve_car", {"nothing": "it takes"})])
def test_calls_that_cannot_be_run_fail_their_turn_and_nothing_of_it_stays(play, wrong):
    def mistaken(prompt, said):
        calls = asked_for(prompt)
        return [] if said else [*calls[:2], wrong, calls[3]]

    stock, settled = play("trip-well", live(mistaken))

    assert (settled.outcome, settled.left, settled.mails, settled.clean) == ("nothing", [], 0, True)
    assert (stock.outcome, stock.mails, stock.clean) == ("broken", 1, False)


def test_dropping_what_nothing_stood_in_the_way_of_is_not_clean():
    nothing = ByTurn.of(
        [Turn(1.0, "", (Call("reserve_car", {"trip": "t", "city": "Lisbon"}, "no"),))],
        [],
        frozenset(),
        must_complete=lambda earlier, calls: True,
    )

    assert (nothing.outcome, nothing.clean) == ("nothing", False)


def test_calls_must_complete_when_they_are_what_was_asked_for_and_follow_on_each_other():
    pipeline, well, refused = _scenarios.scenarios()[:3]
    steps = [Call(tool, arguments) for tool, arguments in pipeline.calls]
    booked = [Call(tool, arguments) for tool, arguments in well.calls]

    assert pipeline.must_complete_after([], steps)
    assert pipeline.must_complete_after(steps[:2], steps[2:4])
    assert not pipeline.must_complete_after([], steps[1:])
    assert well.must_complete_after(booked, booked[1:2])
    assert not well.must_complete_after([], [Call("reserve_hotel", {"trip": "t"})])
    assert not refused.must_complete_after([], [])


# -- limits -----------------------------------------------------------------------------------------------


def without_end(prompt, said):
    return asked_for(prompt)[:2]


def test_a_model_that_never_ends_is_asked_no_more_than_its_limit_of_turns(play):
    model = live(without_end, turns=3)

    for evidence in play("trip-well", model):
        assert (len(evidence.turns), evidence.stopped) == (3, "turns")
        assert evidence.issued == TRIP[:2] * 3
        assert sorted(evidence.order) == [1, 2, 3, 4, 5, 6]
    assert len(model.chat.requests) == 6


def test_the_turn_that_goes_over_the_limit_of_calls_is_not_run(play):
    for evidence in play("trip-well", live(without_end, calls=5)):
        assert (len(evidence.turns), evidence.stopped) == (3, "calls")
        assert evidence.issued == TRIP[:2] * 2
        assert [call.answer for call in evidence.turns[-1].calls] == [None, None]
        assert len(evidence.entries) == 4


def test_the_picture_and_the_report_number_calls_as_the_model_issued_them(play, sides, tmp_path):
    pair = play("trip-well", live(without_end, turns=2))
    scenario = _scenarios.scenarios()[1]

    _plot.save(tmp_path / "timeline.svg", sides, [(scenario, pair)])

    assert (tmp_path / "timeline.svg").stat().st_size > 0
    said = _report.said(scenario, sides, pair)
    assert [str(line) for line in said.renderables[-3:]] == [
        "  turn 1: 1 reserve_hotel, 2 reserve_flight",
        "  turn 2: 3 reserve_hotel, 4 reserve_flight",
        "  stopped here: the limit of turns is reached (--turns)",
    ]


# -- evidence by turn -------------------------------------------------------------------------------------

turns = st.lists(st.lists(st.sampled_from(TRIP), min_size=1), min_size=1)


@given(turns, st.data())
def test_each_log_entry_is_evidence_of_one_turn_that_called_its_tool(called, data):
    said = [Turn(float(n), "", tuple(Call(tool, {}, "ok") for tool in tools)) for n, tools in enumerate(called)]
    tools = sorted({tool for turn in said for tool in turn.tools})
    moments = st.floats(-1, len(said), allow_nan=False)
    logged = sorted(data.draw(st.lists(st.tuples(moments, st.sampled_from(tools)))))
    entries = [
        Entry(at, tool, "mailed" if tool == TRIP[-1] else "booked", f"{n}") for n, (at, tool) in enumerate(logged)
    ]

    found = ByTurn.of(said, entries, frozenset(), must_complete=lambda earlier, calls: False)

    assert sorted(e.id for part in found.parts for e in part.entries) == sorted(e.id for e in entries)
    assert all(entry.tool in part.issued for part in found.parts for entry in part.entries)
    assert len(found.order) == len(entries)
    assert found.issued == tuple(tool for tools in called for tool in tools)
    assert found.clean == all(part.clean for part in found.parts)
    assert json.loads(json.dumps(found.values())) == found.values()


def test_what_is_named_and_did_not_happen_is_not_clean():
    found = ByTurn.of([], [], frozenset({"key"}), must_complete=lambda earlier, calls: False)

    assert (found.outcome, found.clean) == ("broken", False)


# -- models that cannot be used ---------------------------------------------------------------------------


@pytest.fixture
def opens(monkeypatch):
    """Have `init_chat_model` return this, or raise it."""

    def opens(found):
        def init_chat_model(name):
            assert name == NAME
            if isinstance(found, BaseException):
                raise found
            return found

        monkeypatch.setattr(langchain.chat_models, "init_chat_model", init_chat_model)

    for variable in ("FAKE_API_KEY", "OTHER_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    return opens


NO_KEY = f"{NAME} has no key: set the environment variable FAKE_API_KEY"


class AuthenticationError(Exception):
    """What providers raise."""


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            ImportError("Initializing ChatFake requires the langchain-fake package. `pip install langchain-fake`"),
            f"{NAME} needs langchain-fake: pip install langchain-fake",
        ),
        (ImportError("no words of advice"), f"{NAME} needs langchain-fake: pip install langchain-fake"),
        (
            ValueError("cannot infer model provider"),
            f"langchain knows no provider 'fake': write provider:name, as in {EXAMPLE} (cannot infer model provider)",
        ),
        (RuntimeError("set api_key, or the OTHER_API_KEY environment variable"), NO_KEY.replace("FAKE", "OTHER")),
        (ValueError("an api key is missing"), NO_KEY),
        (Fake(key=SecretStr("")), NO_KEY),
        (Toolless(), f"{NAME} cannot be given tools: name a model that calls tools"),
        (RuntimeError("a\nfault"), f"{NAME} could not be asked: RuntimeError: a fault"),
    ],
)
def test_a_model_that_cannot_be_used_is_an_error_that_says_what_to_do(opens, found, said):
    opens(found)

    with pytest.raises(ModelFailed, match=f"^{re.escape(said)}$"):
        LiveModel.open(NAME)


def test_a_package_that_is_there_and_lacks_another_says_which(opens):
    opens(error := ImportError("Please install it with `pip install -U langchain-fake`"))
    error.__cause__ = ModuleNotFoundError("No module named 'deep'")

    with pytest.raises(ModelFailed, match=re.escape("pip install langchain-fake (No module named 'deep')")):
        LiveModel.open(NAME)


@pytest.mark.parametrize("name", ["model", ":model", "fake:", ""])
def test_a_name_without_its_provider_is_refused(name):
    with pytest.raises(ModelFailed, match="is no model: write provider:name, as in --model openai:gpt-5-mini"):
        LiveModel.open(name)


def test_an_empty_key_is_borne_when_the_environment_has_another_of_that_provider(opens, monkeypatch):
    opens(Fake(key=SecretStr("")))
    monkeypatch.setenv("FAKE_AUTH_TOKEN", "t")

    assert LiveModel.open(NAME).name == NAME


@pytest.mark.parametrize(
    ("error", "key", "said"),
    [
        (AuthenticationError("no"), None, NO_KEY),
        (AuthenticationError("no"), "wrong", f"{NAME} does not take the key in FAKE_API_KEY: set a valid one"),
        (RuntimeError("overloaded"), None, f"{NAME} could not be asked: RuntimeError: overloaded"),
    ],
)
def test_a_refused_request_says_whether_it_was_for_the_key(opens, monkeypatch, error, key, said):
    if key is not None:
        monkeypatch.setenv("FAKE_API_KEY", key)
    ask = live(lambda prompt, said: error).with_tools([])

    with pytest.raises(ModelFailed) as raised:
        _graph.converse(ask, _graph.stock_node([]), thread="t")

    assert str(raised.value) == said


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


def test_with_a_live_model_the_command_shows_what_it_did_on_both_sides(command, opens):
    opens(model := Fake(say=all_at_once, requests=[]))

    result = command("demo", "--model", NAME)

    assert result.exit_code == 0, result.output
    assert f"The same prompts, tools and faults on both sides, {NAME} decides anew on each" in result.stdout
    assert result.stdout.count("  turn 1: 1 reserve_hotel") == 8
    assert result.stdout.count('  turn 2: "That is what stands."') == 10
    assert "stands of what was asked for" in result.stdout
    assert len(model.requests) == 20


def test_json_alone_is_printed_when_asked_and_has_the_models_turns(command, opens):
    opens(Fake(say=all_at_once, requests=[]))

    result = command("demo", "--model", NAME, "--json", "--turns", 1)

    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["model"], told["clean"], told["trials"]) == (NAME, True, [])
    for scenario in told["scenarios"]:
        for side in ("stock", "settled"):
            (turn,) = scenario[side]["turns"]
            assert [call["tool"] for call in turn["calls"]] == scenario[side]["issued"]
            assert scenario[side]["stopped"] == "turns"
    assert [scenario["settled"]["outcome"] for scenario in told["scenarios"]] == [
        "all",
        "all",
        "nothing",
        "all",
        "named",
    ]


def test_the_model_is_scripted_and_nothing_is_opened_unless_one_is_named(monkeypatch, play):
    monkeypatch.setitem(sys.modules, "langchain.chat_models", None)

    stock, settled = play("trip-well", None)

    assert (stock.outcome, settled.outcome) == ("all", "all")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--model", NAME), f"{NO_KEY}; nothing was acted"),
        (("--model", NAME, "--trials", 1), "--faults and --trials repeat the scripted model's trip: leave them out"),
        (("--model", NAME, "--faults", 0.1), "--faults and --trials repeat the scripted model's trip: leave them out"),
        (("--turns", 2), "--turns and --calls limit a live model: name one with --model, or leave them out"),
        (("--calls", 2), "--turns and --calls limit a live model: name one with --model, or leave them out"),
    ],
)
def test_what_does_not_fit_is_an_error_and_nothing_is_started(command, opens, monkeypatch, tmp_path, arguments, said):
    opens(Fake(key=SecretStr("")))
    started = []
    monkeypatch.setattr(World, "__init__", lambda self, *a, **k: started.append(a))

    result = command("demo", *arguments)

    assert result.exit_code == 2
    assert result.stderr.startswith(f"settlemark demo: {said}")
    assert (started, list(tmp_path.iterdir())) == ([], [])


@pytest.mark.parametrize(
    ("say", "said"),
    [
        (lambda prompt, said: [], f"{NAME} was given tools and called none: name a model that calls tools"),
        (lambda prompt, said: AuthenticationError("no"), NO_KEY),
    ],
)
def test_a_model_that_never_acts_is_an_error_and_nothing_was_acted(command, opens, tmp_path, say, said):
    opens(Fake(say=say, requests=[]))

    result = command("demo", "--model", NAME, "--json")

    assert result.exit_code == 2
    assert (result.stdout, result.stderr) == ("", f"settlemark demo: {said}; nothing was acted\n")
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_fails_on_the_way_is_an_error_that_says_where_to_look(command, opens, tmp_path):
    opens(Fake(say=lambda prompt, said: RuntimeError("overloaded") if said else asked_for(prompt), requests=[]))

    result = command("demo", "--model", NAME)

    (folder,) = tmp_path.glob("settlemark-demo-*")
    assert result.exit_code == 2
    assert result.stderr == (
        f"settlemark demo: {NAME} could not be asked: RuntimeError: overloaded; what was done until then: {folder}\n"
    )
    assert (folder / "stock" / "application.db").exists()


def test_the_help_names_the_model_and_its_limits(command):
    help_ = command("demo", "--help")

    assert help_.exit_code == 0
    for expected in ("--model", "PROVIDER:NAME", "about 20 requests to its provider", "--turns", "--calls"):
        assert expected in help_.stdout
