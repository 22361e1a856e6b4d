"""What a shim for an agent framework is made of.

A framework asks a model, gets an answer with calls, runs them as it likes, and gives the model their results. A shim
says these things to settlemark as they happen, and runs the tools through it:

- *a job begins*: `AgentRun(settlement, run)`, under the caller's id;
- *an agent, or a task, of it begins, or begins again*: `work = job.work("clerk")`, `work.begin()`;
- *a model has issued calls*: `turn = work.turn([Call(…), …], because=Said(…))`, in their order, before the first runs;
- *a call is to run*: `run_sync(turn.perform(place, tool))`, or `await run_async(…)`; the answer is the tool's own
  result, or an error, of which `words(error)` is what the model is told;
- *a call will not run*: `turn.absent(place)`; *the framework was cut short*: `turn.abandon(error)`;
- *the model is asked*: `job.primers.text(agent, beginning)` is what it is told of a job that is taken up again;
- *the model is asked again*: `work.corrections()` are answers that are not true any more;
- *a person was asked*: `open_questions(settlement, run, keys)` tells which questions still wait, or have an answer;
- *the agent, the job, is done*: `work.end()`, `job.end()`.

A framework that knows each of its turns again by a name of its own (a checkpoint's task, a durable step) has nothing to
recall, and may run the parts of a call apart (LangGraph's wrappers run a tool again, or answer in its place). Its shim
opens the turn itself, under that name:

- *a model has issued calls*: `turn = open_turn(settlement, name, run=…)`, `places = turn.place_all([Call(…), …])`,
  `turn.decide(Said(…))`;
  where each call comes in a task of its own, `Gathering(…).open(begin)` has the first that comes open the turn for all;
- *a tool is to run*: `turn.perform(place, tool, arguments)`; where another call's task may release it,
  `Caller().run(tool)` runs it in this context; *the framework is done with it*: `turn.leave(place)`;
- *nobody can be asked for a yes*: `refuse_unasked(turn, fix)` refuses a turn that needs one, before it acts;
- *questions of several calls are shown at once*: `place.ask_in(task)`; *a call runs an agent*, whose own calls tell
  what it does: `place.run_as_agent()`;
- *a call will not come*: `turn.absent(place)`, or `gathering.give_up(place)`, whose `Roll` knows which calls have come;
  *the framework was cut short*: `turn.abandon(error)`;
- *turns are to settle together*: `shared = Shared(settlement, name)`, `open_turn(…, within=part)` with the part that
  `shared.enter(begin, place)` gives; `shared.commit()`, or `shared.stop(cause)`;
- *answers are collected*: `turn.last_word(place, answer)`; later, from the record: `since_answered(settlement, keys)`;
- *a job has gone on without what it left open*: `still_open(settlement, run)` tells what that is, `undo_left(…)` and
  `take_up(…)` end it.

>>> from settlemark import Settlement, effect
>>> from settlemark.agents import run_sync
>>> rooms = []
>>> @effect("reversible", scope="room:/{hotel}", undo=lambda hotel: rooms.remove(hotel))
... def reserve(hotel): rooms.append(hotel); return f"reserved {hotel}"
>>> settlement = Settlement("memory:")
>>> job, tools = AgentRun(settlement, "trip-42"), Declarations(settlement)
>>> _ = tools.learn("reserve", reserve)
>>> answer_of_the_model = [("reserve", {"hotel": "Ada"})]
>>> turn = job.work().turn([Call(name, given, tools.of(name)) for name, given in answer_of_the_model])
>>> run_sync(turn.perform(0, lambda: reserve("Ada"))), rooms
('reserved Ada', ['Ada'])
>>> run_sync(job.end())
"""

from __future__ import annotations

from settlemark._attempt.part import Asked
from settlemark._runtime.aio import run_async
from settlemark._runtime.sync import run_sync
from settlemark.agents._call import Call, PlacedCall
from settlemark.agents._caller import Caller
from settlemark.agents._declarations import Declarations, Declared, Learned, declared_at
from settlemark.agents._job.run import MISSING, AgentRun, Missing, Settles, refuse_bad_options
from settlemark.agents._job.shared import Shared
from settlemark.agents._job.work import Work
from settlemark.agents._names import Names
from settlemark.agents._open.deciding import Said
from settlemark.agents._open.open_turn import OpenTurn
from settlemark.agents._open.opening import keep_answered, open_turn
from settlemark.agents._open.unasked import refuse_unasked
from settlemark.agents._record.left_open import StillOpen, still_open, take_up, undo_left
from settlemark.agents._record.open_questions import OpenQuestion, open_questions
from settlemark.agents._record.primers import Primers, refuse_bad_primer
from settlemark.agents._record.since_answered import Since, since_answered
from settlemark.agents._turns.gathering import Gathering, Opened, Placed
from settlemark.agents._turns.roll import Roll
from settlemark.agents._turns.turn import TRIES, AgentTurn
from settlemark.agents._unsettled import ReadNames, Unsettled, cannot_keep, refuse_unknown_choice
from settlemark.agents._words import TOLD, DoneBefore, Undone, not_taken, too_late, words

__all__ = [
    "MISSING",
    "TOLD",
    "TRIES",
    "AgentRun",
    "AgentTurn",
    "Asked",
    "Call",
    "Caller",
    "Declarations",
    "Declared",
    "DoneBefore",
    "Gathering",
    "Learned",
    "Missing",
    "Names",
    "OpenQuestion",
    "OpenTurn",
    "Opened",
    "Placed",
    "PlacedCall",
    "Primers",
    "ReadNames",
    "Roll",
    "Said",
    "Settles",
    "Shared",
    "Since",
    "StillOpen",
    "Undone",
    "Unsettled",
    "Work",
    "cannot_keep",
    "declared_at",
    "keep_answered",
    "not_taken",
    "open_questions",
    "open_turn",
    "refuse_bad_options",
    "refuse_bad_primer",
    "refuse_unasked",
    "refuse_unknown_choice",
    "run_async",
    "run_sync",
    "since_answered",
    "still_open",
    "take_up",
    "too_late",
    "undo_left",
    "words",
]
