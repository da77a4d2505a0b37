"""The metrics of a process in Prometheus' text format: its node's counters and the database.

A scrape makes a bounded number of queries on a bounded number of rows; scrapes within a few
seconds of each other share them.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Final

from prometheus_client import (
    CONTENT_TYPE_PLAIN_0_0_4,
    CollectorRegistry,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)

from duebook.api.timed_cache import TimedCache
from duebook.book.run_marks import MOST_MEASURED, measure_labelled
from duebook.errors import DuebookError
from duebook.settings import ROLES
from duebook.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prometheus_client.core import Metric

    from duebook.book.run_marks import Measured
    from duebook.engine.measures import Histogram, Measures
    from duebook.model.consumer import Lag
    from duebook.store.base import Store, Tx
    from duebook.store.health_values import Load

__all__ = ["CONTENT_TYPE", "Metrics"]

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4
Counted = tuple[dict[str, int], str | None]
"""Numbers of schedules by state, and the id to continue counting from."""
KEEP: Final = 5.0
"""Seconds for which values from the database are reused."""
MOST_QUEUED: Final = 50_000
MOST_SCHEDULES: Final = 20_000
"""Rows that are counted at a time."""

_COUNTERS: Final = (
    ("due", "Due times that this node decided to fire or skip"),
    ("fired", "Due times that this node fired as runs"),
    ("deferred", "Due times that this node deferred"),
    ("set_aside", "Schedules that this node could not plan and postponed"),
    ("claimed", "Runs that this node claimed"),
    ("takeovers", "Runs of dead nodes that this node took over"),
    ("burials", "Nodes that this node declared dead"),
    ("expired", "Runs that this node cancelled because they were not started in time"),
    ("woken", "Schedules that this node woke because no node would have planned them"),
    (
        "lease_stalls",
        "Renewals of this node's lease that came after more than half of it had passed",
    ),
    ("sessions_lost", "Sessions that this node lost because it did not renew in time"),
    ("web_restarts", "Times that this node started its web process again"),
)
_LABELLED: Final = (
    ("skipped", "skipped", "reason", "Due times that this node skipped"),
    ("ends", "attempts", "end", "Attempts of this node that ended"),
    ("step_failures", "step_failures", "loop", "Steps of this node's loops that failed"),
)
_HISTOGRAMS: Final = (
    ("lateness", "lateness_seconds", "From a live due time to the start of its run on this node"),
    (
        "queue_wait",
        "queue_wait_seconds",
        "From when a run was ready to its first start on this node",
    ),
    ("ticks", "tick_seconds", "How long this node takes to plan and commit a batch"),
    (
        "tick_latency",
        "tick_latency_seconds",
        "From when the first schedule of a batch was to be planned until this node committed it",
    ),
    ("claims", "claim_seconds", "How long this node takes to claim a batch"),
    ("lengths", "attempt_seconds", "How long attempts on this node took"),
)


class Metrics:
    """The metrics of a node, whose `measures` may come from process `node_pid`; None: no response.

    Without `measures`, those of a process that only serves the web.
    """

    def __init__(
        self,
        store: Store,
        measures: Callable[[], Measures | None] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        node_pid: int | None = None,
    ) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Books(store, monotonic))
        if measures is not None:
            self._registry.register(_Node(measures))
        ProcessCollector(registry=self._registry)
        if node_pid is not None:
            ProcessCollector("duebook_node", lambda: node_pid, registry=self._registry)

    def text(self) -> bytes:
        """In the format of CONTENT_TYPE; an unreachable database is a metric, not an error."""
        return generate_latest(self._registry)


class _Node:
    """What a node has counted since it started."""

    def __init__(self, measures: Callable[[], Measures | None]) -> None:
        self._measures = measures

    def describe(self) -> Iterator[Metric]:
        """Nothing: otherwise the registry would collect at once."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        measures = self._measures()
        yield GaugeMetricFamily(
            "duebook_node_up",
            "Whether the node responds to its web process",
            value=float(measures is not None),
        )
        if measures is None:
            return
        for name, about in _COUNTERS:
            yield CounterMetricFamily(f"duebook_{name}", about, value=getattr(measures, name))
        for name, shown, label, about in _LABELLED:
            family = CounterMetricFamily(f"duebook_{shown}", about, labels=(label,))
            for word, number in sorted(dict(getattr(measures, name)).items()):
                family.add_metric((word,), number)
            yield family
        yield _planned(measures)
        for name, shown, about in _HISTOGRAMS:
            yield _histogram(f"duebook_{shown}", about, getattr(measures, name))


def _planned(measures: Measures) -> Metric:
    family = CounterMetricFamily(
        "duebook_planned",
        "Due times that a node decided to fire, by its name and their origin",
        labels=("node", "origin"),
    )
    for origin, number in sorted(dict(measures.planned_by_origin).items()):
        family.add_metric((measures.node, origin), number)
    return family


def _histogram(name: str, about: str, histogram: Histogram) -> Metric:
    buckets, so_far = [], 0
    bounds = [*map(str, histogram.bounds), "+Inf"]
    for bound, count in zip(bounds, list(histogram.counts), strict=True):
        so_far += count
        buckets.append((bound, float(so_far)))
    return HistogramMetricFamily(name, about, buckets=buckets, sum_value=histogram.total)


class _Books:
    """Values from the database, queried at most every few seconds."""

    def __init__(self, store: Store, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._census = _Census()
        self._lags: list[Lag] = []
        self._measured: list[Measured] = []
        self._load = TimedCache(self._ask, KEEP, monotonic)

    def describe(self) -> Iterator[Metric]:
        """As above."""
        return iter(())

    def _ask(self) -> Load | None:
        def look(tx: Tx) -> tuple[Load, Counted, list[Lag], list[Measured]]:
            counted = tx.status.count_statuses(self._census.after, MOST_SCHEDULES)
            load, lags = tx.status.load(MOST_QUEUED), tx.consumers.list_lags()
            return load, counted, lags, measure_labelled(tx)

        try:
            load, counted, self._lags, self._measured = self._store.read(look)
        except DuebookError:
            return None
        self._census.add(*counted)
        return load

    def collect(self) -> Iterator[Metric]:
        load = self._load.get()
        yield InfoMetricFamily("duebook", "The version", value={"version": __version__})
        yield GaugeMetricFamily(
            "duebook_database_up", "Whether the database responds", value=float(load is not None)
        )
        if load is None:
            return
        served = {queue: 0 for node in load.nodes for queue in node.queues}
        yield _gauge(
            "queue_depth",
            f"Queued runs; in all queues together about {MOST_QUEUED:,} are counted",
            "queue",
            served | load.queued,
        )
        yield _gauge("queue_running", "Running runs", "queue", served | load.running)
        roles = dict.fromkeys((*ROLES, "web"), 0)  # alerts need the 0 of a missing role
        roles |= Counter(role for node in load.nodes for role in node.roles)
        yield _gauge("nodes", "Live nodes", "role", roles)
        since = load.now if load.overdue is None else load.overdue.since
        yield GaugeMetricFamily(
            "duebook_overdue_seconds",
            "How long the most overdue schedule has waited to be planned",
            value=(load.now - since).total_seconds(),
        )
        yield GaugeMetricFamily(
            "duebook_schedules_with_problems",
            "Schedules that cannot be planned; up to 1,000 are counted",
            value=load.broken,
        )
        yield _gauge(
            "catchup_held",
            "Missed due times that wait for approval, in up to 1,000 ranges",
            "namespace",
            load.held,
        )
        yield from _lags(self._lags)
        yield from _of_schedules(self._measured)
        if self._census.counts is not None:
            yield _gauge("schedules", "Schedules", "status", self._census.counts)


def _lags(lags: list[Lag]) -> Iterator[Metric]:
    """How far each consumer of the event log is behind."""
    for name, about in (
        (
            "behind",
            "Positions from the first undelivered event of a group or sink to the end of the log",
        ),
        ("failing", "Partitions of a group or sink waiting for another attempt"),
        ("dead", "Dead letters of a group or sink"),
    ):
        family = GaugeMetricFamily(
            f"duebook_events_{name}", about, labels=("namespace", "consumer", "kind")
        )
        for lag in lags:
            family.add_metric((lag.namespace, lag.consumer, lag.kind), getattr(lag, name))
        yield family


def _of_schedules(measured: list[Measured]) -> Iterator[Metric]:
    """The newest runs of schedules that asked for their own metrics."""
    limit = f"for up to {MOST_MEASURED} schedules with the label metrics=true"
    success = _family("last_success_timestamp_seconds", f"When it last succeeded, {limit}; or 0")
    duration = _family("last_duration_seconds", f"How long its latest finished run took, {limit}")
    late = _family("last_lateness_seconds", f"How late its latest live due time started, {limit}")
    for found in measured:
        place = (found.namespace, found.name)
        if found.ended:
            at = found.last_success_at
            success.add_metric(place, 0.0 if at is None else at.timestamp())
        if found.last_duration is not None:
            duration.add_metric(place, found.last_duration.total_seconds())
        if found.last_lateness is not None:
            late.add_metric(place, found.last_lateness.total_seconds())
    yield from (success, duration, late)


def _family(name: str, about: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"duebook_schedule_{name}", about, labels=("namespace", "schedule"))


def _gauge(name: str, about: str, label: str, values: dict[str, int]) -> Metric:
    family = GaugeMetricFamily(f"duebook_{name}", about, labels=(label,))
    for word, number in sorted(values.items()):
        family.add_metric((word,), number)
    return family


class _Census:
    """Counts schedules in slices, so that even a million of them do not make a scrape slower."""

    def __init__(self) -> None:
        self.counts: Counter[str] | None = None
        """from the last complete count; None before the first"""
        self.after = ""
        """the id to continue from"""
        self._so_far = _nobody()

    def add(self, found: dict[str, int], last: str | None) -> None:
        self._so_far.update(found)
        self.after = last or ""
        if last is None:
            self.counts, self._so_far = self._so_far, _nobody()


def _nobody() -> Counter[str]:
    return Counter(active=0, paused=0, completed=0)
