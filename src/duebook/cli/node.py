"""The commands that work: up, worker and web, nodes until Ctrl-C; tick, one step for a cron
outside."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from duebook.app import MOST_SLOTS
from duebook.cli.arguments import read_pair
from duebook.cli.loading import load_app
from duebook.cli.node_log import begin_log, log_level
from duebook.cli.opening import database_settings
from duebook.cli.output import json_option, print_json, when
from duebook.cli.web import open_socket, open_web, start_web
from duebook.descriptors import allow_descriptors
from duebook.errors import Invalid, printable, shorten
from duebook.ids import check_name
from duebook.model.fields import read_labels
from duebook.model.serving import choose_serving
from duebook.settings import COORDINATIONS
from duebook.settings import ROLES as NODE_ROLES
from duebook.store.opening import place_of
from duebook.targets.addresses import read_networks
from duebook.targets.command_setup import command_setup
from duebook.targets.printing import keeping_prints
from duebook.targets.spawner import Spawner
from duebook.timetext import format_instant
from duebook.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.app import Duebook
    from duebook.engine.node import NodeOptions
    from duebook.settings import Settings
    from duebook.store.values import Labels
    from duebook.targets.command_setup import CommandUser

__all__ = ["tick_command", "up_command", "web_command", "worker_command"]

ROLES: Final = (*NODE_ROLES, "web")
TICK_LEASE: Final = timedelta(minutes=1)


def _take_database(ctx: click.Context, _: click.Parameter, url: str | None) -> None:
    if url is not None:
        ctx.find_root().obj["database_url"] = url


_database_option = click.option(
    "--database",
    metavar="URL",
    expose_value=False,
    callback=_take_database,
    help="Where the books are. [env: DUEBOOK_DATABASE_URL]",
)


_verbose_option = click.option(
    "--verbose", "-v", is_flag=True, help="Log what was planned and claimed, and why."
)


def _node_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What both kinds of nodes can be told."""
    for option in (
        _verbose_option,
        click.option("--quiet", "-q", is_flag=True, help="Show problems only, not every run."),
        click.option(
            "--http-allow",
            metavar="NETWORKS",
            help="Networks for requests besides the public ones. [env: DUEBOOK_HTTP_ALLOW]",
        ),
        click.option(
            "--run-as",
            metavar="USER",
            help="Run commands as another user; the node must be root. [env: DUEBOOK_RUN_AS]",
        ),
        click.option(
            "--pass-env",
            metavar="NAMES",
            multiple=True,
            help="Variables that commands get besides the usual ones, such as EDITOR,AWS_*. [env: "
            "DUEBOOK_PASS_ENV]",
        ),
        click.option(
            "--prune", is_flag=True, help="Delete schedules that the code no longer declares."
        ),
        click.option(
            "--serve",
            metavar="NAMESPACES",
            help="Whose runs it executes: names separated by commas, or * for all. [env: "
            "DUEBOOK_SERVE; default: the namespace of the program or of --namespace, else all]",
        ),
        click.option("--queue", multiple=True, default=("default",), help="Which queues to serve."),
        click.option(
            "--label",
            "labels",
            metavar="NAME=VALUE",
            multiple=True,
            help="For steps of flows that ask for it; may be repeated.",
        ),
        click.option(
            "--slots",
            type=click.IntRange(1, MOST_SLOTS),
            default=10,
            show_default=True,
            help="How many runs at once.",
        ),
    ):
        command = option(command)
    return command


def _web_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option(
            "--max-connections",
            metavar="N",
            help="Connections that the API has open at once. [env: DUEBOOK_MAX_CONNECTIONS; "
            "default: 1000, or what `ulimit -n` allows]",
        ),
        click.option(
            "--port",
            metavar="N",
            help="Of the API; 0 for any that is free. [env: DUEBOOK_PORT; default: 7420, or the "
            "next that is free]",
        ),
        click.option(
            "--host", help="Where the API is served. [env: DUEBOOK_HOST; default: 127.0.0.1]"
        ),
    ):
        command = option(command)
    return command


_flows_option = click.option(
    "--flows",
    "flows",
    metavar="DIR",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A directory of flow files to keep and run; may be repeated.",
)


@click.command("up")
@_database_option
@click.option("--app", metavar="MODULE:BOOK", help="The program whose tasks it runs.")
@_node_options
@_web_options
@click.option(
    "--roles",
    default=",".join(ROLES),
    show_default=True,
    help="What the node does: plan, work, pass events on, serve the API.",
)
@_flows_option
@click.option(
    "--coordination",
    type=click.Choice(COORDINATIONS),
    help="Who plans: all schedulers, or one leader at a time. [env: DUEBOOK_COORDINATION]",
)
def up_command(app: str | None, roles: str, coordination: str | None, **options: Any) -> None:
    """Start a node: it plans what is due, runs it and serves the API, until Ctrl-C.

    \b
    Examples:
      duebook up
      duebook up --app reports:book
      duebook up --flows flows/
      duebook --namespace staging up
      duebook --database sqlite:////var/lib/duebook/books.db up --slots 4 --quiet
    """
    _serve(_Wanted(app, read_roles(roles), coordination, **options))


@click.command("worker")
@_database_option
@click.argument("app", metavar="MODULE:BOOK")
@_node_options
def worker_command(app: str, **options: Any) -> None:
    """Start a node that runs the tasks of a program, until Ctrl-C; others plan.

    MODULE is imported from here; BOOK is the Duebook in it that has the tasks.

    \b
    Examples:
      duebook worker reports:book --slots 50
      duebook worker reports:book --serve shop,billing
    """
    _serve(_Wanted(app, ("worker",), None, **options))


@click.command("web")
@_database_option
@click.option("--app", metavar="MODULE:BOOK", help="The program whose tasks it knows.")
@_web_options
@click.option("--quiet", "-q", is_flag=True, help="Show problems only.")
def web_command(app: str | None, quiet: bool, **options: Any) -> None:
    """Serve the dashboard and the API alone, until Ctrl-C; others plan and work.

    \b
    Example:
      duebook web --port 8080
    """
    _serve(_Wanted(app, ("web",), None, quiet=quiet, **options))


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The node that a command line asks for."""

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
    prune: bool = False
    quiet: bool = False
    verbose: bool = False
    host: str | None = None
    port: str | None = None
    max_connections: str | None = None
    flows: tuple[Path, ...] = ()

    def settings(self) -> Settings:
        return database_settings(
            coordination=self.coordination,
            http_allow=self.http_allow,
            serve=self.serve,
            pass_env=",".join(self.pass_env),
            run_as=self.run_as,
            host=self.host,
            port=self.port,
            max_connections=self.max_connections,
        )

    def check(self) -> None:
        """Raises what is wrong with it, before anything begins."""
        if self.quiet and self.verbose:
            raise click.UsageError("give either --quiet or --verbose")
        for name in self.queue:
            check_name(name, "--queue")
        self._labels()

    def _labels(self) -> Labels:
        pairs = (read_pair(label, "--label") for label in self.labels)
        return read_labels("--label", dict(pairs))

    def options(self, settings: Settings, namespace: str) -> NodeOptions:
        from duebook.engine.node import NodeOptions

        return NodeOptions(
            slots=self.slots,
            queues=self.queue,
            namespaces=choose_serving(
                settings.serve,
                namespace,
                program=self.app is not None,
                named="namespace" in settings.given,
            ),
            labels=self._labels(),
            roles=self.roles,
            coordination=settings.coordination,
            http_allow=read_networks(settings.http_allow),
        )


def _serve(wanted: _Wanted) -> None:
    settings = wanted.settings()
    wanted.check()
    level = log_level(wanted.quiet, wanted.verbose)
    begin_log(level)
    read_networks(settings.http_allow)  # who cannot, hears it now
    setup = command_setup(settings.pass_env, settings.run_as)
    allow_descriptors(wanted.slots * 8 + 256)  # a run needs five
    with ExitStack() as stack:
        listening = open_socket(settings) if "web" in wanted.roles else None
        if listening is not None:
            stack.callback(listening.socket.close)
        stack.enter_context(keeping_prints())
        spawner = stack.enter_context(Spawner(setup))  # before any thread
        process = None
        if listening is not None and wanted.roles != ("web",):
            from duebook.cli.web_supervisor import WebProcess

            process = stack.enter_context(WebProcess(listening.socket))  # it imports meanwhile
        from duebook.engine.garbage import collect_seldom
        from duebook.engine.measures import Measures

        book = stack.enter_context(load_app(wanted.app, settings))
        options = wanted.options(settings, book.namespace)
        measures = Measures()
        web = None
        if process is not None and listening is not None:
            web = start_web(process, book, settings, listening, measures, level)
        elif listening is not None:
            web = stack.enter_context(open_web(book, settings, listening))

        def ready() -> None:
            _greet(book, options, setup.user)
            if web is not None:
                web.start()
            collect_seldom()
            click.echo("ready; Ctrl-C ends it")

        book.serve(spawner, options, wanted.prune, ready, measures, wanted.flows)
    click.echo("ended; nothing is lost, the next start carries on")


def _greet(book: Duebook, options: NodeOptions, user: CommandUser | None) -> None:
    place = place_of(book.database_url)
    click.echo(f"duebook {__version__}, books in {printable(place)}")
    if "worker" in options.roles:
        click.echo(f"serves {options.namespaces}")
        if user is not None:
            click.echo(f"runs commands as {user.name}")
    if book.tasks.names:
        click.echo(f"tasks: {', '.join(book.tasks.names)}")
    for schedule in book.schedules.list(status="active", sort="next_due_at", limit=3):
        click.echo(f"next: {schedule.name} {when(schedule.next_due_at)}")
    if not book.tasks.names and not book.schedules.list(limit=1):
        click.echo("no schedules yet; in another terminal:")
        click.echo("  duebook add hello --every 10s -- echo hello")


def read_roles(text: str) -> tuple[str, ...]:
    """Roles as they are given, in one order; raises Invalid."""
    given = [word.strip() for word in text.split(",")]
    for word in given:
        if word not in ROLES:
            known = ", ".join(ROLES)
            raise Invalid(f'--roles "{shorten(word)}" is not one of {known}; separate them by ,')
    return tuple(role for role in ROLES if role in given)


@click.command("tick")
@_database_option
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True)
@_flows_option
@_verbose_option
@json_option
def tick_command(limit: int, flows: tuple[Path, ...], verbose: bool, as_json: bool) -> None:
    """Plan what is due now and leave, for an outside cron; nodes do this by themselves.

    Prints how many due times became runs, were skipped or have to wait, how
    many schedules remain due beyond --limit, and when the next one is due.
    With --flows the directory is read first: due times of its flows wait as
    long as no node does.
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
        begin_log(log_level(quiet=False, verbose=True))
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
