"""Makes requests safe to repeat: a later request with the same key gets the first response."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import Invalid, quoted
from duebook.lazy_dataclasses import dataclass
from duebook.store.joined import JoinedStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.store.base import Store, Tx

__all__ = ["IdempotencyKey", "perform_once"]

_KEY: Final = re.compile(r"[!-~]{1,255}", re.ASCII)


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """A key chosen by the client, its scope, and a fingerprint that distinguishes requests."""

    scope: str
    key: str
    fingerprint: str

    def __post_init__(self) -> None:
        if not _KEY.fullmatch(self.key):
            raise Invalid(
                f"Idempotency-Key {quoted(self.key)} is not a string of 1 to 255 visible ASCII "
                "characters"
            )


def perform_once(
    store: Store, key: IdempotencyKey, work: Callable[[Store], dict[str, Any]]
) -> tuple[dict[str, Any], bool]:
    """The response of `work`, a JSON object, and whether it is that of an earlier request.

    Key, work and response are one transaction: `work` gets a store inside it. If it raises, nothing
    is stored, not even the key. Concurrent requests with the key wait. Raises KeyReused if the key
    was used with another fingerprint, and Unavailable if such a request takes too long elsewhere.
    """

    def transaction(tx: Tx) -> tuple[dict[str, Any], bool]:
        kept: dict[str, Any] | None = tx.access.keep_key(key.scope, key.key, key.fingerprint)
        if kept is not None:
            return kept, True
        answer = work(JoinedStore(tx))
        tx.access.keep_answer(key.scope, key.key, answer)
        return answer, False

    return store.transact(transaction)
