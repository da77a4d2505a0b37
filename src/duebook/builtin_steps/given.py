"""Reads the payload of a built-in step, and reports its errors."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

from duebook.errors import DuebookError, Invalid

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["perform"]


def perform(work: Callable[[dict[str, Any]], None]) -> None:
    """Call `work` with the step's payload; an expected error goes to stderr and fails the step."""
    try:
        work(_payload())
    except (DuebookError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(1)


def _payload() -> dict[str, Any]:
    text = os.environ.get("DUEBOOK_PAYLOAD")
    if text is None:
        raise Invalid(
            "the values of the step are larger than 128 KiB, too many for a program; use a file"
        )
    found: dict[str, Any] = json.loads(text)
    return found
