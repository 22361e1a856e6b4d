"""How a guess is marked that a person has not decided; what is read of a function, and the shape of a scope."""

from __future__ import annotations

from settlemark.lint._source.bindings import Bindings
from settlemark.lint._source.reading import read
from settlemark.lint._source.templates import Template
from settlemark.lint._undecided import marked

__all__ = ["Bindings", "Template", "marked", "read"]
