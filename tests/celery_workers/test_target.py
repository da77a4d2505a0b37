"""A node sends tasks to a real worker of Celery, and settles runs by their ends."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from duebook import Duebook
from duebook.errors import Invalid
from duebook.targets.celery_link import load_celery_app
from tests.celery_workers.world import PROGRAM, log_of, run_of
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.celery_workers.world import CeleryWorld

pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated:DeprecationWarning")


def test_a_run_ends_as_its_task_does(world: CeleryWorld) -> None:
    world.worker("celery")
    with closing(Duebook(world.url)) as book, book.running(("worker",), slots=50):
        wanted: dict[str, dict[str, Any]] = {
            "sum": {"task": "add", "args": [1, "{{ payload.y }}"], "kwargs": {}},
            "named": {"task": "add"},
            "failed": {"task": "fail", "args": ["no"]},
            "unknown": {"task": "nothing", "kwargs": {}},
            "large": {"task": "large", "args": [70_000], "kwargs": {}},
            "sent": {"task": "add", "args": [1, 2], "kwargs": {}, "wait": False},
            "expired": {"task": "held", "args": ["/"], "kwargs": {}, "queue": "nobody"},
        }
        payloads = {"sum": {"y": 2}, "named": {"x": 3, "y": 4}}
        runs = {
            name: run_of(book, name, target, payload=payloads.get(name, {}))
            for name, target in wanted.items()
        }
        eventually(lambda: len(book.runs.list(status="running")) == 1, told=lambda: world.story)
        book.runs.cancel(runs["expired"])
        ended = {name: book.runs.wait(id_) for name, id_ in runs.items()}
        told = {name: (run.status, run.output, run.error) for name, run in ended.items()}
        assert told == {
            "sum": ("succeeded", 3, None),
            "named": ("succeeded", 7, None),
            "failed": ("failed", None, "ValueError: no"),
            "unknown": ("failed", None, f"NotRegistered: {PROGRAM}.nothing"),
            "large": ("succeeded", None, None),
            "sent": ("succeeded", None, None),
            "expired": ("cancelled", None, None),
        }
        assert ended["large"].output_ref == f"celery:{runs['large']}-1"
        assert "Traceback" in log_of(book, runs["failed"])
        assert "was revoked without terminate" in log_of(book, runs["expired"])


def test_a_run_that_is_handed_back_is_waited_for_by_the_next_node_and_not_sent_again(
    world: CeleryWorld,
) -> None:
    world.worker("celery")
    go = world.folder / "go"
    with closing(Duebook(world.url)) as book:
        run = run_of(book, "held", {"task": "held", "args": [str(go)], "kwargs": {}})
        with book.running(("worker",), stop_within="0s"):
            eventually(lambda: world.lines("held"), told=lambda: world.story)
        with book.running(("worker",)):
            eventually(lambda: "which was sent before" in log_of(book, run))
            go.touch()
            assert book.runs.wait(run).output == "let go"
        assert [line.task_id for line in world.lines("held")] == [f"{run}-1"]


@pytest.mark.long
def test_runs_survive_a_redis_that_is_killed_and_say_what_it_has_forgotten(
    world: CeleryWorld,
) -> None:
    with closing(Duebook(world.url)) as book, book.running(("worker",)):
        waiting = run_of(book, "waiting", {"task": "add", "args": [1, 2], "kwargs": {}})
        eventually(lambda: "sent" in log_of(book, waiting))
        world.kill_redis()
        eventually(lambda: "cannot be reached" in log_of(book, waiting))
        world.start_redis()
        world.worker("celery")
        assert book.runs.wait(waiting).reason == "result_lost"
        again = book.runs.retry(waiting)
        assert book.runs.wait(again.id).output == 3


def test_a_name_that_is_not_an_app_is_refused_with_what_would_be_right() -> None:
    with pytest.raises(Invalid, match="cannot be imported: ModuleNotFoundError"):
        load_celery_app("nothing.here")
    with pytest.raises(Invalid, match="is not a Celery app but a function"):
        load_celery_app("tests.celery_workers.world:open_world")
    assert load_celery_app("") is None
