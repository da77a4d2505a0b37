"""Tokens as values: roles in their order, what a token sees, and the text that proves it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from duebook.errors import Invalid
from duebook.ids import new_id
from duebook.model.access import (
    AccessToken,
    Role,
    digest_of,
    read_namespaces,
    read_role,
    secret_text,
    split_secret,
)

NOW = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


def test_each_role_may_do_what_the_ones_before_it_may() -> None:
    assert Role.VIEWER < Role.OPERATOR < Role.ADMIN
    assert max(Role) is Role.ADMIN
    assert Role.OPERATOR >= Role.OPERATOR


def test_a_role_is_read_from_its_name() -> None:
    assert read_role("operator") is read_role(Role.OPERATOR) is Role.OPERATOR
    for wrong in ("root", "", None, 3, "Viewer"):
        with pytest.raises(Invalid, match=r"role .* is not one of viewer, operator, admin"):
            read_role(wrong)


def test_namespaces_are_names_each_once_or_all() -> None:
    assert read_namespaces(["shop", "mail", "shop"]) == ("mail", "shop")
    assert read_namespaces("shop") == ("shop",)
    assert read_namespaces(["shop", "*"]) == ("*",)
    wrong: object
    for wrong in ([], None, 3, {"shop": 1}):
        with pytest.raises(Invalid, match="is not a list of names"):
            read_namespaces(wrong)
    with pytest.raises(Invalid, match=r'namespace "No Name"'):
        read_namespaces(["No Name"])


def test_a_token_sees_its_namespaces_and_no_others() -> None:
    token = AccessToken(new_id(), "ci", Role.VIEWER, ("shop",), NOW)
    assert token.sees("shop")
    assert not token.sees("shop2")
    assert AccessToken(new_id(), "ci", Role.VIEWER, ("*",), NOW).sees("anything")


def test_a_token_opens_until_it_expires_or_is_revoked() -> None:
    minute = timedelta(minutes=1)
    made = new_id(), "ci", Role.VIEWER, ("*",), NOW, ""
    token = AccessToken(*made, NOW + minute)
    assert token.opens(NOW)
    assert not token.opens(NOW + minute)
    assert not AccessToken(*made, None, None, NOW).opens(NOW)


def test_a_secret_is_told_apart_into_the_id_and_a_digest() -> None:
    token_id, secret = new_id(), "_" * 43
    text = secret_text(token_id, secret)
    assert len(text) == 80
    assert split_secret(text) == (token_id, digest_of(secret))
    assert secret not in digest_of(secret)


@pytest.mark.parametrize(
    "text", ["", "dbk_", "dbk_x_y", "Bearer", "ä" * 80, f"dbk_{'0' * 32}_{'a' * 43}\n"]
)
def test_other_texts_are_no_secrets(text: str) -> None:
    assert split_secret(text) is None
