"""What of a job was decided before a turn, for turns that a framework knows again by names of its own.

Such a turn recalls nothing by itself: its framework brings back what was answered. Two things it cannot bring back, and
a call that repeats one of them is answered from the record, and not run: what is in doubt; and what steering has left
standing, when it took the framework's state back behind it. That answers one call each. Which calls they were is on
record with what was said, and where they were issued, so that a turn knows it in another process, too: whoever goes
back behind such a call has it answered again, and so has a model that is asked anew because the framework's state has
not got so far. Whether that state has the answer is not told by its messages alone: they may be trimmed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from settlemark._acts.perform import Program
from settlemark._api.settlement import Settlement, host_of
from settlemark._attempt.attempt import Attempt
from settlemark._attempt.part import Asked
from settlemark._edges.errors import SettlemarkError
from settlemark._protocol.protocol import Protocol
from settlemark._steering.message import DONE, Repeat
from settlemark._steering.steers import said_to
from settlemark.agents._call import Call, PlacedCall
from settlemark.agents._record.doubts import DoubtsOfTurn, answer_in_doubt, doubts_before
from settlemark.agents._record.recalled import Decision, Recalled, decision_of, names, stands
from settlemark.agents._words import DoneBefore
from settlemark.ledger._contract import Book, RecordedEffect

_Answer = Callable[[], Any]


@dataclass(slots=True)
class Before:
    """What was decided before one turn, and answers the calls of it that repeat that.

    Attributes:
        settlement: the job's.
        run: the job.
        doubts: what of it is in doubt.
        asked: what the framework says of the turn.
        left: what steering left standing, and has answered no call that the turn's model knows of.
        taken: the calls that have repeated what is left, by its key, as long as nobody has looked where they were.
        claimed: what each call of the turn repeats, or why it is refused, with what it was claimed for.
    """

    settlement: Settlement
    run: str
    doubts: DoubtsOfTurn
    asked: Asked = field(default_factory=Asked)
    left: Recalled = field(default_factory=Recalled)
    taken: dict[str, list[Repeat]] = field(default_factory=dict[str, list[Repeat]])
    claimed: dict[PlacedCall, tuple[Call, Decision | SettlemarkError | None]] = field(
        default_factory=dict[PlacedCall, tuple[Call, "Decision | SettlemarkError | None"]]
    )

    def claim(self, calls: Sequence[PlacedCall]) -> Program[None]:
        """Have calls claim what they repeat, in issuance order, however long each takes to come."""
        if not self.left.decisions:
            return
        made = [(place, Call(place.tool, place.arguments, place.declaration, place.call_id)) for place in calls]
        acting = [(place, call) for place, call in made if call.acts]
        for _, call in acting:
            yield from self._leave_taken(call)
        found = self.left.claim([(call, place.placed.scopes) for place, call in acting])
        self.claimed.update((place, (call, one)) for (place, call), one in zip(acting, found, strict=True))

    def answer(
        self,
        place: PlacedCall,
        arguments: Mapping[str, Any],
        attempt: Attempt,
        unpack: Callable[[Any], Any] | None,
    ) -> Program[_Answer | None]:
        """Return what gives a call the answer of one that it repeats, or raises; None: it is new.

        What is on record of the call itself goes on from there.
        """
        before = attempt.effects.get(place.placed.path)
        found = None if before is not None and before.key else (yield from self._left(place, arguments))
        if found is None:
            return self.doubts.answer(place, arguments, attempt, unpack)
        if isinstance(found, Decision):
            if not (yield from self._note(found.key, place, answered=True)):
                return self.doubts.answer(place, arguments, attempt, unpack)
            self.doubts.let_go(found.key)
            call = Call(place.tool, arguments, place.declaration, place.call_id)
            return partial(found.answer, call, unpack)
        if isinstance(found, DoneBefore):
            yield from self._note(str(found.data["key"]), place, answered=False)
        return partial(_raise, found)

    def _note(self, key: str, call: PlacedCall, *, answered: bool) -> Program[bool]:
        at = self.asked.at
        repeat = Repeat(key, call.call_id or "", answered, "" if at is None else at.text)

        def is_other(taken: Repeat) -> bool:
            return taken.call_id in self.asked.beside or bool(self._follows(taken))

        return host_of(self.settlement).driver.steers.note_repeat(self.run, repeat, is_other)

    def _follows(self, taken: Repeat) -> bool | None:
        at, same = self.asked.at, taken.call_id in self.asked.now
        return False if at is None or not taken.place else at.follows(taken.place, same=same)

    def _leave_taken(self, call: Call) -> Program[None]:
        """Have nothing answer a call of this tool that has answered one which the framework's state is behind."""
        for decision in [each for each in self.left.decisions if each.key in self.taken and names(call, each)]:
            for taken in self.taken.pop(decision.key):
                follows = self._follows(taken)
                if follows is None and self.asked.at is not None:
                    follows = yield from self.asked.at.is_behind(taken.place)
                if follows and not taken.answered:
                    decision.shown_once = True
                elif follows and decision in self.left.decisions:
                    self.left.decisions.remove(decision)

    def _left(self, place: PlacedCall, arguments: Mapping[str, Any]) -> Program[Decision | SettlemarkError | None]:
        """Return what of that a call repeats as it will run; something of the framework's may have rewritten it."""
        call, found = self.claimed.get(place, (None, None))
        if call is None or (call.tool, dict(call.arguments)) == (place.tool, dict(arguments)):
            return found
        self.left.let_go(found)
        again = Call(place.tool, arguments, place.declaration, place.call_id)
        yield from self._leave_taken(again)
        (found,) = self.left.claim([(again, place.placed.scopes)])
        self.claimed[place] = again, found
        return found


def before_turn(settlement: Settlement, run: str, asked: Asked, *, recorded: bool) -> Program[Before]:
    """Return what of a job was decided before a turn of it begins.

    Args:
        settlement: settles it.
        run: the job.
        asked: which calls its model was given the answers of before, and which it issued beside those of the turn.
        recorded: the job may have begun before, here or in another process.
    """
    doubts: DoubtsOfTurn = yield from doubts_before(settlement, run, recorded=recorded)
    before = Before(settlement, run, doubts, asked)
    if recorded:
        yield from _recall(before, asked.before)
        doubts.leave_out({decision.key for decision in before.left.decisions})
    return before


def _recall(before: Before, answered: Collection[str]) -> Program[None]:
    """Recall what steering left standing of a job, but for what its model knows the answers of."""
    known = set(answered)

    def look(_protocol: Protocol, book: Book) -> list[tuple[RecordedEffect, bool]]:
        said = [each for each in said_to(book, before.run) if each.state == DONE]
        every = dict.fromkeys(repeat for each in said for repeat in each.repeats)
        repeats = [repeat for repeat in every if repeat.call_id in known]
        for repeat in every.keys() - set(repeats) if before.asked.at is not None else ():
            before.taken.setdefault(repeat.effect, []).append(repeat)
        taken = {repeat.effect for repeat in repeats if repeat.answered}
        shown = {repeat.effect for repeat in repeats if not repeat.answered}
        keys = dict.fromkeys(effect.key for each in said for effect in (*each.bound, *each.kept))
        found = ((key, book.find(key)) for key in keys if key not in taken)
        return [
            (effect, key in shown)
            for key, one in found
            if one is not None
            for effect in one.effects
            if effect.row.key == key and stands(effect) and effect.row.call_id not in known
        ]

    host = host_of(before.settlement)
    effects: list[tuple[RecordedEffect, bool]] = yield from host.driver.kernel.look(look)
    for effect, shown in effects:
        decision = decision_of(effect, host.ledger.payloads)
        decision.shown_once = shown
        before.left.add([decision])


def claiming(before: Before | None, placed: Iterable[PlacedCall]) -> Program[list[PlacedCall]]:
    """Return the calls of a turn, which have claimed by then what they repeat of what was decided before."""
    calls = list(placed)
    if before is not None:
        yield from before.claim(calls)
    return calls


def answer_before(
    before: Before | None,
    call: PlacedCall,
    arguments: Mapping[str, Any],
    attempt: Attempt,
    unpack: Callable[[Any], Any] | None,
) -> Program[_Answer | None]:
    """Return what gives a call the answer of an equal one that was decided before, or raises; None: it is new."""
    found: _Answer | None = None
    if before is not None:
        found = yield from before.answer(call, arguments, attempt, unpack)
    return answer_in_doubt(call, arguments, attempt) if found is None else found


def _raise(error: Exception) -> Any:
    raise error


__all__ = ["Before", "answer_before", "before_turn", "claiming"]
