"""An API that is declared in a few lines is a set of tools: keyed, undone, asked about, and read as it will be."""

from __future__ import annotations

import inspect

import httpx
import pytest
from tests.adapters.http.subject import CALLS, KEY, shop

from settlemark import DeclarationError, InDoubt, Settlement, Stale, Tag
from settlemark.hosting import declaration_of
from settlemark.testing import die, in_child
from settlemark_adapters.http import Call, Field, Http, HttpRefused, Request

ORDER = {"customer": "ada", "sku": "tea"}


def made(api):
    """What came of the requests that were to change something."""
    return [did for did in api.events() if did != "told"]


def rows(settlement):
    return [(e.row.tool, e.outcome.value, e.tag and e.tag.value) for t in settlement.transactions() for e in t.effects]


# ---- declaring


def test_a_call_becomes_a_tool_with_a_signature_a_docstring_and_a_declaration(api):
    create, get, *_ = shop(None, api).tools()
    assert str(inspect.signature(create)) == "(customer: str, sku: str, count: int = 1) -> Any"
    assert inspect.getdoc(create) == (
        "Order an item for a customer.\n\nArgs:\n    customer: customer\n    sku: sku\n    count: how many"
    )
    assert inspect.getdoc(get).endswith("order: order, in the path")
    declared = declaration_of(create)
    assert (declared.tool, declared.kind.value, declared.keyed) == ("create_order", "reversible", True)
    assert declaration_of(get).kind.value == "read"


def test_without_a_scope_a_call_touches_its_address_and_all_below_it(api):
    _, get, *_ = shop(None, api).tools()
    (scope,) = declaration_of(get).scopes({"order": "a/b"})
    assert scope.text == f"http:/{api.host}/orders/a%2Fb"


def test_the_part_of_an_address_that_is_the_key_is_in_no_scope():
    assert Call("put", "PUT", "/a/{x}/by/{key}/c").scope_at("https://h/v1") == "http:/h/v1/a/{x}/by"


def test_arguments_may_have_other_names_at_the_server_and_be_left_out(api):
    call = Call(
        "send_letter",
        "POST",
        "/letters",
        query={"copy": Field(bool, default=False)},
        body={"recipient": Field(str, name="to"), "note": Field(str, default=None), "kind": "a {recipient}", "n": 7},
        headers={"X-For": "{recipient}"},
    )
    send = shop(None, api, [call]).tool("send_letter")
    assert str(inspect.signature(send)) == "(recipient: str, copy: bool = False, note: str | None = None) -> Any"
    assert send("ada") == {"number": 1}
    assert api.state()["letters"] == [{"to": "ada", "kind": "a ada", "n": 7}]
    (entry,) = api.log()
    assert (entry["request"], entry["headers"]["x-for"]) == ("POST /letters?copy=false", "ada")


def test_a_body_may_be_one_argument(api):
    put = shop(None, api, [Call("put", "PUT", "/notes/{name}", body="{note}", fields={"note": Field(dict)})])
    assert put.tool("put")(name="a", note={"text": "b"}) == {"name": "a", "text": "b"}


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: Call("a", "post", "/x"), "'post' is no method: write it as in 'POST'"),
        (lambda: Call("a", "POST", "x"), "'x' is no path: begin it with a slash"),
        (lambda: Call("a", "POST", "/x/../y"), "is no path"),
        (lambda: Call("a", "POST", "/x?y=1"), "put a query in query="),
        (lambda: Call("a", "POST", "/x", key_header="Key: 1"), "'Key: 1' is no header's name"),
        (
            lambda: Call("a", "POST", "/x", body={"key": str}),
            r"cannot take an argument 'key': .* Field\(…, name='key'\)",
        ),
        (lambda: Call("a", "POST", "/x", window=60), "sends no key that could be forgotten: name its key_header="),
        (lambda: Call("a", "POST", "/x", kind="idempotent"), "idempotent by no key and not by its method"),
        (lambda: Call("a", "POST", "/x", echoes=("y",)), "echoes= of a names 'y', which it does not take"),
        (lambda: Request("GET", "no/slash"), "is no path"),
    ],
)
def test_a_call_that_contradicts_itself_is_refused(call, said):
    with pytest.raises(DeclarationError, match=said):
        call()


def test_two_calls_of_one_name_are_refused(api):
    with pytest.raises(DeclarationError, match="two calls are named 'create_order': rename one"):
        shop(None, api, [CALLS[0], CALLS[0]])


def test_a_reversible_call_without_an_undo_is_refused(api):
    with pytest.raises(DeclarationError, match="reversible but has no undo"):
        shop(None, api, [Call("a", "POST", "/x", kind="reversible")])


# ---- three ways of use


def test_called_bare_it_acts_at_once_each_time_under_a_key_of_its_own(api):
    create = shop(None, api).tool("create_order")
    assert (create(**ORDER)["id"], create(**ORDER)["id"]) == ("order-1", "order-2")
    first, second = api.events("key")
    assert first[0] == second[0] == "created"
    assert first[1] != second[1]


def test_in_a_transaction_it_goes_under_the_decisions_key(settlement, api):
    create = shop(settlement, api).tool("create_order")
    with settlement.transaction("monday") as tx:
        assert tx.call(create, **ORDER)["id"] == "order-1"
    assert api.events("key", "body") == [("created", "monday#1/0", '{"count":1,"customer":"ada","sku":"tea"}')]


def test_a_function_of_the_users_own_runs_under_a_calls_declaration(settlement, api):
    adapter = shop(settlement, api)

    def order_tea(who: str, sku: str = "tea") -> dict:
        """Order tea."""
        return adapter.tool("create_order")(who, sku)

    mine = adapter.declare("create_order", order_tea, customer="who")
    with pytest.raises(RuntimeError), settlement.transaction("t") as tx:
        tx.call(mine, who="ada")
        raise RuntimeError
    assert api.events("key") == [("created", "t#1/0"), ("deleted", None)]
    assert (api.state()["orders"], settlement.residue()) == ({}, [])


def test_a_function_that_lacks_what_the_declaration_needs_is_refused(api):
    with pytest.raises(DeclarationError, match="customer"):
        shop(None, api).declare("create_order", lambda sku: None)


def test_two_of_a_kind_have_names_of_their_own(settlement, api):
    one, two = (shop(settlement, api, name=name) for name in ("left", "right"))
    with settlement.transaction("t") as tx:
        tx.call(one.tool("create_order"), **ORDER)
        tx.call(two.tool("create_order"), customer="bob", sku="tea")
    assert [row[0] for row in rows(settlement)] == ["left_create_order", "right_create_order"]


# ---- undoing


def test_an_abort_sends_the_declared_undo(settlement, api):
    create = shop(settlement, api).tool("create_order")
    with pytest.raises(RuntimeError), settlement.transaction("t") as tx:
        tx.call(create, **ORDER)
        raise RuntimeError
    assert (made(api), api.state()["orders"], settlement.residue()) == (["created", "deleted"], {}, [])
    assert rows(settlement) == [("create_order", "undone", "clean")]


def test_what_somebody_else_has_changed_since_is_left_and_named(settlement, api):
    create = shop(settlement, api).tool("create_order")
    with pytest.raises(RuntimeError), settlement.transaction("t") as tx:
        tx.call(create, **ORDER)
        theirs = {"order-1": {"id": "order-1", "customer": "ada", "sku": "tea", "count": 9}}
        api.tell("seed", orders=theirs)
        raise RuntimeError
    assert api.state()["orders"] == theirs
    (left,) = settlement.residue()
    assert left.tag is Tag.UNRESOLVED
    assert "412" in left.note


def test_an_undo_whose_answer_is_lost_is_sent_again_and_finds_nothing_left(settlement, api):
    create = shop(settlement, api).tool("create_order")
    api.fail("DELETE", "cut", acts=True)
    with pytest.raises(RuntimeError), settlement.transaction("t") as tx:
        tx.call(create, **ORDER)
        raise RuntimeError
    assert (made(api), settlement.residue()) == (["created", "deleted", "refused"], [])


def test_an_undo_of_an_answer_that_was_lost_asks_for_it(settlement, api):
    create = shop(settlement, api).tool("create_order")
    api.fail("POST /orders", "cut", acts=True)
    with pytest.raises(RuntimeError), settlement.transaction("t") as tx:
        assert tx.call(create, **ORDER)["id"] == "order-1"
        raise RuntimeError
    assert (made(api), api.state()["orders"], settlement.residue()) == (["created", "deleted"], {}, [])


def test_an_undo_that_was_told_no_result_asks_for_it(settlement, api):
    create = shop(settlement, api).tool("create_order")
    api.fail("POST /orders", "cut", acts=True)
    api.fail("GET /orders/by-key", "status", status=500, times=-1)
    with pytest.raises(InDoubt), settlement.transaction("t") as tx:
        api.fail("POST /orders", "status", status=500, times=-1)
        tx.call(create, **ORDER)
    (doubt,) = settlement.in_doubt()
    api.heal()
    settlement.resolve(doubt, "confirmed", by="ada")
    assert (made(api)[-1], api.state()["orders"], settlement.residue()) == ("deleted", {}, [])


# ---- unknown outcomes


def test_a_lost_answer_is_asked_for_by_its_key(settlement, api):
    create = shop(settlement, api).tool("create_order")
    api.fail("POST /orders", "cut", acts=True)
    with settlement.transaction("t") as tx:
        assert tx.call(create, **ORDER)["id"] == "order-1"
    assert api.events("request") == [("created", "POST /orders"), ("told", "GET /orders/by-key/t%231%2F0")]


def test_a_timeout_after_sending_is_unknown_and_asked_about(settlement, api):
    create = shop(settlement, api, timeout=0.2).tool("create_order")
    api.fail("POST /orders", "hang", acts=True)
    with settlement.transaction("t") as tx:
        assert tx.call(create, **ORDER)["id"] == "order-1"
    assert api.events() == ["created", "told"]


def test_what_surely_did_not_arrive_is_sent_again_under_its_key(settlement, api):
    create = shop(settlement, api).tool("create_order")
    api.fail("POST /orders", "cut")
    with settlement.transaction("t") as tx:
        assert tx.call(create, **ORDER)["id"] == "order-1"
    assert api.events("key") == [("nothing", "t#1/0"), ("refused", None), ("created", "t#1/0")]


def test_without_a_probe_it_is_sent_again_under_its_key_and_done_once(settlement, api):
    send = shop(settlement, api).tool("send_letter")
    api.fail("POST /letters", "cut", acts=True)
    with settlement.transaction("t") as tx:
        tx.call(send, to="ada", text="hello")
    assert api.events("key") == [("sent", "t#1/0"), ("replayed", "t#1/0")]
    assert (api.state()["letters"], settlement.in_doubt()) == ([{"to": "ada", "text": "hello"}], [])


def test_without_a_probe_and_a_key_a_person_is_asked_and_nothing_is_sent_again(settlement, api):
    send = shop(settlement, api, [Call("send_letter", "POST", "/letters", body={"to": str})]).tool("send_letter")
    api.fail("POST /letters", "cut", acts=True)
    with pytest.raises(InDoubt, match="do not repeat it"), settlement.transaction("t") as tx:
        tx.call(send, to="ada")
    assert (api.events(), rows(settlement)) == (["sent"], [("send_letter", "unknown", "unresolved")])


def test_a_page_that_stands_in_the_way_of_a_probe_proves_nothing(settlement, api):
    create = shop(settlement, api).tool("create_order")
    api.fail("POST /orders", "cut", acts=True)
    api.fail("GET /orders/by-key", "status", status=200, body="<html>log in", times=1)
    with settlement.transaction("t") as tx:
        assert tx.call(create, **ORDER)["id"] == "order-1"
    assert api.events()[-1] == "told"


def test_a_probe_may_find_it_in_a_list_or_find_the_list_empty(settlement, api):
    call = Call(
        "create_order",
        "POST",
        "/orders",
        kind="reversible",
        body={"customer": str, "note": "{key}"},
        undo=Request("DELETE", "/orders/{result.id}"),
        probe=Request("GET", "/orders", query={"note": "{key}"}, pick="data.0"),
    )
    create = shop(settlement, api, [call]).tool("create_order")
    api.fail("POST /orders", "cut")
    api.fail("POST /orders", "cut", acts=True)
    with settlement.transaction("t") as tx:
        assert tx.call(create, customer="ada")["id"] == "order-1"
    assert api.events() == ["nothing", "told", "created", "told"]


# ---- a process that dies


@pytest.mark.parametrize("ends", ["commit", "abort"])
def test_a_process_that_dies_behind_the_act_leaves_what_a_new_one_ends(open_here, api, clock, url, ends):
    def play(_tell):
        with Settlement(url, **clock.options()) as settlement, settlement.transaction("t") as tx:
            adapter = shop(settlement, api)
            if ends == "abort":
                tx.call(adapter.tool("create_order"), **ORDER)
                die()
            adapter._client._sleep = lambda _seconds: die()
            api.fail("POST /letters", "status", status=503, acts=True)
            tx.call(adapter.tool("send_letter"), to="ada", text="hello")

    assert in_child(play).killed
    settlement = open_here(url)
    shop(settlement, api)
    settlement.recover(keep_open=0)
    assert (settlement.residue(), settlement.in_doubt()) == ([], [])
    assert made(api) == {"abort": ["created", "deleted"], "commit": ["sent", "replayed"]}[ends]
    assert api.state()["orders"] == {}


def test_in_a_process_of_its_own_it_has_connections_of_its_own(api):
    create = shop(None, api).tool("create_order")
    create(**ORDER)
    ended = in_child(lambda tell: tell(create(**ORDER)["id"]))
    assert (ended.error, ended.told) == (None, ["order-2"])
    assert create(**ORDER)["id"] == "order-3"


def test_a_process_that_is_copied_while_a_thread_is_sending_does_not_wait_for_that_thread(api):
    adapter = shop(None, api)
    create = adapter.tool("create_order")
    create(**ORDER)
    pool = adapter._client._transport()._pool
    with pool._optional_thread_lock:  # as a thread has it that sends, and that is not there in the copy
        ended = in_child(lambda tell: tell(create(**ORDER)["id"]), timeout=20)
    assert (ended.late, ended.error, ended.told) == (False, None, ["order-2"])


# ---- staged, and read as it will be


def test_a_staged_call_leaves_at_commit_and_its_own_reads_see_it_before(settlement, api):
    api.tell("seed", notes={"a": {"text": "old", "by": "bob"}})
    adapter = shop(settlement, api)
    put, get = adapter.tool("put_note"), adapter.tool("get_note")
    with settlement.transaction("t") as tx:
        tx.call(put, name="a", text="new")
        tx.call(put, name="b", text="other")
        assert tx.call(get, name="a") == {"text": "new", "by": "bob"}
        assert tx.call(get, name="b") == {"text": "other"}
        assert api.state()["notes"] == {"a": {"text": "old", "by": "bob"}}
    assert api.state()["notes"] == {"a": {"text": "new"}, "b": {"text": "other"}}


def test_what_it_will_delete_its_own_reads_do_not_find(settlement, api):
    api.tell("seed", notes={"a": {"text": "old"}})
    delete = Call("delete_note", "DELETE", "/notes/{name}", kind="staged")
    adapter = shop(settlement, api, [*CALLS, delete])
    with settlement.transaction("t") as tx:
        tx.call(adapter.tool("delete_note"), name="a")
        with pytest.raises(HttpRefused, match="get_note: this very transaction deletes it") as refused:
            tx.call(adapter.tool("get_note"), name="a")
        assert (refused.value.status, len(api.state()["notes"])) == (404, 1)
    assert api.state()["notes"] == {}


def test_a_live_read_is_stale_when_the_resource_has_changed(settlement, api):
    api.tell("seed", orders={"o": {"count": 1}})
    adapter = shop(settlement, api)
    with pytest.raises(Stale, match="orders/o"), settlement.transaction("t") as tx:
        assert tx.call(adapter.tool("get_order"), order="o") == {"count": 1}
        tx.call(adapter.tool("send_letter"), to="ada", text="one left")
        api.tell("seed", orders={"o": {"count": 0}})
    assert api.state()["letters"] == []


def test_a_live_read_may_ask_another_way(settlement, api):
    api.tell("seed", notes={"n": {"text": "x"}}, orders={"o": {"count": 1}})
    call = Call("get_note", "GET", "/notes/{name}", live=Request("GET", "/orders/o"))
    get = shop(settlement, api, [call]).tool("get_note")
    with pytest.raises(Stale), settlement.transaction("t") as tx:
        tx.call(get, name="n")
        api.tell("seed", orders={"o": {"count": 2}})


def test_a_key_goes_as_printable_ascii(settlement, api):
    call = Call("send_letter", "POST", "/letters", body={"text": "hello"}, key_header=KEY)
    with settlement.transaction("täglich 1") as tx:
        tx.call(shop(settlement, api, [call]).tool("send_letter"))
    assert api.events("key") == [("sent", "t%C3%A4glich%201#1/0")]


def test_a_probe_that_finds_null_where_it_is_has_found_nothing(settlement):
    asked = []

    def answer(request):
        asked.append(request.method)
        if request.method == "GET":
            return httpx.Response(200, json={"payment": None})
        if asked.count("POST") == 1:
            raise httpx.ReadTimeout("late")
        return httpx.Response(201, json={"id": "p1"})

    pay = Call(
        "pay",
        "POST",
        "/payments",
        body={"to": str},
        key_header="Idempotency-Key",
        probe=Request("GET", "/by-key/{key}", pick="payment"),
    )
    api = Http("https://pay.example", settlement, calls=[pay], transport=httpx.MockTransport(answer))
    with settlement.transaction("t") as tx:
        queued = tx.call(api.tool("pay"), to="ada")
    assert (queued.result(), asked, settlement.residue()) == ({"id": "p1"}, ["POST", "GET", "POST"], [])


def test_a_probe_by_a_key_that_is_never_sent_is_refused():
    with pytest.raises(DeclarationError, match="asks by {key}, which the call never sends, so it would find nothing"):
        Call(
            "order",
            "POST",
            "/orders",
            kind="reversible",
            undo=Request("DELETE", "/orders/{result.id}"),
            probe=Request("GET", "/by-key/{key}"),
        )
