"""The turns of one agent run: each call acts in its place, and is answered with its outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, cast

from pydantic_ai import ApprovalRequired, RunContext, ToolFailed
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, ToolCallPart
from pydantic_ai.tools import ToolApproved, ToolDenied
from pydantic_ai.toolsets import ToolsetTool

from settlemark import EffectClass, Queued, UsageError
from settlemark.agents import TOLD, Call, Learned, Said, Work, keep_answered, too_late, words
from settlemark.hosting import Program, end_async, run_async
from settlemark_pydantic_ai._functions import arguments_of, function_of, is_threaded
from settlemark_pydantic_ai._jobs import Jobs, Seated
from settlemark_pydantic_ai._places import SKIP, Checked, Fate, Place, places_of, prepared
from settlemark_pydantic_ai._responses import Results, answered_in, answers_in, asker, ids_of, issuer_of
from settlemark_pydantic_ai._results import pack, plain, unpack
from settlemark_pydantic_ai._seat import DEFERRAL, Seat, TimedOut, TimeLimits
from settlemark_pydantic_ai._streamed import Streamed
from settlemark_pydantic_ai._turn import Turn

MARK = "settlemark"


class Turns:
    """The turns of one agent run. Its methods run in the event loop of that run.

    Args:
        jobs: has the run's job.
        ctx: of the run.
        owns: whether a tool is settled.
    """

    def __init__(self, jobs: Jobs, ctx: RunContext[Any], *, owns: Callable[[ToolsetTool[Any]], bool]) -> None:
        self._jobs = jobs
        self._job = jobs.named(ctx)
        self._agent = (ctx.agent.name if ctx.agent is not None else None) or ""
        self._after = asker(ctx.messages)
        self._open = jobs.waiting(self._after)
        self._seats: dict[str, Seated] = {}
        self._outside: Sequence[str] | None = None
        self._begun = False
        self._owns = owns
        self._checked: dict[str, Checked] = {}
        self._behind: set[str] = set()
        self._again: set[str] = set()
        self._limits = TimeLimits()
        self._unanswered: Collection[str] = ()
        self.streamed = Streamed()
        self._turn: Turn | None = None
        self._over: Turn | None = None
        self._left: BaseException | None = None
        self._results: tuple[ModelResponse, Results] | None = None

    async def primer(self, run: str | None) -> str | None:
        """Return what the model of an agent's run is told of a job that was begun before; None: nothing."""
        seated = self._seat_of(run)
        found: str | None = await run_async(seated.primers.text(seated.work.name, run))
        return found

    def work_of(self, run: str | None) -> Work:
        """Return the work of a run's calls: after a resume that of the run that issued them."""
        return self._seat_of(run).work

    def _seat_of(self, run: str | None) -> Seated:
        job = self._open or self._job or run or ""
        found = self._seats.get(job)
        if found is None:
            found = self._seats[job] = self._jobs.enter(job, self._agent, after=self._after)
        return found

    async def leave(self, error: BaseException | None, *, is_over: bool, asked_by: str | None = None) -> None:
        """End the rest of its turns, and its part in its job.

        Raises:
            Refused, InDoubt, PartialCommit: what was to settle with it did not settle as a whole.
        """
        if error is not None and not isinstance(error, Exception):
            self._left = error
        abandoning, tasks = self._cut(error)
        await end_async(self._leaving(abandoning, error, is_over=is_over, asked_by=asked_by), after=tasks)

    def _leaving(
        self, abandoning: Program[None], error: BaseException | None, *, is_over: bool, asked_by: str | None
    ) -> Program[None]:
        yield from abandoning
        seats, self._seats = self._seats, {}
        for seated in seats.values():
            # The framework refused the answers, or had none: the question stands.
            unheard = seated.answers and not self._begun
            yield from self._jobs.leave(
                seated, error, is_over=is_over and not unheard, asked_by=self._after if unheard else asked_by
            )

    # ---- reports of the framework

    def check(self, checked: Checked) -> None:
        """Record a call whose arguments were validated; all calls that run together are, before one of them runs."""
        self._checked[checked.part.tool_call_id] = checked

    async def over(self, call_id: str, failed: str | None) -> None:
        """Record that a call is over; one that has not reached its tool was answered before it, or `failed` there."""
        if call_id in self._checked:
            self._checked[call_id].over, self._checked[call_id].failed = True, failed
        for number, place in enumerate(() if self._turn is None else self._turn.places):
            if self._turn is not None and place.part.tool_call_id == call_id and place.awaited:
                place.fate = Fate.ABSENT
                if failed is not None:
                    await run_async(self._turn.settling.turn_down(number, failed, waits=True))
                self._turn.settling.absent(number)

    def unanswered(self, ids: Collection[str]) -> Collection[str]:
        """Record calls that nobody has answered; return those that wait for no question of their own."""
        self._unanswered = ids
        return ids if set(ids) <= self._behind else ()

    def answered(self, response: ModelResponse, results: dict[str, Any]) -> None:
        """Record results for deferred calls of a response, and add those that nobody was asked."""
        found = (response.metadata or {}).get(MARK, {}).get("behind", ())
        self._behind.update(found)
        for call_id in found:
            results.setdefault(call_id, ToolApproved())
        self._results, self._outside = (response, results), ids_of(response)

    def asked(self, response: ModelResponse) -> Collection[str]:
        """Return the ids of a response's calls that wait only for another one, and mark in it that they do."""
        ids = sorted(self._behind & {part.tool_call_id for part in response.tool_calls})
        if ids:
            response.metadata = {**(response.metadata or {}), MARK: {"behind": ids}}
        return ids

    # ---- calls

    async def call(
        self,
        ctx: RunContext[Any],
        tool: ToolsetTool[Any],
        run: Callable[..., Awaitable[Any]],
        arguments: Mapping[str, Any],
    ) -> Any:
        """Run a tool in its turn, and return its answer.

        `run(ctx)` runs it as the framework has it, with these arguments; `run(ctx, arguments)` with other ones.

        Raises:
            ToolFailed: it did not run, or was undone, or its outcome is unknown.
            ApprovalRequired: it waits.
            BaseException: the tool's own exception.
        """
        if self._left is not None:
            raise ToolFailed(words(too_late(tool.tool_def.name, self._left, None)))
        turn = self._of(ctx, tool)
        number = turn.place_of(ctx.tool_call_id)
        if turn is self._over:
            pass  # it comes late, and is told so
        elif turn.places[number].come and turn.settling.settled:
            # Something around it tries it again: its turn is over, and no longer decides its answer.
            self._again.add(ctx.tool_call_id or "")
            turn, number = self._alone(ctx, tool), 0
        elif turn.places[number].fate is not Fate.COMES:
            turn, number = self._alone(ctx, tool), 0  # it was not known as a settled tool
        place = turn.places[number]
        place.come = True
        if place.part.tool_call_id in self._behind and ctx.tool_call_approved:
            ctx = replace(ctx, tool_call_approved=False)  # nobody has been asked about it
        signed = ctx.tool_call_metadata
        opaque = turn.settling.calls[number].declaration.kind is EffectClass.OPAQUE
        repeat = partial(turn.settling.let_repeat, number) if opaque else None
        given, threaded = ctx.tool_call_approved, is_threaded(tool)
        seat = Seat(place, partial(run, ctx), approved=given, threaded=threaded, signed=signed, repeat=repeat)
        task = asyncio.current_task()
        assert task is not None, "a coroutine runs in one"
        turn.acting.add(task)
        try:
            found = await run_async(
                turn.settling.perform(
                    number,
                    seat.run,
                    pack=pack,
                    unpack=unpack,
                    ask=seat.ask,
                    remake=seat.remake,
                    waits=turn.waits(number),
                    outlives=True,
                    rewritten=_rewritten(turn.settling.calls[number], place, arguments),
                )
            )
        except DEFERRAL as control:
            turn.aside.add(place.part.tool_call_id)
            if control is seat.own:
                self._behind.discard(place.part.tool_call_id)
                raise
            self._behind.add(place.part.tool_call_id)
            raise ApprovalRequired(metadata={MARK: "it waits for a call issued beside it"}) from control
        except TimedOut as error:
            raise error.error from None  # nothing of it happened
        except TOLD as error:
            raise self._limits.answer(error, seat) from error
        finally:
            turn.acting.discard(task)
        return str(found) if isinstance(found, Queued) else found

    def _of(self, ctx: RunContext[Any], tool: ToolsetTool[Any]) -> Turn:
        index, response = self.streamed.issuer_of(ctx.messages, ctx.tool_call_id)
        turn = self._turn
        if response is None:
            alone = self._alone(ctx, tool)
            self._jobs.refuse_apart(alone.settling.calls[0], ctx.messages)
            return alone
        key = index, ids_of(response)
        if self._over is not None and self._over.key == key:
            return self._over
        if turn is None or turn.key != key:
            return self._begin(ctx, index, response, self._results_for(ctx, index, response))
        if turn.aside and turn.settling.settled:
            return self._begin(ctx, index, response, self._answers_in_the_run(turn))
        return turn

    def _alone(self, ctx: RunContext[Any], tool: ToolsetTool[Any]) -> Turn:
        """Return the turn of a call that no response of the model has issued: another tool has."""
        name, call_id = ctx.tool_name or tool.tool_def.name, ctx.tool_call_id or ""
        checked = self._checked.get(call_id)
        part = ToolCallPart(name, None, call_id) if checked is None else checked.part
        learned = self._learn({name: tool})
        place = Place(part, tool, Fate.COMES, checked)
        declared = place.declared(self._jobs.declarations.of(learned[name]))
        call = Call(name, part.args_as_dict(), declared, call_id, place.given)
        return Turn((-1, (call_id,)), self.work_of(ctx.run_id).single(call), (place,))

    def _results_for(self, ctx: RunContext[Any], index: int, response: ModelResponse) -> Results | None:
        given, self._results = self._results, None
        if given is not None and ids_of(given[0]) == ids_of(response):
            return given[1]
        answered = answered_in(ctx.messages[index + 1 :])
        if not (answered or ctx.tool_call_approved):
            return None
        return {part.tool_call_id: ToolApproved() for part in response.tool_calls} | dict.fromkeys(answered, SKIP)

    def _answers_in_the_run(self, turn: Turn) -> Results:
        """Return a handler's immediate answers: a call it did not approve is denied."""
        results: dict[str, Any] = {}
        for place in turn.places:
            call_id, checked = place.part.tool_call_id, self._checked.get(place.part.tool_call_id)
            if call_id not in turn.aside:
                results[call_id] = SKIP
            elif checked is not None and checked.approved:
                results[call_id] = ToolApproved()
            elif call_id not in self._unanswered:
                results[call_id] = ToolDenied()
            else:
                results[call_id] = place.outcome or ApprovalRequired()  # it keeps waiting
        return results

    def _learn(self, tools: Mapping[str, ToolsetTool[Any]]) -> dict[str, Learned]:
        learn = self._jobs.declarations.learn
        return {name: learn(name, function_of(tool), arguments=arguments_of(tool)) for name, tool in tools.items()}

    def _begin(self, ctx: RunContext[Any], index: int, response: ModelResponse, results: Results | None) -> Turn:
        known = None if ctx.tool_manager is None else ctx.tool_manager.tools
        tools = {name: tool for name, tool in (known or {}).items() if self._owns(tool)}
        learned = self._learn(tools)
        places = places_of(ctx, response.tool_calls, tools, self._checked, results, self._behind)
        calls = [
            Call(
                place.name,
                place.part.args_as_dict(),
                place.declared(self._jobs.declarations.of(learned.get(place.name, place.name))),
                place.part.tool_call_id,
                place.given,
                place.refused,
            )
            for place in places
        ]
        seated = self._seat_of(response.run_id or ctx.run_id)
        work = seated.work
        if self._jobs.settles != "turn" and self._outside == ids_of(response) and not seated.asked:
            self._refuse_answer(call.tool for call in calls if call.acts)
        if results is not None:
            work.begin()  # it was deferred: it is found again, and continued
        said = Said(response.text or None, response.provider_response_id, response.model_name, tuple(known or ()))
        settling = work.turn(calls, because=said, answered=answered_in(ctx.messages[:index]))
        self._turn = turn = Turn((index, ids_of(response)), settling, places)
        self._begun = True
        for number, place in enumerate(places):
            if place.fate is Fate.ABSENT:
                settling.absent(number)
            elif place.fate is not Fate.COMES:
                turn.stand_ins.append(asyncio.create_task(self._stand_in(turn, number)))
        return turn

    def _refuse_answer(self, tools: Iterable[str]) -> None:
        """Check that none of these tools acts: what was to settle with them is not open here.

        Raises:
            UsageError: one does.
        """
        found = ", ".join(tools)
        if found:
            raise UsageError(
                f"{found} waits for an answer in a run that settles as a whole, and that is not open here, so that"
                ' nothing was run: an approval can be answered in another process only with settle="turn". Give the'
                " answer to the Settled(…) that asked, in its process, or begin the job again without its messages"
            )

    async def _stand_in(self, turn: Turn, number: int) -> None:
        """Fill the place in the order of a call that the framework does not run."""
        place = turn.places[number]
        seat = Seat(place, approved=False)
        if place.fate is Fate.WAITS:
            turn.aside.add(place.part.tool_call_id)
        with suppress(Exception):  # the framework has its answer
            await run_async(
                turn.settling.perform(number, seat.run, pack=pack, unpack=unpack, ask=seat.ask, remake=seat.remake)
            )

    # ---- boundaries

    async def finish(self, ctx: RunContext[Any], *, going_on: ModelRequest | None, waits: bool) -> None:
        """Settle the turn, when the framework is done with its calls.

        Args:
            ctx: of the run.
            going_on: the model's next messages, or None: the run is at its end.
            waits: the run ends because calls of the turn wait.
        """
        if self._results is not None:
            response, results = self._results
            index, _ = issuer_of(ctx.messages, next(iter(ids_of(response)), None))
            self._results = None
            self._begin(await prepared(ctx), index, response, results)
        await self._settle()
        turn = self._turn
        if turn is None or not turn.aside or waits:
            return
        told: Results = {} if going_on is None else answers_in(going_on.parts)
        index, issuer = issuer_of(ctx.messages, turn.places[0].part.tool_call_id)
        if issuer is not None:
            results = {call_id: told.get(call_id, ToolDenied("the run went on without it")) for call_id in turn.aside}
            self._begin(await prepared(ctx), index, issuer, results)
            await self._settle()

    async def _settle(self) -> None:
        turn = self._turn
        if turn is None:
            return
        for number, place in enumerate(turn.places):
            if place.awaited:
                turn.settling.absent(number)
        await asyncio.gather(*turn.stand_ins)
        if not turn.settling.settled:
            await run_async(turn.settling.finish())

    def begin_node(self) -> None:
        """Record that the framework runs a node, possibly again: its calls do not come late."""
        self._over = None

    async def abandon(self, error: BaseException) -> None:
        """End what the framework has left unsettled; nothing of it acts any more."""
        abandoning, tasks = self._cut(error)
        await end_async(abandoning, after=tasks)

    def _cut(self, error: BaseException | None) -> tuple[Program[None], Collection[asyncio.Task[Any]]]:
        """Cancel what the framework has left; return its end, and the tasks that must be over before."""
        turn = self._turn
        if error is None or turn is None:
            return _nothing(), ()
        self._turn, self._over = None, turn
        # The framework cancels its tasks, too, but only after the caller has been told that the run ended.
        tasks = {*turn.acting, *turn.stand_ins} - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        return turn.settling.abandon(error), cast("Collection[asyncio.Task[Any]]", tasks)

    def keep(self, messages: Sequence[ModelMessage]) -> None:
        """Say before a request to the model which calls it has the answers of: what they did stands."""
        keep_answered(self._jobs.settlement, answered_in(messages))

    def corrections(self) -> dict[str, str]:
        """Return corrections for the model, of calls whose answers have changed, by their ids."""
        found = (told for seat in self._seats.values() for told in seat.work.corrections())
        return {call.call_id: text for call, text in found if call.call_id and call.call_id not in self._again}


def _rewritten(call: Call, place: Place, arguments: Mapping[str, Any]) -> Call | None:
    """Return a call as it will run, where a hook has given its tool other arguments than were validated, else None."""
    checked = place.checked
    if checked is None and place.part.args is None:  # a call of its own, of which its toolset knows no more
        return replace(call, arguments=plain(arguments), given=arguments)
    if checked is None or place.edited is not None or checked.arguments == arguments:
        return None
    return replace(call, arguments=plain(arguments), given=arguments)


def _nothing() -> Program[None]:
    yield from ()


__all__ = ["Turns"]
