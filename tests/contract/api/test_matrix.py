"""Every operation × role × namespace, from the app itself: a new route cannot be forgotten."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from starlette.routing import Route

from duebook.book import Book
from duebook.model.access import Role
from duebook.store.sqlite import SqliteStore
from duebook.web.csrf import token_for
from duebook.web.site import create_site
from tests.support.api import OPERATIONS, Api, FixedTokens, raw_status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duebook.api.operations import Operation
    from duebook.store.base import Store

CLOSED = [operation for operation in OPERATIONS if operation.role is not None]
ALLOWED = [(o, role) for o in CLOSED for role in Role if o.role is not None and role >= o.role]
REFUSED = [(o, role) for o in CLOSED for role in Role if o.role is not None and role < o.role]
ABOUT_ONE = [(o, role) for o, role in ALLOWED if "{" in o.path and not o.everywhere]
ABOUT_ALL = [o for o in CLOSED if o.everywhere]
SUFFIXES = ("", "/", ";x", "%2f", ".json", "/healthz", "%00", "/../healthz", "%3fx", "#/healthz")
PREFIXES = ("/", "/.", "/healthz/..", "/healthz;", "/login", "/static")
CREATING = ("templates", "calendars", "events", "alerts")
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
OPEN = {
    ("GET", "/api/v1/schedules.ics"),
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/login"),
    ("POST", "/login"),
    ("GET", "/static/api.css"),
    ("GET", "/static/duebook.css"),
    ("GET", "/static/duebook.js"),
    ("GET", "/static/forms.js"),
    ("GET", "/static/icon.svg"),
    ("GET", "/static/log.js"),
    ("GET", "/static/log_rows.js"),
    ("GET", "/static/palette.js"),
    ("GET", "/static/parts.css"),
}
"""Everything that does not need credentials."""


def title(value: Operation | Role) -> str:
    return str(value) if isinstance(value, Role) else f"{value.method} {value.path}"


class Shop:
    """A database with something of each kind in the namespace `shop`, and an app on it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.app = create_site(store, FixedTokens())
        self.book = Book(store, "shop")
        self.schedule = self.book.schedules.create(
            "job", trigger={"cron": "@daily"}, target={"command": ["true"]}
        )
        self.run = self.book.schedules.trigger("job")
        self.book.templates.save("nightly", cron="@daily")
        self.book.calendars.save("planned", dates="2030-01-01")
        self.book.windows.add("planned", "2098-01-01T00:00:00Z", "2098-01-02T00:00:00Z")
        self.book.feeds.create("planned")
        self.book.alerts.save("planned", to="mailto:ops@example.com")
        self.values_of_alerts = {"event_id": self.book.alerts.test("planned").event_id}
        event_id = self.book.events.publish("orders", {"id": 17})
        self.book.events.add_sink("hooks", "webhook", url="https://example.com/hooks")
        self.values = {
            "name": self.schedule.id,
            "run_id": self.run.id,
            "event_id": event_id,
            "action": "start",
            "owner": "billing",
            "node": "ghost",
        }

    def path(self, operation: Operation) -> str:
        values = self.values
        if operation.tag in ("calendars", "windows", "feeds", "alerts"):
            return operation.path.format(name="planned", **self.values_of_alerts)
        if operation.tag in ("templates", "queues", "tokens", "namespaces"):
            values = values | {"name": "nightly"}
        if operation.tag == "events":
            values = values | {"name": "hooks"}
        return re.sub(r"\{(\w+)\}", lambda part: values[part[1]], operation.path)

    def contents(self) -> Any:
        """Everything that a request without permission must not change."""
        book = self.book
        return (
            book.schedules.list(),
            book.runs.list(),
            book.templates.list(),
            book.calendars.list(),
            book.windows.list(),
            book.shadow.list(),
            book.feeds.list(),
            book.alerts.list(),
            book.queues.list(),
            book.tokens.list(),
            book.namespaces.list(),
            book.events.list(),
            book.events.consumers(),
            book.events.partitions("hooks"),
            book.audit.list(everywhere=True),
        )


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    store = SqliteStore(tmp_path_factory.mktemp("matrix") / "books.db")
    yield Shop(store)
    store.close()


def sent(
    operation: Operation, caller: Api, body: dict[str, Any] | None = None
) -> dict[str, dict[str, Any]]:
    """The body of a request: JSON for the API, a form of the caller's session for a page."""
    if operation.tag == "pages" and operation.writes:
        proof = {"csrf": token_for(caller.client.headers["authorization"])}
        return {"data": proof | (body or {})}
    if (
        operation.method == "GET"
        and operation.path.endswith("/backfill")
        and operation.tag != "pages"
    ):
        return {"params": dict.fromkeys(("start", "end", "queued_at"), "2026-01-01T00:00:00Z")}
    return {} if operation.body is None else {"json": body or {}}


def test_the_site_has_no_route_that_declares_nothing(store: Store) -> None:
    app = create_site(store, FixedTokens())
    routes = [route for route in app.routes if isinstance(route, Route)]
    assert len(routes) == len(app.routes)
    found = [(method, route.path) for route in routes for method in route.methods or ()]
    assert sorted(found) == sorted((o.method, o.path) for o in OPERATIONS)


def test_every_argument_of_a_handler_comes_from_somewhere() -> None:
    for operation in OPERATIONS:
        assert all(found.name for found in operation.signature.parameters()), title(operation)


def test_nothing_is_open_but_the_exact_list() -> None:
    assert {(o.method, o.path) for o in OPERATIONS if o.role is None} == OPEN


def test_whoever_reads_writes_nothing_and_whoever_writes_is_no_viewer() -> None:
    for operation in CLOSED:
        if operation.writes and operation.tag != "pages":
            assert operation.role is not None
            assert operation.role > Role.VIEWER, title(operation)


@pytest.mark.parametrize(
    "all_together", [False, pytest.param(True, marks=pytest.mark.long)], ids=["some", "all"]
)
@pytest.mark.parametrize("operation", OPERATIONS, ids=title)
def test_without_credentials_everything_else_is_401(
    shop: Shop, operation: Operation, all_together: bool
) -> None:
    """Every disguise of the path with the operation's method, and its path with every method."""
    path, before = shop.path(operation), shop.contents()
    tried = [path + suffix for suffix in SUFFIXES] + [prefix + path for prefix in PREFIXES]
    for method in METHODS:
        for disguised in tried:
            chosen = all_together or method == operation.method or disguised == path
            if chosen and (method, disguised) not in OPEN:
                status = raw_status(shop.app, method, disguised)
                assert status == 401, f"{method} {disguised}"
    assert shop.contents() == before


@pytest.mark.parametrize(("operation", "role"), REFUSED, ids=title)
def test_a_role_that_is_too_low_is_403(shop: Shop, operation: Operation, role: Role) -> None:
    before = shop.contents()
    low = Api(shop.app, str(role))
    problem = low.refused(403, operation.method, shop.path(operation), **sent(operation, low))
    assert problem["code"] == "forbidden"
    assert shop.contents() == before


@pytest.mark.parametrize(("operation", "role"), ABOUT_ONE, ids=title)
def test_ids_of_another_namespace_are_404_for_every_role(
    shop: Shop, operation: Operation, role: Role
) -> None:
    before = shop.contents()
    stranger, path = Api(shop.app, f"{role}@mail"), shop.path(operation)
    creates = operation.method == "PUT" and operation.tag in CREATING
    creates = creates or operation.name in ("declare_schedules", "preview_calendar")
    body = sent(operation, stranger, _right_body(operation))
    if not creates:
        stranger.refused(404, operation.method, path, **body)
    asked = body.pop("params", {}) | {"namespace": "shop"}
    stranger.refused(404, operation.method, path, params=asked, **body)
    assert shop.contents() == before


def _right_body(operation: Operation) -> dict[str, Any]:
    """A body that is right except for its namespace."""
    bodies: dict[str, dict[str, Any]] = {
        "replace_schedule": {"version": 1, "cron": "@hourly", "target": "job"},
        "declare_schedules": {"schedules": []},
        "reschedule": {"at": "2030-01-01T00:00:00Z"},
        "restore_due_time": {"at": "2030-01-01T00:00:00Z"},
        "backfill_schedule": {"start": "2026-11-01T00:00:00Z", "end": "2026-11-02T00:00:00Z"},
        "undo_backfill": dict.fromkeys(("start", "end", "queued_at"), "2026-11-01T00:00:00Z"),
        "save_template": {"cron": "@daily"},
        "save_calendar": {"dates": ["2030-01-01"]},
        "preview_calendar": {"dates": ["2030-01-01"]},
        "save_sink": {"kind": "webhook", "options": {"url": "https://example.com/hooks"}},
        "set_ping": {"url": "https://hc-ping.com/x"},
        "replay_events": {"after": 0},
        "approve_step": {"step": "ok"},
        "reject_step": {"step": "ok"},
        "save_alert_rule": {"to": ["mailto:ops@example.com"]},
    }
    return bodies.get(operation.name, {})


@pytest.mark.parametrize("operation", ABOUT_ALL, ids=title)
def test_what_concerns_all_namespaces_needs_a_token_for_all(
    shop: Shop, operation: Operation
) -> None:
    before = shop.contents()
    local = Api(shop.app, "admin@shop")
    local.refused(403, operation.method, shop.path(operation), **sent(operation, local))
    assert shop.contents() == before


@pytest.mark.parametrize("operation", CLOSED, ids=title)
def test_who_may_is_let_in(shop: Shop, operation: Operation) -> None:
    """The role that an operation needs gets the request past the permission check."""
    caller = Api(
        shop.app, f"{operation.role}" if operation.everywhere else f"{operation.role}@shop"
    )
    answer = caller(
        operation.method,
        re.sub(r"\{\w+\}", "nothing", operation.path),
        **sent(operation, caller),
        follow_redirects=False,
    )
    assert answer.status_code in (200, 303, 404, 409, 422, 428), answer.text
