"""What is packed for a column comes back as it was, whatever it looks like, and whatever was asked for."""

from __future__ import annotations

import hashlib
import json
import re
import sys

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from tests.rooms.ledger import Said, storable
from tests.rooms.model import decode, encode, encode_result, fingerprint
from tests.rooms.payloads import DISCARDED, Damaged, Outdated, Redaction, Sealed

from settlemark import Encryption, Erased, InternalError, LedgerError, Outcome, new_key
from settlemark.ledger import OutcomeChange, Packer
from settlemark.ledger._payloads.payloads import LIMIT, PRUNED, Blob

pytest.importorskip("cryptography")

texts = st.text(st.characters(exclude_categories=["Cs"]))
ours = st.sampled_from(["$ref", "$sealed", "$plain", "$redacted", "$erased", "$repr"])
leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts | ours, inner, max_size=3), max_leaves=10
)
fields = st.sampled_from(["arguments", "result"])
sentences = st.sampled_from(["rationale", "error", "note"])
limits = st.sampled_from([0, 16, LIMIT, sys.maxsize])

KEY = new_key()
EFFECT = "trip#1/0"
SALT = "a ledger's own salt"
LOOKALIKES = [
    {"$ref": "sha256:" + "0" * 64, "size": 70_000},
    {"$sealed": 1, "key": "", "n": "", "c": ""},
    {"$sealed": 1, "key": "9f3c21aa0b4d", "n": "AAAA", "c": "AAAA"},
    {"$plain": "text"},
    {"$plain": 1},
    {"$ref": None},
]


class Shelf:
    """Payloads, and the blobs that they put aside."""

    def __init__(self, **options):
        self.payloads = Packer(**options)
        self.blobs: dict[str, str] = {}

    def pack(self, text, field="arguments", *, effect_key=EFFECT, tool="pay"):
        blobs: list[Blob] = []
        stored = self.payloads.pack(text, effect_key=effect_key, tool=tool, field=field, blobs=blobs)
        self.blobs.update((blob.digest, blob.content) for blob in blobs)
        return stored

    def unpack(self, stored, field="arguments", *, effect_key=EFFECT):
        return self.payloads.unpack(stored, effect_key=effect_key, field=field, fetch=self.blobs.__getitem__)


def shelves(limit):
    return [
        Shelf(limit=limit),
        Shelf(limit=limit, redaction=Redaction(["no such field"])),
        Shelf(limit=limit, redaction=Redaction(lambda tool, path, value: value)),
        Shelf(limit=limit, encryption=Encryption(KEY)),
        Shelf(limit=limit, redaction=Redaction([]), encryption=Encryption([new_key(), KEY])),
    ]


# ---- round trips


@given(values, fields, limits)
def test_any_payload_comes_back_as_it_was(value, field, limit):
    text = encode(value)
    for shelf in shelves(limit):
        assert shelf.unpack(shelf.pack(text, field), field) == text


@given(texts | st.sampled_from([json.dumps(value, separators=(",", ":")) for value in LOOKALIKES]), sentences, limits)
@example('{"$ref":', "error", 16)
@example('{"$sealed":broken', "note", 16)
@example('{"$plain":', "rationale", LIMIT)
def test_any_sentence_comes_back_as_it_was(text, field, limit):
    for shelf in shelves(limit):
        assert shelf.unpack(shelf.pack(text, field), field) == text


@pytest.mark.parametrize("value", LOOKALIKES, ids=encode)
@pytest.mark.parametrize("limit", [0, LIMIT])
def test_a_users_payload_that_looks_like_one_of_ours_is_only_a_payload(value, limit):
    text = encode(value)
    for shelf in shelves(limit):
        stored = shelf.pack(text)
        assert stored != text
        assert shelf.unpack(stored) == text


@given(values)
def test_what_was_packed_can_be_packed_again(value):
    text = encode(value)
    for shelf in shelves(LIMIT):
        once = shelf.pack(text)
        assert shelf.unpack(shelf.unpack(shelf.pack(once))) == text


def test_what_is_absent_stays_absent():
    for shelf in shelves(0):
        assert shelf.pack(None, "result") is None
        assert shelf.unpack(None, "result") is None


def test_without_options_a_short_payload_is_stored_as_it_is():
    shelf = Shelf()
    text = encode({"to": "Ada"})
    assert shelf.payloads.plain
    assert shelf.pack(text) is text
    assert shelf.unpack(text) is text
    assert shelf.blobs == {}


# ---- by reference


@pytest.mark.parametrize("letter", ["a", "é", "漢", "😀"])
def test_a_payload_of_64_kb_stands_in_its_column_and_a_byte_more_is_put_aside(letter):
    shelf = Shelf()
    width = len(letter.encode())
    fits = "x" * (LIMIT % width) + letter * (LIMIT // width)
    assert shelf.pack(fits, "note") == fits
    assert shelf.blobs == {}

    longer = fits + "x"
    stored = shelf.pack(longer, "note")

    digest = "sha256:" + hashlib.sha256(longer.encode()).hexdigest()
    assert decode(stored) == {"$ref": digest, "size": LIMIT + 1}
    assert shelf.blobs == {digest: longer}
    assert shelf.unpack(stored, "note") == longer


def test_the_same_content_is_one_blob_and_what_is_sealed_is_never_the_same():
    text = encode("x" * 100)
    plain, sealed = Shelf(limit=50), Shelf(limit=50, encryption=Encryption(KEY))
    for shelf in (plain, sealed):
        shelf.pack(text, effect_key="trip#1/0")
        shelf.pack(text, effect_key="trip#1/1")
    assert len(plain.blobs) == 1
    assert len(sealed.blobs) == 2


def test_a_blob_that_was_changed_is_refused():
    shelf = Shelf(limit=50)
    stored = shelf.pack(encode("x" * 100))
    shelf.blobs = {digest: content.replace("x", "y") for digest, content in shelf.blobs.items()}
    with pytest.raises(LedgerError, match="the arguments of trip#1/0 cannot be read: its content was changed; restore"):
        shelf.unpack(stored)


def test_a_blob_that_is_gone_is_named():
    shelf = Shelf(limit=50)
    stored = shelf.pack(encode("x" * 100), "result")
    shelf.blobs.clear()
    with pytest.raises(LedgerError, match="its content is missing from the ledger") as raised:
        shelf.unpack(stored, "result")
    assert raised.value.data == {"key": EFFECT, "field": "result"}


@pytest.mark.parametrize("stored", ['{"$ref":"sha256:12', '{"$plain":"12', '{"$plain":{}', '{"$sealed":1,"key":"'])
def test_a_column_that_was_cut_off_is_refused(stored):
    for shelf in shelves(LIMIT):
        with pytest.raises(LedgerError, match="restore"):
            shelf.unpack(stored)


# ---- redaction on the way in


@given(values, st.text("abcdefghij", min_size=12, max_size=30), st.booleans(), limits)
def test_a_redacted_secret_is_in_nothing_that_is_stored(others, secret, seals, limit):
    shelf = Shelf(
        limit=limit, redaction=Redaction(["password", "*.token"]), encryption=Encryption(KEY) if seals else None
    )
    # A secret is taken out where it was named: an equal value under another name is another field.
    assume(secret not in encode(others))
    arguments = encode({"others": others, "password": secret, "auth": {"token": [secret], "user": "Ada"}})
    told = [
        shelf.pack(arguments),
        shelf.pack(f"because {secret}", "rationale"),
        shelf.pack(encode({"password": {"was": secret}}), "result"),
        shelf.pack(f"ValueError: {secret!r} is {secret}", "error"),
        shelf.pack(secret, "note"),
    ]
    written = "".join(text for text in told if text) + "".join(shelf.blobs.values())
    assert secret not in written
    for text, field in zip(told, ["arguments", "rationale", "result", "error", "note"], strict=True):
        assert secret not in shelf.unpack(text, field)


def test_secrets_of_an_effect_are_taken_out_of_what_is_told_of_it_and_of_no_other():
    shelf = Shelf(redaction=Redaction(["password"]))
    shelf.pack(encode({"password": "hunter22"}))
    error = "401: hunter22"
    assert shelf.pack(error, "error") == "401: [redacted]"
    assert shelf.pack(error, "error", effect_key="trip#1/1") == error


def test_secrets_in_a_result_are_taken_out_of_the_error_too():
    shelf = Shelf(redaction=Redaction(["password", "session"]))
    shelf.pack(encode({"password": "hunter22"}))
    shelf.pack(encode({"session": "s-123456"}), "result")
    assert shelf.pack("hunter22 s-123456", "note") == "[redacted] [redacted]"


def test_what_was_forgotten_is_not_known_any_more():
    shelf = Shelf(redaction=Redaction(["password"]))
    shelf.pack(encode({"password": "hunter22"}))
    shelf.payloads.forget(EFFECT)
    shelf.payloads.forget("trip#1/7")
    assert shelf.payloads._secrets == {}


def test_the_memory_of_secrets_is_bounded(monkeypatch):
    monkeypatch.setattr("settlemark.ledger._payloads.payloads._REMEMBERED", 2)
    shelf = Shelf(redaction=Redaction(["password"]))
    for number in range(4):
        shelf.pack(encode({"password": f"hunter{number}"}), effect_key=f"trip#1/{number}")
    assert shelf.payloads._secrets == {"trip#1/2": {"hunter2"}, "trip#1/3": {"hunter3"}}


def test_a_result_that_is_only_a_text_about_an_object_is_scrubbed_as_a_text():
    class Session:
        def __repr__(self):
            return "<Session password='hunter22'>"

    shelf = Shelf(redaction=Redaction(["password"]))
    shelf.pack(encode({"password": "hunter22"}))
    stored = shelf.pack(encode_result(Session()), "result")
    assert decode(stored) == {"$repr": "<Session password='[redacted]'>"}


def test_arguments_can_be_shown_without_their_secrets():
    shelf = Shelf(redaction=Redaction(["password"]))
    assert shelf.payloads.redact('{"password":"hunter22"}', tool="pay") == '{"password":{"$redacted":null}}'
    assert Packer().redact('{"password":"hunter22"}', tool="pay") == '{"password":"hunter22"}'
    assert shelf.payloads._secrets == {}


# ---- encryption on the way in


def test_what_is_sealed_shows_nothing_of_the_payload():
    shelf = Shelf(encryption=Encryption(KEY))
    stored = shelf.pack(encode({"to": "Ada Lovelace"}))
    assert re.fullmatch(r'\{"\$sealed":1,"key":"[0-9a-f]{12}","n":"[\w+/]{16}","c":"[\w+/=]+"\}', stored)
    assert shelf.unpack(stored) == '{"to":"Ada Lovelace"}'


def test_a_tenant_without_a_key_records_no_arguments():
    shelf = Shelf(encryption=Encryption(lambda tenant: None, namespace="acme"))
    for field in ("arguments", "rationale"):
        with pytest.raises(LedgerError, match="encrypt= gives no key for 'acme', so the .* nothing was run: return a"):
            shelf.pack("{}", field)
    assert shelf.blobs == {}


@pytest.mark.parametrize("field", ["result", "error", "note"])
def test_what_comes_when_the_key_is_gone_goes_its_way_while_the_outcome_can_be_told(field):
    shelf = Shelf(encryption=Encryption(lambda tenant: None))
    found = shelf.unpack(shelf.pack('"R7"', field), field)
    assert isinstance(found, Erased)
    assert found.why == "its key had been dropped before it came"


def test_who_has_no_encrypt_sees_that_a_payload_is_sealed():
    stored = Shelf(encryption=Encryption(KEY)).pack("{}")
    found = Shelf().unpack(stored)
    assert isinstance(found, Sealed)
    assert decode(found) == {"$sealed": found.why}
    assert re.fullmatch("under the key [0-9a-f]{12}: give encrypt= to read it", found.why)


def test_what_was_written_before_encryption_was_asked_for_can_still_be_read():
    before, after = Shelf(limit=50), Shelf(limit=50, encryption=Encryption(KEY))
    for text in ('{"to":"Ada"}', encode("x" * 100), '{"$ref":1}'):
        stored = before.pack(text)
        after.blobs.update(before.blobs)
        assert after.unpack(stored) == text


# ---- fingerprints


def secretly(*, salt=SALT, redact=(), encrypt=None):
    return Packer(
        salt=salt,
        redaction=Redaction(redact) if redact else None,
        encryption=Encryption(encrypt) if encrypt else None,
    )


@given(values, values)
def test_the_same_decision_is_known_by_its_fingerprint_and_no_other_is(one, other):
    first, second = encode({"of": one}), encode({"of": other})
    for payloads in (Packer(), secretly(redact=["of"]), secretly(encrypt=KEY)):
        kept = payloads.fingerprint(first, effect_key=EFFECT)
        assert len(kept) == 32
        assert payloads.same(first, kept, effect_key=EFFECT)
        assert payloads.same(second, kept, effect_key=EFFECT) == (first == second)


def test_redaction_does_not_make_two_decisions_one():
    payloads = secretly(redact=["password"])
    kept = payloads.fingerprint('{"password":"hunter22"}', effect_key=EFFECT)
    assert not payloads.same('{"password":"hunter23"}', kept, effect_key=EFFECT)


def test_a_secret_fingerprint_tells_nothing_without_the_salt_or_the_key():
    text = '{"pin":"1234"}'
    kept = [
        secretly(redact=["pin"]).fingerprint(text, effect_key=EFFECT),
        secretly(redact=["pin"], salt="another ledger's").fingerprint(text, effect_key=EFFECT),
        secretly(redact=["pin"]).fingerprint(text, effect_key="trip#1/1"),
        secretly(encrypt=KEY).fingerprint(text, effect_key=EFFECT),
        secretly(encrypt=new_key()).fingerprint(text, effect_key=EFFECT),
        fingerprint(text),
    ]
    assert len(set(kept)) == len(kept)


def test_a_fingerprint_outlives_a_new_key_and_the_first_use_of_secrets():
    text = "{}"
    older = [
        Packer().fingerprint(text, effect_key=EFFECT),
        secretly(redact=["pin"]).fingerprint(text, effect_key=EFFECT),
        secretly(encrypt=KEY).fingerprint(text, effect_key=EFFECT),
    ]
    now = secretly(encrypt=[new_key(), KEY])
    for kept in older:
        assert now.same(text, kept, effect_key=EFFECT)
        assert not now.same("[]", kept, effect_key=EFFECT)


def test_without_a_key_no_fingerprint_is_made():
    payloads = Packer(salt=SALT, encryption=Encryption(lambda tenant: None, namespace="acme"))
    with pytest.raises(LedgerError, match="encrypt= gives no key for 'acme'"):
        payloads.fingerprint("{}", effect_key=EFFECT)


def test_a_ledger_with_secrets_has_a_salt():
    with pytest.raises(InternalError, match="has no salt"):
        Packer(redaction=Redaction(["pin"])).fingerprint("{}", effect_key=EFFECT)


class Keyless:
    """Encryption for a tenant of whom there is no key."""

    tenant = "acme"

    def seal(self, _text, **_about):
        return None

    def fingerprint_keys(self):
        return []


def test_for_want_of_a_key_nothing_acts_and_what_was_said_of_what_has_acted_is_kept_from_all():
    payloads = Packer(encryption=Keyless(), salt=SALT, url="sqlite:///trip.db")
    for field in ("arguments", "rationale"):
        with pytest.raises(LedgerError, match="encrypt= gives no key for 'acme'") as refused:
            payloads.packed("{}", effect_key=EFFECT, tool="pay", field=field)
        assert refused.value.data == {
            "key": EFFECT,
            "field": field,
            "tenant": "acme",
            "url": "sqlite:///trip.db",
        }
    with pytest.raises(LedgerError, match="gives no key") as refused:
        payloads.fingerprint("{}", effect_key=EFFECT)
    assert refused.value.data["url"] == "sqlite:///trip.db"
    for field in ("result", "error", "note", "said"):
        assert payloads.packed("{}", effect_key=EFFECT, tool="pay", field=field) == DISCARDED


def test_what_is_written_again_that_nobody_could_read_stays_what_is_stored_or_else_what_it_says():
    payloads = Packer(redaction=Redaction(["pin"]), salt=SALT)
    pack = lambda text: payloads.pack(text, effect_key=EFFECT, tool="pay", field="note", blobs=[])  # noqa: E731
    outdated = Outdated.of("note", "old")
    assert pack(outdated) == "pruned: old"
    outdated.stored = PRUNED
    assert pack(outdated) == PRUNED


def test_a_payload_that_is_broken_off_says_so_and_hides_no_other():
    def no_blob(digest):
        raise LookupError(digest)

    payloads = Packer()
    broken = {
        '{"$plain":': "its text is cut off",
        '{"$plain":1': "its text is cut off",
        '{"$ref":"sha': "its reference is cut off",
        '{"$ref":"sha256:00","size":1}': "its content is missing from the ledger",
    }
    for stored, how in broken.items():
        with pytest.raises(LedgerError, match=f"the note of {EFFECT} cannot be read: {how}; restore") as refused:
            payloads.unpack(stored, effect_key=EFFECT, field="note", fetch=no_blob)
        assert refused.value.data == {"key": EFFECT, "field": "note"}
        read = payloads.read(stored, effect_key=EFFECT, field="note", fetch=no_blob)
        assert (type(read), read.stored, how in read) == (Damaged, stored, True)
    for stored in (None, "", "text", '{"$other":1}'):
        assert payloads.read(stored, effect_key=EFFECT, field="note", fetch=no_blob) == stored


def test_a_function_may_replace_a_result_as_a_whole_and_arguments_field_by_field():
    payloads = Packer(
        redaction=Redaction(lambda _tool, path, value: "gone" if path in ("", "pin") else value), salt=SALT
    )
    pack = lambda field: payloads.pack('{"pin":"1234"}', effect_key=EFFECT, tool="pay", field=field, blobs=[])  # noqa: E731
    assert (pack("arguments"), pack("result")) == (
        '{"pin":{"$redacted":"gone"}}',
        '{"$redacted":"gone"}',
    )


def test_a_text_on_the_edge_of_its_column_stays_in_it_and_one_byte_more_is_put_aside():
    for text, aside in (("x" * 16, False), ("x" * 17, True), ("é" * 8, False), ("é" * 8 + "x", True)):
        blobs = []
        stored = Packer(limit=16).pack(text, effect_key=EFFECT, tool="say", field="note", blobs=blobs)
        assert ([blob.content for blob in blobs], stored != text) == ([text] if aside else [], aside)
        assert [blob.size for blob in blobs] == ([17] if aside else [])


def test_the_secrets_of_one_effect_are_scrubbed_from_what_is_told_of_it_until_it_is_forgotten():
    payloads = Packer(redaction=Redaction(["pin"]), salt=SALT)
    payloads.learn('{"pin":"123456","to":"ada"}', effect_key=EFFECT, tool="pay")
    assert "123456" not in payloads.scrub("it was 123456", [EFFECT])
    assert "123456" not in payloads.cause("OSError: it was 123456", [EFFECT])
    assert payloads.scrub("it was 123456", ["trip#1/1"]) == "it was 123456"
    payloads.forget(EFFECT)
    assert payloads.scrub("it was 123456", [EFFECT]) == "it was 123456"


def test_where_all_is_encrypted_only_the_kind_of_a_cause_is_told():
    payloads = Packer(encryption=Keyless(), salt=SALT)
    told = {text: payloads.cause(text, []) for text in ("my.Error: secret", "secret", "a secret: x", ": x")}
    assert list(told.values()) == ["my.Error", "told to its caller", "told to its caller", "told to its caller"]


def test_a_ledger_that_redacts_without_a_salt_of_its_own_makes_no_fingerprint():
    with pytest.raises(InternalError, match="has no salt"):
        Packer(redaction=Redaction(["pin"])).fingerprint("{}", effect_key=EFFECT)


def test_what_is_packed_already_is_sealed_no_second_time_and_brings_its_contents():
    payloads = Packer(encryption=Encryption(lambda _tenant: [KEY], tenant="acme"), salt=SALT, limit=16)
    packed = payloads.packed('"ada"', effect_key=EFFECT, tool="pay", field="note")
    blobs = []
    assert payloads.pack(packed, effect_key=EFFECT, tool="pay", field="note", blobs=blobs) == str(packed)
    assert (tuple(blobs), len(blobs)) == (packed.blobs, 1)
    assert payloads.packed(None, effect_key=EFFECT, tool="pay", field="note") is None


@pytest.mark.parametrize("result", ['"\ud83d"', '"nul \0"'])
def test_a_result_that_no_store_can_hold_is_told_in_plain_letters_and_its_outcome_is_kept(result):
    change = OutcomeChange("trip#1/0", Outcome.CONFIRMED, result, None, None, None, 2.0)
    (kept,) = storable([change], short_ascii=False)
    assert kept == change._replace(result=kept.result)
    assert list(decode(kept.result)) == ["$repr"]
    assert kept.result.encode().isascii()


def test_whoever_said_it_is_told_in_letters_that_every_store_can_hold():
    (kept,) = storable([Said("trip#1/0", "{}", "Ada\0\ud83d" + "a" * 2_000, 2.0, dealt=True)], short_ascii=False)
    assert (kept.by.startswith("Ada"), "\0" in kept.by, len(kept.by.encode()) <= 1_020) == (True, False, True)
    assert kept._replace(by="") == Said("trip#1/0", "{}", "", 2.0, dealt=True)
