"""What redact= takes from a recovery is said when a tool is declared, and refused when it comes to it."""

from __future__ import annotations

import pytest
from tests.rooms.model import encode
from tests.rooms.payloads import Redaction

from settlemark import inverse
from settlemark.hosting import declare
from settlemark.ledger._payloads.recoverable import cannot_run, needed_by_handlers, objections

GONE = {"$redacted": None}


def pay(to, token, card=None): ...


def open_ended(to, **more): ...


def declared(kind="reversible", scope="shop:/{to}", function=pay, **handlers):
    return declare("pay", kind, scope=scope, function=function, **handlers)


@pytest.mark.parametrize(
    ("declaration", "needed"),
    [
        (declared(undo=lambda to, token: None), {"to", "token"}),
        (declared(undo=lambda result, key: None), set()),
        (declared(undo=inverse(lambda order: None, order="id")), set()),
        (declared(undo=lambda to: None, probe=lambda key, card=None: None), {"to", "card"}),
        (declared(undo=lambda **all_of_it: None), {"to", "token", "card"}),
        (declared("irreversible"), {"to", "token", "card"}),
        (declared("irreversible", release=lambda token: None), {"token"}),
        (declared("irreversible", function=None), {"*"}),
        (declared("irreversible", function=open_ended), {"to", "*"}),
        (declared(function=None, undo=lambda token, result: None), {"token"}),
        (declared(function=None, undo=lambda **all_of_it: None), {"*"}),
        (declared(function=open_ended, undo=lambda token, result: None), {"token"}),
        (declared(function=lambda to, result: None, undo=lambda result: None), {"result"}),
        (declared("read", scope=None), set()),
        (declared("opaque", scope=None), set()),
    ],
)
def test_handlers_need_the_arguments_they_ask_for(declaration, needed):
    assert needed_by_handlers(declaration) == needed


def lost(what, fields, them):
    return (
        f"{what} needs {fields}, which redact= removes: it could not run after a crash; let it look {them} up by a"
        f" field that is kept, or take {them} off redact= and use encrypt="
    )


IN_SCOPE = (
    "the scope of pay names `card.id`, which redact= removes from its arguments: scopes are recorded as they are; name"
    " another field in the scope, or a digest of this one"
)


@pytest.mark.parametrize(
    ("declaration", "rules", "told"),
    [
        (declared(undo=lambda to: None), ["token"], []),
        (declared(undo=lambda token: None), ["token"], [lost("undo of pay", "`token`", "it")]),
        (
            declared(undo=lambda card, token: None, probe=lambda to: None),
            ["card.number", "token"],
            [lost("undo of pay", "`card.number`, `token`", "them")],
        ),
        (
            declared(undo=lambda token: None, probe=lambda token: None),
            ["token"],
            [lost("undo of pay", "`token`", "it"), lost("probe of pay", "`token`", "it")],
        ),
        (declared("irreversible"), ["token"], [lost("pay itself, which is held,", "`token`", "it")]),
        (declared(function=None, undo=lambda **every: None), ["token"], [lost("undo of pay", "`token`", "it")]),
        (declared(undo=lambda result: None, scope="shop:/{card.id}/{to:path}"), ["card.id"], [IN_SCOPE]),
        (declared(undo=lambda result: None, scope="shop:/{card.id}"), ["*.id"], [IN_SCOPE]),
        (declared(undo=lambda result: None, scope="shop:/{card.id}"), ["card.number"], []),
        (declared(undo=lambda card: None), ["*.number"], []),
        (declared(undo=lambda card: None), lambda tool, path, value: None, []),
    ],
)
def test_what_redaction_takes_from_a_recovery_is_said_beforehand(declaration, rules, told):
    assert objections(declaration, [Redaction(rules)]) == told


@pytest.mark.parametrize(
    ("declaration", "arguments", "result", "lost"),
    [
        (declared(undo=lambda to: None), {"to": "Ada", "token": GONE}, None, None),
        (declared(undo=lambda token: None), {"to": "Ada", "token": "t"}, None, None),
        (declared(undo=lambda token: None), {"token": GONE}, None, "`token`"),
        (declared(undo=lambda card: None), {"card": {"number": GONE}}, None, "`card.number`"),
        (declared(undo=lambda **every: None, function=None), {"token": GONE}, None, "`token`"),
        (declared(undo=lambda result: None), {"token": GONE}, {"id": 7}, None),
        (declared(undo=lambda result: None), {}, {"id": 7, "token": GONE}, "`result.token`"),
        (declared(undo=lambda result: None), {}, GONE, "`result`"),
        (declared(undo=lambda to: None), {"to": "Ada"}, GONE, None),
    ],
)
def test_a_handler_is_never_given_a_marker_in_place_of_a_secret(declaration, arguments, result, lost):
    told = cannot_run("undo", declaration, encode(arguments), None if result is None else encode(result))
    if lost is None:
        assert told is None
    else:
        assert told is not None
        assert told.startswith(f"undo of pay needs {lost}, which redact= removes: it could not run after a crash")


def test_a_held_tool_without_a_release_needs_its_own_arguments():
    told = cannot_run("release", declared("irreversible"), encode({"token": GONE}), None)
    assert told is not None
    assert told.startswith("pay itself, which is held, needs `token`")
    assert cannot_run("undo", declared("irreversible"), encode({"token": GONE}), None) is None
