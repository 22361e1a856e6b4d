"""An action is done on the screen it was planned on: Chromium, and a site in another process with a log of its own."""

from __future__ import annotations

import asyncio
import os
import socket
import socketserver
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from settlemark import InDoubt, Settlement, Stale, UsageError
from settlemark.hosting import host_of

pytest.importorskip("playwright", reason="pip install 'settlemark[browser]'")

from tests.adapters.browser.chromium import VARIABLE, find
from tests.adapters.browser.site import Site

from settlemark_adapters.browser import Browser, Diverged

CHROMIUM = find()
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason=f"{VARIABLE} names no browser: python tests/adapters/browser/chromium.py fetches one"
)
FLAGS = ("--no-sandbox", "--headless=shell", "--disable-gpu") if os.name == "posix" else ()


PATIENCE = 60
"""Seconds: a browser starts slowly beside much else."""


@pytest.fixture(scope="module")
def site():
    site = Site()
    yield site
    site.close()


@pytest.fixture(scope="module")
def chromium():
    """One browser for all: each test opens its page anew."""
    with Browser(executable=CHROMIUM, arguments=FLAGS, seconds=PATIENCE) as browser:
        yield browser


@pytest.fixture
def settlement():
    with Settlement("memory:") as opened:
        yield opened


@pytest.fixture
def browser(chromium, site, settlement):
    site.offer("A room for 100")
    chromium.open(site.url)
    for declaration in chromium.declarations():
        host_of(settlement).tools.adopt(declaration)
    return chromium


@pytest.fixture
def pressed(site):
    """What has been pressed since the test began."""
    before = len(site.pressed())
    return lambda: site.pressed()[before:]


def test_it_looks_at_the_page(browser, site):
    seen = browser.look()
    assert (seen["url"], seen["title"], "A room for 100" in seen["text"]) == (site.url, "Shop", True)
    assert browser.look() == seen


def test_an_action_on_the_screen_it_was_planned_on_is_done_and_its_effect_is_seen(browser, settlement, pressed):
    with settlement.transaction("buy") as tx:
        planned = tx.call(browser.look)["screen"]
        acted = tx.call(browser.click, selector="#buy", screen=planned)
    assert pressed() == [("buy", "A room for 100")]
    assert acted["url"].endswith("/")


def test_on_a_screen_that_has_diverged_nothing_is_done(browser, site, settlement, pressed):
    planned = browser.look()["screen"]
    browser.click("#paint", planned)
    now = browser.look()["screen"]
    with pytest.raises(Diverged, match=r"the screen is not the one this was planned on \(\d+% of it differs\)") as told:
        with settlement.transaction("buy") as tx:
            tx.call(browser.click, selector="#buy", screen=planned)
    assert (told.value.planned, told.value.now, told.value.differs > 0.02) == (planned, now, True)
    assert (pressed(), browser.look()["screen"]) == ([], now)


def test_an_action_without_an_effect_says_so(browser):
    acted = browser.click("#dead", browser.look()["screen"])
    assert (acted["changed"], acted["said"]) == (False, "no effect to be seen: the screen is what it was before")


def test_what_the_mouse_and_the_focus_alone_show_is_no_effect_of_an_action(browser):
    acted = browser.click("#lit", browser.look()["screen"])
    assert (acted["changed"], acted["screen"] == browser.look()["screen"]) == (False, True)


def test_an_action_that_leads_to_another_page_answers_with_its_screen_when_it_is_there(browser, site, monkeypatch):
    loaded = browser.page.wait_for_load_state

    async def sent():
        await asyncio.to_thread(site.send_large)
        await loaded()

    monkeypatch.setattr(browser.page, "wait_for_load_state", sent)
    acted = browser.click("#next", browser.look()["screen"])
    site.send_large()
    browser._loop.run(loaded(), PATIENCE)
    seen = browser.look()
    assert (acted["changed"], acted["url"], acted["screen"]) == (True, f"{site.url}next", seen["screen"])


def differing(screen, bits):
    """Return the name of a screen that differs from another in so many of the patches that are compared."""
    return f"{int(screen, 16) ^ ((1 << bits) - 1):0{len(screen)}x}"


@pytest.mark.parametrize("bits", [0, 20])
def test_a_screen_that_differs_by_no_more_than_the_tolerance_is_the_planned_one(browser, pressed, bits):
    """2 % of 1,024 patches."""
    browser.click("#buy", differing(browser.look()["screen"], bits))
    assert pressed() == [("buy", "A room for 100")]


@pytest.mark.parametrize("bits", [21, 1024])
def test_a_screen_that_differs_by_more_than_the_tolerance_has_diverged_and_the_error_says_by_how_much(
    browser, pressed, bits
):
    now = browser.look()["screen"]
    with pytest.raises(Diverged) as told:
        browser.click("#buy", differing(now, bits))
    assert (told.value.differs, told.value.now, told.value.planned) == (bits / 1024, now, differing(now, bits))
    assert pressed() == []


def test_an_action_with_an_effect_says_so_and_names_the_screen_to_plan_the_next_one_on(browser):
    acted = browser.type("#name", "Ada Lovelace", browser.look()["screen"])
    assert (acted["changed"], acted["screen"]) == (True, browser.look()["screen"])
    browser.press("Control+A", acted["screen"])


def test_a_click_that_is_declared_final_waits_for_the_commit_and_then_for_its_screen(browser, settlement, pressed):
    settlement.declare("click", "irreversible", scope="browser:/page", function=browser.click)
    planned = browser.look()["screen"]
    with settlement.transaction("buy") as tx:
        tx.call(browser.click, selector="#buy", screen=planned)
        assert pressed() == []
    assert pressed() == [("buy", "A room for 100")]


def test_a_plan_made_on_a_screen_that_changes_before_it_settles_is_stale(browser, settlement, pressed):
    settlement.declare("click", "irreversible", scope="browser:/page", function=browser.click)
    with pytest.raises(Stale, match="browser:/page"), settlement.transaction("buy") as tx:
        planned = tx.call(browser.look)["screen"]
        tx.call(browser.click, selector="#buy", screen=planned)
        browser._loop.run(browser.page.evaluate("document.body.style.background = 'black'"))
    assert pressed() == []


def test_an_action_that_acted_is_named_when_its_transaction_is_undone(browser, settlement, pressed):
    with pytest.raises(RuntimeError), settlement.transaction("buy") as tx:
        tx.call(browser.click, selector="#buy", screen=browser.look()["screen"])
        raise RuntimeError
    (left,) = settlement.residue()
    assert (left.tool, left.tag.value, len(pressed())) == ("click", "unresolved", 1)


@pytest.mark.parametrize(
    ("tool", "arguments", "error", "said"),
    [
        (
            "click",
            {"selector": "#buy", "screen": "as before"},
            UsageError,
            "is not a screen: pass the `screen` that look_at",
        ),
        ("click", {"selector": "#buy", "screen": 7}, UsageError, "screen='7' is not a screen"),
        ("click", {"selector": "#buy", "screen": "x" * 41}, UsageError, f"screen='{'x' * 40}' is not a screen"),
        ("open_page", {"url": "file:///etc/passwd"}, UsageError, "is not a page's address: begin it with https://"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_recorded(
    browser, settlement, pressed, tool, arguments, error, said
):
    before = browser.look()
    with pytest.raises(error, match=said), settlement.transaction("buy") as tx:
        tx.call(browser.tool(tool), **arguments)
    assert (pressed(), settlement.transactions(), browser.look()) == ([], [], before)


def test_an_element_that_is_not_there_is_told_and_nothing_was_done(browser, pressed, monkeypatch):
    monkeypatch.setattr(browser.page, "hover", partial(browser.page.hover, timeout=200))
    with pytest.raises(LookupError, match="'#gone' cannot be reached on .*: nothing was done"):
        browser.click("#gone", browser.look()["screen"])
    assert pressed() == []


def test_a_page_that_goes_away_with_a_click_leaves_it_unknown(site, settlement, pressed, monkeypatch):
    gone = asyncio.Event()

    with Browser(settlement, name="leaving", executable=CHROMIUM, arguments=FLAGS, seconds=PATIENCE) as browser:
        browser.open(site.url)
        browser._loop.run(browser.page.expose_function("leave", browser.page.close))
        browser._loop.run(browser.page.evaluate("document.getElementById('buy').addEventListener('click', leave)"))
        planned = browser.look()["screen"]
        browser.page.once("close", lambda _page: gone.set())
        monkeypatch.setattr(browser.page, "wait_for_load_state", gone.wait)  # else it may be looked at before it goes
        with pytest.raises(InDoubt, match="the page went away .*: what came of it is unknown"):
            with settlement.transaction("buy") as tx:
                tx.call(browser.tool("click"), selector="#buy", screen=planned)
    assert [left.tag.value for left in settlement.residue()] == ["unresolved"]


def test_a_page_that_cannot_be_reached_is_a_definite_no(browser, settlement):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        nobody = listening.getsockname()[1]
    with pytest.raises(Exception, match="net::ERR_CONNECTION_REFUSED"), settlement.transaction("look") as tx:
        tx.call(browser.open, url=f"http://127.0.0.1:{nobody}/")
    assert settlement.residue() == []


ANSWERS = {
    "no content": b"HTTP/1.1 204 No Content\r\n\r\n",
    "nothing": b"",
    "the way to nobody": b"HTTP/1.1 302 Found\r\nLocation: http://nobody.invalid/\r\nContent-Length: 0\r\n\r\n",
    "the way to an address that is none": b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n",
    "the way to itself": b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "a file": b"HTTP/1.1 200 OK\r\nContent-Disposition: attachment\r\nContent-Length: 2\r\n\r\nok",
}


@pytest.mark.parametrize("spelled", ["", "?net::ERR_CONNECTION_REFUSED"])
@pytest.mark.parametrize("answer", ANSWERS)
def test_a_server_that_was_reached_may_have_acted_whatever_it_has_answered(browser, settlement, answer, spelled):
    asked = []

    class Odd(socketserver.StreamRequestHandler):
        def handle(self):
            asked.append(self.rfile.readline())
            while self.rfile.readline().strip():
                pass
            self.wfile.write(ANSWERS[answer])

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Odd) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            with pytest.raises(InDoubt), settlement.transaction("open") as tx:
                tx.call(browser.tool("open_page"), url=f"http://127.0.0.1:{server.server_address[1]}/{spelled}")
        finally:
            server.shutdown()
            serving.join()
    assert asked
    assert [left.tool for left in settlement.residue()] == ["open_page"]


def test_a_browser_that_is_closed_says_so():
    browser = Browser(executable=CHROMIUM, arguments=FLAGS)
    browser.close()
    browser.close()
    with pytest.raises(UsageError, match="this adapter is closed: make another one"):
        browser.look()


def descendants(process="self"):
    """Return the processes that this one has begun and that are there, and those that they began."""
    found = set()
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        for child in task.read_text().split():
            found |= {child} | descendants(child)
    return found


def alive(process):
    """Whether a process is there, and has not merely been left unread by whoever began it."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="only Linux tells which processes this one began")
def test_a_browser_that_is_closed_leaves_no_process_and_no_thread():
    processes, threads = descendants(), set(threading.enumerate())
    with Browser(executable=CHROMIUM, arguments=FLAGS, seconds=PATIENCE):
        begun = descendants() - processes
        assert len(begun) > 1  # the driver, and the browser that it began
        assert set(threading.enumerate()) > threads
    for thread in set(threading.enumerate()) - threads:
        thread.join(PATIENCE)  # one that only learns that the browser's process has ended may be a moment behind
    assert (set(filter(alive, begun)), set(threading.enumerate()) - threads) == (set(), set())


def test_the_browser_is_started_with_the_arguments_given_and_told_in_milliseconds_how_long_an_action_may_take(
    monkeypatch,
):
    from playwright.async_api import Page

    told = []
    monkeypatch.setattr(Page, "set_default_timeout", lambda _page, milliseconds: told.append(milliseconds))
    with Browser(executable=CHROMIUM, arguments=(*FLAGS, "--user-agent=ours"), seconds=PATIENCE) as browser:
        named = browser._loop.run(browser.page.evaluate("navigator.userAgent"), PATIENCE)
    assert (named, told) == ("ours", [PATIENCE * 1000])


@pytest.mark.parametrize("tolerance", [-0.01, 1, 7])
def test_a_tolerance_that_is_none_is_refused(tolerance):
    with pytest.raises(UsageError, match=f"tolerance={tolerance}"):
        Browser(tolerance=tolerance)


def test_without_its_packages_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "imagehash", None)
    with pytest.raises(ImportError, match=r'Browser needs imagehash: pip install "settlemark\[browser\]"'):
        Browser()
