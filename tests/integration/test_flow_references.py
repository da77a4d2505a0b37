"""What steps of a flow leave behind and know, on a real node and both stores."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from duebook.book import Book
from duebook.errors import NotFound
from tests.support.flow_worlds import ended, log_of, steps, write_flow
from tests.support.nodes import World, open_world
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FLOW = """
steps:
  - name: export
    command: printf s3://bucket/export > "$DUEBOOK_OUTPUT"; echo "$DUEBOOK_REQUESTED_BY"
  - name: silent
    command: echo "$DUEBOOK_NAMESPACE $DUEBOOK_NOW"
"""


@pytest.fixture(params=["sqlite", "postgres"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    with open_world(tmp_path, url) as opened:
        yield opened


def test_a_step_leaves_a_reference_to_its_output_and_knows_who_asked(world: World) -> None:
    world.node(flows=str(write_flow(world, "refs", FLOW)))

    def is_read() -> bool:
        try:
            return bool(world.book.flows.get("refs"))
        except NotFound:
            return False

    eventually(is_read)
    run = ended(world, Book(world.book.store, by="cli:ann").flows.start("refs"))
    found = steps(world, run)
    assert found["export"].output_ref == "s3://bucket/export"
    assert log_of(world, found["export"]) == ["cli:ann"]
    assert {one.requested_by for one in (run, *found.values())} == {"cli:ann"}
    assert found["silent"].output_ref is None
    namespace, now = log_of(world, found["silent"])[0].split()
    assert namespace == "default"
    assert abs(datetime.fromisoformat(now) - datetime.now(UTC)) < timedelta(minutes=5)
