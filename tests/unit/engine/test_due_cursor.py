"""Where a look for due schedules begins."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

from duebook.engine.due_cursor import LONGEST_COMMIT, DueCursor
from duebook.store.values import Mark, Taken

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
LATER = NOW + timedelta(minutes=1)


class Books:
    """Says where looks began."""

    def __init__(self) -> None:
        self.looks: list[Mark | None] = []

    def take(self, last: str | None, cursor: DueCursor) -> None:
        """A look that finds a whole batch up to `last`, or less."""

        class Plans:
            @staticmethod
            def take(_limit: int, after: Mark | None) -> Taken:
                self.looks.append(after)
                return Taken([], None if last is None else Mark(NOW, last))

        cursor.take(cast("Any", SimpleNamespace(plans=Plans)), 10)


def test_in_a_backlog_a_look_begins_after_the_last_one_taken() -> None:
    cursor, books = DueCursor(), Books()
    for last in ("a", "b", None):
        books.take(last, cursor)
    assert books.looks == [None, Mark(NOW, "a"), Mark(NOW, "b")]


def test_after_a_backlog_one_look_is_from_the_beginning_for_what_others_held() -> None:
    cursor, books = DueCursor(), Books()
    books.take("a", cursor)
    books.take(None, cursor)
    assert not cursor.rest(NOW, None)
    books.take(None, cursor)
    assert books.looks[-1] is None
    assert cursor.rest(NOW, LATER)
    assert cursor.mark == Mark(NOW - LONGEST_COMMIT, "")


def test_what_others_hold_keeps_looks_at_the_beginning() -> None:
    """Should they die, it is due again, however long ago it was."""
    cursor, books = DueCursor(), Books()
    books.take(None, cursor)
    assert cursor.rest(NOW, NOW - timedelta(hours=1))
    assert cursor.mark is None


def test_what_came_to_nothing_or_was_left_behind_is_looked_for() -> None:
    for look_back_to, mark in ((LATER, Mark(NOW, "a")), (NOW, None), (None, None)):
        cursor = DueCursor()
        cursor.mark = Mark(NOW, "a")
        cursor.forget() if look_back_to is None else cursor.look_back(look_back_to)
        assert cursor.mark == mark
