"""Queues: their limits, holding them, and undo."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.pages import Browser

if TYPE_CHECKING:
    from duebook.api.app import App
    from duebook.book import Book
    from duebook.model.queue import Queue

TRUE = {"command": ["true"]}


def limits(book: Book, name: str = "mail") -> tuple[int | None, str | None]:
    found: list[Queue] = [load.queue for load in book.queues.list() if load.queue.name == name]
    if not found:
        return None, None
    return found[0].concurrency, None if found[0].rate is None else str(found[0].rate)


def test_limits_are_saved_and_undone(admin: Browser, book: Book) -> None:
    book.queues.limit("mail", 4, "10/s")
    assert "/queues/mail" in admin.ok("/nodes").links
    page = admin.ok("/queues/mail")
    assert page.form("/queues/mail")["fields"]["rate"] == "10/s"
    saved = admin.send(page, "/queues/mail", action="save", concurrency="8", rate="")
    assert limits(book) == (8, None)
    assert "The limits of queue mail were saved" in saved.text
    admin.send(saved, "/queues/mail")
    assert limits(book) == (4, "10/s")


def test_a_queue_is_paused_and_resumed_with_the_limits_it_had(admin: Browser, book: Book) -> None:
    book.queues.limit("mail", 4, "10/s")
    held = admin.send(admin.ok("/queues/mail"), "/queues/mail", action="hold")
    assert limits(book) == (0, "10/s")
    assert "Queue mail is paused" in held.text
    page = admin.ok("/queues/mail")
    assert page.form("/queues/mail")["fields"]["concurrency"] == "4"
    assert "Resume with these limits" in page.text
    admin.send(page, "/queues/mail", action="release")
    assert limits(book) == (4, "10/s")


def test_a_queue_without_limits_is_paused_and_free_again(admin: Browser, book: Book) -> None:
    book.schedules.create("job", trigger={"every": "10m"}, target=TRUE, queue="mail")
    book.schedules.trigger("job")
    held = admin.send(admin.ok("/queues/mail"), "/queues/mail", action="hold")
    assert limits(book) == (0, None)
    admin.send(held, "/queues/mail")
    assert limits(book) == (None, None)


def test_what_is_wrong_stands_beside_the_form(admin: Browser, book: Book) -> None:
    page = admin.ok("/queues/mail")
    for fields in ({"concurrency": "many"}, {"rate": "often"}, {"concurrency": "-1"}):
        refused = admin.send(page, "/queues/mail", action="save", **fields)
        assert refused.status == 422
        assert 'role="alert"' in refused.source
        assert next(iter(fields.values())) in refused.source
    assert limits(book) == (None, None)
    assert admin.send(page, "/queues/mail", action="burn").status == 422
    assert admin.get("/queues/Not%20a%20name").status == 422


def test_only_admins_of_all_namespaces_change_queues(app: App, viewer: Browser, book: Book) -> None:
    book.queues.limit("mail", 4)
    assert "/queues/mail" not in viewer.ok("/nodes").links
    assert Browser(app, "admin@shop").get("/queues/mail").status == 403
