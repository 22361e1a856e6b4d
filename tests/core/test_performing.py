"""One act, from its call until its outcome is known: what failed, what may have happened, and what is sent again."""

from __future__ import annotations

from tests.core.by_hand import carried_out, in_turn
from tests.rooms.acts import Act, Sleep, perform

from settlemark import UNKNOWN, Effect, InDoubt, Outcome, Refused, Retries, Scope, effect
from settlemark.hosting import declaration_of

RETRIES = Retries(tries=3, first=1.0, factor=2.0, most=10.0)
ABSENT = None


class Tool:
    """A tool that raises or returns what it is told, in turn; the last for good."""

    def __init__(self, *ends):
        self.ends, self.calls = list(ends), 0

    def __call__(self):
        self.calls += 1
        return in_turn(self.ends, self.calls - 1)


class Asked:
    """Answers what is asked about an effect, in turn, the last for good; keeps how it was asked."""

    def __init__(self, *answers, forgotten=False):
        self.answers, self.heard, self.forgotten, self.sent = list(answers or (UNKNOWN,)), [], forgotten, 0

    def ask(self, _effect, _current, retries, *, final):
        answer = self.answers[min(len(self.heard), len(self.answers) - 1)]
        self.heard.append("again and again" if retries is not None else "once")
        assert not final
        return answer
        yield

    def is_forgotten(self, _effect):
        return self.forgotten

    def sends_again(self, _effect):
        self.sent += 1
        return
        yield


class Current:
    def _calls(self, _effect):
        return None

    transaction, epoch = "trip", 4


class Played:
    """What came of one effect: its result or error, and what was done on the way."""

    def __init__(self, kind, tool, asked, *, outcome=Outcome.INTENDED, retry_failures=False, begun=True, **options):
        more = {"reversible": {"undo": lambda: None}, "idempotent": {"window": 10}}.get(kind, {})

        @effect(kind, scope="room:/a", **more)
        def book():
            raise AssertionError("it is called by its run alone")

        self.tool, self.asked, self.pauses, self.looked = tool, asked, [], 0
        self.effect = Effect(declaration_of(book), (Scope.parse("room:/a"),), {}, tool)
        self.effect.key, self.effect.outcome, self.effect.sender = "trip#1/0", outcome, options.pop("sender", None)
        options |= {"retry_failures": retry_failures, "final": False}
        program = perform(self.effect, tool, Current(), RETRIES, asked, self._ours, **options)
        self.result = self.error = None
        try:
            self.result = carried_out(program, lambda request: self._answer_to(request, begun))
        except BaseException as error:
            self.error = error

    def _ours(self):
        self.looked += 1
        return
        yield

    def _answer_to(self, request, begun):
        if isinstance(request, Sleep):
            self.pauses.append(request.seconds)
            return None
        assert isinstance(request, Act)
        request.begun = begun
        return request.function()

    @property
    def told(self):
        """Its result or the kind of its error, its outcome, how often it was called and what was asked."""
        end = self.result if self.error is None else type(self.error).__name__
        return end, self.effect.outcome.value, self.tool.calls, self.asked.heard


def test_what_returns_has_happened_and_nobody_is_asked():
    played = Played("reversible", Tool("R1"), Asked())
    assert played.told == ("R1", "confirmed", 1, [])
    assert (played.pauses, played.looked, played.effect.result) == ([], 0, "R1")


def test_what_raises_has_failed_and_its_counterparty_is_asked_once_all_the_same():
    played = Played("reversible", Tool(ValueError("full")), Asked())
    assert played.told == ("ValueError", "failed", 1, ["once"])
    assert (played.effect.error, played.pauses) == ("ValueError: full", [])


def test_a_failure_is_tried_again_where_that_is_asked_for_after_growing_pauses_and_a_look_at_the_lease():
    played = Played("reversible", Tool(ValueError("full"), ValueError("full"), "R3"), Asked(), retry_failures=True)
    assert played.told == ("R3", "confirmed", 3, ["once", "once"])
    assert (played.pauses, played.looked) == ([1.0, 2.0], 2)
    played = Played("reversible", Tool(ValueError("full")), Asked(), retry_failures=True)
    assert (played.told, played.pauses) == (("ValueError", "failed", 3, ["once"] * 3), [1.0, 2.0])


def test_a_failure_of_what_has_happened_is_its_result():
    played = Played("reversible", Tool(ValueError("bad answer")), Asked("R1"))
    assert played.told == ("R1", "confirmed", 1, ["once"])
    assert (played.effect.error, played.looked) == (None, 1)


def test_a_lost_answer_is_asked_about_again_and_again_and_what_stays_unknown_is_in_doubt():
    played = Played("reversible", Tool(TimeoutError("no answer")), Asked())
    assert played.told == ("InDoubt", "unknown", 1, ["again and again"])
    assert isinstance(played.error.__cause__, TimeoutError)
    assert (played.error.key, played.error.tool, played.error.scope) == ("trip#1/0", "book", "room:/a")


def test_what_is_known_not_to_have_come_is_sent_again_and_has_failed_when_it_never_comes():
    played = Played("reversible", Tool(TimeoutError(), "R2"), Asked(ABSENT))
    assert (played.told, played.pauses) == (("R2", "confirmed", 2, ["again and again"]), [1.0])
    played = Played("reversible", Tool(TimeoutError()), Asked(ABSENT))
    assert played.told == ("TimeoutError", "failed", 3, ["again and again"] * 3)


def test_with_a_key_that_its_counterparty_honours_it_is_sent_again_while_nobody_knows():
    played = Played("idempotent", Tool(TimeoutError(), "R2"), Asked())
    assert (played.told, played.pauses, played.looked) == (
        ("R2", "confirmed", 2, ["again and again"]),
        [1.0],
        1,
    )
    played = Played("idempotent", Tool(TimeoutError()), Asked())
    assert played.told == ("InDoubt", "unknown", 3, ["again and again"] * 3)


def test_a_failure_behind_a_lost_answer_leaves_it_unknown():
    played = Played("idempotent", Tool(TimeoutError(), ValueError("busy")), Asked())
    assert played.told == ("InDoubt", "unknown", 3, ["again and again"] * 3)
    played = Played("reversible", Tool(TimeoutError(), ValueError("full")), Asked(ABSENT, UNKNOWN))
    assert played.told == ("ValueError", "failed", 2, ["again and again", "once"])  # the first had not come


def test_nothing_is_sent_again_with_a_key_that_its_counterparty_has_forgotten():
    forgotten = "not sent again: its counterparty remembers a key for 10 s, which have passed"
    played = Played("idempotent", Tool(TimeoutError("no answer")), Asked(forgotten=True))
    assert (played.told, played.pauses) == (("InDoubt", "unknown", 1, ["again and again"]), [])
    assert played.effect.error == f"TimeoutError: no answer; {forgotten}"
    played = Played("idempotent", Tool(TimeoutError("no answer")), Asked(ABSENT, forgotten=True))
    assert (played.told, played.effect.error) == (
        ("TimeoutError", "failed", 1, ["again and again"]),
        f"TimeoutError: no answer; {forgotten}",
    )


def test_an_interrupt_is_raised_at_once_and_what_it_cut_off_is_asked_about_once():
    played = Played("idempotent", Tool(KeyboardInterrupt()), Asked())
    assert (played.told, played.pauses) == (("KeyboardInterrupt", "unknown", 1, ["once"]), [])
    played = Played("idempotent", Tool(KeyboardInterrupt()), Asked("R1"))
    assert (played.told, played.effect.result) == (("KeyboardInterrupt", "confirmed", 1, ["once"]), "R1")
    played = Played("idempotent", Tool(KeyboardInterrupt()), Asked(), begun=False)
    assert played.told == ("KeyboardInterrupt", "failed", 1, ["once"])  # it came before the tool was called


def test_a_frameworks_control_flow_goes_through_and_nothing_is_asked():
    class AskAPersonError(Exception):
        pass

    played = Played("reversible", Tool(AskAPersonError()), Asked(), let_through=(AskAPersonError,))
    assert played.told == ("AskAPersonError", "intended", 1, [])


def test_a_read_leaves_nothing_in_doubt():
    assert Played("read", Tool(TimeoutError()), Asked()).told == ("TimeoutError", "failed", 1, ["once"])


def test_what_is_unknown_from_before_is_asked_about_first_and_what_has_happened_is_not_done_again():
    played = Played("reversible", Tool("R2"), Asked("R1"), outcome=Outcome.UNKNOWN)
    assert played.told == ("R1", "confirmed", 0, ["again and again"])
    assert (played.looked, played.effect.error) == (1, None)


def test_what_is_known_not_to_have_come_before_is_sent_and_that_another_may_have_sent_it_is_recorded():
    for sender, sent in ((None, 0), ("web-2", 1)):
        before = {"outcome": Outcome.UNKNOWN, "sender": sender}
        played = Played("reversible", Tool("R2"), Asked(ABSENT), **before)
        assert played.told == ("R2", "confirmed", 1, ["again and again"])
        assert (played.looked, played.asked.sent) == (1, sent)
        late = Played("reversible", Tool(ValueError("full")), Asked(ABSENT, UNKNOWN), **before)
        assert late.told == ("ValueError", "failed", 1, ["again and again", "once"])


def test_what_stays_unknown_from_before_is_sent_only_with_a_key_that_is_remembered():
    played = Played("reversible", Tool("R2"), Asked(), outcome=Outcome.UNKNOWN)
    assert played.told == ("InDoubt", "unknown", 0, ["again and again"])
    played = Played("idempotent", Tool("R2"), Asked(), outcome=Outcome.UNKNOWN)
    assert (played.told, played.looked) == (("R2", "confirmed", 1, ["again and again"]), 1)
    played = Played("idempotent", Tool("R2"), Asked(forgotten=True), outcome=Outcome.UNKNOWN)
    assert played.told == ("InDoubt", "unknown", 0, ["again and again"])
    assert "not sent again" in played.effect.error
    played = Played("idempotent", Tool(ValueError("busy")), Asked(), outcome=Outcome.UNKNOWN)
    assert played.told == ("InDoubt", "unknown", 3, ["again and again"] * 4)


def test_what_did_not_come_before_and_has_a_key_that_is_forgotten_is_refused_and_not_sent():
    played = Played("idempotent", Tool("R2"), Asked(ABSENT, forgotten=True), outcome=Outcome.UNKNOWN)
    assert played.told == ("Refused", "failed", 0, ["again and again"])
    assert "did not happen, and is not sent again" in str(played.error)
    assert (type(played.error), played.error.transaction, played.error.epoch, played.error.key) == (
        Refused,
        "trip",
        4,
        "trip#1/0",
    )
    assert not isinstance(played.error, InDoubt)
