"""The declaration of an API: its calls, their arguments, and the requests that undo or probe a call."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from inspect import Parameter
from typing import Any
from urllib.parse import unquote, urlsplit

from settlemark import DeclarationError
from settlemark.hosting import EffectName, escape
from settlemark_adapters._adapter import Parts
from settlemark_adapters.http._filling import authority, fields_of, parts_of

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
IDEMPOTENT = SAFE | {"PUT", "DELETE"}
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_RESERVED = frozenset({"key", "result", "self"})
_REQUIRED: Any = Parameter.empty


@dataclass(frozen=True)
class Field:
    """An argument of a call.

    Attributes:
        type: its type, as shown to a model.
        doc: its description, for a model.
        default: its value when left out; a `None` that is left out is not sent.
        name: its name at the server, if that differs.
    """

    type: Any = str
    doc: str = ""
    _: KW_ONLY
    default: Any = _REQUIRED
    name: str | None = None

    @property
    def hint(self) -> Any:
        """Its annotation."""
        return self.type | None if self.default is None else self.type


@dataclass(frozen=True)
class Request:
    """A request that undoes or probes a call; its parts are templates over the call's arguments.

    `{x}` is an argument, `{result.id}` a field of the call's result, `{key}` its idempotency key as sent.

    Attributes:
        method, path, query, body, headers: as in `Call`.
        absent: statuses that say there is no such thing: it did not happen, or nothing of it is left to undo.
        pick: of a probe: where in its answer the call's own result is, as in `"data.0"`; nothing there means absent.

    >>> Request("GET", "/orders/by-key/{key}").absent
    (404,)
    """

    method: str
    path: str
    _: KW_ONLY
    query: Mapping[str, Any] = field(default_factory=dict[str, Any])
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    absent: tuple[int, ...] = (404,)
    pick: str = ""

    def __post_init__(self) -> None:
        _check_request(f"{self.method} {self.path}", self.method, self.path, self.headers)

    def names(self) -> list[str]:
        """Return the names that its templates use, once each."""
        return list(dict.fromkeys(fields_of([self.path, self.query, self.body, self.headers])))


@dataclass(frozen=True)
class Call:
    """One operation of an API, and what it does to the world.

    Arguments come from their places: `{x}` in the path or a header, and in `query` and `body` every name that has a
    type or a `Field`. Other values there are sent unchanged, or filled as templates.

    Attributes:
        tool: its name, as a model sees it.
        method, path: as in `"POST", "/orders/{customer}"`.
        kind: its effect class; by default `read` for GET, else `irreversible`.
        doc: its description, for a model.
        scope: the resource it touches, a template over its arguments, or a function of them; by default the path.
        query, body: names and types (`{"sku": str, "count": Field(int, "how many", default=1)}`); the body may also be
            one template: `"{note}"`.
        headers: templates by name.
        fields: types of the arguments in the path, in headers and in templates; text by default.
        undo, probe: the request that takes it back, and the one that asks whether it happened.
        key_header: the server's header for an idempotency key.
        window: seconds for which the server remembers a key; for ever when left out.
        definite: statuses from 500 on by which the server says that nothing was done. Others leave it unknown: the call
            is sent again under its key, else probed.
        echoes: arguments that the answer repeats: one that differs is the answer to another request.
        keep: headers of the answer to put into the result, by their names there: `{"version": "ETag"}`.
        live: of a read: it is stale when the resource's ETag (or content) has changed; True repeats the same request.
        parts: more of what `settlemark.effect` takes, such as `{"keyed": True}` for a PUT that may be sent again when
            its outcome is unknown, and may overwrite another's change meanwhile.

    Raises:
        DeclarationError: it contradicts itself.

    >>> call = Call("order", "POST", "/orders/{customer}", body={"sku": str, "count": Field(int, default=1)})
    >>> call.signature()
    <Signature (customer: str, sku: str, count: int = 1) -> Any>
    >>> call.scope_at("https://api.example/v1")
    'http:/api.example/v1/orders/{customer}'
    """

    tool: str
    method: str
    path: str
    _: KW_ONLY
    kind: EffectName | None = None
    doc: str = ""
    scope: str | Callable[..., Any] | None = None
    query: Mapping[str, Any] = field(default_factory=dict[str, Any])
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])
    undo: Request | None = None
    probe: Request | None = None
    key_header: str | None = None
    window: float | None = None
    definite: tuple[int, ...] = ()
    echoes: tuple[str, ...] = ()
    keep: Mapping[str, str] = field(default_factory=dict[str, str])
    live: bool | Request = False
    parts: Parts = field(default_factory=Parts)

    def __post_init__(self) -> None:
        headers = {**self.headers, **({self.key_header: "{key}"} if self.key_header else {})}
        _check_request(self.tool, self.method, self.path, headers)
        for name in self.arguments:
            if not name.isidentifier() or name in _RESERVED:
                raise DeclarationError(
                    f"{self.tool} cannot take an argument {name!r}: give it another name, and the server's in"
                    f" Field(…, name={name!r})",
                    tool=self.tool,
                )
        unknown = [name for name in self.echoes if name not in self.arguments]
        if unknown:
            raise DeclarationError(
                f"echoes= of {self.tool} names {unknown[0]!r}, which it does not take", tool=self.tool
            )
        if self.probe is not None and "key" in self.probe.names() and not self.keyed:
            raise DeclarationError(
                f"the probe of {self.tool} asks by {{key}}, which the call never sends, so it would find nothing:"
                ' name its key_header=, as in key_header="Idempotency-Key", or put {key} into a header or the body',
                tool=self.tool,
            )
        if self.window is not None and not self.keyed:
            raise DeclarationError(
                f"{self.tool} sends no key that could be forgotten: name its key_header=, or drop window=",
                tool=self.tool,
            )
        if self.effect_class == "idempotent" and not self.repeatable:
            raise DeclarationError(
                f"{self.tool} is idempotent by no key and not by its method, {self.method}: name its key_header=,"
                " or declare it reversible or irreversible",
                tool=self.tool,
            )

    @property
    def effect_class(self) -> EffectName:
        """Its effect class."""
        return self.kind or ("read" if self.method in SAFE else "irreversible")

    @property
    def reads(self) -> bool:
        """Whether it changes nothing at the server."""
        return self.effect_class == "read"

    @cached_property
    def keyed(self) -> bool:
        """Whether its key is sent, so that the server recognises a repeat."""
        return self.key_header is not None or "key" in fields_of([self.path, self.query, self.body, self.headers])

    @property
    def repeatable(self) -> bool:
        """Whether sending it twice does it once."""
        return self.keyed or self.method in IDEMPOTENT

    @cached_property
    def request(self) -> Request:
        """The request, as a template."""
        headers = {**self.headers, **({self.key_header: "{key}"} if self.key_header else {})}
        body = self.body if self._body is None else _templates(self._body)
        return Request(self.method, self.path, query=_templates(self.query), body=body, headers=headers)

    @cached_property
    def arguments(self) -> dict[str, Field]:
        """Its arguments, in order."""
        used = [name for name in fields_of([self.path, self.headers]) if name != "key"]
        found = {name: self._named(name, "the path" if "{" + name in self.path else "a header") for name in used}
        body = {"": self.body} if self._body is None else self._body
        for place, group in (("query", self.query), ("body", body)):
            for name, part in group.items():
                if (own := as_field(part)) is not None:
                    found[name] = own
                else:
                    for inner in fields_of(part):
                        if inner != "key":
                            found.setdefault(inner, self._named(inner, f"the {place}"))
        return found

    def signature(self) -> inspect.Signature:
        """Return the signature of its tool."""
        parameters = [
            Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, annotation=known.hint, default=known.default)
            for name, known in self.arguments.items()
        ]
        parameters.sort(key=lambda parameter: parameter.default is not _REQUIRED)
        return inspect.Signature(parameters, return_annotation=Any)

    def docstring(self) -> str:
        """Return the description for a model."""
        told = self.doc or f"{self.tool.replace('_', ' ').capitalize()} ({self.method} {self.path})."
        lines = [f"    {name}: {known.doc or name.replace('_', ' ')}" for name, known in self.arguments.items()]
        return "\n".join([told, *(["", "Args:", *lines] if lines else [])])

    def scope_at(self, base_url: str) -> str | Callable[..., Any]:
        """Return its scope, at a server."""
        if self.scope is not None:
            return self.scope
        folders = unquote(urlsplit(base_url).path).split("/")
        prefix = [escape(segment) for segment in (authority(base_url), *folders) if segment]
        own = self.path.split("{key}", maxsplit=1)[0]  # the key is not known yet
        own = own if own == self.path else own.rpartition("/")[0]
        return f"http:/{'/'.join(prefix)}{own}"

    def left_out(self, arguments: Mapping[str, Any]) -> set[str]:
        """Return the server's names of optional arguments that were not given."""
        parts = [(name, as_field(part)) for group in (self.query, self._body or {}) for name, part in group.items()]
        return {
            part.name or name
            for name, part in parts
            if part is not None and part.default is None and arguments.get(name) is None
        }

    @property
    def _body(self) -> Mapping[str, Any] | None:
        """Its body's parts, if it is an object."""
        return parts_of(self.body)

    def _named(self, name: str, place: str) -> Field:
        return as_field(self.fields.get(name)) or Field(doc=f"{name.replace('_', ' ')}, in {place}")


def as_field(part: Any) -> Field | None:
    """Return the argument that a part declares: a `Field` or a type; None for any other value."""
    if isinstance(part, Field):
        return part
    is_type = isinstance(part, type | types.UnionType) or typing.get_origin(part) is not None or part is Any
    return Field(part) if is_type else None


def _templates(parts: Mapping[str, Any]) -> dict[str, Any]:
    def all_of() -> Iterator[tuple[str, Any]]:
        for name, part in parts.items():
            known = as_field(part)
            yield (name, part) if known is None else (known.name or name, "{" + name + "}")

    return dict(all_of())


def _check_request(what: str, method: str, path: str, headers: Mapping[str, str]) -> None:
    if not re.fullmatch(r"[A-Z]+", method):
        raise DeclarationError(f"{what}: {method!r} is no method: write it as in 'POST'", tool=what)
    plain = re.fullmatch(r"/[\x21\x24-\x3e\x40-\x7e]*", path)  # neither ? nor # nor blanks
    if plain is None or any(segment in (".", "..") for segment in path.split("/")):
        raise DeclarationError(
            f"{what}: {path!r} is no path: begin it with a slash, quote what is special, and put a query in query=",
            tool=what,
        )
    for name in headers:
        if not _TOKEN.fullmatch(name):
            raise DeclarationError(f"{what}: {name!r} is no header's name", tool=what)
