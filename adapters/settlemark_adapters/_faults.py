"""The base of adapters' errors: they carry data. To a settlement they are a tool's own exceptions."""

from __future__ import annotations

from typing import Any


class Fault(Exception):
    """Base of the errors that adapters raise. Keyword arguments become attributes, and survive `pickle`.

    >>> Fault("no", path="data/Invoice/7.json").path
    'data/Invoice/7.json'
    """

    def __init__(self, message: str, **data: Any) -> None:
        super().__init__(message)
        self.data = data

    def __getattr__(self, name: str) -> Any:
        if name != "data" and name in self.data:
            return self.data[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (type(self), str(self), self.data)


def _rebuilt(kind: type[Fault], message: str, data: dict[str, Any]) -> Fault:
    return kind(message, **data)


__all__ = ["Fault"]
