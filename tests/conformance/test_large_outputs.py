"""Steps that print much: later steps get all of it or fail, but never a part."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from duebook.engine.advancer import Advancer
from duebook.engine.output_files import OutputFiles
from duebook.engine.steps import Ready, StepPreparer
from duebook.flows.flow_cache import FlowCache
from duebook.model.flow import MOST_OUTPUT_SIZE
from duebook.model.run import Outcome
from duebook.model.target import CommandTarget, EventTarget
from duebook.targets.command_setup import CommandSetup
from duebook.targets.spawner import Spawner
from tests.support.builders import begin, claim, get_run
from tests.support.flow_builders import put_flow, settle, start

if TYPE_CHECKING:
    from duebook.store.base import Store

LARGE = "\n".join(map(str, range(1, 60_001)))
FLOW = """
name: wide
steps:
  - {name: make, command: seq 1 60000, output: J}
  - {name: use, command: 'USE'}
"""
CALLED = """
name: outer
steps:
  - {name: inner, call: wide}
  - {name: use, event: {topic: lines, data: {text: "{{ steps.inner.output.J }}"}}}
"""


def prepared(store: Store, files: OutputFiles, use: str) -> Ready | Outcome:
    """The second step, after the first has printed 350 kB."""
    put_flow(store, FLOW.replace("USE", use), "wide")
    start(store, "wide")
    begin(store)
    Advancer(store).step()
    (make,) = claim(store)
    settle(store, make.token, output=json.dumps(LARGE))
    Advancer(store).step()
    (step,) = claim(store)
    assert step.step_context is not None
    return preparer(store).prepare(step, step.step_context, files)


def preparer(store: Store) -> StepPreparer:
    return StepPreparer(store, Spawner(CommandSetup({})), FlowCache())


def test_a_step_gets_a_large_output_as_a_file_while_it_runs(store: Store) -> None:
    with OutputFiles() as files:
        ready = prepared(store, files, 'tail -1 "${J.file}"')
        assert isinstance(ready, Ready)
        target = ready.claim.spec.target
        assert isinstance(target, CommandTarget)
        file = Path(dict(target.env)["J__file"])
        assert file.read_text() == LARGE
        assert file.parent.stat().st_mode & 0o077 == 0
    assert not file.parent.exists()


def test_a_step_that_names_a_large_output_itself_fails_with_the_remedy(store: Store) -> None:
    with OutputFiles() as files:
        told = prepared(store, files, 'printf %s "$J" | tail -1')
    assert isinstance(told, Outcome)
    assert (told.status, told.reason) == ("failed", "template")
    assert told.error == (
        f"J has {len(LARGE):,} bytes, too many for a variable of a program; "
        "use ${J.file}, the name of a file that contains it"
    )


def test_a_step_that_does_not_name_a_large_output_never_reads_it(store: Store) -> None:
    with OutputFiles() as files:
        ready = prepared(store, files, "date")
        assert isinstance(ready, Ready)
        target = ready.claim.spec.target
        assert isinstance(target, CommandTarget)
        assert "J" not in dict(target.env)


def test_a_called_flow_returns_a_large_output_to_its_caller(store: Store) -> None:
    put_flow(store, FLOW.replace("USE", "date"), "wide")
    put_flow(store, CALLED, "outer")
    outer = start(store, "outer")
    begin(store)
    Advancer(store).step()
    (calling,) = claim(store)
    assert calling.step_context is not None
    ready = preparer(store).prepare(calling, calling.step_context, OutputFiles())
    assert isinstance(ready, Outcome)
    call = ready.call
    assert call is not None
    assert store.transact(lambda tx: tx.flow_runs.call_flow(calling.token, call))
    Advancer(store).step()
    for output in (json.dumps(LARGE), None):
        (step,) = claim(store)
        settle(store, step.token, output=output)
        Advancer(store).step()
    inner = get_run(store, calling.run.id)
    assert inner.status == "succeeded"
    assert store.read(lambda tx: tx.runs.get_output(inner.id)) == {"J": LARGE}
    (step,) = claim(store)
    assert step.step_context is not None
    last = preparer(store).prepare(step, step.step_context, OutputFiles())
    assert isinstance(last, Ready)
    target = last.claim.spec.target
    assert isinstance(target, EventTarget)
    assert target.data == {"text": LARGE}
    assert get_run(store, outer).status == "running"


@pytest.mark.mostly_on_a_file
def test_a_called_flow_that_would_return_too_much_fails(store: Store) -> None:
    steps = "".join(f"  - {{name: s{n}, command: x, output: V{n}}}\n" for n in range(2))
    put_flow(store, f"name: wide\nmax_output_size: {MOST_OUTPUT_SIZE}\nsteps:\n{steps}", "wide")
    put_flow(store, "name: outer\nsteps: [{name: inner, call: wide}]", "outer")
    outer, alone = start(store, "outer"), start(store, "wide")
    begin(store)
    Advancer(store).step()
    for claimed in claim(store):
        if claimed.run.step == "inner":
            assert claimed.step_context is not None
            ready = preparer(store).prepare(claimed, claimed.step_context, OutputFiles())
            assert isinstance(ready, Outcome)
            call = ready.call
            assert call is not None
            store.transact(lambda tx: tx.flow_runs.call_flow(claimed.token, call))  # noqa: B023
            inner = claimed.run.id
        else:
            settle(store, claimed.token, output=json.dumps("x" * (MOST_OUTPUT_SIZE - 10)))
    Advancer(store).step()
    while claims := claim(store):
        for claimed in claims:
            settle(store, claimed.token, output=json.dumps("x" * (MOST_OUTPUT_SIZE - 10)))
        Advancer(store).step()
    found = get_run(store, inner)
    assert (found.status, found.reason) == ("failed", "output")
    assert found.error is not None
    assert f"at most {MOST_OUTPUT_SIZE:,} are returned to the flow that calls it" in found.error
    assert get_run(store, outer).status == "failed"
    root = get_run(store, alone)
    assert (root.status, root.output) == ("succeeded", None)
