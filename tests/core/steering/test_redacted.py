"""A rule for redaction removes words, and what a program keeps; what is decided by stays."""

from __future__ import annotations

import pytest

from settlemark import Paused, Payloads, UsageError

pytestmark = [pytest.mark.own_time, pytest.mark.every_store]

RULES = {
    "all that a function sees": lambda tool, path, value: "***" if tool in ("steering", "pause") else value,
    "each field by name": [
        "what", "text", "scopes", "by", "at", "rewound", "keys", "undone", "bound", "conflict", "told", "before",
        "because", "executor", "environment", "owner", "stands", "paused_at",
    ],
}  # fmt: skip # a table


@pytest.fixture(params=RULES)
def redacting(request, url, open_here):
    return open_here(url, payloads=Payloads(redact=RULES[request.param]))


def places(agency, seen=None):
    def plan(run):
        if seen is not None:
            seen.append((run.executor, run.environment))
        run.keep(executor={"token": "abcdef"}, environment="sandbox-7")
        with run.step("museum") as tx:
            tx.call(agency.book, place="museum")
        with run.step("zoo") as tx:
            tx.call(agency.book, place="zoo")

    return plan


def test_a_retraction_undoes_what_it_is_about_and_only_its_text_is_gone(redacting, agency):
    redacting.steered("trip", places(agency))
    redacting.steer("trip", "retract", "no museum", scope="trip:/museum", by="ada")
    (said,) = redacting.steering("trip")
    assert (said.what, said.text, said.scopes, said.by, said.state) == (
        "retract",
        "[redacted]",
        ("trip:/museum",),
        "ada",
        "waiting",
    )
    redacting.steered("trip", lambda run: None)
    assert agency.log == ["book museum", "book zoo", "cancel zoo", "cancel museum"]
    (done,) = redacting.steering("trip")
    assert (done.text, done.state, done.rewound, done.conflict.scope) == (
        "[redacted]",
        "done",
        ("trip/zoo", "trip/museum"),
        "trip:/museum",
    )
    assert [each.scope for each in done.undone] == ["trip:/zoo", "trip:/museum"]


def test_a_paused_run_is_its_owners_and_only_the_reason_and_what_was_kept_is_gone(redacting, agency):
    seen = []
    redacting.pause("trip", by="ada", because="no budget")
    with pytest.raises(Paused, match=r"is paused by ada \(\[redacted\]\)"):
        redacting.steered("trip", places(agency, seen))
    redacting.hand_over("trip", to="zoe", by="ada")
    with pytest.raises(UsageError, match="was handed over to zoe"):
        redacting.go_on("trip", by="ada")
    (found,) = redacting.paused()
    assert (found.by, found.because, found.state, found.before, found.owner) == (
        "ada",
        "[redacted]",
        "paused",
        "museum",
        "zoe",
    )
    redacting.go_on("trip", by="zoe")
    redacting.steered("trip", places(agency, seen))
    assert agency.log == ["book museum", "book zoo"]
    assert seen[0] == (None, None)
    assert [set(each) for each in seen[1]] == [{"$redacted"}, {"$redacted"}]
