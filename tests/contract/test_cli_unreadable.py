"""Commands about a schedule with an unreadable definition, on a file and through a server."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from duebook.book import Book
from duebook.engine.ticker import Ticker
from duebook.store.sqlite import SqliteStore
from tests.support.builders import write_unreadable
from tests.support.cli import live

if TYPE_CHECKING:
    from tests.support.cli import Cli

ANYWHERE = True


@pytest.fixture
def broken(cli: Cli) -> str:
    for name in ("good", "job"):
        cli.ok("add", name, "--every", "1h", "--overlap", "queue", "--", "true")
    with closing(SqliteStore(cli.path)) as store:
        schedule_id = Book(store).schedules.get("job").id
        write_unreadable(store, schedule_id)
        store.transact(lambda tx: tx.plans.mark_problem(schedule_id, "", tx.now))  # it is due
        Ticker(store).step()
    live(cli)
    return "job"


def test_it_is_shown_everywhere(cli: Cli, broken: str) -> None:
    result = cli("status")
    assert result.exit_code == 1
    told = " ".join(result.stdout.split())
    assert told.startswith(f'problem schedule: schedule "{broken}" cannot be planned: the')
    assert told.endswith("not ready")
    form = cli.json("show", broken)
    assert "priority" in form["problem"]
    assert "trigger" not in form
    assert [line.split()[:2] for line in cli.ok("ls").splitlines()[1:]] == [
        ["good", "active"],
        ["job", "problem"],
    ]
    assert [one["name"] for one in cli.json("ls")] == ["good", "job"]
    assert "cannot be read" in cli.ok("show", broken)
    assert "cannot be read" in " ".join(cli.ok("explain", broken, "--at", "now").split())


def test_an_update_repairs_it(cli: Cli, broken: str) -> None:
    refused = cli("update", broken, "--timeout", "1m")
    assert refused.exit_code == 2
    assert "set priority again, or reset it" in " ".join(refused.output.split())
    dry = cli.json("update", broken, "--priority", "5", "--dry-run")
    assert (dry["after"]["priority"], dry["after"]["overlap"]) == (5, "queue")
    cli.ok("update", broken, "--reset", "priority")
    assert cli.json("show", broken)["problem"] is None
    assert cli.ok("status") == "ready\n"


def test_pause_resume_and_rm_work(cli: Cli, broken: str) -> None:
    assert cli.json("pause", broken)["status"] == "paused"
    assert cli.json("resume", broken)["status"] == "active"
    cli.ok("pause", "--text", "*", "--yes")
    cli.ok("rm", broken)
    assert [one["name"] for one in cli.json("ls")] == ["good"]
