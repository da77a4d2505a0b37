"""Texts that are meant to take long: each is read, or refused, in a moment."""

from __future__ import annotations

import pytest

from duebook.flows.build import build
from tests.support.waiting import takes_less_than

LIMIT = 1.0
"""Seconds of the processor; the worst of these took minutes."""


def steps(number: int, text: str) -> str:
    return "steps:\n" + "".join(text.format(n=n) for n in range(number))


@pytest.mark.parametrize(
    "text",
    {
        "names joined by dashes": "\n".join("a-" * 999 + "a" for _ in range(200)),
        "pairs in pairs": "x: 1\n" + "\n".join("#" + "a:" * 999 for _ in range(200)),
        "secrets in secrets": "x: 1\n" + "\n".join("#" + "token:" * 300 for _ in range(200)),
        "documents": "---\n".join(f"name: d{n}\nsteps: [x]\n" for n in range(5_000)),
        "params": "params:\n" + "".join(f"- P{n}: 1\n" for n in range(5_000)) + "steps: [x]\n",
        "variables": "env:\n" + "".join(f"- P{n}: 1\n" for n in range(5_000)) + "steps: [x]\n",
        "unknown keys": "steps: [x]\n" + "".join(f"ke{n}: 1\n" for n in range(5_000)),
        "unknown steps": steps(1_000, "- name: a-b-{n}\n  run: x\n  depends: [a-c-{n}]\n"),
        "unknown names": steps(500, "- name: a_b_{n}\n  run: 'echo ${{a_c_{n}.x}}'\n"),
    }.values(),
    ids=lambda text: text[:12],
)
def test_a_text_is_checked_in_a_moment(text: str) -> None:
    assert takes_less_than(LIMIT, lambda: build(text, "flow.yaml", "flow"))


def test_a_file_has_up_to_100_documents() -> None:
    text = "---\n".join(f"name: d{n}\nsteps: [x]\n" for n in range(101))
    (problem,) = build(text, "flow.yaml", "flow").problems
    assert problem.message == "it has more than 100 documents"
    assert problem.line == 300
    few = text.rpartition("---\n")[0]
    assert len(build(few, "flow.yaml", "flow").flows) == 100


def test_a_flow_has_up_to_1000_params_and_variables() -> None:
    for key, told in (("params", "it has 1,001 params"), ("env", "env has 1,001 values")):
        values = "".join(f"- P{n}: 1\n" for n in range(1_001))
        (problem,) = build(f"{key}:\n{values}steps: [x]\n", "flow.yaml", "flow").problems
        assert problem.message == f"{told}; at most 1,000 are allowed"


def test_a_check_that_takes_too_long_ends_and_says_so() -> None:
    built = build(steps(100, "- run: x\n"), "flow.yaml", "flow", seconds=0)
    (problem,) = built.problems
    assert problem.message == "checking takes more than 0 s; the rest was not checked"
    assert not built.flows
    assert built.names == ("flow",)
