"""A program whose task writes a row of its own and settles its run in one transaction, in the
database that its node works on; a node of node_driver.py loads it."""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path

import psycopg

from duebook import Context, Duebook

book = Duebook(os.environ.get("PROGRAM_BOOKS"))


@book.task(retry=5)
def sell(ctx: Context) -> None:
    _say("start", ctx)
    place = sys.argv[1]
    if place.startswith("postgresql"):
        with psycopg.connect(place) as server:
            server.execute("INSERT INTO public.sales (run) VALUES (%s)", (ctx.run.id,))
            _say("end", ctx)
            ctx.settle_in(server)
        return
    with closing(sqlite3.connect(place, timeout=5)) as file, file:
        file.execute("INSERT INTO sales (run) VALUES (?)", (ctx.run.id,))
        _say("end", ctx)
        ctx.settle_in(file)


def _say(word: str, ctx: Context) -> None:
    """As commands do."""
    due = (ctx.schedule.due_at or ctx.run.created_at).isoformat()
    who = f"{ctx.schedule.name} {ctx.run.id} {ctx.attempt}"
    line = f"{word} {who} {due} {os.getpid()} {os.environ['NODE_MARK']} {time.time()}"
    with Path(os.environ["EVIDENCE"]).open("a") as lines:
        lines.write(f"{line}\n")
