"""Graphs as lines and as SVG."""

from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from duebook.flows.build import build
from duebook.flows.drawing import draw_lines, draw_svg
from duebook.flows.graph import after, before, circle, in_order, rows
from duebook.model.flow import Flow, Step
from duebook.model.target import CommandTarget, TaskTarget

SVG = "{http://www.w3.org/2000/svg}"


def test_a_graph_is_drawn_with_the_ways_between_its_steps() -> None:
    text = """
handler_on: {failure: ./tell.sh}
steps:
  extract: {command: ./extract.sh}
  clean: {command: ./clean.sh, depends: extract}
  check: {command: ./check.sh, depends: extract}
  look: {task: look, depends: extract}
  load: {command: "./load.sh\\n./more.sh", depends: [clean, check]}
  tell: {command: [tell, $A], depends: [load, look]}
"""
    assert draw_lines(build(text, "f", "f").flows[0]) == [
        "● extract  ./extract.sh",
        "├─┬─╮",
        "● │ │ clean  ./clean.sh",
        "│ ● │ check  ./check.sh",
        "│ │ ● look  task look",
        "├─╯ │",
        "●   │ load  ./load.sh …",
        "├───╯",
        "●     tell  tell '$A'",
        "on failure: ./tell.sh",
    ]


def test_steps_of_which_none_waits_for_the_other_do_not_look_like_a_chain() -> None:
    chain = "steps: [x, y]"
    assert draw_lines(build(chain, "f", "f").flows[0]) == ["● step-1  x", "● step-2  y"]
    apart = "steps: {a: {command: x}, b: {command: y}}"
    assert draw_lines(build(apart, "f", "f").flows[0]) == ["● a  x", "", "● b  y"]
    beside = """
steps:
  a: {command: x}
  b: {command: y}
  c: {command: z, depends: b}
  d: {command: w}
"""
    assert draw_lines(build(beside, "f", "f").flows[0]) == [
        "● a  x",
        "",
        "● b  y",
        "● c  z",
        "",
        "● d  w",
    ]


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, tuple[str, ...]]:
    names = [f"s{n}" for n in range(draw(st.integers(1, 9)))]
    return {
        name: tuple(draw(st.lists(st.sampled_from(names[:place]), unique=True)) if place else ())
        for place, name in enumerate(names)
    }


def flow_of(graph: dict[str, tuple[str, ...]]) -> Flow:
    task = TaskTarget("t")
    steps = (Step(name, task, graph[name], written=str(task)) for name in in_order(graph))
    return Flow("f", tuple(steps))


@given(graphs())
def test_any_graph_is_drawn_with_each_step_once(graph: dict[str, tuple[str, ...]]) -> None:
    lines = draw_lines(flow_of(graph))
    assert [line.split()[-3] for line in lines if "●" in line] == list(graph)
    root = ET.fromstring(draw_svg(flow_of(graph)))  # noqa: S314 - our own words
    assert {text.text for text in root.iter(f"{SVG}text")} == set(graph)
    assert len(list(root.iter(f"{SVG}path"))) == sum(map(len, graph.values()))


@given(graphs())
def test_what_stands_right_below_a_step_waits_for_it(graph: dict[str, tuple[str, ...]]) -> None:
    lines = draw_lines(flow_of(graph))
    for upper, lower in pairwise(lines):
        if "●" in upper and "●" in lower and upper.index("●") == lower.index("●"):
            assert upper.split()[-3] in graph[lower.split()[-3]]


@given(graphs())
def test_order_rows_and_reach_agree(graph: dict[str, tuple[str, ...]]) -> None:
    order, earlier = in_order(graph), before(graph)
    assert circle(graph) == []
    for name in graph:
        assert all(order.index(other) < order.index(name) for other in graph[name])
        assert {other for other in graph if name in earlier[other]} == after(graph, [name])
    assert [name for row in rows(graph) for name in row if not graph[name]] == rows(graph)[0]


def test_names_cannot_break_out_of_the_drawing() -> None:
    name = "<img onerror=x> & \x1b[31m"
    flow = Flow("f", (Step(name, CommandTarget(("a", "</title><script>"))),))
    drawn = draw_svg(flow)
    ET.fromstring(drawn)  # noqa: S314
    assert "<img" not in drawn
    assert "<script" not in drawn
    assert "\x1b" not in drawn + "".join(draw_lines(flow))
