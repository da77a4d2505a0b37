"""Tasks on the command line: outputs, progress, problems, and programs that it cannot load."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from duebook.book import Book
from duebook.model.run import Outcome, Progress
from duebook.store.opening import open_store
from tests.support.builders import add_run, add_schedule, begin

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from duebook.model.run import Claim
    from tests.support.cli import Cli

ANYWHERE = True


@pytest.fixture
def book(cli: Cli) -> Iterator[Book]:
    with Book(open_store(str(cli.path))) as opened:
        yield opened


def claimed(book: Book) -> Claim:
    """A running run of a task."""
    add_run(book.store, add_schedule(book.store, "etl", target="etl"))
    begin(book.store)
    (claim,) = book.store.transact(lambda tx: tx.claims.claim("node-1", "default", 1, ["etl"]))
    return claim


def test_progress_is_shown_while_a_run_is_under_way(cli: Cli, book: Book) -> None:
    claim = claimed(book)
    book.store.transact(
        lambda tx: tx.attempts.note_progress([(claim.token, Progress(0.4, "loading"))])
    )
    assert "40% loading" in cli.ok("runs")
    shown = cli.ok("show", claim.run.id)
    assert "task       etl" in shown
    assert "progress   40% loading" in shown
    assert "heartbeat  " in shown
    (run,) = cli.json("runs")
    assert (run["progress"], run["progress_text"]) == (0.4, "loading")


def test_an_output_is_shown(cli: Cli, book: Book) -> None:
    claim = claimed(book)
    outcome = Outcome("succeeded", output='{"rows": 3}', output_ref="s3://there")
    book.store.transact(lambda tx: tx.attempts.settle(claim.token, outcome))
    shown = cli.ok("show", claim.run.id)
    assert 'output      {"rows": 3}' in shown
    assert "output ref  s3://there" in shown
    assert cli.json("show", claim.run.id)["output"] == {"rows": 3}


def test_a_task_that_no_live_worker_knows_is_a_problem(cli: Cli, book: Book) -> None:
    add_schedule(book.store, "etl", target="etl")
    assert "problem" in cli.ok("ls")
    assert 'no live worker knows task "etl"' in cli.ok("show", "etl")
    assert cli("runs").stderr == ""
    book.enqueue("etl")
    assert (
        cli("runs").stderr == 'note: runs are waiting for task "etl", which no live worker knows\n'
    )


@pytest.mark.on_file
@pytest.mark.parametrize(
    ("app", "told"),
    [
        ("reports", 'app "reports" is not in the form MODULE:BOOK, such as reports:book'),
        ("no_such_module:book", 'app: there is no module "no_such_module" in '),
        ("duebook:book", "app: duebook:book is not a Duebook but a module"),
        ("a_program:boook", "app: there is no a_program:boook; did you mean a_program:book?"),
        ("a_broken_program:book", "cannot be imported: RuntimeError: no luck"),
    ],
)
def test_a_program_that_cannot_be_used_is_refused_in_a_line(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, app: str, told: str
) -> None:
    (tmp_path / "a_program.py").write_text("from duebook import Duebook\nbook = Duebook()\n")
    (tmp_path / "a_broken_program.py").write_text("raise RuntimeError('no luck')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    result = cli("worker", app)
    assert result.exit_code == 2
    assert told in result.stderr.splitlines()[-1]


def test_a_schedule_of_a_task_is_added_and_changed(cli: Cli) -> None:
    cli.ok("add", "news", "--daily", "07:00", "--task", "digest", "--payload", '{"to": "all"}')
    assert cli.json("show", "news")["target"] == {"task": "digest"}
    cli.ok("update", "news", "--task", "other")
    assert cli.json("show", "news")["target"] == {"task": "other"}
    result = cli("update", "news", "--task", "digest", "--", "true")
    assert result.exit_code == 2
    assert "--task NAME" in result.stderr
    assert cli("update", "news", "--task", "digest", "--method", "POST").exit_code == 2


def test_the_name_of_a_task_finds_the_runs_that_were_enqueued_for_it(cli: Cli, book: Book) -> None:
    first, second = book.enqueue("digest"), book.enqueue("digest")
    other = book.enqueue("other")
    assert [run["id"] for run in cli.json("runs", "digest")] == [second.id, first.id]
    assert [run["id"] for run in cli.json("runs", "digest", "--limit", "1")] == [second.id]
    told = cli("cancel", "digest")
    assert told.exit_code == 1
    assert 'task "digest" has 2 active runs; name one: ' in told.stderr
    cli.ok("cancel", first.id)
    assert cli.json("cancel", "digest")["id"] == second.id
    assert cli("cancel", "digest").stderr == 'error: task "digest" has no active run\n'
    assert "has printed nothing" in cli("logs", "digest").stderr
    assert cli.json("retry", "digest")["id"] == second.id
    assert [run["id"] for run in cli.json("runs", "other")] == [other.id]
    assert cli("runs", "stranger").exit_code == 3


def test_a_schedule_wins_over_a_task_of_its_name(cli: Cli, book: Book) -> None:
    book.enqueue("digest")
    cli.ok("add", "digest", "--every", "1h", "--task", "digest")
    assert cli.ok("runs", "digest") == "no runs yet\n"
