"""Who may use the books from outside, and what was answered to requests that may be repeated."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from duebook.errors import Conflict, KeyReused, NotFound, shorten
from duebook.ids import looks_like_id
from duebook.model.access import AccessToken, Role
from duebook.settings import KEYS_KEPT
from duebook.store.sql.rows import clean, without_nul
from duebook.store.sql.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from duebook.store.sql.statements import Row

__all__ = ["Access"]

T = TypeVar("T")


class Access(Statements):
    """Tokens, idempotency keys, and parts of a transaction that can be undone alone."""

    def get_secret(self, name: str) -> bytes:
        return bytes.fromhex(self._value("get_secret", name=name))

    def create_token(self, token: AccessToken, digest: str) -> None:
        made = self._run(
            "insert_token",
            id=token.id,
            name=token.name,
            role=token.role.value,
            namespaces=json.dumps(token.namespaces),
            digest=digest,
            now=self.now,
            by=clean(token.created_by),
            expires_at=token.expires_at,
        )
        if not made:
            raise Conflict(
                f'token "{token.name}" exists already; revoke it first, or choose another name'
            )

    def find_token(self, name: str) -> str:
        found = self._value("find_token", name=without_nul(name))
        if found is None and looks_like_id(name):
            found = self._value("get_token", id=name)
        if found is None:
            raise NotFound(f'token "{shorten(name)}" does not exist, or was revoked')
        return str(found)

    def get_token(self, token_id: str) -> tuple[AccessToken, str] | None:
        row = self._one("get_token", id=token_id)
        return None if row is None else (self._token(row[:-1]), row[-1])

    def get_tokens(self, token_ids: Sequence[str]) -> dict[str, tuple[AccessToken, str]]:
        rows = self._all("list_tokens_by_id", ids=list(token_ids))
        return {row[0]: (self._token(row[:-1]), row[-1]) for row in rows}

    def list_tokens(self) -> list[AccessToken]:
        return [self._token(row) for row in self._all("list_tokens")]

    def _token(self, row: Row) -> AccessToken:
        id_, name, role, namespaces, created_at, by, *times = row
        names = tuple(json.loads(namespaces))
        made = self._time(created_at)
        return AccessToken(id_, name, Role(role), names, made, by, *map(self._time, times))

    def revoke_token(self, token_id: str) -> bool:
        return self._run("revoke_token", id=token_id, now=self.now) == 1

    def end_login(self, digest: str, token_id: str, expires_at: datetime) -> None:
        self._run("end_login", digest=digest, token_id=token_id, expires_at=expires_at)

    def list_ended_logins(self, digests: Sequence[str]) -> list[str]:
        if not digests:
            return []
        return [digest for (digest,) in self._all("list_ended_logins", ids=list(digests))]

    def use_token(self, token_id: str, before: datetime) -> None:
        self._run("use_token", id=token_id, now=self.now, before=before)

    def keep_key(self, scope: str, key: str, fingerprint: str) -> Any:
        place = {"scope": scope, "key": key}
        times = {"now": self.now, "before": self.now - KEYS_KEPT}
        if self._run("keep_key", fingerprint=fingerprint, **place, **times):
            return None
        # another statement, so that it sees what was waited for
        first, answer = self._all("get_answer", **place)[0]
        if first != fingerprint:
            raise KeyReused(
                f'idempotency key "{shorten(key)}" came with another request before; '
                "use a new key for each request, and the same only to repeat one"
            )
        return json.loads(answer)

    def keep_answer(self, scope: str, key: str, answer: Any) -> None:
        self._run("keep_answer", scope=scope, key=key, answer=json.dumps(answer))

    def undoable(self, work: Callable[[], T]) -> T:
        learned, used = dict(self.learned), dict(self.used)
        self._run("begin_part")
        try:
            result = work()
        except BaseException:
            self.used = used
            self.learned = learned  # definitions that are undone are not committed
            with suppress(Exception):  # the whole transaction may be lost, for the same reason
                self._run("undo_part")
                self._run("end_part")
            raise
        self._run("end_part")
        return result
