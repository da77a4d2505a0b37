"""Real nodes beside work of namespaces that they do not serve."""

from __future__ import annotations

from duebook.book import Book
from tests.support.node_checks import wait_for_success
from tests.support.nodes import QUICK, World, world

__all__ = ["world"]  # the fixture


def test_a_node_of_one_namespace_leaves_the_work_of_others_alone(world: World) -> None:
    staging, prod = (Book(world.book.store, name) for name in ("staging", "prod"))
    for book in (staging, prod):
        name = f"deploy-{book.namespace}"
        target = {"shell": QUICK, "env": {"WORK_MARK": world.mark}}
        book.schedules.create(name, trigger={"cron": "0 0 29 2 *"}, target=target)
    waits = prod.schedules.trigger("deploy-prod").id
    roles = ("--roles", "scheduler,worker")
    node = world.start("--namespace", "staging", "up", *roles).wait_ready()
    assert "serves namespace staging" in node.output.splitlines()
    own = staging.schedules.trigger("deploy-staging").id
    wait_for_success(staging, own)
    assert prod.runs.get(waits).status == "queued"
    status = world.cli("status")
    assert status.returncode == 1
    assert 'runs are waiting in namespace "prod", which no live node serves' in " ".join(
        status.stdout.split()
    )
    other = world.start("up", *roles, "--serve", "prod,test").wait_ready()
    assert "serves namespaces prod, test" in other.output.splitlines()
    wait_for_success(prod, waits)
    begun = {evidence.schedule: evidence.node for evidence in world.evidence("start")}
    assert begun == {"deploy-staging": node.mark, "deploy-prod": other.mark}
