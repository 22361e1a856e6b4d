"""The public face, from behind: who waits for whom, and what a settlement is made of."""

from __future__ import annotations

from settlemark._api import host, transaction, who_waits
from settlemark._api.who_waits import in_the_way, lasting, standing, told

__all__ = ["host", "in_the_way", "lasting", "standing", "told", "transaction", "who_waits"]
