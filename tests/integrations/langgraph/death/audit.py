"""Judges what agents that were killed have done: the office's log, and what is said of it, by the state and by name."""

from __future__ import annotations

from collections import Counter

from tests.integrations.langgraph.death.child import UNKEYED

NEVER_LEFT = "partial_commit"


def audit(way, office, told, *, deaths):
    """Return everything that is wrong with exactly once, in words; empty when all is well.

    What has a key, or can be asked about, is there exactly once. Anything else is there at most once, and named if
    it is not there. The last answers in the state say the same.
    """
    standing, named = office.standing(), {(tool, what) for tool, what, _ in told["named"]}
    wrong = []
    for goal in way.goals:
        if standing[goal] > 1:
            wrong.append(f"{_words(goal)}: {standing[goal]} times")
        elif not standing[goal] and not (goal[0] in UNKEYED and goal in named):
            wrong.append(f"{_words(goal)}: lost")
    return wrong + _unasked(way, standing) + _untold(way, office, named, told)


def audit_settled(way, office, told, *, deaths):
    """Return everything that is wrong with the settlement's part of it: nothing half-done stays, and none is unnamed.

    Whatever stands at the office was committed, or is named; whatever was committed stands there. A key acts once.
    Only what nobody can be asked about is in doubt, one for each death.
    """
    standing, kept = office.standing(), Counter(map(tuple, told["kept"]))
    named = Counter((tool, what) for tool, what, _ in told["named"])
    wrong = [
        f"{_words(goal)}: {standing[goal]} stand, {kept[goal]} are committed, {named[goal]} named"
        for goal in way.goals
        if not kept[goal] <= standing[goal] <= kept[goal] + named[goal]
    ]
    done = Counter((entry["verb"], entry["key"]) for entry in office.log() if entry["key"])
    wrong += [f"{verb} under {key}: {n} times" for (verb, key), n in done.items() if n > 1 and "again" not in verb]
    doubts = {(tool, what) for tool, what, tag in told["named"] if tag != NEVER_LEFT}
    wrong += [f"{_words(doubt)} is in doubt, and could be known" for doubt in doubts if doubt[0] not in UNKEYED]
    if len(doubts) > deaths:
        wrong.append(f"{deaths} death(s) left in doubt: {doubts}")
    wrong += [f"never ended: {name}" for name in told["unfinished"]]
    return wrong + _unasked(way, standing)


def audit_ours(way, office, told, *, deaths):
    """Return what is wrong with either."""
    return audit(way, office, told, deaths=deaths) + audit_settled(way, office, told, deaths=deaths)


def _words(goal):
    return " ".join(goal)


def _unasked(way, standing):
    return [f"{_words(done)}: nobody asked for it" for done in (+standing).keys() - set(way.goals)]


def _untold(way, office, named, told):
    """Return where the state says one thing and the world another."""
    answers = {(tool, what): (status, text) for tool, what, status, text in told["answers"]}
    said = {
        f"{entry['verb'].removesuffix(' again')} {entry['what']}: number {entry['number']}" for entry in office.log()
    }
    wrong = [] if told["last"] == "Done." else [f"its last word was {told['last']!r}"]
    for goal in way.goals:
        status, text = answers.get(goal, ("no answer", ""))
        if status == "success" and text not in said:
            wrong.append(f"{_words(goal)} is answered {text!r}, which the office never said")
        elif status != "success" and goal not in named:
            wrong.append(f"{_words(goal)} is answered {status} {text!r}, and nobody names it")
    return wrong


__all__ = ["audit", "audit_ours", "audit_settled"]
