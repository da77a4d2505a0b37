"""A program and its database: its tasks, their schedules, and a node to run them."""

from __future__ import annotations

import json
import logging
import os
import signal
import threading
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from duebook.book import Book
from duebook.book.declarations import (
    Declarations,
    declare_schedules,
    read_schedules,
    refuse_declaration,
)
from duebook.book.waiting import watch_of
from duebook.errors import Conflict, Invalid, quoted, shorten
from duebook.ids import check_name
from duebook.model.fields import read_labels
from duebook.model.node_times import read_lease, read_stop_within
from duebook.model.serving import choose_serving
from duebook.model.smtp_server import load_smtp_url
from duebook.private_folder import FOLDER, refuse_readable, refuse_writable
from duebook.secret_sources import read_sources
from duebook.settings import ROLES, database_path, is_file, is_memory, load_settings
from duebook.targets.printing import keeping_prints
from duebook.targets.task import Tasks, check_function, is_task_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import timedelta
    from pathlib import Path
    from typing import Unpack

    from duebook.aio import AsyncBook
    from duebook.engine.measures import Measures
    from duebook.engine.node import Node, NodeOptions
    from duebook.flows.directory_keeper import FlowKeeper
    from duebook.model.policies import AnyTrigger, Policies
    from duebook.settings import Settings
    from duebook.store.base import Store
    from duebook.targets.command_setup import CommandSetup
    from duebook.targets.spawner import Spawner
    from duebook.targets.task import Isolation

__all__ = ["Declarations", "Duebook"]

log = logging.getLogger(__name__)

F = TypeVar("F", bound="Callable[..., Any]")
MOST_SLOTS: Final = 10_000
MOVED: Final = "DUEBOOK_MOVED_BOOKS"
"""The variable that tells a task's process that its program uses another database."""


class Duebook(Book):
    """A Duebook database: `postgresql://…`, `sqlite:///path/duebook.db` or a path.

    `memory://` is a database in the memory of this process, for notebooks, tests and small
    services; it is lost when the process ends. Each is separate unless it shares a name:
    `memory://NAME`.

    Without `database_url`, the setting of that name is used; its default is the file
    .duebook/duebook.db. The database is opened at its first use, so declaring tasks needs none.
    `app` identifies the program that declares schedules; the default is the name of its package.
    `by` is recorded in the audit log as the author of changes.
    """

    def __init__(
        self,
        database_url: str | None = None,
        namespace: str | None = None,
        app: str | None = None,
        by: str = "",
    ) -> None:
        given = load_settings({"database_url": database_url, "namespace": namespace})
        self._settings = _followed(given)
        _refuse_nowhere(self._settings.database_url)  # complain now, not at the first use
        super().__init__(None, self._settings.namespace, by=by)
        self._app = None if app is None else check_name(app, "app")
        self._opening = threading.Lock()
        self._node: Node | None = None

    @property
    def database_url(self) -> str:
        return self._settings.database_url

    def move(self, database_url: str | None = None, namespace: str | None = None) -> None:
        """Use another database or namespace; raises Conflict once the database is open.

        Task processes, which import the program again, use the same one.
        """
        if database_url is None and namespace is None:
            return
        if self._opened is not None:
            raise Conflict("the database is already open; call move() before the first use")
        former = self._settings
        self._settings = replace(
            former,
            database_url=database_url or former.database_url,
            namespace=namespace or former.namespace,
        )
        self.namespace = check_name(self._settings.namespace, "namespace")
        self.tasks.process_env[MOVED] = json.dumps([_place(former), _place(self._settings)])

    @cached_property
    def aio(self) -> AsyncBook:
        """The same use cases as coroutines, for async programs: `await book.aio.enqueue(…)`."""
        from duebook.aio import AsyncBook

        return AsyncBook(self, lambda run_id: watch_of(self.store).when_ended(run_id))

    def close(self) -> None:
        if "aio" in vars(self):
            self.aio.stop()
        super().close()

    @property
    def store(self) -> Store:
        if self._opened is None:
            from duebook.store.opening import open_store

            if is_memory(self.database_url) and is_task_process():
                raise Invalid(
                    f"{self.database_url} is in the memory of the node, and a task with isolation="
                    '"process" runs in another process; return a value, or use a file or PostgreSQL'
                )
            with self._opening:
                if self._opened is None:
                    self._opened = open_store(self.database_url, self._settings.listen_url)
        return self._opened

    @overload
    def task(self, function: F, /) -> F: ...

    @overload
    def task(
        self,
        *,
        name: str | None = None,
        schedule: AnyTrigger | None = None,
        schedules: Mapping[str, Mapping[str, Any]] | None = None,
        isolation: Isolation | None = None,
        namespaces: str | Sequence[str] | None = None,
        **policies: Unpack[Policies],
    ) -> Callable[[F], F]: ...

    def task(  # type: ignore[misc]  # mypy misjudges unpacked names
        self,
        function: Any = None,
        /,
        *,
        name: str | None = None,
        schedule: Any = None,
        schedules: Mapping[str, Mapping[str, Any]] | None = None,
        isolation: Isolation | None = None,
        namespaces: str | Sequence[str] | None = None,
        **policies: Unpack[Policies],
    ) -> Any:
        """Register a function as a task, under `name` or its own name; it stays callable.

        Its arguments come from the payload, except a first one named `ctx` or of type Context.
        Sync functions run in threads, async functions in one event loop, and functions with
        `isolation="process"` in separate processes, which can be killed. `schedule` also declares
        a schedule of the same name, with the policies given here. `schedules` declares several, by
        name: each has a `trigger`, and a `payload` and policies of its own, which override those
        given here. `namespaces` restricts which namespaces may run the task: other runs are
        rejected, or fail with reason `fenced`.

        >>> from duebook import Context, Duebook, cron
        >>> book = Duebook("books.db")
        >>> @book.task(schedule=cron("0 9 * * 1-5"), payload={"audience": "staff"})
        ... def digest(ctx: Context, audience: str = "all") -> int:
        ...     return len(audience)
        >>> digest(None, "staff")
        5
        >>> book.tasks.names
        ('digest',)

        Raises Invalid if the name is taken or if no payload could call the function, and
        InvalidSchedule if a policy is wrong or the payload does not match the arguments.
        """

        def declare(function: F) -> F:
            check_function(function)
            own = function.__name__ if name is None else name
            found = read_schedules(own, schedule, schedules)
            refuse_declaration(function, own, isolation, found, policies, self.namespace)
            self.tasks.add(function, name, isolation, found, policies, namespaces)
            return function

        return declare if function is None else declare(function)

    @property
    def app(self) -> str:
        """The name under which the program declares its schedules."""
        return self._app or self.tasks.package or "app"

    def declare(self, prune: bool = False) -> Declarations:
        """Create or update the schedules that tasks declare; every node does this when it starts.

        Unchanged schedules keep their state; changed ones follow the edit rule. Schedules that are
        no longer declared are reported, and deleted only with `prune`. If one schedule is rejected,
        the others are still declared.
        """
        return declare_schedules(self, f"code:{self.app}", prune)

    def run(
        self,
        roles: Sequence[str] = ROLES,
        *,
        slots: int = 10,
        queues: Sequence[str] = ("default",),
        labels: Mapping[str, str] | None = None,
        serve: str | Sequence[str] | None = None,
        prune: bool = False,
        keep_prints: bool = False,
        pass_env: str | Sequence[str] | None = None,
        run_as: str | None = None,
        stop_within: str | timedelta | None = None,
        lease: str | timedelta | None = None,
    ) -> None:
        """Run a node until SIGTERM, Ctrl-C or `stop()`: plan due times and execute runs.

        Signals are handled only in the main thread; in another thread, call `stop()`.
        `keep_prints` replaces sys.stdout and sys.stderr while the node runs, so that what tasks
        print is also written to the logs of their runs. `labels` are matched by flow steps that
        require them. The node executes runs of the namespaces in `serve` (`"*"` for all); the
        default is its own namespace. Commands receive the variables in `pass_env` in addition to
        the usual ones, and run as the user `run_as`. A stop waits up to `stop_within` for running
        runs, then hands them back; a second signal stops at once. `lease` is how long the node may
        be out of touch with the database before others take over its runs. Raises Invalid for
        unknown roles and for invalid queues, labels, namespaces, slots or durations, and Conflict
        if the node is already running.
        """
        with keeping_prints() if keep_prints else nullcontext():
            setup = self._setup(pass_env, run_as)
            options = self._options(roles, slots, queues, labels, serve, stop_within, lease)
            self._run(options, prune, lambda: None, setup)

    @contextmanager
    def running(
        self,
        roles: Sequence[str] = ROLES,
        *,
        slots: int = 10,
        queues: Sequence[str] = ("default",),
        labels: Mapping[str, str] | None = None,
        serve: str | Sequence[str] | None = None,
        prune: bool = False,
        keep_prints: bool = False,
        pass_env: str | Sequence[str] | None = None,
        run_as: str | None = None,
        stop_within: str | timedelta | None = None,
        lease: str | timedelta | None = None,
    ) -> Iterator[None]:
        """Run a node in a background thread during the `with` block, for example in a web server.

        Raises the same errors as `run`: if the node cannot start, or at the end of the block.
        """
        setup = self._setup(pass_env, run_as)
        options = self._options(roles, slots, queues, labels, serve, stop_within, lease)
        from duebook.engine.background_node import BackgroundNode

        node = BackgroundNode(lambda ready: self._run(options, prune, ready, setup))
        with keeping_prints() if keep_prints else nullcontext():
            node.begin()
            try:
                yield
            finally:
                self.stop()
                node.end()

    def _setup(self, pass_env: str | Sequence[str] | None, run_as: str | None) -> CommandSetup:
        from duebook.targets.command_setup import command_setup

        given = self._settings.pass_env if pass_env is None else pass_env
        return command_setup(given, run_as or self._settings.run_as)

    def _options(
        self,
        roles: Sequence[str],
        slots: int,
        queues: Sequence[str],
        labels: Mapping[str, str] | None,
        serve: str | Sequence[str] | None,
        stop_within: str | timedelta | None,
        lease: str | timedelta | None,
    ) -> NodeOptions:
        from duebook.engine.node import NodeOptions
        from duebook.engine.node_options import load_tracing
        from duebook.targets.addresses import read_networks
        from duebook.targets.celery_link import load_celery_app

        if not isinstance(slots, int) or not 1 <= slots <= MOST_SLOTS:
            raise Invalid(f"slots {quoted(slots)} is not a number from 1 to {MOST_SLOTS:,}")
        served = tuple(check_name(queue, "queue") for queue in _names(queues))
        if not served:
            raise Invalid('queues is empty; name at least one, such as "default"')
        settings = self._settings
        return NodeOptions(
            slots=slots,
            queues=served,
            namespaces=choose_serving(
                settings.serve if serve is None else serve,
                self.namespace,
                program=True,
                named=True,
            ),
            labels=read_labels("labels", labels or {}),
            roles=_roles(roles),
            coordination=settings.coordination,
            http_allow=read_networks(settings.http_allow),
            stop_within=read_stop_within(
                settings.stop_within if stop_within is None else stop_within
            ),
            lease=read_lease(settings.lease if lease is None else lease),
            smtp=load_smtp_url(settings.smtp_url),
            public_url=settings.public_url,
            secrets=read_sources(settings.secrets),
            celery=load_celery_app(settings.celery_app),
            tracing=load_tracing(settings.tracing),
        )

    def _run(
        self, options: NodeOptions, prune: bool, ready: Callable[[], None], setup: CommandSetup
    ) -> None:
        from duebook.targets.spawner import Spawner

        if is_memory(self.database_url):
            log.warning("the database %s is lost when this process ends", self.database_url)
        with Spawner(setup) as spawner:
            self.serve(spawner, options, prune, ready)

    def serve(
        self,
        spawner: Spawner,
        options: NodeOptions,
        prune: bool = False,
        ready: Callable[[], None] = lambda: None,
        measures: Measures | None = None,
        flows: Sequence[Path] = (),
    ) -> None:
        """Like `run`, with a spawner that was started before any thread; calls `ready` when up.

        The node adds its counters to `measures` and reads the flow directories in `flows`.
        """
        from duebook.engine.node import Node

        _refuse_unsafe(self.database_url)
        if spawner.setup.user is not None and is_file(self.database_url):
            self.store.read(lambda _: None)  # creates the file, so that it can be checked
            refuse_readable(database_path(self.database_url), spawner.setup.user.name)
        if is_task_process():
            raise Conflict(
                "a task's process imports this program and would start a second node; put "
                'the call below `if __name__ == "__main__":`'
            )
        if self._node is not None:
            raise Conflict("this Duebook is already running as a node; call stop() first")
        chores = [self._flow_keeper(flows)] if flows else []
        options = options.with_flows(flows)
        node = self._node = Node(self.store, spawner, options, self.tasks, measures, chores)
        with _signals(node):
            try:
                if self.tasks.names or self._app is not None:
                    self.declare(prune)
                _warn_unserved(self.tasks, options)
                if flows or any(task.schedules for task in self.tasks):
                    _warn_unserved_namespace(self.namespace, options)
                node.run(ready)
            finally:
                self._node = None

    def _flow_keeper(self, roots: Sequence[Path]) -> FlowKeeper:
        from duebook.book.flow_registry import FlowRegistry  # most nodes have no flow directory
        from duebook.flows.directory_keeper import FlowKeeper

        return FlowKeeper(roots, FlowRegistry(self.store, self.namespace))

    def node_trouble(self) -> str | None:
        """Why the node that `serve` started is not working now; None if it is."""
        node = self._node
        return "this node has stopped" if node is None else node.trouble

    def stop(self) -> None:
        """Stop the node that `run` started, from another thread; does nothing without one."""
        if (node := self._node) is not None:
            node.stop()


def _refuse_unsafe(database_url: str) -> None:
    """Anyone who can write to the database's directory could decide what the node runs."""
    if not is_file(database_url):
        return
    folder = database_path(database_url).parent
    if folder.name == FOLDER:
        refuse_writable(folder)


def _refuse_nowhere(database_url: str) -> None:
    """Raises Invalid for a URL that names no database."""
    if is_memory(database_url):
        from duebook.store.opening import memory_name

        memory_name(database_url)
    elif is_file(database_url):
        database_path(database_url)


def _place(settings: Settings) -> list[str]:
    return [settings.database_url, settings.namespace]


def _followed(settings: Settings) -> Settings:
    """The settings of a program, or those of its node if that has moved to another database."""
    former, place = json.loads(os.environ.get(MOVED, "[null, null]"))
    if former != _place(settings):
        return settings
    return replace(settings, database_url=place[0], namespace=place[1])


def _roles(roles: Sequence[str]) -> tuple[str, ...]:
    given = _names(roles)
    for role in given or ("",):
        if role not in ROLES:
            raise Invalid(f"role {quoted(role)} is not one of {', '.join(ROLES)}")
    return tuple(role for role in ROLES if role in given)


def _names(names: Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _warn_unserved(tasks: Tasks, options: NodeOptions) -> None:
    """Explain why nothing runs when a queue of the program's tasks is not served."""
    waiting: dict[str, list[str]] = {}
    for task in tasks:
        queue = task.policies.get("queue") or "default"
        if "worker" in options.roles and queue not in options.queues:
            waiting.setdefault(queue, []).append(task.name)
    for queue, names in sorted(waiting.items()):
        told = shorten(", ".join(sorted(names)))
        log.info(
            "this node does not serve queue %s; runs of these tasks will wait in it: %s",
            queue,
            told,
        )


def _warn_unserved_namespace(namespace: str, options: NodeOptions) -> None:
    if "worker" in options.roles and namespace not in options.namespaces:
        log.warning(
            "this node declares flows or schedules in namespace %s but serves %s; their runs wait "
            "for a node that serves namespace %s",
            namespace,
            options.namespaces,
            namespace,
        )


@contextmanager
def _signals(node: Node) -> Iterator[None]:
    """Stop the node at SIGTERM, SIGINT or SIGHUP, if this is the thread that handles signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    former = {number: signal.signal(number, lambda *_: node.stop()) for number in numbers}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
