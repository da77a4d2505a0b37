"""Earlier releases, of which the wheels are kept, beside a newer schema: a node of one goes on, or
is told to stop. `releases/` has the wheel that `make dist` built of the release before."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from duebook.book import Book
from duebook.store.migrations import Migration
from duebook.store.postgres import PostgresStore, migrate
from duebook.store.postgres.migrate import available
from tests.support.earlier import WHEELS, install
from tests.support.nodes import NodeProcess
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WIDER = "ALTER TABLE active_runs ADD COLUMN wings integer;"


@pytest.fixture(scope="module", params=WHEELS, ids=lambda path: path.name.split("-")[1])
def earlier(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(request.param, tmp_path_factory.mktemp("earlier"))


@pytest.fixture
def node(earlier: Path, postgres_url: str, tmp_path: Path) -> Iterator[NodeProcess]:
    env = {"PATH": os.environ["PATH"], "TZ": "UTC", "DUEBOOK_DATABASE_URL": postgres_url}
    words = [str(earlier), "up", "--roles", "scheduler,worker"]
    started = NodeProcess(words, env, tmp_path)
    try:
        yield started.wait_ready()
    finally:
        if not started.has_ended:
            started.end()


def upgrade(url: str, sql: str, monkeypatch: pytest.MonkeyPatch) -> PostgresStore:
    """What the first program of a newer Duebook opens, which brings one more migration."""
    ours = available()
    newer = [*ours, Migration(ours[-1].number + 1, "newer", sql)]
    with monkeypatch.context() as patch:
        patch.setattr(migrate, "available", lambda: newer)
        return PostgresStore(url)


def test_a_release_is_kept() -> None:
    assert WHEELS


def test_an_earlier_node_goes_on_beside_a_newer_schema_that_allows_it(
    node: NodeProcess, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed = f"-- min_compatible: {available()[-1].number}\n{WIDER}"
    with Book(upgrade(postgres_url, allowed, monkeypatch)) as book:
        book.schedules.create(
            "hello", trigger={"every": "1s"}, target={"command": ["true"]}, max_runs=2
        )
        eventually(
            lambda: [r.status for r in book.runs.list()] == ["succeeded"] * 2, told=lambda: node.log
        )
        assert all(run.due_at is not None for run in book.runs.list())
    assert not node.has_ended
    assert node.end() == 0


def test_an_earlier_node_is_told_to_stop_by_a_schema_that_does_not_allow_it(
    node: NodeProcess,
    earlier: Path,
    postgres_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    upgrade(postgres_url, WIDER, monkeypatch).close()
    assert node.wait_end() != 0
    assert "upgrade Duebook" in node.log
    env = {"PATH": os.environ["PATH"], "DUEBOOK_DATABASE_URL": postgres_url}
    again = subprocess.run(  # noqa: S603
        [str(earlier), "ls"], env=env, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert again.returncode != 0
    assert "upgrade Duebook" in again.stderr
