"""Without its key a payload is gone; with it, it opens in its own place alone."""

from __future__ import annotations

import base64
import json
import secrets
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from settlemark import Encryption, Erased, LedgerError, UsageError, new_key
from settlemark.ledger._payloads.encryption import encryption_of

pytest.importorskip("cryptography")

texts = st.text(st.characters(exclude_categories=["Cs"]))
EFFECT = "trip#1/0"


def sealed(encryption, text="{}", *, effect_key=EFFECT, field="arguments"):
    envelope = encryption.seal(text, effect_key=effect_key, field=field)
    assert envelope is not None
    return envelope


def opened(encryption, envelope, *, effect_key=EFFECT, field="arguments"):
    return encryption.open(envelope, effect_key=effect_key, field=field)


def key_id(envelope):
    return json.loads(envelope)["key"]


# ---- tenants


@given(texts)
def test_dropping_a_tenants_key_erases_what_is_theirs_and_nothing_else(text):
    keys = {"acme": new_key(), "bolt": new_key()}
    acme, bolt = (Encryption(keys.get, namespace=tenant) for tenant in keys)
    ours, theirs = sealed(acme, text), sealed(bolt, text)

    del keys["acme"]

    gone = opened(acme, ours)
    assert isinstance(gone, Erased)
    assert gone == f'{{"$erased":"its key {key_id(ours)} is gone"}}'
    assert acme.seal(text, effect_key=EFFECT, field="arguments") is None
    assert acme.fingerprint_keys() == []
    assert opened(bolt, theirs) == text


@pytest.mark.parametrize(("namespace", "tenant", "whose"), [("other", None, "acme"), ("desk", "bolt", "bolt")])
def test_an_encryption_of_another_namespace_or_tenant_is_refused_and_told_which_one_to_make(namespace, tenant, whose):
    ours = Encryption(new_key(), namespace="desk", tenant="acme")
    with pytest.raises(UsageError) as refused:
        encryption_of(ours, namespace=namespace, tenant=tenant)
    assert str(refused.value) == (
        f"encrypt= is an Encryption of 'acme' for the namespace 'desk', and this is {whose!r} in {namespace!r}:"
        f" make it with namespace={namespace!r} and tenant={whose!r}"
    )
    assert encryption_of(ours, namespace="desk", tenant="acme") is ours


def test_a_dropped_key_is_let_go_of():
    keys = {"acme": new_key()}
    acme = Encryption(keys.get, namespace="acme")
    envelope = sealed(acme)
    keys.clear()
    opened(acme, envelope)
    assert acme._ring is None


def test_a_sentence_that_was_erased_reads_as_a_sentence():
    keys = {"acme": new_key()}
    acme = Encryption(keys.get, namespace="acme")
    envelope = sealed(acme, "401", field="error")
    keys.clear()
    gone = opened(acme, envelope, field="error")
    assert gone == f"erased: its key {key_id(envelope)} is gone"


def test_the_function_is_asked_for_the_tenant():
    asked = []
    key = new_key()

    def keys(tenant):
        asked.append(tenant)
        return key

    sealed(Encryption(keys, namespace="acme"))
    sealed(Encryption(keys, namespace="acme", tenant="acme/eu"))
    assert asked == ["acme", "acme/eu"]


def test_a_function_that_fails_is_named_and_its_error_kept():
    def keys(tenant):
        raise ConnectionError("the vault is sealed")

    with pytest.raises(LedgerError, match="encrypt= raised ConnectionError when called for the key of 'acme'") as e:
        sealed(Encryption(keys, namespace="acme"))
    assert isinstance(e.value.__cause__, ConnectionError)


# ---- several keys


@given(texts)
def test_the_first_key_seals_and_every_key_opens(text):
    old, new = new_key(), new_key()
    before, after = Encryption(old), Encryption([new, old])
    envelope = sealed(before, text)
    assert opened(after, envelope) == text
    assert opened(Encryption(new), sealed(after, text)) == text


def test_a_list_that_is_changed_in_place_is_seen():
    keys = [new_key()]
    encryption = Encryption(lambda tenant: keys)
    envelope = sealed(encryption)
    keys.clear()
    assert isinstance(opened(encryption, envelope), Erased)


def test_another_key_is_an_error_that_says_what_to_give():
    envelope = sealed(Encryption(new_key(), namespace="acme"))
    other = Encryption(new_key(), namespace="acme")
    with pytest.raises(LedgerError, match="give that key as well, after the new one") as raised:
        opened(other, envelope)
    assert raised.value.data == {"key": EFFECT, "field": "arguments", "key_id": key_id(envelope)}


def test_a_key_that_is_said_to_be_dropped_has_erased_its_payloads_alone():
    old, new = new_key(), new_key()
    ours, theirs = sealed(Encryption(old)), sealed(Encryption(new))
    encryption = Encryption(new, dropped=[key_id(ours)])
    assert isinstance(opened(encryption, ours), Erased)
    assert opened(encryption, theirs) == "{}"


# ---- tampering


@given(texts, st.data())
def test_what_was_changed_does_not_open(text, data):
    encryption = Encryption(new_key())
    parts = json.loads(sealed(encryption, text))
    name = data.draw(st.sampled_from(["n", "c"]))
    raw = bytearray(base64.b64decode(parts[name]))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    parts[name] = base64.b64encode(raw).decode()
    with pytest.raises(LedgerError, match="the arguments of trip#1/0 cannot be opened: it was changed, or moved"):
        opened(encryption, json.dumps(parts))


@given(texts, st.data())
def test_what_was_cut_short_does_not_open(text, data):
    encryption = Encryption(new_key())
    parts = json.loads(sealed(encryption, text))
    name = data.draw(st.sampled_from(["n", "c"]))
    raw = base64.b64decode(parts[name])
    parts[name] = base64.b64encode(raw[: data.draw(st.integers(0, len(raw) - 1))]).decode()
    with pytest.raises(LedgerError, match="cannot be opened"):
        opened(encryption, json.dumps(parts))


@pytest.mark.parametrize(
    "place", [{"effect_key": "trip#1/1"}, {"field": "result"}, {"effect_key": 'trip#1/0","arguments'}]
)
def test_what_was_moved_does_not_open(place):
    encryption = Encryption(new_key())
    with pytest.raises(LedgerError, match="it was changed, or moved here from another place"):
        opened(encryption, sealed(encryption), **place)


def test_what_was_moved_to_another_namespace_does_not_open_even_under_the_same_key():
    key = new_key()
    with pytest.raises(LedgerError, match="moved here from another place"):
        opened(Encryption(key, namespace="bolt"), sealed(Encryption(key, namespace="acme")))


@pytest.mark.parametrize(
    "envelope",
    [
        '{"$sealed":1',
        '{"$sealed":1,"key":"a"}',
        '{"$sealed":1,"key":"a","n":1,"c":""}',
        '{"$sealed":1,"key":"","n":"!","c":""}',
    ],
)
def test_a_broken_envelope_is_refused(envelope):
    with pytest.raises(LedgerError, match="its envelope is broken; nothing of it was used; restore it from a backup"):
        opened(Encryption(new_key()), envelope)


def test_a_later_format_is_refused_by_name():
    with pytest.raises(LedgerError, match="sealed in the format 2, which this settlemark does not know: install"):
        opened(Encryption(new_key()), '{"$sealed":2,"key":"a","n":"","c":""}')


# ---- keys


def test_every_way_to_write_a_key_is_the_same_key():
    raw = secrets.token_bytes(32)
    text = base64.urlsafe_b64encode(raw).decode()
    envelope = sealed(Encryption(raw))
    ways = [bytearray(raw), text, text.rstrip("="), f"{text}\n", text.encode(), base64.b64encode(raw).decode()]
    for way in ways:
        assert opened(Encryption(way), envelope) == "{}"


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("", "encrypt= has 0 bytes and needs 32: make one with new_key()"),
        ("c2hvcnQ=", "encrypt= has 5 bytes and needs 32: make one with new_key()"),
        (b"\xff" * 16, "encrypt= is not base64 text: make one with new_key(); a passphrase is not a key"),
        (
            "correct horse battery staple",
            "encrypt= is not base64 text: make one with new_key(); a passphrase is not a key",
        ),
        (7, "encrypt= is a int: pass a text, as new_key() makes them"),
        ([None], "encrypt= is a NoneType: pass a text, as new_key() makes them"),
        ([], "encrypt= is []: pass a key, as new_key() makes them"),
        (None, "encrypt= is None: pass a key, as new_key() makes them"),
    ],
)
def test_what_is_no_key_is_refused_at_once_and_not_repeated(key, told):
    with pytest.raises(UsageError) as raised:
        Encryption(key)
    assert told in str(raised.value)
    assert "horse" not in str(raised.value)


def test_without_its_package_encryption_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    with pytest.raises(UsageError, match=r"pip install 'settlemark\[encrypt\]'"):
        Encryption(new_key())
