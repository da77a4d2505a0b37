"""Steps that only some workers can run: those with the labels, or those that know the task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from duebook.engine.advancer import Advancer
from duebook.store.values import SessionInfo
from tests.support.builders import LEASE, find_work
from tests.support.flow_builders import put_flow, start, steps_of

if TYPE_CHECKING:
    from duebook.book import Book
    from duebook.store.base import Store
    from duebook.store.values import Labels

FLOW = """
name: chain
steps:
  - {name: plain, command: "true", depends: []}
  - {name: train, command: "true", worker_selector: {gpu: a100, zone: "eu'1"}, depends: []}
  - {name: tell, task: reports.tell, depends: []}
"""
GPU = (("gpu", "a100"), ("size", "big"), ("zone", "eu'1"))


def begin(store: Store, labels: Labels = (), tasks: tuple[str, ...] = ()) -> str:
    name = f"node-{len(labels)}-{len(tasks)}"
    info = SessionInfo(name, "host", 1, "worker", "0", "2026a", tasks, ("default",), labels)
    store.transact(lambda tx: tx.nodes.begin_session(info, LEASE))
    return name


def claimed(store: Store, labels: Labels = (), tasks: tuple[str, ...] = ()) -> set[str | None]:
    session = begin(store, labels, tasks)
    claims = store.transact(
        lambda tx: tx.claims.claim(session, "default", 9, tasks, "default", labels)
    )
    return {claim.run.step for claim in claims}


@pytest.fixture
def run_id(store: Store) -> str:
    put_flow(store, FLOW)
    run_id = start(store)
    Advancer(store).step()
    assert set(steps_of(store, run_id)) == {"plain", "train", "tell"}
    return run_id


@pytest.mark.usefixtures("run_id")
@pytest.mark.parametrize(
    ("labels", "tasks", "steps"),
    [
        ((), (), {"plain"}),
        ((("gpu", "a100"),), (), {"plain"}),
        ((("gpu", "a100"), ("zone", "us")), (), {"plain"}),
        (GPU, (), {"plain", "train"}),
        (GPU, ("reports.tell",), {"plain", "train", "tell"}),
    ],
)
def test_a_step_with_labels_is_claimed_by_a_worker_that_has_all_of_them(
    store: Store, labels: Labels, tasks: tuple[str, ...], steps: set[str]
) -> None:
    assert claimed(store, labels, tasks) == steps


@pytest.mark.usefixtures("run_id")
def test_a_worker_that_does_not_fit_finds_no_work(store: Store) -> None:
    claimed(store)
    assert find_work(store, ["default"]).places == ()
    work = store.look_for_work(["default"], (), GPU)
    assert work.places == (("default", "default"),)
    assert store.read(lambda tx: tx.claims.list_work(["default"], (), GPU)) == work


def test_a_step_that_no_worker_fits_says_what_it_waits_for(
    book: Book, store: Store, run_id: str
) -> None:
    assert book.flows.get("chain").waits == (
        'step "tell": no worker is running',
        'step "train": no worker is running',
    )
    begin(store)
    assert book.flows.get("chain").waits == (
        'step "tell": no live worker knows task "reports.tell"',
        'step "train": it needs a worker with gpu=a100, zone=eu\'1, and no live worker has them',
    )
    begin(store, GPU, ("reports.tell",))
    assert book.flows.get("chain").waits == ()
    book.runs.cancel(run_id)
    assert book.flows.get("chain").waits == ()


def test_the_labels_of_nodes_are_told(book: Book, store: Store) -> None:
    begin(store, GPU)
    assert [node.labels for node in book.nodes.list()] == [dict(GPU)]
