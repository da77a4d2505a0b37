"""iCal feeds, which show due times in calendar apps; admins create and revoke them here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import Response

from duebook.api.answers import Answer
from duebook.api.operations import Operations
from duebook.errors import NotFound, shorten
from duebook.model.access import Role
from duebook.web.labels import read_pairs
from duebook.web.page_request import CurrentPage, Submitted

if TYPE_CHECKING:
    from duebook.book import Book

__all__ = ["operations"]

operations = Operations("", "pages")


@operations("GET", "/feeds", Role.ADMIN)
def get_feeds(page: CurrentPage) -> Response:
    """Every feed, without its token."""
    return _page(page)


@operations("GET", "/feeds/new", Role.ADMIN)
def ask_create_feed(page: CurrentPage) -> Response:
    """The form for a new feed."""
    return _ask(page, {"name": "", "labels": ""})


@operations("POST", "/feeds", Role.ADMIN)
def do_create_feed(page: CurrentPage, form: Submitted) -> Response:
    """Create a feed; its token is shown only once."""
    given = {"name": form["name"], "labels": form["labels"]}

    def work() -> Response:
        feed, token = page.book.feeds.create(given["name"], read_pairs(given["labels"]))
        return _page(page, feed.name, f"{page.request.base_url}api/v1/schedules.ics?token={token}")

    return page.attempt(work, lambda problem, status: _ask(page, given, problem, status))


@operations("GET", "/feeds/{name}/revoke", Role.ADMIN)
def ask_revoke_feed(page: CurrentPage, name: str) -> Response:
    """Confirm revoking it."""
    if not any(feed.name == name for feed in page.book.feeds.list()):
        raise NotFound(f'feed "{shorten(name)}" does not exist')
    return page.render("feed_revoke.html", name=name)


@operations("POST", "/feeds/{name}/revoke", Role.ADMIN)
def do_revoke_feed(page: CurrentPage, name: str, form: Submitted) -> Response:
    """Revoke it."""

    def work(book: Book) -> Answer:
        book.feeds.revoke(name)
        return page.go("feeds")

    return page.write(form, work)


def _ask(
    page: CurrentPage, given: dict[str, str], problem: str = "", status: int = 200
) -> Response:
    return page.render("feed_new.html", status, given=given, problem=problem)


def _page(page: CurrentPage, made: str = "", address: str = "") -> Response:
    feeds = page.shared(lambda book: book.feeds.list())
    return page.render("feeds.html", feeds=feeds, made=made, address=address)
