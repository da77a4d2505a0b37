"""Times on the command line: the same everywhere, whatever form they have."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from duebook.cli import instants
from duebook.cli.instants import read_future, read_past
from duebook.errors import Invalid, InvalidTime

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.cli import Cli

NOW = datetime(2026, 3, 30, 12, 0, 0, 500, tzinfo=UTC)


@pytest.fixture
def brussels(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The terminal's zone, and a stopped clock."""
    monkeypatch.setattr(instants, "utc_now", lambda: NOW)
    monkeypatch.setenv("TZ", "Europe/Brussels")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("brussels")
@pytest.mark.parametrize(
    ("text", "past", "future"),
    [
        ("now", NOW, NOW),
        ("7d", NOW - timedelta(days=7), datetime(2026, 4, 6, 12, tzinfo=UTC)),
        ("1h30m", NOW - timedelta(minutes=90), datetime(2026, 3, 30, 13, 30, tzinfo=UTC)),
        ("7d ago", NOW - timedelta(days=7), NOW - timedelta(days=7)),
        ("in 7d", datetime(2026, 4, 6, 12, tzinfo=UTC), datetime(2026, 4, 6, 12, tzinfo=UTC)),
        ("2026-03-29", datetime(2026, 3, 28, 23, tzinfo=UTC), None),
        ("2026-03-30", datetime(2026, 3, 29, 22, tzinfo=UTC), None),
        ("2026-03-28T09:30", datetime(2026, 3, 28, 8, 30, tzinfo=UTC), None),
        ("2026-03-28 09:30:15", datetime(2026, 3, 28, 8, 30, 15, tzinfo=UTC), None),
        ("09:30", datetime(2026, 3, 30, 7, 30, tzinfo=UTC), None),
        ("2026-03-28T09:30Z", datetime(2026, 3, 28, 9, 30, tzinfo=UTC), None),
        ("2026-03-28T09:30:00-05:00", datetime(2026, 3, 28, 14, 30, tzinfo=UTC), None),
    ],
)
def test_a_length_counts_back_or_forward_and_the_rest_means_the_same(
    text: str, past: datetime, future: datetime | None
) -> None:
    assert read_past("--since", text) == past
    assert read_future("--until", text) == (future or past)


@pytest.mark.usefixtures("brussels")
def test_a_time_without_an_offset_is_in_the_zone_that_is_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tokyo = "Asia/Tokyo"
    assert read_past("--from", "2026-03-29", tokyo) == datetime(2026, 3, 28, 15, tzinfo=UTC)
    assert capsys.readouterr().err == "", "a date needs no explanation"
    assert read_past("--from", "09:30", tokyo) == datetime(2026, 3, 30, 0, 30, tzinfo=UTC)
    assert capsys.readouterr().err == (
        'note: "09:30" is read as 2026-03-30 09:30:00 in time zone Asia/Tokyo; add Z for UTC\n'
    )
    read_past("--since", "2026-03-28T09:30")
    assert capsys.readouterr().err == (
        'note: "2026-03-28T09:30" is read as 2026-03-28 09:30:00 in your time zone, CET; '
        "add Z for UTC\n"
    )


@pytest.mark.usefixtures("brussels")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("soon", '--since "soon" is not a time; use 2026-03-29, 2026-03-29T02:10Z, 2h (for 2 '),
        ("2026-02-30", "--since: "),
        ("2026-02-28T25:00", "--since: "),
        ("1.5h", "is not a time; use"),
        ("in 2h ago", '--since: "2h ago" is not a duration'),
        ("in 2026-03-29", '--since: "2026-03-29" is not a duration'),
        ("999999w", "outside the years 1 to 9999"),
        ("", '--since "" is not a time'),
    ],
)
def test_what_is_not_a_time_is_rejected_with_forms_that_are(text: str, told: str) -> None:
    with pytest.raises(InvalidTime) as caught:
        read_past("--since", text)
    assert told in str(caught.value)


@pytest.mark.usefixtures("brussels")
@pytest.mark.parametrize(
    ("text", "tz"),
    [
        ("0001-01-01", None),
        ("0001-01-01", "Asia/Tokyo"),
        ("9999-12-31 23:59", "Pacific/Honolulu"),
    ],
)
def test_a_time_that_no_calendar_has_in_utc_is_rejected(text: str, tz: str | None) -> None:
    told = f'--from "{text}" is outside the years 1 to 9999; use a time within them'
    with pytest.raises(InvalidTime) as caught:
        read_past("--from", text, tz)
    assert str(caught.value) == told


def test_a_zone_that_is_unknown_is_told_whatever_the_time() -> None:
    with pytest.raises(Invalid, match="Mars/Olympus"):
        read_past("--from", "2026-03-29", "Mars/Olympus")


def test_every_command_about_the_past_takes_a_length_as_ago_and_a_date(cli: Cli) -> None:
    cli.ok("add", "job", "--cron", "0 * * * *", "--tz", "Asia/Tokyo", "--", "true")
    cli.ok("add", "mail", "--every", "1h", "--event", "orders")
    cli.ok("run", "mail")
    cli.ok("backfill", "job", "--from", "3h", "--yes")
    date = f"{datetime.now(UTC) - timedelta(days=2):%Y-%m-%d}"
    for since in ("2d", date):
        assert len(cli.json("runs", "--since", since)) >= 3
        assert len(cli.json("events", "tail", "orders", "--since", since)) == 1
        assert len(cli.json("audit", "--since", since)) >= 3
        assert len(cli.json("explain", "job", "--from", since)) >= 3
    assert cli.json("runs", "--since", "2d", "--until", "1d") == []
    assert cli.json("audit", "--since", "2d", "--until", "1d") == []
    assert cli.json("explain", "job", "--from", "2d", "--to", "1d") == []
    assert cli.json("explain", "job", "--at", "2d")["verdict"] == "not_due"


def test_a_date_of_a_backfill_is_the_day_of_the_schedule(cli: Cli) -> None:
    cli.ok("add", "job", "--cron", "0 * * * *", "--tz", "Asia/Kolkata", "--", "true")
    shown = cli.ok("backfill", "job", "--from", "2h", "--dry-run").splitlines()
    assert " Asia/Kolkata (" in shown[1]
    day = f"{datetime.now(UTC) + timedelta(hours=5, minutes=30):%Y-%m-%d}"
    listed = cli.json("backfill", "job", "--from", day, "--dry-run")
    assert all(each.endswith(":30:00Z") for each in listed)


def test_a_skip_is_undone_at_the_time_that_show_prints(cli: Cli) -> None:
    cli.ok("add", "job", "--cron", "0 4 1 * *", "--", "true")
    cli.ok("skip-next", "job")
    (line,) = [line for line in cli.ok("show", "job").splitlines() if line.startswith("skipped: ")]
    day, clock, *_ = line.removeprefix("skipped: ").split()
    restored = cli("restore", "job", f"{day} {clock}")
    assert restored.stdout.startswith("restored; next due "), restored.output
    assert "is read as" in restored.stderr
