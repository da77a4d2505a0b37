"""Whose a token or a session is."""

from __future__ import annotations

import hashlib
import hmac
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from duebook.api.authenticator import SESSION_LASTS, BookAuthenticator
from duebook.api.caller_cache import CallerCache
from duebook.api.token_cache import TokenCache
from duebook.book.tokens import Tokens
from duebook.errors import Unavailable
from duebook.model.access import Role
from tests.support.retention import purge_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.store.base import Tx
    from duebook.store.sqlite import SqliteStore
    from tests.support.builders import VirtualClock

LOCAL = f"dbk_local_{'a' * 43}"


def test_the_local_token_is_admin_everywhere(store: SqliteStore) -> None:
    caller = BookAuthenticator(store, lambda: LOCAL).check(LOCAL)
    assert caller is not None
    assert (caller.by, caller.role, caller.everywhere) == ("token:local", Role.ADMIN, True)
    assert BookAuthenticator(store, lambda: LOCAL).check(LOCAL[:-1] + "b") is None
    assert BookAuthenticator(store).check(LOCAL) is None
    assert BookAuthenticator(store, lambda: LOCAL).check("é") is None


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
    door = BookAuthenticator(store, lambda: LOCAL, lambda: now)
    session = door.open_session(LOCAL)
    assert session is not None
    assert door.check_session(session) is not None
    claim, _, signature = session.rpartition(".")
    proof = claim.rpartition(".")[2]
    number = session.split(".")[2]
    longer = f"local.{int(now) + 9 * SESSION_LASTS}.{number}.{proof}.{signature}"
    for text in (longer, claim, f"{claim}.", "", "...", f"local.x.{signature}", "no-uuid.1.x"):
        assert door.check_session(text) is None, text
    assert (
        BookAuthenticator(store, lambda: LOCAL[:-1] + "b", lambda: now).check_session(session)
        is None
    )
    now += SESSION_LASTS
    assert door.check_session(session) is None


def test_what_the_books_keep_of_a_token_makes_no_session(store: SqliteStore) -> None:
    tokens, door = Tokens(store), BookAuthenticator(store)
    token, text = tokens.create("ci", "admin", "*")
    found = store.read(lambda tx: tx.access.get_token(token.id))
    assert found is not None
    digest = found[1]
    session = door.open_session(text)
    assert session is not None
    claim = session.rpartition(".")[0].rpartition(".")[0]
    for proof in ("", digest, digest[:64], digest[64:], "0" * 64):
        for key in (digest, digest[:64], digest[64:]):
            claimed = f"{claim}.{proof}"
            signature = hmac.new(key.encode(), claimed.encode(), "sha256").hexdigest()
            assert door.check_session(f"{claimed}.{signature}") is None


def test_a_session_makes_no_longer_one(store: SqliteStore) -> None:
    door = BookAuthenticator(store)
    token, text = Tokens(store).create("ci", "admin", "*")
    session = door.open_session(text)
    assert session is not None
    number, proof, signature = session.split(".")[2:]
    claimed = f"{token.id}.99999999999.{number}.{proof}"
    for key in (proof, hashlib.sha256(proof.encode()).hexdigest(), signature):
        forged = hmac.new(key.encode(), claimed.encode(), "sha256").hexdigest()
        assert door.check_session(f"{claimed}.{forged}") is None


@pytest.mark.parametrize("kind", ["local", "books"])
def test_a_session_that_was_ended_opens_nothing_on_any_server(
    store: SqliteStore, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = LOCAL if kind == "local" else Tokens(store).create("ci", "admin", "*")[1]
    door, other = (BookAuthenticator(store, lambda: LOCAL) for _ in range(2))
    seconds = 0.0
    monkeypatch.setattr(other, "_cached", TokenCache(store, lambda: seconds))
    mine, another = door.open_session(text), door.open_session(text)
    assert mine is not None
    assert another is not None
    assert other.check_session(mine, again=True) is not None
    door.end_session(mine)
    door.end_session(mine)
    door.end_session("no.session")
    for again in (False, True):
        assert door.check_session(mine, again) is None
        assert door.check_session(another, again) is not None, "each log-in is its own"
    assert other.check_session(mine) is None
    seconds = 0.5
    assert other.check_session(mine, again=True) is None, "half a second later at the latest"
    assert door.check(text) is not None


def test_a_forged_session_ends_nothing(store: SqliteStore) -> None:
    door = BookAuthenticator(store, lambda: LOCAL)
    session = door.open_session(LOCAL)
    assert session is not None
    door.end_session(session[:-1] + ("0" if session[-1] != "0" else "1"))
    assert door.check_session(session) is not None


@pytest.mark.parametrize("how", ["revoked", "expired", "forgotten"])
def test_a_token_that_has_ended_is_seen_half_a_second_later_by_streams(
    store: SqliteStore, clock: VirtualClock, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens, seconds = Tokens(store), 0.0
    door = BookAuthenticator(store)
    recent = TokenCache(store, lambda: seconds)
    monkeypatch.setattr(door, "_cached", recent)
    until = clock.now + timedelta(hours=1)
    token, text = tokens.create("ci", "viewer", ["*"], expires_at=until)
    caller = door.check(text, again=True)
    assert caller is not None
    assert caller == door.check(text)
    assert door.check(text[:-1] + ("a" if text[-1] != "a" else "b"), again=True) is None
    assert door.check("nonsense", again=True) is None
    if how == "revoked":
        tokens.revoke("ci")
    elif how == "forgotten":
        tokens.revoke("ci")
        store.transact(lambda tx: purge_all(tx, tx.now + timedelta(days=1), 10))
    else:
        ask = recent._ask
        monkeypatch.setattr(recent, "_ask", lambda: ask() + timedelta(hours=2))
    assert door.check(text, again=True) is not None
    seconds = 0.5
    assert door.check(text, again=True) is None
    assert token.name == "ci"


def test_sessions_that_look_again_are_one_question_a_second(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens, now = Tokens(store), 0.0
    door = BookAuthenticator(store)
    monkeypatch.setattr(door, "_cached", TokenCache(store, lambda: now))
    texts = [tokens.create(f"t{number}", "viewer", ["*"])[1] for number in range(5)]
    sessions = [session for text in texts if (session := door.open_session(text))]
    asked: list[object] = []
    read = store.read

    def counted(work: Callable[[Tx], object]) -> object:
        asked.append(work)
        return read(work)

    monkeypatch.setattr(store, "read", counted)

    def seen() -> list[bool]:
        return [door.check_session(session, again=True) is not None for session in sessions]

    assert seen() == [True] * 5
    asked.clear()
    for _ in range(20):
        assert seen() == [True] * 5
    assert asked == []
    tokens.revoke("t3")
    assert door.check_session(sessions[3]) is None, "without `again` the books are asked"
    now += 1
    asked.clear()
    assert seen() == [True, True, True, False, True]
    assert len(asked) == 1
    now += 3600
    assert door.check_session(sessions[0], again=True) is not None
    assert door.check_session("0190b5c4-0000-7000-8000-000000000000.1.a.b", again=True) is None


def test_who_waits_for_a_question_that_fails_does_not_repeat_it(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, asked = 0.0, 0
    recent = TokenCache(store, lambda: now)
    token, _ = Tokens(store).create("ci", "viewer", ["*"])
    read = store.read

    def silent(work: Callable[[Tx], object]) -> object:  # noqa: ARG001
        nonlocal now, asked
        now, asked = now + 1, asked + 1
        raise Unavailable("the database does not answer")

    monkeypatch.setattr(store, "read", silent)
    for _ in range(10):
        with pytest.raises(Unavailable, match="the database does not answer"):
            recent.get(token.id)
    assert asked == 1
    now += 0.5
    with pytest.raises(Unavailable):
        recent.get(token.id)
    assert asked == 2
    monkeypatch.setattr(store, "read", read)
    now += 0.5
    found, _, _ = recent.get(token.id)
    assert found is not None


@pytest.mark.parametrize("kind", ["local", "books"])
def test_a_session_that_is_made_up_lengthens_nobodys_question(
    store: SqliteStore, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, text = Tokens(store).create("ci", "viewer", ["*"])
    door = BookAuthenticator(store, lambda: LOCAL)
    session = door.open_session(LOCAL if kind == "local" else text)
    assert session is not None
    forged = session[:-1] + ("0" if session[-1] != "0" else "1")
    monkeypatch.setattr(door._cached, "get", lambda *_: pytest.fail("it was asked for"))
    assert door.check_session(forged, again=True) is None
    assert door.check(text[:-1] + ("a" if text[-1] != "a" else "b"), again=True) is None
    assert not door._cached.knows(token.id)
    if kind == "local":  # its signature is checked without the books
        monkeypatch.setattr(store, "read", lambda _: pytest.fail("the books were asked"))
        assert door.check_session(forged) is None


@pytest.mark.parametrize("how", ["revoked here", "revoked elsewhere", "expired", "forgotten"])
def test_a_token_that_has_ended_is_known_for_a_second_at_most(
    store: SqliteStore, clock: VirtualClock, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens, seconds = Tokens(store), 0.0
    door = BookAuthenticator(store)
    monkeypatch.setattr(door, "_recent", CallerCache(lambda: seconds))
    until = clock.now + timedelta(seconds=0.5) if how == "expired" else None
    _, text = tokens.create("ci", "operator", ["shop"], expires_at=until)
    assert door.known(text) is None, "nobody has asked the books yet"
    caller = door.check(text)
    assert caller is not None
    assert door.known(text) == caller
    if how == "expired":
        seconds = 0.5
    elif how == "forgotten":
        tokens.revoke("ci")
        store.transact(lambda tx: purge_all(tx, tx.now + timedelta(days=1), 10))
        seconds = 1.0
    else:
        tokens.revoke("ci")
        assert door.known(text) == caller, "another process may have revoked it"
        if how == "revoked here":
            door.forget()
        else:
            seconds = 1.0
    clock.advance(timedelta(seconds=1))
    assert door.known(text) is None
    assert door.check(text) is None
    assert door.known(text) is None


def test_only_tokens_that_were_accepted_are_known(store: SqliteStore) -> None:
    tokens, door = Tokens(store), BookAuthenticator(store, lambda: LOCAL)
    _, text = tokens.create("ci", "viewer", ["*"])
    wrong = text[:-1] + ("a" if text[-1] != "a" else "b")
    for refused in (wrong, "nonsense", "", "é"):
        assert door.check(refused) is None
        assert door.known(refused) is None
    assert door.check(LOCAL) is not None
    assert door.known(LOCAL) is None, "its file is looked at for every request"
    assert door.check(text, again=True) is not None
    assert door.known(text) is None, "streams have answers of their own"


def test_a_token_with_the_name_of_a_revoked_one_has_its_own_role_at_once(
    store: SqliteStore,
) -> None:
    tokens, door = Tokens(store), BookAuthenticator(store)
    _, admin = tokens.create("ci", "admin", ["*"])
    assert door.check(admin) is not None
    tokens.revoke("ci")
    _, viewer = tokens.create("ci", "viewer", ["shop"])
    caller = door.known(viewer) or door.check(viewer)
    assert caller is not None
    assert (caller.role, caller.namespaces) == (Role.VIEWER, ("shop",))


def test_that_a_busy_token_is_used_is_put_down_once_a_minute(
    store: SqliteStore, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens, door = Tokens(store), BookAuthenticator(store)
    seconds = 0.0
    monkeypatch.setattr(door, "_recent", CallerCache(lambda: seconds))
    _, text = tokens.create("ci", "viewer", ["*"])
    for _ in range(200):
        assert door.known(text) or door.check(text)
        clock.advance(timedelta(seconds=0.7))
        seconds += 0.7
    (token,) = tokens.list()
    assert token.last_used_at is not None
    assert clock.now - token.last_used_at <= timedelta(minutes=1, seconds=2)
