"""Commands of one turn for the parent graph, made one: LangGraph obeys one of a superstep, and the others are lost."""

# Whatever a tool returns comes through here: pyright can know no more of it than `Any`.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.types import Command, Send


def goes_to_parent(answer: Any) -> bool:
    """Whether an answer is a command for the parent graph.

    >>> goes_to_parent(Command(graph=Command.PARENT, goto="clerk")), goes_to_parent(Command(goto="clerk"))
    (True, False)
    """
    return isinstance(answer, Command) and answer.graph == Command.PARENT


def flat(answers: Iterable[Any]) -> list[Any]:
    """Return answers one by one: a tool may give several."""
    return [one for answer in answers for one in (answer if isinstance(answer, list) else [answer])]


def for_all(answers: Sequence[Any]) -> Command[Any]:
    """Return one command for the parent graph that does what all of these do, in their order.

    It goes where each goes, and updates what each updates. Lists are joined, each message once; of names, as that of
    the agent that is active, the last holds. A plain answer goes along where the messages with its call do: a history
    in which a call has no answer is refused by models.

    >>> to_ada = Command(graph=Command.PARENT, goto="ada", update={"notes": ["a"], "active": "ada"})
    >>> to_bee = Command(graph=Command.PARENT, goto="bee", update={"notes": ["b"], "active": "bee"})
    >>> whole = for_all([to_ada, to_bee])
    >>> whole.goto, whole.update
    (['ada', 'bee'], [('notes', ['a', 'b']), ('active', 'bee')])
    """
    commands = [answer for answer in answers if goes_to_parent(answer)]
    updates = [pair for command in commands for pair in _pairs(command.update)]
    answered = [answer for answer in answers if isinstance(answer, ToolMessage)]
    carried = [(key, _of_same_turn(value, answered)) for key, value in updates]
    along = [(key, found) for key, found in carried if found]
    goto = _joined_goto(commands)
    if updates and all(isinstance(one, Send) for one in goto):
        goto = tuple(goto)  # of a list of these a `ToolNode` makes a command without the update
    elif len(commands) == 1 and not along:
        return commands[0]  # type: ignore[no-any-return] # it is one
    return Command(graph=Command.PARENT, goto=goto, update=_joined([*updates, *along[:1]]) or None)


def _pairs(update: Any) -> list[tuple[str, Any]]:
    if update is None:
        return []
    if isinstance(update, Mapping):
        return list(update.items())
    if isinstance(update, list | tuple) and all(isinstance(one, tuple) and len(one) == len("kv") for one in update):
        return list(update)
    return list(Command(update=update)._update_as_tuples())  # noqa: SLF001 - as LangGraph reads it


def _of_same_turn(value: Any, answered: Sequence[ToolMessage]) -> list[ToolMessage]:
    """Return the answers to calls that are in these messages, and have no answer there."""
    messages = value if isinstance(value, list) else []
    calls = {call["id"] for message in messages if isinstance(message, AIMessage) for call in message.tool_calls}
    there = {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}
    return [answer for answer in answered if answer.tool_call_id in calls - there]


def _joined(pairs: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in pairs:
        number = next((n for n, (known, _) in enumerate(found) if known == key), None)
        before = None if number is None else found[number][1]
        if number is None:
            found.append((key, value))
        elif isinstance(before, list) and isinstance(value, list):
            found[number] = (key, [*before, *(one for one in value if not _is_among(one, before))])
        elif isinstance(value, str | bool | None):
            found[number] = (key, value)
        elif before != value:
            found.append((key, value))  # two writes: LangGraph folds them, or says that it cannot
    return found


def _is_among(one: Any, others: Sequence[Any]) -> bool:
    if not isinstance(one, BaseMessage):
        return False
    return any(one is other or (isinstance(other, BaseMessage) and one.id and one.id == other.id) for other in others)


def _joined_goto(commands: Sequence[Command[Any]]) -> Any:
    found: list[Any] = []
    for command in commands:
        goto: Any = command.goto
        for one in [goto] if isinstance(goto, str | Send) else goto:
            if not (isinstance(one, str) and one in found):
                found.append(one)
    return found


__all__ = ["flat", "for_all", "goes_to_parent"]
