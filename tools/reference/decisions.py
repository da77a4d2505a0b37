"""docs/explanation/decisions.md: the list of the records in docs/adr."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tools.reference.writing import NOTE, ROOT, table

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["decisions_page"]


def decisions_page() -> Iterator[str]:
    yield from ("# Decisions", "", NOTE, "")
    yield from ("Each record has the context of a decision, the decision, and what follows.", "")
    yield from table(("decision", "status"), _rows())


def _rows() -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / "docs" / "adr").glob("*.md")):
        text = path.read_text("utf-8")
        title, status = (
            re.search(r"^# (.+)$", text, re.MULTILINE),
            re.search(r"^Status: (.+)$", text, re.MULTILINE),
        )
        assert title is not None  # noqa: S101 - every record has one
        yield f"[{title[1]}](../adr/{path.name})", status[1] if status else ""
