"""A program with tasks of each kind, for tests; they write their evidence as commands do."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from duebook import Context, Duebook

book = Duebook(os.environ.get("PROGRAM_BOOKS"))
PAUSE = threading.Event()


def say(word: str, ctx: Context) -> None:
    """One write to a file opened for appending, so lines of many processes stay whole."""
    due = (ctx.schedule.due_at or ctx.run.created_at).isoformat()
    who = f"{ctx.schedule.name} {ctx.run.id} {ctx.attempt}"
    line = f"{word} {who} {due} {os.getpid()} {os.environ['NODE_MARK']} {time.time()}"
    with Path(os.environ["EVIDENCE"]).open("a") as file:
        file.write(f"{line}\n")


def may_go() -> bool:
    return Path(os.environ["GO"]).exists()


@book.task
def quick(ctx: Context, answer: int = 42) -> int:
    say("start", ctx)
    say("end", ctx)
    return answer


def whose(ctx: Context) -> dict[str, object]:
    """What its context says about the time and the people that the run is of."""
    return {
        "interval": ctx.interval and [at.isoformat() for at in ctx.interval],
        "requested_by": ctx.requested_by,
        "user": ctx.user,
        "namespace": ctx.namespace,
    }


@book.task
def whose_in_thread(ctx: Context) -> dict[str, object]:
    return whose(ctx)


@book.task
async def whose_in_loop(ctx: Context) -> dict[str, object]:
    return whose(ctx)


@book.task(isolation="process")
def whose_in_process(ctx: Context) -> dict[str, object]:
    return whose(ctx)


@book.task
def thread(ctx: Context) -> None:
    """Looks now and then whether it shall end."""
    say("start", ctx)
    while not may_go():
        PAUSE.wait(0.02)
        if ctx.cancelled:
            say("cancelled", ctx)
            return
    say("end", ctx)


@book.task
async def loop(ctx: Context) -> None:
    say("start", ctx)
    try:
        while not may_go():
            await asyncio.sleep(0.02)
    except asyncio.CancelledError:
        say("cancelled", ctx)
        raise
    say("end", ctx)


def _busy(ctx: Context) -> None:
    """Computes, and hears nothing."""
    say("start", ctx)
    while not may_go():
        sum(range(1_000))
    say("end", ctx)


@book.task(isolation="process")
def process(ctx: Context) -> None:
    _busy(ctx)


@book.task
def deaf(ctx: Context) -> None:
    _busy(ctx)


@book.task
async def jam(ctx: Context) -> None:
    """Blocks the event loop."""
    _busy(ctx)


@book.task(isolation="process")
def crash(ctx: Context) -> None:
    say("start", ctx)
    print("about to crash", flush=True)  # noqa: T201
    os.abort()


def _chat() -> None:
    print("printed")  # noqa: T201
    logging.getLogger("chat").warning("logged")


@book.task
def chat_in_thread() -> None:
    _chat()


@book.task
async def chat_in_loop() -> None:
    await asyncio.to_thread(_chat)


@book.task(isolation="process")
def chat_in_process() -> None:
    _chat()


@book.task(isolation="process")
async def aside(ctx: Context, number: int) -> dict[str, int]:
    await asyncio.sleep(0)
    ctx.log.info("number %d", number)
    print("printed")  # noqa: T201
    return {"pid": os.getpid(), "number": number}


@book.task(isolation="process")
def enqueues() -> str:
    return book.enqueue("quick").id


@book.task(queue="reports")
def report() -> None: ...


@book.task
def steer() -> None:
    raise ValueError("\x1b[2Jred\0")


@book.task(isolation="process")
def untidy(ctx: Context, what: str) -> int:
    """Leaves its process in another state than it was."""
    say("start", ctx)
    print("printed")  # noqa: T201
    if what == "child":
        subprocess.Popen(["sleep", "1000"])  # noqa: S607
    elif what == "pipes":
        os.close(1)
    elif what == "streams":
        sys.stdout.close()
    return os.getpid()


if __name__ == "__main__":
    print("ready", flush=True)  # noqa: T201
    book.run()
    print("ended", flush=True)  # noqa: T201


@book.task
def publish_in_thread(ctx: Context) -> None:
    ctx.publish("told", {"by": "thread"}, key="k")


@book.task
async def publish_in_loop(ctx: Context) -> None:
    ctx.publish("told", {"by": "loop"}, key="k")


@book.task(isolation="process")
def publish_in_process(ctx: Context) -> None:
    ctx.publish("told", {"by": "process"}, key="k")


@book.task
def nothing() -> None:
    """As quick as can be, so that its worker buffers."""


@book.task
def kills(ctx: Context) -> None:
    """Its node is gone before the books know that it has begun."""
    say("start", ctx)
    os.kill(os.getpid(), signal.SIGKILL)
