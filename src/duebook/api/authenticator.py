"""Finds the owner of a token or browser session: queries the database, and has the local token."""

from __future__ import annotations

import hmac
import secrets
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from uuid import UUID

from duebook.api.caller_cache import CallerCache
from duebook.api.local_token import LocalToken
from duebook.api.login_links import LoginLinks
from duebook.api.permissions import Caller
from duebook.api.token_cache import TokenCache
from duebook.book.tokens import Tokens
from duebook.model.access import (
    Role,
    digest_of,
    read_session,
    secret_of,
    session_digest,
    session_of,
    split_secret,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from duebook.model.access import AccessToken
    from duebook.store.base import Store

__all__ = ["SESSION_LASTS", "BookAuthenticator", "authenticator_of"]

SESSION_LASTS: Final = 12 * 3600
"""In seconds."""
LOCAL: Final = "local"


class BookAuthenticator:
    """Implements gate.Authenticator. `local` returns the current token in the file that
    `duebook up` keeps, and `links` are those that log in with it.

    A session is `id.expiry.number.proof.signature`. It ends with its token; the database stores
    only sessions that were ended earlier. A session cannot be forged or extended with the contents
    of the database alone, or with another session.
    """

    def __init__(
        self,
        store: Store,
        local: Callable[[], str | None] = lambda: None,
        clock: Callable[[], float] = time.time,
        links: LoginLinks | None = None,
    ) -> None:
        self._store = store
        self._tokens = Tokens(store)
        self._local = local
        self._clock = clock
        self._links = links
        self._cached = TokenCache(store)
        self._recent = CallerCache()

    def known(self, text: str) -> Caller | None:
        """The owner of a token that was accepted less than a second ago; never waits."""
        return self._recent.get(text)

    def forget(self) -> None:
        """Tokens may have been revoked: check each again at its next request."""
        self._recent.forget()
        self._cached.forget()

    def check(self, text: str, again: bool = False) -> Caller | None:
        """Raises Unavailable if the database does not respond."""
        local = self._local()
        if local is not None and hmac.compare_digest(text.encode(), local.encode()):
            return _LOCAL_CALLER
        if again:
            token = self._look_again(text)
            return None if token is None else Caller.of(token)
        return self._look_up(text)

    def _look_up(self, text: str) -> Caller | None:
        asked = self._recent.begin()
        found = self._tokens.look_up(text)
        if found is None:
            return None
        token, now = found
        caller = Caller.of(token)
        left = None if token.expires_at is None else (token.expires_at - now).total_seconds()
        self._recent.keep(text, caller, asked, left)
        return caller

    def _look_again(self, text: str) -> AccessToken | None:
        """As `Tokens.check`, with one query for all concurrent callers."""
        if (claimed := split_secret(text)) is None:
            return None
        if not self._cached.knows(claimed[0]) and self._tokens.check(text) is None:
            return None
        found, now, _ = self._cached.get(claimed[0])
        if found is None or not hmac.compare_digest(found[1], claimed[1]):
            return None
        return found[0] if found[0].opens(now) else None

    def open_session(self, text: str) -> str | None:
        """A session for the holder of a valid token; None for any other text."""
        caller = self.check(text)
        if caller is None:
            return None
        number = secrets.token_hex(8)  # so that each session can be ended separately
        return session_of(text, f"{caller.id}.{int(self._clock()) + SESSION_LASTS}.{number}")

    def end_session(self, text: str) -> None:
        """Raises Unavailable if the database does not respond; ignores an invalid session."""
        if self.check_session(text) is None:
            return
        token_id, expiry = text.split(".")[:2]
        until = datetime.fromtimestamp(int(expiry), UTC)
        self._store.transact(lambda tx: tx.access.end_login(session_digest(text), token_id, until))
        self._cached.forget()

    def use_link(self, code: str) -> str | None:
        """A session for the first use of a login link's code, within a minute."""
        token = None if self._links is None else self._links.use(code)
        return None if token is None else self.open_session(token)

    def check_session(self, text: str, again: bool = False) -> Caller | None:
        """Raises Unavailable if the database does not respond."""
        token_id = self._claimed(text)
        if token_id is None or (token_id == LOCAL and not self._is_local(text)):
            return None
        session = session_digest(text)
        if not again:
            found, now, is_over = self._store.read(
                lambda tx: (
                    tx.access.get_token(token_id),
                    tx.now,
                    bool(tx.access.list_ended_logins([session])),
                )
            )
        elif self._cached.knows(token_id, session) or self.check_session(text) is not None:
            found, now, is_over = self._cached.get(token_id, session)
        else:
            return None
        if is_over:
            return None
        return _LOCAL_CALLER if token_id == LOCAL else _caller(text, found, now)

    def _claimed(self, text: str) -> str | None:
        """The id of the token that a session claims; None if it has expired or is invalid."""
        parts = text.split(".")
        if len(parts) != 5:
            return None
        token_id, expiry = parts[:2]
        if not (expiry.isascii() and expiry.isdecimal() and len(expiry) < 12):
            return None
        if self._clock() >= int(expiry):
            return None
        try:
            return LOCAL if token_id == LOCAL else str(UUID(token_id))
        except ValueError:
            return None

    def _is_local(self, text: str) -> bool:
        """Whether a session belongs to the local token; does not query the database."""
        local = self._local()
        return local is not None and read_session(text, digest_of(secret_of(local)))


def _caller(text: str, found: tuple[AccessToken, str] | None, now: datetime) -> Caller | None:
    """The caller of a session, by its token and the token's digest from the database."""
    if found is None or not found[0].opens(now) or not read_session(text, found[1]):
        return None
    return Caller.of(found[0])


_LOCAL_CALLER: Final = Caller(LOCAL, LOCAL, Role.ADMIN)


def authenticator_of(store: Store, local_path: Path | None) -> BookAuthenticator:
    """For the tokens of the database and the local token at a path; None: no local token."""
    if local_path is None:
        return BookAuthenticator(store)
    token = LocalToken(local_path)
    return BookAuthenticator(store, token, links=LoginLinks(local_path, token))
