"""A question of a graph that is answered at a terminal, too: the first answer counts, and the other is told so."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.integrations.langgraph.answering import Town, play, url

from settlemark import Settlement

ROOT = Path(__file__).parents[3]
TRIP = (("book", {"hotel": "Ada"}), ("mail", {"to": "a"}))
SENT, KEPT = ["book Ada", "mail a hello"], ["book Ada", "cancel Ada"]
BECAUSE = "no mails today"


class Process:
    """A process that is ready to answer."""

    def __init__(self, part, told):
        self._running = subprocess.Popen(
            [sys.executable, "-m", "tests.integrations.langgraph.answering", part, json.dumps(told)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        self.ready = self._running.stdout.readline()

    def go(self):
        self._running.stdin.write("go\n")
        self._running.stdin.flush()

    def ended(self):
        stdout, stderr = self._running.communicate(timeout=120)
        return SimpleNamespace(code=self._running.returncode, stdout=stdout, stderr=stderr)


class Desk:
    """One thread of a graph that has asked, and those who may answer."""

    def __init__(self, folder, kind, calls, *, is_async):
        self._given = {"folder": str(folder), "kind": kind, "calls": calls, "is_async": is_async}
        self._folder = folder
        self.asked = play(**self._given, given="begin")["asked"]
        with self.settlement() as settlement:
            self.question = min(settlement.approvals(), key=lambda question: question.key)

    def settlement(self):
        return Settlement(url(self._folder))

    def graph(self, answer):
        return Process("resume", {**self._given, "given": answer})

    def terminal(self, answer, *options):
        word = {"approve": ["approve"], "reject": ["reject", "--because", BECAUSE]}[answer]
        return Process("command", [*word, self.question.key, url(self._folder), "--by", "ada", *options])

    def resumed(self, answer="again"):
        """Go on with the graph in a process of its own, and return what it told."""
        process = self.graph(answer)
        process.go()
        ended = process.ended()
        assert ended.code == 0, ended.stderr
        return SimpleNamespace(**json.loads(ended.stdout))

    def at_terminal(self, answer, *options):
        process = self.terminal(answer, *options)
        process.go()
        return process.ended()

    @property
    def world(self):
        return Town(self._folder).log

    def assert_settled(self, *states):
        with self.settlement() as settlement:
            assert [t.state.value for t in settlement.transactions()] == list(states)
            assert (settlement.residue(), settlement.in_doubt(), settlement.approvals()) == ([], [], [])


@pytest.fixture(params=[("node", False), ("create_agent", True)], ids=["node, sync", "create_agent, async"])
def ask(tmp_path, request):
    """Have a graph ask about one of these calls, in a process that has ended since."""
    kind, is_async = request.param
    return lambda *calls: Desk(tmp_path, kind, calls, is_async=is_async)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("first", "second"), [("approve", "reject"), ("reject", "approve")])
def test_what_was_answered_at_a_terminal_is_not_changed_by_a_resume_which_is_told_who_was_first(ask, first, second):
    desk = ask(*TRIP)

    said = desk.at_terminal(first)
    resumed = desk.resumed(second)

    assert (said.code, said.stdout.splitlines()[0]) == (
        0,
        f"{desk.question.key} is {'approved' if first == 'approve' else 'rejected'}, by ada.",
    )
    told = f"was answered already, by ada: {first}; the later answer ({second}) changes nothing"
    assert resumed.late == [["WARNING", f"{desk.question.key} {told}"]]
    assert desk.world == (SENT if first == "approve" else KEPT)
    assert resumed.asked == []
    if first == "approve":
        assert resumed.answers[1] == ["success", "mail done"]
        desk.assert_settled("committed")
    else:
        assert BECAUSE in resumed.answers[1][1]
        desk.assert_settled("aborted")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("answer", ["approve", "again"])
def test_a_resume_that_says_the_same_or_nothing_goes_on_with_the_answer(ask, answer):
    desk = ask(*TRIP)
    desk.at_terminal("approve")

    resumed = desk.resumed(answer)

    assert [level for level, _ in resumed.late] == ([] if answer == "again" else ["INFO"])
    assert desk.world == SENT
    desk.assert_settled("committed")


def test_a_resume_that_came_too_late_answers_no_other_question(ask):
    desk = ask(("rent", {"plate": "X"}), ("pay", {"amount": 100}))
    desk.at_terminal("approve")

    resumed = desk.resumed("reject")

    assert resumed.asked == [["pay", {"amount": 100}]]
    assert desk.world == ["rent X"]
    assert desk.resumed("approve").asked == []
    assert desk.world == ["rent X", "pay 100"]
    desk.assert_settled("committed")


def test_a_resume_that_came_too_late_answers_no_question_of_the_tool_itself(ask):
    desk = ask(("negotiate", {}))
    desk.at_terminal("approve")

    asked = [desk.resumed("reject").asked, desk.resumed("10").asked, desk.resumed("now").asked]

    assert asked == [["how much?"], ["when?"], []]
    assert desk.world == ["negotiate 10 now"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("first", "second"), [("reject", "approve"), ("approve", "approve")])
def test_what_a_resume_has_answered_is_not_changed_at_a_terminal_which_is_told_so(ask, first, second):
    desk = ask(*TRIP)

    resumed = desk.resumed(first)
    said = desk.at_terminal(second)

    assert resumed.late == []
    if first == second:
        assert (said.code, said.stdout) == (0, f"{desk.question.key} was approved already; nothing was changed.\n")
    else:
        assert (said.code, said.stdout) == (1, "")
        told = f"settlemark: {desk.question.key} was answered already, where it was asked: {first}; nothing was changed"
        assert said.stderr.startswith(told)
    assert desk.world == (SENT if first == "approve" else KEPT)
    desk.assert_settled("committed" if first == "approve" else "aborted")


def test_what_a_resume_has_approved_and_has_not_settled_yet_is_not_told_to_have_settled(ask):
    desk = ask(("rent", {"plate": "X"}), ("pay", {"amount": 100}))
    desk.resumed("approve")

    said = desk.at_terminal("approve", "--json")

    done = json.loads(said.stdout)
    assert (said.code, done["changed"], done["settled"]) == (0, False, False)
    assert desk.world == ["rent X"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("here", "there"), [("approve", "reject"), ("reject", "approve")])
def test_of_two_answers_at_once_one_counts_and_the_other_is_told_so(ask, here, there):
    desk = ask(*TRIP)
    graph, terminal = desk.graph(here), desk.terminal(there)
    for each in (graph, terminal):
        each.go()

    resumed, said = json.loads(_ended(graph)), terminal.ended()

    first = there if said.code == 0 else here
    assert desk.world == (SENT if first == "approve" else KEPT)
    assert (resumed["answers"][1] == ["success", "mail done"]) is (first == "approve")
    if first == there:
        assert said.stdout.startswith(f"{desk.question.key} is {'approved' if there == 'approve' else 'rejected'}")
        assert [re.search(r"by ada: (\w+)", text)[1] for _, text in resumed["late"]] == [there]
    else:
        assert (said.code, said.stdout, resumed["late"]) == (1, "", [])
        assert f"was answered already, where it was asked: {here}" in said.stderr
    desk.assert_settled("committed" if first == "approve" else "aborted")


def _ended(process):
    ended = process.ended()
    assert ended.code == 0, ended.stderr
    return ended.stdout
