"""A halt keeps a scope, runs or everything from acting, wherever work stands, until somebody lifts it."""

from __future__ import annotations

import asyncio
import pickle
import threading

import pytest

from settlemark import Encryption, Halted, Payloads, ScopeError, State, UsageError, effect, new_key
from settlemark.hosting import host_of
from settlemark.ledger import StateChange

pytestmark = pytest.mark.every_store

PATIENCE = 60
PAYMENTS = "payment:/**"


class Bank:
    """Pays, and keeps its own log."""

    def __init__(self):
        self.log = []
        self.then = lambda: None

        @effect("irreversible", scope="payment:/{to}")
        def pay(to):
            self.log.append(("pay", to))
            self.then()
            return f"paid {to}"

        @effect("reversible", scope="payment:/{to}", undo=lambda to: self.log.append(("release", to)))
        def reserve(to):
            self.log.append(("reserve", to))
            self.then()

        @effect("read", scope="payment:/{to}")
        def balance(to):
            self.log.append(("balance", to))
            return 7

        @effect("irreversible", scope="mail:/{to}")
        def send(to):
            self.log.append(("send", to))

        self.pay, self.reserve, self.balance, self.send = pay, reserve, balance, send


@pytest.fixture
def bank():
    return Bank()


@pytest.fixture
def halting():
    """Halt from another thread; the halt stands when this returns, and `result` waits for what it returns."""
    threads = []

    def halt(settlement, *args, **options):
        stands, returned = threading.Event(), []
        put_up = host_of(settlement).protocol.halt

        def watched(*given, **named):
            found = put_up(*given, **named)
            stands.set()
            return found

        host_of(settlement).protocol.halt = watched
        thread = threading.Thread(
            target=lambda: returned.append(settlement.halt(*args, by="eve", because="odd payments", **options))
        )
        threads.append(thread)
        thread.start()
        assert stands.wait(PATIENCE)

        def result():
            thread.join(PATIENCE)
            return returned[0]

        return result

    yield halt
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


def stop(settlement, *args, **options):
    return settlement.halt(*args, **{"by": "eve", "because": "odd payments", **options})


def told(found):
    return found.undone, found.parked, found.finished, found.moving


def standing(settlement):
    return [(halt.number, halt.what, halt.by, halt.because) for halt in settlement.halts()]


# ---- what is refused


@pytest.mark.parametrize("tool", ["pay", "reserve", "balance"])
def test_a_call_on_a_halted_scope_is_refused_before_anything_of_it_is_recorded(settlement, bank, tool, recorded):
    halt = stop(settlement, PAYMENTS).halt
    with settlement.transaction("trip-42") as tx:
        with pytest.raises(Halted, match=r"trip-42 was not run: payment:/ is halted since .* by eve: odd") as refused:
            tx.call(getattr(bank, tool), to="ada")
    error = refused.value
    assert (error.halt, error.what, error.by, error.because, error.since, error.parked, error.transaction) == (
        halt.number,
        "payment:/",
        "eve",
        "odd payments",
        halt.since,
        False,
        "trip-42",
    )
    assert f"settlement.resume({halt.number}, by=...)" in str(error)
    assert pickle.loads(pickle.dumps(error)).because == "odd payments"
    assert (bank.log, recorded(settlement, "trip-42")) == ([], [])


def test_what_is_not_halted_goes_on(settlement, bank):
    stop(settlement, PAYMENTS)
    stop(settlement, run="ada/*")
    with settlement.transaction("trip-42") as tx:
        tx.call(bank.send, to="ada")
    assert bank.log == [("send", "ada")]


@pytest.mark.parametrize(
    ("halt", "run"), [({"run": "ada/7"}, "ada/7"), ({"run": "ada/*"}, "ada/7"), ({"everything": True}, "trip")]
)
def test_a_halted_run_begins_nothing(settlement, bank, halt, run):
    stop(settlement, **halt)
    with pytest.raises(Halted), settlement.transaction(f"{run}/book", run=run) as tx:
        tx.call(bank.send, to="ada")
    assert (bank.log, settlement.transactions()) == ([], [])


def test_what_has_committed_is_still_answered_from_the_record(settlement, bank):
    with settlement.transaction("trip-42") as tx:
        paid = tx.call(bank.pay, to="ada")
    stop(settlement, everything=True)
    with settlement.transaction("trip-42") as tx:
        again = tx.call(bank.pay, to="ada")
    assert (paid.result(), again.result(), bank.log) == ("paid ada", "paid ada", [("pay", "ada")])


# ---- an agent


def test_a_halted_agent_begins_nothing_in_any_run_and_others_go_on(settlement, bank):
    found = stop(settlement, agent="ada")
    with pytest.raises(Halted, match="agent ada is halted"), settlement.transaction("trip-1", agent="ada") as tx:
        tx.call(bank.send, to="ada")
    with pytest.raises(Halted):
        settlement.run("trip-2", lambda tx: tx.call(bank.send, to="ada"), agent="ada")
    for name, agent in (("ada/1", "bob"), ("ada", None)):  # the beginning of a run's name is nobody's
        with settlement.transaction(name, agent=agent) as tx:
            tx.call(bank.send, to=name)
    assert bank.log == [("send", "ada/1"), ("send", "ada")]
    settlement.resume(found, by="eve")
    settlement.run("trip-2", lambda tx: tx.call(bank.send, to="eve"), agent="ada")
    assert bank.log[2:] == [("send", "eve")]


def test_what_an_agent_has_open_is_undone(settlement, bank, recorded):
    with pytest.raises(Halted, match="trip-42 was undone: agent ada is halted"):
        with settlement.transaction("trip-42", agent="ada") as tx, settlement.transaction("trip-43") as other:
            tx.call(bank.reserve, to="ada")
            other.call(bank.reserve, to="bob")
            found = stop(settlement, agent="ada")
    assert told(found) == (("trip-42",), (), (), ())
    assert bank.log == [("reserve", "ada"), ("reserve", "bob"), ("release", "ada")]
    assert recorded(settlement, "trip-43") == [("committed", [("reserve", "confirmed", None)])]


def test_agents_are_on_record_with_their_transaction_also_those_that_joined_it(settlement, bank):
    @effect("reversible", scope="trip:/{to}", undo=lambda to: bank.log.append(("undone", to)))
    def delegate(to):
        with settlement.transaction(agent="searcher") as tx:
            tx.call(bank.reserve, to=to)
        with settlement.transaction("beside", independent=True) as tx:
            tx.call(bank.send, to=to)

    with settlement.transaction("trip-42", agent="boss") as tx:
        tx.call(delegate, to="ada")
    found = {each.row.name: each.agents for each in settlement.transactions()}
    assert found == {"trip-42": ("boss", "searcher"), "beside": ("boss", "searcher")}


def test_an_agent_inside_anothers_call_that_is_halted_is_refused_there_and_the_rest_goes_on(settlement, bank):
    stop(settlement, agent="searcher")

    @effect("reversible", scope="trip:/{to}", undo=lambda to: None)
    def delegate(to):
        try:
            with settlement.transaction(agent="searcher") as tx:
                tx.call(bank.reserve, to=to)
        except Halted as error:
            return error.what

    with settlement.transaction("trip-42", agent="boss") as tx:
        assert tx.call(delegate, to="ada") == "agent searcher"
        tx.call(bank.send, to="ada")
    assert bank.log == [("send", "ada")]


def test_a_halted_agent_does_not_go_on_with_what_another_has_put_aside_and_who_does_is_on_record(settlement, bank):
    pay = effect("irreversible", scope="payment:/{to}", approve=True, name="pay_asked")(lambda to: bank.log.append(to))

    def go_on(agent):
        with settlement.transaction("trip-42", agent=agent, approver=lambda gate: "approve") as tx:
            tx.call(bank.reserve, to="ada")
            tx.call(pay, to="bob")

    with settlement.transaction("trip-42", agent="ada") as tx:
        tx.call(bank.reserve, to="ada")
        tx.call(pay, to="bob")
        tx.park()
    found = stop(settlement, agent="ben")
    with pytest.raises(Halted, match="agent ben is halted"):
        go_on("ben")
    assert (bank.log, [each.agents for each in settlement.transactions()]) == ([("reserve", "ada")], [("ada",)])
    settlement.resume(found, by="eve")
    go_on("ben")
    assert (bank.log[1:], [each.agents for each in settlement.transactions()]) == (["bob"], [("ada", "ben")])


def test_what_a_halted_agent_has_gone_on_with_is_undone(settlement, bank):
    with settlement.transaction("trip-42", agent="ada") as tx:
        tx.call(bank.reserve, to="ada")
        tx.park()
    with pytest.raises(Halted), settlement.transaction("trip-42", agent="ben") as tx:
        tx.call(bank.reserve, to="ada")
        assert told(stop(settlement, agent="ben")) == (("trip-42",), (), (), ())
        tx.call(bank.send, to="ada")
    assert bank.log == [("reserve", "ada"), ("release", "ada")]


def test_what_an_agent_has_joined_is_undone_as_a_whole(settlement, bank, recorded):
    @effect("reversible", scope="trip:/{to}", undo=lambda to: bank.log.append(("undone", to)))
    def delegate(to):
        with settlement.transaction(agent="searcher") as tx:
            tx.call(bank.reserve, to=to)

    with pytest.raises(Halted), settlement.transaction("trip-42", agent="boss") as tx:
        tx.call(delegate, to="ada")
        assert told(stop(settlement, agent="searcher")) == (("trip-42",), (), (), ())
        tx.call(bank.send, to="ada")
    assert bank.log == [("reserve", "ada"), ("release", "ada"), ("undone", "ada")]


def test_a_halt_of_an_agent_outlives_its_process_and_undoes_what_is_open_in_another(shared_url, open_settlement, bank):
    here, operator = open_settlement(shared_url), open_settlement(shared_url)
    with pytest.raises(Halted), here.transaction("trip-42", agent="ada") as tx:
        tx.call(bank.reserve, to="ada")
        assert told(stop(operator, agent="ada")) == (("trip-42",), (), (), ())
        tx.call(bank.send, to="ada")
    later = open_settlement(shared_url)
    with pytest.raises(Halted), later.transaction("trip-43", agent="ada") as tx:
        tx.call(bank.send, to="ada")
    assert [halt.what for halt in later.halts()] == ["agent ada"]
    assert [each.agents for each in later.transactions()] == [("ada",)]
    assert bank.log == [("reserve", "ada"), ("release", "ada")]


def test_a_name_that_is_no_agents_is_refused_before_anything_begins(settlement):
    for wrong in ("", " ", 7):
        with pytest.raises(UsageError, match="agent= is the name of the agent that acts"):
            settlement.transaction("trip-42", agent=wrong)
    assert settlement.transactions() == []


# ---- what is open is undone


def test_what_is_open_is_undone_and_its_caller_is_told(settlement, bank, recorded):
    with pytest.raises(Halted, match="trip-42 was undone: payment:/ is halted") as refused:
        with settlement.transaction("trip-42") as tx:
            tx.call(bank.reserve, to="ada")
            found = stop(settlement, PAYMENTS)
            assert bank.log == [("reserve", "ada"), ("release", "ada")]
            tx.call(bank.send, to="ada")
    assert told(found) == (("trip-42",), (), (), ())
    assert (refused.value.parked, refused.value.by) == (False, "eve")
    assert recorded(settlement, "trip-42") == [("aborted", [("reserve", "undone", "clean")])]
    assert (settlement.residue(), host_of(settlement).protocol.live) == ([], {})


def test_a_halt_returns_when_the_call_that_was_out_is_back_and_undone(settlement, bank, halting):
    results = []
    bank.then = lambda: results.append(halting(settlement, PAYMENTS))
    with pytest.raises(Halted), settlement.transaction("trip-42") as tx:
        tx.call(bank.reserve, to="ada")
    assert told(results[0]()) == (("trip-42",), (), (), ())
    assert bank.log == [("reserve", "ada"), ("release", "ada")]


def test_a_call_that_does_not_return_is_named_and_undone_when_it_does(settlement, bank):
    results = []
    bank.then = lambda: results.append(stop(settlement, PAYMENTS, wait=0))
    with pytest.raises(Halted), settlement.transaction("trip-42") as tx:
        tx.call(bank.reserve, to="ada")
    (moving,) = results[0].moving
    assert (moving.transaction, moving.run, moving.state) == ("trip-42", "trip-42", "aborting")
    assert (moving.why, results[0].silent) == ("a call, a release or an undo of it has not returned", False)
    again = stop(settlement, PAYMENTS)
    assert (again.silent, again.halt.number, len(settlement.halts())) == (True, results[0].halt.number, 1)
    assert bank.log == [("reserve", "ada"), ("release", "ada")]


# ---- what is leaving stops between two releases


def test_what_is_leaving_stops_between_two_releases_and_goes_on_when_resumed(settlement, bank, halting, recorded):
    results = []

    def once():
        bank.then = lambda: None
        results.append(halting(settlement, PAYMENTS))

    bank.then = once
    with pytest.raises(Halted, match="goes on by itself then: repeat nothing") as refused:
        with settlement.transaction("trip-42") as tx:
            tx.call(bank.pay, to="ada")
            tx.call(bank.pay, to="bob")
    found = results[0]()
    assert told(found) == ((), ("trip-42",), (), ())
    assert (refused.value.parked, bank.log, settlement.residue()) == (True, [("pay", "ada")], [])
    settlement.recover()  # which does not go on with it
    with pytest.raises(Halted, match="put aside"), settlement.transaction("trip-42"):
        pass
    assert bank.log == [("pay", "ada")]
    settlement.resume(found, by="eve")
    assert bank.log == [("pay", "ada"), ("pay", "bob")]
    assert recorded(settlement, "trip-42") == [("committed", [("pay", "confirmed", None), ("pay", "confirmed", None)])]
    assert (settlement.in_doubt(), host_of(settlement).protocol.live) == ([], {})


def test_a_rewind_of_what_a_halt_has_put_aside_names_the_halt_at_once_and_nothing_is_undone(settlement, bank, halting):
    results = []

    def once():
        bank.then = lambda: None
        results.append(halting(settlement, PAYMENTS))

    with settlement.transaction("trip-41") as tx:
        tx.call(bank.reserve, to="ada")
    bank.then = once
    with pytest.raises(Halted), settlement.transaction("trip-42") as tx:
        tx.call(bank.pay, to="ada")
        tx.call(bank.pay, to="bob")
    halt = results[0]()
    with pytest.raises(Halted, match="trip-42 is put aside as it is, .* is halted since .* lifts it") as refused:
        settlement.rewind(["trip-41", "trip-42"], by="eve", dry_run=False)
    assert (refused.value.parked, refused.value.halt) == (True, halt.halt.number)
    assert bank.log == [("reserve", "ada"), ("pay", "ada")]
    settlement.resume(halt, by="eve")
    assert bank.log == [("reserve", "ada"), ("pay", "ada"), ("pay", "bob")]


def test_the_last_release_finishes(settlement, bank, halting):
    results = []
    bank.then = lambda: results.append(halting(settlement, PAYMENTS))
    with settlement.transaction("trip-42") as tx:
        tx.call(bank.pay, to="ada")
    assert told(results[0]()) == ((), (), ("trip-42",), ())
    assert bank.log == [("pay", "ada")]


def test_what_leaves_on_another_scope_leaves(settlement, bank, halting):
    results = []
    bank.then = lambda: results.append(halting(settlement, PAYMENTS))
    with settlement.transaction("trip-42") as tx:
        tx.call(bank.pay, to="ada")
        tx.call(bank.send, to="ada")
    assert told(results[0]()) == ((), (), ("trip-42",), ())
    assert bank.log == [("pay", "ada"), ("send", "ada")]


def test_what_was_decided_and_has_not_begun_to_leave_waits(settlement, bank, when_taken, halting):
    results = []

    def decides(change):
        return isinstance(change, StateChange) and change.state is State.RELEASING

    when_taken(settlement, decides, lambda: results.append(halting(settlement, everything=True)))
    with pytest.raises(Halted), settlement.transaction("trip-42") as tx:
        tx.call(bank.pay, to="ada")
    found = results[0]()
    assert (told(found), bank.log) == (((), ("trip-42",), (), ()), [])
    settlement.resume(found.halt, by="eve")
    assert bank.log == [("pay", "ada")]


# ---- what is sealed, and what waits for a person


def test_what_is_sealed_behind_an_older_one_stays_sealed_and_commits_when_resumed(settlement, bank, someone_waits):
    waits, errors = someone_waits(settlement), []

    def second():
        try:
            with settlement.transaction("second") as tx:
                tx.call(bank.pay, to="ada")
        except Halted as error:
            errors.append(error)

    with settlement.transaction("first", may_touch=["payment:/ada"]) as tx:
        tx.call(bank.send, to="ada")
        thread = threading.Thread(target=second)
        thread.start()
        assert waits.wait(PATIENCE)
        found = stop(settlement, "payment:/ada")
        thread.join(PATIENCE)
    assert told(found) == ((), ("second",), (), ())
    assert ([error.parked for error in errors], bank.log) == ([True], [("send", "ada")])
    settlement.resume(found, by="eve")
    assert bank.log == [("send", "ada"), ("pay", "ada")]


def test_what_waits_for_a_person_stays_and_an_answer_counts_once_it_is_resumed(open_as_marked, url, bank):
    settlement = open_as_marked(url)

    @effect("irreversible", scope="payment:/{to}", approve=True)
    def wire(to):
        bank.log.append(("wire", to))

    with settlement.transaction("trip-42", park="keep") as tx:
        tx.call(wire, to="ada")
    found = stop(settlement, PAYMENTS)
    assert told(found) == ((), ("trip-42",), (), ())
    answered = settlement.approve("trip-42", by="ada")
    assert (answered.news, answered.settled, answered.waits) == (
        True,
        False,
        "payment:/ is halted by eve: it settles once that is lifted",
    )
    settlement.recover()
    assert bank.log == []
    settlement.resume(found, by="eve")
    assert bank.log == [("wire", "ada")]


# ---- lifting, and the record


def test_a_halt_is_on_record_with_who_when_and_why_also_when_it_is_lifted(settlement):
    found = stop(settlement, PAYMENTS).halt
    assert standing(settlement) == [(1, "payment:/", "eve", "odd payments")]
    lifted = settlement.resume(found, by="bob")
    assert standing(settlement) == []
    assert settlement.halts(every=True) == [lifted]
    assert (lifted.since, lifted.by, lifted.resumed_by) == (found.since, "eve", "bob")
    assert lifted.resumed_at >= found.since
    chain = host_of(settlement).ledger.read(lambda book: book.entries.chain("halt"))
    assert [(entry.state, entry.intact) for entry in chain.entries] == [("halted", True), ("resumed", True)]


def test_what_two_have_halted_stays_halted_until_both_have_lifted_it(settlement, bank):
    first, second = stop(settlement, PAYMENTS), stop(settlement, PAYMENTS, by="bob")
    assert [halt.number for halt in settlement.halts()] == [1, 2]
    settlement.resume(first, by="eve")
    with pytest.raises(Halted, match="by bob"), settlement.transaction("trip-42") as tx:
        tx.call(bank.pay, to="ada")
    settlement.resume(second, by="bob")
    with settlement.transaction("trip-42") as tx:
        tx.call(bank.pay, to="ada")
    assert bank.log == [("pay", "ada")]


def test_a_halt_outlives_its_process(shared_url, open_settlement, bank):
    open_settlement(shared_url).halt(PAYMENTS, by="eve", because="odd payments")
    other = open_settlement(shared_url)
    with pytest.raises(Halted), other.transaction("trip-42") as tx:
        tx.call(bank.pay, to="ada")
    other.resume(1, by="bob")
    with other.transaction("trip-42") as tx:
        tx.call(bank.pay, to="ada")
    assert bank.log == [("pay", "ada")]


def test_a_halt_by_another_process_undoes_what_is_open_here_and_returns_behind_that(shared_url, open_settlement, bank):
    here, operator = open_settlement(shared_url), open_settlement(shared_url)
    with pytest.raises(Halted), here.transaction("trip-42") as tx:
        tx.call(bank.reserve, to="ada")
        found = operator.halt(run="trip-42", by="eve", because="odd payments")
        assert bank.log == [("reserve", "ada"), ("release", "ada")]
        tx.call(bank.send, to="ada")
    assert told(found) == (("trip-42",), (), (), ())


def test_an_event_loop_halts_and_resumes(settlement):
    async def both():
        found = await settlement.ahalt(everything=True, by="eve", because="odd payments")
        return found.silent, (await settlement.aresume(found, by="eve")).what

    assert asyncio.run(both()) == (True, "everything")


# ---- what is refused before anything is halted


@pytest.mark.parametrize(
    ("args", "options", "message"),
    [
        ((), {}, "one of: a scope, run=, agent=, everything=True"),
        ((PAYMENTS,), {"run": "trip"}, "one of: a scope, run=, agent=, everything=True"),
        ((), {"everything": "yes"}, "one of: a scope, run=, agent=, everything=True"),
        ((), {"run": "trip", "agent": "ada"}, "one of: a scope, run=, agent=, everything=True"),
        ((), {"agent": " "}, "agent= is the name of the agent that is halted"),
        ((), {"run": "*"}, "say everything=True"),
        ((), {"run": "trip/**"}, "has a . before its end, where alone one stands: nothing was halted"),
        ((), {"run": "*/pay"}, "has a . before its end, where alone one stands: nothing was halted"),
        ((), {"run": " "}, "run= is a run's id"),
        ((PAYMENTS,), {"by": ""}, "by= is who halts it"),
        ((PAYMENTS,), {"because": " "}, "because= is why it is halted"),
        ((PAYMENTS,), {"because": None}, "because= is why it is halted"),
        ((PAYMENTS,), {"wait": -1}, "wait=-1"),
    ],
)
def test_a_bad_halt_is_refused_and_nothing_is_halted(quick, args, options, message):
    with pytest.raises(UsageError, match=message):
        stop(quick, *args, **options)
    assert quick.halts(every=True) == []


def test_a_transactions_name_is_no_run_and_nothing_is_halted(quick):
    with quick.transaction("trip/book"), pytest.raises(UsageError, match="of the run trip: .*halt run='trip'"):
        stop(quick, run="trip/book")
    assert quick.halts(every=True) == []


def test_a_malformed_scope_is_refused_and_nothing_is_halted(quick):
    with pytest.raises(ScopeError):
        stop(quick, "payments")
    assert quick.halts(every=True) == []


@pytest.mark.parametrize("number", [2, True, "1", None])
def test_lifting_what_is_not_halted_is_refused_and_nothing_moves(quick, number):
    stop(quick, PAYMENTS)
    with pytest.raises(UsageError, match=r"nothing moved"):
        quick.resume(number, by="eve")
    assert standing(quick) == [(1, "payment:/", "eve", "odd payments")]


def test_a_halt_lifted_twice_is_refused_the_second_time(quick):
    quick.resume(stop(quick, PAYMENTS), by="eve")
    with pytest.raises(UsageError, match="there is no halt 1"):
        quick.resume(1, by="eve")


def test_with_encryption_the_reason_is_in_the_record_alone(open_settlement, tmp_path):
    encryption = pytest.importorskip("cryptography") and Encryption(new_key(), namespace="default", tenant="acme")
    path = tmp_path / "ledger.db"
    settlement = open_settlement(f"sqlite:///{path}", payloads=Payloads(encrypt=encryption))
    stop(settlement, PAYMENTS, because="ada is robbed")
    with pytest.raises(Halted) as refused, settlement.transaction("trip") as tx:
        tx.call(Bank().pay, to="ada")
    assert (refused.value.because, standing(settlement)) == (
        "see settlement.halts()",
        [(1, "payment:/", "eve", "ada is robbed")],
    )
    settlement.close()
    assert b"robbed" not in b"".join(file.read_bytes() for file in tmp_path.iterdir())
