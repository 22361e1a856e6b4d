"""All that is made of the code: `docs/reference`, and diagrams."""

from __future__ import annotations

from pathlib import Path

from tests.reference import api, cli, diagrams, errors, settings

DOCS = Path(__file__).parents[2] / "docs"
REFERENCE = DOCS / "reference"
DIAGRAMS = DOCS / "diagrams"


def made() -> dict[Path, str]:
    """Return what stands in each file that is made."""
    pages = {REFERENCE / name: text for maker in (api, cli, errors, settings) for name, text in maker.pages().items()}
    return pages | {DIAGRAMS / name: text for name, text in diagrams.pictures().items()}


def _there() -> set[Path]:
    return {path for folder in (REFERENCE, DIAGRAMS) for path in folder.rglob("*") if path.is_file()}


def old() -> list[str]:
    """Return the files that are not what the code says, those that nothing makes any more too."""
    now = made()
    wrong = {path for path, text in now.items() if not path.exists() or path.read_text() != text}
    wrong |= _there() - set(now)
    return sorted(path.relative_to(DOCS).as_posix() for path in wrong)


def write() -> None:
    """Make every file anew."""
    now = made()
    for path in _there() - set(now):
        path.unlink()
    for path, text in now.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
