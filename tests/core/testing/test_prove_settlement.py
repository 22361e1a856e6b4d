"""A proof passes an agent that settles, and catches one that does not: by the world, not by our report."""

from __future__ import annotations

import asyncio
import os
import signal
import threading

import pytest

from settlemark import InDoubt, UsageError, current_call, effect
from settlemark.testing import Bank, End, Provider, prove_settlement

WAYS = ("before", "unsent", "after", "kill before", "kill after")


class Town:
    """Hotels, a post and their tools, in a folder: what is done there outlives whoever did it."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        self.undone = True

        @effect("reversible", scope="room:/{room}", undo=self._cancel, probe=self._booked, keyed=True)
        def book(room):
            self._write(f"room {room}")

        @effect("irreversible", scope="mail:/{to}", probe=self._sent)
        def mail(to):
            self._write(f"mail {to}")

        @effect("irreversible", scope="fax:/{to}")
        def fax(to):
            self._write(f"fax {to}")

        @effect("opaque", scope="desk:/{room}")
        def hire(room):
            self._write(f"hired {room}")

        self.book, self.mail, self.fax, self.hire = book, mail, fax, hire

    def _write(self, name):
        with (self.folder / name).open("a") as file:
            file.write("once\n")

    def _cancel(self, room):
        if self.undone:
            (self.folder / f"room {room}").unlink(missing_ok=True)

    def _booked(self, room):
        return True if (self.folder / f"room {room}").exists() else None

    def _sent(self, to):
        return True if (self.folder / f"mail {to}").exists() else None

    def world(self):
        return {path.name: path.read_text() for path in sorted(self.folder.iterdir())}

    def reset(self):
        for path in self.folder.iterdir():
            path.unlink()

    def trip(self, settlement):
        with settlement.transaction("trip-42") as tx:
            tx.call(self.book, room="Ada")
            tx.call(self.book, room="Bee")
            tx.call(self.mail, to="ada")


@pytest.fixture
def town(tmp_path):
    return Town(tmp_path / "town")


def cases(proof):
    return {(case.where[0], case.how[0]): case.end.value for case in proof.cases if case.where}


# ---- an agent that settles


def test_an_agent_that_settles_leaves_all_or_nothing_however_each_of_its_steps_fails(town):
    proof = prove_settlement(town.trip, town.world, modes=WAYS)
    proof.assert_ok()
    assert proof.all == {"mail ada": "once\n", "room Ada": "once\n", "room Bee": "once\n"}
    assert proof.nothing == {}
    assert set(cases(proof).values()) == {"nothing", "all"}
    ends = cases(proof)
    steps = ["1. book", "2. book", "3. commit", "4. mail (release)"]
    ways = {step: ("before", "kill before") if "commit" in step else WAYS for step in steps}
    assert list(ends) == [(step, way) for step in steps for way in ways[step]]
    assert ends["2. book", "before"] == ends["3. commit", "before"] == "nothing"
    assert ends["2. book", "after"] == ends["4. mail (release)", "kill before"] == "all"
    assert ends["2. book", "kill after"] == ends["3. commit", "kill before"] == "nothing"


@pytest.mark.long
def test_run_again_it_leaves_all_after_every_fault(town):
    proof = prove_settlement(town.trip, town.world, rerun=True)
    proof.assert_ok()
    assert {case.end for case in proof.cases} == {End.ALL}
    assert str(proof.cases[0]) == "run twice: all"


def test_two_faults_strike_the_undos_and_the_recovery_too(town):
    def trip(settlement):
        with settlement.transaction("trip-42") as tx:
            tx.call(town.book, room="Ada")
            tx.call(town.book, room="Bee")

    proof = prove_settlement(trip, town.world, faults=2, modes=["before", "kill after"])
    proof.assert_ok()
    met = {(case.where, case.how) for case in proof.cases}
    assert (("2. book", "3. book (undo)"), ("before", "kill after")) in met
    assert (("2. book", "3. book (undo)"), ("kill after", "kill after")) in met


@pytest.mark.long
def test_two_faults_strike_an_agent_that_comes_back_too(town):
    def trip(settlement):
        with settlement.transaction("trip-42") as tx:
            tx.call(town.book, room="Ada")
            tx.call(town.mail, to="ada")

    proof = prove_settlement(trip, town.world, faults=2, modes=["before", "kill after"], rerun=True)
    proof.assert_ok()
    met = {(case.where, case.how) for case in proof.cases}
    assert (("1. book", "2. commit"), ("kill after", "before")) in met
    assert (("1. book", "2. book"), ("kill after", "before")) not in met  # it is asked about, not repeated


@pytest.mark.long
def test_it_dies_at_every_statement_of_its_ledger_and_leaves_all_or_nothing(town):
    def greet(settlement):
        with settlement.transaction("greet") as tx:
            tx.call(town.mail, to="ada")

    proof = prove_settlement(greet, town.world, modes=["statement"])
    proof.assert_ok()
    assert len(proof.cases) > 20
    assert {case.how[0] for case in proof.cases} == {"kill before", "kill after"}
    assert any("INSERT INTO" in case.where[0] for case in proof.cases)


def test_an_answer_that_is_lost_and_a_repeat_that_is_refused_are_no_proof_that_nothing_happened(town):
    """The counterparty honours keys and cannot be asked: that the second try failed says nothing of the first."""

    @effect("reversible", scope="desk:/{room}", undo=lambda room: (town.folder / room).unlink(), keyed=True)
    def reserve(room):
        (town.folder / room).touch()

    def run(settlement):
        with settlement.transaction("trip") as tx:
            tx.call(reserve, room="Ada")
            tx.call(reserve, room="Bee")

    proof = prove_settlement(run, town.world, faults=2, modes=["before", "after"], allow_residue=True)
    proof.assert_ok()


def test_an_async_agent_is_proved_alike(town):
    async def trip(settlement):
        async with settlement.transaction("trip-42") as tx:
            await asyncio.gather(*(tx.call(town.mail, to=to) for to in ("ada",)))
            await tx.call(town.book, room="Ada")

    proof = prove_settlement(trip, town.world)
    proof.assert_ok()
    assert {case.end for case in proof.cases} == {End.NOTHING, End.ALL}


def test_a_world_behind_servers_is_compared_by_what_they_say():
    opening = {"ops": 100, "fund": 0}
    with Bank(opening) as bank, Provider() as provider:

        @effect("irreversible", scope="account:/{source}", probe=lambda key: bank.status(key))
        def wire(source, target, amount):
            return bank.wire(current_call().key, source, target, amount)

        @effect(
            "reversible",
            scope="hotel:/{trip}",
            keyed=True,
            undo=lambda key: (booked := provider.probe(key)) and provider.cancel("hotel", booked["id"]),
        )
        def book(trip):
            return provider.book("hotel", key=current_call().key, trip=trip)

        def run(settlement):
            with settlement.transaction("trip-42") as tx:
                tx.call(book, trip="t1")
                tx.call(wire, source="ops", target="fund", amount=60)

        def reset():
            bank.reset()
            provider.reset()

        proof = prove_settlement(
            run, lambda: [bank.balances(), provider.picture()], reset=reset, modes=WAYS, rerun=True
        )
    proof.assert_ok()
    assert proof.nothing == [{"fund": 0, "ops": 100}, []]
    assert proof.all == [{"fund": 60, "ops": 40}, [{"kind": "hotel", "trip": "t1"}]]


def test_a_world_in_this_process_is_proved_without_kills():
    rooms = []

    @effect("reversible", scope="room:/{room}", undo=lambda room: rooms.remove(room))
    def book(room):
        rooms.append(room)

    def run(settlement):
        with settlement.transaction("trip") as tx:
            tx.call(book, room="Ada")
            tx.call(book, room="Bee")

    proof = prove_settlement(run, lambda: rooms, reset=rooms.clear, modes=["before"], kill=False)
    proof.assert_ok()
    assert (proof.nothing, proof.all) == ([], ["Ada", "Bee"])
    assert str(proof) == (
        "3 cases: 3 nothing\nstep       fault   end\n1. book    before  nothing\n2. book    before  nothing\n"
        "3. commit  before  nothing"
    )


# ---- an agent that does not settle is caught


def test_an_undo_that_undoes_nothing_is_caught_and_the_world_shown(town):
    town.undone = False
    proof = prove_settlement(town.trip, town.world)
    assert not proof.ok
    ends = cases(proof)
    assert ends["1. book", "before"] == "nothing"
    assert ends["2. book", "before"] == ends["3. commit", "before"] == "TORN"
    with pytest.raises(AssertionError) as failed:
        proof.assert_ok()
    told = str(failed.value)
    assert "before 2. book: TORN" in told
    assert "settlement.residue() names nothing" in told
    assert "the agent raised InjectedFault: step 2, book, fails: nothing was done" in told
    assert "the world against" in told
    assert "+ {'room Ada': 'once\\n'}" in told


def test_a_tool_that_is_called_past_the_settlement_is_caught(town):
    def trip(settlement):
        with settlement.transaction("trip-42") as tx:
            tx.call(town.book, room="Ada")
            town.mail(to="ada")
            tx.call(town.book, room="Bee")

    proof = prove_settlement(trip, town.world, modes=["before"])
    assert cases(proof) == {
        ("1. book", "before"): "nothing",
        ("2. book", "before"): "TORN",
        ("3. commit", "before"): "TORN",
    }


def test_one_that_is_called_past_it_at_the_very_end_is_caught_at_the_commit(town):
    def trip(settlement):
        with settlement.transaction("trip-42") as tx:
            tx.call(town.book, room="Ada")
            town.mail(to="ada")

    proof = prove_settlement(trip, town.world, modes=["before"])
    assert cases(proof) == {("1. book", "before"): "nothing", ("2. commit", "before"): "TORN"}


def test_a_tool_that_is_repeated_after_a_crash_is_caught(town):
    @effect("reversible", scope="room:/{room}", undo=town._cancel, keyed=True)
    def book(room):  # it says that its counterparty honours keys, and it does not
        town._write(f"room {room}")

    def trip(settlement):
        with settlement.transaction("trip") as tx:
            tx.call(book, room="Ada")

    proof = prove_settlement(trip, town.world, rerun=True)
    ends = cases(proof)
    assert ends["1. book", "kill after"] == ends["1. book", "after"] == "TORN"
    assert ends["1. book", "kill before"] == ends["1. book", "before"] == "all"
    with pytest.raises(AssertionError, match=r"\+ \{'room Ada': 'once\\nonce\\n'\}"):
        proof.assert_ok()


def test_an_agent_that_cannot_run_again_is_caught(town):
    names = iter(range(1000))

    def trip(settlement):
        with settlement.transaction(f"trip-{next(names)}") as tx:
            tx.call(town.book, room="Ada")

    proof = prove_settlement(trip, town.world, modes=["before"], rerun=True, kill=False)
    assert [(str(case), case.ok) for case in proof.cases][:2] == [
        ("run twice: TORN", False),
        ("before 1. book: all", True),
    ]
    with pytest.raises(AssertionError, match="the agent ran again, and the world is not as if nothing had failed"):
        proof.assert_ok()


@pytest.mark.long
def test_transactions_that_settle_one_by_one_are_told_apart_from_torn_ones(town):
    def trips(settlement):
        for room in ("Ada", "Bee"):
            with settlement.transaction(f"trip/{room}") as tx:
                tx.call(town.book, room=room)

    torn = prove_settlement(trips, town.world, modes=["before"])
    assert cases(torn)["3. book", "before"] == "TORN"
    with pytest.raises(AssertionError, match="put one transaction around all of it, or accept that with between=True"):
        torn.assert_ok()
    proof = prove_settlement(trips, town.world, between=True)
    proof.assert_ok()
    assert proof.between == ({"room Ada": "once\n"},)
    assert cases(proof)["3. book", "before"] == cases(proof)["4. commit", "before"] == "between"
    prove_settlement(trips, town.world, between=True, rerun=True).assert_ok()


# ---- what is named


def hiring(town):
    def run(settlement):
        with settlement.transaction("trip") as tx:
            tx.call(town.hire, room="Ada")
            tx.call(town.book, room="Bee")

    return run


def test_what_cannot_be_undone_is_torn_unless_what_is_named_is_allowed(town):
    torn = prove_settlement(hiring(town), town.world, modes=["before"])
    assert cases(torn)["2. book", "before"] == "TORN"
    with pytest.raises(AssertionError, match="what is left is named, and allow_residue=True accepts that"):
        torn.assert_ok()
    proof = prove_settlement(hiring(town), town.world, allow_residue=True, rerun=True)
    proof.assert_ok()
    assert cases(proof)["2. book", "before"] == "named"
    assert "named (hire on desk:/Ada: unresolved)" in str(proof)


def test_what_an_operator_does_about_it_is_proved_too(town):
    def mend(left):
        if left.tool == "hire":
            (town.folder / f"hired {left.arguments['room']}").unlink(missing_ok=True)

    proof = prove_settlement(hiring(town), town.world, modes=["before"], allow_residue=True, mend=mend)
    proof.assert_ok()
    assert cases(proof)["2. book", "before"] == "named"
    proof = prove_settlement(hiring(town), town.world, modes=["before"], allow_residue=True, mend=lambda left: None)
    assert cases(proof)["2. book", "before"] == "TORN"


def test_a_mail_nobody_can_ask_about_is_in_doubt_and_nothing_is_sent_twice(town):
    def run(settlement):
        with settlement.transaction("trip") as tx:
            tx.call(town.fax, to="ada")

    proof = prove_settlement(run, town.world, allow_residue=True, rerun=True)
    proof.assert_ok()
    after = next(case for case in proof.cases if case.how == ("after",))
    assert (after.end, [left.tool for left in after.residue]) == (End.ALL, ["fax"])
    assert after.raised.startswith(InDoubt.__name__)


def test_a_release_that_is_refused_for_good_undoes_everything_or_is_named(town):
    def run(settlement):
        with settlement.transaction("trip") as tx:
            tx.call(town.book, room="Ada")
            tx.call(town.mail, to="ada")
            tx.call(town.fax, to="bee")

    proof = prove_settlement(run, town.world, modes=["refused"], allow_residue=True)
    proof.assert_ok()
    assert cases(proof)["3. mail (release)", "refused"] == "nothing"
    assert cases(proof)["4. fax (release)", "refused"] == "named"


# ---- a proof that would prove nothing is refused


def test_a_world_that_dies_with_its_process_is_told_apart(town):
    rooms = []

    @effect("reversible", scope="room:/{room}", undo=lambda room: rooms.remove(room))
    def book(room):
        rooms.append(room)

    def run(settlement):
        with settlement.transaction("trip") as tx:
            tx.call(book, room="Ada")

    with pytest.raises(UsageError, match="its world lives in this process, and one that is killed .* kill=False"):
        prove_settlement(run, lambda: rooms, reset=rooms.clear)


def refused(match, run, world, **options):
    with pytest.raises(UsageError, match=match):
        prove_settlement(run, world, **options)


def test_what_would_prove_nothing_is_refused_and_says_what_to_change(town, tmp_path):
    refused("give reset=, a function", town.trip, lambda: town.world())
    refused("world\\(\\) is the same before and after a clean run", town.trip, lambda: 0, reset=town.reset)
    refused("no step reached the settlement", lambda settlement: town.book("Ada"), town.world)
    refused("reset\\(\\) does not make the world new", town.trip, town.world, reset=lambda: None)
    refused("modes=\\['sideways'\\]: choose of before", town.trip, town.world, modes=["sideways"])
    refused("no way left", town.trip, town.world, modes=["kill after"], kill=False)
    refused("a memory ledger leaves nothing", town.trip, town.world, url="memory:")
    refused("a proof needs one fault", town.trip, town.world, faults=0)


def test_a_world_that_never_is_the_same_twice_is_refused(town):
    ticks = iter(range(1000))

    def run(settlement):
        with settlement.transaction("trip") as tx:
            tx.call(town.book, room="Ada")
        (town.folder / "time").write_text(str(next(ticks)))

    refused("two clean runs leave different worlds(.|\n)*leave out ids and times", run, town.world, kill=False)


def test_an_agent_that_fails_without_faults_raises_what_it_raised(town):
    def run(settlement):
        with settlement.transaction("trip"):
            raise KeyError("no plan")

    with pytest.raises(KeyError) as failed:
        prove_settlement(run, town.world)
    assert failed.value.__notes__[-1] == "the agent failed in its clean run: no fault had been injected yet"


def test_a_fault_that_strikes_nothing_fails_the_proof(town):
    runs = []

    def run(settlement):
        runs.append(None)
        with settlement.transaction("trip") as tx:
            for room in ("Ada", "Bee")[: 2 if len(runs) <= 2 else 1]:
                tx.call(town.book, room=room)

    proof = prove_settlement(run, lambda: bool(town.world()), reset=town.reset, modes=["before"], kill=False)
    assert [case.end for case in proof.cases] == [End.NOTHING, End.NOTHING, End.MISSED]
    with pytest.raises(AssertionError, match="the agent's steps are not the same in every run"):
        proof.assert_ok()


def test_an_agent_that_hangs_after_a_fault_is_late_and_that_fails_the_proof(town):
    def run(settlement):
        try:
            with settlement.transaction("trip") as tx:
                tx.call(town.book, room="Ada")
        except Exception:
            threading.Event().wait()

    proof = prove_settlement(run, town.world, modes=["before", "kill before"], timeout=2)
    assert [(str(case), case.ok) for case in proof.cases] == [
        ("before 1. book: late", False),
        ("kill before 1. book: nothing", True),
        ("before 2. commit: late", False),
        ("kill before 2. commit: nothing", True),
    ]
    with pytest.raises(AssertionError, match=r"did not come to its end in 2 s; it was here:(.|\n)*threading.py"):
        proof.assert_ok()


def test_a_process_that_something_else_kills_is_no_case(town):
    here = os.getpid()

    def run(settlement):
        with settlement.transaction("trip") as tx:
            tx.call(town.book, room="Ada")
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(RuntimeError, match=f"was ended by signal {signal.SIGTERM.value}"):
        prove_settlement(run, town.world)


@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgres", marks=pytest.mark.long)])
def test_a_ledger_at_a_url_is_shared_by_the_cases_and_each_has_its_namespace(town, tmp_path, request, store):
    sqlite = f"sqlite:///{tmp_path / 'shared.db'}"
    url = sqlite if store == "sqlite" else request.getfixturevalue("postgres_url")
    prove_settlement(town.trip, town.world, url=url).assert_ok()


def test_the_next_process_recovers_as_it_is_told_to(town):
    recovered = []

    def recover(settlement):
        recovered.append(settlement.url)
        town.trip(settlement)

    proof = prove_settlement(town.trip, town.world, recover=recover, modes=["before"], kill=False)
    proof.assert_ok()
    assert len(recovered) == len(proof.cases)
    assert {case.end for case in proof.cases} == {End.ALL}
