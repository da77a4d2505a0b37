"""docs/dagu.md: its tables are those of the code, and what it shows is so."""

from __future__ import annotations

from pathlib import Path

from tests.docs.dagu_tables import tables

PAGE = Path(__file__).parents[2] / "docs" / "dagu.md"


def test_the_tables_of_keys_are_those_of_the_code() -> None:
    assert PAGE.read_text("utf-8").endswith(tables())
