"""What commands report about namespaces that no node serves, on a file and through a server."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from duebook.model.serving import Serving
from duebook.store.sqlite import SqliteStore
from duebook.store.values import SessionInfo

if TYPE_CHECKING:
    from tests.support.cli import Cli

ANYWHERE = True
PROD = ("--namespace", "prod")
NOBODY = 'no live node serves namespace "prod"; start one with --serve prod'


def live(cli: Cli, *namespaces: str) -> None:
    """A node that plans, and works for some namespaces."""
    about = ("n", "host", 1, "scheduler,worker", "0", "2026a", (), ("default",))
    info = SessionInfo(*about, namespaces=Serving(namespaces))
    with closing(SqliteStore(cli.path)) as store:
        store.transact(lambda tx: tx.nodes.begin_session(info, timedelta(minutes=5)))


def test_status_names_a_namespace_whose_runs_nobody_serves(cli: Cli) -> None:
    live(cli, "staging")
    cli.ok(*PROD, "add", "deploy", "--every", "1h", "--", "true")
    told = 'problem namespace: no live node serves namespace "prod", which has active'
    assert cli("status").stdout.startswith(told)
    cli.ok(*PROD, "run", "deploy")
    result = cli("status")
    assert result.exit_code == 1
    told = 'problem namespace: runs are waiting in namespace "prod", which no live node serves'
    assert " ".join(result.stdout.split()).startswith(told)
    assert "duebook up --serve prod" in result.stdout
    found = cli("status", "--json").stdout
    assert '"namespace": false' in found
    assert cli.ok("--namespace", "staging", "status") == "ready\n"


def test_explain_and_show_name_a_namespace_that_nobody_serves(cli: Cli) -> None:
    live(cli, "staging", "test")
    cli.ok(*PROD, "add", "deploy", "--every", "1h", "--", "true")
    (coming,) = cli.json(*PROD, "preview", "deploy", "--count", "1")
    assert NOBODY in cli.json(*PROD, "explain", "deploy", "--at", coming)["text"]
    assert NOBODY in cli.ok(*PROD, "show", "deploy")
    assert cli.json(*PROD, "ls")[0]["problem"] == NOBODY


def test_add_notes_that_nobody_serves_the_namespace(cli: Cli) -> None:
    live(cli, "staging")
    result = cli(*PROD, "add", "deploy", "--every", "1h", "--", "true")
    assert result.exit_code == 0
    assert result.stderr == f"note: {NOBODY}\n"
    ours = ("--namespace", "staging", "add", "deploy", "--every", "1h", "--", "true")
    assert cli(*ours).stderr == ""


def test_nodes_are_listed_with_what_they_serve(cli: Cli) -> None:
    live(cli, "billing", "shop")
    assert cli.json("nodes")[0]["namespaces"] == ["billing", "shop"]
    table = cli.ok("nodes")
    assert "SERVES" in table
    assert "billing,shop" in table


@pytest.mark.on_file
def test_a_name_that_no_namespace_has_is_refused(cli: Cli) -> None:
    result = cli("up", "--serve", "shop,Prod", "--port", "0")
    assert result.exit_code == 2
    assert 'serve: namespace "Prod"' in result.stderr
