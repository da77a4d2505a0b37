"""Calls in threads that do not keep a process from ending."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from duebook.targets.closers import Closers
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def closers() -> Iterator[Closers]:
    closers = Closers("closer", 2)
    yield closers
    closers.close()


def test_calls_run_in_threads_that_python_does_not_wait_for(closers: Closers) -> None:
    found: list[bool] = []
    closers.submit(lambda: found.append(threading.current_thread().daemon))
    assert eventually(lambda: found) == [True]


def test_a_call_that_waits_does_not_hold_up_the_next(closers: Closers) -> None:
    go, ended = threading.Event(), threading.Event()
    closers.submit(go.wait)
    closers.submit(ended.set)
    assert eventually(ended.is_set)
    go.set()


def test_a_call_that_fails_does_not_end_its_thread(caplog: pytest.LogCaptureFixture) -> None:
    closers, ended = Closers("closer", 1), threading.Event()
    closers.submit(lambda: 1 / 0)
    closers.submit(ended.set)
    assert eventually(ended.is_set)
    assert "ZeroDivisionError" in caplog.text
    closers.close()


def test_a_thread_that_cannot_start_is_started_with_the_next_call(
    closers: Closers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    ended: list[int] = []
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        closers.submit(lambda: ended.append(1))
    closers.submit(lambda: ended.append(2))
    assert eventually(lambda: len(ended) == 2)


def test_calls_before_the_close_are_made(closers: Closers) -> None:
    ended = threading.Event()
    closers.submit(ended.set)
    closers.close()
    assert eventually(ended.is_set)
