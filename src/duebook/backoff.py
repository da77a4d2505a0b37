"""How long to wait before a retry: computed from the number of failures, without a clock."""

from __future__ import annotations

from typing import Final

__all__ = ["LONGEST_WAIT", "backoff"]

FIRST_WAIT: Final = 0.1
LONGEST_WAIT: Final = 5.0


def backoff(failures: int, luck: float) -> float:
    """Seconds to wait after this many failures in a row: twice as long each time, up to a bound.

    `luck`, from 0 up to 1, takes off up to half of it, so that callers that failed together do
    not all retry at once.
    """
    return min(FIRST_WAIT * 2.0 ** min(failures - 1, 20), LONGEST_WAIT) * (1 - luck / 2)
