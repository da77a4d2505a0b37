"""The checks of doctor that are about nodes and schedules: facts in, one line out; pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from duebook.book.readiness import judge, notes
from duebook.book.secret_notes import is_offered
from duebook.errors import counted, shorten
from duebook.explain.words import length_text
from duebook.model.diagnosis import Checkup
from duebook.settings import RETENTION
from duebook.timetext import format_duration, format_instant

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from duebook.book.doctor.facts import Facts, Misplaced
    from duebook.model.node import LiveNode

__all__ = [
    "MOST_SUBJECTS",
    "check_alerts",
    "check_clocks",
    "check_definitions",
    "check_flows",
    "check_planning",
    "check_queues",
    "check_retention",
    "check_scheduler",
    "check_schema",
    "check_secrets",
    "check_sessions",
    "check_tasks",
    "check_tzdata",
    "check_versions",
    "listed",
]

MOST_NAMED: Final = 3
"""How many items a line names; if there are more, it gives the number."""
MOST_SUBJECTS: Final = 100
OFF: Final = timedelta(seconds=2)
"""A clock that is off by more than this is reported."""
RECENT: Final = timedelta(days=7)
PATIENCE: Final = timedelta(minutes=2)
"""After this time, live nodes have marked a node with an expired lease as dead."""
SLACK: Final = timedelta(days=1)
NO_NODE: Final = "no node is running"


def listed(names: Collection[str], number: int | None = None) -> str:
    """The first few of these names, and the total number."""
    first = ", ".join(list(names)[:MOST_NAMED])
    more = (len(names) if number is None else number) - MOST_NAMED
    return f"{first} and {more:,} more" if more > 0 else first


def _found(check: str, facts: Facts, codes: Collection[str]) -> list[Checkup]:
    """What prevents due times from running, in the words of `duebook status`."""
    found = []
    for problem in judge(facts.health):
        if problem.code in codes:
            message, _, remedy = problem.message.partition("; ")
            found.append(Checkup(check, "problem", message, remedy))
    return found


def _one(check: str, found: Sequence[Checkup], fine: str) -> Checkup:
    """One line for a check: the worst finding, and how many others there are."""
    if not found:
        return Checkup(check, "ok", fine)
    worst = min(found, key=lambda one: one.level != "problem")
    others = [one for one in found if one is not worst]
    if not others:
        return worst
    more = f"{worst.message}; also: {'; '.join(one.message for one in others)}"
    subjects = dict.fromkeys(name for one in found for name in one.subjects)
    remedies = dict.fromkeys(one.remedy for one in (worst, *others) if one.remedy)
    fixable = any(one.fixable for one in found)
    return Checkup(
        check, worst.level, shorten(more, 500), "; ".join(remedies), tuple(subjects), fixable
    )


def check_schema(facts: Facts) -> Checkup:
    if facts.health.unfit is not None:
        remedy = "upgrade Duebook on this machine"
        return Checkup("schema", "problem", facts.health.unfit, remedy)
    return Checkup("schema", "ok", "this version of Duebook may use the schema")


def check_clocks(facts: Facts) -> Checkup:
    found = []
    if facts.clock_behind >= OFF:
        length = length_text(facts.clock_behind)
        message = f"the clock is {length} behind the latest time in the database"
        more = "; nothing is due until it has caught up"
        found.append(Checkup("clocks", "problem", message + more, "set the clock of this machine"))
    elif abs(facts.clock_ahead) >= OFF:
        found.append(_off("this machine", facts.clock_ahead))
    nodes = [node for node in facts.health.nodes if abs(node.clock_ahead) >= OFF]
    found += [_off(_node(node), node.clock_ahead) for node in nodes]
    if steps := [step for step in facts.clock_steps if step.noticed >= facts.now - RECENT]:
        message = f"the clock of the database stepped back {counted(len(steps), 'time')} in 7 days"
        remedy = "let the clock of the database's machine be set slowly, as NTP does"
        found.append(Checkup("clocks", "warning", message, remedy))
    fine = "the clocks of this machine and of all nodes agree with the database"
    return _one("clocks", found, fine)


def _off(whose: str, ahead: timedelta) -> Checkup:
    way = "ahead of" if ahead > timedelta() else "behind"
    message = f"the clock of {whose} is {length_text(abs(ahead))} {way} the database's"
    remedy = "synchronise it with NTP; due times follow the database's clock"
    return Checkup("clocks", "warning", message, remedy, (whose,))


def check_tzdata(facts: Facts) -> Checkup:
    """Nodes whose versions differ, and stored due times that this version does not yield."""
    found = []
    moved = facts.schedules.moved
    if moved.number:
        named = listed([_moved(one) for one in moved.first], moved.number)
        message = f"the next due time of {counted(moved.number, 'schedule')} was computed with "
        message += f"other time zone data than {facts.tzdata}: {named}"
        remedy = "duebook doctor --fix computes them again"
        titles = _titles(moved.first)
        found.append(Checkup("tzdata", "problem", message, remedy, titles, fixable=True))
    versions = {node.tzdata for node in facts.health.nodes} | {facts.tzdata}
    if len(versions) > 1:
        others = [node for node in facts.health.nodes if node.tzdata != facts.tzdata]
        message = f"this machine has tzdata {facts.tzdata}, but "
        message += listed([f"{_node(node)} has {node.tzdata}" for node in others])
        remedy = "install the same tzdata everywhere; which due times move: duebook zones diff "
        names = tuple(_node(node) for node in others)
        found.append(Checkup("tzdata", "warning", message, remedy + others[0].tzdata, names))
    fine = f"all nodes have tzdata {facts.tzdata}, and stored due times agree with it"
    return _one("tzdata", found, fine)


def check_versions(facts: Facts) -> Checkup:
    versions = sorted({node.version for node in facts.health.nodes})
    if len(versions) > 1:
        message = f"the nodes run different versions: {', '.join(versions)}"
        return Checkup("versions", "warning", message, "finish the upgrade")
    return Checkup("versions", "ok", f"all nodes run {versions[0]}" if versions else NO_NODE)


def check_sessions(facts: Facts) -> Checkup:
    found = []
    names = tuple(f"{session.node} (pid {session.pid})" for session in facts.expired)
    if names:
        runs = sum(session.runs for session in facts.expired)
        message = f"the lease of {listed(names)} has expired, with {counted(runs, 'run')}"
        late = facts.now - min(session.expired_at for session in facts.expired) > PATIENCE
        if not facts.health.nodes:
            remedy = "start a node, which takes over its runs: duebook up"
            found.append(Checkup("sessions", "warning", message, remedy, names))
        elif late:
            message += ", and no live node has taken over"
            remedy = "look at the logs of the live nodes, and restart them"
            found.append(Checkup("sessions", "problem", message, remedy, names))
        else:
            remedy = "wait: a live node takes over within a minute"
            found.append(Checkup("sessions", "warning", message, remedy, names))
    number = len(facts.health.nodes)
    fine = f"{counted(number, 'node')} with a current lease" if number else NO_NODE
    return _one("sessions", found, fine)


def check_scheduler(facts: Facts) -> Checkup:
    found = _found("scheduler", facts, ("scheduler", "namespace"))
    return _one("scheduler", found, "due times are planned, and every namespace is served")


def check_planning(facts: Facts) -> Checkup:
    """Schedules that no node checks in time."""
    found = []
    remedy = "duebook doctor --fix plans them now"
    if asleep := facts.asleep:
        message = f"no node would ever plan {listed(asleep)}: wake_at is missing"
        found.append(Checkup("planning", "problem", message, remedy, asleep, fixable=True))
    late = facts.schedules.late
    if late.number:
        named = listed([_late(one) for one in late.first], late.number)
        message = f"{named}: wake_at is too late"
        titles = _titles(late.first)
        found.append(Checkup("planning", "problem", message, remedy, titles, fixable=True))
    found += [_with_remedy(one) for one in _found("planning", facts, ("overdue",))]
    number = counted(facts.schedules.number, "active schedule")
    if facts.schedules.complete:
        return _one("planning", found, f"the stored times of {number} agree with the definitions")
    told = _one("planning", found, "their stored times agree with the definitions")
    remedy = "to look at all: duebook db check, or duebook doctor --database instead of --url"
    message = f"looked at the first {number}: {told.message}"
    remedies = "; ".join(filter(None, (told.remedy, remedy)))
    return replace(told, message=message, remedy=remedies)


def _with_remedy(overdue: Checkup) -> Checkup:
    remedy = "see whether a scheduler is running, and whether the database is slow: duebook nodes"
    return Checkup(overdue.check, overdue.level, overdue.message, overdue.remedy or remedy)


def check_definitions(facts: Facts) -> Checkup:
    broken = {one.title: one.problem for one in facts.health.broken}
    unread = facts.schedules.unreadable
    names = tuple(dict.fromkeys([*broken, *unread.first]))
    number = max(len(names), unread.number)
    if not names:
        return Checkup("definitions", "ok", "every definition can be read")
    why = f": {next(iter(broken.values()))}" if broken else ""
    message = f"{counted(number, 'schedule')} cannot be planned ({listed(names, number)}){why}"
    place, _, name = names[0].rpartition("/")
    where = f"--namespace {place} " if place else ""
    remedy = "upgrade this node if a newer version wrote them; otherwise set what is wrong again, "
    remedy += f"such as: duebook {where}update {name} --cron … (all: duebook ls --problem)"
    return Checkup("definitions", "problem", message, remedy, names[:MOST_SUBJECTS])


def check_queues(facts: Facts) -> Checkup:
    """Queues with waiting runs, and queues that schedules name."""
    found = _found("queues", facts, ("queue",))
    served = {queue for node in facts.health.nodes for queue in node.queues}
    idle = {
        queue: name
        for queue, name in facts.schedules.queues.items()
        if queue not in served and queue not in facts.health.queues
    }
    if idle and _workers(facts):
        named = listed([f'"{queue}" (schedule {name})' for queue, name in idle.items()])
        message = f"no live worker serves {'queue' if len(idle) == 1 else 'queues'} {named}"
        remedy = f"start one: duebook up --queue {next(iter(idle))}"
        found.append(Checkup("queues", "warning", message, remedy, tuple(idle)))
    return _one("queues", found, "every queue that is in use is served")


def check_tasks(facts: Facts) -> Checkup:
    """Tasks that waiting runs need, and tasks that schedules name."""
    found = [_known(one) for one in _found("tasks", facts, ("task",))]
    waited = {task for place in facts.health.waiting for task in place.tasks}
    unknown = {
        task: name
        for (namespace, task), name in facts.schedules.tasks.items()
        if task not in waited and not _is_known(task, namespace, facts.health.nodes)
    }
    if unknown and _workers(facts):
        named = listed([f'"{task}" (schedule {name})' for task, name in unknown.items()])
        message = f"no live worker knows {'task' if len(unknown) == 1 else 'tasks'} {named}"
        found.append(_known(Checkup("tasks", "warning", message, subjects=tuple(unknown))))
    return _one("tasks", found, "every task that is in use is known to a worker")


def check_secrets(facts: Facts) -> Checkup:
    """Secrets that schedules and flows name, and that no live worker has for their namespace."""
    unknown = {
        place: title
        for place, title in facts.schedules.secrets.items()
        if not is_offered(facts.health.nodes, *place)
    }
    if not unknown or not _workers(facts):
        return Checkup("secrets", "ok", "a node offers every secret that is in use")
    named = listed(
        [f'"{name}" to namespace "{place}" ({title})' for (place, name), title in unknown.items()]
    )
    message = f"no live node offers {'secret' if len(unknown) == 1 else 'secrets'} {named}"
    remedy = "add it to [secrets.NAMESPACE] in the duebook.toml of a node, and restart it"
    subjects = tuple(name for _, name in unknown)[:MOST_SUBJECTS]
    return Checkup("secrets", "warning", message, remedy, subjects)


def _known(found: Checkup) -> Checkup:
    remedy = found.remedy or "start a worker whose program has it: duebook worker MODULE:BOOK"
    return Checkup(found.check, found.level, found.message, remedy, found.subjects)


def _is_known(task: str, namespace: str, nodes: Iterable[LiveNode]) -> bool:
    return any(task in node.tasks and node.serves(namespace) for node in nodes)


def _workers(facts: Facts) -> bool:
    """Whether any worker is live: if not, that is reported instead."""
    return any(node.works for node in facts.health.nodes)


def check_flows(facts: Facts) -> Checkup:
    found = _found("flows", facts, ("flows",))
    for note in notes(facts.health):
        if note.code in ("window", "shadow", "alerts"):  # intended, or covered by another check
            continue
        message, _, remedy = note.message.partition("; ")
        found.append(Checkup("flows", "warning", message, remedy))
    return _one("flows", found, "every directory of flows is read by a node")


def check_alerts(facts: Facts) -> Checkup:
    found = []
    for note in notes(facts.health):
        if note.code == "alerts":
            message, _, remedy = note.message.partition("; ")
            found.append(Checkup("alerts", "warning", message, remedy))
    return _one("alerts", found, "every channel of alert rules accepts what it gets")


def check_retention(facts: Facts) -> Checkup:
    oldest, keep = facts.oldest_end, max(facts.longest_keep, RETENTION)
    kept = format_duration(keep)
    if oldest is not None and oldest < facts.now - keep - SLACK:
        message = f"runs that ended {format_instant(oldest)} are still there, though history is "
        message += f"kept for {kept}"
        remedy = "keep a node running, which deletes old history: duebook up"
        return Checkup("retention", "warning", message, remedy)
    return Checkup("retention", "ok", f"no run is older than {kept}")


def _titles(found: Sequence[Misplaced]) -> tuple[str, ...]:
    return tuple(one.title for one in found[:MOST_SUBJECTS])


def _moved(one: Misplaced) -> str:
    return f"{one.title} ({_at(one)})"


def _at(one: Misplaced) -> str:
    now = "none" if one.due_at is None else format_instant(one.due_at)
    was = "none" if one.waits_for is None else format_instant(one.waits_for)
    return f"{was} → {now}"


def _late(one: Misplaced) -> str:
    waits = "" if one.waits_for is None else f" only at {format_instant(one.waits_for)}"
    due = "" if one.due_at is None else f", though it is due at {format_instant(one.due_at)}"
    return f"{one.title} is planned{waits}{due}"


def _node(node: LiveNode) -> str:
    return f"{node.node} (pid {node.pid})"
