"""Logs in a browser: long ones, growing ones, and what is searched for in them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from duebook.clock import utc_now
from duebook.model.run import LogLine
from tests.browser.conftest import Site
from tests.support.builders import begin, claim, settle
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from playwright.sync_api import Browser, Page, Route

    from duebook.model.run import Claim

MOST_DRAWN = 300
"""Lines that a page has at once, however long the log is."""


@pytest.fixture(scope="module")
def shared(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One server for all tests here, with a session that can work."""
    site = Site(tmp_path_factory.mktemp("logs") / "books.db", browser)
    begin(site.store, lease=timedelta(hours=1))
    site.book.schedules.create("job", trigger={"cron": "@daily"}, target={"command": ["true"]})
    yield site
    site.close()
    assert site.amiss == []


def begun(site: Site) -> Claim:
    site.book.schedules.trigger("job")
    (claimed,) = claim(site.store)
    return claimed


def printed(site: Site, claimed: Claim, texts: Sequence[str], first: int = 1) -> None:
    lines = [LogLine(utc_now(), "stdout", text) for text in texts]
    site.store.transact(lambda tx: tx.attempts.append_log(claimed.token, first, lines))


def numbered(start: int, end: int) -> list[str]:
    return [f"line {number} of it" for number in range(start, end + 1)]


def drawn(page: Page) -> list[str]:
    found: list[str] = page.locator(".log .line").evaluate_all("all => all.map((e) => e.dataset.n)")
    return found


def opened(site: Site, address: str, *, script: bool = True) -> Page:
    """A page of a run whose log the script has taken over, if there is one."""
    page = site.visit(address, script=script)
    if script:
        page.locator(".log .log-window").wait_for(state="attached")
    return page


def shows_its_end(page: Page) -> None:
    gap = "e => e.scrollHeight - e.scrollTop - e.clientHeight"
    eventually(lambda: page.locator(".log").evaluate(gap) < 40)


def test_a_log_that_grows_is_followed_without_drawing_all_of_it(shared: Site) -> None:
    claimed = begun(shared)
    printed(shared, claimed, numbered(1, 1_500))
    page = opened(shared, f"/runs/{claimed.run.id}")
    page.get_by_text("line 1500 of it").wait_for()
    shows_its_end(page)
    printed(shared, claimed, numbered(1_501, 5_500), 1_501)
    page.get_by_text("line 5500 of it").wait_for()
    shows_its_end(page)
    assert len(drawn(page)) < MOST_DRAWN
    assert page.locator("[data-log-summary]").inner_text() == "5,500 lines"
    page.locator(".log").evaluate("e => { e.scrollTop = 0 }")
    page.get_by_text("line 1 of it", exact=True).wait_for()
    assert not page.get_by_label("Follow").is_checked()
    printed(shared, claimed, ["the last one"], 5_501)
    page.get_by_text("5,501 lines").wait_for()
    assert page.get_by_text("line 1 of it", exact=True).is_visible(), "who scrolled up stays there"
    page.get_by_label("Follow").check()
    page.get_by_text("the last one").wait_for()
    settle(shared.store, claimed.token, "failed", error="boom")
    page.get_by_text("boom").wait_for()
    assert page.get_by_text("the last one").is_visible()


def test_what_is_selected_stays_while_lines_arrive(shared: Site) -> None:
    claimed = begun(shared)
    printed(shared, claimed, numbered(1, 3))
    page = opened(shared, f"/runs/{claimed.run.id}")
    page.get_by_text("line 2 of it").select_text()
    printed(shared, claimed, numbered(4, 6), 4)
    page.get_by_text("line 6 of it").wait_for()
    assert page.evaluate("String(getSelection()).trim()") == "line 2 of it"
    settle(shared.store, claimed.token)


def test_the_last_lines_open_at_their_end(shared: Site) -> None:
    claimed = begun(shared)
    printed(shared, claimed, numbered(1, 3_000))
    settle(shared.store, claimed.token)
    page = opened(shared, f"/runs/{claimed.run.id}?last=1")
    page.get_by_text("3,000 lines").wait_for()
    page.get_by_text("line 3000 of it").wait_for()
    shows_its_end(page)
    plain = shared.visit(f"/runs/{claimed.run.id}", script=False)
    plain.get_by_role("link", name="Last lines").click()
    plain.get_by_text("line 3000 of it").wait_for()
    shows_its_end(plain)


def test_a_long_log_shows_its_end_while_it_is_read(shared: Site) -> None:
    claimed = begun(shared)
    printed(shared, claimed, numbered(1, 3_000))
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page = shared.visit("/runs")
    page.route("**/lines*", hold)
    page.goto(f"{shared.address}/runs/{claimed.run.id}")
    eventually(lambda: page.title() and held)
    shows_its_end(page)
    assert page.get_by_text("line 3000 of it").is_visible()
    for route in held:
        route.continue_()
    page.unroute("**/lines*")
    page.locator(".log .log-window").wait_for(state="attached")
    shows_its_end(page)
    settle(shared.store, claimed.token)


def test_what_was_left_out_of_a_log_is_said_where_it_is_left_out(shared: Site) -> None:
    claimed = begun(shared)
    printed(shared, claimed, numbered(1, 100))
    shared.store.transact(lambda tx: tx.attempts.trim_log(claimed.token, 10, 96))
    settle(shared.store, claimed.token)
    for script in (True, False):
        page = opened(shared, f"/runs/{claimed.run.id}", script=script)
        page.get_by_text("15 of 100 lines kept").wait_for()
        between = page.locator(".log .between")
        assert between.inner_text().strip() == "85 lines not kept: the log was too long"
        before = between.evaluate("e => e.previousElementSibling.dataset.n")
        after = between.evaluate("e => e.nextElementSibling.dataset.n")
        assert (before, after) == ("10", "96")


def test_matches_are_counted_and_gone_through(shared: Site) -> None:
    claimed = begun(shared)
    found = " \x1b[31mERR\x1b[0mor"
    texts = [f"line {n}{'' if n % 1_000 else found}" for n in range(1, 3_001)]
    printed(shared, claimed, texts)
    settle(shared.store, claimed.token)
    page = opened(shared, f"/runs/{claimed.run.id}")
    page.get_by_text("3,000 lines").wait_for()
    page.get_by_label("Search the log").fill("error")
    for told, shown in (("1 of 3", "line 1000"), ("2 of 3", "line 2000"), ("3 of 3", "line 3000")):
        page.get_by_text(told, exact=True).wait_for()
        current = page.locator(".log .line:has(mark.current)")
        assert current.inner_text().startswith(f"{shown} ERRor")
        page.get_by_label("Search the log").press("Enter")
    page.get_by_text("1 of 3", exact=True).wait_for()
    page.get_by_role("button", name="Previous match").click()
    page.get_by_text("3 of 3", exact=True).wait_for()
    page.get_by_label("Search the log").fill("nowhere")
    page.get_by_text("no matches").wait_for()


def test_times_numbers_and_wrapping_are_chosen(shared: Site) -> None:
    claimed = begun(shared)
    printed(shared, claimed, ["short", "long " * 400, "end"])
    settle(shared.store, claimed.token)
    page = opened(shared, f"/runs/{claimed.run.id}")
    page.get_by_text("3 lines").wait_for()
    tall = page.locator(".log .line").nth(1).evaluate("e => e.offsetHeight")
    page.get_by_label("Wrap").uncheck()
    eventually(lambda: page.locator(".log .line").nth(1).evaluate("e => e.offsetHeight") < tall / 3)
    page.get_by_label("Times", exact=True).check()
    page.locator('.log .line[data-t*=":"]').first.wait_for()
    page.reload()
    page.locator('.log .line[data-t*=":"]').first.wait_for()
    assert not page.get_by_label("Wrap").is_checked(), "what was chosen holds for the next log"


def test_attempts_are_divided_and_the_log_is_a_file(shared: Site) -> None:
    claimed = begun(shared)
    printed(shared, claimed, ["first try"])
    settle(shared.store, claimed.token, "failed", error="boom")
    shared.book.runs.retry(claimed.run.id)
    (again,) = claim(shared.store)
    printed(shared, again, ["second \x1b[31mtry\x1b[0m"])
    settle(shared.store, again.token)
    page = opened(shared, f"/runs/{claimed.run.id}")
    page.get_by_text("2 lines").wait_for()
    page.locator(".log .between", has_text="attempt 2").wait_for()
    text = page.request.get(f"{shared.address}/runs/{claimed.run.id}/log.txt").text()
    assert text == "first try\n--- attempt 2 ---\nsecond try\n"
