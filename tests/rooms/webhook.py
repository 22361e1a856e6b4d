"""Webhooks: the bytes of a secret."""

from __future__ import annotations

from settlemark_adapters.webhook._signature import secret_bytes

__all__ = ["secret_bytes"]
