"""Nodes whose database fails over, goes read-only or falls silent: they come back by themselves,
say once what they wait for, and never work on what others have taken over."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING

import psycopg
import pytest

from duebook.errors import Unavailable
from tests.support.node_checks import add_seconds, check_books, said
from tests.support.nodes import BEATING, HELD, LEASE, World, open_world
from tests.support.postgres import PASSWORD, USER, Server
from tests.support.proxy import Proxy
from tests.support.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BACK = "the database is available again, after "
WAITS = re.compile("WARNING .* retrying until it is available")
"""A loop of a node says so, and then that it is over; who settles a run only tries again."""


@pytest.fixture
def primary() -> Iterator[Server]:
    opened = Server(durable=True)
    yield opened
    opened.close()


@pytest.fixture
def standby(primary: Server) -> Iterator[Server]:
    """It has everything that the primary has acknowledged."""
    opened = Server(durable=True, primary=primary)
    primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
    primary.execute("SELECT pg_reload_conf()")
    yield opened
    opened.close()


def test_nodes_go_on_by_themselves_after_a_failover_to_a_standby(
    tmp_path: Path, primary: Server, standby: Server
) -> None:
    hosts = ",".join(f"127.0.0.1:{server.port}" for server in (primary, standby))
    url = f"postgresql://{USER}:{PASSWORD}@{hosts}/postgres"
    with open_world(tmp_path, url) as world:
        add_seconds(world, "job")
        nodes = [world.node(lease=LEASE), world.node(lease=LEASE)]
        world.wait_for_more("job", 3)
        primary.stop(signal.SIGQUIT)
        for node in nodes:
            eventually(lambda node=node: said(node, "the server is read-only"))  # type: ignore[misc]
        standby.promote()
        world.wait_for_more("job", int(2 * LEASE) + 2)
        check_books(world, ["job"])
        for node in nodes:
            waiting = said(node, "retrying until it is available")
            assert len(waiting) == len({line.partition(" WARNING ")[2] for line in waiting})
            assert f"at 127.0.0.1:{primary.port} " in node.log
            assert "a standby must be promoted" in node.log
            eventually(lambda node=node: said(node, BACK))  # type: ignore[misc]
            assert PASSWORD not in node.log


def test_a_node_whose_server_was_made_read_only_says_so_and_goes_on_afterwards(
    tmp_path: Path, primary: Server
) -> None:
    url = primary.url("postgres", host="127.0.0.1")
    with open_world(tmp_path, url) as world:
        add_seconds(world, "job")
        node = world.node(lease=LEASE)
        world.wait_for_more("job", 2)
        with psycopg.connect(primary.url("postgres"), autocommit=True) as admin:
            admin.execute("ALTER SYSTEM SET default_transaction_read_only = on")
            admin.execute("SELECT pg_reload_conf()")
            eventually(lambda: [*filter(WAITS.search, said(node, "the server is read-only"))])
            admin.execute("SET default_transaction_read_only = off")
            admin.execute("ALTER SYSTEM RESET ALL")
            admin.execute("SELECT pg_reload_conf()")
        world.wait_for_more("job", 3)
        check_books(world, ["job"])
        eventually(lambda: said(node, BACK), told=lambda: node.log)


def test_a_run_that_ends_while_the_database_is_gone_is_settled_when_it_is_back(
    tmp_path: Path, primary: Server
) -> None:
    """As long as the lease lasts nobody else has begun it anew; and the outage is told once."""
    with open_world(tmp_path, primary.url("postgres", host="127.0.0.1")) as world:
        world.add("job", HELD)
        add_seconds(world, "tick")  # so that the outage is noticed soon
        node = world.node(lease=2 * PATIENCE)
        run = world.trigger("job")
        world.wait_evidence("start", "job")
        primary.stop(signal.SIGINT)
        world.go.touch()
        world.wait_evidence("end", "job")
        eventually(lambda: said(node, "retrying until it is available"))
        eventually(lambda: said(node, " DEBUG "))  # the settle was tried
        primary.start()
        eventually(lambda: said(node, BACK))
        eventually(lambda: complete(world, run))
        assert world.book.runs.get(run).attempt == 1
        assert len(said(node, BACK)) == 1
        waiting = said(node, "retrying until it is available")
        assert len(waiting) == len({line.partition(" WARNING ")[2] for line in waiting})


def complete(world: World, run: str) -> bool:
    try:
        return world.status(run) == "succeeded"
    except Unavailable:
        return False


def test_a_node_in_a_silent_network_stops_its_work_before_another_takes_it_over(
    tmp_path: Path, primary: Server
) -> None:
    """Nothing is refused and nothing ends: only its own clock tells it."""
    url = primary.url("postgres", host="127.0.0.1")
    with open_world(tmp_path, url) as world, Proxy(primary.port) as proxy:
        printing = BEATING.replace("say beat", "say beat; echo a line of the log")
        world.add("job", printing, overlap="skip")
        cut_off = world.node(url.replace(str(primary.port), str(proxy.port)), lease=3 * LEASE)
        run = world.trigger("job")
        world.wait_evidence("beat", "job")
        world.node(lease=3 * LEASE)
        proxy.mode = "blackhole"
        eventually(lambda: any(e.attempt == 2 for e in world.evidence("start", "job")))
        first = [e.at for e in world.evidence() if e.attempt == 1]
        (second,) = [e.at for e in world.evidence("start", "job") if e.attempt == 2]
        assert max(first) < second, "the first was at an end before"
        lost = "lost its session: the lease could not be renewed in time"
        eventually(lambda: said(cut_off, lost))
        eventually(lambda: said(cut_off, "check that the server is running"))
        proxy.mode = "pass"
        eventually(lambda: said(cut_off, BACK))
        eventually(lambda: said(cut_off, "this node continues as session"))
        world.go.touch()
        world.wait_for(run, "succeeded")
        assert world.book.runs.get(run).attempt == 2
        assert {e.attempt for e in world.evidence("end", "job")} == {2}
