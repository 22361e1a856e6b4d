"""The conformance kit: an adapter is run through everything that can happen to a tool, on its real counterparty.

A property holds only when the counterparty itself, read without the adapter, shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from settlemark import UsageError
from settlemark.hosting import in_words
from settlemark_adapters.testing import _crashing, _declaring, _racing, _sending, _settling, _undoing
from settlemark_adapters.testing._report import Failed, NotApplicable, Report, Verdict, Word
from settlemark_adapters.testing._study import POINTS, Study, Trial, shown
from settlemark_adapters.testing._subject import Subject

_PROPERTIES: Mapping[str, Callable[[Trial], str]] = MappingProxyType(
    {
        "declaration": _declaring.declaration,
        "commit": _settling.commit,
        "abort": _settling.abort,
        "staged-invisibility": _settling.staged_invisibility,
        "probe-truth": _settling.probe_truth,
        "lost-ack": _sending.lost_ack,
        "duplicate-delivery": _sending.duplicate_delivery,
        "undo-fails-once": _undoing.undo_fails_once,
        "undo-fails-always": _undoing.undo_fails_always,
        "foreign-change": _undoing.foreign_change,
        "two-transactions": _racing.two_transactions,
        "crash-between-steps": _crashing.between_steps,
        "crash-inside-a-step": _crashing.inside_steps,
    }
)
_last: list[Study] = []
_OF_ALL = "declaration"


def properties() -> dict[str, str]:
    """Return the kit's properties, by name, each with its demand.

    >>> list(properties())[:3]
    ['declaration', 'commit', 'abort']
    """
    return {name: (judge.__doc__ or "").strip() for name, judge in _PROPERTIES.items()}


def conformance(
    subject: Subject,
    *,
    only: str | Iterable[str] | None = None,
    points: int | None = POINTS,
    progress: Callable[[str, str], object] | None = None,
) -> Report:
    """Look at each property of each tool of an adapter, on fresh counterparties, and return what was found.

    Each example is played with the real engine; what is there is judged by `subject.look` alone, and what must be
    named by `Settlement.residue()` and `in_doubt()`. Where a process is to die, a copy of this one does.

    Args:
        subject: the adapter and its counterparty.
        only: a property's name, or several; all of `properties()` by default.
        points: at how many of the adapter's lines in each of its acts a process is killed (or its undo fails), spread
            evenly, beside those where the world changes; with 2 or more at as many of the ledger's statements. 0 for
            none of these, None for every one. What takes long is asked of a tool's first example only, but with None.
        progress: called with a property and a tool before each is looked at.

    Raises:
        UsageError: there is no such property.

    >>> import tempfile; from contextlib import contextmanager; from pathlib import Path
    >>> from settlemark_adapters import Adapter, operation
    >>> from settlemark_adapters.testing import Example, Subject
    >>> class Notes(Adapter):
    ...     def __init__(self, settlement, folder):
    ...         self.folder = folder
    ...         super().__init__(settlement)
    ...     def _drop(self, name): (self.folder / name).unlink(missing_ok=True)
    ...     @operation("note", "reversible", scope="note:/{name}", undo=_drop)
    ...     def note(self, name: str) -> None:
    ...         '''Make a note.'''
    ...         (self.folder / name).touch()
    >>> @contextmanager
    ... def world():
    ...     with tempfile.TemporaryDirectory() as folder:
    ...         yield Path(folder)
    >>> subject = Subject(Notes, world, lambda folder: sorted(p.name for p in folder.iterdir()),
    ...                   [Example("note", {"name": "milk"})])
    >>> print(conformance(subject, only=["commit", "abort", "undo-fails-once"]))
    Notes: 3 passed
    property         note
    commit           ok
    abort            ok
    undo-fails-once  ok
    """
    chosen = _chosen(only)
    study = _study_of(subject, points)
    verdicts: list[Verdict] = []
    for name in chosen:
        for tool in study.tools:
            if progress is not None:
                progress(name, tool)
            verdicts.append(_verdict(study, name, tool))
    return Report(study.adapter.__name__, tuple(verdicts))


def assert_conforms(subject: Subject, *, only: str | Iterable[str] | None = None, points: int | None = POINTS) -> None:
    """Raise if an adapter lacks a property: the one call of a test. Arguments as those of `conformance`.

    One test a property, so that they run concurrently and fail separately:

        @pytest.mark.parametrize("name", properties())
        def test_notes_conform(name): assert_conforms(NOTES, only=name)

    Raises:
        AssertionError: it lacks one; the message says which, why, and how to correct it.
        UsageError: there is no such property.
    """
    conformance(subject, only=only, points=points).check()


def _study_of(subject: Subject, points: int | None) -> Study:
    """Return the study of an adapter: cached for the last one, since tests ask for one property at a time."""
    if not (_last and _last[0].subject is subject):
        _last[:] = [Study(subject)]
    _last[0].points = points
    return _last[0]


def _chosen(only: str | Iterable[str] | None) -> list[str]:
    wanted = list(_PROPERTIES) if only is None else [only] if isinstance(only, str) else list(only)
    unknown = [name for name in wanted if name not in _PROPERTIES]
    if unknown:
        raise UsageError(f"there is no property {unknown[0]!r}: choose of {', '.join(_PROPERTIES)}")
    return wanted


def _verdict(study: Study, name: str, tool: str) -> Verdict:
    """Check one property of one tool, with each of its examples."""
    examples = study.examples(tool)
    if not examples:
        if name == _OF_ALL:
            why, mend = "it has no example, so nothing of it is shown", f"add Example({tool!r}, {{…}}) to the subject"
            return Verdict(name, tool, Word.FAILED, why, mend)
        return Verdict(name, tool, Word.NOT_APPLICABLE, "it has no example")
    passed = unsaid = ""
    for example in examples:
        at = f" [{shown(example)}]" if len(examples) > 1 else ""
        try:
            passed = _PROPERTIES[name](Trial(study, example, study.declaration(example))) or passed
        except Failed as failed:
            return Verdict(name, tool, Word.FAILED, f"{failed.why}{at}", failed.mend)
        except NotApplicable as why:
            unsaid = str(why)
        except Exception as error:
            told = f"it could not be looked at: {in_words(error)}{at}"
            return Verdict(name, tool, Word.FAILED, told, "let make(), world(), look() and the example succeed")
    return Verdict(name, tool, Word.PASSED if passed else Word.NOT_APPLICABLE, passed or unsaid)


__all__ = ["assert_conforms", "conformance", "properties"]
