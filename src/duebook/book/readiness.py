"""Judges whether everything that is due can run, and whether a node works; the messages name
what is missing and how to fix it."""

from __future__ import annotations

import shlex
from datetime import timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Final

from duebook.errors import Conflict, Unavailable, counted, shorten
from duebook.flows.problems import Problem as FlowProblem
from duebook.model.celery_target import CELERY
from duebook.model.node import why_unserved
from duebook.model.readiness import CHECKS, NODE_CHECKS, Problem, Readiness
from duebook.model.serving import ALL, Serving, StrandedTask, unserved
from duebook.model.shadow import in_force
from duebook.timetext import format_duration, format_instant, parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from duebook.model.shadow import ShadowSwitch
    from duebook.store.base import Store
    from duebook.store.health_values import ChannelHealth, Health, Overdue

__all__ = ["GRACE", "judge", "look", "look_here", "notes", "unable", "unreachable"]

GRACE: Final = timedelta(minutes=1)
"""How long a schedule may be overdue."""
MOST_NAMED: Final = 10
"""Schedules that cannot be planned and are named; of the others only the number is given."""


def look(
    store: Store, grace: timedelta | str = GRACE, namespaces: Collection[str] | None = None
) -> Readiness:
    """What cannot run, in all namespaces or some; raises Invalid for a `grace` that is not a
    duration."""
    given = parse_duration(grace)
    try:
        health = store.read(lambda tx: tx.status.health(given, namespaces))
    except (Conflict, Unavailable) as error:
        return unreachable(error)
    of = ALL if namespaces is None else Serving(tuple(namespaces))
    return Readiness(health.now, tuple(judge(health, of)), notes=tuple(notes(health, of)))


def look_here(store: Store, trouble: Callable[[], str | None] | None) -> Readiness:
    """Whether the node of this process works; `trouble` returns why not, if it knows."""
    try:
        now, unfit = store.read(lambda tx: (tx.now, tx.status.unfit()))
    except (Conflict, Unavailable) as error:
        return unreachable(error, NODE_CHECKS)
    problems = [] if unfit is None else [Problem("schema", unfit)]
    if trouble is not None and (told := trouble()) is not None:
        problems.append(Problem("node", told))
    return Readiness(now, tuple(problems), NODE_CHECKS)


def unreachable(error: Conflict | Unavailable, asked: tuple[str, ...] = CHECKS) -> Readiness:
    """The database does not respond, or this Duebook cannot use it."""
    code = "database" if isinstance(error, Unavailable) else "schema"
    return Readiness(None, (Problem(code, str(error)),), asked)


def unable(readiness: Readiness) -> list[str]:
    """What prevents queued runs from starting, in sentences."""
    found = readiness.problems
    return [problem.message for problem in found if problem.code in ("namespace", "task")]


def judge(health: Health, of: Serving = ALL) -> Iterator[Problem]:
    """The problems, in the order of CHECKS."""
    if health.unfit is not None:
        yield Problem("schema", health.unfit)
    if not any("scheduler" in node.roles for node in health.nodes):
        yield Problem(
            "scheduler",
            "no live node is a scheduler, so no due times are planned; start one: duebook up",
        )
    served = {queue for node in health.nodes if node.works for queue in node.queues}
    for queue in health.queues:
        if queue not in served:
            start = "duebook up" if queue == "default" else f"duebook up --queue {queue}"
            message = (
                f'runs are waiting in queue "{queue}", which no live worker serves; start one: '
            )
            yield Problem("queue", message + start)
    yield from _unserved(health, served)
    yield from _unknown(health)
    yield from (told for told, all_of_them in _celery_outages(health, of) if all_of_them)
    if health.overdue is not None:
        yield Problem("overdue", _lag(health, health.overdue))
    yield from _unplannable(health)
    for directory in health.directories:
        if directory.unread is not None and directory.waiting:
            yield Problem("flows", directory.unread)


def _unplannable(health: Health) -> Iterator[Problem]:
    for broken in health.broken[:MOST_NAMED]:
        yield Problem("schedule", f'schedule "{broken.title}" cannot be planned: {broken.problem}')
    if (more := len(health.broken) - MOST_NAMED) > 0:
        listed = "list them with: duebook ls --problem"
        yield Problem("schedule", f"{counted(more, 'more schedule')} cannot be planned; {listed}")


def _unserved(health: Health, served: set[str]) -> Iterator[Problem]:
    """Namespaces that no worker serves; queues that no worker serves are reported separately."""
    told = set()
    for place in health.waiting:
        queue, namespace = place.queue, place.namespace
        workers = [node for node in health.nodes if node.serves(namespace)]
        if queue not in served or any(queue in node.queues for node in workers):
            continue
        start = f"start one: duebook up --serve {namespace}"
        if workers:
            message = f'runs of namespace "{namespace}" are waiting in queue "{queue}"'
            message += f", but no live worker serves both; {start} --queue {queue}"
        else:
            message = (
                f'runs are waiting in namespace "{namespace}", which no live node serves; {start}'
            )
        if message not in told:
            told.add(message)
            yield Problem("namespace", message)
    waiting = {place.namespace for place in health.waiting}
    for namespace in health.unserved:
        if namespace not in waiting:
            message = f'no live node serves namespace "{namespace}", which has active schedules; '
            yield Problem("namespace", f"{message}start one: duebook up --serve {namespace}")


def _unknown(health: Health) -> Iterator[Problem]:
    """Tasks of served namespaces that none of their workers knows."""
    anywhere = {task for node in health.nodes if node.works for task in node.tasks}
    served = [node.namespaces for node in health.nodes if node.works]
    told = set()
    for place in health.waiting:
        if unserved(place.namespace, served) is not None:
            continue
        workers = [node for node in health.nodes if node.serves(place.namespace)]
        for task in place.tasks:
            if not any(task in node.tasks for node in workers):
                told.add(str(StrandedTask(place.namespace, task, task in anywhere)))
    for message in sorted(told):
        yield Problem("task", message)


def _celery_outages(health: Health, of: Serving) -> Iterator[tuple[Problem, bool]]:
    """Nodes that serve one of these namespaces and cannot reach the broker or result backend of
    their Celery app, and whether one of the namespaces has no other node that can."""
    nodes = [node for node in health.nodes if node.works and CELERY in node.tasks]
    others = [node.namespaces for node in nodes if node.celery_outage is None]
    for node in nodes:
        if (why := node.celery_outage) is None:
            continue
        served = of if node.namespaces == ALL else node.namespaces.seen_by(of)
        if not (names := served.to_json()):
            continue
        is_alone = not all(any(name in other for other in others) for name in names)
        where = f"{node.node} (process {node.pid})"
        yield (
            Problem("task", f"runs with Celery tasks wait on {where}: {shorten(why, 200)}"),
            is_alone,
        )


def notes(health: Health, of: Serving = ALL) -> Iterator[Problem]:
    """Problems that stop nothing, but need attention."""
    yield from (told for told, all_of_them in _celery_outages(health, of) if not all_of_them)
    yield from _waits_for_approval(health)
    yield from _windows(health)
    yield from _shadow(health)
    yield from _channels(health)
    yield from _files(health)
    for directory in health.directories:
        if directory.unread is not None and not directory.waiting:
            yield Problem("flows", directory.unread)
        if directory.returned:
            names = shorten(", ".join(directory.returned), 200)
            yield Problem(
                "flows",
                f"the node that took over {directory.title} has an earlier revision of {names}; "
                "check that its copy is current",
            )


def _waits_for_approval(health: Health) -> Iterator[Problem]:
    for held in health.held[:MOST_NAMED]:
        default = held.namespace == "default"
        place = "" if default else f" of namespace {held.namespace}"
        where = "" if default else f"--namespace {held.namespace} "
        yield Problem(
            "catchup",
            f'{counted(held.due_times, "missed due time")} of schedule "{held.name}"{place} '
            f"{'has' if held.due_times == 1 else 'have'} waited for approval since "
            f"{format_instant(held.since)}; to run them: duebook {where}catchup approve "
            f"{held.name} --all; to drop them: duebook {where}catchup reject {held.name} --all",
        )
    if (more := len(health.held) - MOST_NAMED) > 0:
        listed = "list them with: duebook catchup ls"
        others = f"{counted(more, 'more schedule')} with due times that wait for approval"
        yield Problem("catchup", f"{others}; {listed}")


def _windows(health: Health) -> Iterator[Problem]:
    for window in health.windows[:MOST_NAMED]:
        where = "" if window.namespace == "default" else f"--namespace {window.namespace} "
        labels = ", ".join(f"{name}={value}" for name, value in window.labels.items())
        pauses = f"schedules with {labels}" if labels else "all schedules"
        place = f" of namespace {window.namespace}" if where else ""
        yield Problem(
            "window",
            f'maintenance window "{window.name}" pauses {pauses}{place} until '
            f"{format_instant(window.end_at)}; to end it: duebook {where}window rm "
            f"{shlex.quote(window.name)}",
        )


def _shadow(health: Health) -> Iterator[Problem]:
    for namespace, group in groupby(health.switches, key=lambda switch: switch.namespace):
        known = in_force(list(group), health.now)
        default = namespace == "default"
        place = "" if default else f" of namespace {namespace}"
        where = "" if default else f"--namespace {namespace} "
        for number, switch in enumerate(known):
            if not switch.shadow:
                continue
            live = [later.selected for later in known[number + 1 :] if not later.shadow]
            rest = f", but for {', '.join(live[:MOST_NAMED])}" if live else ""
            yield Problem(
                "shadow",
                f"shadow mode is on for {switch.selected}{place}{rest}, since "
                f"{format_instant(switch.at)}: due times are recorded, not run; to run them: "
                f"duebook {where}shadow off{_options(switch)}",
            )


def _options(switch: ShadowSwitch) -> str:
    """The command-line options that select the same schedules."""
    words = [switch.schedule] if switch.schedule else []
    words += [f"--label {shlex.quote(f'{n}={value}')}" for n, value in switch.labels.items()]
    return "".join(f" {word}" for word in words)


def _channels(health: Health) -> Iterator[Problem]:
    """Channels that alerts do not reach."""
    if health.channels and not any("relay" in node.roles for node in health.nodes):
        message = "no live node has the role relay, so no alerts are found or sent"
        yield Problem("alerts", f"{message}; start one: duebook up")
    told = [message for channel in health.channels if (message := _channel(health, channel))]
    for message in told[:MOST_NAMED]:
        yield Problem("alerts", message)
    if (more := len(told) - MOST_NAMED) > 0:
        others = f"alerts do not arrive at {counted(more, 'more channel')}"
        yield Problem("alerts", f"{others}; list them with: duebook alert ls")


def _channel(health: Health, channel: ChannelHealth) -> str:
    """Why alerts do not arrive, and how to fix it; empty if they do."""
    where = "" if channel.namespace == "default" else f"--namespace {channel.namespace} "
    unserved = why_unserved(health.nodes, channel.namespace, channel.name)
    refused = f"{counted(channel.dead, 'alert')} refused" if channel.dead else ""
    error = channel.error and shorten(channel.error, 200)
    cannot = unserved and f"no live node can send them: {shorten(unserved, 200)}"
    if not (told := ", ".join(filter(None, (cannot, error, refused)))):
        return ""
    message = f"alerts do not arrive at {channel.address}: {told}"
    message += f"; its rules are failing in: duebook {where}alert ls"
    if not channel.dead:
        return message
    look = f"duebook {where}events dlq {channel.name}"
    return f"{message}; list what was refused: {look}; send it again: {look} --replay"


def _files(health: Health) -> Iterator[Problem]:
    for file in health.files[:MOST_NAMED]:
        kept = "the last valid version stays in use" if file.in_use else "it defines no flow"
        place = "" if file.namespace == "default" else f" in namespace {file.namespace}"
        yield Problem(
            "flows", f"a flow file is broken{place}, so {kept}: {FlowProblem(**file.problem)}"
        )
    if (more := len(health.files) - MOST_NAMED) > 0:
        listed = "list them with: duebook flow ls"
        yield Problem("flows", f"{counted(more, 'more broken flow file')}; {listed}")


def _lag(health: Health, overdue: Overdue) -> str:
    late = timedelta(seconds=int((health.now - overdue.since).total_seconds()))
    place = "" if overdue.namespace == "default" else f" of namespace {overdue.namespace}"
    return f'schedule "{overdue.name}"{place} is overdue by {format_duration(late)}'
