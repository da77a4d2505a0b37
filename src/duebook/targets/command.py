"""Executes command targets: which program, with which environment, and how it ended."""

from __future__ import annotations

import json
import os
import re
import signal
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal

from duebook.errors import Invalid
from duebook.model.run import Outcome
from duebook.model.stopping import DEFAULT_SIGNAL
from duebook.model.target import CommandTarget, payload_variables
from duebook.targets.output_refs import VARIABLE
from duebook.targets.processes import Stop, supervise
from duebook.targets.templates import interval_texts
from duebook.targets.trace_context import TRACEPARENT
from duebook.timetext import format_instant

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from duebook.model.run import Claim
    from duebook.targets.output_refs import OutputRefs
    from duebook.targets.processes import Exit
    from duebook.targets.spawner import Spawner

__all__ = ["GRACE", "LONGEST_VARIABLE", "environment", "outcome_of", "perform_command", "size_of"]

LONGEST_VARIABLE: Final = 130_000
"""Bytes; longer ones are left out, as the kernel would refuse to start a program with them."""
GRACE: Final = 5.0
"""Seconds between asking a command to end and killing it, unless its target says otherwise."""
MOST_NAMED: Final = 5
"""Maximum number of variables that a hint names."""
_VARIABLE: Final = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)")


def perform_command(
    claim: Claim,
    spawner: Spawner,
    stop: Stop,
    output: Callable[[Literal["stdout", "stderr"], bytes], None],
    refs: OutputRefs,
) -> Outcome:
    """Run the command to its end; all its descendants end with it."""
    target = claim.spec.target
    assert isinstance(target, CommandTarget)  # noqa: S101 - the performer has looked
    argv = target.argv if target.shell is None else ("/bin/sh", "-c", target.shell)
    timeout = claim.spec.timeout
    try:
        variables = environment(claim, spawner.setup.inherited) | {VARIABLE: refs.path(claim)}
        process = spawner.spawn(argv, variables, target.cwd)
    except Invalid as error:
        return Outcome("failed", "invalid", str(error))
    ended = supervise(
        process,
        output,
        stop,
        timeout=None if timeout is None else timeout.total_seconds(),
        grace=GRACE if target.stop_grace is None else target.stop_grace.total_seconds(),
        stop_signal=signal.Signals[target.stop_signal or DEFAULT_SIGNAL],
    )
    outcome = refs.outcome(outcome_of(ended), variables[VARIABLE])
    return _with_hint(outcome, claim, argv, spawner.setup.inherited)


def _with_hint(
    outcome: Outcome, claim: Claim, argv: Sequence[str], inherited: Mapping[str, str]
) -> Outcome:
    """Adds a hint if a command failed whose text uses variables of the node that it did not get."""
    if outcome.reason != "exit_code":
        return outcome
    given = environment(claim, inherited)
    named = dict.fromkeys(name for word in argv for name in _VARIABLE.findall(word))
    text = "\n".join(argv)
    missing = [
        name
        for name in named
        if name in os.environ and name not in given and f"{name}=" not in text
    ]
    if not missing:
        return outcome
    names, flags = " and ".join(missing[:MOST_NAMED]), ",".join(missing[:MOST_NAMED])
    told = f"the node does not pass {names} to commands; start it with --pass-env {flags}"
    return replace(outcome, error=f"{outcome.error}; {told}")


def outcome_of(ended: Exit) -> Outcome:
    """The outcome of a run, from the end of its process."""
    if ended.error is not None:
        return Outcome("failed", "not_started", ended.error)
    if ended.stopped == "timeout":
        return Outcome("failed", "timeout", "it took longer than its timeout", ended.code)
    if ended.stopped is not None:  # it was stopped, however it reacted to that
        return Outcome("cancelled", ended.stopped, None, ended.code)
    if ended.signal is not None:
        name = _signal_name(ended.signal)
        return Outcome("failed", "signal", f"ended by {name}", 128 + ended.signal)
    if ended.code != 0:
        return Outcome("failed", "exit_code", f"exit code {ended.code}", ended.code)
    return Outcome("succeeded", exit_code=0)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def environment(claim: Claim, inherited: Mapping[str, str]) -> dict[str, str]:
    """The variables of the node that commands get, the target's, and those about the run.

    Payload values arrive as variables and are never pasted into a command.
    """
    run = claim.run
    payload, interval = claim.payload, interval_texts(run.interval)
    variables = dict(inherited)
    if isinstance(claim.spec.target, CommandTarget):
        variables |= dict(claim.spec.target.env)
    variables |= {
        "DUEBOOK_RUN_ID": run.id,
        "DUEBOOK_ATTEMPT": str(run.attempt),
        "DUEBOOK_SCHEDULE": run.schedule or "",
        "DUEBOOK_NAMESPACE": run.namespace,
        "DUEBOOK_DUE_AT": format_instant(run.due_at or run.created_at),
        "DUEBOOK_INTERVAL_START": interval["start"] or "",
        "DUEBOOK_INTERVAL_END": interval["end"] or "",
        "DUEBOOK_NOW": format_instant(claim.started_at or run.created_at),
        "DUEBOOK_USER": claim.user,
        "DUEBOOK_REQUESTED_BY": run.requested_by or "",
        "DUEBOOK_PAYLOAD": json.dumps(payload),
    }
    if claim.traceparent is not None:
        variables[TRACEPARENT] = claim.traceparent
    names = payload_variables(payload)
    variables |= {names[key]: _text(value) for key, value in payload.items()}
    return {name: text for name, text in variables.items() if size_of(text) <= LONGEST_VARIABLE}


def size_of(text: str) -> int:
    """Bytes that a variable or an argument takes."""
    return len(text) if text.isascii() else len(os.fsencode(text))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
