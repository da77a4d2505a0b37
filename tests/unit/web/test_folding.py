"""Rows that tell the same: folded where nothing is lost by it."""

from __future__ import annotations

from duebook.explain import Explanation
from duebook.web.folding import fold_explanations
from tests.support.builders import BEGIN, MINUTE


def told(number: int, verdict: str = "skipped", **more: str) -> Explanation:
    given = {"reason": "paused"} | more
    return Explanation(BEGIN - number * MINUTE, verdict, f"at {number}", **given)  # type: ignore[arg-type]


def test_rows_one_after_the_other_with_the_same_reason_become_one() -> None:
    rows = [*map(told, range(4)), told(4, "ran", run_id="r"), told(5), told(6)]
    folded = fold_explanations(rows)
    assert [len(row.others) for row in folded] == [3, 0, 0, 0]
    assert [one for row in folded for one in (row.first, *row.others)] == rows


def test_rows_that_name_runs_or_differ_in_their_text_stay_apart() -> None:
    assert len(fold_explanations([told(n, "ran", run_id=str(n)) for n in range(4)])) == 4
    assert len(fold_explanations([told(n, other_run_id=str(n)) for n in range(4)])) == 4
    words = [told(n, reason="") for n in range(3)]
    assert len(fold_explanations(words)) == 1
