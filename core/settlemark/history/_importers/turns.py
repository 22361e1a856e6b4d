"""Agents that call tools, as operations: what an agent reads until it writes, and what it then writes.

A model issues a turn of calls; they begin and end in any order. A read's answer may influence only the agent's *next*
calls. Each write commits when it ends, based on what the agent had read before the turn. The turn's writes in order of
issue, and in the order in which they ended, are its `io` and `co`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from settlemark.history._importers.messages import ToolCall
from settlemark.history._recording.cells import Cells, Pair, Seen
from settlemark.history._recording.recorder import Recorder
from settlemark.history._recording.touches import Tools, Touch


@dataclass(eq=False)
class _Call:
    id: Hashable
    touch: Touch
    turn: _Turn
    number: int
    at: float | None = None

    @property
    def pair(self) -> Pair:
        return self.touch.cell, self.touch.value


@dataclass(eq=False)
class _Turn:
    key: Hashable
    agent: str
    name: str | None
    seen: dict[str, Seen]
    issued: int = 0
    open: dict[int, _Call] = field(default_factory=dict[int, "_Call"])
    written: list[_Call] = field(default_factory=list["_Call"])
    told: bool = False

    def orders(self) -> tuple[list[Pair], list[Pair]] | None:
        """Return its writes in order of issue and of end; None if the latter is unknown."""
        writes = sorted(self.written, key=lambda call: call.number)
        times = [call.at for call in writes if call.at is not None]
        if len(set(times)) < len(writes):
            return None
        return [call.pair for call in writes], [call.pair for call in sorted(writes, key=lambda call: call.at or 0.0)]


class Turns:
    """Records the tool calls of agents as they come. Safe for threads.

    >>> recorder = Recorder()
    >>> turns = Turns(recorder, Tools())
    >>> turns.issued("ada", [ToolCall("1", "send_mail", {"to": "a"}), ToolCall("2", "send_mail", {"to": "b"})])
    >>> for call in ("2", "1"):
    ...     _ = turns.ended(call, "sent", at=turns.now())
    >>> recorder.records[-1].io, recorder.records[-1].co
    ([('mail:/a', 'send_mail'), ('mail:/b', 'send_mail')], [('mail:/b', 'send_mail'), ('mail:/a', 'send_mail')])
    """

    def __init__(self, recorder: Recorder, tools: Tools) -> None:
        self.tools = tools
        self.cells = recorder.shared(Cells)
        self._lock = self.cells.lock
        self._open: dict[Hashable, deque[_Call]] = {}
        self._turns: dict[Hashable, _Turn] = {}
        self._seen: dict[str, dict[str, Seen]] = {}
        self._numbers = count(1)
        self.unordered = 0
        self.unanswered = 0
        self.idle = 0

    @property
    def moment(self) -> int:
        """The current moment: a call that begins now sees everything up to it."""
        return self.cells.recorder.clock

    def now(self) -> int:
        """Return a time later than all before, for `ended` where there is no other clock."""
        return next(self._numbers)

    def knows(self, call: Hashable) -> bool:
        """Whether a call of this id was issued and has not ended."""
        return bool(self._open.get(call))

    def issued(self, agent: str, calls: Sequence[ToolCall], *, turn: Hashable = None, name: str | None = None) -> None:
        """Record that an agent's model issued calls, in order; with the same `turn` again, further ones of it."""
        with self._lock:
            if not calls:
                return
            key: Hashable = object() if turn is None else turn
            found = self._turns.get(key)
            if found is None:
                found = self._turns[key] = _Turn(key, agent, name, self._seen.pop(agent, {}))
            for each in calls:
                call = _Call(each.id, self.tools.of(each.tool, each.arguments), found, found.issued)
                found.open[call.number] = call
                found.issued += 1
                self._open.setdefault(each.id, deque()).append(call)

    def ended(
        self, call: Hashable, result: Any, *, failed: bool = False, since: int = 0, at: float | None = None
    ) -> bool:
        """Record that a call has ended; return whether there is such a call.

        Args:
            call: its id.
            result: the tool's answer.
            failed: it raised or was refused: it counts for nothing.
            since: the `moment` it began.
            at: when it ended, on any clock; None if unknown.
        """
        with self._lock:
            waiting = self._open.get(call)
            if not waiting:
                return False
            found = waiting.popleft()
            if not waiting:
                del self._open[call]
            turn, found.at = found.turn, at
            del turn.open[found.number]
            if failed:
                pass
            elif found.touch.does == "read":
                for cell in found.touch.cells:
                    self.read(turn.agent, cell, result, since=since)
            else:
                turn.written.append(found)
                self._write(turn, found)
            if not turn.open:
                self._finish(turn)
            return True

    def read(self, agent: str, cell: str, value: Any, *, since: int = 0) -> None:
        """Record what an agent has read, by any means."""
        with self._lock:
            self._seen.setdefault(agent, {})[cell] = self.cells.read(cell, value, since)

    def wrote(self, agent: str, cell: str, value: Any, *, name: str | None = None) -> None:
        """Record what an agent has written, by any means, based on all that it has read."""
        with self._lock:
            self.cells.commit(agent, self._seen.pop(agent, {}), {cell: value}, name=name)

    def answered(self, agent: str, *, name: str | None = None) -> None:
        """Record that an agent has answered without calls, based on what it has read."""
        with self._lock:
            seen = self._seen.pop(agent, {})
            if seen:
                self.cells.commit(agent, seen, {}, name=name)

    def over(self, turn: Hashable) -> None:
        """Record that no more calls of a turn will end."""
        with self._lock:
            found = self._turns.get(turn)
            if found is not None:
                self._finish(found)

    def close(self) -> None:
        """Record that nothing more will happen."""
        with self._lock:
            for turn in [*self._turns.values()]:
                self._finish(turn)
            self.idle += sum(map(bool, self._seen.values()))
            self._seen.clear()

    def _write(self, turn: _Turn, call: _Call) -> None:
        orders = None if turn.open else turn.orders()
        turn.told = orders is not None
        io, co = orders or (None, None)
        writes = dict.fromkeys(call.touch.cells, call.touch.value)
        turn.seen = self.cells.commit(turn.agent, turn.seen, writes, io=io, co=co, name=turn.name)

    def _finish(self, turn: _Turn) -> None:
        del self._turns[turn.key]
        self.unanswered += len(turn.open)
        for call in turn.open.values():
            waiting = self._open[call.id]
            waiting.remove(call)
            if not waiting:
                del self._open[call.id]
        turn.open.clear()
        if not turn.written:  # the turn has acted on nothing yet
            self._seen[turn.agent] = {**turn.seen, **self._seen.get(turn.agent, {})}
        elif len(turn.written) > 1 and not turn.told:
            orders = turn.orders()
            if orders is None:
                self.unordered += 1
            else:
                self.cells.commit(turn.agent, {}, {}, io=orders[0], co=orders[1], name=turn.name)


__all__ = ["ToolCall", "Turns"]
