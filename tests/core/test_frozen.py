"""What was approved and recorded is what leaves: whatever type an argument has, and wherever it is handed on."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, OrderedDict, UserDict, UserList, defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pydantic
import pytest

from settlemark import PayloadError, Retries, Vetoed, current_call, effect
from settlemark.hosting import host_of, json_text


class Point(NamedTuple):
    items: list
    at: int


class Text(str):
    __slots__ = ("more",)


class Number(int):
    pass


class Fraction(float):
    pass


class Names(list):
    pass


class Order(dict):
    pass


class Stubborn(dict):
    """It cannot be copied."""

    def __deepcopy__(self, memo):
        raise TypeError("no")


class Shared(list):
    """It says that it was copied."""

    def __deepcopy__(self, memo):
        return self


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Plain(Enum):
    ONE = 1


@dataclass
class Data:
    items: list


class Model(pydantic.BaseModel):
    items: list


class Jsonable:
    def __init__(self):
        self.items = [1]

    def __json__(self):
        return self.items


def filled(mapping):
    mapping["items"] = [1]
    return mapping


class Told:
    """Counts what it says of itself: each time another."""

    said = 0

    def next(self):
        type(self).said += 1
        return [type(self).said]


class ItemsChange(Told, dict):
    def items(self):
        return [("items", self.next())]


class KeysChange(Told, dict):
    def keys(self):
        return [f"items {self.next()}"]

    def __getitem__(self, key):
        return self.next()

    def __iter__(self):
        return iter(self.keys())


class LookedUp(Told, dict):
    def __missing__(self, key):
        return self.next()

    def get(self, key, default=None):
        return self.next()


class ListChanges(Told, list):
    def __iter__(self):
        return iter([self.next()])


class TupleChanges(Told, tuple):
    __slots__ = ()

    def __iter__(self):
        return iter([self.next()])


class TextChanges(str):
    __slots__ = ()
    said = 0

    def __str__(self):
        type(self).said += 1
        return f"to {type(self).said}"


class NumberChanges(int):
    def __str__(self):
        return "another"


class Mapped(Told, Mapping):
    """No dict, and no copy of it reads as it did."""

    def __getitem__(self, key):
        return self.next()

    def __iter__(self):
        return iter(["items"])

    def __len__(self):
        return 1


CHANGING = {
    "a dict whose items change": lambda: ItemsChange(items=[1]),
    "a dict whose keys change": lambda: KeysChange(items=[1]),
    "a dict that answers for what it has not": lambda: LookedUp(items=[1]),
    "a list whose items change": lambda: ListChanges([1]),
    "a tuple whose items change": lambda: TupleChanges([1]),
    "a text that says something else": lambda: TextChanges("one"),
    "a number that says something else": lambda: NumberChanges(1),
    "a mapping": Mapped,
}
WITHIN = {
    "itself": lambda value: value,
    "in a dict": lambda value: {"at": value},
    "in a list": lambda value: [value],
    "in a tuple": lambda value: (value,),
    "in an OrderedDict": lambda value: OrderedDict(at=value),
    "in a defaultdict": lambda value: defaultdict(list, at=value),
    "in a namedtuple": lambda value: Point([value], 1),
    "in a class of dict": lambda value: Order(at=[value]),
    "in a UserDict": lambda value: UserDict(at=value),
    "in a mapping": lambda value: MappingProxyType({"at": value}),
}


def read(value):
    """Return what a reader finds, who looks up, goes through, counts, writes out and takes apart."""
    if isinstance(value, dict | UserDict):
        looked = [(key, read(value[key]), read(value.get("none"))) for key in value]
        return looked, [(key, read(item)) for key, item in value.items()], len(value), list(value.keys())
    if isinstance(value, list | tuple):
        return [read(item) for item in value], [read(value[n]) for n in range(len(value))]
    return f"{value}", str(value)


FROZEN = {
    "dict": lambda: {"items": [1]},
    "a list in a tuple": lambda: ([1], "x"),
    "list": lambda: [[1]],
    "OrderedDict": lambda: OrderedDict(items=[1]),
    "defaultdict": lambda: filled(defaultdict(list)),
    "Counter": lambda: Counter("aab"),
    "a class of dict": lambda: Order(items=[1]),
    "a class of list": lambda: Names([[1]]),
    "a namedtuple": lambda: Point([1], 2),
    "UserDict": lambda: filled(UserDict()),
    "a proxy of a dict": lambda: MappingProxyType({"items": [1]}),
    "a class that cannot be copied": lambda: Stubborn(items=[1]),
    "a class that is never copied": lambda: Shared([[1]]),
    "a class of str": lambda: Text("one"),
    "a class of int": lambda: Number(7),
    "a class of float": lambda: Fraction(0.5),
    "a StrEnum": lambda: Colour.RED,
    "an IntEnum": lambda: Level.HIGH,
    "bool": lambda: True,
    "None": lambda: None,
}
REFUSED = {
    "an Enum": lambda: Plain.ONE,
    "a dataclass": lambda: Data([1]),
    "a model": lambda: Model(items=[1]),
    "an object with __json__": Jsonable,
    "datetime": lambda: datetime(2026, 11, 22, tzinfo=UTC),
    "Decimal": lambda: Decimal("1.50"),
    "bytes": lambda: b"x",
    "bytearray": lambda: bytearray(b"x"),
    "set": lambda: {1},
    "frozenset": lambda: frozenset({1}),
    "Path": lambda: Path("/tmp"),
    "UserList": lambda: UserList([1]),
    "a generator": lambda: iter([1]),
}


def spoil(value):
    """Change what can be changed of a value, at whatever depth."""
    if isinstance(value, dict | UserDict):
        for item in value.values():
            spoil(item)
        value["spoilt"] = 1
    elif isinstance(value, list):
        for item in value:
            spoil(item)
        value.append("spoilt")
    elif isinstance(value, tuple | MappingProxyType):
        for item in value.values() if isinstance(value, MappingProxyType) else value:
            spoil(item)
    elif isinstance(value, Text):
        value.more = ["spoilt"]


def plain(value):
    return json.loads(json_text.encode(value))


@pytest.mark.parametrize("make", FROZEN.values(), ids=FROZEN)
@pytest.mark.parametrize("kind", ["idempotent", "reversible", "staged", "irreversible", "opaque"])
def test_whatever_is_done_to_an_argument_each_try_and_each_handler_gets_what_was_recorded(open_settlement, make, kind):
    """Places: the check, the scope, the approver, the tool at each try, the hook, the undo at each try."""
    seen = []

    def saw(where, value):
        seen.append((where, plain(value)))
        spoil(value)

    def scope(value):
        saw("scope", value)
        return "thing:/a"

    def undo(value):
        saw("undo", value)
        raise OSError

    parts = {"undo": undo} if kind == "reversible" else {}

    @effect(
        kind,
        scope=scope,
        name="act",
        check=lambda value: saw("check", value),
        keyed=True,
        probe=lambda value: saw("probe", value),
        approve=kind != "staged",
        **parts,
    )
    def act(value):
        saw("tool", value)
        if [where for where, _ in seen].count("tool") == 1:
            raise TimeoutError

    def approver(gate):
        saw("gate shown", gate.shown()["arguments"]["value"])
        saw("gate", gate.arguments["value"])
        return True

    def hook(footprint):
        for one in footprint.effects:
            saw("hook", one["arguments"]["value"])
        return kind != "reversible"  # else its undo is never seen

    settlement = open_settlement(approver=approver, retries=Retries(first=0, most=0))
    value = make()
    kept = plain(make())
    try:
        with settlement.transaction("job", before_commit=hook) as tx:
            tx.call(act, value=value)
            spoil(value)
    except Exception:
        pass
    assert [found for found in seen if found[1] != kept] == []
    places = {"scope", "check", "tool", "hook"} | ({"undo"} if kind == "reversible" else set())
    places |= {"gate", "gate shown"} if kind != "staged" else set()
    assert {where for where, _ in seen} >= places
    (row,) = (found.row for one in settlement.transactions() for found in one.effects)
    assert json.loads(row.arguments) == {"value": kept}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("around", WITHIN.values(), ids=WITHIN)
@pytest.mark.parametrize("make", CHANGING.values(), ids=CHANGING)
@pytest.mark.parametrize("door", ["call", "positional", "plan", "edit", "answer"])
def test_what_a_class_says_of_itself_is_asked_once_and_everybody_finds_that(open_settlement, door, make, around):
    """Doors: a call by name, by position and as one of a turn, what an approver gives, what answers a parked one.

    Places: the scope, the check, the approver, the tool at each try, the hook, what is staged, the undo, the record.
    """
    seen = []

    def saw(where, value):
        seen.append((where, read(value), plain(value)))

    def scope(value):
        saw("scope", value)
        return "thing:/a"

    def undo(value):
        saw("undo", value)
        raise OSError

    kind = "irreversible" if door in ("edit", "answer") else "reversible"
    parts = {"undo": undo} if kind == "reversible" else {}

    @effect(
        kind,
        scope=scope,
        name="act",
        check=lambda value: saw("check", value),
        keyed=True,
        probe=lambda: None,
        approve=door in ("edit", "call"),
        **parts,
    )
    def act(value):
        saw("tool", value)
        if [where for where, *_ in seen].count("tool") == 1:
            raise TimeoutError

    value = around(make())

    def approver(gate):
        if door == "edit":
            seen.clear()
            return {"decision": "edit", "arguments": {"value": value}}
        saw("gate", gate.arguments["value"])
        saw("gate shown", gate.shown()["arguments"]["value"])
        return True

    def hook(footprint):
        for one in footprint.effects:
            saw("hook", one["arguments"]["value"])
        return kind != "reversible"  # else its undo is never seen

    settlement = open_settlement(approver=approver, retries=Retries(first=0, most=0))
    with suppress(Vetoed), settlement.transaction("job", before_commit=() if door == "answer" else hook) as tx:
        if door == "call":
            tx.call(act, value=value)
        elif door == "positional":
            tx.call(act, value)
        elif door == "plan":
            with tx.turn() as turn:
                turn.plan(act, value=value).run()
        else:
            tx.call(act, value="another")
            if door == "answer":
                tx.park()
    if door == "answer":
        seen.clear()
        settlement.answer("job", approve=True, arguments={"value": value})
    found = [(read, as_json) for _, read, as_json in seen]
    assert {where for where, *_ in seen} >= {"scope", "tool"}
    assert [each for each in found if each != found[0]] == []
    kept = [json.loads(e.row.arguments)["value"] for one in settlement.transactions() for e in one.effects]
    assert kept[-1] == found[0][1]


@pytest.mark.parametrize("make", FROZEN.values(), ids=FROZEN)
def test_a_tool_gets_a_value_that_is_equal_and_nobody_elses(quick, make):
    value, got = make(), []

    @effect("idempotent", scope="thing:/a")
    def act(value):
        got.append(value)

    quick.run("job", lambda tx: tx.call(act, value=value))
    assert got[0] == value
    if not isinstance(value, str | int | float | Enum | None):
        assert got[0] is not value


def stubborn(base):
    """Return a class that cannot be copied, and has words of its own for what it is."""

    def refuse(self, memo):
        raise TypeError("no")

    return type(f"Stubborn{base.__name__}", (base,), {"__deepcopy__": refuse, "__str__": lambda self: "not that"})


@pytest.mark.parametrize("plain", ["one", 7, 0.5, [[1]], ([1], 2), {"items": [1]}], ids=repr)
def test_what_cannot_be_copied_reaches_a_tool_as_it_is_on_record_and_is_nobody_elses(quick, plain):
    value, got = stubborn(type(plain))(plain), []

    @effect("idempotent", scope="thing:/a")
    def act(value):
        got.append(value)
        spoil(value)

    quick.run("job", lambda tx: tx.call(act, value=value))
    assert type(got[0]) is type(plain)
    assert value == plain
    (row,) = (found.row for one in quick.transactions() for found in one.effects)
    assert json.loads(row.arguments) == {"value": json.loads(json.dumps(plain))}


def test_a_result_that_cannot_be_copied_is_handed_on_as_it_is(quick):
    seen, order = [], stubborn(Data)([1])

    @effect("idempotent", scope="thing:/a")
    def act():
        return order

    with quick.transaction("job", before_commit=lambda footprint: seen.append(footprint.effects[0]["result"])) as tx:
        assert tx.call(act) is order
    assert seen == [order]


@pytest.mark.parametrize("make", REFUSED.values(), ids=REFUSED)
def test_what_no_record_can_hold_is_refused_and_nothing_changed(settlement, make):
    acted = []
    for kind in ("idempotent", "reversible", "staged", "irreversible", "opaque"):

        @effect(kind, scope="thing:/a", name=kind, **({"undo": lambda: None} if kind == "reversible" else {}))
        def act(value):
            acted.append(value)

        with pytest.raises(PayloadError, match=r"\$.value.at is a"), settlement.transaction("job") as tx:
            tx.call(act, value={"at": make()})
    assert (acted, settlement.transactions(), host_of(settlement).protocol.live) == ([], [], {})


def test_what_contains_itself_is_refused_and_nothing_changed(quick):
    value = []
    value.append(value)

    @effect("idempotent", scope="thing:/a")
    def act(value): ...

    with pytest.raises(PayloadError, match="nested too deeply, or contains itself"):
        quick.run("job", lambda tx: tx.call(act, value=value))
    assert quick.transactions() == []


def test_a_read_gets_what_it_was_given(quick):
    session, got = object(), []

    @effect("read", scope="thing:/a")
    def look(session):
        got.append(session)

    quick.run("job", lambda tx: tx.call(look, session=session))
    assert got[0] is session


@pytest.mark.every_store
def test_a_retry_under_its_key_sends_what_the_first_try_got(settlement):
    sent = []

    @effect("idempotent", scope="thing:/a")
    def act(items, *more, **named):
        sent.append((current_call().key, list(items), [list(m) for m in more], json.loads(json.dumps(named))))
        items.pop()
        more[0].clear()
        named["x"]["y"].append(2)
        if len(sent) < 3:
            raise TimeoutError

    settlement.run("job", lambda tx: tx.call(act, [1, 2], [3], x={"y": [1]}))
    assert len({str(found) for found in sent}) == 1
    assert sent[0][1:] == ([1, 2], [[3]], {"x": {"y": [1]}})


@pytest.mark.every_store
def test_an_async_tool_gets_a_copy_of_its_own_too(settlement):
    sent = []

    @effect("irreversible", scope="thing:/a", keyed=True)
    async def act(items):
        sent.append(list(items))
        items.clear()
        if len(sent) == 1:
            raise TimeoutError

    async def job():
        items = [1]
        async with settlement.transaction("job") as tx:
            await tx.call(act, items=items)
            items.append(2)

    asyncio.run(job())
    assert sent == [[1], [1]]


@dataclass
class Booking:
    rooms: list


RESULTS = {
    "dict": lambda: {"rooms": ["a"]},
    "list": lambda: [["a"]],
    "a class of dict": lambda: Order(rooms=["a"]),
    "a dataclass": lambda: Booking(["a"]),
    "a model": lambda: Model(items=["a"]),
    "set": lambda: {"a"},
}


@pytest.mark.parametrize("make", RESULTS.values(), ids=RESULTS)
@pytest.mark.parametrize("handler", ["undo", "hook"])
def test_what_a_caller_does_to_a_result_no_handler_sees(quick, make, handler):
    """Places: what the call returned, what an undo that failed was given, what a hook was shown."""
    seen, results = [], []

    def spoilt(result):
        seen.append(repr(result))
        for part in ("rooms", "items"):
            if hasattr(result, part) and not callable(getattr(result, part)):
                getattr(result, part).append("spoilt")
        if hasattr(result, "clear"):
            result.clear()

    def undo(result):
        spoilt(result)
        raise OSError

    @effect("reversible", scope="room:/a", undo=undo)
    def book():
        results.append(make())
        return results[0]

    def hook(footprint):
        if handler == "hook":
            spoilt(footprint.effects[0]["result"])
        return False

    with pytest.raises(Exception, match="said no"), quick.transaction("job", before_commit=hook) as tx:
        found = tx.call(book)
        assert found is results[0]
        if handler == "undo":
            spoilt(found)
            seen.clear()
    assert set(seen) == {repr(make())}
    assert len(seen) >= 3


def test_what_is_staged_is_shown_as_it_will_be_applied(quick):
    applied = []

    @effect("staged", scope="page:/home")
    def put(lines):
        applied.append(list(lines))

    @effect("read", scope="page:/home")
    def look():
        for request in current_call().staged("page:/home"):
            request["lines"].append("spoilt")

    with quick.transaction("job") as tx:
        tx.call(put, lines=["a"])
        tx.call(look)
    assert applied == [["a"]]


@pytest.mark.every_store
def test_arguments_that_a_person_gave_leave_as_they_were_given(url, open_settlement):
    sent, given = [], {"lines": ["b"]}

    def approver(gate):
        return {"decision": "edit", "arguments": given}

    @effect("irreversible", scope="page:/home", approve=True, keyed=True)
    def put(lines):
        sent.append(list(lines))
        lines.append("spoilt")
        if len(sent) == 1:
            raise TimeoutError

    settlement = open_settlement(url, approver=approver)
    with settlement.transaction("job") as tx:
        tx.call(put, lines=["a"])
        given["lines"].append("spoilt")
    assert sent == [["b"], ["b"]]
