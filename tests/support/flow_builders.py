"""Small builders for tests of flows: a flow, a directory of them, a run and its steps."""

from __future__ import annotations

import json
from datetime import timedelta
from hashlib import sha256
from textwrap import dedent
from typing import TYPE_CHECKING, Any

from duebook.book.flow_registry import FlowRegistry
from duebook.engine.advancer import Advancer
from duebook.flows.sync import FlowSync
from duebook.ids import new_id
from duebook.model.flow import Revision
from duebook.model.flow_target import FlowTarget
from tests.support.builders import BEGIN, MINUTE, begin, claim, settle

if TYPE_CHECKING:
    from pathlib import Path

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
    """Record that a node reads the directory of the flows, as of now."""

    def work(tx: Tx) -> None:
        term = tx.directories.take_directory("default", "flows", session_id, lease)
        assert term is not None
        until = tx.now + timedelta(hours=1) if wakes else None
        tx.directories.mark_scanned("default", "flows", session_id, term, until)

    store.transact(work)


def put_flow(store: Store, text: str, name: str = "chain") -> str:
    """Save the text of a file as the current revision; returns its digest."""
    source = dedent(text)
    digest = sha256(source.encode()).hexdigest()
    revision = Revision(name, f"flows/{name}.yaml", digest, source)
    attend(store)
    store.transact(lambda tx: tx.flows.save_flows("default", [revision]))
    return digest


def start(store: Store, name: str = "chain", /, **params: Any) -> str:
    """Start a run of a flow manually; returns its id."""
    run_id = new_id()
    target = FlowTarget(name, tuple(params.items()))
    store.transact(lambda tx: tx.flow_runs.start_flow(run_id, "default", target, 0, "manual"))
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
    """Skip each claimable run as if its conditions were not met, until nothing is left."""
    Advancer(store).step()
    while claims := claim(store):
        for claimed in claims:
            settle(store, claimed.token, "cancelled", reason="precondition", error=UNMET)
        Advancer(store).step()


def steps_of(store: Store, run_id: str) -> dict[str, Run]:
    runs = store.read(lambda tx: tx.flow_runs.list_steps_of(run_id))
    return {run.step: run for run in runs if run.step is not None}


def claim_steps(store: Store, session_id: str = "node-1") -> dict[str, Claim]:
    return {claimed.run.step or "": claimed for claimed in claim(store, session_id)}


class Folder:
    """A directory of flows, and a node that manages it."""

    def __init__(self, path: Path, store: Store, *others: str, name: str = "flows") -> None:
        roots = [path / root for root in (name, *others)]
        for root in roots:
            root.mkdir(exist_ok=True)
        self.path, self._names = roots[0], [root.name for root in roots]
        self.registry = FlowRegistry(store, "default")
        self._sync = FlowSync(roots, self.registry)
        self._now = 0.0

    def write(self, name: str, text: str) -> None:
        (self.path / name).write_text(text)

    def queues(self) -> set[str]:
        """The queues of the current flows, and of the files as they were last read."""
        return self._sync.queues | self.registry.queues(self._names)

    def sync(self) -> list[tuple[str, str]]:
        """Step until every file is stable; returns the changes."""
        done: list[tuple[str, str]] = []
        self.registry.hold(self._names)
        for _ in range(4):
            done += [(change.kind, change.name) for change in self._sync.step(self._now).changes]
            self._now += 1.0
        return done


FORK = """
name: fork
params: {DAY: monday, SIZE: {default: 3}}
steps:
  - {name: good, command: "true"}
  - {name: bad, command: "false", depends: []}
  - {name: join, command: "true", depends: [good, bad]}
handler_on: {exit: "true"}
"""


def work(store: Store, **ends: str) -> list[str]:
    """Perform all work; returns the names of the steps that ran."""
    ran = []
    Advancer(store).step()
    while claims := claim(store):
        for claimed in claims:
            step = claimed.run.step or ""
            ran.append(step)
            status = ends.get(step, "succeeded")
            settle(store, claimed.token, status, output=json.dumps(step))  # type: ignore[arg-type]
        Advancer(store).step()
    return ran


GREET = """
name: greet
description: says hello
schedule: "0 2 * * *"
params: {WHO: world}
steps:
  - {name: think, command: "true"}
  - {name: say, command: 'echo "$WHO"', preconditions: ["false"]}
"""


PROBLEM = {
    "file": "flows/half.yaml",
    "line": 3,
    "column": 5,
    "key": "steps[0].retires",
    "message": "unknown key `retires`",
    "hint": "did you mean `retries`?",
}


__all__ = [
    "BEGIN",
    "CHAIN",
    "FORK",
    "GREET",
    "GUARDED",
    "MINUTE",
    "PARTLY",
    "PROBLEM",
    "UNMET",
    "Folder",
    "attend",
    "claim_steps",
    "leave_out",
    "put_flow",
    "settle",
    "start",
    "steps_of",
    "work",
]


DEPLOY = """
name: deploy
steps:
  - {name: build, command: "true"}
  - {name: ok, action: human.task, with: {prompt: "Deploy?"}}
  - {name: ship, command: "true"}
"""


def ask_person(store: Store, timeout: timedelta | None = None) -> str:
    """A run of the flow `deploy` that waits for a person; returns its id."""
    put_flow(store, DEPLOY, "deploy")
    run_id = start(store, "deploy")
    asker = f"asker of {run_id}"
    begin(store, asker, timedelta(hours=1))  # the machine may be busy
    for step in ("build", "ok"):
        Advancer(store).step()
        token = claim_steps(store, asker)[step].token
        if step == "build":
            settle(store, token)
    assert store.transact(lambda tx: tx.attempts.ask_person(token, "Deploy?", timeout))
    return run_id
