"""How long to wait between tries: longer each time, never too long, and not all alike."""

from __future__ import annotations

from duebook.backoff import LONGEST_WAIT, backoff


def test_waits_grow_up_to_a_bound() -> None:
    waits = [backoff(failures, luck=0.0) for failures in range(1, 2_000)]
    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == (0.1, LONGEST_WAIT)


def test_luck_takes_off_up_to_half() -> None:
    assert backoff(99, luck=0.5) == LONGEST_WAIT * 0.75
    assert backoff(99, luck=0.999) > LONGEST_WAIT / 2
