"""Fields named by redact= are in nothing that is written; all else stays as it is."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rooms.model import decode, encode

from settlemark import UsageError
from settlemark.ledger._payloads.redaction import Redaction, scrub, withheld

texts = st.text(st.characters(exclude_categories=["Cs"]))
keys = st.sampled_from(["password", "card", "number", "token", "a.b", "0", ""])
leaves = st.none() | st.booleans() | st.integers() | texts
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4), max_leaves=12
)

GONE = {"$redacted": None}


def redacted(rules, value, *, tool="pay", whole=False):
    return decode(Redaction(rules).payload(encode(value), tool=tool, whole=whole).text)


@pytest.mark.parametrize(
    ("rules", "value", "kept"),
    [
        ("password", {"password": "x", "to": "Ada"}, {"password": GONE, "to": "Ada"}),
        (["password"], {"inner": {"password": "x"}}, {"inner": {"password": "x"}}),
        (["card.number"], {"card": {"number": 42, "year": 30}}, {"card": {"number": GONE, "year": 30}}),
        (["card"], {"card": {"number": 42, "year": 30}}, {"card": GONE}),
        (["card.number"], {"card": "a text"}, {"card": "a text"}),
        (["*.token"], {"a": {"token": 1}, "b": {"token": 2}}, {"a": {"token": GONE}, "b": {"token": GONE}}),
        (["*.token"], {"token": 3, "a": {"b": {"token": 3}}}, {"token": 3, "a": {"b": {"token": 3}}}),
        (["cards.*.number"], {"cards": [{"number": 1}, {"number": 2}]}, {"cards": [{"number": GONE}] * 2}),
        (["cards.1"], {"cards": ["a", "b", "c"]}, {"cards": ["a", GONE, "c"]}),
        (["*"], {"a": 1, "b": None}, {"a": GONE, "b": GONE}),
        (["a.b"], {"a.b": 1, "a": {"b": 2, "c": 3}}, {"a.b": GONE, "a": {"b": GONE, "c": 3}}),
        (["*.token"], {"a.b": {"token": 1}}, {"a.b": {"token": GONE}}),
        (["auth"], {"auth.token": 1}, {"auth.token": GONE}),
        (["a", "a.b"], {"a": {"b": 1}}, {"a": GONE}),
        ([], {"password": "x"}, {"password": "x"}),
        (["password"], {"password": {"$redacted": "hunter22"}}, {"password": GONE}),
        (["password"], "password", "password"),
    ],
)
def test_a_field_is_named_by_its_path(rules, value, kept):
    assert redacted(rules, value) == kept


@given(values, st.lists(st.sampled_from(["password", "card.number", "*.token", "card.*", "a.b", "*.0"]), max_size=3))
def test_what_no_rule_names_stays_byte_for_byte(value, rules):
    text = encode(value)
    once = Redaction(rules).payload(text, tool="pay")
    if not withheld(once.text):
        assert once.text == text
        assert once.secrets == frozenset()
    assert Redaction(rules).payload(once.text, tool="pay").text == once.text


@given(values)
def test_a_function_that_keeps_all_changes_nothing(value):
    text = encode(value)
    found = Redaction(lambda tool, path, value: value).payload(text, tool="pay", whole=True)
    assert found == (text, frozenset())


def test_a_function_is_asked_from_the_outside_in():
    asked = []

    def rule(tool, path, value):
        asked.append((tool, path, value))
        return "gone" if path == "card" else value

    value = {"card": {"number": 1}, "to": ["Ada"]}
    assert redacted(rule, value) == {"card": {"$redacted": "gone"}, "to": ["Ada"]}
    assert asked == [("pay", "card", {"number": 1}), ("pay", "to", ["Ada"]), ("pay", "to.0", "Ada")]


def test_a_function_may_keep_a_part_of_a_secret():
    def rule(tool, path, value):
        return f"…{value[-4:]}" if path.endswith("number") else value

    found = Redaction(rule).payload(encode({"card": {"number": "4242424242424242"}}), tool="pay")
    assert decode(found.text) == {"card": {"number": {"$redacted": "…4242"}}}
    assert found.secrets == {"4242424242424242"}


def test_a_function_may_replace_a_whole_result_but_not_the_whole_arguments():
    def rule(tool, path, value):
        return None if path == "" else value

    assert redacted(rule, "tok_123", whole=True) == GONE
    assert redacted(rule, {"to": "Ada"}) == {"to": "Ada"}


@pytest.mark.parametrize("replacement", [object(), float("nan"), {1, 2}])
def test_a_replacement_that_json_cannot_hold_keeps_nothing(replacement, caplog):
    assert redacted(lambda tool, path, value: replacement, {"pin": 1}) == {"pin": GONE}
    assert "redact= raised PayloadError for pin of pay: nothing of it is kept" in caplog.text


def test_a_function_that_fails_keeps_nothing_and_its_message_is_not_logged(caplog):
    def rule(tool, path, value):
        raise RuntimeError(f"cannot mask {value}")

    with caplog.at_level(logging.WARNING):
        found = Redaction(rule).payload(encode({"password": "hunter22"}), tool="pay")
    assert decode(found.text) == {"password": GONE}
    assert found.secrets == {"hunter22"}
    assert "redact= raised RuntimeError for password of pay: nothing of it is kept" in caplog.text
    assert "hunter22" not in caplog.text


def test_what_is_too_deep_to_be_looked_through_is_kept_from_the_record_whole():
    deep = '{"a":' * 5_000 + '"hunter22"' + "}" * 5_000
    assert Redaction(["password"]).payload(deep, tool="pay").text == '{"$redacted":null}'


def test_secrets_are_the_long_texts_and_numbers_in_what_was_taken_out():
    value = {"card": {"number": 4242424242424242, "cvc": "123", "names": ["Ada Lovelace"], "on": True, "at": None}}
    found = Redaction(["card"]).payload(encode(value), tool="pay")
    assert found.secrets == {"4242424242424242", "Ada Lovelace"}


@pytest.mark.parametrize(
    ("value", "secrets"), [("sixsix", {"sixsix"}), ("fives", set()), (123456, {"123456"}), (12345, set())]
)
def test_a_secret_of_six_characters_is_one_and_a_shorter_one_stands_in_too_many_texts(value, secrets):
    assert Redaction(["pin"]).payload(encode({"pin": value}), tool="pay").secrets == secrets


@pytest.mark.parametrize("path", ["", ".", "a..b", ".a", "a.", None, 7])
def test_a_malformed_path_is_refused(path):
    with pytest.raises(UsageError, match="name a field by its dotted path, as in 'password'") as raised:
        Redaction(["password", path])
    assert raised.value.path == path


# ---- texts


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("no hunter22 here", "hunter22"),
        ("ValueError: 'it\\'s \"in\"\\n'", 'it\'s "in"\n'),
        ('{"password": "Zo\\u00e9 \\"noir\\""}', 'Zoé "noir"'),
        ("GET /?key=a%2Fb+c%26d", "a/b c&d"),
        ("GET /?key=a/b%20c%26d", "a/b c&d"),
    ],
)
def test_a_secret_is_found_however_it_is_written(text, secret):
    cleaned = scrub(text, [secret])
    assert "[redacted]" in cleaned
    assert not any(part in cleaned for part in ("hunter", "Zo", "noir", "a/b", "a%2Fb"))


@given(texts, st.lists(texts.filter(lambda t: len(t) >= 6), max_size=3), texts)
def test_no_secret_is_left_in_a_scrubbed_text(before, secrets, after):
    cleaned = scrub(before + "·".join(secrets) + after, secrets)
    for secret in secrets:
        # Unless it is a piece of the replacement itself.
        assert secret not in cleaned.replace("[redacted]", "\0")


def test_a_secret_within_a_longer_one_leaves_no_rest_of_it():
    assert scrub("hunter22-and-more", ["hunter22", "hunter22-and-more"]) == "[redacted]"


# ---- what a record lacks


@pytest.mark.parametrize(
    ("value", "paths"),
    [
        (None, set()),
        ({"to": "Ada"}, set()),
        (GONE, {""}),
        ({"card": {"number": GONE}, "cards": [GONE, {"$redacted": "…42"}]}, {"card.number", "cards.0", "cards.1"}),
        ({"said": '"$redacted"'}, set()),
        ({"$redacted": None, "more": 1}, set()),
    ],
)
def test_a_record_tells_which_fields_it_lacks(value, paths):
    assert withheld(encode(value)) == paths


def test_nothing_is_lacking_where_nothing_is():
    assert withheld(None) == set()
