"""Flows as values: a graph of steps, its handlers and when it runs; executes nothing.

Texts of a flow that may contain values are templates; the text of a Script never is.
"""

from __future__ import annotations

from dataclasses import field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from duebook.lazy_dataclasses import dataclass
from duebook.model.flow_target import FlowTarget
from duebook.model.schedule import POLICIES, ScheduleSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from duebook.model.repeat import Repeat
    from duebook.model.retry import Retry
    from duebook.model.target import Target
    from duebook.triggers import Trigger

__all__ = [
    "BUILTINS",
    "BY_HAND",
    "CHECK",
    "COMPUTE",
    "HANDLED",
    "MOST_OUTPUT_SIZE",
    "MOST_STEPS",
    "OUTPUT_SIZE",
    "SHELLS",
    "Computed",
    "Condition",
    "Container",
    "ContinueOn",
    "Event",
    "Flow",
    "FlowTarget",
    "HumanTask",
    "Mail",
    "NamedOutput",
    "Parallel",
    "Param",
    "Revision",
    "Script",
    "Step",
    "StepTarget",
    "builtin_program",
    "handler_name",
    "is_shell",
    "program_names",
    "root_of",
]

Mail = Literal["success_mail", "failure_mail"]
Event = Literal["init", "success", "failure", "abort", "exit", Mail]
HANDLED: Final[tuple[Event, ...]] = get_args(Event)
"""The mails of `mail_on` are the last: they are sent after the exit handler."""
ParamKind = Literal["any", "text", "integer", "number", "boolean"]

MOST_STEPS: Final = 1_000
OUTPUT_SIZE: Final = 1_048_576
"""Bytes that a step may print into its output, unless `max_output_size` sets another limit."""
MOST_OUTPUT_SIZE: Final = 16 * OUTPUT_SIZE
"""The largest `max_output_size`, and the most that a flow returns to the flow that calls it."""
SHELLS: Final = frozenset({"sh", "ash", "bash", "dash", "ksh", "zsh"})
CHECK: Final = "preconditions"
"""The step that checks the conditions of the whole flow, before any other."""

COMPUTE: Final = "computed values"
"""The step that executes the commands in the params and env of a flow, before all others."""


def handler_name(event: Event) -> str:
    """What the step of a handler is called; no other step may be called so."""
    about, mail, _ = event.partition("_mail")
    return f"mail_on.{about}" if mail else f"handler_on.{event}"


def program_names(words: Sequence[str]) -> list[str]:
    """The programs that a command line may start with, without their directories."""
    return [word.rpartition("/")[2] for word in words[:2]]


BUILTINS: Final = {
    f"@{kind}": f"duebook.builtin_steps.{kind}" for kind in ("jq", "mail", "template")
}
"""Placeholders for Duebook's own programs in a command, and their modules."""


def builtin_program(kind: str) -> str:
    """The placeholder for the program of a step that Duebook executes itself, in a process."""
    return f"@{kind}"


def is_shell(interpreter: Sequence[str]) -> bool:
    return not SHELLS.isdisjoint(program_names(interpreter))


@dataclass(frozen=True, slots=True)
class Condition:
    """What must hold before a step runs: a value that is as expected, or a command.

    `expected` is text, or a pattern after `re:`; without one, the command must succeed.
    """

    text: str
    is_command: bool = False
    expected: str | None = None
    negate: bool = False
    is_data: bool = False
    """`expected` was filled in, so it is plain text whatever its prefix"""

    def __str__(self) -> str:
        told = self.text if self.expected is None else f"{self.text} = {self.expected}"
        return f"not {told}" if self.negate else told


@dataclass(frozen=True, slots=True)
class ContinueOn:
    """Ends of a step that do not stop those after it."""

    failure: bool = False
    skipped: bool = False
    exit_codes: tuple[int, ...] = ()
    output: tuple[str, ...] = ()
    """texts that a line of its output contains, or patterns after `re:`"""
    mark_success: bool = False
    """whether such a failure counts as a success, without a warning"""


@dataclass(frozen=True, slots=True)
class Param:
    """A value that can be given when a flow starts; `1`, `2`, … are positional."""

    name: str
    default: Any = None
    """JSON whose texts are templates; None: a value is required"""
    kind: ParamKind = "any"
    choices: tuple[Any, ...] = ()
    description: str = ""


@dataclass(frozen=True, slots=True)
class Computed:
    """A command in a default or a variable of a flow, which stands for what it prints."""

    command: str
    """text for /bin/sh, where the values before it are variables"""
    name: str
    is_param: bool = False

    @property
    def place(self) -> str:
        return f"{'params' if self.is_param else 'env'}.{self.name}"


@dataclass(frozen=True, slots=True)
class Script:
    """Text that an interpreter gets unchanged; values reach it as variables and arguments."""

    text: str
    interpreter: tuple[str, ...] = ("/bin/sh", "-c")
    cwd: str | None = None
    """a template"""
    values: tuple[tuple[str, str], ...] = ()
    """variable -> template: the parts of values that the text uses"""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Container:
    """Where a command runs: an image for a new container of the step, or an existing container.

    Texts are templates. A `shared` container is started by the first step that needs it, named
    after the flow's run, and removed at the end of the run.
    """

    image: str | None = None
    name: str | None = None
    options: tuple[str, ...] = ()
    """options of the engine when the container is created"""
    env: tuple[tuple[str, str], ...] = ()
    user: str | None = None
    cwd: str | None = None
    """the working directory within it"""
    volumes: tuple[str, ...] = ()
    shared: bool = False
    keeps: bool = False
    """whether it is kept after the command, or the run of the flow, has ended"""


@dataclass(frozen=True, slots=True)
class NamedOutput:
    """A value that a step writes to the file DAGU_OUTPUT_FILE."""

    name: str
    is_json: bool = False


@dataclass(frozen=True, slots=True)
class HumanTask:
    """A person, who approves or rejects; the prompt is a template."""

    prompt: str

    def masked(self) -> HumanTask:
        return self

    def to_json(self) -> dict[str, Any]:
        return {"human": self.prompt}

    def __str__(self) -> str:
        return f"asks a person: {self.prompt}"


if TYPE_CHECKING:
    StepTarget = Target | Script | HumanTask


@dataclass(frozen=True, slots=True)
class Parallel:
    """The items for each of which a step calls its flow, and how many of them run at once."""

    items: Any
    """a JSON list whose texts are templates, or a template of a list"""
    limit: int = 10


@dataclass(frozen=True, slots=True)
class Step:
    """One node of the graph: it becomes a run once its dependencies have ended well."""

    name: str
    target: StepTarget
    depends: tuple[str, ...] = ()
    id: str | None = None
    """a second name"""
    description: str = ""
    payload: dict[str, Any] = field(default_factory=dict)
    """what its task receives"""
    env: tuple[tuple[str, str], ...] = ()
    """in order: a value may refer to earlier ones"""
    retry: Retry | None = None
    timeout: timedelta | None = None
    preconditions: tuple[Condition, ...] = ()
    continue_on: ContinueOn = ContinueOn()
    output: str | None = None
    """the variable for its printed output"""
    outputs: tuple[NamedOutput, ...] = ()
    """the values it writes to a file, by name; they are its output"""
    stdout: str | None = None
    """a template: a file, below the working directory, that also receives its output"""
    stderr: str | None = None
    container: Container | None = None
    workers: tuple[tuple[str, str], ...] = ()
    """labels that a worker must have"""
    written: str = ""
    """what it runs, as written in its file; for people"""
    repeat: Repeat | None = None
    parallel: Parallel | None = None
    stop_signal: str | None = None
    """what its command gets first when it is stopped; None: SIGTERM"""
    likely_flow: str | None = None
    """the only word of its `run`, which in a Dagu 1 file is the name of a flow"""


BY_HAND: Final = ScheduleSpec((), FlowTarget(""))
"""The policies of a flow whose file sets none."""
_TOLD: Final = {"catchup"} | {
    key
    for key, known in POLICIES.items()
    if known.flow and known.flow.scheduled and known.default not in (None, "", ())
}
"""Fields that the form of its schedule includes even at their defaults."""


@dataclass(frozen=True, slots=True)
class Flow:
    """A graph of steps, as one document of a file defines it."""

    name: str
    steps: tuple[Step, ...]
    """each after its dependencies"""
    handlers: tuple[tuple[Event, Step], ...] = ()
    params: tuple[Param, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    preconditions: tuple[Condition, ...] = ()
    policies: ScheduleSpec = BY_HAND
    """when it starts, stops and restarts, and the fields common to all definitions"""
    restart_wait: timedelta = timedelta()
    max_active_steps: int | None = None
    delay: timedelta = timedelta()
    retry: Retry | None = None
    """of the whole run, after it failed"""
    max_output: int = OUTPUT_SIZE
    """characters that are kept of what a step prints, where it has a variable for them"""
    stop_grace: timedelta | None = None
    """how long a command that is stopped has until it is killed"""
    dotenv: tuple[str, ...] = ()
    """files with variables, read where a step runs; later ones win"""
    fixed_params: bool = False
    """whether nobody may give it params at a start"""
    computed: tuple[Computed, ...] = ()
    """in their order: a command may name what those before it have made"""
    notes: tuple[str, ...] = field(default=(), compare=False)
    """notes for the authors of the file"""
    place: str = field(default="", compare=False)
    """the directory's name and the path of its file in it, as in a revision"""
    calendar_at: tuple[int, int] = field(default=(1, 1), compare=False)
    """line and column of its `calendar`, as only the database knows whether that exists"""

    def step(self, name: str) -> Step:
        """Any step by its name, including handlers; raises KeyError."""
        for step in self.all_steps():
            if step.name == name:
                return step
        raise KeyError(name)

    def all_steps(self) -> Iterator[Step]:
        yield from self.steps
        for _, step in self.handlers:
            yield step

    def handler(self, event: Event) -> Step | None:
        return dict(self.handlers).get(event)

    @property
    def start(self) -> tuple[Trigger, ...]:
        return self.policies.triggers

    @property
    def stop(self) -> tuple[Trigger, ...]:
        return self.policies.stop

    @property
    def restart(self) -> tuple[Trigger, ...]:
        return self.policies.restart

    @property
    def has_times(self) -> bool:
        """Whether it has a schedule: due times at which it starts, stops or restarts."""
        return bool(self.start or self.stop or self.restart)

    def schedule_form(self) -> dict[str, Any] | None:
        """The definition of its schedule as JSON; None if it starts only manually, and has no times
        to stop or restart."""
        if not self.has_times:
            return None
        own = {f.name: f.default for f in POLICIES.values() if f.flow and not f.flow.scheduled}
        form = replace(self.policies, **own).to_json(always=_TOLD)
        return form | {
            "trigger": [trigger.to_json() for trigger in self.start],
            "target": {"flow": self.name},
        }


@dataclass(frozen=True, slots=True)
class Revision:
    """The text of a flow as it was in a file at some time; a run keeps the one it started with."""

    flow: str
    place: str
    """the directory's name and the path in it"""
    digest: str
    """of the whole file"""
    source: str
    """the whole file: its other documents are flows that this one may run"""


def root_of(place: str) -> str:
    """The name of a place's directory."""
    return place.partition("/")[0]
