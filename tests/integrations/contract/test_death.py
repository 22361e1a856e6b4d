"""SIGKILL before and after everything that a tool does, and a new process that goes on with the job.

By the counterparty's own log each effect is there exactly once, whenever the process died, what was undone is not
there, and the model has been told what is. Stock, beside it, does effects twice.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from tests.integrations.contract.child import GOALS, INSTEAD, Nursery
from tests.integrations.contract.conftest import EACH
from tests.integrations.langgraph.death.office import Office
from tests.servers import _roomy_memory

from settlemark import Settlement
from settlemark.testing import can_fork

pytestmark = pytest.mark.skipif(not can_fork(), reason="a process is killed in a copy of another")

UNDOABLE = {"book", "cancel"}


@pytest.fixture(scope="module")
def nursery(request):
    """A process that has loaded the framework, and from which those that die are copied."""
    with Nursery(request.param) as nursery:
        if nursery.cannot_resume:
            pytest.skip(nursery.cannot_resume)
        yield nursery


each = pytest.mark.parametrize("nursery", EACH, indirect=True)


@pytest.fixture
def deaths(nursery):
    """Play the job again and again; `Deaths.die(at)` kills it there, and has a new process go on."""
    folder = Path(tempfile.mkdtemp(dir=_roomy_memory()))
    yield Deaths(nursery, folder)
    shutil.rmtree(folder)


class Deaths:
    def __init__(self, nursery, folder):
        self._nursery = nursery
        self._folder = folder
        self._cases = 0
        self._template = folder / "template.db"
        Settlement(f"sqlite:///{self._template}").close()

    def die_and_plan_anew(self, at, plan):
        """Return the office, and what a new process told whose framework remembers nothing."""
        case = self._fresh()
        assert self._nursery.play(case, at=at, settled=True)["killed"]
        shutil.rmtree(case / "framework")
        told = self._nursery.play(case, at=None, settled=True, plan=plan)["told"]
        return Office(case / "office.jsonl"), told

    def _fresh(self):
        self._cases += 1
        case = self._folder / f"case-{self._cases}"
        case.mkdir()
        shutil.copyfile(self._template, case / "ledger.db")
        return case

    def die(self, at, *, settled, **options):
        """Return the office, what the process that went on told, and whether one was killed there."""
        case = self._fresh()
        ended = self._nursery.play(case, at=at, settled=settled, **options)
        if at is not None and ended["killed"]:
            went_on = self._nursery.play(case, at=None, settled=settled, **options)
            return Office(case / "office.jsonl"), went_on["told"], True
        return Office(case / "office.jsonl"), ended["told"], False


REWRITTEN = {(verb, INSTEAD.get(what, what)): n for (verb, what), n in GOALS.items()}
"""What is there in the end when a hook rewrites the calls."""


def wrong(office, told, goals=GOALS):
    """Everything that is not as if nobody had died, in words."""
    standing = office.standing()
    found = [
        f"{verb} {what}: {standing[verb, what]} times, not {n}"
        for (verb, what), n in goals.items()
        if standing[verb, what] != n
    ]
    done = Counter((entry["verb"], entry["key"]) for entry in office.log() if entry["key"])
    found += [f"{verb} under {key}: {n} times" for (verb, key), n in done.items() if n > 1 and "again" not in verb]
    found += [f"nobody asked for {verb} {what}" for verb, what in (+standing).keys() - goals.keys()]
    found += [f"{name} never ended" for name in told["unfinished"]]
    found += [f"{name} is left to mend" for name in told["left"]]
    said = {
        f"{entry['verb'].removesuffix(' again')} {entry['what']}: number {entry['number']}" for entry in office.log()
    }
    lies = [text for text in told["texts"] if ": number " in text and text not in said]
    return found + [f"the model was told {text!r}" for text in lies]


@each
def test_each_effect_happens_exactly_once_wherever_the_process_dies(deaths, record_property):
    office, told, _ = deaths.die(None, settled=True)
    points = told["points"]
    assert wrong(office, told) == []
    assert {"before book Ada #1", "after mail ada #1", "after cancel Cee #1"} <= {*points}

    found, kills = {}, 0
    for point in points:
        office, told, killed = deaths.die(point, settled=True)
        kills += killed
        found[point] = wrong(office, told)

    assert {point: said for point, said in found.items() if said} == {}
    assert kills == len(points)
    record_property("explored_deaths in the contract suite", kills)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("what", ["book Zoe", "mail zoe", "book Bee", "cancel Cee"])
@pytest.mark.parametrize("when", ["before", "after"])
@each
def test_calls_that_a_hook_rewrites_are_known_again_wherever_the_process_dies(deaths, when, what):
    office, told, killed = deaths.die(f"{when} {what} #1", settled=True, rewritten=True)

    assert killed
    assert wrong(office, told, REWRITTEN) == []
    assert "Zoe" not in {entry["what"] for entry in office.log() if entry["verb"] == "cancel"}


@pytest.mark.sampled(7)
@pytest.mark.parametrize("what", ["book Ada", "book Cee", "cancel Cee", "book Bee", "mail ada", "mail bee"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("deep", [1, 2])
@each
def test_an_agent_inside_a_call_does_each_effect_once_wherever_the_process_dies(deaths, when, what, deep):
    """The framework runs the agent inside from its beginning again; what had stood of it is answered."""
    office, told, killed = deaths.die(f"{when} {what} #1", settled=True, deep=deep)

    assert killed
    assert wrong(office, told) == []


@each
def test_with_stock_effects_happen_twice(deaths, record_property):
    _, told, _ = deaths.die(None, settled=False)
    acts = [point for point in told["points"] if point.startswith(("after book", "after mail"))]

    twice = {}
    for point in acts:
        office, _, _ = deaths.die(point, settled=False)
        if repeated := [goal for goal, n in office.standing().items() if n > 1]:
            twice[point] = repeated

    assert len(twice) > 1
    record_property("explored_deaths after which stock does effects twice", len(twice))


AFTER_BOOKING, AFTER_THE_LAST = "after book Ada #1", "after book Bee #1"
ANEW = [
    ("only a look", AFTER_BOOKING, []),
    ("only a look", "before book Ada #1", []),
    ("a look first", AFTER_BOOKING, ["book Ada", "mail ada"]),
    ("other calls", AFTER_BOOKING, ["book Dee", "mail dee"]),
    ("a turn less", AFTER_THE_LAST, ["book Ada", "mail ada"]),
    ("no calls", AFTER_BOOKING, []),
]
SAYS_NOTHING_MORE = ("a turn less", "no calls")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("plan", "point", "stands"), ANEW, ids=[f"{plan} {point}" for plan, point, _ in ANEW])
@each
def test_what_only_the_plan_of_a_process_that_died_had_asked_for_is_undone_and_never_leaves(
    deaths, plan, point, stands
):
    office, told = deaths.die_and_plan_anew(point, plan)

    # How often what it asks for is there, is another test's: a thread without its checkpoints is new to LangGraph.
    sent = {f"mail {entry['what']}" for entry in office.log() if entry["verb"].startswith("mail")}
    assert sorted(f"{verb} {what}" for (verb, what), n in office.standing().items() if n) == stands
    assert sent == {one for one in stands if one.startswith("mail ")}
    assert (told["unfinished"], told["left"]) == ([], [])
    assert [text for text in told["texts"] if "gave up" in text] == []
    if plan not in SAYS_NOTHING_MORE:  # else a framework that has no end of a job leaves it to the recovery
        assert told["open"] == []
