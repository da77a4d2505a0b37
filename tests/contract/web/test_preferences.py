"""What a browser remembers: the theme and saved views."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duebook.web.preferences import VIEWS_COOKIE

if TYPE_CHECKING:
    from duebook.book import Book
    from tests.support.pages import Browser

TRUE = {"command": ["true"]}


def test_a_theme_is_chosen_and_taken_back(viewer: Browser) -> None:
    page = viewer.ok("/runs?status=failed")
    assert "data-theme" not in page.source
    dark = viewer.send(page, "/theme", theme="dark")
    assert '<html lang="en" data-theme="dark">' in dark.source
    assert "data-theme" in viewer.ok("/").source
    system = viewer.send(dark, "/theme", theme="")
    assert "data-theme" not in system.source
    odd = viewer.send(system, "/theme", theme='"><script>')
    assert "data-theme" not in odd.source


def test_a_filtered_list_is_saved_as_a_view(viewer: Browser, book: Book) -> None:
    book.schedules.create("job", trigger={"every": "10m"}, target=TRUE, labels={"team": "mail"})
    assert not viewer.ok("/schedules").sends("/views"), "nothing is filtered"
    page = viewer.ok("/schedules?label=team%3Amail&status=paused")
    saved = viewer.send(page, "/views", name="Mail <b>")
    assert "/schedules?label=team%3Amail&status=paused" in saved.links
    assert not saved.sends("/views"), "it is saved"
    assert "/schedules?label=team%3Amail&status=paused" in viewer.ok("/runs").links
    assert "<b>" not in viewer.ok("/views").source
    assert "Mail <b>" in viewer.ok("/find", text="mail").text
    left = viewer.send(viewer.ok("/views"), "/views/delete")
    assert "No views yet" in left.text


def test_a_view_of_the_same_name_is_replaced_and_there_are_not_too_many(viewer: Browser) -> None:
    for number in range(15):
        page = viewer.ok(f"/runs?queue=q{number}")
        last = viewer.send(page, "/views", name="same" if number < 3 else f"view {number}")
    assert last.status == 422
    assert "At most 12 views" in last.text
    listed = viewer.ok("/views")
    assert listed.text.count("same") == 2, "once to open, and once to delete"
    assert "/runs?queue=q2" in listed.links


def test_views_lead_nowhere_else(viewer: Browser) -> None:
    page = viewer.ok("/runs?queue=q")
    for place in ("//evil.example", "https://evil.example", "/\\evil.example", "x"):
        refused = viewer.send(page, "/views", name="bad", next=place)
        assert refused.status == 422
        assert "evil" not in " ".join(refused.links)
    assert viewer.send(page, "/views", name=" ").status == 422
    for cookie in ("x", "[1]", "%5B%5B%22a%22%2C%22//evil.example%22%5D%5D", "%5B" * 5_000):
        viewer.client.cookies.set(VIEWS_COOKIE, cookie)
        assert "evil" not in viewer.ok("/views").source
