"""What import commands say of sources that cannot be read."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.cli import Cli

KINDS = ["crontab", "systemd", "kubernetes", "apscheduler", "celery", "dagu"]
OF_FILES = ["crontab", "systemd", "kubernetes"]
TABLES = {"apscheduler": "apscheduler_jobs", "celery": "django_celery_beat_periodictask"}


def refused(cli: Cli, *words: str) -> str:
    result = cli("import", *words)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    return " ".join(result.stderr.split())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "jobs").mkdir()
    return tmp_path / "jobs"


@pytest.fixture
def locked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that may not be read; root may read all."""
    (folder / "locked").mkdir()
    scan, lists = os.scandir, os.listdir

    def denied(path: object) -> bool:
        return Path(str(path)).name == "locked"

    def raising(path: object) -> object:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", lambda p=".": raising(p) if denied(p) else scan(p))
    monkeypatch.setattr(os, "listdir", lambda p=".": raising(p) if denied(p) else lists(p))
    return folder / "locked"


@pytest.mark.parametrize("kind", KINDS)
def test_a_name_that_is_too_long_is_refused(cli: Cli, kind: str) -> None:
    assert "File name too long" in refused(cli, kind, "x" * 5_000)


@pytest.mark.parametrize("kind", OF_FILES)
def test_a_directory_that_may_not_be_read_is_refused(cli: Cli, locked: Path, kind: str) -> None:
    assert f"{locked}: Permission denied" in refused(cli, kind, str(locked))


def test_a_directory_below_that_may_not_be_read_is_named(cli: Cli, locked: Path) -> None:
    (locked.parent / "job").write_text("0 3 * * * backup\n")
    result = cli("import", "crontab", str(locked.parent), "--dry-run")
    assert result.exit_code == 0
    assert f"left out: {locked}: Permission denied" in " ".join(result.stderr.split())


@pytest.mark.parametrize("kind", TABLES)
def test_a_directory_is_not_a_database(cli: Cli, folder: Path, kind: str) -> None:
    assert f"{folder} is a directory" in refused(cli, kind, str(folder))


def test_a_file_is_not_a_directory_of_dagu(cli: Cli, folder: Path) -> None:
    (folder / "a.yaml").write_text("steps: []")
    assert "is not a directory" in refused(cli, "dagu", str(folder / "a.yaml"))


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///"])
@pytest.mark.parametrize("kind", TABLES)
def test_an_address_without_a_file_is_refused(cli: Cli, kind: str, url: str) -> None:
    assert "the address names no file" in refused(cli, kind, url)


@pytest.mark.parametrize("kind", TABLES)
def test_a_table_that_cannot_be_read_is_named(cli: Cli, folder: Path, kind: str) -> None:
    file = folder / "jobs.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(f"CREATE VIEW {TABLES[kind]} AS SELECT * FROM gone")  # noqa: S608
    told = f"table {TABLES[kind]} cannot be read: no such table: main.gone"
    assert told in refused(cli, kind, str(file), "--yes")


def test_a_text_that_is_not_utf_8_hides_no_other_row(cli: Cli, folder: Path) -> None:
    file = folder / "jobs.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(
            "CREATE TABLE apscheduler_jobs (id TEXT, next_run_time REAL, job_state BLOB);"
            "INSERT INTO apscheduler_jobs VALUES (CAST(x'ff61' AS TEXT), 1, x'80'), ('b', 1, x'80')"
        )
    told = refused(cli, "apscheduler", str(file), "--yes")
    assert told.count("left out: ") == 2


def test_a_file_that_cron_skips_because_of_its_name_is_named(cli: Cli, folder: Path) -> None:
    for name in ("job.bak", ".placeholder"):
        (folder / name).write_text("0 3 * * * backup\n")
    told = refused(cli, "crontab", str(folder))
    assert f"left out: {folder}/job.bak: cron skips it, too, because of its name" in told
    assert ".placeholder" not in told


def test_what_is_left_out_is_named_once_and_by_its_line(cli: Cli, folder: Path) -> None:
    (folder / "a.yaml").write_text("kind: CronJob\nspec: 5\n")
    (folder / "b.yaml").write_text("kind: CronJob\n a: [\n")
    told = refused(cli, "kubernetes", str(folder))
    assert f"left out: {folder}/a.yaml:1: a CronJob without a name: " in told
    assert f"left out: {folder}/b.yaml:2:3: invalid YAML" in told
    (folder / "c.timer").write_text("[Timer\nOnCalendar=daily\n")
    (folder / "c.service").write_text("[Service]\nExecStart=/bin/true\n")
    assert "c.timer: it has no times, such as OnCalendar=" in refused(cli, "systemd", str(folder))
