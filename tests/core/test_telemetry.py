"""Traces and metrics, as OpenTelemetry's own SDK collects them."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading

import pytest
from opentelemetry import context, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from settlemark import InDoubt, Stale, WaitTimeout, effect
from settlemark.observe import LostLease, Recovered, Recovery
from settlemark.telemetry import OpenTelemetry


class Collected:
    def __init__(self):
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.meters = MeterProvider([self.reader])
        self.observer = OpenTelemetry(self.tracers, self.meters)
        self.tracer = self.tracers.get_tracer("test")
        self.settlement = None

    def _finish(self):
        """Have the settlement's own thread end what it is at: an abort may be concluded there."""
        if self.settlement is not None:
            self.settlement.close()

    @property
    def spans(self):
        """By name, in the order in which they ended."""
        self._finish()
        found = {}
        for span in self.exporter.get_finished_spans():
            found.setdefault(span.name, []).append(span)
        return found

    def metric(self, name):
        """The points of a metric: by its attributes, a sum or how many were recorded."""
        self._finish()
        data = self.reader.get_metrics_data()
        found = {}
        for resource in data.resource_metrics if data else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    if metric.name == name:
                        for point in metric.data.data_points:
                            value = getattr(point, "value", None)
                            found[tuple(sorted(point.attributes.items()))] = point.count if value is None else value
        return found


@pytest.fixture(autouse=True)
def _enabled(monkeypatch):
    """The environment of other tests switches OpenTelemetry off, so that a framework phones nobody."""
    monkeypatch.delenv("OTEL_SDK_DISABLED", raising=False)


@pytest.fixture
def collected():
    found = Collected()
    yield found
    found.meters.shutdown()


@pytest.fixture
def traced(url, collected, open_settlement):
    collected.settlement = open_settlement(url, observe=collected.observer)
    return collected.settlement


def parent(span):
    return None if span.parent is None else span.parent.span_id


def test_a_transaction_is_a_span_and_each_act_one_below_it(traced, collected, tools):
    with traced.transaction("trip-1/book") as tx:
        tx.call(tools.book, room="1")
        tx.call(tools.send, to="Ada", text="the secret")

    ((whole,), (call,), (release,)) = (
        collected.spans[name] for name in ("settlemark.transaction", "call book", "release send")
    )
    assert parent(whole) is None
    assert parent(call) == parent(release) == whole.context.span_id
    assert dict(whole.attributes) == {
        "settlemark.transaction": "trip-1/book", "settlemark.run": "trip-1", "settlemark.attempt": 1,
        "settlemark.epoch": 1, "settlemark.begun": "begun", "settlemark.state": "committed", "settlemark.residue": 0,
    }  # fmt: skip # a table
    assert dict(call.attributes) == {
        "settlemark.transaction": "trip-1/book", "settlemark.attempt": 1, "settlemark.act": "call",
        "settlemark.tool": "book", "settlemark.class": "reversible", "settlemark.scope": "room:/1",
        "settlemark.key": "trip-1/book#1/0", "settlemark.outcome": "confirmed",
    }  # fmt: skip # a table
    assert release.attributes["settlemark.key"] == "trip-1/book#1/1"
    assert all(span.status.is_ok for spans in collected.spans.values() for span in spans)
    told = str([(dict(s.attributes), s.events, s.status) for spans in collected.spans.values() for s in spans])
    assert "the secret" not in told


def test_a_transaction_belongs_to_the_trace_of_whoever_begins_it(traced, collected, tools):
    with collected.tracer.start_as_current_span("agent") as agent, traced.transaction("trip-1") as tx:
        with collected.tracer.start_as_current_span("thinking"):
            tx.call(tools.book, room="1")

    (whole,), (call,) = collected.spans["settlemark.transaction"], collected.spans["call book"]
    assert parent(whole) == agent.get_span_context().span_id
    assert parent(call) == whole.context.span_id
    assert call.context.trace_id == agent.get_span_context().trace_id


def test_a_tools_own_spans_nest_in_its_acts(traced, collected):
    @effect("reversible", scope="room:/{room}", undo=lambda room: inner("gone"))
    def book(room):
        inner("booked")

    def inner(name):
        with collected.tracer.start_as_current_span(name):
            pass

    with contextlib.suppress(ZeroDivisionError), traced.transaction("trip-1") as tx:
        tx.call(book, room="1")
        raise ZeroDivisionError

    (call,), (undo,) = collected.spans["call book"], collected.spans["undo book"]
    assert parent(collected.spans["booked"][0]) == call.context.span_id
    assert parent(collected.spans["gone"][0]) == undo.context.span_id
    assert trace.get_current_span() is trace.INVALID_SPAN


async def test_a_tools_own_spans_nest_in_its_act_under_asyncio(traced, collected):
    @effect("reversible", scope="room:/{room}", undo=lambda room: None)
    async def book(room):
        with collected.tracer.start_as_current_span("booked"):
            pass

    @effect("reversible", scope="suite:/{room}", undo=lambda room: None)
    def book_in_a_thread(room):
        with collected.tracer.start_as_current_span("booked in a thread"):
            pass

    async with traced.transaction("trip-1") as tx:
        await tx.call(book, room="1")
        await tx.call(book_in_a_thread, room="1")

    assert parent(collected.spans["booked"][0]) == collected.spans["call book"][0].context.span_id
    assert (
        parent(collected.spans["booked in a thread"][0]) == collected.spans["call book_in_a_thread"][0].context.span_id
    )


def test_the_calls_of_a_sub_agent_nest_in_the_call_they_join(traced, collected, tools):
    @effect("opaque")
    def delegate():
        with traced.transaction() as inner:
            inner.call(tools.book, room="1")

    with traced.transaction("trip-1") as tx:
        tx.call(delegate)

    assert parent(collected.spans["call book"][0]) == collected.spans["call delegate"][0].context.span_id
    assert len(collected.spans["settlemark.transaction"]) == 1


def test_an_undone_transaction_is_an_error_with_its_reason_and_its_undo_is_a_span(traced, collected, tools):
    with contextlib.suppress(ZeroDivisionError), traced.transaction("trip-1") as tx:
        tx.call(tools.book_with_fee, room="1")
        raise ZeroDivisionError("the secret")

    (whole,), (undo,) = collected.spans["settlemark.transaction"], collected.spans["undo book_with_fee"]
    assert (whole.status.status_code, whole.status.description) == (trace.StatusCode.ERROR, "failed")
    assert (whole.attributes["settlemark.state"], whole.attributes["settlemark.residue"]) == ("aborted", 1)
    assert (undo.attributes["settlemark.outcome"], undo.attributes["settlemark.tag"]) == ("undone", "unresolved")
    assert "the secret" not in str(whole.to_json())


def test_a_retry_links_to_the_attempt_it_repeats_and_stays_in_its_trace(traced, collected, tools):
    older = traced.transaction("older")
    other = older.__enter__()

    def body(tx):
        tx.read("cell:/1", lambda: 1)
        if tx.attempt == 1:
            other.call(tools.put, cell="1", value=2)
            older.__exit__(None, None, None)
        tx.call(tools.send, to="Ada")

    with collected.tracer.start_as_current_span("agent") as agent:
        traced.run("trip-1", body)

    of_trip = [s for s in collected.spans["settlemark.transaction"] if s.attributes["settlemark.run"] == "trip-1"]
    stale, done = of_trip
    assert [link.context.span_id for link in done.links] == [stale.context.span_id]
    assert (stale.attributes["settlemark.reason"], done.attributes["settlemark.begun"]) == ("stale", "retried")
    assert parent(done) == parent(stale) == agent.get_span_context().span_id
    assert collected.metric("settlemark.aborts") == {(("reason", "stale"),): 1}


def test_an_attempt_that_a_caller_makes_again_links_to_the_last_and_belongs_to_its_own_trace(traced, collected, tools):
    with contextlib.suppress(ZeroDivisionError), traced.transaction("trip-1") as tx:
        tx.call(tools.book, room="1")
        raise ZeroDivisionError
    with collected.tracer.start_as_current_span("again") as again, traced.transaction("trip-1") as tx:
        tx.call(tools.book, room="1")

    before, after = collected.spans["settlemark.transaction"]
    assert [link.context.span_id for link in after.links] == [before.context.span_id]
    assert parent(after) == again.get_span_context().span_id


def test_what_ends_is_counted_by_state_and_reason_and_acts_by_tool_class_and_outcome(traced, collected, world, tools):
    with traced.transaction("trip-1") as tx:
        tx.call(tools.book, room="1")
        tx.call(tools.send, to="Ada")
    world.fail("book", LookupError("no room"))
    with contextlib.suppress(LookupError), traced.transaction("trip-2") as tx:
        tx.call(tools.book, room="2")

    assert collected.metric("settlemark.transactions") == {
        (("state", "committed"),): 1,
        (("reason", "failed"), ("state", "aborted")): 1,
    }
    assert collected.metric("settlemark.aborts") == {(("reason", "failed"),): 1}
    assert collected.metric("settlemark.effects") == {
        (("act", "call"), ("class", "reversible"), ("outcome", "confirmed"), ("tool", "book")): 1,
        (("act", "call"), ("class", "reversible"), ("outcome", "failed"), ("tool", "book")): 1,
        (("act", "release"), ("class", "irreversible"), ("outcome", "confirmed"), ("tool", "send")): 1,
    }
    assert sum(collected.metric("settlemark.effect.duration").values()) == 3
    assert collected.metric("settlemark.unknown") == {}


def test_an_unknown_outcome_is_counted_and_its_span_is_an_error(traced, collected, world, tools):
    world.fail("charge", *[TimeoutError("no answer")] * 9)
    with contextlib.suppress(InDoubt), traced.transaction("trip-1") as tx:
        tx.call(tools.charge, account="Ada", amount=5)

    assert collected.metric("settlemark.unknown")[("class", "idempotent"), ("tool", "charge")] >= 1
    assert collected.metric("settlemark.residue") == {(): 1}
    (call,) = collected.spans["call charge"]
    assert (call.status.status_code, call.status.description) == (trace.StatusCode.ERROR, "unknown")


def test_a_wait_is_measured_and_is_an_event_of_its_transaction(traced, collected, tools):
    with traced.transaction("trip-1") as tx:
        tx.call(tools.book, room="1")
        with contextlib.suppress(WaitTimeout), traced.transaction("trip-2", wait=0) as other:
            other.call(tools.book, room="1")

    assert collected.metric("settlemark.wait.duration") == {(("outcome", "gave up"), ("scope.type", "room")): 1}
    (waiter,) = [s for s in collected.spans["settlemark.transaction"] if s.attributes["settlemark.run"] == "trip-2"]
    (event,) = waiter.events
    assert event.name == "settlemark.wait"
    assert (event.attributes["settlemark.holder"], event.attributes["settlemark.scope"]) == ("trip-1", "room:/1")


def test_leases_lost_and_what_was_recovered_are_counted(collected):
    collected.observer.tell(LostLease("worker", 2))
    collected.observer.tell(Recovery(Recovered(committed=["a", "b"], stuck={"c": ["tool"]})))

    assert collected.metric("settlemark.leases.lost") == {(): 1}
    assert collected.metric("settlemark.recovered") == {(("result", "committed"),): 2, (("result", "stuck"),): 1}


def test_an_event_that_this_version_does_not_know_is_let_pass(collected):
    collected.observer.tell(object())

    assert collected.spans == {}


def test_no_span_is_kept_of_what_has_ended(traced, collected, tools):
    for number in range(20):
        with contextlib.suppress(Stale), traced.transaction(f"trip-{number}") as tx:
            tx.call(tools.book, room="1")

    assert (collected.observer._spans, collected.observer._parents, collected.observer._before) == ({}, {}, {})


def test_what_retries_may_link_to_is_bounded(collected, open_settlement, monkeypatch, tools):
    monkeypatch.setattr("settlemark.telemetry._REMEMBERED", 3)
    settlement = open_settlement(observe=collected.observer)
    for number in range(9):
        with contextlib.suppress(ZeroDivisionError), settlement.transaction(f"trip-{number}") as tx:
            tx.call(tools.book, room="1")
            raise ZeroDivisionError

    assert len(collected.observer._before) == 3


def test_two_settlements_may_share_one_though_their_names_meet(collected, open_settlement, tools):
    one, two = (open_settlement(observe=collected.observer) for _ in range(2))
    with one.transaction("trip-1") as tx:
        tx.call(tools.book, room="1")
        with two.transaction("trip-1", independent=True) as other:
            other.call(tools.book, room="1")

    wholes = {span.context.span_id for span in collected.spans["settlemark.transaction"]}
    assert len(wholes) == 2
    assert {parent(span) for span in collected.spans["call book"]} == wholes


def test_threads_trace_beside_each_other(traced, collected, tools):
    def trip(number):
        with traced.transaction(f"trip-{number}") as tx:
            tx.call(tools.book, room=str(number))

    threads = [threading.Thread(target=trip, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    wholes = {span.context.span_id for span in collected.spans["settlemark.transaction"]}
    assert len(wholes) == 8
    assert {parent(span) for span in collected.spans["call book"]} == wholes
    assert context.get_current() == {}


def test_without_the_extra_the_import_says_what_to_install():
    code = "import sys; sys.modules['opentelemetry'] = None\nimport settlemark.telemetry"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path)},
        check=False,
    )

    assert done.returncode == 1
    assert 'ImportError: settlemark.telemetry needs OpenTelemetry: pip install "settlemark[otel]"' in done.stderr
