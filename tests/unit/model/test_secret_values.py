"""Secrets that an attempt has resolved: hidden in whatever form they come back."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duebook.model.secret_values import (
    SecretValues,
    as_reference,
    mentions_secret,
    names_in,
)

VALUE = 'hunter22-"x" /é+ y'
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0*"), min_size=8)


def test_a_definition_names_secrets_by_plain_tags() -> None:
    form = {
        "a": ["{{ secret.ONE }} {{secret.TWO}}", "{{- secret.THREE -}}"],
        "b": "{{ payload.x }}",
    }
    assert names_in(form) == {"ONE", "TWO", "THREE"}
    assert names_in(as_reference("X")) == {"X"}
    assert names_in("{{ secrets.X }} {{ payload.secret.X }} {{ secret.X | upper }}") == set()
    assert mentions_secret("{{ secret.X | upper }}")
    assert not mentions_secret("{{ secrets }} secret.X")


@pytest.mark.parametrize(
    "text",
    [
        VALUE,
        json.dumps({"a": VALUE}),
        repr({"a": VALUE}),
        quote(VALUE, safe=""),
        quote_plus(VALUE),
        *(base64.b64encode(b"u" * n + VALUE.encode() + b"after").decode() for n in range(4)),
        base64.urlsafe_b64encode(VALUE.encode()).decode(),
        VALUE[:14] + "…",
    ],
)
def test_a_value_is_hidden_as_it_is_and_as_others_write_it(text: str) -> None:
    hidden = SecretValues({"A": VALUE}).hide(f"before {text} after")
    assert "***" in hidden
    assert hidden.startswith("before ")
    assert not any(part in hidden for part in ("hunter", "aHVudGVyMjI", "22-"))


def test_each_line_of_a_value_is_hidden() -> None:
    values = SecretValues({"KEY": "-----BEGIN-----\nabcdef\n-----END-----"})
    assert values.hide("abcdef") == "***"
    assert values.hide("x -----END-----") == "x ***"


def test_an_end_that_was_cut_off_within_a_value_is_hidden() -> None:
    values = SecretValues({"A": "hunter22"})
    assert values.hide_cut("with hunte") == "with ***"
    assert values.hide('"hunter2…" is wrong') == '"***…" is wrong'


def test_json_is_hidden_in_texts_keys_and_numbers_and_stays_json() -> None:
    values = SecretValues({"A": "12345678", "B": 'a"bc\\d'})
    form = {"12345678": [12345678, 5], "x": 'say a"bc\\d'}
    assert json.loads(values.hide_json(json.dumps(form))) == {"***": ["***", 5], "x": "say ***"}
    assert values.hide_json('{"x":  1}') == '{"x":  1}'


def test_what_is_added_later_is_hidden_from_then_on_and_never_printed() -> None:
    values = SecretValues()
    assert not values
    assert values.hide("hunter22") == "hunter22"
    values.add("A", "hunter22")
    assert values.hide("hunter22") == "***"
    assert "hunter22" not in repr(values)
    assert values.by_name == {"A": "hunter22"}


@given(NAMES, st.text(max_size=20), st.text(max_size=20))
def test_no_value_survives_in_any_text(value: str, before: str, after: str) -> None:
    hidden = SecretValues({"A": value}).hide(before + value + after)
    assert value not in hidden
