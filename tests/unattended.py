"""Settlements whose threads look at nothing unasked: what is due is done when a test calls `recover`."""

from __future__ import annotations

from settlemark.hosting import host_of


def unattended(settlement):
    """Let no thread be woken by what becomes due, and return the settlement."""
    driver = host_of(settlement).driver
    driver.probing.on_doubt = driver.ages.on_age = driver.obligations.on_owed = None
    driver.questions.on_asked = driver.leases.on_kept = driver.mends.on_stuck = None
    return settlement
