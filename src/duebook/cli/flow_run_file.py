"""The command `flow run`: runs a flow file once, with a node and a database in this process."""

from __future__ import annotations

import logging
import signal
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from duebook.cli.arguments import read_pair
from duebook.cli.commands import command
from duebook.cli.exit_codes import INTERRUPTED
from duebook.cli.flow_runs import print_end, watch
from duebook.cli.loading import load_app
from duebook.cli.log_reader import LogPrinter, RunLog
from duebook.cli.opening import settings_of
from duebook.cli.output import json_option, print_json, print_problem, wrapped
from duebook.cli.run import exit_by
from duebook.errors import Conflict, Invalid, printable, shorten
from duebook.flows.build import Built, build
from duebook.flows.files import Content, default_name, find, read
from duebook.flows.problems import Problem, Refused
from duebook.flows.reconcile import notes_about
from duebook.model.codec import encode
from duebook.model.fields import read_labels
from duebook.model.flow import Revision
from duebook.model.node_times import read_lease, read_stop_within
from duebook.model.serving import Serving
from duebook.model.smtp_server import load_smtp_url
from duebook.model.target import TaskTarget
from duebook.secret_sources import read_sources
from duebook.targets.addresses import read_networks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from duebook.app import Duebook
    from duebook.model.flow import Flow
    from duebook.model.run import Run
    from duebook.settings import Settings

__all__ = ["run_file_command"]

MEMORY: Final = "memory://"


@command("run")
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("args", metavar="[-- ARGS]", nargs=-1)
@click.option(
    "--param", "params", metavar="NAME=VALUE", multiple=True, help="A parameter; repeatable."
)
@click.option("--app", metavar="MODULE:BOOK", help="Also run the tasks of this program.")
@json_option
def run_file_command(
    file: Path, args: tuple[str, ...], params: tuple[str, ...], app: str | None, as_json: bool
) -> None:
    """Run a flow file once, without a node.

    The run and its logs are kept in memory, and are gone afterwards. The flow can
    call those of other files in its directory. ARGS are values of its params, by
    place or as NAME=VALUE. Exit code 5 unless it succeeded, 6 if partial. Ctrl-C
    stops it.

    \b
    Examples:
      duebook flow run etl.yaml
      duebook flow run etl.yaml -- 2026-02-07 REGION=eu
    """
    flow, revisions, flows = _read(file)
    for note in notes_about([flow], {each.name for each in flows}):
        click.echo(wrapped(printable(f"note: {note}")), err=True)
    if app is None:
        _refuse_tasks(flows)
    given = _by_place(flow, args) | dict(read_pair(param, "--param") for param in params)
    with _only_errors(), load_app(app, settings := settings_of()) as book:
        book.move(MEMORY, None)
        book.store.transact(lambda tx: tx.flows.save_flows(book.namespace, revisions))
        run = book.flows.start(flow.name, given)
        queues = sorted({"default", *(each.policies.queue for each in flows)})
        with _node(book, settings, queues, _labels(flows), file.parent):
            run, interrupted = _follow(book, run, as_json)
            if as_json:
                print_json(encode(run) | {"steps": list(map(encode, book.flows.steps(run.id)))})
            else:
                print_end(run)
    if interrupted:
        click.get_current_context().exit(INTERRUPTED)
    exit_by(run.status)


@contextmanager
def _node(
    book: Duebook, settings: Settings, queues: list[str], labels: dict[str, str], root: Path
) -> Iterator[None]:
    """A node in this process that reads the file's directory."""
    from duebook.engine.background_node import BackgroundNode
    from duebook.engine.node_options import NodeOptions
    from duebook.targets.celery_link import load_celery_app
    from duebook.targets.command_setup import command_setup
    from duebook.targets.spawner import Spawner

    options = NodeOptions(
        queues=tuple(queues),
        namespaces=Serving((book.namespace,)),
        labels=read_labels("worker_selector", labels),
        http_allow=read_networks(settings.http_allow),
        stop_within=read_stop_within(settings.stop_within),
        lease=read_lease(settings.lease),
        secrets=read_sources(settings.secrets),
        smtp=load_smtp_url(settings.smtp_url),
        celery=load_celery_app(settings.celery_app),
        flow_directories={_folder(root): str(root.resolve())},
    )
    with Spawner(command_setup(settings.pass_env, settings.run_as)) as spawner:
        node = BackgroundNode(lambda ready: book.serve(spawner, options, ready=ready))
        node.begin()
        try:
            yield
        finally:
            book.stop()
            node.end()


@contextmanager
def _only_errors() -> Iterator[None]:
    """Hide the node's log, except errors."""
    log = logging.getLogger("duebook")
    former = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(former)


def _follow(book: Duebook, run: Run, quiet: bool) -> tuple[Run, bool]:
    """Print steps and their output until the run has ended; returns whether it was interrupted."""
    log, printer = RunLog(book, run), LogPrinter()
    interrupts, asked = 0, False

    def count(*_: object) -> None:
        nonlocal interrupts
        interrupts += 1

    def look() -> None:
        nonlocal asked
        if not quiet:
            for piece in log.new():
                printer(piece, log.width)
        if interrupts > 1:
            raise KeyboardInterrupt
        if interrupts and not asked:
            asked = True
            click.echo("\nstopping; press Ctrl-C again to stop now", err=True)
            with suppress(Conflict):
                book.flows.stop(run.flow or "")

    former = signal.signal(signal.SIGINT, count)
    try:
        return watch(book, run, {}, quiet, look), asked
    except KeyboardInterrupt:
        book.stop()  # leaving `running` stops it again: the second stop ends its runs
        return book.runs.get(run.id), True
    finally:
        signal.signal(signal.SIGINT, former)


def _read(file: Path) -> tuple[Flow, list[Revision], list[Flow]]:
    """The flow of a file, the revisions of all that it may call, and these flows themselves."""
    content, built = _built(file, None)
    if built.problems:
        for problem in built.problems:
            print_problem(problem, err=True)
        raise SystemExit(2)
    assert content is not None  # noqa: S101 - it would be a problem
    root = file.parent
    found = {flow.name: (flow, _revision(flow, file, content, root)) for flow in built.flows}
    for path, (text, other) in _others(file):
        found |= {
            flow.name: (flow, _revision(flow, path, text, root))
            for flow in other.flows
            if flow.name not in found
        }
    return (
        built.flows[0],
        [made for _, made in found.values()],
        [flow for flow, _ in found.values()],
    )


def _others(file: Path) -> Iterator[tuple[Path, tuple[Content, Built]]]:
    """The other files of its directory that have no problems."""
    root = file.parent
    for path in find(root):
        if path.resolve() != file.resolve():
            content, built = _built(path, root)
            if content is not None and not built.problems:
                yield path, (content, built)


def _built(path: Path, root: Path | None) -> tuple[Content | None, Built]:
    try:
        content = read(path, str(path), root)
    except Refused as error:
        return None, Built((), (), (error.problem,))
    if content is None:
        hint = f"to start a flow that a node reads: duebook flow start {path.stem}"
        problem = Problem(str(path), 0, 0, "", "the file does not exist", hint)
        return None, Built((), (), (problem,))
    return content, build(content.text, str(path), default_name(path))


def _revision(flow: Flow, path: Path, content: Content, root: Path) -> Revision:
    place = f"{_folder(root)}/{path.relative_to(root).as_posix()}"
    return Revision(flow.name, place, content.digest, content.text)


def _folder(root: Path) -> str:
    return root.resolve().name or "flows"


def _refuse_tasks(flows: Sequence[Flow]) -> None:
    for step in (step for flow in flows[:1] for step in flow.all_steps()):
        if isinstance(step.target, TaskTarget):
            raise Invalid(
                f'step "{shorten(step.name)}" runs task "{step.target.name}"; name the program '
                "that has it: --app MODULE:BOOK"
            )


def _labels(flows: Sequence[Flow]) -> dict[str, str]:
    """All labels that the steps require: this process runs every step."""
    return {name: value for f in flows for step in f.all_steps() for name, value in step.workers}


def _by_place(flow: Flow, args: Sequence[str]) -> dict[str, Any]:
    """Values of params: named ones, and the others in the order of the params."""
    found: dict[str, Any] = {}
    places = [param.name for param in flow.params]
    for arg in args:
        name, equals, value = arg.partition("=")
        if equals and name in places:
            found[name] = value
            continue
        rest = [place for place in places if place not in found]
        if not rest:
            has = ", ".join(places) or "none"
            raise Invalid(f'there is no param for "{printable(shorten(arg))}"; the flow has {has}')
        found[rest[0]] = arg
    return found
