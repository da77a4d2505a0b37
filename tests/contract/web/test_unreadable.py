"""Pages about a schedule with an unreadable definition: none fails, and one repairs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.builders import write_unreadable

if TYPE_CHECKING:
    from duebook.book import Book
    from tests.support.pages import Browser

pytestmark = pytest.mark.both_databases


@pytest.fixture
def broken(book: Book) -> str:
    for name in ("job", "other"):
        book.schedules.create(name, trigger={"every": "1h"}, target={"command": ["true"]})
    write_unreadable(book.store, book.schedules.get("job").id)
    return "job"


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/schedules",
        "/schedules/job",
        "/schedules/job?at=2026-01-01T00:00",
        "/schedules/job/pause",
        "/schedules/job/delete",
        "/schedules/job/run",
        "/schedules/job/move",
        "/schedules/job/skip-next",
        "/schedules/job/backfill",
        "/schedules/job/analytics",
        "/schedules/job/version?version=1",
        "/schedules/other",
        "/runs",
        "/calendar",
        "/calendars",
        "/windows",
        "/alerts",
        "/audit",
    ],
)
def test_no_page_fails_because_of_it(path: str, admin: Browser, broken: str) -> None:
    page = admin.get(path)
    assert page.status == 200, (path, page.status, page.text[:300])
    if path == f"/schedules/{broken}":
        assert "definition cannot be read: priority" in page.text


def test_an_earlier_version_repairs_it(admin: Browser, book: Book, broken: str) -> None:
    page = admin.ok(f"/schedules/{broken}/version", version="1")
    admin.send(page, f"/schedules/{broken}/version", step="save")
    repaired = book.schedules.get(broken)
    assert (repaired.version, repaired.problem) == (3, None)
    assert repaired.spec is not None


def test_it_can_be_paused_resumed_and_deleted(admin: Browser, book: Book, broken: str) -> None:
    for action, status in (("pause", "paused"), ("resume", "active")):
        page = admin.ok(f"/schedules/{broken}/{action}")
        assert admin.send(page, f"/schedules/{broken}/{action}").status == 200
        assert book.schedules.get(broken).status == status
    page = admin.ok(f"/schedules/{broken}/delete")
    admin.send(page, f"/schedules/{broken}/delete")
    assert [s.name for s in book.schedules.list()] == ["other"]
