"""Every write: confirmed on its own page, which can be cancelled, and undone where possible."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, urlencode

import pytest

from duebook.delivery.courier import Courier
from duebook.timetext import format_instant
from duebook.web.routes import PAGES
from tests.support.builders import begin, claim, settle
from tests.support.event_builders import Box, join, stamp
from tests.support.flow_builders import CHAIN, ask_person, put_flow, steps_of
from tests.support.held import hold

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duebook.book import Book
    from duebook.store.base import Store
    from tests.support.pages import Browser, Page

DAY: Final = timedelta(days=1)
DOCUMENT: Final = Path(__file__).parents[3] / "docs" / "dashboard.md"
OWN: Final = {"/theme", "/views", "/views/delete"}
"""Forms whose values are only kept in the user's browser."""
HARMLESS: Final = {"/login", "/logout", "/zone", "/check-flow"} | OWN
"""Forms that write nothing to the database."""
ALL: Final = [page for part in PAGES for page in part.all]
WRITES: Final = {page.path for page in ALL if page.writes} - HARMLESS
PATTERNS: Final = {
    path: re.compile("^" + re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path)) + "$")
    for path in sorted({page.path for page in ALL}, key=lambda path: path.count("{"))
}
ONLY_UNDO: Final = {"/schedules/{name}/again", "/schedules/{name}/undo-backfill"}
PREVIEWS: Final = {"Preview", "Preview changes", "Preview due times", "Continue editing"}
EACH: Final = 4
"""Pages of each kind that are checked."""
FORM: Final = re.compile(r'<form method="post" action="([^"?]+).*?</form>', re.DOTALL)
BUTTON: Final = re.compile(r"<button(?! type)[^>]*>([^<]+)</button>")
NOTICE: Final = re.compile(r'<div class="alert done".*?</div>', re.DOTALL)


@pytest.fixture
def store(file_store: Store) -> Store:
    """One database is enough to see what each page asks."""
    return file_store


def kind_of(path: str) -> str:
    return next((kind for kind, pattern in PATTERNS.items() if pattern.match(path)), "")


def contents(page: Page) -> str:
    """The contents of a page without its header and footer, which are the same everywhere."""
    return page.source.partition('<div id="page">')[2].partition("</main>")[0]


def fill(book: Book) -> list[str]:
    """Create something of every kind; return the pages that show a notice afterwards."""
    create = book.schedules.create
    create("job", trigger={"cron": "0 0 * * *"}, target={"command": ["true"]}, labels={"a": "b"})
    create("rests", trigger={"cron": "@daily"}, target={"command": ["true"]})
    book.schedules.pause("rests")
    book.schedules.update("job", description="new")
    book.schedules.skip_next("job")
    today = book.insights.now().replace(hour=0, minute=0, second=0, microsecond=0)
    hold(book, "rests", today - 4 * DAY, DAY, 4)
    begin(book.store)
    book.schedules.trigger("job")
    (failed,) = claim(book.store)
    settle(book.store, failed.token, "failed", error="boom")
    book.schedules.trigger("job")
    begin(book.store, "node-2")
    book.nodes.drain("node-2")
    put_flow(book.store, CHAIN)
    flow = book.flows.start("chain")
    asked = steps_of(book.store, ask_person(book.store))["ok"]
    book.events.publish("orders", {"id": 1}, key="1")
    stamp(book.store)
    box = Box()
    box.refuses = {"1"}
    courier = Courier(book.store, join(book.store, "tellers", 1, 1, topics=["orders"]), box)
    courier.share()
    while not book.events.dead_letters():
        courier.step()
    courier.close()
    book.tokens.create("ci", "viewer", "*")
    book.calendars.save("days", weekdays="SUN")
    book.calendars.save("days", weekdays="SAT")
    book.windows.add("open now", book.insights.now() - DAY, book.insights.now() + DAY)
    book.windows.add("planned", book.insights.now() + 5 * DAY, book.insights.now() + 6 * DAY)
    book.feeds.create("team")
    book.alerts.save("ops", to="mailto:ops@example.com")
    book.alerts.save("quiet", to="mailto:ops@example.com")
    book.alerts.silence("quiet", book.insights.now() + DAY)
    gone = book.schedules.create("gone", trigger={"cron": "@daily"}, target={"command": ["true"]})
    book.schedules.delete("gone")
    now = format_instant(datetime.now(UTC))
    done = [{"done": word} for word in ("pause", "resume", "create", "again", "restore")]
    done += [{"done": word, "at": now} for word in ("move", "skip-next")]
    done += [{"done": word, "version": "1"} for word in ("edit", "version")]
    done.append({"done": "run", "run": failed.run.id})
    done.append({"done": "backfill", "count": "2", "since": now, "until": now, "at": now})
    done.append({"done": "undo-backfill", "cancelled": "2", "begun": "1"})
    done.append({"done": "approve", "count": "2", "since": now, "until": now, "at": now})
    done.append({"done": "reject", "count": "2"})
    span = {name: f"{datetime.now(UTC) - timedelta(days=n):%Y-%m-%dT00:00}" for name, n in
            (("from", 4), ("to", 2))}  # fmt: skip
    return [
        *(f"/schedules/job?{urlencode(query)}" for query in done),
        f"/schedules/job/backfill?{urlencode(span)}",
        "/schedules/rests/catchup?decide=approve",
        "/schedules/rests/catchup?decide=reject",
        "/schedules?done=paused&count=1&name=rests",
        f"/schedules?done=deleted&name=gone&id={gone.id}",
        f"/runs/{flow.id}?done=start",
        f"/runs/{asked.id}",
        f"/runs/{failed.run.id}",
        "/calendars/days?done=saved&version=2",
        "/windows?done=planned&name=planned",
    ]


def walk(browser: Browser, first: list[str]) -> Iterator[tuple[str, Page]]:
    """Every kind of page that links lead to."""
    waiting, seen, counts = ["/", *first], set[str](), dict[str, int]()
    while waiting:
        address = waiting.pop(0)
        kind = kind_of(address.partition("?")[0].partition("#")[0])
        asked = parse_qs(address.partition("?")[2].partition("#")[0])
        words = [value for name, value in asked.items() if name in ("done", "action", "status")]
        key = f"{kind} {sorted(asked)} {words}"
        if address in seen or not kind or counts.get(key, 0) >= EACH:
            continue
        seen.add(address)
        counts[key] = counts.get(key, 0) + 1
        page = browser.get(browser.signed(address) if "done" in asked else address)
        assert page.status == 200, f"{address}: {page.text[:300]}"
        yield address, page
        waiting += [link for link in page.links if link.startswith("/")]


def drafts(browser: Browser) -> list[tuple[str, Page]]:
    """The preview pages of forms that have one."""
    new = browser.send(
        browser.ok("/new"), "/new", name="x", trigger="@daily", target="job", step="preview"
    )
    edit = browser.send(
        browser.ok("/schedules/job/edit"), "/schedules/job/edit", description="x", step="preview"
    )
    found = [("/new", new), ("/schedules/job/edit", edit)]
    for ask, action in (("/new-calendar", "/new-calendar"), ("/windows/new", "/windows")):
        now = datetime.now(UTC)
        span = {"from": f"{now + DAY:%Y-%m-%dT00:00}", "to": f"{now + 2 * DAY:%Y-%m-%dT00:00}"}
        given = {"name": "x", "weekdays": "SUN", "step": "preview", **span}
        found.append((action, browser.send(browser.ok(ask), action, **given)))
    edit = browser.send(
        browser.ok("/calendars/days/edit"), "/calendars/days/edit", weekdays="MON", step="preview"
    )
    return [*found, ("/calendars/days/edit", edit)]


def test_every_write_is_asked_for_on_a_page_of_its_own(admin: Browser, book: Book) -> None:
    first = fill(book)
    asked: dict[str, set[str]] = {}
    undone: set[str] = set()
    pages = [*walk(admin, first), *drafts(admin)]
    for address, page in pages:
        whole = contents(page)
        for notice in NOTICE.findall(whole):
            for form in FORM.finditer(notice):
                assert BUTTON.findall(form[0]) == ["Undo"], address
                undone.add(kind_of(form[1]))
        forms = list(FORM.finditer(NOTICE.sub("", whole)))
        forms = [form for form in forms if kind_of(form[1]) not in HARMLESS]
        assert len(forms) <= 1, f"{address} has forms for {[form[1] for form in forms]}"
        for form in forms:
            assert 'data-live="' not in page.source, f"{address} changes under its reader's hands"
            assert ">Back</a>" in whole, f"{address} cannot be left"
            assert 'name="key"' in form[0], f"{address} can be sent twice"
            assert re.search(r"<h1>[^<]*(\?|Edit \w+|Backfill \w+|New [\w ]+)</h1>", whole)
            asked.setdefault(kind_of(form[1]), set()).update(BUTTON.findall(form[0]))
    assert WRITES - set(asked) == ONLY_UNDO <= undone
    told = {row.split("|")[1].strip() for row in DOCUMENT.read_text().splitlines() if "|" in row}
    words = {word for found in asked.values() for word in found - PREVIEWS}
    numbers = re.compile(r"\d+ (schedule|run|due time)s?")
    missing = {numbers.sub(r"N \1s", word) for word in words} - told
    assert not missing, f"docs/dashboard.md does not say what is asked before {missing}"


def test_a_page_that_asks_does_nothing(operator: Browser, book: Book) -> None:
    fill(book)
    book.schedules.update("job", description="newer")
    before = [(s.name, s.version, s.status, s.next_due_at) for s in book.schedules.list()]
    (said,) = book.schedules.exceptions("job")
    page = operator.ok("/schedules/job/restore", at=format_instant(said.due_at))
    assert "makes it due again" in page.text
    page = operator.ok("/schedules/job/version", version="1")
    assert "Restore version 1 of job?" in page.text
    assert "newer" in page.text
    assert operator.get("/schedules/job/version", version="9").status == 422
    assert operator.get("/schedules/job/restore", at="x").status == 422
    assert before == [(s.name, s.version, s.status, s.next_due_at) for s in book.schedules.list()]
