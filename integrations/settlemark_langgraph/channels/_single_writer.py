"""A channel that one node may write in a step, and that outlives the refusal of two."""

# What nodes write comes through here: pyright can know no more of it than `Any`.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self, cast

from langgraph import types
from langgraph.channels import BaseChannel
from langgraph.errors import EmptyChannelError
from typing_extensions import TypedDict

from settlemark_langgraph.channels._conflicts import RESOLVED, WRITTEN, Conflict, conflicts, named, same, without

_OVERWRITE = "__overwrite__"
_Overwrite: Any = getattr(types, "Overwrite", ())  # LangGraph 1.0.0 has none


class Owned(TypedDict, total=False):
    """The state of a `SingleWriter` channel.

    Keys:
        value: what holds; absent when the last step that wrote it had two writers.
        by: the node that wrote it; None when the write is not signed.
        last: the last value that held, in place of `value`, when it is absent.
        conflicts: the refused steps, oldest first.
    """

    value: Any
    by: str | None
    last: Any
    conflicts: list[Conflict]


class SingleWriter(BaseChannel[Owned, Any, Any]):
    """A channel for the annotation of a key that one node writes in a step: `plan: Annotated[Owned, SingleWriter]`.

    Nodes write plain values and read `value_of(state["plan"])`, or `["value"]`.

    Channel contract: nothing lost, and nobody overwritten unawares. Two writes in one step, even equal ones, are
    both refused: `value` is absent from then on, `conflicts` names both nodes and holds both values, and
    `value_of` raises `WriteConflict` in the node that reads. The next undisputed write gives it a value again;
    `resolve` clears what was recorded. Neither write order nor completion order decides anything.

    Why it does not raise itself: what raises while a step's writes are applied, as LangGraph's own channel does,
    comes after the nodes have had their effects, comes again at every `get_state` and resume, and under
    `durability="exit"` leaves the step half applied.

    Not a write: None (an unset default), and the value that held when the step began. So a parallel subgraph
    that hands back a key it did not touch is no second writer (langgraph #6446).

    Names: LangGraph does not tell a channel who writes. `signed(builder)` has every node's writes carry its name,
    and asks nothing of the nodes; `sign(value)` does so for one write. Others count as writers without a name.
    An `Overwrite` holds whatever else is written, and clears the conflicts; two of them are two writers.

    Laws: commutative in the value (which of two nodes comes first shows only in the order of the names).
    """

    __slots__ = ("record",)

    def __init__(self, typ: Any, key: str = "") -> None:
        super().__init__(typ, key)
        self.record: Owned | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SingleWriter)

    def __hash__(self) -> int:
        return hash(SingleWriter)

    @property
    def ValueType(self) -> Any:  # noqa: N802  # LangGraph's name
        """What is read."""
        return self.typ

    @property
    def UpdateType(self) -> Any:  # noqa: N802  # LangGraph's name
        """What may be written."""
        return Any

    def copy(self) -> Self:
        """Return an equal channel that changes on its own."""
        made = type(self)(self.typ, self.key)
        made.record = self.record
        return made

    def from_checkpoint(self, checkpoint: Any) -> Self:
        """Return the channel as it was stored; a plain value of a thread from before the annotation is adopted."""
        made = type(self)(self.typ, self.key)
        if _is_record(checkpoint):
            made.record = checkpoint
        elif checkpoint is not made.checkpoint():  # LangGraph's private mark of an empty channel
            made.record = {"value": checkpoint, "by": None, "conflicts": []}
        return made

    def get(self) -> Owned:
        """Return what holds.

        Raises:
            EmptyChannelError: nothing was written yet.
        """
        if self.record is None:
            raise EmptyChannelError
        return self.record

    def is_available(self) -> bool:
        """Return whether anything was written yet."""
        return self.record is not None

    def update(self, values: Sequence[Any]) -> bool:
        """Apply the writes of one step; return whether anything changed."""
        before = self.record
        replacing = [given for found, given in map(overwritten, values) if found]
        if before is None and len(values) == 1 and _is_record(values[0]):
            self.record = values[0]  # a subgraph is handed what its parent knows
        elif len(replacing) == 1:
            self.record = {"value": replacing[0], "by": None, "conflicts": []}
        else:
            self.record = self._after([_read(value) for value in values if value is not None])
        return self.record is not before

    def _after(self, writes: Sequence[_Write]) -> Owned | None:
        held = dict(self.record or {"last": None, "by": None, "conflicts": []})
        recorded: list[Conflict] = conflicts(held)
        writers = [
            write for write in writes if write.written and not ("value" in held and same(write.value, held["value"]))
        ]
        standing = [*recorded, *without([conflict for write in writes for conflict in write.brought], recorded)]
        if len(writers) > 1:
            return self._refused(held, standing, writers)
        for write in writes:
            standing = without(standing, write.resolved)
        if writers:
            return {"value": writers[0].value, "by": writers[0].by, "conflicts": standing}
        if all(write.resolved == () and not write.brought for write in writes):
            return self.record
        return cast("Owned", {**held, "conflicts": standing})

    def _refused(self, held: dict[str, Any], standing: list[Conflict], writers: Sequence[_Write]) -> Owned:
        by = [write.by for write in writers]
        key = f"{self.key}: " if self.key else ""
        hint = "" if None not in by else "; signed(builder) names every writer"
        conflict: Conflict = {
            "message": f"{key}{named(by)} wrote in the same step: nothing was applied;"
            f" let one node write, or resolve() it with the value that shall hold{hint}",
            "by": by,
            "values": [write.value for write in writers],
        }
        last = held["value"] if "value" in held else held.get("last")
        return {"last": last, "by": held.get("by"), "conflicts": [*standing, conflict]}


class _Write(NamedTuple):
    written: bool
    value: Any
    by: str | None
    brought: Sequence[Conflict]
    resolved: Any


def _read(update: Any) -> _Write:
    """What a node wrote: a plain value, a signed one, a resolution, or a subgraph's whole record."""
    found, given = overwritten(update)
    if found:
        update = given
    if not isinstance(update, dict):
        return _Write(written=True, value=update, by=None, brought=(), resolved=())
    fields = cast("dict[str, Any]", update)
    if WRITTEN in fields and _is_record(fields[WRITTEN]):
        inner = _read(fields[WRITTEN])
        return inner._replace(by=inner.by or fields.get("by"))
    if WRITTEN in fields or RESOLVED in fields:
        given = fields.get(WRITTEN)
        return _Write(given is not None, given, fields.get("by"), (), fields.get(RESOLVED, ()))
    if _is_record(fields):
        return _Write("value" in fields, fields.get("value"), fields.get("by"), conflicts(fields), ())
    return _Write(written=True, value=fields, by=None, brought=(), resolved=())


def _is_record(value: Any) -> bool:
    if not isinstance(value, Mapping) or not isinstance(value.get("conflicts"), list):
        return False
    return "by" in value and ("value" in value or "last" in value)


def overwritten(value: Any) -> tuple[bool, Any]:
    """Whether a write is LangGraph's `Overwrite`, in any form it is given or stored in, and of what."""
    if isinstance(value, _Overwrite):
        return True, value.value
    if isinstance(value, dict) and value.keys() == {_OVERWRITE}:
        return True, value[_OVERWRITE]
    if isinstance(value, dict) and value.get("type") == _OVERWRITE and "value" in value:
        return True, value["value"]
    return False, None
