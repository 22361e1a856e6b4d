"""Removes secrets from a payload before it is recorded: by field, or by a function."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, cast
from urllib.parse import quote, quote_plus

from settlemark._edges.text import prose
from settlemark._edges.user_code import through
from settlemark._edges.wording import kind_of
from settlemark._model import json_text
from settlemark._model.fields import field_path
from settlemark._observe.logs import about

Rule = Callable[[str, str, Any], Any]
Path = tuple[str, ...]

MARKER = "$redacted"
SCRUBBED = "[redacted]"
OF_BODIES = {"steering": ("text",), "pause": ("because", "executor", "environment")}
"""By the kind of an entry, what rules see of its body: words and what a program keeps. By the rest it is acted upon."""
SHORTEST_SECRET = 6  # shorter ones occur in too many texts by chance

_log = logging.getLogger("settlemark")


class Redacted(NamedTuple):
    """A payload's text without its secrets, and the secrets, for scrubbing texts about the same effect."""

    text: str
    secrets: frozenset[str]


class Redaction:
    """Removes fields from arguments and results; each leaves `{"$redacted": replacement}` in its place.

    Args:
        rules: fields as dotted paths from the arguments, or from the result: `"password"`, `"card.number"`,
            `"*.token"`, where `*` is any one level and a list's levels are its positions. A key with dots matches as
            one level and as several. Or a function of the tool's name, the field's path and its value, called from the
            outside in: it returns the value itself to keep it, anything else to replace it. A result itself comes
            first, under the path `""`. A function that fails keeps nothing.

    Law: a redacted secret of six characters or more is also removed from the effect's rationale, error and note;
    shorter ones are not, nor what a tool derived from one (a hash, for example).

    Raises:
        UsageError: a path is malformed.

    >>> Redaction(["card.number"]).payload('{"card":{"number":"4242 4242","year":30}}', tool="pay").text
    '{"card":{"number":{"$redacted":null},"year":30}}'
    """

    def __init__(self, rules: str | Sequence[str] | Rule) -> None:
        self._rule: Rule | None = rules if callable(rules) else None
        listed: Sequence[Any] = () if callable(rules) else [rules] if isinstance(rules, str) else rules
        self.given: tuple[Any, ...] = tuple(listed)
        self.paths: tuple[Path, ...] = tuple(field_path(path) for path in listed)

    def payload(self, text: str, *, tool: str, whole: bool = False, only: Sequence[str] | None = None) -> Redacted:
        """Return a JSON text without the fields the rules name.

        Args:
            text: the payload.
            tool: the tool's name, for a function.
            whole: lets a function replace all of it.
            only: the fields of it that rules see; None: all.
        """
        found: set[str] = set()

        def look_through() -> str:
            told = json_text.decode(text)
            value = told if only is None else {name: told[name] for name in only if name in told}
            if self._rule is not None:
                kept = self._asked(self._rule, tool, "", value, found, ask=whole)
            else:
                kept = _without(value, self.paths, found)
            return text if kept is value else json_text.encode_result(kept if only is None else {**told, **kept})

        try:
            return Redacted(json_text.with_room(look_through), frozenset(found))
        except RecursionError:
            # Too deep to examine: nothing of it is known to be harmless.
            return Redacted(json_text.encode({MARKER: None}), frozenset(found))

    def rules(self, path: Path = ()) -> list[str]:
        """Return the rules, as given, that remove this field, a part of it, or a field that contains it.

        >>> Redaction(["card.number", "pin"]).rules(("card",))
        ['card.number']
        """
        return [".".join(rule) for rule in self.paths if _meets(rule, path)]

    def _asked(self, rule: Rule, tool: str, path: str, value: Any, found: set[str], *, ask: bool = True) -> Any:
        if ask:
            replacement = _answer(rule, tool, path, value)
            if replacement is not value:
                found.update(_secrets(value))
                return {MARKER: replacement}
        prefix = f"{path}." if path else ""
        return _rebuilt(value, lambda key, item: self._asked(rule, tool, prefix + key, item, found))


def scrub(text: str, secrets: Iterable[str]) -> str:
    """Return a text in which each secret, also as written by `repr`, JSON or a URL, is `[redacted]`.

    >>> scrub("401 for https://api.example/?key=s3cret%2F1", ["s3cret/1"])
    '401 for https://api.example/?key=[redacted]'
    """
    # The longest first: one secret may be a part of another.
    for written in sorted({form for secret in secrets for form in _forms(secret)}, key=len, reverse=True):
        text = text.replace(written, SCRUBBED)
    return text


def withheld(text: str | None) -> set[str]:
    """Return the paths of the fields missing from a recorded payload; `""` is all of it.

    >>> sorted(withheld('{"card":{"number":{"$redacted":null}},"to":"Ada"}'))
    ['card.number']
    """
    return set() if text is None or f'"{MARKER}"' not in text else set(_marked(json_text.decode(text), ""))


def _marked(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict) and set(cast("dict[str, Any]", value)) == {MARKER}:
        yield path
        return
    for key, item in _items(value):
        yield from _marked(item, f"{path}.{key}" if path else key)


def _answer(rule: Rule, tool: str, path: str, value: Any) -> Any:
    try:
        replacement = through(rule, tool, path, value)
        if replacement is not value:
            json_text.check(replacement)
    except BaseException as error:
        # Without its message, which may quote the value.
        _log.warning(
            "redact= raised %s for %s of %s: nothing of it is kept",
            kind_of(error),
            path,
            tool,
            extra=about(tool=tool, field=path),
        )
        return None
    return replacement


def _items(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return list(cast("dict[str, Any]", value).items())
    if isinstance(value, list):
        return [(str(position), item) for position, item in enumerate(cast("Any", value))]
    return []


def _rebuilt(value: Any, change: Callable[[str, Any], Any]) -> Any:
    """Return a container with each item changed, or the same one if nothing changed."""
    changed = {key: new for key, item in _items(value) if (new := change(key, item)) is not item}
    if not changed:
        return value
    if isinstance(value, dict):
        return cast("dict[str, Any]", value) | changed
    return [changed.get(str(position), item) for position, item in enumerate(value)]


def _without(value: Any, paths: Iterable[Path], found: set[str]) -> Any:
    heads = {path[0] for path in paths}

    def change(key: str, item: Any) -> Any:
        if key not in heads and "*" not in heads and "." not in key:
            return item
        rest = _paths_below(paths, key)
        if () in rest:
            found.update(_secrets(item))
            return {MARKER: None}
        return _without(item, rest, found) if rest else item

    return _rebuilt(value, change)


def _paths_below(paths: Iterable[Path], key: str) -> set[Path]:
    steps = [(key,), tuple(key.split("."))] if "." in key else [(key,)]
    return {path[len(step) :] for path in paths for step in steps if _meets(path, step)}


def _meets(path: Path, other: Path) -> bool:
    return all(mine in ("*", theirs) for mine, theirs in zip(path, other, strict=False))


def _secrets(value: Any) -> Iterator[str]:
    if isinstance(value, str) or type(value) is int:
        secret = str(value)
        if len(secret) >= SHORTEST_SECRET:
            yield secret
    for _, item in _items(value):
        yield from _secrets(item)


def _forms(secret: str) -> set[str]:
    written = {json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    in_urls = {quoted(secret, safe=safe, errors="replace") for quoted in (quote, quote_plus) for safe in ("", "/")}
    return {secret, prose(secret), repr(secret)[1:-1], *in_urls, *written}


__all__ = ["MARKER", "SCRUBBED", "Path", "Redacted", "Redaction", "Rule", "scrub", "withheld"]
