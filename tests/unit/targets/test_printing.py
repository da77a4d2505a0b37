"""What tasks print: their own run is told, in whole lines, and it still goes where it went."""

# ruff: noqa: T201
from __future__ import annotations

import asyncio
import gc
import io
import logging
import sys
import threading
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Any

import pytest

from duebook.targets.printing import LONGEST_PART, Printing, keeping_prints
from tests.support.targets import Told

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def kept() -> Iterator[tuple[io.StringIO, io.StringIO]]:
    """The node's own streams, while prints are kept."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        with keeping_prints():
            yield out, err
        assert (sys.stdout, sys.stderr) == (out, err)


def test_what_a_run_prints_is_told_in_whole_lines() -> None:
    told = Told()
    with kept(), Printing(told):
        print("one", end="")
        print(" line")
        print("wrong", file=sys.stderr)
        sys.stdout.writelines(["two\r", "\n", "three\nwithout an end"])
    assert told.lines == [
        ("stdout", "one line"),
        ("stderr", "wrong"),
        ("stdout", "two"),
        ("stdout", "three"),
        ("stdout", "without an end"),
    ]


def test_the_node_prints_it_as_well() -> None:
    told = Told()
    with kept() as (out, _):
        with Printing(told):
            print("of a run")
        print("of nobody")
    assert out.getvalue() == "of a run\nof nobody\n"
    assert told.lines == [("stdout", "of a run")]


def test_a_line_without_an_end_is_not_kept_back_for_ever() -> None:
    told = Told()
    with kept(), Printing(told):
        for _ in range(3):
            print("x" * LONGEST_PART, end="")
        assert sum(len(text) for _, text in told.lines) == 2 * LONGEST_PART
    assert sum(len(text) for _, text in told.lines) == 3 * LONGEST_PART


def test_runs_beside_each_other_print_for_themselves() -> None:
    async def work(told: Told, name: str) -> None:
        with Printing(told):
            for n in range(3):
                print(name, n)
                await asyncio.sleep(0)
            await asyncio.to_thread(print, name, "in a thread")

    async def both() -> None:
        await asyncio.gather(work(one, "one"), work(other, "other"))

    one, other = Told(), Told()
    with kept():
        asyncio.run(both())
    for told, name in ((one, "one"), (other, "other")):
        assert [text for _, text in told.lines] == [
            *(f"{name} {n}" for n in range(3)),
            f"{name} in a thread",
        ]


def test_what_outlives_its_run_prints_for_nobody() -> None:
    async def later(may_go: asyncio.Event) -> None:
        await may_go.wait()
        print("too late")

    async def work() -> None:
        may_go = asyncio.Event()
        with Printing(told):
            task = asyncio.create_task(later(may_go))
        may_go.set()
        await task

    told = Told()
    with kept() as (out, _):
        asyncio.run(work())
    assert told.lines == []
    assert out.getvalue() == "too late\n"


def test_a_thread_of_a_tasks_own_prints_for_the_node() -> None:
    told = Told()
    with kept(), Printing(told):
        thread = threading.Thread(target=print, args=("from afar",))
        thread.start()
        thread.join()
    assert told.lines == []


def test_handlers_of_logging_are_kept_whenever_they_were_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    logger, told = logging.getLogger("tests.printing"), Told()
    before = logging.StreamHandler()
    logger.addHandler(before)
    try:
        with keeping_prints():
            after = logging.StreamHandler()
            after.setFormatter(logging.Formatter("after: %(message)s"))
            logger.addHandler(after)
            with Printing(told):
                logger.warning("careful")
        assert before.stream is sys.stderr
        assert told.lines == [("stderr", "careful"), ("stderr", "after: careful")]
    finally:
        logger.handlers.clear()


def test_a_finalizer_that_prints_while_a_log_is_written_waits_for_nobody() -> None:
    class Chatty:
        def __del__(self) -> None:
            print("farewell")

    class Collecting(Told):
        def line(self, stream: str, text: str) -> None:
            circle: list[Any] = [Chatty()]
            circle.append(circle)
            del circle
            gc.collect()
            super().line(stream, text)

    told = Collecting()
    with kept(), Printing(told):
        print("hello")
    assert told.lines == [("stdout", "hello")]


def test_the_rest_of_a_stream_is_that_of_the_node() -> None:
    with kept(), Printing(Told()):
        assert sys.stdout.isatty() is False
        assert sys.stdout.writable()
        with pytest.raises(TypeError):
            sys.stdout.write(b"no text")  # type: ignore[arg-type]
