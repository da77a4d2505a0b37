"""The command line on a separate database."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner, Result

from duebook.cli import main
from duebook.store.sqlite import SqliteStore
from duebook.store.values import SessionInfo

if TYPE_CHECKING:
    from pathlib import Path


class Cli:
    """The command line on a separate database; `asks` are the flags that select the database."""

    def __init__(self, path: Path, *asks: str) -> None:
        self.path = path
        self._asks = asks or ("--database", str(path))
        self.by = "token:admin" if asks else "cli:"
        """how the name that the database records for its changes starts"""

    def __call__(self, *arguments: str) -> Result:
        return CliRunner().invoke(main, [*self._asks, *arguments])

    def ok(self, *arguments: str) -> str:
        result = self(*arguments)
        assert result.exit_code == 0, result.output
        return result.stdout

    def json(self, *arguments: str) -> Any:
        return json.loads(self.ok(*arguments, "--json"))


HOLIDAYS = ("calendar", "add", "holidays", "--date", "2099-12-25")
"""The calendar that a policy below uses."""

GIVEN: dict[str, tuple[tuple[str, ...], Any]] = {
    "title": (("--title", "Daily Cleanup"), "Daily Cleanup"),
    "description": (("--description", "nightly"), "nightly"),
    "labels": (("--label", "team=data", "--label", "tier=1"), {"team": "data", "tier": "1"}),
    "start_at": (("--start-at", "2099-01-01T00:00:00Z"), "2099-01-01T00:00:00Z"),
    "end_at": (("--end-at", "2099-02-01T00:00:00Z"), "2099-02-01T00:00:00Z"),
    "max_runs": (("--max-runs", "10"), 10),
    "jitter": (("--jitter", "5m"), "5m"),
    "exclude": (
        ("--exclude", "2099-12-24/2100-01-02", "--exclude", "2099-05-01"),
        ["2099-05-01", "2099-12-24/2100-01-02"],
    ),
    "calendar": (
        ("--calendar", "except:holidays:next"),
        {"except": "holidays", "roll": "next"},
    ),
    "grace": (("--grace", "5m"), "5m"),
    "catchup": (("--catchup", "all"), "all"),
    "catchup_window": (("--catchup-window", "6h"), "6h"),
    "catchup_limit": (("--catchup-limit", "7"), 7),
    "catchup_pace": (("--catchup-pace", "0s"), "0s"),
    "catchup_approval": (("--catchup-approval", "10"), 10),
    "overlap": (("--overlap", "latest"), "latest"),
    "skip_if_successful": (("--skip-if-successful",), True),
    "keep": (("--keep", "30d"), "30d"),
    "keep_last": (("--keep-last", "100"), 100),
    "on_resume": (("--on-resume", "catchup"), "catchup"),
    "depends_on": (
        ("--depends-on", "extract:1h", "--depends-on", "clean:2h:10m"),
        [
            {"schedule": "extract", "within": "1h"},
            {"schedule": "clean", "within": "2h", "wait": "10m"},
        ],
    ),
    "max_concurrent": (("--max-concurrent", "2"), 2),
    "queue": (("--queue", "heavy"), "heavy"),
    "priority": (("--priority", "-5"), -5),
    "retry": (
        (
            *("--retry", "5", "--retry-delay", "30s", "--retry-backoff", "1.5"),
            *("--retry-max-delay", "5m", "--retry-on", "75", "--retry-on", "timeout"),
            "--no-retry-jitter",
        ),
        {
            "attempts": 5,
            "delay": "30s",
            "backoff": 1.5,
            "max_delay": "5m",
            "jitter": False,
            "on": [75, "timeout"],
        },
    ),
    "max_takeovers": (("--max-takeovers", "0"), 0),
    "timeout": (("--timeout", "5m"), "5m"),
    "expire_after": (("--expire-after", "1h"), "1h"),
}


def live(cli: Cli) -> None:
    """Run a node that plans and works."""
    info = SessionInfo("n", "host", 1, "scheduler,worker", "0", "2026a", (), ("default",))
    with closing(SqliteStore(cli.path)) as store:
        store.transact(lambda tx: tx.nodes.begin_session(info, timedelta(minutes=5)))
