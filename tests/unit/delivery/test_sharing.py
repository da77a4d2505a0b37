"""Partitions are shared out evenly, whoever comes and goes, and nobody gives up what is fair."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from duebook.delivery.sharing import share

NAMES = ["ann", "bob", "eve", "joe"]


@given(
    members=st.sets(st.sampled_from(NAMES), min_size=1),
    owners=st.lists(st.sampled_from([None, *NAMES, "dead"]), min_size=1, max_size=20),
)
def test_after_two_rounds_everybody_has_as_many_as_all_others(
    members: set[str], owners: list[str | None]
) -> None:
    held: dict[int, str | None] = dict(enumerate(owners))
    for _ in range(2):
        for me in sorted(members):
            released, taken = share(me, members, held)
            assert all(held[part] == me for part in released)
            assert all(held[part] not in members for part in taken)
            held |= dict.fromkeys(released, None) | dict.fromkeys(taken, me)
    counts = Counter(held.values())
    assert set(counts) <= members
    shares = [counts[member] for member in members]
    assert max(shares) - min(shares) <= 1


@given(members=st.sets(st.sampled_from(NAMES), min_size=1), number=st.integers(1, 20))
def test_what_is_shared_evenly_stays_as_it_is(members: set[str], number: int) -> None:
    ranked = sorted(members)
    held: dict[int, str | None] = {part: ranked[part % len(ranked)] for part in range(number)}
    assert all(share(me, members, held) == (set(), set()) for me in members)
