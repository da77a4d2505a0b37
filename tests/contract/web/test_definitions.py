"""The forms of definitions: what is wrong with them is told at once, field by field."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duebook.book import Book
    from tests.support.pages import Browser

WRONG = {"trigger": "61 * * * *", "payload": "{", "timeout": "soon"}
TOLD = ("trigger-problem", "payload-problem", "timeout-problem")


def test_every_wrong_field_of_a_new_schedule_is_told_at_once(admin: Browser) -> None:
    page = admin.send(admin.ok("/new"), "/new", name="My Job", target="true", **WRONG)
    assert page.status == 422
    for told in ("name-problem", *TOLD):
        assert f'id="field-{told}"' in page.source
    assert 'id="field-target-problem"' not in page.source


def test_every_wrong_field_of_an_edit_is_told_at_once(admin: Browser, book: Book) -> None:
    book.schedules.create("job", trigger={"cron": "@daily"}, target={"command": ["true"]})
    page = admin.send(admin.ok("/schedules/job/edit"), "/schedules/job/edit", **WRONG)
    assert page.status == 422
    for told in TOLD:
        assert f'id="field-{told}"' in page.source
