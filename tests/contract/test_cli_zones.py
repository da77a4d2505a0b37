"""The command that lists which due times move with other time zone data."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

from click.testing import CliRunner

from duebook.cli import main
from tests.support.zone_wheels import VERSION, write_wheel

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.support.cli import Cli
    from tests.support.serving import Served


def add(cli: Cli) -> None:
    cli.ok("add", "report", "--cron", "0 9 * * *", "--tz", "Europe/Brussels", "--", "true")
    cli.ok("add", "sushi", "--cron", "0 9 * * *", "--tz", "Asia/Tokyo", "--", "true")
    cli.ok("add", "tick", "--every", "1h", "--", "true")
    cli.ok("pause", "report")


def test_due_times_that_would_move_are_told(cli: Cli, tmp_path: Path) -> None:
    add(cli)
    wheel = write_wheel(tmp_path, ("Asia/Tokyo",), Europe__Brussels="Africa/Algiers")
    told = cli.ok("zones", "diff", str(wheel))
    lines = told.splitlines()
    assert "with tzdata 2030a until" in told
    assert "zone Asia/Tokyo is in use, but tzdata 2030a does not have it" in told
    (about,) = [line for line in lines if line.startswith("report (Europe/Brussels): ")]
    assert about.endswith(" due times")
    assert any("T07:00:00Z → " in line and line.endswith("T08:00:00Z") for line in lines)
    assert lines[-1] == "due times of 1 of 3 schedules move"
    found = cli.json("zones", "diff", str(wheel))
    assert (found["new"], found["zones"], found["missing"]) == (
        "2030a",
        ["Europe/Brussels"],
        ["Asia/Tokyo"],
    )
    assert [one["schedule"] for one in found["schedules"]] == ["report"]
    assert cli.ok("show", "report", "--json"), "nothing was changed"


def test_a_version_is_downloaded_and_not_installed(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_wheel(tmp_path, Europe__Brussels="Africa/Algiers")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    add(cli)
    assert cli.json("zones", "diff", VERSION)["new"] == "2030a"
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    missing = cli("zones", "diff", "2031b")
    assert missing.exit_code == 4
    assert "pip cannot download tzdata 2031.2" in missing.stderr


def test_equal_data_moves_nothing_and_other_files_are_refused(cli: Cli, tmp_path: Path) -> None:
    add(cli)
    told = cli.ok("zones", "diff", str(write_wheel(tmp_path)))
    assert "no rules differ" in " ".join(told.split())
    assert told.endswith("no due time of 3 schedules moves\n")
    for wrong in ("nowhere", str(cli.path)):
        assert cli("zones", "diff", wrong).exit_code == 2


def test_a_server_compares_a_wheel_but_no_directory(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUEBOOK_URL", served.url)
    monkeypatch.setenv("DUEBOOK_TOKEN", "admin")
    store = served.use(tmp_path / "books.db")
    duebook = partial(CliRunner().invoke, main)
    added = ["add", "report", "--cron", "0 9 * * *", "--tz", "Europe/Brussels", "--task", "report"]
    made = duebook(added)
    assert made.exit_code == 0, made.stderr
    wheel = write_wheel(tmp_path, Europe__Brussels="Africa/Algiers")
    told = duebook(["zones", "diff", str(wheel), "--ahead", "365d"])
    assert told.exit_code == 0, told.stderr
    assert told.stdout.splitlines()[-1] == "due times of 1 of 1 schedule move"
    refused = duebook(["zones", "diff", str(tmp_path)])
    assert (refused.exit_code, "a server compares a wheel" in refused.stderr) == (2, True)
    store.close()
