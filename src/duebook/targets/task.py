"""Python functions as targets: the tasks that a program declares, and how one is called."""

from __future__ import annotations

import inspect
import sys
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from duebook.errors import Invalid, NotFound, quoted, shorten
from duebook.lazy_dataclasses import dataclass
from duebook.model.serving import ALL, read_serving, serving_of
from duebook.model.target import TaskTarget, load_target
from duebook.targets.context import Context
from duebook.targets.function_signature import FunctionSignature
from duebook.targets.outcomes import Unfit, failed, returned, stopped, with_published
from duebook.targets.printing import Printing
from duebook.targets.templates import TemplateFailed, rendered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from duebook.model.run import Claim, Outcome
    from duebook.model.serving import Serving
    from duebook.model.target import Target
    from duebook.targets.context import Reports, TaskStop

__all__ = [
    "CHILD",
    "Isolation",
    "Task",
    "Tasks",
    "begin_task",
    "check_function",
    "is_task_process",
    "payload_of",
    "perform_task",
]

Isolation = Literal["thread", "process"]
_ISOLATIONS: Final = get_args(Isolation)
CHILD: Final = "duebook.targets.task_child"
"""The program of a process that executes tasks for a node."""


@dataclass(frozen=True, slots=True)
class Task:
    """A function that workers know by a name."""

    name: str
    function: Callable[..., Any]
    isolation: Isolation
    is_async: bool
    signature: FunctionSignature
    schedules: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """schedules declared with it, by name: each a definition without its target"""
    policies: Mapping[str, Any] = field(default_factory=dict)
    namespaces: Serving = ALL
    """the namespaces whose runs may call it"""

    def refuse(self, namespace: str) -> None:
        """Raises Invalid for a namespace whose runs may not call it."""
        if namespace not in self.namespaces:
            raise Invalid(
                f'task "{self.name}" is only for {self.namespaces}, not for namespace '
                f'"{shorten(namespace)}"; use another task, or allow the namespace in '
                "@book.task(namespaces=…)"
            )

    @property
    def kind(self) -> Literal["thread", "loop", "process"]:
        """Where it runs."""
        if self.isolation == "process":
            return "process"
        return "loop" if self.is_async else "thread"

    @property
    def place(self) -> str:
        """The location of its code, for people."""
        return f"{self.function.__module__}.{self.function.__qualname__}"


class Tasks:
    """The tasks of a program, by name."""

    def __init__(self) -> None:
        self._known: dict[str, Task] = {}
        self._names: tuple[str, ...] = ()
        self.any_async = False
        """whether any of them runs in the event loop"""
        self.cooperative: frozenset[str | None] = frozenset()
        """the names of those that can only be asked to stop, not forced"""
        self.process_env: dict[str, str] = {}
        """additional environment of its processes, besides the node's"""

    def add(
        self,
        function: Callable[..., Any],
        name: str | None = None,
        isolation: Isolation | None = None,
        schedules: Mapping[str, Mapping[str, Any]] | None = None,
        policies: Mapping[str, Any] | None = None,
        namespaces: str | Sequence[str] | None = None,
    ) -> Task:
        """Raises Invalid for an invalid or taken name, and for a function that cannot be called
        so."""
        check_function(function)
        target = load_target({"task": function.__name__ if name is None else name})
        if isolation is not None and isolation not in _ISOLATIONS:
            known = ", ".join(_ISOLATIONS)
            raise Invalid(f"isolation {quoted(isolation)} is not one of {known}")
        if isolation == "process" and "<" in function.__qualname__:
            raise Invalid(
                f'isolation "process" needs a function that can be imported, but '
                f"{function.__qualname__} is defined inside another; move it to its module"
            )
        task = Task(
            str(target.to_json()["task"]),
            function,
            isolation or "thread",
            inspect.iscoroutinefunction(function),
            FunctionSignature(function),
            dict(schedules or {}),
            dict(policies or {}),
            ALL if namespaces is None else read_serving(namespaces, "namespaces"),
        )
        other = self._known.get(task.name)
        if other is not None and other.place != task.place:
            raise Invalid(
                f'task "{task.name}" is declared both by {other.place} and by {task.place}'
            )
        self._known[task.name] = task
        self._names = tuple(sorted(self._known))
        kinds = {name: known.kind for name, known in self._known.items()}
        self.any_async = "loop" in kinds.values()
        self.cooperative = frozenset(name for name, kind in kinds.items() if kind != "process")
        return task

    def to_json(self) -> list[dict[str, Any]]:
        """Their names, parameters and namespaces; `load` reads it."""
        return [
            {
                "name": task.name,
                "takes": task.signature.to_json(),
                "namespaces": task.namespaces.to_json(),
            }
            for task in self
        ]

    @classmethod
    def load(cls, forms: Iterable[Mapping[str, Any]]) -> Tasks:
        """Tasks of a program in another process: only their payloads can be checked here."""
        tasks = cls()
        for form in forms:
            signature = FunctionSignature.load(form["takes"])
            tasks._known[form["name"]] = Task(
                form["name"],
                _elsewhere,
                "thread",
                is_async=False,
                signature=signature,
                namespaces=serving_of(form["namespaces"]),
            )
        tasks._names = tuple(sorted(tasks._known))
        tasks.cooperative = frozenset(tasks._known)
        return tasks

    def get(self, name: str) -> Task:
        """Raises NotFound."""
        if name not in self._known:
            known = ", ".join(self._names) or "none"
            raise NotFound(
                f'task "{shorten(name)}" is not declared here; the declared tasks are {known}'
            )
        return self._known[name]

    def find(self, name: str | None) -> Task | None:
        """The task that a run executes; None if it is not declared here, or the run executes
        none."""
        return self._known.get(name)  # type: ignore[arg-type]

    def name_of(self, function: Callable[..., Any]) -> str:
        """Raises NotFound for a function that is not a task."""
        for task in self._known.values():
            if function in (task.function, inspect.unwrap(task.function)):
                return task.name
        raise NotFound(f"{shorten(function)} is not declared as a task here")

    @property
    def names(self) -> tuple[str, ...]:
        return self._names

    def __iter__(self) -> Iterator[Task]:
        return iter(self._known.values())

    def __contains__(self, name: object) -> bool:
        return name in self._known

    def check(
        self,
        target: Target,
        payload: Mapping[str, Any],
        is_open: Callable[[Any], bool] = lambda _: False,
    ) -> None:
        """Raises Invalid for a payload that a task declared here does not accept.

        Values that are still `is_open` are not known yet.
        """
        if isinstance(target, TaskTarget) and target.name in self._known:
            self._known[target.name].signature.check(payload, is_open)

    def refuse_fenced(self, target: Target, namespace: str) -> None:
        """Raises Invalid for a task declared here that is not for this namespace."""
        if isinstance(target, TaskTarget) and target.name in self._known:
            self._known[target.name].refuse(namespace)

    @property
    def package(self) -> str:
        """The top-level package, or the script, that declares the first task; empty for none."""
        for task in self._known.values():
            return _home(task.function).partition(".")[0]
        return ""


def _elsewhere() -> None:
    raise NotFound("this task is declared in another process and runs there")


def check_function(function: object) -> None:
    """Raises Invalid unless it is a function whose body a call would execute."""
    if not inspect.isfunction(function):
        raise Invalid(f"{shorten(function)} is not a function; use @book.task above a def")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise Invalid(
            f"{function.__qualname__} is a generator, so a call does not run it; return a value"
        )


def is_task_process() -> bool:
    """Whether this process executes tasks for a node, so that it must not be a node itself."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec is not None and spec.name == CHILD


def _home(function: Callable[..., Any]) -> str:
    """The module of a function; for a script, its file name."""
    module: str | None = function.__module__
    if module != "__main__":
        return module or "main"
    main = sys.modules["__main__"]
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None:
        return str(spec.name.removesuffix(".__main__"))
    return "main" if file is None else Path(file).stem


def payload_of(claim: Claim) -> dict[str, Any]:
    """The payload of a run, with its values in place of templates; raises Unfit."""
    try:
        return rendered(claim).payload
    except TemplateFailed as error:
        raise Unfit("template", str(error)) from None


def begin_task(task: Task, claim: Claim, stop: TaskStop, reports: Reports) -> Any:
    """Call the function with the arguments of its signature; an async one returns a coroutine.

    Raises Unfit when the payload does not fit, and whatever the function raises.
    """
    payload = payload_of(claim)
    try:
        task.signature.check(payload)
    except Invalid as error:
        raise Unfit("payload", str(error)) from None
    if not task.signature.takes_context:
        return task.function(**payload)
    ctx = Context(
        claim.begun_run, claim.token, payload, claim.user, stop, reports, claim.traceparent
    )
    return task.function(ctx, **payload)


def perform_task(task: Task, claim: Claim, stop: TaskStop, reports: Reports) -> Outcome:
    """Call a function and wait for its end, in this thread."""
    try:
        with Printing(reports):
            value = begin_task(task, claim, stop, reports)
    except BaseException as error:
        return failed(stop, error, reports)
    if (asked := stopped(stop, None)) is not None:
        return asked
    if reports.settles:
        return reports.settled()
    return with_published(returned(value), reports.published)
