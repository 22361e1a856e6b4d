"""The tools of both sides: the very same functions, declared once.

Run by a stock node the declarations mean nothing, and there is no key to send. Run by a settled
node they say how each call is ordered, held, found again and undone.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import Any

from langchain_core.tools import BaseTool, tool

from settlemark import current_call, effect, inverse
from settlemark_demo._world import World, subject

TRIP = ("reserve_hotel", "reserve_flight", "reserve_car", "send_confirmation")
PIPELINE = (
    "create_database",
    "run_migrations",
    "seed_reference_data",
    "build_search_index",
    "enable_live_traffic",
)

_STEP_SECONDS: dict[str, float] = dict(zip(PIPELINE, (0.12, 0.08, 0.05, 0.03, 0.01), strict=True))


def _key() -> str | None:
    call = current_call()
    return None if call is None else call.key


def _message_id(key: str) -> str:
    return f"<{hashlib.sha256(key.encode()).hexdigest()[:32]}@settlemark.example>"


def _canceller(world: World, kind: str) -> Callable[[str], None]:
    def cancel(booking: str) -> None:
        world.provider.cancel(kind, booking, timeout=world.timeout)

    # The ledger knows handlers by name.
    cancel.__name__ = cancel.__qualname__ = f"cancel_{kind}"
    return cancel


def _reverter(world: World, step: str, *statements: str) -> Callable[[], None]:
    def revert() -> None:
        world.database.revert(step, *statements)

    revert.__name__ = revert.__qualname__ = f"revert_{step}"
    return revert


def trip_tools(world: World) -> list[BaseTool]:
    """Return the tools that book a trip in a world: three to reserve, one to tell the traveller."""
    provider, mailbox = world.provider, world.mailbox

    def book(kind: str, **request: str) -> dict[str, Any]:
        return provider.book(kind, key=_key(), timeout=world.timeout, **request)

    def find_booking(key: str) -> dict[str, Any] | None:
        return provider.probe(key, timeout=world.timeout)

    def find_mail(key: str) -> dict[str, str] | None:
        sent = [mail for mail in mailbox.messages() if mail["message_id"] == _message_id(key)]
        return {name: sent[0][name] for name in ("to", "subject", "message_id")} if sent else None

    @tool
    @effect(
        "reversible",
        scope="hotel:/{city}/{trip}",
        undo=inverse(_canceller(world, "hotel"), booking="id"),
        probe=find_booking,
        keyed=True,
    )
    def reserve_hotel(trip: str, city: str) -> dict[str, Any]:
        """Reserve a hotel room."""
        return book("hotel", trip=trip, city=city)

    @tool
    @effect(
        "reversible",
        scope="flight:/{city}/{trip}",
        undo=inverse(_canceller(world, "flight"), booking="id"),
        probe=find_booking,
        keyed=True,
    )
    def reserve_flight(trip: str, city: str) -> dict[str, Any]:
        """Reserve a seat on a flight."""
        return book("flight", trip=trip, city=city)

    @tool
    @effect(
        "reversible",
        scope="car:/{city}/{trip}",
        undo=inverse(_canceller(world, "car"), booking="id"),
        probe=find_booking,
        keyed=True,
    )
    def reserve_car(trip: str, city: str) -> dict[str, Any]:
        """Reserve a rental car."""
        return book("car", trip=trip, city=city)

    @tool
    @effect("irreversible", scope="mail:/{to}", probe=find_mail)
    def send_confirmation(trip: str, to: str) -> dict[str, str]:
        """Tell the traveller that everything is booked."""
        key = _key()
        body = "Hotel, flight and car are reserved. Have a good trip!"
        message_id = None if key is None else _message_id(key)
        return mailbox.send(to, subject(trip), body, message_id=message_id, timeout=world.timeout)

    return [reserve_hotel, reserve_flight, reserve_car, send_confirmation]


def pipeline_tools(world: World) -> list[BaseTool]:
    """Return the tools that set up an application's database in a world, step by step."""
    database = world.database

    def work(step: str) -> None:
        time.sleep(_STEP_SECONDS[step] * world.latency)

    @tool
    @effect("reversible", scope="database:/application", undo=_reverter(world, "create_database", "DROP TABLE meta"))
    def create_database() -> str:
        """Create the application's database."""
        work("create_database")
        return database.create()

    @tool
    @effect(
        "reversible",
        scope="schema:/application",
        undo=_reverter(world, "run_migrations", "DROP TABLE products", "UPDATE meta SET version = 0"),
    )
    def run_migrations() -> str:
        """Bring the schema up to date."""
        work("run_migrations")
        return database.migrate()

    @tool
    @effect(
        "reversible", scope="data:/application", undo=_reverter(world, "seed_reference_data", "DELETE FROM products")
    )
    def seed_reference_data() -> str:
        """Fill in the reference data."""
        work("seed_reference_data")
        return database.seed()

    @tool
    @effect("reversible", scope="index:/application", undo=_reverter(world, "build_search_index", "DROP TABLE search"))
    def build_search_index() -> str:
        """Build the search index."""
        work("build_search_index")
        return database.index()

    @tool
    @effect("irreversible", scope="traffic:/application")
    def enable_live_traffic() -> str:
        """Let users in."""
        work("enable_live_traffic")
        return database.go_live()

    return [create_database, run_migrations, seed_reference_data, build_search_index, enable_live_traffic]
