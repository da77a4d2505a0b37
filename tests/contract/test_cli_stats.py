"""The command that prints statistics of a schedule's runs."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from duebook.store.sqlite import SqliteStore
from tests.support.builders import begin, claim, settle

if TYPE_CHECKING:
    from tests.support.cli import Cli

ANYWHERE = True


def test_a_schedule_shows_its_success_durations_and_lateness(cli: Cli) -> None:
    cli.ok("add", "job", "--cron", "@daily", "--tz", "Asia/Tokyo", "--", "true")
    assert cli.ok("stats", "job") == "job has no runs yet\n"
    cli.ok("run", "job")
    with closing(SqliteStore(cli.path)) as store:
        begin(store)
        (claimed,) = claim(store)
        settle(store, claimed.token)
    shown = cli.ok("stats", "job").splitlines()
    assert shown[0].split() == ["schedule", "job"]
    assert "1 succeeded, 0 failed, 0 cancelled" in shown[2]
    assert any(line.startswith("DAY (Asia/Tokyo)") for line in shown)
    found = cli.json("stats", "job", "--tz", "UTC")
    assert (found["schedule"], found["tz"], found["total"]["success_rate"]) == ("job", "UTC", 1.0)
    assert found["days"][0]["figures"]["runs"] == 1
    assert found["last_success_at"].startswith("20")


def test_statistics_of_an_unknown_schedule_or_zone_are_refused(cli: Cli) -> None:
    assert cli("stats", "nobody").exit_code == 3
    cli.ok("add", "job", "--cron", "@daily", "--", "true")
    assert 'tz "Nowhere" is not a time zone' in cli("stats", "job", "--tz", "Nowhere").stderr
