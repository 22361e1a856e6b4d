"""The adapter: turns each declared call of an API into a tool that can be undone, probed and read live."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, cast

from settlemark import UNKNOWN, DeclarationError, Settlement
from settlemark.hosting import EffectName
from settlemark_adapters._adapter import Adapter, Operation, Parts
from settlemark_adapters.http._answer import Answer
from settlemark_adapters.http._call import Call
from settlemark_adapters.http._client import MOST, Client
from settlemark_adapters.http._errors import HttpRefused, HttpUnanswered, HttpUnreadable
from settlemark_adapters.http._filling import fill, sent_key
from settlemark_adapters.http._overlay import Staged, overlaid, staged_for
from settlemark_adapters.http._patience import Patience
from settlemark_adapters.http._preparing import prepared

if TYPE_CHECKING:
    import httpx

_NOT_FOUND = 404
_GONE = 410


class Http(Adapter):
    """The tools of an API that speaks HTTP and JSON, one for each declared call.

    Args:
        base_url: the API's address; nothing is sent to any other server.
        settlement: as in every adapter, and so are `name` and `effects`.
        calls: the API's operations.
        headers: go with every request, and are secret: `{"Authorization": "Bearer …"}`.
        timeout: seconds to wait for an answer.
        patience: how often a busy server is asked again.
        most: bytes of an answer that are read.
        clock, sleep: the time, and the pause between the tries of a call.
        transport: makes the connections, as in `httpx.HTTPTransport(proxy="https://proxy.example")`; without it no
            proxy is used, whatever the environment says.

    Laws: a call whose answer is lost is unknown and never guessed; it is sent again under its own key only, and no
    longer than its `window`. An argument stays within the path segment, header or field that it was declared for.

    Raises:
        DeclarationError: two calls have one name, or one contradicts itself.
        ValueError: the address or a header is malformed.

    >>> import httpx
    >>> from settlemark_adapters.http import Call, Http, Request
    >>> server = httpx.MockTransport(lambda request: httpx.Response(201, json={"id": "o1"}))
    >>> order = Call(
    ...     "create_order", "POST", "/orders", kind="reversible", scope="order:/{customer}/{sku}",
    ...     body={"customer": str, "sku": str},
    ...     undo=Request("DELETE", "/orders/{result.id}"), key_header="Idempotency-Key", window=86_400)
    >>> settlement = Settlement("memory:")
    >>> shop = Http("https://shop.example", settlement, calls=[order], transport=server)
    >>> with settlement.transaction("monday") as tx:
    ...     tx.call(shop.tool("create_order"), customer="Ada", sku="tea")
    {'id': 'o1'}
    """

    def __init__(
        self,
        base_url: str,
        settlement: Settlement | None = None,
        *,
        calls: Sequence[Call],
        headers: Mapping[str, str] | None = None,
        timeout: float = 30.0,
        patience: Patience | None = None,
        most: int = MOST,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], object] = time.sleep,
        transport: httpx.BaseTransport | None = None,
        name: str = "",
        effects: Mapping[str, EffectName | Mapping[str, Any]] | None = None,
    ) -> None:
        self._client = Client(
            base_url,
            headers=headers or {},
            timeout=timeout,
            patience=patience,
            most=most,
            clock=clock,
            sleep=sleep,
            transport=transport,
        )
        self._calls: dict[str, Call] = {}
        for call in calls:
            if call.tool in self._calls:
                raise DeclarationError(f"two calls are named {call.tool!r}: rename one", tool=call.tool)
            self._calls[call.tool] = call
        self._operations = {tool: self._operation(call) for tool, call in self._calls.items()}
        super().__init__(settlement, name=name, effects=effects)

    def operations(self) -> dict[str, Operation[Any, Any]]:
        """Return its operations by their tools' names: its class's, and its calls."""
        return {**super().operations(), **self._operations}

    # ---- tools from calls

    def _operation(self, call: Call) -> Operation[Any, Any]:
        signature = call.signature()
        arguments = list(signature.parameters.values())

        def act(_: Http, *args: Any, **kwargs: Any) -> Any:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            return self._act(call, bound.arguments)

        made: Any = act
        made.__name__ = made.__qualname__ = call.tool
        made.__doc__ = call.docstring()
        made.__signature__ = signature.replace(parameters=[Parameter("self", Parameter.POSITIONAL_ONLY), *arguments])
        made.__annotations__ = {p.name: p.annotation for p in arguments} | {"return": Any}
        return Operation(call.tool, call.effect_class, self._parts(call, arguments), made)

    def _parts(self, call: Call, arguments: list[Parameter]) -> Parts:
        def check(given: dict[str, Any]) -> None:
            prepared(call.tool, call.request, {**given, "key": "0"}, left_out=call.left_out(given))

        parts: Parts = {
            "scope": call.scope_at(self._client.base_url),
            "keyed": call.keyed or call.effect_class == "idempotent",
        }
        parts["check"] = _handler(f"{call.tool}_check", arguments, check)
        asked = (*call.probe.names(), *call.echoes) if call.probe else ()
        if call.undo is not None:
            names = [*call.undo.names(), *asked, "result", "key"]
            parts["undo"] = _handler(f"{call.tool}_undo", _named(names, arguments), lambda g: self._undo(call, g))
        if call.probe is not None:
            parts["probe"] = _handler(f"{call.tool}_probe", _named(asked, arguments), lambda g: self._probe(call, g))
        if call.window is not None:
            parts["window"] = call.window - self._margin(call.window)
        if call.live:
            parts["live"] = _handler(f"{call.tool}_live", arguments, lambda given: self._version(call, given))
        parts.update(call.parts)
        return parts

    def _margin(self, window: float) -> float:
        """The end of a window in which no call begins: its own tries may still be sent when the key is forgotten."""
        return min(self._client.margin, window / 2)

    # ---- acting

    def _act(self, call: Call, arguments: dict[str, Any]) -> Any:
        sending = prepared(
            call.tool,
            call.request,
            {**arguments, "key": sent_key(self.key)},
            left_out=call.left_out(arguments),
            reads=call.reads,
            repeatable=call.repeatable,
            definite=frozenset(call.definite),
            within=None if call.window is None else self._margin(call.window),
        )
        if not call.reads:
            return self._result(call, self._client.send(sending), arguments)
        tool = self.tool(call.tool)
        staged = staged_for(tool, sending.path, arguments, {t.__name__: c for t, c in self._tools_and_calls()})
        return self._read(call, lambda: self._result(call, self._client.send(sending), arguments), staged)

    def _tools_and_calls(self) -> list[tuple[Callable[..., Any], Call]]:
        return [(self.tool(name), call) for name, call in self._calls.items()]

    def _read(self, call: Call, send: Callable[[], Any], staged: list[Staged]) -> Any:
        """Return the server's data, with this transaction's own staged requests applied."""
        try:
            found = send()
        except HttpRefused as error:
            if error.status != _NOT_FOUND or not staged:
                raise
            return overlaid(call.tool, None, staged)
        return overlaid(call.tool, found, staged) if staged else found

    def _result(self, call: Call, answer: Answer, arguments: Mapping[str, Any]) -> Any:
        """Return the result of a call.

        Raises:
            HttpUnanswered: it is the answer to another request, so this one's outcome is unknown.
            HttpUnreadable: a read's answer is too long.
        """
        about: dict[str, Any] = {"tool": call.tool, "request": f"{call.method} {call.path}", "status": answer.status}
        if call.reads and not answer.whole:
            raise HttpUnreadable(
                f"{call.tool}: its answer is longer than {len(answer.raw)} bytes: ask for less, or set most= higher",
                **about,
            )
        content = _with_kept(call, answer)
        wrong = _differing(call, content, arguments)
        if wrong is not None:
            raise HttpUnanswered(
                f"{call.tool}: it was answered as another request was, with {wrong} (was the key used twice?), and what"
                " became of this one is unknown",
                body=content,
                **about,
            )
        return content

    # ---- undo and probe

    def _undo(self, call: Call, given: dict[str, Any]) -> None:
        assert call.undo is not None
        if given["result"] is None and call.probe is not None:
            found = self._probe(call, given)
            if found is None:
                return
            given = {**given, "result": None if found is UNKNOWN else found}
        # An undo may be done twice: its process may have ended within it.
        sending = prepared(
            f"the undo of {call.tool}",
            call.undo,
            {**given, "key": sent_key(given["key"])},
            repeatable=True,
            expected=frozenset({*call.undo.absent, _GONE}),
        )
        self._client.send(sending)

    def _probe(self, call: Call, given: dict[str, Any]) -> Any:
        probe = call.probe
        assert probe is not None
        values = {**given, "key": sent_key(given.get("key", ""))}
        sending = prepared(f"the probe of {call.tool}", probe, values, reads=True, expected=frozenset(probe.absent))
        answer = self._client.send(sending)
        if not answer.ok:
            return None
        if not answer.is_json:
            return UNKNOWN  # an intercepting page, for example
        content = _with_kept(call, answer)
        if probe.pick:
            try:
                content = fill(f"{{answer.{probe.pick}}}", {"answer": content})
            except ValueError:
                return None
            if content is None:
                return None  # nothing is there
        if _differing(call, content, given) is not None:
            return UNKNOWN
        return True if content is None else content

    def _version(self, call: Call, given: dict[str, Any]) -> str:
        request = call.request if call.live is True else call.live
        assert request
        values = {**given, "key": "0"}
        sending = prepared(
            call.tool, request, values, left_out=call.left_out(given), reads=True, expected=frozenset({_NOT_FOUND})
        )
        answer = self._client.send(sending)
        return answer.digest if answer.ok else str(answer.status)


def _with_kept(call: Call, answer: Answer) -> Any:
    content = answer.content
    if not call.keep:
        return content
    kept = {name: answer.header(header) for name, header in call.keep.items()}
    return {**cast("dict[str, Any]", content), **kept} if isinstance(content, dict) else {"content": content, **kept}


def _differing(call: Call, content: Any, arguments: Mapping[str, Any]) -> str | None:
    """Return an argument that the answer repeats with another value, or None."""
    for name in call.echoes:
        known = call.arguments[name].name or name
        found = cast("dict[str, Any]", content).get(known) if isinstance(content, dict) else None
        if found != arguments[name]:
            return f"{known}={found!r} for {arguments[name]!r}"
    return None


def _named(names: Collection[str], arguments: list[Parameter]) -> list[Parameter]:
    chosen = [parameter for parameter in arguments if parameter.name in names]
    return [*chosen, *(Parameter(n, Parameter.KEYWORD_ONLY) for n in ("result", "key") if n in names)]


def _handler(name: str, parameters: list[Parameter], function: Callable[[dict[str, Any]], Any]) -> Callable[..., Any]:
    """Return a handler that asks for these arguments by name, and passes them to a function."""
    signature = Signature(parameters)

    def handler(**given: Any) -> Any:
        bound = signature.bind(**given)
        bound.apply_defaults()
        return function(bound.arguments)

    made: Any = handler
    made.__name__ = made.__qualname__ = name
    made.__signature__ = signature  # what inspect.signature looks for
    asks: Callable[..., Any] = made
    return asks
