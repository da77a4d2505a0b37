"""Access for remote clients, and the responses to requests that may be repeated."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from duebook.errors import Conflict, KeyReused, NotFound, shorten
from duebook.ids import looks_like_id
from duebook.model.access import AccessToken, Role
from duebook.settings import KEYS_KEPT
from duebook.store.sql.rows import clean, without_nul
from duebook.store.sql.statements import Part, Row

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

__all__ = ["Access"]


class Access(Part):
    """Tokens, sessions of browsers and idempotency keys."""

    def create_token(self, token: AccessToken, digest: str) -> None:
        """Store a new token; raises Conflict when an unrevoked one has its name."""
        made = self._db.run(
            "insert_token",
            id=token.id,
            name=token.name,
            role=token.role.value,
            namespaces=json.dumps(token.namespaces),
            digest=digest,
            now=self._db.now,
            by=clean(token.created_by),
            expires_at=token.expires_at,
        )
        if not made:
            raise Conflict(
                f'token "{token.name}" already exists; revoke it first, or choose another name'
            )

    def find_token(self, name: str) -> str:
        """The id of an unrevoked token by its name, or of any by its id; raises NotFound."""
        found = self._db.value("find_token", name=without_nul(name))
        if found is None and looks_like_id(name):
            found = self._db.value("get_token", id=name)
        if found is None:
            raise NotFound(f'token "{shorten(name)}" does not exist, or was revoked')
        return str(found)

    def get_token(self, token_id: str) -> tuple[AccessToken, str] | None:
        """A token and the digest of its secret."""
        row = self._db.one("get_token", id=token_id)
        return None if row is None else (self._token(row[:-1]), row[-1])

    def get_tokens(self, token_ids: Sequence[str]) -> dict[str, tuple[AccessToken, str]]:
        """Like `get_token`, for many, by their id; those that do not exist are omitted."""
        rows = self._db.all("list_tokens_by_id", ids=list(token_ids))
        return {row[0]: (self._token(row[:-1]), row[-1]) for row in rows}

    def list_tokens(self) -> list[AccessToken]:
        """By name; includes revoked ones."""
        return [self._token(row) for row in self._db.all("list_tokens")]

    def _token(self, row: Row) -> AccessToken:
        id_, name, role, namespaces, created_at, by, *times = row
        names = tuple(json.loads(namespaces))
        made = self._db.time(created_at)
        return AccessToken(id_, name, Role(role), names, made, by, *map(self._db.time, times))

    def revoke_token(self, token_id: str) -> bool:
        """False when it was revoked before."""
        return self._db.run("revoke_token", id=token_id, now=self._db.now) == 1

    def use_token(self, token_id: str, before: datetime) -> None:
        """Record that it is used now, unless it was already used since `before`."""
        self._db.run("use_token", id=token_id, now=self._db.now, before=before)

    def end_login(self, digest: str, token_id: str, expires_at: datetime) -> None:
        """Make a browser session invalid from now on; it would have ended at `expires_at`."""
        self._db.run("end_login", digest=digest, token_id=token_id, expires_at=expires_at)

    def list_ended_logins(self, digests: Sequence[str]) -> list[str]:
        """Which of them were ended, among those that would otherwise still be valid."""
        if not digests:
            return []
        return [digest for (digest,) in self._db.all("list_ended_logins", ids=list(digests))]

    def keep_key(self, scope: str, key: str, fingerprint: str) -> Any:
        """Assign a key to this request; returns None, or the response of an earlier request with
        it.

        Waits while another transaction has the key. Raises KeyReused if it came with a different
        request. It is free again after a day.
        """
        place = {"scope": scope, "key": key}
        times = {"now": self._db.now, "before": self._db.now - KEYS_KEPT}
        if self._db.run("keep_key", fingerprint=fingerprint, **place, **times):
            return None
        # a separate statement, so that it sees what was waited for
        first, answer = self._db.all("get_answer", **place)[0]
        if first != fingerprint:
            raise KeyReused(
                f'idempotency key "{shorten(key)}" came with another request before; '
                "use a new key for each request, and the same only to repeat one"
            )
        return json.loads(answer)

    def keep_answer(self, scope: str, key: str, answer: Any) -> None:
        """What `keep_key` will return from now on: any JSON but null."""
        self._db.run("keep_answer", scope=scope, key=key, answer=json.dumps(answer))

    def get_secret(self, name: str) -> bytes:
        """A secret that only processes on this database know; `cursors` seals the cursors of
        lists."""
        return bytes.fromhex(self._db.value("get_secret", name=name))
