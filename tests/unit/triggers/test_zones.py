"""Zones: our reading of tzdata against the standard library's, zone by zone."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duebook.triggers import tzif
from duebook.triggers.zones import Zone, from_seconds, local_datetime, to_seconds, zone

zoneinfo.reset_tzpath(to=[])  # the tzdata package, as Duebook reads it
NAMES = sorted(zoneinfo.available_timezones())


def offset(name: str, instant: datetime) -> int:
    found = zoneinfo.ZoneInfo(name).utcoffset(instant.astimezone(zoneinfo.ZoneInfo(name)))
    assert found is not None
    return int(found.total_seconds())


def test_every_zone_agrees_with_the_standard_library_around_its_changes() -> None:
    start = to_seconds(datetime(1950, 1, 1, tzinfo=UTC))
    end = to_seconds(datetime(2060, 1, 1, tzinfo=UTC))
    for name in NAMES:
        for jump in zone(name).jumps(start, end):
            for second in (jump.at - 1, jump.at, jump.at + 1):
                assert zone(name).offset_at(second) == offset(name, from_seconds(second)), name


@settings(deadline=None)  # the first look at a zone reads its file
@given(
    st.sampled_from(NAMES),
    st.datetimes(datetime(1900, 1, 1), datetime(9990, 1, 1), timezones=st.just(UTC)),
)
def test_every_zone_agrees_with_the_standard_library_at_any_time(
    name: str, instant: datetime
) -> None:
    assert zone(name).offset_at(to_seconds(instant)) == offset(name, instant)
    local = local_datetime(instant, name)
    assert local == instant
    assert local.utcoffset() == timedelta(seconds=offset(name, instant))


def data_with(footer: str) -> tzif.ZoneData:
    """A zone file without any change, so that its footer alone speaks."""
    header = b"TZif2" + bytes(15) + (0).to_bytes(4, "big") * 5 + (0).to_bytes(4, "big")
    counts = [0, 0, 0, 0, 1, 4]
    second = b"TZif2" + bytes(15) + b"".join(n.to_bytes(4, "big") for n in counts)
    return tzif.decode(header + second + bytes(6) + b"STD\0" + f"\n{footer}\n".encode())


@pytest.mark.parametrize(
    ("footer", "before", "change"),
    [
        ("STD0DST,M3.2.0,M11.1.0", 0, "2026-03-08T02:00:00+00:00"),
        ("STD0DST,M3.5.0/-1,M10.5.0/0", 0, "2026-03-28T23:00:00+00:00"),
        ("STD-2DST,M3.4.4/50,M10.4.4/50", 7200, "2026-03-28T00:00:00+00:00"),
        ("STD0DST-1:30,J60,J300", 0, "2026-03-01T02:00:00+00:00"),
        ("STD0DST,59/0,300", 0, "2026-03-01T00:00:00+00:00"),
    ],
)
def test_footers_in_all_their_forms(footer: str, before: int, change: str) -> None:
    found = Zone("test", data_with(footer))
    first = next(iter(found.jumps(to_seconds(datetime(2026, 1, 1, tzinfo=UTC)), 2_000_000_000)))
    assert from_seconds(first.at).isoformat() == change
    assert found.offset_at(first.at - 1) == before


def test_a_leap_day_shifts_j_days_only_after_february() -> None:
    found = Zone("test", data_with("STD0DST,J60,J300"))
    start = to_seconds(datetime(2028, 1, 1, tzinfo=UTC))
    first = next(iter(found.jumps(start, start + 366 * 86_400)))
    assert from_seconds(first.at).isoformat() == "2028-03-01T02:00:00+00:00"


@pytest.mark.parametrize("data", [b"", b"TZif", b"TZif1" + bytes(100), b"nonsense" * 20])
def test_what_is_no_zone_file_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="no TZif file"):
        tzif.decode(data)
