"""A length of time that is none is refused where an adapter is made, and not when a step settles by it."""

from __future__ import annotations

import base64
import importlib
import inspect
import subprocess
from pathlib import Path

import pytest
from tests.rooms.adapters import span

import settlemark_adapters
from settlemark_adapters import Adapter
from settlemark_adapters.browser import Browser
from settlemark_adapters.channels import MailChannel, WebhookChannel
from settlemark_adapters.filesystem import Filesystem
from settlemark_adapters.git import Git
from settlemark_adapters.http import Http, Patience
from settlemark_adapters.mail import Mail
from settlemark_adapters.mcp import Mcp
from settlemark_adapters.objects import Objects
from settlemark_adapters.payments import Payments
from settlemark_adapters.queue import Outbox
from settlemark_adapters.shell import Shell
from settlemark_adapters.webhook import Seen, Webhook, verify

SECRET = "whsec_" + base64.b64encode(b"s" * 24).decode()
ADDRESS = "https://a.example"
MADE = {
    (Browser, "seconds"): lambda _, **set_: Browser(**set_),
    (Filesystem, "keep_days"): lambda folder, **set_: Filesystem(folder, **set_),
    (Git, "keep_failed"): lambda folder, **set_: Git(folder, **set_),
    (Git, "seconds"): lambda folder, **set_: Git(folder, **set_),
    (Http, "timeout"): lambda _, **set_: Http(ADDRESS, calls=[], **set_),
    (Mail, "timeout"): lambda _, **set_: Mail("localhost", sender="a@b.example", **set_),
    (MailChannel, "timeout"): lambda _, **set_: MailChannel("localhost", 25, sender="a@b.example", people={}, **set_),
    (Mcp, "timeout"): lambda folder, **set_: Mcp(["touch", f"{folder}/started"], **set_),
    (Objects, "keep_days"): lambda folder, **set_: Objects(f"file://{folder}", **set_),
    (Outbox, "lease"): lambda folder, **set_: Outbox(f"sqlite:///{folder}/x.db", **set_),
    (Payments, "timeout"): lambda _, **set_: Payments(ADDRESS, api_key="k", **set_),
    (Seen, "window"): lambda _, **set_: Seen(**set_),
    (Shell, "keep_days"): lambda folder, **set_: Shell(folder, **set_),
    (Shell, "timeout"): lambda folder, **set_: Shell(folder, **set_),
    (Webhook, "timeout"): lambda _, **set_: Webhook(ADDRESS, secret=SECRET, **set_),
    (WebhookChannel, "timeout"): lambda _, **set_: WebhookChannel(ADDRESS, secret=SECRET, **set_),
}
NO_LENGTHS = {(Browser, "tolerance")}


def _all_below(known):
    return {known, *(each for sub in known.__subclasses__() for each in _all_below(sub))}


def _there(folder):
    return sorted(path for path in folder.rglob("*") if path.name != ".settlemark")


def test_every_length_of_time_that_an_adapter_takes_is_tried_here():
    for room in Path(settlemark_adapters.__file__).parent.iterdir():
        if not room.name.startswith("_") and (room.suffix == ".py" or room.is_dir()):
            importlib.import_module(f"settlemark_adapters.{room.stem}")
    ours = {known for known in _all_below(Adapter) if known.__module__.startswith("settlemark_adapters.")}
    public = {known for known in ours if not known.__module__.rpartition(".")[2].startswith("_keeping")}
    found = {
        (known, name)
        for known in (*public, MailChannel, WebhookChannel, Seen)
        for name, parameter in inspect.signature(known).parameters.items()
        if str(parameter.annotation).startswith("float")
    }
    assert found - NO_LENGTHS == set(MADE)


WRONG = [0, -1, float("nan"), float("inf"), 1e300, True, "5", None]


@pytest.mark.parametrize("given", WRONG, ids=repr)
@pytest.mark.parametrize(("known", "name"), MADE, ids=lambda each: getattr(each, "__name__", each))
def test_what_is_no_length_of_time_is_refused_and_nothing_is_begun(tmp_path, known, name, given):
    if (known, given) == (Seen, None):
        return  # for good
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path)], check=True) if known is Git else None
    before = _there(tmp_path)
    with pytest.raises(ValueError, match=f"{name}=.*: give a number of (seconds|days) above 0, as in {name}=30"):
        MADE[known, name](tmp_path, **{name: given})
    assert _there(tmp_path) == before


@pytest.mark.parametrize("given", WRONG, ids=repr)
def test_nor_is_a_tolerance_by_which_every_delivery_would_be_fresh(given):
    with pytest.raises(ValueError, match="tolerance=.*: give a number of seconds above 0"):
        verify({}, b"", SECRET, tolerance=given)


@pytest.mark.parametrize("given", [float("nan"), float("inf")])
@pytest.mark.parametrize("wrong", ["first", "factor", "most"])
def test_nor_is_a_pause_between_tries_that_nobody_can_make(wrong, given):
    with pytest.raises(ValueError, match="pause no negative time"):
        Patience(**{wrong: given})


def test_however_many_tries_there_were_the_next_pause_is_the_longest():
    assert [Patience(tries=5_000, first=0.5, most=20).pause(failures) for failures in (1, 2, 1_500, 4_999)] == [
        0.5,
        1.0,
        20,
        20,
    ]


def test_what_is_one_is_taken_as_it_is():
    assert [span("timeout", given) for given in (0.2, 30, 1e9)] == [0.2, 30, 1e9]
