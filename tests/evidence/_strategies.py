"""The strategies of the paper, each as what the engine is told and what its agents do beside that."""

from __future__ import annotations

from tests.evidence._bench import UNGUARDED, Strategy

from settlemark import Level

STRATEGIES = (
    UNGUARDED,
    Strategy("pessimistic, drop", {"prevent": Level.L0}, locks="drop"),
    Strategy("pessimistic, wait", {"prevent": Level.L0}, locks="wait"),
    Strategy("snapshot", {"prevent": {"A1"}}, bypass=True),
    Strategy("serializable", {"prevent": {"A1"}}),
    Strategy("causal, settled reads", {"prevent": {"A1", "A3"}}),
    Strategy("causal, early reads", {"prevent": {"A1", "A3"}, "reads": "early"}),
    Strategy("saga", {"prevent": {"A1", "A3"}}, one_by_one=True),
    Strategy("sequencer", {"prevent": {"A6"}}),
    Strategy("registry, checked", {"prevent": {"A2"}}),
    Strategy("registry, pinned", {"prevent": {"A2"}, "tools": "pinned"}),
    Strategy("all guards", {"prevent": Level.L4}),
)

__all__ = ["STRATEGIES"]
