"""How many random examples a test tries: a third in `make test`, all in `make test-long`."""

from __future__ import annotations

import os
from typing import Final

ALL: Final = os.environ.get("DUEBOOK_TEST_EXAMPLES") == "all"


def some_of(number: int) -> int:
    return number if ALL else -(-number // 3)
