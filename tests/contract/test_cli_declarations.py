"""Schedules in files: diff, apply and export, on a file and through a server."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from duebook.book import Book
from duebook.cli import main
from duebook.store.sqlite import SqliteStore
from tests.support.flow_builders import put_flow

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.cli import Cli

ANYWHERE = True

FILE = """\
owner: billing
schedules:
  - name: nightly
    trigger: {daily: "02:30", tz: Europe/Brussels}
    target: {command: [pg_dump, mydb]}
    retry: 3
  - name: often
    trigger: {every: 10m, anchor: "2026-01-01T00:00:00Z"}
    target: {command: ["true"]}
"""


def write(folder: Path, text: str, name: str = "schedules.yaml") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def forms(cli: Cli) -> dict[str, Any]:
    """The definitions in the database, by name, with whether they are active."""
    with closing(SqliteStore(cli.path)) as store:
        found = Book(store).schedules.list(limit=1_000)
        return {one.name: (one.spec and one.spec.to_json(), one.enabled) for one in found}


def test_apply_does_what_diff_shows_and_a_second_one_does_nothing(cli: Cli, tmp_path: Path) -> None:
    file = write(tmp_path, FILE)
    shown = cli.ok("diff", file)
    assert "+ nightly: create" in shown
    assert "02:30 does not exist on" in shown
    assert shown.endswith("owner billing: 2 to create\n")
    assert forms(cli) == {}
    assert cli.ok("apply", file, "--yes").endswith("owner billing: 2 to create\napplied\n")
    assert cli.json("export", "--owner", "billing")[0]["owner"] == "billing"
    assert "2 created, 0 changed, 0 removed" in cli.ok("audit", "--kind", "declaration")
    assert cli.ok("apply", file) == "owner billing: 2 unchanged\n", "nobody is asked"
    assert cli("diff", file, "--check").exit_code == 0


def test_a_change_is_shown_with_the_due_times_that_move(cli: Cli, tmp_path: Path) -> None:
    cli.ok("apply", write(tmp_path, FILE), "--yes")
    file = write(tmp_path, FILE.replace("02:30", "03:30").replace("retry: 3", "priority: 5"))
    result = cli("diff", file, "--check", "--days", "3")
    assert result.exit_code == 1
    lines = result.output.splitlines()
    assert lines[0] == "~ nightly: change (version 1)"
    assert '    retry     {"attempts": 3} → -' in lines
    assert "    priority  0 → 5" in lines
    # between both times of today, the later one is new
    assert len([line for line in lines if line.startswith("    ~ ")]) in (2, 3)
    planned = cli.json("diff", file, "--days", "2")
    assert [one["name"] for one in planned["schedules"]] == ["nightly"]
    assert (planned["unchanged"], planned["applied"]) == (["often"], False)
    fits = cli.json("apply", file, "--yes", "--expect", planned["fingerprint"])
    assert fits["applied"] is True
    stale = cli("apply", file, "--yes", "--expect", planned["fingerprint"])
    assert (stale.exit_code, "no longer as they were" in stale.output) == (1, True)


def test_stops_and_restarts_that_move_are_shown(cli: Cli, tmp_path: Path) -> None:
    # both are hours away: between them, one would have passed today and the other not
    later, sooner = (f"{datetime.now(UTC) + timedelta(hours=hours):%H:%M}" for hours in (7, 6))
    text = f"""\
owner: billing
schedules:
  - name: etl
    trigger: {{daily: "09:00"}}
    stop: {{daily: "{later}"}}
    target: {{flow: etl}}
"""
    with closing(SqliteStore(cli.path)) as store:
        put_flow(store, "name: etl\nsteps: [a]", "etl")
    shown = cli.ok("apply", write(tmp_path, text), "--yes")
    assert "    first stop " in shown
    file = write(tmp_path, text.replace(later, sooner))
    lines = cli("diff", file, "--days", "2").output.splitlines()
    assert len([line for line in lines if line.startswith("    ~ stop ")]) == 2
    (planned,) = cli.json("diff", file, "--days", "2")["schedules"]
    assert [one["kind"] for one in planned["controls"]] == ["stop"]
    assert len(planned["controls"][0]["move"]) == 2


def test_apply_asks_and_takes_no_for_an_answer(cli: Cli, tmp_path: Path) -> None:
    arguments = [*cli._asks, "apply", write(tmp_path, FILE)]
    refused = CliRunner().invoke(main, arguments, input="n\n")
    assert (refused.exit_code, "nothing was changed" in refused.output) == (1, True)
    assert forms(cli) == {}
    nobody = CliRunner().invoke(main, arguments)
    assert (nobody.exit_code, "add --yes" in nobody.output) == (2, True)
    agreed = CliRunner().invoke(main, arguments, input="y\n")
    assert (agreed.exit_code, len(forms(cli))) == (0, 2)


def test_names_of_others_need_adopt_and_prune_needs_an_owner(cli: Cli, tmp_path: Path) -> None:
    cli.ok("add", "often", "--every", "1h", "--", "true")
    file = write(tmp_path, FILE)
    gap = '{daily: "02:30", tz: Europe/Brussels}'
    warned = FILE.replace('{every: 10m, anchor: "2026-01-01T00:00:00Z"}', gap)
    unasked = CliRunner().invoke(main, [*cli._asks, "apply", write(tmp_path, warned)])
    assert "02:30 does not exist on" in unasked.stdout
    assert "add --adopt" in unasked.stderr, "another warning hides nothing, and nobody is asked"
    file = write(tmp_path, FILE)
    result = cli("apply", file, "--yes")
    assert result.exit_code == 1
    assert "1 schedule not declared by billing: often; to take over, add --adopt" in result.output
    cli.ok("apply", file, "--yes", "--adopt")
    cli.ok("add", "by-hand", "--every", "1h", "--", "true")
    fewer = write(tmp_path, FILE[: FILE.index("  - name: often")])
    shown = cli.ok("diff", fewer)
    assert "! often: no longer declared (version 2)" in shown
    assert "but stays as it is; --prune deletes it" in " ".join(shown.split())
    unowned = cli("diff", fewer, "--owner", "")
    assert (unowned.exit_code, 'invalid owner ""' in unowned.output) == (2, True)
    assert "- often: remove" in cli.ok("apply", fewer, "--prune", "--yes")
    assert sorted(forms(cli)) == ["by-hand", "nightly"]
    nameless = write(tmp_path, "schedules: []\n")
    result = cli("apply", nameless, "--prune")
    assert (result.exit_code, "name the owner with --owner" in result.output) == (2, True)


def test_a_mistake_is_told_with_its_file_and_line(cli: Cli, tmp_path: Path) -> None:
    wrong = FILE.replace("{every: 10m", "{every: never").replace("retry: 3", "retries: 3")
    result = cli("apply", write(tmp_path, wrong), "--yes")
    assert result.exit_code == 2
    assert "schedules.yaml:6: nightly: retries is not a field of a definition" in result.output
    assert 'schedules.yaml:8: often: every: "never" is not a duration' in result.output
    assert forms(cli) == {}


WAYS = ["--format=yaml", "--format=toml", "--format=json", "--json"]


def ending(way: str) -> str:
    """The suffix of a file with this output of `export`."""
    return f"books.{way.strip('-').removeprefix('format=')}"


@pytest.mark.parametrize("way", WAYS)
def test_an_export_makes_the_same_books_elsewhere(cli: Cli, tmp_path: Path, way: str) -> None:
    cli.ok("apply", write(tmp_path, FILE), "--yes")
    cli.ok("add", "plain", "--every", "1h", "--label", "team=1e3", "--", "echo", "12:30", "no")
    cli.ok("add", "script", "--daily", "07:00", "--shell", 'set -e\necho "a: b" # c\n')
    cli.ok("pause", "plain")
    before = forms(cli)
    file = write(tmp_path, cli.ok("export", way), ending(way))
    elsewhere = CliRunner().invoke(
        main, ["--database", str(tmp_path / "other.db"), "apply", file, "--owner", "ops", "--yes"]
    )
    assert elsewhere.exit_code == 0, elsewhere.output
    with closing(SqliteStore(tmp_path / "other.db")) as store:
        found = Book(store).schedules.list()
        assert {one.name: (one.spec and one.spec.to_json(), one.enabled) for one in found} == before
    again = CliRunner().invoke(
        main, ["--database", str(tmp_path / "other.db"), "apply", file, "--owner", "ops"]
    )
    assert again.stdout == "owner ops: 4 unchanged\n"


def test_a_list_of_one_owner_is_applied_under_that_owner(cli: Cli, tmp_path: Path) -> None:
    """As `export --json` and `ls --json` print it."""
    cli.ok("apply", write(tmp_path, FILE), "--yes")
    own = write(tmp_path, json.dumps(cli.json("export")), "own.json")
    assert cli.ok("diff", own).startswith("owner billing: ")
    cli.ok("add", "other", "--every", "1h", "--", "true")
    both = write(tmp_path, json.dumps(cli.json("export")), "both.json")
    mixed = cli("diff", both, "--adopt")
    assert "owner default: " in mixed.stdout
    told = "declared by nobody, billing before; all will be declared by default, unless you"
    assert told in " ".join(mixed.stderr.split())
    assert "before" not in cli("diff", both, "--owner", "billing").stderr


def test_schedules_of_a_json_list_carry_their_calendars_once(cli: Cli, tmp_path: Path) -> None:
    """Each calendar is in the first schedule that needs it, with those that it refers to."""
    cli.ok("calendar", "add", "closed", "--date", "2026-12-24")
    cli.ok("calendar", "add", "open", "--weekdays", "MON-FRI", "--without-calendar", "closed")
    for name, calendar in (("a", "open"), ("b", "closed"), ("c", "open")):
        cli.ok("add", name, "--daily", "09:00", "--calendar", f"only:{calendar}", "--", "true")
    cli.ok("add", "d", "--daily", "09:00", "--", "true")
    listed = {one["name"]: one for one in cli.json("export")}
    closed = {"name": "closed", "dates": ["2026-12-24"]}
    without = {"calendars": ["closed"]}
    weekdays = ["MON", "TUE", "WED", "THU", "FRI"]
    open_ = {"name": "open", "weekdays": weekdays, "without": without}
    assert listed["a"].pop("calendars") == [closed, open_]
    assert listed == {one["name"]: one for one in cli.json("ls")}, "otherwise it is what ls prints"
    # also as a page of the API, and together with a file that has the same calendar
    whole = cli.json("export")
    page = write(tmp_path, json.dumps({"items": whole}), "page.json")
    same = write(tmp_path, json.dumps({"calendars": [closed], "schedules": []}), "same.json")
    assert "4 unchanged" in cli.ok("diff", page, same, "--adopt").replace("to change", "unchanged")
    other = write(tmp_path, json.dumps({"calendars": [closed | {"dates": "2026-12-25"}]}), "o.json")
    differs = cli("diff", page, other)
    assert (differs.exit_code, 'calendar "closed" is also in' in differs.output) == (2, True)
    wrong = write(tmp_path, json.dumps([listed["b"] | {"calendars": "closed"}]), "wrong.json")
    refused = cli("diff", wrong)
    assert (refused.exit_code, "calendars closed is not a list" in refused.output) == (2, True)
    added = cli(
        "--namespace", "copy", "add", "--file", write(tmp_path, json.dumps(whole), "l.json")
    )
    assert 'calendar "open" does not exist' in added.output, "it adds schedules and nothing else"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("toward", ["file", "server"])
def test_an_export_moves_between_a_file_and_a_server(
    postgres_url: str, tmp_path: Path, way: str, toward: str
) -> None:
    """Schedules, calendars, pauses and the owner move from one kind of database to the other."""
    file = str(tmp_path / "books.db")
    here, there = (postgres_url, file) if toward == "file" else (file, postgres_url)
    text = FILE + "    calendar: {except: closed, roll: next}\n"
    text += "calendars:\n  closed: {dates: [2026-12-24/2027-01-01]}\n"

    def run(place: str, *arguments: str) -> str:
        result = CliRunner().invoke(main, ["--database", place, *arguments])
        assert result.exit_code == 0, result.output
        return result.stdout

    run(here, "apply", write(tmp_path, text), "--yes")
    run(here, "pause", "nightly")
    exported = write(tmp_path, run(here, "export", way), ending(way))
    told = run(there, "apply", exported, "--yes", "--days", "0")
    assert told.endswith("owner billing: 1 calendar to create, 2 to create\napplied\n")
    assert run(there, "apply", exported) == "owner billing: 2 unchanged\n"
    assert run(here, "calendar", "days", "closed") == run(there, "calendar", "days", "closed")
    if way != "--json":
        assert run(here, "export", way) == run(there, "export", way)
    kept = ("name", "owner", "trigger", "target", "retry", "calendar", "enabled", "calendars")
    first, second = (
        [{key: one.get(key) for key in kept} for one in json.loads(run(place, "export", "--json"))]
        for place in (here, there)
    )
    assert first == second


def test_an_export_is_of_one_owner_or_of_what_matches(cli: Cli, tmp_path: Path) -> None:
    cli.ok("apply", write(tmp_path, FILE), "--yes")
    cli.ok("add", "other", "--every", "1h", "--label", "team=data", "--", "true")
    own = cli.ok("export", "--owner", "billing")
    assert own.startswith("owner: billing\nschedules:\n- name: nightly\n")
    assert "other" not in own
    assert [one["name"] for one in cli.json("export", "--label", "team=data")] == ["other"]
    listed = [one for one in cli.json("ls") if one["name"] == "other"]
    assert cli.json("export", "--label", "team=data") == listed
    told = " ".join(cli("export").stderr.split())
    assert "declared by nobody, billing, but a file has one owner" in told
    refused = cli("export", "--owner", "nosuch")
    assert (refused.exit_code, "known owners: billing" in refused.stderr) == (3, True)


@pytest.mark.on_file
def test_an_export_says_what_it_leaves_out(cli: Cli, tmp_path: Path) -> None:
    with closing(SqliteStore(cli.path)) as store:
        book = Book(store)
        hourly: dict[str, Any] = {"trigger": {"every": "1h"}, "target": {"command": ["true"]}}
        book.schedules.declare_one("of-code", "code:shop", **hourly)
        secret = {"command": ["true"], "env": {"TOKEN": "one"}}
        book.schedules.create("secret", trigger={"every": "1h"}, target=secret)
    result = cli("export")
    assert "1 schedule of programs and flow directories left out; --all" in result.stderr
    assert "1 schedule with hidden values" in result.stderr
    assert ("of-code" in result.stdout, "TOKEN: '***'" in result.stdout) == (False, True)
    assert "of-code" in cli.ok("export", "--all")
    assert "TOKEN: one" in cli.ok("export", "--secrets")
    file = write(tmp_path, result.stdout)
    assert "1 unchanged" in cli.ok("diff", file, "--adopt").replace("to change", "unchanged")


def test_a_server_exports_no_secrets(cli: Cli) -> None:
    if cli.by == "token:admin":
        result = cli("export", "--secrets")
        assert (result.exit_code, "needs the database itself" in result.output) == (2, True)


def test_files_are_declared_together(cli: Cli, tmp_path: Path) -> None:
    first = write(tmp_path, FILE)
    other = json.dumps([{"name": "third", "trigger": {"every": "1h"}, "target": {"shell": "true"}}])
    second = write(tmp_path, other, "more.json")
    assert "3 to create" in cli.ok("diff", first, second)
    twice = cli("diff", first, first)
    assert (twice.exit_code, 'schedule "nightly" is also in' in twice.output) == (2, True)
    third = write(tmp_path, FILE.replace("owner: billing", "owner: shop"), "shop.yaml")
    assert "the files have different owners" in cli("diff", first, third).output
    missing = cli("diff", str(tmp_path / "none.yaml"))
    assert (missing.exit_code, "No such file" in missing.output) == (2, True)


def test_a_file_is_read_from_stdin(cli: Cli) -> None:
    for text in (FILE, json.dumps({"schedules": []})):
        result = CliRunner().invoke(main, [*cli._asks, "diff", "-"], input=text)
        assert result.exit_code == 0, result.output


@pytest.mark.parametrize("way", WAYS)
def test_an_export_has_the_calendars_that_its_schedules_use(
    cli: Cli, tmp_path: Path, way: str
) -> None:
    ical = tmp_path / "days.ics"
    ical.write_bytes(b"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART:20270102\r\nEND:VEVENT\r\n")
    cli.ok("calendar", "add", "closed", "--date", "2026-12-24/2027-01-01", "--ical", str(ical))
    cli.ok("calendar", "add", "open", "--weekdays", "MON-FRI", "--without-calendar", "closed")
    cli.ok("calendar", "add", "unused", "--weekdays", "SUN")
    cli.ok("add", "job", "--daily", "09:00", "--calendar", "only:open", "--", "true")
    file = write(tmp_path, cli.ok("export", way), ending(way))
    place = ["--database", str(tmp_path / "other.db")]
    applied = CliRunner().invoke(main, [*place, "apply", file, "--yes"])
    assert applied.exit_code == 0, applied.output
    assert "+ calendar closed: create" in applied.stdout
    assert "owner default: 2 calendars to create, 1 to create\napplied\n" in applied.stdout
    again = CliRunner().invoke(main, [*place, "apply", file])
    assert again.stdout == "owner default: 1 unchanged\n"
    with closing(SqliteStore(tmp_path / "other.db")) as store:
        book = Book(store)
        names = [one.name for one in book.calendars.list()]
        found = {name: book.calendars.get(name).definition for name in names}
        assert found["closed"]["ical"] == ical.read_bytes().decode().replace("\r\n", "\n")
        assert (found["open"], len(found)) == (
            {"weekdays": ["MON", "TUE", "WED", "THU", "FRI"], "without": {"calendars": ["closed"]}},
            2,
        )


def test_a_calendar_of_a_file_that_changes_is_shown_and_a_wrong_one_has_its_line(
    cli: Cli, tmp_path: Path
) -> None:
    text = "calendars:\n  open: {weekdays: MON-FRI}\nschedules:\n  job:\n"
    text += '    trigger: {daily: "09:00"}\n'
    text += "    calendar: {only: open}\n    target: {shell: 'true'}\n"
    cli.ok("apply", write(tmp_path, text), "--yes")
    other = write(tmp_path, text.replace("MON-FRI", "MON-SUN"))
    shown = cli.ok("diff", other)
    assert "~ calendar open: change (version 1)\n    weekdays  " in shown
    assert "owner default: 1 calendar to change, 1 to follow their calendars\n" in shown
    wrong = cli("diff", write(tmp_path, text.replace("MON-FRI", "MONDAY")))
    assert "schedules.yaml:2: open: weekdays MONDAY is not a weekday" in wrong.output


def test_a_calendar_that_stays_is_not_told_as_changed(cli: Cli, tmp_path: Path) -> None:
    """The instant from which a definition applies, stored with its days, is not a change."""
    cli.ok("calendar", "add", "closed", "--date", "2026-12-24")
    text = FILE + "    calendar: {except: closed, roll: next}\n"
    cli.ok("apply", write(tmp_path, text), "--yes")
    cli.ok("update", "often", "--overlap", "queue")
    file = write(tmp_path, text.replace("10m", "20m"))
    (planned,) = cli.json("diff", file, "--days", "0")["schedules"]
    assert [one["field"] for one in planned["fields"]] == ["trigger", "overlap"]
    assert "calendar" not in cli.ok("diff", file)
    cli.ok("apply", file, "--yes")
    changes = [one for one in cli.json("audit", "often") if one["action"] == "update"]
    assert [sorted(one["after"]) for one in changes] == [["overlap", "trigger"], ["overlap"]]
