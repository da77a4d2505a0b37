"""The page that finds schedules, runs, flows and pages; the palette shows the same list."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duebook.book import Book as AnyBook
from tests.support.builders import begin
from tests.support.flow_builders import CHAIN, put_flow
from tests.support.pages import Browser

if TYPE_CHECKING:
    from duebook.api.app import App
    from duebook.book import Book

TRUE = {"command": ["true"]}


def test_everything_is_found_by_a_part_of_its_name(operator: Browser, book: Book) -> None:
    put_flow(book.store, CHAIN)
    begin(book.store)
    book.schedules.create("chain-mail", trigger={"every": "10m"}, target=TRUE)
    run = book.schedules.trigger("chain-mail")
    found = operator.ok("/find", text="Chain")
    assert {"/schedules/chain-mail", "/flows/chain"} <= set(found.links)
    assert {"/schedules/chain-mail/pause", "/schedules/chain-mail/run"} <= set(found.links)
    assert f"/runs/{run.id}" in operator.ok("/find", text=run.id[:18]).links
    assert "/failures" in operator.ok("/find", text="cause").links
    assert "Nothing has that in its name" in operator.ok("/find", text="zzz*[").text


def test_without_a_text_the_pages_are_listed(viewer: Browser, operator: Browser) -> None:
    assert {"/new", "/simulate", "/calendar"} <= set(operator.ok("/find").links)
    assert "/new" not in viewer.ok("/find").links
    assert "/audit" not in operator.ok("/find").links


def test_viewers_are_offered_no_actions(viewer: Browser, book: Book) -> None:
    book.schedules.create("job", trigger={"every": "10m"}, target=TRUE)
    links = viewer.ok("/find", text="job").links
    assert "/schedules/job" in links
    assert "/schedules/job/pause" not in links


def test_nothing_of_other_namespaces_is_found(app: App, book: Book) -> None:
    AnyBook(book.store, "shop").schedules.create("till", trigger={"every": "10m"}, target=TRUE)
    other = Browser(app, "viewer@mail")
    assert "till" not in " ".join(other.ok("/find", text="til").links)
