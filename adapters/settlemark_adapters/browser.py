"""A browser's screen: an action is done on the screen it was planned on, or not at all.

A model plans on a screenshot, and acts seconds later on a screen that may have changed. So each action names the screen
it was planned on, by a perceptual hash; if the screen has diverged, the action is refused before anything is clicked,
and an action without a visible effect says so. Sources: orchestrator.txt section V (a browser answers "did it happen"
by being looked at again), Atomix table 4 (page scopes, no compensation of single actions).
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypedDict

from settlemark import Settlement, UsageError
from settlemark.hosting import escape
from settlemark_adapters._adapter import Adapter, operation
from settlemark_adapters._loop import LoopThread
from settlemark_adapters._spans import span

if TYPE_CHECKING:
    from playwright.async_api import Page

SECONDS = 30.0
# How Chromium reports that it reached no server: of its other errors many come behind a request that was answered.
_NOT_REACHED = re.compile(
    r"(?:Page\.\w+: )?net::ERR_(?:NAME_NOT_RESOLVED|NAME_RESOLUTION_FAILED|CONNECTION_REFUSED|CONNECTION_TIMED_OUT"
    r"|ADDRESS_UNREACHABLE|ADDRESS_INVALID|INTERNET_DISCONNECTED|PROXY_CONNECTION_FAILED|TUNNEL_CONNECTION_FAILED"
    r"|CERT_\w+|UNSAFE_PORT|INVALID_URL|UNKNOWN_URL_SCHEME|DISALLOWED_URL_SCHEME)\b"
)
GRID = 32
"""The hash has this many bits a side: each compares the brightness of two neighbouring patches of the screen."""
_SCREEN = re.compile(f"[0-9a-f]{{{GRID * GRID // 4}}}")


class Screen(TypedDict):
    """What a model sees of the page: an action names the `screen` it was planned on."""

    screen: str
    url: str
    title: str
    text: str


class Acted(TypedDict):
    """The result of an action: the screen after it, and whether it differs from the one before."""

    screen: str
    url: str
    changed: bool
    said: str


class Diverged(UsageError):
    """The screen is not the one that an action was planned on; nothing was done.

    Attributes: `planned` and `now` (the two screens), `differs` (the part of the screen that does, 0 to 1).
    """

    remedy: ClassVar[str] = "Look at the screen again and plan the action on what it shows now."


class Browser(Adapter):
    """The tools of one page: look, open, click, type, press.

    Args:
        settlement: learns the tools' declarations.
        name: of the session: its scope is `browser:/name`, and its tools' names have this prefix.
        tolerance: how much of the screen may differ from the planned one, 0 to 1.
        seconds: how long an action may take.
        executable: the browser to start, where Playwright has not installed its own.
        arguments: of the browser's command line.
        options: `effects=` of `Adapter`.

    A click is `opaque`: it acts at once, and an abort names it, since its effect is unknown. If you know that some
    clicks are final, declare them so (`effects={"click": "irreversible"}`): such a click is held, and at its release
    the screen is compared once more. Looking is a read that is repeated before anything settles on it.

    Raises:
        ImportError: Playwright or ImageHash is not installed; the message names the extra.
    """

    def __init__(
        self,
        settlement: Settlement | None = None,
        *,
        name: str = "",
        tolerance: float = 0.02,
        seconds: float = SECONDS,
        executable: str | None = None,
        arguments: tuple[str, ...] = (),
        **options: Any,
    ) -> None:
        if not 0 <= tolerance < 1:
            raise UsageError(f"tolerance={tolerance!r}: give the part of the screen that may differ, 0 to 1")
        self._seconds = span("seconds", seconds)
        try:
            import imagehash
            from playwright.async_api import Error, async_playwright
            from playwright.async_api import TimeoutError as Late
        except ImportError as error:
            raise ImportError(
                f'Browser needs {error.name}: pip install "settlemark[browser]"', name=error.name
            ) from error
        self._hashing = imagehash
        self._errors, self._late = Error, Late
        self._tolerance = tolerance
        self._scope = f"browser:/{escape(name or 'page')}"
        super().__init__(settlement, name=name, **options)
        self._loop = LoopThread("browser")

        async def start() -> tuple[Any, Page]:
            playwright = await async_playwright().start()
            try:
                started = await playwright.chromium.launch(executable_path=executable, args=list(arguments))
                return playwright, await started.new_page()
            except BaseException:
                await playwright.stop()
                raise

        try:
            self._playwright, self.page = self._loop.run(start(), seconds)
        except BaseException:
            self._loop.close()
            raise
        self.page.set_default_timeout(seconds * 1000)

    def close(self) -> None:
        """Close the browser. A second call does nothing."""
        try:
            self._loop.run(self._playwright.stop(), self._seconds)  # the driver closes its browsers before it ends
        except UsageError:
            return  # it is closed
        finally:
            self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- what is compared

    async def _hashed(self) -> str:
        from PIL import Image

        shot = await self.page.screenshot(animations="disabled", caret="hide")
        with Image.open(io.BytesIO(shot)) as image:
            return str(self._hashing.dhash(image, hash_size=GRID))

    def _fit(self, screen: str) -> None:
        if not _SCREEN.fullmatch(str(screen)):
            told = str(screen)[:40]
            raise UsageError(f"screen={told!r} is not a screen: pass the `screen` that look_at_page returned")

    def _on(self, url: str) -> None:
        if not str(url).startswith(("http://", "https://", "about:", "data:")):
            raise UsageError(f"{str(url)[:80]!r} is not a page's address: begin it with https://")

    def _seen(self) -> str:
        return self._loop.run(self._hashed(), self._seconds)

    def _named(self) -> str:
        return self._scope

    async def _reach(self, selector: str) -> None:
        """Move the mouse and the focus to an element: what that shows is not yet the effect of an action."""
        try:
            await self.page.hover(selector)
            await self.page.focus(selector)
        except self._errors as error:
            told = str(error).partition("\n")[0]
            raise LookupError(f"{selector!r} cannot be reached on {self.page.url} ({told}): nothing was done") from None

    def _compare(self, planned: str, now: str) -> None:
        differs = (int(planned, 16) ^ int(now, 16)).bit_count() / (GRID * GRID)
        if differs > self._tolerance:
            raise Diverged(
                f"the screen is not the one this was planned on ({differs:.0%} of it differs), so nothing was done:"
                " look_at_page again, and decide from what is there now",
                planned=planned,
                now=now,
                differs=differs,
            )

    def _acting(
        self, act: Callable[[], Coroutine[Any, Any, Any]], planned: str | None = None, selector: str | None = None
    ) -> Acted:
        async def acting() -> Acted:
            before, url = await self._hashed(), self.page.url
            if planned is not None:
                self._compare(planned, before)
            if selector is not None:
                await self._reach(selector)
                before = await self._hashed()
            answered: list[Any] = []

            def note(response: Any) -> None:
                if response.request.is_navigation_request():
                    answered.append(response)

            self.page.on("response", note)
            try:
                await act()
                await self.page.wait_for_load_state()
                after = await self._hashed()
            except self._late as error:
                raise TimeoutError(f"no answer within {self._seconds:g} s: what came of it is unknown") from error
            except self._errors as error:
                if _NOT_REACHED.match(str(error)) and not answered:  # else it was sent elsewhere by an answer
                    raise
                told = str(error).partition("\n")[0]
                raise ConnectionError(f"the page went away ({told}): what came of it is unknown; look there") from error
            finally:
                self.page.remove_listener("response", note)
            changed = after != before or self.page.url != url
            said = "the screen has changed" if changed else "no effect to be seen: the screen is what it was before"
            return {"screen": after, "url": self.page.url, "changed": changed, "said": said}

        return self._loop.run(acting(), 4 * self._seconds)

    # ---- the tools

    @operation("look_at_page", "read", scope=_named, live=_seen)
    def look(self) -> Screen:
        """Look at the page: its address, title and text, and the name of its screen, which an action takes."""

        async def looking() -> Screen:
            text = await self.page.inner_text("body")
            return {
                "screen": await self._hashed(),
                "url": self.page.url,
                "title": await self.page.title(),
                "text": text,
            }

        return self._loop.run(looking(), self._seconds)

    @operation("open_page", "opaque", scope=_named, check=_on)
    def open(self, url: str) -> Acted:
        """Open a page.

        Args:
            url: its address.
        """
        return self._acting(lambda: self.page.goto(url))

    @operation("click", "opaque", scope=_named, check=_fit)
    def click(self, selector: str, screen: str) -> Acted:
        """Click on one element of the page.

        Args:
            selector: which element: CSS, or text=….
            screen: the `screen` that this was planned on, as look_at_page or the last action answered.
        """
        return self._acting(lambda: self.page.click(selector), screen, selector)

    @operation("type_text", "opaque", scope=_named, check=_fit)
    def type(self, selector: str, text: str, screen: str) -> Acted:
        """Fill a field of the page.

        Args:
            selector: which field: CSS, or text=….
            text: what it is to hold.
            screen: the `screen` that this was planned on, as look_at_page or the last action answered.
        """
        return self._acting(lambda: self.page.fill(selector, text), screen, selector)

    @operation("press_key", "opaque", scope=_named, check=_fit)
    def press(self, key_name: str, screen: str) -> Acted:
        """Press a key.

        Args:
            key_name: which, as in Enter or Control+A.
            screen: the `screen` that this was planned on, as look_at_page or the last action answered.
        """
        return self._acting(lambda: self.page.keyboard.press(key_name), screen)


__all__ = ["Acted", "Browser", "Diverged", "Screen"]
