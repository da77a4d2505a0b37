"""Phrases that readers stumbled over do not come back into the documents."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pytest
from tools.reference import REFERENCE

from tests.docs.sessions import PAGES, ROOT

if TYPE_CHECKING:
    from pathlib import Path

CODE: Final = re.compile(r"^( *)```.*?^\1```|`[^`\n]*`", re.DOTALL | re.MULTILINE)
OF_CODE: Final = "## The keys"
"""Below it, docs/dagu.md has texts of the code."""
PHRASES: Final = (
    r"the books\b",
    r"is no (?:JSON|template|problem|wall|failure)",
    r"is paused since",
    r"why a time is none",
    r"takes? (?:it|that|them|one) back",
    r"for ever\b",
    r"\banew\b",
    r"in earnest",
    r"in so many words",
    r"with a token who",
    r"what was said about",
    r"a sign of life",
    r"the map of the house",
    r"nothing is done twice",
    r"to be woken for",
)


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.relative_to(ROOT).as_posix() not in REFERENCE],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_a_page_has_no_phrase_that_readers_stumbled_over(page: Path) -> None:
    text = CODE.sub("", page.read_text("utf-8").partition(OF_CODE)[0])
    text = " ".join(text.split())
    found = [phrase for phrase in PHRASES if re.search(phrase, text, re.IGNORECASE)]
    assert found == []
