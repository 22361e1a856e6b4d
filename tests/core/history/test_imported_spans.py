"""OpenTelemetry spans as histories: OTLP files written by hand, and what the SDK itself dumps."""

from __future__ import annotations

import asyncio
import io
import json
from importlib.util import find_spec

import pytest

from settlemark.history import analyze, import_trace

SECOND = 10**9


def otlp(value):
    if isinstance(value, list):
        return {"arrayValue": {"values": [otlp(each) for each in value]}}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": [{"key": key, "value": otlp(each)} for key, each in value.items()]}}
    return {"stringValue": value}


def span(name, start, end, *, parent="", trace="t1", status=None, **attributes):
    attributes = {key.replace("__", "."): value for key, value in attributes.items()}
    return {
        "traceId": trace,
        "spanId": f"{name} {start}",
        "parentSpanId": parent,
        "name": name,
        "startTimeUnixNano": str(int(start * SECOND)),
        "endTimeUnixNano": str(int(end * SECOND)),
        "attributes": [{"key": key, "value": otlp(value)} for key, value in attributes.items()],
        "status": {} if status is None else {"code": status},
    }


def tool(name, start, end, *, call="", given=None, result="ok", parent="", agent=None, **more):
    more |= {"gen_ai__agent__name": agent} if agent else {}
    more |= {"gen_ai__tool__call__result": result} if result is not None else {}
    more.setdefault("gen_ai__tool__call__arguments", json.dumps(given or {}))
    return span(
        f"execute_tool {name}",
        start,
        end,
        parent=parent,
        gen_ai__operation__name="execute_tool",
        gen_ai__tool__name=name,
        gen_ai__tool__call__id=call,
        **more,
    )


def chat(start, end, *calls, parent="", **more):
    parts = [{"type": "tool_call", "id": call, "name": "x", "arguments": {}} for call in calls]
    return span(
        "chat",
        start,
        end,
        parent=parent,
        gen_ai__operation__name="chat",
        gen_ai__output__messages=json.dumps([{"role": "assistant", "parts": parts}]),
        **more,
    )


def imported_from(path, spans, **options):
    batch = {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {"name": "x"}, "spans": spans}]}]}
    path.write_text(json.dumps(batch))
    return import_trace(path, **options)


def found(imported):
    return {verdict.anomaly: verdict.count for verdict in analyze(imported.records).verdicts if verdict.count}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "spans.json"


@pytest.mark.parametrize(("ends", "fires"), [((3, 4), {}), ((4, 3), {"A6": 1})])
def test_calls_that_a_model_issued_together_are_reordered_when_they_end_in_another_order(path, ends, fires):
    imported = imported_from(
        path,
        [
            tool("send_mail", 2.1, ends[0], call="a", given={"to": "a"}),
            tool("send_mail", 2.0, ends[1], call="b", given={"to": "b"}),
            chat(1, 2, "a", "b"),
        ],
    )
    assert str(imported) == "3 of 3 parsed as spans"
    (last,) = [r for r in imported.records if r.io]
    assert [cell for cell, _ in last.io] == ["mail:/a", "mail:/b"]
    assert (found(imported), imported.notes) == (fires, [])


def test_without_a_model_s_answer_calls_that_overlap_were_issued_in_the_order_in_which_they_began_and_that_is_said(
    path,
):
    spans = [
        tool("send_mail", 1, 4, given={"to": "a"}),
        tool("send_mail", 2, 3, given={"to": "b"}),
        tool("send_mail", 5, 6, given={"to": "c"}),
    ]
    imported = imported_from(path, spans)

    assert found(imported) == {"A6": 1}
    assert imported.notes[0].startswith("of 1 turn no model's answer says in which order its calls were issued")
    assert imported.records[-1].write_set == ["mail:/c"]


@pytest.mark.parametrize("written", [json.dumps, dict], ids=["as text", "as attributes"])
def test_the_arguments_of_a_call_are_read_as_text_or_as_attributes_with_fields_and_lists(path, written):
    given = {"to": "a", "copies": 2, "with": ["x", {"y": "z"}]}
    spans = [tool("send_mail", 1, 2, call="a", gen_ai__tool__call__arguments=written(given))]
    (sent,) = imported_from(path, spans).records
    assert (sent.write_set, sent.io) == (["mail:/a"], [("mail:/a", {"copies": 2, "with": ["x", {"y": "z"}]})])


AGENTS = [
    span("invoke_agent ada", 0, 20, gen_ai__operation__name="invoke_agent", gen_ai__agent__name="ada"),
    tool("get_date", 1, 2, result="14 June", parent="invoke_agent ada 0"),
    tool("book_flight", 8, 9, given={"to": "Riga"}, parent="invoke_agent ada 0"),
]


def test_agents_that_ran_beside_each_other_are_told_by_the_spans_they_are_within(path):
    beside = tool("set_date", 4, 5, given={"date": "21 June"}, agent="bob", trace="t2")
    behind = tool("set_date", 12, 13, given={"date": "21 June"}, agent="bob", trace="t2")

    assert found(imported_from(path, [*AGENTS, behind])) == {}
    imported = imported_from(path, [*AGENTS, beside])
    assert analyze(imported.records)["A1"].witnesses[0].sentence == (
        "ada read date = '14 June' at 1 and committed at 3; in between, at 2, bob wrote '21 June'"
    )


def test_an_agent_that_only_answers_commits_what_it_read_when_its_span_ends(path):
    beside = tool("set_date", 4, 5, given={"date": "21 June"}, agent="bob")
    imported = imported_from(path, [*AGENTS[:2], beside])
    assert [(r.agent, r.read_set) for r in imported.records] == [("setup", []), ("bob", []), ("ada", ["date"])]
    assert found(imported) == {"A1": 1}


def test_what_failed_has_written_nothing_and_a_read_that_does_not_say_what_it_found_is_told(path):
    imported = imported_from(
        path,
        [
            tool("send_mail", 1, 2, given={"to": "a"}, status=2),
            tool("send_mail", 2, 3, given={"to": "b"}, error__type="Timeout"),
            tool("get_date", 3, 4, result=None),
        ],
    )
    assert imported.records == []
    assert imported.notes[0].startswith("1 read does not say what was found (gen_ai.tool.call.result)")


def test_calls_that_ended_at_the_same_time_have_no_order_and_that_is_said(path):
    imported = imported_from(
        path, [tool("send_mail", 1, 4, given={"to": "a"}), tool("send_mail", 2, 4, given={"to": "b"})]
    )
    assert found(imported) == {}
    assert any(note.startswith("in 1 turn calls ended at the same time") for note in imported.notes)


def test_the_names_of_openinference_and_openllmetry_are_understood(path):
    said = {"llm__output_messages__0__message__tool_calls__0__tool_call__id": "a"}
    said |= {"llm__output_messages__0__message__tool_calls__1__tool_call__id": "b"}
    inference = [
        span("llm", 1, 2, openinference__span__kind="LLM", **said),
        *(
            span("send_mail", 2, end, openinference__span__kind="TOOL", tool__name="send_mail", tool_call__id=call,
                 input__value=json.dumps({"to": call}), output__value="sent") | {"spanId": call}
            for call, end in (("a", 4), ("b", 3))
        ),
    ]  # fmt: skip # a list of names and values
    metry = [
        span("send_mail.tool", 2 + n, 9 - n, traceloop__span__kind="tool", traceloop__entity__name="send_mail",
             traceloop__entity__input=json.dumps({"to": n})) for n in range(2)
    ]  # fmt: skip # a list of names and values
    for spans in (inference, metry):
        imported = imported_from(path, spans)
        assert (imported.skipped, found(imported)) == ([], {"A6": 1})


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (span("GET /", 1, 2), "span GET /: it has no gen_ai attributes"),
        ({**span("chat", 1, 2), "endTimeUnixNano": None}, "span chat: it has no start or no end"),
        ({**span("chat", 1, 2), "spanId": ""}, "a span without its ids"),
        (7, "no span"),
    ],
)
def test_spans_that_are_not_understood_are_told_with_why(path, value, why):
    imported = imported_from(path, [AGENTS[0], value])
    assert (imported.parsed, imported.total, imported.skipped) == (1, 2, [(1, why)])


# ---- dumped by the SDK


@pytest.mark.skipif(find_spec("opentelemetry.sdk") is None, reason="needs opentelemetry-sdk")
@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("indent", [4, None], ids=["ConsoleSpanExporter", "to_json(indent=None)"])
async def test_what_the_sdk_dumps_of_a_run_tells_its_effects_order(path, monkeypatch, together, indent):
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

    monkeypatch.delenv("OTEL_SDK_DISABLED", raising=False)
    out = io.StringIO()
    provider = TracerProvider()
    exporter = ConsoleSpanExporter(out=out, formatter=lambda span: span.to_json(indent=indent) + "\n")
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("agent")
    sent = []

    async def send(to):
        given = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "send_mail",
            "gen_ai.tool.call.id": to,
            "gen_ai.tool.call.arguments": json.dumps({"to": to}),
        }
        with tracer.start_as_current_span("execute_tool send_mail", attributes=given):
            for _ in range(50 if to == "a" else 0):
                await asyncio.sleep(0)
            sent.append(to)

    with tracer.start_as_current_span("invoke_agent", attributes={"gen_ai.agent.name": "ada"}):
        answer = json.dumps(
            [{"role": "assistant", "parts": [{"type": "tool_call", "id": to, "name": "send_mail"} for to in "ab"]}]
        )
        with tracer.start_as_current_span(
            "chat", attributes={"gen_ai.operation.name": "chat", "gen_ai.output.messages": answer}
        ):
            pass
        if together:
            await asyncio.gather(send("a"), send("b"))
        else:
            await send("a")
            await send("b")
    path.write_text(out.getvalue())
    imported = import_trace(path)

    assert str(imported) == "4 of 4 parsed as spans"
    (last,) = [r for r in imported.records if r.io]
    assert (last.agent, [cell for cell, _ in last.io]) == ("ada", ["mail:/a", "mail:/b"])
    assert [cell for cell, _ in last.co] == [f"mail:/{to}" for to in sent]
    assert found(imported) == ({"A6": 1} if together else {})
