"""Every place where a function of the user's is called, and whatever it may raise there."""

from __future__ import annotations

import asyncio
import enum
import inspect
from contextlib import suppress
from types import SimpleNamespace

import settlemark
from settlemark import agents, effect, hosting, inverse

DEEP = 10_000


class Base(BaseException):
    """As pytest.outcomes, or trio.Cancelled."""


class Code(Exception):
    """A forgotten attribute: a common mistake."""

    def __init__(self, code=500):
        self.code = code

    def __str__(self):
        return f"{self.code}: {self.message}"


class Exits(Exception):
    def __str__(self):
        raise SystemExit(3)

    __repr__ = __str__


class NoText(Exception):
    def __str__(self):
        return 7  # noqa: PLE0307 - it is not to be one


class Hostile(Exception):
    """Every question about it fails."""

    def _fails(self, *_args):
        raise LookupError("no")

    __str__ = __repr__ = __eq__ = __ne__ = __hash__ = __bool__ = __len__ = __reduce__ = __format__ = add_note = _fails
    args = __class__ = __cause__ = __context__ = __notes__ = __dict__ = property(_fails)


class HostileBase(Base):
    _fails = Hostile._fails
    __str__ = __repr__ = __eq__ = __ne__ = __hash__ = __bool__ = __len__ = __reduce__ = __format__ = add_note = _fails
    args = __class__ = __cause__ = __context__ = __notes__ = __dict__ = property(_fails)


def bottomless():
    return bottomless()


def chained():
    error = ValueError("at the bottom")
    for _ in range(DEEP):
        above = ValueError("above")
        above.__cause__ = error
        error = above
    raise error


def nested():
    error = ValueError("within")
    for _ in range(DEEP // 5):
        error = ExceptionGroup("around", [error])
    raise error


def raising(make):
    def it():
        raise make()

    return it


RAISED = {
    "an Exception": raising(lambda: ValueError("no")),
    "a message that fails": raising(Code),
    "a message that exits": raising(Exits),
    "a message that is none": raising(NoText),
    "hostile": raising(Hostile),
    "hostile, and no Exception": raising(HostileBase),
    "StopIteration": lambda: next(iter(())),
    "StopAsyncIteration": raising(StopAsyncIteration),
    "GeneratorExit": raising(GeneratorExit),
    "a library's BaseException": raising(Base),
    "SystemExit": raising(SystemExit),
    "KeyboardInterrupt": raising(KeyboardInterrupt),
    "CancelledError": raising(asyncio.CancelledError),
    "ExceptionGroup": raising(lambda: ExceptionGroup("all", [ValueError(1), Code()])),
    "BaseExceptionGroup": raising(lambda: BaseExceptionGroup("all", [KeyboardInterrupt(), Hostile()])),
    "huge": raising(lambda: ValueError("x" * 3_000_000)),
    "no end of the stack": bottomless,
    "a chain of causes": chained,
    "groups within groups": nested,
}


class World:
    """Does what it is told, and raises where it is told to: in a place, after so many calls there."""

    def __init__(self, *, is_async):
        self.is_async = is_async
        self.at = self.throw = None
        self.skip = 0
        self.log = []

    def arm(self, place, throw, skip=0):
        self.at, self.throw, self.skip = place, throw, skip

    def here(self, place):
        """Raise, if this is the place; or return what else is done there."""
        if self.at == place:
            self.skip -= 1
            if self.skip < 0:
                return self.throw()
        return None

    def function(self, place, act, *named):
        """Return a function of these arguments that acts, unless this is the place."""

        def does(**given):
            self.here(place)
            return act(**given)

        async def adoes(**given):
            await asyncio.sleep(0)
            await maybe(self.here(place))
            return act(**given)

        made = adoes if self.is_async else does
        parameters = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in named]
        made.__signature__ = inspect.Signature(parameters)
        made.__name__ = place.replace(" ", "_")
        return made

    def noted(self, what):
        def act(s, **_):
            self.log.append((what, s))
            return {"s": s}

        return act

    def net(self, s):
        acts = [what for what, where in self.log if where == s]
        return acts.count("do") - acts.count("undo"), acts.count("leave")


class Watching:
    def __init__(self, world):
        self.world = world

    def tell(self, event):
        self.world.here("observer.tell")
        self.world.here(f"observer.tell {type(event).__name__}")

    def around(self, _acting):
        world = self.world
        world.here("observer.around")

        class Around:
            def __enter__(self):
                world.here("observer enters")

            def __exit__(self, *_):
                world.here("observer leaves")

        return Around()


def tools_of(world):
    """One tool of each class, each with all the functions that it may have."""
    made = world.function
    cancel = made("undo", world.noted("undo"), "s")
    back = made("inverse", world.noted("undo"), "s")

    def scope(s):
        world.here("scope")
        return f"xx:/{s}"

    def refine(result):
        world.here("refine")
        return f"xx:/{result['s']}"

    def tool(name, kind, place, what, **parts):
        parts.setdefault("scope", scope)
        return effect(kind, name=name, **parts)(made(place, world.noted(what), "s"))

    def absent(**_):
        return None

    return SimpleNamespace(
        book=tool(
            "book", "reversible", "reversible tool", "do", undo=cancel, check=made("check", lambda **_: None, "s")
        ),
        turned=tool("turned", "reversible", "inverted tool", "do", undo=inverse(back, s="s")),
        asked=tool(
            "asked", "reversible", "gated tool", "do", undo=cancel, approve=made("approve", lambda **_: True, "s")
        ),
        narrow=tool(
            "narrow", "reversible", "refined tool", "do", undo=cancel, refine=refine, scope=None, may_touch="xx:/**"
        ),
        probed=tool(
            "probed", "idempotent", "probed tool", "do", undo=cancel, keyed=False, probe=made("probe", absent, "s")
        ),
        opaque=tool("opaque", "opaque", "opaque tool", "do", scope=None),
        read=tool("look", "read", "read", "look", live=made("live", lambda **_: 1, "s")),
        staged=tool("put", "staged", "staged tool", "leave"),
        mail=tool("mail", "irreversible", "irreversible tool", "leave"),
        released=tool(
            "released", "irreversible", "never called", "leave", release=made("release", world.noted("leave"), "s")
        ),
    )


class Fails(Exception):
    """What the test itself raises, so that something is undone or asked about."""


async def maybe(value):
    return await value if inspect.isawaitable(value) else value


class Scene:
    """One place where functions of the user's are called, in transactions that make something of it."""

    def __init__(self, world, settlement, tools):
        self.world, self.settlement, self.tools = world, settlement, tools

    async def block(self, name, *calls, then=None, **options):
        """Enter a transaction, make calls and leave it; a `then` is the body's own end."""
        if self.world.is_async:
            async with self.settlement.transaction(name, **options) as tx:
                for tool, *_ in calls:
                    await tx.call(tool, s=name)
                if then is not None:
                    then()
        else:
            with self.settlement.transaction(name, **options) as tx:
                for tool, *_ in calls:
                    tx.call(tool, s=name)
                if then is not None:
                    then()

    async def play(self, place, name):  # noqa: C901, PLR0912 - a table
        t, world = self.tools, self.world
        match place:
            case "undo":
                await self.block(name, (t.book,), (t.mail,), then=raising(Fails))
            case "inverted tool" | "inverse":
                await self.block(name, (t.turned,), then=raising(Fails))
            case "probed tool":
                await self.block(name, (t.book,), (t.probed,))
            case "probe":
                await self.block(name, (t.book,), (t.probed,), then=raising(Fails))
            case "gated tool" | "approve" | "approver":
                await self.block(name, (t.book,), (t.asked,), approver=self.positional("approver", lambda: True))
            case "ask":
                await self.block(
                    name, (t.book,), (self.failing(),), on_failure="ask", ask=self.positional("ask", lambda: "skip")
                )
            case "hook":
                await self.block(name, (t.book,), (t.mail,), before_commit=self.positional("hook", lambda: None))
            case "refined tool" | "refine":
                await self.block(name, (t.narrow,))
            case "opaque tool":
                await self.block(name, (t.book,), (t.opaque,))
            case "fetch" | "live of a read":
                await self.reading(name)
            case "read" | "live":
                await self.block(name, (t.read,), (t.book,))
            case "staged tool" | "irreversible tool":
                await self.block(name, (t.book,), (t.staged,), (t.mail,))
            case "release":
                await self.block(name, (t.book,), (t.released,))
            case "body":
                await self.block(name, (t.book,), (t.mail,), then=lambda: world.here("body"))
            case "run":
                await self.run(name, lambda: world.here("run"))
            case "branch" | "choose":
                await self.speculate(name)
            case "on_residue":
                await self.block(name, (t.book,), (t.opaque,), then=raising(Fails))
            case _:  # a tool, or what is asked about every call
                await self.block(name, (t.book,), (t.mail,))

    async def reading(self, name):
        """Read what no tool reads."""

        def at(place):
            def asked():
                self.world.here(place)
                return 1

            async def aasked():
                await asyncio.sleep(0)
                await maybe(self.world.here(place))
                return 1

            return aasked if self.world.is_async else asked

        if self.world.is_async:
            async with self.settlement.transaction(name) as tx:
                await tx.read(f"page:/{name}", at("fetch"), live=at("live of a read"))
                await tx.call(self.tools.book, s=name)
        else:
            with self.settlement.transaction(name) as tx:
                tx.read(f"page:/{name}", at("fetch"), live=at("live of a read"))
                tx.call(self.tools.book, s=name)

    def positional(self, place, answer):
        """Return a function of one argument, whatever that is."""

        def asked(_given):
            self.world.here(place)
            return answer()

        async def aasked(_given):
            await asyncio.sleep(0)
            await maybe(self.world.here(place))
            return answer()

        return aasked if self.world.is_async else asked

    def failing(self):
        def fails(s):
            raise Fails(s)

        return effect("reversible", name="fails", scope="fails:/{s}", undo=lambda s: None)(fails)

    async def run(self, name, then):
        def body(tx):
            tx.call(self.tools.book, s=name)
            then()

        async def abody(tx):
            await tx.call(self.tools.book, s=name)
            then()

        await maybe(self.settlement.run(name, abody if self.world.is_async else body))

    async def speculate(self, name):
        def body(tx):
            tx.call(self.tools.book, s=name)
            self.world.here("branch")

        async def abody(tx):
            await tx.call(self.tools.book, s=name)
            self.world.here("branch")

        def other(_tx):
            return 2

        def choose(_values):
            self.world.here("choose")
            return 1

        branches = [abody if self.world.is_async else body, other]
        await maybe(self.settlement.speculate(branches, choose, name=name))

    async def after(self, name):
        """Another needs the same scopes."""
        if self.world.is_async:
            async with self.settlement.transaction(f"after-{name}", wait=5) as tx:
                await tx.call(self.tools.book, s=name)
        else:
            with self.settlement.transaction(f"after-{name}", wait=5) as tx:
                tx.call(self.tools.book, s=name)


PLACES = [
    "reversible tool", "inverted tool", "gated tool", "refined tool", "probed tool", "opaque tool", "staged tool",
    "irreversible tool", "read", "undo", "inverse", "probe", "release", "check", "scope", "live", "refine", "hook",
    "fetch", "live of a read",
    "approve", "approver", "ask", "body", "run", "branch", "choose", "on_residue", "observer.tell",
    "observer.tell Began", "observer.tell Acted", "observer.tell Ended", "observer.around", "observer enters",
    "observer leaves", "redact", "encrypt", "history",
]  # fmt: skip # a list of names and values
OUR_FAULT = ("observer", "on_residue", "history", "redact")
"""What fails there harms nobody's transaction."""


def run(awaitable, *, is_async):
    """Run to its end what awaits only where it is asynchronous."""
    if is_async:

        async def within_a_minute():
            async with asyncio.timeout(60):
                return await raised_by(awaitable)

        return asyncio.run(within_a_minute())
    try:
        awaitable.send(None)
    except StopIteration:
        return None
    except BaseException as error:
        return type(error)
    return AssertionError


async def raised_by(awaitable):
    """Return the class of what is raised: the exception itself must reach no report of pytest's, nor the loop."""
    try:
        await awaitable
    except BaseException as error:
        return type(error)
    return None


def public_parameters():
    """Yield every parameter of all that is public, with the name of what takes it."""
    faces = [(module, module.__all__) for module in (settlemark, agents)]
    for module, names in (*faces, (hosting, ["Host", "Toolbox"])):
        for name in names:
            thing = getattr(module, name)
            if inspect.isclass(thing) and issubclass(thing, BaseException | enum.Enum):
                continue
            parts = inspect.getmembers(thing, callable) if inspect.isclass(thing) else []
            parts = [(f"{name}.{part}", f) for part, f in parts if part == "__init__" or not part.startswith("_")]
            for called, function in parts or [(name, thing)]:
                with suppress(TypeError, ValueError):
                    yield from ((called, parameter) for parameter in inspect.signature(function).parameters.values())
