"""A store that is closed while another thread reads from it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from duebook.errors import Unavailable
from duebook.store.sqlite import SqliteStore
from tests.support.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from duebook.store.base import Tx


def test_a_store_that_is_closed_waits_for_what_others_are_reading(tmp_path: Path) -> None:
    """A connection that is closed under a statement ends the process with a segmentation fault."""
    store = SqliteStore(tmp_path / "books.db")
    begun, go_on = threading.Event(), threading.Event()

    def look(tx: Tx) -> datetime:
        begun.set()
        assert go_on.wait(PATIENCE)
        tx.runs.get_runs(["none"])
        return tx.now

    with ThreadPoolExecutor(2) as threads:
        reading = threads.submit(store.read, look)
        assert begun.wait(PATIENCE)
        closing = threads.submit(store.close)
        eventually(lambda: store._closed)
        with pytest.raises(Unavailable, match="is closed"):
            store.wait_for_ends(0, 0)
        assert not closing.done()
        go_on.set()
        assert reading.result(PATIENCE) is not None
        closing.result(PATIENCE)
