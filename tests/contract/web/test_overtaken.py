"""Forms that are sent late, or after another user changed what they refer to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from duebook.timetext import format_instant

if TYPE_CHECKING:
    from duebook.book import Book
    from tests.support.pages import Browser

pytestmark = pytest.mark.both_databases

PAGE = "/schedules/job"


def make(book: Book, **definition: Any) -> None:
    whole: Any = {"trigger": "30 2 * * *", "target": {"command": ["true"]}} | definition
    book.schedules.create("job", **whole)


def trigger_of(book: Book) -> str:
    spec = book.schedules.get("job").spec
    assert spec is not None
    return spec.trigger_text


def test_a_skip_is_of_the_due_time_that_was_shown(operator: Browser, book: Book) -> None:
    make(book)
    (first,) = book.schedules.preview("job", 1)
    asked, other = operator.ok(f"{PAGE}/skip-next"), operator.ok(f"{PAGE}/skip-next")
    assert asked.form(f"{PAGE}/skip-next")["fields"]["due"] == format_instant(first)
    assert "skipped" in operator.send(asked, f"{PAGE}/skip-next").text
    second = book.schedules.get("job").next_due_at
    again = operator.send(other, f"{PAGE}/skip-next")
    assert (again.status, "is not the next one" in again.text) == (409, True)
    assert book.schedules.get("job").next_due_at == second
    assert "skipped" in operator.send(again, f"{PAGE}/skip-next").text  # it asks about the second


def test_a_move_is_of_the_due_time_that_was_shown(operator: Browser, book: Book) -> None:
    make(book)
    asked = operator.ok(f"{PAGE}/move")
    book.schedules.skip_next("job")
    late = operator.send(asked, f"{PAGE}/move", at="2099-01-01T10:00")
    assert (late.status, "is not the next one" in late.text) == (409, True)
    assert late.form(f"{PAGE}/move")["fields"]["at"] == "2099-01-01T10:00"


def test_a_due_time_that_is_moved_again_goes_back_to_where_it_was(
    operator: Browser, book: Book
) -> None:
    make(book)
    first, second = book.schedules.preview("job", 2)
    middle = first + (second - first) / 4
    book.schedules.reschedule("job", middle)
    at = f"{first + (second - first) / 2:%Y-%m-%dT%H:%M}"
    moved = operator.send(operator.ok(f"{PAGE}/move"), f"{PAGE}/move", at=at)
    assert "was moved" in moved.text
    operator.send(moved, f"{PAGE}/move")
    assert book.schedules.get("job").next_due_at == middle


def test_what_is_moved_to_now_is_not_said_to_be_undone(operator: Browser, book: Book) -> None:
    make(book)
    moved = operator.send(operator.ok(f"{PAGE}/move"), f"{PAGE}/move", at="2020-01-01T10:00")
    assert "moved to now" in moved.text
    assert "Undo" not in moved.text


def test_two_who_edit_lose_nothing_of_each_other(admin: Browser, book: Book) -> None:
    make(book, payload={"region": "north", "size": 3})
    mine = admin.ok(f"{PAGE}/edit")
    lines = mine.form(f"{PAGE}/edit")["fields"]["payload"].replace("\n", "\r\n")  # as browsers do
    book.schedules.update("job", queue="slow", by="ann")
    book.schedules.update("job", payload={"region": "south"}, by="ann")
    late = admin.send(mine, f"{PAGE}/edit", trigger="0 9 * * *", payload=lines, step="preview")
    assert (late.status, "while you edited version 1" in late.text) == (409, True)
    fields = late.form(f"{PAGE}/edit")["fields"]
    assert (fields["queue"], fields["trigger"], fields["version"]) == ("slow", "0 9 * * *", "3")
    assert "south" in fields["payload"]
    preview = admin.send(late, f"{PAGE}/edit", step="preview")
    assert "slow" not in preview.text.partition("Before")[0]
    saved = admin.send(preview, f"{PAGE}/edit", step="save")
    assert "in use" in saved.text
    twice = admin.send(preview, f"{PAGE}/edit", step="save")
    assert (twice.status, "in use" in twice.text) == (200, True)
    found = book.schedules.get("job")
    assert found.spec is not None
    assert (found.version, found.spec.queue, found.spec.trigger_text) == (4, "slow", "0 9 * * *")


def test_an_undo_of_an_edit_takes_back_nobody_elses(admin: Browser, book: Book) -> None:
    make(book)
    preview = admin.send(
        admin.ok(f"{PAGE}/edit"), f"{PAGE}/edit", trigger="0 9 * * *", step="preview"
    )
    saved = admin.send(preview, f"{PAGE}/edit", step="save")
    asked = admin.ok(f"{PAGE}/version", version="1")
    book.schedules.update("job", trigger="0 7 * * *", by="ann")
    for page in (saved, asked):
        late = admin.send(page, f"{PAGE}/version")
        assert (late.status, "has version 3, not 2" in late.text) == (409, True)
    assert trigger_of(book) == "0 7 * * *"


def test_an_undo_is_done_once(admin: Browser, book: Book) -> None:
    make(book)
    preview = admin.send(
        admin.ok(f"{PAGE}/edit"), f"{PAGE}/edit", trigger="0 9 * * *", step="preview"
    )
    saved = admin.send(preview, f"{PAGE}/edit", step="save")
    other = admin.told(PAGE, done="edit", version="1")
    assert admin.send(saved, f"{PAGE}/version").status == 200
    assert admin.send(other, f"{PAGE}/version").status == 409
    assert (book.schedules.get("job").version, trigger_of(book)) == (3, "30 2 * * *")


def test_a_new_schedule_that_somebody_edited_is_not_undone(admin: Browser, book: Book) -> None:
    given = {"name": "job", "trigger": "@daily", "target": '{"command": ["true"]}'}
    shown = admin.send(admin.ok("/new"), "/new", step="preview", **given)
    made = admin.send(shown, "/new", step="save")
    book.schedules.update("job", queue="slow", by="ann")
    late = admin.send(made, f"{PAGE}/delete")
    assert (late.status, "has version 2, not 1" in late.text) == (409, True)
    assert "Undo" not in admin.told(PAGE, done="create").text


def test_an_undo_of_a_pause_does_not_end_another(operator: Browser, book: Book) -> None:
    make(book)
    paused = operator.send(operator.ok(f"{PAGE}/pause"), f"{PAGE}/pause")
    book.schedules.resume("job")
    book.schedules.pause("job", "hands off")
    late = operator.send(paused, f"{PAGE}/resume")
    assert (late.status, "paused again since" in late.text) == (409, True)
    assert book.schedules.get("job").status == "paused"


def test_an_undo_of_a_resume_brings_its_reason_and_end_back(operator: Browser, book: Book) -> None:
    make(book)
    book.schedules.pause("job", "<b>hands</b> off", "2099-01-01T00:00Z")
    before = book.schedules.get("job")
    resumed = operator.send(operator.ok(f"{PAGE}/resume"), f"{PAGE}/resume")
    operator.send(resumed, f"{PAGE}/pause")
    after = book.schedules.get("job")
    assert after.status == "paused"
    assert (after.pause_reason, after.paused_until) == (before.pause_reason, before.paused_until)
