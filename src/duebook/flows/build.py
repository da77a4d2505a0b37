"""Builds flows from the text of a file, or reports everything that is wrong with it; pure."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from duebook.errors import Invalid, shorten
from duebook.flows.bash_only import SHELL, notes_on_bash
from duebook.flows.builtin_steps import read_smtp
from duebook.flows.commands import read_shell
from duebook.flows.computed import names_secret, take_commands
from duebook.flows.containers import read_container
from duebook.flows.dagu_one import calls_of_dagu_one, given_to
from duebook.flows.graph import before, circle, in_order
from duebook.flows.mail_on import read_mail_on
from duebook.flows.parse import Node, parse, plain
from duebook.flows.policies import read_fixed_params, read_policies
from duebook.flows.problems import Enough, Problem, Problems, Refused, did_you_mean
from duebook.flows.redacted_source import with_lines
from duebook.flows.references import Scope, identifier
from duebook.flows.scopes import at_once, inferred, scope_of
from duebook.flows.section import Section, text_of, whole_of
from duebook.flows.steps import (
    Defaults,
    Draft,
    draft_step,
    draft_steps,
    finish,
    read_conditions,
    read_variables,
)
from duebook.flows.surroundings import (
    notes_on_grace,
    notes_on_logs,
    read_defaults,
    read_dotenv,
    read_secrets,
)
from duebook.flows.timing import read_clean_up, read_retry, read_seconds
from duebook.flows.values import is_variable, read_labels_of, read_params
from duebook.flows.variables import walk
from duebook.flows.words import FLOW, HANDLERS, RETRY
from duebook.ids import check_name, is_name
from duebook.lazy_dataclasses import dataclass
from duebook.model.flow import (
    CHECK,
    COMPUTE,
    HANDLED,
    MOST_OUTPUT_SIZE,
    MOST_STEPS,
    OUTPUT_SIZE,
    Event,
    Flow,
    FlowTarget,
    Param,
    Step,
    handler_name,
)
from duebook.model.target import CommandTarget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from duebook.model.flow import Computed
    from duebook.model.retry import Retry

__all__ = ["Built", "build", "calls_in_circle"]


@dataclass(frozen=True, slots=True)
class Built:
    """The flows of a file; empty if the file has problems."""

    flows: tuple[Flow, ...]
    names: tuple[str, ...]
    """as far as they could be read, even if something else is wrong"""
    problems: tuple[Problem, ...]


def build(text: str, file: str, default_name: str, seconds: float | None = None) -> Built:
    """The flows of a text: the first document, and later ones that only this file can run.

    `file` is its name in problems, `default_name` the name of the first flow if it has none, and
    `seconds` the processor time that may be spent on it.
    """
    built = _build(text, Problems(file, seconds, text), default_name)
    return replace(built, problems=with_lines(built.problems, text)) if built.problems else built


def _build(text: str, problems: Problems, default_name: str) -> Built:
    try:
        documents = parse(text, problems.file)
    except Refused as error:
        return Built((), (), (error.problem,))
    if not documents:
        hint = "write `steps:` and a list of steps"
        return Built((), (), (Problem(problems.file, 1, 1, "", "it is empty", hint),))
    names = _names(documents, default_name, problems)
    try:
        flows = _flows(documents, names, problems)
    except Enough:
        flows = []
    return Built(() if problems else tuple(flows), tuple(names), problems.sorted())


def _flows(documents: list[Node], names: list[str], problems: Problems) -> list[Flow]:
    flows: list[Flow] = []
    local, own = _local(names), {name: name.removeprefix(f"{names[0]}.") for name in names[1:]}
    said = {
        name: calls_of_dagu_one(node, own.values())
        for node, name in zip(documents, names, strict=True)
    }
    for node, name in zip(documents, names, strict=True):
        if node.value is None:
            if node is not documents[-1] or not flows:
                problems.add(node, "", "nothing follows this `---`", "delete it")
            continue
        given = given_to(own[name], documents) if name in own else []
        builder = _Builder(node, name, problems, local, given)
        notes = said[name]
        if (flow := builder.flow()) is not None:
            flows.append(replace(flow, notes=(*notes, *flow.notes)) if notes else flow)
    if not problems and (found := calls_in_circle(flows)):
        told = f"flows run each other in a circle: {' → '.join(found)}"
        problems.add(documents[0], "steps", told, "remove one of these calls")
    return flows


def _names(documents: list[Node], default_name: str, problems: Problems) -> list[str]:
    """A later document is named `first.name`, so that files cannot take each other's names."""
    names: list[str] = []
    for place, node in enumerate(documents):
        found = node.value.get("name") if isinstance(node.value, dict) else None
        found = None if found is None or found.value is None else found
        given = default_name if found is None and not names else found and plain(found)
        name = given if not names else f"{names[0]}.{given}"
        where = found or node
        if given is None:
            if node.value is not None:
                problems.add(
                    node, "name", "every flow after the first needs a name", "add `name: part`"
                )
            name = f"{default_name}.{place}"
        else:
            try:
                check_name(name)
            except Invalid as error:
                problems.add(where, "name", str(error), _name_hint(given, found is not None))
        if name in names:
            problems.add(where, "name", f'two flows in the file are named "{shorten(given)}"')
        names.append(str(name))
    return names


def _name_hint(given: Any, in_file: bool) -> str:
    likely = identifier(str(given).strip().lower()).replace("_", "-").strip("-")
    if not is_name(likely):
        return ""
    if not in_file:
        return f"add `name: {likely}`"
    return f"write it as {likely}" if isinstance(given, str) else f'write it as "{likely}"'


def _local(names: list[str]) -> Callable[[str], str]:
    """A function that finds the flow that a step of the file means by a name."""
    first, *rest = names
    own = {name.removeprefix(f"{first}."): name for name in rest}
    return lambda name: own.get(name, name)


def calls_in_circle(flows: Iterable[Flow]) -> list[str]:
    """Flows that would call each other endlessly, as a circle; empty when there is no circle."""
    calls: dict[str, list[str]] = {flow.name: [] for flow in flows}
    for flow in flows:
        for step in flow.all_steps():
            if isinstance(step.target, FlowTarget) and step.target.name in calls:
                calls[flow.name].append(step.target.name)
    return circle(calls)


class _Builder:
    """Builds the flow of one document."""

    def __init__(
        self,
        node: Node,
        name: str,
        problems: Problems,
        local: Callable[[str], str],
        given: Sequence[str] = (),
    ) -> None:
        """`given`: params that other flows of the file pass to it by name."""
        self._name = name
        self._problems = problems
        self._local = local
        self._given = given
        self._section = Section(node, "", problems, FLOW)
        self._notes: tuple[str, ...] = ()
        self._computed: list[Computed] = []

    def flow(self) -> Flow | None:
        """None when it has no steps; anything else that is wrong becomes a problem."""
        section = self._section
        params, scope = self._params()
        env, scope = self._env(scope)
        scope = replace(scope, derived=scope.derived | self._handler_outputs())
        secrets, notes = read_secrets(section)
        self._refuse_taken(secrets, params, env)
        env = (*env, *secrets)
        defaults = Defaults(
            read_shell(section, SHELL),
            section.get("working_dir"),
            read_labels_of(section, "worker_selector"),
            self._local,
            read_container(section, scope, shared=True),
            read_smtp(section, scope),
            read_defaults(section),
        )
        steps, scope = self._steps(scope, defaults)
        handlers = self._with_removal(self._handlers(scope, defaults), defaults)
        policies = read_policies(section, self._name)
        if policies.triggers or policies.restart:
            self._refuse_required(params)
        if not steps:
            return None
        grace = section.read("max_clean_up_time_sec", read_clean_up, None)
        return Flow(
            name=self._name,
            steps=steps,
            handlers=handlers,
            params=params,
            env=env,
            preconditions=read_conditions(section, _beginning(scope)),
            policies=policies,
            restart_wait=section.read("restart_wait_sec", read_seconds, timedelta()),
            max_active_steps=section.read("max_active_steps", whole_of(1, 10_000), None),
            retry=self._retry(),
            delay=section.read("delay_sec", read_seconds, timedelta()),
            stop_grace=grace,
            dotenv=read_dotenv(section, scope),
            computed=tuple(self._computed),
            fixed_params=read_fixed_params(section),
            notes=(
                *notes,
                *self._notes,
                *notes_on_bash(self._name, steps),
                *notes_on_logs(section),
                *notes_on_grace(self._name, steps, grace),
            ),
            max_output=section.read("max_output_size", whole_of(1, MOST_OUTPUT_SIZE), OUTPUT_SIZE),
            calendar_at=(1, 1) if (at := section.get("calendar")) is None else (at.line, at.column),
        )

    def _retry(self) -> Retry | None:
        node = self._section.get("retry_policy")
        if node is None:
            return None
        inner = Section(node, "retry_policy", self._problems, RETRY)
        if (codes := inner.get("exit_code")) is not None:
            told = "a flow has no exit code"
            self._section.problem(codes, "retry_policy.exit_code", told, "put it on a step")
        return read_retry(inner)

    def _params(self) -> tuple[tuple[Param, ...], Scope]:
        params: list[Param] = []
        for param, node in read_params(self._section):
            self._problems.go_on()
            default, key = param.default, f"params.{param.name}"
            own = Scope(secrets=not param.name.isdigit())  # those are program arguments
            if isinstance(default, str) and isinstance(node.value, str) and default.count("`") % 2:
                told = f'"{shorten(default)}" has a backquote without its pair'
                self._section.problem(node, key, told, "put a value with spaces in double quotes")
                default = ""
            elif isinstance(default, str) and "`" in default:
                own_text = Scope(params=frozenset(each.name for each in params))
                given = default, param.name, own_text, self._computed, True
                default = self._section.judge(node, key, "", take_commands, *given)
            made = self._section.judge(node, key, default, walk, default, own)
            params.append(replace(param, default=made))
        params += [Param(name, "") for name in self._listed_names(params)]
        if "params" not in self._section:
            params += [Param(name, "") for name in self._given]
        names = frozenset(param.name for param in params)
        places = max((int(param.name) for param in params if param.name.isdigit()), default=0)
        return tuple(params), Scope(params=names, places=places)

    def _listed_names(self, params: list[Param]) -> list[str]:
        """Names from a list of plain words: with `params: [ITEM]`, a value can be given as ITEM,
        and the strings of the flow can refer to it as $ITEM."""
        taken = {param.name for param in params}
        words = [param.default for param in params if param.name.isdigit()]
        source = self._problems.source
        return [
            word
            for word in dict.fromkeys(words)
            if isinstance(word, str)
            and word not in taken
            and is_variable(word)
            and re.search(rf"\$\{{?{word}\b", source)
        ]

    def _refuse_taken(
        self,
        secrets: list[tuple[str, str]],
        params: tuple[Param, ...],
        env: tuple[tuple[str, str], ...],
    ) -> None:
        node = self._section.get("secrets") or self._section.node
        others = {"param": {param.name for param in params}, "variable of env": set(dict(env))}
        for what, names in others.items():
            for name in sorted(names.intersection(dict(secrets))):
                told = f'a secret and a {what} are named "{name}"'
                self._section.problem(node, "secrets", told, "rename one of them")
        if (named := names_secret(self._computed, dict(secrets))) is not None:
            told = f'a command in params or env names the secret "{named}"'
            hint = "it would be stored with the run; use the secret in a step"
            self._section.problem(self._section.node, "secrets", told, hint)

    def _refuse_required(self, params: tuple[Param, ...]) -> None:
        """A scheduled run gets no params, so each needs a default."""
        node = self._section.get("schedule") or self._section.node
        for param in params:
            if param.default is None:
                told = f'it has a schedule, but param "{param.name}" has no default'
                self._section.problem(node, "schedule", told, "give it a default")

    def _handler_outputs(self) -> frozenset[str]:
        """The variables that keep the output of handlers; whatever runs later has them."""
        node, found = self._section.get("handler_on"), set[str]()
        for item in node.value.values() if node and isinstance(node.value, dict) else ():
            output = item.value.get("output") if isinstance(item.value, dict) else None
            if output is not None and isinstance(output.value, dict):
                output = output.value.get("name")
            if output is not None and isinstance(output.value, str):
                found.add(output.value.removeprefix("${").removesuffix("}").lstrip("$"))
        return frozenset(found)

    def _env(self, scope: Scope) -> tuple[tuple[tuple[str, str], ...], Scope]:
        found, scope = read_variables(self._section, scope, self._computed)
        return found, _unshadowed(scope)

    def _steps(self, scope: Scope, defaults: Defaults) -> tuple[tuple[Step, ...], Scope]:
        """The steps in their order, and the names that a handler may use."""
        node = self._section.get("steps")
        if node is None:
            if self._section.is_whole:
                at = self._section.node.keys.get("steps", self._section.node)
                self._section.problem(at, "steps", "it has no steps", "add `steps: [./work.sh]`")
            return (), scope
        drafts = draft_steps(node, self._problems)
        if not drafts and isinstance(node.value, list | dict):
            self._section.problem(node, "steps", "it has no steps", "add `- ./work.sh`")
        if len(drafts) > MOST_STEPS:
            told = f"it has {len(drafts):,} steps; at most {MOST_STEPS:,} are allowed"
            self._section.problem(node, "steps", told)
            return (), scope
        named = self._named(drafts)
        graph = self._graph(drafts, named, isinstance(node.value, list))
        if "${steps." in self._problems.source:
            for name, others in inferred(drafts, named).items():
                graph[name] = tuple(dict.fromkeys((*graph[name], *others)))
        if len(graph) < len(drafts):  # two share a name, which is already reported
            graph = dict.fromkeys(graph, ())
        elif found := circle(graph):
            told = f"steps depend on each other in a circle: {' → '.join(found)}"
            place = next(draft for draft in drafts if draft.name == found[0])
            hint = "remove one of these `depends`"
            self._problems.add(place.section.node, place.section.at("depends"), told, hint)
            graph = dict.fromkeys(graph, ())
        earlier, by_name = before(graph), {draft.name: draft for draft in drafts}
        scope = scope_of(scope, drafts, named, earlier)
        steps = [
            finish(by_name[name], graph[name], replace(scope, before=earlier[name]), defaults)
            for name in in_order(graph)
        ]
        return tuple(steps), scope

    def _named(self, drafts: list[Draft]) -> dict[str, str]:
        """name or id -> step; duplicates are problems."""
        named: dict[str, str] = {}
        reserved = {CHECK, COMPUTE, *(handler_name(event) for event in HANDLED)}
        for draft in drafts:
            node = draft.section.get("name") or draft.section.node
            if draft.name in reserved:
                told = f'"{draft.name}" is a reserved step name'
                draft.section.problem(node, "name", told, "choose another name")
            for name in dict.fromkeys(filter(None, (draft.name, draft.id))):
                if name in named:
                    told = f'two steps are named "{shorten(name)}"'
                    draft.section.problem(node, "name", told, "names and ids must be unique")
                named.setdefault(name, draft.name)
        for place, draft in enumerate(drafts, 1):
            if draft.kind and "name" not in draft.section and draft.id is None:
                named.setdefault(f"{draft.kind}_{place}", draft.name)
        return named

    def _graph(
        self, drafts: list[Draft], named: dict[str, str], is_list: bool
    ) -> dict[str, tuple[str, ...]]:
        """What each step depends on; unknown names are reported and dropped."""
        ordered = self._is_ordered(drafts, is_list)
        graph: dict[str, tuple[str, ...]] = {}
        row, former, current = -1, list[str](), list[str]()
        for draft in drafts:
            if draft.row != row:
                row, former, current = draft.row, current, []
            current.append(draft.name)
            if draft.depends is not None:
                graph[draft.name] = self._known(draft, named)
            else:
                graph[draft.name] = tuple(former) if ordered else ()
        return graph

    def _is_ordered(self, drafts: list[Draft], is_list: bool) -> bool:
        kind = self._section.read("type", text_of, "")
        if kind not in ("", "chain", "graph"):
            node = self._section.get("type") or self._section.node
            told = f'type "{shorten(kind)}" is not supported'
            self._section.problem(node, "type", told, "use chain or graph")
        if is_list:
            self._notes = at_once(self._name, drafts, kind)
        nested = len({draft.row for draft in drafts}) < len(drafts)
        says = any(draft.depends is not None for draft in drafts)
        return kind == "chain" or (not kind and is_list and (nested or not says))

    def _known(self, draft: Draft, named: dict[str, str]) -> tuple[str, ...]:
        found = []
        for name, node in draft.depends or ():
            if name in named:
                found.append(named[name])
            else:
                told = f'"{shorten(draft.name)}" depends on "{shorten(name)}", which is not a step'
                hint = did_you_mean(name, named) if self._problems.may_guess else ""
                names = ", ".join(dict.fromkeys(named.values()))
                hint = hint or f"the steps are {shorten(names, 200)}"
                draft.section.problem(node, "depends", told, hint)
        return tuple(dict.fromkeys(found))

    def _handlers(self, scope: Scope, defaults: Defaults) -> tuple[tuple[Event, Step], ...]:
        node = self._section.get("handler_on")
        mails, notes = read_mail_on(self._section, self._name)
        self._notes += notes
        if node is None and not mails:
            return ()
        inner = None if node is None else Section(node, "handler_on", self._problems, HANDLERS)
        found: list[tuple[Event, Step]] = []
        for event in HANDLED:
            item = mails.get(event) or (None if inner is None else inner.get(event))
            if item is None:
                continue
            draft = draft_step(item, handler_name(event), self._problems, handler_name(event))
            if draft.depends:
                told = "a handler cannot depend on other steps"
                draft.section.problem(draft.depends[0][1], "depends", told)
            if draft.name != handler_name(event):
                draft.name, draft.title = handler_name(event), draft.name
            at = _beginning(scope) if event == "init" else scope
            found.append((event, finish(draft, (), at, defaults)))
        return tuple(found)

    def _with_removal(
        self, handlers: tuple[tuple[Event, Step], ...], defaults: Defaults
    ) -> tuple[tuple[Event, Step], ...]:
        """Let the exit handler remove the container of a run; a flow without one gets one that only
        does that."""
        inside = defaults.container
        if inside is None or not inside.container.shared or inside.container.keeps:
            return handlers
        exit_step = dict(handlers).get("exit")
        if exit_step is None:
            name, told = handler_name("exit"), "remove the container of the run"
            step = Step(name, CommandTarget(), container=inside.container, written=told)
            return (*handlers, ("exit", step))
        if exit_step.container is None or not exit_step.container.shared:
            node = self._section.get("handler_on") or self._section.node
            told = "the exit handler must be a command in the container, which it removes"
            self._section.problem(node, "handler_on", told, "use keep_container")
        return handlers


def _unshadowed(scope: Scope) -> Scope:
    """Params and outputs hide variables of the flow with the same name."""
    return replace(scope, shadowed=frozenset())


def _beginning(scope: Scope) -> Scope:
    return replace(scope, before=frozenset())
