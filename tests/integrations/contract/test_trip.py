"""The demo's trip under its random faults, beside stock: the same functions, against the same real counterparties.

A hotel, a flight, a car and a mail in one turn. The provider and the mail server are other processes with logs of
their own, and whether a trip is clean is read from these alone.
"""

from __future__ import annotations

import functools
import time

import pytest
from tests.extent import ALL
from tests.integrations.contract.driver import ScriptedCall
from tests.integrations.contract.world import play

# Its package wants LangGraph, whatever framework plays here.
pytest.importorskip("settlemark_demo", exc_type=ImportError)

from tests.rooms.demo import Evidence, _tools, _trials, two_worlds

from settlemark import Retries, Settlement

TRIALS = 100 if ALL else 10
RATE, SEED = 0.3, 7


@pytest.fixture(scope="module")
def worlds(tmp_path_factory):
    stock, settled = two_worlds(tmp_path_factory.mktemp("worlds"), latency=0.2)
    with stock, settled:
        yield stock, settled


class Side:
    """One way to play a trip, in a world of its own."""

    def __init__(self, driver, world, settlement):
        self.label = driver.name if settlement is not None else f"stock {driver.name}"
        self.told = []
        self._driver = driver
        self._world = world
        self._settlement = settlement

    def play(self, scenario):
        """Play a trip to its end, and return what the counterparties logged of it."""
        world, settlement = self._world, self._settlement
        for rule in scenario.faults:
            world.provider.fail(**rule, trip=scenario.name)
        for how in scenario.mail_faults:
            world.mailbox.fail(how)
        functions = [tool.func for tool in _tools.trip_tools(world)]
        tools = functions if settlement is not None else [tried_again(function) for function in functions]
        script = [[ScriptedCall(tool, given, f"call-{n}") for n, (tool, given) in enumerate(scenario.calls)]]
        try:
            played = play(self._driver, tools, script, settlement, run=scenario.name)
        finally:
            world.heal()
        self.told.append(played)
        named = () if settlement is None else named_in(settlement, scenario.name)
        return Evidence(
            scenario.tools, world.entries(scenario.name), frozenset(named), must_complete=scenario.must_complete
        )


def tried_again(function, retries=Retries()):  # noqa: B008 - a value
    """Give stock the pauses and tries that ours has; keys to send, and an undo, it has not."""

    @functools.wraps(function)
    def trying(*given, **named):
        for failures in range(1, retries.tries):
            try:
                return function(*given, **named)
            except Exception:
                time.sleep(retries.pause(failures))
        return function(*given, **named)

    return trying


def named_in(settlement, run):
    """The keys of what a run's transactions left, as their user is told."""
    own = {recorded.row.name for recorded in settlement.transactions() if recorded.row.run == run}
    return [left.key for left in settlement.residue() if left.transaction in own]


@pytest.fixture
def played(driver, worlds, tmp_path):
    """Both sides' tallies of the same trials."""
    stock, ours = worlds
    trials = [_trials.draw(RATE, SEED, number, f"-{driver.name}") for number in range(1, TRIALS + 1)]
    with Settlement(f"sqlite:///{tmp_path / 'ledger.db'}", on_failure="retry") as settlement:
        # Each has a memory of its own: it is the same job's id.
        sides = [Side(type(driver)(), stock, None), Side(driver, ours, settlement)]
        return trials, sides, _trials.repeat(trials, sides)


def test_every_trip_is_all_or_nothing_or_named_and_with_stock_many_are_neither(driver, played, record_property):
    trials, sides, (stock, settled) = played

    # No trip is clean for never having been made: what nothing stands in the way of is booked, and told of.
    assert settled.clean == settled.trials == TRIALS, (settled.dirty, sides[1].told)
    assert (settled.completed, settled.duplicates, settled.stray_mails, settled.out_of_order) == (
        sum(trial.must_complete for trial in trials),
        0,
        0,
        0,
    )
    assert settled.completed > 0
    assert settled.outcomes["broken"] == 0
    # Stock works, too; it is what it leaves when it does not that is wrong.
    assert stock.completed > 0, sides[0].told
    assert stock.clean < TRIALS
    assert stock.duplicates + stock.stray_mails > 0, sides[0].told
    record_property(f"explored_trips with {driver.name} ({stock.clean} of {TRIALS} clean with stock)", TRIALS)
