"""Calendars, maintenance windows and feeds on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.cli import Cli

ANYWHERE = True

WEEKENDS = ("calendar", "add", "weekends", "--weekdays", "SAT,SUN")


def test_calendars_are_added_listed_shown_and_removed(cli: Cli) -> None:
    assert cli.ok("calendar", "ls").startswith("no calendars yet; add one: duebook calendar add")
    assert cli.ok(*WEEKENDS) == "saved weekends, version 1: 10,436 days from 2000 to 2099\n"
    work = ("--weekdays", "MON-FRI", "--without-date", "2026-12-24/2026-12-31")
    made = cli.json("calendar", "add", "workdays", *work)
    assert made["definition"]["without"] == {"dates": ["2026-12-24/2026-12-31"]}
    lines = cli.ok("calendar", "ls").splitlines()
    assert [line.split()[0] for line in lines] == ["CALENDAR", "weekends", "workdays"]
    assert "weekdays SAT, SUN" in cli.ok("calendar", "show", "weekends")
    span = ("--from", "2026-01-01", "--to", "2026-01-05")
    assert cli.json("calendar", "days", "weekends", *span) == ["2026-01-03", "2026-01-04"]
    assert cli.ok("calendar", "days", "weekends", *span) == "2026-01-03\n2026-01-04\n"
    assert cli.ok("calendar", "rm", "workdays") == "deleted workdays\n"
    assert [found["name"] for found in cli.json("calendar", "ls")] == ["weekends"]


def test_an_edit_that_moves_due_times_shows_them_and_needs_yes(cli: Cli) -> None:
    cli.ok(*WEEKENDS)
    calendar = ("--calendar", "except:weekends:next")
    cli.ok("add", "report", "--daily", "09:00", *calendar, "--", "true")
    shown = cli.json("calendar", "add", "weekends", "--weekdays", "SUN", "--dry-run")
    assert (shown["version"], shown["schedules"]) == (1, 1)
    assert [moved["schedule"] for moved in shown["moved"]] == ["report"]
    refused = cli("calendar", "add", "weekends", "--weekdays", "SUN")
    assert refused.exit_code == 2
    assert "report:\n  + " in refused.output
    assert "compared the due times of 1 schedule up to " in refused.output
    assert "repeat the command with --yes" in refused.output
    assert cli.json("calendar", "show", "weekends")["version"] == 1
    cli.ok("calendar", "add", "weekends", "--weekdays", "SUN", "--yes")
    assert cli.json("show", "report")["version"] == 2
    used = " ".join(cli("calendar", "rm", "weekends").output.split())
    assert "is used by schedule" in used
    assert "give them another calendar, or none, first" in used
    for far in ("1950-01-01", "2150-01-01"):
        refused = cli("calendar", "add", "far", "--date", far)
        assert (refused.exit_code, f"dates {far} has no day from" in refused.output) == (2, True)


def test_a_calendar_that_does_not_exist_is_refused(cli: Cli) -> None:
    told = cli("add", "job", "--daily", "09:00", "--calendar", "only:nowhere", "--", "true").output
    assert 'calendar "nowhere" does not exist; create it: duebook calendar add nowhere' in told
    told = cli("add", "job", "--daily", "09:00", "--calendar", "nowhere", "--", "true").output
    assert '--calendar "nowhere" is not HOW:NAME[:ROLL]' in told


def test_the_days_of_an_ical_file_make_a_calendar(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "holidays.ics"
    event = "BEGIN:VEVENT\r\nDTSTART;VALUE=DATE:20261224\r\nDTEND;VALUE=DATE:20261227\r\nEND:VEVENT"
    file.write_text(f"BEGIN:VCALENDAR\r\n{event}\r\nEND:VCALENDAR\r\n", encoding="utf-8")
    cli.ok("calendar", "add", "holidays", "--ical", str(file))
    for content, told in ((b"", "is empty"), (b"\x93", "is not UTF-8 text")):
        wrong = file.with_name("wrong.ics")
        wrong.write_bytes(content)
        assert told in cli("calendar", "add", "wrong", "--ical", str(wrong)).output
    days = cli.json("calendar", "days", "holidays", "--from", "2026-01-01", "--to", "2027-01-01")
    assert days == ["2026-12-24", "2026-12-25", "2026-12-26"]
    assert "an iCal file" in cli.ok("calendar", "ls")


def test_windows_are_planned_listed_and_ended(cli: Cli) -> None:
    assert cli.ok("window", "ls").startswith("no maintenance windows; plan one")
    cli.ok("add", "job", "--every", "1h", "--label", "team=x", "--", "true")
    span = ("--from", "2098-03-01T20:00:00Z", "--to", "2098-03-01T23:00:00Z")
    said = cli.ok("window", "add", "db upgrade", "--label", "team=x", *span)
    assert said.startswith("schedules with team=x paused from 2098-03-01 20:00:00")
    (window,) = cli.json("window", "ls")
    assert (window["name"], window["labels"]) == ("db upgrade", {"team": "x"})
    assert "planned" in cli.ok("window", "ls")
    assert cli.ok("window", "rm", "db upgrade") == "ended db upgrade\n"
    assert cli.json("window", "ls") == []


def test_windows_take_the_times_that_other_commands_take(cli: Cli) -> None:
    cli.ok("window", "add", "disk", "--from", "now", "--to", "2h")
    (window,) = cli.json("window", "ls")
    assert window["state"] == "open"
    assert 'note window: maintenance window "disk" pauses all schedules' in " ".join(
        cli("status").output.split()
    )
    cli.ok("window", "add", "days", "--from", "2098-03-02", "--to", "2098-03-02T20:00")
    for wrong, told in (
        (("--from", "soon", "--to", "2h"), '--from "soon" is not a time'),
        (("--from", "3h", "--to", "2h"), "the window ends before it starts"),
    ):
        refused = cli("window", "add", "wrong", *wrong)
        assert (refused.exit_code, told in refused.output) == (2, True)


def test_feeds_are_created_listed_and_revoked(cli: Cli) -> None:
    assert cli.ok("feed", "ls").startswith("no feeds yet; create one: duebook feed create")
    assert "/api/v1/schedules.ics?token=dbk_" in cli.ok("feed", "create", "team")
    made = cli.json("feed", "create", "mine", "--label", "team=x")
    assert made["token"].startswith("dbk_")
    assert [feed["name"] for feed in cli.json("feed", "ls")] == ["mine", "team"]
    assert cli.ok("feed", "revoke", "mine") == "revoked mine\n"
    assert [feed["name"] for feed in cli.json("feed", "ls")] == ["team"]
