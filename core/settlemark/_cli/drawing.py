"""Whether a picture can be drawn into a file: checked before the work that it shows."""

from __future__ import annotations

import os
from pathlib import Path


def why_not(path: Path) -> str | None:
    """Return why no picture can be written there, and what to name instead; None if it can.

    Raises:
        ImportError: the plotting library is not installed (extra `plot`).

    >>> why_not(Path("nowhere/trip.png"))
    'there is no folder nowhere to draw trip.png in: make it, or name another file'
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    formats = FigureCanvasAgg.get_supported_filetypes()
    if path.suffix.removeprefix(".").lower() not in formats:
        return f"{path} names no format that can be drawn: end it in .png or .svg"
    if not path.parent.is_dir():
        return f"there is no folder {path.parent} to draw {path.name} in: make it, or name another file"
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        return f"{path} may not be written: name another file"
    return None


__all__ = ["why_not"]
