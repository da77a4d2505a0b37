"""The place of a run in traces: ids derived from its id, and the W3C context for its work.

Uses OpenTelemetry only if a program has imported it: nothing here imports it first.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["TRACEPARENT", "entered", "link_current_span", "span_id", "trace_id", "traceparent"]

TRACEPARENT: Final = "TRACEPARENT"
"""The variable for commands."""
_API: Final = "opentelemetry.trace"


def trace_id(run_id: str) -> int:
    """The trace of a run that has no parent. It differs from the run's id, because some bits of
    that are the same in all ids, and samplers choose a share by these bits."""
    found = blake2b(run_id.encode(), digest_size=16).digest()
    return int.from_bytes(found, "big") or 1


def span_id(run_id: str, part: str = "") -> int:
    """The span of a run, or of a part of it; every node can compute it."""
    found = blake2b(f"{run_id} {part}".encode(), digest_size=8).digest()
    return int.from_bytes(found, "big") or 1


def traceparent(trace: int, span: int, sampled: bool) -> str:
    return f"00-{trace:032x}-{span:016x}-{'01' if sampled else '00'}"


@contextmanager
def entered(header: str | None) -> Iterator[None]:
    """While this is entered, spans that the program starts belong to the attempt."""
    if header is None or (api := sys.modules.get(_API)) is None:
        yield
        return
    _, trace, span, flags = header.split("-")
    remote = _context(api, int(trace, 16), int(span, 16), int(flags, 16))
    with api.use_span(api.NonRecordingSpan(remote), record_exception=False):
        yield


def link_current_span(run_id: str) -> None:
    """Link the span in which a program enqueues a run, if there is one, to the run's trace."""
    if (api := sys.modules.get(_API)) is None:
        return
    if (span := api.get_current_span()).is_recording():
        ours = _context(api, trace_id(run_id), span_id(run_id), 1)
        span.add_link(ours, {"duebook.run.id": run_id})


def _context(api: Any, trace: int, span: int, flags: int) -> Any:
    return api.SpanContext(trace, span, is_remote=True, trace_flags=api.TraceFlags(flags))
