"""Runs with a Celery target go to workers that can send them, and to no others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duebook.book import Book
from duebook.explain.fleet import Fleet
from duebook.model.celery_target import CELERY, KNOWN_ONLY
from tests.support.builders import add_run, add_schedule, begin, find_work, get_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.store.base import Store

ADD = {"celery": "proj.tasks.add", "args": [1, 2]}


def claimed(store: Store, session_id: str, tasks: Sequence[str]) -> list[str | None]:
    claims = store.transact(
        lambda tx: tx.claims.claim(session_id, "default", 10, tasks, "default", ())
    )
    return [claim.run.schedule for claim in claims]


def test_a_celery_task_waits_for_a_worker_that_can_send_it(store: Store) -> None:
    run_id = add_run(store, add_schedule(store, "sum", target=ADD))
    begin(store, "plain")
    assert not find_work(store, ["default"]).places
    assert claimed(store, "plain", ()) == []
    run = get_run(store, run_id)
    told = store.read(lambda tx: Fleet(tx).lacks(run))
    assert told == "no live worker sends Celery tasks"
    stranded = store.read(lambda tx: tx.nodes.list_stranded_tasks())
    assert [str(one) for one in stranded] == [
        "runs are waiting for a Celery app, which no live worker has; start one with --celery"
    ]
    begin(store, "with-app", tasks=(CELERY,))
    assert store.read(lambda tx: Fleet(tx).lacks(run)) is None
    assert find_work(store, ["default"], (CELERY,)).places
    assert claimed(store, "with-app", (CELERY,)) == ["sum"]


def test_a_beat_leaves_commands_to_others(store: Store) -> None:
    add_run(store, add_schedule(store, "dump", target={"command": ["true"]}))
    beat = (CELERY, KNOWN_ONLY)
    begin(store, "beat", tasks=beat)
    begin(store, "plain")
    assert not find_work(store, ["default"], beat).places
    assert claimed(store, "beat", beat) == []
    assert claimed(store, "plain", ()) == ["dump"]


def test_schedules_are_found_by_their_celery_task(store: Store) -> None:
    add_schedule(store, "sum", target=ADD)
    add_schedule(store, "dump", target={"command": ["true"]})
    book = Book(store)
    for wanted in ("celery", "celery:proj.tasks.add"):
        assert [found.name for found in book.schedules.list(target=wanted)] == ["sum"]
    assert book.schedules.list(target="celery:proj.tasks.other") == []
    begin(store, "plain")
    assert [found.problem for found in book.schedules.list(problem=True)] == [
        "no live worker sends Celery tasks"
    ]
