"""Which values of a payload are hidden, and how they come back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duebook.errors import Invalid
from duebook.model.fields import check_payload
from duebook.model.secret import hide_in_lines, keep_secrets, secrets_in, show_payload

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
    assert set(secrets_in(PAYLOAD)) == {"hunter2", "k", "17", "x"}


NAMES = """
    pwd DB_PWD secret_key access_token refreshToken DB_PASS apikey password2 Set-Cookie SMTP_PASSWD
    dbPass AWS_SECRET_ACCESS_KEY Proxy-Authorization
"""


@pytest.mark.parametrize("name", NAMES.split())
def test_names_of_secrets(name: str) -> None:
    assert show_payload({name: "abc"}) == {name: "***"}


@pytest.mark.parametrize(
    "name", ["tokens", "bypass", "compass", "key", "passenger", "password_hint"]
)
def test_other_names_hide_nothing(name: str) -> None:
    assert show_payload({name: "abc"}) == {name: "abc"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "https://a.example/?day=1&api_key=abc&x=y#t",
            "https://a.example/?day=1&api_key=***&x=y#t",
        ),
        ("postgresql://ann:hunter22@db/books", "postgresql://ann:***@db/books"),
        ("grant=x&client_secret=abc", "grant=x&client_secret=***"),
        ('{"access_token": "a\\nb", "n": 1}', '{"access_token": "***", "n": 1}'),
        ('{"pwd": 1234}', '{"pwd": "***"}'),
        ("?token={{ payload.token }}&x=1", "?token={{ payload.token }}&x=1"),
        ("token: abc", "token: abc"),
    ],
)
def test_what_a_text_hides_comes_back(text: str, shown: str) -> None:
    assert show_payload({"note": [text]}) == {"note": [shown]}
    assert keep_secrets(shown, text) == text
    if shown != text:
        with pytest.raises(Invalid, match="a placeholder for a hidden value; give the real value"):
            check_payload("payload", {"note": shown})


@pytest.mark.parametrize("text", ["?token=" + "{" * 100_000, "://" * 50_000, '"a":"' * 50_000])
def test_a_text_of_any_length_takes_no_time(text: str) -> None:
    assert show_payload(text) is not None


def test_what_is_hidden_stays_when_it_is_sent_back() -> None:
    assert keep_secrets(SHOWN, PAYLOAD) == PAYLOAD
    assert keep_secrets({"db_password": "new"}, PAYLOAD) == {"db_password": "new"}
    assert keep_secrets({"user": "***"}, PAYLOAD) == {"user": "***"}
    assert keep_secrets(None, PAYLOAD) is None


@pytest.mark.parametrize("payload", [SHOWN, {"x": [{"password": "***"}]}])
def test_what_hides_nothing_is_refused(payload: dict[str, object]) -> None:
    with pytest.raises(
        Invalid,
        match=r'payload "\w+" is \*\*\*, a placeholder for a hidden value; give the real value',
    ):
        check_payload("payload", payload)
    assert check_payload("payload", PAYLOAD) == PAYLOAD


def test_a_payload_is_not_nested_without_end() -> None:
    deep: object = {}
    for _ in range(100):
        deep = {"x": deep}
    assert check_payload("payload", deep) == deep
    with pytest.raises(Invalid, match="nested more than 100 levels deep"):
        check_payload("payload", {"x": [{"x": deep}]})


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("password: hunter22", "password: ***"),
        ("  - API_TOKEN=abc def", "  - API_TOKEN=***"),
        ('env: {"db-password": "a, b", DAY: x}', 'env: {"db-password": ***, DAY: x}'),
        ("run --password=abc --day x", "run --password=***"),
        ("headers: {X-Any: abc}", "headers: ***"),
        ("Authorization: Bearer abc # why", "Authorization: ***# why"),
        ("token: ${TOKEN}", "token: ${TOKEN}"),
        ('token: "{{ env.TOKEN }}"', 'token: "{{ env.TOKEN }}"'),
        ("tokens: 3", "tokens: 3"),
        ("day: monday", "day: monday"),
        ("secret:", "secret:"),
    ],
)
def test_values_of_secret_names_are_hidden_in_a_line(line: str, shown: str) -> None:
    assert hide_in_lines([line]) == [shown]


def test_what_stands_below_a_secret_name_is_hidden() -> None:
    text = """
    key: 1
    - private_key: |  # of the server
        BEGIN

        abc
      day: x
    headers:
      X-Any: abc
    steps: a
    """
    shown = "\n".join(hide_in_lines(text.splitlines()))
    assert "BEGIN" not in shown
    assert "abc" not in shown
    assert "day: x" in shown
    assert "steps: a" in shown
    assert len(shown.splitlines()) == len(text.splitlines())


@pytest.mark.parametrize("line", ["a" * 900_000, "a:" + " " * 900_000 + "x", "a: '" * 300_000])
def test_a_line_of_any_length_takes_no_time(line: str) -> None:
    (shown,) = hide_in_lines([line])
    assert len(shown) <= 2_001


@given(st.lists(st.text()))
def test_lines_stay_lines_whatever_they_say(lines: list[str]) -> None:
    assert len(hide_in_lines(lines)) == len(lines)
