"""One effect taken back, by itself: undone, known not to have happened, or named with why it stays."""

from __future__ import annotations

from types import SimpleNamespace

from tests.core.by_hand import carried_out, in_turn
from tests.rooms.acts import Act, Sleep
from tests.rooms.engine import undo

from settlemark import UNKNOWN, Effect, LeaseLost, MovedOn, Outcome, Retries, Scope, Tag, effect
from settlemark.hosting import Disposition, declaration_of

RETRIES = Retries(tries=3, first=1.0, factor=2.0, most=10.0)
ABSENT = None


class TakenBack:
    """What came of taking one effect back, and what was done on the way.

    `undoes` are what its undo raises, in turn, the last for good; None: it does not.
    """

    def __init__(self, kind="reversible", *undoes, outcome=Outcome.CONFIRMED, answer=UNKNOWN, **given):
        self.asked, self.pauses, self.looked, self.came, self.undone = [], [], 0, 0, []
        self._ends, self._answer, self._refuses = list(undoes) or [None], answer, given.pop("refuses", None)
        made, withheld, missing = given.pop("made", ()), given.pop("withheld", {}), given.pop("missing", None)
        undoes = {} if kind in ("opaque", "idempotent") else {"undo": lambda room: self._undo(room)}
        declared = effect(kind, **({} if kind == "opaque" else {"scope": "room:/{room}"}), **undoes, **given)

        @declared
        def book(room):
            raise AssertionError("it has acted already")

        self.effect = Effect(declaration_of(book), (Scope.parse("room:/a"),), {"room": "a"}, None)
        self.effect.key, self.effect.withheld, self.effect.missing = "trip#1/0", withheld, missing
        self.effect.confirm("R1")
        self.effect.outcome = outcome
        program = undo(
            self.effect, SimpleNamespace(), RETRIES, self, self._ours, came=self._has_come, made=lambda: list(made)
        )
        self.clean = self.error = None
        try:
            self.clean = carried_out(program, self._answer_to)
        except BaseException as error:
            self.error = error

    def ask(self, _effect, _current, retries, *, final):
        assert final
        self.asked.append("once" if retries is None else "again and again")
        return self._answer
        yield

    def _ours(self):
        self.looked += 1
        if self._refuses is not None:
            raise self._refuses
        return
        yield

    def _has_come(self):
        self.came += 1
        return True
        yield

    def _undo(self, room):
        self.undone.append(room)
        in_turn(self._ends, len(self.undone) - 1)

    def _answer_to(self, request):
        assert request.final  # an undo is not left half done
        if isinstance(request, Sleep):
            self.pauses.append(request.seconds)
            return None
        assert isinstance(request, Act)
        return request.function(**request.arguments)

    @property
    def told(self):
        """Whether nothing stays, its outcome and tag, how often it was undone, and what was asked."""
        tag = self.effect.tag and self.effect.tag.value
        return self.clean, self.effect.outcome.value, tag, len(self.undone), self.asked

    @property
    def why(self):
        return self.effect.disposition, self.effect.disposed.told


def test_what_has_happened_is_undone_with_its_own_arguments_and_nothing_of_it_stays():
    taken = TakenBack()
    assert taken.told == (True, "undone", "clean", 1, [])
    assert (taken.undone, taken.looked, taken.pauses, taken.came) == (["a"], 1, [], 0)


def test_what_is_known_not_to_have_happened_is_not_undone():
    taken = TakenBack(outcome=Outcome.UNKNOWN, answer=ABSENT)
    assert (taken.told, taken.looked, taken.came) == ((True, "failed", "clean", 0, ["again and again"]), 0, 0)


def test_what_turns_out_to_have_happened_is_told_so_and_then_undone():
    taken = TakenBack(outcome=Outcome.UNKNOWN, answer="R2")
    assert taken.told == (True, "undone", "clean", 1, ["again and again"])
    assert (taken.came, taken.effect.result) == (1, "R2")


def test_what_nobody_knows_is_not_undone_and_is_named():
    taken = TakenBack(outcome=Outcome.UNKNOWN)
    assert (taken.told, taken.came) == ((False, "unknown", "unresolved", 0, ["again and again"]), 0)
    assert "nobody can tell whether it happened" in str(taken.effect.disposed)


def test_of_what_has_a_key_its_counterparty_is_asked_once_whether_it_is_there_at_all():
    assert TakenBack("idempotent", answer=ABSENT).told == (True, "failed", "clean", 0, ["once"])
    for answer in ("R2", UNKNOWN):
        taken = TakenBack("idempotent", answer=answer)
        assert (taken.told, taken.came) == ((False, "confirmed", "unresolved", 0, ["once"]), 0)
        assert taken.why == (Disposition.NO_UNDO, "it happened, and idempotent effects of book have no undo")


def test_what_has_no_undo_here_is_named_with_why():
    assert TakenBack("opaque").why == (Disposition.NO_UNDO, "it happened, and opaque effects of book have no undo")
    missing = TakenBack("opaque", missing="book of version 2")
    assert missing.why[1] == "it happened, and its undo is not known here: declare book of version 2"
    withheld = TakenBack(withheld={"undo": "its arguments were removed"})
    assert withheld.told == (False, "confirmed", "unresolved", 0, [])
    assert withheld.why == (Disposition.NO_UNDO, "it happened: its arguments were removed")


def test_an_undo_that_fails_is_tried_three_times_after_growing_pauses_and_then_named():
    taken = TakenBack("reversible", ValueError("busy"))
    assert taken.told == (False, "confirmed", "unresolved", 3, [])
    assert (taken.pauses, taken.looked) == ([1.0, 2.0], 3)
    assert taken.why == (Disposition.UNDO_FAILED, "its undo failed 3 times: ValueError: busy")
    taken = TakenBack("reversible", ValueError("busy"), None)
    assert (taken.told, taken.pauses) == ((True, "undone", "clean", 2, []), [1.0])


def test_an_undo_that_no_longer_applies_is_not_tried_again():
    taken = TakenBack("reversible", MovedOn("the room was sold"))
    assert (taken.told, taken.pauses) == ((False, "confirmed", "unresolved", 1, []), [])
    assert taken.why[0] is Disposition.MOVED_ON
    assert taken.why[1].startswith("its undo no longer applies: ")


def test_a_cost_stays_when_all_else_is_undone():
    taken = TakenBack(cost="a fee of 5")
    assert (taken.told, taken.why[1]) == (
        (False, "undone", "unresolved", 1, []),
        "undone, but a cost stays: a fee of 5",
    )


def test_what_another_worker_goes_on_with_is_not_undone_here():
    lost = LeaseLost("another has it")
    taken = TakenBack(refuses=lost)
    assert (taken.error, taken.undone, taken.effect.tag, taken.effect.outcome) == (lost, [], None, Outcome.CONFIRMED)


def test_an_interrupt_is_raised_and_nothing_is_said_of_the_effect():
    taken = TakenBack("reversible", KeyboardInterrupt())
    assert (type(taken.error), taken.undone, taken.effect.tag) == (KeyboardInterrupt, ["a"], None)


def made(*outcomes):
    tool = SimpleNamespace(tool="pay", own=False)
    return [
        SimpleNamespace(outcome=outcome, declaration=tool, scope_text=f"bank:/{number}")
        for number, outcome in enumerate(outcomes)
    ]


def test_of_what_has_no_undo_and_whose_own_calls_are_undone_that_is_told():
    rest = "what else it did, if anything, is not known, and has no undo"
    for outcomes, said in (
        ([Outcome.UNDONE], " (pay on bank:/0)"),
        ([Outcome.FAILED, Outcome.UNDONE], " (pay on bank:/1)"),
        ([Outcome.DROPPED, Outcome.FAILED], ""),
    ):
        told = f"what it did by calls of its own is undone{said}; {rest}"
        assert TakenBack("opaque", made=made(*outcomes)).why == (Disposition.NO_UNDO, told)


def test_of_many_calls_of_its_own_three_are_named_and_the_others_counted():
    three, five = (TakenBack("opaque", made=made(*[Outcome.UNDONE] * count)).why[1] for count in (3, 5))
    assert "is undone (pay on bank:/0, pay on bank:/1, pay on bank:/2);" in three
    assert "is undone (pay on bank:/0, pay on bank:/1, pay on bank:/2 and 2 more);" in five


def test_what_the_settlement_records_for_itself_is_not_named():
    own = SimpleNamespace(
        outcome=Outcome.UNDONE, declaration=SimpleNamespace(tool="settlemark.result", own=True), scope_text="result:/1"
    )
    assert "is undone; what else" in TakenBack("opaque", made=[own]).why[1]


def test_where_a_part_of_its_own_calls_stays_that_is_named_beside_what_is_undone():
    rest = "what else it did, if anything, is not known, and has no undo"
    for outcomes, said in (
        (
            [Outcome.UNDONE, Outcome.CONFIRMED],
            "pay on bank:/1 stays, and the rest is undone, or never left (pay on bank:/0)",
        ),
        (
            [Outcome.UNKNOWN, Outcome.DROPPED, Outcome.FAILED],
            "pay on bank:/0 stays, and the rest is undone, or never left",
        ),
    ):
        told = f"of what it did by calls of its own {said}; {rest}"
        assert TakenBack("opaque", made=made(*outcomes)).why == (Disposition.NO_UNDO, told)


def test_where_all_of_its_own_calls_that_did_anything_stay_it_counts_as_if_it_had_made_none():
    for outcomes in ([], [Outcome.CONFIRMED, Outcome.FAILED], [Outcome.UNKNOWN]):
        assert (
            TakenBack("opaque", made=made(*outcomes)).why[1] == "it happened, and opaque effects of book have no undo"
        )
    assert TakenBack("opaque").effect.tag is Tag.UNRESOLVED
