"""The zone that a machine is set to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from duebook.imports import machine_zone as module
from duebook.imports.machine_zone import machine_zone

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def etc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("TZ", raising=False)
    monkeypatch.setattr(module, "_LINK", tmp_path / "localtime")
    monkeypatch.setattr(module, "_NAME", tmp_path / "timezone")
    return tmp_path


def test_a_variable_comes_before_a_link_and_a_link_before_a_name(
    etc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert machine_zone() is None
    (etc / "timezone").write_text("Asia/Tokyo\n")
    assert machine_zone() == "Asia/Tokyo"
    (etc / "localtime").symlink_to("/usr/share/zoneinfo/Europe/Brussels")
    assert machine_zone() == "Europe/Brussels"
    monkeypatch.setenv("TZ", ":America/New_York")
    assert machine_zone() == "America/New_York"
    monkeypatch.setenv("TZ", "EST5EDT,M3.2.0,M11.1.0")
    assert machine_zone() == "Europe/Brussels", "a rule is not the name of a zone"


def test_utc_has_one_name(etc: Path) -> None:
    (etc / "timezone").write_text("Etc/UTC\n")
    assert machine_zone() == "UTC"
