"""The metrics as Prometheus reads them: from the loops, from the books, at a bounded price."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from duebook.api.metrics import CONTENT_TYPE, KEEP, Metrics
from duebook.book import Book
from duebook.engine.measures import Measures
from duebook.engine.ticker import Ticker
from duebook.errors import Unavailable
from duebook.model.held import HeldRange
from duebook.store.sqlite import SqliteStore
from duebook.store.values import SessionInfo
from tests.support.builders import (
    MINUTE,
    SECOND,
    VirtualClock,
    add_run,
    add_schedule,
    begin,
    claim,
    settle,
    tick,
)

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[3]


class Counting:
    """A store that counts the statements that are executed."""

    def __init__(self, path: Path, clock: VirtualClock) -> None:
        self.statements: list[str] = []
        self.store = SqliteStore(path, clock, self._point)

    def _point(self, name: str) -> None:
        if name.startswith("before:"):
            self.statements.append(name)


@pytest.fixture
def counting(tmp_path: Path, clock: VirtualClock) -> Counting:
    return Counting(tmp_path / "books.db", clock)


def read(metrics: Metrics) -> dict[str, dict[tuple[str, ...], float]]:
    """Sample name to label values to value."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(metrics.text().decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


def test_a_process_that_only_serves_the_web_shows_what_the_books_say(
    counting: Counting, clock: VirtualClock
) -> None:
    store = counting.store
    schedule_id = add_schedule(store)
    add_run(store, schedule_id)
    add_run(store, schedule_id)
    clock.advance(MINUTE)
    clock.advance(MINUTE)
    claim(store, begin(store), limit=1)
    range_ = HeldRange("", schedule_id, clock.now, clock.now, 9, True, 1, clock.now)
    store.transact(lambda tx: tx.held.replace(schedule_id, [range_]))
    found = read(Metrics(store))
    assert found["duebook_database_up"] == {(): 1.0}
    assert found["duebook_queue_depth"] == {("default",): 1.0}
    assert found["duebook_queue_running"] == {("default",): 1.0}
    assert found["duebook_nodes"] == {
        ("scheduler",): 0.0,
        ("worker",): 1.0,
        ("relay",): 0.0,
        ("web",): 0.0,
    }
    assert found["duebook_overdue_seconds"] == {(): 60.0}
    assert found["duebook_catchup_held"] == {("default",): 9.0}
    assert found["duebook_schedules"] == {("active",): 1, ("paused",): 0, ("completed",): 0}
    assert "duebook_fired_total" not in found
    assert "process_resident_memory_bytes" in found
    assert CONTENT_TYPE.startswith("text/plain")


def test_a_queue_that_is_served_and_empty_is_shown_as_empty(counting: Counting) -> None:
    info = SessionInfo("n", "host", 1, "worker", "0", "2026a", (), ("mail",))
    counting.store.transact(lambda tx: tx.nodes.begin_session(info, MINUTE))
    found = read(Metrics(counting.store))
    assert found["duebook_queue_depth"] == {("mail",): 0.0}
    assert found["duebook_queue_running"] == {("mail",): 0.0}


def test_a_node_shows_what_its_loops_counted(counting: Counting, clock: VirtualClock) -> None:
    store, measures = counting.store, Measures()
    add_schedule(store, catchup="skip")
    clock.advance(3 * MINUTE)
    Ticker(store, measures=measures).step()
    measures.took(claim(store, begin(store)), 0.004)
    found = read(Metrics(store, lambda: measures))
    assert found["duebook_due_total"] == {(): 3.0}
    assert found["duebook_fired_total"] == {(): 1.0}
    assert found["duebook_skipped_total"] == {("missed",): 1.0, ("overlap",): 1.0}
    assert found["duebook_lateness_seconds_count"] == {(): 1.0}
    buckets = found["duebook_claim_seconds_bucket"]
    assert (buckets[("0.0025",)], buckets[("0.005",)], buckets[("+Inf",)]) == (0, 1, 1)
    assert found["duebook_claim_seconds_sum"] == {(): pytest.approx(0.004)}


def test_schedules_that_ask_for_it_by_a_label_have_metrics_of_their_own(
    counting: Counting, clock: VirtualClock
) -> None:
    store = counting.store
    add_schedule(store, "watched", labels={"metrics": "true"})
    add_schedule(store, "failing", "shop", labels={"metrics": "true"})
    add_schedule(store, "quiet", "shop", labels={"metrics": "true"}, trigger={"cron": "@yearly"})
    add_schedule(store, "plain", labels={"metrics": "false"})
    clock.advance(MINUTE)
    tick(store)
    begin(store)
    clock.advance(2 * SECOND)
    claims = [*claim(store), *claim(store, namespace="shop")]
    clock.advance(5 * SECOND)
    for claimed in claims:
        settle(store, claimed.token, "failed" if claimed.run.schedule == "failing" else "succeeded")
    found = read(Metrics(store))
    successes = found["duebook_schedule_last_success_timestamp_seconds"]
    watched, failing = ("default", "watched"), ("shop", "failing")
    assert successes == {watched: clock.now.timestamp(), failing: 0.0}
    assert found["duebook_schedule_last_duration_seconds"] == {watched: 5.0, failing: 5.0}
    assert found["duebook_schedule_last_lateness_seconds"] == {watched: 2.0, failing: 2.0}


def test_a_node_shows_what_it_planned_and_how_soon(counting: Counting, clock: VirtualClock) -> None:
    store, measures = counting.store, Measures()
    measures.node = "here"
    add_schedule(store, "new", trigger={"every": "1h", "anchor": "2026-01-05T12:02:00Z"})
    add_schedule(store, "old", trigger={"every": "1h", "anchor": "2026-01-05T12:00:30Z"})
    clock.advance(2 * MINUTE + 3 * SECOND)
    Ticker(store, measures=measures).step()
    found = read(Metrics(store, lambda: measures))
    assert found["duebook_planned_total"] == {("here", "catchup"): 1.0, ("here", "schedule"): 1.0}
    assert found["duebook_tick_latency_seconds_sum"][()] == pytest.approx(93.0, abs=1.0)


def test_two_processes_worth_of_metrics_share_nothing(counting: Counting) -> None:
    one, other = Measures(), Measures()
    one.took_over(3, 1)
    assert read(Metrics(counting.store, lambda: one))["duebook_takeovers_total"] == {(): 3.0}
    assert read(Metrics(counting.store, lambda: other))["duebook_takeovers_total"] == {(): 0.0}


def test_the_books_are_asked_once_in_a_while_however_often_somebody_scrapes(
    counting: Counting,
) -> None:
    seconds = 0.0
    metrics = Metrics(counting.store, monotonic=lambda: seconds)
    metrics.text()
    counting.statements.clear()
    for _ in range(5):
        metrics.text()
    assert counting.statements == []
    seconds += KEEP
    metrics.text()
    assert 0 < len(counting.statements) <= 10


def test_books_that_do_not_answer_are_a_metric(
    counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise Unavailable("no route")

    metrics = Metrics(counting.store, Measures)
    monkeypatch.setattr(counting.store, "read", refuse)
    found = read(metrics)
    assert found["duebook_database_up"] == {(): 0.0}
    assert "duebook_queue_depth" not in found
    assert found["duebook_fired_total"] == {(): 0.0}


def test_many_schedules_are_counted_over_several_scrapes(
    counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duebook.api.metrics.MOST_SCHEDULES", 2)
    seconds = 0.0
    for number in range(3):
        add_schedule(counting.store, f"job-{number}")
    metrics = Metrics(counting.store, monotonic=lambda: seconds)
    assert "duebook_schedules" not in read(metrics)
    seconds += KEEP
    assert read(metrics)["duebook_schedules"][("active",)] == 3.0
    seconds += KEEP
    assert read(metrics)["duebook_schedules"][("active",)] == 3.0


def steps_of(path: Path, clock: VirtualClock, schedules: int) -> int:
    """How many steps SQLite's machine takes for a scrape."""
    store = SqliteStore(path, clock)
    for number in range(schedules):
        add_schedule(store, f"job-{number}", overlap="allow")
    clock.advance(MINUTE)
    tick(store)
    steps = 0
    metrics = Metrics(store)

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    original = store.read

    def counted(work: Callable[[Any], Any]) -> Any:
        def watched(tx: Any) -> Any:
            tx.db.connection.set_progress_handler(count, 1)
            try:
                return work(tx)
            finally:
                tx.db.connection.set_progress_handler(None, 1)

        return original(watched)

    store.read = counted  # type: ignore[method-assign, assignment]
    metrics.text()
    store.close()
    return steps


def test_a_scrape_costs_the_same_however_many_schedules_and_queued_runs_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duebook.api.metrics.MOST_SCHEDULES", 50)
    monkeypatch.setattr("duebook.api.metrics.MOST_QUEUED", 50)
    few = steps_of(tmp_path / "few.db", VirtualClock(), 60)
    many = steps_of(tmp_path / "many.db", VirtualClock(), 600)
    assert many <= 1.1 * few


def test_every_metric_is_documented_and_every_documented_one_exists(counting: Counting) -> None:
    page = (ROOT / "docs" / "metrics.md").read_text("utf-8")
    documented = set(re.findall(r"^\| `(duebook\w*)`", page, flags=re.MULTILINE))
    text = Metrics(counting.store, Measures).text().decode()
    shown = re.findall(r"^# TYPE (\w+)", text, flags=re.MULTILINE)
    assert documented == {name for name in shown if name.startswith("duebook")}


def test_how_far_groups_and_sinks_are_behind_is_shown(
    counting: Counting, clock: VirtualClock
) -> None:
    book = Book(counting.store)
    for n in range(3):
        book.events.publish("orders", n)
    assert next(book.events.consume("orders", "billing", follow=False)).data == 0
    clock.advance(MINUTE)
    found = read(Metrics(counting.store))
    place = ("billing", "group", "default")
    assert found["duebook_events_behind"] == {place: 3}
    assert found["duebook_events_failing"] == {place: 1}, "its loop was left"
    assert found["duebook_events_dead"] == {place: 0}
