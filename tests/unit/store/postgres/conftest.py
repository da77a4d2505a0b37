"""Stores on a PostgreSQL database of the test's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.postgres_stores import opened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duebook.store.postgres import PostgresStore


@pytest.fixture
def url(postgres_url: str) -> str:
    """Where the store of the test is; a module may put something in between."""
    return postgres_url


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    with opened(url) as made:
        yield made
