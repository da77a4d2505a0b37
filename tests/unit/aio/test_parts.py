"""The client for async programs has every method of the other, and keeps its threads bounded."""

from __future__ import annotations

import asyncio
import inspect
import threading
from typing import Any

import pytest
from tools.derive import NOT_THREADED

from duebook.aio import AsyncBook
from duebook.aio.threads import Threads, threaded
from duebook.client import PARTS, Client

OF_ITS_OWN = {"wait", "wait_all"}
"""What coroutines do in their own way."""


def methods(kind: type) -> set[str]:
    return {
        name
        for base in kind.__mro__
        if base.__module__.startswith("duebook")
        for name, value in vars(base).items()
        if inspect.isfunction(value) and not name.startswith("_")
    }


@pytest.mark.parametrize("part", PARTS)
def test_every_method_of_a_part_is_a_coroutine(part: str) -> None:
    book: Any = AsyncBook(_Anything(), lambda _: None)  # type: ignore[arg-type, return-value]
    made = getattr(book, part)
    wanted = methods(PARTS[part]) - (NOT_THREADED - OF_ITS_OWN)
    for name in wanted:
        assert inspect.iscoroutinefunction(getattr(made, name)), f"{part}.{name}"


def test_every_use_case_without_a_part_is_a_coroutine() -> None:
    book: Any = AsyncBook(_Anything(), lambda _: None)  # type: ignore[arg-type, return-value]
    for name in methods(Client) - {"close"}:
        assert inspect.iscoroutinefunction(getattr(book, name)), name


class _Anything:
    def __getattr__(self, name: str) -> Any:
        return self


def test_calls_share_a_bounded_number_of_threads_and_raise_what_they_raise() -> None:
    threads, names = Threads(2), set[str]()
    gate = threading.Barrier(2)

    def work() -> None:
        names.add(threading.current_thread().name)
        gate.wait(30)

    async def main() -> None:
        await asyncio.gather(*(threads.run(work) for _ in range(10)))
        with pytest.raises(ZeroDivisionError):
            await threads.run(lambda: 1 // 0)

    asyncio.run(main())
    threads.close()
    assert len(names) == 2


def test_a_method_is_documented_as_the_one_it_calls() -> None:
    made = inspect.getattr_static(AsyncBook, "enqueue")
    assert isinstance(made, threaded)
    assert made.__doc__ == Client.enqueue.__doc__
