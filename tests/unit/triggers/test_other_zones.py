"""Other time zone data beside our own: which zones differ, when, and that ours stay as they are."""

from __future__ import annotations

import zipfile
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from duebook.errors import Invalid, InvalidTrigger
from duebook.triggers import daily, tzdata_version
from duebook.triggers.other_zones import open_zones
from duebook.triggers.zones import to_seconds, zone
from tests.support.zone_wheels import write_wheel

if TYPE_CHECKING:
    from pathlib import Path

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
