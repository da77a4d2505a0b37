"""The commands that import schedules: what they print, write and reject."""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from duebook.cli import main
from tests import support

if TYPE_CHECKING:
    from tests.support.cli import Cli

CRONTAB = """\
CRON_TZ=Europe/Brussels
MAILTO=ops@example.com
# Dump the shop
30 2 * * * pg_dump shop | gzip > /b/shop-$(date +\\%F).gz
@reboot /opt/warm
SHELL=/bin/bash
*/5 * * * * docker ps --format '{{.Names}}'
"""
JOB = """\
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: "30 2 * * *"
  suspend: true
  jobTemplate: {spec: {template: {spec: {containers: [{name: a, command: [echo, hi]}]}}}}
"""


@pytest.fixture
def crontab(tmp_path: Path) -> str:
    path = tmp_path / "crontab.txt"
    path.write_text(CRONTAB)
    return str(path)


def database(path: Path, script: str) -> str:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(Path(support.__file__).with_name(script).read_text())
    return str(path)


def test_an_imported_file_is_applied_at_once_and_again_without_changes(
    cli: Cli, crontab: str, tmp_path: Path
) -> None:
    file = tmp_path / "schedules.yaml"
    result = cli("import", "crontab", crontab, "-o", str(file), "--label", "from=cron")
    assert result.exit_code == 0, result.output
    assert f"left out: {crontab}:5: @reboot /opt/warm" in " ".join(result.stderr.split())
    assert f"2 schedules, 1 left out; next: duebook diff {file}" in result.stderr
    assert file.stat().st_mode & 0o777 == 0o600, "it may have secrets"
    text = file.read_text()
    assert f"# {crontab}:4\n- name: pg_dump-shop\n" in text
    assert f"# left out: {crontab}:5: @reboot" in text
    assert "owner crontab: 2 to create\napplied" in cli.ok("apply", str(file), "--yes")
    assert cli.ok("diff", str(file)) == "owner crontab: 2 unchanged\n"
    shown = cli.json("show", "pg_dump-shop")
    assert shown["target"] == {"shell": "pg_dump shop | gzip > /b/shop-$(date +%F).gz"}
    assert (shown["description"], shown["labels"]) == ("Dump the shop", {"from": "cron"})


def test_a_file_that_exists_is_kept_without_force(cli: Cli, crontab: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("mine")
    assert (
        "exists; --force replaces it" in cli("import", "crontab", crontab, "-o", str(file)).output
    )
    assert file.read_text() == "mine"
    cli.ok("import", "crontab", crontab, "-o", str(file), "--force", "--owner", "ops")
    assert "owner: ops\n" in file.read_text()


def test_a_dry_run_shows_when_they_are_due_and_writes_nothing(
    cli: Cli, crontab: str, tmp_path: Path
) -> None:
    file = tmp_path / "none.yaml"
    shown = cli.ok("import", "crontab", crontab, "--dry-run", "-o", str(file))
    assert shown.splitlines()[0].split() == ["NAME", "NEXT", "DUE", "WHEN"]
    assert "At 02:30 every day (Europe/Brussels)" in shown
    assert not file.exists()


def test_json_has_all_that_the_file_says(cli: Cli, crontab: str) -> None:
    found = cli.json("import", "crontab", crontab)
    assert [one["name"] for one in found["schedules"]] == ["pg_dump-shop", "docker-ps"]
    assert found["left_out"][0]["place"] == f"{crontab}:5"
    assert len(found["next"]["pg_dump-shop"]) == 3
    assert any("MAILTO" in one["note"] for one in found["notes"])


def test_stdin_is_read() -> None:
    result = CliRunner().invoke(main, ["import", "crontab", "-", "--tz", "UTC"], input="@daily a\n")
    assert result.exit_code == 0
    assert "# stdin:1\n- name: a\n" in result.stdout
    assert "the zone of this machine" not in result.stderr


def test_a_directory_of_timers_is_read(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.timer").write_text("[Timer]\nOnCalendar=Mon 02:30 Europe/Brussels\n")
    (tmp_path / "a.service").write_text("[Service]\nExecStart=/bin/true\n")
    (tmp_path / "notes.txt").write_bytes(b"\xff\xff")
    found = cli.json("import", "systemd", str(tmp_path))
    assert [one["trigger"] for one in found["schedules"]] == [
        {"cron": "30 2 * * 1", "tz": "Europe/Brussels"}
    ]


def test_a_timer_that_is_linked_to_nothing_is_masked(cli: Cli, tmp_path: Path) -> None:
    own, vendor = tmp_path / "etc", tmp_path / "lib"
    for folder in (own, vendor):
        folder.mkdir()
    (own / "a.timer").symlink_to("/dev/null")
    (vendor / "a.timer").write_text("[Timer]\nOnCalendar=daily\n")
    (vendor / "a.service").write_text("[Service]\nExecStart=/bin/true\n")
    result = cli("import", "systemd", str(own), str(vendor), "--dry-run")
    assert "it is masked, so systemd never starts it" in " ".join(result.stderr.split())


def test_a_link_that_leads_nowhere_is_named(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.timer").write_text("[Timer]\nOnCalendar=daily\n")
    (tmp_path / "a.service").write_text("[Service]\nExecStart=/bin/true\n")
    (tmp_path / "b.timer").symlink_to("../gone.timer")
    form = cli.json("import", "systemd", str(tmp_path))
    told = {one["place"]: one["why"] for one in form["left_out"]}
    assert told[str(tmp_path / "b.timer")] == "it is a link to ../gone.timer, which is missing"


def test_what_is_never_due_again_is_left_out_so_that_the_file_can_be_applied(
    cli: Cli, tmp_path: Path
) -> None:
    (tmp_path / "a.timer").write_text("[Timer]\nOnCalendar=daily\n")
    (tmp_path / "old.timer").write_text("[Timer]\nOnCalendar=2020-*-01\nUnit=a.service\n")
    (tmp_path / "a.service").write_text("[Service]\nExecStart=/bin/true\n")
    (tmp_path / "other.service").symlink_to("gone.service")
    form = cli.json("import", "systemd", str(tmp_path))
    assert [one["why"] for one in form["left_out"]] == ["it is never due again"]
    cli.ok("import", "systemd", str(tmp_path), "-o", str(tmp_path / "out.yaml"))
    cli.ok("apply", str(tmp_path / "out.yaml"), "--yes")


def test_a_template_of_helm_is_refused_with_what_to_do(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("kind: CronJob\nmetadata:\n  name: {{ .Values.name }}\n")
    result = cli("import", "kubernetes", str(tmp_path / "job.yaml"))
    assert result.exit_code == 2
    assert "render it first: helm template" in " ".join(result.stderr.split())


def test_a_suspended_cron_job_is_created_paused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    file = str(tmp_path / "out.yaml")
    cli.ok("import", "kubernetes", str(tmp_path / "job.yaml"), "-o", file)
    cli.ok("apply", file, "--yes")
    assert cli.json("show", "nightly")["status"] == "paused"


def test_pickles_are_read_only_after_a_yes(tmp_path: Path) -> None:
    path = database(tmp_path / "jobs.db", "apscheduler4.sql")
    asked = CliRunner().invoke(main, ["import", "apscheduler", path], input="n\n")
    assert asked.exit_code == 1
    assert "the store has pickles" in asked.output
    assert "cancelled; nothing was read" in asked.output
    unasked = CliRunner().invoke(main, ["import", "apscheduler", path, "--json"])
    assert "add --yes" in unasked.output
    done = CliRunner().invoke(main, ["import", "apscheduler", path, "--yes", "--json"])
    names = [one["name"] for one in json.loads(done.stdout)["schedules"]]
    assert "digest" in names


def test_tables_of_django_celery_beat_need_no_question(cli: Cli, tmp_path: Path) -> None:
    path = database(tmp_path / "db.sqlite3", "django_celery_beat.sql")
    found = cli.json("import", "celery", f"sqlite:///{path}")
    targets = {one["name"]: one["target"] for one in found["schedules"]}
    assert targets["daily-digest"]["celery"] == "mail.digest"


def test_an_app_is_imported_only_after_a_yes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    text = "from celery import Celery\napp = Celery('p', set_as_current=False)\n"
    text += "app.conf.beat_schedule = {'sync': {'task': 'p.sync', 'schedule': 60}}\n"
    (tmp_path / "imported_beat.py").write_text(text)
    asked = CliRunner().invoke(main, ["import", "celery", "imported_beat:app"], input="n\n")
    assert "this imports imported_beat, which runs its code" in asked.output
    assert "imported_beat" not in sys.modules
    done = CliRunner().invoke(main, ["import", "celery", "imported_beat:app", "--yes"])
    assert "celery: p.sync" in done.stdout
    wrong = CliRunner().invoke(main, ["import", "celery", "imported_beat:other", "--yes"])
    assert "module imported_beat has no other" in str(wrong.output)
    missing = CliRunner().invoke(main, ["import", "celery", "no_such_module:app", "--yes"])
    assert 'there is no module "no_such_module"' in missing.output


def test_files_of_dagu_are_checked_and_used_as_they_are(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "etl.yaml").write_text('schedule: "0 2 * * *"\nsteps:\n  - command: echo hi\n')
    result = cli("import", "dagu", str(tmp_path))
    assert result.exit_code == 0
    assert "etl: At 02:00 every day (UTC)" in " ".join(result.stdout.split())
    assert f"duebook up --flows {tmp_path}" in result.stderr
    (tmp_path / "bad.yaml").write_text("steps:\n  - comand: echo hi\n")
    result = cli("import", "dagu", str(tmp_path))
    assert result.exit_code == 2
    assert "bad.yaml:2:" in result.stdout
    assert cli("import", "dagu", str(tmp_path / "none")).exit_code == 3


@pytest.mark.parametrize(
    ("kind", "content", "told"),
    [
        ("crontab", b"", "there are no schedules in it"),
        ("crontab", b"\x7fELF\x00\x01\xff", "not UTF-8 text"),
        ("crontab", b"a\x00b", "it is a binary file"),
        ("crontab", b"@reboot a\n", "nothing could be imported"),
        ("crontab", b"x" * (16 * 1024 * 1024 + 1), "more than 16,777,216 bytes"),
        ("systemd", b"[Timer]\n", "there are no schedules in it"),
        ("kubernetes", b"a: [", "invalid YAML"),
        ("kubernetes", b"a: &a [*a]", "contains itself"),
        ("kubernetes", b"- 1\n- 2\n", "there are no schedules in it"),
        ("apscheduler", b"hello, this is not a database", "is not a SQLite database"),
        ("celery", b"hello, this is not a database", "is not a SQLite database"),
    ],
)
def test_bad_input_is_refused(
    cli: Cli, tmp_path: Path, kind: str, content: bytes, told: str
) -> None:
    path = tmp_path / "source"
    path.write_bytes(content)
    result = cli("import", kind, str(path))
    assert result.exit_code == 2
    assert told in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("kind", "name", "good", "broken"),
    [
        ("crontab", "job", CRONTAB, b"@daily caf\xe9\n"),
        ("systemd", "a.timer", "[Timer]\nOnCalendar=daily\nUnit=a.service\n", b"\xff"),
        ("kubernetes", "job.yaml", JOB, b"a: {{ .Values.a }"),
    ],
)
def test_a_broken_file_in_a_directory_is_left_out(
    cli: Cli, tmp_path: Path, kind: str, name: str, good: str, broken: bytes
) -> None:
    (tmp_path / name).write_text(good)
    (tmp_path / "a.service").write_text("[Service]\nExecStart=/bin/true\n")
    bad = tmp_path / f"broken{Path(name).suffix}"
    bad.write_bytes(broken)
    result = cli("import", kind, str(tmp_path), "--json")
    assert result.exit_code == 0
    form = json.loads(result.stdout)
    assert form["schedules"]
    places = [left["place"] for left in form["left_out"]]
    assert any(place.startswith(str(bad)) for place in places)


@pytest.mark.parametrize("kind", ["crontab", "systemd", "kubernetes", "apscheduler", "celery"])
def test_a_missing_file_is_not_found(cli: Cli, tmp_path: Path, kind: str) -> None:
    result = cli("import", kind, str(tmp_path / "missing"))
    assert (result.exit_code, "there is no file" in result.output) == (3, True)


@pytest.mark.parametrize("source", ["proj", "proj.celery", "db.sqlite3"])
def test_a_module_without_an_app_is_told_what_to_write(cli: Cli, source: str) -> None:
    result = cli("import", "celery", source)
    assert result.exit_code == 3
    told = f"there is no file {source}; an app is MODULE:APP, such as proj:app"
    assert told in " ".join(result.output.split())


def test_a_database_that_cannot_be_reached_is_unavailable(cli: Cli) -> None:
    result = cli("import", "celery", "postgresql+psycopg2://x@127.0.0.1:1/none")
    assert result.exit_code == 4
    assert "the database cannot be reached" in result.output
