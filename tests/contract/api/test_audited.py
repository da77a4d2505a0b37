"""The table states for each use case whether the audit log records it; here each is done once."""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from duebook.book import Book
from duebook.client import TABLE
from duebook.client.use_cases import V1
from duebook.engine.advancer import Advancer
from duebook.model.change import KINDS
from duebook.timetext import format_instant
from tests.support.builders import begin
from tests.support.flow_builders import CHAIN, ask_person, put_flow
from tests.support.held import hold
from tests.support.zone_wheels import write_wheel

if TYPE_CHECKING:
    from pathlib import Path

    from duebook.store.base import Store
    from tests.support.api import Api

NOW: Final = datetime.now(UTC) - timedelta(hours=1)
DEFINITION: Final = {"cron": "@hourly", "target": {"command": ["true"]}}


class Doer:
    """Executes the use cases in turn, and checks the audit log after each."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.done: set[str] = set()

    def __call__(self, name: str, body: dict[str, Any] | None = None, /, **values: str) -> Any:
        case = TABLE[name]
        before = self._latest()
        path = case.path.removeprefix(f"{V1}/").format(**values)
        answer = self._api.ok(case.method, path, body)
        assert (self._latest() != before) == case.audited, name
        assert self._latest()[0]["kind"] in KINDS, name
        self.done.add(name)
        return answer

    def _latest(self) -> Any:
        return self._api.ok("GET", "audit", params={"limit": 1, "everywhere": True})["items"]


def test_the_audit_records_what_the_table_says(api: Api, store: Store, tmp_path: Path) -> None:
    do = Doer(api)
    _schedules(do)
    _catchup(do, store)
    _flows(do, store)
    _events(do)
    _calendars(do)
    _others(do)
    _nodes(do, store)
    _repair(do, store)
    do("diff_zones", {"wheel": b64encode(write_wheel(tmp_path).read_bytes()).decode()})
    assert do.done == {name for name, case in TABLE.items() if case.writes}


def _schedules(do: Doer) -> None:
    do("create_schedule", {"name": "job", **DEFINITION})
    do("create_schedules", {"schedules": [{"name": "other", **DEFINITION}]})
    do("declare_schedules", {"schedules": [{"name": "own", **DEFINITION}]}, owner="billing")
    do("change_schedule", {"timeout": "1h"}, name="job")
    do("replace_schedule", {"version": 2, **DEFINITION}, name="job")
    do("preview_update", {"timeout": "2h"}, name="job")
    do("simulate", {"days": 1})
    do("spread", {"days": 1})
    do("render_schedule", {}, name="job")
    skipped = do("skip_next", {}, name="job")["skipped_due_at"]
    do("restore_due_time", {"at": skipped}, name="job")
    do("reschedule", {"at": "2099-01-01T00:00:00Z"}, name="job")
    past = {"start": format_instant(NOW - timedelta(hours=5)), "end": format_instant(NOW)}
    filled = do("backfill_schedule", past, name="job")["runs"]
    do("undo_backfill", past | {"queued_at": filled[0]["ready_at"]}, name="job")
    run = do("trigger_schedule", {}, name="job")["id"]
    do("enqueue_run", {"task": "digest"})
    do("cancel_run", run_id=run)
    do("retry_run", run_id=run)
    do("pause_schedule", {}, name="job")
    do("resume_schedule", name="job")
    do("act_on_schedules", {"action": "pause", "filter": {"text": "job"}})
    do("delete_schedule", name="job")


def _catchup(do: Doer, store: Store) -> None:
    hour = timedelta(hours=1)
    first = NOW.replace(minute=0, second=0, microsecond=0) - 2 * hour
    hold(Book(store), "other", first, hour, 2)
    do("approve_catchup", {"newest": 1}, name="other")
    do("reject_catchup", {}, name="other")
    hold(Book(store), "other", first, hour, 2)
    do("decide_catchup", {"decision": "reject"})


def _flows(do: Doer, store: Store) -> None:
    put_flow(store, CHAIN)
    do("validate_flow", {"source": CHAIN})
    run = do("start_flow", {}, name="chain")["id"]
    do("stop_flow", name="chain")
    do("retry_flow", {}, run_id=run)
    do("restart_flow", name="chain")
    for answer in ("reject_step", "approve_step"):
        do(answer, {"step": "ok"}, run_id=ask_person(store))
        Advancer(store).step()  # the next run may begin
    store.transact(lambda tx: tx.directories.release_directories("reader"))
    do("forget_flows", {"directory": "flows"})


def _events(do: Doer) -> None:
    do("publish_event", {"topic": "orders"})
    do("save_sink", {"kind": "webhook", "options": {"url": "https://x.test"}}, name="hooks")
    do("replay_events", {"after": 0}, name="hooks")
    do("replay_dead_letters", {}, name="hooks")
    do("drop_dead_letters", {}, name="hooks")
    do("remove_consumer", name="hooks")
    do("set_ping", {"url": "https://hc-ping.com/x"}, name="other")
    do("remove_ping", name="other")


def _calendars(do: Doer) -> None:
    do("preview_calendar", {"weekdays": "SUN"}, name="sundays")
    do("save_calendar", {"weekdays": "SUN"}, name="sundays")
    do("remove_calendar", name="sundays")
    span = {"start_at": format_instant(NOW), "end_at": format_instant(NOW + timedelta(days=1))}
    do("add_window", {"name": "upgrade", **span})
    do("remove_window", name="upgrade")
    do("shadow_on", {"labels": {"team": "data"}})
    do("shadow_off", {})
    do("create_feed", {"name": "team"})
    do("revoke_feed", name="team")
    do("save_alert_rule", {"to": ["mailto:ops@example.com"]}, name="ops")
    until = {"until": format_instant(NOW + timedelta(days=1))}
    do("silence_alert_rule", until, name="ops")
    do("test_alert_rule", name="ops")
    do("remove_alert_rule", name="ops")


def _others(do: Doer) -> None:
    do("limit_queue", {"concurrency": 1}, name="mail")
    do("free_queue", name="mail")
    do("save_template", {"cron": "@daily"}, name="nightly")
    do("remove_template", name="nightly")
    do("limit_namespace", {"schedules": 9}, name="shop")
    do("free_namespace", name="shop")
    do("keep_namespace", {"keep": "365d"}, name="shop")
    do("create_token", {"name": "ci", "role": "viewer", "namespaces": ["*"]})
    do("revoke_token", name="ci")


def _nodes(do: Doer, store: Store) -> None:
    begin(store)
    do("drain_node", {"stop": True}, node="node-1")
    do("undrain_node", node="node-1")


def _repair(do: Doer, store: Store) -> None:
    """A repair without problems has no entry, since nothing changes."""
    asleep = "UPDATE schedule_state SET wake_at = NULL"
    store.transact(lambda tx: tx.db.connection.execute(asleep))  # type: ignore[attr-defined]
    do("repair")
