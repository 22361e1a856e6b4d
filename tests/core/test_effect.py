"""What a declaration may say: each contradiction has a sentence that names the mend."""

from __future__ import annotations

import functools
import inspect
from functools import partial

import pytest

from settlemark import DeclarationError, EffectClass, ScopeError, effect, inverse
from settlemark.hosting import Handler, declaration_of, declare


def nothing():
    return None


async def later(hotel):
    return hotel


def by_hotel(hotel, *, result=None, key=None):
    return hotel, result, key


def book(hotel, date="today"):
    return {"confirmation": "R7"}


# ---- bad declarations


@pytest.mark.parametrize(
    ("kind", "parts", "told"),
    [
        ("final", {}, "book is declared 'final': choose one of read, idempotent, reversible, staged,"),
        ("irreversible", {}, 'names no scope: say which resource it acts on, as in scope="mail:/{to}"'),
        ("staged", {}, "book is staged but names no scope"),
        ("idempotent", {}, "book is idempotent but names no scope"),
        ("reversible", {"undo": nothing}, "book is reversible but names no scope"),
        ("staged", {"scope": lambda key: key}, "scope= of book runs before the call, and cannot ask for 'key'"),
        ("staged", {"scope": later}, "scope= of book is async, but runs where nothing can be awaited:"),
        ("staged", {"scope": "room:/x", "check": lambda result: 1}, "before the call, and cannot ask for 'result'"),
        ("staged", {"scope": "room:/x", "check": 7}, "check= of book is 7: pass a function"),
        ("reversible", {"scope": "room:/{hotel}"}, "has no undo: give undo=, or declare it irreversible"),
        ("irreversible", {"scope": "room:/{hotel}", "undo": nothing}, "book is irreversible, which is never undone:"),
        ("staged", {"scope": "room:/{hotel}", "undo": nothing}, "book is staged, which is never undone"),
        ("read", {"scope": "room:/{hotel}", "undo": nothing}, "book is read, which is never undone"),
        ("opaque", {"undo": nothing}, "book is opaque, which is never undone"),
        ("read", {"release": nothing}, "book is read, which is never held: drop release="),
        ("reversible", {"scope": "a-b:/x", "undo": nothing, "release": nothing}, "which is never held: drop release="),
        ("opaque", {"cost": "a fee"}, "book is opaque: cost= says what undoing a reversible effect leaves"),
        ("idempotent", {"scope": "room:/x", "cost": "a fee"}, "book is idempotent: cost= says what undoing"),
        ("opaque", {"scope": "room:/{to}"}, "uses 'to', which it does not take: its arguments are date, hotel"),
        ("opaque", {"may_touch": "room:/{to}"}, "the scope of book uses 'to', which it does not take"),
        ("reversible", {"scope": "room:/x", "undo": "cancel"}, "undo= of book is 'cancel': pass a function"),
        ("staged", {"scope": "room:/x", "release": 7}, "release= of book is 7: pass a function"),
        ("opaque", {"unknown": "Lost"}, "unknown= of book is 'Lost', and not all of it are types of exceptions: name"),
        ("opaque", {"unknown": (OSError, 7)}, "and not all of it are types of exceptions: name them, as in unknown=("),
        ("opaque", {"unknown": 7}, "unknown= of book is 7, and not all of it are types of exceptions"),
        ("opaque", {"refine": 7}, "refine= of book is 7: pass a function of the result"),
        ("opaque", {"refine": later}, "refine= of book is async, but runs where nothing can be awaited: pass a"),
        ("opaque", {"keyed": "yes"}, "keyed= of book is 'yes': say True or False"),
        ("opaque", {"probe": lambda to: None}, "name one of its arguments, `result` or `key`"),
        ("opaque", {"probe": lambda hotel, /: None}, "takes 'hotel' by position only: handlers are called by name"),
    ],
)
def test_a_bad_declaration_is_refused_with_its_mend(kind, parts, told):
    with pytest.raises(DeclarationError) as refused:
        declare("book", kind, function=book, **parts)
    assert told in str(refused.value)
    assert refused.value.tool == "book"


@pytest.mark.parametrize("undo", [[].remove, {}.pop])
def test_a_handler_that_cannot_be_called_by_name_is_refused(undo):
    with pytest.raises(DeclarationError, match=r"undo=.* of book .*: wrap it in a function"):
        declare("book", "reversible", scope="room:/x", undo=undo, function=book)


def test_a_malformed_scope_is_refused():
    with pytest.raises(ScopeError):
        effect("irreversible", scope="no scope")(book)
    assert declaration_of(book) is None


def test_a_refused_decoration_leaves_the_function_undeclared():
    def plain(hotel):
        return hotel

    with pytest.raises(DeclarationError):
        effect("reversible", scope="room:/{hotel}")(plain)
    assert declaration_of(plain) is None


# ---- good ones


@pytest.mark.parametrize(
    ("kind", "parts", "held", "undoable", "keyed"),
    [
        ("read", {}, False, False, False),
        ("opaque", {}, False, False, False),
        ("idempotent", {"scope": "room:/{hotel}"}, False, False, True),
        ("idempotent", {"scope": "room:/{hotel}", "keyed": False}, False, False, False),
        ("reversible", {"scope": "room:/{hotel}", "undo": by_hotel}, False, True, False),
        ("reversible", {"scope": "room:/{hotel}", "undo": by_hotel, "cost": "a fee"}, False, False, False),
        ("staged", {"scope": "room:/{hotel}"}, True, False, False),
        ("irreversible", {"may_touch": ("room:/{hotel}",)}, True, False, False),
    ],
)
def test_a_class_says_when_its_effect_runs_and_what_an_abort_can_do(kind, parts, held, undoable, keyed):
    declared = declare("book", kind, function=book, **parts)
    assert (declared.kind, declared.held, declared.undoable, declared.keyed) == (
        EffectClass(kind),
        held,
        undoable,
        keyed,
    )


def test_the_decorated_tool_is_unchanged_but_declared():
    def tool(hotel):
        """Book it."""
        return hotel

    decorated = effect("opaque", name="hotels.book", version="7")(tool)
    declared = declaration_of(decorated)
    assert decorated is tool
    assert (decorated("Ada"), inspect.getdoc(decorated)) == ("Ada", "Book it.")
    assert (declared.tool, declared.version) == ("hotels.book", "7")


def test_a_method_is_declared_through_its_class():
    class Desk:
        @effect("opaque")
        def book(self, hotel):
            return hotel

    assert declaration_of(Desk().book).tool == "book"


@pytest.mark.parametrize(
    ("args", "kwargs", "named"),
    [
        (("Ada",), {}, {"hotel": "Ada", "date": "today"}),
        ((), {"hotel": "Ada", "date": "1st"}, {"hotel": "Ada", "date": "1st"}),
        (("Ada", "1st"), {}, {"hotel": "Ada", "date": "1st"}),
    ],
)
def test_a_calls_arguments_are_named_defaults_included(args, kwargs, named):
    assert declare("book", "opaque", function=book).arguments(args, kwargs) == named


def test_further_keywords_are_arguments_too():
    def log(*lines, **more):
        return None

    declared = declare("log", "opaque", function=log)
    assert declared.arguments((), {"a": 1}) == {"a": 1}
    assert declared.arguments(("x", "y"), {"a": 1}) == {"lines": ("x", "y"), "a": 1}


@pytest.mark.parametrize(("args", "kwargs"), [((), {}), (("a", "b", "c"), {}), (("a",), {"to": 1})])
def test_a_call_the_tool_would_refuse_is_refused_as_the_tool_would(args, kwargs):
    with pytest.raises(TypeError):
        declare("book", "opaque", function=book).arguments(args, kwargs)


# ---- handlers


@pytest.mark.parametrize(
    ("function", "bound"),
    [
        (lambda hotel: None, {"hotel": "Ada"}),
        (lambda result, key: None, {"result": {"id": 7}, "key": "k1"}),
        (lambda: None, {}),
        (lambda *, hotel, missing=3: None, {"hotel": "Ada"}),
        (lambda **rest: None, {"hotel": "Ada", "date": "1st"}),
        (lambda key, **rest: None, {"hotel": "Ada", "date": "1st", "key": "k1"}),
    ],
)
def test_a_handler_is_called_with_what_it_asks_for_by_name(function, bound):
    arguments = {"hotel": "Ada", "date": "1st"}
    assert Handler(function, "handler").bind(arguments, result={"id": 7}, key="k1") == bound


def test_an_argument_of_the_tool_named_key_or_result_stays_the_tools_own():
    handler = Handler(lambda key, result: None, "handler")
    assert handler.bind({"key": "cell-7"}, result=1, key="trip#1/0") == {"key": "cell-7", "result": 1}
    everything = Handler(lambda **rest: None, "handler")
    assert everything.bind({"key": "cell-7"}, result=1, key="trip#1/0") == {"key": "cell-7"}


def test_inverse_maps_fields_of_the_result_onto_arguments():
    def cancel(number, why="no reason"):
        return f"{number}: {why}"

    handler = inverse(cancel, number="confirmation")
    declared = declare("book", "reversible", scope="room:/{hotel}", undo=handler, function=book)
    bound = declared.undo.bind({"hotel": "Ada"}, result={"confirmation": "R7"}, key="k")
    assert handler(**bound) == "R7: no reason"
    assert declared.undo.name.endswith(".cancel")


async def test_inverse_of_an_async_function_is_async():
    async def cancel(number):
        return number

    handler = inverse(cancel, number="confirmation")
    assert inspect.iscoroutinefunction(handler)
    assert await handler(result={"confirmation": "R7"}) == "R7"


def test_inverse_of_a_partial_is_accepted():
    handler = inverse(functools.partial(by_hotel, result="r"), hotel="id")
    assert handler(result={"id": "Ada"}) == ("Ada", "r", None)


def test_a_callable_without_a_name_is_called_as_it_looks_however_long_that_is(quick):
    long = partial(lambda what, hint: what, hint="x" * 5_000)
    assert quick.run("trip", lambda tx: tx.call(long, what=7)) == 7
    (recorded,) = quick.transactions()
    assert recorded.effects[0].row.tool.startswith("functools.partial(<function")
    assert len(recorded.effects[0].row.tool) <= 255
