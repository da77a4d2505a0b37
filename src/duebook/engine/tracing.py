"""Writes the spans of runs with OpenTelemetry, from the times in the database. Imported only by
nodes that trace (ADR 65)."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Tracer as SdkTracer
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from duebook.engine.places import StopSignal
from duebook.errors import DuebookError, Invalid, shorten
from duebook.model.run import DONE
from duebook.targets.log_fields import about
from duebook.targets.trace_context import entered, span_id, trace_id, traceparent
from duebook.timetext import format_instant
from duebook.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from duebook.engine.places import Performer
    from duebook.model.run import Claim, Outcome, Run, Token
    from duebook.store.base import Store

__all__ = ["TracedPerformer", "Tracing", "open_tracing"]

log = logging.getLogger(__name__)

MOST_KEPT: Final = 10_000
"""Maximum number of cached root runs of flows, and of ends that wait to be settled."""
SEND_WITHIN: Final = 5.0
"""Seconds within which a node that stops sends its last spans."""
LONGEST_ERROR: Final = 500
ENDS: Final = (*DONE, "failed", "cancelled")
_UNTRACED: Final = "run %s could not be traced"
S = TypeVar("S", bound=StopSignal)


class _Ids(RandomIdGenerator):
    """Gives spans the ids that this thread has chosen for them."""

    def __init__(self) -> None:
        self.chosen = threading.local()

    def generate_span_id(self) -> int:
        return int(self.chosen.span)

    def generate_trace_id(self) -> int:
        return int(self.chosen.trace)


_IDS: Final = _Ids()
"""One for all nodes of a process: they share the tracer of a provider."""


class _End(NamedTuple):
    """How an attempt ended here."""

    at: datetime
    outcome: Outcome


class Tracing:
    """One per node. All times are the database's, so that nodes with other clocks agree."""

    def __init__(self, provider: TracerProvider, is_own: bool = False) -> None:
        """An `is_own` provider is shut down with the node."""
        self._provider = provider
        self._is_own = is_own
        tracer = provider.get_tracer("duebook", __version__)
        if not isinstance(tracer, SdkTracer):  # OTEL_SDK_DISABLED
            raise Invalid("tracing is on, but OTEL_SDK_DISABLED turns OpenTelemetry off")
        tracer.id_generator = _IDS
        self._tracer = tracer
        self._store: Store | None = None
        self._lock = threading.Lock()
        self._roots: OrderedDict[str, str] = OrderedDict()
        """the outermost run for each run of a flow"""
        self._ends: OrderedDict[Token, _End] = OrderedDict()
        """ends of attempts that are not settled yet"""

    def read_from(self, store: Store) -> None:
        """Set where it finds the runs of flows."""
        self._store = store

    def close(self) -> None:
        """Send waiting spans, within a limit, as the collector may be unreachable."""
        provider = self._provider
        send = provider.shutdown if self._is_own else provider.force_flush
        sending = threading.Thread(target=send, name="duebook-last-spans", daemon=True)
        sending.start()
        sending.join(SEND_WITHIN)

    def begun(self, claim: Claim) -> Claim:
        """An attempt starts: write its spans up to now; returns the claim with its trace context.
        Raises nothing."""
        try:
            return self._begun(claim)
        except Exception:  # a failed trace must not fail the run
            log.exception(_UNTRACED, claim.run.id, extra=about(claim))
            return claim

    def _begun(self, claim: Claim) -> Claim:
        run = claim.run
        found = self._trace_of(run)
        sampled = self._samples(found)
        own = traceparent(found, span_id(run.id, f"attempt {run.attempt}"), sampled)
        if sampled:
            if run.attempt == 1 and run.due_at is not None:
                told = {"duebook.planned_by": run.planned_by or ""}
                self._write(run, "plan", run.due_at, run.created_at, told)
            began = claim.started_at or run.claimed_at or run.ready_at
            self._write(run, f"claim {run.attempt}", run.ready_at, began)
        return claim._replace(traceparent=own)

    def ended(self, claim: Claim, outcome: Outcome, seconds: float) -> None:
        """An attempt ended here, that long after it started. Raises nothing."""
        try:
            self._ended(claim, outcome, seconds)
        except Exception:
            log.exception(_UNTRACED, claim.run.id, extra=about(claim))

    def _ended(self, claim: Claim, outcome: Outcome, seconds: float) -> None:
        began = claim.started_at or claim.run.claimed_at or claim.run.ready_at
        at = began + timedelta(seconds=seconds)
        with self._lock:
            self._ends[claim.token] = _End(at, outcome)
            if len(self._ends) > MOST_KEPT:  # some end after they were written off
                self._ends.popitem(last=False)
        if not self._samples(self._trace_of(claim.run)):
            return
        attempt = claim.run.attempt
        links = [self._link(claim.run, f"attempt {attempt - 1}")] if attempt > 1 else []
        told = {"duebook.exit_code": outcome.exit_code, "duebook.reason": outcome.reason}
        self._write(claim.run, f"attempt {attempt}", began, at, told, outcome, links)

    def settled(self, claims: Sequence[Claim], ends: Sequence[str | None], now: datetime) -> None:
        """These were settled; an end is None when the run belonged to another node. Raises
        nothing."""
        for claim, end in zip(claims, ends, strict=True):
            try:
                self._settled(claim, end, now)
            except Exception:
                log.exception(_UNTRACED, claim.run.id, extra=about(claim))

    def _settled(self, claim: Claim, end: str | None, now: datetime) -> None:
        run = claim.run
        with self._lock:
            ended = self._ends.pop(claim.token, None)
        if ended is None and end not in ENDS:  # it was buffered and never started
            return
        if not self._samples(self._trace_of(run)):
            return
        since = now if ended is None else ended.at
        told = {"duebook.end": "refused" if end is None else end}
        self._write(run, f"settle {run.attempt}", since, now, told)
        if end in ENDS:
            self._write_run(run, end, now, None if ended is None else ended.outcome.error)

    def flow_ended(self, run_ids: Sequence[str]) -> None:
        """Runs of flows ended; raises nothing."""
        try:
            assert self._store is not None  # noqa: S101 - it was told before
            for run in self._store.read(lambda tx: tx.runs.get_runs(list(run_ids))):
                if run.status in ENDS and self._samples(self._trace_of(run)):
                    self._write_run(run, run.status, run.finished_at or run.created_at, run.error)
        except Exception:
            log.exception("runs of flows could not be traced")

    def _write_run(self, run: Run, end: str, at: datetime, error: str | None) -> None:
        began = run.due_at or run.created_at
        told = {"duebook.end": end, "duebook.attempts": run.attempt}
        self._write(run, "", min(began, run.created_at), at, told, failure=_failure(end, error))

    def _write(
        self,
        run: Run,
        part: str,
        start: datetime,
        end: datetime,
        told: dict[str, Any] | None = None,
        outcome: Outcome | None = None,
        links: Sequence[Link] = (),
        failure: Status | None = None,
    ) -> None:
        """Write the span of a run, or of a `part`, whose first word names the span."""
        found = self._trace_of(run)
        parent = span_id(run.id) if part else run.parent_run_id and span_id(run.parent_run_id)
        _IDS.chosen.trace, _IDS.chosen.span = found, span_id(run.id, part)
        context = trace.set_span_in_context(trace.INVALID_SPAN)
        if parent:
            remote = SpanContext(found, int(parent), True, TraceFlags(TraceFlags.SAMPLED))
            context = trace.set_span_in_context(trace.NonRecordingSpan(remote))
        is_attempt = part.startswith("attempt")
        kind = SpanKind.CONSUMER if is_attempt else SpanKind.INTERNAL
        name = part.partition(" ")[0] if part else _title(run)
        span = self._tracer.start_span(
            name, context, kind, _attributes(run, told or {}), list(links), _nanoseconds(start)
        )
        if outcome is not None:
            failure = _failure(outcome.status, outcome.error)
        if failure is not None:
            span.set_status(failure)
        span.end(_nanoseconds(max(end, start)))

    def _link(self, run: Run, part: str) -> Link:
        flags = TraceFlags(TraceFlags.SAMPLED)
        return Link(SpanContext(self._trace_of(run), span_id(run.id, part), True, flags))

    def _samples(self, found: int) -> bool:
        """Decided by the id of the trace, so that nodes with the same sampler agree."""
        decision = self._tracer.sampler.should_sample(None, found, "run").decision
        return decision is Decision.RECORD_AND_SAMPLE

    def _trace_of(self, run: Run) -> int:
        """A step belongs to the trace of the outermost flow."""
        return trace_id(run.id if run.parent_run_id is None else self._root(run.parent_run_id))

    def _root(self, run_id: str) -> str:
        with self._lock:
            if (known := self._roots.get(run_id)) is not None:
                self._roots.move_to_end(run_id)
                return known
        found = self._look_for_root(run_id)
        with self._lock:
            self._roots[run_id] = found
            if len(self._roots) > MOST_KEPT:
                self._roots.popitem(last=False)
        return found

    def _look_for_root(self, run_id: str) -> str:
        assert self._store is not None  # noqa: S101 - it was told before
        try:
            parent = self._store.read(lambda tx: tx.runs.get_run(run_id)).parent_run_id
        except DuebookError:  # a separate trace is better than none
            return run_id
        return run_id if parent is None else self._root(parent)


class TracedPerformer:
    """Wraps the performer of a node that traces: each attempt has its context, and a span when it
    has ended."""

    def __init__(self, performer: Performer[S], tracing: Tracing) -> None:
        self._performer: Any = performer
        self._tracing = tracing

    def perform(self, claim: Claim, stop: StopSignal) -> Outcome:
        if claim.traceparent is None:
            claim = self._tracing.begun(claim)
        since = time.monotonic()
        with entered(claim.traceparent):
            outcome: Outcome = self._performer.perform(claim, stop)
        self._tracing.ended(claim, outcome, time.monotonic() - since)
        return outcome

    def begin(
        self,
        begun: Sequence[tuple[Claim, Any]],
        ended: Callable[[Claim, Outcome], None],
    ) -> list[Claim]:
        since = time.monotonic()

        def told(claim: Claim, outcome: Outcome) -> None:
            self._tracing.ended(claim, outcome, time.monotonic() - since)
            ended(claim, outcome)

        traced = [(self._tracing.begun(claim), stop) for claim, stop in begun]
        rest: list[Claim] = self._performer.begin(traced, told)
        return rest

    def new_stop(self, claim: Claim) -> Any:
        return self._performer.new_stop(claim)

    def is_cooperative(self, claim: Claim) -> bool:
        return bool(self._performer.is_cooperative(claim))


def open_tracing() -> Tracing:
    """With the provider of the program if it has one; otherwise with a new one that sends OTLP over
    HTTP as configured by the OTEL_… variables."""
    provider = trace.get_tracer_provider()
    if isinstance(provider, TracerProvider):
        return Tracing(provider)
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource.create({"service.name": "duebook"})
    own = TracerProvider(resource=_named_by_variables(resource), shutdown_on_exit=False)
    own.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Tracing(own, is_own=True)


def _named_by_variables(resource: Resource) -> Resource:
    """OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take precedence."""
    given = Resource.create()
    unknown = str(given.attributes.get("service.name", "")).startswith("unknown_service")
    return resource if unknown else resource.merge(given)


def _title(run: Run) -> str:
    if run.step is not None:
        return f"{run.flow}: {run.step}"
    return run.schedule or run.task or run.flow or "run"


def _attributes(run: Run, told: dict[str, Any]) -> dict[str, Any]:
    found = {
        "duebook.run.id": run.id,
        "duebook.namespace": run.namespace,
        "duebook.schedule": run.schedule,
        "duebook.task": run.task,
        "duebook.flow": run.flow,
        "duebook.step": run.step,
        "duebook.queue": run.queue,
        "duebook.origin": run.origin,
        "duebook.attempt": run.attempt,
        "duebook.due_at": None if run.due_at is None else format_instant(run.due_at),
    }
    return {name: value for name, value in (found | told).items() if value is not None}


def _failure(end: str, error: str | None) -> Status | None:
    if end != "failed":
        return None
    return Status(StatusCode.ERROR, shorten(error, LONGEST_ERROR) if error else None)


def _nanoseconds(at: datetime) -> int:
    return int(at.timestamp() * 1_000_000) * 1_000
