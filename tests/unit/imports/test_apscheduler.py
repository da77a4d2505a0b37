"""Stores of APScheduler 3, which the tests write, and 4, of which they have a copy."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path, PosixPath
from typing import TYPE_CHECKING, Any

import pytest
from apscheduler.job import Job
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.combining import AndTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger

from duebook.errors import Invalid, NotFound
from duebook.imports.apscheduler import has_pickles, read_jobs
from duebook.imports.databases import open_foreign
from duebook.imports.found import Import, finish
from tests import support

if TYPE_CHECKING:
    from collections.abc import Iterator

NOW = datetime(2026, 11, 18, 6, tzinfo=UTC)
START = datetime(2026, 11, 1, tzinfo=UTC)
TABLE = "apscheduler_jobs"
STORE_4 = Path(support.__file__).with_name("apscheduler4.sql")


def digest(audience: str = "all", limit: int = 10) -> None: ...


def sync(region: str) -> None: ...


class Store3:
    """A store that APScheduler itself writes."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._scheduler = BackgroundScheduler(timezone="UTC")
        self._store = SQLAlchemyJobStore(url=url)
        self._store.start(self._scheduler, "default")

    def add(self, name: str, function: Any, trigger: Any, **more: Any) -> None:
        given = {"args": (), "kwargs": {}, "misfire_grace_time": 1, "coalesce": True}
        given |= {"max_instances": 1, "executor": "default", "name": name, "next_run_time": NOW}
        job = Job(self._scheduler, id=name, func=function, trigger=trigger, **(given | more))
        self._store.add_job(job)

    def close(self) -> None:
        self._store.shutdown()

    def read(self) -> Import:
        with closing(open_foreign(self.url)) as database:
            folder = Path(__file__).parents[3]
            return finish(read_jobs(database, TABLE, NOW, folder), {})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store3]:
    with closing(Store3(f"sqlite:///{tmp_path}/jobs.sqlite")) as found:
        yield found


def test_a_job_of_version_3_becomes_a_schedule_of_a_task(store: Store3) -> None:
    trigger = CronTrigger(hour=9, day_of_week="mon-fri", timezone="Europe/Brussels", jitter=120)
    store.add("digest", digest, trigger, kwargs={"audience": "staff"}, misfire_grace_time=3600)
    done = store.read()
    assert done.found[0].form == {
        "trigger": {"cron": "0 9 * * 1-5", "tz": "Europe/Brussels"},
        "target": {"task": "digest"},
        "payload": {"audience": "staff"},
        "grace": "1h",
        "catchup": "skip",
        "jitter": "2m",
    }
    assert "task digest is tests.unit.imports.test_apscheduler:digest" in done.notes[0]


def test_a_store_in_postgresql_is_read(postgres_url: str) -> None:
    url = postgres_url.replace("postgresql://", "postgresql+psycopg://")
    with closing(Store3(url)) as store:
        store.add("digest", digest, CronTrigger(hour=9, timezone="UTC"))
        (found,) = store.read().found
    assert found.form["trigger"] == {"cron": "0 9 * * *"}


def test_policies_of_version_3_are_carried_over(store: Store3) -> None:
    every = IntervalTrigger(minutes=15, start_date=START, timezone="UTC")
    store.add("all", sync, every, args=["eu"], misfire_grace_time=None, coalesce=False)
    store.add("default", sync, every, args=["eu"])
    store.add("many", sync, every, args=["eu"], max_instances=3, misfire_grace_time=None)
    store.add("paused", sync, every, args=["eu"], next_run_time=None)
    forms = {one.name: one.form for one in store.read().found}
    assert forms["all"]["trigger"] == {"every": "15m", "anchor": "2026-11-01T00:00:00Z"}
    assert forms["all"]["payload"] == {"region": "eu"}, "named by the source of the function"
    assert forms["all"]["catchup"] == "all"
    assert (forms["default"]["grace"], forms["default"]["catchup"]) == ("1m", "skip")
    assert (forms["many"]["overlap"], forms["many"]["max_concurrent"]) == ("allow", 3)
    assert "catchup" not in forms["many"]
    assert forms["paused"]["enabled"] is False


def test_what_cannot_be_carried_over_is_named_by_job(store: Store3) -> None:
    daily = CronTrigger(hour=1, timezone="UTC")
    store.add("and", digest, AndTrigger([daily, daily]))
    store.add("date", digest, DateTrigger(START, timezone="UTC"))
    store.add("object", digest, daily, kwargs={"audience": Path("x")})
    store.add("strange", "os:listdir", daily, args=[1])
    left = {one.place: one.why for one in store.read().left}
    assert list(left) == ["job and", "job date", "job object", "job strange"]
    assert "AndTrigger cannot be expressed" in left["job and"]
    assert "has passed" in left["job date"]
    path = f"{PosixPath.__module__}:PosixPath"  # pathlib, or a part of it
    assert left["job object"] == f"argument audience is not JSON but a {path}"
    assert "the source of os:listdir is not below" in left["job strange"]


def test_an_argument_that_looks_like_a_template_stays_a_text(store: Store3) -> None:
    store.add("digest", digest, CronTrigger(hour=9, timezone=UTC), kwargs={"audience": "{{ 1 }}"})
    (found,) = store.read().found
    assert found.form["payload"] == {"audience": '{{ "{{" }} 1 }}'}


def test_a_broken_job_does_not_stop_the_others(store: Store3) -> None:
    store.add("good", digest, CronTrigger(hour=1, timezone="UTC"))
    with closing(sqlite3.connect(store.url.removeprefix("sqlite:///"))) as database, database:
        database.execute(f"INSERT INTO {TABLE} VALUES ('bad', 1.0, X'80')")  # noqa: S608
        database.execute(f"INSERT INTO {TABLE} VALUES ('odd', 1.0, X'80044B012E')")  # noqa: S608
    done = store.read()
    assert [one.name for one in done.found] == ["good"]
    assert [one.place for one in done.left] == ["job bad", "job odd"]


def test_a_store_of_version_4_is_read(tmp_path: Path) -> None:
    path = tmp_path / "four.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(STORE_4.read_text())
    (tmp_path / "jobs.py").write_text("def sync(region): ...\n")
    with closing(open_foreign(f"sqlite:///{path}")) as store:
        assert has_pickles(store, TABLE)
        done = finish(read_jobs(store, TABLE, NOW, tmp_path), {})
    forms = {one.name: one.form for one in done.found}
    assert list(forms) == ["close", "digest", "either", "once", "quarter", "sync-eu"]
    assert forms["digest"] == {
        "trigger": {"cron": "0 9 * * 1-5", "tz": "Europe/Brussels"},
        "target": {"task": "digest"},
        "payload": {"audience": "staff"},
        "grace": "1h",
        "catchup": "skip",
        "overlap": "queue",
    }
    assert forms["sync-eu"] == {
        "trigger": {"every": "15m", "anchor": "2026-11-01T00:00:00Z"},
        "target": {"task": "sync"},
        "payload": {"region": "eu"},
        "grace": "1m30s",
        "catchup": "skip",
        "overlap": "allow",
        "max_concurrent": 3,
        "jitter": "30s",
    }
    assert len(forms["either"]["trigger"]) == 2
    assert forms["close"]["enabled"] is False
    assert [one.place for one in done.left] == ["job both"]


def test_json_of_version_4_is_read_without_pickles(tmp_path: Path) -> None:
    path = tmp_path / "four.db"
    state = '{"run_time": "2026-12-31T22:00:00+00:00"}'
    trigger = f'{{"_apscheduler_json": ["apscheduler.triggers.date:DateTrigger", {state}]}}'
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(STORE_4.read_text())
        database.execute("DELETE FROM schedules WHERE id != 'once'")
        values = (trigger.encode(), b"[]", b'{"a": 1}')
        database.execute("UPDATE schedules SET trigger = ?, args = ?, kwargs = ?", values)
    with closing(open_foreign(str(path))) as store:
        assert not has_pickles(store, TABLE)
        (found,) = read_jobs(store, TABLE, NOW, tmp_path).found
    assert found.form["trigger"] == {"at": "2026-12-31T22:00:00Z"}
    assert found.form["payload"] == {"a": 1}


def test_other_databases_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no file"):
        open_foreign(str(tmp_path / "missing.db"))
    (tmp_path / "text").write_text("hello, this is not a database at all")
    with pytest.raises(Invalid, match="is not a SQLite database"):
        open_foreign(str(tmp_path / "text"))
    with pytest.raises(Invalid, match="mysql:// cannot be read"):
        open_foreign("mysql+pymysql://root@db/jobs")
    sqlite3.connect(tmp_path / "empty.db").close()
    with closing(open_foreign(str(tmp_path / "empty.db"))) as database:
        with pytest.raises(Invalid, match="it has neither the table"):
            has_pickles(database, TABLE)
        with pytest.raises(Invalid, match="not the name of a table"):
            has_pickles(database, 'x"; DROP TABLE y')
