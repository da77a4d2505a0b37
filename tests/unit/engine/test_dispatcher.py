"""How free slots are shared out between queues and namespaces."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from duebook.engine.dispatcher import shares

places = st.lists(st.tuples(st.sampled_from("abc"), st.text()), min_size=1, max_size=9, unique=True)


@given(st.integers(1, 100), places, st.integers(0, 1000))
def test_all_free_slots_are_given_and_nobody_gets_much_more_than_another(
    free: int, places: list[tuple[str, str]], turn: int
) -> None:
    given_out = dict(shares(free, places, turn))
    assert sum(given_out.values()) == free
    everyone = [given_out.get(place, 0) for place in places]
    assert max(everyone) - min(everyone) <= 1


@given(places, st.integers(0, 1000))
def test_a_single_slot_goes_round(places: list[tuple[str, str]], turn: int) -> None:
    served = Counter(place for n in range(len(places)) for place, _ in shares(1, places, turn + n))
    assert served == Counter(places)
