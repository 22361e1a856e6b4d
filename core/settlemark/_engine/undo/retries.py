"""The undo of one effect: its tries, the pauses between them, and the effect's state afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from settlemark._acts.current import CurrentCall
from settlemark._acts.effect import Effect
from settlemark._acts.perform import _NOT_THE_HANDLERS, NOBODY_KNOWS, Inquiry, Program, Retries
from settlemark._acts.requests import Act, Sleep
from settlemark._edges.errors import MovedOn
from settlemark._edges.wording import in_words, is_a
from settlemark._model.disposition import Disposed, Disposition
from settlemark._model.effect_class import UNKNOWN, EffectClass, Outcome
from settlemark._model.made import is_gone, is_gone_in_part
from settlemark._protocol.states import Tag

_MOST_TOLD = 3


def undo(
    effect: Effect,
    current: CurrentCall,
    retries: Retries,
    inquiry: Inquiry,
    ours: Callable[[], Program[None]],
    *,
    came: Callable[[], Program[bool]] | None = None,
    made: Callable[[], Sequence[Effect]] = tuple,
) -> Program[bool]:
    """Undo one executed effect as far as possible; return True when nothing of the effect stays.

    Sets `effect.outcome`, `tag` and `disposed`. `came` is called when an effect in doubt turns out to have happened,
    before the undo. A handler's failure is recorded, not raised. `made` returns the effects of the calls that it made.

    Raises:
        BaseException: only the exception of `ours`, before a try: another worker has taken the undo over.
    """
    declaration = effect.declaration
    unknown = effect.outcome is Outcome.UNKNOWN
    if unknown or declaration.kind is EffectClass.IDEMPOTENT:
        found = yield from inquiry.ask(effect, current, retries if unknown else None, final=True)
        if found is None:
            effect.outcome, effect.tag = Outcome.FAILED, Tag.CLEAN
            return True
        if found is not UNKNOWN:
            effect.confirm(found)
            if unknown and came is not None:
                yield from came()
    if effect.outcome is Outcome.UNKNOWN:
        effect.tag = Tag.UNRESOLVED
        effect.disposed = NOBODY_KNOWS
        return False
    handler = declaration.undo
    if handler is None or "undo" in effect.withheld:
        joined = ": " if "undo" in effect.withheld else ", and "
        effect.tag = Tag.UNRESOLVED
        note = _undone_within(made()) or f"it happened{joined}{no_undo(effect)}"
        effect.disposed = Disposed(Disposition.NO_UNDO, note)
        return False
    failures = 0
    while True:
        yield from ours()
        try:
            bound = handler.bind(effect.for_handlers(), result=effect.own_result(), key=effect.key)
            yield Act(handler.function, bound, current, final=True)
        except _NOT_THE_HANDLERS:
            raise
        except BaseException as error:
            failures += 1
            if failures < retries.tries and not is_a(error, MovedOn):
                yield Sleep(retries.pause(failures), final=True)
                continue
            effect.tag = Tag.UNRESOLVED
            effect.disposed = _stands(error, failures)
            return False
        effect.outcome = Outcome.UNDONE
        if declaration.cost is None:
            effect.tag = Tag.CLEAN
            return True
        effect.tag, effect.disposed = Tag.UNRESOLVED, Disposed(note=f"undone, but a cost stays: {declaration.cost}")
        return False


def _stands(error: BaseException, failures: int) -> Disposed:
    if is_a(error, MovedOn):
        return Disposed(Disposition.MOVED_ON, f"its undo no longer applies: {in_words(error)}")
    return Disposed(Disposition.UNDO_FAILED, f"its undo failed {failures} times: {in_words(error)}")


def _undone_within(made: Sequence[Effect]) -> str | None:
    """Return in words what of a call's own calls is undone, and what stays; None: it made none, or all of it stays."""
    outcomes = [effect.outcome for effect in made]
    if not (is_gone(outcomes) or is_gone_in_part(outcomes)):
        return None
    stays = [effect for effect in made if not is_gone([effect.outcome])]
    undone = (effect for effect in made if effect.outcome is Outcome.UNDONE)
    what = _named([effect for effect in undone if not effect.declaration.own])
    said = f" ({what})" if what else ""
    whole = f"what it did by calls of its own is undone{said}"
    part = f"of what it did by calls of its own {_named(stays)} stays, and the rest is undone, or never left{said}"
    return f"{part if stays else whole}; what else it did, if anything, is not known, and has no undo"


def _named(effects: Sequence[Effect]) -> str:
    what = ", ".join(f"{effect.declaration.tool} on {effect.scope_text}" for effect in effects[:_MOST_TOLD])
    return f"{what} and {len(effects) - _MOST_TOLD} more" if len(effects) > _MOST_TOLD else what


def no_undo(effect: Effect) -> str:
    """Return why an effect cannot be undone in this process."""
    if "undo" in effect.withheld:
        return effect.withheld["undo"]
    if effect.missing is not None:
        return f"its undo is not known here: declare {effect.missing}"
    return f"{effect.declaration.kind} effects of {effect.declaration.tool} have no undo"


__all__ = ["no_undo", "undo"]
