"""Use cases of tokens: create, list, revoke and check them."""

from __future__ import annotations

import hmac
import logging
import secrets
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from duebook.book.audit import SHARED, Auditor
from duebook.errors import Conflict, DuebookError, Invalid, shorten
from duebook.ids import check_name, new_id
from duebook.model.access import (
    AccessToken,
    digest_of,
    read_namespaces,
    read_role,
    secret_text,
    split_secret,
)
from duebook.model.forms import token_scope
from duebook.timetext import format_instant, parse_instant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.model.access import Role
    from duebook.store.base import Store, Tx

    TokenList = list[AccessToken]  # inside the class below `list` is a method

__all__ = ["Tokens"]

log = logging.getLogger(__name__)

USE_KEPT_EVERY: Final = timedelta(minutes=1)


class Tokens:
    """The tokens of a database; each lists the namespaces that it gives access to."""

    def __init__(self, store: Store, by: str = "") -> None:
        self._store = store
        self._audit = Auditor(SHARED, by)
        self._used: dict[str, datetime] = {}

    def create(
        self,
        name: str,
        role: str | Role,
        namespaces: str | Sequence[str],
        expires_at: str | datetime | None = None,
    ) -> tuple[AccessToken, str]:
        """Create a token; returns it with its secret text, which cannot be shown again.

        Raises Invalid, and Conflict if the name belongs to a token that is not revoked.
        """
        token_id, secret = new_id(), secrets.token_urlsafe(32)
        check_name(name, "token")
        wanted, seen = read_role(role), read_namespaces(namespaces)
        until = None if expires_at is None else parse_instant(expires_at)

        def work(tx: Tx) -> AccessToken:
            if until is not None and until <= tx.now:
                raise Invalid(f"expires_at {format_instant(until)} is in the past")
            token = AccessToken(token_id, name, wanted, seen, tx.now, self._audit.by, until)
            tx.access.create_token(token, digest_of(secret))
            self._audit.note(tx, "create", "token", name, token_id, after=token_scope(token))
            return token

        return self._store.transact(work), secret_text(token_id, secret)

    def list(self) -> TokenList:
        """Return every token by name, including revoked and expired ones."""
        return self._store.read(lambda tx: tx.access.list_tokens())

    def revoke(self, name: str) -> AccessToken:
        """Revoke a token, by name or id; raises NotFound, and Conflict if it has already been
        revoked."""
        if not isinstance(name, str):
            raise Invalid(f"token {shorten(name)} is not a string")

        def work(tx: Tx) -> AccessToken:
            token_id = tx.access.find_token(name)
            if not tx.access.revoke_token(token_id):
                raise Conflict(f'token "{shorten(name)}" has already been revoked')
            token = _known(tx, token_id)
            self._audit.note(tx, "revoke", "token", token.name, token_id, token_scope(token))
            return token

        return self._store.transact(work)

    def check(self, text: str) -> AccessToken | None:
        """Return the token with this secret text, unless it was revoked or has expired.

        Its last use is recorded once a minute; if that fails, the token is still accepted.
        """
        found = self.look_up(text)
        return None if found is None else found[0]

    def look_up(self, text: str) -> tuple[AccessToken, datetime] | None:
        """Like `check`, but also returns the database's time."""
        parts = split_secret(text) if isinstance(text, str) else None
        if parts is None:
            return None
        token_id, digest = parts
        found, now = self._store.read(lambda tx: (tx.access.get_token(token_id), tx.now))
        if found is None:
            return None
        token, kept = found
        if not hmac.compare_digest(kept, digest) or not token.opens(now):
            return None
        self._note_use(token, now)
        return token, now

    def _note_use(self, token: AccessToken, now: datetime) -> None:
        since = now - USE_KEPT_EVERY
        known = [at for at in (token.last_used_at, self._used.get(token.id)) if at is not None]
        if known and max(known) > since:
            return
        self._used[token.id] = now  # also if it fails, so that requests do not retry it
        try:
            self._store.transact(lambda tx: tx.access.use_token(token.id, since))
        except DuebookError as error:
            log.warning("cannot record that token %s was used: %s", token.name, error)


def _known(tx: Tx, token_id: str) -> AccessToken:
    found: Any = tx.access.get_token(token_id)
    token: AccessToken = found[0]
    return token
