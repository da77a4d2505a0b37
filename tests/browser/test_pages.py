"""Every page: nothing is amiss, all has a label, everything can be read, on phones too."""

from __future__ import annotations

import html
import json
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

import pytest
from axe_playwright_python.base import AXE_SCRIPT

from duebook.clock import utc_now
from duebook.model.run import LogLine
from duebook.store.flow_values import BrokenFile
from tests.support.builders import begin, claim, settle
from tests.support.flow_builders import put_flow

if TYPE_CHECKING:
    from tests.browser.conftest import Site

PARTS = ("", "/pause", "/run", "/move", "/skip-next", "/delete", "/backfill", "/edit", "/analytics")


def all_pages(site: Site) -> list[str]:
    failed = next(run.id for run in site.book.runs.list(status="failed") if not run.flow)
    flow_run = site.book.flows.runs("warehouse")[1].id
    letter = site.book.events.dead_letters()[0].event.id
    return [
        "/",
        "/namespaces",
        "/views",
        "/find?text=o",
        "/schedules",
        "/schedules?last=failed",
        "/new",
        "/next?trigger=30+2+*+*+*&trigger_kind=cron&tz=Europe/Brussels",
        "/due",
        "/bulk?action=pause&all=1&label=team:data",
        *(f"/schedules/nightly-etl{part}" for part in PARTS),
        "/schedules/weekly-report/resume",
        "/schedules/orders",
        "/runs",
        "/runs?label=team:data",
        "/bulk-runs?action=retry&status=failed",
        f"/compare?a={failed}&b={flow_run}",
        "/failures",
        f"/runs/{failed}",
        f"/runs/{failed}/retry",
        "/flows",
        "/check-flow",
        *(f"/flows/warehouse{part}" for part in ("", "/start", "/stop", "/restart")),
        f"/runs/{flow_run}",
        f"/runs/{flow_run}/retry?step=load-orders",
        "/calendar",
        "/simulate?days=7&workers=3",
        "/spread?days=7&label=team:tenants",
        "/calendars",
        "/new-calendar",
        *(f"/calendars/closing-days{part}" for part in ("", "/edit", "/delete")),
        "/windows",
        "/windows/new",
        "/windows/db%20upgrade/end",
        "/feeds",
        "/feeds/new",
        "/feeds/billing/revoke",
        "/alerts",
        "/alerts/new",
        *(f"/alerts/ops/{action}" for action in ("delete", "silence", "test")),
        "/events",
        f"/events/{letter}",
        "/readers/billing",
        f"/readers/billing/drop-dead?event={letter}",
        "/nodes",
        "/queues/default",
        "/doctor",
        "/doctor/repair",
        "/audit",
        "/tokens",
        "/tokens/new",
        "/schedules/orders/version?version=1",
        "/login",
        "/nothing",
    ]


SMALL = """() => [...document.querySelectorAll(
    "button, .button, input:not([type=hidden]), select, summary, nav a, .who a, .label")]
  .filter((e) => e.checkVisibility() && !e.closest(".unseen"))
  .map((e) => [e, (e.closest("label") ?? e).getBoundingClientRect()])
  .filter(([e, box]) => box.height < 24 || box.width < 24)
  .map(([e, box]) => `${box.width} x ${box.height} ${e.outerHTML.slice(0, 90)}`)"""
WIDE = """() => [document.documentElement, ...document.querySelectorAll("main *")]
  .filter((e) => e.checkVisibility() && e.scrollWidth > e.clientWidth + 1)
  .filter((e) => e === document.documentElement
    || ["auto", "scroll"].includes(getComputedStyle(e).overflowX))
  .filter((e) => !e.matches("pre, .source") && !e.querySelector("svg, .heat, .grid-of-steps"))
  .map((e) => `${e.scrollWidth} > ${e.clientWidth} ${e.outerHTML.slice(0, 90)}`)"""
WIDER_THAN_THE_PAGE = """() => [document.documentElement.scrollWidth]
  .filter((wide) => wide > innerWidth)"""
UNLABELLED = """() => [...document.querySelectorAll(".rows tbody tr, .fold tbody tr")]
  .filter((e) => e.checkVisibility())
  .filter((e) => [...e.closest("table").querySelectorAll("thead th:not(:has(.unseen))")].length > 3
    && !e.querySelector("[data-label]"))
  .map((e) => e.outerHTML.slice(0, 90))"""
AXE = """async (options) => (await axe.run(
  {exclude: [["tbody tr:nth-child(n+5)"], ["option:nth-child(n+5)"]]}, options)).violations.map(
  (one) => [one.impact, one.id, ...one.nodes.map((node) => node.html.slice(0, 120))])"""
"""Of many rows that are alike, some tell of all."""
LOOKS: dict[str, Any] = {"resultTypes": ["violations"], "preload": False}
EVERYTHING = LOOKS | {"rules": {"target-size": {"enabled": True}}}
WHAT_DIFFERS = LOOKS | {"runOnly": ["color-contrast", "target-size", "scrollable-region-focusable"]}
"""Between light and dark, and between a desk and a phone."""


DESK = {"viewport": {"width": 1200, "height": 844}, "color_scheme": "light"}
PHONE = {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark", "is_mobile": True}


@pytest.mark.parametrize(
    ("look", "rules"),
    [
        pytest.param(DESK, EVERYTHING, id="desk, light"),
        pytest.param(PHONE, WHAT_DIFFERS, id="phone, dark"),
    ],
)
def test_everything_is_labelled_fits_and_can_be_read(
    demo: Site, look: dict[str, Any], rules: dict[str, Any]
) -> None:
    """By axe-core, whatever it finds; on a phone, only drawings and code scroll sideways."""
    page = demo.visit(**look)
    for path in all_pages(demo):
        page.goto(f"{demo.address}{path}")
        assert page.evaluate(SMALL) == [], path
        assert page.evaluate(UNLABELLED) == [], path
        too_wide = page.evaluate(WIDE if look is PHONE else WIDER_THAN_THE_PAGE)
        assert too_wide == [], path
        page.evaluate(AXE_SCRIPT)
        assert page.evaluate(AXE, rules) == [], path


LINK = re.compile(r'<a [^>]*?href="([^"]*)"')


def test_pages_are_small_and_their_links_lead_somewhere(demo: Site) -> None:
    page = demo.visit(script=False)
    seen: set[str] = set()
    for path in all_pages(demo):
        answer = page.request.get(f"{demo.address}{path}")
        assert len(answer.body()) < 200_000, path
        found = (urljoin(answer.url, html.unescape(href)) for href in LINK.findall(answer.text()))
        for link in {link.split("#")[0] for link in found} - seen:
            seen.add(link)
            assert page.request.get(link).status == 200, f"{path} leads to {link}"


XSS = [
    "<script>window.hit = 1</script>",
    "<img src=x onerror='window.hit = 1'>",
    "\"><svg/onload='window.hit = 1'>",
    "'><iframe srcdoc='<script>parent.hit = 1</script>'>",
    "javascript:window.hit=1",
    "</title><script>window.hit = 1</script>",
    "</textarea><script>window.hit = 1</script>",
    "\x1b]8;;javascript:window.hit=1\x07click\x1b]8;;\x07",
    "\u202e<b onmouseover='window.hit = 1'>x",
]


AN_EVENT = "BEGIN:VEVENT\nDTSTART;VALUE=DATE:20300404\nEND:VEVENT"


def _step(text: str) -> dict[str, Any]:
    return {"name": f"do {text[:30].replace(chr(27), ' ')}", "command": "true", "description": text}


def test_hostile_words_do_nothing(site: Site) -> None:
    begin(site.store)
    for number, text in enumerate(XSS):
        name = f"job-{number}"
        site.book.schedules.create(
            name,
            trigger={"cron": "@daily"},
            target={"command": ["true"]},
            description=text,
            labels={"x": text},
            payload={"words": text},
        )
        site.book.schedules.trigger(name)
        (claimed,) = claim(site.store)
        line = LogLine(utc_now(), "stdout", text)
        token = claimed.token
        site.store.transact(
            lambda tx, token=token, line=line: tx.attempts.append_log(token, 1, [line])  # type: ignore[misc]
        )
        settle(site.store, token, "failed", error=text, reason="error")
        site.book.schedules.pause(name, reason=text)
        site.book.events.publish("orders", {"words": text}, key=text)
        flow = {"name": f"flow-{number}", "description": text, "steps": [_step(text)]}
        put_flow(site.store, json.dumps(flow), f"flow-{number}")
        title = f"{number} {text.replace('/', '')}" if text.isprintable() else str(number)
        site.book.windows.add(title, utc_now(), utc_now() + timedelta(days=1), {"x": text})
        site.book.calendars.save(f"days-{number}", ical=f"{AN_EVENT}\n{text}")
    problem = {"line": 1, "column": 1, "key": XSS[0], "message": XSS[1], "hint": XSS[2]}
    told = {
        place: BrokenFile([problem | {"file": place}], "d", "\n".join(XSS))
        for place in ("flows/flow-0.yaml", XSS[0])
    }
    site.store.transact(lambda tx: tx.flows.save_problems("default", ["flows"], told))
    page = site.visit()
    paths = ["/", "/schedules", "/runs", "/audit", "/calendar", "/events", "/flows"]
    paths += ["/calendars", "/calendars/days-0", "/calendars/days-6/edit", "/windows"]
    paths += [f"/flows/flow-{number}" for number in range(len(XSS))]
    paths += [f"/events/{event.id}" for event in site.book.events.list()]
    paths += [f"/schedules/job-{number}" for number in range(len(XSS))]
    paths += [f"/schedules/job-{number}/edit" for number in range(len(XSS))]
    paths += [f"/runs/{run.id}" for run in site.book.runs.list()]
    paths += [f"/schedules?text={text}&label={text}" for text in XSS[:3]]
    for path in paths:
        page.goto(f"{site.address}{path}")
        assert page.evaluate("window.hit") is None, path
        assert page.locator("iframe, main script, a[href^=javascript]").count() == 0, path
