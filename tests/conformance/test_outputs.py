"""The output of a run, the progress it reports, and which tasks live workers know."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from duebook.engine.advancer import Advancer
from duebook.model.codec import encode
from duebook.model.run import Outcome, Progress
from duebook.store.values import SessionInfo
from tests.support.builders import (
    LEASE,
    VirtualClock,
    add_run,
    add_schedule,
    begin,
    claim,
    claimed_run,
    get_run,
    lose,
    settle,
)
from tests.support.flow_builders import put_flow, start
from tests.support.retention import purge_all

if TYPE_CHECKING:
    from duebook.store.base import Store


def knows(store: Store, session_id: str, *tasks: str) -> None:
    info = SessionInfo(session_id, "host", 1, "worker", "0", "2026a", tasks)
    store.transact(lambda tx: tx.nodes.begin_session(info, LEASE))


def known(store: Store) -> set[str]:
    return store.read(lambda tx: tx.nodes.list_known_tasks("default"))


def stranded(store: Store) -> list[str]:
    return [found.task for found in store.read(lambda tx: tx.nodes.list_stranded_tasks())]


# ------------------------------------------------------------ outputs


@pytest.mark.parametrize("together", [False, True])
def test_what_people_must_not_see_of_an_output_is_kept_beside_it(
    store: Store, clock: VirtualClock, together: bool
) -> None:
    claimed = claimed_run(store, clock)
    outcome = Outcome("succeeded", output='"with hunter22"', output_secrets=("hunter22",))
    store.transact(
        lambda tx: (
            tx.attempts.settle_all([(claimed.token, outcome)])
            if together
            else tx.attempts.settle(claimed.token, outcome)
        )
    )
    run = get_run(store, claimed.run.id)
    assert run.output == "with hunter22"
    assert encode(run)["output"] == "with ***"
    assert "output_secrets" not in encode(run)
    store.transact(lambda tx: tx.runs.reopen(run.id))
    assert get_run(store, run.id).output_secrets is None


def test_the_output_of_a_flow_hides_what_its_steps_hide(store: Store) -> None:
    put_flow(store, "steps: [{name: make, command: date, output: J}]", "made")
    flow_run = start(store, "made")
    begin(store)
    Advancer(store).step()
    (make,) = claim(store)
    outcome = Outcome("succeeded", output='"with hunter22"', output_secrets=("hunter22",))
    store.transact(lambda tx: tx.attempts.settle(make.token, outcome))
    Advancer(store).step()
    run = get_run(store, flow_run)
    assert run.output == {"J": "with hunter22"}
    assert encode(run)["output"] == {"J": "with ***"}


@pytest.mark.parametrize("together", [False, True])
def test_an_output_is_kept_with_its_run(store: Store, clock: VirtualClock, together: bool) -> None:
    claimed = claimed_run(store, clock)
    outcome = Outcome("succeeded", output='{"rows": [1, "ü\\u0000"]}', output_ref="s3://a/b")
    store.transact(
        lambda tx: (
            tx.attempts.settle_all([(claimed.token, outcome)])
            if together
            else tx.attempts.settle(claimed.token, outcome)
        )
    )
    run = get_run(store, claimed.run.id)
    assert run.output == {"rows": [1, "ü\0"]}
    assert run.output_ref == "s3://a/b"


def test_a_run_that_is_opened_again_has_no_output(store: Store, clock: VirtualClock) -> None:
    claimed = claimed_run(store, clock)
    settle(store, claimed.token, output="1", output_ref="there")
    store.transact(lambda tx: tx.runs.reopen(claimed.run.id))
    run = get_run(store, claimed.run.id)
    assert (run.output, run.output_ref) == (None, None)


@pytest.mark.parametrize("together", [False, True])
def test_a_large_output_is_kept_apart_from_its_run(
    store: Store, clock: VirtualClock, together: bool
) -> None:
    claimed, text = claimed_run(store, clock), json.dumps("x" * 300_000)
    outcome = Outcome("succeeded", output=text)
    store.transact(
        lambda tx: (
            tx.attempts.settle_all([(claimed.token, outcome)])
            if together
            else tx.attempts.settle(claimed.token, outcome)
        )
    )
    run = get_run(store, claimed.run.id)
    assert (run.status, run.output, run.output_size) == ("succeeded", None, len(text))
    assert store.read(lambda tx: tx.runs.get_output(run.id)) == "x" * 300_000
    store.transact(lambda tx: tx.runs.reopen(run.id))
    assert get_run(store, run.id).output_size is None
    assert store.read(lambda tx: tx.runs.get_output(run.id)) is None


def test_a_large_output_is_forgotten_with_its_run(store: Store, clock: VirtualClock) -> None:
    claimed = claimed_run(store, clock)
    settle(store, claimed.token, output=json.dumps("x" * 300_000))
    clock.advance(timedelta(days=1))
    store.transact(lambda tx: purge_all(tx, tx.now, 100))
    assert store.read(lambda tx: tx.runs.get_output(claimed.run.id)) is None


def test_a_run_says_which_task_it_executes(store: Store) -> None:
    run_id = add_run(store, add_schedule(store, target="digest"))
    other = add_run(store, add_schedule(store, "other"))
    assert get_run(store, run_id).task == "digest"
    assert get_run(store, other).task is None
    begin(store)
    claims = store.transact(lambda tx: tx.claims.claim("node-1", "default", 10, ["digest"]))
    assert {c.run.id: c.run.task for c in claims} == {run_id: "digest", other: None}


# ------------------------------------------------------------ progress


def test_progress_and_signs_of_life_are_kept(store: Store, clock: VirtualClock) -> None:
    claimed = claimed_run(store, clock)
    store.transact(
        lambda tx: tx.attempts.note_progress([(claimed.token, Progress(0.4, "loading"))])
    )
    clock.advance(timedelta(seconds=5))
    store.transact(lambda tx: tx.attempts.note_progress([(claimed.token, Progress())]))
    run = get_run(store, claimed.run.id)
    assert (run.progress, run.progress_text, run.beat_at) == (0.4, "loading", clock.now)


def test_progress_of_a_token_that_is_not_current_is_ignored(
    store: Store, clock: VirtualClock
) -> None:
    claimed = claimed_run(store, clock)
    lose(store, "node-1")
    store.transact(lambda tx: tx.attempts.note_progress([(claimed.token, Progress(0.4, "late"))]))
    assert get_run(store, claimed.run.id).progress is None


def test_the_next_attempt_begins_without_progress(store: Store, clock: VirtualClock) -> None:
    claimed = claimed_run(store, clock)
    store.transact(
        lambda tx: tx.attempts.note_progress([(claimed.token, Progress(0.4, "loading"))])
    )
    lose(store, "node-1")
    begin(store, "node-2")
    (again,) = claim(store, "node-2")
    run = get_run(store, again.run.id)
    assert (run.attempt, run.progress, run.progress_text, run.beat_at) == (2, None, None, None)


# ------------------------------------------------------------ known tasks


def test_the_tasks_of_live_workers_are_known(store: Store, clock: VirtualClock) -> None:
    knows(store, "a", "digest", "etl")
    knows(store, "b", "etl", "cleanup")
    assert known(store) == {"digest", "etl", "cleanup"}
    store.transact(lambda tx: tx.nodes.end_session("a"))
    assert known(store) == {"etl", "cleanup"}
    store.transact(lambda tx: tx.nodes.tell_tasks("b", ["report"]))
    assert known(store) == {"report"}
    clock.advance(LEASE)
    assert known(store) == set()


def test_queued_runs_of_tasks_that_nobody_knows_are_stranded(store: Store) -> None:
    for task in ("digest", "etl"):
        add_run(store, add_schedule(store, task, target=task))
    add_run(store, add_schedule(store, "command"))
    assert stranded(store) == ["digest", "etl"]
    knows(store, "a", "etl")
    assert stranded(store) == ["digest"]
