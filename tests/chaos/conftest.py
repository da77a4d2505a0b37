"""Fleets for the tests of this directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.chaos.fleet import Fleet, open_fleet
from tests.support.postgres import Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def fleet(tmp_path: Path, postgres_server: Server) -> Iterator[Fleet]:
    with open_fleet(tmp_path, postgres_server) as opened:
        yield opened


@pytest.fixture
def durable_fleet(tmp_path: Path) -> Iterator[Fleet]:
    """A fleet on a separate server, as durable as in production, that tests may crash."""
    server = Server(durable=True)
    try:
        with open_fleet(tmp_path, server, "template0") as opened:
            yield opened
    finally:
        server.close()
