"""Draws a flow as SVG, with a box for each step and its state; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup

from duebook.errors import printable
from duebook.flows.graph import rows
from duebook.lazy_dataclasses import dataclass
from duebook.web.times import length_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from duebook.model.flow_view import FlowView
    from duebook.model.run import Run

__all__ = ["HANDLER", "MOST_DRAWN", "DrawnStep", "draw_flow", "drawn_steps"]

MOST_DRAWN: Final = 200
"""Steps; a larger graph would be unreadable."""
HANDLER: Final = "handler_on."
LONGEST: Final = 28
"""Characters of a name in a box."""
_WIDTH, _HEIGHT, _GAP, _DROP, _EDGE = 8, 44, 20, 40, 8


@dataclass(frozen=True, slots=True)
class DrawnStep:
    """A step of a flow, with its state in one run."""

    name: str
    depends: Sequence[str]
    runs: str
    description: str
    state: str
    """pending: it has not started"""
    run: Run | None = None

    @property
    def took(self) -> str:
        """How long its latest run took."""
        run = self.run
        if run is None or run.started_at is None or run.finished_at is None:
            return ""
        return length_text(run.finished_at - run.started_at)

    @property
    def is_handler(self) -> bool:
        return self.name.startswith(HANDLER)


def drawn_steps(view: FlowView, runs: Sequence[Run]) -> list[DrawnStep]:
    """The steps in the order of the flow, each with its latest run if it has one."""
    latest: Mapping[str, Run] = {run.step: run for run in runs if run.step is not None}
    return [_drawn(step, latest.get(step["name"])) for step in view.steps]


def _drawn(step: Mapping[str, Any], run: Run | None) -> DrawnStep:
    state = "pending" if run is None else run.state
    return DrawnStep(step["name"], step["depends"], step["runs"], step["description"], state, run)


def draw_flow(steps: Sequence[DrawnStep], address: Callable[[Run], str]) -> Markup:
    """The graph from top to bottom, with handlers dashed in the last row; empty if too large."""
    if not steps or len(steps) > MOST_DRAWN:
        return Markup("")
    graph = {step.name: step.depends for step in steps if not step.is_handler}
    handlers = [step.name for step in steps if step.is_handler]
    places, width, height = _places([*rows(graph), *([handlers] if handlers else [])])
    ways = [_way(places, other, name) for name in graph for other in graph[name]]
    boxes = [_box(places[step.name], step, address) for step in steps if step.name in places]
    told = ", ".join(f"{step.name} {step.state}" for step in steps)
    return Markup(
        '<svg class="flow" viewBox="0 0 {0} {1}" width="{0}" height="{1}" role="group" '
        'aria-label="{2}">{3}{4}</svg>'
    ).format(width, height, printable(told)[:2_000], Markup("").join(ways), Markup("").join(boxes))


def _places(table: Sequence[Sequence[str]]) -> tuple[dict[str, tuple[int, int]], int, int]:
    widths = [sum(map(_wide, row)) + _GAP * (len(row) - 1) for row in table]
    total = max(widths, default=0)
    places: dict[str, tuple[int, int]] = {}
    for depth, (row, wide) in enumerate(zip(table, widths, strict=True)):
        x = _EDGE + (total - wide) // 2
        for name in row:
            places[name] = (x, _EDGE + depth * (_HEIGHT + _DROP))
            x += _wide(name) + _GAP
    return places, total + 2 * _EDGE, len(table) * (_HEIGHT + _DROP) - _DROP + 2 * _EDGE


def _shown(name: str) -> str:
    text = printable(name)
    text = f"on {text.removeprefix(HANDLER)}" if text.startswith(HANDLER) else text
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _wide(name: str) -> int:
    return _WIDTH * len(_shown(name)) + 28


def _way(places: Mapping[str, tuple[int, int]], first: str, second: str) -> Markup:
    if first not in places or second not in places:
        return Markup("")
    x1, y1 = places[first][0] + _wide(first) // 2, places[first][1] + _HEIGHT
    x2, y2 = places[second][0] + _wide(second) // 2, places[second][1]
    half = (y1 + y2) // 2
    return Markup('<path class="way" d="M{} {}C{} {} {} {} {} {}"/>').format(
        x1, y1, x1, half, x2, half, x2, y2
    )


def _box(place: tuple[int, int], step: DrawnStep, address: Callable[[Run], str]) -> Markup:
    (x, y), wide = place, _wide(step.name)
    why = "" if step.run is None else step.run.why
    box = Markup(
        '<g class="step step-{}{}"><title>{}</title><rect x="{}" y="{}" width="{}" height="{}" '
        'rx="6"/><text x="{}" y="{}" text-anchor="middle">{}</text>{}</g>'
    ).format(
        step.state,
        " handler" if step.is_handler else "",
        printable(f"{step.name}: {step.state}" + (f", {why}" if why else "")),
        x,
        y,
        wide,
        _HEIGHT,
        x + wide // 2,
        y + (19 if step.took else 27),
        _shown(step.name),
        Markup('<text class="took" x="{}" y="{}" text-anchor="middle">{}</text>').format(
            x + wide // 2, y + 36, step.took
        )
        if step.took
        else "",
    )
    if step.run is None:
        return box
    return Markup('<a href="{}">{}</a>').format(address(step.run), box)
