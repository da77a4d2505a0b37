"""Small builders for the conformance tests of flows: a flow, a run of it, its steps."""

from __future__ import annotations

from datetime import timedelta
from hashlib import sha256
from textwrap import dedent
from typing import TYPE_CHECKING, Any

from duebook.engine.advancer import Advancer
from duebook.ids import new_id
from duebook.model.flow import Revision
from duebook.model.flow_target import FlowTarget
from tests.conformance.builders import BEGIN, MINUTE, claim, settle

if TYPE_CHECKING:
    from duebook.model.run import Claim, Run
    from duebook.store.base import Store, Tx

FOR_EVER = timedelta(days=36_500)
CHAIN = """
name: chain
steps:
  - {name: one, command: "true"}
  - {name: two, command: "true"}
"""


def attend(
    store: Store, session_id: str = "reader", lease: timedelta = FOR_EVER, wakes: bool = False
) -> None:
    """Let somebody read the directory of the flows, as of now."""

    def work(tx: Tx) -> None:
        term = tx.take_directory("default", "flows", session_id, lease)
        assert term is not None
        until = tx.now + timedelta(hours=1) if wakes else None
        tx.mark_scanned("default", "flows", session_id, term, until)

    store.transact(work)


def put_flow(store: Store, text: str, name: str = "chain") -> str:
    """The text of a file as the revision in force; returns its digest."""
    source = dedent(text)
    digest = sha256(source.encode()).hexdigest()
    revision = Revision(name, f"flows/{name}.yaml", digest, source)
    attend(store)
    store.transact(lambda tx: tx.save_flows("default", [revision]))
    return digest


def start(store: Store, name: str = "chain", /, **params: Any) -> str:
    """A run of a flow by hand; returns its id."""
    run_id = new_id()
    target = FlowTarget(name, tuple(params.items()))
    store.transact(lambda tx: tx.start_flow(run_id, "default", target, 0, "manual"))
    return run_id


UNMET = "its condition `${STAGE}` was `dev`, not `prod`"
GUARDED = """
name: guarded
preconditions: [{condition: "${STAGE}", expected: prod}]
env: {STAGE: dev}
steps: [{name: work, command: "true"}]
"""
PARTLY = """
name: partly
env: {STAGE: dev}
steps:
  - {name: work, command: "true", preconditions: [{condition: "${STAGE}", expected: prod}]}
  - {name: after, command: "true"}
"""


def leave_out(store: Store) -> None:
    """Perform what is claimable as if its conditions were not met, until nothing is left."""
    Advancer(store).step()
    while claims := claim(store):
        for claimed in claims:
            settle(store, claimed.token, "cancelled", reason="precondition", error=UNMET)
        Advancer(store).step()


def steps_of(store: Store, run_id: str) -> dict[str, Run]:
    runs = store.read(lambda tx: tx.list_steps_of(run_id))
    return {run.step: run for run in runs if run.step is not None}


def claim_steps(store: Store, session_id: str = "node-1") -> dict[str, Claim]:
    return {claimed.run.step or "": claimed for claimed in claim(store, session_id)}


__all__ = [
    "BEGIN",
    "CHAIN",
    "GUARDED",
    "MINUTE",
    "PARTLY",
    "UNMET",
    "attend",
    "claim_steps",
    "leave_out",
    "put_flow",
    "settle",
    "start",
    "steps_of",
]
