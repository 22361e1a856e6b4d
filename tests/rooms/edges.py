"""Where core meets what is not its own: text, signals, answers of programs."""

from __future__ import annotations

from settlemark._edges import errors, shield
from settlemark._edges.alive import Alive
from settlemark._edges.plain import plain, plain_json, plain_traceback
from settlemark._edges.shield import HEADROOM
from settlemark._edges.text import DERIVED, NAME, NAMESPACE, TOOL, WHO
from settlemark._edges.user_code import Ended, Through, Unfinished, ended, through
from settlemark._edges.wording import MOST, is_a

__all__ = [
    "DERIVED",
    "HEADROOM",
    "MOST",
    "NAME",
    "NAMESPACE",
    "TOOL",
    "WHO",
    "Alive",
    "Ended",
    "Through",
    "Unfinished",
    "ended",
    "errors",
    "is_a",
    "plain",
    "plain_json",
    "plain_traceback",
    "shield",
    "through",
]
