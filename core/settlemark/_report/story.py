"""Why an effect was called, and the story of a run, in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from settlemark._edges.plain import joined
from settlemark._model import json_text
from settlemark._report.sentences import became, headline, short
from settlemark._report.why import Chapter, Why
from settlemark.ledger._contract import RecordedEffect

NOTHING = "Nothing of this run is on record."
_MOST = 500
"""How many characters of a text are told; JSON has all of it."""


def why_account(effect: RecordedEffect, why: Why) -> str:
    """Return why an effect was called, in sentences."""
    lines = [f"{_line(effect)}, in {short(why.transaction)}", *_because(why), *_judged(why), *_steered(why)]
    return joined(lines)


def story_account(story: Sequence[Chapter]) -> str:
    """Return a run's story in sentences: a paragraph for each attempt, its decisions with the effects under each.

    >>> story_account([])
    'Nothing of this run is on record.'
    """
    return "\n\n".join(map(_paragraph, story)) or NOTHING


def _paragraph(chapter: Chapter) -> str:
    recorded, told = chapter
    lines, before = [headline(recorded)], ""
    for number, (effect, why) in enumerate(told, 1):
        reasons = _because(why) if why.decision or why.rationale else []
        if reasons and (why.decision or why.rationale) != before:
            lines += reasons
        before = why.decision or why.rationale or ""
        lines.append(f"  {number}. {_line(effect)}")
        lines += [f"   {line}" for line in (*_judged(why), *_steered(why))]
        lines.append(f"     key: {effect.row.key}")
    return joined(lines)


def _judged(why: Why) -> list[str]:
    words = {"allow": "allowed", "ask": "put to a person", "deny": "denied"}
    if why.verdict is None:
        return []
    return [f"  {words[why.verdict]} by the rule {why.rule} of the policy {why.judged_by}"]


def _steered(why: Why) -> list[str]:
    return [f"  {said['by']} had said ({said['what']}): {_text(said['text'])}" for said in why.steered]


def _line(effect: RecordedEffect) -> str:
    where = f" on {effect.row.scope}" if effect.row.scope else ""  # an old effect has none any more
    return f"{effect.row.tool}{where}: {became(effect)}"


def _because(why: Why) -> list[str]:
    if why.decision is None:
        return [f"  because: {_text(why.rationale)}" if why.rationale else "  no reason is on record"]
    at = None if why.decided_at is None else datetime.fromtimestamp(why.decided_at, UTC)
    when = "" if at is None else f", {at:%Y-%m-%d %H:%M:%S} UTC"
    lines = [f"  decided{when}: {_text(why.title or 'its text is no longer kept')}"]
    reasons = {why.because: "because"}
    reasons.setdefault(why.rationale, "the model said")  # once, where the one is the other
    lines += [f"    {label}: {_text(text)}" for text, label in reasons.items() if text is not None]
    if why.model is not None or why.message is not None:
        told = [name for name in (why.model, why.message and f"message {why.message}") if name]
        lines.append(f"    by the model {', '.join(told)}" if why.model else f"    in {', '.join(told)}")
    if why.tools:
        lines.append(f"    of the tools {_text(', '.join(why.tools))}")
    if why.policy is not None:
        lines.append(f"    policy: {_text(why.policy)}")
    lines += [f"    instead of: {_text(other)}" for other in why.alternatives]
    lines += [f"    grounded on {_ground(each)}" for each in why.grounds]
    return lines


def _ground(ground: dict[str, Any]) -> str:
    if "scope" in ground:
        changed = ground.get("changed") or ()
        since = f"changed since by {', '.join(changed)}" if changed else "not changed since"
        return f"{ground['scope']} at version {ground.get('version')}, {since}"
    if "effect" in ground:
        return f"the effect {ground['effect']}"
    return _text(ground.get("document", ground))


def _text(value: Any) -> str:
    text = " ".join((value if isinstance(value, str) else json_text.encode(value)).split())
    return text if len(text) <= _MOST else f"{text[: _MOST - 1]}…"


__all__ = ["NOTHING", "story_account", "why_account"]
