"""Secrets by reference on the pages: their names are shown, and only admins can use them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.builders import begin

if TYPE_CHECKING:
    from duebook.book import Book
    from tests.support.pages import Browser

KEY = "{{ secret.KEY }}"


def test_a_payload_that_names_secrets_is_for_admins(
    admin: Browser, operator: Browser, book: Book
) -> None:
    begin(book.store, tasks=("work",), roles="scheduler,worker", queues=("default",))
    book.schedules.create("job", trigger={"cron": "@daily"}, target="work", payload={"key": KEY})
    assert KEY in operator.ok("/schedules/job").text
    book.schedules.update("job", payload={})
    book.schedules.update("job", description="newest")
    link = "/schedules/job/version?version=1"
    assert link not in operator.ok("/schedules/job").links
    assert link in admin.ok("/schedules/job").links
    assert operator.get("/schedules/job/version", version="1").status == 403
    given = {
        "name": "mine",
        "trigger": "@daily",
        "target": "work",
        "payload": f'{{"key": "{KEY}"}}',
    }
    refused = operator.send(operator.ok("/new"), "/new", step="preview", **given)
    assert "only an admin may define a payload that names secrets" in refused.text
    assert [one.name for one in book.schedules.list()] == ["job"]
