"""Whose a token or a session is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from duebook.api.authenticator import SESSION_LASTS, BookAuthenticator
from duebook.book.tokens import Tokens
from duebook.model.access import Role
from duebook.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOCAL = f"dbk_local_{'a' * 43}"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "books.db")
    yield opened
    opened.close()


def test_the_local_token_is_admin_everywhere(store: SqliteStore) -> None:
    caller = BookAuthenticator(store, LOCAL).check(LOCAL)
    assert caller is not None
    assert (caller.by, caller.role, caller.everywhere) == ("token:local", Role.ADMIN, True)
    assert BookAuthenticator(store, LOCAL).check(LOCAL[:-1] + "b") is None
    assert BookAuthenticator(store).check(LOCAL) is None
    assert BookAuthenticator(store, LOCAL).check("é") is None


def test_a_token_of_the_books_opens_until_it_is_revoked(store: SqliteStore) -> None:
    tokens, door = Tokens(store), BookAuthenticator(store)
    token, text = tokens.create("ci", "operator", ["shop"])
    caller = door.check(text)
    assert caller is not None
    assert (caller.id, caller.role, caller.namespaces) == (token.id, Role.OPERATOR, ("shop",))
    session = door.open_session(text)
    assert session is not None
    assert text.split("_", 2)[2] not in session
    assert door.check_session(session) == caller
    tokens.revoke("ci")
    assert door.check(text) is None
    assert door.check_session(session) is None
    assert door.open_session(text) is None


def test_a_session_ends_and_cannot_be_forged(store: SqliteStore) -> None:
    now = 1_000_000.0
    door = BookAuthenticator(store, LOCAL, lambda: now)
    session = door.open_session(LOCAL)
    assert session is not None
    assert door.check_session(session) is not None
    claim, _, signature = session.rpartition(".")
    longer = f"local.{int(now) + 9 * SESSION_LASTS}.{signature}"
    for text in (longer, claim, f"{claim}.", "", "...", f"local.x.{signature}", "no-uuid.1.x"):
        assert door.check_session(text) is None, text
    assert BookAuthenticator(store, LOCAL[:-1] + "b", lambda: now).check_session(session) is None
    now += SESSION_LASTS
    assert door.check_session(session) is None
