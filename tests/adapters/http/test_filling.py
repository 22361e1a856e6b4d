"""No argument leaves its place, no secret leaves its server, and what cannot be sent is refused before any effect."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.adapters.http.service import Api
from tests.adapters.http.subject import TOKEN, shop

from settlemark import PayloadError, ScopeError, Settlement
from settlemark_adapters.http import Call, Http, HttpRefused, HttpUnanswered
from settlemark_adapters.http._filling import fill, fill_path, header_value, sent_key

NOTE = Call("get_note", "GET", "/notes/{name}/lines/{line}", scope="note:/x", fields={"line": int})
TENANT = Call(
    "send_letter", "POST", "/letters", body={"to": str}, headers={"X-Tenant": "t-{tenant}"}, scope="letter:/x"
)

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)


# ---- paths


@given(st.one_of(texts, st.text("./\\%2eE5cFf", min_size=1, max_size=8)))
def test_a_value_stays_within_its_segment_or_is_refused(value):
    try:
        path = fill_path("/notes/{name}/lines/7", {"name": value})
    except ValueError:
        return
    before, notes, segment, lines, seven = path.split("/")
    assert (before, notes, unquote(segment), lines, seven) == ("", "notes", value, "lines", "7")
    assert not set(segment) & set("/\\?#;@: ")
    assert ".." not in unquote(segment).replace("\\", "/").split("/")


@pytest.mark.parametrize(
    "value",
    ["..", ".", "../admin", "a/../../admin", "..\\admin", "%2e%2e", "%2e%2e%2fadmin", "", "a\nb", "a%0d%0ab", "\x00"],
)
def test_a_value_that_would_leave_its_segment_is_refused_and_nothing_is_sent(settlement, api, value):
    get = shop(settlement, api, [NOTE]).tool("get_note")
    with pytest.raises(ValueError, match="would lead out of /notes|is empty|has control characters"):
        get(value, 7)
    with pytest.raises(ValueError, match="would|empty|control"), settlement.transaction("t") as tx:
        tx.call(get, name=value, line=7)
    assert (api.log(), settlement.transactions()) == ([], [])


def test_two_values_that_make_a_way_out_together_are_refused():
    with pytest.raises(ValueError, match=r"a='.' would lead out of /notes/\{a\}\{b\}"):
        fill_path("/notes/{a}{b}", {"a": ".", "b": "."})


@pytest.mark.parametrize("value", [None, ["a"], {"a": 1}, object()])
def test_a_value_that_is_no_text_stands_in_no_path(value):
    with pytest.raises(ValueError, match="which stands in no text: pass a text or number"):
        fill_path("/notes/{name}", {"name": value})


@pytest.mark.parametrize(("value", "path"), [(7, "/n/7"), (True, "/n/true"), (1.5, "/n/1.5"), ("ä b", "/n/%C3%A4%20b")])
def test_other_values_are_quoted(value, path):
    assert fill_path("/n/{name}", {"name": value}) == path


@given(st.dictionaries(st.from_regex(r"[a-z]{1,5}", fullmatch=True), texts, max_size=4), texts)
def test_what_is_filled_is_not_filled_again(values, template):
    literal = template.replace("{", "")
    marked = {name: f"{{{name}}}{value}" for name, value in values.items()}
    assert fill({name: f"{literal}{{{name}}}" for name in marked}, marked) == {
        n: literal + v for n, v in marked.items()
    }


def test_a_query_is_quoted(api):
    api.tell("seed", orders={"o": {"id": "o", "note": "a&b=c d"}})
    call = Call("find", "GET", "/orders", query={"note": str, "tags": list[str], "page": float})
    assert shop(None, api, [call]).tool("find")("a&b=c d", ["x", "y"], 1.0) == {
        "data": [{"id": "o", "note": "a&b=c d"}]
    }
    assert api.log()[0]["request"] == "GET /orders?note=a%26b%3Dc%20d&tags=x&tags=y&page=1.0"


def test_what_stands_in_no_query_is_refused(api):
    find = shop(None, api, [Call("find", "GET", "/orders", query={"note": str})]).tool("find")
    with pytest.raises(ValueError, match="note is a dict, which stands in no query"):
        find({"a": 1})
    assert api.log() == []


# ---- headers and keys


@pytest.mark.parametrize("tenant", ["a\r\nX-Admin: 1", "a\nb", "a\x00", "ä", "a ", "a\x7f"])
def test_a_value_that_is_no_headers_is_refused_and_nothing_is_sent(settlement, api, tenant):
    send = shop(settlement, api, [TENANT]).tool("send_letter")
    with pytest.raises(ValueError, match="the header X-Tenant takes printable ASCII on one line"):
        send(to="ada", tenant=tenant)
    with pytest.raises(ValueError, match="X-Tenant"), settlement.transaction("t") as tx:
        tx.call(send, to="ada", tenant=tenant)
    assert (api.log(), settlement.transactions()) == ([], [])


def test_a_secret_that_is_no_header_is_refused_without_being_repeated(api):
    with pytest.raises(ValueError, match="the header Authorization takes printable ASCII") as refused:
        shop(None, api, [NOTE], headers={"Authorization": f"Bearer {TOKEN}\n"})
    assert TOKEN not in str(refused.value)


@given(st.lists(st.one_of(texts, st.text("~%2F/ab", max_size=300)), min_size=2, max_size=2, unique=True))
def test_different_keys_are_sent_as_different_keys_and_all_can_be_sent(keys):
    one, other = (sent_key(f"{key}#1/0") for key in keys)
    assert one != other
    assert header_value("Key", one) == one
    assert len(one) <= 255


def test_a_long_name_makes_a_key_of_its_own(settlement, api):
    call = Call("send_letter", "POST", "/letters", body={"to": str}, key_header="Idempotency-Key")
    send = shop(settlement, api, [call]).tool("send_letter")
    for name in ("long" * 100, "long" * 100 + "er"):
        with settlement.transaction(name) as tx:
            tx.call(send, to="ada")
    first, second = [key for _, key in api.events("key")]
    assert (len(first), len(second), first == second) == (78, 78, False)


# ---- bodies


@pytest.mark.parametrize("to", [{1, 2}, object(), float("nan"), "\ud800", {1: 2}])
def test_what_cannot_be_json_is_refused_and_nothing_is_sent(settlement, api, to):
    send = shop(settlement, api, [TENANT]).tool("send_letter")
    with pytest.raises(PayloadError, match="pass|replace|strings"):
        send(to=to, tenant="t")
    with pytest.raises(PayloadError), settlement.transaction("t") as tx:
        tx.call(send, to=to, tenant="t")
    assert (api.log(), settlement.transactions()) == ([], [])


def test_an_argument_that_is_missing_or_unknown_is_refused(api):
    send = shop(None, api, [TENANT]).tool("send_letter")
    with pytest.raises(TypeError, match="missing a required argument: 'tenant'"):
        send(to="ada")
    with pytest.raises(TypeError, match="unexpected keyword argument 'bcc'"):
        send(to="ada", tenant="t", bcc="eve")
    assert api.log() == []


def test_an_empty_argument_names_no_scope(settlement, api):
    get = shop(settlement, api, [Call("get_note", "GET", "/notes/{name}")]).tool("get_note")
    with pytest.raises((ScopeError, ValueError), match="name"), settlement.transaction("t") as tx:
        tx.call(get, name="")
    assert api.log() == []


# ---- where it goes


@pytest.mark.parametrize(
    "address",
    ["", "shop.example", "ftp://shop.example", "http://", "http:///x", "http://[::1", "http://h:99999", "http://h:0",
     "http://ä\u0000", "https://h/x?y=1", "https://h/#x", "https://h/../x", "https://user:hunter2@h/"],
)  # fmt: skip # a table of values
def test_an_address_that_is_none_is_refused_without_being_repeated(address):
    with pytest.raises(ValueError, match="https://api.example/v1|pass headers= instead") as refused:
        Http(address, calls=[NOTE])
    assert "hunter2" not in str(refused.value)


def test_the_calls_are_below_the_addresss_path(api):
    adapter = Http(f"{api.url}/notes/", calls=[Call("put_note", "PUT", "/{name}", body={"text": str})])
    assert adapter.tool("put_note")(name="a", text="b") == {"name": "a", "text": "b"}


@pytest.fixture(scope="module")
def elsewhere():
    with Api() as other:
        yield other


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_read_is_not_led_to_another_server(api, elsewhere, status):
    api.fail("GET", "status", status=status, headers={"Location": f"{elsewhere.url}/notes/a"})
    with pytest.raises(HttpRefused, match=f"points to {elsewhere.host}, which is not followed: name that address"):
        shop(None, api, [NOTE]).tool("get_note")("a", 7)
    assert elsewhere.log() == []


@pytest.mark.parametrize("status", [307, 308])
def test_nor_is_an_effect_and_nothing_was_done(api, elsewhere, status):
    api.fail("POST", "status", status=status, headers={"Location": f"{elsewhere.url}/letters"})
    with pytest.raises(HttpRefused, match="nothing was done: it points to"):
        shop(None, api, [TENANT]).tool("send_letter")(to="ada", tenant="t")
    assert (elsewhere.log(), api.events()) == ([], ["nothing"])


@pytest.mark.parametrize("location", ["/notes/b", "notes/b", "{url}/notes/b"])
def test_a_read_follows_within_its_server(api, location):
    api.tell("seed", notes={"b": {"text": "here"}})
    api.fail("GET /moved", "status", status=302, headers={"Location": location.format(url=api.url)})
    assert shop(None, api, [Call("get", "GET", "/moved")]).tool("get")() == {"text": "here"}


def test_an_effect_follows_within_its_server_where_nothing_was_done(api):
    api.fail("POST /old", "status", status=308, headers={"Location": "/letters"})
    assert shop(None, api, [Call("send", "POST", "/old", body={"to": str})]).tool("send")("ada") == {"number": 1}
    assert api.state()["letters"] == [{"to": "ada"}]


def test_an_effect_that_may_have_been_done_is_not_led_on(api):
    api.fail("POST /letters", "status", status=303, headers={"Location": "/notes/a"}, acts=True)
    with pytest.raises(HttpUnanswered, match="it answered 303"):
        shop(None, api, [TENANT]).tool("send_letter")(to="ada", tenant="t")
    assert api.events() == ["sent"]


def test_it_is_not_led_round_in_circles(api):
    api.fail("GET /notes", "status", status=302, headers={"Location": "/notes/b/lines/8"}, times=-1)
    with pytest.raises(HttpRefused, match="302"):
        shop(None, api, [NOTE]).tool("get_note")("a", 7)
    assert len(api.log()) < 6


@pytest.mark.parametrize("headers", [{"Location": "/letters"}, {}], ids=["to where it was", "nowhere"])
def test_one_that_is_led_nowhere_else_is_not_sent_again(api, headers):
    api.fail("POST /letters", "status", status=307, headers=headers, times=-1)
    with pytest.raises(HttpRefused, match="307"):
        shop(None, api, [TENANT]).tool("send_letter")(to="ada", tenant="t")
    assert (len(api.log()), api.state()["letters"]) == (1, [])


def test_a_proxy_that_somebody_set_gets_no_secret(api, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "")
    api.tell("seed", notes={"a": {"text": "b"}})
    assert shop(None, api, [Call("get_note", "GET", "/notes/{name}")]).tool("get_note")("a") == {"text": "b"}


def test_a_server_that_has_gone_is_an_error_and_nothing_changed():
    with Api() as api, Settlement("memory:") as settlement:
        send = shop(settlement, api, [TENANT]).tool("send_letter")
        api.stop()
        with pytest.raises(Exception, match="so nothing was done: see that it is there"):
            with settlement.transaction("t") as tx:
                tx.call(send, to="ada", tenant="t")
        assert (settlement.in_doubt(), settlement.residue()) == ([], [])


def test_secrets_go_to_their_own_server_only(api):
    assert urlsplit(api.url).hostname == "127.0.0.1"
    shop(None, api, [Call("echo", "GET", "/headers")]).tool("echo")()
    assert api.log()[0]["headers"]["authorization"] == f"Bearer {TOKEN}"
