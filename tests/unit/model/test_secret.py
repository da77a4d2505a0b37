"""Which values of a payload are hidden, and how they come back."""

from __future__ import annotations

import pytest

from duebook.errors import Invalid
from duebook.model.fields import check_payload
from duebook.model.secret import keep_secrets, secrets_in, show_payload

PAYLOAD = {
    "user": "ann",
    "db_password": "hunter2",
    "hosts": [{"API-Key": "k", "port": 1}, {"accessToken": 17}],
    "secret": {"nested": "x"},
    "token": None,
    "tokens": 5,
}
SHOWN = {
    "user": "ann",
    "db_password": "***",
    "hosts": [{"API-Key": "***", "port": 1}, {"accessToken": "***"}],
    "secret": "***",
    "token": None,
    "tokens": 5,
}


def test_values_whose_name_says_so_are_hidden_at_any_depth() -> None:
    assert show_payload(PAYLOAD) == SHOWN
    assert set(secrets_in(PAYLOAD)) == {"hunter2", "k"}


def test_what_is_hidden_stays_when_it_is_sent_back() -> None:
    assert keep_secrets(SHOWN, PAYLOAD) == PAYLOAD
    assert keep_secrets({"db_password": "new"}, PAYLOAD) == {"db_password": "new"}
    assert keep_secrets({"user": "***"}, PAYLOAD) == {"user": "***"}
    assert keep_secrets(None, PAYLOAD) is None


@pytest.mark.parametrize("payload", [SHOWN, {"x": [{"password": "***"}]}])
def test_what_hides_nothing_is_refused(payload: dict[str, object]) -> None:
    with pytest.raises(Invalid, match=r'payload "\w+" is \*\*\*, which hides a value; give it'):
        check_payload("payload", payload)
    assert check_payload("payload", PAYLOAD) == PAYLOAD


def test_a_payload_is_not_nested_without_end() -> None:
    deep: object = {}
    for _ in range(100):
        deep = {"x": deep}
    assert check_payload("payload", deep) == deep
    with pytest.raises(Invalid, match="nested deeper than 100 times"):
        check_payload("payload", {"x": [{"x": deep}]})
