"""A sample of the long run over all zones: the awkward ones, and only some of their transitions."""

from __future__ import annotations

import pytest

from tests.support import oracle
from tests.support.zone_sweep import assert_transitions_agree, assert_years_agree

# Zone, the years whose transitions are looked at, and what is awkward about them.
SAMPLE = [
    ("America/New_York", 2025, 2026),  # an hour, at two
    ("America/Havana", 2024, 2025),  # a gap at midnight
    ("America/Santiago", 2024, 2025),  # a gap at midnight, a fold before it
    ("America/St_Johns", 2005, 2007),  # one minute past midnight, half-hour offset
    ("Africa/Casablanca", 2024, 2025),  # back for Ramadan
    ("Africa/Cairo", 2010, 2010),  # four changes in one year
    ("Antarctica/Casey", 2009, 2023),  # three hours: too long to bring anything back
    ("Antarctica/Troll", 2025, 2025),  # two hours
    ("Asia/Kathmandu", 2025, 2025),  # no change, and a quarter of an hour
    ("Asia/Pyongyang", 2015, 2018),  # half an hour, once each way
    ("Australia/Lord_Howe", 2024, 2026),  # half an hour
    ("Europe/Dublin", 2024, 2025),  # winter is the exception
    ("Pacific/Apia", 2010, 2012),  # a missing day
    ("Pacific/Chatham", 2048, 2050),  # beyond the table: by the rule at its end
]


@pytest.mark.parametrize(("tz", "first_year", "last_year"), SAMPLE)
def test_an_awkward_zone_agrees_with_the_oracle_around_its_transitions(
    tz: str, first_year: int, last_year: int
) -> None:
    assert_transitions_agree(tz, oracle.transitions(tz, first_year, last_year))


@pytest.mark.parametrize(("tz", "first_year", "last_year"), SAMPLE)
def test_an_awkward_zone_agrees_with_the_oracle_on_every_day(
    tz: str, first_year: int, last_year: int
) -> None:
    assert_years_agree(tz, "30 2 * * *", first_year, last_year)
