"""Hypothesis strategies for a tool's arguments, from its signature and examples: likely to succeed and to collide."""

from __future__ import annotations

import inspect
import types
import typing
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Union

from settlemark_adapters.testing._likeness import is_list, is_mapping
from settlemark_adapters.testing._subject import Example

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

_MOST = 3
_LETTERS = "ab/.: %é"


def _plainly(text: str) -> str:
    return text


# An address is most often blind to other spellings of one name.
_SPELLINGS: tuple[Callable[[str], str], ...] = (
    _plainly,
    lambda text: f"{text}b",
    str.upper,
    lambda text: f"./{text}",
    lambda text: f"a/../{text}",
    lambda text: f"{text}/",
    lambda text: f"{text}/b",
    lambda text: unicodedata.normalize("NFD", f"{text}é"),
)


class Pool:
    """The values in all examples: those of arguments with one name, and all texts."""

    def __init__(self, examples: Sequence[Example]) -> None:
        self._named: dict[str, list[Any]] = {}
        self.texts: list[str] = []
        for example in examples:
            for name, value in example.arguments.items():
                _add(self._named.setdefault(name, []), value)
                for text in _texts(value):
                    _add(self.texts, text)

    def of(self, name: str) -> list[Any]:
        """Return the examples' values for arguments of this name."""
        return self._named.get(name, [])

    def arguments(self, tool: Callable[..., Any], base: Example) -> SearchStrategy[dict[str, Any]]:
        """Return a strategy for the arguments of a tool, from one of its examples."""
        from hypothesis import strategies as st

        hints = typing.get_type_hints(tool)
        given: dict[str, SearchStrategy[Any]] = {}
        more: dict[str, SearchStrategy[Any]] = {}
        for name, parameter in inspect.signature(tool).parameters.items():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                continue
            hint = hints.get(name, Any)
            if name in base.arguments:
                value = base.arguments[name]
                given[name] = st.one_of(st.just(value), st.sampled_from([value, *self.of(name)]), self._like(value))
            elif parameter.default is parameter.empty:
                given[name] = self._of_type(hint)
            else:
                more[name] = st.one_of(st.just(parameter.default), self._of_type(hint))
        return st.fixed_dictionaries(given, optional=more)

    def _like(self, value: Any) -> SearchStrategy[Any]:
        """Return a strategy for values like one of an example."""
        from hypothesis import strategies as st

        if is_mapping(value):
            return st.fixed_dictionaries({name: self._like(item) for name, item in value.items()})
        if isinstance(value, str):
            return self._text(value)
        if is_list(value):
            likes = [self._like(item) for item in value]
            return st.lists(st.one_of(likes), max_size=_MOST) if likes else st.just([])
        numbers: dict[type, Callable[[Any], SearchStrategy[Any]]] = {
            bool: lambda _: st.booleans(),
            int: lambda number: st.integers(min(0, number - 1), number + 2),
            float: lambda number: st.floats(0, abs(number) * 2 + 1, allow_nan=False),
        }
        return next((make(value) for kind, make in numbers.items() if isinstance(value, kind)), st.just(value))

    def _text(self, value: str) -> SearchStrategy[str]:
        from hypothesis import strategies as st

        spelled = st.builds(_spelled, st.sampled_from(_SPELLINGS), st.sampled_from([value, *self.texts]))
        return st.one_of(spelled, st.text(_LETTERS, max_size=_MOST))

    def _of_type(self, hint: Any) -> SearchStrategy[Any]:
        """Return a strategy for a parameter without an example, from its annotation."""
        from hypothesis import strategies as st

        origin, parts = typing.get_origin(hint), typing.get_args(hint)
        if origin is typing.Annotated:
            return self._of_type(parts[0])
        if origin is Literal:
            return st.sampled_from(parts)
        if origin in (Union, types.UnionType):
            return st.one_of([self._of_type(part) for part in parts])
        if origin in (list, Sequence):
            return st.lists(self._of_type(parts[0] if parts else Any), max_size=_MOST)
        if origin in (dict, Mapping) or hint is dict:
            return st.dictionaries(st.text(_LETTERS, min_size=1, max_size=_MOST), self._text(""), max_size=_MOST)
        plain: dict[Any, Callable[[], SearchStrategy[Any]]] = {
            bool: st.booleans,
            int: lambda: st.integers(0, _MOST),
            float: lambda: st.floats(0, _MOST, allow_nan=False),
            type(None): st.none,
        }
        return plain.get(hint, lambda: self._text(""))()


def _spelled(spelling: Callable[[str], str], text: str) -> str:
    return spelling(text)


def _add(values: list[Any], value: Any) -> None:
    if value not in values:
        values.append(value)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif is_mapping(value):
        for item in value.values():
            yield from _texts(item)
    elif is_list(value):
        for item in value:
            yield from _texts(item)


def leaves(value: Any) -> Iterator[str]:
    """Yield every plain value in an argument, as text.

    >>> list(leaves({"to": "Ada", "n": [1, True]}))
    ['Ada', '1', 'True']
    """
    if is_mapping(value):
        for item in value.values():
            yield from leaves(item)
    elif is_list(value):
        for item in value:
            yield from leaves(item)
    else:
        yield str(value)


__all__ = ["Pool", "leaves"]
