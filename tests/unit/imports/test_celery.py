"""Entries of beat: from an app, and from the tables of django-celery-beat."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery
from celery.schedules import crontab, schedule

from duebook.errors import Invalid
from duebook.imports.celery_app import read_app
from duebook.imports.celery_tables import read_tables
from duebook.imports.databases import open_foreign
from duebook.imports.found import Import, finish
from tests import support

NOW = datetime(2026, 11, 18, 6, tzinfo=UTC)
TABLES = Path(support.__file__).with_name("django_celery_beat.sql")


def entries(**schedules: Any) -> Import:
    app = Celery("proj", broker="memory://", set_as_current=False)
    app.conf.timezone = "Europe/Brussels"
    app.conf.beat_schedule = {
        name: one if isinstance(one, dict) else {"task": "proj.add", "schedule": one}
        for name, one in schedules.items()
    }
    return finish(read_app(app), {})


def test_an_entry_of_beat_becomes_a_schedule_of_a_celery_task() -> None:
    entry = {
        "task": "mail.digest",
        "schedule": crontab(hour=9, minute=0, day_of_week="1-5"),
        "args": ("staff",),
        "kwargs": {"limit": 5},
        "options": {"queue": "mail", "expires": 60, "serializer": "json"},
    }
    (found,) = entries(digest=entry).found
    assert found.form == {
        "trigger": {"cron": "0 9 * * 1-5", "tz": "Europe/Brussels"},
        "target": {
            "celery": "mail.digest",
            "args": ["staff"],
            "kwargs": {"limit": 5},
            "queue": "mail",
            "expires": "1m",
        },
        "overlap": "allow",
    }
    assert found.notes == ("option serializer=json is not carried over",)


@pytest.mark.parametrize("length", [900, 900.0, timedelta(minutes=15), schedule(900)])
def test_intervals_are_intervals(length: Any) -> None:
    (found,) = entries(sync=length).found
    assert found.form["trigger"] == {"every": "15m"}


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        (SimpleNamespace(event="sunset", lat=50.8, lon=4.3), "a solar schedule"),
        (0.5, "the smallest unit is 1 s"),
        ({"task": "a"}, "no schedule"),
        ({"task": "a", "schedule": 60, "args": [object()]}, "args cannot be written as JSON"),
        ({"task": "a", "schedule": "soon"}, "class str cannot be expressed"),
    ],
)
def test_what_cannot_be_carried_over_is_named(entry: Any, told: str) -> None:
    (left,) = entries(bad=entry).left
    assert left.place == "entry bad"
    assert told in left.why


def test_arguments_that_look_like_templates_stay_what_they_are() -> None:
    entry = {"task": "a", "schedule": 60, "args": ["{{ name }}"], "kwargs": {"b": ["{% c %}"]}}
    (found,) = entries(mail=entry).found
    assert found.form["target"]["args"] == ['{{ "{{" }} name }}']
    assert found.form["target"]["kwargs"] == {"b": ['{{ "{%" }} c %}']}


def test_options_of_an_entry_become_those_of_the_target() -> None:
    options = {"time_limit": 60, "headers": {"trace": "1"}, "serializer": "json"}
    (found,) = entries(mail={"task": "a", "schedule": 60, "options": options}).found
    assert found.form["target"] == {"celery": "a", "time_limit": "1m", "headers": {"trace": "1"}}
    assert found.notes == ("option serializer=json is not carried over",)


def test_something_else_is_not_an_app() -> None:
    with pytest.raises(Invalid, match="is not a Celery app"):
        read_app(object())


def read_database(path: Path, *statements: str) -> Import:
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(TABLES.read_text())
        for statement in statements:
            database.execute(statement)
    with closing(open_foreign(str(path))) as opened:
        return finish(read_tables(opened, NOW), {})


def test_tables_of_django_celery_beat_are_read(tmp_path: Path) -> None:
    last = "UPDATE django_celery_beat_periodictask SET last_run_at = '2026-11-18 05:00:00.000123'"
    done = read_database(tmp_path / "db.sqlite3", last)
    forms = {one.name: one.form for one in done.found}
    assert forms["daily-digest"] == {
        "trigger": {"cron": "0 9 * * 1-5", "tz": "Europe/Brussels"},
        "target": {"celery": "mail.digest", "args": ["staff"], "queue": "mail", "expires": "1h"},
        "overlap": "allow",
        "description": "Mail to all staff",
    }
    assert forms["both-days"]["trigger"] == {
        "rrule": "FREQ=MONTHLY;BYMONTHDAY=1,15;BYDAY=MO;BYHOUR=2;BYMINUTE=30;BYSECOND=0"
    }
    assert forms["sync"]["trigger"] == {"every": "15m", "anchor": "2026-11-18T05:00:00Z"}
    assert forms["sync"]["enabled"] is False
    assert forms["once"]["trigger"] == {"at": "2026-12-24T12:00:00Z"}
    assert forms["wraps"]["trigger"] == {"cron": "*/20 0-2,22,23 * * 0,1,5,6"}
    assert forms["wraps"]["start_at"] == "2027-01-01T00:00:00Z"
    left = {one.place: one.why for one in done.left}
    assert list(left) == ["task dawn", "task fast", "task old"]
    assert "solar" in left["task dawn"]


def test_broken_rows_are_left_out(tmp_path: Path) -> None:
    table = "django_celery_beat_periodictask"
    done = read_database(
        tmp_path / "db.sqlite3",
        f"UPDATE {table} SET args = 'x' WHERE name = 'both days'",  # noqa: S608
        f"UPDATE {table} SET kwargs = '[]' WHERE name = 'sync'",  # noqa: S608
        f"UPDATE {table} SET crontab_id = 99 WHERE name = 'wraps'",  # noqa: S608
        f"UPDATE {table} SET task = '' WHERE name = 'fast'",  # noqa: S608
        "UPDATE django_celery_beat_clockedschedule SET clocked_time = 'soon'",
    )
    assert [one.name for one in done.found] == ["daily-digest"]


def test_half_a_character_is_left_out(tmp_path: Path) -> None:
    table = "django_celery_beat_periodictask"
    half = f"""UPDATE {table} SET args = '["\\ud800"]' WHERE name = 'both days'"""  # noqa: S608
    done = read_database(tmp_path / "db.sqlite3", half)
    why = {one.place: one.why for one in done.left}
    assert "target args is not valid JSON" in why["task both days"]


def test_a_database_without_the_tables_is_refused(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "empty.db").close()
    with (
        closing(open_foreign(str(tmp_path / "empty.db"))) as database,
        pytest.raises(Invalid, match="no table django_celery_beat_periodictask"),
    ):
        read_tables(database, NOW)
