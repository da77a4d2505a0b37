"""Draws a flow: as lines of text for a terminal, and as SVG; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape

from duebook.errors import printable
from duebook.flows.graph import in_order, rows

if TYPE_CHECKING:
    from duebook.model.flow import Flow, Step

__all__ = ["draw_lines", "draw_svg", "step_words"]


def draw_lines(flow: Flow) -> list[str]:
    """One line for each step, with the connections between them on the left."""
    graph = {step.name: step.depends for step in flow.steps}
    following: dict[str, list[str]] = {name: [] for name in graph}
    for name in in_order(graph):
        for other in graph[name]:
            following[other].append(name)
    lanes = _Lanes()
    for step in flow.steps:
        lanes.draw(step.name, following[step.name], step_words(step))
    lines = [line.rstrip() for line in lanes.lines]
    for event, step in flow.handlers:
        lines.append(f"on {event.replace('_', ' ')}: {step_words(step, named=False)}")
    return lines


class _Lanes:
    """Columns of lines that lead down; each column knows the step that it leads to."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._lanes: list[str | None] = []
        self._ended: int | None = None
        """the column of the latest step, if nothing comes after it"""

    def draw(self, name: str, following: list[str], words: str) -> None:
        coming = [place for place, lane in enumerate(self._lanes) if lane == name]
        place = coming[0] if coming else self._apart()
        if len(coming) > 1:
            self.lines.append(self._joined(place, coming[1:], "┴", "╯"))
            for merged in coming[1:]:
                self._lanes[merged] = None
        self._lanes[place] = name
        self.lines.append(f"{self._row({place: '●'})} {words}")
        self._lanes[place] = following[0] if following else None
        new = []
        for other in following[1:]:
            new.append(self._free(place + 1))
            self._lanes[new[-1]] = other
        if new:
            self.lines.append(self._joined(place, new, "┬", "╮"))
        self._ended = None if following else place
        while self._lanes and self._lanes[-1] is None:
            self._lanes.pop()

    def _apart(self) -> int:
        """A column for a step without predecessors, which must not seem to follow the latest
        step."""
        if not self._lanes:
            self.lines += [""] if self.lines else []
            return self._free(0)
        place = self._free(0)
        return self._free(place + 1) if place == self._ended else place

    def _free(self, start: int) -> int:
        for place in range(start, len(self._lanes)):
            if self._lanes[place] is None:
                return place
        self._lanes += [None] * (max(start - len(self._lanes), 0) + 1)
        return len(self._lanes) - 1

    def _row(self, special: dict[int, str]) -> str:
        return " ".join(
            special.get(place, " " if lane is None else "│")
            for place, lane in enumerate(self._lanes)
        )

    def _joined(self, place: int, others: list[int], middle: str, last: str) -> str:
        """A line that joins one column with others to the right of it."""
        special = {place: "├", **dict.fromkeys(others, middle), max(others): last}
        for between in range(place + 1, max(others)):
            if between not in special:
                special[between] = "─" if self._lanes[between] is None else "┼"
        text = self._row(special)
        start, end = 2 * place, 2 * max(others)
        return text[:start] + text[start : end + 1].replace(" ", "─") + text[end + 1 :]


def step_words(step: Step, named: bool = True) -> str:
    """A step in a line: its name and what it runs."""
    text = step.written.strip()
    if text.startswith("#!"):
        text = text.partition("\n")[2].strip()
    first = text.partition("\n")
    runs = printable(first[0]) + (" …" if first[2] else "")
    return f"{printable(step.name)}  {runs}" if named else runs


_WIDTH: Final = 8
"""The approximate width of a character."""
_HEIGHT, _GAP, _DROP, _EDGE = 36, 24, 48, 16


def draw_svg(flow: Flow) -> str:
    """The graph from top to bottom, with its handlers in a last row with dashed outlines."""
    graph = {step.name: step.depends for step in flow.steps}
    handlers = [step.name for _, step in flow.handlers]
    table = [*rows(graph), *([handlers] if handlers else [])]
    total = max(sum(_box(name) for name in row) + _GAP * (len(row) - 1) for row in table)
    places: dict[str, tuple[int, int]] = {}
    for depth, row in enumerate(table):
        x = _EDGE + (total - sum(map(_box, row)) - _GAP * (len(row) - 1)) // 2
        for name in row:
            places[name] = (x, _EDGE + depth * (_HEIGHT + _DROP))
            x += _box(name) + _GAP
    width, height = total + 2 * _EDGE, len(table) * (_HEIGHT + _DROP) - _DROP + 2 * _EDGE
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    font = 'font-family="sans-serif" font-size="13"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" {font}>',
        f"<title>{escape(printable(flow.name))}</title>",
    ]
    parts += [_way(places, other, name) for name in graph for other in graph[name]]
    parts += [_step(places, step, step.name in handlers) for step in flow.all_steps()]
    return "\n".join([*parts, "</svg>", ""])


def _box(name: str) -> int:
    return _WIDTH * len(name) + 24


def _way(places: dict[str, tuple[int, int]], first: str, second: str) -> str:
    x1, y1 = places[first][0] + _box(first) // 2, places[first][1] + _HEIGHT
    x2, y2 = places[second][0] + _box(second) // 2, places[second][1]
    half = (y1 + y2) // 2
    way = f"M{x1} {y1} C{x1} {half} {x2} {half} {x2} {y2}"
    return f'<path d="{way}" fill="none" stroke="#888" stroke-width="1.5"/>'


def _step(places: dict[str, tuple[int, int]], step: Step, is_handler: bool) -> str:
    (x, y), width = places[step.name], _box(step.name)
    dashes = ' stroke-dasharray="4 3"' if is_handler else ""
    return (
        f'<g><title>{escape(printable(step.written))}</title><rect x="{x}" y="{y}" '
        f'width="{width}" height="{_HEIGHT}" rx="6" fill="#fff" stroke="#446"{dashes}/>'
        f'<text x="{x + width // 2}" y="{y + 23}" text-anchor="middle" fill="#223">'
        f"{escape(printable(step.name))}</text></g>"
    )
