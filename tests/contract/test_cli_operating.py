"""Draining nodes, keeping history and restoring a database on the command line."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from duebook.store.sqlite import SqliteStore
from tests.support.builders import begin

if TYPE_CHECKING:
    from tests.support.cli import Cli

ANYWHERE = True


def nodes(cli: Cli, *session_ids: str) -> None:
    with closing(SqliteStore(cli.path)) as store:
        for session_id in session_ids:
            begin(store, session_id, node="worker-3", pid=len(session_id))


def test_a_node_is_drained_and_let_go(cli: Cli) -> None:
    cli.ok("add", "job", "--every", "1h", "--", "true")
    nodes(cli, "one")
    assert cli.ok("drain", "worker-3") == (
        "draining worker-3:3: 0 runs running\nundo: duebook undrain worker-3:3\n"
    )
    assert cli.ok("nodes").splitlines()[1].split()[:4] == ["worker-3", "3", "worker", "draining"]
    drained = cli.json("drain", "worker-3", "--stop")
    assert drained["draining_at"] is not None
    assert drained["stops_when_idle"] is True
    assert "draining, stops" in cli.ok("nodes")
    assert cli.ok("undrain", "worker-3:3") == "worker-3:3 starts runs again\n"
    assert "draining" not in cli.ok("nodes")
    again = cli("undrain", "worker-3")
    assert (again.exit_code, "node worker-3:3 is not draining" in again.output) == (1, True)
    unknown = cli("drain", "ghost")
    assert unknown.exit_code == 3
    assert 'node "ghost" does not exist; live nodes: worker-3:3' in " ".join(unknown.output.split())


def test_a_name_that_several_nodes_have_is_not_enough(cli: Cli) -> None:
    cli.ok("add", "job", "--every", "1h", "--", "true")
    nodes(cli, "one", "three")
    refused = cli("drain", "worker-3")
    assert refused.exit_code == 1
    assert "use one of worker-3:3, worker-3:5" in " ".join(refused.output.split())


def test_a_namespace_keeps_its_runs_for_another_time(cli: Cli) -> None:
    assert cli.ok("namespace", "keep", "shop", "365d") == "runs of shop are kept for 365d\n"
    (use,) = cli.json("namespace", "ls")
    assert (use["name"], use["keep"]) == ("shop", "365d")
    asked = cli("namespace", "keep", "shop", "30d")
    assert asked.exit_code != 0
    assert "delete runs of shop that are older than 30d? [y/N]" in asked.output
    assert "cannot ask for confirmation here; add --yes" in asked.output
    assert cli.json("namespace", "keep", "shop", "30d", "--yes")["keep"] == "30d"
    assert cli.ok("namespace", "keep", "*", "10d", "--yes") == (
        "runs of all namespaces without a keep of their own are kept for 10d\n"
    )
    assert "delete runs of shop" in cli("namespace", "keep", "shop", "--default").output
    assert cli.ok("namespace", "keep", "shop", "--default", "--yes").endswith("kept for 10d\n")
    assert cli.ok("namespace", "ls").splitlines()[0].endswith("KEEP")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("shop",), "give either a LENGTH, such as 30d, or --default"),
        (("shop", "30d", "--default"), "give either a LENGTH, such as 30d, or --default"),
        (("shop", "5m"), "LENGTH 5m is not between 1h and 3650d"),
    ],
)
def test_a_keep_that_is_none_is_refused(cli: Cli, words: tuple[str, ...], told: str) -> None:
    refused = cli("namespace", "keep", *words)
    assert refused.exit_code == 2
    assert told in refused.output
