"""Which declaration speaks for a recorded effect: found by its tool's name, or a former one, and its version."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from settlemark._effect import Declaration


class Registry:
    """What was declared, by name and version; of two that say the same of themselves the last one counts.

    Laws: a name goes before an alias. With a version given, nothing is found that does not speak for that
    version: an effect is never undone, asked about or released by the handlers of another one.

    >>> from settlemark._effect import declare
    >>> registry = Registry()
    >>> registry.add(declare("wire", "opaque", version="2", versions="1", aliases="send_wire"))
    >>> [registry.find(tool, version) is not None for tool, version in (("send_wire", "1"), ("wire", "3"))]
    [True, False]
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Declaration] = {}

    def add(self, declaration: Declaration) -> None:
        """Take a declaration in."""
        about = (declaration.tool, declaration.version)
        self._known.pop(about, None)  # so that the last one declared stands last
        self._known[about] = declaration

    def find(self, tool: str, version: str | None = None) -> Declaration | None:
        """Return what was declared last of a tool, or of one that was called so, for this version; or None."""
        if version is not None and (exact := self._known.get((tool, version))) is not None:
            return exact
        renamed = None
        for declaration in reversed(self._known.values()):
            if version is not None and not declaration.speaks_for(version):
                continue
            if declaration.tool == tool:
                return declaration
            if renamed is None and tool in declaration.aliases:
                renamed = declaration
        return renamed


__all__ = ["Registry"]
