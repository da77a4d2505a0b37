"""Tokens: created once, verified by their secret, revoked for good; their last use is recorded."""

from __future__ import annotations

import hmac
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from duebook.book import Book
from duebook.errors import Conflict, Invalid, NotFound, Unavailable
from duebook.ids import new_id
from duebook.model.access import Role, secret_text
from tests.support.builders import BEGIN, MINUTE, SECOND, VirtualClock
from tests.support.retention import purge_all

if TYPE_CHECKING:
    from duebook.store.base import Store
    from tests.support.backends import Backend

pytestmark = pytest.mark.book_as(by="cli:ann")


def test_a_token_is_made_listed_and_proven_by_its_secret(book: Book) -> None:
    token, secret = book.tokens.create("ci", "operator", ["shop", "mail"])
    assert (token.name, token.role, token.namespaces) == ("ci", Role.OPERATOR, ("mail", "shop"))
    assert (token.created_at, token.created_by, token.expires_at) == (BEGIN, "cli:ann", None)
    assert book.tokens.list() == [token]
    assert book.tokens.check(secret) == token


def test_many_tokens_are_found_by_their_ids(book: Book, store: Store) -> None:
    tokens = [book.tokens.create(f"t{number}", "viewer", "*")[0] for number in range(3)]
    book.tokens.revoke("t1")
    wanted = [tokens[0].id, new_id(), tokens[1].id]
    found = store.read(lambda tx: tx.access.get_tokens(wanted))
    assert set(found) == {wanted[0], wanted[2]}
    assert found[wanted[2]] == store.read(lambda tx: tx.access.get_token(wanted[2]))
    assert store.read(lambda tx: tx.access.get_tokens([])) == {}


def test_a_secret_is_nowhere_in_the_books(book: Book, backend: Backend) -> None:
    _, secret = book.tokens.create("ci", "viewer", "*")
    (row,) = backend.rows("SELECT * FROM tokens")
    assert not any(secret[-20:] in str(value) for value in row)


def test_a_secret_is_compared_in_constant_time(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []
    real = hmac.compare_digest

    def compare(kept: str, given: str) -> bool:
        compared.append(given)
        return real(kept, given)

    monkeypatch.setattr(hmac, "compare_digest", compare)
    token, secret = book.tokens.create("ci", "viewer", "*")
    assert book.tokens.check(secret) is not None
    assert book.tokens.check(secret[:-1] + "~") is None, "no secret looks like that"
    assert book.tokens.check(secret_text(token.id, "A" * 43)) is None
    assert len(compared) == 2


def test_what_is_wrong_unknown_expired_or_revoked_opens_nothing(
    book: Book, clock: VirtualClock
) -> None:
    token, secret = book.tokens.create("ci", "viewer", "*", expires_at=BEGIN + MINUTE)
    _, other = book.tokens.create("other", "viewer", "*")
    assert book.tokens.check(secret[:-1] + ("A" if secret[-1] != "A" else "B")) is None
    assert book.tokens.check(secret_text(new_id(), secret[-43:])) is None
    assert book.tokens.check(secret_text(token.id, other[-43:])) is None
    for wrong in ("", "nonsense", "dbk_\0", None, 7):
        assert book.tokens.check(wrong) is None  # type: ignore[arg-type]
    assert book.tokens.check(secret) is not None
    clock.advance(MINUTE)
    assert book.tokens.check(secret) is None
    assert book.tokens.check(other) is not None
    book.tokens.revoke("other")
    assert book.tokens.check(other) is None


def test_a_revoked_token_stays_revoked_and_leaves_its_name(book: Book, clock: VirtualClock) -> None:
    first, secret = book.tokens.create("ci", "viewer", "*")
    with pytest.raises(Conflict, match=r'token "ci" already exists; revoke it first'):
        book.tokens.create("ci", "admin", "*")
    clock.advance()
    assert book.tokens.revoke("ci").revoked_at == clock.now
    second, _ = book.tokens.create("ci", "admin", "*")
    assert book.tokens.check(secret) is None
    assert [token.id for token in book.tokens.list()] == [first.id, second.id]
    with pytest.raises(Conflict, match="has already been revoked"):
        book.tokens.revoke(first.id)
    assert book.tokens.revoke(second.id).id == second.id
    for unknown in ("ci", "nobody", "x\0", new_id()):
        with pytest.raises(NotFound, match="does not exist, or was revoked"):
            book.tokens.revoke(unknown)
    with pytest.raises(Invalid, match="token 7 is not a string"):
        book.tokens.revoke(7)  # type: ignore[arg-type]


def test_a_wrong_token_is_refused_and_says_what_is_wrong(book: Book) -> None:
    with pytest.raises(Invalid, match=r'token "No Name"'):
        book.tokens.create("No Name", "viewer", "*")
    with pytest.raises(Invalid, match="is not one of viewer, operator, admin"):
        book.tokens.create("ci", "root", "*")
    with pytest.raises(Invalid, match="namespaces"):
        book.tokens.create("ci", "viewer", [])
    with pytest.raises(Invalid, match="expires_at 2026-01-05T12:00:00Z is in the past"):
        book.tokens.create("ci", "viewer", "*", expires_at=BEGIN)
    assert book.tokens.list() == []


def last_use(store: Store) -> object:
    return Book(store).tokens.list()[0].last_used_at


def test_the_last_use_is_put_down_at_most_once_a_minute(
    backend: Backend, clock: VirtualClock
) -> None:
    points: list[str] = []
    store = backend.open(points.append)
    book = Book(store)
    _, secret = book.tokens.create("ci", "viewer", "*")
    assert last_use(store) is None
    for _ in range(3):
        book.tokens.check(secret)
        Book(store).tokens.check(secret)
        clock.advance(19 * SECOND)
    assert last_use(store) == BEGIN
    assert points.count("after:use_token") == 1
    clock.advance(MINUTE)
    book.tokens.check(secret)
    assert last_use(store) == clock.now


def test_a_use_that_cannot_be_put_down_keeps_nobody_out(
    backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    def hook(point: str) -> None:
        if point == "before:use_token":
            raise Unavailable("the disk is full")

    book = Book(backend.open(hook))
    _, secret = book.tokens.create("ci", "viewer", "*")
    assert book.tokens.check(secret) is not None
    assert book.tokens.check(secret) is not None
    assert len(caplog.records) == 1, "and nobody waits for it each time"
    assert secret not in caplog.text


def test_tokens_that_are_of_no_use_are_forgotten_with_the_history(
    book: Book, store: Store, clock: VirtualClock
) -> None:
    book.tokens.create("lasts", "viewer", "*")
    book.tokens.create("expires", "viewer", "*", expires_at=BEGIN + MINUTE)
    book.tokens.create("revoked", "viewer", "*")
    clock.advance(MINUTE)
    book.tokens.revoke("revoked")
    store.transact(lambda tx: purge_all(tx, BEGIN, 10))
    assert len(book.tokens.list()) == 3
    clock.advance(timedelta(days=90))
    store.transact(lambda tx: purge_all(tx, clock.now, 10))
    assert [token.name for token in book.tokens.list()] == ["lasts"]
