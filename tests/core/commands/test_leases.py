"""`settlemark leases`: who holds which resource, since when, until when, and under which token."""

from __future__ import annotations

import pytest

from settlemark import LeaseHeld, Settlement
from settlemark.testing import VirtualClock


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'ledger.db'}"


def test_without_a_lease_nobody_is_listed(run, run_json, url):
    Settlement(url).close()
    said = run("leases", url)
    assert (said.exit_code, said.stdout) == (0, "Nobody holds a lease.\n")
    assert run_json("leases", url) == []


def test_each_lease_is_listed_with_its_holder_its_times_and_its_token(run, run_json, url):
    clock = VirtualClock()
    with Settlement(url, **clock.options()) as settlement:
        one = settlement.lease("checkout:/repo", for_=60, by="ada")
        two = settlement.lease("desk:/note", for_=30, by="bob")
        clock.advance(40)
        with pytest.raises(LeaseHeld):
            settlement.lease("desk:/note", for_=30, by="eve")
    lapsed = "until 2026-01-01 12:00:30 UTC if it is not renewed"
    lapsed += "; asked for at 2026-01-01 12:00:40 UTC, free at 2026-01-01 12:00:50 UTC"
    said = run("leases", url)
    assert (said.exit_code, said.stdout.splitlines()) == (
        0,
        [
            "ada holds checkout:/repo since 2026-01-01 12:00:00 UTC",
            f"  token: {one.token}, until 2026-01-01 12:01:00 UTC if it is not renewed",
            "bob holds desk:/note since 2026-01-01 12:00:00 UTC",
            f"  token: {two.token}, {lapsed}",
        ],
    )
    assert [(row["scope"], row["holder"], row["token"], row["asked"]) for row in run_json("leases", url)] == [
        ("checkout:/repo", "ada", one.token, None),
        ("desk:/note", "bob", two.token, one.since + 40),
    ]


def test_one_is_ended_at_a_shell_and_what_is_not_there_is_not(run, run_json, url, open_settlement):
    here = open_settlement(url)
    here.lease("checkout:/repo", for_=3600, by="ada")
    how = ("--by", "eve", "--because", "ada is gone")
    said = run("release", "checkout:/repo", url, *how)
    assert (said.exit_code, said.stdout.split(",")[0]) == (0, "checkout:/repo is free: the lease of ada")
    assert here.leases() == []
    none = run("release", "checkout:/repo", url, *how)
    assert (none.exit_code, "nobody has a lease on checkout:/repo: nothing was ended" in none.stderr) == (1, True)
    here.lease("checkout:/repo", for_=3600, by="bob")
    assert run_json("release", "checkout:/repo", url, *how)["holder"] == "bob"
