"""`duebook doctor` on a SQLite file whose disk, size or backups really are in that state."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.disks import MIB, fill, large_disk, leave_free, small_disk
from tests.support.nodes import World, open_world, world
from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["world"]  # the fixture

DAYS_AGO = """\
import sys
from datetime import timedelta
import duebook.clock
now, ago = duebook.clock.utc_now, timedelta(days=float(sys.argv.pop(1)))
vars(duebook.clock)["utc_now"] = lambda: now() - ago
from duebook.cli import main
main()
"""
"""The command line on a machine whose clock is so many days behind."""


def examine(world: World) -> dict[str, dict[str, Any]]:
    """Every line of doctor, by its check."""
    return _by_check(world.cli("doctor", "--json"))


def _by_check(result: subprocess.CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    assert result.stderr == ""
    return {one["check"]: one for one in json.loads(result.stdout)["checkups"]}


def days_ago(world: World, days: float, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603
        [sys.executable, "-c", DAYS_AGO, str(days), *world.cli_argv()[3:], *words],
        env=world.env,
        cwd=world.folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


# -- the disk


@pytest.fixture
def on_small_disk(tmp_path: Path) -> Iterator[World]:
    with small_disk(tmp_path / "disk", 112 * MIB) as disk, open_world(tmp_path) as world:
        world.path = disk / "books.db"
        world.add("job", "true")
        yield world


def test_a_full_disk_is_a_problem_until_there_is_space_again(on_small_disk: World) -> None:
    world = on_small_disk
    assert examine(world)["disk"]["level"] == "ok"
    ballast = fill(world.path.parent)
    found = examine(world)["disk"]
    assert found["level"] == "problem"
    assert found["message"].startswith("0 bytes of 112.0 MB are free")
    assert found["remedy"] == "free space, or move the file to another disk"
    assert world.cli("doctor").returncode == 1
    ballast.unlink()
    found = examine(world)["disk"]
    assert found["level"] == "ok", found


def test_a_file_that_no_full_disk_lets_open_is_told_as_such(on_small_disk: World) -> None:
    """Without another process that has the file open, SQLite has to write to open it."""
    world = on_small_disk
    world.close()
    ballast = fill(world.path.parent)
    result = world.cli("doctor", "--json")
    assert result.returncode == 1
    (found,) = _by_check(result).values()
    assert (found["check"], found["level"]) == ("disk", "problem")
    assert found["message"].endswith("cannot be written: the disk is full")
    assert found["remedy"] == "free space, or move the file to another disk"
    told = world.cli("ls")
    assert (told.returncode, "the disk is full" in told.stderr) == (4, True)
    ballast.unlink()
    assert examine(world)["disk"]["level"] == "ok"


def test_a_disk_with_little_left_is_a_warning(tmp_path: Path) -> None:
    with large_disk(tmp_path / "disk", 3_000 * MIB) as disk, open_world(tmp_path) as world:
        world.path = disk / "books.db"
        world.add("job", "true")
        assert examine(world)["disk"]["level"] == "ok"
        leave_free(disk, 120 * MIB)  # more than 100 MB, less than a twentieth
        found = examine(world)["disk"]
    assert found["level"] == "warning"
    assert found["remedy"] == "free space, or move the file to another disk"


# -- the file


def test_a_log_that_grows_and_unused_space_are_warned_of(world: World) -> None:
    """While a program keeps a transaction open, SQLite cannot take the log back into the file."""
    if shutil.disk_usage(world.folder).free < 1024 * MIB:
        pytest.skip(f"{world.folder} has less than 1 GB free")
    world.add("job", "true")
    log = world.path.with_name(f"{world.path.name}-wal")
    with closing(sqlite3.connect(world.path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM schedules").fetchall()
        with closing(sqlite3.connect(world.path)) as writer:
            writer.execute("CREATE TABLE ballast (what BLOB)")
            while log.stat().st_size <= 256 * MIB:
                writer.execute("INSERT INTO ballast VALUES (zeroblob(?))", (64 * MIB,))
                writer.commit()
            writer.execute("DROP TABLE ballast")
            writer.commit()
            found = examine(world)["database"]
            assert found["level"] == "warning"
            assert "its write-ahead log has grown to " in found["message"]
            assert "end programs that keep a transaction open" in found["remedy"]
            reader.execute("ROLLBACK")
            writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    found = examine(world)["database"]
    assert found["level"] == "warning"
    assert "MB of it is unused" in found["message"]
    assert found["remedy"] == f"stop the nodes and run: sqlite3 {world.path} VACUUM"
    world.close()
    with closing(sqlite3.connect(world.path)) as connection:
        connection.execute("VACUUM")
    assert examine(world)["database"]["level"] == "ok"


# -- backups


def test_a_file_without_a_backup_or_with_an_old_one_is_warned_of(world: World) -> None:
    copy = world.folder / "backup.db"
    added = days_ago(world, 10, "add", "job", "--every", "1h", "--", "true")
    assert added.returncode == 0, added.stderr
    new = _by_check(days_ago(world, 10, "doctor", "--json"))["backups"]
    assert (new["level"], new["message"]) == ("ok", "the database is less than a day old")
    none = _by_check(days_ago(world, 8, "doctor", "--json"))["backups"]
    assert none["level"] == "warning"
    assert none["message"].startswith("duebook db backup has not been used")
    assert none["remedy"].endswith("duebook db backup FILE")
    made = days_ago(world, 8, "db", "backup", str(copy))
    assert made.returncode == 0, made.stderr
    assert _by_check(days_ago(world, 8, "doctor", "--json"))["backups"]["level"] == "ok"
    old = examine(world)["backups"]
    assert (old["level"], "the last duebook db backup was 8 d ago" in old["message"]) == (
        "warning",
        True,
    )
    assert world.cli("db", "backup", str(copy)).returncode == 0
    assert examine(world)["backups"]["level"] == "ok"
    restored = world.cli("--database", str(copy), "ls", "--json")
    assert [one["name"] for one in json.loads(restored.stdout)] == ["job"]
