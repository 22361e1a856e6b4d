"""One row of a table: sessions under a strategy, by the engine's history, beside the counterparty's log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.evidence._judge import Judged
from tests.evidence._report import Share

ANOMALIES = ("A1", "A2", "A3", "A6")


def tally(judged: Sequence[Judged], anomalies: Sequence[str] = ANOMALIES) -> dict[str, Any]:
    """Return what there was in sessions.

    `aborts` are attempts that lost a race, as the ledger has them, which knows nothing of who only read; `attempts` are
    all, as the scripts have counted them.
    `serializable` are the sessions whose log is as if the committed operations had run one after the other;
    `log agrees` are the sessions of which the counterparty's log shows exactly the anomalies that the history does;
    `complete` those that have each of their effects once, or count its operation as given up.
    """
    size = len(judged)
    return {
        **{anomaly: Share(sum(each.has(anomaly) for each in judged), size) for anomaly in anomalies},
        "aborts": sum(each.aborts for each in judged),
        "attempts": sum(each.tries for each in judged),
        "drops": sum(len(each.dropped) for each in judged),
        "serializable": f"{sum(each.serializable for each in judged)}/{size}",
        "complete": f"{sum(each.complete for each in judged)}/{size}",
        "log agrees": f"{sum(agrees(each) for each in judged)}/{size}",
    }


def agrees(judged: Judged) -> bool:
    """Whether history and log say the same of a session."""
    return judged.logged == {anomaly for anomaly in ANOMALIES if judged.has(anomaly)}


__all__ = ["ANOMALIES", "agrees", "tally"]
