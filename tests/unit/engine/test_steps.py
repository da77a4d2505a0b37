"""What a step leaves behind: all that it printed into its output, or a failure that says so."""

from __future__ import annotations

import json
from typing import Any

import pytest

from duebook.engine.steps import Printed, Ready
from duebook.model.flow import MOST_OUTPUT_SIZE, ContinueOn, Script, Step
from duebook.model.flow_run import MATCHED
from duebook.model.run import Outcome

CLAIM: Any = None


def ended(printed: bytes, outcome: Outcome, most: int = 10, **options: Any) -> Outcome:
    ready = Ready(CLAIM, Step("s", Script("x"), output="J", **options), most)
    seen = ready.watch(lambda *_: None)
    size = max(4, len(printed) // 1_000)
    for place in range(0, len(printed), size):
        seen("stdout", printed[place : place + size])
    seen("stderr", b"e" * 100)
    return ready.outcome(outcome, seen)


def test_what_a_step_prints_is_its_output() -> None:
    assert ended(b"0123456 \n\n", Outcome("succeeded", exit_code=0)).output == '"0123456"'


def test_a_step_that_prints_more_than_its_output_takes_fails() -> None:
    found = ended(b"0123456789\n", Outcome("succeeded", exit_code=0))
    assert found == Outcome(
        "failed",
        "output",
        "it printed 11 bytes into J, which holds at most 10; raise max_output_size, up to "
        "16,777,216, or print less",
        0,
    )


def test_where_nothing_larger_is_allowed_a_file_is_the_remedy() -> None:
    printed = b"x" * (MOST_OUTPUT_SIZE + 1)
    found = ended(printed, Outcome("succeeded"), MOST_OUTPUT_SIZE)
    assert found.error is not None
    assert found.error.endswith("write a file instead, and print its name")


def test_a_step_that_failed_anyway_says_both_and_keeps_no_part() -> None:
    found = ended(b"x" * 11, Outcome("failed", "exit_code", "exit code 3", 3))
    assert (found.status, found.reason, found.exit_code, found.output) == (
        *("failed", "exit_code", 3),
        None,
    )
    assert found.error is not None
    assert found.error.startswith("exit code 3; it printed 11 bytes into J")


def test_a_pattern_is_looked_for_beyond_what_the_output_takes() -> None:
    failed, on = Outcome("failed", "exit_code", None, 1), ContinueOn(output=("late",))
    found = ended(b"x" * 11 + b"\nlate\n", failed, continue_on=on)
    assert found.reason == MATCHED


@pytest.mark.parametrize(("cut", "status"), [(True, "failed"), (False, "succeeded")])
def test_an_answer_of_which_only_a_part_was_kept_is_no_output(cut: bool, status: str) -> None:
    form = {"status": 200, "text": "x"} | ({"cut": True} if cut else {})
    found = ended(b"", Outcome("succeeded", output=json.dumps(form)))
    assert found.status == status
    assert (found.error or "").startswith("the response is too large for J") == cut


def test_what_is_printed_is_counted_whole_and_kept_up_to_the_limit() -> None:
    seen = Printed(lambda *_: None, 3)
    for data in (b"ab", b"cd", b"ef"):
        seen("stdout", data)
    assert (seen.text, seen.size, seen.is_cut) == ("abc", 6, True)
