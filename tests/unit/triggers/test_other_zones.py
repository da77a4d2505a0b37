"""Other time zone data beside our own: which zones differ, when, and that ours stay as they are."""

from __future__ import annotations

import zipfile
from contextlib import suppress
from datetime import UTC, datetime
from io import BytesIO
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duebook.errors import Invalid, InvalidTrigger
from duebook.triggers import daily, tzdata_version
from duebook.triggers.other_zones import (
    LONGEST_WHEEL,
    MOST_FILES,
    open_wheel,
    open_zones,
)
from duebook.triggers.zones import _lent, to_seconds, zone, zone_file
from tests.support.zone_wheels import write_wheel

if TYPE_CHECKING:
    from pathlib import Path

    from duebook.triggers.other_zones import Difference

NEW_YEAR = to_seconds(datetime(2026, 1, 1, tzinfo=UTC))
NEXT_YEAR = to_seconds(datetime(2027, 1, 1, tzinfo=UTC))
JULY = datetime(2026, 7, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Belgium stays on winter time, and a zone is gone."""
    folder = tmp_path_factory.mktemp("wheel")
    return write_wheel(folder, ("Asia/Tokyo",), Europe__Brussels="Africa/Algiers")


def test_only_the_zone_with_other_rules_differs_and_only_in_summer(wheel: Path) -> None:
    with open_zones(wheel) as other:
        found = other.differing(NEW_YEAR, NEW_YEAR, NEXT_YEAR)
        assert other.version == "2030a"
        assert other.missing() == ["Asia/Tokyo"]
    ((name, (stretches, before)),) = found.items()
    assert (name, before) == ("Europe/Brussels", False)
    ((start, end),) = stretches
    assert datetime.fromtimestamp(start, UTC) == datetime(2026, 3, 28, 1, tzinfo=UTC)
    assert datetime.fromtimestamp(end, UTC) == datetime(2026, 10, 26, 1, tzinfo=UTC)


def test_rules_that_differed_before_are_told(wheel: Path) -> None:
    with open_zones(wheel) as other:
        assert other.differing(0, NEW_YEAR, NEXT_YEAR)["Europe/Brussels"].before


def test_a_damaged_zone_is_refused(tmp_path: Path) -> None:
    (tmp_path / "Europe").mkdir()
    (tmp_path / "Europe" / "Brussels").write_bytes(b"TZif2" + b"\0" * 50)
    with open_zones(tmp_path) as other, pytest.raises(Invalid, match="Europe/Brussels"):
        other.differing(0, NEW_YEAR, NEXT_YEAR)


def test_triggers_of_both_kinds_stand_side_by_side(wheel: Path) -> None:
    with open_zones(wheel) as other:
        other.differing(NEW_YEAR, NEW_YEAR, NEXT_YEAR)
        theirs = daily("09:00", tz=other.name_of("Europe/Brussels"))
    ours = daily("09:00", tz="Europe/Brussels")
    assert ours.next_after(JULY) == datetime(2026, 7, 1, 7, tzinfo=UTC)
    assert theirs.next_after(JULY) == datetime(2026, 7, 1, 8, tzinfo=UTC)
    assert other.name_of("Europe/Paris") == "Europe/Paris"
    assert zone("Europe/Brussels").name == "Europe/Brussels"


def test_an_unpacked_wheel_its_package_and_its_zones_are_read_alike(
    wheel: Path, tmp_path: Path
) -> None:
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tmp_path)
    for path in (tmp_path, tmp_path / "tzdata", tmp_path / "tzdata" / "zoneinfo"):
        with open_zones(path) as other:
            assert list(other.differing(NEW_YEAR, NEW_YEAR, NEXT_YEAR)) == ["Europe/Brussels"]


def test_our_own_data_differs_in_nothing(tmp_path: Path) -> None:
    with open_zones(write_wheel(tmp_path)) as other:
        assert other.differing(0, NEW_YEAR, NEXT_YEAR) == {}
        assert other.missing() == []
    assert tzdata_version() != "2030a"


def test_what_has_no_time_zone_data_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="has no time zone data"), open_zones(tmp_path):
        pass
    text = tmp_path / "notes.txt"
    text.write_text("no wheel")
    with pytest.raises(Invalid, match="neither a tzdata wheel nor"), open_zones(text):
        pass


def test_nobody_can_write_the_name_of_a_zone_of_other_data() -> None:
    with pytest.raises(InvalidTrigger):
        daily("09:00", tz="Europe/Brussels (other 999)")


def zipped(**files: bytes) -> bytes:
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w") as wheel:
        for name, data in files.items():
            wheel.writestr(f"tzdata/zoneinfo/{name.replace('__', '/')}", data)
    return packed.getvalue()


def brussels() -> bytes:
    return zone_file("Europe/Brussels")


def compare(data: bytes) -> dict[str, Difference]:
    with open_wheel(data) as other:
        return other.differing(0, NEW_YEAR, NEXT_YEAR)


def test_the_zones_of_other_data_are_forgotten_when_it_is_closed(wheel: Path) -> None:
    with open_zones(wheel) as other:
        other.differing(NEW_YEAR, NEW_YEAR, NEXT_YEAR)
        name = other.name_of("Europe/Brussels")
        assert zone(name).name == name
    with pytest.raises(InvalidTrigger):
        zone(name)
    assert not _lent


@pytest.mark.parametrize("kind", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_a_wheel_that_is_packed_otherwise_than_wheels_are_is_refused(kind: int) -> None:
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w", kind) as wheel:
        wheel.writestr("tzdata/zoneinfo/Europe/Brussels", brussels())
    with pytest.raises(Invalid, match="compressed in a way that wheels do not use"):
        compare(packed.getvalue())


def test_a_wheel_that_unpacks_to_gigabytes_is_refused_at_once() -> None:
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr("tzdata/zoneinfo/Europe/Brussels", b"TZif2" + bytes(100_000_000))
    assert len(packed.getvalue()) < LONGEST_WHEEL
    with pytest.raises(Invalid, match="Europe/Brussels of the new time zone data cannot be read"):
        compare(packed.getvalue())
    many = zipped(Europe__Brussels=brussels(), **{f"F{n}": b"" for n in range(MOST_FILES)})
    with pytest.raises(Invalid, match="more than 5,000 files"):
        compare(many)
    with pytest.raises(Invalid, match="more than 1,500,000 bytes"):
        compare(bytes(LONGEST_WHEEL + 1))


FOOTERS = {
    "a rule of month 13": "CET-1CEST,M13.5.0,M10.5.0/3",
    "a rule of day 400": "CET-1CEST,J400,J1",
    "a rule of too few numbers": "CET-1CEST,M3.5,M10.5.0/3",
    "an offset of days": "CET-99CEST,M3.5.0,M10.5.0/3",
    "rules that change places with the new year": "CET-1CEST,J365/167,J1/0",
}


@pytest.mark.parametrize("what", FOOTERS)
def test_a_zone_with_impossible_rules_is_refused(what: str) -> None:
    head, _, _ = brussels().rstrip(b"\n").rpartition(b"\n")
    data = head + b"\n" + FOOTERS[what].encode() + b"\n"
    with pytest.raises(Invalid, match="zone Europe/Brussels of the new time zone data cannot"):
        compare(zipped(Europe__Brussels=data))


@given(st.data())
def test_a_damaged_wheel_is_compared_or_refused(data: st.DataObject) -> None:
    """Bytes of the archive or of its zone file are changed, cut off or doubled."""
    inside = data.draw(st.booleans())
    content = bytearray(brussels() if inside else zipped(Europe__Brussels=brussels()))
    for _ in range(data.draw(st.integers(1, 8))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.one_of(st.none(), st.integers(0, len(content))))
    damaged = bytes(content[:cut])
    with (
        suppress(Invalid),
        open_wheel(zipped(Europe__Brussels=damaged) if inside else damaged) as other,
    ):
        other.differing(0, NEW_YEAR, NEXT_YEAR)
        daily("09:00", tz=other.name_of("Europe/Brussels")).next_after(JULY)
