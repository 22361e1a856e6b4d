from __future__ import annotations

import http.client
import json
import pickle
import random
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rooms.testing import ChildServer, FaultRule

import settlemark.testing
from settlemark.testing import FaultPlan, Provider, ProviderRefused

SHORT = 0.2


@pytest.fixture(scope="module")
def running():
    with Provider() as provider:
        yield provider


@pytest.fixture
def provider(running):
    running.reset()
    return running


def events(provider):
    return [(entry["event"], entry.get("id")) for entry in provider.log()]


def raw(provider, method, path, body=b"", **headers):
    connection = http.client.HTTPConnection(urlsplit(provider.url).netloc, timeout=10)
    try:
        connection.request(method, path, body, {"Authorization": f"Bearer {provider.token}"} | headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


# -- bookings ---------------------------------------------------------------------------------------------


def test_a_booking_is_answered_kept_and_logged(provider):
    seat = provider.book("flight", key="run/1", trip="t1", to="Lisbon")

    request = {"trip": "t1", "to": "Lisbon"}
    assert seat == {"id": seat["id"], "kind": "flight", "request": request, "status": "confirmed"}
    assert seat["id"].startswith("flight-")
    assert provider.get("flight", seat["id"]) == provider.probe("run/1") == seat
    assert provider.bookings() == [seat]
    [entry] = provider.log()
    assert entry == {
        "n": entry["n"],
        "at": entry["at"],
        "event": "booked",
        "kind": "flight",
        "id": seat["id"],
        "key": "run/1",
        "request": request,
    }
    assert provider.bookings_left() == [entry]


def test_the_same_key_and_body_gets_the_recorded_answer(provider):
    first = provider.book("hotel", key="k", trip="t1")
    again = provider.book("hotel", key="k", trip="t1")

    assert again == first
    assert provider.bookings() == [first]
    assert events(provider) == [("booked", first["id"]), ("replayed", first["id"])]
    assert provider.duplicates() == []


def test_a_replay_repeats_the_first_answer_also_after_a_cancellation(provider):
    room = provider.book("hotel", key="k", trip="t1")
    provider.cancel("hotel", room["id"])

    assert provider.book("hotel", key="k", trip="t1") == room
    assert provider.probe("k") == room | {"status": "cancelled"}
    assert provider.bookings_left() == []


@pytest.mark.parametrize(
    ("kind", "request_"), [("hotel", {"n": 2}), ("hotel", {"n": True}), ("hotel", {}), ("car", {"n": 1})]
)
def test_the_same_key_with_another_request_is_refused_and_nothing_is_booked(provider, kind, request_):
    room = provider.book("hotel", key="k", n=1)

    with pytest.raises(ProviderRefused, match="send a new key") as refused:
        provider.book(kind, key="k", **request_)

    assert refused.value.status == 422
    assert provider.bookings() == [room]
    assert events(provider) == [("booked", room["id"]), ("refused", None)]


def test_without_a_key_the_same_request_books_twice(provider):
    first, second = (provider.book("car", trip="t1") for _ in range(2))

    assert first["id"] != second["id"]
    assert [entry["id"] for entry in provider.bookings_left()] == [first["id"], second["id"]]
    assert [entry["id"] for entry in provider.duplicates()] == [second["id"]]


def test_a_cancellation_happens_once(provider):
    room = provider.book("hotel", trip="t1")

    assert provider.cancel("hotel", room["id"]) == room | {"status": "cancelled"}
    assert provider.cancel("hotel", room["id"]) == room | {"status": "already cancelled"}

    assert provider.get("hotel", room["id"]) == room | {"status": "cancelled"}
    assert events(provider) == [(event, room["id"]) for event in ("booked", "cancelled", "cancel-replayed")]
    assert provider.bookings_left() == []


@pytest.mark.parametrize("kind", ["flight", "car"])
def test_what_was_not_booked_cannot_be_cancelled_and_nothing_changes(provider, kind):
    room = provider.book("hotel", trip="t1")

    with pytest.raises(ProviderRefused) as refused:
        provider.cancel(kind, room["id"])

    assert refused.value.status == 404
    assert provider.bookings() == [room]
    assert events(provider) == [("booked", room["id"]), ("refused", room["id"])]


@pytest.mark.parametrize("key", ["run/1/../2?x=1&y#z", "Zürich ✈", "50%", "a b"])
def test_any_key_names_its_booking(provider, key):
    seat = provider.book("flight", key=key)

    assert provider.probe(key) == seat
    assert provider.log()[0]["key"] == key


def test_a_key_never_used_probes_as_absent(provider):
    provider.book("flight", key="k")

    assert provider.probe("k2") is None


def test_booking_again_after_a_cancellation_is_no_duplicate(provider):
    first = provider.book("car", trip="t1")
    provider.cancel("car", first["id"])
    second = provider.book("car", trip="t1")

    assert provider.duplicates() == []
    assert [entry["id"] for entry in provider.bookings_left()] == [second["id"]]


def test_cancelling_late_does_not_hide_a_duplicate(provider):
    first = provider.book("car", trip="t1")
    second = provider.book("car", trip="t1")
    provider.cancel("car", first["id"])

    assert [entry["id"] for entry in provider.duplicates()] == [second["id"]]


def test_other_trips_other_kinds_and_no_trip_are_no_duplicates(provider):
    for kind, request in [("car", {"trip": "a"}), ("car", {"trip": "b"}), ("hotel", {"trip": "a"})]:
        provider.book(kind, **request)
    provider.book("wire", amount=1)
    provider.book("wire", amount=1)

    assert provider.duplicates() == []
    assert len(provider.bookings_left()) == 5


def test_notes_stand_in_order_with_the_bookings(provider):
    provider.note("before")
    room = provider.book("hotel")
    provider.note("after")

    log = provider.log()
    assert [entry.get("text") or entry["id"] for entry in log] == ["before", room["id"], "after"]
    assert [entry["n"] - log[0]["n"] for entry in log] == [0, 1, 2]


def test_a_reset_clears_everything_but_the_file_and_the_ids(provider):
    room = provider.book("hotel", key="k", trip="t1")
    provider.fail("hotel", "before", times=-1)
    lines = Path(provider.log_path).read_text().splitlines()

    provider.reset()

    assert provider.log() == provider.bookings() == provider.bookings_left() == provider.duplicates() == []
    assert provider.probe("k") is None
    assert Path(provider.log_path).read_text().splitlines()[: len(lines)] == lines
    assert provider.book("hotel", key="k", trip="t1")["id"] != room["id"]


def test_many_threads_share_one_provider_and_every_booking_counts_once(provider):
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda n: provider.book("wire", key=f"k{n % 50}", trip=n % 50), range(200)))

    assert len({booking["id"] for booking in made}) == 50
    assert {entry["id"] for entry in provider.bookings_left()} == {booking["id"] for booking in made}
    assert provider.duplicates() == []
    log = provider.log()
    assert len(log) == 200
    assert [entry["n"] for entry in log] == list(range(log[0]["n"], log[0]["n"] + 200))


# -- faults -----------------------------------------------------------------------------------------------


def test_before_refuses_and_nothing_is_done(provider):
    provider.fail("flight", "before")

    with pytest.raises(ProviderRefused, match="nothing was done, try again") as refused:
        provider.book("flight", key="k", trip="t1")

    assert refused.value.status == 503
    assert provider.bookings() == []
    assert provider.probe("k") is None
    assert events(provider) == [("refused", None)]
    assert provider.book("flight", key="k", trip="t1")["status"] == "confirmed"


def test_after_books_and_loses_the_answer_so_a_retry_needs_its_key(provider):
    provider.fail("flight", "after")

    with pytest.raises(ConnectionError, match="the outcome is unknown"):
        provider.book("flight", key="k", trip="t1")

    seat = provider.book("flight", key="k", trip="t1")
    assert provider.probe("k") == seat
    assert events(provider) == [("booked", seat["id"]), ("replayed", seat["id"])]
    assert provider.duplicates() == []


def test_after_books_twice_for_the_unguarded_control_that_sends_no_key(provider):
    provider.fail("flight", "after")

    with pytest.raises(ConnectionError):
        provider.book("flight", trip="t1")
    seat = provider.book("flight", trip="t1")

    assert [entry["id"] for entry in provider.duplicates()] == [seat["id"]]


def test_timeout_books_and_holds_the_answer_until_the_client_gives_up(provider):
    provider.fail("hotel", "timeout")

    with pytest.raises(TimeoutError, match="the outcome is unknown"):
        provider.book("hotel", key="k", timeout=SHORT, trip="t1")

    while (room := provider.probe("k")) is None:
        pass  # on a busy machine the client may give up before the provider has begun
    assert events(provider) == [("booked", room["id"])]


def test_healing_lets_held_answers_go(provider):
    provider.fail("hotel", "timeout", seconds=3600)
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(provider.book, "hotel", timeout=60)
        while not provider.bookings():
            assert not held.done()
        provider.heal()

        assert held.result(60) == provider.bookings()[0]


@pytest.mark.parametrize(("key", "expected"), [("k", ["booked", "replayed"]), (None, ["booked", "booked"])])
def test_duplicate_handles_a_request_as_if_delivered_twice(provider, key, expected):
    provider.fail("car", "duplicate")

    car = provider.book("car", key=key, trip="t1")

    assert [entry["event"] for entry in provider.log()] == expected
    assert provider.log()[0]["id"] == car["id"]
    assert len(provider.duplicates()) == expected.count("booked") - 1


def test_a_cancellation_can_fail_for_good(provider):
    room = provider.book("hotel", trip="t1")
    provider.fail("hotel", "before", on="cancel", times=-1)

    for _ in range(3):
        with pytest.raises(ProviderRefused):
            provider.cancel("hotel", room["id"])

    assert events(provider) == [("booked", room["id"])] + [("refused", room["id"])] * 3
    assert provider.log()[-1]["request"] == {"trip": "t1"}
    assert [entry["id"] for entry in provider.bookings_left()] == [room["id"]]

    provider.heal()
    assert provider.cancel("hotel", room["id"])["status"] == "cancelled"


def test_a_lost_cancellation_happened_and_its_retry_is_no_second_effect(provider):
    room = provider.book("hotel")
    provider.fail("hotel", "after", on="cancel")

    with pytest.raises(ConnectionError):
        provider.cancel("hotel", room["id"])

    assert provider.cancel("hotel", room["id"])["status"] == "already cancelled"
    assert events(provider) == [(event, room["id"]) for event in ("booked", "cancelled", "cancel-replayed")]


def test_rules_are_used_up_in_order_and_only_where_they_fit(provider):
    provider.fail("flight", "after", trip="t2")
    provider.fail("flight", "before", on="book", times=2)
    outcomes = []
    for kind, trip in [("car", "t2"), ("flight", "t1"), ("flight", "t2"), ("flight", "t2"), ("flight", "t2")]:
        try:
            outcomes.append(provider.book(kind, trip=trip)["status"])
        except (ProviderRefused, ConnectionError) as error:
            outcomes.append(type(error).__name__)

    assert outcomes == ["confirmed", "ProviderRefused", "ConnectionError", "ProviderRefused", "confirmed"]


@pytest.mark.parametrize(
    "rule",
    [
        {"kind": "boat", "when": "before"},
        {"kind": "car", "when": "never"},
        {"kind": "car", "when": "before", "times": -2},
        {"kind": "car", "when": "before", "on": "wish"},
        {"kind": "car", "when": "timeout", "seconds": -1},
    ],
)
def test_a_malformed_fault_is_refused_and_nothing_fails(provider, rule):
    with pytest.raises(ProviderRefused, match="a fault has kind") as refused:
        provider.fail(**rule)

    assert refused.value.status == 400
    assert provider.book("car")["status"] == "confirmed"


def test_a_slow_kind_is_overtaken(provider):
    provider.delay("hotel", 3600)
    with pytest.raises(TimeoutError):
        provider.book("hotel", timeout=SHORT, trip="t1")

    car = provider.book("car", trip="t1")

    assert events(provider) == [("booked", car["id"])]


def test_a_delay_is_a_number_of_seconds_of_a_known_kind(provider):
    for kind, seconds in [("boat", 1), ("car", -1), ("car", "soon")]:
        with pytest.raises(ProviderRefused, match="delays are seconds"):
            provider.delay(kind, seconds)

    assert provider.book("car")["status"] == "confirmed"


# -- over the wire ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("authorization", ["", "Bearer guess", "Bearer gu\xe9ss"])
def test_no_request_is_served_without_the_token(provider, authorization):
    status, _ = raw(provider, "POST", "/car", b"{}", Authorization=authorization)

    assert status == 401
    assert provider.log() == provider.bookings() == []


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/boat", b"{}", 404),
        ("GET", "/", b"", 404),
        ("DELETE", "/car", b"", 404),
        ("POST", "/car", b"", 400),
        ("POST", "/car", b"{", 400),
        ("POST", "/car", b"\xff", 400),
        ("POST", "/car", b"[]", 400),
        ("POST", "/_faults", b"{}", 400),
        ("POST", "/_faults", b"[1]", 400),
    ],
)
def test_a_malformed_request_is_refused_and_nothing_is_done(provider, method, path, body, status):
    answered, answer = raw(provider, method, path, body)

    assert answered == status
    assert list(answer) == ["error"]
    assert provider.log() == provider.bookings() == []


def test_a_first_booking_is_201_and_a_replay_200(provider):
    answers = [raw(provider, "POST", "/car", b'{"trip": "t1"}', **{"Idempotency-Key": "k"}) for _ in range(2)]

    assert [status for status, _ in answers] == [201, 200]
    assert answers[0][1] == answers[1][1]


def test_one_connection_serves_request_after_request_also_after_a_refusal(provider):
    connection = http.client.HTTPConnection(urlsplit(provider.url).netloc, timeout=10)
    headers = {"Authorization": f"Bearer {provider.token}"}
    sockets = set()
    for body, token in [(b"{}", headers), (b"not json", headers), (b"{}", {}), (b"{}", headers)]:
        connection.request("POST", "/car", body, token)
        connection.getresponse().read()
        sockets.add(connection.sock)
    connection.close()

    assert len(sockets) == 1
    assert len(provider.bookings()) == 2


def test_a_refusal_survives_pickling():
    refused = pickle.loads(pickle.dumps(ProviderRefused(503, {"error": "closed"})))

    assert (refused.status, refused.body) == (503, {"error": "closed"})
    assert str(refused) == "the provider answered 503: closed"


# -- processes --------------------------------------------------------------------------------------------


def test_another_process_reaches_the_provider_by_its_address(provider):
    program = """
import json, sys
from settlemark.testing import Provider
with Provider.connect(**json.loads(sys.argv[1])) as provider:
    provider.book("car", key="theirs", trip="t1")
"""
    root = str(Path(settlemark.testing.__file__).parents[2])
    subprocess.run([sys.executable, "-c", program, json.dumps(provider.address)], check=True, env={"PYTHONPATH": root})

    assert provider.probe("theirs") == provider.bookings()[0]


def test_closing_ends_the_child_and_leaves_a_given_log(tmp_path):
    path = tmp_path / "log.jsonl"
    provider = Provider(path)
    provider.book("car")
    provider.close()
    provider.close()

    with pytest.raises(ConnectionError):
        provider.book("car")
    assert [entry["event"] for entry in provider.log()] == ["booked"]


def test_a_temporary_log_goes_with_its_provider():
    with Provider() as provider:
        assert Path(provider.log_path).exists()

    assert not Path(provider.log_path).parent.exists()


def test_the_log_of_another_server_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"event": "booked"}\n')

    with pytest.raises(RuntimeError, match=r"(?s)died.*another server's log: name a new file"):
        Provider(path)

    assert path.read_text() == '{"event": "booked"}\n'


def test_a_line_still_being_written_is_not_yet_in_the_log(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"event": "note"}\n{"event": "no')

    assert Provider.connect("http://127.0.0.1:1", "token", str(path)).log() == [{"event": "note"}]


def test_a_child_that_cannot_start_is_told_with_its_stderr():
    with pytest.raises(RuntimeError, match=r"(?s)no_such_module died \(exit code 1\).*ModuleNotFoundError"):
        ChildServer("settlemark.testing.no_such_module")


def test_the_child_ends_when_its_parent_is_killed(tmp_path):
    program = """
import signal, sys
from settlemark.testing import Provider
print(Provider(sys.argv[1]).url, flush=True)
signal.pause()
"""
    root = str(Path(settlemark.testing.__file__).parents[2])
    parent = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "log.jsonl")],
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": root},
    )
    with parent:
        url = urlsplit(parent.stdout.readline().strip())
        connection = http.client.HTTPConnection(url.netloc, timeout=30)
        connection.request("GET", "/bookings")
        assert connection.getresponse().read()
        parent.send_signal(signal.SIGKILL)

        assert connection.sock.recv(1) == b""  # the child's end of the connection closes with the child
        connection.close()


# -- random faults ----------------------------------------------------------------------------------------

KINDS = ["hotel", "flight", "car"]


@given(st.integers(), st.floats(0, 1), st.floats(0, 1))
def test_a_higher_rate_only_adds_faults_and_a_seed_repeats_them(seed, one, other):
    low, high = sorted([one, other])
    few = FaultPlan(low, random.Random(seed)).for_trip(KINDS, trip="t1")
    many = FaultPlan(high, random.Random(seed)).for_trip(KINDS, trip="t1")

    assert [rule for rule in many if rule in few] == few
    assert FaultPlan(high, random.Random(seed)).for_trip(KINDS, trip="t1") == many


@given(st.integers())
def test_rates_nought_and_one_mean_never_and_always(seed):
    assert FaultPlan(0.0, random.Random(seed)).for_trip(KINDS) == []
    assert [rule["kind"] for rule in FaultPlan(1.0, random.Random(seed)).for_trip(KINDS)] == KINDS


@given(st.integers())
def test_every_fault_is_over_by_the_third_try(seed):
    [rule] = FaultPlan(1.0, random.Random(seed)).for_trip(["car"], trip="t1")

    assert rule.keys() == FaultRule.__annotations__.keys()
    assert 1 <= rule["times"] <= (1 if rule["when"] == "duplicate" else 2)
    assert rule["on"] == "book" or (rule["on"], rule["when"]) == ("cancel", "before")


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan")])
def test_a_rate_is_a_probability(rate):
    with pytest.raises(ValueError, match="between 0 and 1"):
        FaultPlan(rate, random.Random(1))


def test_a_patient_caller_with_keys_survives_every_plan_and_books_once(provider):
    plan = FaultPlan(1.0, random.Random(5))
    met = set()
    for trip in range(15):
        for rule in plan.for_trip(KINDS, trip=f"t{trip}"):
            provider.fail(**rule)
            met.add((rule["on"], rule["when"]))
            failures = rule["times"] if rule["on"] == "book" and rule["when"] != "duplicate" else 0
            for _ in range(failures):
                timeout = SHORT if rule["when"] == "timeout" else 10
                with pytest.raises((ProviderRefused, ConnectionError, TimeoutError)):
                    provider.book(rule["kind"], key=f"{trip}/{rule['kind']}", timeout=timeout, trip=f"t{trip}")
            provider.book(rule["kind"], key=f"{trip}/{rule['kind']}", trip=f"t{trip}")

    assert len(met) == 5
    assert provider.duplicates() == []
    assert len(provider.bookings_left()) == 45


def test_the_public_names_are_these():
    assert settlemark.testing.__all__ == sorted(settlemark.testing.__all__)
    assert {"FaultPlan", "Mailbox", "Provider", "ProviderRefused", "prove_settlement"} < {*settlemark.testing.__all__}
