"""Whose a token or a session of a browser is: asks the books, and knows the local token."""

from __future__ import annotations

import hmac
import time
from typing import TYPE_CHECKING, Final
from uuid import UUID

from duebook.api.local_token import LocalToken
from duebook.api.login_links import LoginLinks
from duebook.api.permissions import Caller
from duebook.api.recent_tokens import RecentTokens
from duebook.book.tokens import Tokens
from duebook.model.access import Role, digest_of, read_session, secret_of, session_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from duebook.store.base import Store

__all__ = ["SESSION_LASTS", "BookAuthenticator", "authenticator_of"]

SESSION_LASTS: Final = 12 * 3600
"""Seconds."""
LOCAL: Final = "local"


class BookAuthenticator:
    """Implements gate.Authenticator. `local` tells the token that `duebook up` keeps in a file, as
    it is now, and `links` are those that log in with it.

    A session is `id.expiry.proof.signature`: it needs no table, and ends with its token. Nobody
    makes one, or a longer one, of what the books keep alone, or of another session.
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
        self._recent = RecentTokens(store)

    def check(self, text: str) -> Caller | None:
        """Raises Unavailable when the books do not answer."""
        local = self._local()
        if local is not None and hmac.compare_digest(text.encode(), local.encode()):
            return _LOCAL_CALLER
        token = self._tokens.check(text)
        return None if token is None else Caller.of(token)

    def open_session(self, text: str) -> str | None:
        """A session for who holds a token; None when nobody does."""
        caller = self.check(text)
        if caller is None:
            return None
        return session_of(text, f"{caller.id}.{int(self._clock()) + SESSION_LASTS}")

    def use_link(self, code: str) -> str | None:
        """A session for the first who comes with the code of a login link, within a minute."""
        token = None if self._links is None else self._links.use(code)
        return None if token is None else self.open_session(token)

    def check_session(self, text: str, again: bool = False) -> Caller | None:
        parts = text.split(".")
        if len(parts) != 4:
            return None
        token_id, expiry = parts[:2]
        if not (expiry.isascii() and expiry.isdecimal() and len(expiry) < 12):
            return None
        digest, caller = self._known(token_id, again)
        if digest is None or not read_session(text, digest):
            return None
        return caller if self._clock() < int(expiry) else None

    def _known(self, token_id: str, again: bool) -> tuple[str | None, Caller | None]:
        """The digest of a token, and who that is; None for a token that is none."""
        if token_id == LOCAL:
            local = self._local()
            return (None, None) if local is None else (digest_of(secret_of(local)), _LOCAL_CALLER)
        try:
            wanted = str(UUID(token_id))
        except ValueError:
            return None, None
        if again:
            found, now = self._recent.get(wanted)
        else:
            found, now = self._store.read(lambda tx: (tx.get_token(wanted), tx.now))
        if found is None or not found[0].opens(now):
            return None, None
        return found[1], Caller.of(found[0])


_LOCAL_CALLER: Final = Caller(LOCAL, LOCAL, Role.ADMIN)


def authenticator_of(store: Store, local_path: Path | None) -> BookAuthenticator:
    """For the tokens of the books and the local one at a path; None: that one opens nothing."""
    if local_path is None:
        return BookAuthenticator(store)
    token = LocalToken(local_path)
    return BookAuthenticator(store, token, links=LoginLinks(local_path, token))
