"""Bulk actions: the count that a user types to confirm, and what an undo affects, according to
the audit log; writes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from duebook.book.audit import MOST_LISTED
from duebook.errors import Invalid
from duebook.timetext import format_instant, parse_instant

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from duebook.book import Book
    from duebook.web.page_request import Form

__all__ = ["is_undo", "mistyped", "must_type", "span", "to_undo"]

TYPED: Final = 50
"""For more than this, the count must be typed to confirm."""
OPPOSITES: Final = {"pause": "resume", "resume": "pause", "retry": "cancel", "cancel": "retry"}


def must_type(count: int) -> bool:
    return count > TYPED


def mistyped(form: Form, count: int) -> str:
    """The problem with the typed count; empty if it is right."""
    if not must_type(count) or form["typed"].replace(",", "") == str(count):
        return ""
    return f"{count:,} are affected; type {count} to confirm"


def span(now: Callable[[], datetime], since: datetime) -> dict[str, str]:
    """The fields of a form that undoes what was done from `since` until now."""
    return {"since": format_instant(since), "upto": format_instant(now())}


def is_undo(form: Form) -> bool:
    return bool(form["since"] and form["upto"])


def to_undo(book: Book, kind: str, action: str, form: Form) -> dict[str, str]:
    """The names, by id, of what the same user did the opposite of `action` to; without what has
    since been changed by either action. Raises Invalid, and InvalidTime."""
    if action not in OPPOSITES:
        raise Invalid("choose what to undo")
    since, upto = parse_instant(form["since"]), parse_instant(form["upto"])
    latest: dict[str, tuple[str, bool]] = {}
    cursor: str | None = None
    while True:
        found = book.audit.list(kind, since=since, cursor=cursor, limit=MOST_LISTED)
        for change in found:
            if change.action in (action, OPPOSITES[action]):
                own = change.action != action and change.by == book.by and change.at <= upto
                latest.setdefault(change.subject_id, (change.subject, own))
        cursor = found.next_cursor
        if cursor is None:
            return {id_: name for id_, (name, own) in latest.items() if own}
