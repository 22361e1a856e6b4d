"""A tool's JSON schema as a Python signature: frameworks show it to a model, and calls are checked against it."""

from __future__ import annotations

import importlib
import inspect
import keyword
import re
from collections.abc import Mapping
from typing import Any, Literal, Optional, Union, cast

_TYPES: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "null": type(None),
    "object": dict[str, Any],
}
_DEEPEST = 8  # a schema may be recursive
_MEMBER = (str, int, bool, type(None))
_NOT_WORD = re.compile(r"\W", re.ASCII)

Schema = Mapping[str, Any]


class Arguments:
    """The arguments in an object's JSON schema, with valid Python names.

    >>> text = {"type": "string", "description": "Whose it is."}
    >>> arguments = Arguments({"properties": {"from": text, "n": {"type": "integer"}}, "required": ["from"]})
    >>> str(arguments.signature(str))
    '(from_: str, n: Optional[int] = None) -> str'
    >>> arguments.given({"from_": "Ada", "n": None})
    {'from': 'Ada'}
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._properties = {name: _mapping(each) for name, each in _mapping(schema.get("properties")).items()}
        self._required: set[str] = {each for each in _list(schema.get("required")) if isinstance(each, str)}
        self._required &= self._properties.keys()
        self.names: dict[str, str] = {}
        for name in sorted(self._properties, key=lambda each: each not in self._required):
            self.names[_free(name, self.names)] = name

    def signature(self, returned: Any) -> inspect.Signature:
        """Return the signature: required arguments first."""
        parameters: list[inspect.Parameter] = []
        for name, original in self.names.items():
            schema = self._properties[original]
            hint, default = annotation(schema, self._schema), schema.get("default")
            if original in self._required:
                default = inspect.Parameter.empty
            elif default is None:
                hint = Optional[hint]  # noqa: UP045 - built at run time, and not every hint has an `|`
            parameters.append(
                inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=hint, default=default)
            )
        return inspect.Signature(parameters, return_annotation=returned)

    def given(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments under their own names, without those left out."""
        named = {self.names[name]: value for name, value in arguments.items() if name in self.names}
        return {name: value for name, value in named.items() if value is not None or name in self._required}

    def documented(self, first: str) -> str:
        """Return a docstring: this text, and each argument's description."""
        told = {name: self._properties[original].get("description") for name, original in self.names.items()}
        lines = [f"    {name}: {' '.join(str(said).split())}" for name, said in told.items() if said]
        return "\n".join([first.strip(), "", "Args:", *lines] if lines else [first.strip()])

    def wrong(self, given: Mapping[str, Any]) -> str | None:
        """Return what is wrong with arguments, or None."""
        # By name: they have no types that strict checkers accept.
        validators: Any = importlib.import_module("jsonschema.validators")
        referencing: Any = importlib.import_module("referencing")
        kind: Any = validators.validator_for(self._schema, default=validators.Draft202012Validator)
        try:
            kind.check_schema(self._schema)
            # An empty registry: references of a foreign schema are not fetched.
            checked = kind(self._schema, registry=referencing.Registry())
            errors = sorted(checked.iter_errors(dict(given)), key=lambda error: str(error.json_path))
        except Exception:
            return None  # an unusable schema: its server will report errors
        return "; ".join(f"{error.json_path.removeprefix('$.')}: {error.message}" for error in errors) or None


def annotation(schema: Schema, root: Schema, depth: int = 0) -> Any:
    """Return the type hint of a schema; `Any` where it is unclear.

    >>> annotation({"type": "array", "items": {"enum": ["a", "b"]}}, {})
    list[typing.Literal['a', 'b']]
    """
    if depth > _DEEPEST:
        return Any
    if isinstance(schema.get("$ref"), str):
        return annotation(_referred(schema["$ref"], root), root, depth + 1)
    if "const" in schema or "enum" in schema:
        members = [schema["const"]] if "const" in schema else _list(schema["enum"])
        fit = bool(members) and all(type(member) in _MEMBER for member in members)
        return Literal[tuple(members)] if fit else Any
    kinds: Any = schema.get("anyOf") or schema.get("oneOf") or schema.get("type")
    if isinstance(kinds, list):
        each = ({**schema, "type": kind} if isinstance(kind, str) else _mapping(kind) for kind in _list(kinds))
        hints = [annotation(kind, root, depth + 1) for kind in each]
        return Any if Any in hints or not hints else Union[tuple(hints)]  # noqa: UP007 - it is made here
    if kinds == "array":
        return list[annotation(_mapping(schema.get("items")), root, depth + 1)]  # type: ignore[misc]  # it is made here
    return _TYPES.get(kinds, Any) if isinstance(kinds, str) else Any


def _referred(reference: str, root: Schema) -> Schema:
    found: Any = root if reference.startswith("#") else {}
    for step in reference.removeprefix("#").strip("/").split("/"):
        found = _mapping(found).get(step.replace("~1", "/").replace("~0", "~"), {}) if step else found
    return _mapping(found)


def _mapping(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else []  # pyright: ignore[reportUnknownArgumentType]  # it is JSON


def _free(name: str, taken: Mapping[str, str]) -> str:
    """Return a valid Python name that is not taken."""
    made = _NOT_WORD.sub("_", name).lstrip("_") or "argument"
    made = f"argument_{made}" if made[0].isdigit() else made
    while made in taken or made == "self" or keyword.iskeyword(made):
        made += "_"
    return made


__all__ = ["Arguments", "Schema", "annotation"]
