"""What people do, by clicking and by keys, with script and without."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from duebook.clock import utc_now
from duebook.engine.advancer import Advancer
from duebook.model.run import LogLine, Progress
from duebook.web.csrf import signed_address
from tests.support.builders import begin, claim, settle
from tests.support.flow_builders import CHAIN, put_flow
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

    from tests.browser.conftest import Site

COLOURED = [
    "\x1b[1;32mbold green\x1b[39m bold \x1b[91mred\x1b[m plain",
    "\x1b[38;5;196mother palette\x1b[0;33m yellow",
    "\x1b]8;;javascript:alert(1)\x07click\x1b]8;;\x07 \x9b31mraw \x1b[2Kgone \u202eturned",
    "\x1b[36m<img src=x onerror=alert(1)>\x1b[1m&amp;",
]
BOTH = pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
MOSTLY = pytest.mark.parametrize(
    "script",
    [
        pytest.param(True, id="script"),
        pytest.param(False, id="no script", marks=pytest.mark.long),
    ],
)
"""Without script tests/contract/web sends such forms too; a browser does in `make test-long`."""


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


@BOTH
def test_pause_with_a_reason_and_undo(demo: Site, script: bool) -> None:
    page = demo.visit("/schedules/orders", script=script)
    page.get_by_role("link", name="Pause…").click()
    page.get_by_label("Reason").fill("stocktaking")
    press(page, "Pause")
    page.get_by_text("Paused.").wait_for()
    assert demo.book.schedules.get("orders").pause_reason == "stocktaking"
    press(page, "Undo")
    page.get_by_text("Resumed.").wait_for()
    assert demo.book.schedules.get("orders").status == "active"


@MOSTLY
def test_skip_and_move_the_next_and_take_it_back(demo: Site, script: bool) -> None:
    page = demo.visit("/schedules/backup", script=script)
    due = demo.book.schedules.get("backup").next_due_at
    page.get_by_role("link", name="Skip next…").click()
    press(page, "Skip")
    page.get_by_text("The next due time will be skipped").wait_for()
    assert demo.book.schedules.get("backup").next_due_at != due
    press(page, "Undo")
    page.get_by_text("The due time was restored").wait_for()
    page.get_by_role("link", name="Move next…").click()
    page.get_by_label("New time").fill("2099-01-01T10:00:00")
    press(page, "Move")
    page.get_by_text("The next due time was moved").wait_for()
    page.get_by_role("link", name="Restore…").click()
    press(page, "Restore")
    page.get_by_text("The due time was restored").wait_for()
    assert demo.book.schedules.get("backup").next_due_at == due


@BOTH
def test_run_now_and_see_the_run(demo: Site, script: bool) -> None:
    page = demo.visit("/schedules/backup", script=script)
    page.get_by_role("link", name="Run now…").click()
    page.get_by_label("Payload").fill('{"full": true}')
    press(page, "Run now")
    page.get_by_role("link", name="View run").click()
    page.get_by_text('"full": true').wait_for()
    page.get_by_role("link", name="Cancel…").click()
    press(page, "Cancel")
    page.get_by_text("Cancelled.").wait_for()
    press(page, "Undo")
    page.get_by_text("Queued again").wait_for()


@MOSTLY
def test_edit_with_a_preview(demo: Site, script: bool) -> None:
    page = demo.visit("/schedules/backup/edit", script=script)
    page.get_by_label("trigger").fill("0 5 * * *")
    page.get_by_label("description").fill("every morning")
    press(page, "Preview changes")
    page.get_by_role("heading", name="After", exact=True).wait_for()
    press(page, "Save")
    page.get_by_text("new definition is in use").wait_for()
    page.get_by_text("every morning").first.wait_for()
    page.get_by_role("link", name="Restore this version…").click()
    page.get_by_role("heading", name="Restore version 1 of backup?").wait_for()
    press(page, "Restore")
    page.get_by_text("earlier version was restored").wait_for()


def test_an_edit_survives_a_look_at_the_preview_and_the_way_back(demo: Site) -> None:
    page = demo.visit("/schedules/backup/edit")
    page.get_by_label("Title").fill("First thought")
    page.get_by_role("button", name="Preview changes").click()
    page.get_by_role("button", name="Continue editing").click()
    assert page.get_by_label("Title").input_value() == "First thought"
    page.get_by_label("Title").fill("Second thought")
    page.get_by_role("button", name="Preview changes").click()
    page.get_by_role("button", name="Save").click()
    page.get_by_text("The new definition is in use.").wait_for()
    page.go_back()
    page.get_by_role("button", name="Continue editing").click()
    assert page.get_by_label("Title").input_value() == "Second thought"


@MOSTLY
def test_edit_a_calendar_after_a_look_at_what_moves(demo: Site, script: bool) -> None:
    page = demo.visit("/calendars", script=script)
    page.get_by_role("link", name="closing-days", exact=True).click()
    page.get_by_role("link", name="Edit…").click()
    page.get_by_label("Weekdays").first.fill("SAT SUN MON")
    press(page, "Preview changes")
    page.get_by_role("heading", name="Due times that move").wait_for()
    page.get_by_role("heading", name="invoices").wait_for()
    assert demo.book.calendars.get("closing-days").version == 2
    press(page, "Save")
    page.get_by_text("Saved as version 3.").wait_for()
    assert demo.book.calendars.get("closing-days").definition["weekdays"] == ["MON", "SAT", "SUN"]
    page.get_by_role("link", name="Restore version 2…").click()
    press(page, "Preview changes")
    press(page, "Save")
    page.get_by_text("Saved as version 4.").wait_for()


@BOTH
def test_make_a_schedule_delete_it_and_undo(demo: Site, script: bool) -> None:
    page = demo.visit("/schedules", script=script)
    page.get_by_role("link", name="New schedule…").click()
    page.get_by_label("name", exact=False).first.fill("nightly")
    page.get_by_label("trigger").fill("30 2 * *")
    page.get_by_label("target").fill("orders")
    press(page, "Preview due times")
    page.locator("#field-trigger-problem").wait_for()
    page.get_by_label("trigger").fill("30 2 * * *")
    press(page, "Preview due times")
    page.get_by_role("heading", name="Due times").wait_for()
    assert page.locator("#draft li").count() == 10
    press(page, "Create")
    page.get_by_text("Created.").wait_for()
    page.get_by_role("link", name="Delete…").click()
    press(page, "Delete")
    page.get_by_text("nightly was deleted").wait_for()
    press(page, "Undo")
    page.get_by_text("Created again").wait_for()
    assert demo.book.schedules.get("nightly").status == "active"


@MOSTLY
def test_backfill_after_a_count(demo: Site, script: bool) -> None:
    page = demo.visit("/schedules/backup", script=script)
    page.get_by_role("link", name="Backfill…").click()
    today = utc_now().date()
    page.get_by_label("From").fill(f"{today - timedelta(days=4)}T00:00:00")
    page.get_by_label("To", exact=True).fill(f"{today - timedelta(days=2)}T00:00:00")
    press(page, "Count")
    page.get_by_role("heading", name="2 due times").wait_for()
    press(page, "Queue 2 runs")
    page.get_by_text("2 runs queued").wait_for()
    assert len(demo.book.runs.list("backup", origin="backfill")) == 2
    press(page, "Undo")
    page.get_by_text("2 runs cancelled").wait_for()


@MOSTLY
def test_pause_everything_of_a_label(demo: Site, script: bool) -> None:
    page = demo.visit("/schedules", script=script)
    page.get_by_role("link", name="team:tenants").first.click()
    page.get_by_role("link", name="Pause all of these…").click()
    page.get_by_role("heading", name="Pause 6 schedules?").wait_for()
    press(page, "Pause 6 schedules")
    page.get_by_text("6 schedules paused").wait_for()
    assert len(demo.book.schedules.list(status="paused", label="team:tenants")) == 6


@MOSTLY
def test_pause_chosen_ones_and_undo(demo: Site, script: bool) -> None:
    page = demo.visit("/schedules", script=script)
    page.get_by_label("Select tenant-1").check()
    page.get_by_label("Select tenant-3").check()
    press(page, "Pause selected…")
    press(page, "Pause 2 schedules")
    page.get_by_text("2 schedules paused").wait_for()
    press(page, "Undo")
    page.get_by_text("2 schedules resumed").wait_for()


@MOSTLY
def test_what_a_stranger_looks_for_is_a_few_clicks_away(demo: Site, script: bool) -> None:
    """From the overview, by links that say where they lead."""
    page = demo.visit("/", script=script)
    due = page.locator("section", has_text="Due in the next hour")
    assert due.get_by_role("link", name="stock").is_visible(), "what will run: no click"

    page.get_by_role("link", name="Schedules", exact=True).click()
    page.get_by_role("link", name="reindex", exact=True).click()
    page.get_by_role("link", name="Why did it run, or not?").click()
    page.get_by_role("link", name="Last night").click()
    page.locator(".ledger").get_by_text("skipped: run").first.get_by_role("link").click()
    page.wait_for_url("**/runs/*")

    page.get_by_role("link", name="Overview").click()
    page.get_by_role("link", name="runs failed").click()
    page.get_by_role("link", name="log", exact=True).first.click()
    page.get_by_text("duplicate key value").wait_for()

    page.get_by_role("link", name="Schedules", exact=True).click()
    page.get_by_role("link", name="team:tenants").first.click()
    page.get_by_role("link", name="Pause all of these…").click()
    press(page, "Pause 6 schedules")
    page.get_by_text("6 schedules paused").wait_for()


@MOSTLY
def test_the_log_of_a_failure_is_searched(demo: Site, script: bool) -> None:
    page = demo.visit("/", script=script)
    page.get_by_role("row", name="IntegrityError").get_by_role(
        "link", name="log", exact=True
    ).click()
    page.get_by_text("duplicate key value").wait_for()
    page.get_by_label("Search the log").fill("batch 2")
    if script:
        page.locator(".log .line:has(mark.current)", has_text="batch 2").wait_for()
    else:
        page.get_by_role("button", name="Search").click()
        page.get_by_text("duplicate key value").wait_for()
        assert not page.get_by_text("connecting to").is_visible()


def test_a_click_during_which_the_page_changes_is_not_lost(demo: Site) -> None:
    first, second = (schedule.name for schedule in demo.book.schedules.list(limit=2))
    page, witness = demo.visit("/schedules"), demo.visit("/schedules")
    page.get_by_role("link", name=second, exact=True).hover()
    page.mouse.down()
    demo.book.schedules.pause(first)
    witness.get_by_role("row", name=first).get_by_text("paused").first.wait_for()
    page.mouse.up()
    page.wait_for_url(f"**/schedules/{second}")


@MOSTLY
def test_a_flow_is_started_stopped_and_goes_on_from_a_step(demo: Site, script: bool) -> None:
    page = demo.visit("/flows", script=script)
    page.get_by_role("link", name="warehouse").first.click()
    page.get_by_role("link", name="Stop…").click()
    press(page, "Stop")
    page.get_by_text("Its runs are being stopped").wait_for()
    page.get_by_role("link", name="Start…", exact=True).click()
    page.get_by_label("DAY").fill("2026-11-15")
    press(page, "Start")
    page.get_by_role("status").get_by_text("Started").wait_for()
    press(page, "Undo")
    page.get_by_text("Cancelled.").wait_for()
    failed = demo.book.flows.runs("warehouse")[-1]
    page.goto(f"{demo.address}/runs/{failed.id}")
    page.locator("tr", has_text="load-orders").get_by_text("Retry from here…").first.click()
    press(page, "Run again")
    page.get_by_text("Queued again").wait_for()


@MOSTLY
def test_what_was_not_taken_is_replayed(demo: Site, script: bool) -> None:
    page = demo.visit("/events", script=script)
    page.get_by_role("link", name="Replay…").first.click()
    press(page, "Replay")
    page.get_by_role("status").get_by_text("will be delivered again").wait_for()
    page.get_by_role("link", name="Discard all dead letters…").click()
    press(page, "Discard")
    page.get_by_text("No dead letters").wait_for()


def test_the_steps_of_a_flow_are_followed_live(site: Site) -> None:
    put_flow(site.store, CHAIN)
    begin(site.store)
    run = site.book.flows.start("chain")
    Advancer(site.store).step()
    page = site.visit("/flows/chain")
    page.get_by_text("Live", exact=True).wait_for()
    (claimed,) = claim(site.store)
    page.locator(".step-running").wait_for()
    settle(site.store, claimed.token)
    Advancer(site.store).step()
    page.locator(".step-succeeded").wait_for()
    assert page.locator("svg.flow a").first.get_attribute("href") == f"/runs/{claimed.run.id}"
    assert site.book.runs.get(run.id).status == "running"


@MOSTLY
def test_tokens_are_made_and_revoked(demo: Site, script: bool) -> None:
    page = demo.visit("/tokens", script=script)
    page.get_by_role("link", name="Create token…").click()
    page.get_by_label("Name", exact=True).fill("ci")
    press(page, "Create")
    page.get_by_text("it will not be shown again").wait_for()
    page.get_by_role("link", name="Revoke…").click()
    press(page, "Revoke")
    page.get_by_text("revoked", exact=True).wait_for()


def test_viewers_see_no_button_that_they_may_not_press(demo: Site) -> None:
    page = demo.visit("/schedules/orders", role="viewer")
    buttons = page.locator("#page button:visible").all_inner_texts()
    assert set(buttons) == {"Copy", "Explain"}
    assert page.get_by_role("link", name="…").count() == 0


def test_log_out_and_be_refused(demo: Site) -> None:
    page = demo.visit("/schedules")
    press(page, "Log out")
    page.goto(f"{demo.address}/runs")
    page.get_by_label("Token").fill("wrong")
    press(page, "Log in")
    page.get_by_text("unknown or no longer valid").wait_for()


def test_a_running_run_is_followed_live(site: Site) -> None:
    site.book.schedules.create("job", trigger={"cron": "@daily"}, target={"command": ["true"]})
    begin(site.store)
    site.book.schedules.trigger("job")
    (claimed,) = claim(site.store)
    page, overview = site.visit(f"/runs/{claimed.run.id}"), site.visit("/")
    page.get_by_text("Live", exact=True).wait_for()
    overview.get_by_text("Live", exact=True).wait_for()
    texts = [*COLOURED, "line \x1b[31m1\x1b[0m <b>", "line \x1b[31m2\x1b[0m <b>"]
    lines = [LogLine(utc_now(), "stdout", text) for text in texts]
    site.store.transact(lambda tx: tx.attempts.append_log(claimed.token, 1, lines))
    page.get_by_text("line 2 <b>").wait_for()
    shown = "all => all.map((line) => line.innerHTML)"
    live = page.locator(".log .line").evaluate_all(shown)
    assert any("ansi-red" in line for line in live)
    with page.context.expect_page() as opened:
        page.evaluate("open(location.href)")
    opened.value.wait_for_load_state()
    assert opened.value.locator(".log .line").evaluate_all(shown) == live, "as the server renders"
    opened.value.close()
    site.store.transact(
        lambda tx: tx.attempts.note_progress([(claimed.token, Progress(0.5, "half"))])
    )
    page.get_by_text("half").wait_for()
    settle(site.store, claimed.token, "failed", error="boom")
    page.get_by_text("boom").wait_for()
    page.get_by_text("line 2 <b>").wait_for()
    overview.get_by_text("1 run failed").wait_for()


def test_what_changed_before_a_page_was_live_is_shown(site: Site) -> None:
    site.book.schedules.create("job", trigger={"cron": "@daily"}, target={"command": ["true"]})
    run = site.book.schedules.trigger("job")
    page = site.visit("/runs")
    page.get_by_text("Live", exact=True).wait_for()

    def latest_change() -> str:
        return page.request.get(f"{site.address}/live").text()

    def change(route: Route) -> None:
        before = latest_change()
        site.book.runs.cancel(run.id)
        eventually(lambda: latest_change() != before)
        route.continue_()

    page.route("**/live", change, times=1)
    page.reload()
    page.locator(".badge", has_text="cancelled").wait_for()


def test_the_zone_of_the_viewer_is_used(demo: Site) -> None:
    page = demo.visit("/schedules/nightly-etl")
    page.reload()
    assert page.get_by_label("Times in", exact=True).input_value() == "Europe/Brussels"


def test_a_viewer_whose_clock_is_wrong_sees_the_right_distances(demo: Site) -> None:
    page = demo.visit()
    page.clock.set_fixed_time(utc_now() + timedelta(days=3))
    page.goto(f"{demo.address}/schedules/nightly-etl")
    page.get_by_text("Live", exact=True).wait_for()
    assert page.locator("#when .ago").first.inner_text().startswith("in ")


def test_a_page_is_live_again_after_the_books_were_away(demo: Site) -> None:
    page = demo.visit("/nodes")
    refused: list[Route] = []

    def refuse_once(route: Route) -> None:
        if refused:
            route.continue_()
            return
        refused.append(route)
        route.fulfill(status=503)

    page.route("**/live*", refuse_once)
    demo.expected.add("status of 503")
    page.reload()
    page.get_by_text("Connection lost; reconnecting").wait_for()
    page.get_by_text("Live", exact=True).wait_for()


def test_what_is_not_true_any_more_is_not_said_any_more(demo: Site) -> None:
    page = demo.visit("/schedules/stock/pause")
    page.get_by_role("button", name="Pause").click()
    told = page.get_by_text("Paused. Due times wait")
    told.wait_for()
    demo.book.schedules.resume("stock")
    told.wait_for(state="detached")


def test_the_list_is_filtered_as_somebody_types(demo: Site) -> None:
    page = demo.visit("/schedules")
    page.get_by_label("Name or title", exact=True).press_sequentially("tenant-4")
    page.wait_for_url("**/schedules?text=tenant-4*")
    assert page.locator("a.row-link:visible").all_inner_texts() == ["tenant-4"]
    assert page.locator("#page > :first-child h1").count() == 1
    page.get_by_label("Name or title", exact=True).fill("")
    page.get_by_role("link", name="backup").wait_for()


def test_runs_are_asked_of_the_server_as_somebody_types(demo: Site) -> None:
    page = demo.visit("/runs")
    page.get_by_label("Schedule").press_sequentially("backu")
    page.wait_for_url("**/runs?schedule=backu*")
    page.locator("table.runs").get_by_role("link", name="backup").first.wait_for()
    page.get_by_label("Schedule").fill("tenant")
    page.get_by_text("Did you mean").get_by_role("link", name="tenant-3").click()
    page.wait_for_url("**/runs?schedule=tenant-3")


def test_keys_alone_are_enough(demo: Site) -> None:
    page = demo.visit("/")
    page.keyboard.press("g")
    page.keyboard.press("s")
    page.wait_for_url("**/schedules")
    page.keyboard.press("/")
    page.keyboard.type("orders")
    page.wait_for_url("**/schedules?text=orders*")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/schedules/orders")
    page.keyboard.press("p")
    page.wait_for_url("**/schedules/orders/pause")
    page.keyboard.type("by keys")
    page.keyboard.press("Enter")
    page.get_by_text("Paused.").wait_for()
    assert demo.book.schedules.get("orders").pause_reason == "by keys"


def test_the_keys_that_are_listed_are_those_that_work(demo: Site) -> None:
    page = demo.visit("/schedules")
    press(page, "Keys ?")
    keys = page.get_by_role("dialog").locator("dt").all_inner_texts()
    words = page.get_by_role("dialog").locator("dd").all_inner_texts()
    listed = dict(zip(keys, words, strict=True))
    assert listed["a"] == "New schedule"
    assert listed["g t"] == "Tokens"
    page.keyboard.press("Escape")
    for key, word in listed.items():
        if key.startswith("g "):
            page.goto(f"{demo.address}/schedules")
            page.keyboard.press("g")
            page.keyboard.press(key[2:])
            page.locator(f'.top [aria-current=page]:text-is("{word}")').wait_for()
    page.goto(f"{demo.address}/schedules")
    page.keyboard.press("?")
    page.get_by_role("dialog").wait_for()
    press(page, "Close")
    page.keyboard.press("a")
    page.wait_for_url("**/new")


def test_keys_are_turned_off_and_on_again(demo: Site) -> None:
    page = demo.visit("/schedules")
    for key, on in (("a", False), ("a", True)):
        press(page, "Keys ?")
        page.get_by_label("Use these keys").set_checked(on)
        press(page, "Close")
        page.goto(f"{demo.address}/schedules")
        page.get_by_role("button", name="Keys ?").wait_for()
        page.keyboard.press(key)
        page.keyboard.press("?")
        if on:
            page.wait_for_url("**/new")
        else:
            assert page.get_by_role("dialog").count() == 0
            assert page.url.endswith("/schedules")


def test_a_step_is_retried_where_it_is_seen(demo: Site) -> None:
    flow_run = demo.book.flows.runs("warehouse")[1].id
    page = demo.visit(f"/runs/{flow_run}", viewport={"width": 1440, "height": 900})
    found = page.get_by_role("link", name="Retry from here…")
    found.first.wait_for()
    hidden = """(link) => { const box = link.closest(".scroll").getBoundingClientRect();
      return link.getBoundingClientRect().right > box.right; }"""
    assert found.count() > 1
    assert not any(link.evaluate(hidden) for link in found.all())


@pytest.mark.parametrize("width", [1280, 390])
def test_many_are_paused_from_where_they_are_chosen(demo: Site, width: int) -> None:
    page = demo.visit("/schedules", script=False, viewport={"width": width, "height": 700})
    page.get_by_label("Select weekly-report").scroll_into_view_if_needed()
    page.get_by_label("Select weekly-report").check()
    button = page.get_by_role("button", name="Resume selected…")
    box = button.bounding_box()
    assert box is not None
    assert 0 <= box["y"] < 700, "the buttons stay in sight"
    button.click()
    page.get_by_role("heading", name="Resume 1 schedule?").wait_for()


def test_tab_reaches_the_contents_first(demo: Site) -> None:
    page = demo.visit("/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    page.keyboard.press("Enter")
    page.wait_for_url("**#main")


@BOTH
def test_a_button_that_is_pressed_twice_does_it_once(demo: Site, script: bool) -> None:
    page = demo.visit("/schedules/backup/run", script=script)
    before = len(demo.book.runs.list("backup", 50))
    page.get_by_role("button", name="Run now", exact=True).dblclick()
    page.get_by_text("Run queued").wait_for()
    assert len(demo.book.runs.list("backup", 50)) == before + 1
    page.go_back()
    press(page, "Run now")  # who comes back means it
    page.get_by_text("Run queued").wait_for()
    assert len(demo.book.runs.list("backup", 50)) == before + 2


def test_the_first_page_names_the_zone_that_its_times_are_in(demo: Site) -> None:
    page = demo.visit("/")
    page.locator(".zone").first.wait_for()
    assert page.get_by_label("Times in", exact=True).input_value() == "Europe/Brussels"


@pytest.mark.parametrize(
    ("path", "chosen"),
    [
        ("/", "#failed tbody tr:nth-child(2) a"),
        ("/schedules/backup", "#what dd [data-copy]"),
        ("/schedules/backup", "#why form button"),
        ("/schedules/weekly-report?done=pause", ".alert.done button"),
        ("/flows/warehouse", "#steps svg a"),
    ],
)
def test_a_page_that_looks_again_keeps_the_focus(demo: Site, path: str, chosen: str) -> None:
    page = demo.visit(path)
    if "done=" in path:  # as the site leads there
        (session,) = (one["value"] for one in page.context.cookies() if "session" in one["name"])
        page.goto(f"{demo.address}{signed_address(session, path)}")
    page.get_by_text("Live", exact=True).wait_for()
    told = "e => [e.tagName, e.getAttribute('href'), e.textContent]"
    begin = "e.focus(); document.querySelector('h1').textContent = 'Old'"  # at once: it is live
    look = f"c => {{ const e = document.querySelector(c); {begin}; return ({told})(e) }}"
    before = page.evaluate(look, chosen)
    demo.book.schedules.trigger("tenant-1")
    page.locator("h1", has_not_text="Old").wait_for()
    assert page.evaluate(f"({told})(document.activeElement)") == before


def test_a_row_that_moved_down_keeps_the_focus(site: Site) -> None:
    site.book.schedules.create("job", trigger={"cron": "@daily"}, target={"command": ["true"]})
    first = site.book.schedules.trigger("job").id
    page = site.visit("/runs")
    page.get_by_text("Live", exact=True).wait_for()
    page.evaluate("document.querySelector('tbody a:not(.id)').focus()")  # the same in each row
    second = site.book.schedules.trigger("job").id
    page.locator(f"tbody tr:first-child a[href='/runs/{second}']").wait_for()
    row = page.evaluate("document.activeElement.closest('tr').querySelector('a.id').href")
    assert row.endswith(first)


def test_who_was_at_what_is_gone_stays_in_the_contents(site: Site) -> None:
    site.book.schedules.create("job", trigger={"cron": "@daily"}, target={"command": ["true"]})
    run = site.book.schedules.trigger("job")
    page = site.visit(f"/runs/{run.id}")
    page.get_by_text("Live", exact=True).wait_for()
    page.evaluate("document.querySelector('a[href$=\"/cancel\"]').focus()")
    site.book.runs.cancel(run.id)
    page.locator(".badge", has_text="cancelled").wait_for()
    assert page.evaluate("document.activeElement.id") == "main"


def test_a_page_that_looks_again_stays_where_it_was_moved_to(demo: Site) -> None:
    address = "/schedules/orders/analytics"  # with a table of hours, which is wider than a phone
    page = demo.visit(address, viewport={"width": 390, "height": 844})
    page.evaluate("document.querySelector('.scroll').scrollLeft = 40")
    page.evaluate("document.querySelector('h1').textContent = 'Old'")
    demo.book.schedules.trigger("backup")
    page.locator("h1", has_not_text="Old").wait_for()
    assert page.evaluate("document.querySelector('.scroll').scrollLeft") == 40
