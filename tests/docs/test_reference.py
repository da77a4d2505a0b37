"""docs/reference is what the code says."""

from __future__ import annotations

import pytest
from tools.derive import ROOT, derived_text
from tools.reference import REFERENCE


@pytest.mark.parametrize("path", REFERENCE)
def test_a_page_of_the_reference_is_what_the_code_says(path: str) -> None:
    assert (ROOT / path).read_text("utf-8") == derived_text(path), "write it again: make derive"
