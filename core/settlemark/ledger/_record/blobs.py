"""Payloads too long for a row: stored once for each content, by digest, and removed with the last reference.

A row says which transaction refers to which content: removing the last such row removes the content.
"""

from __future__ import annotations

from settlemark.ledger._payloads.payloads import Blob
from settlemark.ledger._sql.wire import Statement, Wire


class Blobs:
    """The blobs of one namespace, in the open transaction of a wire.

    That transaction has locked the head of the namespace's log, so that nobody else stores or removes one meanwhile.
    """

    __slots__ = ("_namespace", "_wire")

    def __init__(self, wire: Wire, namespace: str) -> None:
        self._wire = wire
        self._namespace = namespace

    def store(self, found: list[Blob], effect_key: str) -> None:
        """Store contents that a payload of this effect refers to; existing ones stay."""
        for digest, size, content in found:
            here = {"namespace": self._namespace, "digest": digest}
            self._wire.execute(_STORE, {**here, "size": size, "content": content})
            self._wire.execute(_USE, {**here, "key": effect_key})

    def keep(self, found: list[Blob], name: str, number: int) -> None:
        """Store contents that something else refers to, under a name and a number that no attempt has."""
        for digest, size, content in found:
            here = {"namespace": self._namespace, "digest": digest}
            self._wire.execute(_STORE, {**here, "size": size, "content": content})
            self._wire.execute(_USE_BY, {**here, "name": name, "attempt": number})

    def fetch(self, digest: str) -> str:
        """Return a content.

        Raises:
            LookupError: it is missing.
        """
        for (content,) in self._wire.query(_FETCH, {"namespace": self._namespace, "digest": digest}):
            return str(content)
        raise LookupError(digest)

    def forget(self, name: str, attempt: int) -> None:
        """Remove one attempt's references, and the contents that no other refers to."""
        here = {"namespace": self._namespace, "name": name, "attempt": attempt}
        self._wire.execute(_DROP, here)
        self._wire.execute(_DISUSE, here)


_STORE = Statement(
    "INSERT INTO settlemark_blob (namespace, digest, size, content)"
    " VALUES (:namespace, :digest, :size, :content) ON CONFLICT DO NOTHING"
)
_USE = Statement(
    "INSERT INTO settlemark_blob_use (namespace, name, attempt, digest)"
    " SELECT namespace, name, attempt, :digest FROM settlemark_effect WHERE namespace = :namespace AND key = :key"
    " ON CONFLICT DO NOTHING"
)
_USE_BY = Statement(
    "INSERT INTO settlemark_blob_use (namespace, name, attempt, digest) VALUES (:namespace, :name, :attempt, :digest)"
)
_FETCH = Statement("SELECT content FROM settlemark_blob WHERE namespace = :namespace AND digest = :digest")
_OWN = "namespace = :namespace AND name = :name AND attempt = :attempt"
_DROP = Statement(
    "DELETE FROM settlemark_blob WHERE namespace = :namespace"  # noqa: S608 - constant text
    f" AND digest IN (SELECT digest FROM settlemark_blob_use WHERE {_OWN})"
    " AND NOT EXISTS (SELECT 1 FROM settlemark_blob_use AS other WHERE other.namespace = :namespace"
    " AND other.digest = settlemark_blob.digest AND NOT (other.name = :name AND other.attempt = :attempt))"
)
_DISUSE = Statement(f"DELETE FROM settlemark_blob_use WHERE {_OWN}")  # noqa: S608 - no value is in it

__all__ = ["Blobs"]
