"""Traces and metrics of a settlement with OpenTelemetry: `Settlement(url, observe=OpenTelemetry())`.

A span for each attempt of a transaction, in the trace of its caller; below it a span for each act of an
effect: its call, its release, its undo. A tool's own spans nest in its act's. What a retry repeats, it links to.

Attributes of spans are names, scopes, keys and outcomes, never arguments, results or messages of exceptions.
Those of metrics are only what there is little of: states, reasons, tools, classes, outcomes, types of scopes.

| metric | unit | counts, by |
|---|---|---|
| `settlemark.transactions` | `{transaction}` | attempts that ended: `state`, `reason` |
| `settlemark.aborts` | `{transaction}` | those that were undone: `reason` |
| `settlemark.effects` | `{act}` | acts: `act`, `tool`, `class`, `outcome` |
| `settlemark.unknown` | `{effect}` | acts whose outcome nobody knew: `tool`, `class` |
| `settlemark.residue` | `{effect}` | effects that were left for an operator to look at |
| `settlemark.wait.duration` | `s` | a histogram of waits: `scope.type`, `outcome` |
| `settlemark.effect.duration` | `s` | a histogram of acts with their retries: `act`, `tool`, `class` |
| `settlemark.leases.lost` | `{lease}` | processes that did not move, and whose work others took over |
| `settlemark.recovered` | `{transaction}` | what ended processes left, each time a process looked: `result` |
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Generator
from contextlib import contextmanager
from functools import singledispatchmethod
from typing import Any

from settlemark._edges.extras import missing

try:
    from opentelemetry import context as _context
    from opentelemetry import metrics as _metrics
    from opentelemetry import trace as _trace
except ImportError as _error:
    raise missing("settlemark.telemetry needs OpenTelemetry", "otel", _error) from _error

from settlemark._model.effect_class import Outcome
from settlemark._observe.events import Acted, Acting, Aging, Began, Ended, Event, LostLease, Recovery, Waited
from settlemark._protocol.states import State

_NAME = "settlemark"
_REMEMBERED = 1_024  # ended attempts that a retry may link to
_ACTING = _context.create_key("settlemark-acting")
_GOOD = (Outcome.CONFIRMED, Outcome.UNDONE, Outcome.SUSPENDED, Outcome.INTENDED)


class OpenTelemetry:
    """Tells OpenTelemetry what a settlement does; several settlements may share one.

    Args:
        tracer_provider: makes the tracer; the global one by default.
        meter_provider: makes the meter; the global one by default.

    >>> from settlemark import Settlement
    >>> settlement = Settlement("memory:", observe=OpenTelemetry())
    >>> with settlement.transaction("trip-42") as tx:
    ...     tx.read("price:/Ada", lambda: 20)
    20
    """

    def __init__(
        self,
        tracer_provider: _trace.TracerProvider | None = None,
        meter_provider: _metrics.MeterProvider | None = None,
    ) -> None:
        self._tracer = _trace.get_tracer(_NAME, tracer_provider=tracer_provider)
        meter = _metrics.get_meter(_NAME, meter_provider=meter_provider)
        self._transactions = meter.create_counter(
            "settlemark.transactions", unit="{transaction}", description="Attempts of transactions that ended."
        )
        self._aborts = meter.create_counter(
            "settlemark.aborts", unit="{transaction}", description="Attempts that were undone, by reason."
        )
        self._effects = meter.create_counter(
            "settlemark.effects", unit="{act}", description="Calls, releases and undos of effects."
        )
        self._unknown = meter.create_counter(
            "settlemark.unknown", unit="{effect}", description="Acts whose outcome nobody knew."
        )
        self._residue = meter.create_counter(
            "settlemark.residue", unit="{effect}", description="Effects that were left for an operator to look at."
        )
        self._waits = meter.create_histogram(
            "settlemark.wait.duration", unit="s", description="How long a call or a commit waited for another."
        )
        self._durations = meter.create_histogram(
            "settlemark.effect.duration", unit="s", description="How long an act took, with its retries."
        )
        self._leases = meter.create_counter(
            "settlemark.leases.lost", unit="{lease}", description="Leases lost by a process that did not move."
        )
        self._aging = meter.create_counter(
            "settlemark.aging", unit="{transaction}", description="Transactions that were open for long, by max_age."
        )
        self._recovered = meter.create_counter(
            "settlemark.recovered", unit="{transaction}", description="Transactions that ended processes left."
        )
        self._lock = threading.Lock()
        self._spans: dict[Began | Acting, _trace.Span] = {}
        self._parents: dict[Began, _context.Context] = {}
        self._before: OrderedDict[tuple[str, str], tuple[_trace.SpanContext, _context.Context]] = OrderedDict()

    def tell(self, event: Event, /) -> None:
        """Receive an event."""
        self._tell(event)

    @singledispatchmethod
    def _tell(self, event: Event) -> None:
        """Ignore an event that this version does not know."""

    @_tell.register
    def _(self, event: Began) -> None:
        name = (event.run, event.transaction)
        with self._lock:
            before = self._before.pop(name, None)
        parent = _context.get_current()
        links: list[_trace.Link] = []
        if before is not None and event.attempt > 1:
            links.append(_trace.Link(before[0]))
            # The thread that concludes an attempt begins its retry, which belongs to the original caller's trace.
            parent = before[1] if event.how == "retried" else parent
        span = self._tracer.start_span(
            "settlemark.transaction",
            parent,
            links=links,
            attributes={
                "settlemark.transaction": event.transaction,
                "settlemark.run": event.run,
                "settlemark.attempt": event.attempt,
                "settlemark.epoch": event.epoch,
                "settlemark.begun": event.how,
            },
        )
        with self._lock:
            self._spans[event] = span
            self._parents[event] = parent

    @_tell.register
    def _(self, event: Ended) -> None:
        with self._lock:
            span = self._spans.pop(event.of, None)
            parent = self._parents.pop(event.of, None)
            if span is not None and parent is not None:
                name = (event.of.run, event.of.transaction)
                if event.state is not State.COMMITTED:
                    self._before[name] = (span.get_span_context(), parent)
                while len(self._before) > _REMEMBERED:
                    self._before.popitem(last=False)
        said = {"state": event.state.value}
        if event.reason is not None:
            said["reason"] = event.reason.value
        if not event.elsewhere:  # else the process that has ended it counts it
            self._transactions.add(1, said)
            if event.state is State.ABORTED:
                self._aborts.add(1, {"reason": said.get("reason", "")})
            if event.left:
                self._residue.add(event.left)
        if span is None:
            return
        if event.elsewhere:
            span.set_attribute("settlemark.elsewhere", True)
        span.set_attributes({f"settlemark.{key}": value for key, value in said.items()})
        span.set_attribute("settlemark.residue", event.left)
        if event.state is not State.COMMITTED:
            span.set_status(_trace.StatusCode.ERROR, said.get("reason"))
        span.end()

    @_tell.register
    def _(self, event: Waited) -> None:
        outcome = "gave up" if event.gave_up else "went on"
        self._waits.record(event.seconds, {"scope.type": event.scope.partition(":")[0], "outcome": outcome})
        span = self._span_of(event.of)
        if span is not None:
            span.add_event(
                "settlemark.wait",
                {
                    "settlemark.holder": event.holder,
                    "settlemark.scope": event.scope,
                    "settlemark.seconds": event.seconds,
                    "settlemark.outcome": outcome,
                },
            )

    @_tell.register
    def _(self, event: Acting) -> None:
        span = self._tracer.start_span(
            f"{event.act} {event.tool}",
            self._above(event),
            attributes={
                "settlemark.transaction": event.transaction,
                "settlemark.attempt": event.attempt,
                "settlemark.act": event.act,
                "settlemark.tool": event.tool,
                "settlemark.class": event.kind.value,
                "settlemark.scope": event.scope,
                "settlemark.key": event.key,
            },
        )
        with self._lock:
            self._spans[event] = span

    @_tell.register
    def _(self, event: Acted) -> None:
        acting = event.acting
        with self._lock:
            span = self._spans.pop(acting, None)
        said = {"act": acting.act, "tool": acting.tool, "class": acting.kind.value}
        self._durations.record(event.seconds, said)
        self._effects.add(1, {**said, "outcome": event.outcome.value})
        if event.outcome is Outcome.UNKNOWN:
            self._unknown.add(1, {"tool": acting.tool, "class": acting.kind.value})
        if span is None:
            return
        span.set_attribute("settlemark.outcome", event.outcome.value)
        if event.tag is not None:
            span.set_attribute("settlemark.tag", event.tag.value)
        if event.outcome not in _GOOD:
            span.set_status(_trace.StatusCode.ERROR, event.outcome.value)
        span.end()

    @_tell.register
    def _(self, event: Aging) -> None:
        self._aging.add(1, {"bounded": event.max_age is not None})

    @_tell.register
    def _(self, _event: LostLease) -> None:
        self._leases.add(1)

    @_tell.register
    def _(self, event: Recovery) -> None:
        report = event.report
        for result in ("committed", "undone", "kept", "waiting", "stuck"):
            number = len(getattr(report, result))
            if number:
                self._recovered.add(number, {"result": result})

    @contextmanager
    def around(self, acting: Acting, /) -> Generator[None]:
        """Make an act's span the current one, so that the tool's own spans nest in it."""
        span = self._span_of(acting)
        if span is None:
            yield
            return
        token = _context.attach(_context.set_value(_ACTING, acting, _trace.set_span_in_context(span)))
        try:
            yield
        finally:
            _context.detach(token)

    # ---- parents of spans

    def _span_of(self, event: Began | Acting | None) -> _trace.Span | None:
        if event is None:
            return None
        with self._lock:
            return self._spans.get(event)

    def _above(self, acting: Acting) -> _context.Context:
        """Return the parent context of an act: its transaction, or the call of the transaction in which it was made."""
        here = _context.get_current()
        outer: Any = _context.get_value(_ACTING, here)
        if isinstance(outer, Acting) and outer.of is acting.of:
            return here
        transaction = self._span_of(acting.of)
        return here if transaction is None else _trace.set_span_in_context(transaction, here)


__all__ = ["OpenTelemetry"]
