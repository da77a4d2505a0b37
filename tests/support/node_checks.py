"""Checks of real nodes: their address, what they logged, and whether their database is
consistent."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

import httpx2

from tests.support.nodes import QUICK
from tests.support.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    from duebook.book import Book
    from tests.support.nodes import NodeProcess, World


OPEN = re.compile(r"open: (http://[^/]+)/login$", re.MULTILINE)


def door(node: NodeProcess) -> httpx2.Client:
    """A client with the address that a node printed, and the local token."""
    found = OPEN.search(node.wait_ready().output)
    assert found is not None, node.output
    token = (node.folder / ".duebook" / "token").read_text().strip()
    assert token not in node.output
    headers = {"Authorization": f"Bearer {token}"}
    return httpx2.Client(base_url=found[1], headers=headers, timeout=PATIENCE)


def said(node: NodeProcess, words: str) -> list[str]:
    return [line for line in node.log.splitlines() if words in line]


def wait_for_success(book: Book, run_id: str) -> None:
    """Wait until a run has ended; if it did not succeed, the test fails with what the run
    logged."""
    under_way = ("queued", "running")
    with suppress(AssertionError):
        eventually(lambda: book.runs.get(run_id).status not in under_way)
    run, log = book.runs.get(run_id), [line.text for _, line in book.runs.log(run_id)]
    assert run.status == "succeeded", f"{run}\nits log: {log}"


def add_seconds(world: World, name: str) -> None:
    every_second = {"trigger": {"every": "1s"}, "overlap": "allow", "grace": "1s"}
    world.add(name, QUICK, catchup="all", catchup_pace="0s", **every_second)


def check_books(world: World, names: list[str]) -> None:
    """Every second from the first to the last has one run, whose command was executed."""
    world.come_to_rest(names)
    for name in names:
        runs = world.book.runs.list(name, limit=1_000)
        due = sorted(run.due_at for run in runs if run.due_at)
        expected = [due[0] + n * timedelta(seconds=1) for n in range(len(due))]
        assert due == expected, "none is missing and none is there twice"
        assert {run.status for run in runs} == {"succeeded"}
        assert set(world.dues(name)) == {at.timestamp() for at in due}
        attempts = Counter((e.run, e.attempt) for e in world.evidence("start", name))
        assert set(attempts.values()) == {1}, "no attempt begins twice"
        assert world.book.schedules.ledger(name) == []
    checked = world.cli("db", "check")
    assert checked.returncode == 0, checked.stdout + checked.stderr
