"""Values: guards, keys, declarations, JSON."""

from __future__ import annotations

from settlemark._model import declare, identity
from settlemark._model.declaration import Registry
from settlemark._model.disposition import Disposed
from settlemark._model.guards import ALL_ON, Guards, guards_for
from settlemark._model.identity import ID_DIGITS, Numbering, beside_key, key_of, path_in, step_of
from settlemark._model.json_text import MOST_LEVELS, check, decode, encode, encode_result, fingerprint
from settlemark._model.scope import ScopeTemplate

__all__ = [
    "ALL_ON",
    "ID_DIGITS",
    "MOST_LEVELS",
    "Disposed",
    "Guards",
    "Numbering",
    "Registry",
    "ScopeTemplate",
    "beside_key",
    "check",
    "declare",
    "decode",
    "encode",
    "encode_result",
    "fingerprint",
    "guards_for",
    "identity",
    "key_of",
    "path_in",
    "step_of",
]
