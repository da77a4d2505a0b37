"""Prepares steps of flows before they are executed: their values, conditions and outputs."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from duebook.engine.output_files import OutputFiles
from duebook.engine.step_places import FlowPlaces, named_outputs
from duebook.errors import Invalid, shorten
from duebook.flows.advance import flow_status
from duebook.flows.computed import computed_of, execute_commands
from duebook.flows.conditions import unmet
from duebook.flows.flow_cache import FlowCache, NoFlow
from duebook.flows.patterns import is_in_output
from duebook.flows.render import (
    Values,
    keeps_secrets,
    names_output,
    render_step,
    step_secrets,
    wanted_files,
)
from duebook.flows.variables import as_literal
from duebook.lazy_dataclasses import dataclass
from duebook.model.flow import CHECK, COMPUTE, MOST_OUTPUT_SIZE, HumanTask, Script, Step
from duebook.model.flow_run import MATCHED, Apart, StepEnd, StepState
from duebook.model.flow_target import FlowTarget
from duebook.model.run import Outcome
from duebook.model.secret_values import SecretValues, references_to
from duebook.model.target import CommandTarget, EventTarget
from duebook.targets.command import environment, outcome_of
from duebook.targets.hiding import hidden_outcome, variable_secrets
from duebook.targets.node_secrets import NodeSecrets, SecretFailed
from duebook.targets.processes import Stop, supervise
from duebook.targets.templates import TemplateFailed, interval_texts
from duebook.timetext import format_instant

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.flows.render import Rendered
    from duebook.model.flow import Flow
    from duebook.model.flow_run import StepContext
    from duebook.model.run import Claim
    from duebook.store.base import Store, Tx
    from duebook.targets.spawner import Spawner

    Write = Callable[[Literal["stdout", "stderr"], bytes], None]

__all__ = ["Printed", "Ready", "StepPreparer"]

CONDITION_TIME: Final = 60.0
"""Timeout in seconds for the command of a condition."""
MOST_ASKED: Final = 65_536
"""Maximum bytes of output of the command of a condition."""
MOST_TOLD: Final = 4_096
"""Last bytes of stderr of such a command that are kept for an error."""
MOST_WATCHED: Final = 1_000_000
"""Bytes of its output that `continue_on` searches."""


class Printed:
    """What a step writes to stdout, up to a limit, on its way to the log."""

    def __init__(self, write: Write, most: int) -> None:
        self._write = write
        self._most = most
        self._kept = bytearray()
        self.size = 0
        """number of bytes of all output"""

    def __call__(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        if stream == "stdout":
            self.size += len(data)
            self._kept += data[: max(self._most - len(self._kept), 0)]
        self._write(stream, data)

    @property
    def is_cut(self) -> bool:
        return self.size > self._most

    @property
    def text(self) -> str:
        return self._kept.decode(errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}")


@dataclass(frozen=True, slots=True)
class Ready:
    """A step that is ready to be executed: its claim has the target without templates."""

    claim: Claim
    step: Step
    most_output: int
    outputs: str | None = None
    """the file to which it writes its named outputs"""

    def watch(self, write: Write) -> Printed:
        most = self.most_output if self.step.output is not None else 0
        return Printed(write, max(MOST_WATCHED, most) if self.step.continue_on.output else most)

    def outcome(self, outcome: Outcome, printed: Printed) -> Outcome:
        """With what the step printed, and whether `continue_on` matches it."""
        wanted = self.step.continue_on.output
        if outcome.status == "failed" and wanted and is_in_output(printed.text, wanted):
            outcome = replace(outcome, reason=MATCHED)
        if self.outputs is not None:
            return named_outputs(outcome, self.outputs, self.step.outputs)
        if self.step.output is None or outcome.status == "cancelled":
            return outcome
        if outcome.output is not None:
            return _whole(outcome, self.step.output)
        if printed.size > self.most_output:
            return _refused(outcome, self._too_much(printed.size))
        return replace(outcome, output=json.dumps(printed.text.strip(), ensure_ascii=False))

    def _too_much(self, size: int) -> str:
        most, name = self.most_output, self.step.output
        told = f"it printed {size:,} bytes into {name}, which holds at most {most:,}"
        if most < MOST_OUTPUT_SIZE:
            return f"{told}; raise max_output_size, up to {MOST_OUTPUT_SIZE:,}, or print less"
        return f"{told}; write a file instead, and print its name"


def _whole(outcome: Outcome, name: str) -> Outcome:
    """A response of which only the beginning was kept must not become an output."""
    form = json.loads(outcome.output or "null")
    if isinstance(form, dict) and form.get("cut") is True:
        told = f"the response is too large for {name}; download it to a file with a command"
        return _refused(outcome, told)
    return outcome


def _refused(outcome: Outcome, told: str) -> Outcome:
    """Fail the step, so that later steps never work on part of an output."""
    if outcome.status == "succeeded":
        return Outcome("failed", "output", told, outcome.exit_code)
    error = f"{outcome.error}; {told}" if outcome.error else told
    return replace(outcome, error=error, output=None)


class _NotJudged(Exception):
    """A command that was asked did not finish, so its result is unknown. `what` names it."""

    def __init__(self, what: str, outcome: Outcome) -> None:
        told = f"{what}: {outcome.error}" if outcome.error else None
        self.outcome = replace(outcome, error=told)
        super().__init__(told)


class StepPreparer:
    """Prepares steps; nothing of them has been executed yet except conditions."""

    def __init__(
        self,
        store: Store,
        spawner: Spawner,
        flow_cache: FlowCache,
        secrets: NodeSecrets | None = None,
        places: FlowPlaces | None = None,
    ) -> None:
        self._places = places or FlowPlaces()
        self._secrets = secrets or NodeSecrets()
        self._store = store
        self._spawner = spawner
        self._inherited = spawner.setup.inherited
        self._passed = variable_secrets(self._inherited.items())
        self._flow_cache = flow_cache

    def prepare(
        self, claim: Claim, context: StepContext, files: OutputFiles, stop: Stop | None = None
    ) -> Ready | Outcome:
        """The step with its values; an Outcome when it ends here: it calls a flow, does not meet
        its conditions, or cannot be prepared. `stop` also ends the commands of its conditions."""
        name = claim.run.step or ""
        try:
            flow = self._flow((claim.run.namespace, context.flow, context.digest))
            step = _opening(flow, name) or flow.step(name)
            flow = self._with_files(flow)
            values = self._values(flow, step, claim, context, files)
            names = step_secrets(flow, step, context.params)
            values, claim = self._with_secrets(values, claim, step, names)
            bare = replace(flow, params=(), env=(), computed=()) if name == COMPUTE else flow
            rendered = render_step(bare, step, values, self._inherited)
        except NoFlow as error:
            return Outcome("failed", "missing_target", str(error))
        except KeyError:
            return Outcome(
                "failed", "missing_target", f'flow "{context.flow}" has no step "{name}"'
            )
        except Invalid as error:
            reason = "secret" if isinstance(error, SecretFailed) else "template"
            return hidden_outcome(claim, Outcome("failed", reason, str(error)))
        outputs = files.empty("outputs") if step.outputs else None
        facts = context.run_id, outputs
        rendered = self._places.launched(flow, step, rendered, self._inherited, facts)
        secrets = self._passed | variable_secrets(rendered.variables)
        claim = _of_flow(claim, context, secrets)
        if name == COMPUTE:
            return self._computed(claim, flow, step, values, _cwd(rendered), stop)
        ended = self._judged(claim, step, rendered, stop)
        return ended or Ready(_filled(claim, rendered), step, flow.max_output, outputs)

    def _judged(
        self, claim: Claim, step: Step, rendered: Rendered, stop: Stop | None
    ) -> Outcome | None:
        """How a step ends of which nothing is executed but its conditions; None for others."""
        try:
            told = self._unmet(claim, step, rendered, stop)
        except _NotJudged as error:
            return hidden_outcome(claim, error.outcome)
        except Invalid as error:
            return hidden_outcome(claim, Outcome("failed", "template", str(error)))
        if told is not None:
            return hidden_outcome(claim, Outcome("cancelled", "precondition", told))
        if step.name == CHECK:
            return Outcome("succeeded")
        if isinstance(rendered.target, FlowTarget):
            return Outcome("succeeded", call=rendered.target)
        if isinstance(rendered.target, HumanTask):
            return Outcome("succeeded", asks=rendered.target.prompt)
        return None

    def repeated(
        self,
        claim: Claim,
        context: StepContext,
        step: Step,
        outcome: Outcome,
        stop: Stop | None = None,
    ) -> Outcome:
        """The outcome of a step, marked for another execution if its `repeat_policy` wants one."""
        if (repeat := step.repeat) is None or outcome.status == "cancelled":
            return outcome
        try:
            is_met = self._is_met(claim, context, step, outcome, stop)
        except _NotJudged as error:
            return hidden_outcome(claim, error.outcome)
        except Invalid as error:
            return hidden_outcome(claim, Outcome("failed", "template", str(error)))
        return replace(outcome, repeat=repeat) if repeat.wants_more(outcome, is_met) else outcome

    def _is_met(
        self, claim: Claim, context: StepContext, step: Step, outcome: Outcome, stop: Stop | None
    ) -> bool | None:
        """Whether the condition of its `repeat_policy` holds; None without one."""
        if step.repeat is None or step.repeat.condition is None:
            return None
        flow = self._flow((claim.run.namespace, context.flow, context.digest))
        output = None if outcome.output is None else json.loads(outcome.output)
        end = StepState(outcome.status, outcome.reason, outcome.exit_code), output
        asked = Step(
            step.name, Script("true"), env=step.env, preconditions=(step.repeat.condition,)
        )
        ended = replace(context, ends={**context.ends, step.name: end})
        values = self._values(flow, asked, claim, ended, OutputFiles())
        rendered = render_step(flow, asked, values, self._inherited)
        return self._unmet(claim, asked, rendered, stop) is None

    def prepare_at_once(self, claim: Claim, context: StepContext) -> Ready | Outcome | None:
        """Like `prepare`, if that is quick; None if it needs the database or runs commands."""
        flow = self._flow_cache.peek(claim.run.namespace, context.flow, context.digest)
        if flow is None or claim.run.step in (CHECK, COMPUTE):
            return None
        try:
            step = flow.step(claim.run.step or "")
        except KeyError:
            return None
        if step.repeat is not None or any(c.is_command for c in step.preconditions):
            return None
        if flow.dotenv or step.outputs or wanted_files(step):
            return None
        if any(isinstance(end, Apart) for _, end in context.ends.values()):
            return None
        if step_secrets(flow, step, context.params):
            return None
        return self.prepare(claim, context, OutputFiles())

    def _with_files(self, flow: Flow) -> Flow:
        """With variables from its files before its own; they are data, not templates."""
        found = self._places.variables(flow, self._inherited, self._spawner)
        literal = tuple((name, as_literal(text)) for name, text in found)
        return replace(flow, env=(*literal, *flow.env)) if literal else flow

    def _values(
        self, flow: Flow, step: Step, claim: Claim, context: StepContext, files: OutputFiles
    ) -> Values:
        """What the step may refer to; large outputs are read only if it does."""
        ends = dict(context.ends)
        outputs: dict[str, Any] = {}
        wanted = wanted_files(step)
        for other in flow.all_steps():
            state, output = ends.get(other.name, (None, None))
            if state is None:
                continue
            if isinstance(output, Apart) and names_output(step, other):
                output = self._store.read(partial(_get_output, output.run_id))
                ends[other.name] = (state, output)
            if other.output in wanted and output is not None:
                outputs[other.output] = output
        found = {
            name: StepEnd(state.status, state.exit_code, output)
            for name, (state, output) in ends.items()
        }
        facts, status = _facts(claim, context), _status(flow, claim, context)
        written = files.write(outputs)
        return Values(
            context.params, found, facts, status, written, computed=self._printed(context)
        )

    def _printed(self, context: StepContext) -> dict[str, str]:
        """What the commands in params and env of the flow printed, once they were executed."""
        _, output = context.ends.get(COMPUTE, (None, None))
        if isinstance(output, Apart):
            output = self._store.read(partial(_get_output, output.run_id))
        return computed_of(output)

    def _with_secrets(
        self, values: Values, claim: Claim, step: Step, names: set[str]
    ) -> tuple[Values, Claim]:
        """The values of the flow's references to secrets; in what is stored they stay references.

        Raises SecretFailed.
        """
        if not names:
            return values, claim
        if not keeps_secrets(step):
            return replace(values, secrets=references_to(names)), claim
        found = {name: self._secret(claim.run.namespace, name) for name in sorted(names)}
        return replace(values, secrets=found), claim._replace(secret_values=SecretValues(found))

    def _secret(self, namespace: str, name: str) -> str:
        return self._secrets.get(namespace, name)

    def _flow(self, key: tuple[str, str, str | None]) -> Flow:
        found = self._flow_cache.peek(*key)
        return found or self._store.read(lambda tx: self._flow_cache.find(tx.flows, *key))

    def _unmet(self, claim: Claim, step: Step, rendered: Rendered, stop: Stop | None) -> str | None:
        if not rendered.conditions:
            return None
        variables = environment(claim, self._inherited) | dict(rendered.variables)

        def ask(text: str) -> tuple[int, str]:
            what = f'condition "{shorten(text)}"'
            return self._ask(what, text, variables, _cwd(rendered), stop)[:2]

        return unmet(step.preconditions, rendered.conditions, ask)

    def _ask(
        self, what: str, text: str, variables: dict[str, str], cwd: str | None, stop: Stop | None
    ) -> tuple[int, str, str]:
        """How a command ended, what it printed, and the last line that it wrote to stderr."""
        errors = bytearray()

        def keep(stream: str, data: bytes) -> None:
            if stream == "stderr":
                errors[:] = (errors + data)[-MOST_TOLD:]

        printed = Printed(keep, MOST_ASKED)
        process = self._spawner.spawn(("/bin/sh", "-c", text), variables, cwd)
        with nullcontext(stop) if stop is not None else Stop() as asked:
            ended = supervise(process, printed, asked, CONDITION_TIME, grace=1.0)
        if ended.error is not None or ended.stopped is not None:
            raise _NotJudged(what, outcome_of(ended))
        if printed.is_cut:
            told = f"it printed {printed.size:,} bytes; at most {MOST_ASKED:,} can be kept"
            raise _NotJudged(what, Outcome("failed", "output", told))
        last = errors.decode(errors="replace").strip().rpartition("\n")[2]
        return (1 if ended.code is None else ended.code), printed.text, last

    def _computed(
        self,
        claim: Claim,
        flow: Flow,
        step: Step,
        values: Values,
        cwd: str | None,
        stop: Stop | None,
    ) -> Outcome:
        """What the commands in params and env of the flow print: kept as it is, for the steps, with
        a list of what is hidden when it is shown."""
        base, known = environment(claim, self._inherited), set[str]()

        def ask(place: str, text: str, variables: dict[str, str]) -> str:
            known.update(variable_secrets(variables.items()))
            what = f'the command of {place}, "{shorten(text)}"'
            code, printed, last = self._ask(what, text, base | variables, cwd, stop)
            if code:
                told = f"{what}, failed with exit code {code}"
                raise TemplateFailed(f"{told}: {last}" if last else told)
            return printed

        def hidden(outcome: Outcome) -> Outcome:
            return hidden_outcome(claim._replace(secrets=claim.secrets | known), outcome)

        shown = replace(values, secrets={name: f"<{name}>" for name in values.secrets})
        try:
            found = execute_commands(flow, values, shown, self._inherited, ask)
            for place, each in enumerate(flow.computed):
                known.update(variable_secrets([(each.name, found.get(str(place), ""))]))
            made = render_step(flow, step, replace(values, computed=found), self._inherited)
            known.update(variable_secrets(made.variables))
        except _NotJudged as error:
            return hidden(error.outcome)
        except Invalid as error:
            return hidden(Outcome("failed", "template", str(error)))
        return hidden(Outcome("succeeded", output=json.dumps(found, ensure_ascii=False)))


def _opening(flow: Flow, name: str) -> Step | None:
    """The step that judges the conditions of the whole flow, or executes its commands."""
    if name not in (CHECK, COMPUTE):
        return None
    conditions = flow.preconditions if name == CHECK else ()
    return Step(name, Script("true"), preconditions=conditions)


def _cwd(rendered: Rendered) -> str | None:
    return rendered.target.cwd if isinstance(rendered.target, CommandTarget) else None


def _of_flow(claim: Claim, context: StepContext, secrets: set[str]) -> Claim:
    """With the schedule and due time of its flow's run, as the step has none of its own."""
    due_at = context.due_at or context.created_at
    run = claim.run._replace(
        schedule_id=context.schedule_id,
        schedule=context.schedule,
        due_at=due_at,
        interval=context.interval,
    )
    return claim._replace(run=run, secrets=frozenset(secrets))


def _filled(claim: Claim, rendered: Rendered) -> Claim:
    """Payloads of runs are data, never templates."""
    assert not isinstance(rendered.target, FlowTarget | HumanTask)  # noqa: S101 - looked at before
    run = claim.run._replace(payload=rendered.payload)
    target = rendered.target
    if isinstance(target, EventTarget) and target.key is None:
        target = replace(target, key=claim.run.flow)
    spec = replace(claim.spec, target=target, payload=rendered.payload)
    return claim._replace(run=run, spec=spec)


def _get_output(run_id: str, tx: Tx) -> Any:
    return tx.runs.get_output(run_id)


def _status(flow: Flow, claim: Claim, context: StepContext) -> str:
    """How the flow ended, for handlers that run after its steps."""
    states = {name: state for name, (state, _) in context.ends.items()}
    if any(step.name not in states for step in flow.steps):
        return ""
    if claim.run.step in {step.name for step in flow.steps}:
        return ""
    return flow_status(flow, states).status


def _facts(claim: Claim, context: StepContext) -> dict[str, Any]:
    """The facts of the flow's run for templates, named as in those of schedules."""
    due_at = format_instant(context.due_at or context.created_at)
    return {
        "schedule": {
            "id": context.schedule_id or "",
            "name": context.schedule or context.flow,
            "due_at": due_at,
            "tz": "UTC",
        },
        "due_at": due_at,
        "now": format_instant(claim.started_at or claim.run.created_at),
        "namespace": claim.run.namespace,
        "user": claim.user,
        "requested_by": claim.run.requested_by or "",
        "interval": interval_texts(context.interval),
        "run": {"id": context.run_id, "origin": context.origin, "trigger": context.trigger},
    }
