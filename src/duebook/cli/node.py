"""The commands that run a node: up, worker and web; and tick, one step for use from cron."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from duebook.app import MOST_SLOTS
from duebook.cli.arguments import read_pair
from duebook.cli.commands import command
from duebook.cli.loading import load_app
from duebook.cli.node_log import begin_log, log_level
from duebook.cli.opening import database_settings
from duebook.cli.output import json_option, print_json, when
from duebook.cli.web import open_socket, open_web, start_web
from duebook.descriptors import allow_descriptors
from duebook.errors import Invalid, printable, shorten
from duebook.ids import check_name
from duebook.lazy_dataclasses import dataclass
from duebook.model.fields import read_labels
from duebook.model.node_times import read_lease, read_stop_within
from duebook.model.serving import choose_serving
from duebook.model.smtp_server import load_smtp_url
from duebook.secret_sources import read_sources
from duebook.settings import COORDINATIONS, LOG_FORMATS, is_memory
from duebook.settings import ROLES as NODE_ROLES
from duebook.store.opening import place_of
from duebook.targets.addresses import read_networks
from duebook.targets.celery_link import load_celery_app
from duebook.targets.command_setup import command_setup
from duebook.targets.printing import keeping_prints
from duebook.targets.spawner import Spawner
from duebook.timetext import format_instant
from duebook.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from duebook.app import Duebook
    from duebook.engine.node import NodeOptions
    from duebook.settings import Settings
    from duebook.store.values import Labels
    from duebook.targets.command_setup import CommandUser

__all__ = ["tick_command", "up_command", "web_command", "worker_command"]

ROLES: Final = (*NODE_ROLES, "web")
TICK_LEASE: Final = timedelta(minutes=1)


_log_options = (
    click.option(
        "--log-format",
        type=click.Choice(LOG_FORMATS),
        help="How to write the log on stderr. [env: DUEBOOK_LOG_FORMAT; default: text]",
    ),
    click.option(
        "--verbose", "-v", is_flag=True, help="Also log what was planned and claimed, and why."
    ),
)
_quiet_option = click.option("--quiet", "-q", is_flag=True, help="Log only warnings and errors.")


def _with(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Add several options to a command."""

    def decorate(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


_node_options = _with(
    click.option(
        "--slots",
        type=click.IntRange(1, MOST_SLOTS),
        metavar="N",
        default=10,
        show_default=True,
        help="How many runs to execute at once.",
    ),
    click.option(
        "--label",
        "labels",
        metavar="NAME=VALUE",
        multiple=True,
        help="A label that steps of flows can ask for; repeatable.",
    ),
    click.option(
        "--queue",
        metavar="NAME",
        multiple=True,
        default=("default",),
        help="A queue to serve; repeatable. [default: default]",
    ),
    click.option(
        "--serve",
        metavar="NAMESPACES",
        help="Execute runs of these namespaces, separated by commas, or * for all. [env: "
        "DUEBOOK_SERVE; default: the namespace of the program or of --namespace, else all]",
    ),
    click.option(
        "--stop-within",
        metavar="LENGTH",
        help="How long to wait for running runs when told to stop, such as 5m. [env: "
        "DUEBOOK_STOP_WITHIN; default: 10s]",
    ),
    click.option(
        "--lease",
        metavar="LENGTH",
        help="How long the node may be out of touch with the database before others take over "
        "its runs, from 30s to 10m. [env: DUEBOOK_LEASE; default: 30s]",
    ),
    click.option(
        "--prune", is_flag=True, help="Delete schedules that the program no longer declares."
    ),
    click.option(
        "--pass-env",
        metavar="NAMES",
        multiple=True,
        help="Environment variables to pass to commands, such as EDITOR,AWS_*; repeatable. "
        "[env: DUEBOOK_PASS_ENV]",
    ),
    click.option(
        "--run-as",
        metavar="USER",
        help="Run commands as this user; the node must be root. [env: DUEBOOK_RUN_AS]",
    ),
    click.option(
        "--celery",
        metavar="MODULE:APP",
        help="Send tasks to the workers of this Celery app. [env: DUEBOOK_CELERY_APP]",
    ),
    click.option(
        "--http-allow",
        metavar="NETWORKS",
        help="Private networks that requests may reach, such as 10.0.0.0/8. "
        "[env: DUEBOOK_HTTP_ALLOW]",
    ),
    click.option(
        "--tracing",
        is_flag=True,
        help="Write OpenTelemetry spans of runs. [env: DUEBOOK_TRACING; default: off]",
    ),
    _quiet_option,
    *_log_options,
)

_web_options = _with(
    click.option(
        "--host",
        metavar="HOST",
        help="The address of the API and the dashboard. [env: DUEBOOK_HOST; default: 127.0.0.1]",
    ),
    click.option(
        "--port",
        metavar="N",
        help="Their port; 0 for any free one. [env: DUEBOOK_PORT; default: 7420, or the next free "
        "one]",
    ),
    click.option(
        "--max-connections",
        metavar="N",
        help="At most N open connections. [env: DUEBOOK_MAX_CONNECTIONS; default: 1000, or what "
        "`ulimit -n` allows]",
    ),
)


_flows_option = click.option(
    "--flows",
    "flows",
    metavar="DIR",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A directory of flow files to load and watch; repeatable.",
)


@command("up")
@click.option("--app", metavar="MODULE:BOOK", help="Also run the tasks of this program.")
@_node_options
@_web_options
@click.option(
    "--roles",
    default=",".join(ROLES),
    show_default=True,
    help="What the node does: plan, execute runs, publish events, serve the API.",
)
@_flows_option
@click.option(
    "--coordination",
    type=click.Choice(COORDINATIONS),
    help="Which schedulers plan: all, or one leader at a time. [env: DUEBOOK_COORDINATION; "
    "default: all]",
)
def up_command(app: str | None, roles: str, coordination: str | None, **options: Any) -> None:
    """Start a node: plan and run what is due, serve the dashboard.

    It runs until Ctrl-C.

    \b
    Examples:
      duebook up
      duebook up --app reports:book
      duebook up --flows flows/
      duebook up --namespace staging
      duebook up --database sqlite:////var/lib/duebook/books.db --log-format json
    """
    _serve(_Wanted(app, read_roles(roles), coordination, **options))


@command("worker")
@click.argument("app", metavar="MODULE:BOOK")
@_node_options
def worker_command(app: str, **options: Any) -> None:
    """Start a node that only executes runs, with a program's tasks.

    It runs until Ctrl-C; other nodes plan. MODULE is imported from the current
    directory; BOOK is the Duebook in it that has the tasks.

    \b
    Examples:
      duebook worker reports:book --slots 50
      duebook worker reports:book --serve shop,billing
    """
    _serve(_Wanted(app, ("worker",), None, **options))


@command("web")
@click.option("--app", metavar="MODULE:BOOK", help="The program whose tasks it can schedule.")
@_web_options
@_with(_quiet_option, *_log_options)
def web_command(app: str | None, **options: Any) -> None:
    """Serve only the dashboard and the API.

    It runs until Ctrl-C; other nodes plan and run.

    \b
    Example:
      duebook web --port 8080
    """
    _serve(_Wanted(app, ("web",), None, **options))


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The node that a command line describes."""

    app: str | None
    roles: tuple[str, ...]
    coordination: str | None
    slots: int = 1
    queue: tuple[str, ...] = ("default",)
    labels: tuple[str, ...] = ()
    serve: str | None = None
    http_allow: str | None = None
    pass_env: tuple[str, ...] = ()
    run_as: str | None = None
    celery: str | None = None
    stop_within: str | None = None
    lease: str | None = None
    prune: bool = False
    quiet: bool = False
    verbose: bool = False
    log_format: str | None = None
    host: str | None = None
    port: str | None = None
    max_connections: str | None = None
    flows: tuple[Path, ...] = ()
    tracing: bool = False

    def settings(self) -> Settings:
        return database_settings(
            coordination=self.coordination,
            http_allow=self.http_allow,
            celery_app=self.celery,
            serve=self.serve,
            pass_env=",".join(self.pass_env),
            run_as=self.run_as,
            stop_within=self.stop_within,
            lease=self.lease,
            host=self.host,
            port=self.port,
            max_connections=self.max_connections,
            log_format=self.log_format,
            tracing="on" if self.tracing else None,
        )

    def check(self) -> None:
        """Raises the errors of its options before anything starts."""
        if self.quiet and self.verbose:
            raise click.UsageError("give either --quiet or --verbose, not both")
        for name in self.queue:
            check_name(name, "--queue")
        self._labels()

    def serves_apart(self, database_url: str) -> bool:
        """Whether the API runs in its own process, judging by the command line."""
        return self.roles != ("web",) and not is_memory(database_url)

    def refuse_part(self, database_url: str) -> None:
        """Raises Invalid if the node needs other nodes that could not access its database."""
        missing = [role for role in ("scheduler", "worker") if role not in self.roles]
        if missing and is_memory(database_url):
            raise Invalid(
                f"{database_url} is in the memory of one process, and this node would have no "
                f"{' and no '.join(missing)}; use duebook up, or a file or PostgreSQL"
            )

    def _labels(self) -> Labels:
        pairs = (read_pair(label, "--label") for label in self.labels)
        return read_labels("--label", dict(pairs))

    def options(self, settings: Settings, namespace: str) -> NodeOptions:
        from duebook.engine.node import NodeOptions
        from duebook.engine.node_options import load_tracing

        return NodeOptions(
            slots=self.slots,
            queues=self.queue,
            namespaces=choose_serving(
                settings.serve,
                namespace,
                program=self.app is not None or bool(settings.celery_app),
                named="namespace" in settings.given,
            ),
            labels=self._labels(),
            roles=self.roles,
            coordination=settings.coordination,
            http_allow=read_networks(settings.http_allow),
            stop_within=read_stop_within(settings.stop_within),
            lease=read_lease(settings.lease),
            secrets=read_sources(settings.secrets),
            smtp=load_smtp_url(settings.smtp_url),
            public_url=settings.public_url,
            celery=load_celery_app(settings.celery_app) if "worker" in self.roles else None,
            tracing=load_tracing(settings.tracing),
        )


def _serve(wanted: _Wanted) -> None:
    settings = wanted.settings()
    wanted.check()
    level = log_level(wanted.quiet, wanted.verbose)
    announce = begin_log(level, settings.log_format)
    read_networks(settings.http_allow)  # reports mistakes now
    read_stop_within(settings.stop_within)
    read_lease(settings.lease)
    load_smtp_url(settings.smtp_url)
    setup = command_setup(settings.pass_env, settings.run_as)
    allow_descriptors(wanted.slots * 8 + 256)  # a run needs five
    with ExitStack() as stack:
        listening = open_socket(settings) if "web" in wanted.roles else None
        if listening is not None:
            stack.callback(listening.socket.close)
        stack.enter_context(keeping_prints())
        spawner = stack.enter_context(Spawner(setup))  # before any thread starts
        children, process = stack.enter_context(ExitStack()), None
        if listening is not None and wanted.serves_apart(settings.database_url):
            from duebook.cli.web_supervisor import WebProcess

            process = children.enter_context(WebProcess(listening.socket))  # imports meanwhile
        from duebook.engine.garbage import collect_seldom
        from duebook.engine.measures import Measures

        book = stack.enter_context(load_app(wanted.app, settings))
        options = wanted.options(settings, book.namespace)
        measures, in_memory = Measures(), is_memory(book.database_url)
        wanted.refuse_part(book.database_url)
        web = None
        if listening is not None and process is not None and not in_memory:
            web = start_web(process, book, settings, listening, measures, level)
        elif listening is not None:
            children.close()  # another process could not access this one's memory
            web = stack.enter_context(open_web(book, settings, listening, measures))

        def ready() -> None:
            for line in _greeting(book, options, setup.user):
                announce(line)
            if web is not None:
                web.start(announce)
            collect_seldom()
            announce("ready; press Ctrl-C to stop")

        book.serve(spawner, options, wanted.prune, ready, measures, wanted.flows)
    announce(
        "stopped; the database in memory is gone"
        if in_memory
        else "stopped; the next start continues where this one ended"
    )


def _greeting(book: Duebook, options: NodeOptions, user: CommandUser | None) -> Iterator[str]:
    place = place_of(book.database_url).removeprefix("database ")
    yield f"duebook {__version__}, database {printable(place)}"
    if is_memory(book.database_url):
        yield "this database is lost when the node stops; use a file or PostgreSQL to keep it"
    if "worker" in options.roles:
        yield f"serves {options.namespaces}"
        if user is not None:
            yield f"runs commands as {user.name}"
    if options.celery is not None:
        waits = "" if options.celery.waits else ", which has no result backend"
        yield f"sends tasks to Celery{waits}"
    if book.tasks.names:
        yield f"tasks: {', '.join(book.tasks.names)}"
    for schedule in book.schedules.list(status="active", sort="next_due_at", limit=3):
        yield f"next: {schedule.name} {when(schedule.next_due_at)}"
    if not book.tasks.names and not book.schedules.list(limit=1):
        yield "no schedules yet; add one in another terminal:"
        where = "--url ADDRESS " if is_memory(book.database_url) else ""
        yield f"  duebook {where}add hello --every 10s -- echo hello"


def read_roles(text: str) -> tuple[str, ...]:
    """The given roles, in a fixed order; raises Invalid."""
    given = [word.strip() for word in text.split(",")]
    for word in given:
        if word not in ROLES:
            known = ", ".join(ROLES)
            raise Invalid(
                f'--roles "{shorten(word)}" is not one of {known}; separate them with commas'
            )
    return tuple(role for role in ROLES if role in given)


@command("tick")
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    metavar="N",
    default=50,
    show_default=True,
    help="How many schedules to plan.",
)
@_flows_option
@_with(*_log_options)
@json_option
def tick_command(
    limit: int, flows: tuple[Path, ...], log_format: str | None, verbose: bool, as_json: bool
) -> None:
    """Plan what is due now and exit, for use from cron.

    Nodes do this by themselves. Prints how many due times became runs, were
    skipped or wait, how many schedules remain due beyond --limit, and when the
    next one is due. --flows reads the directory first; due times of flows wait
    until a node or this command reads it.
    """
    from duebook.book.flow_registry import FlowRegistry
    from duebook.cli.opening import open_database
    from duebook.engine.gone_nodes import bury_gone
    from duebook.engine.measures import Measures
    from duebook.engine.sequencer import Sequencer
    from duebook.engine.session import new_session
    from duebook.engine.ticker import Ticker
    from duebook.flows.directory_keeper import scan_once

    if verbose:
        form = database_settings(log_format=log_format).log_format
        begin_log(log_level(quiet=False, verbose=True), form)
    measures = Measures()
    with open_database() as book:
        session = new_session("scheduler")
        book.store.transact(lambda tx: tx.nodes.begin_session(session, TICK_LEASE))
        try:
            bury_gone(book.store, session.id)
            if flows:
                scan_once(flows, FlowRegistry(book.store, book.namespace), session.id)
            wake_at = Ticker(book.store, session.id, limit, measures=measures).step()
            if book.store.sequences:
                Sequencer(book.store).step()
        finally:
            book.store.transact(lambda tx: tx.nodes.end_session(session.id))
        answer = {
            "fired": measures.fired,
            "skipped": measures.skipped.total(),
            "deferred": measures.deferred,
            "remaining": book.store.read(lambda tx: tx.plans.count_due()),
        }
        if as_json:
            next_due_at = None if wake_at is None else format_instant(wake_at)
            print_json(answer | {"next_due_at": next_due_at})
            return
        click.echo(", ".join(f"{number:,} {word}" for word, number in answer.items()))
        click.echo(f"next due {when(wake_at)}")
