"""Encrypts payloads under a key for each tenant: dropping the key erases them, in every copy and backup."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import secrets
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from settlemark._edges.errors import LedgerError, UsageError
from settlemark._edges.user_code import through
from settlemark._edges.wording import kind_of
from settlemark._model import json_text
from settlemark.ledger._payloads.unreadable import Erased

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

Key = str | bytes
Keys = Key | Sequence[Key] | None
KeySource = Keys | Callable[[str], Keys]

SEALED = '{"$sealed":'
DISCARDED = SEALED + '1,"key":"","n":"","c":""}'
"""Stands for a payload that came after its key was dropped."""

_KEY_BYTES = 32
_NONCE_BYTES = 12


def new_key() -> str:
    """Return a fresh key as text; keep it where secrets are kept, never in the ledger's own database.

    >>> len(base64.urlsafe_b64decode(new_key()))
    32
    """
    return base64.urlsafe_b64encode(secrets.token_bytes(_KEY_BYTES)).decode()


class _Ring(NamedTuple):
    """A tenant's current keys: the first encrypts, every one decrypts."""

    given: Any
    first: str
    ciphers: dict[str, AESGCM]
    fingerprints: list[bytes]


class Encryption:
    """AES-256-GCM under the keys of one tenant; each payload is bound to its namespace, effect and field.

    Args:
        keys: a key as `new_key` makes them (or its 32 bytes), several of them (the first encrypts, all decrypt), or a
            function of the tenant that returns either, or None when the tenant's key was dropped. It is called for each
            payload, so that dropping a key takes effect at once, and under the ledger's lock when payloads are read:
            answer from memory, and use no settlement.
        namespace: the ledger's.
        tenant: whose keys these are; by default the namespace.
        dropped: ids of dropped keys of a tenant that has others: what they encrypted is erased.

    Laws: what was encrypted for one place does not decrypt in another; without the key nothing decrypts. Replacing an
    encrypted payload by a plain one is not detected: ledgers may hold both. A key is good for 2**32 payloads: change to
    a new one, with the old one after it, well before.

    Raises:
        UsageError: a key is malformed, or the package `cryptography` is missing.
    """

    def __init__(
        self,
        keys: KeySource,
        *,
        namespace: str = "default",
        tenant: str | None = None,
        dropped: Collection[str] = (),
    ) -> None:
        self._source: Callable[[str], Keys] = keys if callable(keys) else lambda _: keys
        self.namespace = namespace
        self.tenant = namespace if tenant is None else tenant
        self._dropped = frozenset(dropped)
        self._ring: _Ring | None = None
        _aesgcm()
        if not callable(keys) and self._keys() is None:
            raise UsageError(f"encrypt= is {keys!r}: pass a key, as new_key() makes them")

    def seal(self, text: str, *, effect_key: str, field: str, again: bool = False) -> str | None:
        """Return the encrypted text, or None when the tenant has no key.

        With `again`, a failing function is not logged again.

        Raises:
            LedgerError: the function that returns the keys failed.
            UsageError: it returned a malformed key.
        """
        last = self._ring
        try:
            ring = self._keys()
        except (LedgerError, UsageError):
            if not again or last is None:
                raise
            ring = last
        if ring is None:
            return None
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = ring.ciphers[ring.first].encrypt(nonce, text.encode(), self._place(effect_key, field))
        return f'{SEALED}1,"key":"{ring.first}","n":"{_text(nonce)}","c":"{_text(sealed)}"}}'

    def open(self, envelope: str, *, effect_key: str, field: str) -> str:
        """Return the decrypted text, or `Erased` when its key was dropped.

        Raises:
            LedgerError: the tenant has other keys, or the envelope was changed or moved.
        """
        key_id, nonce, sealed = _read(envelope, effect_key, field)
        ring = self._keys()
        if not key_id:
            return Erased.of(field, "its key had been dropped before it came")
        if ring is None or key_id in self._dropped:
            return Erased.of(field, f"its key {key_id} is gone")
        cipher = ring.ciphers.get(key_id)
        if cipher is None:
            raise LedgerError(
                f"the {field} of {effect_key} is sealed under the key {key_id}, and encrypt= gives {self.tenant!r}"
                f" {', '.join(ring.ciphers)}: give that key as well, after the new one; if it was dropped on purpose,"
                f" pass encrypt=Encryption(..., dropped=[{key_id!r}])",
                key=effect_key,
                field=field,
                key_id=key_id,
            )
        from cryptography.exceptions import InvalidTag

        try:
            return cipher.decrypt(nonce, sealed, self._place(effect_key, field)).decode()
        except (InvalidTag, ValueError):
            raise _damaged(effect_key, field, "it was changed, or moved here from another place") from None

    def fingerprint_keys(self) -> list[bytes]:
        """Return a secret for digests under each key of the tenant, in order; none when it has no key."""
        ring = self._keys()
        return [] if ring is None else ring.fingerprints

    def _place(self, effect_key: str, field: str) -> bytes:
        return json_text.canonical(["settlemark/1", self.namespace, effect_key, field]).encode()

    def _keys(self) -> _Ring | None:
        try:
            given = through(self._source, self.tenant)
        except BaseException as error:
            raise LedgerError(
                f"encrypt= raised {kind_of(error)} when called for the key of {self.tenant!r}: see the cause below;"
                " nothing is recorded without its key",
                tenant=self.tenant,
            ) from error
        listed = _listed(given)
        ring = self._ring
        if ring is None or ring.given != listed:
            ring = self._ring = _ring(listed) if listed else None
        return ring


def encryption_of(given: KeySource | Encryption, *, namespace: str, tenant: str | None) -> Encryption | None:
    """Return the encryption for `encrypt=` in a ledger's namespace, or None.

    Raises:
        UsageError: it is for another namespace, or there is a tenant and nothing to encrypt with.
    """
    if isinstance(given, Encryption):
        if given.namespace != namespace or tenant not in (None, given.tenant):
            raise UsageError(
                f"encrypt= is an Encryption of {given.tenant!r} for the namespace {given.namespace!r}, and this is"
                f" {tenant or given.tenant!r} in {namespace!r}: make it with namespace={namespace!r} and"
                f" tenant={tenant or given.tenant!r}"
            )
        return given
    if given is None:
        if tenant is not None:
            raise UsageError(f"tenant={tenant!r} is whose key encrypt= gives, and there is none: pass encrypt= as well")
        return None
    return Encryption(given, namespace=namespace, tenant=tenant)


def envelope_key(envelope: str, *, effect_key: str, field: str) -> str:
    """Return the id of the key that an envelope names."""
    return _read(envelope, effect_key, field)[0]


def _ring(listed: tuple[Any, ...]) -> _Ring:
    cipher = _aesgcm()
    ciphers: dict[str, AESGCM] = {}
    fingerprints: list[bytes] = []
    for raw in map(_parsed, listed):
        # Not the key's own hash: the two uses of the key are kept apart, and neither reveals the other.
        ciphers.setdefault(_derived(raw, b"settlemark key id").hex()[:12], cipher(raw))
        fingerprints.append(_derived(raw, b"settlemark fingerprint"))
    return _Ring(listed, next(iter(ciphers)), ciphers, fingerprints)


def _derived(key: bytes, purpose: bytes) -> bytes:
    return hmac.digest(key, purpose, hashlib.sha256)


def _listed(given: Any) -> tuple[Any, ...]:
    """Return the given keys as a new list: the caller's may change."""
    if given is None:
        return ()
    return tuple(cast("Sequence[Any]", given)) if isinstance(given, list | tuple) else (given,)


def _parsed(key: Any) -> bytes:
    if isinstance(key, bytes | bytearray) and len(key) == _KEY_BYTES:
        return bytes(key)
    if not isinstance(key, str | bytes | bytearray):
        raise UsageError(f"a key of encrypt= is a {type(key).__name__}: pass a text, as new_key() makes them")
    try:
        text = (key if isinstance(key, str) else bytes(key).decode()).strip().rstrip("=")
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise UsageError(
            "a key of encrypt= is not base64 text: make one with new_key(); a passphrase is not a key"
        ) from None
    if len(raw) != _KEY_BYTES:
        raise UsageError(f"a key of encrypt= has {len(raw)} bytes and needs {_KEY_BYTES}: make one with new_key()")
    return raw


def _aesgcm() -> type[AESGCM]:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise UsageError("encrypt= needs the package cryptography: pip install 'settlemark[encrypt]'") from None
    return AESGCM


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _read(envelope: str, effect_key: str, field: str) -> tuple[str, bytes, bytes]:
    try:
        read: dict[str, Any] = json.loads(envelope)
        version, key_id = read["$sealed"], str(read["key"])
        nonce, sealed = (base64.b64decode(read[part], validate=True) for part in ("n", "c"))
    except (ValueError, KeyError, TypeError):
        raise _damaged(effect_key, field, "its envelope is broken") from None
    if version != 1:
        raise LedgerError(
            f"the {field} of {effect_key} is sealed in the format {version}, which this settlemark does not know:"
            " install the one that wrote it",
            key=effect_key,
            field=field,
        )
    return key_id, nonce, sealed


def _damaged(effect_key: str, field: str, how: str) -> LedgerError:
    return LedgerError(
        f"the {field} of {effect_key} cannot be opened: {how}; nothing of it was used; restore it from a backup",
        key=effect_key,
        field=field,
    )


__all__ = [
    "DISCARDED",
    "SEALED",
    "Encryption",
    "Key",
    "KeySource",
    "encryption_of",
    "envelope_key",
    "new_key",
]
