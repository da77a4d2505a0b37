"""A broker that stops, dies or swallows what it gets, while tasks are sent and revoked."""

from __future__ import annotations

import signal
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest

from duebook import Duebook
from tests.celery_workers.world import YEARLY, log_of, run_of
from tests.support.proxy import Proxy
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from tests.celery_workers.world import CeleryWorld

pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated:DeprecationWarning")


@contextmanager
def stopped(world: CeleryWorld) -> Iterator[None]:
    world.redis.send_signal(signal.SIGSTOP)
    yield
    world.redis.send_signal(signal.SIGCONT)


@contextmanager
def killed(world: CeleryWorld) -> Iterator[None]:
    world.kill_redis()
    yield
    world.start_redis()


@contextmanager
def swallowed(world: CeleryWorld) -> Iterator[None]:
    assert world.proxy is not None
    world.proxy.mode = "blackhole"
    yield
    world.proxy.forget()
    world.proxy.mode = "pass"


@pytest.mark.parametrize("outage", [stopped, killed, swallowed])
def test_an_outage_of_the_broker_delays_only_what_it_has_to_send(
    world: CeleryWorld,
    monkeypatch: pytest.MonkeyPatch,
    outage: Callable[[CeleryWorld], AbstractContextManager[None]],
) -> None:
    for module in ("celery_broker", "celery_results"):
        monkeypatch.setattr(f"duebook.targets.{module}.ANSWER_WITHIN", 1.0)
    world.worker("celery")
    with (
        seen_through_a_proxy(world, monkeypatch),
        closing(Duebook(world.url)) as book,
        book.running(("worker",), slots=50),
    ):
        before = run_of(book, "before", {"task": "add", "args": [1, 2], "kwargs": {}})
        assert book.runs.wait(before).output == 3
        node = book.nodes.list()[0].id
        unread = {"task": "add", "args": [1, 2], "kwargs": {}, "queue": "nobody"}
        timed = run_of(book, "timed", dict(unread), timeout="3s")
        cancelled = run_of(book, "cancelled", unread)
        eventually(lambda: all("sent" in log_of(book, run) for run in (timed, cancelled)))
        with outage(world):
            late = run_of(book, "late", {"task": "add", "args": [3, 4], "kwargs": {}})
            book.schedules.create("command", trigger=YEARLY, target={"command": ["true"]})
            command = book.schedules.trigger("command").id
            book.runs.cancel(cancelled)
            assert book.runs.wait(command).status == "succeeded"
            assert book.runs.wait(cancelled).status == "cancelled"
            assert book.runs.wait(timed).reason == "timeout"
            eventually(lambda: "cannot be reached" in log_of(book, late))
            assert "could not be revoked" in log_of(book, cancelled)
            eventually(lambda: is_reported(book))
        assert book.runs.wait(late).output == 7
        eventually(lambda: not is_reported(book))
        assert [node.id for node in book.nodes.list()] == [node]


def is_reported(book: Duebook) -> bool:
    return any("Celery tasks wait" in problem.message for problem in book.readiness().problems)


@contextmanager
def seen_through_a_proxy(world: CeleryWorld, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """For the broker of the node, not for its worker."""
    with Proxy(world.port) as world.proxy:
        monkeypatch.setenv("BROKER", f"redis://127.0.0.1:{world.proxy.port}/0")
        yield
