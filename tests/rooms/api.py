"""The public face, from behind: who waits for whom, and what a settlement is made of."""

from __future__ import annotations

from settlemark._api import checked, host, transaction, who_waits
from settlemark._api.steered.run import SteeredRun
from settlemark._api.who_waits import duration, in_the_way, standing, told

__all__ = ["SteeredRun", "checked", "duration", "host", "in_the_way", "standing", "told", "transaction", "who_waits"]
