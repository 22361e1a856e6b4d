"""Packs payloads into their columns: plain text, an encrypted envelope, or the digest of a blob.

On the way in a payload is redacted, encrypted, and moved to a blob when it is long; on the way out the last two are
reversed. A user's text that looks like one of these forms is wrapped, and comes back unchanged.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

from settlemark._edges.errors import InternalError, LedgerError, SettlemarkError
from settlemark._model import json_text
from settlemark._observe.logs import about
from settlemark.ledger._payloads.redaction import OF_BODIES, Redaction, scrub
from settlemark.ledger._payloads.unreadable import Damaged, Outdated, Sealed, Unreadable

if TYPE_CHECKING:
    from settlemark.ledger._payloads.encryption import Encryption

Field = Literal["arguments", "result", "rationale", "error", "note", "said", "body"]

LIMIT = 65_536
"""Bytes of UTF-8 that a column holds; longer texts become blobs."""
REF = '{"$ref":"'
_REF = '{"$ref":'
_SEALED = '{"$sealed":'
_PLAIN = '{"$plain":'
_PRUNED = '{"$pruned":'
_OURS = (_REF, _SEALED, _PLAIN, _PRUNED)
PRUNED = _PRUNED + "1}"
"""Stands for a payload that retention removed."""
PRUNED_WHY = "older than this ledger's record is kept"
_MARK = '{"$'
_WIDEST = 4  # bytes of UTF-8 in one character
_REMEMBERED = 65_536
_KEYED = "k"  # not hexadecimal: tells a keyed fingerprint from a plain one
_FINGERPRINT = 32

_log = logging.getLogger("settlemark")


class Blob(NamedTuple):
    """A content that is kept by reference: what the column would have held."""

    digest: str
    size: int
    content: str


class Packed(str):  # noqa: SLOT000 - it carries its blobs
    """A packed column's text with its blobs: packed before a step, not within."""

    blobs: tuple[Blob, ...] = ()

    @classmethod
    def of(cls, text: str, blobs: Iterable[Blob]) -> Self:
        """Return a text marked as packed."""
        made = cls(text)
        made.blobs = tuple(blobs)
        return made


class Packer:
    """Packs payloads for the store, and unpacks them.

    Args:
        redaction: removes fields, before all else.
        encryption: encrypts the rest.
        limit: the longest text in a column, in bytes; longer ones become blobs.
        salt: the ledger's own random text, under which fingerprints are made when payloads are secret.
        url: the ledger's, as it may be shown.

    Law: `unpack` of `pack` is the payload without its redacted fields, whatever it looks like.

    >>> payloads, blobs = Packer(limit=8), []
    >>> stored = payloads.pack('"a long text"', effect_key="trip#1/0", tool="say", field="result", blobs=blobs)
    >>> stored[:16], len(blobs)
    ('{"$ref":"sha256:', 1)
    >>> payloads.unpack(stored, effect_key="trip#1/0", field="result", fetch=lambda digest: blobs[0].content)
    '"a long text"'
    """

    def __init__(
        self,
        *,
        redaction: Redaction | None = None,
        encryption: Encryption | None = None,
        limit: int = LIMIT,
        salt: str = "",
        url: str = "",
    ) -> None:
        self.plain = redaction is None and encryption is None
        self.redaction = redaction
        self._declared: dict[str, Redaction] = {}
        self._encryption = encryption
        self._limit = limit
        self._surely_short = limit // _WIDEST
        self._salt = salt.encode()
        self._url = url
        self._secrets: OrderedDict[str, frozenset[str]] = OrderedDict()  # others look into it at any time
        self._lock = threading.Lock()

    def withhold(self, tool: str, fields: Sequence[str]) -> None:
        """Redact these fields of a tool's payloads from now on, as its declaration asks.

        Raises:
            UsageError: a path is malformed.
        """
        known = self._declared.get(tool)
        if known is None or known.given != tuple(fields):
            self._declared[tool] = Redaction(fields)
            self.plain = False

    def redactions(self, tool: str) -> list[Redaction]:
        """Return the redaction of a tool's payloads: the ledger's, and its declaration's."""
        return [found for found in (self.redaction, self._declared.get(tool)) if found is not None]

    def pack(self, text: str | None, *, effect_key: str, tool: str, field: Field, blobs: list[Blob]) -> str | None:
        """Return the column's text; a blob to store in the same database transaction is appended.

        Pack an effect's arguments and result before its texts: these are scrubbed of the secrets in those.

        Raises:
            LedgerError: the tenant has no key, or none could be had; nothing may run unrecorded.
        """
        if text is None or (self.plain and len(text) <= self._surely_short and text[:3] != _MARK):
            return text
        if isinstance(text, Packed):
            blobs.extend(text.blobs)
            return str(text)
        if isinstance(text, Unreadable) and text.stored:
            return text.stored  # written back unchanged: a reader with its key can still read it
        for redaction in self.redactions(tool):
            text = self._redacted(redaction, text, effect_key, tool, field)
        stored = self._sealed(text, effect_key, field)
        if len(stored) <= self._surely_short:
            return stored
        raw = stored.encode()
        if len(raw) <= self._limit:
            return stored
        digest = f"sha256:{hashlib.sha256(raw).hexdigest()}"
        blobs.append(Blob(digest, len(raw), stored))
        return f'{REF}{digest}","size":{len(raw)}}}'

    def packed(self, text: str | None, *, effect_key: str, tool: str, field: Field) -> str | None:
        """Return a text that `pack` leaves as it is: redaction and keys are then used before a step, outside its lock.

        Raises:
            LedgerError: as `pack`.
        """
        if text is None or self.plain or isinstance(text, Unreadable):
            return text
        blobs: list[Blob] = []
        try:
            stored = self.pack(text, effect_key=effect_key, tool=tool, field=field, blobs=blobs)
        except LedgerError as error:
            error.data.setdefault("url", self._url)
            raise
        return None if stored is None else Packed.of(stored, blobs)

    def unpack(self, stored: str | None, *, effect_key: str, field: Field, fetch: Callable[[str], str]) -> str | None:
        """Return a column's payload, or an `Unreadable` text when its key was dropped or not given.

        Args:
            stored: the column's text.
            effect_key: the effect's key.
            field: the column.
            fetch: returns a blob's content by its digest; raises `LookupError` if it is missing.

        Raises:
            LedgerError: it was changed, its blob is missing, or the tenant has other keys.
        """
        if stored is None or stored[:3] != _MARK:
            return stored
        text = self._unpacked(stored, effect_key, field, fetch)
        if isinstance(text, Unreadable):
            text.stored = stored
        return text

    def read(self, stored: str | None, *, effect_key: str, field: Field, fetch: Callable[[str], str]) -> str | None:
        """Unpack as `unpack`, with a `Damaged` text in place of an error: one payload must not hide the others."""
        if stored is None or stored[:3] != _MARK:
            return stored
        try:
            return self.unpack(stored, effect_key=effect_key, field=field, fetch=fetch)
        except SettlemarkError as error:
            text = Damaged.of(field, str(error))
            text.stored = stored
            return text

    def _unpacked(self, stored: str, effect_key: str, field: Field, fetch: Callable[[str], str]) -> str:
        if stored.startswith(_REF):
            stored = _fetched(stored, effect_key, field, fetch)
        if stored.startswith(_SEALED):
            return self._opened(stored, effect_key, field)
        if stored.startswith(_PRUNED):
            return Outdated.of(field, PRUNED_WHY)
        if stored.startswith(_PLAIN):
            try:
                return str(json_text.decode(stored)["$plain"])
            except (ValueError, KeyError):
                raise _broken(effect_key, field, "its text is cut off") from None
        return stored

    def redact(self, text: str, *, tool: str) -> str:
        """Return arguments that may be shown to anybody: in an error, a log or a hook."""
        for redaction in self.redactions(tool):
            text = redaction.payload(text, tool=tool).text
        return text

    def scrub(self, text: str, effect_keys: Iterable[str]) -> str:
        """Return a text about effects without the secrets that were redacted from them."""
        secrets = {secret for key in effect_keys for secret in self._secrets.get(key, ())}
        return scrub(text, secrets) if secrets else text

    @property
    def encrypts(self) -> bool:
        """Whether payloads are encrypted: what stands beside them is then told nothing that they may have."""
        return self._encryption is not None

    def cause(self, text: str, effect_keys: Iterable[str]) -> str:
        """Return an abort's cause as recorded beside the effects, where nothing is encrypted.

        Of a cause that may quote a payload only the exception's class stays.
        """
        if self._encryption is None:
            return self.scrub(text, effect_keys)
        kind, found, _ = text.partition(":")
        return kind if found and kind.replace(".", "").isidentifier() else "told to its caller"

    def learn(self, arguments: str, *, effect_key: str, tool: str) -> None:
        """Remember the secrets in arguments that are given again, and were recorded without them."""
        for redaction in self.redactions(tool):
            self._redacted(redaction, arguments, effect_key, tool, "arguments")

    def forget(self, effect_key: str) -> None:
        """Forget an effect's secrets: nothing more will be recorded about it."""
        with self._lock:
            self._secrets.pop(effect_key, None)

    # ---- the identity of a decision

    def fingerprint(self, arguments: str, *, effect_key: str) -> str:
        """Return a digest of a decision's arguments, as they were before redaction.

        Where payloads are secret it is keyed, by the tenant's key or else the ledger's salt, and differs from effect to
        effect. The salt is in the same database: it defeats precomputed tables and comparisons between rows, but not
        a reader of the database who guesses a short secret; encryption does.

        >>> Packer().fingerprint("{}", effect_key="trip#1/0") == json_text.fingerprint("{}")
        True
        """
        if self.plain:
            return json_text.fingerprint(arguments)
        try:
            return self._keyed(arguments, effect_key)[0]
        except LedgerError as error:
            error.data.setdefault("url", self._url)
            raise

    def same(self, arguments: str, fingerprint: str, *, effect_key: str) -> bool:
        """Whether a fingerprint was made of these arguments, under any of the keys."""
        if not fingerprint.startswith(_KEYED):
            return hmac.compare_digest(json_text.fingerprint(arguments), fingerprint)
        return any(hmac.compare_digest(found, fingerprint) for found in self._keyed(arguments, effect_key))

    def _keyed(self, arguments: str, effect_key: str) -> list[str]:
        if not self._salt:
            raise InternalError("a ledger with redaction or encryption has no salt")
        keys = [] if self._encryption is None else self._encryption.fingerprint_keys()
        if self._encryption is not None and not keys:
            raise _no_key(self._encryption, effect_key, "arguments")
        message = json_text.canonical([effect_key, arguments]).encode()
        # The salt alone comes last: rows from before encryption use it.
        return [_digest(self._salt + key, message) for key in (*keys, b"")]

    # ---- the steps

    def _redacted(self, redaction: Redaction, text: str, effect_key: str, tool: str, field: Field) -> str:
        if field not in ("arguments", "result", "body"):
            return scrub(text, self._secrets.get(effect_key, ()))
        found = redaction.payload(
            text, tool=tool, whole=field == "result", only=OF_BODIES.get(tool) if field == "body" else None
        )
        if found.secrets:
            with self._lock:
                self._secrets[effect_key] = self._secrets.get(effect_key, frozenset()) | found.secrets
                self._secrets.move_to_end(effect_key)
                # Effects that never finish must not fill the memory.
                while len(self._secrets) > _REMEMBERED:
                    self._secrets.popitem(last=False)
        if not found.text.startswith('{"$repr":'):
            return found.text
        # A result that JSON cannot hold is a text, without fields.
        secrets = self._secrets.get(effect_key, frozenset())
        told = json_text.decode(found.text)
        return json_text.encode({key: scrub(v, secrets) if isinstance(v, str) else v for key, v in told.items()})

    def _sealed(self, text: str, effect_key: str, field: Field) -> str:
        if self._encryption is None:
            return json_text.encode({"$plain": text}) if text.startswith(_OURS) else text
        happened = field not in ("arguments", "rationale", "body")
        try:
            sealed = self._encryption.seal(text, effect_key=effect_key, field=field, again=happened)
        except SettlemarkError as error:
            if not happened:
                raise LedgerError(str(error), **{"key": effect_key, "field": field, **error.data}) from error
            told = about(key=effect_key, field=field)
            _log.error("the %s of %s is lost: %s", field, effect_key, error, extra=told)
            sealed = None
        if sealed is not None:
            return sealed
        if not happened:
            raise _no_key(self._encryption, effect_key, field)
        # It has happened, so its outcome must be recorded; its text is lost with its key.
        from settlemark.ledger._payloads.encryption import DISCARDED

        return DISCARDED

    def _opened(self, envelope: str, effect_key: str, field: Field) -> str:
        if self._encryption is not None:
            return self._encryption.open(envelope, effect_key=effect_key, field=field)
        from settlemark.ledger._payloads.encryption import envelope_key

        key_id = envelope_key(envelope, effect_key=effect_key, field=field)
        return Sealed.of(field, f"under the key {key_id}: give encrypt= to read it")


def _digest(key: bytes, message: bytes) -> str:
    return _KEYED + hmac.digest(key, message, "sha256").hex()[: _FINGERPRINT - len(_KEYED)]


def _fetched(reference: str, effect_key: str, field: Field, fetch: Callable[[str], str]) -> str:
    try:
        digest = str(json_text.decode(reference)["$ref"])
        content = fetch(digest)
    except ValueError:
        raise _broken(effect_key, field, "its reference is cut off") from None
    except LookupError:
        raise _broken(effect_key, field, "its content is missing from the ledger") from None
    if digest != f"sha256:{hashlib.sha256(content.encode()).hexdigest()}":
        raise _broken(effect_key, field, "its content was changed")
    return content


def _broken(effect_key: str, field: Field, how: str) -> LedgerError:
    return LedgerError(
        f"the {field} of {effect_key} cannot be read: {how}; restore the ledger from a backup",
        key=effect_key,
        field=field,
    )


def _no_key(encryption: Encryption, effect_key: str, field: Field) -> LedgerError:
    return LedgerError(
        f"encrypt= gives no key for {encryption.tenant!r}, so the {field} of {effect_key} cannot be recorded, and"
        " nothing was run: return a key for this tenant, or use another namespace",
        key=effect_key,
        field=field,
        tenant=encryption.tenant,
    )


__all__ = ["LIMIT", "PRUNED", "PRUNED_WHY", "REF", "Blob", "Field", "Packed", "Packer"]
