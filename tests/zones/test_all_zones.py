"""The long proof: every IANA zone, every transition from 2000 to 2050, against the oracle."""

from __future__ import annotations

import pytest

from tests.support import oracle
from tests.support.zone_sweep import assert_transitions_agree, assert_years_agree

pytestmark = pytest.mark.zones

FIRST_YEAR, LAST_YEAR = 2000, 2050
YEARS = LAST_YEAR - FIRST_YEAR + 1
DISTINCT = oracle.distinct_zone_names()


@pytest.mark.parametrize("tz", DISTINCT)
def test_a_zone_agrees_with_the_oracle_around_every_transition(tz: str) -> None:
    assert_transitions_agree(tz, oracle.transitions(tz, FIRST_YEAR, LAST_YEAR))


@pytest.mark.parametrize("tz", DISTINCT)
def test_a_zone_agrees_with_the_oracle_on_every_day_and_hour(tz: str) -> None:
    assert_years_agree(tz, "30 2 * * *", FIRST_YEAR, LAST_YEAR)
    year = FIRST_YEAR + DISTINCT.index(tz) * 7 % YEARS
    assert_years_agree(tz, "0 * * * *", year, year)


@pytest.mark.parametrize("tz", oracle.zone_names())
def test_a_zone_name_stands_for_its_own_data(tz: str) -> None:
    assert_years_agree(tz, "30 2 * * *", 2024, 2026)
