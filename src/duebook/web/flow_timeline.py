"""Draws when each attempt of each step of a flow run took place, as SVG; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from markupsafe import Markup

from duebook.errors import printable
from duebook.lazy_dataclasses import dataclass
from duebook.web.times import length_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from duebook.model.run import Run
    from duebook.model.step_history import AttemptMark

__all__ = ["MOST_ROWS", "StepBar", "draw_timeline", "step_bars"]

MOST_ROWS: Final = 100
LONGEST: Final = 26
"""Characters of a name beside its bars."""
LEFT, WIDE, RIGHT, ROW, TOP = 200, 700, 110, 24, 22


@dataclass(frozen=True, slots=True)
class StepBar:
    """One attempt of a step, from its start to its end."""

    step: str
    run_id: str
    state: str
    start: datetime
    end: datetime
    words: str


def step_bars(runs: Iterable[Run], attempts: Iterable[AttemptMark], now: datetime) -> list[StepBar]:
    """A bar for each attempt of each step run that has started, the oldest first."""
    earlier: dict[str, list[AttemptMark]] = {}
    for attempt in attempts:
        earlier.setdefault(attempt.run_id, []).append(attempt)
    bars = []
    for run in runs:
        name = run.step or run.trigger.rpartition(":")[2]
        for one in earlier.get(run.id, ()):
            words = f"attempt {one.number} {one.outcome}"
            bars.append(StepBar(name, run.id, one.outcome, one.claimed_at, one.finished_at, words))
        if run.started_at is not None:
            words = f"attempt {run.attempt} {run.state}" if run.attempt > 1 else run.state
            end = run.finished_at or now
            bars.append(StepBar(name, run.id, run.status, run.started_at, end, words))
    return sorted(bars, key=lambda bar: bar.start)


def draw_timeline(bars: Sequence[StepBar], address: Callable[[str], str]) -> Markup:
    """A row for each step in the order they started; empty without bars or with too many rows."""
    rows: dict[str, list[StepBar]] = {}
    for bar in bars:
        rows.setdefault(bar.step, []).append(bar)
    if not rows or len(rows) > MOST_ROWS:
        return Markup("")
    start = min(bar.start for bar in bars)
    whole = max((max(bar.end for bar in bars) - start).total_seconds(), 0.001)
    drawn = [_row(number, rows, name, start, whole, address) for number, name in enumerate(rows)]
    high = TOP + ROW * len(rows)
    told = ", ".join(f"{name} {_took(found)}" for name, found in rows.items())
    return Markup(
        '<svg class="gantt" viewBox="0 0 {0} {1}" width="{0}" height="{1}" role="group" '
        'aria-label="{2}">{3}{4}</svg>'
    ).format(
        LEFT + WIDE + RIGHT,
        high,
        printable(f"When steps ran: {told}")[:2_000],
        _ticks(start, max(bar.end for bar in bars), high),
        Markup("").join(drawn),
    )


def _took(bars: Sequence[StepBar]) -> str:
    return length_text(bars[-1].end - bars[-1].start)


def _ticks(start: datetime, end: datetime, high: int) -> Markup:
    ticks = (
        Markup(
            '<path class="grid" d="M{0} {1}V{2}"/><text class="tick" x="{0}" y="14" '
            'text-anchor="middle">{3}</text>'
        ).format(LEFT + WIDE * part // 4, TOP - 4, high, length_text((end - start) * part / 4))
        for part in range(5)
    )
    return Markup("").join(ticks)


def _row(
    number: int,
    rows: Mapping[str, Sequence[StepBar]],
    name: str,
    start: datetime,
    whole: float,
    address: Callable[[str], str],
) -> Markup:
    y, found = TOP + ROW * number, rows[name]
    shown = printable(name)
    shown = shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 1]}…"
    parts = [Markup('<text x="0" y="{}">{}</text>').format(y + 16, shown)]
    last = 0
    for bar in found:
        x = LEFT + round((bar.start - start).total_seconds() / whole * WIDE)
        wide = max(round((bar.end - bar.start).total_seconds() / whole * WIDE), 3)
        last = max(last, x + wide)
        words = printable(f"{name}: {bar.words}, {length_text(bar.end - bar.start)}")
        parts.append(
            Markup(
                '<a href="{}"><rect class="run-{}" x="{}" y="{}" width="{}" height="14" rx="2">'
                "<title>{}</title></rect></a>"
            ).format(address(bar.run_id), bar.state, x, y + 4, wide, words)
        )
    took = Markup('<text class="tick" x="{}" y="{}">{}</text>')
    parts.append(took.format(last + 6, y + 16, _took(found)))
    return Markup("").join(parts)
