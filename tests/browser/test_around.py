"""What is around the pages: finding by keys, due times while typing, pausing updates, themes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.browser.conftest import Site

COUNT_CHANGES = """() => {
  window.changes = 0;
  const stream = new EventSource(document.body.dataset.live);
  stream.addEventListener("changed", () => { window.changes += 1; });
}"""
DARK = "getComputedStyle(document.body).backgroundColor"


def test_a_schedule_is_found_and_opened_by_keys_alone(demo: Site) -> None:
    page = demo.visit("/runs")
    page.keyboard.press("Control+k")
    field = page.get_by_role("dialog").get_by_role("searchbox")
    field.fill("nightly")
    page.get_by_role("dialog").get_by_text("Pause: nightly-etl").wait_for()
    field.press("Enter")
    page.wait_for_url("**/schedules/nightly-etl")
    page.keyboard.press("f")
    page.get_by_role("dialog").get_by_role("searchbox").fill("nightly")
    page.get_by_role("dialog").get_by_text("Run now: nightly-etl").wait_for()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/schedules/nightly-etl/run")
    page.keyboard.press("Control+k")
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="hidden")


def test_without_script_find_is_a_page(demo: Site) -> None:
    page = demo.visit("/", script=False)
    page.get_by_role("link", name="Find", exact=True).click()
    page.get_by_label("Schedule, run, flow or page").fill("nightly")
    page.get_by_role("button", name="Find").click()
    page.get_by_role("link", name="Pause: nightly-etl").click()
    page.get_by_role("heading", name="Pause nightly-etl?").wait_for()


def test_due_times_are_shown_while_somebody_types(demo: Site) -> None:
    page = demo.visit("/")  # tells the zone of the browser
    page.goto(f"{demo.address}/new")
    page.get_by_label("Trigger").fill("30 2 * * *")
    page.get_by_text("At 02:30 every day (Europe/Brussels)").wait_for()
    page.get_by_label("Trigger").fill("61 * * * *")
    page.locator("[data-next] .bad").wait_for()
    page.get_by_label("Kind of due times").select_option("daily")
    assert page.get_by_label("Trigger").get_attribute("placeholder") == "07:00, 17:30"
    page.get_by_label("Trigger").fill("07:00, 17:30")
    page.get_by_text("At 07:00 and 17:30 every day (Europe/Brussels)").wait_for()
    page.get_by_label("Trigger").fill("")
    page.locator("[data-next]").wait_for(state="hidden")
    page.get_by_label("Kind of work").select_option("flow")
    assert page.get_by_label("Target").get_attribute("list") == "known-flow"


def test_a_page_stays_as_it_is_while_updates_are_paused(demo: Site) -> None:
    page = demo.visit("/schedules/orders")
    page.get_by_text("Live", exact=True).wait_for()
    page.get_by_role("button", name="Pause updates").click()
    page.evaluate(COUNT_CHANGES)
    demo.book.schedules.pause("orders", reason="stocktaking")
    eventually(lambda: page.evaluate("window.changes > 0"))
    assert page.get_by_text("stocktaking").count() == 0
    page.get_by_role("button", name="Resume updates").click()
    page.get_by_text("stocktaking").first.wait_for()


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
def test_a_theme_is_chosen(demo: Site, script: bool) -> None:
    page = demo.visit("/runs", script=script, color_scheme="light")
    light = page.evaluate(DARK)
    page.get_by_label("Theme").select_option("dark")
    page.get_by_role("button", name="Change theme").click()
    page.locator("html[data-theme=dark]").wait_for()
    assert page.evaluate(DARK) != light
    page.goto(f"{demo.address}/schedules")
    assert page.evaluate(DARK) != light


def test_the_zones_of_the_browser_are_offered(demo: Site) -> None:
    page = demo.visit("/nodes")
    page.get_by_label("Times in", exact=True).focus()
    assert page.locator("#zones option[value='Europe/Brussels']").count() == 1


def test_the_bars_of_the_last_day_lead_to_runs(demo: Site) -> None:
    page = demo.visit("/")
    page.locator("#day svg a").last.click()
    page.wait_for_url(re.compile(r"/runs\?from="))
    page.get_by_role("heading", name="Runs", exact=True).wait_for()


def test_a_view_is_saved_and_opened(demo: Site) -> None:
    page = demo.visit("/schedules?label=team%3Adata")
    page.get_by_text("Save this view…").click()
    page.get_by_label("Name of the view").fill("Data team")
    page.get_by_role("button", name="Save view").click()
    page.goto(f"{demo.address}/runs")
    page.get_by_role("link", name="Data team").click()
    page.wait_for_url("**/schedules?label=team%3Adata")
