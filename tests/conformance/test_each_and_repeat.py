"""Steps that are executed again, and steps that call a flow for each of some items."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from duebook.engine.advancer import Advancer
from duebook.flows.each import each_target
from duebook.model.flow_target import FlowTarget
from duebook.model.repeat import Repeat
from duebook.model.run import Outcome
from tests.support.builders import begin, claim, get_run
from tests.support.flow_builders import CHAIN, put_flow, steps_of, work

if TYPE_CHECKING:
    from duebook.book import Book
    from duebook.model.run import Token
    from duebook.store.base import Store

FOR_EACH = """
name: outer
steps: [{name: load, call: load, parallel: [a, b], params: {FILE: "${ITEM}"}}]
"""
LOAD = """
name: load
params: [{FILE: none}]
steps: [{name: copy, command: "true", output: COPIED}]
"""


def count_done(store: Store, run_id: str) -> int:
    return store.read(lambda tx: tx.attempts.count_done(run_id))


def repeat(store: Store, token: Token) -> bool:
    outcome = Outcome("succeeded", exit_code=0, repeat=Repeat())
    return store.transact(lambda tx: tx.attempts.settle(token, outcome, timedelta()))


def call(store: Store, token: Token, target: FlowTarget) -> None:
    assert store.transact(lambda tx: tx.flow_runs.call_flow(token, target))


def test_an_execution_that_is_repeated_is_an_attempt_and_not_a_failure(
    book: Book, store: Store
) -> None:
    put_flow(store, CHAIN, "chain")
    run = book.flows.start("chain")
    begin(store)
    Advancer(store).step()
    for done in range(2):
        (claimed,) = claim(store)
        assert count_done(store, claimed.run.id) == done
        assert repeat(store, claimed.token)
    one = steps_of(store, run.id)["one"]
    assert (one.status, one.reason, one.attempt, one.failures) == ("queued", "repeat", 2, 0)
    assert [a.outcome for a in book.runs.attempts(one.id)] == ["succeeded", "succeeded"]
    assert work(store) == ["one", "two"]
    assert get_run(store, run.id).status == "succeeded"


def test_a_flow_for_each_item_is_made_up_beside_those_of_the_callers_file(
    book: Book, store: Store
) -> None:
    digest = put_flow(store, FOR_EACH, "outer")
    put_flow(store, LOAD, "load")
    run = book.flows.start("outer")
    begin(store)
    Advancer(store).step()
    (claimed,) = claim(store)
    made = each_target(FlowTarget("load"), ["a", "b"], 10, lambda item: {"FILE": item})
    call(store, claimed.token, made)
    kept = store.read(lambda tx: tx.flow_runs.flow_run(claimed.run.id))
    assert kept is not None
    assert (kept.digest, kept.params) == (
        digest,
        {"ITEM_1": {"FILE": "a"}, "ITEM_2": {"FILE": "b"}},
    )
    Advancer(store).step()
    for item in claim(store):
        call(store, item.token, FlowTarget("load", (("FILE", item.run.step),)))
    assert work(store) == ["copy", "copy"]
    assert get_run(store, run.id).status == "succeeded"
    found = book.runs.output(claimed.run.id)
    assert found["summary"] == {"total": 2, "succeeded": 2, "failed": 0}
    assert found["outputs"] == [{"COPIED": "copy"}, {"COPIED": "copy"}]
    assert [step.step for step in book.flows.explain(claimed.run.id).steps] == ["item-1", "item-2"]
