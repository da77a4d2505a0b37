"""Staging and production side by side in one database: real nodes, two namespaces."""

from __future__ import annotations

import signal
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from duebook.book import Book
from duebook.errors import DuebookError
from duebook.remote import RemoteBook
from tests.support.nodes import NodeProcess, World, open_world
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROGRAM = """
import os, time
from pathlib import Path
from duebook import Context, Duebook, every

book = Duebook()

def say(word, ctx):
    line = f"{ctx.namespace} {os.environ['NODE_MARK']} {word} {ctx.run.id}\\n"
    with Path(os.environ["EVIDENCE"]).open("a") as file:
        file.write(line)

@book.task(schedule=every("1s"), overlap="allow")
def beat(ctx: Context):
    say("beat", ctx)

@book.task
def report(ctx: Context):
    say("begin", ctx)
    while not Path(os.environ["GO"]).exists():
        time.sleep(0.02)
    say("end", ctx)
"""


@pytest.fixture(params=["file", pytest.param("postgres", marks=pytest.mark.long)])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    with open_world(tmp_path, url) as opened:
        (tmp_path / "shop.py").write_text(PROGRAM, "utf-8")
        yield opened


def said(world: World, namespace: str, word: str) -> list[str]:
    """The nodes that said so about runs of a namespace."""
    lines = [line.split() for line in world.evidence_file.read_text().splitlines()]
    return [line[1] for line in lines if (line[0], line[2]) == (namespace, word)]


def wait_for(world: World, namespace: str, word: str, number: int) -> None:
    eventually(lambda: len(said(world, namespace, word)) >= number)


def start(world: World, namespace: str) -> NodeProcess:
    words = ("--namespace", namespace, "up", "--app", "shop:book", "--port", "0", "--slots", "4")
    return world.start(*words)


def test_two_environments_share_a_database_and_nothing_else(world: World) -> None:
    staging, prod = (Book(world.book.store, name) for name in ("staging", "prod"))
    secrets = {
        name: world.book.tokens.create(name, "admin", [name])[1] for name in ("staging", "prod")
    }
    nodes = {name: start(world, name) for name in ("staging", "prod")}
    for node in nodes.values():
        node.wait_ready()

    # the same names, and each executes its own
    for name in nodes:
        wait_for(world, name, "beat", 2)
    waiting = staging.enqueue("report")
    prod.enqueue("report")
    for book in (staging, prod):
        wait_for(world, book.namespace, "begin", 1)
    for name, node in nodes.items():
        assert set(said(world, name, "beat") + said(world, name, "begin")) == {node.mark}

    # a token sees its own environment, on whichever node it asks, and touches no other
    for address in (node.address for node in nodes.values()):
        with RemoteBook(address, secrets["staging"], "staging") as remote:
            assert [one.namespace for one in remote.schedules.list()] == ["staging"]
            with pytest.raises(DuebookError, match="does not exist"):
                remote.runs.cancel(prod.runs.list()[0].id)
            assert [one.name for one in remote.namespaces.list()] == ["staging"]
        with RemoteBook(address, secrets["staging"], "prod") as remote:
            for ask in (
                remote.schedules.list,
                partial(remote.schedules.pause, "beat"),
                remote.shadow.on,
            ):
                with pytest.raises(DuebookError):
                    ask()
    assert prod.schedules.get("beat").status == "active"

    # a quota is that of one environment
    world.book.namespaces.limit("staging", schedules=1)
    every_day: dict[str, Any] = {"trigger": {"cron": "@daily"}, "target": "report"}
    with pytest.raises(DuebookError, match="limited to 1 schedule"):
        staging.schedules.create("more", **every_day)
    prod.schedules.create("more", **every_day)

    # staging dies in the middle of its work, and production goes on with its own
    nodes["staging"].end(signal.SIGKILL)
    eventually(lambda: staging.runs.get(waiting.id).status == "queued")
    wait_for(world, "prod", "beat", len(said(world, "prod", "beat")) + 3)
    assert set(said(world, "staging", "begin")) == {nodes["staging"].mark}
    assert staging.runs.get(waiting.id).status == "queued"
    assert any('namespace "staging"' in told for told in staging.problems())

    # and its next node takes over what waited
    world.go.touch()
    again = start(world, "staging").wait_ready()
    eventually(lambda: staging.runs.get(waiting.id).status == "succeeded")
    assert set(said(world, "staging", "end")) == {again.mark}
    assert set(said(world, "prod", "end")) == {nodes["prod"].mark}
