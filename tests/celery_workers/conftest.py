"""A Redis for each test, with the app of `program.py` in this process, too."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.celery_workers.world import PROGRAM, open_world

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.celery_workers.world import CeleryWorld


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CeleryWorld]:
    for world in open_world(tmp_path):
        for name, value in world.env.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("DUEBOOK_CELERY_APP", f"{PROGRAM}:app")
        yield world
        sys.modules.pop(PROGRAM, None)
