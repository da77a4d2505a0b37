"""The word about runs whose task nobody knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duebook.engine.stranded import LOOK_EVERY, Stranded
from duebook.store.sqlite import SqliteStore
from tests.support.builders import VirtualClock, add_run, add_schedule, begin

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_it_is_said_once_and_again_when_it_happens_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = SqliteStore(tmp_path / "books.db", VirtualClock())
    now = 0.0
    stranded = Stranded(store, lambda: now)

    def said() -> list[str]:
        nonlocal now
        now += LOOK_EVERY
        caplog.clear()
        stranded.step()
        return caplog.messages

    assert said() == []
    add_run(store, add_schedule(store, target="digest"))
    stranded.step()
    assert caplog.messages == [], "a worker that knows it may be starting"
    told = ['runs are waiting for task "digest", which no live worker knows']
    assert said() == told
    assert said() == []
    begin(store)
    store.transact(lambda tx: tx.nodes.tell_tasks("node-1", ["digest"]))
    assert said() == []
    store.transact(lambda tx: tx.nodes.end_session("node-1"))
    assert said() == told
    store.close()
