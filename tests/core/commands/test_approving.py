"""`settlemark approvals`, `approve` and `reject` of what has terms: who may answer, and how many of them."""

from __future__ import annotations

import json

import pytest
from tests.rooms.cli import build
from typer.testing import CliRunner

from settlemark import Approval, Settlement, effect


@pytest.fixture
def ledger(tmp_path):
    """A ledger with a payment that two people have to say yes to."""

    @effect("irreversible", scope="account:/{account}", approve=Approval(by=("ada", "role:board"), quorum=2, within=60))
    def pay(account):
        return account

    file = tmp_path / "case.db"
    with Settlement(f"sqlite:///{file}") as settlement:
        settlement.run("case-7", lambda tx: tx.call(pay, account="ada"))
        (asked,) = settlement.approvals()
    return str(file), asked


def run(*arguments):
    return CliRunner().invoke(build(), [str(each) for each in arguments], prog_name="settlemark")


def test_the_row_of_a_question_is_shown_in_sentences_and_as_json(ledger):
    file, asked = ledger
    shown = run("approvals", file).stdout
    assert "to be answered by ada or role:board: 2 of them" in shown
    assert "a no unless answered by" in shown
    (one,) = json.loads(run("approvals", file, "--json").stdout)
    row = one["approval"]
    assert (row["by"], row["quorum"], row["digest"], row["answers"]) == (
        ["ada", "role:board"],
        2,
        asked.approval.digest,
        [],
    )


def test_who_may_not_answer_is_refused_with_status_1_and_nothing_counts(ledger):
    file, asked = ledger
    refused = run("approve", asked.key, file, "--as", "eve")
    assert (refused.exit_code, "eve is none of those who may answer: ada, role:board" in refused.output) == (1, True)
    stale = run("approve", asked.key, file, "--as", "ada", "--seen", "another")
    assert (stale.exit_code, "its arguments are not those that the answer is about" in stale.output) == (1, True)
    (one,) = json.loads(run("approvals", file, "--json").stdout)
    assert (one["approval"]["answers"], [each["by"] for each in one["approval"]["refused"]]) == ([], ["eve", "ada"])


def test_one_of_two_answers_says_how_many_more_are_needed(ledger):
    file, asked = ledger
    first = run("approve", asked.key, file, "--as", "ada", "--seen", asked.approval.digest)
    assert "It is on record; 1 more of those who may answer have to say the same." in first.stdout
    done = json.loads(run("approve", asked.key, file, "--as", "cy", "--role", "board", "--json").stdout)
    assert (done["changed"], done["more"], done["settled"]) == (True, 0, True)  # its tool is declared here
    assert json.loads(run("approvals", file, "--json").stdout) == []
    assert "approved" in run("export", file).stdout
