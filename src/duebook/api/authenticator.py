"""Whose a token or a session of a browser is: asks the books, and knows the local token."""

from __future__ import annotations

import hmac
import time
from typing import TYPE_CHECKING, Final
from uuid import UUID

from duebook.api.permissions import Caller
from duebook.book.tokens import Tokens
from duebook.model.access import Role, digest_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.store.base import Store

__all__ = ["SESSION_LASTS", "BookAuthenticator"]

SESSION_LASTS: Final = 12 * 3600
"""Seconds."""
LOCAL: Final = "local"


class BookAuthenticator:
    """Implements gate.Authenticator. `local` is the token that `duebook up` keeps in a file.

    A session is `id.expiry.signature`, signed with the digest of the token it was opened with: no
    secret is in it, it needs no table, and it ends with its token.
    """

    def __init__(
        self, store: Store, local: str | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._tokens = Tokens(store)
        self._local = local
        self._clock = clock

    def check(self, text: str) -> Caller | None:
        """Raises Unavailable when the books do not answer."""
        if self._local is not None and hmac.compare_digest(text.encode(), self._local.encode()):
            return _LOCAL_CALLER
        token = self._tokens.check(text)
        return None if token is None else Caller.of(token)

    def open_session(self, text: str) -> str | None:
        """A session for who holds a token; None when nobody does."""
        caller = self.check(text)
        if caller is None:
            return None
        claim = f"{caller.id}.{int(self._clock()) + SESSION_LASTS}"
        key, _ = self._key_of(caller.id)
        return None if key is None else f"{claim}.{_sign(key, claim)}"

    def check_session(self, text: str) -> Caller | None:
        claim, _, signature = text.rpartition(".")
        token_id, _, expiry = claim.partition(".")
        if not (expiry.isascii() and expiry.isdecimal() and len(expiry) < 12):
            return None
        key, caller = self._key_of(token_id)
        if key is None or not hmac.compare_digest(_sign(key, claim).encode(), signature.encode()):
            return None
        return caller if self._clock() < int(expiry) else None

    def _key_of(self, token_id: str) -> tuple[str | None, Caller | None]:
        """What signs the sessions of a token, and who that is; None for a token that is none."""
        if token_id == LOCAL:
            local = self._local
            return (None, None) if local is None else (digest_of(local), _LOCAL_CALLER)
        try:
            wanted = str(UUID(token_id))
        except ValueError:
            return None, None
        found, now = self._store.read(lambda tx: (tx.get_token(wanted), tx.now))
        if found is None or not found[0].opens(now):
            return None, None
        return found[1], Caller.of(found[0])


_LOCAL_CALLER: Final = Caller(LOCAL, LOCAL, Role.ADMIN)


def _sign(key: str, claim: str) -> str:
    return hmac.new(key.encode(), claim.encode(), "sha256").hexdigest()
