"""The audit log: who changed what, written with the change and read a page at a time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from duebook.model.change import Change, ChangeFilter, change_text
from duebook.model.listing import Found, PagePosition
from duebook.store.sql.looking import look
from duebook.store.sql.rows import EARLIEST, LAST_PLACE, LATEST, clean, micros, moment, without_nul
from duebook.store.sql.statements import Part, Row, Values

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Audit", "NewChange"]


class NewChange(NamedTuple):
    """The values of `insert_change`, in its order."""

    at: Any
    by: str | None
    namespace: str
    action: str
    kind: str
    subject: str | None
    subject_id: str
    before: str | None
    after: str | None


class Audit(Part):
    """Changes, the newest first."""

    def record(self, changes: Sequence[Change]) -> None:
        """Store changes at their time; assigns their ids."""
        rows = [
            NewChange(
                self._db.stamp(change.at),
                clean(change.by),
                change.namespace,
                change.action,
                change.kind,
                clean(change.subject),
                change.subject_id,
                change_text(change.before),
                change_text(change.after),
            )
            for change in changes
        ]
        self._db.insert_all([("insert_change", rows)])

    def list_changes(
        self, namespace: str | None, wanted: ChangeFilter, after: PagePosition | None, limit: int
    ) -> Found[Change]:
        """The newest first, of a namespace or of all; a position is an instant and an id."""
        since = wanted.since or EARLIEST

        def read(after: PagePosition | None, most: int) -> list[Row]:
            at, id_ = (micros(wanted.until or LATEST), LAST_PLACE) if after is None else after
            bounds: Values = {"since": since, "at": moment(int(at)), "id": id_, "limit": most}
            if namespace is None:
                return self._db.all("list_all_changes", **bounds)
            if wanted.subject is None:
                return self._db.all("list_changes", namespace=namespace, **bounds)
            subject = without_nul(wanted.subject)
            return self._db.all("list_changes_of", namespace=namespace, subject=subject, **bounds)

        asked = (wanted.kind, wanted.subject, wanted.by)

        def matches(row: Row) -> bool:
            return all(value in (None, seen) for value, seen in zip(asked, row[2:], strict=True))

        found = look(
            read, matches, lambda row: (micros(self._db.time(row[1])), row[0]), after, limit
        )
        return Found(self._changes([row[0] for row in found.rows]), found.last)

    def _changes(self, ids: list[int]) -> list[Change]:
        rows = self._db.all("list_changes_by_id", ids=ids) if ids else []
        changes = {row[0]: self._change(row) for row in rows}
        return [changes[id_] for id_ in ids if id_ in changes]

    def _change(self, row: Row) -> Change:
        id_, at, by, namespace, action, kind, subject, subject_id, before, after = row
        words = by, namespace, action, kind, subject, subject_id
        return Change(id_, self._db.time(at), *words, _value(before), _value(after))


def _value(text: str | None) -> dict[str, Any] | None:
    return None if text is None else json.loads(text)
