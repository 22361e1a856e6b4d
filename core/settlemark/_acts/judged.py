"""What a policy has said of an effect before it acts."""

from __future__ import annotations

from typing import Literal, NamedTuple

Verdict = Literal["allow", "ask", "deny"]
STRICTNESS: tuple[Verdict, ...] = ("allow", "ask", "deny")
"""The verdicts, the strictest last."""


class Judged(NamedTuple):
    """What a policy has said of an effect: by which rule, and of which policy that is a rule.

    Attributes:
        verdict: what it said.
        rule: the rule's name.
        policy: the policy's version.
        digest: of the policy's table; "" for one that is a function.
    """

    verdict: Verdict
    rule: str
    policy: str
    digest: str = ""


__all__ = ["STRICTNESS", "Judged", "Verdict"]
