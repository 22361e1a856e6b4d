"""Judges what agents that were killed have done, from the office's own log and what is named; nobody else is asked."""

from __future__ import annotations

from collections import Counter

from tests.integrations.langgraph.death.child import UNKEYED

NEVER_LEFT = "partial_commit"


def audit(way, office, told, *, deaths):
    """Return everything that is wrong, in words; empty when all is well.

    What has a key, or can be asked about, is there exactly once. Anything else is there at most once, and named if
    it is not there. The last answers in the state say the same.
    """
    standing, named = office.standing(), {(tool, what) for tool, what, _ in told["named"]}
    wrong = []
    for goal in way.goals:
        count, words = standing[goal], " ".join(goal)
        if count > 1:
            wrong.append(f"{words}: {count} times")
        elif not count and not (goal[0] in UNKEYED and goal in named):
            wrong.append(f"{words}: lost")
    wrong += [f"{' '.join(done)}: nobody asked for it" for done in (+standing).keys() - set(way.goals)]
    wrong += _untold(way, office, named, told)
    done = Counter((entry["verb"], entry["key"]) for entry in office.log() if entry["key"])
    wrong += [f"{verb} under {key}: {n} times" for (verb, key), n in done.items() if n > 1 and "again" not in verb]
    doubts = [(tool, what) for tool, what, tag in told["named"] if tag != NEVER_LEFT]
    wrong += [f"{' '.join(doubt)} is in doubt, and could be known" for doubt in doubts if doubt[0] not in UNKEYED]
    if len(set(doubts)) > deaths:
        wrong.append(f"{deaths} death(s) left in doubt: {doubts}")
    wrong += [f"never ended: {name}" for name in told["unfinished"]]
    return wrong


def _untold(way, office, named, told):
    """Return where the state says one thing and the world another."""
    answers = {(tool, what): (status, text) for tool, what, status, text in told["answers"]}
    wrong = [] if told["last"] == "Done." else [f"its last word was {told['last']!r}"]
    said = {f"{entry['verb']} {entry['what']}: number {entry['number']}" for entry in office.log()}
    for goal in way.goals:
        status, text = answers.get(goal, ("no answer", ""))
        if status == "success" and text not in said:
            wrong.append(f"{' '.join(goal)} is answered {text!r}, which the office never said")
        elif status != "success" and goal not in named:
            wrong.append(f"{' '.join(goal)} is answered {status} {text!r}, and nobody names it")
    return wrong


__all__ = ["audit"]
