"""Records in the database what this node cannot serve at present, and why; several of its threads
add to it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from duebook.model.celery_target import CELERY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from duebook.model.serving import Serving
    from duebook.store.base import Store

    What = Mapping[tuple[str, str], str]
    """By namespace and name."""

__all__ = ["Unserved"]


class Unserved:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._parts: dict[str, What] = {}
        self._told: tuple[str | None, What] = (None, {})
        """what the books have, and by which session"""
        self.session_id: str | None = None
        """of the node, under which others see it"""

    def celery(self, namespaces: Serving) -> Callable[[str | None], None]:
        """To be told why the node cannot reach Celery's broker or result backend; None: it can."""

        def tell(why: str | None) -> None:
            names = [] if why is None else namespaces.to_json()
            self.tell("celery", {(name, CELERY): why or "" for name in names})

        return tell

    def tell(self, part: str, what: What) -> None:
        """From now on a part of the node cannot serve these, and no others. Raises Unavailable if
        that cannot be written now; the next `write` tries again."""
        with self._lock:
            self._parts[part] = what
        self.write()

    def write(self) -> None:
        """Write what the database does not have, such as after a failure, or for a new session of
        the node; raises Unavailable."""
        with self._lock:
            all_of_it = {key: why for part in self._parts.values() for key, why in part.items()}
            session_id, now = self.session_id, (self.session_id, all_of_it)
            if session_id is None or now == self._told:
                return
            nested: dict[str, dict[str, str]] = {}
            for (namespace, name), why in all_of_it.items():
                nested.setdefault(namespace, {})[name] = why
            if nested or self._told[1]:
                # a failure leaves open which of both the database has
                self._told = (None, {**self._told[1], **all_of_it})
                self._store.transact(lambda tx: tx.nodes.tell_unserved(session_id, nested))
            self._told = now
