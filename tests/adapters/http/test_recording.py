"""HTTP traffic that is recorded shows what went stale between a GET and a PUT, and which effects came out of order."""

from __future__ import annotations

import asyncio
import contextvars
import threading

import httpx
import pytest

from settlemark.history import Recorder, analyze
from settlemark_adapters.recording import HttpRecorder


@pytest.fixture
def recorder():
    with Recorder() as recorder:
        yield recorder


@pytest.fixture
def traffic(recorder):
    return HttpRecorder(recorder, cell=lambda url: url.path)


@pytest.fixture
def client(api, traffic):
    with traffic.watch(httpx.Client(base_url=api.url)) as client:
        yield client


def found(recorder):
    return {verdict.anomaly: verdict.count for verdict in analyze(recorder.records).verdicts if verdict.count}


def shown(recorder):
    return [(r.agent, [*r.read_values], [*r.write_values]) for r in recorder.records]


def test_what_another_agent_put_between_a_get_and_a_put_is_stale(api, traffic, client, recorder):
    api.tell("seed", notes={"plan": {"text": "14 June"}})
    with traffic.operation("ada", name="trip"):
        client.get("/notes/plan").raise_for_status()
        with traffic.operation("bob"):
            client.put("/notes/plan", json={"text": "21 June"}).raise_for_status()
        client.put("/notes/flight", json={"text": "on 14 June"}).raise_for_status()

    assert shown(recorder) == [
        ("setup", [], ["/notes/plan"]),
        ("bob", [], ["/notes/plan"]),
        ("ada", ["/notes/plan"], ["/notes/flight"]),
    ]
    assert found(recorder) == {"A1": 1}
    assert analyze(recorder.records)["A1"].witnesses[0].cell == "/notes/plan"
    assert recorder.records[-1].name == "trip"


def test_agents_one_after_the_other_are_not_though_a_put_is_answered_with_another_representation(
    api, traffic, client, recorder
):
    api.tell("seed", notes={"plan": {"text": "14 June"}})
    for agent in ("ada", "bob", "cy"):
        with traffic.operation(agent):
            client.get("/notes/plan").raise_for_status()
            client.put("/notes/plan", json={"text": agent}).raise_for_status()

    assert found(recorder) == {}
    assert [(r.agent, r.preds) for r in recorder.records] == [
        ("setup", []),
        ("ada", ["1"]),
        ("bob", ["2"]),
        ("cy", ["3"]),
    ]


def test_each_write_commits_when_it_is_answered_and_not_when_its_operation_ends(traffic, client, recorder):
    with traffic.operation("ada"):
        client.get("/notes/plan")
        client.put("/notes/plan", json={"text": "ada"})
        with traffic.operation("bob"):
            client.get("/notes/plan")
            client.put("/notes/plan", json={"text": "bob"})

    assert shown(recorder) == [("ada", ["/notes/plan"], ["/notes/plan"]), ("bob", ["/notes/plan"], ["/notes/plan"])]
    assert found(recorder) == {}


def test_a_read_stays_for_the_later_writes_of_its_operation(api, traffic, client, recorder):
    api.tell("seed", notes={"plan": {"text": "14 June"}})
    with traffic.operation("ada"):
        client.get("/notes/plan")
        client.put("/notes/flight", json={"text": "14 June"})
        with traffic.operation("bob"):
            client.put("/notes/plan", json={"text": "21 June"})
        client.put("/notes/hotel", json={"text": "14 June"})

    assert analyze(recorder.records)["A1"].count == 1
    assert analyze(recorder.records)["A1"].witnesses[0].records == (4, 3)
    assert recorder.records[3].write_set == ["/notes/hotel"]


def test_one_that_only_reads_commits_at_its_end_and_one_that_fails_does_not(traffic, client, recorder):
    with traffic.operation("ada"):
        client.get("/notes/plan")
    with pytest.raises(LookupError), traffic.operation("bob"):
        client.get("/notes/plan")
        raise LookupError

    assert [(r.agent, r.read_values) for r in recorder.records] == [("ada", {"/notes/plan": None})]


def test_what_is_refused_has_written_nothing_and_what_is_not_told_is_issued_and_has_not_left(
    api, traffic, client, recorder
):
    api.fail("PUT /notes/b", "status", status=503)
    api.fail("PUT /notes/c", "cut")
    with traffic.operation("ada"):
        client.put("/notes/a", json={"text": "a"})
        assert client.delete("/orders/none").status_code == 404
        assert client.put("/notes/b", json={"text": "b"}).status_code == 503
        with pytest.raises(httpx.RemoteProtocolError):
            client.put("/notes/c", json={"text": "c"})

    assert shown(recorder) == [("ada", [], ["/notes/a"]), ("ada", [], [])]
    last = recorder.records[-1]
    assert [cell for cell, _ in last.io] == ["/notes/a", "/notes/b", "/notes/c"]
    assert [cell for cell, _ in last.co] == ["/notes/a"]
    assert found(recorder) == {"effects": 1}


def test_what_is_deleted_is_nothing_and_so_is_what_is_not_there(traffic, client, recorder):
    with traffic.operation("ada"):
        client.put("/notes/a", json={"text": "a"})
        client.delete("/notes/a")
    with traffic.operation("bob"):
        client.get("/notes/a")

    assert [r.write_values for r in recorder.records[1:2]] == [{"/notes/a": None}]
    assert recorder.records[-1].read_values == {"/notes/a": None}
    assert found(recorder) == {}


def test_what_has_not_changed_since_its_etag_was_read_again(traffic, recorder):
    def serve(request):
        known = request.headers.get("If-None-Match") == '"1"'
        return httpx.Response(304 if known else 200, headers={"ETag": '"1"'}, content=b"" if known else b"a")

    client = traffic.watch(httpx.Client(transport=httpx.MockTransport(serve), base_url="http://shop"))
    for headers in ({}, {"If-None-Match": '"1"'}):
        with traffic.operation("ada"):
            client.get("/a", headers=headers)

    assert [r.read_values for r in recorder.records[1:]] == [{"/a": '"1"'}] * 2


# ---- requests that run together


class Held(httpx.AsyncBaseTransport):
    """Answers the requests that it has all got, the last one first."""

    def __init__(self, count):
        self.waiting = []
        self.count = count

    async def handle_async_request(self, request):
        turn = asyncio.Event()
        self.waiting.append(turn)
        if len(self.waiting) == self.count:
            self.waiting[-1].set()
        await turn.wait()
        return httpx.Response(201, stream=Ending(self.waiting[self.waiting.index(turn) - 1]))


class Ending(httpx.AsyncByteStream):
    def __init__(self, then):
        self.then = then

    async def __aiter__(self):
        yield b""

    async def aclose(self):
        asyncio.get_running_loop().call_soon(self.then.set)


@pytest.mark.parametrize(("together", "fires"), [(True, {"A6": 1}), (False, {})])
async def test_effects_that_are_posted_together_and_answered_in_another_order_are_reordered(
    traffic, recorder, together, fires
):
    async with traffic.watch(httpx.AsyncClient(transport=Held(3 if together else 1), base_url="http://shop")) as client:
        with traffic.operation("ada"):
            if together:
                await asyncio.gather(*(client.post(f"/letters/{n}", json={"n": n}) for n in range(3)))
            else:
                client._transport = httpx.MockTransport(lambda request: httpx.Response(201))
                for n in range(3):
                    await client.post(f"/letters/{n}", json={"n": n})

    last = recorder.records[-1]
    assert [cell for cell, _ in last.io] == ["/letters/0", "/letters/1", "/letters/2"]
    assert [cell for cell, _ in last.co] == [f"/letters/{n}" for n in ((2, 1, 0) if together else (0, 1, 2))]
    assert found(recorder) == fires


def test_agents_in_threads_have_operations_of_their_own(api, traffic, client, recorder):
    def work(agent):
        with traffic.operation(agent):
            client.get(f"/notes/{agent}")
            client.put(f"/notes/{agent}", json={"text": agent})

    threads = [threading.Thread(target=work, args=(agent,)) for agent in ("ada", "bob", "cy")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(shown(recorder)) == [(a, [f"/notes/{a}"], [f"/notes/{a}"]) for a in ("ada", "bob", "cy")]
    assert found(recorder) == {}


def test_a_request_outside_of_any_operation_is_said_once_and_not_recorded(traffic, client, recorder, caplog):
    for _ in range(2):
        contextvars.Context().run(client.get, "/notes/a")

    assert recorder.records == []
    assert [r.message for r in caplog.records if r.name == "settlemark"] == [
        (
            "GET /notes/a was requested outside of an operation, and is not recorded: name its agent with"
            " `with traffic.operation(agent):`"
        )
    ]


def test_no_body_and_no_secret_is_kept(api, recorder):
    traffic = HttpRecorder(recorder)
    client = traffic.watch(httpx.Client(base_url=api.url))
    with client, traffic.operation("ada"):
        client.put("/notes/a?api_key=hunter2", json={"text": "private"})
        client.get("/notes/a")

    assert recorder.records
    for word in ("hunter2", "private"):
        assert word not in repr(recorder.records)
