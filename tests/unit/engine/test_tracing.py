"""Spans of runs: from the due time to the settle, in one trace, and nothing where it is off."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, TraceIdRatioBased

from duebook import Context, Duebook
from duebook.cli.node_log import _JsonFormatter
from duebook.engine import node_options
from duebook.engine.tracing import Tracing
from duebook.errors import Invalid
from duebook.ids import new_id
from duebook.settings import load_settings
from duebook.targets.trace_context import span_id, trace_id
from tests.support.flow_builders import put_flow
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from opentelemetry.sdk.trace.sampling import Sampler
    from opentelemetry.trace import SpanContext

TWO_STEPS = """
steps:
  - {name: a, command: "true"}
  - {name: b, command: "true", depends: [a]}
"""


class Traced:
    """A database in memory whose nodes trace into a list."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, sampler: Sampler = ALWAYS_ON) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.book = Duebook("memory://")
        tracing = Tracing(self.provider)
        monkeypatch.setattr(node_options, "load_tracing", lambda _: tracing)

    @contextmanager
    def running(self) -> Iterator[Duebook]:
        """When it is left, the node has ended, so that all spans are there."""
        with self.book as book, book.running():
            yield book

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self.exporter.get_finished_spans()

    def of(self, run_id: str) -> dict[str, ReadableSpan]:
        """Its spans, by the part of the run and the attempt."""
        found = {}
        for span in self.spans:
            told = span.attributes or {}
            if told.get("duebook.run.id") == run_id:
                is_part = span.name in ("claim", "attempt", "settle")
                part = f"{span.name} {told['duebook.attempt']!s}" if is_part else span.name
                found[part if is_part or part == "plan" else "run"] = span
        return found


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> Traced:
    return Traced(monkeypatch)


def context_of(span: ReadableSpan) -> SpanContext:
    found: SpanContext | None = span.context
    assert found is not None
    return found


def header_of(span: ReadableSpan) -> str:
    found = context_of(span)
    return f"00-{found.trace_id:032x}-{found.span_id:016x}-01"


def test_a_run_is_one_trace_from_its_due_time_to_the_settle(traced: Traced) -> None:
    with traced.running() as book:

        @book.task
        def report() -> int:
            return 7

        book.schedules.create("hourly", trigger={"every": "1s"}, target="report", max_runs=1)
        eventually(lambda: [r.status for r in book.runs.list()] == ["succeeded"])
        (run,) = book.runs.list()
    spans = traced.of(run.id)
    assert set(spans) == {"run", "plan", "claim 1", "attempt 1", "settle 1"}
    whole = spans.pop("run")
    assert (whole.name, whole.parent) == ("hourly", None)
    assert context_of(whole).trace_id == trace_id(run.id)
    assert {span.parent and span.parent.span_id for span in spans.values()} == {span_id(run.id)}
    times = [
        at
        for part in ("plan", "claim 1", "attempt 1", "settle 1")
        for at in (spans[part].start_time or 0, spans[part].end_time or 0)
    ]
    assert whole.start_time == times[0]
    assert run.due_at is not None
    assert times[0] == int(run.due_at.timestamp()) * 1_000_000_000
    assert whole.end_time == times[-1]
    assert all(span.end_time and span.end_time >= (span.start_time or 0) for span in traced.spans)
    told = dict(whole.attributes or {})
    assert told["duebook.schedule"] == "hourly"
    assert (told["duebook.end"], told["duebook.attempts"]) == ("succeeded", 1)


def test_another_attempt_is_linked_to_the_one_before_and_failures_are_marked(
    traced: Traced,
) -> None:
    with traced.running() as book:

        @book.task
        def breaks() -> None:
            raise ValueError("no luck")

        run = book.enqueue(breaks, retry={"attempts": 2, "delay": "0s"})
        assert run.wait("1m").status == "failed"
    spans = traced.of(run.id)
    parts = Counter(part.partition(" ")[0] for part in spans)
    assert parts == {"run": 1, "claim": 2, "attempt": 2, "settle": 2}
    (link,) = spans["attempt 2"].links
    assert link.context.span_id == context_of(spans["attempt 1"]).span_id
    assert spans["attempt 1"].links == ()
    for part in ("attempt 1", "attempt 2", "run"):
        assert not spans[part].status.is_ok
        assert "no luck" in (spans[part].status.description or "")
    assert (spans["settle 1"].attributes or {})["duebook.end"] == "failed, to be retried"


def test_tasks_and_commands_work_in_the_context_of_their_attempt(traced: Traced) -> None:
    tracer = traced.provider.get_tracer("the program")
    print_context = [sys.executable, "-c", "import os; print(os.environ['TRACEPARENT'])"]
    with traced.running() as book:

        @book.task
        def in_a_thread(ctx: Context) -> str | None:
            with tracer.start_as_current_span("own in_a_thread"):
                return ctx.traceparent

        @book.task
        async def in_the_loop(ctx: Context) -> str | None:
            with tracer.start_as_current_span("own in_the_loop"):
                return ctx.traceparent

        runs = {"in_a_thread": book.enqueue(in_a_thread), "in_the_loop": book.enqueue(in_the_loop)}
        outputs = {name: run.wait("1m").output for name, run in runs.items()}
        book.schedules.create("cmd", trigger={"cron": "@yearly"}, target={"command": print_context})
        command = book.schedules.trigger("cmd").id
        eventually(lambda: book.runs.get(command).status == "succeeded")
        ((_, line),) = book.runs.log(command)
    for name, run in runs.items():
        attempt = traced.of(run.id)["attempt 1"]
        (own,) = [span for span in traced.spans if span.name == f"own {name}"]
        assert outputs[name] == header_of(attempt)
        assert own.parent is not None
        assert own.parent.span_id == context_of(attempt).span_id
        assert context_of(own).trace_id == context_of(attempt).trace_id
    assert line.text == header_of(traced.of(command)["attempt 1"])


def test_a_flow_is_one_trace_with_its_steps(traced: Traced) -> None:
    with traced.running() as book:
        put_flow(book.store, TWO_STEPS, "two")
        run = book.flows.start("two")
        eventually(lambda: book.runs.get(run.id).status == "succeeded")
    (whole,) = [span for span in traced.spans if span.name == "two"]
    steps = [span for span in traced.spans if span.name in ("two: a", "two: b")]
    assert len(steps) == 2
    assert {step.parent and step.parent.span_id for step in steps} == {context_of(whole).span_id}
    assert {context_of(span).trace_id for span in traced.spans} == {trace_id(run.id)}


def test_what_a_program_enqueues_is_linked_from_its_span(traced: Traced) -> None:
    tracer = traced.provider.get_tracer("the program")
    with traced.book as book:
        book.task(name="later")(lambda: None)
        with tracer.start_as_current_span("order"):
            run = book.enqueue("later")
    (order,) = traced.spans
    (link,) = order.links
    assert (link.context.trace_id, link.context.span_id) == (trace_id(run.id), span_id(run.id))


def test_what_is_not_sampled_is_passed_on_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    traced = Traced(monkeypatch, ALWAYS_OFF)
    with traced.running() as book:

        @book.task
        def told(ctx: Context) -> str | None:
            return ctx.traceparent

        run = book.enqueue(told)
        header = run.wait("1m").output
    assert isinstance(header, str)
    assert header.endswith("-00")
    assert traced.spans == ()


def test_a_share_of_the_traces_is_that_share_of_the_runs() -> None:
    sampler = TraceIdRatioBased(0.25)
    found = [sampler.should_sample(None, trace_id(new_id()), "run") for _ in range(2_000)]
    sampled = sum(each.decision.value == 2 for each in found)
    assert 350 < sampled < 650


def test_an_exporter_that_breaks_costs_no_run(
    traced: Traced, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("no spans today")

    monkeypatch.setattr(Tracing, "_write", broken)
    with traced.running() as book:
        book.task(name="works")(lambda: 1)
        assert book.enqueue("works").wait("1m").status == "succeeded"


def test_lines_of_the_log_carry_run_schedule_and_trace(
    traced: Traced, caplog: pytest.LogCaptureFixture
) -> None:
    formatted: list[dict[str, Any]] = []

    class Keeps(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            formatted.append(json.loads(_JsonFormatter().format(record)))

    handler, program = Keeps(), logging.getLogger("tests.a_program")
    caplog.set_level(logging.INFO, "duebook")
    caplog.set_level(logging.INFO, "tests.a_program")
    for logger in (program, logging.getLogger("duebook.engine.settler")):
        logger.addHandler(handler)
    try:
        with traced.running() as book:

            @book.task
            def speaks() -> None:
                program.info("from the task")

            book.schedules.create("job", trigger={"cron": "@yearly"}, target="speaks")
            run = book.schedules.trigger("job").id
            eventually(lambda: any("succeeded" in line["message"] for line in formatted))
    finally:
        for logger in (program, logging.getLogger("duebook.engine.settler")):
            logger.removeHandler(handler)
    about_it = [line for line in formatted if line.get("run") == run]
    assert {line["logger"] for line in about_it} == {"tests.a_program", "duebook.engine.settler"}
    for line in about_it:
        assert (line["schedule"], line["task"], line["attempt"]) == ("job", "speaks", 1)
        assert line["trace_id"] == f"{trace_id(run):032x}"


def test_nothing_is_imported_while_it_is_off(tmp_path: Path) -> None:
    program = """
import sys
from duebook import Duebook
with Duebook("memory://") as book:
    book.task(name="works")(lambda: 1)
    with book.running():
        assert book.enqueue("works").wait("1m").output == 1
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_node_without_opentelemetry_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    assert node_options.load_tracing("off") is None
    monkeypatch.setitem(sys.modules, "duebook.engine.tracing", None)
    with pytest.raises(Invalid, match=r"pip install '\.\[otel\]'"):
        node_options.load_tracing("on")


def test_tracing_is_a_setting(tmp_path: Path) -> None:
    none = tmp_path / "none"
    assert load_settings({}, {}, none).tracing == "off"
    assert load_settings({}, {"DUEBOOK_TRACING": "on"}, none).tracing == "on"
    with pytest.raises(Invalid, match='tracing "yes" is not one of off, on'):
        load_settings({"tracing": "yes"}, {}, none)
