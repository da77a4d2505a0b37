"""The checker of flows finds every kind of fault in a correct database that is altered."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.chaos.fleet import LEASE, open_fleet
from tests.chaos.flow_checker import check_flows
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.chaos.books import Books, Row
    from tests.chaos.fleet import Fleet
    from tests.chaos.witness import Witness
    from tests.support.postgres import Server

MINUTE = timedelta(minutes=1)


class Case:
    """A copy of a correct database, to be altered, and what was seen outside of it."""

    def __init__(self, books: Books, seen: Witness) -> None:
        self.books, self.seen = deepcopy(books), deepcopy(seen)

    def flow(self, name: str) -> Row:
        return next(r for r in self.books.runs if r["flow"] == name and r["queue"] == "@flow")

    def step(self, flow: str, name: str) -> Row:
        parent = self.flow(flow)["id"]
        runs = self.books.runs
        return next(r for r in runs if r["parent_run_id"] == parent and r["step"] == name)

    def verdict(self) -> list[str]:
        return check_flows(self.books, self.seen)


def _ended(fleet: Fleet) -> set[str]:
    runs = fleet.books().runs
    return {run["flow"] for run in runs if run["finished_at"] and run["queue"] == "@flow"}


@pytest.fixture(scope="module")
def original(
    tmp_path_factory: pytest.TempPathFactory, postgres_server: Server
) -> Iterator[tuple[Books, Witness]]:
    with open_fleet(tmp_path_factory.mktemp("flows"), postgres_server) as fleet:
        fleet.load_flows()
        fleet.node()
        eventually(lambda: {"wide", "doomed"} <= _ended(fleet), 20 * LEASE)
        fleet.settle_accounts()
        yield fleet.books(), fleet.seen


@pytest.fixture
def case(original: tuple[Books, Witness]) -> Case:
    return Case(*original)


def test_right_flows_are_right(case: Case) -> None:
    assert case.verdict() == []
    assert case.flow("wide")["status"] == "partial"
    assert case.flow("doomed")["status"] == "failed"


def _never_end(case: Case) -> None:
    case.flow("wide").update(finished_at=None, status="running")


def _end_before_a_step(case: Case) -> None:
    case.step("wide", "last")["finished_at"] = case.books.now + MINUTE


def _forget_a_step(case: Case) -> None:
    case.books.runs.remove(case.step("wide", "behind"))


def _double_a_step(case: Case) -> None:
    case.books.runs.append(case.step("wide", "last") | {"id": "another"})


def _begin_early(case: Case) -> None:
    case.step("wide", "last")["created_at"] -= MINUTE


def _do_it_early(case: Case) -> None:
    first, last = case.step("wide", "first")["id"], case.step("wide", "last")["id"]
    at = min(line.at for line in case.seen.evidence if line.run == first)
    _change(case, last, at=at)


def _change(case: Case, run_id: str, /, **changes: object) -> None:
    place = next(n for n, line in enumerate(case.seen.evidence) if line.run == run_id)
    case.seen.evidence[place] = replace(case.seen.evidence[place], **changes)  # type: ignore[arg-type]


def _run_after_a_failure(case: Case) -> None:
    case.step("doomed", "after").update(attempt=1, status="succeeded", reason=None)


def _leave_out(case: Case) -> None:
    case.step("wide", "last").update(attempt=0, status="cancelled", reason="upstream_failed")


def _meet_no_condition(case: Case) -> None:
    case.step("wide", "guarded").update(status="succeeded", reason=None)


def _do_what_was_skipped(case: Case) -> None:
    _change(case, case.step("wide", "first")["id"], run=case.step("wide", "behind")["id"])


def _stop_by_itself(case: Case) -> None:
    case.step("wide", "last").update(status="cancelled", reason="flow_cancelled")


def _work_at_once(case: Case) -> None:
    run = case.step("wide", "shaky")
    starts = [line for line in case.seen.evidence if line.run == run["id"]]
    _change(case, run["id"], at=max(line.at for line in starts) + 1)


def _succeed_unseen(case: Case) -> None:
    run = case.step("wide", "last")
    case.seen.evidence = [
        line for line in case.seen.evidence if (line.run, line.word) != (run["id"], "end")
    ]


def _end_otherwise(case: Case) -> None:
    case.flow("doomed").update(status="succeeded")


def _leave_a_handler_out(case: Case) -> None:
    case.books.runs.remove(case.step("doomed", "handler_on.failure"))


def _tell_twice(case: Case) -> None:
    told = next(event for event in case.books.events if event["type"] == "flow.finished")
    case.books.events.append(dict(told))


def _tell_never(case: Case) -> None:
    told = next(event for event in case.books.events if event["type"] == "flow.finished")
    case.books.events.remove(told)


@pytest.mark.parametrize(
    ("expected", "doctor"),
    [
        ("F1: wide", _never_end),
        ("F1: step last", _end_before_a_step),
        ("F1: wide", _forget_a_step),
        ("F1: 2 runs", _double_a_step),
        ("F2: last", _begin_early),
        ("F2: last", _do_it_early),
        ("F3: step after", _run_after_a_failure),
        ("F3: step last", _leave_out),
        ("F3: step guarded", _meet_no_condition),
        ("F3: step behind", _do_what_was_skipped),
        ("F3: step last", _stop_by_itself),
        ("F4: attempt", _work_at_once),
        ("F4: step", _succeed_unseen),
        ("F5: doomed", _end_otherwise),
        ("F5: doomed", _leave_a_handler_out),
        ("F6: the end", _tell_twice),
        ("F6: the end", _tell_never),
    ],
)
def test_doctored_flows_are_found_out(
    case: Case, expected: str, doctor: Callable[[Case], None]
) -> None:
    doctor(case)
    assert any(text.startswith(expected) for text in case.verdict()), case.verdict()
